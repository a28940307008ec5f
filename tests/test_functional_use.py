"""The functional front end among other things: the user's recording, memory, mistakes."""

import numba
import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd

A = np.array([[0.3, -0.7, 0.2], [0.5, 0.1, -0.4]])


def f(x):
    """Scalar; not symmetric in its elements."""
    return (nd.sin(x) * x[0] + nd.exp(x * x / 3)).sum()


class TestRecording:
    """Inside the user's own scopes."""

    def test_the_users_backward_goes_through(self):
        x = nd.array(A[0])
        x.attach_grad()
        with autograd.record():
            g = nb.grad(f)(x)
            y = (g * g).sum()
        y.backward()
        h = nb.hessian(f)(A[0])
        np.testing.assert_allclose(x.grad.asnumpy(), 2 * h @ nb.grad(f)(A[0]), rtol=1e-12)

    def test_marked_arrays_in_closures(self):
        w = nd.array([2.0], dtype="float64")
        w.attach_grad()
        with autograd.record():
            g = nb.grad(lambda x: w * x * x)(3.0)
        assert isinstance(g, nb.NDArray) and g.shape == ()
        g.backward()
        assert w.grad.tolist() == [6]

    def test_marked_arrays_keep_their_gradient(self):
        x, w = nd.array(A[0]), nd.array(A[1])
        for a in (x, w):
            a.attach_grad("add")
            a.grad[:] = 7
        kept = x._node
        nb.grad(lambda x: (x * w).sum())(x)
        nb.hessian(lambda x: (x * x * w).sum())(x)
        nb.jvp(lambda x: x * w, (x,), (A[0],))
        nb.vjp(lambda x: x * w, x)[1](A[0])
        assert x._node is kept
        assert x.grad.tolist() == w.grad.tolist() == [7, 7, 7]
        assert not (x._fresh_grad or w._fresh_grad)

    def test_what_reaches_nothing_outside_is_not_recorded(self):
        with autograd.record():
            value, g = nb.value_and_grad(f)(nd.array(A))
            assert value._node is None and g._node is None
            assert type(nb.grad(f)(A)) is np.ndarray
            assert type(nb.grad(lambda x: x * x)(1.0)) is float

    def test_pause_stops_it(self):
        x = nd.array([2.0], dtype="float64")
        x.attach_grad()
        with autograd.record():
            y = x * x
            with autograd.pause():
                g = nb.grad(lambda a: a * y)(1.0)
        assert g == 4.0

    @pytest.mark.parametrize("training", [False, True])
    def test_flags_are_left_alone(self, training):
        seen = []

        def g(x):
            seen.append((autograd.is_recording(), autograd.is_training()))
            return x * x

        previous = autograd.set_training(training)
        try:
            nb.hessian(g)(1.0)
            assert not autograd.is_recording() and autograd.is_training() is training
        finally:
            autograd.set_training(previous)
        assert seen == [(True, training)]

    def test_flags_after_an_error(self):
        def g(x):
            raise KeyError("mine")

        for transform in (nb.grad, nb.hessian, nb.jacobian, nb.value_and_grad):
            with pytest.raises(KeyError, match="mine"):
                transform(g)(1.0)
            assert not autograd.is_recording()

    def test_checkpoints(self):
        def g(x):
            return (nd.sin(x) * x[0]).sum()

        for transform in (nb.grad, nb.hessian):
            np.testing.assert_allclose(transform(nb.checkpoint(g))(A[0]), transform(g)(A[0]), rtol=1e-14)

    def test_gradients_inside_a_checkpoint(self):
        w = nd.array([2.0], dtype="float64")
        w.attach_grad()
        block = nb.checkpoint(lambda w: nb.grad(lambda x: w * w * x * x)(3.0))
        with autograd.record():
            y = block(w)
        y.backward()
        assert w.grad.tolist() == [24]
        assert nb.grad(nb.grad(block))(2.0) == 12

    def test_checkpoint_at_top_level_is_autograds(self):
        assert nb.checkpoint is autograd.checkpoint

    def test_detect_anomaly(self):
        with autograd.detect_anomaly(), pytest.raises(autograd.AnomalyError) as caught:
            nb.grad(lambda x: nd.sqrt(x).sum())(np.array([0.0, 1.0]))
        assert caught.value.op == "sqrt"
        with autograd.detect_anomaly():
            assert nb.hessian(lambda x: nd.sqrt(x).sum())(np.array([4.0])) == pytest.approx(-1 / 32)

    def test_symbol(self):
        x = nd.array([2.0])
        x.attach_grad()
        with autograd.record():
            y = nb.grad(lambda a: x * a * a)(3.0)
        assert len(autograd.get_symbol(y).list_arguments()) >= 1

    def test_random_numbers(self):
        """A transform calls the function once; with one seed all draw the same."""

        def g(x):
            return (x * x * nd.random.normal(shape=3, dtype="float64")).sum()

        nb.random.seed(1)
        noise = nd.random.normal(shape=3, dtype="float64").asnumpy()
        for transform, expected in ((nb.grad, 2 * noise * A[0]), (nb.hessian, np.diag(2 * noise))):
            nb.random.seed(1)
            np.testing.assert_allclose(transform(g)(A[0]), expected, rtol=1e-15)

    @pytest.mark.parametrize("wrap", [lambda g: g, nb.checkpoint])
    def test_dropout(self, wrap):
        dropped = wrap(lambda x: nd.Dropout(x, p=0.5).sum())
        assert nb.grad(dropped)(np.ones(100)).tolist() == [1] * 100
        with autograd.train_mode():
            value, g = nb.value_and_grad(dropped)(np.ones(100))
        assert set(g.tolist()) == {0, 2}
        assert value == g.sum()

    def test_threads(self):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda k: nb.hessian(f)(A[0] + k), range(8)))
        for k, h in enumerate(found):
            np.testing.assert_array_equal(h, nb.hessian(f)(A[0] + k))


class TestMemory:
    def test_results_are_the_callers_alone(self):
        x = nd.ones(2)
        gx, gy = nb.grad(lambda x, y: (x + y).sum(), (0, 1))(x, x)
        gx[:] = 5
        assert gy.tolist() == [1, 1]
        value, pullback = nb.vjp(lambda x: nd.exp(x), np.zeros(2))
        value[:] = 100
        assert pullback(np.ones(2))[0].tolist() == [1, 1]

    def test_recorded_results_are_the_callers_alone(self):
        x = nd.ones(2)
        x.attach_grad()
        t = nd.ones(2)
        with autograd.record():
            gx, gy = nb.grad(lambda a, b: (a + b + x).sum(), (0, 1))(x, x)
            _, tangent = nb.jvp(lambda a: a + x, (x,), (t,))
        for a, b in ((gx, gy), (tangent, t)):
            a[:] = 5
            assert b.tolist() == [1, 1]

    def test_subclasses_of_numpy_arrays(self):
        for x in (np.array([1.0, 2.0]).view(np.memmap), np.array([1.0, 2.0]).view(np.recarray)):
            assert nb.grad(lambda x: (x * x).sum())(x).tolist() == [2, 4]

    def test_numpy_arguments_may_change_between_vjp_and_pullback(self):
        x, a = np.ones(2), np.full(2, 3.0)
        _, pullback = nb.vjp(lambda x, a: x * x * a, x, a, argnums=0)
        x[:] = a[:] = 100
        assert pullback(np.ones(2)).tolist() == [6, 6]

    def test_changed_ndarrays_are_noticed(self):
        x = nd.ones(2)
        _, pullback = nb.vjp(lambda x: x * x, x)
        x[:] = 5
        with pytest.raises(nb.NBGradError, match="changed in place"):
            pullback(nd.ones(2))

    def test_writes_into_arguments_are_refused(self):
        def g(x):
            x += 1
            return x.sum()

        def h(x):
            x[0] = 1
            return x.sum()

        for x in (np.zeros(2), nd.zeros(2)):
            for function in (g, h):
                with pytest.raises(nb.NBGradError, match="Assigning to NDArrays"):
                    nb.grad(function)(x)
            assert x.tolist() == [0, 0]

    def test_the_functions_containers_are_its_own(self):
        params = {"w": 2.0, "b": [1.0, 2.0]}

        def g(p):
            p["w"] = p["w"] * p["b"].pop()
            return p["w"]

        assert nb.grad(g)(params) == {"w": 2.0, "b": [0.0, 2.0]}
        assert params == {"w": 2.0, "b": [1.0, 2.0]}

    def test_nothing_is_kept(self):
        import gc
        import weakref

        kept = []

        def g(x):
            y = nd.sin(x)
            kept.append(weakref.ref(y._node))
            return y.sum()

        gc.disable()
        try:
            nb.grad(g)(A)
            nb.hessian(g)(A[0])
            nb.jacobian(g, mode="forward")(A[0])
            _, pullback = nb.vjp(g, A)
            assert [r() is None for r in kept] == [True, True, True, False]
            del pullback
            assert kept[-1]() is None
        finally:
            gc.enable()


@pytest.mark.parametrize("name", nb.functional.__all__)
def test_every_name_is_public_and_has_an_example(name):
    assert name in nb.__all__
    assert getattr(nb, name) is getattr(nb.functional, name)
    assert ">>>" in getattr(nb, name).__doc__


BAD = [
    (lambda: nb.grad(3.0), "a function is needed, got 3.0"),
    (lambda: nb.hessian(nd.ones(2)), "hessian: a function is needed"),
    (lambda: nb.vjp("f", 1.0), "vjp: a function is needed"),
    (lambda: nb.grad(f, "x"), "argnums must be an int or a tuple of ints, got 'x'"),
    (lambda: nb.grad(f, True), "argnums must be"),
    (lambda: nb.grad(f, ()), "argnums must be"),
    (lambda: nb.vjp(lambda: nd.ones(1)), "argnums must be"),
    (lambda: nb.grad(f, 1)(1.0), r"argnums 1 is out of range: 1 positional argument\(s\) given"),
    (lambda: nb.grad(f, -2)(1.0), "argnums -2 is out of range"),
    (lambda: nb.grad(f)(x=A), "keyword arguments are not differentiated"),
    (lambda: nb.grad(f, (0, 0))(A), "names an argument twice"),
    (lambda: nb.grad(lambda x, y: x, (0, -2))(1.0, 2.0), "names an argument twice"),
    (lambda: nb.grad(lambda x: x)(A), r"has shape \(2, 3\); use jacobian, or elementwise_grad"),
    (lambda: nb.hvp(lambda x: x)(A, A), "hvp: the function must give a scalar"),
    (lambda: nb.hessian(lambda x: x)(A), "hessian: the function must give a scalar"),
    (lambda: nb.grad(float)(1.0), "must give an NDArray, got 1.0"),
    (lambda: nb.grad(lambda x: x.asnumpy())(A), "must give an NDArray"),
    (
        lambda: nb.grad(lambda x: np.packbits(x).sum())(A),
        "numpy.packbits is no function of nbgrad.np",
    ),
    (lambda: nb.grad(lambda x: None)(A), "must give an NDArray, got None"),
    (lambda: nb.jacobian(lambda x: None)(A), "must give an NDArray, got None"),
    (lambda: nb.vjp(lambda x: {}, A), "must give an NDArray, got a dict of 0"),
    (lambda: nb.hessian(f)(3), "hessian: argument 0 cannot be differentiated by"),
    (lambda: nb.jacobian(lambda x: {"a": x, "b": [1]})(A), r"must give an NDArray at \['b'\]\[0\], got 1"),
    (lambda: nb.grad(lambda x: (x > 0).sum().astype("int32"))(A), "has dtype int32, which has no derivative"),
    (lambda: nb.grad(lambda x: x)(3), "argument 0 cannot be differentiated by: int 3 is no float; write 3.0, or leave"),
    (lambda: nb.grad(lambda x: x)(True), "cannot be differentiated by: bool True"),
    (lambda: nb.grad(lambda x: x)("3"), "cannot be differentiated by: str '3'"),
    (lambda: nb.grad(lambda x: x)(1j), "cannot be differentiated by: complex 1j"),
    (lambda: nb.grad(lambda x: x)(np.arange(3)), "ndarray of dtype int64"),
    (lambda: nb.grad(lambda x: x)(np.ones(3, complex)), "ndarray of dtype complex128"),
    (lambda: nb.grad(lambda x: x)(np.longdouble(1)), "dtype longdouble|dtype float128|dtype float64"),
    (lambda: nb.grad(lambda x: x)(nd.arange(3, dtype="int32")), "NDArray of dtype int32"),
    (lambda: nb.grad(lambda x, p: x, 1)(1.0, {"w": [1.0, 2]}), r"argument 1\['w'\]\[1\] cannot be .*: int 2"),
    (lambda: nb.grad(lambda x: x, has_aux=True)(1.0), r"must give a pair \(y, aux\)"),
    (lambda: nb.jacobian(f, mode="backward"), "mode must be 'reverse', 'forward' or None, got 'backward'"),
    (lambda: nb.hvp(f)(A), "and then the vector are needed, got 1 in all"),
    (lambda: nb.hvp(f)(A, A[0]), r"hvp: the vector: the shape must be \(2, 3\), got \(3,\)"),
    (lambda: nb.hvp(f, (0,))(A, A), "hvp: the vector: a tuple is expected, got ndarray"),
    (lambda: nb.jvp(f, A, A), "jvp: primals must be a tuple"),
    (lambda: nb.jvp(f, (A,), A), "jvp: tangents must be a tuple"),
    (lambda: nb.jvp(f, (A,), (A, A)), r"1 part\(s\) expected, got 2 part\(s\)"),
    (lambda: nb.jvp(f, (A,), (None,)), r"jvp: tangents\[0\]: a NoneType was given"),
    (lambda: nb.jvp(f, (A,), ("a",)), r"jvp: tangents\[0\]: an array or a number is needed, got 'a'"),
    (lambda: nb.vjp(f, A)[1](np.ones(3)), r"vjp: cotangent: the shape must be \(\), got \(3,\)"),
    (lambda: nb.vjp(lambda x: {"a": x}, A)[1]({"b": A}), "the parts 'a' expected, got the parts 'b'"),
    (lambda: nb.vjp(lambda x: [x], A)[1]({"b": A}), "cotangent: a list is expected, got dict"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_errors(call, message):
    with pytest.raises((nb.NBGradError, TypeError), match=message) as caught:
        call()
    assert isinstance(caught.value, nb.NBGradError)
    assert not autograd.is_recording()


TRANSFORMS = {
    "grad": nb.grad,
    "value_and_grad": nb.value_and_grad,
    "elementwise_grad": nb.elementwise_grad,
    "jacobian": nb.jacobian,
    "hessian": nb.hessian,
    "hvp": lambda f: lambda x: nb.hvp(f)(x, x),
    "vjp": lambda f: lambda x: nb.vjp(f, x),
    "jvp": lambda f: lambda x: nb.jvp(f, (x,), (x,)),
}
WHAT_IS_NO_FLOAT = [
    (3, "int 3 is no float; write 3.0"),
    (1 << 60, "is no float; write it as a float"),
    (True, "bool True is no float; give a float, or an array of floats"),
    ("x", "str 'x' is no float; give a float, or an array of floats"),
    (2j, "complex 2j is no float; write real and imaginary parts apart"),
    (np.int64(3), r"of dtype int64; (write float\(...\) of it|use astype\('float64'\))"),
    (np.arange(3), r"of dtype int64; use astype\('float64'\)"),
    (np.arange(3) > 1, r"of dtype bool; use astype\('float64'\)"),
    (nd.arange(3, dtype="int32"), r"NDArray of dtype int32; use astype\('float64'\)"),
    ([1.0, {"a": 2}], "int 2 is no float; write 2.0"),
]


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("compiled", [lambda f: f, nb.jit], ids=["", "jit"])
def test_what_is_no_float_says_what_to_write(name, compiled):
    for given, message in WHAT_IS_NO_FLOAT:
        pattern = rf"{name}: argument 0\S* cannot be differentiated by: .*{message}, or leave it out of argnums"
        with pytest.raises(nb.errors.DTypeError, match=pattern):
            compiled(TRANSFORMS[name](lambda x: x))(given)


def test_functions_that_numba_compiles():
    """They take no NDArrays: the transforms, and Numba's call, say what does."""

    @numba.njit
    def square(x):
        return x * x

    for name, transform in TRANSFORMS.items():
        with pytest.raises(nb.errors.DTypeError, match=rf"{name}: square is compiled by numba.njit, .*nb\.adjoint"):
            transform(square)(A)
    x = nd.array([1.0, 2.0])
    for call in (
        lambda: square(x),
        lambda: nb.grad(lambda x: square(x).sum())(A),
        lambda: nb.jit(square)(A),
        lambda: nb.jit(nb.grad(lambda x: square(x).sum()))(A),
        lambda: numba.njit(lambda a: a * x)(1.0),
    ):
        with pytest.raises(nb.errors.DTypeError, match=r"given an NDArray of shape .*nb\.primitive, .* nb\.adjoint"):
            call()
    assert not autograd.is_recording()
    np.testing.assert_array_equal(square(A), A * A)
    np.testing.assert_allclose(nb.grad(lambda x: nb.primitive(square)(x).sum())(A), 2 * A)
