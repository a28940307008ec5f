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
