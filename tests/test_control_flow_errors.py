"""What nd.contrib's foreach, while_loop and cond say of wrong arguments, and of steps that do what they may not."""

import numpy as np
import pytest

from nbgrad import autograd, nd
from nbgrad.errors import AttrError, DTypeError, ShapeError

foreach, while_loop, cond = nd.contrib.foreach, nd.contrib.while_loop, nd.contrib.cond
X, S = nd.ones((3, 2)), nd.zeros(2)


def keep(x, s):
    return x, s


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: foreach(3, X, S), DTypeError, r"foreach: body must be a function, got 3 \(int\)"),
        (lambda: foreach(keep, X.asnumpy(), S), DTypeError, r"foreach: data must be an NDArray, got .*ndarray"),
        (lambda: foreach(keep, [X, [X, 2.0]], S), DTypeError, r"foreach: data\[1\]\[1\] must be an NDArray, got 2.0"),
        (lambda: foreach(keep, X, [S, 1]), DTypeError, r"foreach: state\[1\] must be an NDArray, got 1 \(int\)"),
        (lambda: foreach(keep, [X, nd.ones((2, 2))], S), ShapeError, "foreach: data has arrays of 3, 2 rows"),
        (lambda: foreach(keep, [], S), ShapeError, "foreach: data has no array"),
        (lambda: foreach(keep, nd.ones((0, 2)), S), ShapeError, "foreach: data has no rows"),
        (lambda: foreach(keep, nd.array(1.0), S), ShapeError, r"shape \(\), which has no rows; reshape it to \(1,\)"),
        (
            lambda: foreach(lambda x, s: x, X, S),
            DTypeError,
            r"body must return \(outputs, new_states\), got an ND",
        ),
        (lambda: foreach(lambda x, s: (x, s, s), X, S), DTypeError, "new_states.*got a tuple of 3"),
        (lambda: foreach(lambda x, s: (1.5, s), X, S), DTypeError, "foreach: output must be an NDArray, got 1.5"),
        (lambda: foreach(lambda x, s: (x, [s]), X, S), DTypeError, "foreach: state: a list was given where one array"),
        (
            lambda: foreach(lambda x, s: (x, s[0]), X, [S]),
            DTypeError,
            "foreach: state: a list is expected, got NDA",
        ),
        (lambda: foreach(lambda x, s: (x, s + s), X, [S]), ShapeError, r"foreach: state: 1 part\(s\) expected, got 2"),
        (
            lambda: foreach(lambda x, s: (x, [s[0], 1]), X, [S, S]),
            DTypeError,
            r"foreach: state\[1\] must be an",
        ),
        (
            lambda: foreach(lambda x, s: (x, [s[0], s[1].sum()]), X, [S, S]),
            ShapeError,
            r"foreach: state\[1\] is float32 of shape \(1,\) after a step and float32 of shape \(2,\) before",
        ),
        (
            lambda: foreach(lambda x, s: (x, {"a": s["a"].astype("float64")}), X, {"a": S}),
            ShapeError,
            r"foreach: state\['a'\] is float64 of shape \(2,\) after a step and float32",
        ),
        (
            lambda: foreach(lambda x, s: ([x, s], nd.concat(s, s, dim=0)), X, S),
            ShapeError,
            r"foreach: state is float32 of shape \(4,\)",
        ),
        (
            lambda: foreach(keep, X, S, checkpoint=0),
            AttrError,
            "foreach: checkpoint must be a positive number",
        ),
        (lambda: foreach(keep, X, S, checkpoint="2"), AttrError, "checkpoint must be .*, got '2'"),
        (lambda: while_loop(True, keep, [S, S], 3), DTypeError, "while_loop: cond must be a function, got True"),
        (lambda: while_loop(keep, None, [S, S], 3), DTypeError, "while_loop: func must be a function, got None"),
        (lambda: while_loop(keep, keep, [S, S]), AttrError, "while_loop: max_iterations should be specified"),
        (lambda: while_loop(keep, keep, [S, S], 0), AttrError, "max_iterations must be a positive integer, got 0"),
        (lambda: while_loop(keep, keep, [S, S], 2.5), AttrError, "max_iterations must be .*, got 2.5"),
        (lambda: while_loop(keep, keep, [S, S], np.nan), AttrError, "max_iterations must be .*, got nan"),
        (lambda: while_loop(keep, keep, [S, S], np.inf), AttrError, "max_iterations must be .*, got inf"),
        (lambda: while_loop(keep, keep, [S, S], "3"), AttrError, "max_iterations must be .*, got '3'"),
        (lambda: while_loop(keep, keep, [S, S], nd.ones(2)), AttrError, "max_iterations must be"),
        (lambda: while_loop(keep, keep, [], 3), AttrError, "loop_vars should contain at least one element"),
        (lambda: while_loop(keep, keep, 3, 3), DTypeError, r"loop_vars must be an NDArray or a list, got 3"),
        (lambda: while_loop(keep, keep, [S, 3], 3), DTypeError, r"while_loop: loop variable\[1\] must be an NDArray"),
        (lambda: while_loop(lambda x: x, lambda x: (x, x), S, 3), ShapeError, r"one number or bool, got .* \(2,\)"),
        (lambda: while_loop(lambda x: "yes", lambda x: (x, x), S, 3), DTypeError, "one number or bool, got 'yes'"),
        (lambda: while_loop(lambda x: True, lambda x: x, S, 3), DTypeError, r"func must return \(outputs, new_loop_v"),
        (
            lambda: while_loop(lambda x: True, lambda x: (x, [x, x]), S, 3),
            ShapeError,
            r"while_loop: loop variable: 1 part\(s\) expected, got 2",
        ),
        (
            lambda: while_loop(lambda x: True, lambda x: (None, x.sum()), S, 3),
            ShapeError,
            r"while_loop: loop variable\[0\] is float32 of shape \(1,\) after a step",
        ),
        (lambda: while_loop(lambda x: True, lambda x: (None, None), S, 3), DTypeError, "a list is expected"),
        (lambda: cond(nd.ones(2), int, int), ShapeError, r"cond: pred must be one number or bool, got .*\(2,\)"),
        (lambda: cond(lambda: 1, int, int), DTypeError, "cond: pred must be one number or bool"),
        (lambda: cond(1, 2, int), DTypeError, r"cond: then_func must be a function, got 2 \(int\)"),
        (lambda: cond(1, int, 2), DTypeError, "cond: else_func must be a function"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        call()


def test_outputs_that_change():
    changing = iter([nd.ones(2), nd.ones(3)])
    with pytest.raises(ShapeError, match=r"foreach: output is float32 of shape \(3,\) after a step and .* \(2,\)"):
        foreach(lambda x, s: (next(changing), s), X, S)
    forms = iter([nd.ones(2), [nd.ones(2)]])
    with pytest.raises(DTypeError, match=r"foreach: output: a list was given where one array is expected"):
        foreach(lambda x, s: (next(forms), s), X, S)


def test_an_error_in_the_body_is_raised_as_it_is():
    def body(x, s):
        raise KeyError("mine")

    for every in (None, 2):
        with autograd.record(), pytest.raises(KeyError, match="mine"):
            foreach(body, X, S, checkpoint=every)
    assert not autograd.is_recording()
