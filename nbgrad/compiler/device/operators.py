"""Structured operators on GPUs.

In order of preference: kernels of the operator's own (``op.device``), kernels compiled from its graph (``op.lower``, or
that of the operators that it can be written with, ``op.expand``), or else the CPU's kernel between two copies.
"""

from __future__ import annotations

from collections.abc import Callable

from ...arrays.ndarray import NDArray
from ...autodiff.tracing import RetraceObserver, operator_values, traced, tracing_into
from ...core.context import CPU0
from ...errors import TraceError
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
    program = _program(op, operands, results, attrs)
    if program is None:
        return _on_host(op, operands, results, attrs)

    def run(*arguments):
        *arrays, destination = arguments
        program([x._buf for x in arrays], [y._buf for y in _listed(destination)])

    return run


device_runners["gpu"] = runner


def _listed(results) -> list[NDArray]:
    return results if isinstance(results, list) else [results]


def _program(op: Structured, operands: tuple, results: tuple, attrs: dict) -> DeviceProgram | None:
    """The program of the operator's graph, if it has one, in which its steps are fused; one source for many shapes."""
    graph = Graph()
    arguments = [graph.argument(shape, kind.dtype, computed=True) for shape, kind in operands]
    with tracing_into(graph), RetraceObserver():
        values = operator_values(op, graph, [traced(v, v.shape, v.dtype) for v in arguments], attrs)
    if values is None:
        return None
    if graph.captured or graph.updates:
        raise TraceError(f"{op.name}: its graph must use its operands alone")
    seen = [ShapedValue(v, shape) for v, (shape, _) in zip(values, results, strict=True)]
    return DeviceProgram(op.name, graph, arguments, seen, results[0][1].ctx, sizes_are_constant=False)


def _on_host(op: Structured, operands: tuple, results: tuple, attrs: dict) -> Callable:
    """The CPU's kernel, between copies from and to the GPU."""

    def here(avals):
        return tuple([(shape, kind.on(CPU0)) for shape, kind in avals])

    launch = op.bound(here(operands), here(results), attrs)

    def run(*arguments):
        *arrays, destination = arguments

        def call(operands: list, outs: list) -> None:
            launch(*operands, outs if isinstance(destination, list) else outs[0])

        on_host_copies(call, here(operands), here(results))(
            [x._buf for x in arrays], [y._buf for y in _listed(destination)]
        )

    return run
