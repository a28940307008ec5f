"""The adapters for SciPy's solvers."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import optimize
from scipy.sparse.linalg import cg, lsqr

import nbgrad as nb
from nbgrad import autograd, nd

START = np.array([-1.2, 1.0, -0.5, 0.8])


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


class TestMinimize:
    problem = nb.ScipyObjective(rosenbrock, START)

    def test_derivatives_are_scipys(self):
        p = self.problem
        assert type(p.fun(START)) is float
        assert p.fun(START) == pytest.approx(optimize.rosen(START), rel=1e-15)
        np.testing.assert_allclose(p.jac(START), optimize.rosen_der(START), rtol=1e-14)
        np.testing.assert_allclose(p.hess(START), optimize.rosen_hess(START), rtol=1e-14)
        v = np.arange(4.0)
        np.testing.assert_allclose(p.hessp(START, v), optimize.rosen_hess_prod(START, v), rtol=1e-14)
        value, g = p.fun_and_jac(START)
        assert (value, g.tolist()) == (p.fun(START), p.jac(START).tolist())

    @pytest.mark.parametrize(
        ("method", "second"),
        [("BFGS", {}), ("L-BFGS-B", {}), ("Newton-CG", "hessp"), ("trust-ncg", "hessp"), ("trust-exact", "hess")],
    )
    def test_methods(self, method, second):
        p = self.problem
        more = {second: getattr(p, second)} if second else {}
        found = optimize.minimize(p.fun_and_jac, p.x0, jac=True, method=method, **more)
        np.testing.assert_allclose(optimize.rosen_der(found.x), 0, atol=1e-2)
        found = optimize.minimize(p.fun, p.x0, jac=p.jac, method=method, **more)
        np.testing.assert_allclose(optimize.rosen_der(found.x), 0, atol=1e-2)

    def test_args(self):
        p = nb.ScipyObjective(lambda x, a, b: ((x - a) ** 2 * b).sum())
        a, b = np.array([1.0, 2.0]), 3.0
        found = optimize.minimize(p.fun_and_jac, [0.0, 0.0], (a, b), jac=True, hessp=p.hessp, method="Newton-CG")
        np.testing.assert_allclose(found.x, a)

    def test_a_constraint(self):
        p = nb.ScipyObjective(lambda x: (x**2).sum())
        c = nb.ScipyResiduals(lambda x: x[:1] * x[1:])
        bound = optimize.NonlinearConstraint(c.fun, 1, np.inf, jac=c.jac, hess=c.hess)
        found = optimize.minimize(p.fun, [2.0, 1.0], jac=p.jac, hess=p.hess, constraints=bound, method="trust-constr")
        np.testing.assert_allclose(found.x, [1, 1], atol=1e-3)
        np.testing.assert_allclose(c.hess([2.0, 1.0], [3.0]), [[0, 3], [3, 0]])


class TestParameters:
    x0 = {"w": np.arange(6.0).reshape(2, 3), "b": [nd.array([7.0], dtype="float32"), (8.0, np.float32(9))]}  # noqa: RUF012

    def problem(self):
        return nb.ScipyObjective(lambda p: (p["w"] ** 2).sum() * p["b"][0] + p["b"][1][0] * p["b"][1][1], self.x0)

    def test_vectors(self):
        p = self.problem()
        assert p.x0.dtype == np.float64
        assert p.x0.tolist() == [0, 1, 2, 3, 4, 5, 7, 8, 9]
        assert p.jac(p.x0).tolist() == [0, 14, 28, 42, 56, 70, 55, 9, 8]
        assert p.hess(p.x0)[:, 6].tolist() == [0, 2, 4, 6, 8, 10, 0, 0, 0]

    def test_there_and_back(self):
        p = self.problem()
        tree = p.unpack(p.x0)
        assert tree["w"].tolist() == self.x0["w"].tolist()
        assert type(tree["b"][0]) is nb.NDArray and tree["b"][0].dtype == np.float32
        assert (tree["b"][1], type(tree["b"][1][0]), type(tree["b"][1][1])) == ((8.0, 9.0), float, np.float32)
        assert p.pack(tree).tolist() == p.x0.tolist()

    def test_numbers_in_a_row_are_a_vector(self):
        p = nb.ScipyObjective(rosenbrock, [-1, 2])
        assert (p.x0.dtype, p.x0.tolist()) == (np.float64, [-1, 2])
        assert p.unpack(p.x0).tolist() == [-1, 2]
        assert p.fun(p.x0) == 104

    def test_without(self):
        p = nb.ScipyObjective(rosenbrock)
        assert p.x0 is None
        assert p.jac([1, 1]).tolist() == [0, 0]
        assert p.unpack([1, 1]).tolist() == [1, 1]

    def test_an_empty_part(self):
        p = nb.ScipyObjective(lambda p: (p[0] ** 2).sum() + (p[1] ** 2).sum(), [np.zeros((0, 2)), np.ones(2)])
        assert p.jac(p.x0).tolist() == [2, 2]


class TestResiduals:
    def test_a_fit(self):
        t = np.linspace(0, 4, 50)
        data = 2.5 * np.exp(-1.3 * t) + 0.5

        def residuals(p, t):
            return p["scale"] * nd.exp(-p["rate"] * t) + p["offset"] - nd.array(data)

        problem = nb.ScipyResiduals(residuals, {"scale": 1.0, "rate": 1.0, "offset": 0.0})
        found = optimize.least_squares(problem.fun, problem.x0, jac=problem.jac, args=(t,))
        fitted = problem.unpack(found.x)
        assert fitted == {"scale": pytest.approx(2.5), "rate": pytest.approx(1.3), "offset": pytest.approx(0.5)}

    def test_a_fit_with_an_operator(self):
        p = nb.ScipyResiduals(lambda x: nd.concat(10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1], dim=0))
        found = optimize.least_squares(p.fun, START, jac=p.operator, tr_solver="lsmr")
        np.testing.assert_allclose(found.x, 1, atol=1e-6)

    def test_root(self):
        p = nb.ScipyResiduals(lambda x: nd.concat(x[:1] + x[1:] ** 2 - 4, nd.exp(x[:1]) + x[1:] - 3, dim=0))
        for found in (
            optimize.root(p.fun, [1.0, 1.0], jac=p.jac),
            optimize.root(p.fun_and_jac, [1.0, 1.0], jac=True),
        ):
            assert found.success
            np.testing.assert_allclose(p.fun(found.x), 0, atol=1e-9)

    def test_one_unknown(self):
        p = nb.ScipyResiduals(lambda x: x * x - 2)
        assert (p.fun([1.0]).shape, p.jac([1.0]).shape) == ((1,), (1, 1))
        assert optimize.root(p.fun, [1.0], jac=p.jac).x == pytest.approx(2**0.5)

    def test_trees_become_one_vector(self):
        p = nb.ScipyResiduals(lambda x: {"a": np.reshape(x, (2, 1)) * x, "b": x.sum()}, [1.0, 2.0])
        assert p.fun(p.x0).tolist() == [1, 2, 2, 4, 3]
        assert p.jac(p.x0).tolist() == [[2, 0], [2, 1], [2, 1], [0, 4], [1, 1]]


class TestOperators:
    def test_jacobian(self):
        def f(x):
            return nd.sin(x[1:]) * x[:-1]

        J = nb.jacobian(f)(START)
        op = nb.jacobian_operator(f, START)
        assert (op.shape, op.dtype) == ((3, 4), np.float64)
        np.testing.assert_allclose(op @ np.eye(4), J, rtol=1e-15)
        np.testing.assert_allclose(op.T @ np.eye(3), J.T, rtol=1e-15)
        np.testing.assert_allclose(lsqr(op, np.ones(3))[0], np.linalg.lstsq(J, np.ones(3), rcond=None)[0], rtol=1e-5)

    def test_hessian(self):
        op = nb.hessian_operator(lambda x: (x**4).sum() + (x**2).sum() ** 2, START)
        H = nb.hessian(lambda x: (x**4).sum() + (x**2).sum() ** 2)(START)
        np.testing.assert_allclose(op @ np.eye(4), H, rtol=1e-14)
        np.testing.assert_allclose(op.H @ np.eye(4), H, rtol=1e-14)
        np.testing.assert_allclose(cg(op, H @ np.ones(4), rtol=1e-12)[0], 1, rtol=1e-9)

    def test_trees_and_arguments(self):
        p = {"a": np.array([[1.0], [2.0]]), "b": 3.0}
        op = nb.jacobian_operator(lambda p, c: p["a"] * p["b"] * c, p, 2.0)
        assert (op @ np.array([1.0, 0.0, 1.0])).tolist() == [8, 4]
        op = nb.hessian_operator(lambda p, c: (p["a"] ** 2).sum() * p["b"] * c, p, 2.0)
        assert (op @ np.array([1.0, 0.0, 0.0])).tolist() == [12, 0, 4]

    def test_the_point_may_change_afterwards(self):
        x = START.copy()
        op = nb.hessian_operator(rosenbrock, x)
        x[:] = 0
        np.testing.assert_allclose(op @ np.ones(4), optimize.rosen_hess_prod(START, np.ones(4)), rtol=1e-14)

    def test_constant_and_linear(self):
        c = nd.array([1.0, 2.0], dtype="float64")
        assert (nb.jacobian_operator(lambda x: c, START) @ START).tolist() == [0, 0]
        assert (nb.jacobian_operator(lambda x: c, START).T @ np.ones(2)).tolist() == [0, 0, 0, 0]
        assert (nb.hessian_operator(lambda x: x.sum(), START) @ START).tolist() == [0, 0, 0, 0]

    def test_inside_record(self):
        with autograd.record():
            op = nb.jacobian_operator(lambda x: x * x, START)
            assert (op @ np.ones(4)).tolist() == (2 * START).tolist()
            assert (op.T @ np.ones(4)).tolist() == (2 * START).tolist()
            assert autograd.is_recording() and autograd.is_training()


BAD = [
    (lambda: nb.ScipyObjective(3), "ScipyObjective: a function is needed"),
    (lambda: nb.ScipyObjective(rosenbrock, {"a": "x"}), r"x0\['a'\] must be floating point numbers, got 'x'"),
    (lambda: nb.ScipyObjective(rosenbrock, np.arange(3)), "x0 must be floating point numbers, got array"),
    (lambda: nb.ScipyResiduals(rosenbrock, {"n": 3}), r"ScipyResiduals: x0\['n'\] must be"),
    (lambda: nb.ScipyObjective(rosenbrock, START).fun(np.ones(3)), "a vector of 4 numbers, as x0 is; its shape is"),
    (lambda: nb.ScipyObjective(lambda x: x).fun(START), "must give a scalar"),
    (lambda: nb.ScipyObjective(lambda x: x).jac(START), "must give a scalar"),
    (lambda: nb.ScipyResiduals(lambda x: None).fun(START), "must give an NDArray, got None"),
    (lambda: nb.ScipyResiduals(lambda x: [x, 1.0]).jac(START), "must give an NDArray at"),
    (lambda: nb.hessian_operator(lambda x: x, START), "hessian_operator: the function must give a scalar"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_errors(call, message):
    with pytest.raises(nb.NBGradError, match=message):
        call()


def test_importing_nbgrad_does_not_import_the_solvers():
    code = "import sys, nbgrad; print('scipy.sparse.linalg' in sys.modules, 'scipy.optimize' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["False", "False"]
