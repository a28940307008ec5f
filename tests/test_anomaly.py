"""autograd.detect_anomaly: where the first value that is not finite came from."""

import inspect
import pickle
import threading

import numpy as np
import pytest
from recording import marked

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.autodiff.observers import observers
from nbgrad.autodiff.state import state

INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def _left_clean():
    yield
    assert not observers
    assert state.observer is None


def line(text):
    """The number of the first line of this file with a comment `text`."""
    source = inspect.getsource(inspect.getmodule(line)).splitlines()
    return next(k for k, row in enumerate(source, 1) if row.endswith("# " + text))


def caught(function, *args):
    with pytest.raises(autograd.AnomalyError) as info, autograd.detect_anomaly():
        function(*args)
    assert (autograd.is_recording(), autograd.is_training(), state.recomputing) == (False, False, False)
    return info.value


def forward(x, recording=True):
    with autograd.record() if recording else autograd.pause():
        y = nd.sin(x) + 1
        return nd.log(y - y)  # log


def backward(x):
    with autograd.record():
        y = nd.sqrt(x)  # sqrt
        z = y.sum()
    z.backward()


def second(x):
    with autograd.record():
        y = x**1.5  # power
        g = autograd.grad(y, x, create_graph=True)
    g.backward()


def second_recorded(x):
    with autograd.record():
        y = x**1.5
        g = autograd.grad(y, x, create_graph=True)
        autograd.grad(g, x, create_graph=True)


def third(x):
    with autograd.record():
        y = x**2.5
        g = autograd.grad(y, x, create_graph=True)
        g = autograd.grad(g, x, create_graph=True)
    g.backward()


@pytest.mark.parametrize("recording", [True, False])
def test_forward(recording):
    err = caught(forward, marked([0.5, 1.0]), recording)
    assert isinstance(err, nb.NBGradError)
    assert (err.op, err.phase, err.line, err.function) == ("log", "forward", line("log"), "forward")
    assert err.file == __file__
    assert (err.output.shape, err.output.dtype, err.output.nan, err.output.inf) == ((2,), "float64", 0, 2)
    assert err.output.min is None
    (operand,) = err.inputs
    assert (operand.nan, operand.inf, operand.min, operand.max, operand.mean) == (0, 0, 0.0, 0.0, 0.0)
    for part in ("log", "forward", f"line {line('log')}", __file__, "2 inf", "(2,)"):
        assert part in str(err)


def test_backward():
    x = marked([0.0, 4.0])
    err = caught(backward, x)
    assert (err.op, err.phase, err.line, err.function) == ("sqrt", "backward", line("sqrt"), "backward")
    assert (err.output.inf, err.output.max) == (1, 0.25)
    assert [s.name for s in err.inputs] == ["cotangent", "kept value 0"]
    assert (err.inputs[1].min, err.inputs[1].max, err.inputs[1].mean) == (0.0, 2.0, 1.0)
    assert x.grad.tolist() == [0.0, 0.0]  # as it was


@pytest.mark.parametrize("function", [second, second_recorded])
def test_second_order(function):
    err = caught(function, marked([0.0, 4.0]))
    assert err.phase == "second order"
    assert err.op.startswith("power")
    assert err.function == function.__name__
    if function is second:
        assert err.line == line("power")


def test_third_order():
    err = caught(third, marked([0.0, 4.0]))
    assert (err.phase, err.function) == ("order 3", "third")


def test_outside_nothing_is_raised():
    for function in (forward, backward, second):
        function(marked([0.0, 4.0]))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes_and_broadcasting(dtype):
    big = marked([[np.finfo(dtype).max], [1.0]], dtype=dtype)

    def run():
        with autograd.record():
            return big * nd.array([1.0, 2.0], dtype=dtype)

    err = caught(run)
    assert (err.op, err.output.inf, err.output.shape, err.output.dtype) == ("multiply", 1, (2, 2), dtype)
    assert [s.shape for s in err.inputs] == [(2, 1), (2,)]
    assert err.output.max == np.finfo(dtype).max


def test_a_conversion_overflows():
    err = caught(lambda: nd.array([1e6]).astype("float16"))
    assert (err.op, err.output.inf) == ("cast", 1)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: nd.dot(x, x), "_matmul"),
        (lambda x: (x * 1e-200).mean() / 0, "divide_scalar"),
        (lambda x: x.sum(), "sum"),
    ],
    ids=["dot", "scalar", "sum"],
)
def test_operators_with_kernels(function, op):
    err = caught(lambda: function(marked(np.full((2, 2), 1.7e308))))
    assert op in err.op or err.op == "dot"
    assert err.phase == "forward"


def test_an_operator_made_of_others_is_one():
    """What is infinite on the way and not in the end is none of the user's concern."""
    x = marked([[0.0, 1000.0]])
    with autograd.detect_anomaly():
        with autograd.record():
            y = nd.softmax_cross_entropy(x, nd.array([1]))
        y.backward()
    assert np.isfinite(x.grad.asnumpy()).all()


def test_what_is_not_finite_from_the_start_raises_nothing():
    x = marked([1.0, 2.0])
    mask = nd.array([0.0, -INF], dtype="float64")
    with autograd.detect_anomaly():
        with autograd.record():
            y = nd.softmax(x + mask)
            z = (y * y).sum()
        z.backward()
        assert np.isnan((nd.array([NAN]) * 2 + 1).asnumpy()).all()


def test_a_head_gradient_that_is_not_finite_raises_nothing():
    x = marked([1.0, 2.0])
    with autograd.detect_anomaly():
        with autograd.record():
            y = nd.sin(x)
        y.backward(nd.array([INF, 1.0], dtype="float64"))
    assert np.isinf(x.grad.asnumpy()[0])


def test_recorded_outside():
    x = marked([0.0, 1.0])
    with autograd.record():
        y = nd.sqrt(x)
    err = caught(y.backward)
    assert (err.op, err.phase, err.file, err.line) == ("sqrt", "backward", None, None)
    assert "outside detect_anomaly" in str(err)


def test_custom_functions():
    class Bad(autograd.Function):
        def __init__(self, how):
            self.how = how

        def forward(self, x):
            return nd.array(np.full(2, NAN)) if self.how == "forward" else x * 1.0

        def backward(self, dy):
            return dy / 0

    def run(how):
        with autograd.record():
            y = Bad(how)(marked([1.0, 2.0]))  # Bad
        y.backward()

    for how in ("forward", "backward"):
        err = caught(run, how)
        assert (err.op, err.phase, err.line) == ("Bad", how, line("Bad"))


def test_several_results():
    def run():
        with autograd.record():
            parts = nd.split(marked([[0.0, 1.0]]), 2, axis=1)
            y = parts[0] ** 0.5 + parts[1]
        y.backward()

    err = caught(run)
    assert (err.phase, err.function) == ("backward", "run")


def test_inside_a_checkpoint():
    def block(x):
        return nd.sqrt(x * 1.0)  # inner

    def run():
        with autograd.record():
            y = autograd.checkpoint(block)(marked([0.0, 1.0]))
        y.backward()

    err = caught(run)
    assert (err.op, err.phase, err.line, err.function) == ("sqrt", "backward", line("inner"), "block")


def test_scopes_nest_and_switch_off():
    x = nd.array([0.0])
    scope = autograd.detect_anomaly()
    with scope, scope:
        with autograd.detect_anomaly(False):
            nd.log(x)
        with pytest.raises(autograd.AnomalyError):
            nd.log(x)
    nd.log(x)
    with pytest.raises(KeyError), scope:
        raise KeyError
    nd.log(x)
    with pytest.raises(TypeError, match="enabled must be a bool"):
        autograd.detect_anomaly("yes")


def test_as_a_decorator():
    @autograd.detect_anomaly()
    def risky(x):
        """Its docstring."""
        return risky(x - 1) if x.asscalar() > 0 else nd.log(x)

    assert risky.__doc__ == "Its docstring."
    with pytest.raises(autograd.AnomalyError):
        risky(nd.array([2.0]))


def test_other_threads_are_left_alone():
    found = []

    def work():
        try:
            x = marked([0.0])
            with autograd.record():
                y = nd.sqrt(x)
            y.backward()
            found.append(float(x.grad))
        except Exception as err:
            found.append(err)

    with autograd.detect_anomaly():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [INF]


def test_gradients_are_the_same():
    def run():
        x = marked(np.linspace(0.5, 1.5, 6).reshape(2, 3))
        with autograd.record():
            y = nd.tanh(nd.dot(x, x.T)) * nd.softmax(x).sum()
            g = autograd.grad(y, x, create_graph=True)
            z = (g * g).sum()
        z.backward()
        return x.grad.asnumpy()

    plain = run()
    with autograd.detect_anomaly():
        watched = run()
    np.testing.assert_array_equal(plain, watched)


def test_the_error_can_be_pickled():
    err = caught(forward, marked([1.0]))
    again = pickle.loads(pickle.dumps(err))
    assert str(again) == str(err)
    assert (again.line, again.inputs) == (err.line, err.inputs)
