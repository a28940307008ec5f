"""Many evaluations: results in order, errors with their point, and points that a dying worker took with it."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pytest

import nbgrad as nb
import nbgrad.np as nbnp


def loss(x, scale=1.0):
    return nbnp.sum(nbnp.sin(scale * x))


def loop(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] ** 3
    return total


gradient = nb.jit(nb.value_and_grad(loss))
adjoint = nb.adjoint(loop)


def fragile(flag, x):
    """The worker that first gets the point 3 dies."""
    if x == 3:
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return 10 * x


def deadly(x):
    os.kill(os.getpid(), signal.SIGKILL)


def failing(x):
    if x == 2:
        raise ValueError("no such parameter")
    return x


def processes():
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


@pytest.mark.parametrize("executor", [None, processes], ids=["own processes", "given"])
def test_compiled_functions_in_other_processes(executor):
    points = [np.full(3, 0.1 * k) for k in range(6)]
    for (value, (slope,)), x in zip(nb.ensemble(adjoint.value_and_grad, points, executor), points, strict=True):
        np.testing.assert_allclose(value, np.sum(x**3))
        np.testing.assert_allclose(slope, 3 * x**2)
    found = nb.ensemble(gradient, [(nbnp.array(x), 2.0) for x in points[:2]], executor)
    np.testing.assert_allclose(found[1][1].asnumpy(), 2 * np.cos(2 * points[1]))


def test_arguments_order_and_progress():
    said = []
    with ThreadPoolExecutor(3) as pool:
        points = [(0.1 * k, 2.0) for k in range(20)]
        found = nb.ensemble(nb.grad(loss), points, pool, progress=lambda *counts: said.append(counts))
        assert nb.ensemble(loss, [], pool) == []
    np.testing.assert_allclose(found, [2 * np.cos(2 * x) for x, _ in points])
    assert said == [(k, 20) for k in range(1, 21)]


def test_points_of_a_lost_worker_are_computed_again(tmp_path):
    call = partial(fragile, str(tmp_path / "died"))
    assert nb.ensemble(call, range(6), processes) == [10 * k for k in range(6)]
    assert (tmp_path / "died").exists()


def test_a_given_executor_cannot_be_renewed(tmp_path):
    with processes() as pool, pytest.raises(nb.NBGradError, match="callable that returns executors"):
        nb.ensemble(partial(fragile, str(tmp_path / "died")), range(6), pool)


def test_workers_that_die_again_and_again():
    with pytest.raises(nb.NBGradError, match="1 of 1 points are left, the first is number 0"):
        nb.ensemble(deadly, [1], processes, retries=1)


def test_errors_say_at_which_point():
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="no such parameter") as info:
        nb.ensemble(failing, range(5), pool)
    assert info.value.__notes__ == ["ensemble: at point 2"]


def test_wrong_arguments():
    with pytest.raises(nb.NBGradError, match="a function is expected, got 3"):
        nb.ensemble(3, [1])
    with pytest.raises(nb.NBGradError, match="method submit"):
        nb.ensemble(loss, [1], executor=3)
