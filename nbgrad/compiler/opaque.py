"""Opaque steps: Python code as a step of a program. It runs at every call, on concrete arrays, as it does outside.

The shapes and dtypes of its results must be known when the function is traced. Either they are declared, or the code
runs once on a :func:`sample`: positive numbers up to 1, where square matrices are symmetric positive definite.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays.launch import common_conventions, copy
from ..arrays.ndarray import NDArray, from_value
from ..arrays.sharing import alias
from ..autodiff import tape
from ..autodiff.differentiability import GRADIENT, limit_order
from ..autodiff.state import state
from ..core.context import CPU0, Context
from ..core.conventions import MXNET
from ..core.dtypes import as_dtype
from ..core.shapes import as_shape
from ..errors import DTypeError, ShapeError, TraceError
from ..ir.graph import current
from ..kernels.random import aside
from .subprograms import Arrays, Aval, added, aval_of

__all__ = [
    "Aval",
    "aval_of",
    "declared_results",
    "eager_cpu_scope",
    "opaque_step",
    "run_on_samples",
    "sample",
    "saved_opaque_step",
    "sequence_type",
    "store_results",
    "without_derivatives",
]


class Opaque:
    """Python code, as a step of a program and as its runner.

    Parameters
    ----------
    name : str
    call : callable
        ``call(operands, results)``: lists of arrays, of which the latter are written.
    operands : list of NDArray
    native : callable, optional
        ``native(operands, results, prefix)``: lines that do the same to flat arrays in a nopython function, with
        local names that begin with `prefix`, and a dict of their global names.
    """

    partial = False
    single = False
    code: Sequence[str] = ()
    foreign = True
    inside = None
    subprograms = ()
    form = ()

    def __init__(self, name: str, call: Callable, operands: Arrays, native: Callable | None = None) -> None:
        self.name = name
        self.call = call
        self.native = native
        self.avals = [(x._shape, x._kind.on(CPU0)) for x in operands]
        self.training = state.training

    def concrete(self, read: Collection[int], ctx: Context = CPU0, is_nested: bool = False) -> Opaque:
        return self

    def run(self, *arrays) -> None:
        *operands, results = arrays
        with eager_cpu_scope(self.training):
            self.call(operands, results)


def opaque_step(
    name: str, call: Callable, operands: Arrays, results: Sequence[Aval], native: Callable | None = None
) -> Arrays:
    """Add an opaque step to the program being traced, and return its results. See :class:`Opaque`."""
    assert current.graph is not None
    return added(current.graph, Opaque(name, call, operands, native), operands, results)


def saved_opaque_step(
    name: str, call: Callable, operands: Arrays, results: Sequence[Aval], native: Callable | None = None
) -> Arrays:
    """The same for code that may return something else when it runs again: derivatives reuse its results.

    In loops, branches, checkpoints and rows of Jacobians it does run again.
    """
    graph = current.graph
    assert graph is not None
    if graph.outer is not None or graph.per_row or state.recomputing:
        return opaque_step(name, call, operands, results, native)
    if graph.replayed_results is not None:
        saved = next(graph.replayed_results, [])
        if list(map(aval_of, saved)) != list(results):
            raise TraceError(
                f"{name}: a function that jit compiled took another path when it was retraced for its derivative; "
                "what it does must depend on its arguments alone"
            )
        return saved
    results_of_step = opaque_step(name, call, operands, results, native)
    graph.saved_results.append(results_of_step)
    return results_of_step


class _NonDifferentiable(tape.Rule):
    """The tape's rule for a gradient that cannot be differentiated."""

    def __init__(self, name: str) -> None:
        self.name = name + GRADIENT
        limit_order(self, 0)


def without_derivatives(
    name: str, gradients: Sequence[NDArray | None], node: tape.Node, gs: Sequence[NDArray]
) -> list[NDArray | None]:
    """The gradients of a step `name` without further derivatives: asking for one raises an error."""
    rule = _NonDifferentiable(name)
    parents = (*node.parents, *map(tape.parent, gs))
    return [
        None if h is None else alias(h, h._buf, h._shape, tape.node(rule, parents, (), None, h._shape, h._kind))
        for h in gradients
    ]


@contextlib.contextmanager
def eager_cpu_scope(training: bool) -> Iterator[None]:
    """A scope in which nothing is traced, recorded or observed; arrays are created on the CPU."""
    flags = state.recording, state.training, state.observer
    graph, numbers = current.graph, current.numbers
    state.recording, state.training, state.observer = False, training, None
    current.graph, current.numbers = None, False
    try:
        with CPU0:
            yield
    finally:
        state.recording, state.training, state.observer = flags
        current.graph, current.numbers = graph, numbers


def sample(x: NDArray) -> NDArray:
    """A concrete array for a traced one: 0.5, on the diagonals of square matrices 1; integers are 0."""
    values = np.full(x._shape, 0.5 if x._kind.dtype.is_float else 0)
    if x._kind.dtype.is_float and len(x._shape) > 1 and x._shape[-1] == x._shape[-2]:
        values[..., np.arange(x._shape[-1]), np.arange(x._shape[-1])] = 1
    return from_value(values.astype(x._kind.dtype.np), ctx=CPU0, conventions=x._kind.conventions)


def run_on_samples(name: str, call: Callable[[], Any]) -> Any:
    """The result of ``call()`` on samples; the random state is not advanced."""
    try:
        with eager_cpu_scope(state.training), aside():
            return call()
    except Exception as err:
        raise TraceError(
            f"{name}: what it gives is unknown while a function is traced, and trying it on sample numbers (0.5, 1 on "
            f"diagonals, integers 0) failed: {type(err).__name__}: {err}; declare its results with `infer`"
        ) from err


def declared_results(name: str, declared: Any, operands: Arrays) -> tuple[type | None, list[Aval]]:
    """What an `infer` declares: shapes and dtypes of results, and tuple or list if there are several."""
    several = None if _is_pair(declared) else sequence_type(declared)
    items = declared if several is not None else [declared]
    conventions = MXNET
    if not all(isinstance(item, NDArray) for item in items):
        conventions = common_conventions([x._kind for x in operands], name, indices=True)
    results: list[Aval] = []
    for item in items:
        if isinstance(item, NDArray):
            results.append(aval_of(item))
        elif isinstance(item, np.ndarray | np.generic):
            results.append(Aval(item.shape, as_dtype(item.dtype), conventions))
        elif isinstance(item, float):
            results.append(Aval((), as_dtype("float64"), conventions))
        elif _is_pair(item):
            results.append(Aval(as_shape(item[0]), as_dtype(item[1]), conventions))
        else:
            raise DTypeError(
                f"{name}: infer must say, for each result, which argument it is like, or (shape, dtype); got {item!r}"
            )
    return several, results


def sequence_type(results: Any) -> type | None:
    """Tuple or list, if the results come in one."""
    return list if isinstance(results, list) else tuple if isinstance(results, tuple) else None


def _is_pair(item: Any) -> bool:
    return (
        type(item) in (tuple, list)
        and len(item) == 2
        and type(item[0]) in (tuple, list)
        and all(isinstance(n, int) for n in item[0])
        and not isinstance(item[1], tuple | list | NDArray | np.ndarray | float)
    )


def store_results(name: str, computed: Sequence[NDArray], results: Arrays) -> None:
    """Copy what was computed into the results, after checking shapes and dtypes."""
    if len(computed) != len(results):
        raise ShapeError(
            f"{name}: it returned {len(computed)} result(s), but {len(results)} when the function was traced"
        )
    for k, (y, out) in enumerate(zip(computed, results, strict=True)):
        if y._shape != out._shape or y._kind.dtype is not out._kind.dtype:
            kind: type = ShapeError if y._shape != out._shape else DTypeError
            raise kind(
                f"{name}: result {k} is {y._kind.dtype} of shape {y._shape}, but was {out._kind.dtype} of shape "
                f"{out._shape} when the function was traced; both must depend on the arguments' shapes and dtypes alone"
            )
    for y, out in zip(computed, results, strict=True):
        copy(y._buf, out._buf)
