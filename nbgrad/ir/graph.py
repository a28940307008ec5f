"""Programs as graphs: what operators append to, instead of running, while a function is traced.

A :class:`Value` is a flat run of elements that some step computes. Most steps are of three forms, which a compiler
can join and reorder: a scalar expression for every element (:meth:`Graph.map`), a reduction of axes
(:meth:`Graph.reduce`), and another way to look at elements that are there (:meth:`Graph.look`). What is none of
these is *opaque*: it runs as it does outside.

A :class:`Flat` stands where an array's raw buffer is. It has a size and, once something was computed into it, a value.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.callsite import called
from ..core.context import traced_at
from ..core.dtypes import DType
from ..core.shapes import Shape, size
from ..errors import TraceError
from .expr import Expr, const, free, has_poles, substitute, var
from .strong_products import chooses, plain

__all__ = ["LEAKED", "Flat", "Graph", "Seen", "Value", "allocator", "current", "large"]

#: A matrix product with two lengths up to this is a loop like others; larger ones are for BLAS.
_NARROW = 16


class Value:
    """What one step of a program computes.

    Attributes
    ----------
    op : str
        ``"argument"``, ``"constant"``, ``"map"``, ``"reduce"``, ``"look"``, ``"embed"``, ``"product"``,
        ``"take"``, ``"scatter"``, ``"opaque"`` or ``"part"`` (one result of an opaque step).
    inputs : tuple of Seen
    attrs : object
        What else the step is made of: the number, the expression, (how, axes), the index, ...
    shape : tuple of int
    dtype : DType
    number : int
        In the order of tracing.
    finite : bool
        Surely finite if the arguments are.
    chosen : bool
        A zero in it may have been chosen (by a condition, or as what surrounds a part), and is not only a number that
        happens to be zero.
    causes : object
        Of its infinities and NaNs, once that is asked: see :mod:`.strong_products`.
    """

    __slots__ = ("attrs", "causes", "chosen", "dtype", "finite", "inputs", "number", "op", "shape")

    def __init__(self, op: str, inputs: tuple, attrs: Any, shape: Shape, dtype: DType, number: int) -> None:
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.shape = shape
        self.dtype = dtype
        self.number = number
        self.causes: Any = None
        values = [x.value for x in inputs]
        self.finite = op not in _UNKNOWN and all(v.finite for v in values)
        self.chosen = op in _UNKNOWN or op in ("embed", "scatter") or any(v.chosen for v in values)
        if op == "map":
            self.finite = self.finite and not has_poles(attrs[0])
            self.chosen = self.chosen or chooses(attrs[0])
        elif op == "constant":
            self.finite, self.chosen = not has_poles(attrs), not attrs.value

    def __repr__(self) -> str:
        return f"v{self.number}"


class Seen(NamedTuple):
    """A value's elements in some shape."""

    value: Value
    shape: Shape


#: Steps of which results nothing is known.
_UNKNOWN = ("opaque", "part")

#: How an axis of what is looked at follows from the axes of the look: (axis or -1, step, offset).
Index = tuple[int, int, int]


class Graph:
    """The steps traced so far. Equal steps are one. `outer`: the graph of which this one is to be a step."""

    def __init__(self, outer: Graph | None = None) -> None:
        self.outer = outer
        self.level: int = 0 if outer is None else outer.level + 1
        self.ctx = traced_at(self.level)
        self.values: list[Value] = []
        self._known: dict[tuple, Value] = {}
        self.captured: list = []  # (array from outside, what stands for it)
        self.drawn = 0  # blocks of random numbers
        self.sources: dict = {} if outer is None else outer.sources  # see :mod:`..core.foreign_memory`
        self.updates: list = []  # (array that every call writes, what it writes)
        self.kept: list[list] = []  # per step that is not to run again for derivatives: its results
        self.given: Iterator[list] | None = None  # what such steps gave before
        self.per_row = 0  # how many sweeps over rows, one in the other, are traced: what they make is a row's

    def add(self, op: str, inputs: Sequence[Seen], attrs: Any, shape: Shape, dtype: DType, unique=False) -> Value:
        """A step, or the equal one that is there."""
        key = (op, tuple([(id(v), s) for v, s in inputs]), attrs, shape, dtype)
        found = None if unique else self._known.get(key)
        if found is None:
            found = Value(op, tuple(inputs), attrs, shape, dtype, len(self.values))
            self.values.append(found)
            if not unique:
                self._known[key] = found
        return found

    @contextlib.contextmanager
    def attempt(self, keep: bool = True) -> Iterator[None]:
        """A scope whose steps are gone after an exception, or if they are not to be kept."""
        count, drawn = len(self.values), self.drawn
        lengths = [len(found) for found in (self.captured, self.updates, self.kept)]
        done = False
        try:
            yield
            done = keep
        finally:
            if not done:
                self._known = {key: v for key, v in self._known.items() if v.number < count}
                del self.values[count:]
                self.drawn = drawn
                for found, n in zip((self.captured, self.updates, self.kept), lengths, strict=True):
                    del found[n:]

    def argument(self, shape: Shape, dtype: DType) -> Value:
        """A value that is given with every call."""
        value = self.add("argument", (), None, shape, dtype, unique=True)
        value.finite, value.chosen = self.outer is None, self.outer is not None
        return value

    def constant(self, number: float | int, shape: Shape, dtype: DType) -> Value:
        """Every element the same number."""
        return self.add("constant", (), const(number), shape, dtype)

    def map(self, expr: Expr, inputs: Sequence[Seen], shape: Shape, dtype: DType, compute: DType) -> Value:
        """`expr` in x0, x1 ... of every element of the inputs, broadcast to `shape`; calculated in `compute`."""
        known = {}
        kept: list[Seen] = []
        for k, x in enumerate(inputs):
            if x.value.op == "constant":
                known[var(f"x{k}")] = const(_as(x.value.attrs.value, compute))
            elif x in kept:
                known[var(f"x{k}")] = var(f"x{kept.index(x)}_")
            else:
                known[var(f"x{k}")] = var(f"x{len(kept)}_")
                kept.append(x)
        expr = substitute(expr, known)
        used = [k for k in range(len(kept)) if f"x{k}_" in free(expr)]
        expr = substitute(expr, {var(f"x{k}_"): var(f"x{n}") for n, k in enumerate(used)})
        kept = [kept[k] for k in used]
        expr = plain(expr, kept, None if self.outer else size(shape))
        if not used and expr.value is not None:
            return self.constant(_as(expr.value, dtype), shape, dtype)
        if expr is var("x0") and kept[0].value.dtype is dtype:
            return self.spread(kept[0], shape)
        return self.add("map", kept, (expr, compute), shape, dtype)

    def spread(self, x: Seen, shape: Shape) -> Value:
        """`x` broadcast to `shape`."""
        if size(x.shape) == size(shape):
            return x.value
        if x.value.op == "constant":
            return self.constant(x.value.attrs.value, shape, x.value.dtype)
        extra = len(shape) - len(x.shape)
        index = [(-1, 0, 0) if n == 1 else (k, 1, 0) for k, n in enumerate(x.shape, extra)]
        return self.look(x, tuple(index), shape)

    def look(self, x: Seen, index: tuple[Index, ...], shape: Shape) -> Value:
        """Elements of `x`: of its axis k, ``step*i + offset``, where i counts along axis ``index[k][0]`` of `shape`."""
        if x.value.op == "constant":
            return self.constant(x.value.attrs.value, shape, x.value.dtype)
        return self.add("look", (x,), index, shape, x.value.dtype)

    def embed(self, x: Seen, begin: Shape, step: Shape, shape: Shape) -> Value:
        """Zeros of `shape`, with `x` at ``begin + step*i`` along each axis."""
        if x.value.op == "constant" and not x.value.attrs.value:
            return self.constant(0.0, shape, x.value.dtype)
        return self.add("embed", (x,), (begin, step), shape, x.value.dtype)

    def reduce(self, how: str, x: Seen, axes: tuple[int, ...]) -> Value:
        """The ``"sum"``, ``"max"`` or ``"min"`` over axes of `x`; the shape has none of them."""
        shape = tuple([n for k, n in enumerate(x.shape) if k not in axes])
        axes = tuple([k for k in axes if x.shape[k] != 1])
        if not axes:
            return self.spread(x, shape)
        number = x.value.attrs.value if x.value.op == "constant" else None
        if number is not None and size(x.shape):
            count = size([x.shape[k] for k in axes])
            return self.constant(number * count if how == "sum" else number, shape, x.value.dtype)
        return self.add("reduce", (x,), (how, axes), shape, x.value.dtype)

    def product(self, a: Seen, b: Seen, transpose_a: bool, transpose_b: bool, shape: Shape, dtype: DType) -> Value:
        """Stacks of matrix products."""
        return self.add("product", (a, b), (transpose_a, transpose_b), shape, dtype)

    def take(self, x: Seen, index: Seen, axis: int) -> Value:
        """Slices of `x` along an axis, at the places `index` says (int64, in range), whose shape replaces the axis."""
        shape = x.shape[:axis] + index.shape + x.shape[axis + 1 :]
        return self.add("take", (x, index), axis, shape, x.value.dtype)

    def scatter(self, x: Seen, index: Seen, axis: int, n: int) -> Value:
        """Zeros, of length `n` along an axis, to which the slices of `x` are added at the places `index` says."""
        shape = x.shape[:axis] + (n,) + x.shape[axis + len(index.shape) :]
        return self.add("scatter", (x, index), axis, shape, x.value.dtype)

    def opaque(self, run: Any, inputs: Sequence[Seen], results: Sequence[tuple[Shape, DType]]) -> list[Value]:
        """A step that runs as it does outside; its results. `run` is equal for equal steps, or the step is another."""
        whole = self.add("opaque", inputs, (run, tuple(results)), (), results[0][1])
        return [self.add("part", (Seen(whole, ()),), k, shape, dtype) for k, (shape, dtype) in enumerate(results)]


def large(m: int, k: int, n: int) -> bool:
    """Whether a product of matrices (m, k) and (k, n) is large in more than one direction: for BLAS."""
    return sorted((m, k, n))[1] > _NARROW and min(m, k, n) > 1


def _as(number, dtype: DType):
    """A number as an element of this dtype is."""
    if dtype.is_float:
        return float(number)
    return int(bool(number)) if dtype.name == "bool" else int(number)


class Flat:
    """What a traced array has for a buffer."""

    __slots__ = ("dtype", "graph", "size", "value")

    def __init__(self, graph: Graph, size: int, dtype: DType, value: Value | None = None) -> None:
        self.graph = graph
        self.size = size
        self.dtype = dtype
        self.value = value

    def bind(self, value: Value) -> None:
        """Say what is in it. Once: a traced function writes nothing twice."""
        if self.value is not None:
            raise TraceError(IN_PLACE)
        self.value = value

    def seen(self, shape: Shape) -> Seen:
        """Its value in this shape."""
        graph = current.graph
        while graph is not None and graph is not self.graph:
            graph = graph.outer
        if current.graph is not None and graph is None:
            raise TraceError(LEAKED)
        if self.value is None:
            raise TraceError("a traced function reads an array that was never written")
        return Seen(self.value, shape)

    def fill(self, number) -> None:
        raw = np.asarray(number).astype(self.dtype.storage).view(self.dtype.np)
        self.bind(self.graph.constant(_as(raw.item(), self.dtype), (self.size,), self.dtype))

    def convert(self, source: Flat) -> None:
        """Bind to the elements of `source`, converted to this dtype."""
        x = source.seen((source.size,))
        compute = source.dtype if source.dtype.is_float or not self.dtype.is_float else self.dtype
        self.bind(self.graph.map(var("x0"), [x], x.shape, self.dtype, compute))

    def copy(self) -> Flat:
        return Flat(self.graph, self.size, self.dtype, self.value)

    def __getitem__(self, part) -> Flat:
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise TraceError(_concrete())
        start, stop, _ = part.indices(self.size)
        x = self.seen((self.size,))
        value = self.graph.look(x, ((0, 1, start),), (stop - start,))
        return Flat(self.graph, stop - start, self.dtype, value)

    def __setitem__(self, part, source) -> None:
        raise TraceError(IN_PLACE)

    def view(self, dtype=None):
        raise TraceError(_concrete() if current.graph is self.graph else LEAKED)

    reshape = astype = __array__ = view


def _concrete() -> str:
    what, where, _ = called()
    return (
        f"{what} asks for the numbers in an array of a traced function, in {where}. "
        "Under jit there are none yet: use functions of nd instead of NumPy's, math's and SciPy's; nd.where for a "
        "choice between values, nd.contrib.cond, while_loop and foreach for branches and loops; or pass what decides "
        "as a static argument (static_argnames)"
    )


IN_PLACE = (
    "a traced function writes into an array (x[...] = ..., +=, out=, attach_grad and backward): under jit arrays do "
    "not change; compute a new one (nd.where, nd.concat, x = x + y), return it, and get gradients by nbgrad.grad"
)


class _Current(threading.local):
    graph: Graph | None = None
    numbers = False  # the traced function was called with NumPy arrays and numbers alone


#: What this thread traces, if it does.
current = _Current()


def allocator(dtype: DType) -> Callable:
    """``empty(n, storage)`` for traced arrays of this dtype."""

    def empty(n: int, storage=None) -> Flat:
        if current.graph is None:
            raise TraceError(LEAKED)
        return Flat(current.graph, n, dtype)

    return empty


LEAKED = (
    "an array from the inside of a traced function is used after the trace: it stood for numbers that only exist while "
    "the compiled function runs; return it from the function instead of keeping it"
)
