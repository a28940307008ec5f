"""Densities of the distributions that ``random`` draws from, as functions of the numbers and the parameters."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import numpy as np

from ..arrays.ndarray import NDArray
from ..core.dtypes import float32
from ..errors import DTypeError, ShapeError
from ..operators.cast import cast, unify
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import composite
from .reduce import sum_
from .selection import where
from .shape import reshape
from .unary import exp, gammaln, log, square

__all__: list[str] = []  # operators are found through the registry


def _aligned(op: str, names: tuple[str, ...], given: tuple, vectors: int) -> list[NDArray]:
    """The arrays in one floating dtype, the parameters with axes of length 1 where only the sample has one."""
    arrays = unify([as_array(x, op, name) for name, x in zip(names, given, strict=True)], op)
    sample, *parameters = arrays
    if not sample._kind.dtype.is_float:
        raise DTypeError(f"{op}: numbers of a floating dtype are needed, got {sample._kind.dtype}; use astype first")
    shapes = {p.shape for p in parameters}
    if len(shapes) > 1 or len(parameters[0].shape) > sample.ndim:
        raise ShapeError(
            f"{op}: {', '.join(names[1:])} must have one shape, the leading axes of sample {sample.shape}; got "
            f"{', '.join(map(str, sorted(shapes)))}"
        )
    lead = parameters[0].ndim - vectors
    middle = (1,) * (sample.ndim - lead - vectors)
    return [sample, *(reshape(p, p.shape[:lead] + middle + p.shape[lead:]) for p in parameters)]


def _density(
    name: str,
    of: str,
    parameters: dict[str, str],
    log_density: Callable,
    inside: Callable | None,
    samples: tuple,
    vectors: int = 0,
) -> None:
    """Declare ``random_pdf_<name>``; a distribution of vectors has them along the last axis."""
    op = f"random_pdf_{name}"
    names = ("sample", *parameters)
    kinds = inspect.Parameter
    signature = inspect.Signature(
        [kinds(n, kinds.POSITIONAL_OR_KEYWORD) for n in names]
        + [kinds("is_log", kinds.POSITIONAL_OR_KEYWORD, default=False)]
    )

    def call(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        *given, is_log = bound.arguments.values()
        sample, *values = _aligned(op, names, tuple(given), vectors)
        kind = sample._kind
        if kind.dtype.name == "float16":  # the terms are too great for it
            wide = kind.of(float32)
            return cast(density(cast(sample, wide), [cast(v, wide) for v in values], is_log), kind)
        return density(sample, values, is_log)

    def density(sample, values, is_log):
        if inside is None:
            found = log_density(sample, *values)
            return found if is_log else exp(found)
        within = inside(sample.detach(), *[v.detach() for v in values])
        found = log_density(where(within, sample, 0.5), *values)
        return where(within, found, -np.inf) if is_log else where(within, exp(found), 0.0)

    call.__signature__ = signature  # type: ignore[attr-defined]
    lines = "\n".join(f"    {n} : NDArray\n        {text}" for n, text in parameters.items())
    rest = "without the last axis" if vectors else "broadcast with the parameters"
    call.__doc__ = f"""The density of {of}, at given numbers.

    Parameters
    ----------
    sample : NDArray
        Of a floating dtype. Its leading axes are those of the parameters.
{lines}
    is_log : bool
        The logarithm of the density.

    Returns
    -------
    NDArray
        Shape of `sample` {rest}; 0, or -inf, where nothing is drawn.
        Gradients flow to `sample` and to the
        parameters.

    Raises
    ------
    DTypeError, ShapeError
        For integers, or parameters that do not fit.
    """
    composite(op, method=False, samples=samples)(call)


def _rows(reference: str | Callable, convert: Callable, *ranges: tuple[float, float], at: tuple = (0.3, 3.0)) -> tuple:
    """Two parameters of each kind, three numbers for each; and the logarithm."""
    parameters = [Input((2,), *r) for r in ranges]

    def expected(x, *values, is_log=False):
        value = reference(x, *convert(*(v[:, None] for v in values)))  # type: ignore[operator]
        return np.log(value) if is_log else value

    one = [Input((2, 3), *at), *parameters]
    return sample_table(expected, one, [*one, {"is_log": True}], ulp=32, ints=False)


def _numpy(log_density: Callable) -> Callable:
    return lambda x, *values: np.exp(log_density(x, *values))


_lgamma = np.vectorize(math.lgamma, otypes=[float])
_same = lambda *values: values  # noqa: E731


def _negative_binomial(x, k, p):
    return gammaln(x + k) - gammaln(x + 1) - gammaln(k) + k * log(p) + x * log(1 - p)


def _numpy_negative_binomial(x, k, p):
    return _lgamma(x + k) - _lgamma(x + 1) - _lgamma(k) + k * np.log(p) + x * np.log(1 - p)


def _from_mean(mu, alpha):
    return 1 / alpha, 1 / (mu * alpha + 1)


def _not_negative(x, *parameters):
    return x >= 0


_density(
    "uniform",
    "the uniform distribution on [low, high]",
    {"low": "The least number.", "high": "The greatest."},
    lambda x, low, high: x * 0 - log(high - low),
    lambda x, low, high: (x >= low) * (x <= high),
    _rows(lambda x, low, high: 1 / (high - low) + 0 * x, _same, (-0.5, 0.2), (3.1, 4.0)),
)
_density(
    "normal",
    "the normal distribution",
    {"mu": "Means.", "sigma": "Standard deviations."},
    lambda x, mu, sigma: -0.5 * square((x - mu) / sigma) - log(sigma) - 0.5 * math.log(2 * math.pi),
    None,
    _rows(
        lambda x, mu, sigma: np.exp(-0.5 * ((x - mu) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi)),
        _same,
        (-1.0, 1.0),
        (0.5, 2.0),
        at=(-2.0, 2.0),
    ),
)
_density(
    "gamma",
    "the gamma distribution",
    {"alpha": "Shapes.", "beta": "Rates: means are alpha/beta."},
    lambda x, a, b: a * log(b) + (a - 1) * log(x) - b * x - gammaln(a),
    lambda x, a, b: x > 0,
    _rows(lambda x, a, b: b**a * x ** (a - 1) * np.exp(-b * x - _lgamma(a)), _same, (0.8, 3.0), (0.5, 2.0)),
)
_density(
    "exponential",
    "the exponential distribution",
    {"lam": "Rates: means are 1/lam."},
    lambda x, lam: log(lam) - lam * x,
    _not_negative,
    _rows(lambda x, lam: lam * np.exp(-lam * x), _same, (0.5, 2.0)),
)
_density(
    "poisson",
    "the Poisson distribution",
    {"lam": "Means."},
    lambda x, lam: x * log(lam) - lam - gammaln(x + 1),
    _not_negative,
    _rows(lambda x, lam: lam**x * np.exp(-lam - _lgamma(x + 1)), _same, (0.5, 3.0)),
)
_density(
    "negative_binomial",
    "the number of failures before the k-th success",
    {"k": "Numbers of successes.", "p": "Chances of a success."},
    _negative_binomial,
    _not_negative,
    _rows(_numpy(_numpy_negative_binomial), _same, (0.8, 3.0), (0.2, 0.8)),
)
_density(
    "generalized_negative_binomial",
    "the Poisson distribution with a gamma-distributed mean",
    {"mu": "Means.", "alpha": "Dispersions: the variance is ``mu + alpha*mu**2``."},
    lambda x, mu, alpha: _negative_binomial(x, *_from_mean(mu, alpha)),
    _not_negative,
    _rows(_numpy(_numpy_negative_binomial), _from_mean, (0.8, 3.0), (0.3, 1.5)),
)


def _numpy_dirichlet(x, alpha, is_log=False):
    value = ((alpha - 1) * np.log(x)).sum(-1) + _lgamma(alpha.sum(-1)) - _lgamma(alpha).sum(-1)
    return value if is_log else np.exp(value)


_density(
    "dirichlet",
    "the Dirichlet distribution, of vectors along the last axis",
    {"alpha": "Concentrations, along the last axis."},
    lambda x, a: sum_((a - 1) * log(x), axis=-1) + (gammaln(sum_(a, axis=-1)) - sum_(gammaln(a), axis=-1)),
    None,
    sample_table(
        _numpy_dirichlet,
        [Input((2, 3), 0.2, 0.6), Input((3,), 0.5, 2.0)],
        [Input((2, 3), 0.2, 0.6), Input((3,), 0.5, 2.0), {"is_log": True}],
        ulp=64,
        ints=False,
    ),
    vectors=1,
)
