"""The libraries of ``peers.py``: for each the names that the workloads use, and a call that gets gradients.

A library is ``make(workload, arrays) -> run``; ``run()`` evaluates the function, differentiates it with a head
gradient of ones and returns its value and the gradients asked for. Libraries that compile have a scalar function to
differentiate: the sum, where there is more than one number. Of a product with a Hessian there is no value.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import partial
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .workloads import Workload

__all__ = ["LIBRARIES", "Library"]


def _wanted(workload: Workload, arrays) -> tuple[int, ...]:
    if workload.along:
        return (0,)
    return tuple(range(len(arrays))) if workload.wanted is None else workload.wanted


def _objective(workload: Workload, xp, function: Callable | None = None) -> Callable:
    """The workload, or another form of it, as a function of its arrays alone, with one number as its result."""

    def objective(*arrays):
        y = (function or workload.function)(xp, *arrays)
        return y if y.shape in ((), (1,)) else xp.sum(y)

    return objective


def _objectives(library: str, workload: Workload, xp) -> list[Callable]:
    """All forms that a library has of a workload."""
    forms = [None, *TUNED.get((library, workload.function.__name__), [])]
    return [_objective(workload, xp, form) for form in forms]


def _quickest(*runs: Callable) -> Callable:
    """Of several ways to the same result the one that takes least time. One that fails is none, unless all fail."""
    times: dict[Callable, float] = {}
    failure = None
    for run in runs:
        try:
            run()  # compiles
            for _ in range(5):
                start = perf_counter()
                run()
                times[run] = min(perf_counter() - start, times.get(run, np.inf))
        except Exception as err:
            failure = err
    if not times:
        raise RuntimeError("no way to do it") from failure
    return min(times, key=times.__getitem__)


def mxnet_names(nd) -> SimpleNamespace:
    """The same for nbgrad and MXNet."""
    return SimpleNamespace(
        tanh=nd.tanh, exp=nd.exp, log=nd.log, sqrt=nd.sqrt, sigmoid=nd.sigmoid, erf=nd.erf, relu=nd.relu,
        square=nd.square, dot=nd.dot, mean=nd.mean, flatten=nd.flatten, cos=nd.cos, sin=nd.sin, take=nd.take,
        border=lambda x: nd.pad(x, pad_width=(1, 1, 1, 1)),
        sum=lambda x, axis=None: nd.sum(x) if axis is None else nd.sum(x, axis=axis),
        expand=lambda x, axis: nd.expand_dims(x, axis=axis),
        constant=lambda a: nd.array(a, dtype=a.dtype),
        batch_dot_t=lambda a, b: nd.batch_dot(a, b, transpose_b=True),
        linear=lambda x, w, b: nd.FullyConnected(x, w, b, num_hidden=w.shape[0]),
        cross_entropy=lambda y, labels: -nd.mean(nd.pick(nd.log_softmax(y), labels)),
        layer_norm=nd.LayerNorm,
        conv=lambda x, k, c: nd.Convolution(x, k, c, kernel=k.shape[2:], num_filter=k.shape[0]),
        max_pool=lambda x: nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max"),
        softmax=nd.softmax,
        logsumexp=getattr(nd, "logsumexp", None) or partial(_logsumexp, nd),
    )  # fmt: skip


def _like_mxnet(nd, autograd, xp) -> Callable:
    """The same script for nbgrad and MXNet."""

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
            return y, [x.grad for x in targets]

        return run

    return make


def _logsumexp(nd, x, axis):
    top = nd.max(x, axis=axis, keepdims=True)
    return nd.log(nd.sum(nd.exp(nd.broadcast_sub(x, top)), axis=axis)) + nd.squeeze(top, axis=axis)


def with_nbgrad():
    import nbgrad
    from nbgrad import autograd, nd

    xp = mxnet_names(nd)
    gradients = _like_mxnet(nd, autograd, xp)

    def make(workload: Workload, arrays) -> Callable:
        if not workload.along:
            return gradients(workload, arrays)
        product = nbgrad.hvp(_objective(workload, xp))
        xs = [nd.array(a, dtype=a.dtype) for a in arrays]
        return lambda: (None, [product(*xs)])

    return make


def with_nbgrad_jit():
    import nbgrad
    from nbgrad import nd

    xp = mxnet_names(nd)

    def make(workload: Workload, arrays) -> Callable:
        objective = _objective(workload, xp)
        if workload.along:
            product = nbgrad.jit(nbgrad.hvp(objective))
            return lambda: (None, [product(*arrays)])
        call = nbgrad.jit(nbgrad.value_and_grad(objective, argnums=_wanted(workload, arrays)))
        return lambda: call(*arrays)

    return make


def with_mxnet():
    from mxnet import autograd, nd

    xp = mxnet_names(nd)
    pads = 4 * (0,) + 4 * (1,)
    xp.border = lambda x: nd.pad(nd.reshape(x, (1, 1, *x.shape)), mode="constant", pad_width=pads)[0, 0]
    gradients = _like_mxnet(nd, autograd, xp)

    def make(workload: Workload, arrays) -> Callable:
        if workload.along:
            raise NotImplementedError("slices have one derivative")
        run = gradients(workload, arrays)

        def finished():  # its engine is asynchronous
            found = run()
            nd.waitall()
            return found

        return finished

    return make


def torch_names() -> SimpleNamespace:
    """The same for torch."""
    import torch
    from torch.nn import functional as F

    return SimpleNamespace(
        tanh=torch.tanh, exp=torch.exp, log=torch.log, sqrt=torch.sqrt, sigmoid=torch.sigmoid, erf=torch.erf,
        relu=torch.relu, square=torch.square, dot=torch.matmul, sum=torch.sum, mean=torch.mean, cos=torch.cos,
        sin=torch.sin, softmax=partial(torch.softmax, dim=-1), expand=torch.unsqueeze,
        flatten=lambda x: torch.flatten(x, 1),
        constant=torch.tensor,
        take=lambda x, i: x[i],
        border=lambda x: F.pad(x, (1, 1, 1, 1)),
        batch_dot_t=lambda a, b: torch.bmm(a, b.transpose(1, 2)),
        linear=F.linear, cross_entropy=F.cross_entropy, conv=F.conv2d, logsumexp=torch.logsumexp,
        layer_norm=lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b),
        max_pool=lambda x: F.max_pool2d(x, 2),
    )  # fmt: skip


def with_torch(compiled: bool = False):
    import torch

    xp = torch_names()

    def backward(function: Callable, arrays, wanted) -> Callable:
        xs = [torch.tensor(a) for a in arrays]
        targets = [xs[k].requires_grad_() for k in wanted]
        ones = torch.ones_like(function(*xs))

        def run():
            y = function(*xs)
            return y, torch.autograd.grad(y, targets, ones)

        return run

    def make(workload: Workload, arrays) -> Callable:
        wanted = _wanted(workload, arrays)
        objective = _objective(workload, xp)
        xs = [torch.tensor(a) for a in arrays]
        form = torch.compile if compiled else lambda function: function
        if compiled:
            torch.compiler.reset()  # it would stop compiling after eight functions with the same code
        if workload.along:
            product = form(lambda x, v: torch.func.jvp(torch.func.grad(objective), (x,), (v,))[1])
            return lambda: (None, [product(*xs)])
        if not compiled:
            return backward(partial(workload.function, xp), arrays, wanted)
        runs = []
        for form in _objectives("torch", workload, xp):
            both = torch.compile(torch.func.grad_and_value(form, argnums=wanted))
            runs += [lambda both=both: both(*xs)[::-1], backward(torch.compile(form), arrays, wanted)]
        return _quickest(*runs)

    return make


def with_autograd():
    import autograd.numpy as anp
    from autograd import hessian_vector_product, make_vjp
    from autograd.scipy.special import erf, logsumexp

    def layer_norm(x, gain, bias):
        centred = x - anp.mean(x, -1, keepdims=True)
        return centred / anp.sqrt(anp.mean(centred * centred, -1, keepdims=True) + 1e-5) * gain + bias

    def cross_entropy(y, labels):
        return anp.mean(logsumexp(y, 1) - y[np.arange(len(labels)), labels])

    xp = SimpleNamespace(
        tanh=anp.tanh, exp=anp.exp, log=anp.log, sqrt=anp.sqrt, erf=erf, square=anp.square, dot=anp.dot,
        sum=anp.sum, mean=anp.mean, cos=anp.cos, sin=anp.sin, expand=anp.expand_dims, constant=np.asarray,
        take=lambda x, i: x[i],
        border=lambda x: anp.pad(x, 1, "constant"),
        sigmoid=lambda x: 1 / (1 + anp.exp(-x)),
        relu=lambda x: anp.maximum(x, 0),
        batch_dot_t=lambda a, b: anp.matmul(a, anp.swapaxes(b, 1, 2)),
        linear=lambda x, w, b: anp.dot(x, w.T) + b,
        cross_entropy=cross_entropy, layer_norm=layer_norm, logsumexp=logsumexp,
    )  # fmt: skip

    def make(workload: Workload, arrays) -> Callable:
        if workload.along:
            product = hessian_vector_product(_objective(workload, xp))
            return lambda: (None, [product(*arrays)])
        targets = _wanted(workload, arrays)
        ones = np.ones_like(workload.function(xp, *arrays))

        def function(values):
            given = list(arrays)
            for k, value in zip(targets, values, strict=True):
                given[k] = value
            return workload.function(xp, *given)

        def run():
            pull, y = make_vjp(function)(tuple(arrays[k] for k in targets))
            return y, pull(ones)

        return run

    return make


def jax_names() -> SimpleNamespace:
    """The same for jax."""
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

    return SimpleNamespace(
        tanh=jnp.tanh, exp=jnp.exp, log=jnp.log, sqrt=jnp.sqrt, erf=erf, square=jnp.square, dot=jnp.dot,
        sum=jnp.sum, mean=jnp.mean, cos=jnp.cos, sin=jnp.sin, expand=jnp.expand_dims, constant=jnp.asarray,
        softmax=jax.nn.softmax,
        take=lambda x, i: x[i],
        border=lambda x: jnp.pad(x, 1),
        sigmoid=jax.nn.sigmoid, relu=jax.nn.relu,
        flatten=lambda x: x.reshape(len(x), -1),
        batch_dot_t=lambda a, b: jnp.matmul(a, jnp.swapaxes(b, 1, 2)),
        linear=lambda x, w, b: jnp.dot(x, w.T) + b,
        cross_entropy=cross_entropy, layer_norm=layer_norm, logsumexp=logsumexp, conv=conv, max_pool=pool,
    )  # fmt: skip


def with_jax(compiled: bool = False):
    import jax
    import jax.numpy as jnp

    xp = jax_names()

    def make(workload: Workload, arrays) -> Callable:
        xs = [jnp.asarray(a) for a in arrays]
        objective = _objective(workload, xp)
        form = jax.jit if compiled else lambda function: function
        if workload.along:
            product = form(lambda x, v: jax.jvp(jax.grad(objective), (x,), (v,))[1])
            return lambda: (None, [jax.block_until_ready(product(*xs))])
        if not compiled:
            call = jax.value_and_grad(objective, argnums=_wanted(workload, xs))
            return lambda: jax.block_until_ready(call(*xs))
        calls = [
            jax.jit(jax.value_and_grad(f, argnums=_wanted(workload, xs))) for f in _objectives("jax", workload, xp)
        ]
        return _quickest(*[lambda call=call: jax.block_until_ready(call(*xs)) for call in calls])

    return make


def with_numba():
    import handwritten  # beside peers.py

    def make(workload: Workload, arrays) -> Callable:
        kernel = getattr(handwritten, workload.function.__name__ + ("_along" if workload.along else ""))
        gradients = [np.empty_like(arrays[k]) for k in _wanted(workload, arrays)]
        return lambda: (kernel(*arrays, *gradients), gradients)

    return make


def _jax_lennard_jones(rows: int) -> Callable:
    """So many rows of the matrix of distances at a time, from columns of coordinates; backward computes them again."""

    def lennard_jones(xp: SimpleNamespace, x, eye):
        import jax

        @jax.checkpoint
        def energy(block):
            part, ones = block
            r2 = sum((part[:, None, k] - x[None, :, k]) ** 2 for k in range(3)) + ones
            s6 = 1 / (r2 * r2 * r2)
            return xp.sum(s6 * s6 - s6)

        return 2 * xp.sum(jax.lax.map(energy, (x.reshape(-1, rows, 3), eye.reshape(-1, rows, len(x)))))

    return lennard_jones


def _jax_recurrent(xp: SimpleNamespace, x, target, w, u, b, v, c):
    import jax

    first = xp.tanh(xp.linear(x[0], w, b))
    inputs = x[1:] @ w.T + b
    h, _ = jax.lax.scan(lambda h, a: (xp.tanh(a + h @ u), None), first, inputs)
    return xp.mean(xp.square(xp.linear(h, v, c) - target))


def _jax_heat(xp: SimpleNamespace, u, target):
    import jax

    def step(u, _):
        inner = u[1:-1, 1:-1]
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        return xp.border(inner + 0.2 * (around - 4 * inner)), None

    return xp.sum(xp.square(jax.lax.scan(step, u, None, length=50)[0] - target))


def _mixture(library: str) -> Callable:
    """Factors times points and factors times means, instead of factors times differences: no array (K, n, d) but y."""

    def mixture(xp: SimpleNamespace, x, alphas, means, factors):
        einsum = importlib.import_module(library).einsum
        d = x.shape[1]
        eye = xp.constant(np.eye(d))
        logs = xp.sum(factors * eye, 2)
        q = factors * xp.constant(np.tril(np.ones((d, d)), -1)) + xp.expand(xp.exp(logs), 2) * eye
        y = einsum("ked,nd->ken", q, x) - xp.expand(einsum("ked,kd->ke", q, means), 2)
        inner = xp.expand(alphas + xp.sum(logs, 1), 1) - 0.5 * xp.sum(xp.square(y), 1)
        constant = -0.5 * x.shape[0] * d * math.log(2 * math.pi)
        return xp.sum(xp.logsumexp(inner, 0)) - x.shape[0] * xp.logsumexp(alphas, 0) + constant

    return mixture


#: By library and workload: forms that suit the library better than the one that is the same for all. It tries these,
#: too, and counts with its fastest form.
TUNED: dict[tuple[str, str], list[Callable]] = {
    ("jax", "lennard_jones"): [_jax_lennard_jones(rows) for rows in (5, 20, 100)],
    ("jax", "recurrent"): [_jax_recurrent],
    ("jax", "heat"): [_jax_heat],
    ("jax", "mixture"): [_mixture("jax.numpy")],
    ("torch", "mixture"): [_mixture("torch")],
}


class Library(NamedTuple):
    """What a column needs (a statement that fails without it), what makes it, and whether it compiles functions."""

    needs: str
    start: Callable
    compiled: bool = False


LIBRARIES: dict[str, Library] = {
    "nbgrad": Library("import nbgrad", with_nbgrad),
    "torch": Library("import torch", with_torch),
    "autograd": Library("import autograd", with_autograd),
    "mxnet": Library("import mxnet", with_mxnet),
    "jax": Library("import jax", with_jax),
    "nbgrad.jit": Library("from nbgrad import jit", with_nbgrad_jit, True),
    "jax.jit": Library("import jax", partial(with_jax, compiled=True), True),
    "torch.compile": Library("import torch", partial(with_torch, compiled=True), True),
    "numba": Library("import nbgrad", with_numba, True),
}
