"""Results without a gradient stay in the graph and give zeros; none goes through integers."""

import gc
import weakref

import numpy as np
import pytest
from recording import marked, recorded, values

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.core.registry import operators
from nbgrad.errors import LostGradientError

SAMPLED = [pytest.param(e, e.samples[0], id=e.name) for e in operators.values() if e.samples]


def call(entry, sample, arrays):
    nb.random.seed(0)
    with autograd.record(train_mode=sample.training):
        return entry.call(*[x.copy() if k in sample.changes else x for k, x in enumerate(arrays)], **sample.attrs)


@pytest.mark.parametrize("entry, sample", SAMPLED)
def test_every_result_of_a_marked_operand_is_in_the_graph(entry, sample):
    arrays = [nd.array(a) for a in sample.draw("float64")]
    floats = [x for x in arrays if x.dtype is np.float64]
    for x in floats:
        x.attach_grad()
        x.grad[:] = 7
    if not floats:
        return
    try:
        result = call(entry, sample, arrays)
    except nb.NBGradError as err:
        assert "_update" in entry.name, f"{entry.name}: {err}"  # no derivative: refused
        return
    if "_update" in entry.name:
        with pytest.raises(nb.NBGradError, match="max_order is 0"):
            result.backward()
        return
    for y in result if isinstance(result, list | tuple) else [result]:
        y.backward(retain_graph=True)
        if not entry.differentiable:
            assert all((x.grad == 0).asnumpy().all() for x in floats)


@pytest.mark.parametrize("entry, sample", SAMPLED)
def test_no_gradient_goes_through_integers(entry, sample):
    drawn = sample.draw("float64")
    marks = [nd.array(np.round(a)) for a in drawn if a.dtype == np.float64]
    for x in marks:
        x.attach_grad()
        x.grad[:] = 7
    if not marks:
        return
    source = iter(marks)
    with autograd.record(train_mode=sample.training):
        given = [next(source).astype("int32") if a.dtype == np.float64 else nd.array(a) for a in drawn]
    try:
        result = call(entry, sample, given)
    except Exception:  # it takes no integers
        return
    for y in result if isinstance(result, list | tuple) else [result]:
        y.backward(retain_graph=True)
        assert {n for x in marks for n in x.grad.asnumpy().flat} <= {0, 7}  # 7: this result does not depend on it


HEADS = {
    "BlockGrad": lambda x: nd.BlockGrad(x) * 2,
    "zeros_like": nd.zeros_like,
    "ones_like": lambda x: nd.ones_like(x * x) + 1,
    "argsort": nd.argsort,
    "shape_array": nd.shape_array,
    "size_array": nd.size_array,
    "one_hot": lambda x: nd.one_hot(x, 4),
    "index_array": lambda x: nd.contrib.index_array(x),
    "cast": lambda x: x.astype("int32"),
    "remainder": lambda x: (x.astype("int32") % nd.array([0, 1], dtype="int32")).astype("float64"),
}


@pytest.mark.parametrize("name", HEADS)
def test_heads_without_a_gradient_give_zeros(name):
    x = marked([1.0, 2.0])
    x.grad[:] = 7
    recorded(HEADS[name], x).backward()
    assert values(x.grad) == [0, 0]
    x = marked([1.0, 2.0], "add")
    x.grad[:] = 7
    recorded(HEADS[name], x).backward()
    assert values(x.grad) == [7, 7]
    y = recorded(lambda: HEADS[name](x * 1.0).astype("float64").sum())
    assert values(autograd.grad(y, x, retain_graph=True)) == [0, 0]
    (once,) = autograd.grad(y, [x], create_graph=True)
    assert values(autograd.grad(once, x)) == [0, 0]
    f = lambda x: HEADS[name](x).astype("float64").sum()  # noqa: E731
    assert nb.grad(f)(np.array([1.0, 2.0])).tolist() == [0, 0]
    assert nb.hessian(f)(np.array([1.0, 2.0])).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("name", HEADS)
def test_what_nothing_recorded_is_still_an_error(name):
    with pytest.raises(nb.NBGradError, match="not in a computational graph"):
        recorded(HEADS[name], nd.array([1.0, 2.0])).backward()
    with pytest.raises(nb.NBGradError, match="not in a computational graph"):
        HEADS[name](marked([1.0, 2.0])).backward()


def test_a_mixture_has_the_gradient_of_the_rest():
    x, w = marked([1.0, 2.0]), marked([3.0, 4.0])
    x.grad[:] = 7
    recorded(lambda: w * nd.BlockGrad(x * x)).backward()
    assert values(x.grad) == [0, 0]
    assert values(w.grad) == [1, 4]


def test_a_state_that_is_cut_off_drops_its_history():
    x = marked([1.0])
    with autograd.record():
        y = x * 1
        history = weakref.ref(y._node)
        for _ in range(3):
            y = nd.BlockGrad(y * x)
    gc.collect()
    assert history() is None
    y.backward()
    assert values(x.grad) == [0]


def test_cutting_off_at_every_step_of_a_long_record_is_linear():
    x = marked([1.0])
    asked = []
    with autograd.record():
        y = x * 1
        for _ in range(5000):
            y = y + x
            asked.append(nd.BlockGrad(y))
    # Each looks at the steps since the one before; the numbers of all of them are on the nodes.
    assert len({id(z._node.parents[0]) for z in asked}) == 1


def test_a_history_that_was_freed_is_no_obstacle():
    w = marked([2.0])
    h = nd.ones(1, dtype="float64")
    for _ in range(3):
        with autograd.record():
            h = nd.BlockGrad(h) * w
            loss = (h * h).sum()
        loss.backward()
    assert values(w.grad) == [64]


def test_the_sum_of_squares_has_its_gradient():
    x = marked([1.0, 2.0])
    recorded(nd.multi_sum_sq, x).backward()
    assert values(x.grad) == [2, 4]


def test_an_update_while_recording_does_not_drop_gradients():
    w, g = marked([1.0]), nd.ones(1, dtype="float64")
    with autograd.record():
        with pytest.raises(LostGradientError, match=r"sgd_mom_update: .*autograd.pause"):
            nd.sgd_mom_update(w, g, nd.zeros(1, dtype="float64"), lr=0.1)
        y = nd.sgd_update(w, g, lr=0.1)
        with pytest.raises(nb.NBGradError, match="sgd_update: order 1 is asked for"):
            y.backward()
        with autograd.pause():
            nd.sgd_update(w, g, lr=0.5, out=w)
    assert values(w) == [0.5]
