"""HIPS autograd's modules, by their names, made of nbgrad: its programs run unchanged.

>>> import nbgrad.compat.autograd.numpy as np
>>> from nbgrad.compat.autograd import grad
>>> round(grad(lambda x: np.tanh(x) ** 2)(0.5), 6)
0.726862

After :func:`install`, ``import autograd.numpy as np`` finds these modules, too; ``python -m nbgrad autograd script.py``
runs a script so. Arrays that are not recorded stay NumPy's own, with all that NumPy does to them.
"""

from . import builtins, core, differential_operators, extend, misc, numpy, scipy, test_util, tracer, wrap_util
from .builtins import dict, isinstance, list, tuple, type
from .differential_operators import (
    checkpoint,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)
from .extend import primitive
from .installation import install

__all__ = ["builtins", "checkpoint", "core", "deriv", "dict", "differential_operators", "elementwise_grad",
           "extend", "grad", "grad_and_aux", "grad_named", "hessian", "hessian_tensor_product",
           "hessian_vector_product", "holomorphic_grad", "install", "isinstance", "jacobian", "list", "make_ggnvp",
           "make_hvp", "make_jvp", "make_vjp", "misc", "multigrad_dict", "numpy", "primitive", "scipy",
           "tensor_jacobian_product", "test_util", "tracer", "tuple", "type", "value_and_grad",
           "vector_jacobian_product", "wrap_util"]  # fmt: skip
