"""Activations by name: ``Activation`` and ``LeakyReLU``."""

from __future__ import annotations

import math

import numpy as np

from ..arrays.ndarray import NDArray
from ..autodiff.state import state
from ..core.dtypes import as_dtype
from ..errors import AttrError, ShapeError
from ..ir.expr import lt, select, var
from ..operators.cast import cast
from ..operators.declare import parametric, unary
from ..operators.elementwise import Elementwise
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import composite
from . import philox
from . import scalar as vm
from .random import draw
from .shape import reshape
from .unary import gelu, log_sigmoid, relu, sigmoid, softrelu, softsign, tanh

__all__ = ["Activation", "LeakyReLU"]

x = var("x")

leaky_relu = parametric(
    "_leaky_relu",
    select(lt(0, x), x, var("slope") * x),
    "x where positive, slope*x elsewhere. Gradient at 0: slope.",
    {"slope": 0.25},
    examples=[{}, {"slope": 0.5}],
    method=False,
    reference=lambda a, slope=0.25: np.where(a > 0, a, slope * a),
)
elu = parametric(
    "_elu",
    select(lt(0, x), x, var("slope") * vm.expm1(x)),
    "x where positive, slope*(exp(x) - 1) elsewhere.",
    {"slope": 0.25},
    examples=[{}, {"slope": 0.5}],
    method=False,
    reference=lambda a, slope=0.25: np.where(a > 0, a, slope * np.expm1(a)),
)
# Klambauer, Unterthiner, Mayr and Hochreiter 2017: the pair that keeps mean 0 and variance 1.
_SCALE, _ALPHA = 1.0507009873554805, 1.6732632423543772
selu = unary(
    "_selu",
    _SCALE * select(lt(0, x), x, _ALPHA * vm.expm1(x)),
    "1.0507*x where positive, 1.0507*1.6733*(exp(x) - 1) elsewhere.",
    method=False,
    ulp=2,
    reference=lambda a: _SCALE * np.where(a > 0, a, _ALPHA * np.expm1(a)),
)
_by_slope = Elementwise("_prelu", select(lt(0, var("x0")), var("x0"), var("x1") * var("x0")), 2)


_ACTIVATIONS = {
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "softrelu": softrelu,
    "softsign": softsign,
    "log_sigmoid": log_sigmoid,
    "gelu": gelu,
}


@composite("Activation", samples=sample_table(
        lambda a, act_type: {"relu": np.maximum(a, 0), "tanh": np.tanh(a)}[act_type],
        [(2, 3), {"act_type": "relu"}],
        [(2, 3), {"act_type": "tanh"}],
        ulp=4, ints=False,
    ))  # fmt: skip
def Activation(data, act_type):
    """An activation function by name.

    Parameters
    ----------
    data : NDArray
    act_type : {'relu', 'sigmoid', 'tanh', 'softrelu', 'softsign', 'log_sigmoid', 'gelu'}
        The operator of this name; its formula and gradient stand there.

    Returns
    -------
    NDArray
        Shape and dtype of `data`.

    Raises
    ------
    AttrError
        For another name.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.Activation(nd.array([-1, 2]), act_type="relu").tolist()
    [0.0, 2.0]
    """
    data = as_array(data, "Activation")
    if act_type not in _ACTIVATIONS:
        raise AttrError(f"Activation: act_type must be one of {', '.join(_ACTIVATIONS)}, got {act_type!r}")
    return _ACTIVATIONS[act_type](data)


_MODES = ("leaky", "prelu", "elu", "selu", "gelu", "rrelu")


def _numpy_rrelu(x, act_type, lower_bound=0.125, upper_bound=0.334):
    slope = draw(philox.uniform, x.shape, as_dtype(x.dtype), None, lower_bound, upper_bound).asnumpy()
    return np.where(x > 0, x, slope * x)


def _numpy_leaky(x, gamma=None, act_type="leaky", slope=0.25):
    if act_type == "prelu":
        return np.where(x > 0, x, x * gamma.reshape(gamma.shape + (1,) * max(0, x.ndim - 2)))
    if act_type == "gelu":
        return x * np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)), otypes="d")(x)
    scale, slope = (_SCALE, _ALPHA) if act_type == "selu" else (1, slope)
    low = np.minimum(x, 0)
    return scale * (np.maximum(x, 0) + slope * (low if act_type in ("leaky", "rrelu") else np.expm1(low)))


@composite("LeakyReLU", samples=sample_table(
    _numpy_leaky,
    [(2, 3)], [(2, 3), {"slope": 0.5}], [()], [(0, 2)],
    [(2, 2, 2), Input((2,), 0.1, 0.6), {"act_type": "prelu"}], [(4,), Input((1,), 0.1, 0.6), {"act_type": "prelu"}],
    [(5,), {"act_type": "elu"}], [(5,), {"act_type": "selu"}], [(5,), {"act_type": "gelu"}],
    [(5,), {"act_type": "rrelu", "slope": (0.125 + 0.334) / 2}],
    ulp=4, ints=False,
) + sample_table(
    _numpy_rrelu, [(2, 4), {"act_type": "rrelu"}], ulp=1, ints=False, training=True, random=True,
))  # fmt: skip
def LeakyReLU(data, gamma=None, act_type="leaky", slope=0.25, lower_bound=0.125, upper_bound=0.334):
    """x where positive, and something small elsewhere.

    ===== ==================================================================
    leaky ``slope*x``
    prelu ``gamma*x``, gamma learned, one for all or one per channel (axis 1)
    elu   ``slope*(exp(x) - 1)``
    selu  ``elu`` with slope 1.6733, the whole times 1.0507
    gelu  ``x*Phi(x)`` everywhere
    rrelu ``s*x``, s uniform in [lower_bound, upper_bound] for each element while training, otherwise their mean
    ===== ==================================================================

    Parameters
    ----------
    data : NDArray
    gamma : NDArray, optional
        For ``'prelu'``: shape (1,), (channels,), or that of the first two or more axes of `data`.
    act_type : {'leaky', 'prelu', 'elu', 'selu', 'gelu', 'rrelu'}
    slope, lower_bound, upper_bound : float

    Returns
    -------
    NDArray
        Shape and dtype of `data`; integers become floating.

    Notes
    -----
    The gradient at 0 is that of the left side.

    References
    ----------
    leaky: Maas, Hannun and Ng 2013. prelu: He, Zhang, Ren and Sun 2015. elu: Clevert, Unterthiner and Hochreiter
    2016. selu: Klambauer, Unterthiner, Mayr and Hochreiter 2017. gelu: Hendrycks and Gimpel 2016. rrelu: Xu, Wang,
    Chen and Li 2015.

    Raises
    ------
    AttrError
        For another `act_type`, or bounds in the wrong order.
    ShapeError
        If gamma fits neither.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.LeakyReLU(nd.array([-1, 2]), slope=0.5).tolist()
    [-0.5, 2.0]
    """
    data = as_array(data, "LeakyReLU")
    if act_type == "leaky":
        return leaky_relu(data, slope=slope)
    if act_type == "prelu":
        return _prelu(data, as_array(gamma, "LeakyReLU", "gamma"))
    if act_type == "elu":
        return elu(data, slope=slope)
    if act_type == "selu":
        return selu(data)
    if act_type == "gelu":
        return gelu(data)
    if act_type != "rrelu":
        raise AttrError(f"LeakyReLU: act_type must be one of {', '.join(_MODES)}, got {act_type!r}")
    if not lower_bound <= upper_bound:
        raise AttrError(f"LeakyReLU: lower_bound {lower_bound} is greater than upper_bound {upper_bound}")
    if not state.training:
        return leaky_relu(data, slope=(lower_bound + upper_bound) / 2)
    data = data if data._kind.dtype.is_float else data * 1.0
    bounds = float(lower_bound), float(upper_bound)
    kind = data._kind
    slope = draw(philox.uniform, data.shape, kind.dtype, kind.ctx, *bounds, conventions=kind.conventions)
    return _by_slope.apply((data, slope))


def _prelu(data: NDArray, gamma: NDArray) -> NDArray:
    channels = data.shape[1] if data.ndim > 1 else 1
    if gamma.shape not in ((1,), (channels,), data.shape[: max(2, gamma.ndim)]):
        raise ShapeError(
            f"LeakyReLU: gamma must have shape (1,) or ({channels},), or that of data or of its first axes, "
            f"{data.shape}; got {gamma.shape}"
        )
    gamma = gamma if gamma._kind is data._kind else cast(gamma, data._kind)
    leading = max(2, gamma.ndim)  # axes of data that gamma is given for
    return _by_slope.apply((data, reshape(gamma, gamma.shape + (1,) * max(0, data.ndim - leading))))
