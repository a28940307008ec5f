"""What is asked of many arrays at once: of all the gradients of a model, say."""

from __future__ import annotations

import numpy as np

from ..arrays.launch import Kind
from ..arrays.ndarray import NDArray, full
from ..autodiff import tracing
from ..autodiff.state import state
from ..core.context import untraced_context
from ..core.dtypes import float32, float64
from ..errors import AttrError
from ..operators.cast import cast, unify
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import composite
from .extreme import min_
from .host import arrayed
from .join import concat
from .reduce import sum_
from .shape import reshape
from .unary import isfinite, square

__all__ = ["all_finite", "amp_multicast", "multi_all_finite", "multi_sum_sq"]


def _arrays(data, count: int | None, op: str, what: str = "num_arrays") -> list[NDArray]:
    given = data[0] if len(data) == 1 and isinstance(data[0], list | tuple) else data
    arrays = [as_array(x, op) for x in given]
    if count is not None and count != len(arrays):
        raise AttrError(f"{op}: {what} is {count}, but {len(arrays)} arrays are given")
    if not arrays:
        raise AttrError(f"{op}: at least one array is needed")
    return arrays


def _here(arrays: list[NDArray]) -> bool:
    """Whether there are numbers to look at, in the host's memory."""
    return tracing.current.graph is None and not arrays[0]._kind.gpu


def _float32(x: NDArray) -> Kind:
    return x._kind.of(float32)


def _joined(numbers: list[NDArray]) -> NDArray:
    return concat(*[reshape(x, (1,)) for x in numbers], dim=0)


def _squares(*arrays: np.ndarray) -> np.ndarray:
    return np.array([np.sum(np.square(x, dtype=np.float64)) for x in arrays])


def _finite(*arrays: np.ndarray) -> np.ndarray:
    return np.array([all(np.isfinite(x).all() for x in arrays)], np.float32)


@composite(
    method=False,
    differentiable=False,
    samples=sample_table(_finite, [(2, 3)], [(2,), (3, 1)], [(0,)], result="float32"),
)
def multi_all_finite(*data, num_arrays=None):
    """Whether all elements of all arrays are finite, as 1 or 0.

    Parameters
    ----------
    *data : NDArray
    num_arrays : int, optional
        Their number; checked.

    Returns
    -------
    NDArray
        Shape (1,), float32.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.multi_all_finite(nd.ones(2), nd.array([1, float("nan")])).tolist()
    [0.0]
    """
    arrays = _arrays(data, num_arrays, "multi_all_finite")
    if _here(arrays):
        return arrayed(_finite(*[x._view() for x in arrays]), float32, arrays[0])
    every = [cast(min_(isfinite(x.detach())), _float32(x)) for x in arrays if x.size]
    kind = arrays[0]._kind
    return min_(_joined([full((1,), 1, float32, untraced_context(kind.ctx), kind.conventions), *every]))


@composite(method=False, differentiable=False, samples=sample_table(_finite, [(2, 3)], [()], [(0,)], result="float32"))
def all_finite(data):
    """Whether all elements are finite, as 1 or 0.

    Parameters
    ----------
    data : NDArray

    Returns
    -------
    NDArray
        Shape (1,), float32.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.all_finite(nd.ones(2)).tolist()
    [1.0]
    """
    return multi_all_finite(data)


@composite(method=False, samples=sample_table(
    lambda *arrays: np.array([np.sum(np.square(x)) for x in arrays]), [(2, 3)], [(2,), (3, 1)], [(), (0,)],
    ulp=2, result="float32",
))  # fmt: skip
def multi_sum_sq(*data, num_arrays=None):
    """The sum of squares of each array.

    Parameters
    ----------
    *data : NDArray
    num_arrays : int, optional
        Their number; checked.

    Returns
    -------
    NDArray
        Shape (number of arrays,), float32. The gradient of each is twice the array.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.multi_sum_sq(nd.array([3, 4]), nd.ones((2, 3))).tolist()
    [25.0, 6.0]
    """
    arrays = _arrays(data, num_arrays, "multi_sum_sq")
    if _here(arrays) and not (state.recording and any(x._node is not None for x in arrays)):
        return arrayed(_squares(*[x._view() for x in arrays]), float32, arrays[0])
    every = [x if x._kind.dtype in (float32, float64) else cast(x, _float32(x)) for x in arrays]
    return _joined([cast(sum_(square(x)), _float32(x)) for x in every])


@composite(method=False, samples=sample_table(
    lambda *arrays, cast_narrow=False: list(arrays), [(2, 3), (2,)], [(3,), (1, 2), {"cast_narrow": True}],
))  # fmt: skip
def amp_multicast(*data, num_outputs=None, cast_narrow=False):
    """The arrays in the widest dtype that one of them has.

    Parameters
    ----------
    *data : NDArray
    num_outputs : int, optional
        Their number; checked.
    cast_narrow : bool
        The narrowest dtype instead.

    Returns
    -------
    list of NDArray
        Gradients are converted back.

    Examples
    --------
    >>> from nbgrad import nd
    >>> [x.dtype.__name__ for x in nd.amp_multicast(nd.ones(2), nd.ones(2, dtype="float16"))]
    ['float32', 'float32']
    """
    arrays = _arrays(data, num_outputs, "amp_multicast", "num_outputs")
    if cast_narrow:
        kind = min((x._kind for x in arrays), key=lambda k: k.dtype.np.itemsize)
        return [x if x._kind is kind else cast(x, kind) for x in arrays]
    return unify(arrays, "amp_multicast")
