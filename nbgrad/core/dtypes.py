"""The dtypes arrays can have, how they are stored, and how they combine."""

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
    "demand_readable",
    "plain",
    "promote",
    "said",
    "set_default_dtype",
]


class DType:
    """One supported element type. There is one instance per type: compare with ``is``.

    Attributes
    ----------
    name : str
        NumPy's name.
    type : type
        NumPy's scalar class (what ``NDArray.dtype`` returns, as MXNet did).
    np : numpy.dtype
        What users see.
    storage : numpy.dtype
        What raw buffers hold. Differs from `np` for float16 alone, kept as its bits in uint16 because
        Numba's CPU target has no float16 arrays; kernels convert on load and store.
    compute : str
        Numba's name of the type that kernels calculate in.
    is_float : bool
    rank : int
        Position in the order of promotion within its kind.
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
int32 = DType("int32", "int32", "int32", 2)
int64 = DType("int64", "int64", "int64", 3)

ALL = (float16, float32, float64, bool_, uint8, int8, int32, int64)
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
    """The :class:`DType` meant by a name, a NumPy dtype or class, or ``None`` (the default dtype)."""
    if given is None:
        return _default
    try:
        return _lookup[given]
    except (KeyError, TypeError):
        pass
    try:
        return _by_name[np.dtype(given).name]
    except (KeyError, TypeError, ValueError, SyntaxError):  # what NumPy raises for texts
        raise DTypeError(f"dtype {given!r} is not supported; use one of {', '.join(_by_name)}") from None


def plain(value: Any, what: str) -> Any:
    """What is given, but NumPy's own arrays instead of subclasses: a matrix, a memmap, a recarray is its elements.

    Raises
    ------
    DTypeError
        For a masked array: without its mask it is another one.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise DTypeError(
            f"{what}: this is a masked array, whose mask would be lost; give its numbers with a value where it is "
            "masked, x.filled(0.0), and the mask, numpy.ma.getmaskarray(x), as another array (for nd.where)"
        )
    return np.asarray(value) if isinstance(value, np.ndarray) else value


def said(value: Any) -> str:
    """What is given where an array is expected, in a few words."""
    kind = type(value)
    if isinstance(value, np.ndarray):
        return f"a NumPy array of dtype {value.dtype} and shape {value.shape}"
    if convertible(value) or hasattr(value, "__array__"):
        return f"a {kind.__name__} ({kind.__module__.partition('.')[0]})"
    text = repr(value)
    return text if len(text) < 80 else f"{text[:60]} ... (a {kind.__name__})"


def convertible(value: Any) -> bool:
    """Whether it is what other libraries make of NumPy arrays: Series, DataFrames, DataArrays."""
    return not isinstance(value, np.ndarray) and callable(getattr(value, "to_numpy", None))


def demand_readable(name: str, values: Iterable) -> None:
    """Refuse NumPy arrays that Numba would misread: in the byte order of other machines, and masked ones.

    Numba tells types of arrays that are not plainly writeable and native apart by a fingerprint without the byte order,
    and takes the one for a native array that it has seen before.
    """
    for x in values:
        if x.__class__ is np.ndarray and x.dtype.isnative:
            continue
        if isinstance(x, np.ndarray):
            plain(x, name)
            if not x.dtype.isnative:
                raise DTypeError(
                    f"{name}: an array of dtype {x.dtype.str} is in the byte order of other machines, which compiled "
                    f"code does not read; pass x.astype('{x.dtype.newbyteorder('=')}')"
                )


def default_dtype() -> DType:
    """The dtype that Python numbers and lists become (float32 unless set otherwise)."""
    return _default


def set_default_dtype(dtype) -> None:
    """Set the dtype that ``nd.array`` of Python numbers, and creation functions without ``dtype``, produce.

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
    return _by_name.get(np.promote_types(a.np, b.np).name, int32)  # uint8 with int8 is int16 in NumPy: the next we have


_promotion = {(a, b): _promote(a, b) for a in ALL for b in ALL}


def promote(a: DType, b: DType) -> DType:
    """The dtype of a result of operands `a` and `b`: the wider float; float over integer; NumPy's for integers."""
    return _promotion[a, b]
