"""Programs for HIPS autograd, run by nbgrad.compat.autograd."""

import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import scipy.integrate
import scipy.linalg
import scipy.special
import scipy.stats
from scipy.optimize import minimize

import nbgrad as nb
import nbgrad.compat.autograd as autograd
import nbgrad.compat.autograd.numpy as np
from nbgrad.compat.autograd import misc
from nbgrad.compat.autograd import scipy as ag_scipy
from nbgrad.compat.autograd.extend import defvjp, defvjp_argnum, notrace_primitive, primitive
from nbgrad.compat.autograd.misc.optimizers import adam, rmsprop, sgd
from nbgrad.compat.autograd.test_util import check_grads, combo_check
from nbgrad.errors import LostGradientError

ROOT = Path(__file__).resolve().parents[1]
RNG = numpy.random.default_rng(0)


def predict(weights, inputs):
    return 0.5 * (np.tanh(np.dot(inputs, weights)) + 1)


INPUTS = numpy.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
TARGETS = numpy.array([True, True, False, True])


def training_loss(weights):
    chances = predict(weights, INPUTS)
    return -np.sum(np.log(chances * TARGETS + (1 - chances) * (1 - TARGETS)))


def test_a_regression():
    w = numpy.zeros(3)
    gradient = autograd.grad(training_loss)
    check_grads(training_loss)(w)
    for _ in range(100):
        w -= gradient(w) * 0.01  # in place, into NumPy's array
    assert training_loss(w) < training_loss(numpy.zeros(3))
    found = minimize(autograd.value_and_grad(training_loss), numpy.zeros(3), jac=True)
    assert isinstance(found.fun, float)


@pytest.mark.parametrize("x", [1.5, 2, numpy.float64(0.5), numpy.array(0.7)])
def test_derivatives_of_numbers(x):
    f = lambda x: np.sin(x) * x**2  # noqa: E731
    slope = numpy.cos(x) * x**2 + 2 * x * numpy.sin(x)
    curvature = -numpy.sin(x) * x**2 + 4 * x * numpy.cos(x) + 2 * numpy.sin(x)
    numpy.testing.assert_allclose(autograd.grad(f)(x), slope)
    numpy.testing.assert_allclose(autograd.grad(autograd.grad(f))(x), curvature)
    numpy.testing.assert_allclose(autograd.deriv(f)(x), slope)


def test_operators():
    x, v = RNG.normal(size=4), RNG.normal(size=4)
    f = lambda x: np.sum(x**3) + np.prod(x)  # noqa: E731
    h = autograd.hessian(f)(x)
    numpy.testing.assert_allclose(h, nb.hessian(lambda x: (x**3).sum() + x.prod())(x))
    numpy.testing.assert_allclose(autograd.hessian_vector_product(f)(x, v), h @ v)
    numpy.testing.assert_allclose(autograd.make_hvp(f)(x)[0](v), h @ v)
    m = RNG.normal(size=(3, 4))
    g = lambda x: np.tanh(np.dot(m, x))  # noqa: E731
    j = autograd.jacobian(g)(x)
    numpy.testing.assert_allclose(j, (1 - numpy.tanh(m @ x) ** 2)[:, None] * m)
    value, along = autograd.make_jvp(g)(x)(v)
    numpy.testing.assert_allclose((value, along), (numpy.tanh(m @ x), j @ v))
    vjp, value = autograd.make_vjp(g)(x)
    numpy.testing.assert_allclose(vjp(numpy.ones(3)), j.sum(0))
    numpy.testing.assert_allclose(autograd.vector_jacobian_product(g)(x, numpy.ones(3)), j.sum(0))
    numpy.testing.assert_allclose(autograd.make_ggnvp(g)(x)(v), j.T @ (j @ v))
    numpy.testing.assert_allclose(autograd.elementwise_grad(np.sin)(x), numpy.cos(x))
    gradient, aux = autograd.grad_and_aux(lambda x: (np.sum(x**2), x * 3))(x)
    numpy.testing.assert_allclose((gradient, aux), (2 * x, 3 * x))
    assert type(aux) is numpy.ndarray
    assert autograd.grad_named(lambda a, b: a * b**2, "b")(2.0, 3.0) == 12.0
    assert dict(autograd.multigrad_dict(lambda a, b=3.0: a * b)(2.0)) == {"a": 3.0, "b": 2.0}
    assert autograd.grad(lambda a, b: a * b, (0, 1))(2.0, 3.0) == (3.0, 2.0)
    numpy.testing.assert_allclose(autograd.grad(autograd.checkpoint(f))(x), autograd.grad(f)(x))
    assert autograd.grad(f).__name__ == "grad_of_<lambda>_wrt_argnum_0"


def test_containers():
    def f(p):
        assert autograd.isinstance(p["w"], numpy.ndarray)
        assert autograd.isinstance(p["b"], float)
        return np.sum(p["w"] * p["b"]) + p["more"][0] ** 2

    p = {"w": numpy.ones((2, 2)), "b": 3.0, "more": [2.0, (1, numpy.zeros(1))]}
    found = autograd.grad(f)(p)
    assert found["w"].tolist() == [[3, 3], [3, 3]]
    assert (found["b"], found["more"][0], found["more"][1][0]) == (4.0, 4.0, 0.0)
    flat, unflatten = misc.flatten(p)
    assert flat.shape == (8,)
    check_grads(lambda x: f(unflatten(x)))(flat)
    numpy.testing.assert_allclose(misc.flatten(found)[0], autograd.grad(lambda x: f(unflatten(x)))(flat))


@pytest.mark.parametrize("optimizer", [adam, rmsprop, sgd])
def test_optimizers(optimizer):
    seen = []
    gradient = autograd.grad(lambda p, i: np.sum((p["a"] - 3.0) ** 2) + (p["b"] + 1) ** 2)
    start = {"a": numpy.zeros(2), "b": 0.0}
    found = optimizer(gradient, start, lambda p, i, g: seen.append(i), num_iters=300, step_size=0.05)
    assert seen == list(range(300))
    numpy.testing.assert_allclose([*found["a"], found["b"]], [3, 3, -1], atol=0.05)


@primitive
def logsumexp(x):
    top = numpy.max(x)
    return top + numpy.log(numpy.sum(numpy.exp(x - top)))


defvjp(logsumexp, lambda ans, x: lambda g: np.full(x.shape, g) * np.exp(x - np.full(x.shape, ans)))


def test_primitives():
    x = RNG.normal(size=5)
    assert type(logsumexp(x)) is numpy.float64
    check_grads(lambda y: logsumexp(y**2) * 2.0, order=3)(x)
    undefined = primitive(lambda x: 2 * x)
    with pytest.raises(NotImplementedError, match="not defined"):
        autograd.grad(undefined)(1.0)
    scaled = primitive(lambda a, b: a * numpy.asarray(b))
    defvjp_argnum(scaled, lambda k, ans, args, kwargs: lambda g: np.sum(g * args[1]) if k == 0 else g * args[0])
    combo_check(lambda a, b: np.sum(scaled(a, b) ** 2), [0, 1])([2.0], [x])
    constant = notrace_primitive(lambda x: numpy.floor(x))
    assert autograd.grad(lambda x: x * constant(x))(2.5) == 2.0


def test_what_is_not_recorded_is_numpys():
    assert type(np.sin(numpy.ones(2))) is type(np.array([1.0])) is type(np.linalg.inv(numpy.eye(2))) is numpy.ndarray
    assert np.int64(2.5) == 2
    assert np.__version__ == numpy.__version__
    np.random.seed(0)
    out = np.zeros(3)
    out[1] = 5.0
    assert out.tolist() == [0, 5, 0]
    with pytest.raises(LostGradientError):
        autograd.grad(lambda x: numpy.asarray(x).sum())(numpy.ones(2))
    with pytest.raises(TypeError, match="has no derivative"):
        autograd.grad(lambda x: np.allclose(x, x))(numpy.ones(2))
    with pytest.raises(TypeError, match="must give a real scalar"):
        autograd.grad(lambda x: x * 2)(numpy.ones(2))


X = RNG.normal(size=(3, 3))
EXPRESSIONS = {
    "lists": lambda x: np.array([[x[0, 0], 1.0], [x[1, 1] ** 2, x[2, 0]]]),
    "r_": lambda x: np.r_[x[0], 1.0, 0:3, x[1] ** 2],
    "c_": lambda x: np.c_[x[0], numpy.ones(3), x],
    "where": lambda x: np.where(condition=x > 0, x=x**2, y=x * 3),
    "einsum": lambda x: np.einsum(x, [0, 1], numpy.ones((3, 2)), [1, 2], [0, 2]),
    "make_diagonal": lambda x: np.make_diagonal(x, axis1=-1, axis2=-2),
    "partition": lambda x: np.partition(x, 1, axis=1),
    "svd": lambda x: tuple(np.linalg.svd(x)),
    "eigh": lambda x: tuple(np.linalg.eigh(x + x.T)),
    "int": lambda x: x[np.int64(np.abs(x[:, 0]) > 0)] ** 2,
    "convolve": lambda x: ag_scipy.signal.convolve(x, numpy.ones((2, 1)), mode="same"),
    "convolve axes": lambda x: ag_scipy.signal.convolve(x, x[:2] ** 2, axes=([1], [1]), dot_axes=([], [])),
    "sqrtm": lambda x: ag_scipy.linalg.sqrtm(x @ x.T + 3 * numpy.eye(3)),
    "sylvester": lambda x: ag_scipy.linalg.solve_sylvester(x + 4 * numpy.eye(3), x.T, x**2),
    "triangular": lambda x: ag_scipy.linalg.solve_triangular(x + 4 * numpy.eye(3), x[:, 0], lower=True),
    "banded": lambda x: ag_scipy.linalg.solve_banded((1, 1), x + 3 * numpy.eye(3)[[1, 0, 1]], x[0]),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions(name):
    f = EXPRESSIONS[name]
    found, expected = autograd.make_vjp(f)(X)[1], f(X)
    for a, b in zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]:
        numpy.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    check_grads(f)(X)


def test_equal_extremes_share_the_gradient():
    x = numpy.array([1.0, 3.0, 3.0, 2.0])
    assert autograd.grad(np.max)(x).tolist() == [0, 0.5, 0.5, 0]
    assert autograd.grad(lambda x: np.min(x * 0 + 1.0 + x * 0))(x).tolist() == [0, 0, 0, 0]
    assert autograd.grad(lambda x: np.sum(np.amin(np.array([x, x]), axis=0)))(x).tolist() == [1, 1, 1, 1]


SPECIAL = {
    "gammaln": ([2.5],), "digamma": ([2.5],), "gamma": ([2.5],), "erf": ([0.4],), "erfc": ([0.4],), "erfinv": ([0.4],),
    "erfcinv": ([0.4],), "expit": ([0.4],), "logit": ([0.4],), "ndtr": ([0.4],), "log_ndtr": ([-40.0, 0.4],),
    "rgamma": ([2.5],), "j0": ([2.5],), "j1": ([2.5],), "y0": ([2.5],), "y1": ([2.5],), "i0": ([1.5],), "i1": ([1.5],),
    "logsumexp": ([0.4, 900.0],), "betaln": ([1.5], [2.5]), "beta": ([1.5], [2.5]),
}  # fmt: skip
OF_LAST = {"polygamma": (1, [2.5]), "jn": (2, [2.5]), "yn": (2, [2.5]), "iv": (1.5, [2.5]), "ive": (1.5, [2.5]),
           "gammainc": (1.5, [2.5]), "gammaincc": (1.5, [2.5]), "betainc": (1.5, 2.5, [0.4])}  # fmt: skip


@pytest.mark.parametrize("name", [*SPECIAL, *OF_LAST])
def test_special_functions(name):
    args = [numpy.array(a) if isinstance(a, list) else a for a in (SPECIAL | OF_LAST)[name]]
    f, plain = getattr(ag_scipy.special, name), getattr(scipy.special, name)
    wanted = [k for k, a in enumerate(args) if isinstance(a, numpy.ndarray)]
    numpy.testing.assert_allclose(autograd.make_vjp(f, wanted[-1])(*args)[1], plain(*args), rtol=1e-12)
    assert f(*args) is not None and type(f(*args)) is type(plain(*args))
    if name != "log_ndtr":
        check_grads(f, wanted, modes=["rev"])(*args)  # in other modes, the operators' own tests
    else:
        numpy.testing.assert_allclose(autograd.elementwise_grad(f)(args[0])[0], 40.02496, rtol=1e-6)


@pytest.mark.parametrize("name", ["j0", "j1", "y0", "y1", "i0", "i1", "jn", "yn", "iv", "ive"])
def test_second_derivatives_of_bessel_functions(name):
    f = getattr(ag_scipy.special, name)
    order = () if name in SPECIAL else (OF_LAST[name][0],)
    x, h = numpy.array([0.7, 2.5, 8.0]), 1e-4
    slope = autograd.elementwise_grad(lambda x: f(*order, x))
    expected = (getattr(scipy.special, name)(*order, x + h) - getattr(scipy.special, name)(*order, x - h)) / (2 * h)
    numpy.testing.assert_allclose(slope(x), expected, rtol=1e-6, atol=1e-7)
    numpy.testing.assert_allclose(
        autograd.elementwise_grad(slope)(x), (slope(x + h) - slope(x - h)) / (2 * h), rtol=1e-6, atol=1e-7
    )


STATS = {
    "norm": (("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf"), (0.3, 0.1, 1.2)),
    "t": (("logpdf", "pdf"), (0.3, 4.0, 0.1, 1.2)),
    "gamma": (("logpdf", "pdf"), (1.3, 2.5)),
    "beta": (("logpdf", "pdf"), (0.3, 1.5, 2.5)),
    "chi2": (("logpdf", "pdf"), (1.3, 2.5)),
}
CDFS = {"t": (0.3, 4.0, 0.1, 1.2), "gamma": (1.3, 2.5), "beta": (0.3, 1.5, 2.5), "chi2": (1.3, 3.0)}


@pytest.mark.parametrize("name", STATS)
def test_distributions(name):
    functions, args = STATS[name]
    for function in functions:
        f, plain = getattr(getattr(ag_scipy.stats, name), function), getattr(getattr(scipy.stats, name), function)
        numpy.testing.assert_allclose(autograd.make_vjp(f)(*args)[1], plain(*args), rtol=1e-12)
        check_grads(f, list(range(len(args))), modes=["rev"], order=1 + (function == "logpdf"))(*args)
    if name in CDFS:
        f = getattr(ag_scipy.stats, name).cdf
        numpy.testing.assert_allclose(f(*CDFS[name]), getattr(scipy.stats, name).cdf(*CDFS[name]))
        check_grads(f, 0, modes=["rev"])(*CDFS[name])
    assert getattr(ag_scipy.stats, name).ppf(0.5, *args[1:]) is not None


def test_other_distributions():
    check_grads(lambda mu: np.sum(ag_scipy.stats.poisson.logpmf(numpy.arange(4), mu)))(2.5)
    check_grads(lambda mu: np.sum(ag_scipy.stats.poisson.cdf(numpy.arange(4), mu)))(2.5)
    mean, root = RNG.normal(size=2), RNG.normal(size=(2, 2))
    x = RNG.normal(size=(3, 2))
    f = lambda x, m, r: ag_scipy.stats.multivariate_normal.logpdf(x, m, r @ r.T + np.eye(2))  # noqa: E731
    numpy.testing.assert_allclose(
        autograd.make_vjp(f)(x, mean, root)[1],
        scipy.stats.multivariate_normal(mean, root @ root.T + numpy.eye(2)).logpdf(x),
    )
    check_grads(f, [0, 1, 2])(x, mean, root)
    check_grads(lambda c: ag_scipy.stats.multivariate_normal.entropy(numpy.zeros(2), c @ c.T + np.eye(2)))(root)
    p, alpha = numpy.array([0.2, 0.5, 0.3]), numpy.array([1.5, 2.0, 2.5])
    g = ag_scipy.stats.dirichlet.logpdf
    numpy.testing.assert_allclose(autograd.make_vjp(g, 1)(p, alpha)[1], scipy.stats.dirichlet.logpdf(p, alpha))
    check_grads(g, 1)(p, alpha)


def test_odeint():
    def pendulum(y, t, damping, pull):
        return np.array([y[1], -pull * np.sin(y[0]) - damping * y[1] + 0.1 * t])

    def end(y0, t, damping, pull):
        return ag_scipy.integrate.odeint(pendulum, y0, t, (damping, pull), rtol=1e-10, atol=1e-10)

    args = numpy.array([1.0, 0.0]), numpy.array([0.0, 0.3, 1.0]), 0.2, 2.0
    plain = scipy.integrate.odeint(pendulum, *args[:2], args[2:], rtol=1e-10, atol=1e-10)
    numpy.testing.assert_allclose(end(*args), plain)
    check_grads(end, [0, 1, 2, 3], modes=["rev"], order=1)(*args)
    curvature = autograd.grad(autograd.grad(lambda a: end(*args[:2], a, 2.0)[-1, 0]))(0.2)
    ends = [end(*args[:2], 0.2 + d, 2.0)[-1, 0] for d in (-1e-3, 0.0, 1e-3)]
    numpy.testing.assert_allclose(curvature, (ends[0] - 2 * ends[1] + ends[2]) / 1e-6, rtol=1e-3)


SCRIPT = """
import sys
import autograd.numpy as np
import autograd.scipy.stats.norm as norm
from autograd import elementwise_grad as egrad, grad
from autograd.misc.flatten import flatten
from autograd.numpy.linalg import inv

print(sys.argv[1:], __name__)
print(egrad(egrad(np.tanh))(np.linspace(-1, 1, 3)).round(6).tolist())
print(round(grad(norm.logpdf)(1.0, 0.0, 2.0), 6), type(inv(np.eye(2))).__module__)
"""


def test_a_script_runs_unchanged(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "nbgrad", "autograd", str(script), "--n", "3"],
        capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['--n', '3'] __main__",
        "[0.639700, 0.0, -0.639700]".replace("00", ""),
        "-0.25 numpy",
    ]
    missing = subprocess.run(
        [sys.executable, "-m", "nbgrad", "autograd", str(tmp_path / "none.py")],
        capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
    )  # fmt: skip
    assert missing.returncode != 0
    assert "there is no file" in missing.stderr


def test_install_refuses_a_mixture(monkeypatch):
    monkeypatch.setitem(sys.modules, "autograd", type(sys)("autograd"))
    with pytest.raises(ImportError, match="autograd itself is imported already"):
        autograd.install()


@primitive
def product(items, scale=1.0):
    return items[0] * items[1] * scale


defvjp(product, lambda ans, items, scale=1.0: lambda g: [g * items[1] * scale, g * items[0] * scale])


def test_recorded_values_inside_arguments_of_primitives():
    """They are traced through, or refused; no gradient is lost."""
    x = numpy.array([1.0, 2.0, 3.0])
    assert autograd.grad(lambda x: product([x[0], x[1]]))(x).tolist() == [2, 1, 0]
    assert autograd.grad(product)([2.0, 3.0]) == [3.0, 2.0]
    assert autograd.grad(lambda s: product([2.0, 3.0], scale=s))(4.0) == 6.0
    with pytest.raises(TypeError, match="recorded values are in a list, dict or keyword beside recorded arguments"):
        autograd.grad(lambda x: product(x, scale=x[0]))(x)
    assert autograd.grad(lambda k: ag_scipy.stats.poisson.logpmf(k, 2.0))(3.0) == 0.0  # counts have no derivative


def test_names_of_the_wild():
    from nbgrad.compat.autograd.numpy.numpy_boxes import ArrayBox

    def f(x):
        assert isinstance(x, ArrayBox)
        s = 0.0
        for k in range(3):
            s += x[k] ** 2
        return s

    assert autograd.grad(f)(numpy.ones(3)).tolist() == [2, 2, 2]


def test_in_place_operators_bind_names_to_new_arrays():
    """As with autograd's boxes, which have none; the argument may be changed so, too."""

    def f(x):
        h = np.sin(x)
        before = h
        h += 1
        h *= x
        x += 1
        return np.sum(h * before * x)

    x = numpy.array([0.3, 0.7])
    kept = x.copy()

    def plain(x):
        return numpy.sum((numpy.sin(x) + 1) * x * numpy.sin(x) * (x + 1))

    expected = [(plain(x + d) - plain(x - d)) / 2e-6 for d in 1e-6 * numpy.eye(2)]
    numpy.testing.assert_allclose(autograd.grad(f)(x), expected, rtol=1e-7)
    numpy.testing.assert_array_equal(x, kept)


def test_dicts_are_flattened_in_the_order_of_their_keys():
    tree = {"b": numpy.array([1.0, 2.0]), "a": 3.0, "c": [{"y": 4.0, "x": 5.0}]}
    flat, unflatten = autograd.misc.flatten(tree)
    assert flat.tolist() == [3.0, 1.0, 2.0, 5.0, 4.0]
    again = unflatten(2 * flat)
    assert list(again) == ["b", "a", "c"] and again["a"] == 6.0 and again["c"][0] == {"y": 8.0, "x": 10.0}


def test_what_is_at_a_limit():
    x = numpy.array([1.0, 2.0, 3.0])
    for name in ("minimum", "maximum", "fmin", "fmax"):
        f = getattr(np, name)
        numpy.testing.assert_array_equal(f(x, 2.0), getattr(numpy, name)(x, 2.0))
        assert autograd.grad(lambda x: np.sum(f(x, 2.0)))(x)[1] == 0.5  # noqa: B023
    assert autograd.grad(lambda x: np.sum(np.clip(x, 1.0, 2.5)))(x).tolist() == [0.0, 1.0, 0.0]
    assert autograd.grad(lambda x: np.sum(np.clip(x, None, 2.5)))(x).tolist() == [1.0, 1.0, 0.0]


def test_what_clients_import_and_call():
    from nbgrad.compat.autograd.builtins import DictBox
    from nbgrad.compat.autograd.core import Box, getval, isbox, primitive
    from nbgrad.compat.autograd.differential_operators import make_jvp_reversemode

    assert primitive is not None and isbox(DictBox is Box) is False
    numpy.testing.assert_allclose(make_jvp_reversemode(lambda x: x**2)(numpy.array([2.0]))(numpy.array([1.0])), [4.0])
    of_second = make_jvp_reversemode(lambda a, x: a * x**2, 1)(3.0, numpy.array([2.0]))
    numpy.testing.assert_allclose(of_second(numpy.array([1.0])), [12.0])
    v = numpy.array([1.0, 2.0, 3.0])
    assert autograd.grad(lambda v: np.sum(np.stack({"a": v, "b": v**2}.values())))(v).tolist() == [3.0, 5.0, 7.0]
    assert autograd.grad(lambda v: np.sum(np.hstack([u * 2 for u in (v, v)])))(v).tolist() == [4.0, 4.0, 4.0]
    slope = autograd.grad(lambda v: np.sum(np.concatenate(map(np.exp, [v, v]))))(v)
    numpy.testing.assert_allclose(slope, 2 * numpy.exp(v), rtol=1e-15)
    assert autograd.grad(lambda v: np.sum(v * v._value))(v).tolist() == v.tolist()
    assert getval(3.0) == 3.0

    class Series:
        def __init__(self, values):
            self.values = values

        def to_numpy(self):
            return numpy.array(self.values)

    assert autograd.grad(lambda v: np.sum(v[Series([True, False, True])]))(v).tolist() == [1.0, 0.0, 1.0]


def test_rules_for_functions_of_the_library():
    defvjp(ag_scipy.linalg.cholesky_banded, lambda ans, a, **options: lambda g: g * 3)
    a = numpy.array([[2.0, 2.0], [0.5, 0.0]])
    gradient = autograd.grad(lambda a: np.sum(ag_scipy.linalg.cholesky_banded(a, lower=True)))(a)
    assert gradient.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    defvjp(np.where, lambda ans, c, x, y: lambda g: 1 / 0, argnums=(0,))  # what has a derivative keeps it
    assert autograd.grad(lambda x: np.sum(np.where(x > 0, x**2, 0.0)))(numpy.array([2.0])).tolist() == [4.0]
    autograd.extend.defjvp(ag_scipy.special.expit, None)


def test_rules_get_arrays_of_numpy():
    seen = []
    doubled = primitive(lambda x: 2 * x)
    defvjp(doubled, lambda ans, x: seen.append((type(ans), type(x))) or (lambda g: 2 * g))
    assert autograd.grad(lambda x: np.sum(doubled(x)))(numpy.ones(2)).tolist() == [2.0, 2.0]
    assert seen == [(numpy.ndarray, numpy.ndarray)]
    assert autograd.hessian(lambda x: np.sum(doubled(x) ** 2))(numpy.ones(2)).tolist() == [[8.0, 0.0], [0.0, 8.0]]
