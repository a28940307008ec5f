"""Random arrays: ``nbgrad.np.random``, with NumPy's names and arguments.

Functions of this module draw from the stream of :func:`nbgrad.random.seed`, also in compiled functions; a
:class:`Generator` has a stream of its own. The numbers are not NumPy's: they are the same on every machine, and for any
number of threads. Continuous distributions are differentiated with respect to their parameters: what is drawn is a
function of the parameters and of numbers that do not depend on them.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..autodiff.constants import carries_gradient
from ..autodiff.state import recording
from ..core.conventions import NUMPY
from ..core.dtypes import as_dtype
from ..core.shapes import as_shape, size
from ..errors import AttrError, DTypeError, LostGradientError, ShapeError
from ..kernels import philox, sampling
from ..kernels import random as _kernels
from . import calculus, linalg, manipulation, reductions, selection
from .arrays import as_array, ndarray
from .creation import arange, from_numpy_values
from .ufuncs import UFUNCS

__all__ = ["Generator", "default_rng", "seed"]

_FLOAT = as_dtype("float64")
_log, _sqrt, _tan, _exp = (UFUNCS[n] for n in ("log", "sqrt", "tan", "exp"))


class Generator:
    """Draws random arrays; create one by :func:`default_rng`.

    Every method takes parameters that are numbers or arrays, which broadcast, and `size`, the shape of the result: by
    default that of the parameters. Results are float64, or int64.

    Examples
    --------
    >>> import nbgrad.np as np
    >>> rng = np.random.default_rng(3)
    >>> rng.normal(size=(2, 3)).shape
    (2, 3)
    >>> import nbgrad as nb
    >>> nb.grad(lambda s: np.random.default_rng(3).normal(scale=s))(1.0) == np.random.default_rng(3).normal()
    array(True)
    """

    def __init__(self, stream: _kernels.Stream | None) -> None:
        self._stream = stream

    def __repr__(self) -> str:
        return "Generator(Philox)"

    def __reduce__(self) -> tuple[Callable, tuple]:
        return _restored, () if self._stream is None else (self._stream.key, self._stream.offset)

    def _draw(self, kernel: Any, shape: tuple[int, ...], dtype: Any, *parameters: Any) -> Any:
        with _kernels.drawing_from(self._stream):
            return _kernels.draw(kernel, shape, as_dtype(dtype), None, *parameters, conventions=NUMPY)

    def _on_host(self, name: str, shape: Any, *parameters: Any) -> ndarray:
        """Numbers of a distribution that has no derivative, by NumPy's algorithm, from this stream."""
        _check_constant(name, *parameters)
        plain = [p.asnumpy() if isinstance(p, NDArray) else p for p in parameters]
        with _kernels.drawing_from(self._stream):
            key, start = _kernels.take(1)
        made = np.random.Generator(np.random.Philox(key=[key, start]))
        return from_numpy_values(np.asarray(getattr(made, name)(*plain, size=_shape(shape))))

    # Uniform and normal numbers, and what is a function of them.

    def random(self, size=None, dtype="float64") -> ndarray:
        """Uniform on [0, 1)."""
        return self._draw(philox.uniform, _shape(size) or (), dtype, 0.0, 1.0)

    def uniform(self, low=0.0, high=1.0, size=None) -> ndarray:
        """Uniform on [low, high): ``low + (high - low) * u``."""
        (low, high), shape = _parameters("uniform", size, low, high)
        return low + (high - low) * self.random(shape)

    def standard_normal(self, size=None, dtype="float64") -> ndarray:
        """Normal with mean 0 and standard deviation 1."""
        return self._draw(philox.normal, _shape(size) or (), dtype, 0.0, 1.0)

    def normal(self, loc=0.0, scale=1.0, size=None) -> ndarray:
        """Normal: ``loc + scale * z``."""
        (loc, scale), shape = _parameters("normal", size, loc, scale)
        _check("normal", "scale", scale, lambda s: s >= 0)
        return loc + scale * self.standard_normal(shape)

    def lognormal(self, mean=0.0, sigma=1.0, size=None) -> ndarray:
        """The exponential of a normal number."""
        return _exp(self.normal(mean, sigma, size))

    def standard_exponential(self, size=None, dtype="float64") -> ndarray:
        """Exponential with mean 1."""
        return self._draw(philox.exponential, _shape(size) or (), dtype, 1.0)

    def exponential(self, scale=1.0, size=None) -> ndarray:
        """Exponential with mean `scale`: ``scale * e``."""
        (scale,), shape = _parameters("exponential", size, scale)
        _check("exponential", "scale", scale, lambda s: s >= 0)
        return scale * self.standard_exponential(shape)

    def weibull(self, a, size=None) -> ndarray:
        """Weibull with shape `a`: ``e**(1 / a)``."""
        (a,), shape = _parameters("weibull", size, a)
        _check("weibull", "a", a, lambda a: a >= 0)
        return self.standard_exponential(shape) ** (1.0 / a)

    def pareto(self, a, size=None) -> ndarray:
        """Pareto II (Lomax) with shape `a`: ``exp(e / a) - 1``."""
        (a,), shape = _parameters("pareto", size, a)
        _check("pareto", "a", a, lambda a: a >= 0)
        return UFUNCS["expm1"](self.standard_exponential(shape) / a)

    def rayleigh(self, scale=1.0, size=None) -> ndarray:
        """Rayleigh: ``scale * sqrt(2 e)``."""
        (scale,), shape = _parameters("rayleigh", size, scale)
        return scale * _sqrt(2.0 * self.standard_exponential(shape))

    def gumbel(self, loc=0.0, scale=1.0, size=None) -> ndarray:
        """Gumbel, of maxima: ``loc - scale * log(e)``."""
        (loc, scale), shape = _parameters("gumbel", size, loc, scale)
        _check("gumbel", "scale", scale, lambda s: s >= 0)
        return loc - scale * _log(self.standard_exponential(shape))

    def logistic(self, loc=0.0, scale=1.0, size=None) -> ndarray:
        """Logistic: ``loc + scale * log(u / (1 - u))``, as the difference of two Gumbel numbers."""
        (loc, scale), shape = _parameters("logistic", size, loc, scale)
        _check("logistic", "scale", scale, lambda s: s >= 0)
        return loc + scale * _log(self.standard_exponential(shape) / self.standard_exponential(shape))

    def laplace(self, loc=0.0, scale=1.0, size=None) -> ndarray:
        """Laplace: ``loc + scale`` times the difference of two exponential numbers."""
        (loc, scale), shape = _parameters("laplace", size, loc, scale)
        _check("laplace", "scale", scale, lambda s: s >= 0)
        return loc + scale * (self.standard_exponential(shape) - self.standard_exponential(shape))

    def standard_cauchy(self, size=None) -> ndarray:
        """Cauchy: the tangent of an angle."""
        return _tan(math.pi * (self.random(size) - 0.5))

    # Gamma numbers, and what is a function of them.

    def gamma(self, shape, scale=1.0, size=None) -> ndarray:
        """Gamma with this `shape`, times `scale`; differentiated implicitly with respect to `shape`."""
        (k, scale), wanted = _parameters("gamma", size, shape, scale)
        _check("gamma", "shape", k, lambda s: s >= 0)
        k = manipulation.expanded(as_array(k, "gamma") * 1.0, wanted)
        with _kernels.drawing_from(self._stream):
            drawn: Any = sampling.gamma(k, k.detach() * 0 + 1, (), dtype="float64")
        return scale * drawn

    def standard_gamma(self, shape, size=None) -> ndarray:
        """Gamma with this `shape`."""
        return self.gamma(shape, 1.0, size)

    def chisquare(self, df, size=None) -> ndarray:
        """Chi-square with `df` degrees of freedom."""
        return 2.0 * self.gamma(0.5 * as_array(df, "chisquare"), 1.0, size)

    def standard_t(self, df, size=None) -> ndarray:
        """Student's t with `df` degrees of freedom: a normal number over the root of a mean square."""
        (df,), shape = _parameters("standard_t", size, df)
        return self.standard_normal(shape) / _sqrt(self.chisquare(df, shape) / df)

    def beta(self, a, b, size=None) -> ndarray:
        """Beta: ``x / (x + y)`` of two gamma numbers."""
        (a, b), shape = _parameters("beta", size, a, b)
        x, y = self.gamma(a, 1.0, shape), self.gamma(b, 1.0, shape)
        return x / (x + y)

    def f(self, dfnum, dfden, size=None) -> ndarray:
        """F: the ratio of two mean squares."""
        (m, n), shape = _parameters("f", size, dfnum, dfden)
        return (self.chisquare(m, shape) / m) / (self.chisquare(n, shape) / n)

    def dirichlet(self, alpha, size=None) -> ndarray:
        """Dirichlet: gamma numbers over their sum, along the last axis."""
        a = as_array(alpha, "dirichlet")
        if a.ndim != 1:
            raise ShapeError(f"dirichlet: alpha must be a vector, got the shape {a.shape}")
        x = self.gamma(a, 1.0, (*(_shape(size) or ()), a.size))
        return x / x.sum(-1, keepdims=True)

    def multivariate_normal(self, mean, cov, size=None) -> ndarray:
        """Normal vectors: ``mean + L z``, L the Cholesky factor of `cov`, which must be positive definite."""
        mean, cov = as_array(mean, "multivariate_normal"), as_array(cov, "multivariate_normal")
        if mean.ndim != 1 or cov.shape != (mean.size, mean.size):
            raise ShapeError(
                "multivariate_normal: a vector and a matrix of its length are expected, got the shapes "
                f"{mean.shape} and {cov.shape}"
            )
        z = self.standard_normal((*(_shape(size) or ()), mean.size))
        return mean + z @ linalg.cholesky(cov).T

    # Integers, which have no derivative.

    def integers(self, low, high=None, size=None, dtype="int64", endpoint=False) -> ndarray:
        """Integers from `low` up to but without `high`, or below `low` if it is given alone."""
        low, high = (0, low) if high is None else (low, high)
        if any(isinstance(v, NDArray | np.ndarray | list | tuple) for v in (low, high)):
            return self._on_host("integers", size, low, as_array(high, "integers").asnumpy() + bool(endpoint))
        with _kernels.drawing_from(self._stream):
            found: Any = _kernels.randint(low, high + bool(endpoint), _shape(size) or (), dtype)
        return found.as_np()

    def poisson(self, lam=1.0, size=None) -> ndarray:
        """Poisson numbers with mean `lam`, int64."""
        (lam,), shape = _parameters("poisson", size, lam)
        _check("poisson", "lam", lam, lambda s: s >= 0)
        _check_constant("poisson", lam)
        lam = manipulation.expanded(as_array(lam, "poisson") * 1.0, shape)
        with _kernels.drawing_from(self._stream):
            found: Any = sampling.poisson(lam.detach(), (), dtype="float64")
        return found.astype(np.int64)

    def binomial(self, n, p, size=None) -> ndarray:
        """How many of `n` trials succeed, each with chance `p`."""
        return self._on_host("binomial", size, n, p)

    def negative_binomial(self, n, p, size=None) -> ndarray:
        """How many trials fail before the `n`-th succeeds."""
        return self._on_host("negative_binomial", size, n, p)

    def geometric(self, p, size=None) -> ndarray:
        """Which trial is the first that succeeds."""
        return self._on_host("geometric", size, p)

    def multinomial(self, n, pvals, size=None) -> ndarray:
        """How many of `n` trials have each outcome."""
        return self._on_host("multinomial", size, n, pvals)

    # Order.

    def permutation(self, x, axis=0) -> ndarray:
        """The integers below `x`, or the slices of an array along an axis, in random order."""
        whole = arange(x) if isinstance(x, int | np.integer) else as_array(x, "permutation")
        k = manipulation.axis_of(axis, whole.ndim, "permutation")
        with _kernels.drawing_from(self._stream):
            order: Any = _kernels.permutation(whole.shape[k])
        return selection.take(whole, order.as_np(), k)

    def shuffle(self, x, axis=0) -> None:
        """Put the slices along an axis into random order, in place; of a list, its items."""
        if isinstance(x, list):
            x[:] = [x[k] for k in self.permutation(len(x)).tolist()]
            return
        x[...] = self.permutation(as_array(x, "shuffle"), axis)

    def choice(self, a, size=None, replace=True, p=None, axis=0) -> ndarray:
        """Slices of an array along an axis, or integers below `a`, chosen with chances `p`, equal by default."""
        count = a if isinstance(a, int | np.integer) else as_array(a, "choice").shape[axis]
        shape = _shape(size) or ()
        number = _size(shape)
        if not replace and number > count:
            raise AttrError(f"choice: {number} of {count} cannot be chosen without replacement")
        if p is not None:
            _check_constant("choice", p)
            chances = np.asarray(as_array(p, "choice").asnumpy(), np.float64)
            if chances.shape != (count,) or (chances < 0).any() or abs(chances.sum() - 1) > 1e-8:
                raise AttrError(f"choice: p must have {count} chances of 0 or more that add up to 1")
            if not replace and number > np.count_nonzero(chances):
                raise AttrError(f"choice: p has fewer than {number} chances that are not zero")
        if p is None:
            places = self.permutation(int(count))[:number] if not replace else self.integers(0, count, number)
        elif replace:
            sums = np.cumsum(chances)
            places = calculus.searchsorted(sums / sums[-1], self.random(number), "right")
        else:  # in the order of exponential numbers over their chances, which is that of drawing one by one
            with np.errstate(divide="ignore"):
                places = reductions.argsort(self.standard_exponential(int(count)) / chances)[:number]
        places = places.reshape(shape)
        return places if isinstance(a, int | np.integer) else selection.take(as_array(a, "choice"), places, axis)


def _shape(given: Any) -> tuple[int, ...] | None:
    return None if given is None else as_shape(given, "size")


_size = size


def _parameters(name: str, given: Any, *parameters: Any) -> tuple[Sequence, tuple[int, ...]]:
    """Parameters as arrays or numbers, and the shape of the result."""
    found = [p if isinstance(p, int | float) else as_array(p, name) for p in parameters]
    shapes = [np.shape(p) if isinstance(p, int | float) else p.shape for p in found]
    shape = np.broadcast_shapes(*shapes)
    wanted = _shape(given)
    if wanted is None:
        return found, shape
    if len(shape) > len(wanted) or any(n not in (1, m) for n, m in zip(shape[::-1], wanted[::-1], strict=False)):
        raise ShapeError(f"{name}: parameters of shape {shape} do not fit the size {wanted}")
    return found, wanted


def _check_constant(name: str, *parameters: Any) -> None:
    """Refuse recorded parameters: numbers that are integers have no derivative by them."""
    for p in parameters:
        if isinstance(p, NDArray) and recording() and carries_gradient(p):
            raise LostGradientError(
                f"{name}: the numbers drawn are integers, which have no derivative; use x.detach() for the parameter"
            )


def _check(name: str, parameter: str, value: Any, holds: Callable) -> None:
    if isinstance(value, NDArray) and value._kind.traced:
        return
    if not np.all(holds(value._view() if isinstance(value, NDArray) else value)):
        raise AttrError(f"{name}: {parameter} must not be negative, got {value}")


def _restored(key: int | None = None, offset: int = 0) -> Generator:
    return _shared if key is None else Generator(_kernels.Stream(key, offset))


def default_rng(seed: int | Generator | None = None) -> Generator:
    """A generator with a stream of its own, which the seed decides; from the system's entropy without one."""
    if isinstance(seed, Generator):
        return seed
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer)):
        raise DTypeError(f"default_rng: an integer, a Generator or None is expected, got {seed!r}")
    return Generator(_kernels.Stream(secrets.randbits(63) if seed is None else int(seed) & (2**63 - 1)))


def seed(seed: int | None = None) -> None:
    """Start the stream that the functions of this module share anew."""
    _kernels.seed(secrets.randbits(63) if seed is None else seed)


def rand(*shape: int) -> ndarray:
    """Uniform on [0, 1), in the shape given by the arguments."""
    return _shared.random(shape)


def randn(*shape: int) -> ndarray:
    """Normal numbers in the shape given by the arguments."""
    return _shared.standard_normal(shape)


def randint(low, high=None, size=None, dtype="int64") -> ndarray:
    """Integers from `low` up to but without `high`, or below `low` if it is given alone."""
    return _shared.integers(low, high, size, dtype)


def random_sample(size=None) -> ndarray:
    """Uniform on [0, 1)."""
    return _shared.random(size)


_shared = Generator(None)


def _fill() -> None:
    names = globals()
    for name in vars(Generator):
        if not name.startswith("_") and name != "integers":
            names[name] = getattr(_shared, name)
            __all__.append(name)
    __all__.extend(["rand", "randint", "randn", "random_sample"])


_fill()
