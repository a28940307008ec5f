"""One recorded call of a function, and sweeps back over that record alone.

The arguments to differentiate by are replaced by *variables*: arrays on the same memory with a place of their own on
the tape. That is what keeps derivatives apart that are taken inside one another: a variable of an inner derivative is
another one than that of the outer derivative it was made from, and is joined to it by a recorded step. If the call
depends on anything that is recorded outside of it (it is *open*), its derivatives are recorded, too; if not, its record
ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..arrays.launch import Kind, kind_of
from ..arrays.ndarray import NDArray, alias, from_value, on_memory, wrap
from ..autodiff import tape, tracing
from ..autodiff.constants import constant
from ..autodiff.state import state
from ..backends.numba.compile import is_nopython
from ..core import context, dtypes
from ..core.shapes import size
from ..core.single_element import Single
from ..errors import AttrError, DTypeError, RangeError, ShapeError
from ..kernels.shape import reshape
from ..operators.cast import cast
from .checkpoint import ends_of
from .pytrees import changed, flatten, flatten_like, leaf_path

__all__ = ["Argnums", "Call", "checked", "like", "ones_like", "sweep", "zeros"]

Argnums = int | tuple[int, ...]


def checked(name: str, function: Callable, argnums) -> Argnums:
    """`argnums` as an int or a tuple of ints, after looking at both arguments of the transform `name`."""
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
    """The positions meant by `argnums` among `count` arguments."""
    if isinstance(argnums, int):
        if 0 <= argnums < count:
            return [argnums]
        argnums = (argnums,)
    places = [k + count if k < 0 else k for k in argnums]
    for k, place in zip(argnums, places, strict=True):
        if not 0 <= place < count:
            raise RangeError(
                f"{name}: argnums {k} is out of range: {count} positional argument(s) given; "
                "keyword arguments are not differentiated"
            )
    if len(set(places)) < len(places):
        raise AttrError(f"{name}: argnums {argnums} names an argument twice")
    return places


# How new arrays are given: like what came in.


def _same(x: NDArray) -> NDArray:
    return x


def _numpy(x: NDArray) -> np.ndarray:
    return x._view().view(Single) if x._buf.size == 1 and x._shape else x._view()


def _scalar(x: NDArray):
    """A 0-d array as a NumPy scalar."""
    return _numpy(x) if x._shape else x._view()[()]


def _number(x: NDArray):
    """A 0-d array as a Python number."""
    return _numpy(x) if x._shape else x.item()


def _lent(values: np.ndarray, keep: bool) -> NDArray:
    """An NDArray with these values: a copy if it is to be kept or has to be, else on the same memory."""
    flags = values.flags
    plain = type(values) is np.ndarray and values.dtype.isnative
    if keep or not (plain and flags.c_contiguous and flags.aligned and flags.writeable):
        return from_value(values)
    kind = kind_of(dtypes.as_dtype(values.dtype), context.current_context())
    return on_memory(values, kind)


def _argument(value: Any, keep: bool) -> Any:
    """What the function sees of an argument that is not differentiated: NDArrays in place of NumPy arrays."""
    if isinstance(value, np.ndarray) and value.dtype in _SUPPORTED:
        return _lent(value, keep)
    return value


_SUPPORTED = {d.np for d in dtypes.ALL}
_FLOATS = {d.np for d in dtypes.FLOATS}
_LEAVES = (NDArray, np.ndarray, float)
_PLAIN = {NDArray, int, float, bool, str, type(None)}


def _said(leaf: Any) -> str:
    """What is given instead of floats, and what to do."""
    if dtypes.convertible(leaf):
        return f"{dtypes.said(leaf)} is no NumPy array; use x.to_numpy()"
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
    """What a function gave, whose numbers there may not be yet."""
    if isinstance(result, NDArray):
        return f"an NDArray of shape {result._shape}"
    if isinstance(result, tuple | list):
        return f"a {type(result).__name__} of {len(result)}"
    return f"a dict of {len(result)}" if isinstance(result, dict) else dtypes.said(result)


class Call:
    """A call of `function`, recorded, with variables in place of the arguments to differentiate by.

    Parameters
    ----------
    name : str
        Of the transform, for errors.
    function : callable
    argnums : int or tuple of int
    args, kwargs
        Its arguments.
    has_aux : bool
        The function gives a pair, of which the second is handed on.
    keep : bool
        The record will be used after the arguments may have changed: NumPy arrays are copied.

    Attributes
    ----------
    result, aux
        What the function gave.
    variables : dict
        Their places on the tape (the keys), for sweeps.
    floor : int
        The number at which the record starts.
    open : bool
        Whether the results depend on something recorded outside.
    """

    __slots__ = ("_builders", "_givers", "_many", "aux", "floor", "name", "open", "result", "variables")

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
        self._givers: list[Callable] = []
        self._builders: list[Callable] = []
        self._many = not isinstance(argnums, int)
        outside = state.recording
        keep = keep or outside
        places = _places(name, argnums, len(args))
        new = list(args)
        for k, value in enumerate(args):
            if k not in places and type(value) not in _PLAIN:
                new[k] = changed(value, lambda v: _argument(v, keep))
        for k in places:
            new[k] = self._open(k, args[k], keep)
        if kwargs:
            kwargs = changed(kwargs, lambda v: _argument(v, keep))
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
            give: Callable = tracing.weak if tracing.is_weak(leaf) else _same
            source = leaf if leaf._kind.dtype.is_float else None
        elif isinstance(leaf, np.ndarray):
            give = _numpy
            source = _lent(leaf, keep) if leaf.dtype in _FLOATS or leaf.dtype.newbyteorder("=") in _FLOATS else None
        elif isinstance(leaf, float | np.floating):  # NumPy's float64 is both
            give = _scalar if isinstance(leaf, np.generic) else _number
            value = np.asarray(leaf)
            source = _lent(value, False) if value.dtype in _FLOATS else None
        else:
            source = None
        if source is None:
            raise DTypeError(
                f"{self.name}: argument {position}{leaf_path(argument, number)} cannot be differentiated by: "
                f"{_said(leaf)}, or leave it out of argnums"
            )
        if tracing.current.graph is not None:  # what is computed from an array of elsewhere would not be on its tape
            (source,) = tracing.lifted([source])
            give = tracing.weak if give in (tracing.weak, _number) else _same
        self._givers.append(give)
        if state.recording and source._node is not None:
            variable = reshape(source, source._shape)
        else:
            variable = constant(source, ())
        self.variables[variable._node] = 0  # it may be missed by a sweep: then its derivative is zero
        return variable

    def _is_open(self) -> bool:
        leaves: list = []
        flatten((self.result, self.aux), leaves)
        found, _ = ends_of([x._node for x in leaves if isinstance(x, NDArray) and x._node is not None], self.floor)
        return any(e not in self.variables or e.parents for e in found)

    # The function's results.

    def array(self, y: Any, number: int = 0) -> NDArray:
        """`y`, leaf number so-and-so of the result, after checking that it is an array of floating point numbers."""
        if isinstance(y, NDArray) and y._kind.dtype.is_float:
            return y
        place = "" if y is self.result else f" at {leaf_path(self.result, number)}"
        if not isinstance(y, NDArray):
            raise DTypeError(
                f"{self.name}: the function must give an NDArray{place}, got {_shown(y)}; float(), "
                "asscalar() and asnumpy() leave the record; a constant can be given as nd.array(...)"
            )
        raise DTypeError(
            f"{self.name}: the function's result{place} has dtype {y._kind.dtype}, which has no derivative; use "
            "astype('float64') if its derivative is meant to be zero"
        )

    def scalar(self) -> NDArray:
        """The result, which must have one element."""
        y = self.array(self.result)
        if y._buf.size != 1:
            raise ShapeError(
                f"{self.name}: the function must give a scalar (one element), its result has shape {y._shape}; use "
                "jacobian, or elementwise_grad for a function that works element by element"
            )
        return y

    def arrays(self) -> tuple[list[NDArray], Callable]:
        """The leaves of the result, and what makes such a tree of an iterator."""
        leaves: list = []
        build = flatten(self.result, leaves)
        if not leaves:
            self.array(self.result)
        return [self.array(y, k) for k, y in enumerate(leaves)], build

    # Giving.

    def gradients(self, found: Iterable[NDArray | None], recorded: bool) -> Any:
        """Cotangents of the variables in the form of the arguments; None is zero."""
        filled = [zeros(v.shape, v.kind) if g is None else g for v, g in zip(self.variables, found, strict=True)]
        return self.in_form(filled if recorded else [give(g) for give, g in zip(self._givers, filled, strict=True)])

    def in_form(self, parts: Iterable) -> Any:
        """One part per variable, in the form of the arguments."""
        source = iter(parts)
        made = tuple([build(source) for build in self._builders])
        return made if self._many else made[0]

    def block(self, k: int, x: NDArray) -> Any:
        """Part of a derivative with respect to variable `k`, like that argument."""
        return x if self.open else self._givers[k](x)

    def value(self, y: Any) -> Any:
        """The arrays in a tree of results like the arguments: NDArrays if one was, else NumPy's, else numbers."""
        if self.open:
            return y
        if _same in self._givers or tracing.weak in self._givers:
            return changed(y, self._detached)
        give = _number if all(g is _number for g in self._givers) else _scalar
        return changed(y, lambda x: give(from_value(x)) if isinstance(x, NDArray) else x)

    def scalar_value(self, y: NDArray) -> Any:
        """The same for a result of one element: numbers whatever its shape."""
        if y._kind.traced and tracing.current.numbers:
            return reshape(y, ())
        if self.open or _same in self._givers:
            return self.value(y)
        return y.item() if all(g is _number for g in self._givers) else y.asscalar()

    def _detached(self, x: Any) -> Any:
        """`x` without its place in this record."""
        node = getattr(x, "_node", None)
        if node is None or (node not in self.variables and (type(node) is tape.Leaf or node.seq < self.floor)):
            return x
        return alias(x, x._buf, x._shape)

    def alike(self, arguments: Any, given: Any, name: str) -> list[NDArray]:
        """A tree of numbers like the differentiated arguments, as a list of arrays, one per variable."""
        pairs = flatten_like(arguments, given, name)
        return [like(v, t, name + path) for v, (_, t, path) in zip(self.variables, pairs, strict=True)]


def like(target: Any, given: Any, name: str) -> NDArray:
    """`given` as an array with the shape and kind of `target` (an array or a place on the tape)."""
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


def zeros(shape: tuple[int, ...], kind: Kind) -> NDArray:
    """An array of zeros."""
    return wrap(kind.zeros(size(shape)), shape, kind)


def ones_like(x: NDArray) -> NDArray:
    """An array of ones, which is not on the tape."""
    return wrap(tape.ones_raw(x._kind, x._buf.size), x._shape, x._kind)


def sweep(
    heads: Iterable[tuple[NDArray | None, NDArray | None]], targets: dict, floor: int, recorded: bool, retain: bool
) -> list[NDArray | None]:
    """The cotangents of `targets`, None where they are zero.

    Parameters
    ----------
    heads : iterable of pairs
        Arrays, and their own cotangents (None: ones). What is not on the tape adds nothing.
    targets : dict
        Places on the tape (the keys).
    floor : int
        What was recorded before this number is not entered.
    recorded : bool
        Record the sweep.
    retain : bool
        Keep the record for another sweep.
    """
    given = [(y, g) for y, g in heads if y is not None and y._node is not None]
    if not given:
        return [None] * len(targets)
    if recorded or given[0][0]._kind.traced:
        seeds = [(y._node, ones_like(y) if g is None else g) for y, g in given]
        found = tape.sweep_recorded(seeds, True, targets, floor)
        arrays = [found.get(t) for t in targets]
        if state.recording:  # what the user gets is in no other place
            taken = {id(g._buf) for _, g in seeds}
            for k, x in enumerate(arrays):
                if x is not None:
                    arrays[k] = cast(x, x._kind) if id(x._buf) in taken else x
                    taken.add(id(x._buf))
        return arrays
    raw, borrowed = tape.sweep_raw([(y._node, tape.head_raw(y, g)) for y, g in given], retain, targets, floor)
    results: list[NDArray | None] = []
    for t in targets:
        buf = raw.get(t)
        if buf is None:
            results.append(None)
        else:
            results.append(wrap(buf.copy() if t in borrowed else buf, t.shape, t.kind))
    return results
