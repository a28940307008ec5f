"""Elementwise operators of two arrays, or an array and a number: one statement each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays.ndarray import NDArray
from ..ir.expr import eq, le, lt, ne, strong, var
from ..operators.declare import binary
from ..operators.elementwise import derived
from . import scalar as vm

__all__ = ["product_of_cotangents", "strong_product"]

a, b = var("a"), var("b")
_POSITIVE = (0.3, 3.0)
_APART = ((0.2, 1.0), (1.5, 3.0))  # operands that do not meet: away from kinks at ties

add = binary("add", a + b, "Sum.", aliases=("broadcast_add", "broadcast_plus"))
subtract = binary("subtract", a - b, "Difference.", aliases=("broadcast_sub", "broadcast_minus"))
multiply = binary("multiply", a * b, "Product.", aliases=("broadcast_mul",))
divide = binary(
    "divide",
    a / b,
    "Quotient; of integers in the default float dtype.",
    aliases=("true_divide", "broadcast_div"),
    ints=False,
    domain=(_POSITIVE, _POSITIVE),
)
modulo = binary(
    "modulo",
    vm.floor_mod(a, b),
    "Remainder with the sign of the divisor. Gradient: 1 and -(a // b).",
    aliases=("broadcast_mod", "mod"),
    reference="numpy.mod",
    domain=((2.1, 2.4), (1.5, 2.0)),
)
floor_divide = binary(
    "floor_divide",
    vm.floor_divide(a, b),
    "Quotient rounded down. Gradient: 0.",
    domain=((2.1, 2.4), (1.5, 2.0)),
    differentiable=False,
)
power = binary(
    "power",
    vm.power(a, b),
    "a to the power b. Gradients at a = 0: 0 for b = 0; with respect to b, 0 for b >= 0.",
    aliases=("pow", "broadcast_power"),
    domain=(_POSITIVE, (-2.0, 2.0)),
    ulp=2,
    special={1: a, 2: a * a, 3: a * a * a, 0.5: vm.sqrt(a), -1: 1 / a, -2: 1 / (a * a), -0.5: 1 / vm.sqrt(a)},
)
maximum = binary(
    "maximum",
    vm.maximum(a, b),
    "The greater. At a tie, all gradient goes to the left.",
    aliases=("broadcast_maximum",),
    domain=_APART,
)
minimum = binary(
    "minimum",
    vm.minimum(a, b),
    "The smaller. At a tie, all gradient goes to the left.",
    aliases=("broadcast_minimum",),
    domain=_APART,
)
hypot = binary(
    "hypot",
    vm.hypot(a, b),
    "sqrt(a^2 + b^2) without overflow. Gradient at the origin: 0.",
    aliases=("broadcast_hypot",),
    ints=False,
    domain=(_POSITIVE, _POSITIVE),
)
arctan2 = binary(
    "arctan2", vm.arctan2(a, b), "Angle of the point (b, a), in radians.", ints=False, domain=(_POSITIVE, _POSITIVE)
)
copysign = binary(
    "copysign",
    vm.copysign(a, b),
    "a with the sign of b. The gradient by a is 1 or -1, and 0 where a is 0.",
    ints=False,
    domain=_APART,
)
logaddexp = binary(
    "logaddexp",
    vm.logaddexp(a, b),
    "log(exp(a) + exp(b)) without overflow.",
    ints=False,
    domain=(_POSITIVE, _POSITIVE),  # where nothing cancels
    ulp=2,
)
xlogy = binary(
    "xlogy",
    vm.xlogy(a, b),
    "a*log(b), 0 where a is 0.",
    ints=False,
    domain=(_POSITIVE, _POSITIVE),
    reference="scipy.special.xlogy",
    ulp=2,
)
xlog1py = binary(
    "xlog1py",
    vm.xlog1py(a, b),
    "a*log(1 + b), 0 where a is 0.",
    ints=False,
    domain=(_POSITIVE, _POSITIVE),
    reference="scipy.special.xlog1py",
    ulp=4,
)
betaln = binary(
    "betaln",
    vm.betaln(a, b),
    "log of the beta function, of positive a and b.",
    ints=False,
    domain=((1.3, 3.0), (1.3, 3.0)),
    reference="scipy.special.betaln",
    ulp=16,
)
polygamma = binary(
    "polygamma",
    vm.polygamma(a, b),
    "The a-th derivative (a an integer >= 0) of digamma, at b.",
    ints=False,
    domain=((1.0, 1.0), _POSITIVE),
    reference="scipy.special.polygamma",
    ulp=4,
    special_left={0: vm.digamma(b), 1: vm.trigamma(b)},
)


def _comparison(name: str, condition, doc: str, *aliases: str, reference=None) -> Callable:
    return binary(
        name,
        vm.as_number(condition),
        doc + " 1 or 0 in the operands' dtype; gradient 0.",
        aliases=aliases,
        domain=_APART,
        reference=reference or getattr(np, name),
        truth=True,
    )


equal = _comparison("equal", eq(a, b), "a == b.", "broadcast_equal")
not_equal = _comparison("not_equal", ne(a, b), "a != b.", "broadcast_not_equal")
greater = _comparison("greater", lt(b, a), "a > b.", "broadcast_greater")
greater_equal = _comparison("greater_equal", le(b, a), "a >= b.", "broadcast_greater_equal")
lesser = _comparison("lesser", lt(a, b), "a < b.", "broadcast_lesser", reference=np.less)
lesser_equal = _comparison("lesser_equal", le(a, b), "a <= b.", "broadcast_lesser_equal", reference=np.less_equal)
logical_and = _comparison("logical_and", vm.truth(a) & vm.truth(b), "a and b as truth values.", "broadcast_logical_and")
logical_or = _comparison("logical_or", vm.truth(a) | vm.truth(b), "a or b as truth values.", "broadcast_logical_or")
logical_xor = _comparison(
    "logical_xor",
    ne(vm.as_number(vm.truth(a)), vm.as_number(vm.truth(b))),
    "Exactly one of a and b.",
    "broadcast_logical_xor",
)

_product = var("x0") * var("x1")
_strong_product = derived("strong_product", strong(_product, var("x0")), 2, 0, False)
_product_of_cotangents = derived("product_of_cotangents", strong(strong(_product, var("x0")), var("x1")), 2, 0, False)


def strong_product(g: NDArray, partial: NDArray) -> NDArray:
    """``g * partial``, for derivative rules: zero where the cotangent `g` is, whatever is infinite or NaN in `partial`.

    Its derivatives are those of the product, and products of the same kind.
    """
    return _strong_product.apply((g, partial))


def product_of_cotangents(g: NDArray, h: NDArray) -> NDArray:
    """``g * h``, strong in both: in derivatives of derivative rules, where each is a cotangent."""
    return _product_of_cotangents.apply((g, h))
