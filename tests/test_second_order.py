"""One expression ``sin(op(x**2))`` per operator of MXNet: derivatives of order 1, 2 and 3 in float64.

The squares and the sine make every operator matter at second order, linear ones too. The names are MXNet's;
operands come in by shape, every array of floats is a variable.
"""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.testing import check_grads

SHAPE = (2, 3)
LABEL = nd.array(np.array([2.0, 0.0]))
INDEX = nd.array(np.array([1, 0, 1], "int32"))
PAIRS = nd.array(np.array([[0, 1, 1], [2, 0, 2]], "int32"))


def positive(a):
    """A symmetric positive definite matrix made of `a`."""
    return nd.dot(a, a.T) + nd.array(np.eye(a.shape[0]))


def square(a):
    """A well-conditioned matrix made of a square `a`."""
    return a + 2 * nd.array(np.eye(a.shape[0]))


def triangle(a):
    return a * nd.array(np.tril(np.ones(a.shape))) + nd.array(np.eye(a.shape[0]))


def eigen(a):
    vectors, values = nd.linalg.syevd(positive(a))
    return [nd.square(vectors), values]  # the sign of an eigenvector is arbitrary


def dropout(a):
    nb.random.seed(3)
    return nd.Dropout(a, p=0.4, mode="always")


def rrelu(a):
    nb.random.seed(3)
    with autograd.train_mode():
        return nd.LeakyReLU(a - 0.35, act_type="rrelu")


def batch_norm(a, gamma, beta):
    rest = [nd.array(np.zeros(gamma.shape)), nd.array(np.ones(gamma.shape))]
    with autograd.train_mode():
        return nd.BatchNorm(a, gamma, beta, *rest, fix_gamma=False)


def called(name):
    return lambda *a: getattr(nd, name)(*a)


ALONE = """
exp log log2 log10 log1p expm1 sqrt cbrt rsqrt rcbrt square reciprocal sin cos tan arcsin arccos arctan sinh
cosh tanh arctanh sigmoid relu abs radians floor identity negative transpose zeros_like ones_like arcsinh sum
mean max min prod norm nansum flatten softmax log_softmax softmin softsign erf erfinv gamma gammaln
hard_sigmoid degrees sign smooth_l1
"""

# Name -> operator, for one operand of SHAPE with squares in (0.1, 0.8).
UNARY = {name: called(name) for name in ALONE.split()}
UNARY |= {
    ".T": lambda a: a.T,
    "copy": lambda a: a.copy(),
    "cast": lambda a: nd.cast(a, dtype="float64"),
    "x + scalar": lambda a: a + 2,
    "x - scalar": lambda a: a - 2,
    "scalar - x": lambda a: 2 - a,
    "scalar / x": lambda a: 2 / a,
    "x * x": lambda a: a * a,
    "x ** 2": lambda a: a**2,
    "2 ** x": lambda a: 2**a,
    "x * 2": lambda a: a * 2,
    "x / 2": lambda a: a / 2,
    "-x": lambda a: -a,
    "mod scalar": lambda a: a % 0.3,
    "arccosh": lambda a: nd.arccosh(a + 1.2),
    "clip": lambda a: nd.clip(a, 0.3, 0.6),
    "Dropout": dropout,
    "gather_nd": lambda a: nd.gather_nd(a, PAIRS),
    "x[[..], [..]]": lambda a: a[[0, 1, 1], [2, 0, 2]],
    "scatter_nd": lambda a: nd.scatter_nd(a[0], PAIRS, (2, 3)),
    "sum axis": lambda a: nd.sum(a, axis=1),
    "mean axis": lambda a: nd.mean(a, axis=0, keepdims=True),
    "max axis": lambda a: nd.max(a, axis=1),
    "min axis": lambda a: nd.min(a, axis=0),
    "prod axis": lambda a: nd.prod(a, axis=1),
    "norm axis": lambda a: nd.norm(a, ord=2, axis=1),
    "norm 1": lambda a: nd.norm(a, ord=1, axis=1),
    "nanprod": lambda a: nd.nanprod(a, axis=1),
    "reshape": lambda a: nd.reshape(a, (3, 2)),
    "x.reshape": lambda a: a.reshape((-1,)),
    "expand_dims": lambda a: nd.expand_dims(a, axis=1),
    "squeeze": lambda a: nd.squeeze(nd.expand_dims(a, axis=1)),
    "slice": lambda a: nd.slice(a, begin=(0, 1), end=(2, 3)),
    "slice_axis": lambda a: nd.slice_axis(a, axis=1, begin=0, end=2),
    "slice_like": lambda a: nd.slice_like(a, nd.array(np.ones((2, 2))), axes=(1,)),
    "x[i]": lambda a: a[1],
    "x[i:j]": lambda a: a[:, 0:2],
    "split": lambda a: nd.split(a, num_outputs=3, axis=1),
    "tile": lambda a: nd.tile(a, reps=(2, 1)),
    "repeat": lambda a: nd.repeat(a, repeats=2, axis=1),
    "flip": lambda a: nd.flip(a, axis=1),
    "reverse": lambda a: nd.reverse(a, axis=0),
    "swapaxes": lambda a: nd.swapaxes(a, 0, 1),
    "broadcast_to": lambda a: nd.broadcast_to(a.reshape((1, 2, 3)), (2, 2, 3)),
    "broadcast_axis": lambda a: nd.broadcast_axis(a.reshape((1, 2, 3)), axis=0, size=2),
    "broadcast_like": lambda a: nd.broadcast_like(a.reshape((1, 2, 3)), nd.array(np.ones((2, 2, 3)))),
    "take": lambda a: nd.take(a, INDEX),
    "pick": lambda a: nd.pick(a, LABEL, axis=1),
    "topk": lambda a: nd.topk(a, k=2, ret_typ="value"),
    "sort": nd.sort,
    "diag": nd.diag,
    "cumsum": lambda a: nd.cumsum(a, axis=1),
    "SequenceMask": lambda a: nd.SequenceMask(
        a, nd.array(np.array([1.0, 2.0, 1.0])), use_sequence_length=True, value=0.5
    ),
    "softmax_cross_entropy": lambda a: nd.softmax_cross_entropy(a, LABEL),
    "moments": lambda a: list(nd.moments(a, axes=(1,))),
    "LeakyReLU rrelu": rrelu,
    "L2Normalization": nd.L2Normalization,
    **{
        f"Activation {m}": lambda a, m=m: nd.Activation(a, act_type=m)
        for m in ["relu", "sigmoid", "tanh", "softrelu", "softsign"]
    },
    **{f"LeakyReLU {m}": lambda a, m=m: nd.LeakyReLU(a - 0.35, act_type=m) for m in ["leaky", "elu", "selu", "gelu"]},
}

ELEMENTWISE = [f"elemwise_{name}" for name in ("add", "sub", "mul", "div")]
ELEMENTWISE += ["add_n", "maximum", "minimum", "concat", "stack"]

# Name -> operator and shapes.
SEVERAL = {
    **{
        name: (called(name), SHAPE, SHAPE)
        for name in [
            "elemwise_add",
            "elemwise_sub",
            "elemwise_mul",
            "elemwise_div",
            "add_n",
            "maximum",
            "minimum",
            "concat",
            "stack",
        ]
    },
    **{
        f"broadcast_{name}": (called(f"broadcast_{name}"), (2, 3), (1, 3))
        for name in ["add", "plus", "sub", "minus", "mul", "div", "power", "maximum", "minimum", "hypot", "mod"]
    },
    "x + y": (lambda a, b: a + b, SHAPE, SHAPE),
    "x - y": (lambda a, b: a - b, SHAPE, (1, 3)),
    "x * y": (lambda a, b: a * b, SHAPE, (2, 1)),
    "x / y": (lambda a, b: a / b, SHAPE, (3,)),
    "x ** y": (lambda a, b: a**b, SHAPE, SHAPE),
    "x % y": (lambda a, b: a % b, SHAPE, SHAPE),
    "hypot": (lambda a, b: nd.hypot(a, b), SHAPE, SHAPE),
    "where": (lambda a, b: nd.where(nd.array(np.array([[1.0, 0, 1], [0, 1, 0]])), a, b), SHAPE, SHAPE),
    "dot": (nd.dot, (2, 3), (3, 2)),
    "batch_dot": (nd.batch_dot, (2, 2, 3), (2, 3, 2)),
    "khatri_rao": (nd.khatri_rao, (2, 3), (3, 3)),
    "Embedding": (lambda w: nd.Embedding(INDEX, w, input_dim=2, output_dim=3), SHAPE),
    "depth_to_space": (lambda a: nd.depth_to_space(a, 2), (1, 4, 1, 2)),
    "space_to_depth": (lambda a: nd.space_to_depth(a, 2), (1, 1, 2, 4)),
    "pad": (lambda a: nd.pad(a, mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 0, 2)), (1, 1, 2, 3)),
    "UpSampling nearest": (lambda a: nd.UpSampling(a, scale=2, sample_type="nearest"), (1, 1, 2, 2)),
    "UpSampling bilinear": (
        lambda a, w: nd.UpSampling(a, w, scale=2, sample_type="bilinear", num_filter=1),
        (1, 1, 2, 2),
        (1, 1, 4, 4),
    ),
    "FullyConnected": (lambda a, w, b: nd.FullyConnected(a, w, b, num_hidden=2), SHAPE, (2, 3), (2,)),
    "FullyConnected no_bias": (lambda a, w: nd.FullyConnected(a, w, num_hidden=2, no_bias=True), SHAPE, (2, 3)),
    "Convolution": (
        lambda a, w, b: nd.Convolution(a, w, b, kernel=(2, 2), num_filter=2),
        (1, 1, 2, 3),
        (2, 1, 2, 2),
        (2,),
    ),
    "Deconvolution": (lambda a, w: nd.Deconvolution(a, w, kernel=(2, 2), num_filter=1), (1, 2, 2, 2), (2, 1, 2, 2)),
    **{
        f"Pooling {m}": (lambda a, m=m: nd.Pooling(a, kernel=(2, 2), pool_type=m), (1, 1, 3, 3))
        for m in ["max", "avg", "sum", "lp"]
    },
    "BatchNorm": (batch_norm, (2, 2, 2), (2,), (2,)),
    "LayerNorm": (nd.LayerNorm, SHAPE, (3,), (3,)),
    "InstanceNorm": (nd.InstanceNorm, (2, 2, 3), (2,), (2,)),
    "GroupNorm": (lambda a, g, b: nd.GroupNorm(a, g, b, num_groups=2), (1, 4, 2), (2,), (2,)),
    "LRN": (lambda a: nd.LRN(a, nsize=3), (1, 3, 1, 2)),
    "LeakyReLU prelu": (lambda a, g: nd.LeakyReLU(a - 0.35, g, act_type="prelu"), SHAPE, (3,)),
    "linalg_gemm": (nd.linalg_gemm, (2, 3), (3, 2), (2, 2)),
    "linalg_gemm2": (nd.linalg_gemm2, (2, 3), (3, 2)),
    "linalg_potrf": (lambda a: nd.linalg_potrf(positive(a)), (2, 2)),
    "linalg_potri": (lambda a: nd.linalg_potri(triangle(a)), (2, 2)),
    "linalg_trmm": (lambda a, b: nd.linalg_trmm(triangle(a), b), (2, 2), (2, 2)),
    "linalg_trsm": (lambda a, b: nd.linalg_trsm(triangle(a), b), (2, 2), (2, 2)),
    "linalg_sumlogdiag": (nd.linalg_sumlogdiag, (2, 2)),
    "linalg_extractdiag": (nd.linalg_extractdiag, (2, 2)),
    "linalg_makediag": (nd.linalg_makediag, (3,)),
    "linalg_extracttrian": (nd.linalg_extracttrian, (2, 2)),
    "linalg_maketrian": (nd.linalg_maketrian, (3,)),
    "linalg_syrk": (nd.linalg_syrk, SHAPE),
    "linalg_gelqf": (lambda a: list(nd.linalg_gelqf(a)), SHAPE),
    "linalg_syevd": (eigen, (2, 2)),
    "linalg_inverse": (lambda a: nd.linalg_inverse(square(a)), (2, 2)),
    "linalg_det": (nd.linalg_det, (2, 2)),
    "linalg_slogdet": (lambda a: list(nd.linalg_slogdet(square(a))), (2, 2)),
}
if hasattr(nd, "CTCLoss"):
    SEVERAL["CTCLoss"] = (lambda a: nd.CTCLoss(a, nd.array(np.array([[1.0, 2.0]]))), (3, 1, 3))

TABLE = {name: (op, SHAPE) for name, op in UNARY.items()} | SEVERAL


def operands(shapes):
    """Arrays whose squares are distinct, between 0.1 and 0.8."""
    sizes = [int(np.prod(s)) for s in shapes]
    values = np.sqrt(np.random.default_rng(5).permutation(np.linspace(0.11, 0.79, sum(sizes))))
    return [v.reshape(s) for v, s in zip(np.split(values, np.cumsum(sizes)[:-1]), shapes, strict=True)]


def sine(result):
    return [nd.sin(y) for y in result] if isinstance(result, list | tuple) else nd.sin(result)


@pytest.mark.parametrize("name", TABLE)
def test_sin_of_the_operator_of_squares(name):
    op, *shapes = TABLE[name]
    # Lower orders are recorded; that the highest is the same when recorded is tested in test_operators.
    args = operands(shapes)
    check_grads(lambda *a: sine(op(*[v * v for v in a])), args, order=3, modes=["backward"], rtol=2e-6, atol=1e-8)


# Operators whose gradient is not their function's: name -> operator, and a function that has that gradient.
BY_DEFINITION = {
    "BlockGrad": (lambda z: nd.sin(nd.BlockGrad(z) * z), None),
    "make_loss": (lambda z: nd.make_loss(nd.sin(z)), nd.sin),
    "SoftmaxOutput": (lambda z: nd.sin(nd.SoftmaxOutput(z, LABEL)), lambda z: nd.softmax_cross_entropy(z, LABEL)),
}


@pytest.mark.parametrize("name", BY_DEFINITION)
def test_an_operator_with_a_gradient_by_definition(name):
    op, same = BY_DEFINITION[name]
    value = operands([SHAPE])[0]
    constant = nd.array(value * value)
    same = same or (lambda z: nd.sin(constant * z))
    found, expected = [], []
    for f, derivatives in ((op, found), (same, expected)):
        x = nd.array(value)
        x.attach_grad()
        with autograd.record():
            y = f(x * x)
            for _ in range(3):
                y = autograd.grad(y, x, create_graph=True)
                derivatives.append(y.asnumpy())
                y = y * nd.array(np.linspace(0.5, 2, 6).reshape(SHAPE))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_polygamma_of_a_number(n):
    """Orders that have functions of their own lead to the same derivatives as an array of orders."""
    x = nd.array(np.array([0.3, 1.2, 5.5, -0.7]), dtype="float64")
    order = nd.array(np.full(4, n), dtype="float64")
    want = [nd.polygamma(order + k, x).asnumpy() for k in range(4)]
    x.attach_grad()
    with autograd.record():
        values = [nd.polygamma(n, x)]
        for _ in range(3):
            values += autograd.grad(values[-1], [x], create_graph=True)
    for value, expected in zip(values, want, strict=True):
        np.testing.assert_allclose(value.asnumpy(), expected, rtol=1e-14)


INVERSE_SQUARES = {
    "1/(x*x)": lambda x: 1 / (x * x),
    "x**-2": lambda x: x**-2.0,
    "1/x/x": lambda x: 1 / x / x,
    "reciprocal(square(x))": lambda x: nd.reciprocal(nd.square(x)),
    "1/(1 + x*x)": lambda x: 1 / (1 + x * x),
}


@pytest.mark.parametrize("name", INVERSE_SQUARES)
def test_partial_derivatives_do_not_underflow_by_themselves(name):
    """The quotient 1/x**4 is no number of float32 at 1e10; what it is multiplied by is as large."""
    second = nb.elementwise_grad(nb.elementwise_grad(INVERSE_SQUARES[name]))
    for dtype, at, rtol in (("float32", [30.0, 1e6, 1e8], 1e-5), ("float64", [30.0, 1e50, 1e60], 1e-14)):
        x = nd.array(np.array(at, dtype))
        expected = 6 / x.asnumpy().astype(float) ** 4
        if name == "1/(1 + x*x)":
            expected[0] = (6 * 900 - 2) / 901**3
        for g in (second, nb.jit(second)):
            np.testing.assert_allclose(g(x).asnumpy(), expected, rtol=rtol)
