"""Recording and training flags: per thread, restored by every scope however it is left."""

import threading

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.autograd import is_recording, is_training, pause, predict_mode, record, train_mode


def flags():
    return is_recording(), is_training()


@pytest.fixture(autouse=True)
def flags_are_off_before_and_after():
    assert flags() == (False, False)
    yield
    left = flags()
    autograd.set_recording(False)
    autograd.set_training(False)
    assert left == (False, False)


def in_thread(function):
    """Run in a new thread; give its result, or raise its exception."""
    box = []

    def run():
        try:
            box.append((function(), None))
        except BaseException as err:
            box.append((None, err))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    result, error = box[0]
    if error is not None:
        raise error
    return result


@pytest.mark.parametrize(
    ("scope", "inside"),
    [
        (record, (True, True)),
        (lambda: record(train_mode=False), (True, False)),
        (lambda: record(train_mode=None), (True, False)),
        (lambda: record(False), (True, False)),
        (pause, (False, False)),
        (lambda: pause(train_mode=True), (False, True)),
        (train_mode, (False, True)),
        (predict_mode, (False, False)),
    ],
)
def test_what_a_scope_sets(scope, inside):
    with scope() as given:
        assert given is None
        assert flags() == inside
    assert flags() == (False, False)

    @scope()
    def decorated(a, *, b):
        """Doc."""
        return a, b, flags()

    assert decorated(1, b=2) == (1, 2, inside)
    assert decorated.__name__ == "decorated" and decorated.__doc__ == "Doc."
    assert flags() == (False, False)


def test_scopes_nest_and_restore():
    with record():
        with pause():
            assert flags() == (False, False)
            with record(train_mode=False):
                assert flags() == (True, False)
            assert flags() == (False, False)
        assert flags() == (True, True)
        with predict_mode():
            assert flags() == (True, False)
            with train_mode(), record(train_mode=None):
                assert flags() == (True, True)
        assert flags() == (True, True)
        with record(train_mode=None):
            assert flags() == (True, True)
        with pause(train_mode=None):
            assert flags() == (False, True)


def test_an_exception_restores_the_flags():
    with pytest.raises(ZeroDivisionError), record(), predict_mode(), pause():
        _ = 1 / 0
    assert flags() == (False, False)

    @record()
    def fails():
        raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    assert flags() == (False, False)


def test_one_scope_object_again_and_inside_itself():
    scope = record()
    for _ in range(2):
        with scope:
            assert flags() == (True, True)
    with scope:
        with scope:
            with pause(), scope:
                assert is_recording()
            assert is_recording()
        assert is_recording()
    assert flags() == (False, False)


def test_one_scope_object_in_two_threads():
    scope = record()
    entered, leave = threading.Event(), threading.Event()

    def other():
        with autograd.train_mode(), scope:
            entered.set()
            assert leave.wait(10)
        return flags()

    box = []
    thread = threading.Thread(target=lambda: box.append(other()))
    with scope:
        thread.start()
        assert entered.wait(10)
    assert flags() == (False, False)
    leave.set()
    thread.join()
    assert box == [(False, False)]


def test_a_recursive_decorated_function():
    @record()
    def down(n):
        return [flags()] + (down(n - 1) if n else [])

    assert down(3) == [(True, True)] * 4


def test_set_recording_inside_a_scope_stays():
    with record():
        assert autograd.set_recording(False) is True
        assert not is_recording()
    assert flags() == (False, False)


@pytest.mark.parametrize("setter", [autograd.set_recording, autograd.set_training], ids=["recording", "training"])
def test_setters_return_what_was(setter):
    assert setter(True) is False
    assert setter(1) is True
    assert setter(np.bool_(False)) is True
    assert setter(0) is False
    for wrong in ("True", None, 1.5, [True]):
        with pytest.raises(TypeError, match=setter.__name__):
            setter(wrong)
    with pytest.raises(TypeError, match="record"):
        record(train_mode="yes")


def test_flags_belong_to_a_thread():
    with record():
        assert in_thread(flags) == (False, False)

        def change():
            autograd.set_training(True)
            autograd.set_recording(True)
            return flags()

        assert in_thread(change) == (True, True)
        assert flags() == (True, True)
    assert in_thread(flags) == (False, False)


def test_contexts_belong_to_a_thread():
    with nb.cpu(3):
        assert in_thread(nb.current_context) == nb.cpu(0)
        assert nb.current_context() == nb.cpu(3)


def test_backward_leaves_the_flags_alone():
    x = nd.array([2.0])
    x.attach_grad()
    for mode in (True, False):
        with record(train_mode=mode):
            y = x * x
            y.backward(train_mode=not mode, retain_graph=True)
            assert flags() == (True, mode)
            autograd.grad(y, x, create_graph=True, train_mode=not mode)
            assert flags() == (True, mode)
        assert flags() == (False, False)
    with pytest.raises(nb.NBGradError):
        nd.ones(2).backward()
    with record():
        with pytest.raises(nb.NBGradError):
            nd.ones(2).backward(train_mode=False)
        assert flags() == (True, True)


def test_the_training_flag_during_backward():
    seen = []

    class Look(autograd.Function):
        def forward(self, x):
            seen.append(flags())
            return x * 1

        def backward(self, dy):
            seen.append(flags())
            return dy

    x = nd.ones(1)
    x.attach_grad()
    with record(train_mode=False):
        y = Look()(x)
    y.backward(retain_graph=True)
    y.backward(retain_graph=True, train_mode=False)
    autograd.grad(y, x, create_graph=True, train_mode=False)
    assert seen == [(False, False), (False, True), (False, False), (True, False)]


def test_backward_from_another_thread():
    x = nd.array([3.0])
    x.attach_grad()
    with record():
        y = x * x
    in_thread(y.backward)
    assert x.grad.asscalar() == 6


def test_threads_share_a_marked_weight():
    """Each thread gets the right gradients of its own inputs; the shared buffer holds one thread's value whole."""
    n, threads = 2000, 8
    w = nd.array(np.linspace(1, 2, n))
    w.attach_grad()
    total = nd.array(np.zeros(n))
    accumulated = nd.array(np.linspace(1, 2, n))
    autograd.mark_variables(accumulated, total, "add")
    barrier = threading.Barrier(threads)
    failures = []

    def work(k):
        try:
            barrier.wait(10)
            for _ in range(20):
                x = nd.array(np.full(n, k + 1.0))
                x.attach_grad()
                with record():
                    y = (w * x * x).sum()
                y.backward()
                np.testing.assert_array_equal(x.grad.asnumpy(), 2 * (k + 1) * w.asnumpy())
                with record():
                    z = accumulated * 1.0
                z.backward()
                assert not is_recording()
        except BaseException as err:
            failures.append(err)
            barrier.abort()

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    assert not failures
    assert (w.grad.asnumpy() == w.grad.asnumpy()[0]).all()
    assert w.grad.asnumpy()[0] in {(k + 1.0) ** 2 for k in range(threads)}
    np.testing.assert_array_equal(total.asnumpy(), np.full(n, 20.0 * threads))


def test_kinds_and_expressions_are_unique_whatever_threads_do():
    from_threads = []
    barrier = threading.Barrier(8)

    def make(k):
        barrier.wait(10)
        for i in range(200):
            from_threads.append((i, nd.zeros(1, ctx=nb.cpu(1000 + i))._kind))

    workers = [threading.Thread(target=make, args=(k,)) for k in range(8)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    assert len(from_threads) == 1600
    assert len({(i, id(kind)) for i, kind in from_threads}) == 200
