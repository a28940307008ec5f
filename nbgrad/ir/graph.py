"""Programs as graphs: while a function is traced, operators append steps to a graph instead of running.

A :class:`Value` is a flat sequence of elements that some step computes. Most steps have one of three forms, which a
compiler can fuse and reorder: a scalar expression for every element (:meth:`Graph.map`), a reduction of axes
(:meth:`Graph.reduce`), and a view of existing elements (:meth:`Graph.add_view`). Any other step is *opaque*: it runs as
it does outside.

A :class:`TracedBuffer` takes the place of an array's raw buffer. It has a size and, once something was computed into
it, a value.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core.callsite import user_call
from ..core.context import Context, traced_at
from ..core.dtypes import DType, bool_
from ..core.shapes import Shape, size
from ..errors import TraceError
from .expr import Expr, const, free_variables, has_poles, substitute, var
from .expr_passes import is_truth
from .strong_products import has_selection, weaken_strong_products

__all__ = [
    "LEAKED",
    "MAX_JOINED",
    "Graph",
    "OpaqueStep",
    "ShapedValue",
    "TracedBuffer",
    "Value",
    "allocator",
    "current",
    "is_large_product",
]

#: So many arrays are joined by reading each where it comes from; more are joined in groups of so many.
MAX_JOINED = 5
#: Matrix products with two lengths up to this become ordinary loops; larger ones call BLAS.
_MAX_LOOP_PRODUCT = 16


class Value:
    """The result of one step of a program.

    Attributes
    ----------
    op : str
        ``"argument"``, ``"constant"``, ``"map"``, ``"reduce"``, ``"look"``, ``"embed"``, ``"join"``,
        ``"product"``, ``"take"``, ``"scatter"``, ``"opaque"`` or ``"part"`` (one result of an opaque step).
    inputs : tuple of Seen
    attrs : object
        The other operands of the step: the number, the expression, (how, axes), the index, ...
    shape : tuple of int
    dtype : DType
    number : int
        Position in the order of tracing.
    finite : bool
        Provably finite if the arguments are.
    has_structural_zeros : bool
        A zero in it may be structural (chosen by a condition, or padding around a slice) rather than a computed value
        that happens to be zero.
    causes : object
        The causes of its infinities and NaNs, computed lazily: see :mod:`.strong_products`.
    """

    __slots__ = ("attrs", "causes", "dtype", "finite", "has_structural_zeros", "inputs", "number", "op", "shape")

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
        self.has_structural_zeros = (
            op in _UNKNOWN or op in ("embed", "scatter") or any(v.has_structural_zeros for v in values)
        )
        if op == "map":
            self.finite = self.finite and not has_poles(attrs[0])
            self.has_structural_zeros = self.has_structural_zeros or has_selection(attrs[0])
        elif op == "constant":
            self.finite, self.has_structural_zeros = not has_poles(attrs), not attrs.value

    def __repr__(self) -> str:
        return f"v{self.number}"


class ShapedValue(NamedTuple):
    """A value's elements, viewed in some shape."""

    value: Value
    shape: Shape


class OpaqueStep(Protocol):
    """A step that the graph does not look into: an operator's own kernel, a loop, a branch, or Python code.

    `subprograms` are the traced steps of a loop, or sides of a branch; with `name` and `form`, they say what it does.
    `foreign`: it runs user code.
    """

    @property
    def name(self) -> str: ...

    @property
    def form(self) -> tuple: ...

    @property
    def subprograms(self) -> Sequence: ...

    @property
    def foreign(self) -> bool: ...

    def concrete(self, read: Collection[int], ctx: Context, is_nested: bool) -> Any:
        """What runs it on a device; `read` are the results that are used, `is_nested`: in the step of a loop."""


#: Steps whose results nothing is known of.
_UNKNOWN = ("opaque", "part")

#: How an axis of the viewed value follows from the axes of the view: (axis or -1, step, offset).
Index = tuple[int, int, int]


class Graph:
    """The steps traced so far; equal steps are shared. `outer`: the graph in which this one becomes a step."""

    def __init__(self, outer: Graph | None = None) -> None:
        self.outer = outer
        self.level: int = 0 if outer is None else outer.level + 1
        self.ctx = traced_at(self.level)
        self.values: list[Value] = []
        self._known: dict[tuple, Value] = {}
        self.captured: list = []  # (array from outside, traced array bound to it)
        self.drawn = 0  # blocks of random numbers
        self.sources: dict = {} if outer is None else outer.sources  # see :mod:`..core.foreign_memory`
        self.updates: list = []  # (array that every call writes, what it writes)
        self.saved_results: list[list] = []  # per step that must not run again for derivatives: its results
        self.replayed_results: Iterator[list] | None = None  # earlier results of such steps
        self.attempted: list[type] = []  # the classes of functions whose derivative is being tried
        self.made: dict = {}  # by identity, arrays that the traced function has made of constants, by functions of np
        self.undo: list[Callable[[], None]] = []  # of what the traced function wrote into its arrays
        self.per_row = 0  # nesting depth of traced sweeps over rows; values inside belong to one row

    def add(
        self, op: str, inputs: Sequence[ShapedValue], attrs: Any, shape: Shape, dtype: DType, unique=False
    ) -> Value:
        """Add a step, or return an existing equal one."""
        key = (op, tuple([(id(v), s) for v, s in inputs]), attrs, shape, dtype)
        step_value = None if unique else self._known.get(key)
        if step_value is None:
            step_value = Value(op, tuple(inputs), attrs, shape, dtype, len(self.values))
            self.values.append(step_value)
            if not unique:
                self._known[key] = step_value
        return step_value

    @contextlib.contextmanager
    def attempt(self, keep: bool = True) -> Iterator[None]:
        """A scope whose steps are discarded after an exception, or unless `keep`."""
        count, drawn = len(self.values), self.drawn
        kept = self.captured, self.updates, self.saved_results, self.undo
        lengths = [len(items) for items in kept]
        done = False
        try:
            yield
            done = keep
        finally:
            if not done:
                self._known = {key: v for key, v in self._known.items() if v.number < count}
                del self.values[count:]
                self.drawn = drawn
                for undo in reversed(self.undo[lengths[-1] :]):
                    undo()
                for items, n in zip(kept, lengths, strict=True):
                    del items[n:]

    def argument(self, shape: Shape, dtype: DType, computed: bool = False) -> Value:
        """An input of each call; `computed`, as those of nested graphs are: by steps that are not in this graph."""
        value = self.add("argument", (), None, shape, dtype, unique=True)
        computed = computed or self.outer is not None
        value.finite, value.has_structural_zeros = not computed, computed
        return value

    def constant(self, number: float | int, shape: Shape, dtype: DType) -> Value:
        """A value whose elements are all `number`."""
        return self.add("constant", (), const(number), shape, dtype)

    def map(self, expr: Expr, inputs: Sequence[ShapedValue], shape: Shape, dtype: DType, compute: DType) -> Value:
        """`expr` in x0, x1 ... for every element of the inputs, broadcast to `shape`; computed in `compute`."""
        bindings = {}
        operands: list[ShapedValue] = []
        for k, x in enumerate(inputs):
            if x.value.op == "constant":
                bindings[var(f"x{k}")] = const(_to_element(x.value.attrs.value, compute))
            elif x in operands:
                bindings[var(f"x{k}")] = var(f"x{operands.index(x)}_")
            else:
                bindings[var(f"x{k}")] = var(f"x{len(operands)}_")
                operands.append(x)
        expr = substitute(expr, bindings)
        used = [k for k in range(len(operands)) if f"x{k}_" in free_variables(expr)]
        expr = substitute(expr, {var(f"x{k}_"): var(f"x{n}") for n, k in enumerate(used)})
        operands = [operands[k] for k in used]
        expr = weaken_strong_products(expr, operands, None if self.outer else size(shape))
        if not used and expr.value is not None:
            return self.constant(_to_element(expr.value, dtype), shape, dtype)
        if expr is var("x0") and operands[0].value.dtype is dtype:
            return self.broadcast_to_shape(operands[0], shape)
        return self.add("map", operands, (expr, compute), shape, dtype)

    def broadcast_to_shape(self, x: ShapedValue, shape: Shape) -> Value:
        """`x` broadcast to `shape`."""
        if size(x.shape) == size(shape):
            return x.value
        if x.value.op == "constant":
            return self.constant(x.value.attrs.value, shape, x.value.dtype)
        extra = len(shape) - len(x.shape)
        index = [(-1, 0, 0) if n == 1 else (k, 1, 0) for k, n in enumerate(x.shape, extra)]
        return self.add_view(x, tuple(index), shape)

    def add_view(self, x: ShapedValue, index: tuple[Index, ...], shape: Shape) -> Value:
        """A view of `x`: its axis k is ``step*i + offset``, where i runs along axis ``index[k][0]`` of `shape`."""
        if x.value.op == "constant":
            return self.constant(x.value.attrs.value, shape, x.value.dtype)
        return self.add("look", (x,), index, shape, x.value.dtype)

    def embed(self, x: ShapedValue, begin: Shape, step: Shape, shape: Shape) -> Value:
        """Zeros of `shape`, with `x` at ``begin + step*i`` along each axis."""
        if x.value.op == "constant" and not x.value.attrs.value:
            return self.constant(0.0, shape, x.value.dtype)
        return self.add("embed", (x,), (begin, step), shape, x.value.dtype)

    def join(self, parts: Sequence[ShapedValue], axis: int) -> Value:
        """Parts of one dtype, one after the other along an axis."""

        def along(parts: Sequence[ShapedValue]) -> Shape:
            shape = parts[0].shape
            return (*shape[:axis], sum(x.shape[axis] for x in parts), *shape[axis + 1 :])

        parts = [x for x in parts if x.shape[axis]] or [parts[0]]
        while len(parts) > MAX_JOINED:
            groups = [parts[k : k + MAX_JOINED] for k in range(0, len(parts), MAX_JOINED)]
            parts = [ShapedValue(self.join(group, axis), along(group)) for group in groups]
        first = parts[0].value
        if len(parts) == 1:
            return first
        if first.op == "constant" and all(x.value.op == "constant" and x.value.attrs is first.attrs for x in parts):
            return self.constant(first.attrs.value, along(parts), first.dtype)
        return self.add("join", parts, axis, along(parts), first.dtype)

    def convert(self, x: ShapedValue, dtype: DType) -> ShapedValue:
        """`x` converted to a dtype."""
        value = x.value
        if value.op == "map" and value.dtype is bool_ and is_truth(value.attrs[0]) and x.shape == value.shape:
            expr, compute = value.attrs  # which gives 0 and 1 in any dtype
            return ShapedValue(self.map(expr, value.inputs, x.shape, dtype, compute), x.shape)
        compute = x.value.dtype if x.value.dtype.is_float or not dtype.is_float else dtype
        return ShapedValue(self.map(var("x0"), [x], x.shape, dtype, compute), x.shape)

    def reduce(self, how: str, x: ShapedValue, axes: tuple[int, ...]) -> Value:
        """The ``"sum"``, ``"max"`` or ``"min"`` over axes of `x`, which the result does not have."""
        shape = tuple([n for k, n in enumerate(x.shape) if k not in axes])
        axes = tuple([k for k in axes if x.shape[k] != 1])
        if not axes:
            return self.broadcast_to_shape(x, shape)
        number = x.value.attrs.value if x.value.op == "constant" else None
        if number is not None and size(x.shape):
            count = size([x.shape[k] for k in axes])
            return self.constant(number * count if how == "sum" else number, shape, x.value.dtype)
        return self.add("reduce", (x,), (how, axes), shape, x.value.dtype)

    def product(
        self, a: ShapedValue, b: ShapedValue, transpose_a: bool, transpose_b: bool, shape: Shape, dtype: DType
    ) -> Value:
        """Stacks of matrix products."""
        return self.add("product", (a, b), (transpose_a, transpose_b), shape, dtype)

    def take(self, x: ShapedValue, index: ShapedValue, axis: int) -> Value:
        """Slices of `x` along an axis, at indices (int64, in range) whose shape replaces the axis."""
        shape = x.shape[:axis] + index.shape + x.shape[axis + 1 :]
        if 0 in shape:
            return self.constant(0, shape, x.value.dtype)
        return self.add("take", (x, index), axis, shape, x.value.dtype)

    def scatter(self, x: ShapedValue, index: ShapedValue, axis: int, n: int) -> Value:
        """Zeros, of length `n` along an axis, into which the slices of `x` are accumulated at `index`."""
        shape = x.shape[:axis] + (n,) + x.shape[axis + len(index.shape) :]
        if 0 in shape or 0 in index.shape:
            return self.constant(0, shape, x.value.dtype)
        return self.add("scatter", (x, index), axis, shape, x.value.dtype)

    def opaque(
        self, run: OpaqueStep, inputs: Sequence[ShapedValue], results: Sequence[tuple[Shape, DType]]
    ) -> list[Value]:
        """Add a step that runs as it does outside; return its results. Steps are equal if their `run` are."""
        whole = self.add("opaque", inputs, (run, tuple(results)), (), results[0][1])
        return [
            self.add("part", (ShapedValue(whole, ()),), k, shape, dtype) for k, (shape, dtype) in enumerate(results)
        ]


def is_large_product(m: int, k: int, n: int) -> bool:
    """Whether a product of matrices (m, k) and (k, n) is large in more than one direction, so that BLAS pays."""
    return sorted((m, k, n))[1] > _MAX_LOOP_PRODUCT and min(m, k, n) > 1


def _to_element(number, dtype: DType):
    """A number converted to an element of this dtype."""
    if dtype.is_float:
        return float(number)
    return int(bool(number)) if dtype.name == "bool" else int(number)


class TracedBuffer:
    """The buffer of a traced array."""

    __slots__ = ("dtype", "given", "graph", "size", "value")

    def __init__(self, graph: Graph, size: int, dtype: DType, value: Value | None = None, given: bool = False) -> None:
        self.given = given  # from outside: it stands for memory that others have
        self.graph = graph
        self.size = size
        self.dtype = dtype
        self.value = value

    def bind(self, value: Value) -> None:
        """Set its value. Only once: a traced function writes nothing twice."""
        if self.value is not None:
            raise TraceError(IN_PLACE)
        self.value = value

    def seen(self, shape: Shape) -> ShapedValue:
        """Its value, viewed in this shape."""
        graph = current.graph
        while graph is not None and graph is not self.graph:
            graph = graph.outer
        if current.graph is not None and graph is None:
            raise TraceError(LEAKED)
        if self.value is None:
            raise TraceError("a traced function reads an array that was never written")
        return ShapedValue(self.value, shape)

    def fill(self, number) -> None:
        raw = np.asarray(number).astype(self.dtype.storage).view(self.dtype.np)
        self.bind(self.graph.constant(_to_element(raw.item(), self.dtype), (self.size,), self.dtype))

    def convert(self, source: TracedBuffer) -> None:
        """Bind to the elements of `source`, converted to this dtype."""
        value = source.seen((source.size,)).value
        self.bind(self.graph.convert(ShapedValue(value, value.shape), self.dtype).value)

    def copy(self) -> TracedBuffer:
        return TracedBuffer(self.graph, self.size, self.dtype, self.value)

    def __getitem__(self, part) -> TracedBuffer:
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise TraceError(_concrete())
        start, stop, _ = part.indices(self.size)
        x = self.seen((self.size,))
        value = self.graph.add_view(x, ((0, 1, start),), (stop - start,))
        return TracedBuffer(self.graph, stop - start, self.dtype, value)

    def __setitem__(self, part, source) -> None:
        raise TraceError(IN_PLACE)

    def view(self, dtype=None):
        raise TraceError(_concrete() if current.graph is self.graph else LEAKED)

    reshape = astype = __array__ = view


def _concrete() -> str:
    what, where, _ = user_call()
    return (
        f"{what} asks for the numbers in an array of a traced function, in {where}. "
        "Under jit there are none yet: use functions of nd instead of NumPy's, math's and SciPy's; nd.where for a "
        "choice between values, nd.contrib.cond, while_loop and foreach for branches and loops; or pass what decides "
        "as a static argument (static_argnames)"
    )


IN_PLACE = (
    "a traced function writes into an array (x[...] = ..., +=, out=, attach_grad and backward): under jit arrays do "
    "not change; compute a new one (nd.where, nd.concat, x = x + y, and of nbgrad.np x.at[key].set(y)), return it, and "
    "get gradients by nbgrad.grad"
)


class _Current(threading.local):
    graph: Graph | None = None
    numbers = False  # the traced function was called with NumPy arrays and numbers alone


#: What this thread is tracing, if anything.
current = _Current()


def allocator(dtype: DType) -> Callable:
    """``empty(n, storage)`` for traced arrays of this dtype."""

    def empty(n: int, storage=None) -> TracedBuffer:
        if current.graph is None:
            raise TraceError(LEAKED)
        return TracedBuffer(current.graph, n, dtype)

    return empty


LEAKED = (
    "an array from the inside of a traced function is used after the trace: it stood for numbers that only exist while "
    "the compiled function runs; return it from the function instead of keeping it"
)
