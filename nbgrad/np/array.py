"""The array of ``nbgrad.np``: the same memory, tape, kernels and devices as NDArray, with NumPy's shapes and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.launch import Kind, kind_of
from ..arrays.ndarray import NDArray, from_value
from ..core.context import current_context
from ..core.conventions import EITHER, MXNET, NUMPY
from ..core.dtypes import as_dtype
from ..errors import DTypeError
from ..operators.cast import reinterpreted
from ..operators.entry import store_out

__all__ = ["as_array", "as_nd", "as_np", "ndarray", "stored"]


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

    __slots__ = ()

    if TYPE_CHECKING:  # the other modules of this package attach these

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

    def __repr__(self) -> str:
        return repr(self._view())

    def __str__(self) -> str:
        return str(self._view())

    def as_nd(self) -> NDArray:
        """The same memory as an NDArray, with MXNet's behaviour; recorded."""
        return as_nd(self)

    def __reduce__(self) -> tuple[Callable, tuple]:
        return _unpickle, (self.asnumpy(), self._kind.ctx)


NUMPY.array = EITHER.array = ndarray


def _unpickle(value: np.ndarray, ctx: Any) -> NDArray:
    return from_value(value, ctx=ctx, conventions=NUMPY)


def as_np(x: NDArray) -> ndarray:
    """An array as one of :mod:`nbgrad.np`, on the same memory; recorded."""
    return reinterpreted(x, NUMPY)  # type: ignore[return-value]


def as_nd(x: NDArray) -> NDArray:
    """An array as one of :mod:`nbgrad.nd`, on the same memory; recorded."""
    return reinterpreted(x, MXNET)


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
    kind = like or kind_of(as_dtype("float64"), current_context(), NUMPY)
    array: Any = from_value(value, like=kind, dtype=dtype)
    return array


def stored(result: NDArray, out: ndarray | None, op: str) -> Any:
    """`result`, or `out` after it was stored there."""
    return result if out is None else store_out(result, out, op)
