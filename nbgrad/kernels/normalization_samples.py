"""Normalizations in NumPy, which tests hold the kernels to, and what they are fed."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..operators.samples import Input, sample_table

__all__ = ["BATCH_NORM", "GROUP_NORM", "INSTANCE_NORM", "L2", "LAYER_NORM", "MODES", "SYNC_BATCH_NORM"]


def _along(v: np.ndarray, ndim: int, axis: int) -> np.ndarray:
    return v.reshape([-1 if k == axis % ndim else 1 for k in range(ndim)])


def _numpy_batch_norm(x, gamma, beta, mean, var, eps=1e-3, momentum=0.9, fix_gamma=True, use_global_stats=False,
                      axis=1, training=True):  # fmt: skip
    """The result, and what becomes of the running statistics."""
    if training and not use_global_stats:
        rest = tuple(k for k in range(x.ndim) if k != axis % x.ndim)
        m, v = x.mean(rest), x.var(rest)
        after = [momentum * mean + (1 - momentum) * m, momentum * var + (1 - momentum) * v]
    else:
        m, v = after = [mean, var]
    scale = (1 if fix_gamma else gamma) / np.sqrt(v + eps)
    shift, scale, beta = (_along(a, x.ndim, axis) for a in (m, scale, beta))
    return [(x - shift) * scale + beta, *after]


def _row(*shape: int, channels: int, **attrs) -> list:
    one = (channels,)
    return [shape, Input(one, 0.5, 2), one, Input(one, grad=False), Input(one, 0.5, 2, grad=False), attrs]


_TWO = _row(3, 2, channels=2, fix_gamma=False)
_STILL = {"ulp": 16, "ints": False, "changes": (3, 4)}
SYNC_BATCH_NORM = sample_table(
    _numpy_batch_norm, _TWO, _row(2, 2, 2, channels=2, momentum=0.6, eps=0.1), _row(2, 1, 2, 1, channels=1),
    _row(2, 3, channels=3, use_global_stats=True), training=True, **_STILL,
) + sample_table(
    partial(_numpy_batch_norm, training=False), _TWO, _row(0, 2, channels=2), _row(1, 2, 2, channels=2), **_STILL,
)  # fmt: skip


BATCH_NORM = SYNC_BATCH_NORM + sample_table(
    _numpy_batch_norm, _row(2, 2, 2, channels=2, axis=-1, fix_gamma=False), training=True, **_STILL,
)  # fmt: skip


def _numpy_norm(x: np.ndarray, axes, eps: float) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def _numpy_layer_norm(x, gamma, beta, axis=-1, eps=1e-5):
    gamma, beta = (_along(a, x.ndim, axis) for a in (gamma, beta))
    return _numpy_norm(x, axis, eps) * gamma + beta


LAYER_NORM = sample_table(
    _numpy_layer_norm,
    [(2, 3), (3,), (3,)], [(3, 2), (3,), (3,), {"axis": 0, "eps": 0.1}], [(2, 1, 2), (2,), (2,)], [(0, 3), (3,), (3,)],
    ulp=16, ints=False,
)  # fmt: skip


def _numpy_group_norm(x, gamma, beta, num_groups=None, eps=1e-5):
    groups = num_groups or x.shape[1]
    h = _numpy_norm(x.reshape(len(x), groups, -1), 2, eps).reshape(x.shape)
    gamma, beta = (_along(a.repeat(x.shape[1] // len(a)), x.ndim, 1) for a in (gamma, beta))
    return h * gamma + beta


INSTANCE_NORM = sample_table(
    partial(_numpy_group_norm, eps=1e-3), [(2, 1, 3), (1,), (1,)], [(1, 2, 2, 2), (2,), (2,), {"eps": 0.1}],
    ulp=16, ints=False,
)  # fmt: skip
GROUP_NORM = sample_table(
    _numpy_group_norm,
    [(1, 4, 2), (2,), (2,), {"num_groups": 2}], [(2, 2, 2), (2,), (2,), {"num_groups": 1, "eps": 0.1}],
    ulp=16, ints=False,
)  # fmt: skip


#: The axes of each mode of L2Normalization.
MODES = {"instance": lambda d: range(1, d), "channel": lambda d: (1,), "spatial": lambda d: range(2, d)}


def _unit(x, eps=1e-10, mode="instance"):
    axes = tuple(MODES[mode](x.ndim))
    return x / np.sqrt((x * x).sum(axes, keepdims=True) + eps)


L2 = sample_table(_unit, *[[(2, 3, 4), {"mode": m}] for m in MODES], [Input((2, 3), 0.5, 2)], ulp=4, ints=False)
