"""Optimizer updates: in place, with limits, in a graph."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.core.registry import operators

UPDATES = [e for e in operators.values() if e.name.endswith("_update")]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("entry", UPDATES, ids=lambda e: e.name)
def test_updates_in_place_are_those_with_a_result(entry, dtype):
    """Which are right, says test_operators."""
    for sample in entry.samples:
        given = sample.draw(dtype)
        plain, again = ([nd.array(a) for a in given] for _ in range(2))
        new = entry.call(*plain, **sample.attrs)
        assert plain[0].asnumpy().tolist() == given[0].tolist()
        assert entry.call(*again, **sample.attrs, out=again[0]) is again[0]
        for a, b in zip(again, [new, *plain[1:]], strict=True):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_clipping_at_zero_and_clipping_weights():
    w, g = nd.array([1.0, -2.0]), nd.array([3.0, 4.0])
    assert nd.sgd_update(w, g, lr=0.1, clip_gradient=0).tolist() == [1, -2]
    assert nd.rmsprop_update(w, g, nd.ones(2), lr=0.001, clip_weights=0.5).tolist() == [0.5, -0.5]
    assert nd.sgd_update(w, g, lr=0.5, lazy_update=False).tolist() == [-0.5, -4]


def test_update_refuses_arrays_in_a_graph_and_is_noticed_by_backward():
    w, g = nd.array([1.0]), nd.array([1.0])
    w.attach_grad()
    with autograd.record():
        y = w * w
        with pytest.raises(nb.errors.NBGradError, match="sgd_update: Assigning to NDArrays"):
            nd.sgd_update(w, g, lr=0.1, out=w)
    nd.sgd_update(w, g, lr=0.1, out=w)
    with pytest.raises(nb.errors.InPlaceError):
        y.backward()


def test_momentum_descends():
    w, mom = nd.array([5.0]), nd.zeros(1)
    w.attach_grad()
    for _ in range(200):
        with autograd.record():
            loss = nd.square(w - 2)
        loss.backward()
        nd.sgd_mom_update(w, w.grad, mom, lr=0.05, momentum=0.8, out=w)
    assert w.item() == pytest.approx(2, abs=1e-4)
