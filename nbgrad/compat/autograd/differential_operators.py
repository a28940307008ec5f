"""Operators on functions: gradients, Jacobians, Hessians, and products with them."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import np as _np
from ...functional.checkpoint import checkpoint as _checkpoint
from ...functional.derivatives import vjp as _vjp
from ...functional.matrices import jacobian as _jacobian
from ...functional.pytrees import map_leaves
from .products import _as_float, _recordable, rebinding, vspace
from .products import make_jvp as _make_jvp
from .products import make_vjp as _make_vjp
from .wrap_util import unary_to_nary

__all__ = ["checkpoint", "deriv", "elementwise_grad", "grad", "grad_and_aux", "grad_named", "hessian",
           "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "jacobian", "make_ggnvp",
           "make_hvp", "make_jvp", "make_jvp_reversemode", "make_vjp", "multigrad_dict", "tensor_jacobian_product",
           "value_and_grad", "vector_jacobian_product"]  # fmt: skip

make_vjp = unary_to_nary(_make_vjp)
make_jvp = unary_to_nary(_make_jvp)


def _ones_of_scalar(name: str, ans: Any) -> Any:
    if np.size(ans) != 1:
        raise TypeError(
            f"{name}: the function must give a real scalar, its result has the shape {np.shape(ans)}; use jacobian or "
            "elementwise_grad"
        )
    return np.ones(np.shape(ans)) if np.shape(ans) else 1.0


@unary_to_nary
def grad(fun: Callable, x: Any) -> Any:
    """The gradient of `fun`, whose result is a scalar, in the form of its argument `argnum`."""
    vjp, ans = _make_vjp(fun, x)
    return vjp(_ones_of_scalar("grad", ans))


@unary_to_nary
def value_and_grad(fun: Callable, x: Any) -> tuple:
    """The value and the gradient of `fun`, whose result is a scalar."""
    vjp, ans = _make_vjp(fun, x)
    return ans, vjp(_ones_of_scalar("value_and_grad", ans))


@unary_to_nary
def grad_and_aux(fun: Callable, x: Any) -> tuple:
    """The gradient of the first of the two results of `fun`, and the second."""
    value, pullback, aux = _vjp(rebinding(fun), map_leaves(x, _as_float), argnums=0, has_aux=True)
    return pullback(_ones_of_scalar("grad_and_aux", value)), aux


@unary_to_nary
def elementwise_grad(fun: Callable, x: Any) -> Any:
    """The sums of the columns of the Jacobian: derivatives, where each result depends on one element."""
    vjp, ans = _make_vjp(fun, x)
    return vjp(map_leaves(ans, lambda v: np.ones(np.shape(v)) if np.shape(v) else 1.0))


@unary_to_nary
def deriv(fun: Callable, x: Any) -> Any:
    """The derivative of `fun` along ones."""
    return _make_jvp(fun, x)(vspace(x).ones())[1]


@unary_to_nary
def jacobian(fun: Callable, x: Any) -> Any:
    """The Jacobian of `fun`, of the shape of its result and then of its argument."""
    return _jacobian(_recordable(fun))(map_leaves(x, _as_float))


@unary_to_nary
def holomorphic_grad(fun: Callable, x: Any) -> Any:
    """Refused for complex arguments; the gradient for real ones."""
    if np.iscomplexobj(x):
        raise TypeError("holomorphic_grad: complex numbers are not supported; write real and imaginary parts apart")
    return grad(fun)(x)


def grad_named(fun: Callable, argname: str) -> Callable:
    """:func:`grad` with respect to an argument by its name."""
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


@unary_to_nary
def hessian(fun: Callable, x: Any) -> Any:
    """The Hessian: the Jacobian of the Jacobian."""
    return jacobian(jacobian(fun))(x)


@unary_to_nary
def make_hvp(fun: Callable, x: Any) -> Any:
    """The function ``v -> H v``, and the gradient."""
    return _make_vjp(grad(fun), x)


def hessian_tensor_product(fun: Callable, argnum: int = 0) -> Callable:
    """The function of the arguments of `fun` and of a vector, which multiplies the Hessian with it."""
    gradient = grad(fun, argnum)

    def along(*args: Any, **kwargs: Any) -> Any:
        *given, vector = args
        found = gradient(*given, **kwargs)
        return _np.tensordot(_np.array(found), _np.array(vector), np.ndim(vector))

    return grad(along, argnum)


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun: Callable, argnum: int = 0) -> Callable:
    """The function of the arguments of `fun` and of a vector, which multiplies the Jacobian from the left by it."""

    def along(*args: Any, **kwargs: Any) -> Any:
        *given, vector = args
        return _np.tensordot(_np.array(vector), _np.array(fun(*given, **kwargs)), np.ndim(vector))

    return jacobian(along, argnum)


vector_jacobian_product = tensor_jacobian_product


@unary_to_nary
def make_jvp_reversemode(fun: Callable, x: Any) -> Callable:
    """``make_jvp_reversemode(fun)(x)(v)`` is the Jacobian of a function at x times v."""
    product = _make_jvp(fun, x)
    return lambda v: product(v)[1]


def make_ggnvp(f: Callable, g: Callable = lambda x: 0.5 * _np.sum(x**2), f_argnum: int = 0) -> Callable:
    """The function that multiplies a vector with the generalized Gauss-Newton matrix of ``g(f(x))``."""

    @unary_to_nary
    def at(f: Callable, x: Any) -> Callable:
        vjp, value = _make_vjp(f, x)
        hvp, _ = _make_vjp(grad(g), value)
        return lambda v: vjp(hvp(_make_jvp(f, x)(v)[1]))

    return at(f, f_argnum)


def multigrad_dict(fun: Callable) -> Callable:
    """The gradients with respect to all arguments, in a dict by their names."""
    signature = inspect.signature(fun)

    def gradients(*args: Any, **kwargs: Any) -> OrderedDict:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        found = grad(lambda given: fun(**given))(dict(bound.arguments))
        return OrderedDict(found)

    return gradients


checkpoint = _checkpoint
