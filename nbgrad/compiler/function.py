"""``nbgrad.jit``: a function, traced once per signature, and run as compiled programs from then on."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, tape
from ..codegen.graph import Graph, current
from ..codegen.launch import Kind, kind_of
from ..context import CPU0
from ..errors import DTypeError, TraceError
from ..functional.trees import flatten
from ..kernels import random
from ..ndarray import NDArray, from_value, wrap
from ..state import state
from ..tracing import WEAK, traced
from .compiled import Compiled

__all__ = ["Jitted", "jit"]

#: Signatures after which a function is said to be traced too often.
_MANY = 16
_ARRAYS = {d.np: d for d in dtypes.ALL}


def jit(function: Callable | None = None, *, static_argnames: Sequence[str] | str = ()) -> Callable:
    """`function`, compiled: traced once for every combination of shapes and dtypes, and run as loops that share memory.

    While it is traced, the function runs on arrays without numbers. Every operator it calls becomes a step of a program;
    so do those of derivatives taken inside (``jit(grad(f))``, ``jit(hessian(f))``, to any order). The program's steps
    are joined into loops as one would write them by hand, compiled, and kept on disk.

    Parameters
    ----------
    function : callable
        Takes and gives arrays, numbers, and nested dicts, lists, tuples and dataclasses of them. NumPy arrays and
        Python floats become arrays. Everything else, ints and strings among it, is *static*: a new value is a new
        trace. Arrays from outside that it reads are read again at every call.
    static_argnames : str or sequence of str
        Arguments that are static although they are numbers. Their values must be hashable.

    Returns
    -------
    callable
        Like `function`. It gives NumPy arrays if it is called with NumPy arrays and numbers alone, else NDArrays.
        Called while recording, it is one operation of the tape, differentiable to any order. Methods: ``source()``,
        ``report()`` and ``graph()`` show the program of the latest signature.

    Raises
    ------
    DTypeError
        If `function` cannot be called.
    TraceError
        At the first call, if the function asks for the numbers in its arrays (``if x > 0``, ``float(x)``), or writes
        into arrays.

    Examples
    --------
    >>> import nbgrad as nb
    >>> import numpy as np
    >>> @nb.jit
    ... def energy(x):
    ...     return nb.nd.sum(nb.nd.sin(x) ** 2)
    >>> float(nb.jit(nb.grad(energy))(np.array([0.5]))[0]) - np.sin(1.0) < 1e-15
    True
    """
    if function is None:
        return functools.partial(jit, static_argnames=static_argnames)
    if not callable(function):
        raise DTypeError(f"jit: a function is needed, got {function!r}; write jit(f)(x), not jit(f(x))")
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    return functools.update_wrapper(Jitted(function, names), function)


class _Static:
    """An argument whose value is part of the signature."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = (value.__class__, value)


class Jitted:
    """What :func:`jit` gives."""

    def __init__(self, function: Callable, static: tuple[str, ...] = ()) -> None:
        self.function = function
        self.static = static
        self.name = "".join(c if c.isalnum() else "_" for c in getattr(function, "__name__", type(function).__name__))
        self.programs: dict[tuple, _Program] = {}
        self.latest: _Program | None = None
        self._positions: tuple[int, ...] = ()
        if static:
            known = list(inspect.signature(function).parameters)
            for name in static:
                if name not in known:
                    raise DTypeError(f"jit: static_argnames {name!r} is no argument of {self.name}; it has {known}")
            self._positions = tuple([known.index(name) for name in static])

    def __repr__(self) -> str:
        return f"<jit of {self.name}, {len(self.programs)} signature(s)>"

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        if current.graph is not None:
            return self.function(*args, **kwargs)
        leaves: list = []
        key: list = [state.training]
        if self.static:
            args = tuple([_Static(a) if k in self._positions else a for k, a in enumerate(args)])
            kwargs = {k: _Static(v) if k in self.static else v for k, v in kwargs.items()}
        build = None
        for value in args:
            kind = value.__class__
            if kind is np.ndarray:
                key.append((value.shape, value.dtype))
            elif kind is NDArray:
                key.append((value._shape, value._kind))
            elif kind is float:
                key.append(float)
            else:
                break
            leaves.append(value)
        else:
            build = None if kwargs else len(args)
        if build is None:
            leaves = []
            build = flatten((args, kwargs), leaves)
            key = [state.training, *_shape_of((args, kwargs)), *map(_signature, leaves)]
        try:
            program = self.programs.get(tuple(key))
        except TypeError as err:
            raise DTypeError(f"{self.name}: a static argument cannot be hashed: {err}") from None
        if program is None:
            program = self._trace(tuple(key), build, leaves)
        self.latest = program
        return program(leaves)

    def _trace(self, key: tuple, build, leaves: list) -> _Program:
        if len(self.programs) == _MANY:
            warnings.warn(
                f"jit: {self.name} is traced for the {_MANY + 1}th time; every new shape, dtype and static value "
                f"(ints, strings) makes a new program; latest signatures: {[k[1:] for k in list(self.programs)[-2:]]}",
                stacklevel=3,
            )
        found = self.programs[key] = _Program(self, build, leaves)
        return found

    def _latest(self) -> _Program:
        if self.latest is None:
            raise TraceError(f"{self.name} was not called yet: there is a program once it was")
        return self.latest

    def source(self) -> str:
        """The generated code of the program that ran last."""
        return "\n\n".join(s.text for s in self._latest().compiled.sources)


def _shape_of(tree) -> list:
    """What tells the structure of arguments apart."""
    if isinstance(tree, dict):
        return [dict, *[part for k, v in tree.items() for part in (k, *_shape_of(v))]]
    if isinstance(tree, list | tuple):
        return [type(tree), len(tree), *[part for v in tree for part in _shape_of(v)]]
    return [type(tree)]


def _signature(leaf):
    if isinstance(leaf, NDArray):
        return leaf._shape, leaf._kind
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.shape, leaf.dtype
    if isinstance(leaf, float):
        return float
    if isinstance(leaf, _Static):
        return leaf.key
    return leaf.__class__, leaf


def _is_array(leaf) -> bool:
    return isinstance(leaf, NDArray | np.ndarray | np.generic | float)


class _Program:
    """A function for one signature.

    Attributes
    ----------
    compiled : Compiled
    captured : list of NDArray
        Arrays from outside that are read.
    """

    def __init__(self, jitted: Jitted, build, leaves: list) -> None:
        self.jitted = jitted
        self.build = build
        self.static = [None if _is_array(leaf) else leaf for leaf in leaves]
        self.arrays = [k for k, leaf in enumerate(leaves) if _is_array(leaf)]
        self.numbers = [isinstance(leaves[k], float) and not isinstance(leaves[k], np.generic) for k in self.arrays]
        self.numpy = not any(isinstance(leaf, NDArray) for leaf in leaves)
        self.avals = [_aval(leaves[k]) for k in self.arrays]
        self._pull: Jitted | None = None
        graph = Graph()
        inside = self.inside(graph)
        result = self.traced_call(graph, inside)
        self.captured = [x for x, _ in graph.captured]
        self.drawn = graph.drawn if any(x is random.PART for x in self.captured) else 0
        self.results: list = []
        self.give = flatten(result, self.results)
        seen = []
        self.places: list[int | None] = []
        for y in self.results:
            if isinstance(y, NDArray) and not y._kind.traced and False:
                continue
            if isinstance(y, NDArray) and y._kind.traced:
                self.places.append(len(seen))
                seen.append(y._buf.seen(y._shape))
            else:
                self.places.append(None)
        self.shapes = [y._shape if isinstance(y, NDArray) else () for y in self.results]
        self.results = [None if p is not None else y for p, y in zip(self.places, self.results, strict=True)]
        arguments = [x._buf.value for x in inside] + [x._buf.value for _, x in graph.captured]
        self.compiled = Compiled(jitted.name, graph, arguments, seen)
        self.single = self.give is next and self.places == [0]

    def inside(self, graph: Graph) -> list[NDArray]:
        """What the function gets for its arrays while it is traced."""
        current.graph = graph
        try:
            found = []
            for (shape, kind), number in zip(self.avals, self.numbers, strict=True):
                x = traced(graph.argument(shape, kind.dtype), shape, kind.dtype)
                if number:
                    x._label = WEAK
                found.append(x)
            return found
        finally:
            current.graph = None

    def traced_call(self, graph: Graph, inside: Sequence[NDArray]):
        """The function's result for these."""
        full = list(self.static)
        for k, x in zip(self.arrays, inside, strict=True):
            full[k] = x
        if isinstance(self.build, int):
            args, kwargs = tuple(full), {}
        else:
            args, kwargs = self.build(iter(full))
        args = [a.value if isinstance(a, _Static) else a for a in args]
        kwargs = {k: v.value if isinstance(v, _Static) else v for k, v in kwargs.items()}
        recording, state.recording = state.recording, False
        current.graph = graph
        current.numbers = self.numpy
        try:
            return self.jitted.function(*args, **kwargs)
        finally:
            current.graph = None
            current.numbers = False
            state.recording = recording

    def __call__(self, leaves: list):
        if state.recording:
            arrays = [_array(leaves[k]) for k in self.arrays] + self._outside()
            if any(x._node is not None for x in arrays):
                return self._recorded(arrays)
            buffers = [x._buf for x in arrays]
        else:
            buffers = [_raw(leaves[k]) for k in self.arrays]
            if self.captured:
                buffers += [x._buf for x in self._outside()]
        compiled = self.compiled
        outs = compiled.run(buffers)
        if self.single:
            return self._given(outs[0], self.shapes[0], compiled.results[0][1])
        return self._tree([self._given(out, shape, r[1]) for out, shape, r in self._shaped(outs)])

    def _outside(self) -> list[NDArray]:
        """The captured arrays. The part of the random stream that a call draws is another one every time."""
        if not self.drawn:
            return self.captured
        part = random.part(self.drawn)
        return [part if x is random.PART else x for x in self.captured]

    def _shaped(self, outs):
        shapes = [s for s, p in zip(self.shapes, self.places, strict=True) if p is not None]
        return zip(outs, shapes, self.compiled.results, strict=True)

    def _tree(self, arrays: list):
        return self.give(iter([y if p is None else arrays[p] for p, y in zip(self.places, self.results, strict=True)]))

    def _given(self, buf, shape, kind: Kind):
        if self.numpy:
            found = buf.view(kind.dtype.np).reshape(shape)
            return found if shape else found[()]
        return wrap(buf, shape, kind)

    # On the tape.

    def _recorded(self, arrays: list[NDArray]):
        compiled = self.compiled
        outs = [
            wrap(buf, shape, r[1]) for buf, shape, r in self._shaped(compiled.run([x._buf for x in arrays]))
        ]
        parents = tuple(map(tape.parent, arrays))
        saved = tape.save(arrays)
        avals = [(x._shape, x._kind) for x in arrays]
        rule = _Rule(self, avals)
        if len(outs) == 1:
            (y,) = outs
            y._node = tape.node(rule, parents, saved, None, y._shape, y._kind)
        else:
            shapes, kinds = tuple(y._shape for y in outs), tuple(y._kind for y in outs)
            node = tape.node(rule, parents, saved, None, shapes, kinds)  # type: ignore[arg-type]
            for k, y in enumerate(outs):
                if y._kind.dtype.is_float:
                    y._node = tape.select(node, k)
        return self._tree(outs)

    @functools.cached_property
    def pull(self) -> Jitted:
        """The compiled pullback: the arguments, captured arrays and cotangents of the results give those of the first."""

        def pulled(*given: NDArray):
            graph = current.graph
            assert graph is not None
            count = len(self.avals)
            inside = [_variable(x) for x in given[: count + len(self.captured)]]
            before = graph.captured
            graph.captured = [*before, *zip(self.captured, inside[count:], strict=True)]
            floor = tape.next_seq()
            result: list = []
            try:
                state.recording = True
                flatten(self._again(inside[:count]), result)
            finally:
                state.recording = False
                graph.captured = [pair for pair in graph.captured if not any(pair[1] is x for x in inside)]
            heads = [y for y in result if isinstance(y, NDArray) and y._kind.traced]
            gs = given[count + len(self.captured) :]
            seeds = [(y._node, g) for y, g in zip(heads, gs, strict=True) if y._node is not None]
            targets = {x._node: 0 for x in inside if x._node is not None}
            found = tape.sweep_recorded(seeds, False, targets, floor) if seeds else {}
            return [None if x._node is None else found.get(x._node) for x in inside]

        pulled.__name__ = f"{self.jitted.name}_pullback"
        return Jitted(pulled)

    def _again(self, inside: Sequence[NDArray]):
        full = list(self.static)
        for k, x in zip(self.arrays, inside, strict=True):
            full[k] = x
        args, kwargs = (tuple(full), {}) if isinstance(self.build, int) else self.build(iter(full))
        args = [a.value if isinstance(a, _Static) else a for a in args]
        kwargs = {k: v.value if isinstance(v, _Static) else v for k, v in kwargs.items()}
        return self.jitted.function(*args, **kwargs)


def _variable(x: NDArray) -> NDArray:
    return tape.constant(x, ()) if x._kind.dtype.is_float else x


def _aval(leaf) -> tuple[tuple[int, ...], Kind]:
    if isinstance(leaf, NDArray):
        return leaf._shape, leaf._kind
    values = np.asarray(leaf)
    return values.shape, kind_of(dtypes.as_dtype(values.dtype), CPU0)


def _array(leaf) -> NDArray:
    return leaf if isinstance(leaf, NDArray) else from_value(np.asarray(leaf))


def _raw(leaf):
    """The raw buffer of an argument."""
    if leaf.__class__ is NDArray:
        return leaf._buf
    values = np.ascontiguousarray(leaf).reshape(-1)
    dtype = _ARRAYS.get(values.dtype)
    if dtype is None:
        dtype = dtypes.as_dtype(values.dtype)
        values = values.astype(dtype.np)
    return values.view(dtype.storage)


class _Rule(tape.Rule):
    """The tape's rule for one call of a compiled function."""

    def __init__(self, program: _Program, avals: list) -> None:
        self.program = program
        self.avals = avals
        self.name = f"jit({program.jitted.name})"

    def grads(self, node, g, useful):
        gs = g if isinstance(g, list) else [g]
        shapes = node.shape if isinstance(g, list) else [node.shape]
        kinds = node.kind if isinstance(g, list) else [node.kind]
        gs = [
            wrap(kind.zeros(int(np.prod(shape))), shape, kind) if h is None else h
            for h, shape, kind in zip(gs, shapes, kinds, strict=True)
        ]
        arrays = []
        triples = zip(node.saved[::3], node.saved[1::3], node.parents, self.avals, strict=True)
        for buf, cell, p, (shape, kind) in triples:
            x = wrap(buf, shape, kind, None if type(p) is list else p)
            x._cell = cell
            arrays.append(x)
        found = self.program.pull(*arrays, *gs)
        return [
            (wrap(p.kind.zeros(int(np.prod(p.shape))), p.shape, p.kind) if h is None else h)
            if tape.wanted(p, useful)
            else None
            for p, h in zip(node.parents, found, strict=True)
        ]
