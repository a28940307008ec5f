"""What a traced function cannot do: errors that say what to do instead, and nothing left changed behind them."""

import pickle

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.autodiff.state import state
from nbgrad.errors import AttrError, RangeError, TraceError
from nbgrad.ir.graph import current

OUTSIDE = nd.ones(3)


def assign(x):
    x[:] = 2


def assign_element(x):
    x[0] = 2


def assign_outside(x):
    OUTSIDE[:] = 2


def assign_traced_outside(x):
    OUTSIDE[:] = x


def add_in_place(x):
    x += 1


def add_in_place_to_a_result(x):
    y = x * 2
    y -= x


def copy_out(x):
    x.copyto(OUTSIDE)


def attach(x):
    x.attach_grad()


def attach_outside(x):
    OUTSIDE.attach_grad()


def backward(x):
    with autograd.record():
        y = nd.sum(x * x)
    y.backward()


def grad(x):
    with autograd.record():
        y = nd.sum(x * x)
    return autograd.grad(y, [x])


WRITES = {
    "assignment": (assign, assign_element, assign_outside, assign_traced_outside, copy_out),
    "in-place add": (add_in_place,),
    "in-place subtract": (add_in_place_to_a_result,),
    "sin": (lambda x: nd.sin(x, out=OUTSIDE), lambda x: nd.sin(x, out=x)),
    "attach_grad": (attach, attach_outside),
    "mark_variables": (lambda x: autograd.mark_variables(x, nd.zeros(3)),),
    "backward": (backward,),
    "autograd.grad": (grad,),
    "sgd_update": (lambda x: nd.sgd_update(OUTSIDE, x, lr=0.1), lambda x: nd.sgd_update(x, x, lr=0.1, out=x)),
    "adam_update": (lambda x: nd.adam_update(OUTSIDE, x, nd.zeros(3), nd.zeros(3), lr=0.1),),
}

NUMBERS = [
    lambda x: x if x[0] > 0 else -x,
    lambda x: x * float(x[0]),
    lambda x: range(int(x[0])),
    lambda x: [1, 2][nd.cast(x[0], dtype="int32")],
    lambda x: x.asnumpy(),
    lambda x: x[0].asscalar(),
    lambda x: nd.sum(x).item(),
    lambda x: x.tolist(),
    lambda x: np.asarray(x),
    lambda x: str(x),
    lambda x: nd.array([x[0], x[1]]),
    lambda x: pickle.dumps(x),
    lambda x: x.to_dlpack_for_read(),
]


def rejected(function, match, error=TraceError):
    before = state.recording, state.training, current.graph, current.numbers
    x = nd.array([1.0, 2.0, 3.0])
    with pytest.raises(error, match=match):
        nb.jit(function)(x)
    assert (state.recording, state.training, current.graph, current.numbers) == before
    assert x.tolist() == [1, 2, 3] and OUTSIDE.tolist() == [1, 1, 1]
    assert OUTSIDE.grad is None


@pytest.mark.parametrize("what, function", [(name, f) for name, functions in WRITES.items() for f in functions])
def test_writes(what, function):
    rejected(function, rf"^{what}.*: a traced function writes into an array .*compute a new one")


@pytest.mark.parametrize("function", NUMBERS)
def test_numbers_that_are_not_there(function):
    rejected(function, r"asks for the numbers in an array .*nd\.where .*static_argnames")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nd.contrib.boolean_mask(x, x > 1),
        lambda x: x[nd.cast(x > 1, dtype="bool")],
        lambda x: nd.bincount(nd.cast(x, dtype="int32")),
    ],
)
def test_shapes_that_depend_on_numbers(function):
    rejected(function, r"the shape of the result depends on the numbers in .*nd\.where")


def test_other_exceptions_pass_and_leave_nothing_behind():
    def fails(x):
        with autograd.record(), autograd.train_mode():
            return nd.sin(x) / 0 + {}["missing"]

    rejected(fails, "missing", KeyError)
    rejected(nb.grad(fails), "missing", KeyError)
    assert nb.jit(nd.sin)(nd.zeros(2)).tolist() == [0, 0]


@pytest.mark.parametrize("use", [lambda y: y + 1, lambda y: y.asnumpy(), repr, nd.sum])
def test_arrays_kept_from_a_trace(use):
    kept = []

    def keeps(x):
        kept.append(x * 2)
        return x

    nb.jit(keeps)(nd.ones(2))
    with pytest.raises(TraceError, match=r"used after the trace.*return it from the function"):
        use(kept[0])
    with pytest.raises(TraceError, match="used after the trace"):
        nb.jit(lambda x: x + kept[0])(nd.ones(2))


def test_what_indices_and_lengths_must_be_is_checked_at_every_call():
    taken = nb.jit(lambda x, i: nd.take(x, i, mode="raise"))
    x = nd.array([5.0, 6.0, 7.0])
    assert taken(x, nd.array([0, -1])).tolist() == [5, 7]
    with pytest.raises(RangeError, match="index 3 is out of range"):
        taken(x, nd.array([0, 3]))
    assert taken(x, nd.array([1, 1])).tolist() == [6, 6]
    last = nb.jit(lambda x, n: nd.SequenceLast(x, n, use_sequence_length=True))
    assert last(nd.array([[1, 2], [3, 4]]), nd.array([1, 2])).tolist() == [1, 4]
    with pytest.raises(RangeError, match="length 3 is not in 1 to 2"):
        last(nd.array([[1, 2], [3, 4]]), nd.array([1, 3]))
    drawn = nb.jit(lambda p: nd.random.poisson(p))
    with pytest.raises(AttrError, match="lam must be finite"):
        drawn(nd.array([1.0, -1.0]))


def test_indices_from_outside_are_read_at_every_call():
    index = nd.array([0, 1])
    for function in (lambda x: nd.take(x, index), lambda x: x[index], lambda x: nd.pick(x, index)):
        index[:] = nd.array([0, 1])
        x = nd.array([[1.0, 2.0], [3.0, 4.0]])
        compiled = nb.jit(function)
        assert compiled(x).tolist() == function(x).tolist()
        index[:] = nd.array([1, 0])
        assert compiled(x).tolist() == function(x).tolist()


def test_devices_mean_nothing_to_a_traced_array():
    x = nd.ones(2)
    moved = nb.jit(lambda x: x.as_in_context(nb.cpu(0)) + x.copyto(nb.cpu(0)) + nd.zeros(2, ctx=x.ctx))
    assert moved(x).tolist() == [2, 2]
