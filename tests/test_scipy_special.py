"""nbgrad.scipy.special: each function is SciPy's, with derivatives by all arguments; SciPy's ufuncs of our arrays are
these functions."""

import copy
import pickle

import numpy as onp
import pytest
import scipy.special

import nbgrad as nb
import nbgrad.np as np
from nbgrad.errors import DTypeError
from nbgrad.kernels.special_functions import SPECIAL
from nbgrad.scipy import special

COUNTS = {"pdtr": (4,), "pdtrc": (4,)}
IN_SINGLE_PRECISION = ["erfcx", "gammaln", "betainc", "gammaincinv", "stdtrit", "kl_div", "exprel", "ndtri"]
#: Arguments outside of (0, 1), by name.
PLACES = {
    **dict.fromkeys(("erf", "erfc", "erfcx", "cosm1", "exprel", "cbrt", "ndtr"), (-2, 2)), "log_ndtr": (-5, 3),
    "expit": (-5, 5), "log_expit": (-5, 5), **dict.fromkeys(("gamma", "gammaln", "digamma", "psi"), (-0.9, 3)),
    **dict.fromkeys(("fdtr", "fdtrc", "chdtr", "chdtrc", "stdtr"), (0.5, 5)), "beta": (-0.9, 0.9),
    **dict.fromkeys(("huber", "pseudo_huber"), (0.3, 2)),
}  # fmt: skip


def arguments(name, count=6):
    """Numbers where the function is smooth, and whole numbers where it counts."""
    rng = onp.random.default_rng(5)
    low, high = PLACES.get(name, (0.1, 0.9))
    args = [rng.uniform(low, high, count) for _ in SPECIAL[name].arguments.split()]
    for k, n in enumerate(COUNTS.get(name, ())):
        args[k] = rng.integers(4 * k, n, count).astype(float)
    return args


@pytest.mark.parametrize("name", SPECIAL)
def test_values(name):
    f, theirs, args = getattr(special, name), getattr(scipy.special, name), arguments(name)
    expected = theirs(*args)
    for given in ([np.array(v) for v in args], args):
        found = f(*given)
        assert isinstance(found, np.ndarray) and found.dtype == onp.float64
        onp.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-13, atol=1e-15)
    onp.testing.assert_array_equal(theirs(*map(np.array, args)).asnumpy(), found.asnumpy())  # the ufunc of our arrays
    if name not in IN_SINGLE_PRECISION:
        return
    rounded = [v.astype(onp.float32) for v in args]
    single = f(*rounded)
    assert single.dtype == onp.float32
    wide = theirs(*[v.astype(onp.float64) for v in rounded])
    onp.testing.assert_allclose(single.asnumpy(), wide, rtol=2e-6, atol=1e-6)
    assert float(f(*[v[0].item() for v in args])) == pytest.approx(expected[0], rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("name", [n for n in SPECIAL if n != "gammasgn"])
def test_gradients(name):
    f, args = getattr(special, name), arguments(name)
    skipped = len(COUNTS.get(name, ()))  # counts have none
    gradients = nb.grad(lambda *a: np.sum(f(*a)), argnums=tuple(range(len(args))))(*args)
    for k, g in list(enumerate(gradients))[skipped:]:
        h = 1e-5
        ends = [getattr(scipy.special, name)(*args[:k], args[k] + s, *args[k + 1 :]) for s in (h, -h, 2 * h, -2 * h)]
        expected = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * h)
        onp.testing.assert_allclose(g, expected, rtol=2e-7, atol=1e-8)


@pytest.mark.parametrize("name", ["betainc", "gammainc", "ndtri", "boxcox", "logit", "exprel", "rel_entr"])
def test_compiled_and_second_derivatives(name):
    f, args = getattr(special, name), arguments(name, 3)

    def loss(*a):
        return np.sum(f(*a) ** 2)

    everything = tuple(range(len(args)))
    plain = nb.value_and_grad(loss, argnums=everything)(*args)
    compiled = nb.jit(nb.value_and_grad(loss, argnums=everything))(*args)
    onp.testing.assert_allclose(compiled[0], plain[0], rtol=1e-13)
    for a, b in zip(compiled[1], plain[1], strict=True):
        onp.testing.assert_allclose(a, b, rtol=1e-11)
    gradient = nb.grad(loss, argnums=len(args) - 1)
    step = 1e-6
    change = (gradient(*args[:-1], args[-1] + step) - gradient(*args[:-1], args[-1] - step)) / (2 * step)
    hessian = nb.hessian(loss, argnums=len(args) - 1)(*args)
    onp.testing.assert_allclose(onp.sum(hessian, 0), change, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("x", [0.0, 1e-9, -1e-9, 1e-3, -0.7, 2.0, -30.0, 40.0])
def test_exprel_has_derivatives_at_0(x):
    """The n-th one is the integral of s^n*exp(s*x) from 0 to 1."""
    nodes, weights = onp.polynomial.legendre.leggauss(60)
    s, w = 0.5 + 0.5 * nodes, 0.5 * weights
    f = special.exprel
    for n in range(4):
        assert float(f(x)) == pytest.approx(onp.sum(w * s**n * onp.exp(s * x)), rel=2e-12)
        f = nb.grad(f)


@pytest.mark.parametrize("x", [0.2, 1.0, 3.0])
def test_boxcox_is_smooth_where_the_power_is_0(x):
    assert float(special.boxcox(x, 0.0)) == pytest.approx(onp.log(x))
    assert nb.grad(lambda p: special.boxcox(x, p))(0.0) == pytest.approx(onp.log(x) ** 2 / 2)


def test_values_at_the_edges():
    assert float(special.boxcox(0.0, 2.0)) == float(special.boxcox1p(-1.0, 2.0)) == -0.5
    for name, args in (("exprel", (onp.nan,)), ("rel_entr", (0.0, onp.nan)), ("rel_entr", (-1.0, onp.nan)),
                       ("kl_div", (onp.nan, -1.0)), ("gammasgn", (onp.nan,))):  # fmt: skip
        assert onp.isnan(getattr(special, name)(*args).asnumpy()), name
    assert float(special.betainc(1.0, 1.0, 1e-200)) == pytest.approx(1e-200)
    assert float(special.betaincinv(1.0, 1.0, 1e-200)) == pytest.approx(1e-200)
    assert float(special.stdtrit(1.0, 1e-110)) == pytest.approx(-1e110 / onp.pi)
    assert float(special.fdtrc(2.0, 2.0, 1e20)) == pytest.approx(1e-20)


def test_logit_is_precise_near_one_half_and_at_the_ends():
    p = onp.array([0.5 + 1e-12, 0.5 - 3e-10, 1e-300, 0.26, 0.74, 0.76, 1.0, 0.0])
    onp.testing.assert_allclose(special.logit(p).asnumpy(), scipy.special.logit(p), rtol=1e-14)


@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"axis": (0, 1)}, {"axis": 1, "keepdims": True}, {"axis": -1},
                                     {"b": onp.arange(12.0).reshape(3, 4)}, {"axis": 1, "b": onp.ones(4)}])  # fmt: skip
def test_logsumexp(options):
    a = onp.random.default_rng(0).normal(size=(3, 4)) * 50
    a[0, 0] = -onp.inf
    onp.testing.assert_allclose(special.logsumexp(np.array(a), **options).asnumpy(),
                                scipy.special.logsumexp(a, **options), rtol=1e-14)  # fmt: skip
    if "b" not in options:
        gradient = nb.grad(lambda a: np.sum(special.logsumexp(a, **options)))(a)
        axis = options.get("axis")
        onp.testing.assert_allclose(gradient, scipy.special.softmax(a, axis=axis), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_softmax(axis):
    x = onp.random.default_rng(1).normal(size=(3, 4)) * 10
    for name in ("softmax", "log_softmax"):
        found = getattr(special, name)(x, axis=axis)
        onp.testing.assert_allclose(found.asnumpy(), getattr(scipy.special, name)(x, axis=axis), rtol=1e-13)


def test_gammas_with_orders():
    x = onp.array([0.4, 1.5, 7.0])
    for n in (0, 1, 3):

        def total(x, n=n):
            return np.sum(special.polygamma(n, x))

        onp.testing.assert_allclose(special.polygamma(n, x).asnumpy(), scipy.special.polygamma(n, x), rtol=1e-13)
        onp.testing.assert_allclose(nb.grad(total)(x), scipy.special.polygamma(n + 1, x), rtol=1e-13)
    onp.testing.assert_allclose(special.multigammaln(x + 2, 3).asnumpy(), scipy.special.multigammaln(x + 2, 3))
    with pytest.raises(DTypeError, match="polygamma: the order is a whole number"):
        special.polygamma(1.5, x)


def test_they_are_functions_of_their_module():
    for name in SPECIAL:
        f = getattr(special, name)
        assert pickle.loads(pickle.dumps(f)) is f is copy.copy(f) is copy.deepcopy(f)
        assert f.__name__ == name and f"scipy.special.{name}" in f.__doc__ and "Parameters" in f.__doc__
        assert all(a in f.__doc__ for a in SPECIAL[name].arguments.split())


def test_bad_arguments():
    with pytest.raises(TypeError, match="betainc: 3 operands are expected, got 2"):
        special.betainc(1.0, 2.0)
    with pytest.raises(DTypeError, match=r"gammainc: an array, a number, .* got 'x'"):
        special.gammainc("x", 2.0)
    with pytest.raises(DTypeError, match=r"convert it with x\.as_np"):
        special.betainc(1.0, 2.0, nb.nd.ones(2))
    out = np.zeros((2, 3))
    assert special.betainc(2.0, 3.0, np.array([0.1, 0.2, 0.3]), out=out) is out
    onp.testing.assert_allclose(out.asnumpy()[1], scipy.special.betainc(2, 3, [0.1, 0.2, 0.3]))
    assert onp.isnan(special.betainc(2.0, -1.0, 0.5).asnumpy())
