"""``nbgrad.primitive``: functions of NumPy arrays, Numba's among them, as differentiable operations."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any

import numpy as np

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, from_value, wrap
from ..autodiff import tape, tracing
from ..autodiff.differentiability import end_at
from ..autodiff.observers import observed, observers
from ..autodiff.state import state
from ..backends.numba.compile import is_nopython, returned
from ..compiler import opaque
from ..core.context import CPU0, Context
from ..core.dtypes import demand_readable
from ..core.pickling import Made
from ..core.shapes import Shape, size
from ..core.source_text import constant
from ..errors import AttrError, DTypeError, NBGradError, ShapeError
from ..functional.pytrees import flatten, flatten_like
from ..loops.differentiable_operator import Loops, Variant, without_fixed
from ..operators.cast import cast

__all__ = ["Primitive", "primitive"]


def primitive(
    forward: Callable | None = None, vjp: Callable | None = None, *, infer: Callable | None = None
) -> Callable:
    """A function of NumPy arrays, one that ``numba.njit`` compiled, say, as an operation with a derivative of your own.

    Parameters
    ----------
    forward : callable
        ``forward(x, y, ...)`` gives an array, a number, or a tuple of these. It is called with C-contiguous NumPy
        arrays, with NumPy's numbers for arrays without axes, and with everything else as it is; it must not write into
        its arguments. They may be tuples and lists of arrays, too.
    vjp : callable, optional
        ``vjp(g, result, x, y, ...)``, where `g` is like the result, gives the cotangents of the arguments (those of
        keyword-only parameters are the last): the products of `g` with their Jacobians, each like its argument. One per
        argument (a single one need not be in a tuple), None for zero; for what is neither an array nor a float anything
        will do, and at the end nothing. ``defvjp`` gives it later. Without one, a function with plain loops, in the
        subset of :func:`nbgrad.adjoint`, has the derivatives that its adjoint gives, of any order. Numba compiles it,
        and it may write into its arguments: copies of them are written, and returned after the results.
    infer : callable, optional
        ``infer(x, y, ...)`` says what comes out of `forward` where only shapes and dtypes are known, in functions that
        ``nbgrad.jit`` compiles: for each result an argument that it is like, or ``(shape, dtype)``. Without it,
        `forward` is tried on sample numbers (0.5, 1 on the diagonal of square matrices, integers 0) at tracing.

    Returns
    -------
    callable
        Takes what `forward` takes, NDArrays for arrays. It gives NDArrays if there is one among its arguments; else
        what `forward` gives. In compiled functions it is a step that runs as it is, and in those of ``njit`` machine
        code, if Numba compiled `forward` and `vjp`.

        Its gradient can be differentiated in turn if `vjp` is a primitive that has a `vjp`.

    Raises
    ------
    DTypeError
        If `forward` is no function, or gives something else than arrays and numbers; for arrays of float16, if Numba
        compiled it.
    NBGradError, ShapeError
        In a sweep back, if `vjp` gives too many or too few cotangents, or one of another shape than its argument.

    Examples
    --------
    >>> import numba
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> @nb.primitive
    ... @numba.njit
    ... def length(x):
    ...     return np.sqrt(np.sum(x * x))
    >>> @length.defvjp
    ... @numba.njit
    ... def length_vjp(g, y, x):
    ...     return g * x / y
    >>> nb.grad(length)(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """
    if forward is None:
        return functools.partial(primitive, vjp=vjp, infer=infer)
    return Primitive(forward, vjp, infer)


class Primitive(Made):
    """What :func:`primitive` gives."""

    def __init__(self, forward: Callable, vjp: Callable | None, infer: Callable | None) -> None:
        for what, function in (("forward", forward), ("vjp", vjp), ("infer", infer)):
            if not callable(function) and (function is not None or what == "forward"):
                raise DTypeError(f"primitive: {what} must be a function, got {function!r}")
            if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
                raise DTypeError(f"primitive: {what} must return its results; {function!r} is async or yields them")
        functools.update_wrapper(self, forward, updated=())
        self.forward = forward
        self._named, self._plain = _keyword_only(forward), _positional(forward)
        self.vjp = vjp
        self.infer = infer
        self.name = getattr(forward, "__name__", type(forward).__name__)
        self._loops: Loops | None = None
        self._variants: dict[tuple, Variant | str] = {}
        self._rule = _Rule(self)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def _origin(self) -> tuple[Callable, tuple]:
        return Primitive, (self.forward, self.vjp, self.infer)

    def defvjp(self, vjp: Callable) -> Callable:
        """Set `vjp`; also a decorator. See :func:`primitive`."""
        if not callable(vjp):
            raise DTypeError(f"{self.name}.defvjp: vjp must be a function, got {vjp!r}")
        self.vjp = vjp
        return vjp

    @property
    def order(self) -> float:
        """How often it can be differentiated."""
        found, count = self, 0
        seen = set()
        while isinstance(found.vjp, Primitive):
            if found in seen:
                return inf
            seen.add(found)
            found, count = found.vjp, count + 1
        if found.vjp is None:
            return count if found._read().why else inf
        return count + 1

    def __call__(self, *args, **kwargs):
        if kwargs or self._named:
            args = self._in_order(args, kwargs)
        call = self._call(args)
        if not call.arrays:
            return self._plain(*args)
        if is_nopython(call.function) and any(x._kind.dtype.name == "float16" for x in call.arrays):
            raise DTypeError(f"{self.name}: Numba has no arrays of float16; give it astype('float32')")
        if tracing.current.graph is not None:
            call = call.of(tracing.lifted(call.arrays))
            several, results = self._traced(call)
        else:
            given = call.run(call.arrays)
            results = _results(self.name, given, call.arrays[0]._kind.ctx)
            several = opaque.form(given)
        if state.recording and any(x._node is not None for x in call.arrays):
            self._record(call, several, results)
        if observers:
            observed(self.name, call.arrays, results)
        return results[0] if several is None else several(results)

    def _in_order(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """The arguments of a call, with defaults, those of keyword-only parameters last."""
        bound = inspect.signature(self.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        if other := set(bound.kwargs).difference(self._named):
            raise AttrError(f"{self.name}: there is no parameter for {', '.join(sorted(other))}; give it one for each")
        return *bound.args, *bound.kwargs.values()

    def _read(self) -> Loops:
        if self._loops is None or self._loops.stale:
            self._loops, self._variants = Loops(self.forward), {}
        return self._loops

    def _call(self, args: tuple) -> _Call:
        """The call; without a `vjp`, of the function as :mod:`..loops` reads it, if it can."""
        if self.vjp is None:
            args = self._read().completed(args)
        call = _Call(self._plain, self.name, args)
        if self.vjp is None and call.arrays:
            key = tuple([_kind(x) for x in args])
            if key not in self._variants:
                self._variants[key] = self._read().variant([_described(x) for x in args])
            derived = self._variants[key]
            if isinstance(derived, Variant):
                call = _Call(derived.function, self.name, without_fixed(args))
            call.derived = derived
        return call

    def _traced(self, call: _Call) -> tuple[type | None, list[NDArray]]:
        """The results as a step of the program that is traced; and tuple or list, if they come in one."""
        if self.infer is None:
            found = opaque.tried(self.name, lambda: call.run([opaque.sample(x) for x in call.arrays]))
            several = opaque.form(found)
            avals = [(y._shape, y._kind.dtype) for y in _results(self.name, found, CPU0)]
        else:
            several, avals = opaque.described(self.name, self.infer(*call.args(call.arrays)))

        def run(operands: list[NDArray], results: list[NDArray]) -> None:
            opaque.store(self.name, _results(self.name, call.run(operands), CPU0), results)

        paths: list = [()] if several is None else [(k,) for k in range(len(avals))]
        return several, opaque.lasting(self.name, run, call.arrays, avals, call.native(avals, paths))

    def _record(self, call: _Call, several: type | None, results: list[NDArray]) -> None:
        parents = tuple(map(tape.parent, call.arrays))
        saved = tape.save([*call.arrays, *results])
        avals = [(x._shape, x._kind) for x in (*call.arrays, *results)]
        attrs = call.kept(), several, avals
        if several is None:
            (y,) = results
            if y._kind.dtype.is_float:
                y._node = tape.node(self._rule, parents, saved, attrs, y._shape, y._kind)
            return
        shapes, kinds = tuple(y._shape for y in results), tuple(y._kind for y in results)
        node = tape.node(self._rule, parents, saved, attrs, shapes, kinds)  # type: ignore[arg-type]
        for k, y in enumerate(results):
            if y._kind.dtype.is_float:
                y._node = tape.select(node, k)


class _Call:
    """A call of a function with arguments of which some leaves are arrays: those at `places`."""

    def __init__(self, function: Callable, name: str, args: tuple) -> None:
        self.function = function
        self.name = name
        self.leaves: list = []
        self.build: Callable[[Iterator], tuple] = flatten(args, self.leaves)
        if is_nopython(function):
            demand_readable(name, self.leaves)
        self.places = [k for k, x in enumerate(self.leaves) if isinstance(x, NDArray)]
        self.arrays: list[NDArray] = [self.leaves[k] for k in self.places]
        self.derived: Variant | str = ""  # or why there is none

    def args(self, arrays: Sequence[Any]) -> tuple:
        """The arguments, with others in place of the arrays."""
        return self.build(iter(self.of(arrays).leaves))

    def of(self, arrays: Sequence[Any]) -> _Call:
        """The same call of others."""
        made = copy.copy(self)
        made.arrays, made.leaves = list(arrays), list(self.leaves)
        for k, x in zip(self.places, arrays, strict=True):
            made.leaves[k] = x
        return made

    def kept(self) -> _Call:
        """The same without the arrays, and safe from changes of NumPy's."""
        made = copy.copy(self)
        made.arrays = []
        made.leaves = [x.copy() if isinstance(x, np.ndarray) else x for x in self.leaves]
        for k in self.places:
            made.leaves[k] = None
        return made

    def paths(self) -> dict[int, tuple[int, ...]]:
        """Where in the arguments each leaf is, as far as they are tuples and lists."""
        return dict(_paths(self.build(iter(range(len(self.leaves)))), ()))

    def run(self, arrays: Sequence[NDArray]) -> Any:
        """What the function gives for these arrays."""
        with opaque.plainly(state.training):
            return self.function(*self.args([_value(x) for x in arrays]))

    def native(self, results: Sequence[opaque.Aval], paths: Sequence[tuple[int, ...]]) -> Callable | None:
        """What makes the call part of a nopython function, if it can be; see :class:`.opaque.Opaque`.

        `paths`: where in what the function gives each result is.
        """
        if not is_nopython(self.function) or len(self.paths()) < len(self.leaves):
            return None

        def native(operands: list[str], names: list[str], prefix: str) -> tuple[list[str], dict[str, Any]]:
            used = {f"{prefix}_{k}": x for k, x in enumerate(self.leaves) if k not in self.places}
            leaves = [f"{prefix}_{k}" for k in range(len(self.leaves))]
            for k, flat, x in zip(self.places, operands, self.arrays, strict=True):
                leaves[k] = f"{flat}.reshape({x._shape})" if x._shape else f"{flat}[0]"
            lines = [f"{prefix} = {prefix}_call{_code(self.build(iter(leaves)))}"]
            form = returned(self.function, self.args([_value(opaque.sample(x)) for x in self.arrays]))
            for name, (shape, _), path in zip(names, results, paths, strict=True):
                lines += self._taken(prefix, form, path, name, shape)
            return lines, {f"{prefix}_call": self.function, **used}

        return native

    def _taken(self, code: str, form: Any, path: Sequence[int], name: str, shape: Shape) -> list[str]:
        """Code that copies one result from where it is in `code` to the flat array `name`."""
        for k in path:
            if not isinstance(form, tuple) and path == (0,):  # a single one need not be in a tuple
                break
            if not isinstance(form, tuple) or k >= len(form):
                raise NBGradError(_MISSING.format(name=self.name, k=path[0]))
            code, form = f"{code}[{k}]", form[k]
        if form is None:
            return [f"{name}[:] = 0"]
        if form == "number" and not shape:
            return [f"{name}[0] = {code}"]
        if form != "array":
            raise DTypeError(f"{self.name}: it gives {form} where an array of shape {shape} is expected")
        wrong = " or ".join(f"{code}.shape[{d}] != {n}" for d, n in enumerate(shape))
        message = f"{self.name}: an array of another shape than {shape} came out, which was expected"
        check = [f"if {wrong}:", f"    raise ValueError({constant(message)})"] if shape else []
        return [*check, f"{name}[:] = np.ascontiguousarray({code}).reshape({size(shape)})"]


def _code(tree: Any) -> str:
    """Code for a tuple of code."""
    return (
        tree
        if isinstance(tree, str)
        else "None"
        if tree is None
        else f"({''.join(_code(part) + ', ' for part in tree)})"
    )


def _paths(tree: Any, path: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    if isinstance(tree, int):
        yield tree, path
    elif isinstance(tree, tuple | list):
        for k, part in enumerate(tree):
            yield from _paths(part, (*path, k))


def _value(x: NDArray) -> Any:
    """What a function gets for an array: NumPy's, on the same memory, or a number."""
    return x._view() if x._shape else x._view()[()]


def _listed(given: Any) -> list:
    return list(given) if isinstance(given, tuple | list) else [given]


def _results(name: str, given: Any, ctx: Context) -> list[NDArray]:
    """What `forward` gave, as arrays of their own."""
    found = []
    for k, y in enumerate(_listed(given)):
        values = np.asarray(y) if isinstance(y, np.ndarray | np.generic | float | int) else None
        if values is None or values.dtype.kind not in "fiub":
            raise DTypeError(f"{name}: result {k} must be an array of real numbers or a number, got {_said(y)}")
        try:
            found.append(from_value(values, ctx=ctx))
        except DTypeError as err:
            raise DTypeError(f"{name}: result {k}: {err}") from None
    return found


def _said(y: Any) -> str:
    return f"an array of dtype {y.dtype}" if isinstance(y, np.ndarray) else repr(y)


class _Rule(tape.Rule):
    """The tape's rule for calls of a primitive."""

    def __init__(self, primitive: Primitive) -> None:
        self.primitive = primitive
        self.name = primitive.name
        end_at(self, lambda node: inf if primitive.vjp is None else primitive.order)

    def grads(self, node, g, useful):
        function = self.primitive.vjp
        args, several, avals = node.attrs
        if function is None and not isinstance(args.derived, Variant):
            raise NBGradError(
                f"{self.name}: it has no derivative; give one, primitive(forward, vjp), or decorate a function with "
                f"@{self.name}.defvjp. None can be written for it: {args.derived}"
            )
        name = f"{self.name}.vjp"
        arrays, results = _saved(node, args, avals)
        gs = [_zeros(y) if h is None else h for h, y in zip(g if isinstance(g, list) else [g], results, strict=True)]
        wanted = [tape.wanted(p, useful) for p in node.parents]
        if function is None:
            return _derived(args, gs, arrays, wanted)
        heads, ys = (gs[0], results[0]) if several is None else (several(gs), several(results))
        if self.primitive._named and not isinstance(function, Primitive):
            function = _positional(function)
        call = _Call(function, name, (heads, ys, *args.args(arrays)))
        if isinstance(function, Primitive):
            return _cotangents(name, function(*call.args(call.arrays)), args, arrays, wanted)
        if not any(x._kind.traced for x in call.arrays):
            return _cotangents(name, call.run(call.arrays), args, arrays, wanted)
        chosen = [k for k, want in enumerate(wanted) if want]
        avals = [(arrays[k]._shape, arrays[k]._kind.dtype) for k in chosen]
        real = [wrap(None, x._shape, kind_of(x._kind.dtype, CPU0)) for x in arrays]
        call = _Call(function, name, call.args(tracing.lifted(call.arrays)))

        def run(operands: list[NDArray], outs: list[NDArray]) -> None:
            found = _cotangents(name, call.run(operands), args, real, wanted)
            opaque.store(name, [h for h in found if h is not None], outs)

        paths = args.paths()
        native = call.native(avals, [paths.get(args.places[k], ()) for k in chosen])
        made = iter(opaque.step(name, run, call.arrays, avals, native))
        return opaque.ended(self.name, [next(made) if want else None for want in wanted], node, gs)


def _keyword_only(function: Callable) -> tuple[str, ...]:
    """The parameters that are given by their names only."""
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        return ()  # NumPy's functions have others, which nobody means
    return tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY)


def _positional(function: Callable) -> Callable:
    """`function`, or one that takes what it takes by name only after everything else."""
    if not (names := _keyword_only(function)):
        return function
    return lambda *args: function(*args[: -len(names)], **dict(zip(names, args[-len(names) :], strict=True)))


def _kind(x: Any) -> Any:
    """What :meth:`.Loops.variant` depends on, of an argument."""
    if isinstance(x, NDArray):
        return len(x._shape), x._kind.dtype
    return (x.ndim, x.dtype) if isinstance(x, np.ndarray) else x if isinstance(x, str) else type(x)


def _described(x: Any) -> Any:
    """An argument for :class:`.Loops`, which asks for its rank and dtype."""
    if not isinstance(x, NDArray):
        return x
    return np.empty((0,) * len(x._shape), x._kind.dtype.np) if x._shape else x._kind.dtype.np.type(0)


def _derived(
    args: _Call, gs: Sequence[NDArray], arrays: Sequence[NDArray], wanted: Sequence[bool]
) -> list[NDArray | None]:
    """The cotangents of the arguments by the adjoint that was written for the function."""
    assert isinstance(args.derived, Variant)
    places = [k for k, want in zip(args.places, wanted, strict=True) if want]
    pull, outputs = args.derived.pullback(tuple(places), primitive)
    found = iter(_listed(pull(*[gs[k] for k in outputs], *args.args(arrays))))
    name = f"{args.name}.vjp"
    return [_cotangent(name, next(found), x) if want else None for x, want in zip(arrays, wanted, strict=True)]


def _saved(node, args: _Call, avals: Sequence) -> tuple[list[NDArray], list[NDArray]]:
    """The arguments and the results of a call, at their places on the tape."""
    places = [None if type(p) is list else p for p in node.parents]
    if isinstance(node.kind, tuple):
        places += [tape.select(node, k) if kind.dtype.is_float else None for k, kind in enumerate(node.kind)]
    else:
        places.append(node)
    found = []
    for buf, cell, (shape, kind), place in zip(node.saved[::3], node.saved[1::3], avals, places, strict=True):
        x = wrap(buf, shape, kind, place)
        x._cell = cell
        found.append(x)
    count = len(args.places)
    return found[:count], found[count:]


_MISSING = "{name}: there is no cotangent for argument {k}; one per argument is needed, None for zero"


def _cotangents(
    name: str, found: Any, args: _Call, arrays: Sequence[NDArray], wanted: Sequence[bool]
) -> list[NDArray | None]:
    """What `vjp` gave, checked: a cotangent for each array that wants one."""
    given = args.args(arrays)
    found = _listed(found)
    if len(found) > len(given):
        raise NBGradError(f"{name}: it gave {len(found)} cotangents, but there are {len(given)} argument(s)")
    leaves: list = []
    for k, argument in enumerate(given):
        if k < len(found) and found[k] is not None:
            leaves += [(k, h) for _, h, _ in flatten_like(argument, found[k], f"{name}: cotangent {k}")]
        else:
            inside: list = []
            flatten(argument, inside)
            leaves += [(k, None)] * len(inside)
    results: list[NDArray | None] = []
    for place, x, want in zip(args.places, arrays, wanted, strict=True):
        k, h = leaves[place]
        if want and k >= len(found):
            raise NBGradError(_MISSING.format(name=name, k=k))
        results.append(_cotangent(f"{name}: the cotangent of argument {k}", h, x) if want else None)
    return results


def _cotangent(what: str, h: Any, x: NDArray) -> NDArray:
    """`h` as an array like `x`."""
    if h is None:
        return _zeros(x)
    if not isinstance(h, NDArray):
        values = np.asarray(h) if isinstance(h, np.ndarray | np.generic | float | int) else None
        if values is None or values.dtype.kind not in "fiub":
            raise DTypeError(f"{what} must be an array of real numbers, a number or None, got {_said(h)}")
        h = values
    if h.shape != x._shape:
        raise ShapeError(f"{what} has shape {h.shape}, the argument has shape {x._shape}")
    if isinstance(h, NDArray):
        return h if h._kind is x._kind else cast(h, x._kind)
    return from_value(h, like=x._kind, dtype=x._kind.dtype)


def _zeros(x: NDArray) -> NDArray:
    return wrap(x._kind.zeros(size(x._shape)), x._shape, x._kind)
