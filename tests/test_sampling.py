"""Random numbers by rejection: distributions against SciPy's, shapes, streams, gradients, errors."""

import numpy as np
import pytest
from scipy import stats

import nbgrad as nb
from nbgrad import autograd, nd

N = 40000


def fits_discrete(x, law):
    """Whether counts agree with the law: chi-square over cells that expect 20 or more."""
    edges = np.unique(law.ppf(np.linspace(0, 1, 12)[1:-1])).astype(int)
    cells = np.diff([0.0, *law.cdf(edges), 1.0])
    counts = np.bincount(np.searchsorted(edges, x), minlength=len(cells))
    kept = cells * len(x) > 20
    apart = ((counts - cells * len(x)) ** 2 / np.maximum(cells * len(x), 1e-9))[kept].sum()
    return apart < stats.chi2(max(kept.sum() - 1, 1)).ppf(1 - 1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("alpha", [0.3, 1, 2.5, 40])
def test_gamma(alpha, dtype):
    nb.random.seed(3)
    x = nd.random.gamma(alpha=alpha, beta=2, shape=N, dtype=dtype).asnumpy()
    assert x.dtype == dtype
    assert stats.kstest(x.astype(float), stats.gamma(alpha, scale=2).cdf).pvalue > 1e-4


@pytest.mark.parametrize("lam", [0.2, 3, 9.9, 10, 45, 1e6])
def test_poisson(lam):
    nb.random.seed(4)
    x = nd.random.poisson(lam=lam, shape=N, dtype="float64").asnumpy()
    assert (x == np.floor(x)).all()
    assert fits_discrete(x, stats.poisson(lam))


def test_poisson_of_extreme_means():
    nb.random.seed(5)
    assert nd.random.poisson(lam=0, shape=3).tolist() == [0, 0, 0]
    x = nd.random.poisson(lam=1e14, shape=1000, dtype="float64").asnumpy()
    assert abs((x - 1e14).mean()) < 2e6
    assert 0.9e7 < x.std() < 1.1e7
    assert np.isfinite(nd.random.poisson(lam=1e300, dtype="float64").asscalar())


@pytest.mark.parametrize(("k", "p"), [(3, 0.4), (0.5, 0.1), (20, 0.9)])
def test_negative_binomial(k, p):
    nb.random.seed(6)
    x = nd.random.negative_binomial(k=k, p=p, shape=N).asnumpy()
    assert fits_discrete(x, stats.nbinom(k, p))


@pytest.mark.parametrize(("mu", "alpha"), [(2, 0.5), (30, 0.1), (4, 0)])
def test_generalized_negative_binomial(mu, alpha):
    nb.random.seed(7)
    x = nd.random.generalized_negative_binomial(mu=mu, alpha=alpha, shape=N).asnumpy()
    law = stats.nbinom(1 / alpha, 1 / (1 + alpha * mu)) if alpha else stats.poisson(mu)
    assert fits_discrete(x, law)


def test_multinomial():
    nb.random.seed(8)
    chances = np.array([[0.1, 0.2, 0, 0.7], [1, 0, 0, 0]])
    x = nd.random.multinomial(nd.array(chances), shape=N).asnumpy()
    assert x.dtype == np.int32
    assert x.shape == (2, N)
    for row, p in zip(x, chances, strict=True):
        counts = np.bincount(row, minlength=4)
        assert (counts[p == 0] == 0).all()
        assert (np.abs(counts - N * p) <= 4 * np.sqrt(N * p * (1 - p))).all()


def test_shapes():
    pair = nd.array([1, 5])
    assert nd.random.poisson(3).shape == (1,)
    assert nd.random.poisson(pair).shape == (2,)
    assert nd.random.poisson(pair, shape=3).shape == (2, 3)
    assert nd.random.gamma(pair, pair, shape=(2, 2)).shape == (2, 2, 2)
    assert nd.random.negative_binomial(pair, pair / 8, shape=0).shape == (2,)
    assert nd.random.gamma(shape=(0, 2)).shape == (0, 2)
    assert nd.random.multinomial(nd.array([0.1, 0.9])).shape == (1,)
    assert nd.random.multinomial(nd.array([[0.1, 0.9]] * 3), shape=(2, 2), dtype="float32").shape == (3, 2, 2)
    assert nd.random.gamma(2, dtype="float16").dtype == np.float16
    out = nd.zeros((2, 3))
    assert nd.random.poisson(4, out=out) is out
    assert out.asnumpy().sum() > 0
    means = nd.random.poisson(nd.array([1, 1000]), shape=500).asnumpy().mean(1)
    assert abs(means[0] - 1) < 0.3
    assert abs(means[1] - 1000) < 10


@pytest.mark.parametrize("name", ["gamma", "poisson", "negative_binomial", "generalized_negative_binomial"])
def test_the_seed_says_it_all(name):
    call = getattr(nd.random, name)
    assert getattr(nd, f"random_{name}") is getattr(nd, f"sample_{name}") is call
    options = {"k": 5, "p": 0.2} if name == "negative_binomial" else {}
    drawn = []
    for _ in range(2):
        nb.random.seed(11)
        drawn.append([call(shape=5, dtype="float64", **options).tolist() for _ in range(2)])
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[0][1]


def test_gradients():
    beta = nd.array([1.0, 2.0], dtype="float64")
    alpha = nd.array([3.0, 4.0], dtype="float64")
    beta.attach_grad()
    nb.random.seed(1)
    with autograd.record():
        y = nd.random.gamma(alpha, beta, shape=3, dtype="float64")
    y.backward()
    np.testing.assert_allclose(beta.grad.asnumpy(), y.asnumpy().sum(1) / beta.asnumpy())
    nb.random.seed(1)
    again = nd.random.gamma(alpha, beta, shape=3, dtype="float64")
    np.testing.assert_allclose(again.asnumpy(), y.asnumpy(), rtol=1e-14)


def test_the_probability_of_what_was_drawn_is_differentiable():
    p = nd.array([[0.25, 0.75], [1.0, 0.0]], dtype="float64")
    p.attach_grad()
    with autograd.record():
        numbers, logs = nd.random.multinomial(p, shape=4, get_prob=True)
    logs.backward()
    picked = numbers.asnumpy()
    np.testing.assert_allclose(logs.asnumpy(), np.log(np.take_along_axis(p.asnumpy(), picked, 1)))
    counts = np.stack([np.bincount(row, minlength=2) for row in picked])
    np.testing.assert_allclose(p.grad.asnumpy(), np.where(counts, counts / np.maximum(p.asnumpy(), 1e-9), 0))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda r: r.gamma(-1, 1), "not negative"),
        (lambda r: r.gamma(1, float("nan")), "positive"),
        (lambda r: r.gamma(float("inf")), "finite"),
        (lambda r: r.gamma(1, dtype="int32"), "floating dtype"),
        (lambda r: r.gamma("a"), "alpha must be a number"),
        (lambda r: r.poisson(-1), "not negative"),
        (lambda r: r.poisson(nd.array([1, float("inf")])), "finite"),
        (lambda r: r.negative_binomial(1, 0), r"p in \(0, 1\]"),
        (lambda r: r.negative_binomial(0, 0.5), "k must be positive"),
        (lambda r: r.generalized_negative_binomial(1, -1), "not negative"),
        (lambda r: r.gamma(nd.ones(2), nd.ones(3)), "arrays of one shape"),
        (lambda r: r.gamma(nd.ones(2), 1), "arrays of one shape"),
        (lambda r: r.multinomial(nd.array([0.5, 0.4])), "add up to 1"),
        (lambda r: r.multinomial(nd.array([1.5, -0.5])), "negative"),
        (lambda r: r.multinomial(nd.zeros((2, 0))), "last axis"),
        (lambda r: r.multinomial(nd.array(1.0)), "last axis"),
    ],
)
def test_errors(call, text):
    with pytest.raises(nb.NBGradError, match=text):
        call(nd.random)


def test_randint_takes_integers():
    assert nd.random.randint(1.0, 2.0).tolist() == [1]
    with pytest.raises(ValueError, match=r"low and high must be integers, got 0\.5 and 2\.5"):
        nd.random.randint(0.5, 2.5)
