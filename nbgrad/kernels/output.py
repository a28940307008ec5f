"""Operators that end a network: a prediction forwards, the gradient of a loss backwards.

They compute no loss. Their derivative is declared instead: whatever cotangent arrives (it is not read, unless the
operator is asked to), the operand's cotangent is the gradient of the loss that belongs to the prediction::

    SoftmaxOutput              softmax(x)     softmax(x) - onehot(label)
    LinearRegressionOutput     x              x - label
    LogisticRegressionOutput   sigmoid(x)     sigmoid(x) - label
    MAERegressionOutput        x              1 where x > label, else -1
    SVMOutput                  x              that of a hinge loss
    MakeLoss                   x              1, scaled

That gradient is a function of the data, written with operators: second derivatives are the loss's Hessian.
"""

from __future__ import annotations

import numpy as np

from ..arrays.launch import cast_into
from ..arrays.ndarray import NDArray, from_value, full
from ..core.dtypes import float64
from ..core.shapes import size
from ..errors import AttrError, DTypeError, ShapeError
from ..operators.cast import cast
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import Spec, composite, structured
from .binary import greater, multiply, subtract
from .broadcasting import broadcast_to
from .host import arrayed, computed
from .indexing import integers
from .shape import reshape
from .softmax import softmax
from .unary import abs_, identity, log, relu, sigmoid, softrelu, square

__all__ = [
    "LinearRegressionOutput",
    "LogisticRegressionOutput",
    "MAERegressionOutput",
    "MakeLoss",
    "SVMOutput",
    "SoftmaxOutput",
]


def _float(data, op: str) -> NDArray:
    data = as_array(data, op)
    if not data._kind.dtype.is_float:
        raise DTypeError(f"{op}: data must be of a floating dtype, got {data._kind.dtype}; use astype first")
    return data


def _store(value: NDArray, out: NDArray) -> None:
    cast_into(value._buf, value._kind, out._buf, out._kind)


# Regression.


def _regression(name: str, predict, slope, loss: str, reference, ulp: float, loss_of):
    def infer(data, label, grad_scale=1.0):
        return Spec(data._shape, data._kind.dtype, grad_scale=grad_scale)

    infer.__doc__ = f"``{name}`` of data and label of one shape and dtype."
    op = structured(f"_{name}", method=False, anywhere=True)(infer)

    @op.run
    def _(data, label, out, *, grad_scale):
        _store(predict(data.detach()), out)

    def rule(g, data, label, grad_scale):
        outputs = size(data.shape[1:]) if data.ndim else 1
        return multiply(slope(predict(data), label), grad_scale / max(outputs, 1))

    op.vjp(data=rule)

    def call(data, label, grad_scale=1.0):
        data, label = _float(data, name), as_array(label, name, "label")
        if label.size != data.size or label.shape[:1] != data.shape[:1]:
            raise ShapeError(f"{name}: label must have the shape of data, {data.shape}, got {label.shape}")
        label = cast(reshape(label.detach(), data.shape), data._kind)
        return op(data, label, grad_scale=float(grad_scale))

    call.__doc__ = f"""Prediction, with the gradient of {loss} instead of its own.

    Parameters
    ----------
    data : NDArray
        Of a floating dtype.
    label : NDArray
        Shape of `data`, or without its axis of length 1. No gradient.
    grad_scale : float

    Returns
    -------
    NDArray
        Shape and dtype of `data`.

    Raises
    ------
    DTypeError, ShapeError
        If data is not floating, or label does not fit.

    Notes
    -----
    The head gradient is not read. The gradient is divided by the number of outputs per row (all axes but the first).

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> x = nd.array([[1], [3]])
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = nd.{name}(x, nd.array([[2], [0]]))
    >>> y.backward()
    >>> (x.grad < 0).tolist()
    [[1.0], [0.0]]
    """
    label = Input(values=[[1, 0, 1], [0, 1, 0]], dtype="float32")
    samples = sample_table(
        reference, [(2, 3), label], ulp=ulp, order=0, ints=False, loss=lambda x, t: loss_of(x, t) / 3
    )
    return composite(name, method=False, samples=samples)(call)


_HALF = "half the squared error"
LinearRegressionOutput = _regression(
    "LinearRegressionOutput",
    identity,
    subtract,
    f"{_HALF}, ``data - label``,",
    lambda a, label: a,
    0,
    lambda x, label: square(x - label) / 2,
)
LogisticRegressionOutput = _regression(
    "LogisticRegressionOutput",
    sigmoid,
    subtract,
    "the cross-entropy, ``sigmoid(data) - label``,",
    lambda a, label: 1 / (1 + np.exp(-a)),
    4,
    lambda x, label: softrelu(x) - x * label,
)
MAERegressionOutput = _regression(
    "MAERegressionOutput",
    identity,
    lambda y, label: subtract(multiply(greater(y, label), 2.0), 1.0),
    "the absolute error, 1 where ``data > label`` and -1 elsewhere,",
    lambda a, label: a,
    0,
    lambda x, label: abs_(x - label),
)

# Classification.


@structured("_softmax_output", method=False, anywhere=True)
def _softmax_output(data, target, factor, out_grad=False):
    """Softmax along axis 1 of (n, k, m); backwards (softmax - target)*factor, times the cotangent if `out_grad`."""
    return Spec(data._shape, data._kind.dtype, out_grad=out_grad)


@_softmax_output.run
def _(data, target, factor, out, *, out_grad):
    _store(softmax(data.detach(), axis=1), out)


@_softmax_output.pullback
def _(g, data, target, factor, out_grad):
    slope = multiply(subtract(softmax(data, axis=1), target), factor)
    return multiply(slope, g) if out_grad else slope, None, None


def _one_hot(label: np.ndarray, sizes: tuple[int, int, int], alpha: float) -> np.ndarray:
    """Shape (n, k, m) for n*m labels: 1 - alpha at the label, alpha/(k - 1) elsewhere; 0 for none there."""
    n, k, m = sizes
    here = integers(label, "SoftmaxOutput").reshape(n, 1, m) == np.arange(k)[:, None]
    return np.where(here, 1.0 - alpha, alpha / (k - 1) if alpha else 0.0)


def _factors(label: np.ndarray, sizes, ignored: float, use_ignore: bool, count: int | None, scale: float) -> np.ndarray:
    """What the slope is multiplied by, shape (n, 1, m)."""
    counted = label.reshape(sizes) != ignored
    count = int(counted.sum()) if count is None else count
    return (counted if use_ignore else np.ones(sizes))[:, None] * (scale / max(count, 1))


def _numpy_softmax(x: np.ndarray, label, multi_output=False, preserve_shape=False, **more) -> np.ndarray:
    axis = 1 if multi_output else -1 if preserve_shape else tuple(range(1, x.ndim))
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _cross_entropy(x: NDArray, label: NDArray, multi_output=False, preserve_shape=False) -> NDArray:
    axis = 1 if multi_output or not preserve_shape else -1
    numbers = label._view()
    here = np.moveaxis(numbers[..., None] == np.arange(x.shape[axis]), -1, axis)
    weights = here / (numbers[0].size if multi_output else 1)
    return -(log(softmax(x, axis=axis)) * from_value(weights, like=x._kind, dtype=x.dtype))


@composite("SoftmaxOutput", aliases=("Softmax",), method=False, samples=sample_table(
    _numpy_softmax,
    [(2, 3), Input(values=[2, 0], dtype="float32")],
    [(2, 3, 2), Input(values=[[0, 1], [2, 2]], dtype="float32"), {"multi_output": True}],
    [(2, 3, 2), Input(values=[[0, 1, 0], [1, 1, 0]], dtype="float32"), {"preserve_shape": True}],
    ulp=8, order=0, ints=False, loss=_cross_entropy,
))  # fmt: skip
def SoftmaxOutput(
    data,
    label,
    grad_scale=1.0,
    ignore_label=-1.0,
    multi_output=False,
    use_ignore=False,
    preserve_shape=False,
    normalization="null",
    out_grad=False,
    smooth_alpha=0.0,
):
    """Softmax, with the gradient of the cross-entropy, ``softmax(data) - onehot(label)``, instead of its own.

    Parameters
    ----------
    data : NDArray
        Of a floating dtype; shape (n, k). More axes count as one, but for `multi_output` and `preserve_shape`.
    label : NDArray
        Class numbers, shape (n,); or probabilities, in the shape of `data`. No gradient. A number that is no class
        has an empty onehot.
    grad_scale : float
        Factor of the gradient.
    ignore_label : float
        With `use_ignore`, rows with this label have gradient 0.
    multi_output : bool
        Classes along axis 1: `data` (n, k, ...), `label` (n, ...).
    use_ignore : bool
    preserve_shape : bool
        Classes along the last axis: `data` (..., k), `label` (...).
    normalization : {'null', 'batch', 'valid'}
        Divide the gradient by: 1, the number of rows, the number of rows whose label is not `ignore_label`. With
        `multi_output`, ``'null'`` divides by the product of the lengths after axis 1.
    out_grad : bool
        Multiply by the head gradient, which is not read otherwise.
    smooth_alpha : float
        In [0, 1]: onehot is 1 - alpha at the label and alpha/(k - 1) elsewhere.

    Returns
    -------
    NDArray
        Shape and dtype of `data`.

    Raises
    ------
    DTypeError, ShapeError, AttrError
        If data is not floating, label does not fit, or for another `normalization` or `smooth_alpha`.

    Notes
    -----
    For probabilities as labels, only `grad_scale` and `out_grad` count.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> x = nd.zeros((1, 2))
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = nd.SoftmaxOutput(x, nd.array([1]))
    >>> y.backward()
    >>> y.tolist(), x.grad.tolist()
    ([[0.5, 0.5]], [[0.5, -0.5]])
    """
    op = "SoftmaxOutput"
    data, label = _float(data, op), as_array(label, op, "label")
    if normalization not in ("null", "batch", "valid"):
        raise AttrError(f"{op}: normalization must be 'null', 'batch' or 'valid', got {normalization!r}")
    if not 0 <= smooth_alpha <= 1:
        raise AttrError(f"{op}: smooth_alpha must be in [0, 1], got {smooth_alpha!r}")
    shape = data.shape
    if len(shape) < 2:
        raise ShapeError(f"{op}: data (n, k) or with more axes is needed, got shape {shape}")
    if multi_output:
        (n, k), m, expected = shape[:2], size(shape[2:]), shape[:1] + shape[2:]
    elif preserve_shape:
        n, k, m, expected = size(shape[:-1]), shape[-1], 1, shape[:-1]
    else:
        n, k, m, expected = shape[0], size(shape[1:]), 1, shape[:1]
    if label.shape != shape and label.size != size(expected):
        raise ShapeError(f"{op}: label must have shape {expected} or {shape}, got {label.shape}")
    scale = float(grad_scale)
    if label.shape == shape:
        target = cast(reshape(label.detach(), (n, k, m)), data._kind)
        factor = np.full((1, 1, 1), scale)
    else:
        count = {"null": m if multi_output else 1, "batch": n * m, "valid": None}[normalization]
        given = {"ignored": ignore_label, "use_ignore": bool(use_ignore), "count": count, "scale": scale}
        factor = computed(_factors, label, shape=(n, 1, m), dtype=float64, sizes=(n, m), **given)
        alpha = float(smooth_alpha) if k > 1 else 0.0
        found = computed(_one_hot, label, shape=(n, k, m), dtype=float64, sizes=(n, k, m), alpha=alpha)
        target = arrayed(found, data._kind.dtype, data)
    weights = arrayed(factor, data._kind.dtype, data)
    y = _softmax_output(reshape(data, (n, k, m)), target, weights, out_grad=bool(out_grad))
    return reshape(y, shape)


@structured("_svm_output", method=False, anywhere=True)
def _svm_output(data, target, margin=1.0, factor=1.0, linear=False):
    """The data; backwards the gradient of the hinge loss for `target`, 1 for the class and -1 for others."""
    return Spec(data._shape, data._kind.dtype, margin=margin, factor=factor, linear=linear)


@_svm_output.run
def _(data, target, out, *, margin, factor, linear):
    out._buf[:] = data._buf


def _hinge_slope(g, data, target, margin, factor, linear):
    slack = relu(subtract(margin, multiply(target, data)))
    return multiply(multiply(target, -factor), greater(slack, 0) if linear else multiply(slack, 2.0))


_svm_output.vjp(data=_hinge_slope)


def _hinge(x: NDArray, label, margin=1.0, regularization_coefficient=1.0, use_linear=False) -> NDArray:
    sides = from_value(
        np.where(label._view()[:, None] == np.arange(x.shape[1]), 1.0, -1.0), like=x._kind, dtype=x.dtype
    )
    slack = relu(margin - sides * x)
    return (slack if use_linear else square(slack)) * regularization_coefficient


@composite(method=False, samples=sample_table(
    lambda a, *_, **__: a,
    [(2, 3), Input(values=[2, 0], dtype="float32")],
    [(2, 3), Input(values=[1, 1], dtype="float32"), {"margin": 0.5, "regularization_coefficient": 2.0}],
    [(2, 3), Input(values=[1, 1], dtype="float32"), {"use_linear": True}], order=0, ints=False, loss=_hinge,
))  # fmt: skip
def SVMOutput(data, label, margin=1.0, regularization_coefficient=1.0, use_linear=False):
    """The array, with the gradient of a hinge loss instead of its own: a support vector machine's last layer.

    Parameters
    ----------
    data : NDArray
        Scores, of a floating dtype; shape (n, k).
    label : NDArray
        Class numbers, shape (n,). No gradient.
    margin : float
        The loss of an element is 0 where the score is at least this for the label's class, and at most minus this
        for others.
    regularization_coefficient : float
        Factor of the loss.
    use_linear : bool
        The loss is what lacks to the margin; by default its square.

    Returns
    -------
    NDArray
        A copy of `data`.

    Raises
    ------
    DTypeError, ShapeError
        If data is not floating, or label does not fit.

    Notes
    -----
    The head gradient is not read.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> x = nd.array([[0.5, -2]])
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = nd.SVMOutput(x, nd.array([0]))
    >>> y.backward()
    >>> x.grad.tolist()
    [[-1.0, 0.0]]
    """
    op = "SVMOutput"
    data, label = _float(data, op), as_array(label, op, "label")
    if data.ndim != 2 or label.shape != data.shape[:1]:
        raise ShapeError(f"{op}: data (n, k) and label (n,) are needed, got {data.shape} and {label.shape}")
    sides = computed(_sides, label, shape=data.shape, dtype=float64, k=data.shape[1])
    target = arrayed(sides, data._kind.dtype, data)
    return _svm_output(
        data, target, margin=float(margin), factor=float(regularization_coefficient), linear=bool(use_linear)
    )


def _sides(label: np.ndarray, k: int) -> np.ndarray:
    return np.where(integers(label, "SVMOutput")[:, None] == np.arange(k), 1.0, -1.0)


# Any loss.


@structured("_make_loss", method=False, anywhere=True)
def _make_loss(data, factor):
    """The data; backwards `factor`, whatever the cotangent."""
    return Spec(data._shape, data._kind.dtype)


@_make_loss.run
def _(data, factor, out):
    out._buf[:] = data._buf


_make_loss.vjp(data=lambda g, factor: broadcast_to(reshape(cast(factor, g._kind), (1,) * g.ndim), shape=g.shape))


@composite("MakeLoss", method=False, samples=sample_table(
    lambda a, **_: np.array(a), [(2, 3), {"grad_scale": 2.0}], [(0,)], order=0, ints=False,
    loss=lambda x, grad_scale=1.0: x * grad_scale,
) + sample_table(
    lambda a, **_: np.array(a), [(4, 3), {"normalization": "batch"}], order=0, ints=False,
    loss=lambda x, normalization: x / 4,
) + sample_table(
    lambda a, **_: np.array(a), [(2, 3), {"normalization": "valid", "valid_thresh": -9.0}], order=0, ints=False,
    loss=lambda x, **_: x / 6,
))  # fmt: skip
def MakeLoss(data, grad_scale=1.0, valid_thresh=0.0, normalization="null"):
    """The array as a loss: its gradient is one number, whatever the head gradient.

    Parameters
    ----------
    data : NDArray
        Of a floating dtype.
    grad_scale : float
        That number, if nothing divides it.
    valid_thresh : float
        For `normalization` ``'valid'``.
    normalization : {'null', 'batch', 'valid'}
        Divide it by: 1, the length of the first axis, the number of elements above `valid_thresh` (at least 1).

    Returns
    -------
    NDArray
        A copy.

    Raises
    ------
    DTypeError, AttrError
        If data is not floating, or for another `normalization`.

    Examples
    --------
    >>> from nbgrad import autograd, nd
    >>> x = nd.ones((4, 1))
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = nd.MakeLoss(x * 3, normalization="batch")
    >>> y.backward()
    >>> x.grad[0].tolist()
    [0.75]
    """
    data = _float(data, "MakeLoss")
    if normalization not in ("null", "batch", "valid"):
        raise AttrError(f"MakeLoss: normalization must be 'null', 'batch' or 'valid', got {normalization!r}")
    if normalization == "valid":
        found = computed(_share, data, shape=(1,), dtype=float64, threshold=valid_thresh, scale=float(grad_scale))
        return _make_loss(data, arrayed(found, float64, data))
    count = max(len(data), 1) if normalization == "batch" and data.ndim else 1
    return _make_loss(data, full((1,), float(grad_scale) / count, "float64", data.ctx, data._kind.conventions))


def _share(data: np.ndarray, threshold: float, scale: float) -> np.ndarray:
    return np.array([scale / max(int((data > threshold).sum()), 1)])
