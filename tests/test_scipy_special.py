"""nbgrad.scipy.special: each function is SciPy's, with derivatives by all arguments; SciPy's ufuncs of our arrays are
these functions."""

import copy
import pickle

import mpmath
import numpy as onp
import pytest
import scipy.special

import nbgrad as nb
import nbgrad.np as np
from nbgrad.errors import DTypeError
from nbgrad.kernels.special_functions import SPECIAL
from nbgrad.scipy import special

COUNTS = dict.fromkeys(("pdtr", "pdtrc", "jn", "yn", "kn", "expn"), (4,))
REAL_ORDERS = ["jv", "yv", "iv", "ive", "kv", "kve"]
BESSEL = ["j0", "j1", "jn", "y0", "y1", "yn", "i0", "i0e", "i1", "i1e", "k0", "k0e", "k1", "k1e", "kn", *REAL_ORDERS]
IN_SINGLE_PRECISION = ["erfcx", "gammaln", "betainc", "gammaincinv", "stdtrit", "kl_div", "exprel", "ndtri", "j1", "kv",
                       "yn", "expi"]  # fmt: skip
#: Arguments outside of (0, 1), by name.
PLACES = {
    **dict.fromkeys(("erf", "erfc", "erfcx", "cosm1", "exprel", "cbrt", "ndtr"), (-2, 2)), "log_ndtr": (-5, 3),
    "expit": (-5, 5), "log_expit": (-5, 5), **dict.fromkeys(("gamma", "gammaln", "digamma", "psi"), (-0.9, 3)),
    **dict.fromkeys(("fdtr", "fdtrc", "chdtr", "chdtrc", "stdtr"), (0.5, 5)), "beta": (-0.9, 0.9),
    **dict.fromkeys(("huber", "pseudo_huber"), (0.3, 2)), **dict.fromkeys(BESSEL, (0.4, 9)), "exp1": (0.2, 5),
    "expi": (-2, 3), "expn": (0.2, 5), "zetac": (-3, 0.8),
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
    skipped = 1 if name in REAL_ORDERS else len(COUNTS.get(name, ()))  # counts and orders have none
    gradients = nb.grad(lambda *a: np.sum(f(*a)), argnums=tuple(range(len(args))))(*args)
    for k, g in list(enumerate(gradients))[skipped:]:
        h = 1e-5
        ends = [getattr(scipy.special, name)(*args[:k], args[k] + s, *args[k + 1 :]) for s in (h, -h, 2 * h, -2 * h)]
        expected = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * h)
        onp.testing.assert_allclose(g, expected, rtol=2e-7, atol=1e-8)


@pytest.mark.parametrize(
    "name",
    ["betainc", "gammainc", "ndtri", "boxcox", "logit", "exprel", "rel_entr", "exp1", "expi", "expn", "zetac", *BESSEL],
)
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


def differences(f, x, h=1e-3):
    """The derivative, by six points."""
    weights = {1: 45, 2: -9, 3: 1}
    return sum(w * (f(x + k * h) - f(x - k * h)) for k, w in weights.items()) / (60 * h)


@pytest.mark.parametrize("name", BESSEL)
def test_third_derivatives_of_bessel_functions(name):
    f, theirs = getattr(special, name), getattr(scipy.special, name)
    order = () if SPECIAL[name].arguments == "x" else ((2,) if name in COUNTS else (1.7,))
    for x in (0.7, 2.3, 6.0):
        third = nb.grad(nb.grad(nb.grad(lambda x: f(*order, x))))(x)
        second = lambda x: differences(lambda x: differences(lambda x: theirs(*order, x), x), x)  # noqa: E731
        assert third == pytest.approx(differences(second, x, 1e-2), rel=1e-5, abs=1e-5)


def test_derivatives_of_bessel_functions_at_0():
    def at_0(f, n):
        for _ in range(n):
            f = nb.grad(f)
        return float(f(0.0))

    assert [at_0(special.j0, n) for n in range(5)] == [1, 0, -0.5, 0, 0.375]
    assert [at_0(special.j1, n) for n in range(5)] == [0, 0.5, 0, -0.375, 0]
    assert [at_0(special.i0, n) for n in range(5)] == [1, 0, 0.5, 0, 0.375]
    assert [at_0(lambda x: special.jv(2, x), n) for n in range(3)] == [0, 0, 0.25]
    assert [at_0(lambda x: special.iv(1, x), n) for n in range(4)] == [0, 0.5, 0, 0.375]
    assert at_0(lambda x: special.jv(0.5, x), 1) == onp.inf


def test_derivatives_by_real_orders_are_not_known():
    for name in REAL_ORDERS:
        assert onp.isnan(nb.grad(getattr(special, name), argnums=0)(1.5, 2.0))


EXACT = {
    "jv": mpmath.besselj, "yv": mpmath.bessely, "iv": mpmath.besseli, "kv": mpmath.besselk,
    "ive": lambda v, x: mpmath.besseli(v, x) * mpmath.exp(-x), "kve": lambda v, x: mpmath.besselk(v, x) * mpmath.exp(x),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("order", [0, 1, 2, 3, 10, 50, 100, -1, -2, -7, 0.5, 2.5, 30.25, -1.25])
def test_bessel_functions_of_all_sizes(name, order):
    """Also where they are 0 or infinite, and of negative numbers."""
    f = getattr(special, name)
    x = onp.array([1e-3, 0.3, 1.9, 2.1, 7.0, 19.0, 21.0, 60.0, 300.0, 650.0, 1500.0])
    found, expected = f(order, x).asnumpy(), onp.array([float(EXACT[name](order, v)) for v in x])
    swing = onp.sqrt(2 / onp.pi / onp.maximum(x, 1)) * (x > abs(order)) if name in ("jv", "yv") else 0.0
    with onp.errstate(invalid="ignore"):
        right = (found == expected) | (abs(found - expected) <= 1e-13 * (abs(expected) + swing))
    assert (right | (abs(expected) < 1e-290)).all(), (found, expected)
    below = f(order, -x).asnumpy()
    if name in ("jv", "iv", "ive") and order == int(order):
        onp.testing.assert_array_equal(below, found * (-1) ** order)
    else:
        assert onp.isnan(below).all()
    if name in ("yv", "kv"):
        whole = getattr(special, name[0] + "n")(order, x).asnumpy()
        onp.testing.assert_array_equal(whole, found if order == int(order) else onp.nan)


def test_bessel_functions_at_the_edges():
    def values(name, *args):
        return [float(getattr(special, name)(*a)) for a in args]

    inf, nan = onp.inf, onp.nan
    for name, expected in (("j0", 0), ("j1", 0), ("y0", 0), ("i0", inf), ("i0e", 0), ("k0", 0), ("k1e", 0)):
        assert values(name, (inf,)) == [expected]
        assert onp.isnan(values(name, (nan,))).all()
    for x in (1e15, 1e100, 1e300):  # of an angle whose whole turns have to be taken off
        assert values("j0", (x,)) + values("jv", (0, x)) == pytest.approx([float(mpmath.besselj(0, x))] * 2, rel=1e-14)
        assert values("yv", (2.5, x)) == pytest.approx([float(mpmath.bessely(2.5, x))], rel=1e-14)
    assert values("jv", (50, 1e-8), (100, 1e-3), (1e6, 2.0), (100, 1e-300)) == [0, 0, 0, 0]
    assert values("yv", (50, 1e-8), (100, 1e-3), (0, 0), (1e6, 2.0)) == [-inf] * 4
    assert values("iv", (2, 720), (0, inf), (1, -inf), (3, 0)) == [inf, inf, -inf, 0]
    assert values("kv", (100, 1e-3), (0, 0), (2, inf), (2, 1e4)) == [inf, inf, 0, 0]
    assert onp.isnan(values("jv", (0.5, -1.0)) + values("yn", (2, -1.0)) + values("kn", (2, -1.0))).all()
    assert onp.isnan(values("yn", (0.5, 1.0)) + values("kn", (0.5, 1.0)) + values("expn", (0.5, 1.0))).all()
    # beyond what one of the two factors can hold
    assert values("iv", (1200, 700.0)) == pytest.approx([float(mpmath.besseli(1200, 700))], rel=1e-12)
    assert values("kv", (1200, 700.0)) == pytest.approx([scipy.special.kv(1200, 700.0)], rel=1e-11)


def test_exponential_integrals_at_the_edges():
    for x, n in ((0.0, 2), (1e-300, 1), (1e300, 3), (700.0, 2), (745.0, 1)):
        assert float(special.expn(n, x)) == pytest.approx(scipy.special.expn(n, x), rel=1e-13)
    assert [float(special.exp1(x)) for x in (0.0, onp.inf, 800.0)] == [onp.inf, 0, 0]
    assert [float(special.expi(x)) for x in (0.0, onp.inf, -onp.inf)] == [-onp.inf, onp.inf, 0]
    assert onp.isnan([float(special.exp1(-1.0)), float(special.expn(2, -1.0))]).all()
    assert nb.grad(lambda x: special.expn(0, x))(1.5) == pytest.approx(-onp.exp(-1.5) * (1 / 1.5 + 1 / 2.25))


def test_zeta():
    x, q = onp.array([1.2, 2.0, 3.5, 11.0]), onp.array([0.3, 1.0, 7.5, 40.0])
    onp.testing.assert_allclose(special.zeta(x).asnumpy(), scipy.special.zeta(x), rtol=1e-14)
    onp.testing.assert_allclose(special.zeta(x, q).asnumpy(), scipy.special.zeta(x, q), rtol=1e-13)
    onp.testing.assert_allclose(special.zeta(x[:, None], q).asnumpy(), scipy.special.zeta(x[:, None], q), rtol=1e-13)
    below = onp.array([0.0, 0.5, -0.5, -2.0, -3.5, -20.0, -101.5, -200.5])
    onp.testing.assert_allclose(special.zeta(below).asnumpy(), scipy.special.zeta(below), rtol=2e-12)
    assert special.zeta(onp.float32(2.5)).dtype == onp.float32 and special.zeta([2, 3]).dtype == onp.float64
    by_x, by_q = nb.grad(lambda x, q: np.sum(special.zeta(x, q)), argnums=(0, 1))(x, q)
    onp.testing.assert_allclose(by_q, -x * scipy.special.zeta(x + 1, q), rtol=1e-13)
    onp.testing.assert_allclose(by_x, differences(lambda x: scipy.special.zeta(x, q), x), rtol=1e-8)
    for point in (1.7, 4.0, 0.4, -1.3):
        first = nb.grad(special.zeta)
        assert first(point) == pytest.approx(differences(scipy.special.zeta, point), rel=1e-8)
        assert nb.grad(first)(point) == pytest.approx(differences(first, point), rel=1e-7)
    mixed = nb.grad(lambda q: nb.grad(lambda x: special.zeta(x, q))(2.5))
    assert mixed(1.3) == pytest.approx(differences(lambda x: -x * scipy.special.zeta(x + 1, 1.3), 2.5), rel=1e-8)
    assert [float(special.zeta(1.0)), float(special.zeta(2.0, -3.0)), float(special.zeta(onp.inf))] == [
        onp.inf,
        onp.inf,
        1,
    ]
    assert onp.isnan([float(special.zeta(0.5, 2.0)), float(special.zeta(onp.nan))]).all()
    assert float(special.zeta(2.0, -1.5)) == pytest.approx(scipy.special.zeta(2.0, -1.5))
    assert float(special.zetac(60.0)) == pytest.approx(scipy.special.zetac(60.0), rel=1e-14)


def test_bessel_functions_in_loops():
    def waves(x, n):
        total = 0.0
        for i in range(x.shape[0]):
            total += scipy.special.j0(x[i]) * scipy.special.jv(2, x[i]) + scipy.special.kv(n, x[i])
            total += scipy.special.expn(2, x[i]) + scipy.special.exp1(x[i])
        return total

    def whole(x):
        return np.sum(special.j0(x) * special.jv(2, x) + special.kv(1.5, x) + special.expn(2, x) + special.exp1(x))

    x = onp.array([0.3, 1.7, 5.2, 30.0])
    value, (gradient, _) = nb.adjoint(waves).value_and_grad(x, 1.5)
    expected = nb.value_and_grad(whole)(x)
    assert value == pytest.approx(expected[0], rel=1e-13)
    onp.testing.assert_allclose(gradient, expected[1], rtol=1e-12)


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
