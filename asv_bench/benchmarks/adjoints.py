"""Functions with loops, compiled, and their generated adjoints."""

import numba
import numpy as np

import nbgrad as nb
from nbgrad.demo import loops


def _arguments(name):
    rng = np.random.default_rng(0)
    if name == "heat":
        return rng.normal(size=(32, 32, 32)), 1 + rng.random((32, 32, 32)), 0.02, 10
    if name == "thomas":
        return rng.normal(size=50_000), 5 + rng.random(50_000), *rng.normal(size=(2, 50_000)), np.zeros(50_000)
    return rng.normal(size=200), rng.normal(size=200), 0.7


class Loops:
    """One call of the function, and one with its gradients."""

    params = (["heat", "thomas", "soft_dtw"],)
    param_names = ("function",)

    def setup(self, name):
        function = getattr(loops, name)
        self.args = _arguments(name)
        self.primal = numba.njit(nogil=True, error_model="numpy")(function)
        self.pull = nb.adjoint(function).vjp(*_arguments(name))
        self.cotangents = 1.0 if name == "soft_dtw" else np.ones_like(self.args[0])
        self.primal(*self.args)
        self.pull(self.cotangents)

    def time_primal(self, name):
        self.primal(*self.args)

    def time_gradients(self, name):
        self.pull(self.cotangents)


def scaled(x, w, mode="plain", axis=0):
    h = np.sum(np.tanh(x * w), axis=axis)
    return np.sum(h * h) if mode == "squares" else np.sum(h)


class SmallCalls:
    """Value and gradient of a few numbers, where what is prepared for a call takes more time than the call."""

    params = (["arrays", "constants", "an axis of length 1"],)
    param_names = ("arguments",)

    def setup(self, arguments):
        x, w = np.linspace(0.1, 1.2, 6).reshape(2, 3), np.full((2, 3), 0.5)
        self.args = {"arrays": (x, w), "constants": (x, w, "squares", 1), "an axis of length 1": (x, w[:1])}[arguments]
        self.adjoint = nb.adjoint(scaled)
        self.adjoint.value_and_grad(*self.args)

    def time_value_and_grad(self, arguments):
        self.adjoint.value_and_grad(*self.args)


def filtered(signal, taps):
    loss = 0.0
    for i in range(signal.size - taps.size + 1):
        s = 0.0
        for k in range(taps.size):
            s += taps[k] * signal[i + k]
        loss += s * s
    return loss


def multiplied(a, x):
    y = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        for j in range(x.size):
            y[i] += a[i, j] * x[j]
    return np.sum(y * y)


class Sums:
    """Sums in a fixed order: the function as Numba compiles it, and value and gradient."""

    params = (["filter", "matrix and vector"],)
    param_names = ("sums",)

    def setup(self, sums):
        rng = np.random.default_rng(0)
        filters = sums == "filter"
        function = filtered if filters else multiplied
        self.args = (rng.normal(size=20_000 if filters else (300, 300)), rng.normal(size=32 if filters else 300))
        self.primal = numba.njit(nogil=True, error_model="numpy")(function)
        self.adjoint = nb.adjoint(function)
        self.primal(*self.args)
        self.adjoint.value_and_grad(*self.args)

    def time_primal(self, sums):
        self.primal(*self.args)

    def time_value_and_grad(self, sums):
        self.adjoint.value_and_grad(*self.args)
