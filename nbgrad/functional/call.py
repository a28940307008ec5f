"""One recorded call of a function, and reverse sweeps over its recording only.

The arguments to differentiate by are replaced by *variables*: arrays on the same memory with their own nodes on the
tape. This separates nested derivatives: the variable of an inner derivative has another node than that of the outer
one, and is connected to it by a recorded operation. If the call depends on anything recorded outside of it (it is
*open*), its derivatives are recorded, too; if not, its recording ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, from_value, wrap, zeros
from ..arrays.sharing import alias, on_memory
from ..autodiff import tape, tracing
from ..autodiff.constants import constant
from ..autodiff.state import state
from ..backends.numba.compile import is_nopython
from ..core import context, dtypes
from ..core.conventions import EITHER, MXNET, Conventions
from ..core.single_element import Single
from ..errors import AttrError, DTypeError, RangeError, ShapeError
from ..kernels.shape import reshape
from ..operators.cast import cast
from .checkpoint import recording_inputs
from .pytrees import flatten, flatten_like, leaf_path, map_leaves

__all__ = ["Argnums", "Call", "as_array_like", "checked", "conventions_of", "ones_like", "sweep", "zeros"]

Argnums = int | tuple[int, ...]


def checked(name: str, function: Callable, argnums) -> Argnums:
    """`argnums` as an int or a tuple of ints; checks both arguments of the transform `name`."""
    if not callable(function):
        raise DTypeError(f"{name}: a function is needed, got {function!r}; write {name}(f)(x), not {name}(f(x))")
    if is_nopython(function):
        own = getattr(function, "__name__", "f")
        raise DTypeError(
            f"{name}: {own} is compiled by numba.njit, and what compiled code does to NumPy arrays is not recorded; "
            f"nb.adjoint({own}) differentiates it, and nb.primitive({own}) makes it an operation for {name}"
        )
    if isinstance(argnums, int | np.integer) and not isinstance(argnums, bool):
        return int(argnums)
    if isinstance(argnums, list | tuple) and argnums and all(isinstance(k, int | np.integer) for k in argnums):
        return tuple(map(int, argnums))
    raise DTypeError(f"{name}: argnums must be an int or a tuple of ints, got {argnums!r}")


def _places(name: str, argnums: Argnums, count: int) -> list[int]:
    """The positions that `argnums` selects among `count` arguments."""
    if isinstance(argnums, int):
        if 0 <= argnums < count:
            return [argnums]
        argnums = (argnums,)
    positions = [k + count if k < 0 else k for k in argnums]
    for k, position in zip(argnums, positions, strict=True):
        if not 0 <= position < count:
            raise RangeError(
                f"{name}: argnums {k} is out of range: {count} positional argument(s) given; "
                "keyword arguments are not differentiated"
            )
    if len(set(positions)) < len(positions):
        raise AttrError(f"{name}: argnums {argnums} names an argument twice")
    return positions


# Conversions of results to the types of the arguments.


def _keep_ndarray(x: NDArray) -> NDArray:
    return x


def _numpy(x: NDArray) -> np.ndarray:
    return x._view().view(Single) if x._buf.size == 1 and x._shape else x._view()


def _scalar(x: NDArray):
    """A 0-d array as a NumPy scalar."""
    return _numpy(x) if x._shape else x._view()[()]


def _number(x: NDArray):
    """A 0-d array as a Python number."""
    return _numpy(x) if x._shape else x.item()


def conventions_of(leaves: Iterable) -> Conventions:
    """The conventions of arrays that replace NumPy's and numbers: those of nd beside arrays of nd."""
    for x in leaves:
        if isinstance(x, NDArray) and x._kind.conventions is MXNET:
            return MXNET
    return EITHER


def _borrow_numpy(values: np.ndarray, keep: bool, conventions: Conventions) -> NDArray:
    """An array with these values: a copy if `keep` or if necessary, else on the same memory."""
    flags = values.flags
    plain = type(values) is np.ndarray and values.dtype.isnative
    if keep or not (plain and flags.c_contiguous and flags.aligned and flags.writeable):
        return from_value(values, conventions=conventions)
    kind = kind_of(dtypes.as_dtype(values.dtype), context.current_context(), conventions)
    return on_memory(values, kind)


def _argument(value: Any, keep: bool, conventions: Conventions) -> Any:
    """An argument that is not differentiated, as the function gets it: NumPy arrays become arrays of ours."""
    if isinstance(value, np.ndarray) and value.dtype in _SUPPORTED:
        return _borrow_numpy(value, keep, conventions)
    return value


_SUPPORTED = {d.np for d in dtypes.ALL}
_FLOATS = {d.np for d in dtypes.FLOATS}
_LEAVES = (NDArray, np.ndarray, float)
_PLAIN = {NDArray, int, float, bool, str, type(None)}


def _said(leaf: Any) -> str:
    """A description of a leaf that is not a float, and what to do, for error messages."""
    if dtypes.convertible(leaf):
        return f"{dtypes.describe_argument(leaf)} is no NumPy array; use x.to_numpy()"
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:
        instead = "give a float, or an array of floats"
        if isinstance(leaf, complex):
            instead = "write real and imaginary parts apart"
        if isinstance(leaf, int) and not isinstance(leaf, bool):
            instead = f"write {float(leaf)!r}" if abs(leaf) < 1 << 53 else "write it as a float"
        return f"{type(leaf).__name__} {leaf!r} is no float; {instead}"
    what = f"{type(leaf).__name__} of dtype {getattr(dtype, '__name__', dtype)}"
    if not isinstance(leaf, NDArray) and dtype.kind == "c":
        return f"{what}; write real and imaginary parts apart"
    instead = "write float(...) of it" if isinstance(leaf, np.generic) else "use astype('float64')"
    return f"{what}; {instead}"


def _shown(result: Any) -> str:
    """A short description of a result, which may be traced, for error messages."""
    if isinstance(result, NDArray):
        return f"an NDArray of shape {result._shape}"
    if isinstance(result, tuple | list):
        return f"a {type(result).__name__} of {len(result)}"
    return f"a dict of {len(result)}" if isinstance(result, dict) else dtypes.describe_argument(result)


_NEUTRAL = {np.ndarray, int, float, bool, str, type(None)}


def _of_arguments(args: Sequence, kwargs: dict) -> Conventions:
    """The common conventions of the arrays anywhere in these arguments."""
    trees = [x for x in (*args, *kwargs.values()) if type(x) not in _NEUTRAL]
    if not trees:
        return EITHER
    leaves: list = []
    flatten(trees, leaves)
    return conventions_of(leaves)


class Call:
    """A recorded call of `function`, with variables in place of the arguments to differentiate by.

    Parameters
    ----------
    name : str
        The transform, for error messages.
    function : callable
    argnums : int or tuple of int
    args, kwargs
        Its arguments.
    has_aux : bool
        The function returns a pair, of which the second is passed on.
    keep : bool
        The recording will be used after the arguments may have changed: NumPy arrays are copied.

    Attributes
    ----------
    result, aux
        The results of the function.
    conventions : Conventions
        Those of the arrays that the function gets for NumPy arrays and numbers.
    variables : dict
        Their nodes (the keys), for sweeps.
    floor : int
        The sequence number at which the recording starts.
    open : bool
        Whether the results depend on something recorded outside.
    """

    __slots__ = (
        "_builders",
        "_converters",
        "_many",
        "aux",
        "conventions",
        "floor",
        "name",
        "open",
        "result",
        "variables",
    )

    def __init__(
        self,
        name: str,
        function: Callable,
        argnums: Argnums,
        args: Sequence,
        kwargs: dict,
        has_aux: bool = False,
        keep: bool = False,
    ) -> None:
        self.name = name
        self.variables: dict = {}
        self._converters: list[Callable] = []
        self._builders: list[Callable] = []
        self._many = not isinstance(argnums, int)
        outside = state.recording
        keep = keep or outside
        positions = _places(name, argnums, len(args))
        self.conventions = _of_arguments(args, kwargs)
        new = list(args)
        for k, value in enumerate(args):
            if k not in positions and type(value) not in _PLAIN:
                new[k] = map_leaves(value, lambda v: _argument(v, keep, self.conventions))
        for k in positions:
            new[k] = self._open(k, args[k], keep)
        if kwargs:
            kwargs = map_leaves(kwargs, lambda v: _argument(v, keep, self.conventions))
        self.floor = tape.next_seq()
        state.recording = True
        try:
            result = function(*new, **kwargs)
        finally:
            state.recording = outside
        self.aux = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise DTypeError(
                    f"{name}: with has_aux=True the function must give a pair (y, aux), got {_shown(result)}"
                )
            result, self.aux = result
        self.result = result
        self.open = outside and self._is_open()

    def __reduce__(self):
        raise TypeError(
            f"what {self.name} gave keeps a record of its call, which belongs to this process and cannot be pickled; "
            f"pickle the function and its arguments, and call {self.name} where they arrive"
        )

    def _open(self, position: int, argument: Any, keep: bool) -> Any:
        """`argument` with variables in place of its leaves."""
        if isinstance(argument, _LEAVES):
            self._builders.append(next)
            return self._variable(position, argument, 0, argument, keep)
        leaves: list = []
        build = flatten(argument, leaves)
        self._builders.append(build)
        return build(iter([self._variable(position, argument, k, leaf, keep) for k, leaf in enumerate(leaves)]))

    def _variable(self, position: int, argument: Any, number: int, leaf: Any, keep: bool) -> NDArray:
        if isinstance(leaf, NDArray):
            give: Callable = tracing.mark_weak if tracing.is_weak(leaf) else _keep_ndarray
            source = leaf if leaf._kind.dtype.is_float else None
        elif isinstance(leaf, np.ndarray):
            give = _numpy
            source = (
                _borrow_numpy(leaf, keep, self.conventions)
                if leaf.dtype in _FLOATS or leaf.dtype.newbyteorder("=") in _FLOATS
                else None
            )
        elif isinstance(leaf, float | np.floating):  # numpy.float64 is both
            give = _scalar if isinstance(leaf, np.generic) else _number
            value = np.asarray(leaf)
            source = _borrow_numpy(value, False, self.conventions) if value.dtype in _FLOATS else None
        else:
            source = None
        if source is None:
            raise DTypeError(
                f"{self.name}: argument {position}{leaf_path(argument, number)} cannot be differentiated by: "
                f"{_said(leaf)}, or leave it out of argnums"
            )
        if (
            tracing.current.graph is not None
        ):  # results computed from an outside array would not be on this graph's tape
            (source,) = tracing.capture_outside([source])
            give = tracing.mark_weak if give in (tracing.mark_weak, _number) else _keep_ndarray
        self._converters.append(give)
        if state.recording and source._node is not None:
            variable = reshape(source, source._shape)
        else:
            variable = constant(source, ())
        self.variables[variable._node] = 0  # 0: it need not be reached; its derivative is then zero
        return variable

    def _is_open(self) -> bool:
        leaves: list = []
        flatten((self.result, self.aux), leaves)
        ends, _ = recording_inputs(
            [x._node for x in leaves if isinstance(x, NDArray) and x._node is not None], self.floor
        )
        return any(e not in self.variables or e.parents for e in ends)

    # Results of the function.

    def array(self, y: Any, number: int = 0) -> NDArray:
        """Leaf `number` of the result, `y`, after checking that it is an array of floats."""
        if isinstance(y, NDArray) and y._kind.dtype.is_float:
            return y
        location = "" if y is self.result else f" at {leaf_path(self.result, number)}"
        if not isinstance(y, NDArray):
            raise DTypeError(
                f"{self.name}: the function must give an NDArray{location}, got {_shown(y)}; float(), "
                "asscalar() and asnumpy() leave the record; a constant can be given as nd.array(...)"
            )
        raise DTypeError(
            f"{self.name}: the function's result{location} has dtype {y._kind.dtype}, which has no derivative; use "
            "astype('float64') if its derivative is meant to be zero"
        )

    def scalar(self) -> NDArray:
        """The result, after checking that it has one element."""
        y = self.array(self.result)
        if y._buf.size != 1:
            raise ShapeError(
                f"{self.name}: the function must give a scalar (one element), its result has shape {y._shape}; use "
                "jacobian, or elementwise_grad for a function that works element by element"
            )
        return y

    def arrays(self) -> tuple[list[NDArray], Callable]:
        """The leaves of the result, and a function that builds such a tree from an iterator."""
        leaves: list = []
        build = flatten(self.result, leaves)
        if not leaves:
            self.array(self.result)
        return [self.array(y, k) for k, y in enumerate(leaves)], build

    # Conversion.

    def gradients(self, found: Iterable[NDArray | None], recorded: bool) -> Any:
        """Cotangents of the variables in the form of the arguments; None becomes zero."""
        filled = [zeros(v.shape, v.kind) if g is None else g for v, g in zip(self.variables, found, strict=True)]
        return self.in_form(filled if recorded else [give(g) for give, g in zip(self._converters, filled, strict=True)])

    def in_form(self, parts: Iterable) -> Any:
        """One part per variable, in the form of the arguments."""
        source = iter(parts)
        trees = tuple([build(source) for build in self._builders])
        return trees if self._many else trees[0]

    def block(self, k: int, x: NDArray) -> Any:
        """A block of a derivative with respect to variable `k`, in the type of that argument."""
        return x if self.open else self._converters[k](x)

    def value(self, y: Any) -> Any:
        """A tree of results, converted to the arguments' type: NDArrays if any is one, else NumPy arrays or scalars."""
        if self.open:
            return y
        if _keep_ndarray in self._converters or tracing.mark_weak in self._converters:
            return map_leaves(y, self._detached)
        give = _number if all(g is _number for g in self._converters) else _scalar
        return map_leaves(y, lambda x: give(from_value(x)) if isinstance(x, NDArray) else x)

    def scalar_value(self, y: NDArray) -> Any:
        """The same for a result of one element, which becomes a scalar whatever its shape."""
        if y._kind.traced and tracing.current.numbers:
            return reshape(y, ())
        if self.open or _keep_ndarray in self._converters:
            return self.value(y)
        return y.item() if all(g is _number for g in self._converters) else y.asscalar()

    def _detached(self, x: Any) -> Any:
        """`x` without its node, if that belongs to this recording."""
        node = getattr(x, "_node", None)
        if node is None or (node not in self.variables and (type(node) is tape.Leaf or node.seq < self.floor)):
            return x
        return alias(x, x._buf, x._shape)

    def leaves_like_arguments(self, arguments: Any, given: Any, name: str) -> list[NDArray]:
        """The leaves of a tree in the form of the differentiated arguments, as arrays, one per variable."""
        pairs = flatten_like(arguments, given, name)
        return [as_array_like(v, t, name + path) for v, (_, t, path) in zip(self.variables, pairs, strict=True)]


def as_array_like(target: Any, given: Any, name: str) -> NDArray:
    """`given` as an array with the shape and kind of `target` (an array, node or leaf)."""
    kind = target._kind if isinstance(target, NDArray) else target.kind
    shape = target._shape if isinstance(target, NDArray) else target.shape
    if isinstance(given, NDArray):
        x = given
    elif isinstance(given, np.ndarray | np.generic | float | int):
        x = from_value(given, like=kind, dtype=kind.dtype)
    else:
        raise DTypeError(f"{name}: an array or a number is needed, got {given!r}")
    if x._shape != shape:
        raise ShapeError(f"{name}: the shape must be {shape}, got {x._shape}")
    return x if x._kind is kind else cast(x, kind)


def ones_like(x: NDArray) -> NDArray:
    """An array of ones that is not on the tape."""
    return wrap(tape.ones_raw(x._kind, x._buf.size), x._shape, x._kind)


def sweep(
    heads: Iterable[tuple[NDArray | None, NDArray | None]], targets: dict, floor: int, recorded: bool, retain: bool
) -> list[NDArray | None]:
    """The cotangents of `targets`, None where they are zero.

    Parameters
    ----------
    heads : iterable of pairs
        Arrays and their cotangents (None: ones). Arrays that are not on the tape are skipped.
    targets : dict
        Nodes and leaves (the keys).
    floor : int
        Nodes with lower sequence numbers are not entered.
    recorded : bool
        Record the sweep.
    retain : bool
        Retain the graph for another sweep.
    """
    recorded_heads = [(y, g) for y, g in heads if y is not None and y._node is not None]
    if not recorded_heads:
        return [None] * len(targets)
    if recorded or recorded_heads[0][0]._kind.traced:
        seeds = [(y._node, ones_like(y) if g is None else g) for y, g in recorded_heads]
        cotangents = tape.sweep_recorded(seeds, True, targets, floor)
        arrays = [cotangents.get(t) for t in targets]
        if state.recording:  # the user's arrays must not be shared
            used = {id(g._buf) for _, g in seeds}
            for k, x in enumerate(arrays):
                if x is not None:
                    arrays[k] = cast(x, x._kind) if id(x._buf) in used else x
                    used.add(id(x._buf))
        return arrays
    raw, borrowed = tape.sweep_raw([(y._node, tape.head_raw(y, g)) for y, g in recorded_heads], retain, targets, floor)
    results: list[NDArray | None] = []
    for t in targets:
        buf = raw.get(t)
        if buf is None:
            results.append(None)
        else:
            results.append(wrap(buf.copy() if t in borrowed else buf, t.shape, t.kind))
    return results
