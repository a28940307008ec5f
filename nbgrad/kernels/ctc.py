"""Connectionist temporal classification: the loss of a label sequence whose alignment with the data is not known.

The maths (A. Graves et al., Connectionist temporal classification, 2006). The label of length l, with a blank between,
before and after its elements, is e_0 .. e_(S-1), S = 2 l + 1; a path through it stays, goes one on, or two where that
leaves out a blank between different labels. With the logarithms p_t(k) of the probabilities of the classes::

    α_0(s) = p_0(e_s), s < 2      α_t(s) = p_t(e_s) + log Σ_(s' to s) exp α_(t-1)(s')
    β_(T-1)(s) = 0, s >= S - 2    β_t(s) = log Σ_(s to s') exp(β_(t+1)(s') + p_(t+1)(e_s'))
    loss = -log Σ_(s < 2) exp(α_0(s) + β_0(s)) = -log Z

all other α_0 and β_(T-1) being minus infinity. The cotangent of p_t(k) is minus the occupancy, the sum of
exp(α_t(s) + β_t(s) - log Z) over the s with e_s = k. Where nothing records, a kernel gives it; else it is written with
operators, a step of time each, and so has derivatives of every order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..autodiff.state import state
from ..backends.numba.compile import inline, kernel
from ..core.dtypes import bool_, float32, float64, int64
from ..errors import AttrError, DTypeError, RangeError, ShapeError
from ..operators.cast import cast
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import REQUIRED, Spec, composite, structured
from ..vmath.exponential import logaddexp as log_sum
from .binary import logaddexp, maximum
from .host import arrayed, computed
from .indexing import add_axis, integers, take_axis
from .join import concat, stack
from .recurrent import unstacked
from .selection import where
from .shape import reshape
from .slices import slice_axis
from .softmax import log_softmax
from .unary import exp, negative

__all__ = ["CTCLoss"]

#: Stands for minus infinity where operators compute: differences of it are numbers, and its exp is 0.
_NEVER = -1e30


@inline
def _class(label, row, s, blank):
    """e_s: a blank, or a label."""
    return blank if s % 2 == 0 else label[row + s // 2]


@inline
def _skips(label, row, s):
    """Whether a path may come to s from s - 2."""
    return s % 2 == 1 and s > 1 and label[row + s // 2] != label[row + s // 2 - 1]


@inline
def _forward(p, label, alpha, b, steps, states, batch, classes, row, blank):
    """Fills alpha (steps, states); gives log Z."""
    for t in range(steps):
        at = (t * batch + b) * classes
        for s in range(states):
            if t == 0:
                v = 0.0 if s < 2 else -np.inf
            else:
                before = (t - 1) * states + s
                v = alpha[before]
                if s > 0:
                    v = log_sum(v, alpha[before - 1])
                if _skips(label, row, s):
                    v = log_sum(v, alpha[before - 2])
            alpha[t * states + s] = v + np.float64(p[at + _class(label, row, s, blank)])
    last = steps * states - 1
    return alpha[last] if states == 1 else log_sum(alpha[last], alpha[last - 1])


@kernel
def _loss(p, label, lengths, label_lengths, out, alpha, batch, classes, width, blank):
    for b in range(batch):
        states = 2 * label_lengths[b] + 1
        out[b] = -_forward(p, label, alpha, b, lengths[b], states, batch, classes, b * width, blank)


@kernel
def _occupancy(g, p, label, lengths, label_lengths, out, alpha, beta, batch, classes, width, blank):
    """Minus g times the occupancies, added to `out`; nothing where the loss is infinite."""
    for b in range(batch):
        row, steps, states = b * width, lengths[b], 2 * label_lengths[b] + 1
        z = _forward(p, label, alpha, b, steps, states, batch, classes, row, blank)
        if z == -np.inf:
            continue
        for s in range(states):
            beta[s] = 0.0 if s >= states - 2 else -np.inf
        for k in range(steps):
            t = steps - 1 - k
            at = (t * batch + b) * classes
            for s in range(states):
                c = at + _class(label, row, s, blank)
                share = np.exp(alpha[t * states + s] + beta[s] - z)
                out[c] -= g[b] * share
                beta[s] += np.float64(p[c])
            # In place from the front: a state's successors are behind it.
            for s in range(states):
                v = beta[s]
                if s + 1 < states:
                    v = log_sum(v, beta[s + 1])
                if s + 2 < states and _skips(label, row, s + 2):
                    v = log_sum(v, beta[s + 2])
                beta[s] = v


@structured("_ctc", method=False)
def _ctc(data, label, lengths, label_lengths, blank=REQUIRED):
    """The loss of log-probabilities (T, n, k); labels (n, l) and lengths are int64 and in range."""
    return Spec((data._shape[1],), data._kind.dtype, blank=blank)


@structured("_ctc_gradient", method=False)
def _ctc_gradient(g, data, label, lengths, label_lengths, blank=REQUIRED):
    """The cotangent of ``_ctc``'s data."""
    return Spec(data._shape, data._kind.dtype, blank=blank)


def _arrays(label: NDArray, lengths: NDArray, label_lengths: NDArray) -> list:
    # A kernel must not be given a buffer without elements to index.
    return [label._buf if label.size else np.zeros(1, np.int64), lengths._buf, label_lengths._buf]


@_ctc.run
def _(data, label, lengths, label_lengths, out, *, blank):
    (steps, batch, classes), width = data._shape, label._shape[1]
    alpha = np.empty(steps * (2 * width + 1))
    given = _arrays(label, lengths, label_lengths)
    _loss(data._buf, *given, out._buf, alpha, batch, classes, width, blank)


@_ctc.pullback
def _(g, data, label, lengths, label_lengths, y, blank):
    if state.recording:
        return [_by_operators(g, data, label, lengths, label_lengths, y, blank), None, None, None]
    return [_ctc_gradient(g, data, label, lengths, label_lengths, blank=blank), None, None, None]


@_ctc_gradient.run
def _(g, data, label, lengths, label_lengths, out, *, blank):
    (steps, batch, classes), width = data._shape, label._shape[1]
    alpha, beta = np.empty(steps * (2 * width + 1)), np.empty(2 * width + 1)
    given = _arrays(label, lengths, label_lengths)
    out._buf.fill(0)
    _occupancy(g._buf, data._buf, *given, out._buf, alpha, beta, batch, classes, width, blank)


def _moved(x: NDArray, by: int) -> NDArray:
    """``x[:, s - by]`` at place s, never where there is none."""
    n, states = x.shape
    if abs(by) >= states:
        return _constant(np.full(x.shape, _NEVER), x)
    rest = _constant(np.full((n, abs(by)), _NEVER), x)
    if by > 0:
        return concat(rest, slice_axis(x, axis=1, begin=0, end=states - by), dim=1)
    return concat(slice_axis(x, axis=1, begin=-by, end=states), rest, dim=1)


def _constant(values: np.ndarray | NDArray, like: NDArray) -> NDArray:
    return arrayed(values, like._kind.dtype, like)


def _path(labels: np.ndarray, ends: np.ndarray, blank: int) -> np.ndarray:
    """The classes e_s, blanks after the end."""
    places = np.arange(2 * labels.shape[1] + 1)
    path = np.full((len(labels), len(places)), blank)
    path[:, 1::2] = np.where(places[1::2] < 2 * ends[:, None], labels, blank)
    return path


def _at_path(path: np.ndarray, classes: int) -> np.ndarray:
    return (np.arange(len(path))[:, None] * classes + path).reshape(-1)


def _skipping(path: np.ndarray, blank: int) -> np.ndarray:
    skips = np.full(path.shape, _NEVER)
    skips[:, 2:][(path[:, 2:] != blank) & (path[:, 2:] != path[:, :-2])] = 0
    return skips


def _last_places(path: np.ndarray, ends: np.ndarray) -> np.ndarray:
    places, ends = np.arange(path.shape[1]), ends[:, None]
    return np.where((places <= 2 * ends) & (places >= 2 * ends - 1), 0, _NEVER)


def _before_end(lengths: np.ndarray, steps: int) -> np.ndarray:
    return np.arange(steps)[:, None] < lengths


def _counted(lengths: np.ndarray, y: np.ndarray, steps: int) -> np.ndarray:
    return _before_end(lengths, steps) & (y < np.inf)


def _by_operators(g, data, label, lengths, label_lengths, y, blank) -> NDArray:
    """Minus g times the occupancies."""
    steps, batch, classes = data.shape
    states = 2 * label.shape[1] + 1
    shape = (batch, states)
    path = computed(_path, label, label_lengths, shape=shape, blank=blank)
    index = computed(_at_path, path, shape=(batch * states,), classes=classes)
    skip = _constant(computed(_skipping, path, shape=shape, dtype=float64, blank=blank), data)
    skip_from = _moved(skip, -2)
    p = reshape(take_axis(reshape(data, (steps, batch * classes)), index, 1), (steps, batch, states))
    p_t = unstacked(maximum(p, _NEVER))

    alpha = [p_t[0] + _constant(np.where(np.arange(states) < 2, 0, _NEVER) + np.zeros(shape), data)]
    for t in range(1, steps):
        a = alpha[-1]
        alpha.append(p_t[t] + logaddexp(logaddexp(a, _moved(a, 1)), _moved(a, 2) + skip))
    final = _constant(computed(_last_places, path, label_lengths, shape=shape, dtype=float64), data)
    going = computed(_before_end, lengths, shape=(steps, batch), dtype=bool_, steps=steps)
    beta = [final]
    for t in range(steps - 2, -1, -1):
        b = beta[-1] + p_t[t + 1]
        b = logaddexp(logaddexp(b, _moved(b, -1)), _moved(b, -2) + skip_from)
        inside = going[t + 1]
        whole = isinstance(inside, np.ndarray) and inside.all()
        beta.append(b if whole else where(_constant(inside.reshape((batch, 1)), data), b, final))
    beta.reverse()
    paths = alpha[0] + beta[0]
    z = slice_axis(paths, axis=1, begin=0, end=1)
    if states > 1:
        z = logaddexp(z, slice_axis(paths, axis=1, begin=1, end=2))
    counts = computed(_counted, lengths, y, shape=(steps, batch), dtype=bool_, steps=steps)
    exponent = stack(*alpha, axis=0) + stack(*beta, axis=0) - reshape(z, (1, batch, 1))
    share = exp(where(_constant(counts.reshape((steps, batch, 1)), data), exponent, _NEVER)) * reshape(g, (1, batch, 1))
    total = add_axis(reshape(share, (steps, batch * states)), index, 1, batch * classes)
    return negative(reshape(total, data.shape))


# What users call.


def _brute(data, label, data_lengths=None, label_lengths=None, **attrs):
    """By the definition: the probabilities of all class sequences that give the label."""
    steps, batch, classes = data.shape
    probabilities = np.exp(data) / np.exp(data).sum(-1, keepdims=True)
    blank = classes - 1 if attrs.get("blank_label") == "last" else 0
    out = []
    for b in range(batch):
        n = steps if data_lengths is None else int(data_lengths[b])
        row = [int(v) for v in label[b]]
        pad = -1 if blank else 0
        length = [*row, pad].index(pad) if label_lengths is None else int(label_lengths[b])
        total = 0.0
        for path in np.ndindex(*(classes,) * n):
            kept = [k for i, k in enumerate(path) if k != blank and (i == 0 or path[i - 1] != k)]
            if kept == row[:length]:
                total += np.prod([probabilities[t, b, k] for t, k in enumerate(path)])
        out.append(-np.log(total) if total else np.inf)
    return np.array(out).astype(data.dtype)


def _labels(*rows: list) -> Input:
    return Input(values=rows, dtype="float32")


def _counts(given, use: bool, which: str, n: int, least: int, most: int) -> Any:
    """The lengths, checked; None if they do not count."""
    if (given is not None) != bool(use):
        raise AttrError(f"CTCLoss: {which} and use_{which}=True go together; give both or neither")
    if given is None:
        return None
    counts = integers(as_array(given, "CTCLoss", which), "CTCLoss")
    if counts.shape != (n,):
        raise ShapeError(f"CTCLoss: {which} must have shape ({n},), one per sequence of data, got {counts.shape}")
    return computed(_within, counts, shape=(n,), which=which, least=least, most=most)


def _within(counts: np.ndarray, which: str, least: int, most: int) -> np.ndarray:
    wrong = (counts < least) | (counts > most)
    if wrong.any():
        raise RangeError(f"CTCLoss: {which} must be in {least} to {most}, got {counts[wrong][0]}")
    return counts


def _until(labels: np.ndarray, pad: int) -> np.ndarray:
    """How many labels come before the padding."""
    return np.logical_and.accumulate(labels != pad, axis=1).sum(axis=1)


def _used(labels: np.ndarray, ends: np.ndarray, classes: int, blank: int) -> np.ndarray:
    """The labels, checked."""
    used = labels[np.arange(labels.shape[1]) < ends[:, None]]
    wrong = (used < 0) | (used >= classes) | (used == blank)
    if wrong.any():
        low, high, side = (1, classes - 1, "first") if blank == 0 else (0, classes - 2, "last")
        raise RangeError(
            f"CTCLoss: labels must be in {low} to {high} for {classes} classes with the blank {side}, got "
            f"{used[wrong][0]}"
        )
    return labels


@composite("CTCLoss", aliases=("ctc_loss",), samples=sample_table(
    _brute,
    [(3, 2, 3), _labels([1, 2], [2, 0])], [(2, 1, 2), _labels([0, -1]), {"blank_label": "last"}],
    ulp=64, order=2, ints=False,
))  # fmt: skip
def CTCLoss(
    data,
    label,
    data_lengths=None,
    label_lengths=None,
    use_data_lengths=False,
    use_label_lengths=False,
    blank_label="first",
):
    """Minus the logarithm of the probability of each label sequence, all its alignments with the data added up.

    An alignment gives every step a class: a label, repeated or not, or the blank; equal labels in succession have
    a blank between them (A. Graves et al., Connectionist temporal classification, 2006). The classes' probabilities
    are the softmax of `data`, independent from step to step.

    Parameters
    ----------
    data : NDArray
        Scores before softmax, shape (time, batch, classes), of a floating dtype.
    label : NDArray
        Class numbers, shape (batch, longest label); padded, unless `label_lengths` are used, with 0 for a blank
        ``'first'``, with -1 for ``'last'``. Not differentiated.
    data_lengths : NDArray, optional
        Shape (batch,): the steps that count, 1 to time.
    label_lengths : NDArray, optional
        Shape (batch,): the labels that count; may be 0.
    use_data_lengths, use_label_lengths : bool
        Must be true for these to count.
    blank_label : {'first', 'last'}
        The blank is class 0, or the last class. Labels are the other classes' numbers.

    Returns
    -------
    NDArray
        Shape (batch,). Infinite, with gradient 0, where a label is too long for its data.

    Raises
    ------
    DTypeError, ShapeError, AttrError
        For data that are not floating, shapes that do not fit, another `blank_label`, or lengths without ``use_``.
    IndexError
        For labels or lengths out of range.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.exp(-nd.CTCLoss(nd.zeros((2, 1, 2)), nd.array([[1]]))).tolist()
    [0.75]
    """
    data, label = as_array(data, "CTCLoss"), as_array(label, "CTCLoss", "label")
    if not data._kind.dtype.is_float:
        raise DTypeError(f"CTCLoss: data must be of a floating dtype, got {data._kind.dtype}; use astype first")
    if blank_label not in ("first", "last"):
        raise AttrError(f"CTCLoss: blank_label must be 'first' or 'last', got {blank_label!r}")
    if data.ndim != 3 or 0 in (data.shape[0], data.shape[2]):
        raise ShapeError(f"CTCLoss: data must have shape (time, batch, classes), with some of each, got {data.shape}")
    steps, batch, classes = data.shape
    if label.ndim != 2 or label.shape[0] != batch:
        raise ShapeError(
            f"CTCLoss: label must have shape ({batch}, longest label) for data {data.shape}, got {label.shape}"
        )
    labels = integers(label, "CTCLoss")
    blank, pad = (0, 0) if blank_label == "first" else (classes - 1, -1)
    ends = _counts(label_lengths, use_label_lengths, "label_lengths", batch, 0, labels.shape[1])
    if ends is None:
        ends = computed(_until, labels, shape=(batch,), pad=pad)
    lengths = _counts(data_lengths, use_data_lengths, "data_lengths", batch, 1, steps)
    if lengths is None:
        lengths = np.full(batch, steps)
    labels = computed(_used, labels, ends, shape=label.shape, classes=classes, blank=blank)
    inside = computed(_before_end, lengths, shape=(steps, batch), dtype=bool_, steps=steps)
    if isinstance(inside, NDArray) or not inside.all():
        # What does not count may be anything, NaN included, and has gradient 0.
        data = where(_constant(inside.reshape((steps, batch, 1)), data), data, 0.0)
    constants = [arrayed(v, int64, data) for v in (labels, lengths, ends)]
    if data._kind.dtype.name == "float16":
        wide = cast(data, data._kind.of(float32))
        return cast(_ctc(log_softmax(wide), *constants, blank=blank), data._kind)
    return _ctc(log_softmax(data), *constants, blank=blank)
