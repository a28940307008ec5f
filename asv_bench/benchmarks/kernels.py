"""Kernels on large arrays: each as a ratio to NumPy (SciPy), measured side by side; times of some; matrix products."""

from itertools import chain
from time import perf_counter

import numpy as np

from nbgrad import autograd, nd

from .cases import elementwise, movements, reductions

_CASES = {case.name: case for case in chain(elementwise(), reductions(), movements())}
_SIZES = (10_000, 1_000_000)


class Ratio:
    """nbgrad's time over NumPy's, the least of calls made in turn: what stays comparable from machine to machine."""

    params = (list(_CASES), _SIZES, ("float64", "float32"))
    param_names = ("operator", "elements", "dtype")

    def setup(self, name, n, dtype):
        self.case = _CASES[name]
        self.theirs = tuple(x.astype(dtype) if x.dtype == np.float64 else x for x in self.case.make(n))
        self.ours = tuple(nd.array(x) for x in self.theirs)
        self.case.ours(*self.ours)

    def track_ratio_to_numpy(self, name, n, dtype):
        ours = theirs = float("inf")
        rounds, stop = 0, perf_counter() + 0.05
        with np.errstate(all="ignore"):
            while rounds < 5 or perf_counter() < stop:
                start = perf_counter()
                self.case.ours(*self.ours)
                middle = perf_counter()
                self.case.theirs(*self.theirs)
                theirs = min(theirs, perf_counter() - middle)
                ours = min(ours, middle - start)
                rounds += 1
        return ours / theirs

    track_ratio_to_numpy.unit = "of NumPy's time"


class Kernel:
    """Times of one operator of each kind."""

    params = (
        [
            *("add", "add row", "divide", "exp", "tanh", "power", "maximum", "where", "sum all", "sum first"),
            *("max last", "argmax all", "logsumexp last", "transpose", "concat 1", "slice step 2", "take rows"),
        ],
        _SIZES,
    )
    param_names = ("operator", "elements")

    def setup(self, name, n):
        case = _CASES[name]
        self.ours, self.arrays = case.ours, tuple(nd.array(x) for x in case.make(n))
        self.time_call(name, n)

    def time_call(self, name, n):
        self.ours(*self.arrays)


class MatMul:
    """Products of square matrices, and their gradients."""

    params = ((8, 64, 512), ("float32", "float64"))
    param_names = ("side", "dtype")

    def setup(self, side, dtype):
        rng = np.random.default_rng(0)
        self.a, self.b = (nd.array(rng.standard_normal((side, side)), dtype=dtype) for _ in range(2))
        self.a.attach_grad()
        self.b.attach_grad()
        self.time_forward_and_backward(side, dtype)

    def time_forward(self, side, dtype):
        nd.dot(self.a, self.b)

    def time_forward_and_backward(self, side, dtype):
        with autograd.record():
            y = nd.dot(self.a, self.b)
        y.backward()
