"""The operators' samples, computed on a device."""

import numpy as np
from operator_forms import rows

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.core.registry import operators

#: The rows of the table with kernels of their own, by operator.
ROWS = [(entry, sample) for entry in operators.values() for sample in rows(entry)]


def on(ctx, values):
    """The arrays of a sample there."""
    return [nd.array(v, dtype=None if v.dtype == bool else v.dtype, ctx=ctx) for v in values]


def places(entry, sample, values):
    """The operands that gradients are asked for."""
    if not (entry.differentiable and sample.order and sample.result in ("same", "float", "float64")):
        return ()
    return tuple(k for k, given in enumerate(sample.inputs) if given.grad and values[k].dtype.kind == "f")


def outcome(entry, sample, values, ctx, order):
    """Results, the operands that are changed, gradients of a sum of sines, and the gradients of their squares' sum."""
    arrays = on(ctx, values)
    wanted = places(entry, sample, values)
    wave = nd.cos if entry.name == "arcsin" else nd.sin  # the second derivatives of sin(arcsin(x)) are roundings of 0

    def results(*xs):
        with autograd.train_mode() if sample.training else autograd.predict_mode():
            found = entry.call(*xs, **sample.attrs)
        return list(found) if isinstance(found, list | tuple) else [found]

    def loss(*xs):
        return sum(nd.sum(wave(y)) for y in results(*xs) if np.dtype(y.dtype).kind == "f")

    nb.random.seed(0)
    with ctx:
        found = results(*arrays) + [arrays[k] for k in sample.changes]
        if wanted and order and not sample.changes:
            first = nb.grad(loss, argnums=wanted)
            found += first(*arrays)
            if order > 1 and sample.order > 1:
                found += nb.grad(lambda *xs: sum(nd.sum(g * g) for g in first(*xs)), argnums=wanted)(*arrays)
    return found


def close(a, b, tolerance):
    """Whether arrays are equal but for some roundings of the largest element."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    with np.errstate(invalid="ignore"):
        size = np.abs(b[np.isfinite(b)].astype("float64")).max(initial=0)
        near = (a == b) | (np.abs(a.astype("float64") - b) <= tolerance * size) | (np.isnan(a) & np.isnan(b))
    return bool(np.all(near))
