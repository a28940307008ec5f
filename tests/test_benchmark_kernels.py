"""The kernels of the benchmarks, small: gradients agree with central differences, and with those written by hand."""

import sys
from pathlib import Path

import numpy as np
import pytest
from loop_programs import copies, uncompiled

import nbgrad as nb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from fields import kernels
from fields.by_hand import BY_HAND

del sys.path[0]

KERNELS = kernels()


def active(a):
    return isinstance(a, float) or getattr(a, "dtype", None) == np.float64


@pytest.mark.parametrize("name", KERNELS)
def test_gradients(name):
    """Not compiled: that would take longer than all they do."""
    kernel = KERNELS[name]
    args = kernel.draw(kernel.small)
    with uncompiled():
        value, gradients = nb.adjoint(kernel.function).value_and_grad(*copies(args))
    assert value == pytest.approx(kernel.function(*copies(args)), rel=1e-13)
    for k, (a, gradient) in enumerate(zip(args, gradients, strict=True)):
        if not active(a):
            assert gradient is None
            continue
        direction = np.random.default_rng(k).standard_normal(np.shape(a)) * np.mean(np.abs(a))
        ends = []
        for step in (1e-6, -1e-6):
            moved = list(copies(args))
            moved[k] = moved[k] + step * direction
            ends.append(kernel.function(*moved))
        slope, size = np.sum(gradient * direction), np.linalg.norm(np.ravel(gradient * direction))
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(slope, rel=1e-6, abs=1e-6 * size + 1e-9 * abs(value)), k


@pytest.mark.parametrize("name", BY_HAND)
def test_adjoints_by_hand(name):
    """Nor are these."""
    kernel = KERNELS[name]
    args = kernel.draw(kernel.small)
    with uncompiled():
        expected, gradients = nb.adjoint(kernel.function).value_and_grad(*copies(args))
    value, found = BY_HAND[name].py_func(*copies(args))
    assert value == pytest.approx(expected, rel=1e-13)
    for a, b in zip(found, [g for g in gradients if g is not None], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)
