"""nbgrad.scipy.stats: all methods of all distributions are SciPy's, with derivatives by all parameters."""

import pickle
from functools import partial

import numpy as onp
import pytest
import scipy.stats

import nbgrad as nb
import nbgrad.np as np
from nbgrad.errors import ShapeError
from nbgrad.scipy import stats

SHAPES = {
    "beta": (1.7, 0.8), "chi2": (3.4,), "f": (3.5, 6.2), "fisk": (2.6,), "gamma": (1.8,), "invgamma": (3.1,),
    "lognorm": (0.7,), "pareto": (3.3,), "t": (4.5,), "weibull_min": (1.4,),
}  # fmt: skip
CONTINUOUS = [n for n in stats.continuous.__all__]
COUNTS = {"bernoulli": (0.3,), "binom": (9, 0.35), "geom": (0.4,), "nbinom": (3.5, 0.4), "poisson": (2.7,)}
OF_NUMBERS = ["pdf", "logpdf", "cdf", "sf", "logcdf", "logsf"]
Q = onp.array([0.03, 0.3, 0.5, 0.62, 0.97])


def theirs(name, method):
    return getattr(getattr(scipy.stats, name), method)


def ours(name, method):
    return getattr(getattr(stats, name), method)


def numbers(name, loc=0.0, scale=1.0):
    """Numbers in the support, but no kink."""
    return theirs(name, "ppf")(Q - 0.01, *SHAPES.get(name, ()), loc, scale)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_values(name):
    shapes = SHAPES.get(name, ())
    for places in ((0.4, 1.7),) if name != "norm" else ((), (0.4, 1.7), (-0.3,)):
        x = numbers(name, *places)
        outside = onp.concatenate([x, [-50.0, 60.0, onp.nan]])
        for method in OF_NUMBERS:
            found = ours(name, method)(outside, *shapes, *places).asnumpy()
            expected = theirs(name, method)(outside, *shapes, *places)
            known = onp.isfinite(expected) | onp.isnan(expected) | ~onp.isfinite(found)  # ours may reach further
            small = 1e-13 if method.startswith("log") else 1e-300
            onp.testing.assert_allclose(found[known], expected[known], rtol=2e-12, atol=small, err_msg=method)
        for method in ("ppf", "isf"):
            q = onp.concatenate([Q, [0.0, 1.0, -0.1, 1.1]])
            found = ours(name, method)(q, *shapes, *places).asnumpy()
            onp.testing.assert_allclose(found, theirs(name, method)(q, *shapes, *places), rtol=2e-12, atol=1e-14)
        for method in ("mean", "var", "std", "entropy", "median"):
            found = float(ours(name, method)(*shapes, *places))
            assert found == pytest.approx(theirs(name, method)(*shapes, *places), rel=1e-11, nan_ok=True), method


@pytest.mark.parametrize("name", CONTINUOUS)
def test_derivatives(name):
    """By the number, the shapes, loc and scale, of several methods at once: of their sum with different factors."""
    shapes, places = SHAPES.get(name, ()), (0.4, 1.7)
    x, given = numbers(name, *places), (*shapes, *places)

    def total(m, x, *given):
        methods = partial(getattr, getattr(m, name))
        of_x = sum(m_sum((k + 1) * methods(n)(x, *given)) for k, n in enumerate(("logpdf", "cdf", "logsf")))
        return of_x + m_sum(methods("ppf")(Q, *given))

    def m_sum(v):
        return np.sum(v) if isinstance(v, np.ndarray) else onp.sum(v)

    gradients = nb.grad(lambda *a: total(stats, *a), argnums=tuple(range(1 + len(given))))(x, *given)
    for k, g in enumerate(gradients):
        h = 1e-4
        args = [x, *given]

        def change(s, args=args, k=k):
            return total(scipy.stats, *args[:k], args[k] + s, *args[k + 1 :])

        expected = (8 * (change(h) - change(-h)) - (change(2 * h) - change(-2 * h))) / (12 * h)
        assert onp.sum(g) == pytest.approx(expected, rel=2e-6, abs=2e-6), k


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    shapes, k = COUNTS[name], onp.array([-1.0, 0.0, 1.0, 2.0, 2.5, 9.0, 10.0, onp.nan])
    for places in ((), (2,)):
        for method in ("pmf", "logpmf", "cdf", "sf", "logcdf", "logsf"):
            found = ours(name, method)(k, *shapes, *places).asnumpy()
            onp.testing.assert_allclose(found, theirs(name, method)(k, *shapes, *places), rtol=2e-12, err_msg=method)
        for method in ("mean", "var", "std"):
            found = float(ours(name, method)(*shapes, *places))
            assert found == pytest.approx(theirs(name, method)(*shapes, *places), rel=1e-13)
    real = [j for j, s in enumerate(shapes) if isinstance(s, float)]
    k = onp.array([1, 2, 5])

    def total(m, *given, add):
        return sum(add(getattr(getattr(m, name), n)(k, *given)) for n in ("pmf", "logpmf", "cdf", "sf"))

    if name == "bernoulli":
        k = onp.array([0, 1, 1])
    gradients = nb.grad(lambda *a: total(stats, *a, add=np.sum), argnums=tuple(real))(*shapes)
    for j, g in zip(real, gradients, strict=True):
        ends = [total(scipy.stats, *shapes[:j], shapes[j] + s, *shapes[j + 1 :], add=onp.sum) for s in (1e-6, -1e-6)]
        assert g == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)
    assert onp.array_equal(nb.grad(lambda k: np.sum(ours(name, "pmf")(k, *shapes)))(k * 1.0), onp.zeros(3))


def test_tails_keep_their_digits():
    x = onp.array([-40.0, -9.0, 9.0, 40.0])
    for name in ("norm", "t", "logistic", "laplace", "cauchy", "gumbel_r"):
        shapes = SHAPES.get(name, ())
        for method in ("cdf", "sf"):
            found = ours(name, method)(x, *shapes).asnumpy()
            onp.testing.assert_allclose(found, theirs(name, method)(x, *shapes), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda: stats.f.cdf(1e12, 10.0, 0.1), 0.77895190271867),
        (lambda: stats.f.cdf(1e30, 5.0, 0.01), 0.30931631913360),
        (lambda: stats.f.ppf(1e-10, 1.0, 1.0), 2.4674011e-20),
        (lambda: stats.f.cdf(onp.inf, 2.0, 3.0), 1.0),
        (lambda: stats.beta.cdf(1e-300, 0.5, 0.5), 2.0 / onp.pi * 1e-150),
        (lambda: stats.beta.ppf(1e-300, 2.0, 3.0), 4.0824829e-151),
        (lambda: stats.t.ppf(1e-110, 1.0), -1.0 / (onp.pi * 1e-110)),
        (lambda: stats.t.logpdf(1.0, onp.inf), scipy.stats.norm.logpdf(1.0)),
        (lambda: stats.cauchy.logpdf(1e155), -onp.log(onp.pi) - 2 * 155 * onp.log(10)),
        (lambda: stats.gamma.entropy(1e10), 12.9318639982),
        (lambda: stats.halfnorm.logsf(1e-10), -7.978845608e-11),
        (lambda: stats.lognorm.logpdf(0.0, 1.0), -onp.inf),
        (lambda: stats.invgamma.pdf(0.0, 2.0), 0.0),
        (lambda: stats.fisk.pdf(0.0, 1.0), 1.0),
        (lambda: stats.rayleigh.pdf(onp.inf), 0.0),
        (lambda: stats.invgamma.var(0.5), onp.inf),
    ],
)
def test_far_out(found, expected):
    assert float(found()) == pytest.approx(expected, rel=1e-8)


def test_parameters_that_are_not_valid():
    assert onp.isnan(stats.norm.logpdf(0.5, 0.0, -1.0).asnumpy())
    assert onp.isnan(stats.gamma.cdf(np.array([0.5, 1.0]), -2.0).asnumpy()).all()
    assert onp.isnan(stats.binom.pmf(1, 3, 1.2).asnumpy())
    assert float(stats.binom.pmf(0, 0, 0.5)) == float(stats.poisson.pmf(0, 0.0)) == 1.0
    for call, message in [
        (lambda: stats.norm.ppf(), r"norm.ppf: q must be given; then loc, scale"),
        (lambda: stats.gamma.pdf(1.0), r"gamma.pdf: a must be given; the parameters are a, loc, scale"),
        (lambda: stats.norm.pdf(1.0, 0.0, 1.0, 2.0), r"norm.pdf: 2 parameters at most \(loc, scale\), got 3"),
        (lambda: stats.t.cdf(1.0, 3.0, df=2.0), r"t.cdf: the parameter 'df' is given twice"),
        (lambda: stats.t.cdf(1.0, nu=2.0), r"t.cdf: the parameter 'nu' is unknown; the parameters are df, loc, scale"),
    ]:
        with pytest.raises(TypeError, match=message):
            call()


def test_shapes_dtypes_and_names():
    x = np.array(onp.ones((3, 1), onp.float32))
    found = stats.gamma.logpdf(x, onp.array([1.0, 2.0], onp.float32), scale=2)
    assert found.shape == (3, 2) and found.dtype == onp.float32
    assert stats.norm.pdf([0, 1]).dtype == onp.float64
    assert pickle.loads(pickle.dumps(stats.norm)) is stats.norm and "lognorm(s, loc, scale)" in repr(stats.lognorm)
    assert float(stats.expon.ppf(q=0.5)) == float(stats.expon.ppf(0.5))
    assert float(stats.poisson.pmf(k=1, mu=2.0)) == float(stats.poisson.pmf(1, 2.0))
    frozen = stats.norm(1.0, scale=2.0)
    assert float(frozen.logpdf(0.3)) == float(stats.norm.logpdf(0.3, 1.0, 2.0)) and float(frozen.mean()) == 1.0
    assert stats.norm.logpdf.__doc__.startswith("The logarithm of the density")


def test_draws_are_differentiated():
    def mean(a, scale):
        return np.mean(stats.gamma.rvs(a, scale=scale, size=4000, random_state=3))

    value, (by_shape, by_scale) = nb.value_and_grad(mean, argnums=(0, 1))(2.0, 1.5)
    assert value == pytest.approx(3.0, rel=0.05)
    assert by_shape == pytest.approx(1.5, rel=0.1) and by_scale == pytest.approx(2.0, rel=0.05)


def test_fits_are_compiled():
    """A survival model with censored times: compiled, and with its Hessian."""
    rng = onp.random.default_rng(0)
    times = rng.weibull(1.6, 60) * 2.0
    censored = times > 2.5
    times = onp.minimum(times, 2.5)

    def loss(p):
        c, scale = np.exp(p[0]), np.exp(p[1])
        died = np.where(censored, 0.0, stats.weibull_min.logpdf(times, c, scale=scale))
        return -np.sum(died + np.where(censored, stats.weibull_min.logsf(times, c, scale=scale), 0.0))

    p = onp.array([0.3, 0.5])
    value, gradient = nb.jit(nb.value_and_grad(loss))(p)
    plain = nb.value_and_grad(loss)(p)
    assert value == pytest.approx(plain[0], rel=1e-13)
    onp.testing.assert_allclose(gradient, plain[1], rtol=1e-11)
    steps = 1e-6 * onp.eye(2)
    change = [(nb.grad(loss)(p + s) - nb.grad(loss)(p - s)) / 2e-6 for s in steps]
    onp.testing.assert_allclose(nb.hessian(loss)(p), change, rtol=1e-6)


X = onp.array([[0.3, -0.2], [1.0, 0.5], [0.1, 2.0]])
COV = onp.array([[1.2, 0.3], [0.3, 0.7]])


@pytest.mark.parametrize("arguments", [(onp.array([0.1, 0.4]), COV), (None, COV), (onp.array([0.1, 0.4]), 0.7),
                                       (onp.zeros(2), onp.array([0.5, 2.0]))])  # fmt: skip
def test_multivariate_normal(arguments):
    expected = scipy.stats.multivariate_normal.logpdf(X, *arguments)
    for singular in (False, True):
        found = stats.multivariate_normal.logpdf(X, *arguments, allow_singular=singular)
        onp.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-12)
    onp.testing.assert_allclose(stats.multivariate_normal.pdf(X, *arguments).asnumpy(), onp.exp(expected), rtol=1e-12)
    assert float(stats.multivariate_normal.logpdf(X[0], *arguments)) == pytest.approx(expected[0], rel=1e-12)


def test_derivatives_of_the_multivariate_normal():
    def loss(mean, cov):
        return np.sum(stats.multivariate_normal.logpdf(X, mean, cov)) + stats.multivariate_normal.entropy(mean, cov)

    def plain(mean, cov):
        normal = scipy.stats.multivariate_normal
        return onp.sum(normal.logpdf(X, mean, cov)) + normal.entropy(mean, cov)

    mean = onp.array([0.1, 0.4])
    by_mean, by_cov = nb.grad(loss, argnums=(0, 1))(mean, COV)
    for s in 1e-6 * onp.eye(2):
        assert s @ by_mean == pytest.approx((plain(mean + s, COV) - plain(mean - s, COV)) / 2, rel=1e-6)
    for s in (onp.diag([1e-6, 0]), onp.diag([0, 1e-6]), 1e-6 * (1 - onp.eye(2))):
        assert onp.sum(s * by_cov) == pytest.approx((plain(mean, COV + s) - plain(mean, COV - s)) / 2, rel=1e-6)
    with pytest.raises(ShapeError, match=r"cov must have the shape \(2, 2\), got \(3, 3\)"):
        stats.multivariate_normal.logpdf(X, mean, onp.eye(3))
    with pytest.raises(np.linalg.LinAlgError):
        stats.multivariate_normal.logpdf(X, mean, -COV)


def test_shares_and_counts_of_vectors():
    alpha, x = onp.array([0.8, 2.0, 3.5]), onp.array([0.2, 0.3, 0.5])
    expected = scipy.stats.dirichlet.logpdf(x, alpha)
    for given in (x, x[:2]):
        assert float(stats.dirichlet.logpdf(given, alpha)) == pytest.approx(expected, rel=1e-13)
    gradient = nb.grad(lambda a: stats.dirichlet.logpdf(x, a))(alpha)
    steps = 1e-6 * onp.eye(3)
    change = [(scipy.stats.dirichlet.logpdf(x, alpha + s) - scipy.stats.dirichlet.logpdf(x, alpha - s)) / 2e-6
              for s in steps]  # fmt: skip
    onp.testing.assert_allclose(gradient, change, rtol=1e-6)
    with pytest.raises(ShapeError, match="dirichlet: a vector alpha as long as x"):
        stats.dirichlet.logpdf(x, onp.ones(5))
    counts = onp.array([[2, 1, 3], [1, 1, 1]])
    found = stats.multinomial.logpmf(counts, 6, x).asnumpy()
    onp.testing.assert_allclose(found, scipy.stats.multinomial.logpmf(counts, 6, x), rtol=1e-13)
    by_shares = nb.grad(lambda p: stats.multinomial.logpmf(counts[0], 6, p))(x)
    onp.testing.assert_allclose(by_shares, counts[0] / x, rtol=1e-13)
