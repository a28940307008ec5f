r"""Recurrent networks: several layers, one or two directions, of four kinds of cell.

The maths. A layer in one direction turns x_t (t = 0 .. T-1) into hidden states h_t from a given h_(-1). With
s_t = h_(t-1) Wᵀ, and with a_t the input's share x_t Vᵀ plus biases, all rows::

    rnn    h_t = f(a_t + s_t), f relu or tanh
    lstm   (i, f, u, o) = (σ, σ, tanh, σ)(a_t + s_t);  c_t = f c_(t-1) + i u;  h_t = o tanh(c_t)
    gru    (r, z) = σ(a_t + s_t);  u = tanh(a_t + r (s_t + b));  h_t = (1 - z) u + z h_(t-1)

(S. Hochreiter and J. Schmidhuber, Long short-term memory, 1997; K. Cho et al., Learning phrase representations using
RNN encoder-decoder, 2014, with the reset gate behind the product.) a is one product over all of time, made outside.
The rule goes backwards through time: p_t, the cotangent of the preactivation, follows from h_t's cotangent
g_t + p_(t+1) W, and W's is Σ p_tᵀ h_(t-1). It is written with operators that read the h (and c) the operator itself
returned; where nothing records, one kernel gives all p.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from ..arrays.ndarray import NDArray, wrap
from ..autodiff.state import state as flags
from ..core.dtypes import float32
from ..core.shapes import Shape, size
from ..errors import AttrError, ShapeError
from ..operators.cast import cast, unify
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import Spec, composite, structured
from . import recurrent_device as on_device
from . import recurrent_kernels as raw
from .creation import zeros_like
from .dropout import Dropout
from .join import concat, pieces, stack, unstacked
from .linear import matmul
from .reduce import sum_
from .sequence import SequenceLast, SequenceMask, SequenceReverse
from .shape import expand_dims, reshape
from .slices import flip, slice_axis
from .unary import sigmoid, tanh

__all__ = ["RNN"]

_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


# What the three families share.


def _before(first: NDArray, states: NDArray) -> NDArray:
    """What each step started from: `first`, then all states but the last."""
    head = expand_dims(first, axis=0)
    return head if len(states) == 1 else concat(head, slice_axis(states, axis=0, begin=0, end=-1), dim=0)


def _product(x: NDArray, w: NDArray, transpose: bool = False) -> NDArray:
    """``x · w`` over the last axis of `x`, or ``x · wᵀ``."""
    rows = reshape(x, (1, size(x.shape[:-1]), x.shape[-1]))
    y = matmul(rows, reshape(w, (1, *w.shape)), transpose_b=transpose)
    return reshape(y, (*x.shape[:-1], y.shape[-1]))


def _weight_share(p: NDArray, before: NDArray) -> NDArray:
    """Σ p_tᵀ h_(t-1): the weights' cotangent."""
    rows = [reshape(v, (1, size(v.shape[:-1]), v.shape[-1])) for v in (p, before)]
    return reshape(matmul(*rows, transpose_a=True), (p.shape[-1], before.shape[-1]))


def _gates(a: NDArray, count: int) -> list[NDArray]:
    n = a.shape[-1] // count
    return [slice_axis(a, axis=-1, begin=k * n, end=(k + 1) * n) for k in range(count)]


def _wide(*arrays: NDArray) -> list[NDArray]:
    """float16 as float32, for kernels called outside an operator."""
    return [cast(x, x._kind.of(float32)) if x._kind.dtype.name == "float16" else x for x in arrays]


def _zeros(like: NDArray, shape: Shape) -> NDArray:
    buf = like._kind.empty(size(shape), like._kind.storage)
    buf.fill(0)
    return wrap(buf, shape, like._kind)


def _buffers(*arrays: NDArray) -> list:
    return [x._buf for x in arrays]


def _scratch(x: NDArray, n: int):
    return x._kind.empty(n, x._kind.storage)


def _numpy_vanilla(x, w, h, relu=False):
    out = []
    for a in x:
        h = a + h @ w.T
        h = np.maximum(h, 0) if relu else np.tanh(h)
        out.append(h)
    return np.stack(out)


@structured("_rnn_sequence", method=False, samples=sample_table(
    _numpy_vanilla, [(3, 2, 2), (2, 2), (2, 2)], [(2, 1, 2), (2, 2), (1, 2), {"relu": True}], ulp=16, ints=False
))  # fmt: skip
def _vanilla(data, weight, first, relu=False):
    """Hidden states of a plain layer in one direction; shapes (T, n, m), (m, m), (n, m)."""
    return Spec(data._shape, data._kind.dtype, relu=relu)


@_vanilla.run
def _(data, weight, first, out, *, relu):
    steps, n, m = data._shape
    if data.size:
        raw.vanilla(*_buffers(data, weight, first, out), _scratch(data, n * m), steps, n, m, int(relu))


@_vanilla.device
def _(operands, results, **attrs):
    return functools.partial(on_device.vanilla, **attrs)


@_vanilla.pullback
def _(g, data_shape, weight, first, y, relu):
    steps, n, m = data_shape
    if not (flags.recording or weight._kind.gpu):  # there, operators are what runs
        g, weight, first, y = _wide(g, weight, first, y)
        p, carry = _zeros(y, data_shape), _zeros(y, (n, m))
        if y.size:
            raw.vanilla_back(*_buffers(g, y, weight, p, carry), steps, n, m, int(relu))
    else:
        slope = (y.detach() > 0) if relu else (1 - y) * (1 + y)
        carry, found = _zeros(y, (n, m)), []
        for head, f in zip(reversed(unstacked(g)), reversed(unstacked(slope)), strict=True):
            d = (head + carry) * f
            found.append(d)
            carry = _product(d, weight)
        p = stack(*found[::-1], axis=0)
    return [p, _weight_share(p, _before(first, y)), carry]


def _sigma(v):
    return 1 / (1 + np.exp(-v))


def _numpy_lstm(x, w, h, c):
    hs, cs = [], []
    for a in x:
        i, f, u, o = np.split(a + h @ w.T, 4, -1)
        c = _sigma(f) * c + _sigma(i) * np.tanh(u)
        h = _sigma(o) * np.tanh(c)
        hs.append(h)
        cs.append(c)
    return [np.stack(hs), np.stack(cs)]


@structured("_lstm_sequence", method=False, samples=sample_table(
    _numpy_lstm, [(2, 1, 8), (8, 2), (1, 2), (1, 2)], ulp=16, order=2, ints=False
))  # fmt: skip
def _lstm(data, weight, first, cell):
    """Hidden and cell states of an LSTM layer in one direction; shapes (T, n, 4 m), (4 m, m), (n, m), (n, m)."""
    shape = (*data._shape[:2], cell._shape[1])
    return Spec([shape, shape], [data._kind.dtype] * 2)


@_lstm.run
def _(data, weight, first, cell, outs):
    (steps, n, wide), m = data._shape, cell._shape[1]
    if data.size:
        raw.lstm(*_buffers(data, weight, first, cell, *outs), _scratch(data, n * wide), steps, n, m)


@_lstm.device
def _(operands, results):
    return on_device.lstm


@_lstm.pullback
def _(g, data, weight, first, cell, y0, y1):
    steps, n, m = y0.shape
    if not (flags.recording or weight._kind.gpu):  # there, operators are what runs
        gh, gc, data, weight, first, cell, y0, y1 = _wide(*g, data, weight, first, cell, y0, y1)
        before = _before(first, y0)
        s = _product(before, weight, True)
        p, carry, memory = _zeros(s, s.shape), _zeros(s, (n, m)), _zeros(s, (n, m))
        if s.size:
            raw.lstm_back(*_buffers(gh, gc, data, s, cell, y1, weight, p, carry, memory), steps, n, m)
        return [p, _weight_share(p, before), carry, memory]
    before = _before(first, y0)
    parts = _gates(data + _product(before, weight, True), 4)
    i, f, o = (sigmoid(parts[k]) for k in (0, 1, 3))
    u, v = tanh(parts[2]), tanh(y1)
    # What the cotangents of h and c are multiplied by, for all of time at once.
    to_cell = o * (1 - v) * (1 + v)
    by_cell = concat(u * i * (1 - i), _before(cell, y1) * f * (1 - f), i * (1 - u) * (1 + u), dim=2)
    by_hidden = v * o * (1 - o)
    carry, memory, found = _zeros(y0, (n, m)), _zeros(y0, (n, m)), []
    columns = [reversed(unstacked(x)) for x in (*g, to_cell, by_cell, by_hidden, f)]
    for gh, gc, down, inner, outer, keep in zip(*columns, strict=True):
        dh = gh + carry
        dc = gc + memory + dh * down
        d = concat(concat(dc, dc, dc, dim=1) * inner, dh * outer, dim=1)
        found.append(d)
        carry, memory = _product(d, weight), dc * keep
    p = stack(*found[::-1], axis=0)
    return [p, _weight_share(p, before), carry, memory]


def _numpy_gru(x, w, b, h):
    out = []
    for a in x:
        (ar, az, au), (sr, sz, su) = np.split(a, 3, -1), np.split(h @ w.T, 3, -1)
        z, u = _sigma(az + sz), np.tanh(au + _sigma(ar + sr) * (su + b))
        h = (1 - z) * u + z * h
        out.append(h)
    return np.stack(out)


@structured("_gru_sequence", method=False, samples=sample_table(
    _numpy_gru, [(2, 1, 6), (6, 2), (2,), (1, 2)], ulp=16, order=2, ints=False
))  # fmt: skip
def _gru(data, weight, bias, first):
    """Hidden states of a GRU layer in one direction; shapes (T, n, 3 m), (3 m, m), (m,), (n, m)."""
    return Spec((*data._shape[:2], first._shape[1]), data._kind.dtype)


@_gru.run
def _(data, weight, bias, first, out):
    steps, n, m = out._shape
    if data.size:
        raw.gru(*_buffers(data, weight, bias, first, out), _scratch(data, n * 3 * m), steps, n, m)


@_gru.device
def _(operands, results):
    return on_device.gru


@_gru.pullback
def _(g, data, weight, bias, first, y):
    steps, n, m = y.shape
    if not (flags.recording or weight._kind.gpu):  # there, operators are what runs
        g, data, weight, bias, first, y = _wide(g, data, weight, bias, first, y)
        before = _before(first, y)
        s = _product(before, weight, True)
        p, q, carry = _zeros(s, s.shape), _zeros(s, s.shape), _zeros(s, (n, m))
        if s.size:
            buffers = _buffers(g, data, s, bias, first, y, weight, p, q, carry)
            raw.gru_back(*buffers, _scratch(s, n * m), steps, n, m)
        return [p, _weight_share(q, before), sum_(_gates(q, 3)[2], axis=(0, 1)), carry]
    before = _before(first, y)
    (ar, az, au), (sr, sz, su) = _gates(data, 3), _gates(_product(before, weight, True), 3)
    r, z, inner = sigmoid(ar + sr), sigmoid(az + sz), su + reshape(bias, (1, 1, m))
    u = tanh(au + r * inner)
    to_new = (1 - z) * (1 - u) * (1 + u)
    to_reset, to_update = to_new * inner * r * (1 - r), (before - u) * z * (1 - z)
    by_hidden = concat(to_reset, to_update, to_new * r, dim=2)
    carry, heads = _zeros(y, (n, m)), []
    for head, factors, keep in zip(*[reversed(unstacked(x)) for x in (g, by_hidden, z)], strict=True):
        d = head + carry
        heads.append(d)
        carry = _product(concat(d, d, d, dim=1) * factors, weight) + d * keep
    d = stack(*heads[::-1], axis=0)
    p = concat(d * to_reset, d * to_update, d * to_new, dim=2)
    q = concat(d, d, d, dim=2) * by_hidden
    return [p, _weight_share(q, before), sum_(_gates(q, 3)[2], axis=(0, 1)), carry]


# What users call.


def _layer(mode: str, x: NDArray, weights: Sequence[NDArray], first: NDArray, cell: NDArray | None) -> list[NDArray]:
    """All hidden states, and for an LSTM all cell states, of one layer in one direction."""
    into, within, bias, inner_bias = weights
    m = first.shape[1]
    a = _product(x, into, True)
    if mode == "gru":
        rest, new = pieces(inner_bias, sizes=(2 * m, m))
        bias = bias + concat(rest, zeros_like(new), dim=0)
        return [_gru(a + reshape(bias, (1, 1, 3 * m)), within, new, first)]
    a = a + reshape(bias + inner_bias, (1, 1, bias.size))
    if mode == "lstm":
        return _lstm(a, within, first, cell)
    return [_vanilla(a, within, first, relu=mode == "rnn_relu")]


def _packed(inputs: int, m: int, layers: int, directions: int, gates: int) -> list[Shape]:
    """The shapes in the vector of parameters: all weights, then all biases."""
    weights: list[Shape] = []
    for layer in range(layers):
        width = inputs if layer == 0 else directions * m
        weights += [(gates * m, width), (gates * m, m)] * directions
    return weights + [(gates * m,)] * (2 * directions * layers)


def _checked(name: str, x: NDArray, expected: Shape) -> NDArray:
    if x.shape != expected:
        what = f"(layers*directions, batch, state_size) = {expected}"
        raise ShapeError(f"RNN: {name} must have shape {what}, got {x.shape}")
    return x


def _whole(name: str, value, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise AttrError(f"RNN: {name} must be an integer of at least {least}, got {value!r}")
    return int(value)


def _sample(mode: str, inputs: int, m: int, layers: int, directions: int, t: int = 2) -> list:
    n = sum(map(size, _packed(inputs, m, layers, directions, _GATES[mode])))
    states = [Input((layers * directions, 1, m), -0.9, 0.9)] * (2 if mode == "lstm" else 1)
    attrs = {"state_size": m, "num_layers": layers, "bidirectional": directions == 2, "mode": mode}
    return [Input((t, 1, inputs)), Input((n,), -0.9, 0.9), *states, attrs]


def _numpy_rnn(x, parameters, first, cell=None, *, state_size, num_layers, bidirectional, mode):
    ways, m = 1 + bidirectional, state_size
    shapes = _packed(x.shape[2], m, num_layers, ways, _GATES[mode])
    parts = np.split(parameters, np.cumsum([size(s) for s in shapes])[:-1])
    arrays = [v.reshape(s) for v, s in zip(parts, shapes, strict=True)]
    for layer in range(num_layers):
        outs = []
        for way in range(ways):
            k = layer * ways + way
            v, w, b, d = *arrays[2 * k : 2 * k + 2], *arrays[2 * (ways * num_layers + k) :][:2]
            order = slice(None, None, -1 if way else 1)
            a = x[order] @ v.T + b
            if mode == "gru":
                y = _numpy_gru(a + np.concatenate([d[: 2 * m], np.zeros_like(d[2 * m :])]), w, d[2 * m :], first[k])
            elif mode == "lstm":
                y = _numpy_lstm(a + d, w, first[k], cell[k])[0]
            else:
                y = _numpy_vanilla(a + d, w, first[k], mode == "rnn_relu")
            outs.append(y[order])
        x = np.concatenate(outs, 2)
    return x


@composite("RNN", samples=sample_table(
    _numpy_rnn,
    _sample("rnn_tanh", 2, 2, 1, 1), _sample("gru", 1, 1, 2, 2), _sample("lstm", 1, 1, 1, 2, 3), ulp=64,
    order=2, ints=False,
), gradient="by the same recurrence backwards in time")  # fmt: skip
def RNN(
    data,
    parameters,
    state,
    state_cell=None,
    sequence_length=None,
    state_size=None,
    num_layers=1,
    bidirectional=False,
    mode=None,
    p=0.0,
    state_outputs=False,
    projection_size=None,
    lstm_state_clip_min=None,
    lstm_state_clip_max=None,
    lstm_state_clip_nan=False,
    use_sequence_length=False,
):
    r"""A recurrent network: layers of plain, LSTM or GRU cells, in one or both directions of time.

    With σ the logistic function, for each layer and direction, from the step before (h, c) to the next (h', c'):

    * ``'rnn_relu'``, ``'rnn_tanh'``: ``h' = f(x Vᵀ + b + h Wᵀ + d)``
    * ``'lstm'``: ``(i, f, u, o) = x Vᵀ + b + h Wᵀ + d``; ``c' = σ(f) c + σ(i) tanh(u)``; ``h' = σ(o) tanh(c')``
    * ``'gru'``: ``(r, z, u) = x Vᵀ + b`` and ``(r', z', u') = h Wᵀ + d``; ``z = σ(z + z')``;
      ``h' = (1 - z) tanh(u + σ(r + r') u') + z h``

    Layers above the first read the hidden states of the one below, both directions side by side.

    Parameters
    ----------
    data : NDArray
        Shape (time, batch, inputs).
    parameters : NDArray
        All weights and biases in one vector: for each layer, for each direction, V then W; after all of these,
        for each layer and direction, b then d. Rows are in the order of the gates above.
    state : NDArray
        Initial h, shape (layers*directions, batch, state_size).
    state_cell : NDArray, optional
        Initial c, likewise; for ``'lstm'``, and needed there.
    sequence_length : NDArray, optional
        Shape (batch,), the steps that count of each sequence, at least 1; hidden states after them are 0.
    state_size : int
        Length m of h.
    num_layers : int
    bidirectional : bool
    mode : {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'}
    p : float
        While training, dropout between layers.
    state_outputs : bool
        Also return the last states.
    projection_size, lstm_state_clip_min, lstm_state_clip_max, lstm_state_clip_nan
        Not supported: anything but the default is an error.
    use_sequence_length : bool
        Must be true for `sequence_length` to count.

    Returns
    -------
    NDArray, or list of NDArray
        Hidden states of the last layer, shape (time, batch, directions*m); with `state_outputs` a list of these,
        the last h in `state`'s full shape and, for ``'lstm'``, the last c.

    Raises
    ------
    AttrError
        For an unknown mode, sizes that are no positive integers, or what is not supported.
    ShapeError
        If the shapes are not these; for `parameters` the message has the length needed.

    Examples
    --------
    >>> from nbgrad import nd
    >>> x, h = nd.ones((3, 1, 1)), nd.zeros((1, 1, 1))
    >>> nd.RNN(x, nd.array([1, 1, 0, 0]), h, state_size=1, mode="rnn_relu").reshape(-1).tolist()
    [1.0, 2.0, 3.0]
    """
    if mode not in _GATES:
        raise AttrError(f"RNN: mode must be one of {', '.join(map(repr, _GATES))}, got {mode!r}")
    m, layers = _whole("state_size", state_size, 1), _whole("num_layers", num_layers, 1)
    if projection_size is not None:
        raise AttrError("RNN: projection_size is not supported; multiply the hidden states yourself, or leave it out")
    if lstm_state_clip_min is not None or lstm_state_clip_max is not None or lstm_state_clip_nan:
        raise AttrError("RNN: clipping of the LSTM's cell states is not supported; leave lstm_state_clip_* out")
    if not 0 <= p <= 1:
        raise AttrError(f"RNN: p must be in [0, 1], got {p!r}")
    if (state_cell is not None) != (mode == "lstm"):
        raise AttrError(f"RNN: state_cell goes with mode 'lstm', and only there; the mode is {mode!r}")
    if (sequence_length is not None) != bool(use_sequence_length):
        raise AttrError("RNN: sequence_length and use_sequence_length=True go together; give both or neither")
    given = {"data": data, "parameters": parameters, "state": state}
    if state_cell is not None:
        given["state_cell"] = state_cell
    data, parameters, state, *rest = unify([as_array(x, "RNN", k) for k, x in given.items()], "RNN", ints=False)
    if data.ndim != 3 or data.shape[0] == 0:
        raise ShapeError(f"RNN: data must have shape (time, batch, inputs) with at least one step, got {data.shape}")
    directions = 2 if bidirectional else 1
    rows = layers * directions
    shapes = _packed(data.shape[2], m, layers, directions, _GATES[mode])
    expected = sum(map(size, shapes))
    if parameters.shape != (expected,):
        raise ShapeError(
            f"RNN: parameters must have shape ({expected},) for mode {mode!r}, {data.shape[2]} inputs, state_size {m}, "
            f"{layers} layer(s) and {directions} direction(s), got {parameters.shape}"
        )
    full = (rows, data.shape[1], m)
    firsts = unstacked(_checked("state", state, full))
    cells = unstacked(_checked("state_cell", rest[0], full)) if rest else [None] * rows
    parts = pieces(parameters, sizes=tuple(map(size, shapes)))
    arrays = [reshape(v, s) for v, s in zip(parts, shapes, strict=True)]
    reverse, last, mask = _in_time(sequence_length)
    y, ends = data, []
    for layer in range(layers):
        if layer and p:
            y = Dropout(y, p=p)
        outs = []
        for k in range(layer * directions, (layer + 1) * directions):
            weights = (*arrays[2 * k : 2 * k + 2], *arrays[2 * (rows + k) : 2 * (rows + k) + 2])
            back = k % directions == 1
            states = _layer(mode, reverse(y) if back else y, weights, firsts[k], cells[k])
            ends.append([last(v) for v in states] if state_outputs else [])
            outs.append(mask(reverse(states[0]) if back else states[0]))
        y = outs[0] if directions == 1 else concat(*outs, dim=2)
    return [y, *[stack(*v, axis=0) for v in zip(*ends, strict=True)]] if state_outputs else y


def _in_time(lengths: NDArray | None) -> tuple[Callable, Callable, Callable]:
    """Functions of arrays over time: reversed, the last step, zero after the end."""
    if lengths is None:
        return lambda x: flip(x, axis=0), SequenceLast, lambda x: x
    return (
        lambda x: SequenceReverse(x, lengths, use_sequence_length=True),
        lambda x: SequenceLast(x, lengths, use_sequence_length=True),
        lambda x: SequenceMask(x, lengths, use_sequence_length=True),
    )
