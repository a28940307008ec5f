"""Names that stand for bools, integers or floats in different places: what they are in NumPy, or refused."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from random_loops import function

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([1.0, -1.0, 2.0, 4.0])
M = np.array([True, False, True, True])
K = np.array([3, 4, 7, 1])

HELPERS = """
def mask_or_half(x, c):
    if c > 0:
        return x > 0
    return x * 0.5

def normalised(u):
    length = np.sqrt(u @ u)
    if length == 0:
        return u
    return u / length

def flag_or_two(v, c):
    if c > 0:
        return v > 0
    return 2.0

"""

#: Programs in which a kind decides what NumPy does.
REFUSED = {
    "rolled": "w = x > 0\nfor i in range(n):\n    w = np.roll(w, 1) * x\nreturn np.sum(w)",
    "sorted": "w = x > 0\nt = 0.0\nfor i in range(n):\n    t += np.sum(np.sort(w) * x)\n    w = w * x\nreturn t",
    "appended": "w = x > 0.5\nfor i in range(n):\n    w = np.append(w, n)\nw = np.sort(w)\nreturn np.sum(w) * x[0]",
    "triangle": "w = np.outer(x, x) > 0\nfor i in range(n):\n    w = np.tril(w) * x\nreturn np.sum(w)",
    "full_like": "w = x > 0\nif n > 1:\n    w = w * x\nreturn np.sum(np.full_like(w, w[0]))",
    "ones_like": "w = np.exp(-x)\nif n > 1:\n    w = x > 0\nreturn np.sum((np.ones_like(w) + np.ones_like(w)) * x)",
    "zeros_like": "if n > 1:\n    w = x > 0\nelse:\n    w = np.ones_like(x)\nz = np.zeros_like(w)\nz[0] = 1\nreturn z",
    "zeros_like of integers": "w = k * 1\nif n > 5:\n    w = x * 0.3\nz = np.zeros_like(w)\nz[:] = 0.5\nreturn z @ x",
    "itself or a mask": "w = np.ones(x.size)\nif n > 1:\n    w = w if m[1] else m\nreturn np.sum((w + w) * x)",
    "a mask as indices": "w = k * 0\nif n > 1:\n    w = m if x[0] > 0 else w\nreturn x[w].sum()",
    "of helpers": "w = mask_or_half(x, 1)\nif n > 1:\n    w = mask_or_half(x, 0)\nreturn np.sum(np.roll(w, 1) * x)",
    "of a helper": "w = mask_or_half(x, x[0])\nreturn np.sum(np.roll(w, 1) * x)",
    "fractions": "if n > 1:\n    w = k * 1\nelse:\n    w = x * 1\nw[0] = 0.6\nreturn w.sum()",
    "fractions in a slice": "if n > 1:\n    w = k * 1\nelse:\n    w = np.ones(x.size)\nw[1:3] = x[1:3]\nreturn w @ x",
    "fractions in copies": "for i in range(n):\n    x = k.copy()\n    x[x != 2] = 0.1\nreturn x.sum()",
    "quotients": "w = k\nif n > 1:\n    w = x\nreturn np.sum((k // w) * x)",
    "remainders": "w = k\nif n > 1:\n    w = x\nreturn np.sum((k % w) * x)",
    "fractions, later floats": "w = np.zeros(4, int)\nfor i in range(n):\n    w[i] = 2.7\n    w = w + x\nreturn w",
    "an index that becomes floats": "w = np.arange(4)\ns = x[w].sum()\nfor i in range(n):\n    w = w + x\nreturn w * s",
    "a result": "for i in range(n):\n    x = ~(x > 0.1)\nreturn x",
    "a number of two kinds": "u = (x[0] > 0) if n > 1 else 2.0\nreturn np.array([u, x[1] > 0])",
    "a number of a helper": "u = flag_or_two(x[0], x[1])\na = np.array([u, u])\na[0] = 0.5\nreturn a @ a",
    "lists of one name": "a = [m[0], x[0] > 0]\na.append(x[1] > 5)\nu = np.array(a)\na = [x[0], 2.0]\na.append(x[1])\n"
    "v = np.array(a)\nu[1:] = 3.0\nreturn np.sum(u) * np.sum(v)",
}  # fmt: skip


def program(body, parameters="x, m, k, n"):
    return function(HELPERS + f"def f({parameters}):\n" + "".join(f"    {line}\n" for line in body.splitlines()))


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_what_differs_between_kinds_is_refused(body):
    said = "(here|in one place).*there|bit operations of floats|takes the elements"
    said += "|elements of another kind|of another kind in"
    with uncompiled(), pytest.raises(TraceError, match=said) as error:
        nb.adjoint(program(body)).vjp(X, M, K, 2)
    assert "found[" not in str(error.value)  # the user's line, not the library's


#: One name for things of several kinds, one after the other.
ACCEPTED = {
    "loop variables": "s = []\nfor u in m:\n    s.append(u)\na = np.array(s)\na[1:] = 2.0\nt = 0.0\n"
    "for u in x:\n    t += u\nreturn t * np.sum(a)",
    "numbers": "u = m[0]\na = np.array([u, m[1]])\na[1:] = 2.0\nu = x[0]\nreturn np.sum(a) * u",
    "integers": "u = k[0]\na = np.array([u, u + 1])\na[1] = 2.7\nu = x[0]\nreturn np.sum(a) * u",
    "sums": "u = np.sum(m)\na = np.array([u, 1])\na[1] = 1.5\nu = np.sum(x)\nreturn np.sum(a) * u",
    "sizes": "u = x.size\na = np.array([u, 2])\na[0] = 2.5\nu = x.sum()\nreturn np.sum(a) * u",
    "masks joined with numbers": "u = m[0]\na = np.where(x > 1, u, m)\nb = np.append(m, u)\nu = x[0]\n"
    "return np.sum(a + a) * u + np.sum(b + b)",
    "integers that are written": "s = 0\nfor v in x:\n    s += v\na = np.array([s, 0.5])\na[1] = 2.5\nreturn np.sum(a)",
    "later floats": "u = np.arange(4)\nu += 1\nfor i in range(n):\n    u = u + 0.1 * x\nreturn u",
    "integers in a branch": "if x[1] > 0:\n    u = np.zeros(4, int)\nelse:\n    u = x * 2\nreturn u @ x",
    "one's argument or a new array": "u = normalised(x * 3) + normalised(x)\nreturn normalised(u) @ x",
    "flags as indices to take": "return np.take(x, m) @ x.take(m)",
    "weights that are a mask": "w = np.ones(x.size)\nif n > 1:\n    w = x > 0\nreturn w @ x + np.sum(w * x + x[0])",
}  # fmt: skip


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
@pytest.mark.parametrize("n", [0, 2])
def test_one_name_for_several_kinds(body, n):
    with uncompiled():
        agrees(program(body), (X, M, K, n))


#: Integers that stay integers, whatever makes them.
INTEGERS = [
    "np.nanmax(k)", "np.nanmin(k)", "np.nansum(k)", "np.nanprod(k)", "np.nansum(m)", "np.nanprod(m)",
    "np.nanmax(np.outer(k, k), axis=0)", "sum(1 for v in x if v > 0)", "sum(v > 0 for v in x)", "sum([v for v in k])",
    "np.sum([v for v in k])", "np.prod([v for v in k])", "np.max([v for v in k])", "np.cumsum([v for v in k])",
    "np.arange(3).sum()", "np.unique(k).sum()", "np.union1d(k, k).sum()", "np.array(list(k)).sum()",
    "np.array([len(x) for u in x]).sum()", "np.array([k.sum(), k.max()]).sum()", "np.polyval(k, 2)",
    "np.vander(k).sum()",
    "np.nan_to_num(k).sum()", "np.full(2, np.arange(3).sum())", "np.arange((x > 0).sum())",
    "np.zeros(sum(1 for v in x if v > 0), dtype=np.int64)", "np.arange(m[0])", "np.arange(m[1], 3)",
    "np.array([int(v * 3) for v in x]) - np.array([int(v) for v in x])", "-np.array([int(v * 3) for v in x])",
    "np.array([int(v * 3) for v in x]) @ np.array([int(v * 2) for v in x])",
]  # fmt: skip


@pytest.mark.parametrize("expression", INTEGERS)
def test_integers(expression):
    f = program(f"return {expression}")
    with uncompiled():
        found, expected = nb.adjoint(f).vjp(X, M, K, 2).value, f(X, M, K, 2)
    np.testing.assert_array_equal(found, expected)
    assert np.asarray(found).dtype.kind == np.asarray(expected).dtype.kind


SINGLE = {
    "branch": "w = x.astype(np.float32)\nif n > 1:\n    w = np.exp(x)\nreturn np.sum(w * w)",
    "loop": "w = np.zeros(x.size, dtype=np.float32)\nfor i in range(n):\n    w = w + x\nreturn np.sum(w)",
    "result": "w = np.zeros(x.size, dtype=np.float32)\nfor i in range(n):\n    w = np.exp(x) + w\nreturn w",
    "integers": "w = x.astype(np.float32)\nfor i in range(n):\n    w = w * 0.5 + k\nreturn w @ x",
    "an argument": "w = x.astype(np.float32)\nif n > 1:\n    w = k\nreturn w @ x",
}


@pytest.mark.parametrize("body", SINGLE.values(), ids=SINGLE)
def test_float64_is_not_rounded_by_an_array_of_float32(body):
    with uncompiled(), pytest.raises(TraceError, match="w, an array of float32 here or before, and of float64 there"):
        nb.adjoint(program(body)).vjp(X, M, K, 2)


@pytest.mark.parametrize("body", ["return np.sum(~x)", "w = np.exp(-x)\nif n > 1:\n    w = ~w\nreturn w @ x"])
def test_inverted_floats(body):
    with pytest.raises(TraceError, match="bit operations of floats in"):
        nb.adjoint(program(body)).vjp(X, M, K, 2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("w = k\nif n > 1:\n    w = x\nreturn np.reciprocal(w + 1)", "np.reciprocal of what may be integers"),
        ("return np.reciprocal(k) * x", "np.reciprocal of what may be integers"),
        ("return np.round(m) * x", "np.round of bools in"),
    ],
)
def test_functions_of_floats(body, said):
    with pytest.raises(TraceError, match=said):
        nb.adjoint(program(body)).vjp(X, M, K, 2)


def test_the_smaller_of_a_bool_and_a_number():
    assert nb.adjoint(program("return min(x[0] > 0, 2) + max(x[0] > 0, 0.5) * x[1]")).vjp(X, M, K, 2).value == 0.0


JOINED = [
    "np.concatenate(([0.0], np.cumsum(x)))", "np.hstack(([0.0], x, 1.0, x[0]))", "np.append(x, [1.0, x[0]])",
    "np.concatenate([[x[0], 2], x, (x[1],)])", "np.concatenate(([True], x > 0)) * x[0]",
    "np.vstack(([1.0, 2, 3, 4], x))",
    "np.column_stack(([1, 2, 3, 4], x))", "np.vstack((np.outer(x, x), x))", "np.vstack((x, np.outer(x, x)))",
    "np.column_stack((np.outer(x, x), x))",
]  # fmt: skip


@pytest.mark.parametrize("expression", JOINED)
def test_lists_and_vectors_are_joined(expression):
    with uncompiled():
        agrees(program(f"r = {expression}\nreturn np.sum(r * r)"), (X, M, K, 2))


def test_any_and_all_of_a_list():
    body = (
        "ok = []\nfor v in x:\n    ok.append(v > 0)\nreturn (x.sum() if any(ok) else 0.0) + (x[0] if all(ok) else x[1])"
    )
    agrees(program(body), (X, M, K, 2))


def test_copies_of_arguments_change_their_lengths_alone():
    """Results and copies of parameters were taken for one another."""
    swapped = "if y.size < x.size:\n    y, x = (x, y)\nb = []\nb.append(x[0])\nreturn x"
    body = f"for i in range(2):\n    x = x[x > -3]\n{swapped}"
    agrees(program(body, "x, y"), (X, X[:2] * 1.5))
