"""What names axes: an axis twice, axes that are not there and what is no integer are refused, by every operator."""

import inspect

import numpy as np
import pytest

from nbgrad import nd
from nbgrad.core.registry import operators
from nbgrad.errors import NBGradError

NAMES = {"axis", "axes", "dim", "axis1", "axis2", "dim1", "dim2", "lhs_axes", "rhs_axes"}
#: An axis twice has a meaning here: shifts add up, as in NumPy, and one axis of each operand.
TWICE = {"roll", "tensordot"}
#: Read for arrays of more axes alone, as NumPy does.
SOMETIMES = {("diag", 1)}

PARAMETERS = [
    (entry.name, name)
    for entry in operators.values()
    if not entry.name.startswith("_")
    for name in inspect.signature(entry.call).parameters
    if name in NAMES
]


def calls(operator, name):
    """Every sample of an operator: arrays, attributes, and the most axes of an operand."""
    entry = operators[operator]
    for sample in entry.samples:
        arrays = [nd.array(a) for a in sample.draw("float64")]
        ndim = max([a.ndim for a in arrays])
        if (operator, ndim) not in SOMETIMES:
            yield arrays, {k: v for k, v in sample.attrs.items() if k != name}, ndim


def refused(operator, name, value):
    tried = 0
    for arrays, attrs, ndim in calls(operator, name):
        with pytest.raises(NBGradError, match=":"):  # of what, and what was given
            operators[operator].call(*arrays, **attrs, **{name: value(ndim) if callable(value) else value})
            pytest.fail(f"{operator} takes {name}={value!r}")
        tried += 1
    assert tried


def test_it_finds_the_operators():
    found = {operator for operator, _ in PARAMETERS}
    assert len(found) > 50 and found >= {"sum", "flip", "squeeze", "transpose", "expand_dims", "concat", "take", "roll"}


@pytest.mark.parametrize(
    "value",
    [0.5, 1.0, np.float64(0), "a", (0.5,), ((0,),), {0}, nd.array([0.5]), np.array([[0]]), True, (True,)],
    ids=repr,
)
def test_what_is_no_integer(value):
    for operator, name in PARAMETERS:
        refused(operator, name, value)


@pytest.mark.parametrize("make", [lambda n: n + 3, lambda n: -n - 4, lambda n: (n + 3,)], ids=["high", "low", "tuple"])
def test_axes_that_are_not_there(make):
    for operator, name in PARAMETERS:
        refused(operator, name, make)


@pytest.mark.parametrize("make", [lambda n: (0, 0), lambda n: [0, 0], lambda n: (0, -max(n, 1)), lambda n: (0, 1, 0)])
def test_an_axis_twice(make):
    for operator, name in [p for p in PARAMETERS if p[0] not in TWICE]:
        for arrays, attrs, _ in calls(operator, name):
            n = arrays[-1 if name == "rhs_axes" else 0].ndim
            with pytest.raises(NBGradError):
                operators[operator].call(*arrays, **attrs, **{name: make(n)})
                pytest.fail(f"{operator} takes {name}={make(n)}")


@pytest.mark.parametrize("axis", [(0, 0), (0, -2), [1, 1]])
def test_the_message_says_what_was_given(axis):
    with pytest.raises(ValueError, match=r"flip: axis [\(\[].*[\)\]] names one of 2 axes twice"):
        nd.ones((2, 3)).flip(axis=axis)
    with pytest.raises(ValueError, match="twice"):
        nd.tensordot(nd.ones((2, 3)), nd.ones((2, 3)), axes=(axis, axis))


def test_sequences_of_axes():
    x = nd.ones((1, 2, 1))
    for axes in ((0, 2), [0, -1], range(0, 3, 2), np.array([0, 2])):
        assert x.squeeze(axis=axes).shape == (2,) and x.sum(axis=axes).shape == (2,)
    assert x.sum(axis=np.int64(1)).shape == x.sum(axis=nd.array(1, dtype="int32")).shape == (1, 1)


@pytest.mark.parametrize(("shift", "axis"), [((1, 2), 0), (1, (0, 1)), ((1,), (0, 1)), (0.5, 0), ("a", None)])
def test_shifts(shift, axis):
    with pytest.raises(ValueError, match="roll: a shift"):
        nd.ones((2, 3)).roll(shift, axis)
    assert nd.arange(3).roll((1, 1), (0, -1)).tolist() == [1, 2, 0]


def test_what_equals_an_integer_is_refused_after_it():
    """Calls are planned once for equal attributes: True and 1.0 are none of 1, in tuples neither."""
    x = nd.array(np.arange(4.0).reshape(2, 2))
    for f in (nd.sum, nd.norm, nd.max):
        f(x, axis=(1,)), f(x, axis=(0, 1))
        for axis in ((True,), (1.0,), (False, True), (0, 1.0)):
            with pytest.raises(NBGradError, match="axis"):
                f(x, axis=axis)
    nd.transpose(x, axes=(1, 0))
    with pytest.raises(NBGradError, match="axis must be an integer"):
        nd.transpose(x, axes=(True, False))
