"""The libraries of ``peers.py``: for each the names that the workloads use, and a call that gets gradients.

A library is ``make(workload, arrays) -> run``; ``run()`` evaluates the function, differentiates it with a head
gradient of ones and returns the gradients asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .workloads import Workload

__all__ = ["LIBRARIES"]


def _wanted(workload: Workload, arrays) -> list[int]:
    return list(range(len(arrays)) if workload.wanted is None else workload.wanted)


def _like_mxnet(nd, autograd) -> Callable:
    """nbgrad and MXNet: the same script for both."""
    xp = SimpleNamespace(
        tanh=nd.tanh, exp=nd.exp, log=nd.log, sqrt=nd.sqrt, sigmoid=nd.sigmoid, erf=nd.erf, relu=nd.relu,
        square=nd.square, dot=nd.dot, mean=nd.mean, flatten=nd.flatten,
        sum=lambda x, axis=None: nd.sum(x) if axis is None else nd.sum(x, axis=axis),
        expand=lambda x, axis: nd.expand_dims(x, axis=axis),
        constant=lambda a: nd.array(a, dtype=a.dtype),
        batch_dot_t=lambda a, b: nd.batch_dot(a, b, transpose_b=True),
        linear=lambda x, w, b: nd.FullyConnected(x, w, b, num_hidden=w.shape[0]),
        cross_entropy=lambda y, labels: -nd.mean(nd.pick(nd.log_softmax(y), labels)),
        layer_norm=nd.LayerNorm,
        conv=lambda x, k, c: nd.Convolution(x, k, c, kernel=k.shape[2:], num_filter=k.shape[0]),
        max_pool=lambda x: nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max"),
        logsumexp=getattr(nd, "logsumexp", None) or partial(_logsumexp, nd),
    )  # fmt: skip

    def make(workload: Workload, arrays) -> Callable:
        xs = [nd.array(a, dtype=a.dtype) for a in arrays]
        targets = [xs[k] for k in _wanted(workload, xs)]
        for x in targets:
            x.attach_grad()
        function = workload.function

        def run():
            with autograd.record():
                y = function(xp, *xs)
            y.backward()
            return [x.grad for x in targets]

        return run

    return make


def _logsumexp(nd, x, axis):
    top = nd.max(x, axis=axis, keepdims=True)
    return nd.log(nd.sum(nd.exp(nd.broadcast_sub(x, top)), axis=axis)) + nd.squeeze(top, axis=axis)


def with_nbgrad():
    from nbgrad import autograd, nd

    return _like_mxnet(nd, autograd)


def with_mxnet():
    from mxnet import autograd, nd

    make_run = _like_mxnet(nd, autograd)

    def make(workload: Workload, arrays) -> Callable:
        run = make_run(workload, arrays)

        def finished():  # its engine is asynchronous
            found = run()
            nd.waitall()
            return found

        return finished

    return make


def with_torch(compiled: bool = False):
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(1)
    xp = SimpleNamespace(
        tanh=torch.tanh, exp=torch.exp, log=torch.log, sqrt=torch.sqrt, sigmoid=torch.sigmoid, erf=torch.erf,
        relu=torch.relu, square=torch.square, dot=torch.matmul, sum=torch.sum, mean=torch.mean,
        expand=torch.unsqueeze,
        flatten=lambda x: torch.flatten(x, 1),
        constant=torch.tensor,
        batch_dot_t=lambda a, b: torch.bmm(a, b.transpose(1, 2)),
        linear=F.linear, cross_entropy=F.cross_entropy, conv=F.conv2d, logsumexp=torch.logsumexp,
        layer_norm=lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b),
        max_pool=lambda x: F.max_pool2d(x, 2),
    )  # fmt: skip

    def make(workload: Workload, arrays) -> Callable:
        xs = [torch.tensor(a) for a in arrays]
        targets = [xs[k].requires_grad_() for k in _wanted(workload, xs)]
        function = torch.compile(workload.function) if compiled else workload.function
        ones = torch.ones_like(function(xp, *xs))
        return lambda: torch.autograd.grad(function(xp, *xs), targets, ones)

    return make


def with_autograd():
    import autograd.numpy as anp
    from autograd import make_vjp
    from autograd.scipy.special import erf, logsumexp

    def layer_norm(x, gain, bias):
        centred = x - anp.mean(x, -1, keepdims=True)
        return centred / anp.sqrt(anp.mean(centred * centred, -1, keepdims=True) + 1e-5) * gain + bias

    def cross_entropy(y, labels):
        return anp.mean(logsumexp(y, 1) - y[np.arange(len(labels)), labels])

    xp = SimpleNamespace(
        tanh=anp.tanh, exp=anp.exp, log=anp.log, sqrt=anp.sqrt, erf=erf, square=anp.square, dot=anp.dot,
        sum=anp.sum, mean=anp.mean, expand=anp.expand_dims, constant=np.asarray,
        sigmoid=lambda x: 1 / (1 + anp.exp(-x)),
        relu=lambda x: anp.maximum(x, 0),
        batch_dot_t=lambda a, b: anp.matmul(a, anp.swapaxes(b, 1, 2)),
        linear=lambda x, w, b: anp.dot(x, w.T) + b,
        cross_entropy=cross_entropy, layer_norm=layer_norm, logsumexp=logsumexp,
    )  # fmt: skip

    def make(workload: Workload, arrays) -> Callable:
        targets = _wanted(workload, arrays)
        ones = np.ones_like(workload.function(xp, *arrays))

        def function(values):
            given = list(arrays)
            for k, value in zip(targets, values, strict=True):
                given[k] = value
            return workload.function(xp, *given)

        def run():
            pull, _ = make_vjp(function)(tuple(arrays[k] for k in targets))
            return pull(ones)

        return run

    return make


def with_jax(compiled: bool = False):
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import erf, logsumexp

    def layer_norm(x, gain, bias):
        centred = x - jnp.mean(x, -1, keepdims=True)
        return centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5) * gain + bias

    def cross_entropy(y, labels):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(y), labels[:, None], 1))

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def conv(x, k, c):
        return jax.lax.conv(x, k, (1, 1), "VALID") + c[:, None, None]

    xp = SimpleNamespace(
        tanh=jnp.tanh, exp=jnp.exp, log=jnp.log, sqrt=jnp.sqrt, erf=erf, square=jnp.square, dot=jnp.dot,
        sum=jnp.sum, mean=jnp.mean, expand=jnp.expand_dims, constant=jnp.asarray,
        sigmoid=jax.nn.sigmoid, relu=jax.nn.relu,
        flatten=lambda x: x.reshape(len(x), -1),
        batch_dot_t=lambda a, b: jnp.matmul(a, jnp.swapaxes(b, 1, 2)),
        linear=lambda x, w, b: jnp.dot(x, w.T) + b,
        cross_entropy=cross_entropy, layer_norm=layer_norm, logsumexp=logsumexp, conv=conv, max_pool=pool,
    )  # fmt: skip

    def make(workload: Workload, arrays) -> Callable:
        xs = [jnp.asarray(a) for a in arrays]
        targets = _wanted(workload, xs)
        ones = jnp.ones_like(workload.function(xp, *xs))

        def gradients(targeted, xs):
            def function(*values):
                given = list(xs)
                for k, value in zip(targets, values, strict=True):
                    given[k] = value
                return workload.function(xp, *given)

            return jax.vjp(function, *targeted)[1](ones)

        call = jax.jit(gradients) if compiled else gradients
        targeted = [xs[k] for k in targets]
        return lambda: jax.block_until_ready(call(targeted, xs))

    return make


#: Column -> the module it needs, and what makes it.
LIBRARIES: dict[str, tuple[str, Callable]] = {
    "nbgrad": ("nbgrad", with_nbgrad),
    "torch": ("torch", with_torch),
    "autograd": ("autograd", with_autograd),
    "mxnet": ("mxnet", with_mxnet),
    "jax": ("jax", with_jax),
    "jax.jit": ("jax", partial(with_jax, compiled=True)),
    "torch.compile": ("torch", partial(with_torch, compiled=True)),
}
