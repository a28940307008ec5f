"""Reshaped arrays share elements in C order alone: arrays in another order must not be taken for ones in C order."""

import linecache

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import AttrError, TraceError

A = np.array([[0.3, 0.5], [0.9, 0.2], [0.1, 0.4]])
CUBE = np.arange(24.0).reshape(2, 3, 4) / 10


def sharing(expression, line="C[1] = a", flatten="B.ravel()"):
    """A function that writes through one of two arrays that may share elements, and reads both."""
    text = (
        f"def f(A, D, a):\n    B = {expression}\n    C = {flatten}\n    {line}\n    return np.sum(B * B) + np.sum(C)\n"
    )
    name = f"<sharing {expression} {line} {flatten}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"np": np}
    exec(compile(text, name, "exec"), scope)
    return scope["f"]


EXPRESSIONS = [
    "np.sin(A)", "2.0 * A", "A + D[0, :, :2]", "A.T.copy()", "np.zeros_like(A)", "np.zeros((2, 3))",
    "np.sum(D, axis=2)", "A.T @ A", "np.dot(A.T, A)", "np.outer(A[0], A[1])", "np.vstack((A, A))",
    "np.cumsum(A, axis=0)",
    "np.sin(A.T)", "A.T * 2", "np.copy(A.T)", "np.array(A.T)", "np.clip(A.T, 0, 1)", "np.where(A.T > 0, A.T, 0.0)",
    "np.cumsum(A.T, axis=1)", "np.diff(A.T)", "np.concatenate((A.T, A.T))", "np.zeros_like(A.T)",
    "A.T.astype(np.float64)", "np.full_like(A.T, 2.0)", "A.T + A[:, 0]", "np.einsum('ij->ji', A) * 1.0",
    "np.sum(D.T, axis=0)", "np.mean(D.T, axis=2)",
]  # fmt: skip
LINES = ["C[1] = a", "C *= a", "B[0, 1] = a", "B *= a"]


@pytest.mark.parametrize(
    "flatten", ["B.ravel()", "np.reshape(B, -1)", "np.ascontiguousarray(B).ravel()", "B.T.ravel()"]
)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_values_are_those_of_numpy_or_refused(expression, flatten):
    """They are computed where NumPy has C order, whatever is written."""
    for line in LINES:
        f = sharing(expression, line, flatten)
        expected = f(A.copy(), CUBE.copy(), 0.7)
        in_c_order = eval(expression, {"np": np, "A": A, "D": CUBE}).flags.c_contiguous
        with uncompiled():
            try:
                value = nb.adjoint(f).value_and_grad(A.copy(), CUBE.copy(), 0.7)[0]
            except TraceError as err:
                assert "Fortran order" in str(err) and "copy them before" in str(err)
                assert not in_c_order or ".T" in expression
                continue
        assert value == pytest.approx(expected)


def test_derivatives_where_elements_are_shared():
    for expression in EXPRESSIONS[:12]:
        with uncompiled():
            agrees(sharing(expression, "C *= a * C[0]"), (A, CUBE, 0.7))


def test_arguments_in_fortran_order():
    f = sharing("2.0 * A")
    adj = nb.adjoint(f)
    with uncompiled():
        for _ in range(2):  # the second call is a direct one
            adj.value_and_grad(A, CUBE, 0.7)
            for given in (np.asfortranarray(A), np.asfortranarray(A).T.copy().T):
                with pytest.raises(AttrError, match=r"A is not in C order.*ascontiguousarray\(A\)"):
                    adj.value_and_grad(given, CUBE, 0.7)
            for given in (A[::-1], A[:, ::-1], np.repeat(A, 2, axis=1)[:, ::2]):
                assert adj.value_and_grad(given, CUBE, 0.7)[0] == pytest.approx(f(given, CUBE, 0.7))
            value, _ = adj.value_and_grad(A, np.asfortranarray(CUBE), 0.7)
            assert value == pytest.approx(f(A, CUBE, 0.7))


def test_order_does_not_matter_where_nothing_is_written_later():
    def read(A, a):
        B = np.sin(A.T) * a
        B[0, 1] = a
        return np.sum(B.ravel()[1:] * B.reshape(-1)[:-1])

    for given in (A, np.asfortranarray(A)):
        with uncompiled():
            agrees(read, (given, 0.7))


def test_copies_are_in_c_order():
    def f(A, a):
        B = np.sin(A).T.copy()
        C = B.T.ravel()
        C[:2] = a
        D = np.asarray(B).ravel()
        D[0] = a * a
        return np.sum(B * B) + np.sum(C)

    with uncompiled():
        agrees(f, (A, 0.7))
