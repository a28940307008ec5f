"""Structured operators on GPUs.

In order of preference: kernels of the operator's own (``op.device``), kernels compiled from its graph (``op.lower``),
the operators that it can be written with (``op.expand``), or else the CPU's kernel between two copies.
"""

from __future__ import annotations

from collections.abc import Callable

from ...arrays.launch import kind_of
from ...arrays.ndarray import NDArray, wrap
from ...core.context import CPU0
from ...ir.graph import Graph, ShapedValue
from ...operators.call_plan import device_runners
from ...operators.structured import Structured
from .program import DeviceProgram, on_host_copies

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
            *arrays, destination = arguments
            program([x._buf for x in arrays], [y._buf for y in _listed(destination)])

        return run
    rewritten = op.expansion
    if rewritten is not None:

        def expand(*arguments):
            *arrays, destination = arguments
            computed = rewritten(*[wrap(x._buf, x._shape, x._kind) for x in arrays], **attrs)
            for out, y in zip(_listed(destination), _listed(computed), strict=True):
                out._buf[:] = y._buf

        return expand
    return _on_host(op, operands, results, attrs)


device_runners["gpu"] = runner


def _listed(results) -> list[NDArray]:
    return results if isinstance(results, list) else [results]


def _lowered(op: Structured, operands: tuple, results: tuple, attrs: dict) -> DeviceProgram | None:
    if op.lowering is None:
        return None
    graph = Graph()
    arguments = [graph.argument(shape, kind.dtype) for shape, kind in operands]
    lowered = op.lowering(graph, *[ShapedValue(v, v.shape) for v in arguments], **attrs)
    if lowered is None:
        return None
    values = lowered if isinstance(lowered, list) else [lowered]
    seen = [ShapedValue(v, shape) for v, (shape, _) in zip(values, results, strict=True)]
    return DeviceProgram(op.name, graph, arguments, seen, results[0][1].ctx, sizes_are_constant=False)


def _on_host(op: Structured, operands: tuple, results: tuple, attrs: dict) -> Callable:
    """The CPU's kernel, between copies from and to the GPU."""

    def here(avals):
        return tuple([(shape, kind_of(kind.dtype, CPU0)) for shape, kind in avals])

    launch = op.bound(here(operands), here(results), attrs)

    def run(*arguments):
        *arrays, destination = arguments

        def call(operands: list, outs: list) -> None:
            launch(*operands, outs if isinstance(destination, list) else outs[0])

        on_host_copies(call, here(operands), here(results))(
            [x._buf for x in arrays], [y._buf for y in _listed(destination)]
        )

    return run
