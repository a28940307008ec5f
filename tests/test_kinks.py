"""Values and gradients where functions are not smooth: zeros, signs, ties, poles, infinities, NaN.

Values are NumPy's. Gradients are nbgrad's decisions, row by row. docs/kinks.md is made of these rows.
"""

import numpy as np
import pytest

from nbgrad import autograd, nd
from nbgrad.core.registry import operators

INF, NAN = np.inf, np.nan
E = np.e

# operator, operand, gradient
UNARY = [
    ("relu", [-1.0, -0.0, 0.0, 1.0, INF, -INF, NAN], [0, 0, 0, 1, 1, 0, NAN]),
    ("abs", [-2.0, -0.0, 0.0, 2.0, INF, -INF, NAN], [-1, 0, 0, 1, 1, -1, NAN]),
    ("sign", [-2.0, -0.0, 0.0, 2.0, INF, -INF, NAN], [0, 0, 0, 0, 0, 0, 0]),
    ("sqrt", [0.0, 4.0, INF, NAN, -1.0], [INF, 0.25, 0, NAN, NAN]),
    ("rsqrt", [0.0, 4.0, INF, NAN, -1.0], [-INF, -0.0625, 0, NAN, NAN]),
    ("cbrt", [0.0, -0.0, 8.0, -8.0, INF, NAN], [INF, INF, 1 / 12, 1 / 12, 0, NAN]),
    ("square", [-0.0, INF, -INF, NAN], [-0.0, INF, -INF, NAN]),
    ("reciprocal", [0.0, -0.0, INF, -INF, NAN], [-INF, -INF, 0, 0, NAN]),
    ("exp", [0.0, -0.0, INF, -INF, 710.0, -746.0, NAN], [1, 1, INF, 0, INF, 0, NAN]),
    ("expm1", [0.0, -0.0, INF, -INF, 1e-20, NAN], [1, 1, INF, 0, 1, NAN]),
    ("log", [0.0, -0.0, 1.0, INF, -1.0, NAN], [INF, -INF, 1, 0, -1, NAN]),
    ("log2", [0.0, 1.0, INF, -1.0, NAN], [INF, 1 / np.log(2), 0, -1 / np.log(2), NAN]),
    ("log10", [0.0, 1.0, INF, -1.0, NAN], [INF, 1 / np.log(10), 0, -1 / np.log(10), NAN]),
    ("log1p", [-1.0, 0.0, -0.0, 1e-20, INF, -2.0, NAN], [INF, 1, 1, 1, 0, -1, NAN]),
    ("sin", [0.0, -0.0, INF, NAN], [1, 1, NAN, NAN]),
    ("cos", [0.0, -0.0, -INF, NAN], [-0.0, 0, NAN, NAN]),
    ("tan", [0.0, -0.0, INF, NAN], [1, 1, NAN, NAN]),
    ("arcsin", [1.0, -1.0, 0.0, -0.0, 2.0, NAN], [INF, INF, 1, 1, NAN, NAN]),
    ("arccos", [1.0, -1.0, 0.0, 2.0, NAN], [-INF, -INF, -1, NAN, NAN]),
    ("arctan", [0.0, -0.0, INF, -INF, 1e200, NAN], [1, 1, 0, 0, 0, NAN]),
    ("sinh", [0.0, -0.0, INF, -INF, NAN], [1, 1, INF, INF, NAN]),
    ("cosh", [0.0, INF, -INF, NAN], [0, INF, -INF, NAN]),
    ("tanh", [0.0, -0.0, INF, -INF, 400.0, -400.0, NAN], [1, 1, 0, 0, 0, 0, NAN]),
    ("arcsinh", [0.0, -0.0, INF, -INF, 1e200, NAN], [1, 1, 0, 0, 1e-200, NAN]),
    ("arccosh", [1.0, INF, 0.5, 1e200, NAN], [INF, 0, NAN, 1e-200, NAN]),
    ("arctanh", [0.0, -0.0, 1.0, -1.0, NAN], [1, 1, INF, INF, NAN]),
    ("floor", [-0.0, 0.5, -0.5, INF, -INF, NAN], [0] * 6),
    ("ceil", [-0.0, 0.5, -0.5, INF, -INF, NAN], [0] * 6),
    ("trunc", [-0.0, 0.5, -0.5, INF, -INF, NAN], [0] * 6),
    ("rint", [-0.0, 0.5, 1.5, 2.5, -0.5, -1.5, INF, NAN], [0] * 8),
    ("round", [0.5, 1.5, 2.5, -0.5, -1.5, 0.25, -0.0, INF, NAN, 0.49999999999999994, 2.0**52 + 1], [0] * 11),
    ("sigmoid", [0.0, 800.0, -800.0, INF, -INF, NAN], [0.25, 0, 0, 0, 0, NAN]),
    ("log_sigmoid", [0.0, 800.0, -800.0, INF, -INF, NAN], [0.5, 0, 1, 0, 1, NAN]),
    ("softrelu", [0.0, 800.0, -800.0, INF, -INF, NAN], [0.5, 1, 0, 1, 0, NAN]),
    ("softsign", [0.0, 1.0, -1.0, INF, -INF, NAN], [1, 0.25, 0.25, 0, 0, NAN]),
    ("silu", [0.0, 800.0, -800.0, INF, -INF, NAN], [0.5, 1, 0, 1, 0, NAN]),
    ("gelu", [0.0, 40.0, -40.0, INF, -INF, NAN], [0.5, 1, 0, 1, 0, NAN]),
    ("erf", [0.0, -0.0, 30.0, INF, -INF, NAN], [2 / np.sqrt(np.pi)] * 2 + [0, 0, 0, NAN]),
    ("erfc", [30.0, INF, -INF, NAN], [0, 0, 0, NAN]),
    ("erfinv", [0.0, 1.0, -1.0, 2.0, NAN], [np.sqrt(np.pi) / 2, INF, INF, NAN, NAN]),
    ("gammaln", [1e300, INF], [np.log(1e300), INF]),
    ("sinc", [0.0, -0.0, 1.0, 2.0], [0, 0, -1, 0.5]),
    ("logical_not", [0.0, -0.0, 1.0, NAN], [0] * 4),
    ("isnan", [0.0, NAN, INF, -INF], [0] * 4),
    ("isinf", [0.0, NAN, INF, -INF], [0] * 4),
    ("isfinite", [0.0, NAN, INF, -INF], [0] * 4),
]

# operator, left, right, gradient of the left, gradient of the right
BINARY = [
    ("maximum", [1.0, 2.0, 3.0], [1.0, 1.0, 4.0], [1, 1, 0], [0, 0, 1]),
    ("minimum", [1.0, 2.0, 3.0], [1.0, 1.0, 4.0], [1, 0, 1], [0, 1, 0]),
    ("maximum", [NAN, 1.0, NAN, INF], [1.0, NAN, NAN, INF], [1, 0, 1, 1], [0, 1, 0, 0]),
    ("minimum", [NAN, 1.0, NAN, -INF], [1.0, NAN, NAN, -INF], [1, 0, 1, 1], [0, 1, 0, 0]),
    ("hypot", [0.0, 3.0, 1e300, -0.0], [0.0, 4.0, 1e300, 0.0], [0, 0.6, 0.5**0.5, 0], [0, 0.8, 0.5**0.5, 0]),
    ("power", [0.0, 0.0, 0.0, 2.0], [0.0, 1.0, 2.0, 0.0], [0, 1, 0, 0], [0, 0, 0, np.log(2)]),
    ("power", [0.0, 0.0, INF, NAN, 1.0], [0.5, -1.0, 2.0, 0.0, NAN], [INF, -INF, INF, 0, NAN], [0, -INF, INF, NAN, 0]),
    ("power", [-2.0, -2.0], [3.0, 0.5], [12, NAN], [NAN, NAN]),
    ("modulo", [5.0, -5.0, 5.0, 4.0], [3.0, 3.0, -3.0, 2.0], [1, 1, 1, 1], [-1, 2, 2, -2]),
    ("divide", [1.0, 0.0, -1.0, INF], [0.0, 2.0, 0.0, INF], [INF, 0.5, INF, 0], [-INF, 0, INF, NAN]),
    ("arctan2", [1.0, 0.0, -1.0], [0.0, 2.0, 0.0], [0, 0.5, 0], [-1, 0, 1]),
    ("copysign", [1.0, -1.0, 2.0], [-1.0, -2.0, 0.0], [-1, 1, 1], [0, 0, 0]),
    ("logaddexp", [1000.0, -INF, 0.0], [1000.0, 0.0, -INF], [0.5, 0, 1], [0.5, 1, 0]),
    ("xlogy", [0.0, 2.0, 0.0], [3.0, 1.0, 1.0], [np.log(3), 0, 0], [0, 2, 0]),
    ("xlog1py", [0.0, 2.0], [E - 1, 0.0], [1, 0], [0, 2]),
    ("multiply", [0.0, INF], [INF, 2.0], [INF, 2], [0, INF]),
    ("floor_divide", [5.0, -5.0, 5.0], [2.0, 2.0, -2.0], [0] * 3, [0] * 3),
    ("equal", [NAN, 0.0, 1.0], [NAN, -0.0, 2.0], [0] * 3, [0] * 3),
    ("not_equal", [NAN, 0.0, 1.0], [NAN, -0.0, 2.0], [0] * 3, [0] * 3),
    ("lesser", [NAN, 0.0, 1.0], [NAN, -0.0, 2.0], [0] * 3, [0] * 3),
    ("logical_and", [NAN, 0.0, 1.0], [1.0, 1.0, -0.0], [0] * 3, [0] * 3),
]

# operator, operand, attributes, gradient
OTHERS = [
    ("clip", [-1.0, 0.0, 1.0, 2.0, 3.0, NAN], {"a_min": 0.0, "a_max": 2.0}, [0, 1, 1, 1, 0, 1]),
    ("max", [1.0, 3.0, 3.0], {}, [0, 1, 1]),
    ("min", [1.0, 1.0, 3.0], {}, [1, 1, 0]),
    ("max", [[1.0, 1.0], [0.0, 2.0]], {"axis": 1}, [[1, 1], [0, 1]]),
    ("max", [1.0, NAN, 3.0], {}, [0, 1, 0]),
    ("max", [-INF, -INF], {}, [1, 1]),
    ("prod", [2.0, 0.0, 3.0], {}, [0, 6, 0]),
    ("prod", [0.0, 0.0, 3.0], {}, [0, 0, 0]),
    ("prod", [2.0, 3.0, 4.0], {}, [12, 8, 6]),
    ("nansum", [1.0, NAN, 2.0], {}, [1, 0, 1]),
    ("nanprod", [2.0, NAN, 3.0], {}, [3, 0, 2]),
    ("norm", [0.0, 0.0], {}, [0, 0]),
    ("norm", [3.0, 4.0], {}, [0.6, 0.8]),
    ("norm", [0.0, -2.0], {"ord": 1}, [0, -1]),
    ("logsumexp", [1000.0, 1000.0], {}, [0.5, 0.5]),
    ("logsumexp", [-INF, 0.0], {}, [0, 1]),
    ("sum", [INF, 1.0], {}, [1, 1]),
    ("mean", [INF, 1.0], {}, [0.5, 0.5]),
    ("smooth_l1", [-1.0, 0.0, 1.0, 0.5], {}, [-1, 0, 1, 0.5]),
    ("_leaky_relu", [-1.0, 0.0, 1.0], {}, [0.25, 0.25, 1]),
    ("_elu", [-INF, -1.0, 0.0, 1.0, NAN], {"slope": 0.5}, [0, 0.5 / E, 0.5, 1, NAN]),
    ("hard_sigmoid", [-5.0, -2.5, 0.0, 2.5, 5.0, NAN], {}, [0, 0, 0.2, 0, 0, 0.2]),
    ("median", [1.0, 3.0, 3.0], {}, [0, 1, 0]),
    ("median", [1.0, 3.0, 3.0, 5.0], {}, [0, 0.5, 0.5, 0]),
    ("cumprod", [2.0, 0.0, 0.0, 3.0], {"axis": 0}, [1, 2, 0, 0]),
    ("std", [2.0, 2.0], {}, [0, 0]),
    ("Pooling", [[[2.0, 2.0, 1.0, -1.0]]], {"kernel": (2,)}, [[[1, 1, 1, 0]]]),
    ("Pooling", [[[0.0, 0.0, 3.0, 4.0]]], {"kernel": (2,), "stride": 2, "pool_type": "lp"}, [[[0, 0, 0.6, 0.8]]]),
]
VALUES = {
    "softrelu": lambda a: np.logaddexp(0, a),
    "norm": lambda a, ord=2: np.linalg.norm(a, ord).reshape(1),
    "logsumexp": lambda a: np.logaddexp.reduce(a).reshape(1),
}


def gradients(name, operands, attrs, recorded):
    arrays = [nd.array(np.array(v, np.float64)) for v in operands]
    for x in arrays:
        x.attach_grad()
    with autograd.record():
        y = operators[name].call(*arrays, **attrs)
    if recorded:
        return y, autograd.grad(y, arrays, create_graph=True)
    y.backward()
    return y, [x.grad for x in arrays]


def value_of(name, operands, attrs):
    values = [np.array(v, np.float64) for v in operands]
    reference = VALUES.get(name, operators[name].samples[0].function)
    with np.errstate(all="ignore"):
        return np.asarray(reference(*values, **attrs))


def check(name, operands, attrs, expected):
    want = value_of(name, operands, attrs)
    for recorded in (False, True):
        y, found = gradients(name, operands, attrs, recorded)
        np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-15)
        nonzero_sign = (y.asnumpy() == 0) & (np.broadcast_to(want, y.shape) == 0)
        assert (np.signbit(y.asnumpy()) == np.signbit(want))[nonzero_sign].all()
        for g, row in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                g.asnumpy(), np.array(row, np.float64), rtol=1e-14, err_msg=f"recorded={recorded}"
            )


@pytest.mark.parametrize(("name", "operand", "gradient"), UNARY, ids=[r[0] for r in UNARY])
def test_one_operand(name, operand, gradient):
    check(name, [operand], {}, [gradient])


@pytest.mark.parametrize(("name", "left", "right", "by_left", "by_right"), BINARY, ids=[r[0] for r in BINARY])
def test_two_operands(name, left, right, by_left, by_right):
    check(name, [left, right], {}, [by_left, by_right])


@pytest.mark.parametrize(("name", "operand", "attrs", "gradient"), OTHERS, ids=[r[0] for r in OTHERS])
def test_with_attributes(name, operand, attrs, gradient):
    check(name, [operand], attrs, [gradient])
