"""Pauses of the garbage collector."""

import gc
import os
import threading

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.core.collector import paused


@pytest.fixture(autouse=True)
def runs():
    assert gc.isenabled()
    yield
    gc.enable()


def test_pauses_nest():
    with paused():
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    with paused():
        pass
    assert not gc.isenabled()


def test_an_error_ends_a_pause():
    with pytest.raises(ZeroDivisionError), paused():
        1 / 0  # noqa: B018
    assert gc.isenabled()


def in_another_thread():
    """A thread in a pause, and what ends it."""
    inside, leave = threading.Event(), threading.Event()

    def wait():
        with paused():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=wait)
    thread.start()
    assert inside.wait(60)
    return thread, leave


def test_threads_share_pauses():
    thread, leave = in_another_thread()
    with paused():
        leave.set()
        thread.join(60)
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_has_no_pauses_of_threads_that_it_lacks():
    thread, leave = in_another_thread()
    child = os.fork()
    if not child:
        os._exit(0 if gc.isenabled() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not gc.isenabled()
    leave.set()
    thread.join(60)
    assert gc.isenabled()


def squares(x):
    total = 0.0
    for i in range(x.size):
        total += x[i] * x[i]
    return total


def test_it_runs_after_an_adjoint_was_generated_or_refused():
    assert nb.adjoint(squares).value_and_grad(np.arange(3.0))[0] == 5.0
    assert gc.isenabled()
    with pytest.raises(nb.MXNetError):
        nb.adjoint(squares).value_and_grad(3.0)
    assert gc.isenabled()
