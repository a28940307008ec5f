"""The array of ``nbgrad.np``: the same memory, tape, kernels and devices as NDArray, with NumPy's shapes and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.launch import Kind, kind_of
from ..arrays.ndarray import NDArray, from_value
from ..arrays.sharing import memory_owners
from ..autodiff.constants import carries_gradient
from ..autodiff.state import recording
from ..core.context import current_context
from ..core.conventions import EITHER, MXNET, NUMPY
from ..core.dtypes import as_dtype
from ..core.registry import operators
from ..core.shapes import strides_of
from ..errors import DTypeError, LostGradientError, ShapeError
from ..operators.cast import reinterpreted
from ..operators.entry import store_out

__all__ = [
    "as_array",
    "as_nd",
    "as_np",
    "as_stored",
    "check_kept",
    "is_recorded",
    "ndarray",
    "numbers",
    "plain_arguments",
    "stacked",
    "stored",
    "with_common_dtype",
    "with_common_float",
]


class ndarray(NDArray):
    """An n-dimensional array of numbers that can be differentiated, with the behaviour of NumPy's.

    Create one by :func:`nbgrad.np.array` and its relatives. Results are arrays of this class: full reductions and
    single elements are 0-d, comparisons are of dtype bool, and integers divide to float64.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    size, ndim, itemsize, nbytes : int
    T : ndarray
        The axes in reverse order.
    grad : ndarray or None
        The gradient buffer that ``attach_grad`` created.

    Examples
    --------
    >>> import nbgrad.np as np
    >>> np.array([[1.0, 2.0], [3.0, 4.0]]).sum()
    array(10.)
    """

    # What is a view in NumPy, and cannot be one here: see :mod:`.views`.
    __slots__ = ("_copies", "_source")

    if TYPE_CHECKING:  # the other modules of this package attach these
        _copies: Any
        _source: Any

        def _operator(self, other: Any) -> Any: ...
        def __getitem__(self, key: Any) -> Any: ...
        def __neg__(self) -> Any: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operator
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = _operator
        __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _operator

    def __init__(self, *args, **kwargs) -> None:
        raise TypeError("ndarray: create arrays by np.array, np.zeros or np.empty")

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self._kind.dtype.np

    @property
    def itemsize(self) -> int:
        return self._kind.dtype.np.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """How many bytes it is to the next element along each axis, of the array as it is here."""
        return tuple([n * self.itemsize for n in strides_of(self._shape)])

    def __hash__(self) -> int:
        """That of the number, of a single element: equal ones are the same to sets and dictionaries."""
        return object.__hash__(self) if self._shape or self._kind.traced else hash(self._view().item())

    def __repr__(self) -> str:
        return repr(self._view())

    def __str__(self) -> str:
        return str(self._view())

    def as_nd(self) -> NDArray:
        """The same memory as an NDArray, with MXNet's behaviour; recorded."""
        return as_nd(self)

    def __bool__(self) -> bool:
        if not self.size:
            raise ValueError("The truth value of an array without elements is ambiguous; use x.size > 0")
        return super().__bool__()

    def __delitem__(self, key: Any) -> None:
        raise ValueError("elements of an array cannot be deleted; use np.delete, which gives another array")

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any = None) -> Any:
        return self.copy()

    def __reduce__(self) -> tuple[Callable, tuple]:
        if recording() and carries_gradient(self):
            raise LostGradientError(
                "pickle: the array is recorded, and in a pickle its gradient would be lost; use x.detach()"
            )
        return _unpickle, (self.asnumpy(), self._kind.ctx)


NUMPY.array = EITHER.array = ndarray


def _unpickle(value: np.ndarray, ctx: Any) -> NDArray:
    return from_value(value, ctx=ctx, conventions=NUMPY)


def as_np(x: NDArray) -> ndarray:
    """An array as one of :mod:`nbgrad.np`, on the same memory; recorded."""
    return reinterpreted(x, NUMPY)  # type: ignore[return-value]


def as_nd(x: NDArray) -> NDArray:
    """An array as one of :mod:`nbgrad.nd`, on the same memory; recorded."""
    found = reinterpreted(x, MXNET)
    if getattr(x, "_source", None) is not None:  # writes change what `x` is a view of
        memory_owners(x).kept = x
    return found


def as_array(value: Any, op: str, like: Kind | None = None, dtype: Any = None) -> ndarray:
    """An operand as an array of this class; it is not copied if it is one.

    Raises
    ------
    DTypeError
        For an NDArray that is none of this class, and for what is no array of numbers.
    """
    if value.__class__ is ndarray:
        return value
    if isinstance(value, NDArray):
        raise DTypeError(
            f"{op}: an NDArray of nd was given, whose results have different shapes and dtypes; convert it with "
            "x.as_np(), or the others with x.as_nd()"
        )
    if isinstance(value, str | bytes | dict | set) or value is None:
        raise DTypeError(f"{op}: an array, a number, or a nested sequence of numbers is expected, got {value!r}")
    value = stacked(value, op)
    if isinstance(value, NDArray):
        return value  # type: ignore[return-value]
    kind = like or kind_of(as_dtype("float64"), current_context(), NUMPY)
    array: Any = from_value(value, like=kind, dtype=dtype)
    return array


def as_stored(value: Any, op: str, like: Kind) -> ndarray:
    """An operand as an array that is to be stored in one like `like`. Python's integers, also in lists, get its dtype.

    Raises
    ------
    OverflowError
        If one of these does not fit.
    """
    whole = isinstance(value, int) or (isinstance(value, list | tuple) and not _holds_arrays(value))
    if whole and like.dtype.np.kind in "iu" and np.asarray(value).dtype.kind in "iu":
        value = np.asarray(value, like.dtype.np)
    return as_array(value, op, like)


def stacked(values: Any, op: str) -> Any:
    """Nested sequences with arrays of ours in them as an array that depends on them; other values as they are."""
    if isinstance(values, list | tuple) and _holds_arrays(values):
        rows = with_common_dtype(op, *values)
        if len({x.shape for x in rows}) > 1:
            raise ShapeError(f"{op}: nested sequences of equal lengths are needed, got {[x.shape for x in rows]}")
        return operators["stack"].call(*rows, axis=0)
    return values


def is_recorded(values: Any) -> bool:
    """Whether a value is an array on the tape, or a nested sequence with one."""
    if isinstance(values, list | tuple):
        return any(map(is_recorded, values))
    return isinstance(values, NDArray) and values._node is not None


def _holds_arrays(values: Any) -> bool:
    return isinstance(values, NDArray) or (isinstance(values, list | tuple) and any(map(_holds_arrays, values)))


def with_common_dtype(name: str, *values: Any) -> list[ndarray]:
    """Arrays and numbers with a common dtype, in which Python numbers have no say where there is an array."""
    given = [v if type(v) in (int, float, bool) else as_array(v, name) for v in values]
    dtype = np.result_type(*[v if type(v) in (int, float, bool) else v.dtype for v in given])
    like = next((v._kind for v in given if isinstance(v, NDArray)), None)
    arrays = [as_array(np.asarray(v, dtype) if type(v) in (int, float, bool) else v, name, like) for v in given]
    return [v if v.dtype == dtype else v.astype(dtype) for v in arrays]


def check_kept(x: ndarray, name: str) -> None:
    """Raise if `x` is being recorded, whose numbers `name` takes."""
    if recording() and carries_gradient(x):
        raise LostGradientError(
            f"x.{name}() of an array that is being recorded: gradients through it would be lost; use the array itself, "
            f"or x.detach().{name}() where a constant is meant"
        )


def plain_arguments(value: Any, name: str) -> Any:
    """Arguments with NumPy's arrays for ours; recorded ones would lose the gradient, and are an error."""
    if isinstance(value, ndarray):
        check_kept(value, name)
        return value.asnumpy()
    if isinstance(value, tuple | list):
        return type(value)(plain_arguments(v, name) for v in value)
    return {k: plain_arguments(v, name) for k, v in value.items()} if isinstance(value, dict) else value


def numbers(x: Any) -> np.ndarray:
    """Positions, an order or a mask as NumPy's; they have no gradient."""
    return x.asnumpy() if isinstance(x, ndarray) else np.asarray(x)


def with_common_float(name: str, *values: Any) -> list[ndarray]:
    """The same with a dtype of floats: float64 for integers and bools."""
    arrays = with_common_dtype(name, *[as_array(v, name) for v in values])
    return arrays if arrays[0].dtype.kind == "f" else [x.astype(np.float64) for x in arrays]


def stored(result: NDArray, out: ndarray | None, op: str) -> Any:
    """`result`, or `out` after it was stored there: broadcast, and cast to a dtype of the same kind."""
    if out is None:
        return result
    if isinstance(out, ndarray) and isinstance(result, ndarray):
        if result.dtype != out.dtype and np.can_cast(result.dtype, out.dtype, "same_kind"):
            result = result.astype(out.dtype)
        if result.shape != out.shape and np.broadcast_shapes(result.shape, out.shape) == out.shape:
            result = operators["broadcast_to"].call(result, shape=out.shape)
    return store_out(result, out, op)
