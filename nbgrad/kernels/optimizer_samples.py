"""One step of each optimizer update in NumPy, which tests hold the kernels to.

Every function takes c and d, the limited gradients without and with decay, the weight, the states, and the
attributes as a namespace; it gives the new weight and states.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np

from ..operators.samples import Input, Sample, sample_table

__all__ = ["update_samples"]


def _average(rate, old, new):
    return rate * old + (1 - rate) * new


def sgd_update(c, d, w, a):
    return [w - a.lr * (a.wd * w + c)]


def sgd_mom_update(c, d, w, mom, a):
    mom = a.momentum * mom - a.lr * (a.wd * w + c)
    return [w + mom, mom]


def nag_mom_update(c, d, w, mom, a):
    step = a.lr * (a.wd * w + c)
    mom = a.momentum * mom - step
    return [w + a.momentum * mom - step, mom]


def adam_update(c, d, w, mean, var, a):
    mean, var = _average(a.beta1, mean, d), _average(a.beta2, var, d**2)
    return [w - a.lr * mean / (np.sqrt(var) + a.epsilon), mean, var]


def rmsprop_update(c, d, w, n, a):
    n = _average(a.gamma1, n, d**2)
    return [w - a.lr * d / np.sqrt(n + a.epsilon), n]


def rmspropalex_update(c, d, w, n, g, delta, a):
    n, g = _average(a.gamma1, n, d**2), _average(a.gamma1, g, d)
    delta = a.gamma2 * delta - a.lr * d / np.sqrt(n - g**2 + a.epsilon)
    return [w + delta, n, g, delta]


def ftrl_update(c, d, w, z, n, a):
    before, n = n, n + c**2
    z = z + c - (np.sqrt(n) - np.sqrt(before)) * w / a.lr
    new = (np.sign(z) * a.lamda1 - z) / ((a.beta + np.sqrt(n)) / a.lr + a.wd)
    return [np.where(np.abs(z) > a.lamda1, new, 0), z, n]


def ftml_update(c, d, w, before, v, z, a):
    v = _average(a.beta2, v, d**2)
    now = (1 - a.beta1**a.t) / a.lr * (np.sqrt(v / (1 - a.beta2**a.t)) + a.epsilon)
    z = _average(a.beta1, z, d) - (now - a.beta1 * before) * w
    return [-z / now, now, v, z]


def signsgd_update(c, d, w, a):
    return [(1 - a.lr * a.wd) * w - a.lr * np.sign(c)]


def signum_update(c, d, w, mom, a):
    mom = a.momentum * mom - (1 - a.momentum) * (a.wd * w + c)
    return [(1 - a.lr * a.wd_lh) * w + a.lr * np.sign(mom), mom]


def update_samples(name: str, states: Sequence[str], params: dict) -> tuple[Sample, ...]:
    """Samples of the update with these states and these attributes, given with their defaults."""
    limit = "clip_gradient" if "clip_gradient" in params else "clip_grad"

    def reference(weight, grad, *old, **attrs):
        a = SimpleNamespace(**params | attrs)
        bound = attrs.get(limit, np.inf)
        c, d = (np.clip(a.rescale_grad * grad + decay * weight, -bound, bound) for decay in (0.0, a.wd))
        return globals()[name](c, d, weight, *old, a)

    arrays = [Input((2, 3)), Input((2, 3))]
    arrays += [Input((2, 3), *((0.0, 0.1) if state == "g" else (0.5, 1.5)), grad=False) for state in states]
    needed = {"lr": 0.1} | {key: value for key, value in (("t", 3), ("momentum", 0.9)) if key in params}
    more = {"wd": 0.01, "rescale_grad": 0.5, limit: 0.4} | ({"wd_lh": 0.03} if "wd_lh" in params else {})
    changes = range(2, len(arrays))
    ulp = 1024 if name == "ftml_update" else 32  # in float32, 1 - beta2^t has few digits
    return sample_table(reference, [*arrays, needed], [*arrays, needed | more], ulp=ulp, ints=False, changes=changes)
