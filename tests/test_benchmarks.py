"""The models of the benchmarks, small: gradients agree with finite differences, and with those written by hand."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from loop_programs import copies, there, uncompiled

import nbgrad as nb
from nbgrad import nd

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "asv_bench" / "benchmarks")]
import libraries  # noqa: E402
import loops  # noqa: E402
import parallel_loops  # noqa: E402
import rain  # noqa: E402
import workloads as w  # noqa: E402

del sys.path[:2]

SMALL = [
    (w.rosenbrock, w._normal((5,)), (0,)),
    (w.mlp, w._mlp(3, 4, 5, 3, 10), (2, 3, 4, 5, 6, 7)),
    (w.lennard_jones, w._bodies(2), (0,)),
    (w.recurrent, w._sequence(3, 2, 2, 3, 2), (2, 3, 4, 5, 6)),
    (w.heat, w._normal((5, 6), (5, 6)), (0,)),
    (w.reprojection, w._pictures(2, 3, 5), (0, 1)),
]


@pytest.mark.parametrize(("function", "make", "wanted"), SMALL, ids=lambda p: getattr(p, "__name__", ""))
def test_gradients(function, make, wanted):
    arrays = make(np.random.default_rng(1))
    objective = partial(function, libraries.mxnet_names(nd))
    _, gradients = nb.value_and_grad(objective, argnums=wanted)(*arrays)
    for k, gradient in zip(wanted, gradients, strict=True):
        direction = np.random.default_rng(k).standard_normal(arrays[k].shape)
        ends = []
        for step in (1e-6, -1e-6):
            moved = list(arrays)
            moved[k] = arrays[k] + step * direction
            ends.append(objective(*[nd.array(a, dtype=a.dtype) for a in moved]).item())
        slope = float((np.asarray(gradient) * direction).sum())
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", loops.cases(n=10))
def test_adjoints_by_hand(name):
    """Not compiled: that would take longer than all they do."""
    small = loops.cases(n=20, grid=5, square=7, order=6, series=6, steps=3, bodies=9)
    case = loops.Case(name, small[name])
    case.calls = {kind: call.py_func for kind, call in case.calls.items()}
    assert case.compare(case.outcome("by hand"), case.outcome("adjoint"), "by hand")


@pytest.mark.parametrize("f", parallel_loops.arguments(), ids=lambda f: f.__name__)
def test_loops_on_several_threads(f):
    """Nor are these. Turns are shuffled; outcomes are as with range, and no loop is serial."""
    args = [a[:9] if np.ndim(a) == 1 else a[:9, :7] if np.ndim(a) else a for a in parallel_loops.arguments()[f]]
    args = [2 if isinstance(a, int) else a for a in args]
    with uncompiled():
        adj = nb.adjoint(f)
        value, gradients = adj.value_and_grad(*copies(args))
        expected, others = nb.adjoint(parallel_loops.serial(f)).value_and_grad(*copies(args))
        assert all(how.startswith("parallel") for how in adj.parallel(*copies(args)).values())
    assert value == pytest.approx(expected, rel=1e-13)
    for a, b in zip(there(gradients), there(others), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)


def test_a_function_of_a_hundred_lines():
    """Nor is this one."""
    args = rain.arguments(levels=5, steps=4)
    args[3][:] = [1e-4, 2e-4, 0, 3e-4, 1e-5]
    made = nb.adjoint(rain.rain_column)._generated(args)
    direction = [0.01 * np.random.default_rng(k).standard_normal(np.shape(a)) * a for k, a in enumerate(args[:9])]
    ends = []
    for step in (1e-6, -1e-6):
        ends.append(rain.rain_column(*[a + step * d for a, d in zip(args, direction, strict=False)], args[9]))
    made.entry = made.entry.py_func
    (value,), gradients = made(args, {"fallen": 1.0})
    slope = sum(float(np.sum(g * d)) for g, d in zip(gradients, direction, strict=True))
    assert value == pytest.approx(0.5 * (ends[0] + ends[1]), rel=1e-9)
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)
