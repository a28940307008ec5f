"""Gradients come in the order of the parameters, and arguments are passed as in a call of the function itself."""

import inspect
import os
from enum import IntEnum
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_programs import uncompiled
from random_loops import function

import nbgrad as nb
from nbgrad.errors import AttrError, DTypeError

EXAMPLES = int(os.environ.get("NBGRAD_EXAMPLES", "60"))


@pytest.fixture(autouse=True)
def run_by_python():
    with uncompiled():
        yield


def advance(u, c, dt, dx):
    total = 0.0
    for i in range(1, u.size):
        total += c * dt / dx * (u[i] - u[i - 1]) ** 2
    return total


U = np.array([1.0, 3.0, 4.0])


def test_an_int_has_its_place():
    adj = nb.adjoint(advance)
    value, gradients = adj.value_and_grad(U, 1.0, 0.1, 2.0)
    again, others = adj.value_and_grad(U, 1.0, 0.1, 2)
    assert again == value and len(gradients) == len(others) == 4
    assert others[3] is None and others[1:3] == gradients[1:3] and gradients[3] == pytest.approx(-0.125)
    np.testing.assert_array_equal(others[0], gradients[0])
    for _ in range(2):  # the second call takes the fast path
        assert [g is None for g in adj.value_and_grad(U, True, 0.1, 2)[1]] == [False, True, False, True]
    assert [g is None for g in adj.value_and_grad(np.arange(3), np.int64(1), np.bool_(True), 2)[1]] == [True] * 4


@pytest.mark.parametrize("checkpoint", [None, 2, "auto"])
def test_every_form_has_the_same_places(checkpoint):
    adj = nb.adjoint(advance, checkpoint=checkpoint)
    pull = adj.vjp(U, 1, 0.1, 2.0)
    once, twice, at_once = pull(1.0), pull(1.0), adj.value_and_grad(U, 1, 0.1, 2.0)[1]
    for found in (once, twice, at_once):
        assert len(found) == 4 and found[1] is None
        np.testing.assert_allclose(found[0], once[0])
        assert found[2:] == pytest.approx((2.5, -0.125))
    if checkpoint is None:
        product = adj.hvp((U, 1, 0.1, 2.0), (U, None, 0.5, 0))
        assert len(product) == 4 and product[1] is None and product[2] == pytest.approx(2 * 2.5)
    value, slope = nb.tangent(advance).jvp((U, 1, 0.1, 2.0), (None, 0, 1.0, 1.0))
    assert value == pytest.approx(0.25) and slope == pytest.approx(2.5 - 0.125)


def test_argnums_have_their_order():
    adj = nb.adjoint(advance, argnums=(-1, 0))
    by_dx, by_u = adj.value_and_grad(U, 1, 0.1, 2.0)[1]
    assert by_dx == pytest.approx(-0.125) and by_u.shape == (3,)
    assert adj.vjp(U, 1, 0.1, 2.0)(1.0)[0] == by_dx and adj.hvp((U, 1, 0.1, 2.0), (0.0, U))[1].shape == (3,)
    alone = nb.adjoint(advance, argnums=np.int64(3))
    for _ in range(2):
        assert alone.value_and_grad(U, 1, 0.1, 2.0)[1] == by_dx
    assert alone.vjp(U, 1, 0.1, 2.0)(1.0) == by_dx
    assert nb.adjoint(advance, argnums=()).value_and_grad(U, 1, 0.1, 2.0)[1] == ()


def test_what_has_no_gradient_cannot_be_asked_for():
    for argnums in (3, (0, 3), -1):
        for adj in (nb.adjoint(advance, argnums=argnums), nb.adjoint(advance, argnums=argnums, checkpoint=2)):
            for form in (adj.value_and_grad, adj.vjp, adj.compiled, adj.report):
                with pytest.raises(DTypeError, match=r"advance: argnums=.* by dx, which is of kind int in this call.*"):
                    form(U, 1.0, 0.1, 2)
    with pytest.raises(DTypeError, match="by mode, which has no floats in this call"):
        nb.adjoint(graded, argnums=(1,)).value_and_grad(U, "sum", 2.0)
    with pytest.raises(DTypeError, match="by where, which has no floats"):
        nb.adjoint(boxed, argnums=1).value_and_grad(U, Place(1, True))
    for wrong, text in (
        ((0, 4), r"argnums=\(0, 4\) and 4 arguments \(u, c, dt, dx\)"),
        ((1, -3), "c twice|has c twice"),
    ):
        for make in (nb.adjoint, nb.tangent):
            with pytest.raises(AttrError, match=text):
                make(advance, argnums=wrong)


def test_tangents_have_the_places_of_arguments():
    tangent = nb.tangent(advance)
    with pytest.raises(AttrError, match=r"advance: 4 tangents expected \(u, c, dt, dx\), 2 given; one per parameter"):
        tangent.jvp((U, 1, 0.1, 2), (U, 1.0))
    for wrong in (1, True, [0], "0", (0,)):
        with pytest.raises(DTypeError, match=r"c is of kind int, and .* was given in its place of the tangents"):
            tangent.jvp((U, 1, 0.1, 2.0), (U, wrong, 0.0, 0.0))
        with pytest.raises(DTypeError, match="c is of kind int"):
            nb.adjoint(advance).hvp((U, 1, 0.1, 2.0), (U, wrong, 0.0, 0.0))
    with pytest.raises(AttrError, match=r"2 directions expected \(u, dt\), 1 given; one per argnum"):
        nb.adjoint(advance, argnums=(0, 2)).hvp((U, 1, 0.1, 2.0), (U,))


class Place(NamedTuple):
    index: int
    last: bool
    scale: float | int = 1


class Level(IntEnum):
    LOW = 2


def boxed(u, where, more=(0,)):
    k, last, scale = where
    y = u[k] * scale
    if last:
        y = y * u[2]
    for v in more:
        y = y + v
    return y


def counted(k, u):
    flags = u > k
    return flags, k + 1, u[0]


def test_tangents_of_what_depends_on_no_float():
    flags, number, element = nb.tangent(counted).jvp((2, U), (None, U))[1]
    assert (number, element) == (0.0, 1.0) and flags.dtype == np.float64
    np.testing.assert_array_equal(flags, np.zeros(3))
    flags, number, element = nb.tangent(counted).jvp((2, np.arange(3)), (None, None))[1]
    np.testing.assert_array_equal(flags, np.zeros(3))
    assert (number, element) == (0.0, 0.0)
    assert nb.tangent(named).jvp((np.arange(3), 2, 1), (0, 0, 0, 0)) == (0, 0.0)


def graded(u, mode, scale, nothing=None):
    total = 0.0
    for i in range(u.size):
        total += u[i] * scale
    return total if mode == "sum" else total / u.size


def test_structures_keep_their_form():
    adj = nb.adjoint(boxed)
    _, (u_bar, where, more) = adj.value_and_grad(U, Place(1, True, 2.0), (1, (0.5)))
    np.testing.assert_array_equal(u_bar, [0.0, 8.0, 6.0])
    assert where == Place(None, None, 12.0) and more == (None, 1.0)
    assert adj.value_and_grad(U, Place(1, True))[1][1:] == (Place(None, None, None), (None,))
    assert adj.vjp(U, Place(1, True), (1,))(1.0)[1:] == (Place(None, None, None), (None,))
    assert nb.adjoint(boxed, argnums=1).value_and_grad(U, Place(1, True, 2.0))[1] == Place(None, None, 12.0)
    product = adj.hvp((U, Place(1, True, 2.0), (3,)), (U, Place(0, None, 0.0), None))
    np.testing.assert_allclose(product[0], [0.0, 8.0, 6.0])
    assert product[1:] == (Place(None, None, 24.0), (None,))
    slope = nb.tangent(boxed).jvp((U, Place(1, True, 2.0), (3,)), (None, Place(None, None, 1.0), 0))[1]
    assert slope == pytest.approx(12.0)
    with pytest.raises(DTypeError, match="boxed: where is or contains something that is not a float, and 1 was given"):
        nb.tangent(boxed).jvp((U, Place(1, True, 2.0)), (U, Place(1, None, 1.0), None))
    assert [g is None for g in nb.adjoint(graded).value_and_grad(U, "sum", 2.0)[1]] == [False, True, False, True]
    assert nb.tangent(graded).jvp((U, "mean", 3.0), (None, None, 1.0, None))[1] == pytest.approx(8 / 3)
    with pytest.raises(DTypeError, match="graded: mode is or contains something that is not a float, and 'x'"):
        nb.tangent(graded).jvp((U, "mean", 3.0), (None, "x", 1.0, None))


def named(u, /, c, *, dt=0.5, steps=2):
    total = 0.0
    for _ in range(steps):
        total += u[0] * c * dt
    return total


def test_keywords_are_those_of_a_call():
    adj = nb.adjoint(named)
    value, gradients = adj.value_and_grad(U, steps=3, c=2.0)
    assert value == pytest.approx(3.0) and gradients[1:3] == pytest.approx((1.5, 6.0)) and gradients[3] is None
    for _ in range(2):
        assert adj.value_and_grad(U, 2.0)[1][1:3] == pytest.approx((1.0, 4.0))
    assert adj.vjp(U, c=2.0, dt=1)(1.0)[1:] == (2.0, None, None)
    assert adj.compiled(U, dt=0.1, c=1.0) is adj.compiled(U, 2.0)
    assert adj.report(U, c=1.0) == {} and adj.parallel(U, c=1.0) == {}
    assert adj.hvp((U, 2.0, 0.5, 2), (U, 0.0, 0.0, None))[1] == pytest.approx(1.0)
    for wrong, text in (
        (((U, 2.0, 0.1), {}), r"named: too many positional arguments; its parameters are \(u, c, \*, dt, steps\)"),
        (((U,), {"c": 2.0, "dx": 1.0}), "named: got an unexpected keyword argument 'dx'"),
        (((), {"u": U, "c": 2.0}), "positional.only"),
        (((U, 1.0), {"c": 2.0}), "multiple values for argument 'c'"),
        (((U,), {"dt": 2.0}), "missing a required argument: 'c'"),
        (((U,), {"dt": 2.0, "q": 1}), "unexpected keyword argument 'q'"),
    ):
        for form in (adj.value_and_grad, adj.vjp, adj.compiled, adj.report, adj.parallel):
            with pytest.raises(AttrError, match=text):
                form(*wrong[0], **wrong[1])
    with pytest.raises(AttrError, match="u_bar by name"):
        nb.adjoint(adj).value_and_grad(U, 2.0, 0.5, 2, u_bar=U)


VALUES = st.one_of(
    st.floats(0.5, 2.0),
    st.integers(1, 3),
    st.booleans(),
    st.just(None),
    st.sampled_from(["", "text"]),
    st.sampled_from([np.float32(1.5), np.float64(0.5), np.int32(2), np.bool_(True), Level.LOW]),
    st.sampled_from([np.arange(1.0, 4.0), np.arange(3), np.arange(3) > 1, np.ones(3, np.float32)]),
    st.tuples(st.floats(0.5, 2.0), st.integers(1, 3)),
    st.builds(Place, st.integers(0, 2), st.booleans(), st.floats(0.5, 2.0)),
    st.tuples(st.integers(0, 2)),
)


def weighted(value):
    """The expression that a parameter p adds to the result, and its derivative, in the structure of the argument."""
    match value:
        case None | str():
            return None, None
        case Place():
            return "{p}.index * {p}.scale", Place(None, None, float(value.index))
        case (float(), int()):
            return "{p}[0] * {p}[1]", (float(value[1]), None)
        case tuple():
            return "{p}[0]", (None,)
        case np.ndarray():
            return "np.sum({p} * 2)", np.full(3, 2.0) if value.dtype.kind == "f" else None
        case bool() | int() | np.integer() | np.bool_():
            return "2 * {p}", None
    return "2 * {p}", 2.0


def same(found, expected):
    if isinstance(expected, tuple):
        return type(found) is type(expected) and all(map(same, found, expected))
    return found is None if expected is None else np.shape(found) == np.shape(expected) and np.allclose(found, expected)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), values=st.lists(VALUES, min_size=1, max_size=6))
def test_any_signature_and_any_call(data, values):
    draw = data.draw
    cuts = sorted(draw(st.tuples(*[st.integers(0, len(values))] * 2)))
    defaults = draw(st.integers(0, cuts[1]))  # index of the first positional parameter that has one
    kinds = ["only"] * cuts[0] + ["either"] * (cuts[1] - cuts[0]) + ["named"] * (len(values) - cuts[1])
    parts, terms, expected = [], ["0.0"], []
    outside = {"np": np}
    for k, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        if kind == "named" and "*" not in parts and k == cuts[1]:
            parts.append("*")
        outside[f"default{k}"] = value
        has = draw(st.booleans()) if kind == "named" else k >= defaults
        parts.append(f"p{k}=default{k}" if has else f"p{k}")
        if k + 1 == cuts[0]:
            parts.append("/")
        term, slope = weighted(value)
        terms += [term.format(p=f"p{k}")] if term else []
        expected.append(slope)
    f = function(f"def f({', '.join(parts)}):\n    return {' + '.join(terms)}\n", outside)
    signature = inspect.signature(f)
    count = draw(st.integers(cuts[0], cuts[1]))
    rest = draw(st.permutations(range(count, len(values))))
    left = [k for k in rest if signature.parameters[f"p{k}"].default is inspect.Parameter.empty or draw(st.booleans())]
    adj = nb.adjoint(f)
    call = partial(adj.value_and_grad, *values[:count], **{f"p{k}": values[k] for k in left})
    value, gradients = call()
    assert value == pytest.approx(float(f(*call.args, **call.keywords)))
    assert same(gradients, tuple(expected)), (gradients, expected, adj.source)
    assert same(adj.vjp(*call.args, **call.keywords)(1.0), tuple(expected))
    assert same(call()[1], tuple(expected))
    slope = nb.tangent(f).jvp(tuple(values), gradients)[1]
    flat = [x for e in expected for x in (e if isinstance(e, tuple) else [e]) if x is not None]
    assert slope == pytest.approx(sum(np.sum(np.square(x)) for x in flat), rel=1e-6)
