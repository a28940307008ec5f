"""The models of ``benchmarks/peers.py``, small: their gradients agree with finite differences."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd

FOLDER = Path(__file__).resolve().parents[1] / "asv_bench" / "benchmarks"
sys.path.insert(0, str(FOLDER))
import libraries  # noqa: E402
import workloads as w  # noqa: E402

sys.path.remove(str(FOLDER))

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
