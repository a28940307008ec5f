"""Optimizer updates: one fused pass over weight, gradient and state.

The formulas are scalar expressions in the arguments' names; each new value may use the new
values before it. The rescaled, clipped gradient is ``clip(rescale_grad*grad, -clip_gradient, clip_gradient)``; a
negative `clip_gradient` means no clipping. States are updated in place; the new weight goes to `out`, which is the
weight itself for an update in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ..arrays import templates
from ..arrays.launch import Kind
from ..arrays.ndarray import wrap
from ..arrays.sharing import note_write
from ..autodiff import tracing
from ..autodiff.constants import NoDerivative, as_constants, carries_gradient
from ..autodiff.state import state
from ..autodiff.writes import check_target
from ..errors import AttrError, DTypeError, LostGradientError, ShapeError
from ..ir.expr import Expr, lt, select, var
from ..operators.cast import cast
from ..operators.documentation import wrapped
from ..operators.entry import Entry, as_array
from ..operators.structured import REQUIRED
from . import scalar as vm
from .optimizer_samples import update_samples

__all__ = ["adam_update", "sgd_mom_update", "sgd_update"]

w, g, lr, wd = var("weight"), var("grad"), var("lr"), var("wd")
_COMMON = {"wd": 0.0, "rescale_grad": 1.0, "clip_gradient": -1.0}


def _limited(x: Expr, limit: Expr) -> Expr:
    return vm.minimum(vm.maximum(x, -limit), limit)


_grad = _limited(var("rescale_grad") * g, var("clip_gradient"))
_decayed = _limited(var("rescale_grad") * g + wd * w, var("clip_gradient"))

#: Attributes for which a negative number means no limit.
_LIMITS = ("clip_gradient", "clip_grad", "clip_weights")


def _update(
    name: str,
    what: str,
    formula: str,
    states: dict[str, Expr],
    weight: Expr,
    *,
    common: dict[str, float] = _COMMON,
    last: dict[str, float] | None = None,
    ignored: tuple[str, ...] = (),
    **first,
) -> Callable:
    """Declare an update: the new value of each state, the new weight, and the attributes in MXNet's order."""
    params = {"lr": REQUIRED, **first, **common, **(last or {})}
    arrays = ("weight", "grad", *states)
    known = ", ".join((*arrays, *params, *ignored, "out", "name"))

    @cache
    def kernel(kind: Kind):
        """Weight and states in place."""
        dtype = kind.dtype
        inputs = [templates.Input("grad", dtype)]
        inputs += [templates.Input(n, dtype, templates.IN_PLACE, k) for k, n in enumerate(("weight", *states))]
        outputs = [templates.Output(e, dtype) for e in (weight, *states.values())]
        made = templates.elementwise(name, inputs, list(params), outputs)
        return made.bind(*[kind.storage] * (2 + len(states)), *[float] * len(params))

    def call(*args, out=None, **kwargs):
        tracing.check_write(name)
        kwargs.pop("name", None)
        given = dict(zip((*arrays, *params), args))
        for key, value in kwargs.items():
            if key in given or key not in (*arrays, *params, *ignored):
                raise TypeError(f"{name}: keyword {key!r} is unknown or given twice; its arguments are {known}")
            given[key] = value
        weight_, grad, *rest = (as_array(given.get(n), name, n) for n in arrays)
        scalars = [_number(name, n, given.get(n, default)) for n, default in params.items()]
        target = weight_ if out is None else as_array(out, name, "out")
        for role, x in zip((*arrays[1:], "out"), (grad, *rest, target)):
            if x._shape != weight_._shape:
                raise ShapeError(f"{name}: {role} must have weight's shape {weight_._shape}, got {x._shape}")
        kind = weight_._kind
        for role, x in zip(("weight", *states, "out"), (weight_, *rest, target)):
            if x._kind is not kind or not kind.dtype.is_float:
                raise DTypeError(
                    f"{name}: {role} must have weight's dtype, a floating one; got {x._kind.dtype} for {kind.dtype}"
                )
        written = rest if out is None else [target, *rest]
        for x in written:
            check_target(x, name)
        carries = state.recording and any(carries_gradient(x) for x in (weight_, grad, *rest))
        if carries and written:
            raise LostGradientError(
                f"{name}: an update is not recorded, and gradients through it would be lost; call it outside of "
                "recording or in autograd.pause(), or write the formula with operators"
            )
        if grad._kind is not kind:
            grad = cast(grad, kind)
        new = target
        if out is not weight_:  # the weight stays as it is
            new = wrap(kind.empty(weight_._buf.size, kind.storage), weight_._shape, kind)
            new._buf[:] = weight_._buf
        kernel(kind)(*[x._buf for x in (grad, new, *rest)], *scalars)
        if out is None:
            target = new
        elif out is not weight_:
            out._buf[:] = new._buf
        for x in written:
            note_write(x)
        if carries:
            as_constants([target], (weight_, grad), NoDerivative(name))
        return target

    call.__name__ = call.__qualname__ = name
    call.__doc__ = _describe(name, what, formula, tuple(states), params, ignored)
    Entry(
        name,
        (),
        call,
        method=False,
        rule=None,
        differentiable=False,
        samples=update_samples(name, tuple(states), params),
    )
    return call


def _number(op: str, name: str, value) -> float:
    if value is REQUIRED or value is None:
        raise AttrError(f"{op}: {name} must be given")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise AttrError(f"{op}: {name} must be a number, got {value!r}") from None
    return float("inf") if name in _LIMITS and number < 0 else number


def _describe(name: str, what: str, formula: str, states: tuple, params: dict, ignored: tuple) -> str:
    lines = [what, "", "Parameters", "----------", "weight, grad : NDArray", "    Equal shapes."]
    if states:
        lines += [f"{', '.join(states)} : NDArray", "    State, updated in place; shape and dtype of weight."]
    for param, default in params.items():
        need = "Required." if default is REQUIRED else f"Default {default}."
        limit = " Negative: no limit." if param in _LIMITS else ""
        lines += [f"{param} : float", f"    {need}{limit}"]
    lines += [f"{', '.join(ignored)}\n    Accepted for MXNet's sake."] if ignored else []
    lines += ["out : NDArray, optional", "    Where to put the new weight; ``out=weight`` updates in place."]
    lines += ["", "Returns", "-------", "NDArray", "    The new weight: `out`, or a new array."]
    lines += [
        "",
        "Raises",
        "------",
        "ShapeError, DTypeError, AttrError",
        "    If the arrays do not fit together, or a number is missing.",
    ]
    lines += ["NBGradError", "    While recording, if an array to be written is in a graph.", ""]
    lines += ["Notes", "-----", wrapped(f"With c = {_CLIPPED}: {formula}.")]
    operands = ", ".join(["w", "nd.ones(2)"] + ["nd.zeros(2)"] * len(states))
    required = ", ".join(f"{n}={1 if n == 't' else 0.5}" for n, default in params.items() if default is REQUIRED)
    lines += ["", "Examples", "--------", ">>> from nbgrad import nd", ">>> w = nd.ones(2)"]
    lines += [f">>> nd.{name}({operands}, {required}, out=w) is w", "True"]
    return "\n".join(lines)


_CLIPPED = "clip(rescale_grad*grad), d = clip(rescale_grad*grad + wd*weight)"


def _average(rate: str, old: str, new: Expr) -> Expr:
    """Exponential moving average."""
    return var(rate) * var(old) + (1 - var(rate)) * new


sgd_update = _update(
    "sgd_update",
    "Gradient descent with weight decay.",
    "weight = (1 - lr*wd)*weight - lr*c",
    {},
    (1 - lr * wd) * w - lr * _grad,
    ignored=("lazy_update",),
)

_mom = var("momentum") * var("mom") - lr * wd * w - lr * _grad
sgd_mom_update = _update(
    "sgd_mom_update",
    "Gradient descent with momentum (Polyak 1964).",
    "mom = momentum*mom - lr*(wd*weight + c), weight += mom",
    {"mom": _mom},
    w + _mom,
    momentum=0.0,
    ignored=("lazy_update",),
)

_step = lr * (_grad + wd * w)
_nag = var("momentum") * var("mom") - _step
nag_mom_update = _update(
    "nag_mom_update",
    "Nesterov's accelerated gradient (Nesterov 1983; Sutskever and others 2013).",
    "s = lr*(wd*weight + c), mom = momentum*mom - s, weight += momentum*mom - s",
    {"mom": _nag},
    w + var("momentum") * _nag - _step,
    momentum=0.0,
)

_mean, _var = _average("beta1", "mean", _decayed), _average("beta2", "var", _decayed * _decayed)
adam_update = _update(
    "adam_update",
    "Adam (Kingma and Ba 2015), without correction of the bias: put that into lr.",
    "mean = beta1*mean + (1 - beta1)*d, var = beta2*var + (1 - beta2)*d^2, weight -= lr*mean/(sqrt(var) + epsilon)",
    {"mean": _mean, "var": _var},
    w - lr * _mean / (vm.sqrt(_var) + var("epsilon")),
    beta1=0.9,
    beta2=0.999,
    epsilon=1e-8,
    ignored=("lazy_update",),
)

_n = _average("gamma1", "n", _decayed * _decayed)
rmsprop_update = _update(
    "rmsprop_update",
    "RMSProp (Tieleman and Hinton 2012).",
    "n = gamma1*n + (1 - gamma1)*d^2, weight = clip_weights(weight - lr*d/sqrt(n + epsilon))",
    {"n": _n},
    _limited(w - lr * _decayed / vm.sqrt(_n + var("epsilon")), var("clip_weights")),
    gamma1=0.95,
    epsilon=1e-8,
    last={"clip_weights": -1.0},
)

_running = _average("gamma1", "g", _decayed)
_delta = var("gamma2") * var("delta") - lr * _decayed / vm.sqrt(_n - _running * _running + var("epsilon"))
rmspropalex_update = _update(
    "rmspropalex_update",
    "RMSProp with centred second moment and momentum (Graves 2013).",
    "n = gamma1*n + (1 - gamma1)*d^2, g = gamma1*g + (1 - gamma1)*d, "
    "delta = gamma2*delta - lr*d/sqrt(n - g^2 + epsilon), weight = clip_weights(weight + delta)",
    {"n": _n, "g": _running, "delta": _delta},
    _limited(w + _delta, var("clip_weights")),
    gamma1=0.95,
    gamma2=0.9,
    epsilon=1e-8,
    last={"clip_weights": -1.0},
)

_squares = var("n") + _grad * _grad
_z = var("z") + _grad - (vm.sqrt(_squares) - vm.sqrt(var("n"))) / lr * w
ftrl_update = _update(
    "ftrl_update",
    "Follow the regularized leader, per coordinate (McMahan and others 2013).",
    "z += c - (sqrt(n + c^2) - sqrt(n))*weight/lr, n += c^2, "
    "weight = (sign(z)*lamda1 - z)/((beta + sqrt(n))/lr + wd), or 0 where abs(z) <= lamda1",
    {"z": _z, "n": _squares},
    select(
        lt(var("lamda1"), vm.absolute(_z)),
        (vm.sign(_z) * var("lamda1") - _z) / ((var("beta") + vm.sqrt(_squares)) / lr + wd),
        0,
    ),
    lamda1=0.01,
    beta=1.0,
)

_step_limited = _limited(var("rescale_grad") * g + wd * w, var("clip_grad"))
_v = _average("beta2", "v", _step_limited * _step_limited)
_corrected = vm.sqrt(_v / (1 - vm.power(var("beta2"), var("t")))) + var("epsilon")
_d = (1 - vm.power(var("beta1"), var("t"))) / lr * _corrected
_shifted = _average("beta1", "z", _step_limited) - (_d - var("beta1") * var("d")) * w
ftml_update = _update(
    "ftml_update",
    "Follow the moving leader (Zheng and Kwok 2017); t counts the updates from 1.",
    "v = beta2*v + (1 - beta2)*d'^2, e = (1 - beta1^t)/lr*(sqrt(v/(1 - beta2^t)) + epsilon), "
    "z = beta1*z + (1 - beta1)*d' - (e - beta1*d)*weight, d = e, weight = -z/d, "
    "d' being the gradient with decay, clipped to clip_grad",
    {"d": _d, "v": _v, "z": _shifted},
    -_shifted / _d,
    beta1=0.6,
    beta2=0.999,
    epsilon=1e-8,
    t=REQUIRED,
    common={"wd": 0.0, "rescale_grad": 1.0, "clip_grad": -1.0},
)

signsgd_update = _update(
    "signsgd_update",
    "Steps of the gradient's sign (Bernstein and others 2018).",
    "weight = (1 - lr*wd)*weight - lr*sign(c)",
    {},
    (1 - lr * wd) * w - lr * vm.sign(_grad),
)

_signum = var("momentum") * var("mom") - (1 - var("momentum")) * (wd * w + _grad)
signum_update = _update(
    "signum_update",
    "Steps of the momentum's sign (Bernstein and others 2018).",
    "mom = momentum*mom - (1 - momentum)*(wd*weight + c), weight = (1 - lr*wd_lh)*weight + lr*sign(mom)",
    {"mom": _signum},
    (1 - lr * var("wd_lh")) * w + lr * vm.sign(_signum),
    momentum=0.0,
    last={"wd_lh": 0.0},
)
