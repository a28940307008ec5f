"""Copies that are recomputed instead, where what they copy is a copy, too."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.loops.ir.effects import Bind
from nbgrad.loops.ir.names import called
from nbgrad.loops.ir.reverse_ir import For, Step
from nbgrad.loops.ir.terms import Constant, Element, Variable
from nbgrad.loops.ir.verify import InvalidIRError, verify_sweeps

rng = np.random.default_rng(7)


def three_times(v, w, steps):
    new, held, last = np.zeros_like(v), np.zeros_like(v), np.zeros_like(v)
    for _ in range(steps):
        for i in range(v.size):
            new[i] = v[i] + w[i]
        for i in range(v.size):
            held[i] = new[i]
        for i in range(v.size):
            last[i] = held[i]
        for i in range(v.size):
            v[i] = last[i]


def by_rows(v, w, steps):
    """The first copy is made row by row, the second in loops of its own."""
    new, held = np.zeros_like(v), np.zeros_like(v)
    for _ in range(steps):
        for i in range(v.shape[0]):
            for j in range(v.shape[1]):
                new[i, j] = v[i, j] + w[i, j]
            for j in range(v.shape[1]):
                held[i, j] = new[i, j]
        for i in range(v.shape[0]):
            for j in range(v.shape[1]):
                v[i, j] = held[i, j]


def either(a, b, n):
    if n == 0:
        return a + b
    a = a * 2.0
    return a


def returned(v, w, steps):
    """What a function of several returns gives is copied twice."""
    for _ in range(steps):
        v[:] = either(v, v, 0)
        v[:] = either(v, w, 0)


@pytest.mark.parametrize("f, shape", [(three_times, (4,)), (by_rows, (3, 4)), (returned, (4,))])
def test_copies_of_copies(f, shape):
    with uncompiled():
        agrees(f, (rng.normal(size=shape), rng.normal(size=shape), 2))


def test_compiled():
    agrees(returned, (rng.normal(size=4), rng.normal(size=4), 2))


def test_the_first_value_is_recomputed():
    f = nb.adjoint(returned)
    assert "v[k3] = a[k3] + v[k3]" in str(f.explain(np.ones(4), np.ones(4), 1))


def test_arrays_that_nothing_fills_are_found():
    empty = Bind(("held",), called(np.empty, Constant(3)))
    first = Element("held", (Constant(0),))
    read = Step(Variable("total"), "=", first)
    with pytest.raises(InvalidIRError, match="never filled: held"):
        verify_sweeps([empty, read], set(), set(), set(), "f")
    verify_sweeps([empty, Step(first, "=", Constant(1.0)), read], set(), set(), set(), "f")


def test_buffers_of_parallel_iterations_are_found():
    inner = For("j", Constant(0), Constant(3), body=[], buffers={"ahead": called(np.empty, Constant(4))})
    with pytest.raises(InvalidIRError, match="parallel iterations share the buffer ahead"):
        verify_sweeps([For("i", Constant(0), Constant(3), parallel=True, body=[inner])], set(), set(), set(), "f")
    verify_sweeps([For("i", Constant(0), Constant(3), body=[inner])], set(), set(), set(), "f")
