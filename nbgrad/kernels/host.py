"""What is computed with NumPy, on indices, lengths and orders: at once, or as a step of a traced program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..autodiff import tracing
from ..core.dtypes import DType, int64
from ..errors import AttrError, TraceError
from ..operators.cast import cast
from ..operators.structured import REQUIRED, Spec, structured

__all__ = ["arrayed", "computed", "demand_shape", "demanded"]


@structured("_computed", moves_only=True, method=False, differentiable=False)
def _computed(*data, function=REQUIRED, shape=REQUIRED, dtype=REQUIRED, given=()):
    """``function(*data, **given)`` of the NumPy arrays."""
    return Spec(shape, dtype, function=function, given=given)


@_computed.run
def _(*arrays, function, given):
    *operands, out = arrays
    np.copyto(out._view(), function(*[x._view() for x in operands], **dict(given)))


def computed(function: Callable, *values: Any, shape: tuple[int, ...], dtype: DType = int64, **given) -> Any:
    """``function(*values, **given)`` of NumPy arrays, which gives one. While tracing, a step that calls it later.

    Parameters
    ----------
    function : callable
        Of a module, so that equal steps are one.
    *values : numpy.ndarray or NDArray
    shape, dtype
        Of the result; they must follow from the shapes alone.
    **given
        Hashable.
    """
    if tracing.current.graph is None or not any(isinstance(v, NDArray) for v in values):
        return function(*[v._view() if isinstance(v, NDArray) else v for v in values], **given)
    arrays = tracing.capture_outside([v if isinstance(v, NDArray) else from_value(v) for v in values])
    return _computed(*arrays, function=function, shape=shape, dtype=dtype, given=tuple(given.items()))


def arrayed(found: Any, dtype: DType, like: NDArray) -> NDArray:
    """What :func:`computed` gave, as an array of `dtype` that goes with `like`."""
    if not isinstance(found, NDArray):
        return from_value(found, like=like._kind, dtype=dtype)
    return found if found._kind.dtype is dtype else cast(found, found._kind.of(dtype))


def demand_shape(op: str, name: str, x: NDArray) -> None:
    """A :class:`TraceError` if `x`, whose numbers the result's shape depends on, is traced, or will be."""
    if tracing.current.graph is not None:
        raise TraceError(
            f"{op}: the shape of the result depends on the numbers in {name}, and a traced function has none; call "
            "it outside, or choose with nd.where, which keeps the shape"
        )


@structured("_demanded", moves_only=True, method=False)
def _demanded(*data, holds=REQUIRED, message=REQUIRED):
    """The first operand, if ``holds(*data)`` of the NumPy arrays is true throughout."""
    return Spec(data[0]._shape, data[0]._kind.dtype, holds=holds, message=message)


@_demanded.run
def _(*arrays, holds, message):
    *operands, out = arrays
    _demand(operands, holds, message)
    np.copyto(out._buf, operands[0]._buf)


_demanded.vjp(data=lambda g, index: None if index else g)


def _demand(arrays, holds: Callable, message: str) -> None:
    if not np.all(holds(*[x._view() for x in arrays])):
        raise AttrError(message)


def demanded(holds: Callable, message: str, x: NDArray, *others: NDArray) -> NDArray:
    """`x`, after checking that ``holds(x, *others)`` of the NumPy arrays; while tracing, a step that checks.

    `holds` is a function of a module. An :class:`AttrError` with this message where it is false.
    """
    if tracing.current.graph is not None:
        return _demanded(x, *others, holds=holds, message=message)
    _demand((x, *others), holds, message)
    return x
