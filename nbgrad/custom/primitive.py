"""``nbgrad.primitive``: functions of NumPy arrays, compiled by Numba or not, as differentiable operations."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray, from_value, wrap, zeros
from ..autodiff import tape, tracing
from ..autodiff.differentiability import limit_order
from ..autodiff.observers import notify_observer, observers
from ..autodiff.state import state
from ..backends.numba.compile import is_nopython
from ..backends.numba.result_types import result_form
from ..compiler import opaque
from ..core.context import CPU0, Context
from ..core.conventions import MXNET, Conventions
from ..core.dtypes import require_readable
from ..core.pickling import Derived
from ..core.shapes import Shape, size
from ..core.source_text import constant_source
from ..errors import AttrError, DTypeError, NBGradError, ShapeError
from ..functional.pytrees import flatten, flatten_like
from ..loops.differentiable_operator import LoopOperator, OperatorVariant, without_constants
from ..operators.cast import cast

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
            output, kind = call.run(call.arrays), call.arrays[0]._kind
            results = _results(self.name, output, kind.ctx, kind.conventions)
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

    def _call(self, args: tuple) -> _Call:
        """The call; without a `vjp`, of the variant that :mod:`..loops` compiles, if it can."""
        if self.vjp is None:
            args = self._current_loops().completed(args)
        call = _Call(self._plain, self.name, args)
        if self.vjp is None and call.arrays:
            key = tuple([_kind(x) for x in args])
            if key not in self._variants:
                self._variants[key] = self._current_loops().variant([_described(x) for x in args])
            derived = self._variants[key]
            if isinstance(derived, OperatorVariant):
                call = _Call(derived.function, self.name, without_constants(args))
            call.derived = derived
        return call

    def _traced(self, call: _Call) -> tuple[type | None, list[NDArray]]:
        """Append the call to the traced program; returns tuple or list if the results are in one, and the results."""
        if self.infer is None:
            output = opaque.run_on_samples(self.name, lambda: call.run([opaque.sample(x) for x in call.arrays]))
            several = opaque.sequence_type(output)
            avals = [(y._shape, y._kind.dtype) for y in _results(self.name, output, CPU0)]
        else:
            several, avals = opaque.declared_results(self.name, self.infer(*call.args(call.arrays)))

        def run(operands: list[NDArray], results: list[NDArray]) -> None:
            opaque.store_results(self.name, _results(self.name, call.run(operands), CPU0), results)

        paths: list = [()] if several is None else [(k,) for k in range(len(avals))]
        return several, opaque.saved_opaque_step(self.name, run, call.arrays, avals, call.native(avals, paths))

    def _record(self, call: _Call, several: type | None, results: list[NDArray]) -> None:
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


class _Call:
    """A call of a function with nested arguments; `places` are the indices of leaves that are arrays."""

    def __init__(self, function: Callable, name: str, args: tuple) -> None:
        self.function = function
        self.name = name
        self.leaves: list = []
        self.build: Callable[[Iterator], tuple] = flatten(args, self.leaves)
        if is_nopython(function):
            require_readable(name, self.leaves)
        self.places = [k for k, x in enumerate(self.leaves) if isinstance(x, NDArray)]
        self.arrays: list[NDArray] = [self.leaves[k] for k in self.places]
        self.derived: OperatorVariant | str = ""  # or the reason why there is none

    def args(self, arrays: Sequence[Any]) -> tuple:
        """The arguments with the arrays replaced."""
        return self.build(iter(self.with_arrays(arrays).leaves))

    def with_arrays(self, arrays: Sequence[Any]) -> _Call:
        """The same call with other arrays."""
        call = copy.copy(self)
        call.arrays, call.leaves = list(arrays), list(self.leaves)
        for k, x in zip(self.places, arrays, strict=True):
            call.leaves[k] = x
        return call

    def without_arrays(self) -> _Call:
        """The call without its arrays and with copies of NumPy arrays, to be saved on the tape."""
        call = copy.copy(self)
        call.arrays = []
        call.leaves = [x.copy() if isinstance(x, np.ndarray) else x for x in self.leaves]
        for k in self.places:
            call.leaves[k] = None
        return call

    def paths(self) -> dict[int, tuple[int, ...]]:
        """The path of each leaf in the arguments, through tuples and lists."""
        return dict(_paths(self.build(iter(range(len(self.leaves)))), ()))

    def run(self, arrays: Sequence[NDArray]) -> Any:
        """The function's result for these arrays."""
        with opaque.eager_cpu_scope(state.training):
            return self.function(*self.args([_value(x) for x in arrays]))

    def native(self, results: Sequence[opaque.Aval], paths: Sequence[tuple[int, ...]]) -> Callable | None:
        """A generator of code for the call in a nopython function, if possible; see :class:`.opaque.Opaque`.

        `paths`: the path of each result in the return value.
        """
        if not is_nopython(self.function) or len(self.paths()) < len(self.leaves):
            return None

        def native(operands: list[str], names: list[str], prefix: str) -> tuple[list[str], dict[str, Any]]:
            used = {f"{prefix}_{k}": x for k, x in enumerate(self.leaves) if k not in self.places}
            leaves = [f"{prefix}_{k}" for k in range(len(self.leaves))]
            for k, flat, x in zip(self.places, operands, self.arrays, strict=True):
                leaves[k] = f"{flat}.reshape({x._shape})" if x._shape else f"{flat}[0]"
            lines = [f"{prefix} = {prefix}_call{_code(self.build(iter(leaves)))}"]
            form = result_form(self.function, self.args([_value(opaque.sample(x)) for x in self.arrays]))
            for name, (shape, _), path in zip(names, results, paths, strict=True):
                lines += self._copy_result_code(prefix, form, path, name, shape)
            return lines, {f"{prefix}_call": self.function, **used}

        return native

    def _copy_result_code(self, code: str, form: Any, path: Sequence[int], name: str, shape: Shape) -> list[str]:
        """Code that copies the result at `path` of the expression `code` into the flat array `name`."""
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
        check = [f"if {wrong}:", f"    raise ValueError({constant_source(message)})"] if shape else []
        return [*check, f"{name}[:] = np.ascontiguousarray({code}).reshape({size(shape)})"]


def _code(tree: Any) -> str:
    """Code for a nested tuple of expressions."""
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
    """The argument that a function gets for an array: a NumPy view, or a scalar."""
    return x._view() if x._shape else x._view()[()]


def _listed(given: Any) -> list:
    return list(given) if isinstance(given, tuple | list) else [given]


def _results(name: str, given: Any, ctx: Context, conventions: Conventions = MXNET) -> list[NDArray]:
    """Copies of the results of `forward` as NDArrays."""
    arrays = []
    for k, y in enumerate(_listed(given)):
        values = np.asarray(y) if isinstance(y, np.ndarray | np.generic | float | int) else None
        if values is None or values.dtype.kind not in "fiub":
            what = f"{name}: result {k} must be an array of real numbers or a number"
            raise DTypeError(f"{what}, got {_described_briefly(y)}")
        try:
            arrays.append(from_value(values, ctx=ctx, conventions=conventions))
        except DTypeError as err:
            raise DTypeError(f"{name}: result {k}: {err}") from None
    return arrays


def _described_briefly(y: Any) -> str:
    return f"an array of dtype {y.dtype}" if isinstance(y, np.ndarray) else f"{y!r}"


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
        call = _Call(function, name, (heads, ys, *args.args(arrays)))
        if isinstance(function, Primitive):
            return _cotangents(name, function(*call.args(call.arrays)), args, arrays, wanted)
        if not any(x._kind.traced for x in call.arrays):
            return _cotangents(name, call.run(call.arrays), args, arrays, wanted)
        chosen = [k for k, want in enumerate(wanted) if want]
        avals = [(arrays[k]._shape, arrays[k]._kind.dtype) for k in chosen]
        real = [wrap(None, x._shape, x._kind.on(CPU0)) for x in arrays]
        call = _Call(function, name, call.args(tracing.capture_outside(call.arrays)))

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
    args: _Call, gs: Sequence[NDArray], arrays: Sequence[NDArray], wanted: Sequence[bool]
) -> list[NDArray | None]:
    """The cotangents of the arguments by the generated adjoint."""
    assert isinstance(args.derived, OperatorVariant)
    indices = [k for k, want in zip(args.places, wanted, strict=True) if want]
    pull, outputs = args.derived.pullback(tuple(indices), primitive)
    cotangents = iter(_listed(pull(*[gs[k] for k in outputs], *args.args(arrays))))
    name = f"{args.name}.vjp"
    return [_cotangent(name, next(cotangents), x) if want else None for x, want in zip(arrays, wanted, strict=True)]


def _saved(node, args: _Call, avals: Sequence) -> tuple[list[NDArray], list[NDArray]]:
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


_MISSING = "{name}: there is no cotangent for argument {k}; one per argument is needed, None for zero"


def _cotangents(
    name: str, output: Any, args: _Call, arrays: Sequence[NDArray], wanted: Sequence[bool]
) -> list[NDArray | None]:
    """The checked cotangents that `vjp` returned, for the wanted arrays; None for others."""
    arguments = args.args(arrays)
    output = _listed(output)
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
            raise NBGradError(_MISSING.format(name=name, k=k))
        results.append(_cotangent(f"{name}: the cotangent of argument {k}", h, x) if want else None)
    return results


def _cotangent(what: str, h: Any, x: NDArray) -> NDArray:
    """`h` as an array like `x`."""
    if h is None:
        return zeros(x._shape, x._kind)
    if not isinstance(h, NDArray):
        values = np.asarray(h) if isinstance(h, np.ndarray | np.generic | float | int) else None
        if values is None or values.dtype.kind not in "fiub":
            raise DTypeError(f"{what} must be an array of real numbers, a number or None, got {_described_briefly(h)}")
        h = values
    if h.shape != x._shape:
        raise ShapeError(f"{what} has shape {h.shape}, the argument has shape {x._shape}")
    if isinstance(h, NDArray):
        return h if h._kind is x._kind else cast(h, x._kind)
    return from_value(h, like=x._kind, dtype=x._kind.dtype)
