"""Compiled writes beside arrays that are detached, or where nothing is recorded: none makes constants of what is."""

import numpy as onp
import pytest

import nbgrad as nb
import nbgrad.np as np
from nbgrad import autograd


def _detached_view(x):
    y = x * x
    z = y.detach()
    z[0] = 100.0
    return np.sum(y * x)


def _beside_detached(x):
    y = x * x
    z = y.detach()
    y[0] = x[1]
    return np.sum(z * x) + np.sum(y)


def _strided_detached(x):
    y = x * x
    w = y[::2].detach()
    w[0] = 50.0
    return np.sum(y * x)


def _paused(x):
    y = x * 2.0
    with autograd.pause():
        y[0] = 0.0
    return np.sum(y * y)


def _paused_in_place(x):
    y = np.exp(x)
    with autograd.pause():
        y += 1.0
    return np.sum(y)


@pytest.mark.parametrize("function", [_detached_view, _beside_detached, _strided_detached, _paused, _paused_in_place])
def test_compiled_writes_do_not_make_constants_of_what_is_recorded(function):
    x = np.array([1.0, 2.0, 3.0])
    for compiled in (nb.jit(nb.grad(function)), nb.grad(nb.jit(function))):
        with pytest.raises(nb.NBGradError, match=r"copy\(\)"):
            compiled(x)
    assert nb.jit(function)(x).shape == ()  # where nothing is recorded, nothing can be lost


def test_the_detached_part_of_a_temporary_view_is_a_view():
    x = np.array([1.0, 2.0, 3.0])
    assert _strided_detached(x) == 50.0 + 8.0 + 27.0
    onp.testing.assert_allclose(nb.grad(_strided_detached)(x).asnumpy(), [50.0, 12.0, 27.0])


def test_compiled_writes_into_detached_copies():
    def function(x):
        y = x * x
        z = y.detach().copy()
        z[0] = 100.0
        y[0] = x[1]
        with autograd.pause():
            w = y.copy()
            w[:] = 7.0
        return np.sum(z * x) + np.sum(y) + np.sum(w * x)

    x = np.array([1.0, 2.0, 3.0])
    expected = nb.grad(function)(x).asnumpy()
    for compiled in (nb.jit(nb.grad(function)), nb.grad(nb.jit(function))):
        onp.testing.assert_allclose(compiled(x).asnumpy(), expected)
