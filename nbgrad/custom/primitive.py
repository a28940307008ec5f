"""``nbgrad.primitive``: functions of NumPy arrays, compiled by Numba or not, as differentiable operations."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray, from_value, wrap, zeros
from ..autodiff import tape, tracing
from ..autodiff.differentiability import limit_order
from ..autodiff.observers import notify_observer, observers
from ..autodiff.state import state
from ..backends.numba.compile import is_nopython
from ..compiler import opaque
from ..core.context import CPU0
from ..core.pickling import Derived
from ..errors import AttrError, DTypeError, NBGradError, ShapeError
from ..functional.pytrees import flatten, flatten_like
from ..loops.differentiable_operator import LoopOperator, OperatorVariant, without_constants
from ..operators.cast import cast
from .primitive_call import MISSING, PrimitiveCall, described_briefly, listed, results_of

__all__ = ["Primitive", "primitive"]


def primitive(
    forward: Callable | None = None, vjp: Callable | None = None, *, infer: Callable | None = None
) -> Callable:
    """Turn a function of NumPy arrays, compiled by ``numba.njit`` or not, into an operation with your own derivative.

    Parameters
    ----------
    forward : callable
        ``forward(x, y, ...)`` returns an array, a number, or a tuple of these. It gets C-contiguous NumPy arrays,
        NumPy scalars for 0-d arrays, and all other arguments unchanged; it must not write into its arguments, which may
        also be tuples and lists of arrays.
    vjp : callable, optional
        ``vjp(g, result, x, y, ...)``, where `g` has the form of the result, returns the cotangents of the arguments
        (those of keyword-only parameters last): the products of `g` with the Jacobians, each in the form of its
        argument. There is one per argument (a single one need not be in a tuple), None for zero; those of arguments
        that are neither arrays nor floats are ignored, and may be omitted at the end. It can be set later by
        ``defvjp``. Without one, a function with plain loops, in the subset of :func:`nbgrad.adjoint`, has the
        derivatives of its adjoint, of any order. Numba compiles it, and it may write into its arguments: copies of them
        are written, and returned after the results.
    infer : callable, optional
        ``infer(x, y, ...)`` returns shapes and dtypes of the results where values are not known, in functions that
        ``nbgrad.jit`` compiles: for each result an argument of the same shape and dtype, or ``(shape, dtype)``. Without
        it, tracing calls `forward` on sample values (0.5, 1 on the diagonal of square matrices, integers 0).

    Returns
    -------
    callable
        Takes the arguments of `forward`, with NDArrays for arrays. It returns NDArrays if an argument is one, and else
        the result of `forward`. In compiled functions it is an opaque step, which is machine code in those of ``njit``,
        if Numba compiled `forward` and `vjp`. Its gradient can be differentiated if `vjp` is a primitive with a `vjp`.

    Raises
    ------
    DTypeError
        If `forward` is not a function, or returns anything but arrays and numbers; for arrays of float16, if Numba
        compiled it.
    NBGradError, ShapeError
        In the reverse sweep, if `vjp` returns a wrong number of cotangents, or one of another shape than its argument.

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


class Primitive(Derived):
    """The result of :func:`primitive`."""

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
        self._loops: LoopOperator | None = None
        self._variants: dict[tuple, OperatorVariant | str] = {}
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
        current, count = self, 0
        seen = set()
        while isinstance(current.vjp, Primitive):
            if current in seen:
                return np.inf
            seen.add(current)
            current, count = current.vjp, count + 1
        if current.vjp is None:
            return count if current._current_loops().refusal_reason else np.inf
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
            call = call.with_arrays(tracing.capture_outside(call.arrays))
            several, results = self._traced(call)
        else:
            ctx, conventions = call.arrays[0]._kind.ctx, call.conventions()
            output = call.run(call.arrays)
            results = results_of(self.name, output, ctx, conventions)
            several = opaque.sequence_type(output)
        if state.recording and any(x._node is not None for x in call.arrays):
            self._record(call, several, results)
        if observers:
            notify_observer(self.name, call.arrays, results)
        return results[0] if several is None else several(results)

    def _in_order(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """The arguments of a call, with defaults; those of keyword-only parameters are last."""
        bound = inspect.signature(self.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        if other := set(bound.kwargs).difference(self._named):
            raise AttrError(f"{self.name}: there is no parameter for {', '.join(sorted(other))}; give it one for each")
        return *bound.args, *bound.kwargs.values()

    def _current_loops(self) -> LoopOperator:
        """The loops of `forward`, read again if it has changed."""
        if self._loops is None or self._loops.stale:
            self._loops, self._variants = LoopOperator(self.forward), {}
        return self._loops

    def _call(self, args: tuple) -> PrimitiveCall:
        """The call; without a `vjp`, of the variant that :mod:`..loops` compiles, if it can."""
        if self.vjp is None:
            args = self._current_loops().completed(args)
        call = PrimitiveCall(self._plain, self.name, args)
        if self.vjp is None and call.arrays:
            key = tuple([_kind(x) for x in args])
            if key not in self._variants:
                self._variants[key] = self._current_loops().variant([_described(x) for x in args])
            derived = self._variants[key]
            if isinstance(derived, OperatorVariant):
                call = PrimitiveCall(derived.function, self.name, without_constants(args))
            call.derived = derived
        return call

    def _traced(self, call: PrimitiveCall) -> tuple[type | None, list[NDArray]]:
        """Append the call to the traced program; returns tuple or list if the results are in one, and the results."""
        conventions = call.conventions()
        if self.infer is None:
            output = opaque.run_on_samples(self.name, lambda: call.run([opaque.sample(x) for x in call.arrays]))
            several = opaque.sequence_type(output)
            avals = [opaque.aval_of(y) for y in results_of(self.name, output, CPU0, conventions)]
        else:
            several, avals = opaque.declared_results(self.name, self.infer(*call.args(call.arrays)), call.arrays)

        def run(operands: list[NDArray], results: list[NDArray]) -> None:
            computed = results_of(self.name, call.run(operands), CPU0, conventions)
            opaque.store_results(self.name, computed, results)

        paths: list = [()] if several is None else [(k,) for k in range(len(avals))]
        return several, opaque.saved_opaque_step(self.name, run, call.arrays, avals, call.native(avals, paths))

    def _record(self, call: PrimitiveCall, several: type | None, results: list[NDArray]) -> None:
        parents = tuple(map(tape.parent, call.arrays))
        saved = tape.save([*call.arrays, *results])
        avals = [(x._shape, x._kind) for x in (*call.arrays, *results)]
        attrs = call.without_arrays(), several, avals
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


class _Rule(tape.Rule):
    """The tape's rule for calls of a primitive."""

    def __init__(self, primitive: Primitive) -> None:
        self.primitive = primitive
        self.name = primitive.name
        limit_order(self, lambda node: np.inf if primitive.vjp is None else primitive.order)

    def grads(self, node, g, useful):
        function = self.primitive.vjp
        args, several, avals = node.attrs
        if function is None and not isinstance(args.derived, OperatorVariant):
            raise NBGradError(
                f"{self.name}: it has no derivative; give one, primitive(forward, vjp), or decorate a function with "
                f"@{self.name}.defvjp. None can be written for it: {args.derived}"
            )
        name = f"{self.name}.vjp"
        arrays, results = _saved(node, args, avals)
        gs = [
            zeros(y._shape, y._kind) if h is None else h
            for h, y in zip(g if isinstance(g, list) else [g], results, strict=True)
        ]
        wanted = [tape.cotangent_wanted(p, useful) for p in node.parents]
        if function is None:
            return _derived(args, gs, arrays, wanted)
        heads, ys = (gs[0], results[0]) if several is None else (several(gs), several(results))
        if self.primitive._named and not isinstance(function, Primitive):
            function = _positional(function)
        call = PrimitiveCall(function, name, (heads, ys, *args.args(arrays)))
        if isinstance(function, Primitive):
            return _cotangents(name, function(*call.args(call.arrays)), args, arrays, wanted)
        if not any(x._kind.traced for x in call.arrays):
            return _cotangents(name, call.run(call.arrays), args, arrays, wanted)
        chosen = [k for k, want in enumerate(wanted) if want]
        avals = [opaque.aval_of(arrays[k]) for k in chosen]
        real = [wrap(None, x._shape, x._kind.on(CPU0)) for x in arrays]
        call = PrimitiveCall(function, name, call.args(tracing.capture_outside(call.arrays)))

        def run(operands: list[NDArray], outs: list[NDArray]) -> None:
            found = _cotangents(name, call.run(operands), args, real, wanted)
            opaque.store_results(name, [h for h in found if h is not None], outs)

        paths = args.paths()
        native = call.native(avals, [paths.get(args.places[k], ()) for k in chosen])
        computed = iter(opaque.opaque_step(name, run, call.arrays, avals, native))
        return opaque.without_derivatives(self.name, [next(computed) if want else None for want in wanted], node, gs)


def _keyword_only(function: Callable) -> tuple[str, ...]:
    """The keyword-only parameters."""
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        return ()  # those of NumPy's functions are not meant
    return tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY)


def _positional(function: Callable) -> Callable:
    """`function` with its keyword-only parameters as the last positional ones."""
    if not (names := _keyword_only(function)):
        return function
    return lambda *args: function(*args[: -len(names)], **dict(zip(names, args[-len(names) :], strict=True)))


def _kind(x: Any) -> Any:
    """The properties of an argument that :meth:`.LoopOperator.variant` depends on."""
    if isinstance(x, NDArray):
        return len(x._shape), x._kind.dtype
    return (x.ndim, x.dtype) if isinstance(x, np.ndarray) else x if isinstance(x, str) else type(x)


def _described(x: Any) -> Any:
    """A stand-in for an argument with its rank and dtype, for :class:`.LoopOperator`."""
    if not isinstance(x, NDArray):
        return x
    return np.empty((0,) * len(x._shape), x._kind.dtype.np) if x._shape else x._kind.dtype.np.type(0)


def _derived(
    args: PrimitiveCall, gs: Sequence[NDArray], arrays: Sequence[NDArray], wanted: Sequence[bool]
) -> list[NDArray | None]:
    """The cotangents of the arguments by the generated adjoint."""
    assert isinstance(args.derived, OperatorVariant)
    indices = [k for k, want in zip(args.places, wanted, strict=True) if want]
    pull, outputs = args.derived.pullback(tuple(indices), primitive)
    cotangents = iter(listed(pull(*[gs[k] for k in outputs], *args.args(arrays))))
    name = f"{args.name}.vjp"
    return [_cotangent(name, next(cotangents), x) if want else None for x, want in zip(arrays, wanted, strict=True)]


def _saved(node, args: PrimitiveCall, avals: Sequence) -> tuple[list[NDArray], list[NDArray]]:
    """The array arguments and the results of a recorded call, with their tape nodes."""
    tape_nodes = [None if type(p) is list else p for p in node.parents]
    if isinstance(node.kind, tuple):
        tape_nodes += [tape.select(node, k) if kind.dtype.is_float else None for k, kind in enumerate(node.kind)]
    else:
        tape_nodes.append(node)
    arrays = []
    for buf, cell, (shape, kind), tape_node in zip(node.saved[::3], node.saved[1::3], avals, tape_nodes, strict=True):
        x = wrap(buf, shape, kind, tape_node)
        x._cell = cell
        arrays.append(x)
    count = len(args.places)
    return arrays[:count], arrays[count:]


def _cotangents(
    name: str, output: Any, args: PrimitiveCall, arrays: Sequence[NDArray], wanted: Sequence[bool]
) -> list[NDArray | None]:
    """The checked cotangents that `vjp` returned, for the wanted arrays; None for others."""
    arguments = args.args(arrays)
    output = listed(output)
    if len(output) > len(arguments):
        raise NBGradError(f"{name}: it gave {len(output)} cotangents, but there are {len(arguments)} argument(s)")
    leaves: list = []
    for k, argument in enumerate(arguments):
        if k < len(output) and output[k] is not None:
            leaves += [(k, h) for _, h, _ in flatten_like(argument, output[k], f"{name}: cotangent {k}")]
        else:
            inside: list = []
            flatten(argument, inside)
            leaves += [(k, None)] * len(inside)
    results: list[NDArray | None] = []
    for index, x, want in zip(args.places, arrays, wanted, strict=True):
        k, h = leaves[index]
        if want and k >= len(output):
            raise NBGradError(MISSING.format(name=name, k=k))
        results.append(_cotangent(f"{name}: the cotangent of argument {k}", h, x) if want else None)
    return results


def _cotangent(what: str, h: Any, x: NDArray) -> NDArray:
    """`h` as an array like `x`."""
    if h is None:
        return zeros(x._shape, x._kind)
    if not isinstance(h, NDArray):
        values = np.asarray(h) if isinstance(h, np.ndarray | np.generic | float | int) else None
        if values is None or values.dtype.kind not in "fiub":
            raise DTypeError(f"{what} must be an array of real numbers, a number or None, got {described_briefly(h)}")
        h = values
    if h.shape != x._shape:
        raise ShapeError(f"{what} has shape {h.shape}, the argument has shape {x._shape}")
    if isinstance(h, NDArray):
        return h if h._kind is x._kind else cast(h, x._kind)
    return from_value(h, like=x._kind, dtype=x._kind.dtype)
