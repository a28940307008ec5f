"""Operators whose gradient is declared, not their own: straight through, or multiplied; and small ones of contrib."""

from __future__ import annotations

import numpy as np

from ..arrays.launch import cast_into
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import Spec, composite, structured
from .binary import multiply
from .unary import identity, round_, sign

__all__ = ["div_sqrt_dim", "gradientmultiplier", "round_ste", "sign_ste"]


def _straight(name: str, forward, what: str, reference):
    def infer(data):
        return Spec(data._shape, data._kind.dtype)

    infer.__doc__ = f"""{what}, with the gradient of the identity: straight through.

    Parameters
    ----------
    data : NDArray

    Returns
    -------
    NDArray
        Shape and dtype of `data`.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> x = nd.array([-1.5, 0.7])
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = nd.contrib.{name}(x)
    >>> y.backward()
    >>> x.grad.tolist()
    [1.0, 1.0]
    """
    samples = sample_table(reference, [(2, 3)], [()], [(0,)], order=0, loss=lambda x: x)
    op = structured(name, anywhere=True, method=False, samples=samples, gradient="g")(infer)

    @op.run
    def _(data, out):
        cast_into(forward(data.detach())._buf, data._kind, out._buf, out._kind)

    op.vjp(data=lambda g: identity(g))
    return op


def _away(x: np.ndarray) -> np.ndarray:
    return np.trunc(x + np.copysign(0.5, x)) if x.dtype.kind == "f" else x


round_ste = _straight("round_ste", round_, "The nearest integer, halves away from zero", _away)
sign_ste = _straight("sign_ste", sign, "The sign, -1, 0 or 1", np.sign)


@structured(method=False, anywhere=True, gradient="scalar*g", samples=sample_table(
    lambda a, scalar: np.array(a), [(2, 3), {"scalar": -0.5}], [(), {"scalar": 2.0}], [(0,), {"scalar": 0.0}], order=0,
    loss=lambda x, scalar: x * scalar,
))  # fmt: skip
def gradientmultiplier(data, scalar=1.0):
    """The same values; backwards, the gradient is multiplied by a number. A negative one reverses gradients.

    Parameters
    ----------
    data : NDArray
    scalar : float

    Returns
    -------
    NDArray
        A copy.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> x = nd.ones(2)
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = nd.contrib.gradientmultiplier(x, scalar=-1) * 3
    >>> y.backward()
    >>> x.grad.tolist()
    [-3.0, -3.0]
    """
    return Spec(data._shape, data._kind.dtype, scalar=float(scalar))


@gradientmultiplier.run
def _(data, out, *, scalar):
    out._buf[:] = data._buf


gradientmultiplier.vjp(data=lambda g, scalar: multiply(g, scalar))


@composite(method=False, samples=sample_table(
    lambda x: x / np.sqrt(x.shape[-1]), [(2, 3)], [(1, 2, 2)], ulp=1, result="float",
))  # fmt: skip
def div_sqrt_dim(data):
    """The array divided by the square root of the length of its last axis.

    Parameters
    ----------
    data : NDArray

    Returns
    -------
    NDArray
        Shape of `data`. Gradient: g, divided likewise.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.contrib.div_sqrt_dim(nd.ones((1, 4))).tolist()
    [[0.5, 0.5, 0.5, 0.5]]
    """
    data = as_array(data, "div_sqrt_dim")
    return data / float(np.sqrt(data.shape[-1] if data.ndim else 1))
