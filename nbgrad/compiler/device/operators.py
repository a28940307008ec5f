"""Structured operators on GPUs.

In this order: kernels of the operator's own (``op.device``), the kernels of what it is in a graph (``op.lower``), the
operators that it can be written with (``op.expand``), or, for what has none of these, the CPU's kernel between two
copies.
"""

from __future__ import annotations

from collections.abc import Callable

from ...arrays.launch import kind_of
from ...arrays.ndarray import NDArray, wrap
from ...core.context import CPU0
from ...ir.graph import Graph, Seen
from ...operators.call_plan import runners
from ...operators.structured import Structured
from .program import DeviceProgram, between_copies

__all__ = ["runner"]


def runner(op: Structured, operands: tuple, results: tuple, attrs: dict) -> Callable:
    """The launcher of an operator for arrays on a GPU: ``run(*operands, result)``, or with a list of results.

    Parameters
    ----------
    op : Structured
    operands, results : tuple of (shape, kind)
    attrs : dict
    """
    own = op.device_launcher and op.device_launcher(operands, results, attrs)
    if own is not None:
        return own
    if op.anywhere:
        return op.bound(operands, results, attrs)
    program = _lowered(op, operands, results, attrs)
    if program is not None:

        def run(*arguments):
            *arrays, given = arguments
            program([x._buf for x in arrays], [y._buf for y in _listed(given)])

        return run
    rewritten = op.expansion
    if rewritten is not None:

        def expand(*arguments):
            *arrays, given = arguments
            found = rewritten(*[wrap(x._buf, x._shape, x._kind) for x in arrays], **attrs)
            for out, y in zip(_listed(given), _listed(found), strict=True):
                out._buf[:] = y._buf

        return expand
    return _on_host(op, operands, results, attrs)


runners["gpu"] = runner


def _listed(found) -> list[NDArray]:
    return found if isinstance(found, list) else [found]


def _lowered(op: Structured, operands: tuple, results: tuple, attrs: dict) -> DeviceProgram | None:
    if op.lowering is None:
        return None
    graph = Graph()
    given = [graph.argument(shape, kind.dtype) for shape, kind in operands]
    found = op.lowering(graph, *[Seen(v, v.shape) for v in given], **attrs)
    if found is None:
        return None
    values = found if isinstance(found, list) else [found]
    seen = [Seen(v, shape) for v, (shape, _) in zip(values, results, strict=True)]
    return DeviceProgram(op.name, graph, given, seen, results[0][1].ctx, fixed=False)


def _on_host(op: Structured, operands: tuple, results: tuple, attrs: dict) -> Callable:
    """The CPU's kernel, between copies."""

    def here(avals):
        return tuple([(shape, kind_of(kind.dtype, CPU0)) for shape, kind in avals])

    launch = op.bound(here(operands), here(results), attrs)

    def run(*arguments):
        *arrays, given = arguments

        def call(operands: list, outs: list) -> None:
            launch(*operands, outs if isinstance(given, list) else outs[0])

        between_copies(call, here(operands), here(results))([x._buf for x in arrays], [y._buf for y in _listed(given)])

    return run
