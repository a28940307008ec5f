"""Linear filters with feedback along an axis, with SciPy's arguments, differentiated by their coefficients as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import np as xp
from ...errors import AttrError, ShapeError
from ...kernels.feedback import feedback
from ...np.arrays import as_array, ndarray, with_common_dtype, with_common_float
from ...np.convolution import convolve, sliding_products
from ..arguments import axis_of, values_of, whole

__all__ = ["deconvolve", "filtfilt", "lfilter", "lfilter_zi", "sosfilt", "sosfilt_zi", "sosfiltfilt"]


def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """A signal filtered by ``a[0]*y[i] = b[0]*x[i] + b[1]*x[i-1] + ... - a[1]*y[i-1] - ...``, as
    ``scipy.signal.lfilter``.

    Parameters
    ----------
    b, a : array_like, shapes (m,) and (p,)
        The weights of the input and of the results before; ``a[0]`` must not be 0.
    x : array_like
    axis : int
        That of `x` along which it is filtered.
    zi : array_like, optional
        The state before the first element, as of `x` with ``max(m, p) - 1`` elements along the axis.

    Returns
    -------
    y : ndarray
        Of the shape of `x`.
    zf : ndarray
        The state after the last element, if `zi` is given.

    Raises
    ------
    ShapeError
        If `b`, `a` or `zi` have other shapes.

    Examples
    --------
    >>> from nbgrad.scipy import signal
    >>> signal.lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0])
    array([1.  , 0.5 , 0.25])
    """
    weights, back, data = _operands("lfilter", b, a, x)
    state = None if zi is None else with_common_dtype("lfilter", zi, data)[0]
    axis = axis_of("lfilter", axis, data.ndim)
    if state is not None and state.ndim != data.ndim:
        raise ShapeError(f"lfilter: zi has as many axes as x, {data.ndim}, got the shape {state.shape}")
    y, after = _filtered(weights, back, xp.moveaxis(data, axis, -1), None if zi is None else _last(state, axis))
    y = xp.moveaxis(y, -1, axis)
    return y if after is None else (y, xp.moveaxis(after, -1, axis))


def _last(state: Any, axis: int) -> ndarray:
    return xp.moveaxis(state, axis, -1)


def _operands(name: str, b: Any, a: Any, x: Any) -> list[ndarray]:
    arrays = with_common_float(name, b, a, x)
    weights, back = (xp.atleast_1d(v) for v in arrays[:2])
    if weights.ndim > 1 or back.ndim > 1 or not (weights.size and back.size):
        raise ShapeError(f"{name}: b and a are vectors, got the shapes {weights.shape} and {back.shape}")
    if (numbers := values_of(back)) is not None and numbers[0] == 0:
        raise ValueError(f"{name}: a[0] is 0; leave out leading zeros of a, and as many of b")
    return [weights / back[0], back / back[0], arrays[2]]


def _filtered(b: ndarray, a: ndarray, x: ndarray, state: ndarray | None) -> tuple[ndarray, ndarray | None]:
    """Along the last axis, with ``a[0]`` of 1."""
    order, n = max(b.size, a.size) - 1, x.shape[-1]
    inputs = sliding_products(_with_zeros(x, b.size - 1, 0), b[::-1])
    if state is not None:
        if state.shape[-1:] != (order,) or state.ndim != x.ndim:
            raise ShapeError(
                f"lfilter: zi has {order} elements along the axis of filtering and the other lengths of x, got the "
                f"shape {state.shape} for x of {x.shape}"
            )
        state = xp.broadcast_to(state, (*x.shape[:-1], order))
        inputs = inputs + _with_zeros(state[..., :n], 0, max(0, n - order))
    y = feedback(inputs, a[1:]) if a.size > 1 else inputs
    if state is None:
        return y, None
    # What the elements there are add to the ones that would follow.
    after = _beyond(x, b, order) - _beyond(y, a, order)
    return y, after + _with_zeros(state[..., n:], 0, min(n, order))


def _beyond(x: ndarray, w: ndarray, order: int) -> ndarray:
    """The `order` places of the convolution with `w` that follow the last element of `x`."""
    count = min(order, x.shape[-1])
    padded = _with_zeros(x[..., x.shape[-1] - count :], order - count, order)
    return sliding_products(padded, _with_zeros(w, 0, order + 1 - w.size)[::-1])


def _with_zeros(x: ndarray, before: int, after: int) -> ndarray:
    return xp.pad(x, [(0, 0)] * (x.ndim - 1) + [(before, after)]) if before or after else x


def lfilter_zi(b: Any, a: Any) -> ndarray:
    """The state of :func:`lfilter` in which a constant input of 1 has a constant result, as
    ``scipy.signal.lfilter_zi``.

    Parameters
    ----------
    b, a : array_like, shapes (m,) and (p,)

    Returns
    -------
    ndarray, shape (max(m, p) - 1,)
    """
    name = "lfilter_zi"
    weights, back, _ = _operands(name, b, a, 0.0)
    n = max(weights.size, back.size)
    weights, back = _with_zeros(weights, 0, n - weights.size), _with_zeros(back, 0, n - back.size)
    if (numbers := values_of(back)) is not None and numbers.sum() == 0:
        raise np.linalg.LinAlgError(f"{name}: the weights a add up to 0: a constant input has no constant result")
    rest = weights - back * weights[0]
    return (xp.cumsum(back) * (xp.sum(rest) / xp.sum(back)) - xp.cumsum(rest))[:-1]


def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """A signal filtered by sections of second order, one after the other, as ``scipy.signal.sosfilt``.

    Parameters
    ----------
    sos : array_like, shape (k, 6)
        In each row three weights of the input and three of the results before.
    x : array_like
    axis : int
    zi : array_like, optional
        The states, of shape ``(k, ..., 2, ...)`` with 2 instead of the length of `x` along the axis.

    Returns
    -------
    y : ndarray
    zf : ndarray
        The states after the last element, if `zi` is given.
    """
    sections = _sections("sosfilt", sos)
    found, states = x, []
    for k in range(sections.shape[0]):
        found = lfilter(
            sections[k, :3], sections[k, 3:], found, axis, None if zi is None else as_array(zi, "sosfilt")[k]
        )
        if zi is not None:
            found, state = found
            states.append(state)
    return found if zi is None else (found, xp.stack(states))


def _sections(name: str, sos: Any) -> ndarray:
    sections = as_array(sos, name)
    if sections.ndim != 2 or sections.shape[1] != 6:
        raise ShapeError(f"{name}: sections of shape (k, 6) are expected, got {sections.shape}")
    return sections


def sosfilt_zi(sos: Any) -> ndarray:
    """The states of :func:`sosfilt` in which a constant input of 1 has a constant result, as
    ``scipy.signal.sosfilt_zi``: of shape (k, 2)."""
    sections = _sections("sosfilt_zi", sos)
    states, scale = [], 1.0
    for k in range(sections.shape[0]):
        b, a = sections[k, :3], sections[k, 3:]
        states.append(scale * lfilter_zi(b, a))
        scale = scale * (xp.sum(b) / xp.sum(a))
    return xp.stack(states)


def filtfilt(b: Any, a: Any, x: Any, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None,
             method: str = "pad", irlen: int | None = None) -> ndarray:  # fmt: skip
    """A signal filtered forwards and then backwards, which moves no phase, as ``scipy.signal.filtfilt``.

    Parameters
    ----------
    b, a, x, axis
        As of :func:`lfilter`.
    padtype : {"odd", "even", "constant", None}
        How the signal goes on beyond its ends: turned about its end, mirrored, constant, or not.
    padlen : int, optional
        By how many elements: three times as many as `b` or `a` has, by default.
    method : {"pad"}
    """
    if method != "pad":
        raise AttrError(f"filtfilt: the method is 'pad' here, got {method!r}")
    weights, back, data = _operands("filtfilt", b, a, x)
    n = 3 * max(weights.size, back.size)
    state = lfilter_zi(weights, back)

    def run(part: ndarray, start: ndarray) -> ndarray:
        return _filtered(weights, back, part, state * start)[0]

    return _both_ways("filtfilt", run, data, axis, padtype, n if padlen is None else padlen)


def sosfiltfilt(sos: Any, x: Any, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None) -> ndarray:
    """A signal filtered by sections forwards and then backwards, as ``scipy.signal.sosfiltfilt``; arguments as of
    :func:`sosfilt` and :func:`filtfilt`."""
    sections = _sections("sosfiltfilt", sos)
    numbers = values_of(sections)
    taps = 2 * sections.shape[0] + 1
    if numbers is not None:
        taps -= min(int((numbers[:, 2] == 0).sum()), int((numbers[:, 5] == 0).sum()))
    states = sosfilt_zi(sections)
    (data,) = with_common_float("sosfiltfilt", x)

    def run(part: ndarray, start: ndarray) -> ndarray:
        shape = (sections.shape[0], *(1,) * (part.ndim - 1), 2)
        return sosfilt(sections, part, -1, xp.reshape(states, shape) * start)[0]

    return _both_ways("sosfiltfilt", run, data, axis, padtype, 3 * taps if padlen is None else padlen)


def _both_ways(name: str, run: Callable, x: ndarray, axis: int, padtype: str | None, n: int) -> ndarray:
    """Forwards and backwards along an axis, each from the state that goes with the first element."""
    x = xp.moveaxis(x, axis_of(name, axis, x.ndim), -1)
    n = 0 if padtype is None else whole(name, n, "padlen", 0)
    if x.shape[-1] <= n:
        raise ShapeError(f"{name}: more than padlen elements are needed, which is {n}, got {x.shape[-1]}")
    if n:
        x = _extended(name, x, n, padtype)
    forth = run(x, x[..., :1])[..., ::-1]
    found = run(forth, forth[..., :1])[..., ::-1]
    return xp.moveaxis(found[..., n : found.shape[-1] - n], -1, axis)


def _extended(name: str, x: ndarray, n: int, padtype: str | None) -> ndarray:
    first, last = x[..., :1], x[..., -1:]
    before, after = x[..., n:0:-1], x[..., -2 : -n - 2 : -1]
    if padtype == "odd":
        before, after = 2 * first - before, 2 * last - after
    elif padtype == "constant":
        before, after = first + xp.zeros_like(before), last + xp.zeros_like(after)
    elif padtype != "even":
        raise AttrError(f"{name}: padtype is 'odd', 'even', 'constant' or None, got {padtype!r}")
    return xp.concatenate([before, x, after], -1)


def deconvolve(signal: Any, divisor: Any) -> tuple[ndarray, ndarray]:
    """The quotient and the rest of a signal divided by a filter, as ``scipy.signal.deconvolve``.

    Parameters
    ----------
    signal, divisor : array_like, vectors
        ``signal = convolve(divisor, quotient) + rest``.
    """
    weights, back = with_common_dtype("deconvolve", as_array(signal, "deconvolve"), as_array(divisor, "deconvolve"))
    if weights.ndim > 1 or back.ndim > 1:
        raise ShapeError(f"deconvolve: vectors are expected, got the shapes {weights.shape} and {back.shape}")
    if (numbers := values_of(back)) is not None and numbers.size and numbers[0] == 0:
        raise ValueError("deconvolve: the divisor begins with 0; leave out leading zeros")
    n = weights.size - back.size + 1
    if n <= 0:
        return xp.zeros((0,)), weights
    quotient = lfilter(weights, back, _with_zeros(xp.ones((1,), dtype=weights.dtype), 0, n - 1))
    return quotient, weights - convolve(back, quotient)
