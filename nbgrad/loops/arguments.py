"""What a differentiated function is called with."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..core.dtypes import convertible, plain
from ..errors import AttrError, DTypeError, ShapeError
from .frontend.source import Source
from .frontend.tuple_arguments import items_of, nothing, places, put_together
from .ir.statements import Function

__all__ = [
    "along",
    "apart",
    "bound",
    "completed",
    "copies",
    "cotangent",
    "describe",
    "formed",
    "kept",
    "listed",
    "narrow",
    "one_by_one",
    "outputs",
    "parameters",
    "placed",
    "wanted",
    "wide",
]


_HINTS = {
    "dict": " (use a named tuple)",
    "list": " (pass np.array(...), or a tuple)",
    "tuple": " (make its items arguments of their own, and the tuple inside of the function)",
    "complex": " (pass real and imaginary parts apart)",
    "MaskedArray": " (pass its data, with what the mask hides set to a number, and the mask)",
    "matrix": " (pass np.asarray of it)",
    "NDArray": " (pass x.asnumpy(), or make the function an operation by nbgrad.primitive)",
}


def copies(args: tuple) -> tuple:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def kept(f: Function, args: tuple) -> tuple:
    """The arguments, with copies of the arrays that the function writes."""
    changed = f.written
    return tuple(a.copy() if n in changed else a for n, a in zip(f.parameters, args, strict=True))


def listed(given: Any) -> tuple:
    """What is given, which need not be in a tuple if it is one."""
    return given if isinstance(given, tuple) else (given,)


def completed(source: Source, args: tuple) -> tuple:
    """The arguments, with defaults for those that are not given."""
    missing = [p.default for p in source.signature.parameters.values()][len(args) :]
    args = args if inspect.Parameter.empty in missing else (*args, *missing)
    return tuple(map(_signed, args)) if any(isinstance(a, np.unsignedinteger) for a in args) else args


def _signed(x: Any) -> Any:
    """Not one of NumPy's unsigned integers: Numba makes floats of these and what is counted."""
    return int(x) if isinstance(x, np.unsignedinteger) else x


def bound(source: Source, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """The arguments of a call, one per parameter and in their order: as Python binds them, with defaults."""
    if not kwargs and all(p.kind is not p.KEYWORD_ONLY for p in source.signature.parameters.values()):
        return completed(source, args)
    try:
        given = source.signature.bind(*args, **kwargs)
    except TypeError as err:
        named = [n for n, p in source.signature.parameters.items() if p.kind is p.KEYWORD_ONLY]
        places = [n for n in parameters(source) if n not in named]
        text = ", ".join([*places, *(["*", *named] if named else [])])
        raise AttrError(f"{source.name}: {err}; its parameters are ({text})") from None
    given.apply_defaults()
    return tuple([_signed(given.arguments[n]) for n in parameters(source)])


def parameters(source: Source) -> list[str]:
    return list(source.signature.parameters)


def describe(source: Source, args: tuple) -> tuple[dict[str, int], dict[str, str]]:
    """The ranks and kinds of arguments."""
    names = parameters(source)
    if len(args) != len(names):
        given = source.signature.parameters.values()
        optional = [p.name for p in given if p.default is not inspect.Parameter.empty]
        hint = f"; {', '.join(optional)} may be left out at the end" if optional else ""
        raise AttrError(f"{source.name}: {len(names)} arguments expected ({', '.join(names)}), {len(args)} given{hint}")
    ranks, kinds = {}, {}
    for name, a in zip(names, args, strict=True):
        if isinstance(a, np.ndarray):
            letter, ranks[name] = a.dtype.kind, a.ndim
            wrong = a.ndim == 0 or (letter == "f" and a.dtype not in (np.float32, np.float64)) or not a.dtype.isnative
        elif isinstance(a, bool | int | float | np.number | np.bool_):
            letter, ranks[name] = np.asarray(a).dtype.kind, 0
            wrong = isinstance(a, np.float16 | np.longdouble)
        else:
            letter, wrong = "", True
        unsigned = letter == "u" and ranks[name] > 0
        wrong = wrong or unsigned or isinstance(a, np.ma.MaskedArray | np.matrix)
        if wrong or letter not in "fiub":
            plain = isinstance(a, np.ndarray) and type(a).__name__ not in _HINTS
            what = f"{a.dtype} array of {a.ndim} axes" if plain else type(a).__name__
            what += _HINTS.get(type(a).__name__, f" (pass {name}.to_numpy())" if convertible(a) else "")
            if unsigned and plain:
                what += f" (pass {name}.astype(int): with unsigned ones NumPy and Numba calculate differently)"
            elif isinstance(a, np.ndarray) and a.ndim == 0:
                what += f" (pass {name}[()], a number)"
            elif plain and not a.dtype.isnative:
                what += f" (pass {name}.astype('{a.dtype.newbyteorder('=')}'), in the byte order of this machine)"
            raise DTypeError(
                f"{source.name}: argument {name} is a {what}; NumPy arrays of float64, float32, integers or bool with "
                "one axis or more, and numbers are expected"
            )
        kinds[name] = {"f": "float", "i": "int", "u": "int", "b": "bool"}[letter]
    return ranks, kinds


def narrow(args: tuple) -> bool:
    """Whether there are float32 among the arguments."""
    return any(getattr(a, "dtype", None) == np.float32 for a in args)


def wide(source: Source, args: tuple) -> frozenset[str]:
    """The arrays of float64 among the arguments, where there are some of float32."""
    dtypes = {n: a.dtype for n, a in zip(parameters(source), args, strict=True) if isinstance(a, np.ndarray)}
    return frozenset(n for n, d in dtypes.items() if d == np.float64) if np.float32 in dtypes.values() else frozenset()


def chosen(name: str, argnums: Any) -> int | tuple[int, ...] | None:
    """`argnums` as it is to be: None, a number, or a tuple of numbers."""
    given = argnums if isinstance(argnums, tuple | list) else () if argnums is None else (argnums,)
    if any(isinstance(k, bool) or not isinstance(k, int | np.integer) for k in given):
        raise AttrError(f"{name}: argnums={argnums!r}; a number or a tuple of numbers is expected")
    if argnums is None:
        return None
    found = tuple(int(k) for k in given)
    return found if isinstance(argnums, tuple | list) else found[0]


def wanted(source: Source, kinds: dict[str, str], argnums: int | tuple[int, ...] | None) -> list[str]:
    """The parameters to differentiate with respect to."""
    names = parameters(source)
    if argnums is None:
        return [n for n in names if kinds[n] == "float"]
    found = [names[k] for k in places(source.name, argnums, names)]
    for n in found:
        if kinds[n] != "float":
            raise DTypeError(
                f"{source.name}: argnums={argnums} asks for the gradient by {n}, which is of kind {kinds[n]} in this "
                "call; only floats have gradients: pass a float or an array of floats, or leave it out of argnums"
            )
    return found


def placed(f: Function, wrt: list[str], argnums: int | tuple[int, ...] | None, found: tuple) -> Any:
    """What was `found` for the arguments `wrt` as it is given back: one entry per parameter, None for others than
    these; or one per argnum, or the single one."""
    if argnums is None:
        known = dict(zip(wrt, found, strict=True))
        return tuple([known.get(n) for n in f.parameters])
    return found[0] if isinstance(argnums, int) else found


def along(f: Function, wrt: list[str], argnums: int | tuple[int, ...] | None, given: tuple, what: str) -> tuple:
    """Tangents or directions of the arguments `wrt`, from those `given` in the places of :func:`placed`."""
    names = f.parameters if argnums is None else wrt
    if len(given) != len(names):
        raise AttrError(
            f"{f.name}: {len(names)} {what} expected ({', '.join(names)}), {len(given)} given; one per "
            f"{'parameter' if argnums is None else 'argnum'}, None for zeros and for what is no float"
        )
    for n, d in zip(names, given, strict=True):
        if n not in wrt and not nothing(d):
            raise DTypeError(
                f"{f.name}: {n} is of kind {f.kinds[n]}, and {d!r} was given in its place of the {what}; only floats "
                f"have derivatives: give None or 0 there, or pass {n} as a float"
            )
    return tuple([d for n, d in zip(names, given, strict=True) if n in wrt])


def outputs(f: Function) -> list[str]:
    """What has a cotangent: the results, then the float arrays that are written."""
    results = list(f.results or [])
    return results + [p for p in f.written if p not in results and f.kinds[p] == "float"]


def formed(f: Function, values: tuple) -> Any:
    """Outputs, as the function gives its results, with the arrays that it writes after them."""
    count = len(f.results or [])
    own = put_together(f.form, iter(values)) if count else ()
    if count and len(values) == count:
        return own
    every = (*(own if isinstance(f.form, tuple) or not count else (own,)), *values[count:])
    return every[0] if len(every) == 1 else every


def one_by_one(f: Function, given: tuple) -> tuple:
    """Cotangents of outputs, one after the other; they may have the form of the results."""
    results = f.form[1] if isinstance(f.form, tuple) else (None,) * len(f.results or [])
    names = outputs(f)
    return items_of((*results, *(None for _ in names[len(f.results or []) :])), given)


def apart(f: Function, args: tuple) -> None:
    """Refuse a written array that shares memory with another argument."""
    arrays = [(n, a) for n, a in zip(f.parameters, args, strict=True) if isinstance(a, np.ndarray)]
    for n in f.written:
        mine = dict(arrays)[n]
        if not mine.flags.writeable:
            raise AttrError(f"{f.name}: the array {n} is read-only, and {n} is written; pass {n}.copy()")
        low, high = byte_bounds(mine)
        if high - low < mine.nbytes:
            raise AttrError(f"{f.name}: elements of {n} share memory, and {n} is written; pass {n}.copy()")
        for other, a in arrays:
            if other != n and np.may_share_memory(mine, a):
                raise AttrError(
                    f"{f.name}: the arrays {n} and {other} may share memory, and {n} is written; pass {other}.copy()"
                )


def cotangent(f: Function, name: str, given, like: np.ndarray | None):
    """A cotangent (or tangent) as the generated code takes it: a float, or an array that may be written."""
    given = plain(given, f"{f.name}: {name}")
    if given is not None and np.asarray(given).dtype.kind not in "fiub":
        raise DTypeError(f"{f.name}: {name} takes real numbers, what was given for it is {given!r}")
    if f.ranks.get(name, 0) == 0:
        if np.ndim(given):
            raise ShapeError(f"{f.name}: {name} is a number, what was given for it has shape {np.shape(given)}")
        return 0.0 if given is None else float(given)
    if like is None:
        return np.array(given, copy=True)
    if given is None:
        return np.zeros_like(like)
    made = np.empty_like(like)
    if np.shape(given) != like.shape:
        raise ShapeError(f"{f.name}: {name} has shape {like.shape}, what was given for it has shape {np.shape(given)}")
    made[...] = given
    return made
