"""Batches of sequences of different lengths: masked, reversed, their last elements.

Data has time along one axis and the batch along the other of its first two; ``sequence_length`` has one length per
batch element. Masking is a ``where``; reversing and picking read rows of the array whose first two axes are one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..core.dtypes import bool_, float32
from ..errors import AttrError, RangeError, ShapeError
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import composite
from .host import arrayed, computed
from .indexing import integers, take_axis
from .selection import where
from .shape import reshape
from .unary import identity

__all__ = ["SequenceLast", "SequenceMask", "SequenceReverse"]


def _prepared(data, sequence_length, use_sequence_length, axis, op: str) -> tuple[NDArray, Any]:
    """The array, and the lengths if they count; checked."""
    data = as_array(data, op)
    if not isinstance(axis, int | np.integer) or isinstance(axis, bool) or axis not in (0, 1):
        raise AttrError(f"{op}: axis (of time) must be 0 or 1, got {axis!r}")
    if data.ndim < 2:
        raise ShapeError(f"{op}: time and batch need two axes, got data of shape {data.shape}")
    if not use_sequence_length:
        if sequence_length is not None:
            raise AttrError(f"{op}: sequence_length counts only with use_sequence_length=True; give both or neither")
        return data, None
    lengths = integers(as_array(sequence_length, op, "sequence_length"), op)
    batch = data.shape[1 - axis]
    if lengths.shape != (batch,):
        raise ShapeError(
            f"{op}: sequence_length must have shape ({batch},) (one per batch element of data {data.shape} with time "
            f"along axis {axis}), got {lengths.shape}"
        )
    return data, lengths


def _check(lengths: np.ndarray, least: int, n: int, op: str) -> None:
    wrong = (lengths < least) | (lengths > n)
    if wrong.any():
        raise RangeError(f"{op}: length {lengths[wrong][0]} is not in {least} to {n}")


def _rows(data: NDArray, places: np.ndarray | NDArray) -> NDArray:
    """Elements of `data`, its first two axes seen as one."""
    return take_axis(reshape(data, (data.shape[0] * data.shape[1], *data.shape[2:])), places, 0)


def _places(time: np.ndarray, members: np.ndarray, sizes: tuple[int, int], axis: int) -> np.ndarray:
    """Where ``[time, members]`` is, or ``[members, time]`` for time along axis 1, the first two axes seen as one."""
    return time * sizes[1] + members if axis == 0 else members * sizes[1] + time


def _ends(lengths: np.ndarray, sizes: tuple[int, int], axis: int) -> np.ndarray:
    _check(lengths, 1, sizes[axis], "SequenceLast")
    return _places(lengths - 1, np.arange(sizes[1 - axis]), sizes, axis)


def _reversed(lengths: np.ndarray, sizes: tuple[int, int], axis: int) -> np.ndarray:
    n = sizes[axis]
    _check(lengths, 0, n, "SequenceReverse")
    time = np.arange(n)[:, None]
    source = _places(np.where(time < lengths, lengths - 1 - time, time), np.arange(sizes[1 - axis]), sizes, axis)
    return source if axis == 0 else source.T


def _numpy_mask(a: np.ndarray, lengths=None, use_sequence_length=False, value=0.0, axis=0) -> np.ndarray:
    out = np.array(a)
    for b, n in enumerate([] if lengths is None else lengths.astype(int)):
        np.moveaxis(out, axis, 0)[max(n, 0) :, b] = value
    return out


def _numpy_last(a: np.ndarray, lengths=None, use_sequence_length=False, axis=0) -> np.ndarray:
    a = np.moveaxis(a, axis, 0)
    return a[-1] if lengths is None else a[lengths.astype(int) - 1, np.arange(a.shape[1])]


def _numpy_reverse(a: np.ndarray, lengths=None, use_sequence_length=False, axis=0) -> np.ndarray:
    out = np.array(a)
    by_time = np.moveaxis(out, axis, 0)
    for b, n in enumerate([len(by_time)] * by_time.shape[1] if lengths is None else lengths.astype(int)):
        by_time[:n, b] = by_time[:n, b][::-1].copy()
    return out


def _lengths(*values: int) -> Input:
    return Input(values=values, dtype="float32")


_USE = {"use_sequence_length": True}


@composite("SequenceMask", method=False, samples=sample_table(
    _numpy_mask,
    [(3, 2), _lengths(1, 3), _USE], [(3, 2)], [(2, 3, 2), _lengths(0, 5), {**_USE, "axis": 1, "value": 3.0}],
    [(3, 3, 2), _lengths(2, 0, 1), _USE], [(0, 2), _lengths(1, 0), _USE],
))  # fmt: skip
def SequenceMask(data, sequence_length=None, use_sequence_length=False, value=0.0, axis=0):
    """`value` instead of the elements after the end of each sequence.

    Parameters
    ----------
    data : NDArray
        Shape (time, batch, ...); (batch, time, ...) for axis 1.
    sequence_length : NDArray, optional
        Shape (batch,). What is longer than `data` is not masked at all.
    use_sequence_length : bool
        Must be true for `sequence_length` to count; without, the result is a copy.
    value : float
    axis : {0, 1}
        Of time.

    Returns
    -------
    NDArray
        Shape and dtype of `data`. Gradient: 0 where masked.

    Raises
    ------
    AttrError, ShapeError
        For another axis, lengths without `use_sequence_length`, or shapes that do not fit.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.SequenceMask(nd.ones((3, 2)), nd.array([1, 2]), use_sequence_length=True).tolist()
    [[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]
    """
    data, lengths = _prepared(data, sequence_length, use_sequence_length, axis, "SequenceMask")
    if lengths is None:
        return identity(data)
    dtype = data._kind.dtype
    if not dtype.is_float:
        with np.errstate(invalid="ignore"):
            fits = np.asarray(value).astype(dtype.np) == value
        if not fits:
            raise AttrError(f"SequenceMask: value {value!r} does not fit data of dtype {dtype}; use astype first")
        value = int(value)
    mask = arrayed(
        computed(_inside, lengths, shape=data.shape[:2], dtype=bool_, n=data.shape[axis], axis=axis), float32, data
    )
    return where(reshape(mask, mask.shape + (1,) * (data.ndim - 2)), data, value)


def _inside(lengths: np.ndarray, n: int, axis: int) -> np.ndarray:
    time = np.arange(n)
    return time[:, None] < lengths if axis == 0 else time < lengths[:, None]


@composite("SequenceLast", method=False, samples=sample_table(
    _numpy_last,
    [(3, 2), _lengths(1, 3), _USE], [(3, 2)], [(2, 3, 2), _lengths(2, 1), {**_USE, "axis": 1}],
    [(2, 3, 2), {"axis": 1}],
))  # fmt: skip
def SequenceLast(data, sequence_length=None, use_sequence_length=False, axis=0):
    """The last element of each sequence.

    Parameters
    ----------
    data, sequence_length, use_sequence_length, axis
        As for ``SequenceMask``; without lengths, the last element in time.

    Returns
    -------
    NDArray
        `data` without the time axis. Gradients go to the elements picked.

    Raises
    ------
    AttrError, ShapeError
        As ``SequenceMask``.
    IndexError
        For a length below 1 or longer than `data`.

    Examples
    --------
    >>> from nbgrad import nd
    >>> x = nd.array([[1, 2], [3, 4]])
    >>> nd.SequenceLast(x).tolist(), nd.SequenceLast(x, nd.array([1, 2]), use_sequence_length=True).tolist()
    ([3.0, 4.0], [1.0, 4.0])
    """
    data, lengths = _prepared(data, sequence_length, use_sequence_length, axis, "SequenceLast")
    n, batch = data.shape[axis], data.shape[1 - axis]
    lengths = np.full(batch, n) if lengths is None else lengths
    return _rows(data, computed(_ends, lengths, shape=(batch,), sizes=data.shape[:2], axis=axis))


@composite("SequenceReverse", method=False, samples=sample_table(
    _numpy_reverse,
    [(3, 2), _lengths(2, 3), _USE], [(3, 2)], [(2, 3, 2), _lengths(0, 2), {**_USE, "axis": 1}], [(0, 2)],
))  # fmt: skip
def SequenceReverse(data, sequence_length=None, use_sequence_length=False, axis=0):
    """Each sequence back to front; what is after its end stays.

    Parameters
    ----------
    data, sequence_length, use_sequence_length, axis
        As for ``SequenceMask``; without lengths, all of the time axis is reversed.

    Returns
    -------
    NDArray
        Shape and dtype of `data`. Gradients are reversed likewise.

    Raises
    ------
    AttrError, ShapeError
        As ``SequenceMask``.
    IndexError
        For a negative length, or one longer than `data`.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.SequenceReverse(nd.array([[1], [2], [3]]), nd.array([2]), use_sequence_length=True).tolist()
    [[2.0], [1.0], [3.0]]
    """
    data, lengths = _prepared(data, sequence_length, use_sequence_length, axis, "SequenceReverse")
    n, batch = data.shape[axis], data.shape[1 - axis]
    lengths = np.full(batch, n) if lengths is None else lengths
    return _rows(data, computed(_reversed, lengths, shape=data.shape[:2], sizes=data.shape[:2], axis=axis))
