"""Convolutions and correlations of arrays of any rank, with SciPy's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import np as xp
from ...errors import AttrError, ShapeError
from ...np.arrays import as_array, ndarray, with_common_dtype, with_common_float
from ...np.convolution import backwards, part_of_convolution
from ..arguments import axes_of, axis_of, whole

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve", "oaconvolve", "upfirdn"]

_MODES = ("full", "same", "valid")
#: Those of convolve2d, as np.pad calls them.
_BOUNDARIES = {"fill": "constant", "pad": "constant", "symm": "symmetric", "symmetric": "symmetric",
               "wrap": "wrap", "circular": "wrap"}  # fmt: skip


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> ndarray:
    """The convolution of two arrays, as ``scipy.signal.convolve``.

    Parameters
    ----------
    in1, in2 : array_like
        Of one rank.
    mode : {"full", "same", "valid"}
        All of it, the part in the middle of the shape of `in1`, or what does not reach beyond the ends.
    method : {"auto", "direct", "fft"}
        Sums are computed directly, whatever is said here.

    Returns
    -------
    ndarray
        Of the shape ``n + m - 1``, ``n`` or ``|n - m| + 1`` along each axis.

    Raises
    ------
    ShapeError
        If the ranks differ, or, for "valid", neither array is at least as long as the other along all axes.

    Examples
    --------
    >>> from nbgrad.scipy import signal
    >>> signal.convolve([1.0, 2.0, 3.0], [1.0, 10.0])
    array([ 1., 12., 23., 30.])
    """
    if method not in ("auto", "direct", "fft"):
        raise AttrError(f"convolve: the methods are 'auto', 'direct' and 'fft', got {method!r}")
    x, w = _operands("convolve", in1, in2)
    return _convolved(x, w, mode, "convolve")


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> ndarray:
    """The cross-correlation of two arrays, as ``scipy.signal.correlate``; arguments as of :func:`convolve`.

    Examples
    --------
    >>> from nbgrad.scipy import signal
    >>> signal.correlate([1.0, 2.0, 3.0], [1.0, 10.0], mode="same")
    array([10., 21., 32.])
    """
    if method not in ("auto", "direct", "fft"):
        raise AttrError(f"correlate: the methods are 'auto', 'direct' and 'fft', got {method!r}")
    x, w = _operands("correlate", in1, in2)
    return _correlated(x, w, mode, "correlate")


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> ndarray:
    """The convolution of two arrays along some axes, as ``scipy.signal.fftconvolve``; it is computed directly.

    Parameters
    ----------
    in1, in2 : array_like
        Of one rank; along the other axes their lengths broadcast.
    mode : {"full", "same", "valid"}
    axes : int or sequence of int, optional
        All by default.

    Returns
    -------
    ndarray
        Of a dtype of floats.
    """
    x, w = _operands("fftconvolve", *with_common_float("fftconvolve", in1, in2))
    if axes is None:
        return _convolved(x, w, mode, "fftconvolve")
    along = sorted(axes_of("fftconvolve", axes, x.ndim))
    others = [k for k in range(x.ndim) if k not in along]
    shape = xp.broadcast_shapes(*[tuple(v.shape[k] for k in others) for v in (x, w)])
    x, w = (_lines(v, others, along, shape) for v in (x, w))
    found = xp.stack([_convolved(a, b, mode, "fftconvolve") for a, b in zip(x, w, strict=True)])
    found = xp.reshape(found, (*shape, *found.shape[1:]))
    return xp.moveaxis(found, list(range(x.ndim - 1 + len(others))), [*others, *along])


def _lines(x: ndarray, others: list[int], along: list[int], shape: tuple[int, ...]) -> ndarray:
    """The parts of an array along some axes, one after the other, where the lengths of the others are broadcast."""
    x = xp.transpose(x, (*others, *along))
    ends = x.shape[len(others) :]
    return xp.reshape(xp.broadcast_to(x, (*shape, *ends)), (-1, *ends))


oaconvolve = fftconvolve


def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0) -> ndarray:
    """The convolution of two matrices, as ``scipy.signal.convolve2d``.

    Parameters
    ----------
    in1, in2 : array_like, shapes (n1, n2) and (m1, m2)
    mode : {"full", "same", "valid"}
    boundary : {"fill", "symm", "wrap"}
        What `in1` goes on with beyond its ends: `fillvalue`, itself mirrored, or itself.
    """
    return _in_two_dimensions("convolve2d", in1, in2, mode, boundary, fillvalue)


def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0) -> ndarray:
    """The cross-correlation of two matrices, as ``scipy.signal.correlate2d``; arguments as of :func:`convolve2d`."""
    return _in_two_dimensions("correlate2d", in1, in2, mode, boundary, fillvalue)


def upfirdn(h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1) -> ndarray:
    """A signal with zeros put between its elements, filtered, and thinned out, as ``scipy.signal.upfirdn``.

    There are ``up - 1`` zeros between two elements, and every `down`-th element is taken.

    Parameters
    ----------
    h : array_like, shape (m,)
    x : array_like
    up, down : int
        At least 1.
    axis : int
        That of `x` along which it is filtered.
    """
    h, x = with_common_float("upfirdn", h, x)
    up, down = whole("upfirdn", up, "up", 1), whole("upfirdn", down, "down", 1)
    if h.ndim != 1 or not h.size:
        raise ShapeError(f"upfirdn: a vector h with elements is expected, got the shape {h.shape}")
    axis = axis_of("upfirdn", axis, x.ndim)
    if not x.shape[axis]:
        raise ShapeError(f"upfirdn: x has no elements along axis {axis}, its shape is {x.shape}")
    x = xp.moveaxis(x, axis, -1)
    if up > 1:
        zeros = xp.zeros((*x.shape, up - 1), dtype=x.dtype)
        x = xp.reshape(xp.concatenate([x[..., None], zeros], -1), (*x.shape[:-1], -1))[
            ..., : (x.shape[-1] - 1) * up + 1
        ]
    h = xp.reshape(h, (1,) * (x.ndim - 1) + (-1,))
    found = _convolved(x, h, "full", "upfirdn")[..., ::down]
    return xp.moveaxis(found, -1, axis)


def _operands(name: str, in1: Any, in2: Any) -> tuple[ndarray, ndarray]:
    x, w = with_common_dtype(name, as_array(in1, name), as_array(in2, name))
    if x.ndim != w.ndim:
        raise ShapeError(f"{name}: arrays of one rank are expected, got the shapes {x.shape} and {w.shape}")
    return x, w


def _swapped(x: ndarray, w: ndarray, name: str) -> bool:
    """Whether "valid" slides the first array over the second."""
    pairs = list(zip(x.shape, w.shape, strict=True))
    if all(n >= m for n, m in pairs):
        return False
    if all(n <= m for n, m in pairs):
        return True
    raise ShapeError(
        f"{name}: for mode 'valid' one array must be at least as long as the other along all axes, got the shapes "
        f"{x.shape} and {w.shape}"
    )


def _convolved(x: ndarray, w: ndarray, mode: str, name: str) -> ndarray:
    if mode not in _MODES:
        raise AttrError(f"{name}: the modes are 'full', 'same' and 'valid', got {mode!r}")
    sizes = list(zip(x.shape, w.shape, strict=True))
    if not x.ndim:
        return x * w
    if not (x.size and w.size):
        return xp.zeros((0,), dtype=x.dtype)
    if mode == "valid":
        _swapped(x, w, name)
    first = {"full": [0] * x.ndim, "same": [(m - 1) // 2 for _, m in sizes], "valid": [min(s) - 1 for s in sizes]}
    shape = {"full": [n + m - 1 for n, m in sizes], "same": x.shape, "valid": [abs(n - m) + 1 for n, m in sizes]}
    return part_of_convolution(*((w, x) if w.size > x.size else (x, w)), first[mode], shape[mode])


def _correlated(x: ndarray, w: ndarray, mode: str, name: str) -> ndarray:
    if mode == "valid" and x.ndim and _swapped(x, w, name):
        return backwards(_convolved(w, backwards(x), mode, name))
    return _convolved(x, backwards(w), mode, name)


def _in_two_dimensions(name: str, in1: Any, in2: Any, mode: str, boundary: str, fillvalue: float) -> ndarray:
    x, w = _operands(name, in1, in2)
    if x.ndim != 2:
        raise ShapeError(f"{name}: matrices are expected, got the shapes {x.shape} and {w.shape}")
    if np.ndim(fillvalue):
        raise ShapeError(f"{name}: fillvalue is a number, got the shape {np.shape(fillvalue)}")
    if boundary not in _BOUNDARIES:
        raise AttrError(f"{name}: the boundaries are 'fill', 'symm' and 'wrap', got {boundary!r}")
    run = _convolved if name == "convolve2d" else _correlated
    kind = _BOUNDARIES[boundary]
    if mode not in ("full", "same") or not (x.size and w.size):
        return run(x, w, mode, name)
    if kind == "constant" and not fillvalue:
        full = run(x, w, "full", name)
    else:
        value = {"constant_values": fillvalue} if kind == "constant" else {}
        full = run(xp.pad(x, [(m - 1, m - 1) for m in w.shape], kind, **value), w, "valid", name)
    if mode == "full":
        return full
    first = [(m - 1) // 2 if name == "convolve2d" else m // 2 for m in w.shape]
    return full[tuple(slice(k, k + n) for k, n in zip(first, x.shape, strict=True))]
