"""Gradient checks against finite differences, for your own operators and functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from . import autograd
from .arrays.ndarray import NDArray
from .core.conventions import Conventions
from .functional.call import conventions_of
from .kernels.creation import array
from .operators.cast import reinterpreted

__all__ = ["check_grads"]


def check_grads(
    f: Callable,
    args: Sequence,
    order: int = 2,
    modes: Sequence[str] = ("backward", "recorded"),
    eps: float = 1e-3,
    rtol: float = 1e-6,
    atol: float = 1e-9,
    seed: int = 0,
) -> None:
    r"""Compare the gradients of `f`, of every order up to `order`, with finite differences.

    With random head gradients :math:`h_0, h_1, \ldots` let :math:`s_0(x) = \langle h_0, f(x)\rangle` and
    :math:`s_k(x) = \langle h_k, \nabla s_{k-1}(x)\rangle`. The gradient of order k is
    :math:`\nabla s_{k-1}`; it is compared, element by element, with central differences of
    :math:`s_{k-1}` at two step sizes, extrapolated (error :math:`O(eps^4)`). All in float64.

    Parameters
    ----------
    f : callable
        Takes arrays, returns an array or a list or tuple of them, by recordable operations.
    args : sequence of NDArray or array-like
        Where to differentiate. Arrays of integers or bools are passed unchanged, all others in float64; without an
        NDArray of `nd` among them, `f` gets arrays of ``nbgrad.np``.
    order : int
    modes : sequence of {'backward', 'recorded'}
        How the gradient of the highest order is computed: by ``backward()``, by ``grad(create_graph=True)``, or
        by both in turn. Lower orders are always recorded.
    eps : float
        Step relative to ``max(1, |x|)``.
    rtol, atol : float
        A gradient `a` passes for a difference quotient `b` if ``|a - b| <= atol + rtol*max(|a|, |b|)``.
    seed : int
        The seed of the head gradients.

    Raises
    ------
    AssertionError
        At the first disagreement; it names the order, the mode, the argument, the position, and both numbers.

    Examples
    --------
    >>> from nbgrad import nd
    >>> from nbgrad.testing import check_grads
    >>> check_grads(lambda x, y: nd.sin(x) * y, [nd.ones((2, 3)), nd.ones((3,))], order=3)
    """
    unknown = set(modes) - {"backward", "recorded"}
    if unknown or not modes or order < 1:
        raise ValueError(f"check_grads: needs modes 'backward' or 'recorded' and order >= 1, got {modes} and {order}")
    values = [_value(a) for a in args]
    f = _with_conventions(f, conventions_of(args))
    active = [k for k, v in enumerate(values) if v.dtype.kind == "f"]
    random = np.random.default_rng(seed)
    heads: list[list[np.ndarray]] = []
    for n in range(1, order + 1):
        below = _gradients(f, values, active, heads, "backward")
        heads.append([random.uniform(0.5, 1.5, b.shape) * random.choice((-1.0, 1.0), b.shape) for b in below])
        numeric = [_quotients(f, values, active, heads, k, eps) for k in active]
        for mode in modes:
            for k, found, expected in zip(active, _gradients(f, values, active, heads, mode), numeric, strict=True):
                _compare(n, mode, k, found, expected, rtol, atol)


def _with_conventions(f: Callable, conventions: Conventions) -> Callable:
    return lambda *arrays: f(*[reinterpreted(x, conventions) for x in arrays])


def _value(given) -> np.ndarray:
    value = given.asnumpy() if isinstance(given, NDArray) else np.asarray(given)
    if value.dtype.kind in "iub" and isinstance(given, NDArray | np.ndarray):
        return value.copy()
    return value.astype(np.float64)


def _compare(order: int, mode: str, argument: int, found: np.ndarray, expected: np.ndarray, rtol, atol) -> None:
    assert found.shape == expected.shape, (
        f"order {order} ({mode}), argument {argument}: the gradient has shape {found.shape}, "
        f"its variable {expected.shape}"
    )
    bad = ~(np.abs(found - expected) <= atol + rtol * np.maximum(np.abs(found), np.abs(expected)))
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise AssertionError(
            f"order {order} ({mode}), argument {argument}, position {at}: the gradient is {found[at]!r}, "
            f"finite differences of the order below give {expected[at]!r}; {bad.sum()} of {bad.size} elements differ"
        )


def _gradients(f, values, active, heads, mode: str) -> list[np.ndarray]:
    """The gradients of order ``len(heads)``; for order 0 the results of `f` themselves."""
    arrays = [array(v) for v in values]
    variables = [arrays[k] for k in active]
    if not heads:
        return [y.asnumpy() for y in _results(f(*arrays))]
    for x in variables:
        x.attach_grad()
    with autograd.record():
        level = _results(f(*arrays))
    for hs in heads[:-1]:
        level = _recorded(level, hs, variables)
    if mode == "recorded":
        return [g.asnumpy() for g in _recorded(level, heads[-1], variables)]
    # Results that depend on no variable (the gradient of a linear function) are not on the tape: zero gradients.
    pairs = [(y, array(h)) for y, h in zip(level, heads[-1], strict=True) if y._node is not None]
    if pairs:
        autograd.backward([y for y, _ in pairs], [h for _, h in pairs])
    return [x.grad.asnumpy() for x in variables]


def _recorded(level: list[NDArray], hs: list[np.ndarray], variables: list[NDArray]) -> list[NDArray]:
    pairs = [(y, array(h)) for y, h in zip(level, hs, strict=True) if y._node is not None]
    # Every variable is a head, too, with a zero head gradient, so that each is reached.
    pairs += [(x, array(np.zeros(x.shape))) for x in variables]
    return autograd.grad([y for y, _ in pairs], variables, [h for _, h in pairs], create_graph=True)


def _results(given) -> list[NDArray]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _quotients(f, values, active, heads, k: int, eps: float) -> np.ndarray:
    """Extrapolated central differences of ``<heads[-1], gradients one order lower>`` for each element of argument k."""
    out = np.empty(values[k].shape)
    for at in np.ndindex(out.shape):

        def moved(step: float, at=at) -> list[np.ndarray]:
            shifted = list(values)
            shifted[k] = values[k].copy()
            shifted[k][at] += step
            return _gradients(f, shifted, active, heads[:-1], "backward")

        def slope(step: float, moved=moved) -> float:
            pairs = zip(heads[-1], moved(step), moved(-step), strict=True)
            return sum(float(np.sum(h * (b - a))) for h, b, a in pairs) / (2 * step)

        step = eps * max(1.0, abs(float(values[k][at])))
        out[at] = (4 * slope(step / 2) - slope(step)) / 3
    return out
