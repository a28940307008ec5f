"""The supported dtypes: storage, promotion, and conversion of what users pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import DTypeError

__all__ = [
    "DType",
    "as_dtype",
    "convertible",
    "default_dtype",
    "describe_argument",
    "numpy_promote",
    "promote",
    "require_readable",
    "set_default_dtype",
    "without_subclass",
]


class DType:
    """A supported element type. There is one instance per type: compare with ``is``.

    Attributes
    ----------
    name : str
        NumPy's name.
    type : type
        NumPy's scalar class (what ``NDArray.dtype`` returns, as MXNet did).
    np : numpy.dtype
        What users see.
    storage : numpy.dtype
        The element type of raw buffers. Differs from `np` only for float16, stored as its bits in uint16 because
        Numba's CPU target has no float16 arrays; kernels convert on load and store.
    compute : str
        Numba's name of the type that kernels compute in.
    is_float : bool
    rank : int
        Position in the promotion order within its kind.
    """

    __slots__ = ("compute", "is_float", "name", "np", "rank", "storage", "type")

    def __init__(self, name: str, storage: str, compute: str, rank: int) -> None:
        self.name = name
        self.np = np.dtype(name)
        self.type = self.np.type
        self.storage = np.dtype(storage)
        self.compute = compute
        self.is_float = name.startswith("float")
        self.rank = rank

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self):
        return as_dtype, (self.name,)


float16 = DType("float16", "uint16", "float32", 0)
float32 = DType("float32", "float32", "float32", 1)
float64 = DType("float64", "float64", "float64", 2)
bool_ = DType("bool", "bool", "boolean", 0)
uint8 = DType("uint8", "uint8", "uint8", 1)
int8 = DType("int8", "int8", "int8", 1)
uint16 = DType("uint16", "uint16", "uint16", 2)
int16 = DType("int16", "int16", "int16", 2)
uint32 = DType("uint32", "uint32", "uint32", 3)
int32 = DType("int32", "int32", "int32", 3)
uint64 = DType("uint64", "uint64", "uint64", 4)
int64 = DType("int64", "int64", "int64", 4)

ALL = (float16, float32, float64, bool_, uint8, int8, uint16, int16, uint32, int32, uint64, int64)
FLOATS = ALL[:3]
_by_name = {d.name: d for d in ALL}
_lookup: dict = {
    **_by_name,
    "float": float64,
    "int": int64,
    "bool_": bool_,
    float: float64,
    int: int64,
    bool: bool_,
}
for _d in ALL:
    _lookup[_d] = _lookup[_d.type] = _lookup[_d.np] = _d
_default = float32


def as_dtype(given) -> DType:
    """The :class:`DType` for a name, a NumPy dtype or class, or ``None`` (the default dtype)."""
    if given is None:
        return _default
    try:
        return _lookup[given]
    except (KeyError, TypeError):
        pass
    try:
        return _by_name[np.dtype(given).name]
    except (KeyError, TypeError, ValueError, SyntaxError):  # what NumPy raises for strings
        raise DTypeError(f"dtype {given!r} is not supported; use one of {', '.join(_by_name)}") from None


def without_subclass(value: Any, what: str) -> Any:
    """`value`, with subclasses of NumPy arrays (matrix, memmap, recarray) converted to plain arrays.

    Raises
    ------
    DTypeError
        For a masked array, whose mask would be lost.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise DTypeError(
            f"{what}: this is a masked array, whose mask would be lost; give its numbers with a value where it is "
            "masked, x.filled(0.0), and the mask, numpy.ma.getmaskarray(x), as another array (for nd.where)"
        )
    return np.asarray(value) if isinstance(value, np.ndarray) else value


def describe_argument(value: Any) -> str:
    """A short description, for error messages, of a value passed where an array is expected."""
    kind = type(value)
    if isinstance(value, np.ndarray):
        return f"a NumPy array of dtype {value.dtype} and shape {value.shape}"
    if convertible(value) or hasattr(value, "__array__"):
        return f"a {kind.__name__} ({kind.__module__.partition('.')[0]})"
    shown = repr(value)
    return shown if len(shown) < 80 else f"{shown[:60]} ... (a {kind.__name__})"


def convertible(value: Any) -> bool:
    """Whether a value can be converted by ``to_numpy``: Series, DataFrames, DataArrays."""
    return not isinstance(value, np.ndarray) and callable(getattr(value, "to_numpy", None))


def require_readable(name: str, values: Iterable) -> None:
    """Raise for NumPy arrays that Numba would misread: those of non-native byte order, and masked ones.

    Numba's type cache identifies arrays that are not plainly writeable and native by a fingerprint without the byte
    order, and so takes them for native arrays that it has seen before.
    """
    for x in values:
        if x.__class__ is np.ndarray and x.dtype.isnative:
            continue
        if isinstance(x, np.ndarray):
            without_subclass(x, name)
            if not x.dtype.isnative:
                raise DTypeError(
                    f"{name}: an array of dtype {x.dtype.str} is in the byte order of other machines, which compiled "
                    f"code does not read; pass x.astype('{x.dtype.newbyteorder('=')}')"
                )


def default_dtype() -> DType:
    """The dtype for Python numbers and lists (float32 unless set otherwise)."""
    return _default


def set_default_dtype(dtype) -> None:
    """Set the dtype of ``nd.array`` of Python numbers and of creation functions without ``dtype``.

    Parameters
    ----------
    dtype : str or type or numpy.dtype
        A floating dtype.

    Examples
    --------
    >>> import nbgrad as nb
    >>> nb.set_default_dtype("float64")
    >>> nb.nd.array([1, 2]).dtype.__name__
    'float64'
    >>> nb.set_default_dtype("float32")
    """
    global _default
    chosen = as_dtype(dtype)
    if not chosen.is_float:
        raise DTypeError(f"set_default_dtype: a floating dtype is needed, got {chosen}")
    _default = chosen


def _promote(a: DType, b: DType) -> DType:
    if a.is_float or b.is_float:
        if a.is_float and b.is_float:
            return a if a.rank >= b.rank else b
        return a if a.is_float else b
    return _by_name[np.promote_types(a.np, b.np).name]


_promotion = {(a, b): _promote(a, b) for a in ALL for b in ALL}
_numpy_promotion = {(a, b): _by_name[np.promote_types(a.np, b.np).name] for a in ALL for b in ALL}


def numpy_promote(a: DType, b: DType) -> DType:
    """The dtype of a result of operands `a` and `b` as NumPy has it: of int32 and float32, float64."""
    return _numpy_promotion[a, b]


def promote(a: DType, b: DType) -> DType:
    """The dtype of a result of operands `a` and `b`: the wider float; floats before integers; NumPy's for integers."""
    return _promotion[a, b]
