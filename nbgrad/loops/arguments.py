"""Arguments of differentiated functions: binding, types, cotangents and tangents."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..backends.numba.wrapped_functions import is_jitclass
from ..core.dtypes import convertible, without_subclass
from ..errors import AttrError, DTypeError, ShapeError
from .frontend.source import Source
from .frontend.tuple_arguments import (
    argnum_indices,
    flatten_by_forms,
    is_container,
    is_zero_tangent,
    items_of,
    unflatten,
)
from .ir.statements import Function

__all__ = [
    "DetailedPaths",
    "arrange_gradients",
    "arrange_outputs",
    "as_cotangent",
    "as_given",
    "as_tuple",
    "bind_arguments",
    "check_no_aliasing",
    "copies",
    "copy_written",
    "directions_of",
    "flat_cotangents",
    "float64_among_float32",
    "has_float32",
    "output_names",
    "parameters",
    "ranks_and_kinds",
    "tupled_arguments",
    "types_of",
    "with_defaults",
    "wrt_parameters",
]


_HINTS = {
    "dict": " (use a named tuple)",
    "list": " (pass np.array(...), or a tuple)",
    "tuple": " (make its items arguments of their own, and the tuple inside of the function)",
    "complex": " (pass real and imaginary parts apart)",
    "MaskedArray": " (pass its data, with masked elements set to a number, and the mask)",
    "matrix": " (pass np.asarray of it)",
    "NDArray": " (pass x.asnumpy(), or make the function an operation by nbgrad.primitive)",
}


def copies(args: tuple) -> tuple:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def copy_written(f: Function, args: tuple) -> tuple:
    """The arguments, with copies of the arrays that the function writes."""
    changed = f.modified_parameters
    return (
        tuple([a.copy() if n in changed else a for n, a in zip(f.parameters, args, strict=True)]) if changed else args
    )


def as_tuple(value: Any) -> tuple:
    """`value` as a tuple; a single value need not be in one."""
    return value if isinstance(value, tuple) else (value,)


def types_of(args: Sequence) -> tuple:
    """What decides which code is called: classes, too, since some subclasses of arrays are refused."""
    return tuple([
        (a.__class__, a.dtype, a.ndim) if isinstance(a, np.ndarray)
        else (a.__class__, types_of(a)) if isinstance(a, tuple)
        else (a.__class__, tuple(a) if isinstance(a, dict) else None, types_of(items_of(a)))
        if isinstance(a, list | dict)
        else a.__class__
        for a in args
    ])  # fmt: skip


#: For how many values of constants, and shapes, entries are kept.
_MOST_DETAILS = 100


class DetailedPaths:
    """Entries into generated code for arguments of the same types, where types do not decide which code is called: by
    the values of the arguments `constants`, and by the shapes of those that are `shaped`; both are their indices."""

    def __init__(self, constants: tuple[int, ...], shaped: tuple[int, ...]) -> None:
        self.constants = constants
        self.shaped = shaped
        self._entries: dict[tuple, Any] = {}

    def _details(self, args: tuple) -> tuple:
        return (*[args[k] for k in self.constants], *[_shapes(args[k]) for k in self.shaped])

    def get(self, args: tuple) -> Any:
        return self._entries.get(self._details(args))

    def put(self, args: tuple, entry: Any) -> None:
        if len(self._entries) >= _MOST_DETAILS:
            self._entries.clear()
        self._entries[self._details(args)] = entry


def _shapes(a: Any) -> Any:
    """The shape of an array, and those of the arrays in a container."""
    return tuple(map(_shapes, items_of(a))) if is_container(a) else getattr(a, "shape", None)


def as_given(given: tuple, bound: tuple) -> bool:
    """Whether arguments are passed on as they were given, before defaults that are numbers, strings or None."""
    same = len(given) <= len(bound) and all(a is b for a, b in zip(bound, given, strict=False))
    return same and all(isinstance(a, int | float | str | None) for a in bound[len(given) :])


def tupled_arguments(
    name: str, source: Source | None, args: Any, directions: Any, argnums: int | tuple[int, ...] | None
) -> tuple[tuple, tuple]:
    """The arguments from a tuple of them, with defaults, and their directions: None for defaults that were left out."""
    if not isinstance(args, tuple | list):
        given = type(args).__name__
        raise AttrError(f"{name}: args is the tuple of the function's arguments, {given} was given")
    full = tuple(args) if source is None else with_defaults(source, tuple(args))
    several = len(args) > 1 and not isinstance(argnums, int)  # else a list is the direction of one
    directions = tuple(directions) if several and isinstance(directions, list) else as_tuple(directions)
    if argnums is None and len(directions) == len(args):
        directions += (None,) * (len(full) - len(args))
    return full, directions


def with_defaults(source: Source, args: tuple) -> tuple:
    """The arguments, with defaults for those left out, and those of ``*args`` in a tuple."""
    if _has_kind(source, inspect.Parameter.VAR_POSITIONAL):
        return bind_arguments(source, args, {})
    missing = [p.default for p in source.signature.parameters.values()][len(args) :]
    args = args if any(m is inspect.Parameter.empty for m in missing) else (*args, *missing)
    return tuple(map(_signed, args)) if any(isinstance(a, np.unsignedinteger) for a in args) else args


def _signed(x: Any) -> Any:
    """One of NumPy's unsigned integers as an int; Numba makes floats of their sums with signed ones."""
    return int(x) if isinstance(x, np.unsignedinteger) else x


def _has_kind(source: Source, *kinds: Any) -> bool:
    """Whether the function has parameters of one of these kinds."""
    return any(p.kind in kinds for p in source.signature.parameters.values())


def bind_arguments(source: Source, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """The arguments of a call, one per parameter in order, bound as Python binds them, with defaults."""
    if not kwargs and not _has_kind(source, inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL):
        return with_defaults(source, args)
    try:
        binding = source.signature.bind(*args, **kwargs)
    except TypeError as err:
        named = [n for n, p in source.signature.parameters.items() if p.kind is p.KEYWORD_ONLY]
        positional = [n for n in parameters(source) if n not in named]
        listing = ", ".join([*positional, *(["*", *named] if named else [])])
        any_name = _has_kind(source, inspect.Parameter.VAR_KEYWORD)
        unknown = [n for n in kwargs if n not in source.signature.parameters and not any_name]
        what = f"got an unexpected keyword argument '{unknown[0]}'" if unknown else err  # rather than what is missing
        raise AttrError(f"{source.name}: {what}; its parameters are ({listing})") from None
    binding.apply_defaults()
    return tuple([_signed(binding.arguments[n]) for n in parameters(source)])


def parameters(source: Source) -> list[str]:
    return list(source.signature.parameters)


def ranks_and_kinds(source: Source, args: tuple) -> tuple[dict[str, int], dict[str, str]]:
    """The ranks and kinds of arguments."""
    names = parameters(source)
    if len(args) != len(names):
        signature = source.signature.parameters.values()
        optional = [p.name for p in signature if p.default is not inspect.Parameter.empty]
        hint = f"; {', '.join(optional)} may be left out at the end" if optional else ""
        raise AttrError(f"{source.name}: {len(names)} arguments expected ({', '.join(names)}), {len(args)} given{hint}")
    ranks, kinds = {}, {}
    for name, a in zip(names, args, strict=True):
        if isinstance(a, np.random.Generator):
            kinds[name], ranks[name] = "generator", 0
            continue
        if isinstance(a, np.ndarray):
            letter, ranks[name] = a.dtype.kind, a.ndim
            wrong = a.ndim == 0 or (letter == "f" and a.dtype not in (np.float32, np.float64)) or not a.dtype.isnative
        elif isinstance(a, bool | int | float | np.number | np.bool_):
            letter, ranks[name] = np.asarray(a).dtype.kind, 0
            wrong = isinstance(a, np.float16 | np.longdouble)
        else:
            letter, wrong = "", True
        unsigned = letter == "u" and ranks[name] > 0
        wide = unsigned and a.dtype == np.uint64
        wrong = wrong or wide or isinstance(a, np.ma.MaskedArray | np.matrix)
        if wrong or letter not in "fiub":
            plain_array = isinstance(a, np.ndarray) and type(a).__name__ not in _HINTS
            what = f"{a.dtype} array of {a.ndim} axes" if plain_array else type(a).__name__
            what = "nbgrad.np.ndarray" if what == "ndarray" else what
            if is_jitclass(a):
                instead = "pass an instance" if isinstance(a, type) else "pass its fields in a named tuple"
                what = f"jitclass {what} ({instead})"
            hints = [_HINTS[c.__name__] for c in type(a).__mro__ if c.__name__ in _HINTS]
            what += hints[0] if hints else f" (pass {name}.to_numpy())" if convertible(a) else ""
            if wide and plain_array:
                what += f" (pass {name}.astype(int): NumPy and Numba make floats of sums of it and of integers)"
            elif isinstance(a, np.ndarray) and a.ndim == 0:
                what += f" (pass {name}[()], a number)"
            elif plain_array and not a.dtype.isnative:
                what += f" (pass {name}.astype('{a.dtype.newbyteorder('=')}'), in the byte order of this machine)"
            raise DTypeError(
                f"{source.name}: argument {name} is a {what}; NumPy arrays of float64, float32, integers or bool with "
                "one axis or more, and numbers are expected"
            )
        kinds[name] = "unsigned" if unsigned else {"f": "float", "i": "int", "u": "int", "b": "bool"}[letter]
    return ranks, kinds


def has_float32(args: tuple) -> bool:
    """Whether any argument is float32."""
    return any(getattr(a, "dtype", None) == np.float32 for a in args)


def float64_among_float32(source: Source, args: tuple) -> frozenset[str]:
    """The float64 arrays among the arguments if there are float32 arrays, too."""
    dtypes = {n: a.dtype for n, a in zip(parameters(source), args, strict=True) if isinstance(a, np.ndarray)}
    return frozenset(n for n, d in dtypes.items() if d == np.float64) if np.float32 in dtypes.values() else frozenset()


def checked_argnums(name: str, argnums: Any) -> int | tuple[int, ...] | None:
    """`argnums`, checked: None, an int, or a tuple of ints."""
    items = argnums if isinstance(argnums, tuple | list) else () if argnums is None else (argnums,)
    if any(isinstance(k, bool) or not isinstance(k, int | np.integer) for k in items):
        raise AttrError(f"{name}: argnums={argnums!r}; a number or a tuple of numbers is expected")
    if argnums is None:
        return None
    checked = tuple(int(k) for k in items)
    return checked if isinstance(argnums, tuple | list) else checked[0]


def wrt_parameters(source: Source, kinds: dict[str, str], argnums: int | tuple[int, ...] | None) -> list[str]:
    """The parameters to differentiate with respect to."""
    names = parameters(source)
    if argnums is None:
        return [n for n in names if kinds[n] == "float"]
    selected = [names[k] for k in argnum_indices(source.name, argnums, names)]
    for n in selected:
        if kinds[n] != "float":
            raise DTypeError(
                f"{source.name}: argnums={argnums} asks for the gradient by {n}, which is of kind {kinds[n]} in this "
                "call; only floats have gradients: pass a float or an array of floats, or leave it out of argnums"
            )
    return selected


def arrange_gradients(f: Function, wrt: list[str], argnums: int | tuple[int, ...] | None, values: tuple) -> Any:
    """Values computed for the parameters `wrt`, in the order that the user expects.

    That is one entry per parameter, None for those not in `wrt`; with argnums, one per argnum, or the value itself for
    an int.
    """
    if argnums is None:
        by_name = dict(zip(wrt, values, strict=True))
        return tuple([by_name.get(n) for n in f.parameters])
    return values[0] if isinstance(argnums, int) else values


def directions_of(
    f: Function, wrt: list[str], argnums: int | tuple[int, ...] | None, directions: tuple, what: str
) -> tuple:
    """Tangents or directions of the parameters `wrt`, from those that the user gave in the order of
    :func:`arrange_gradients`."""
    names = f.parameters if argnums is None else wrt
    if len(directions) != len(names):
        raise AttrError(
            f"{f.name}: {len(names)} {what} expected ({', '.join(names)}), {len(directions)} given; one per "
            f"{'parameter' if argnums is None else 'argnum'}, None for zeros and for what is no float"
        )
    for n, d in zip(names, directions, strict=True):
        if n not in wrt and not is_zero_tangent(d):
            raise DTypeError(
                f"{f.name}: {n} is of kind {f.kinds[n]}, and {d!r} was given in its place of the {what}; only floats "
                f"have derivatives: give None or 0 there, or pass {n} as a float"
            )
    return tuple([d for n, d in zip(names, directions, strict=True) if n in wrt])


def output_names(f: Function) -> list[str]:
    """The names of outputs, which have cotangents: the results, then the float arrays that are written."""
    results = list(f.results or [])
    return results + [p for p in f.modified_parameters if p not in results and f.kinds[p] == "float"]


def arrange_outputs(f: Function, values: tuple) -> Any:
    """Outputs as the function returns its results, followed by the arrays that it writes."""
    count = len(f.results or [])
    results = unflatten(f.form, iter(values)) if count else ()
    if count and len(values) == count:
        return results
    in_order = (*(results if isinstance(f.form, tuple) or not count else (results,)), *values[count:])
    return in_order[0] if len(in_order) == 1 else in_order


def flat_cotangents(f: Function, cotangents: tuple) -> tuple:
    """Cotangents of outputs as a flat tuple; they may be nested like the results."""
    results = f.form[1] if isinstance(f.form, tuple) else (None,) * len(f.results or [])
    names = output_names(f)
    return flatten_by_forms((*results, *(None for _ in names[len(f.results or []) :])), cotangents)


def check_no_aliasing(f: Function, args: tuple) -> None:
    """Refuse a written array that is read-only or shares memory with another argument, and an array in Fortran order
    where elements that are shared in C order are written."""
    arrays = [(n, a) for n, a in zip(f.parameters, args, strict=True) if isinstance(a, np.ndarray)]
    for n, a in arrays if f.c_ordered else ():
        if n in f.c_ordered and not _in_c_order(a):
            raise AttrError(
                f"{f.name}: the array {n} is not in C order, and only then would a reshaped array that is computed "
                f"from it, and is written, share the elements; pass np.ascontiguousarray({n})"
            )
    for n in f.modified_parameters:
        written = dict(arrays)[n]
        if n in f.contiguous and not written.flags.c_contiguous:
            raise AttrError(
                f"{f.name}: the array {n} is not contiguous, so that NumPy may copy it where it is reshaped, and it, "
                f"or what is reshaped, is written; pass np.ascontiguousarray({n})"
            )
        if not written.flags.writeable:
            raise AttrError(f"{f.name}: the array {n} is read-only, and {n} is written; pass {n}.copy()")
        low, high = byte_bounds(written)
        if high - low < written.nbytes:
            raise AttrError(f"{f.name}: elements of {n} share memory, and {n} is written; pass {n}.copy()")
        for other, a in arrays:
            if other != n and np.may_share_memory(written, a):
                raise AttrError(
                    f"{f.name}: the arrays {n} and {other} may share memory, and {n} is written; pass {other}.copy()"
                )


def _in_c_order(a: np.ndarray) -> bool:
    """Whether what is computed from an array is in C order: it need not be contiguous itself."""
    strides = [abs(stride) for stride, n in zip(a.strides, a.shape, strict=True) if n > 1]
    return a.flags.c_contiguous or strides == sorted(strides, reverse=True)


def as_cotangent(f: Function, name: str, value, like: np.ndarray | None):
    """A cotangent or tangent as generated code takes it: a float, or an array that it may overwrite."""
    if value.__class__ is like.__class__ is np.ndarray and value.dtype == like.dtype and value.shape == like.shape:
        array = np.empty_like(like)
        array[...] = value
        return array
    value = without_subclass(value, f"{f.name}: {name}")
    if value is not None and np.asarray(value).dtype.kind not in "fiub":
        raise DTypeError(f"{f.name}: {name} takes real numbers, what was given for it is {value!r}")
    if f.ranks.get(name, 0) == 0:
        if np.ndim(value):
            raise ShapeError(f"{f.name}: {name} is a number, what was given for it has shape {np.shape(value)}")
        return 0.0 if value is None else float(value)
    if like is None:
        return np.array(value, copy=True)
    if value is None:
        return np.zeros_like(like, subok=False)
    array = np.empty_like(like, subok=False)
    if np.shape(value) != like.shape:
        raise ShapeError(f"{f.name}: {name} has shape {like.shape}, what was given for it has shape {np.shape(value)}")
    array[...] = value
    return array
