"""Random numbers of nbgrad.np: their distributions, their derivatives, and what decides them."""

import pickle

import numpy
import pytest
from scipy import stats

import nbgrad as nb
import nbgrad.np as np
from nbgrad.errors import AttrError, DTypeError, ShapeError, TraceError

CONTINUOUS = {
    "random": ((), stats.uniform()),
    "uniform": ((-1.0, 3.0), stats.uniform(-1, 4)),
    "standard_normal": ((), stats.norm()),
    "normal": ((1.0, 2.0), stats.norm(1, 2)),
    "lognormal": ((0.5, 0.8), stats.lognorm(0.8, scale=numpy.exp(0.5))),
    "standard_exponential": ((), stats.expon()),
    "exponential": ((2.0,), stats.expon(scale=2)),
    "weibull": ((1.7,), stats.weibull_min(1.7)),
    "pareto": ((2.5,), stats.lomax(2.5)),
    "rayleigh": ((1.5,), stats.rayleigh(scale=1.5)),
    "gumbel": ((1.0, 0.5), stats.gumbel_r(1, 0.5)),
    "logistic": ((1.0, 0.5), stats.logistic(1, 0.5)),
    "laplace": ((1.0, 0.5), stats.laplace(1, 0.5)),
    "standard_cauchy": ((), stats.cauchy()),
    "gamma": ((2.5, 0.5), stats.gamma(2.5, scale=0.5)),
    "standard_gamma": ((0.7,), stats.gamma(0.7)),
    "chisquare": ((3.0,), stats.chi2(3)),
    "standard_t": ((4.0,), stats.t(4)),
    "beta": ((2.0, 3.0), stats.beta(2, 3)),
    "f": ((4.0, 7.0), stats.f(4, 7)),
}
DISCRETE = {
    "poisson": ((3.5,), stats.poisson(3.5)),
    "binomial": ((10, 0.3), stats.binom(10, 0.3)),
    "negative_binomial": ((3, 0.4), stats.nbinom(3, 0.4)),
    "geometric": ((0.3,), stats.geom(0.3)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name):
    parameters, distribution = CONTINUOUS[name]
    for drawn in (
        getattr(np.random.default_rng(1), name)(*parameters, size=(50, 200)),
        getattr(np.random.default_rng(2), name)(*map(np.array, parameters), size=10000),
    ):
        assert isinstance(drawn, np.ndarray)
        assert drawn.dtype == numpy.float64
        assert stats.kstest(drawn.asnumpy().reshape(-1), distribution.cdf).pvalue > 1e-3
    assert getattr(np.random.default_rng(1), name)(*parameters).shape == ()


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name):
    parameters, distribution = DISCRETE[name]
    drawn = getattr(np.random.default_rng(1), name)(*parameters, size=20000)
    assert drawn.dtype == numpy.int64
    values, counts = numpy.unique(drawn.asnumpy(), return_counts=True)
    often = counts > 50
    numpy.testing.assert_allclose(counts[often] / 20000, distribution.pmf(values[often]), rtol=0.25)
    numpy.testing.assert_allclose(drawn.asnumpy().mean(), distribution.mean(), rtol=0.03)


GAMMA = {"gamma", "standard_gamma", "chisquare", "standard_t", "beta", "f"}  # by rejection, which moves


@pytest.mark.parametrize("name", [n for n, (parameters, _) in CONTINUOUS.items() if parameters and n not in GAMMA])
def test_derivatives_are_those_of_the_same_draw(name):
    parameters, _ = CONTINUOUS[name]

    def total(*p):
        return np.sum(getattr(np.random.default_rng(5), name)(*p, size=7) ** 2)

    found = nb.grad(total, argnums=tuple(range(len(parameters))))(*parameters)
    for k, slope in enumerate(found):
        moved = [[q + d if j == k else q for j, q in enumerate(parameters)] for d in (-1e-6, 1e-6)]
        below, above = (float(total(*p)) for p in moved)
        numpy.testing.assert_allclose(slope, (above - below) / 2e-6, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("gamma", lambda a, s: stats.gamma(a, scale=s)),
        ("standard_gamma", stats.gamma),
        ("chisquare", stats.chi2),
    ],
)
def test_derivatives_are_those_of_the_quantile(name, by):
    parameters, _ = CONTINUOUS[name]
    drawn = getattr(np.random.default_rng(5), name)(*parameters, size=7).asnumpy()
    levels = by(*parameters).cdf(drawn)

    def total(*p):
        return np.sum(getattr(np.random.default_rng(5), name)(*p, size=7) ** 2)

    found = nb.grad(total, argnums=tuple(range(len(parameters))))(*parameters)
    for k, slope in enumerate(found):
        moved = [[q + d if j == k else q for j, q in enumerate(parameters)] for d in (-1e-5, 1e-5)]
        below, above = ((by(*p).ppf(levels) ** 2).sum() for p in moved)
        numpy.testing.assert_allclose(slope, (above - below) / 2e-5, rtol=1e-6)


def test_vectors():
    rng = np.random.default_rng(3)
    cov = numpy.array([[2.0, 0.6], [0.6, 1.0]])
    drawn = rng.multivariate_normal(numpy.array([1.0, -1.0]), cov, 20000)
    numpy.testing.assert_allclose(numpy.cov(drawn.asnumpy().T), cov, atol=0.06)
    numpy.testing.assert_allclose(drawn.asnumpy().mean(0), [1, -1], atol=0.04)
    shares = rng.dirichlet([1.0, 2.0, 3.0], 5000)
    numpy.testing.assert_allclose(shares.asnumpy().sum(1), 1)
    numpy.testing.assert_allclose(shares.asnumpy().mean(0), [1 / 6, 2 / 6, 3 / 6], atol=0.01)
    counts = rng.multinomial(10, [0.2, 0.3, 0.5], 2000)
    assert (counts.asnumpy().sum(1) == 10).all()
    numpy.testing.assert_allclose(counts.asnumpy().mean(0), [2, 3, 5], atol=0.15)

    def spread(s):
        return np.sum(np.random.default_rng(3).multivariate_normal(np.zeros(2), np.array([[s, 0.1], [0.1, 1.0]])) ** 2)

    numpy.testing.assert_allclose(
        nb.grad(spread)(2.0), float(spread(2.0 + 1e-6) - spread(2.0 - 1e-6)) / 2e-6, rtol=1e-5
    )


def test_order_and_choices():
    rng = np.random.default_rng(4)
    assert sorted(rng.permutation(5).tolist()) == [0, 1, 2, 3, 4]
    x = np.arange(6.0).reshape(3, 2)
    assert sorted(rng.permutation(x).tolist()) == x.tolist()
    assert sorted(rng.permutation(x, axis=1)[0].tolist()) == [0, 1]
    y = np.arange(5)
    rng.shuffle(y)
    assert sorted(y.tolist()) == [0, 1, 2, 3, 4]
    assert len(set(rng.choice(10, 10, replace=False).tolist())) == 10
    assert set(rng.choice(np.array([3.0, 7.0]), (2, 50)).asnumpy().reshape(-1)) == {3.0, 7.0}
    p = [0.1, 0.6, 0.3]
    drawn = rng.choice(3, 20000, p=p)
    numpy.testing.assert_allclose(numpy.bincount(drawn.asnumpy()) / 20000, p, atol=0.015)
    firsts = [int(rng.choice(3, 2, replace=False, p=p)[0]) for _ in range(2000)]
    numpy.testing.assert_allclose(numpy.bincount(firsts) / 2000, p, atol=0.05)
    ints = rng.integers(-2, 3, 1000)
    assert (ints.dtype, set(ints.tolist())) == (numpy.int64, {-2, -1, 0, 1, 2})
    assert set(rng.integers(2, size=100, endpoint=True).tolist()) == {0, 1, 2}
    slopes = nb.grad(lambda x: (np.random.default_rng(1).permutation(x) * numpy.arange(3)).sum())(numpy.ones(3))
    assert sorted(slopes.tolist()) == [0, 1, 2]


def test_what_decides_the_numbers():
    first, again = np.random.default_rng(7), np.random.default_rng(7)
    a = first.normal(size=3)
    assert (a == again.normal(size=3)).all()
    assert not (a == first.normal(size=3)).all()
    restored = pickle.loads(pickle.dumps(first))
    assert (restored.random(4) == first.random(4)).all()
    np.random.seed(2)
    before = np.random.normal(size=2)
    first.normal(size=100)  # a stream of its own
    nb.random.seed(2)
    assert (before == np.random.normal(size=2)).all()
    assert np.random.default_rng(first) is first
    assert not (np.random.default_rng().random(2) == np.random.default_rng().random(2)).all()
    assert np.random.rand(2, 3).shape == np.random.randn(2, 3).shape == (2, 3)
    assert np.random.randint(3, size=4).dtype == numpy.int64


def test_in_transforms():
    def noisy(x):
        return np.sum((x + np.random.normal(0.0, x, size=(2, 3))) ** 2)

    x = numpy.array([0.5, 1.0, 2.0])
    for f in (noisy, lambda x: np.sum(x * np.random.gamma(x, 2.0))):
        found = []
        for g in (nb.grad(f), nb.jit(nb.grad(f))):
            np.random.seed(3)
            found.append(g(x))
        numpy.testing.assert_allclose(found[1], found[0], rtol=1e-12)
        assert not numpy.array_equal(nb.jit(f)(x), nb.jit(f)(x))
    with pytest.raises(TraceError, match="a Generator of its own"):
        nb.jit(lambda x: x * np.random.default_rng(0).random())(x)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda r: r.normal(0.0, -1.0), AttrError, "scale must not be negative"),
        (lambda r: r.normal(np.zeros(2), 1.0, size=3), ShapeError, r"parameters of shape \(2,\) do not fit the size"),
        (lambda r: r.choice(3, 4, replace=False), AttrError, "4 of 3 cannot be chosen"),
        (lambda r: r.choice(3, p=[0.5, 0.6, 0.1]), AttrError, "3 chances of 0 or more that add up to 1"),
        (lambda r: r.choice(3, 2, False, [1.0, 0.0, 0.0]), AttrError, "fewer than 2 chances"),
        (lambda r: r.dirichlet(2.0), ShapeError, "alpha must be a vector"),
        (lambda r: r.multivariate_normal([0.0], [[1.0, 0.0]]), ShapeError, "a vector and a matrix of its length"),
        (lambda r: np.random.default_rng("a"), DTypeError, "an integer, a Generator or None"),
        (lambda r: r.gamma(-1.0), AttrError, "shape must not be negative"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call(np.random.default_rng(0))
