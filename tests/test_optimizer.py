"""Optimizer updates against NumPy."""

import numpy as np
import pytest
from networks import DTYPES

import nbgrad as nb
from nbgrad import autograd, nd

# Optimizers.


def limited(x, limit):
    return np.clip(x, -limit, limit) if limit >= 0 else x


def moving(rate, old, new):
    return rate * old + (1 - rate) * new


def reference(name, w, g, s, lr, wd, rescale, clip):
    """One step in NumPy; `s` are the states. Other attributes at their defaults but momentum 0.9 and wd_lh 0.03."""
    plain, decayed = limited(rescale * g, clip), limited(rescale * g + wd * w, clip)
    if name == "sgd_update":
        return (1 - lr * wd) * w - lr * plain, []
    if name == "sgd_mom_update":
        m = 0.9 * s[0] - lr * wd * w - lr * plain
        return w + m, [m]
    if name == "nag_mom_update":
        step = lr * (plain + wd * w)
        m = 0.9 * s[0] - step
        return w + 0.9 * m - step, [m]
    if name == "adam_update":
        m, v = moving(0.9, s[0], decayed), moving(0.999, s[1], decayed**2)
        return w - lr * m / (np.sqrt(v) + 1e-8), [m, v]
    if name == "rmsprop_update":
        n = moving(0.95, s[0], decayed**2)
        return w - lr * decayed / np.sqrt(n + 1e-8), [n]
    if name == "rmspropalex_update":
        n, a = moving(0.95, s[0], decayed**2), moving(0.95, s[1], decayed)
        d = 0.9 * s[2] - lr * decayed / np.sqrt(n - a**2 + 1e-8)
        return w + d, [n, a, d]
    if name == "ftrl_update":
        n = s[1] + plain**2
        z = s[0] + plain - (np.sqrt(n) - np.sqrt(s[1])) * w / lr
        new = (np.sign(z) * 0.01 - z) / ((1 + np.sqrt(n)) / lr + wd)
        return np.where(np.abs(z) > 0.01, new, 0), [z, n]
    if name == "ftml_update":
        v = moving(0.999, s[1], decayed**2)
        d = (1 - 0.6**3) / lr * (np.sqrt(v / (1 - 0.999**3)) + 1e-8)
        z = moving(0.6, s[2], decayed) - (d - 0.6 * s[0]) * w
        return -z / d, [d, v, z]
    if name == "signsgd_update":
        return (1 - lr * wd) * w - lr * np.sign(plain), []
    m = 0.9 * s[0] - 0.1 * (wd * w + plain)
    return (1 - lr * 0.03) * w + lr * np.sign(m), [m]


UPDATES = {  # states, further attributes
    "sgd_update": (0, {}),
    "sgd_mom_update": (1, {"momentum": 0.9}),
    "nag_mom_update": (1, {"momentum": 0.9}),
    "adam_update": (2, {}),
    "rmsprop_update": (1, {}),
    "rmspropalex_update": (3, {}),
    "ftrl_update": (2, {}),
    "ftml_update": (3, {"t": 3}),
    "signsgd_update": (0, {}),
    "signum_update": (1, {"momentum": 0.9, "wd_lh": 0.03}),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("clip", [-1.0, 0.4])
@pytest.mark.parametrize("name", UPDATES)
def test_updates(rng, name, clip, dtype):
    count, more = UPDATES[name]
    more = {**more, "clip_grad" if name == "ftml_update" else "clip_gradient": clip}
    w, g = (rng.standard_normal(37).astype(dtype) for _ in range(2))
    states = [(1 + 0.1 * rng.uniform(0, 1, 37)).astype(dtype) for _ in range(count)]
    states = [s if k != 1 or count != 3 else s * dtype_of(dtype)(0.1) for k, s in enumerate(states)]
    wide = [a.astype("float64") for a in (w, g)]
    expected, news = reference(name, *wide, [s.astype("float64") for s in states], 0.1, 0.01, 0.5, clip)
    weight, state = nd.array(w), [nd.array(s) for s in states]
    new = getattr(nd, name)(weight, nd.array(g), *state, lr=0.1, wd=0.01, rescale_grad=0.5, **more)
    assert weight.asnumpy().tolist() == w.tolist()
    tolerance = {"float64": 1e-12, "float32": 1e-4, "float16": 4e-2}[dtype]
    for found, want in zip([new, *state], [expected, *news], strict=True):
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_allclose(found.asnumpy(), want, rtol=tolerance, atol=tolerance)
    again = [nd.array(s) for s in states]
    back = getattr(nd, name)(weight, nd.array(g), *again, lr=0.1, wd=0.01, rescale_grad=0.5, out=weight, **more)
    assert back is weight
    for a, b in zip([weight, *again], [new, *state], strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def dtype_of(name):
    return np.dtype(name).type


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
