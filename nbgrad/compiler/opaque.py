"""Python code as a step of a program: it runs at every call, on arrays with numbers, as it does outside.

What it gives must be known when the function is traced. Either somebody says so, or the code runs once on a
:func:`sample`: positive numbers up to 1, of which square matrices are symmetric and positive definite.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays.launch import copy, kind_of
from ..arrays.ndarray import NDArray, alias, from_value
from ..autodiff import tape
from ..autodiff.differentiability import GRADIENT, end_at
from ..autodiff.state import state
from ..autodiff.tracing import seen, traced
from ..core.context import CPU0, Context
from ..core.dtypes import DType, as_dtype
from ..core.shapes import Shape, as_shape
from ..errors import DTypeError, ShapeError, TraceError
from ..ir.graph import current
from ..kernels.random import aside
from .subprograms import Arrays, Aval, aval

__all__ = ["Aval", "described", "ended", "form", "lasting", "plainly", "sample", "step", "store", "tried"]


class Opaque:
    """Python code, as a step of a program and as what runs there.

    Parameters
    ----------
    name : str
    call : callable
        ``call(operands, results)``: lists of arrays, of which the latter are written.
    operands : list of NDArray
    native : callable, optional
        ``native(operands, results, prefix)``: lines that do the same to flat arrays in a nopython function, with
        local names that begin with `prefix`, and a dict of what else they use.
    """

    partial = False
    single = False
    texts: Sequence[str] = ()
    foreign = True

    def __init__(self, name: str, call: Callable, operands: Arrays, native: Callable | None = None) -> None:
        self.name = name
        self.call = call
        self.native = native
        self.avals = [(x._shape, kind_of(x._kind.dtype, CPU0)) for x in operands]
        self.training = state.training

    def concrete(self, read: Collection[int], ctx: Context = CPU0) -> Opaque:
        return self

    def run(self, *arrays) -> None:
        *operands, results = arrays
        with plainly(self.training):
            self.call(operands, results)


def step(
    name: str, call: Callable, operands: Arrays, results: Sequence[Aval], native: Callable | None = None
) -> Arrays:
    """The results of such a step of the program that is traced. See :class:`Opaque`."""
    assert current.graph is not None
    values = current.graph.opaque(Opaque(name, call, operands, native), [seen(x) for x in operands], results)
    return [traced(value, *aval) for value, aval in zip(values, results, strict=True)]


def lasting(
    name: str, call: Callable, operands: Arrays, results: Sequence[Aval], native: Callable | None = None
) -> Arrays:
    """The same for what may give something else when it runs again: it does not, for derivatives.

    In loops, branches, checkpoints and rows of Jacobians it does.
    """
    graph = current.graph
    assert graph is not None
    if graph.outer is not None or graph.per_row or state.recomputing:
        return step(name, call, operands, results, native)
    if graph.given is not None:
        kept = next(graph.given, [])
        if list(map(aval, kept)) != list(results):
            raise TraceError(
                f"{name}: a function that jit compiled took another way when it was traced again, for its derivative; "
                "what it does must follow from its arguments alone"
            )
        return kept
    found = step(name, call, operands, results, native)
    graph.kept.append(found)
    return found


class _End(tape.Rule):
    """The tape's rule for a gradient that cannot be differentiated."""

    def __init__(self, name: str) -> None:
        self.name = name + GRADIENT
        end_at(self, 0)


def ended(name: str, found: Sequence[NDArray | None], node: tape.Node, gs: Sequence[NDArray]) -> list[NDArray | None]:
    """The gradients of a step `name` of which there are no further derivatives: asking for one is an error."""
    rule = _End(name)
    parents = (*node.parents, *map(tape.parent, gs))
    return [
        None if h is None else alias(h, h._buf, h._shape, tape.node(rule, parents, (), None, h._shape, h._kind))
        for h in found
    ]


@contextlib.contextmanager
def plainly(training: bool) -> Iterator[None]:
    """A scope in which nothing is traced, recorded or observed; what is made there is on the CPU."""
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
    """Numbers for a traced array: 0.5, on the diagonals of square matrices 1; integers are 0."""
    found = np.full(x._shape, 0.5 if x._kind.dtype.is_float else 0)
    if x._kind.dtype.is_float and len(x._shape) > 1 and x._shape[-1] == x._shape[-2]:
        found[..., np.arange(x._shape[-1]), np.arange(x._shape[-1])] = 1
    return from_value(found.astype(x._kind.dtype.np), ctx=CPU0)


def tried(name: str, call: Callable[[], Any]) -> Any:
    """What ``call()``, on sample numbers, gives; the stream of random numbers stays where it is."""
    try:
        with plainly(state.training), aside():
            return call()
    except Exception as err:
        raise TraceError(
            f"{name}: what it gives is unknown while a function is traced, and trying it on sample numbers (0.5, 1 on "
            f"diagonals, integers 0) failed: {type(err).__name__}: {err}; say by `infer` what it gives"
        ) from err


def described(name: str, found: Any) -> tuple[type | None, list[Aval]]:
    """What an `infer` says: shapes and dtypes of results, and tuple or list if they come in one."""
    several = None if _is_pair(found) else form(found)
    results: list[tuple[Shape, DType]] = []
    for given in found if several is not None else [found]:
        if isinstance(given, NDArray | np.ndarray | np.generic):
            results.append((given.shape, as_dtype(given.dtype)))
        elif isinstance(given, float):
            results.append(((), as_dtype("float64")))
        elif _is_pair(given):
            results.append((as_shape(given[0]), as_dtype(given[1])))
        else:
            raise DTypeError(
                f"{name}: infer must say, for each result, which argument it is like, or (shape, dtype); got {given!r}"
            )
    return several, results


def form(found: Any) -> type | None:
    """Tuple or list, if results come in one."""
    return list if isinstance(found, list) else tuple if isinstance(found, tuple) else None


def _is_pair(given: Any) -> bool:
    return (
        type(given) in (tuple, list)
        and len(given) == 2
        and type(given[0]) in (tuple, list)
        and all(isinstance(n, int) for n in given[0])
        and not isinstance(given[1], tuple | list | NDArray | np.ndarray | float)
    )


def store(name: str, found: Sequence[NDArray], results: Arrays) -> None:
    """Write what was found, if it is what it was said to be, into the results."""
    if len(found) != len(results):
        raise ShapeError(f"{name}: it gave {len(found)} result(s), but {len(results)} when the function was traced")
    for k, (y, out) in enumerate(zip(found, results, strict=True)):
        if y._shape != out._shape or y._kind is not out._kind:
            kind: type = ShapeError if y._shape != out._shape else DTypeError
            raise kind(
                f"{name}: result {k} is {y._kind.dtype} of shape {y._shape}, but was {out._kind.dtype} of shape "
                f"{out._shape} when the function was traced; both must follow from the arguments' shapes and dtypes"
            )
    for y, out in zip(found, results, strict=True):
        copy(y._buf, out._buf)
