"""The functional front end: gradients of functions of one or more arrays, to order 3, composed in every way."""

import itertools

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.testing import check_grads

A = np.array([[0.3, -0.7, 0.2], [0.5, 0.1, -0.4]])


def f(x):
    """Scalar; not symmetric in its elements."""
    return (nd.sin(x) * x[0] + nd.exp(x * x / 3)).sum()


def numeric(function, x, eps=1e-4):
    """Central differences, extrapolated, of a function from NumPy arrays to NumPy arrays or numbers."""
    x = np.asarray(x, float)
    first = np.asarray(function(x))
    out = np.empty(first.shape + x.shape)
    for at in np.ndindex(x.shape):

        def slope(h, at=at):
            a, b = x.copy(), x.copy()
            a[at] -= h
            b[at] += h
            return (np.asarray(function(b)) - np.asarray(function(a))) / (2 * h)

        out[(..., *at)] = (4 * slope(eps / 2) - slope(eps)) / 3
    return out


class TestKinds:
    """What comes in decides what comes out."""

    def test_numpy(self):
        g = nb.grad(f)(A)
        assert type(g) is np.ndarray
        assert g.dtype == np.float64
        np.testing.assert_allclose(g, numeric(lambda x: nb.value_and_grad(f)(x)[0], A), rtol=1e-7)

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    def test_dtypes_are_kept(self, dtype):
        value, g = nb.value_and_grad(lambda x: (x * x).sum())(np.array([1, 2], dtype))
        assert g.dtype == dtype and type(value) is np.dtype(dtype).type
        assert g.tolist() == [2, 4]

    def test_ndarray(self):
        value, g = nb.value_and_grad(f)(nd.array(A))
        assert type(g) is nb.NDArray and type(value) is nb.NDArray
        assert g._node is None and value._node is None
        np.testing.assert_array_equal(g.asnumpy(), nb.grad(f)(A))

    def test_numbers(self):
        value, g = nb.value_and_grad(lambda x: x**3)(2.0)
        assert (type(value), type(g)) == (float, float)
        assert (value, g) == (8.0, 12.0)
        value, g = nb.value_and_grad(lambda x: x**3)(np.float32(2))
        assert (type(value), type(g)) == (np.float32, np.float32)

    def test_0d_array(self):
        g = nb.grad(lambda x: x * x)(np.array(3.0))
        assert type(g) is np.ndarray and g.shape == () and g == 6

    def test_mixed(self):
        (ga, gb, gc), value = nb.grad(lambda a, b, c: ((a * b).sum() * c, a), (0, 1, 2), has_aux=True)(
            np.array([1.0, 2.0]), nd.array([3.0, 4.0], dtype="float64"), 5.0
        )
        assert (type(ga), type(gb), type(gc), type(value)) == (np.ndarray, nb.NDArray, float, nb.NDArray)
        assert (ga.tolist(), gb.tolist(), gc) == ([15, 20], [5, 10], 11)

    @pytest.mark.parametrize("change", [np.asfortranarray, lambda a: a[::-1], lambda a: a.astype(">f8")])
    def test_any_layout(self, change):
        x = change(A)
        np.testing.assert_array_equal(nb.grad(f)(x), nb.grad(f)(np.array(x, "float64")))

    def test_read_only(self):
        x = A.copy()
        x.flags.writeable = False
        np.testing.assert_array_equal(nb.grad(f)(x), nb.grad(f)(A))

    @pytest.mark.parametrize("shape", [(0,), (2, 0), ()])
    def test_empty_and_0d(self, shape):
        x = np.ones(shape)
        assert nb.grad(lambda x: (x * x).sum())(x).shape == shape
        assert nb.jacobian(lambda x: x * x)(x).shape == shape + shape
        assert nb.jacobian(lambda x: x * x, mode="forward")(x).shape == shape + shape

    def test_other_arguments_reach_the_function(self):
        seen = []

        def g(x, index, scale, label, *, bias):
            seen.extend([index, scale, label, bias])
            return (x[index] * scale + bias).sum()

        index, bias = np.array([0, 2]), np.ones(2)
        assert nb.grad(g)(np.ones(3), index, 2, "a", bias=bias).tolist() == [2, 0, 2]
        assert (type(seen[0]), seen[1:3], type(seen[3])) == (nb.np.ndarray, [2, "a"], nb.np.ndarray)
        seen.clear()
        nb.grad(g)(nd.ones(3), index, 2, "a", bias=bias)
        assert (type(seen[0]), type(seen[3])) == (nb.NDArray, nb.NDArray)

    def test_containers_of_other_arguments_stay_what_they_are(self):
        cache = {"n": 3}

        def g(x, cache):
            cache["calls"] = 1
            return x * cache["n"]

        assert nb.grad(g)(1.0, cache) == 3
        assert cache == {"n": 3, "calls": 1}

    def test_nd_functions_take_numpy_data(self):
        X, y = np.arange(6.0).reshape(3, 2), np.ones(3)
        g = nb.grad(lambda w, X, y: ((nd.dot(X, w) - y) ** 2).sum())(np.zeros(2), X, y)
        np.testing.assert_allclose(g, -2 * X.T @ y)

    def test_numpy_functions_in_the_function(self):
        g = nb.grad(lambda x: np.sum(np.sin(x) @ np.ones((3, 1))))(A)
        np.testing.assert_allclose(g, np.cos(A), rtol=1e-15)

    def test_methods_and_partials(self):
        import functools

        class Model:
            scale = 3.0

            def loss(self, x):
                return self.scale * x

        assert nb.grad(Model().loss)(1.0) == 3
        assert nb.grad(functools.partial(lambda a, x: a * x, 4.0))(1.0) == 4

    def test_a_decorator(self):
        @nb.grad
        def slope(x):
            """What it is."""
            return x * x

        assert slope(3.0) == 6
        assert (slope.__name__, slope.__doc__) == ("slope", "What it is.")


class TestArgnums:
    def test_int_and_tuple(self):
        def g(x, y, z):
            return x * y * y * z

        assert nb.grad(g, 1)(2.0, 3.0, 5.0) == 60
        assert nb.grad(g, -1)(2.0, 3.0, 5.0) == 18
        assert nb.grad(g, (2, 0))(2.0, 3.0, 5.0) == (18, 45)
        assert nb.grad(g, [0])(2.0, 3.0, 5.0) == (45,)
        assert nb.grad(g, np.int64(1))(2.0, 3.0, 5.0) == 60

    def test_aux_with_value(self):
        (value, aux), g = nb.value_and_grad(lambda x: (x * x, {"twice": 2 * x, "name": "n"}), has_aux=True)(3.0)
        assert (value, aux, g) == (9, {"twice": 6.0, "name": "n"}, 6)
        assert type(aux["twice"]) is float

    def test_aux_everywhere(self):
        def g(x):
            return (x * x).sum(), x[0]

        x = np.array([1.0, 2.0])
        for found in (
            nb.grad(g, has_aux=True)(x),
            nb.jacobian(g, has_aux=True)(x),
            nb.hessian(g, has_aux=True)(x),
            nb.hvp(g, has_aux=True)(x, x),
            nb.elementwise_grad(g, has_aux=True)(x),
        ):
            assert len(found) == 2
            assert found[1] == 1 and isinstance(found[1], np.float64)
        assert len(nb.vjp(g, x, has_aux=True)) == 3
        assert len(nb.jvp(g, (x,), (x,), has_aux=True)) == 3

    def test_no_dependence_gives_zeros(self):
        c = nd.array([2.0], dtype="float64")
        assert nb.grad(lambda x, y: x * 2, 1)(np.array(1.0), 2.0) == 0
        assert nb.grad(lambda x: c)(np.ones((2, 3))).tolist() == np.zeros((2, 3)).tolist()
        assert nb.hessian(lambda x: x.sum())(np.ones(2)).tolist() == [[0, 0], [0, 0]]
        assert nb.hvp(lambda x: x.sum())(np.ones(2), np.ones(2)).tolist() == [0, 0]
        assert nb.jacobian(lambda x: c, mode="forward")(np.ones(2)).tolist() == [[0, 0]]
        value, tangent = nb.jvp(lambda x: c, (1.0,), (1.0,))
        assert (value.tolist(), tangent.tolist()) == ([2], [0])
        value, pullback = nb.vjp(lambda x, y: x * x, 3.0, 4.0)
        assert pullback(1.0) == (6, 0)
        assert nb.grad(nb.grad(nb.grad(lambda x: x * x)))(3.0) == 0

    def test_the_argument_itself(self):
        x = nd.array(A)
        assert nb.jacobian(lambda x: x)(np.ones(2)).tolist() == [[1, 0], [0, 1]]
        assert nb.jacobian(lambda x: x, mode="forward")(np.ones(2)).tolist() == [[1, 0], [0, 1]]
        value, _ = nb.vjp(lambda x: x, x)
        assert value._node is None and x._node is None


class TestFormulas:
    def test_order_three_closed_form(self):
        third = nb.grad(nb.grad(nb.grad(nd.sin)))
        assert third(0.7) == pytest.approx(-np.cos(0.7), rel=1e-14)

    @pytest.mark.parametrize("order", [1, 2, 3])
    def test_elementwise_orders(self, order):
        g = nd.exp
        for _ in range(order):
            g = nb.elementwise_grad(g)
        np.testing.assert_allclose(g(A), np.exp(A), rtol=1e-14)

    def test_hessian(self):
        h = nb.hessian(f)(A)
        np.testing.assert_allclose(h, numeric(nb.grad(f), A), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(h, np.transpose(h, (2, 3, 0, 1)), rtol=1e-12, atol=1e-14)

    def test_third_derivatives(self):
        x = A[0]
        t = nb.jacobian(nb.hessian(f))(x)
        np.testing.assert_allclose(t, numeric(nb.hessian(f), x), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(nb.jacobian(nb.hessian(f), mode="forward")(x), t, rtol=1e-12, atol=1e-13)

    def test_hvp(self):
        v = np.cos(np.arange(6.0)).reshape(2, 3)
        h = nb.hessian(f)(A)
        np.testing.assert_allclose(nb.hvp(f)(A, v), np.tensordot(h, v, 2), rtol=1e-12)

    def test_hvp_with_other_arguments(self):
        def g(x, a, y):
            return (x * x * y * a).sum()

        x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
        v, w = np.array([1.0, -1.0]), np.array([0.5, 2.0])
        np.testing.assert_allclose(nb.hvp(g)(x, 2.0, y, v), 4 * y * v)
        np.testing.assert_allclose(nb.hvp(g, -1)(x, 2.0, y, w), 0 * w)
        hx, hy = nb.hvp(g, (0, 2))(x, 2.0, y, (v, w))
        np.testing.assert_allclose(hx, 4 * y * v + 4 * x * w)
        np.testing.assert_allclose(hy, 4 * x * v)

    def test_vjp_and_jvp(self):
        def g(x, y):
            return {"a": x * y, "b": nd.sin(x).sum()}

        x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
        value, pullback = nb.vjp(g, x, y)
        np.testing.assert_allclose(value["a"], [3, 8])
        for u in (np.array([1.0, 0.0]), np.array([-1.0, 5.0])):
            gx, gy = pullback({"a": u, "b": 2.0})
            np.testing.assert_allclose(gx, u * y + 2 * np.cos(x))
            np.testing.assert_allclose(gy, u * x)
        v, w = np.array([0.1, 0.2]), np.array([-1.0, 1.0])
        value, tangent = nb.jvp(g, (x, y), (v, w))
        np.testing.assert_allclose(tangent["a"], v * y + x * w)
        np.testing.assert_allclose(tangent["b"], [np.cos(x) @ v])

    def test_vjp_argnums(self):
        _, pullback = nb.vjp(lambda x, n: x * n, 3.0, 2, argnums=0)
        assert pullback(1.0) == 2
        _, pullback = nb.vjp(lambda x, n: x * n, 3.0, 2, argnums=(0,))
        assert pullback(1) == (2,)

    @pytest.mark.parametrize("shapes", [((2,), (5,)), ((5,), (2,)), ((2, 2), (3,)), ((), (3,)), ((3,), ())])
    def test_modes_agree(self, shapes):
        rng = np.random.default_rng(0)
        n, m = (int(np.prod(s)) for s in shapes)
        W, x = rng.normal(size=(m, n)), rng.normal(size=shapes[0])

        def g(x):
            return np.reshape(nd.tanh(nd.dot(nd.array(W), np.reshape(x, (-1,)))), shapes[1])

        found = [nb.jacobian(g, mode=mode)(x) for mode in ("reverse", "forward", None)]
        expected = numeric(lambda x: nb.vjp(g, x)[0], x)
        for J in found:
            assert J.shape == shapes[1] + shapes[0]
            np.testing.assert_allclose(J, expected, rtol=1e-7, atol=1e-10)

    def test_broadcasting_jacobian_of_two_arguments(self):
        Jx, Jy = nb.jacobian(lambda x, y: x * y, (0, 1))(np.array([1.0, 2.0]), np.array([[3.0], [4.0]]))
        assert (Jx.shape, Jy.shape) == ((2, 2, 2), (2, 2, 2, 1))
        np.testing.assert_allclose(Jx[1, 0], [4, 0])

    def test_elementwise_grad_of_several(self):
        gx, gy = nb.elementwise_grad(lambda x, y: x * y, (0, 1))(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        assert (gx.tolist(), gy.tolist()) == ([3, 4], [1, 2])

    def test_against_check_grads(self):
        check_grads(lambda x, y: nb.grad(lambda x: (nd.sin(x) * y).sum())(x), [A, A[0]], order=2)
        check_grads(lambda x, v: nb.hvp(f)(x, v), [A[0], A[1]], order=2, rtol=1e-5)
        check_grads(lambda x, v: nb.jvp(lambda x: nd.sin(x) * x[0], (x,), (v,))[1], [A[0], A[1]], order=2)
        check_grads(nb.jacobian(lambda x: nd.sin(x) * x[0], mode="forward"), [A[0]], order=2)
        check_grads(nb.jacobian(lambda x: nd.sin(x) * x[0], mode="reverse"), [A[0]], order=2)


TRANSFORMS = {
    "grad": lambda g: nb.grad(lambda x: g(x).sum()),
    "elementwise_grad": nb.elementwise_grad,
    "reverse": lambda g: lambda x: (nb.jacobian(g, mode="reverse")(x) * nd.array(A[0])).sum(axis=-1),
    "forward": lambda g: lambda x: (nb.jacobian(g, mode="forward")(x) * nd.array(A[0])).sum(axis=-1),
    "jvp": lambda g: lambda x: nb.jvp(g, (x,), (A[0],))[1],
    "vjp": lambda g: lambda x: nb.vjp(g, x)[1](A[0])[0],
    "hvp": lambda g: lambda x: nb.hvp(lambda x: g(x).sum())(x, A[0]),
    "checkpoint": nb.checkpoint,
}


@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(TRANSFORMS, repeat=2)))
def test_transforms_in_any_order(outer, inner):
    """Every one inside every other, against differences of the inner one."""

    def g(x):
        return nd.sin(x * x[0]) + nd.exp(x) * x.sum()

    inside = TRANSFORMS[inner](g)
    both = TRANSFORMS[outer](inside)
    x = np.array([0.4, -0.3, 0.8])

    def plain(x):
        return inside(nd.array(x)).asnumpy()

    J = numeric(plain, x)
    H = numeric(lambda x: numeric(lambda x: plain(x).sum(), x, 1e-3), x, 1e-3) if outer == "hvp" else None
    expected = {
        "grad": lambda: J.sum(0),
        "elementwise_grad": lambda: J.sum(0),
        "reverse": lambda: J @ A[0],
        "forward": lambda: J @ A[0],
        "jvp": lambda: J @ A[0],
        "vjp": lambda: A[0] @ J,
        "hvp": lambda: H @ A[0],
        "checkpoint": lambda: plain(x),
    }[outer]()
    found = both(nd.array(x))
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=2e-5, atol=1e-6)


class TestNesting:
    """An inner derivative is not mistaken for an outer one."""

    def test_no_perturbation_confusion(self):
        assert nb.grad(lambda x: x * nb.grad(lambda y: x + y)(1.0))(1.0) == 1
        assert nb.grad(lambda x: x * nb.grad(lambda y: x * y)(2.0))(3.0) == 6
        assert nb.grad(lambda x: x * nb.grad(lambda y: x + y)(x))(5.0) == 1
        assert nb.grad(lambda x: x * nb.grad(lambda y: x * y)(x))(5.0) == 10

    def test_forward_over_forward(self):
        def d(g, x):
            return nb.jvp(g, (x,), (1.0,))[1]

        assert d(lambda x: x * d(lambda y: x + y, 1.0), 1.0) == 1
        assert d(lambda x: x * d(lambda y: x * y, 2.0), 3.0) == 6

    def test_the_same_array_outside_and_inside(self):
        assert nb.grad(lambda x: nb.grad(lambda y: x * y * y)(x))(3.0) == 12

    def test_closures_three_deep(self):
        def outer(a):
            def middle(b):
                return nb.grad(lambda c: a * a * b * c * c * c)(2.0)  # 12 a² b

            return a * nb.grad(middle)(1.0)  # 12 a³

        assert nb.grad(outer)(2.0) == 144

    def test_tangents_and_vectors_are_differentiated(self):
        assert nb.grad(lambda t: nb.jvp(lambda x: x * x, (3.0,), (t,))[1])(1.0) == 6
        assert nb.grad(lambda v: nb.hvp(lambda x: x**3)(2.0, v))(1.0) == 12
        _, pullback = nb.vjp(lambda x: x * x, 3.0)
        assert nb.grad(lambda u: pullback(u)[0] * u)(2.0) == 24

    def test_a_pullback_made_inside(self):
        def g(x):
            _, pullback = nb.vjp(lambda y: y * y * x, x)
            return pullback(x)[0]  # 2 x³

        assert nb.grad(g)(2.0) == 24

    def test_a_loop_of_gradients(self):
        """Gradient through gradient descent."""

        def descend(rate):
            x = 1.0
            for _ in range(3):
                x = x - rate * nb.grad(lambda x: x * x)(x)
            return x  # (1 - 2 rate)³

        assert nb.grad(descend)(0.1) == pytest.approx(-6 * 0.8**2)

    def test_autograd_inside(self):
        def g(x):
            y = x**3
            return autograd.grad(y, x, create_graph=True)

        assert nb.grad(g)(2.0) == 12
