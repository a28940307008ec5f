"""Tapes that fit: their sizes are known before a call, which says so where they are large for the machine."""

import warnings

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.errors import NBGradError, OutOfMemoryError, TapeWarning
from nbgrad.loops import memory


def relax(x, steps):
    v = np.zeros(len(x))
    for _t in range(steps):
        for i in range(len(x)):
            v[i] = np.sin(v[i]) * x[i] + v[i]
    return np.sum(v)


def halves(x):
    n = x.shape[0] // 2
    m = n + 1
    y = np.ones((n, m))
    for k in range(3):
        for i in range(n):
            for j in range(y.shape[1]):
                y[i, j] = y[i, j] * y[i, j] * x[i + k]
    return np.sum(y)


def in_place(x, steps):
    for _t in range(steps):
        for i in range(1, x.size):
            x[i] = np.sin(x[i]) * x[i - 1]
    return np.sum(x)


def until(x, limit):
    y = x
    while y < limit:
        y = y * y + 0.5
    return y


def estimated(f, *args):
    return nb.adjoint(f)._generated(args).estimate


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (relax, (np.ones(7), 5)),
        (relax, (np.ones(0), 5)),
        (relax, (np.ones(7), 0)),
        (halves, (np.full(9, 0.9),)),
        (in_place, (np.ones(7), 5)),
    ],
)
def test_estimates_are_the_sizes_that_a_run_measures(f, args):
    adj = nb.adjoint(f)
    program = adj._generated(args)
    expected = adj.report(*args)
    tapes = {n: size for n, size in expected.items() if not n.startswith("a copy of")}
    assert program.estimate.bytes(args) == tapes and len(tapes) > 0
    program.estimate.tapes = {}  # so the function runs
    assert adj.report(*args) == expected


def test_reports_of_known_sizes_run_nothing():
    report = nb.adjoint(relax).report(np.ones(1000), 10**9)
    assert sum(report.values()) == 2 * 8 * 1000 * 10**9
    report = nb.adjoint(in_place).report(np.ones(1001), 10**9)
    assert report.pop("a copy of x") == 8 * 1001
    assert sum(report.values()) == 2 * 8 * 1000 * 10**9


def test_tapes_that_grow_are_not_estimated():
    assert estimated(until, 1.0, 100.0).tapes == {}
    assert nb.adjoint(until).value_and_grad(1.0, 100.0)[0] == until(1.0, 100.0)


@pytest.mark.parametrize("call", ["value_and_grad", "vjp"])
def test_what_cannot_fit_is_an_error_at_once(call):
    adj, x = nb.adjoint(relax), np.ones(1000)
    adj.value_and_grad(x, 2)  # the fast path is there
    with pytest.raises(OutOfMemoryError, match=r'GiB for .* over _t, i in .*steps.*checkpoint="auto", loop="_t"'):
        getattr(adj, call)(x, 10**9)
    with pytest.raises(MemoryError):
        getattr(adj, call)(x, 10**9)
    assert issubclass(OutOfMemoryError, NBGradError)


def test_large_tapes_are_warned_of_once(monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 4 * 1000)
    adj, x = nb.adjoint(relax), np.ones(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adj.value_and_grad(x, 2)  # 320 bytes
    with pytest.warns(TapeWarning, match=r"are stored for the reverse sweep: .*v_tape over _t, i") as caught:
        value, gradients = adj.value_and_grad(x, 100)
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = adj.value_and_grad(x, 100)
        spared = nb.adjoint(relax, checkpoint=3, loop="_t").value_and_grad(x, 100)  # as the warning proposes
    assert again[0] == spared[0] == value
    np.testing.assert_array_equal(again[1][0], gradients[0])
    np.testing.assert_array_equal(spared[1][0], gradients[0])


def test_the_proposed_call_works(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 5000)
    monkeypatch.setattr(memory, "physical_memory", lambda: 5000)
    x = np.full(10, 0.3)
    with pytest.raises(OutOfMemoryError) as caught:
        nb.adjoint(relax).value_and_grad(x, 100)
    assert 'nb.adjoint(relax, checkpoint="auto", loop="_t") stores snapshots instead' in str(caught.value)
    value = nb.adjoint(relax, checkpoint="auto", loop="_t", memory=2000).value_and_grad(x, 100)[0]
    assert value == pytest.approx(relax(x, 100), rel=1e-14)


def test_memory_is_that_of_the_machine():
    assert 0 < memory.available_memory() <= memory.physical_memory()
