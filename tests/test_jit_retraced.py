"""Bodies of loops and branches run again for derivatives: what they read may have changed by then."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd

cond, foreach, while_loop = nd.contrib.cond, nd.contrib.foreach, nd.contrib.while_loop
POINT = np.array([1.0, 2.0])


class Holder:
    """An object with attributes."""


def _name_rebound(x):
    h = nd.sin(x)
    for _ in range(2):
        h = cond(nd.sum(x) > 0, lambda: nd.sin(h), lambda: h * 2)  # noqa: B023
    return h


def _list_that_grows(x):
    pool = [x]
    pool.append(cond(nd.sum(x) > 0, lambda: nd.sin(pool[-1]), lambda: pool[-1] * 2))
    return pool[0] * pool[-1]


def _nested_containers(x):
    held = {"h": (nd.sin(x), [x])}

    def then():
        return held["h"][0] * held["h"][1][0]

    for _ in range(2):
        held["h"] = (cond(nd.sum(x) > 0, lambda: then(), lambda: x), [x * x])
    held["h"][1][0] = x
    return held["h"][0]


def _item_that_a_loop_sets(x):
    held = {"w": nd.sin(x)}
    _, held["w"] = foreach(lambda row, h: ([], nd.tanh(h + row * held["w"])), x, x)
    return held["w"]


def _item_set_after_a_loop(x):
    held = [nd.sin(x)]
    start = [nd.array(0, dtype="int64"), x]
    _, (_, h) = while_loop(
        lambda i, h: i < 3, lambda i, h: ([], [i + 1, nd.tanh(h * held[0])]), start, max_iterations=4
    )
    held[0] = h * h
    return held[0]


def _number_in_a_list(x):
    factor = [2.0]
    y = cond(nd.sum(x) > 0, lambda: nd.sin(x) * factor[0], lambda: x)
    factor[0] = 5.0
    return y


def _nested(x):
    factor = [2.0]

    def body(row, h):
        h = cond(nd.sum(h) > 0, lambda: nd.sin(h) * factor[0] + row, lambda: h)
        return [], foreach(lambda r, g: ([], g * nd.cos(r * factor[0])), x, h)[1]

    y = foreach(body, x, x)[1]
    factor[0] = 5.0
    return y


FOLLOWED = [
    _name_rebound,
    _list_that_grows,
    _nested_containers,
    _item_that_a_loop_sets,
    _item_set_after_a_loop,
    _number_in_a_list,
    _nested,
]


@pytest.mark.parametrize("function", FOLLOWED, ids=lambda f: f.__name__[1:])
def test_variables_lists_and_dicts_are_read_as_they_were(function):
    def loss(x):
        return nd.sum(function(x) * x)

    second = nb.grad(lambda x: nd.sum(nb.grad(loss)(x) * x))
    np.testing.assert_allclose(nb.jit(loss)(POINT), loss(nd.array(POINT, dtype="float64")).item(), 1e-12)
    np.testing.assert_allclose(nb.jit(nb.grad(loss))(POINT), nb.grad(loss)(POINT), 1e-12)
    np.testing.assert_allclose(nb.jit(second)(POINT), second(POINT), 1e-12)


def test_a_body_that_counts_its_calls():
    """It is traced once, so the counter is 1 in every step, and in the derivatives."""

    def loss(x):
        counter = [0]

        def body(row, h):
            counter[0] += 1
            return [], nd.sin(h * counter[0] + row)

        return nd.sum(foreach(body, x, x)[1] * x)

    def with_one(x):
        return nd.sum(foreach(lambda row, h: ([], nd.sin(h + row)), x, x)[1] * x)

    for derivative in (lambda f: f, nb.grad, lambda f: nb.grad(lambda x: nd.sum(nb.grad(f)(x) * x))):
        np.testing.assert_allclose(nb.jit(derivative(loss))(POINT), nb.jit(derivative(with_one))(POINT), 1e-14)


FACTOR = 1.0


def _global(x):
    global FACTOR
    FACTOR = 2.0
    y = cond(nd.sum(x) > 0, lambda: nd.sin(x) * FACTOR, lambda: x)
    FACTOR = 5.0
    return y


def _attribute(x):
    holder = Holder()
    holder.h = nd.sin(x)
    for _ in range(2):
        holder.h = cond(nd.sum(x) > 0, lambda: nd.sin(holder.h), lambda: x)
    return holder.h


def _numpy_array(x):
    factors = np.array([2.0, 3.0])
    _, y = foreach(lambda row, h: ([], h * nd.sin(row) * nd.array(factors)), x, x)
    factors[:] = 5.0
    return y


def _attribute_of_an_operator(x):
    """The operator has no graph of its own: it is compared by its attributes."""
    holder = Holder()
    holder.axis = 0
    m = nd.stack(x, x * x)
    y = cond(nd.sum(x) > 0, lambda: nd.sort(m, axis=holder.axis), lambda: m)
    holder.axis = 1
    return y * nd.array([[1.0, 2.0], [3.0, 5.0]], dtype="float64")


def _inner_loop(x):
    holder = Holder()
    holder.factor = 2.0

    def body(row, h):
        return [], foreach(lambda r, g: ([], g * nd.cos(r * holder.factor)), x, h + row)[1]

    y = foreach(body, x, x)[1]
    holder.factor = 5.0
    return y


def _inner_branch(x):
    holder = Holder()
    holder.factor = 2.0
    _, y = foreach(lambda row, h: ([], h * row + cond(nd.sum(h) > 9, lambda: h * holder.factor, lambda: h)), x, x)
    holder.factor = 5.0
    return y


REFUSED = [_global, _attribute, _numpy_array, _attribute_of_an_operator, _inner_loop, _inner_branch]


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__[1:])
def test_a_derivative_of_other_steps_is_an_error(function):
    def loss(x):
        return nd.sum(function(x))

    np.testing.assert_allclose(nb.jit(loss)(POINT), loss(nd.array(POINT, dtype="float64")).item(), 1e-12)
    with pytest.raises(nb.errors.TraceError, match=r"has changed since it was traced for its value.*local variable"):
        nb.jit(nb.grad(loss))(POINT)


INNER = {
    "branch": lambda q: cond(nd.sum(q) > 0, lambda: q * q * q, lambda: nd.sin(q)),
    "loop": lambda q: foreach(lambda row, h: ([], h * q + row), q, q)[1],
    "operator": lambda q: nd.cumsum(nd.sort(q * q)),
}
OUTER = {
    "loop": lambda body, x: foreach(lambda row, u: ([], body(u) + row), nd.zeros(2), x)[1],
    "branch": lambda body, x: cond(nd.sum(x) > 0, lambda: body(x), lambda: x),
}


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("matrix", ["jacobian", "hessian"])
def test_matrices_of_derivatives_in_what_is_retraced(inner, outer, matrix):
    """Their rows are computed by steps that run row by row."""

    def body(u):
        if matrix == "jacobian":
            return nd.dot(nb.jacobian(INNER[inner])(u), u)
        return nd.dot(nb.hessian(lambda q: nd.sum(INNER[inner](q)))(u), u)

    def loss(x):
        return nd.sum(OUTER[outer](body, x))

    np.testing.assert_allclose(nb.jit(nb.grad(loss))(POINT), nb.grad(loss)(POINT), 1e-12)


@pytest.mark.parametrize("training", [False, True])
def test_the_training_flag_is_that_of_the_call(training):
    scope = autograd.train_mode if training else autograd.predict_mode
    other = autograd.predict_mode if training else autograd.train_mode

    def loss(x):
        with scope():
            _, h = foreach(lambda row, h: ([], h + nd.Dropout(row * h, p=0.5)), nd.stack(x, x * x), x)
            h = cond(nd.sum(x) > 0, lambda: nd.Dropout(h * x, p=0.5), lambda: h)
        return nd.sum(h * x)

    with other():
        nb.random.seed(3)
        expected = nb.grad(loss)(POINT)
        nb.random.seed(3)
        np.testing.assert_allclose(nb.jit(nb.grad(loss))(POINT), expected, 1e-12)


@pytest.mark.parametrize("training", [False, True])
def test_backward_outside_of_the_scope_of_a_compiled_call(training):
    def loss(x):
        return nd.sum(foreach(lambda row, h: ([], nd.Dropout(row * h, p=0.5)), nd.stack(x, nd.Dropout(x)), x)[1] * x)

    found = []
    for function in (loss, nb.jit(loss)):
        x = nd.array(POINT, dtype="float64")
        x.attach_grad()
        nb.random.seed(3)
        with autograd.record(train_mode=training):
            y = function(x)
        y.backward(train_mode=not training)
        found.append(x.grad.asnumpy())
    np.testing.assert_allclose(*found, 1e-12)


def test_a_compiled_value_is_compared_with_the_steps_of_its_loops():
    holder = Holder()
    holder.factor = 2.0

    @nb.jit
    def f(x):
        return foreach(lambda row, h: ([], h * nd.sin(row * holder.factor)), x, x)[1]

    x = nd.array(POINT, dtype="float64")
    x.attach_grad()
    with autograd.record():
        y = f(x)
    holder.factor = 5.0
    with pytest.raises(nb.errors.TraceError, match="has changed since it was compiled"):
        y.backward()


def test_a_checkpoint_keeps_the_variables_that_it_captured():
    x = nd.array(POINT, dtype="float64")
    x.attach_grad()
    with autograd.record():
        h, factor = x, 1.0
        for _ in range(3):
            h = autograd.checkpoint(lambda v: nd.sin(v + h) * factor)(x)  # noqa: B023
            factor *= 2
        h.backward()
    kept = x.grad.asnumpy().copy()
    with autograd.record():
        h, factor = x, 1.0
        for _ in range(3):
            h = nd.sin(x + h) * factor
            factor *= 2
        h.backward()
    np.testing.assert_array_equal(kept, x.grad.asnumpy())
