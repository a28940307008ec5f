"""Structured operators on GPUs.

In this order: kernels of the operator's own (``op.device``), the kernels of what it is in a graph (``op.lower``), the
operators that it can be written with (``op.expand``), or, for what has none of these, the CPU's kernel between two
copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..codegen.graph import Graph, Seen, Value
from ..codegen.launch import kind_of
from ..context import CPU0, Context
from ..cuda.kernels import device_kernel
from ..cuda.product import product
from ..dtypes import DType, as_dtype
from ..ndarray import NDArray, wrap
from ..plan import runners
from ..shapes import size
from ..structured import Structured
from . import device_source
from .compiled import outputs
from .device_source import Kernel
from .statements import Statement, statements

__all__ = ["DeviceProgram", "how", "runner"]


def how(op: Structured, operands: tuple, results: tuple, attrs: dict) -> str:
    """How an operator is run on a GPU: ``"device"``, ``"lower"``, ``"expand"`` or ``"host"``."""
    if op.device_launcher is not None or op.anywhere:
        return "device"
    if _lowered(op, operands, results, attrs) is not None:
        return "lower"
    return "host" if op.expansion is None else "expand"


def runner(op: Structured, operands: tuple, results: tuple, attrs: dict) -> Callable:
    """The launcher of an operator for arrays on a GPU: ``run(*operands, result)``, or with a list of results.

    Parameters
    ----------
    op : Structured
    operands, results : tuple of (shape, kind)
    attrs : dict
    """
    if op.device_launcher is not None:
        return op.device_launcher(operands, results, attrs)
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
    return DeviceProgram(graph, given, seen, results[0][1].ctx)


def _on_host(op: Structured, operands: tuple, results: tuple, attrs: dict) -> Callable:
    """The CPU's kernel, between copies."""

    def here(avals):
        return tuple([(shape, kind_of(kind.dtype, CPU0)) for shape, kind in avals])

    launch = op.bound(here(operands), here(results), attrs)

    def run(*arguments):
        *arrays, given = arguments
        made = [wrap(kind.empty(size(shape), kind.storage), shape, kind) for shape, kind in here(results)]
        launch(*[_fetched(x) for x in arrays], made if isinstance(given, list) else made[0])
        for out, y in zip(_listed(given), made, strict=True):
            out._buf[:] = y._buf

    return run


def _fetched(x: NDArray) -> NDArray:
    kind = kind_of(x._kind.dtype, CPU0)
    return wrap(np.array(x._buf.host()), x._shape, kind)  # type: ignore[attr-defined]


class DeviceProgram:
    """What computes `results` from `arguments` on a GPU, statement by statement.

    Parameters
    ----------
    graph : Graph
    arguments : sequence of Value
    results : sequence of Seen
    ctx : Context
        The device.
    """

    def __init__(self, graph: Graph, arguments: Sequence[Value], results: Sequence[Seen], ctx: Context) -> None:
        self.ctx = ctx
        self.arguments = list(arguments)
        self.outputs = outputs(graph, results)
        made, _ = statements(graph, self.outputs)
        self.kernels: list[Kernel] = []
        self._steps: list[tuple[Statement, Callable]] = []
        self._kinds = {s.value: kind_of(s.value.dtype, ctx) for s in made}
        for s in made:
            self._steps.append((s, self._step(s)))

    def __call__(self, given: Sequence[Any], made: Sequence[Any]) -> None:
        """Run it on the buffers of the arguments, into those of the results."""
        where = dict(zip(self.arguments, given, strict=True)) | dict(zip(self.outputs, made, strict=True))
        for s, step in self._steps:
            out = where.get(s.value)
            if out is None:
                kind = self._kinds[s.value]
                out = where[s.value] = kind.empty(size(s.value.shape), kind.storage)
            if out.size:
                step(out, where)

    def _step(self, s: Statement) -> Callable:
        if s.how == "product":
            return self._product(s)
        kernel = device_source.written(s)
        run = self._launcher(s.how, kernel, s.value.dtype)
        if s.how in ("embed", "scatter"):

            def filled(out, where):
                out.fill(0)
                run(out, [where[v].array for v in kernel.reads])

            return filled
        if kernel.splits == 1:
            return lambda out, where: run(out, [where[v].array for v in kernel.reads])
        wide = kind_of(as_dtype("float64" if s.value.dtype.is_float else "int64"), self.ctx)
        outs = size(s.value.shape)
        first = self._launcher(s.how, kernel, wide.dtype)
        second = self._launcher(
            "combine", device_source.combining(s.how, s.value.dtype, outs, kernel.splits), s.value.dtype, [wide.dtype]
        )

        def twice(out, where):
            parts = wide.empty(outs * kernel.splits, wide.storage)
            first(parts, [where[v].array for v in kernel.reads])
            second(out, [parts.array])

        return twice

    def _launcher(self, name: str, kernel: Kernel, out: DType, reads: Sequence[DType] | None = None) -> Callable:
        self.kernels.append(kernel)
        head = kernel.source[4 : kernel.source.index("(")]
        dtypes = [out, *([v.dtype for v in kernel.reads] if reads is None else reads)]
        kinds = [d.storage for d in dtypes] + [int] * len(kernel.integers)
        launch = device_kernel(head, kernel.source, {"np": np, **kernel.helpers}).launch(*kinds)
        number, points, rows, integers = self.ctx.device_id, kernel.points, kernel.rows, kernel.integers
        if not (points or rows):
            return lambda out, arrays: None
        return lambda out, arrays: launch(number, points, [out.array, *arrays, *integers], rows)

    def _product(self, s: Statement) -> Callable:
        a, b = s.value.inputs
        transpose_a, transpose_b = s.value.attrs
        *stack, m, n = s.value.shape
        k = a.shape[-2] if transpose_a else a.shape[-1]
        stacks, sizes, transposed = size(stack), (m, k, n), (transpose_a, transpose_b)
        return lambda out, where: product(where[a.value], where[b.value], out, stacks, sizes, transposed)
