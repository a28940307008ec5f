"""What one would write by hand: the workloads' functions and gradients as Numba loops, a reference for ``peers.py``.

A kernel has the name of the workload's function, takes its arrays and after them those for the gradients, and returns
the value (summed, if there are several). Passes over memory are fused; where the mathematics allows a shorter way, it
is taken (a rotation for a camera instead of one for every picture, maxima before tanh). Additions may be reordered.
Scalar functions are those of :mod:`nbgrad.vmath`: calls of a C library would keep loops from becoming packed code.
"""

from .loops import (
    black_scholes,
    elementwise,
    heat,
    lennard_jones,
    long_chain,
    reprojection,
    rosenbrock,
    rosenbrock_along,
    tiny,
    tiny_sum,
)
from .models import layer_norm, lenet, matmul, mixture, mlp, perceptron, recurrent, softmax_regression

__all__ = [
    "black_scholes", "elementwise", "heat", "layer_norm", "lenet", "lennard_jones", "long_chain", "matmul", "mixture",
    "mlp", "perceptron", "recurrent", "reprojection", "rosenbrock", "rosenbrock_along", "softmax_regression", "tiny",
    "tiny_sum",
]  # fmt: skip
