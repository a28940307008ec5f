"""Random numbers by rejection: gamma, Poisson and what is made of them; and draws from given probabilities.

Rejection needs an unknown number of random words. Every element therefore has a sequence of its own: the counter of
the generator (:mod:`.philox`) has four words, of which the ordinary stream uses two; the third numbers the attempts
and the fourth the elements that share a block, from 1 on. So an element is still a function of the key and its place.

* Gamma: Marsaglia and Tsang 2000, "A simple method for generating gamma variables"; below shape 1 from shape + 1,
  times ``u**(1/shape)``.
* Poisson: inversion by sequential search for means below 10, else Hörmann 1993, "The transformed rejection method for
  generating Poisson random variables" (PTRS).
* The negative binomial distributions are Poisson with a gamma-distributed mean.

On devices the same kernels run (:mod:`.random_device`), with libdevice's logarithms and exponentials.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays.ndarray import NDArray, from_value, full
from ..autodiff.state import state
from ..backends.cuda.kernels import cuda, device
from ..backends.numba.compile import inline, kernel
from ..core.context import Context, untraced_context
from ..core.dtypes import as_dtype, float64, int64
from ..core.shapes import as_shape, size
from ..errors import AttrError, ShapeError
from ..ir.expr import var
from ..operators.cast import cast
from ..operators.elementwise import derived
from ..operators.entry import as_array, store_out
from ..operators.structured import Spec, structured
from . import philox
from . import scalar as vm
from .binary import equal, multiply
from .host import demanded
from .indexing import take_axis
from .philox import open64, to_normal
from .random import draw
from .scan import cumsum
from .selection import where
from .shape import reshape
from .sorting_device import rank
from .unary import log

__all__ = ["gamma", "generalized_negative_binomial", "multinomial", "negative_binomial", "poisson"]

_U = np.uint64
_LOW = _U(0xFFFFFFFF)


@inline
def _words(key, start, i, per, attempt):
    """Four words of attempt number `attempt` of element i, `per` elements sharing a block."""
    c = start + i // per
    return philox.philox(c & _LOW, c >> _U(32), attempt, i % per + _U(1), key & _LOW, key >> _U(32))


@kernel
def _gamma(out, key, offset, alpha, scale, count, first):
    """Gamma with shape ``alpha[i // count]``, times ``scale[i // count]``; `first` is the i of the first element."""
    k, start, many = _U(key), _U(offset), _U(count)
    per = _U(4) if out.itemsize == 4 else _U(2)
    for i in range(_U(out.size)):
        at = (i + _U(first)) // many
        shape = alpha[at]
        d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
        c = 1.0 / math.sqrt(9.0 * d)
        a, b, e, f = _words(k, start, i, per, _U(0))
        boost = 1.0 if shape >= 1.0 else math.exp(math.log(open64(a, b)) / shape)
        attempt = _U(0)
        v = 0.0
        accepted = False
        while not accepted:
            attempt += _U(1)
            a, b, e, f = _words(k, start, i, per, attempt)
            x = to_normal(open64(a, b))
            t = 1.0 + c * x
            if t > 0.0:
                v = t * t * t
                accepted = math.log(open64(e, f)) < 0.5 * x * x + d - d * v + d * math.log(v)
        out[i] = boost * d * v * scale[at]


@kernel
def _poisson(out, key, offset, lam, count, first):
    """Poisson with mean ``lam[i // count]``; `first` is the i of the first element."""
    k, start, many = _U(key), _U(offset), _U(count)
    per = _U(4) if out.itemsize == 4 else _U(2)
    for i in range(_U(out.size)):
        mean = lam[(i + _U(first)) // many]
        found = 0.0
        if mean < 10.0:
            a, b, e, f = _words(k, start, i, per, _U(0))
            u = open64(a, b)
            p = math.exp(-mean)
            while u > p and found < 200.0:
                u -= p
                found += 1.0
                p *= mean / found
        elif mean > 1e12:  # where lgamma has not the digits, and the skewness is below 1e-6
            a, b, e, f = _words(k, start, i, per, _U(0))
            found = math.floor(mean + math.sqrt(mean) * to_normal(open64(a, b))) if mean < np.inf else mean
        else:
            w = 0.931 + 2.53 * math.sqrt(mean)
            s = -0.059 + 0.02483 * w
            inverse = 1.1239 + 1.1328 / (w - 3.4)
            rough = 0.9277 - 3.6224 / (w - 2.0)
            attempt = _U(0)
            accepted = False
            while not accepted:
                a, b, e, f = _words(k, start, i, per, attempt)
                attempt += _U(1)
                u = open64(a, b) - 0.5
                v = open64(e, f)
                near = 0.5 - abs(u)
                found = math.floor((2.0 * s / near + w) * u + mean + 0.43)
                if near >= 0.07 and v <= rough:
                    accepted = True
                elif found >= 0.0 and (near >= 0.013 or v <= near):
                    chance = math.log(v * inverse / (s / (near * near) + w))
                    accepted = chance <= found * math.log(mean) - mean - math.lgamma(found + 1.0)
        out[i] = found


@kernel
def _choose(u, sums, out, draws, n):
    """For each row of n running sums, and each of its draws, the first place whose sum is above u times the last."""
    many, width = _U(draws), _U(n)
    for i in range(_U(out.size)):
        first = (i // many) * width
        target = u[i] * sums[first + width - _U(1)]
        out[i] = rank(sums, first, width - _U(1), target, True)


@device
def _device_choose(u, sums, out, draws, n):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        first = i // draws * n
        out[i] = rank(sums, first, n - 1, u[i] * sums[first + n - 1], True)


@structured("_chosen", method=False, differentiable=False)
def _chosen(u, chances):
    """For each row of probabilities the classes that the uniform numbers in its row of `u` fall into, as int64."""
    return Spec(u._shape, int64)


@_chosen.run
def _(u, chances, out):
    if u.size:
        sums = np.cumsum(chances._view(), axis=1).reshape(-1)
        _choose(u._buf, sums, out._buf, u._shape[1], chances._shape[1])


@_chosen.device
def _(operands, results):
    def run(u, chances, out) -> None:
        sums = cumsum(chances, axis=1)
        _device_choose(out.size, [u._buf, sums._buf, out._buf], u._shape[1], chances._shape[1])

    return run


class _Call:
    """What is common to the calls: the shape drawn, the dtype, the parameters as float64 buffers."""

    def __init__(self, op: str, parameters: dict, shape, dtype, ctx, out) -> None:
        self.op = op
        if out is not None:
            as_array(out, op, "out")
            dtype, ctx = out.dtype if dtype is None else dtype, out.ctx
            shape = out.shape if shape is None else shape
        self.dtype = as_dtype(None if dtype in (None, "None") else dtype)
        if not self.dtype.is_float:
            raise AttrError(f"{op}: a floating dtype is needed, got {self.dtype}; convert the result with astype")
        self.ctx = ctx
        arrays = {name: p for name, p in parameters.items() if isinstance(p, NDArray)}
        shapes = {p.shape for p in arrays.values()}
        if arrays and (len(shapes) > 1 or len(arrays) < len(parameters)):
            raise ShapeError(f"{op}: {', '.join(parameters)} must be numbers, or arrays of one shape")
        self.outer = shapes.pop() if shapes else ()
        empty = () if arrays else (1,)
        self.block = as_shape(empty if shape in (None, 0) else shape, f"{op}: shape")
        self.shape = self.outer + self.block
        self.count = max(size(self.block), 1)
        for name, p in parameters.items():
            if not isinstance(p, NDArray | int | float | np.number):
                raise AttrError(f"{op}: {name} must be a number or an NDArray, got {p!r}")
        if arrays:
            self.values = [cast(p.detach(), p._kind.of(float64)) for p in parameters.values()]
            self.plain = None
        else:
            self.plain = [np.array([p], np.float64) for p in parameters.values()]
            self.values = [from_value(p, ctx=None if ctx is None else untraced_context(ctx)) for p in self.plain]
            self.count = max(size(self.shape), 1)

    def demand(self, holds, what: str) -> None:
        """Check the parameters, by a function of them all."""
        message = f"{self.op}: {what}"
        if self.plain is None:
            first, *others = self.values
            self.values[0] = demanded(holds, message, first, *others)
        elif not np.all(holds(*self.plain)):
            raise AttrError(message)

    def draw(self, made, *values: NDArray) -> NDArray:
        conventions = values[0]._kind.conventions
        return draw(made, self.shape, self.dtype, self.ctx, *values, self.count, 0, conventions=conventions)


def _is_gamma(alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return np.isfinite(alpha) & np.isfinite(beta) & (alpha >= 0) & (beta > 0)


def _is_poisson(lam: np.ndarray) -> np.ndarray:
    return (lam >= 0) & np.isfinite(lam)


def _is_negative_binomial(k: np.ndarray, p: np.ndarray) -> np.ndarray:
    return (k > 0) & np.isfinite(k) & (p > 0) & (p <= 1)


def _is_dispersed(mu: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    return (mu >= 0) & (alpha >= 0) & np.isfinite(mu) & np.isfinite(alpha)


def _is_distribution(chances: np.ndarray) -> np.ndarray:
    return (chances >= 0).all() & (np.abs(chances.sum(-1) - 1) < 1e-2)


#: The gamma draw `x1` as a function of its shape `x0`.
_held = derived("gamma_draw", vm.gamma_draw(var("x0"), var("x1")), 2, 0, False)


def gamma(alpha=1.0, beta=1.0, shape=None, dtype=None, ctx: Context | None = None, out=None, name=None) -> NDArray:
    """Gamma with shape `alpha` and scale `beta`: mean ``alpha*beta``, variance ``alpha*beta**2``.

    The draw is ``x = beta*z``, z of the standard distribution with density ``f = z^(alpha-1)*exp(-z)/Gamma(alpha)``
    and distribution function F. Gradients: ``dx/dbeta = z``, and ``dx/dalpha = -beta*(dF/dalpha)/f``, which moves z
    so that ``F(alpha, z)`` stays what it is (implicit reparameterization: Figurnov, Mohamed and Mnih 2018); to any
    order. A draw that underflows to 0 has gradient 0.

    Parameters
    ----------
    alpha, beta : float or NDArray
        Positive; for `alpha` 0 the draws are 0. Arrays, both of one shape, give one block of `shape` per element, and
        gradients flow to them.
    shape : int or tuple of int, optional
        Default (1,), or one number per element of `alpha`.
    dtype : optional
        A floating dtype; default float32.
    ctx : Context, optional
    out : NDArray, optional
        Where to put the numbers; gives the shape and dtype.

    Returns
    -------
    NDArray
        Shape ``alpha.shape + shape``.

    Raises
    ------
    AttrError
        For parameters that are not positive and finite, or another dtype.
    ShapeError
        For arrays of different shapes, or an array and a number.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.random.gamma(alpha=nd.array([1, 9]), beta=nd.array([2, 2]), shape=3).shape
    (2, 3)
    """
    call = _Call("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out)
    call.demand(_is_gamma, "alpha must be finite and not negative, beta positive and finite")
    by_alpha, by_beta = (isinstance(p, NDArray) and p._node is not None for p in (alpha, beta))
    if not state.recording or not (by_alpha or by_beta):
        return store_out(call.draw(_gamma, *call.values), out, "gamma")
    draws = call.draw(
        _gamma, call.values[0], full(call.outer or (1,), 1.0, "float64", conventions=call.values[0]._kind.conventions)
    )

    def spread(parameter: NDArray) -> NDArray:
        return cast(reshape(parameter, parameter.shape + (1,) * len(call.block)), draws._kind)

    if by_alpha:
        draws = _held.apply((spread(alpha), draws))
    return store_out(multiply(draws, spread(beta)), out, "gamma")


def poisson(lam=1.0, shape=None, dtype=None, ctx: Context | None = None, out=None, name=None) -> NDArray:
    """Poisson with mean `lam` (>= 0), as floats; other parameters as for ``gamma``. No gradient.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.random.poisson(lam=nd.array([0, 1000]), shape=2).shape
    (2, 2)
    """
    call = _Call("poisson", {"lam": lam}, shape, dtype, ctx, out)
    call.demand(_is_poisson, "lam must be finite and not negative")
    return store_out(call.draw(_poisson, *call.values), out, "poisson")


def _mixture(call: _Call, means: NDArray, out) -> NDArray:
    """Poisson numbers, one for each mean."""
    return store_out(draw(_poisson, call.shape, call.dtype, call.ctx, means, 1, 0), out, call.op)


def _means(call: _Call, shape: NDArray, scale: NDArray) -> NDArray:
    """Gamma distributed, as float64."""
    return draw(_gamma, call.shape, float64, call.ctx, shape, scale, call.count, 0)


def negative_binomial(k=1, p=1.0, shape=None, dtype=None, ctx: Context | None = None, out=None, name=None) -> NDArray:
    """How many failures come before the `k`-th success of chance `p`; other parameters as for ``gamma``. No gradient.

    Parameters
    ----------
    k : float or NDArray
        Positive; need not be whole.
    p : float or NDArray
        In (0, 1].

    Returns
    -------
    NDArray
        Mean ``k*(1 - p)/p``, as floats.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.random.negative_binomial(k=3, p=1, shape=2).tolist()
    [0.0, 0.0]
    """
    call = _Call("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out)
    call.demand(_is_negative_binomial, "k must be positive and finite, and p in (0, 1]")
    number, chance = call.values
    return _mixture(call, _means(call, number, (1 - chance) / chance), out)


def generalized_negative_binomial(
    mu=1.0, alpha=1.0, shape=None, dtype=None, ctx: Context | None = None, out=None, name=None
) -> NDArray:
    """Poisson with a gamma-distributed mean; other parameters as for ``gamma``. No gradient.

    Parameters
    ----------
    mu : float or NDArray
        The mean, not negative.
    alpha : float or NDArray
        The dispersion, not negative: the variance is ``mu + alpha*mu**2``. For 0, Poisson.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.random.generalized_negative_binomial(mu=0, alpha=1, shape=2).tolist()
    [0.0, 0.0]
    """
    call = _Call("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, ctx, out)
    call.demand(_is_dispersed, "mu and alpha must be finite and not negative")
    mean, spread = call.values
    count = 1 / spread
    certain = equal(count, np.inf)  # the mean itself is the mean then
    means = _means(call, where(certain, 1.0, count), where(certain, mean, mean * spread))
    certain, mean = (reshape(p, (*call.outer, *(1,) * len(call.block))) for p in (certain, mean))
    return _mixture(call, where(certain, mean, means), out)


def multinomial(data, shape=None, get_prob=False, dtype="int32", out=None, name=None):
    """Numbers of classes, drawn with the given probabilities.

    Parameters
    ----------
    data : NDArray
        Probabilities, shape (k,) or (..., k): not negative, and 1 in sum along the last axis.
    shape : int or tuple of int, optional
        How many to draw per row; default one.
    get_prob : bool
        Also return the logarithms of the probabilities of what was drawn, through which gradients flow to `data`.
    dtype : optional
        Of the numbers; default int32.
    out : NDArray, optional

    Returns
    -------
    NDArray, or list of two with `get_prob`
        Shape ``data.shape[:-1] + shape``; (1,) instead of ().

    Raises
    ------
    ShapeError, AttrError
        If there are no classes, or these are no probabilities.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.random.multinomial(nd.array([[0, 1], [1, 0]]), shape=3).tolist()
    [[1, 1, 1], [0, 0, 0]]
    """
    data = as_array(data, "multinomial")
    if data.ndim == 0 or data.shape[-1] == 0:
        raise ShapeError(f"multinomial: probabilities along the last axis are needed, got shape {data.shape}")
    n = data.shape[-1]
    rows = reshape(data, (size(data.shape[:-1]), n))
    chances = demanded(
        _is_distribution,
        "multinomial: probabilities must not be negative and must add up to 1 along the last axis",
        cast(rows.detach(), data._kind.of(float64)),
    )
    block = as_shape(() if shape is None else shape, "multinomial: shape")
    draws = size(block)
    u = draw(philox.uniform, (len(rows), draws), float64, data.ctx, 0.0, 1.0)
    final = data.shape[:-1] + block or (1,)
    places = _chosen(u, chances)
    numbers = cast(reshape(places, final), places._kind.of(as_dtype(dtype)))
    if not get_prob:
        return store_out(numbers, out, "multinomial")
    starts = from_value(np.arange(len(rows))[:, None] * n)
    taken = take_axis(reshape(data, (data.size,)), reshape(places + starts, final), 0)
    return [store_out(numbers, out, "multinomial"), log(taken)]
