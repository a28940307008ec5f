"""Names that are arrays of bools in one place and of numbers in another: operators that differ for them are refused."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from random_loops import function

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.3, -0.7, 1.2, 0.9, -1.4, 0.55])
Y = np.array([1.1, -0.2, 0.8, -0.9, -1.0, 0.7])

#: Ways to make such a name `w`; what is used of it follows.
MIXED = {
    "loop": "w = x > 0\nfor k in range(2):\n    {use}\n    w = w * 1",
    "loop, numbers first": "w = (x > 0) * 1\nfor k in range(2):\n    {use}\n    w = w > 0",
    "floats first": "w = x * 1.0\nfor k in range(2):\n    {use}\n    w = (w > 0) & (y > 0)",
    "branch": "w = x > 0\nif x.size > 3:\n    w = w * 1\n{use}",
    "branch, numbers first": "w = (x > 0) * 1\nif x.size > 3:\n    w = w > 0\n{use}",
    "both branches": "if x.size > 3:\n    w = x > 0\nelse:\n    w = (x > 0) * 2\n{use}",
    "floats in a branch": "w = x > 0\nif x.sum() > 0:\n    w = w * 0.5\n{use}",
    "expression": "w = (x > 0) if x.sum() > 0 else np.ones(x.size)\n{use}",
    "expression, numbers first": "w = x if x.sum() < 0 else x > 0\n{use}",
    "copy": "v = x > 0\nif x.size > 3:\n    v = v * 1\nw = v\n{use}",
    "function": "w = either(x, x.sum())\n{use}",
    "rows": "rows = [x > 0, x * 1.0]\nw = rows[i]\n{use}",
}
SENSITIVE = ["s += (w + w) @ x", "s += (w * w) @ x", "s += (w @ w) * x[0]", "s += np.outer(w, w)[0] @ x"]
HARMLESS = [
    "s += w @ x",
    "s += (w * x).sum()",
    "s += (w + 1) @ x",
    "s += w.sum() * x[0]",
    "s += np.where(w, x, 0.0).sum()",
]
HELPER = "def either(x, c):\n    if c > 0:\n        return x > 0\n    return (x > 0) * 1\n\n"


def program(way, use):
    body = "i = 0\ns = 0.0\n" + MIXED[way].format(use=use) + "\nreturn s"
    return function(HELPER + "def f(x, y):\n" + "".join(f"    {line}\n" for line in body.splitlines()))


@pytest.mark.parametrize("use", SENSITIVE)
@pytest.mark.parametrize("way", MIXED)
def test_other_operators_of_bools_are_refused(way, use):
    f = program(way, use)
    with uncompiled():
        try:
            agrees(f, (X, Y))  # or right, where names can be told apart
        except TraceError as err:
            assert any(said in str(err) for said in ("on bools here", "of other forms", "several kinds")), err


#: What is made of such an array is one, too.
MADE = [
    "np.sort(u)", "np.roll(u, 1)", "np.tile(u, 1)", "u.reshape(-1)", "np.insert(u, 0, u[0])[1:]", "np.pad(u, 1)[1:-1]",
    "np.broadcast_to(u, (6,))", "np.diag(np.diag(u))", "np.partition(u, 2)", "np.resize(u, 6)", "np.array(sorted(u))",
    "np.maximum.accumulate(u)", "np.zeros_like(u)", "np.full_like(u, 1)", "np.ones(6, dtype=u.dtype)",
    "np.full(6, u[0])",
    "np.array([q for q in u])", "np.array(list(u))", "np.array([u[0], u[1], u[2], u[3], u[4], u[5]])", "u[::-1]",
    "np.array([max(a, b) for a, b in zip(u, u)])", "np.apply_along_axis(np.max, 0, np.stack((u, u)))", "u.copy()",
    "np.concatenate((u[:2], u[2:]))", "np.where(x > 9, u, u)", "np.minimum(u, u)", "u & (x > -9)",
    "u[[5, 4, 3, 2, 1, 0]]",
    "np.convolve(u, u)[:6]", "np.repeat(u, 1)", "np.meshgrid(u, u)[0][0]", "np.max(np.stack((u, u)), axis=0)",
]  # fmt: skip


@pytest.mark.parametrize("expression", MADE)
def test_what_is_made_of_them(expression):
    """Right or refused, and right of a mask."""
    start = "u = x > 0 if x[0] > -50 else np.arange(x.size)"
    f = function(f"def f(x, y):\n    {start}\n    w = {expression}\n    return (w + w) @ x\n")
    plain = function(f"def f(x, y):\n    u = x > 0\n    w = {expression}\n    return (w + w) @ x\n")
    with uncompiled():
        with pytest.raises(TraceError, match=r"bools here and (on )?numbers there"):
            nb.adjoint(f).value_and_grad(X, Y)
        agrees(plain, (X, Y))


@pytest.mark.parametrize("store", ["w[0] = 2", "w[1] += 5", "w[:2] = x[:2]"])
def test_numbers_are_not_stored_into_them(store):
    start = "u = x > 0 if x[0] > -50 else np.arange(x.size)"
    f = function(f"def f(x, y):\n    {start}\n    w = u.copy()\n    {store}\n    return w @ x\n")
    with pytest.raises(TraceError, match="elements of an array of bools here and of numbers there"):
        nb.adjoint(f).value_and_grad(X, Y)


@pytest.mark.parametrize("use", HARMLESS)
@pytest.mark.parametrize("way", [w for w in MIXED if w != "rows"])
def test_what_is_the_same_for_both_is_not(way, use):
    f = program(way, use)
    with uncompiled():
        for x in (X, X[:3], -X):
            agrees(f, (x, Y[: x.size]))


@pytest.mark.parametrize("second", ["w = w > 0", "w = x > 0"])
def test_indices(second):
    loop = f"    for k in range(2):\n        s += x[w].sum()\n        {second}\n"
    f = function(f"def f(x):\n    s = 0.0\n    w = (x > 0) * 1\n{loop}    return s\n")
    with pytest.raises(TraceError, match="may be of floats, or a mask here and of integers there"):
        nb.adjoint(f).value_and_grad(X)


@pytest.mark.parametrize(
    "body",
    [
        "return sum([x > t for t in (0.0, 0.5, 1.0)]) @ x",
        "return sum([x > 0, x > 0.5], 0) @ x",
        "masks = [x > 0.5]\n    a = sum(masks)\n    return (a + a) @ x",
        "return (np.square(x > 0) + np.square(x > 0)) @ x",
        "a = np.apply_along_axis(np.sum, 0, np.stack((x, y)))\n    return (a + a) @ x",
        "flags = [v > 0 for v in x]\n    return x[flags].sum()",
        "flags = []\n    for i in range(x.size):\n        flags.append(x[i] > 0)\n    a = np.array(flags)\n"
        "    return x[a].sum() + 2 * x[~a].sum()",
        "order = [v for v in (1, 0)]\n    order.append(2)\n    return x[np.array(order)] @ y[:3]",
        "m = True\n    for k in range(3):\n        m = m & (x > 0.1 * k)\n    return x[m].sum()",
        "return ((np.empty(x.size, bool) | True) * x).sum()",
        "m = x > 0\n    return np.add.outer(m, m).sum() * x[0]",
        "u = x > 0\n    return (np.ones_like(u) + u) @ x",
        "u = x > 0\n    w = np.ones_like(u) * 1 + u\n    return w @ x",
        "return (~np.zeros_like(x > 0)) @ x + (np.zeros_like(y > 0) | (y > 0)) @ y",
        "return x[np.ones_like(x > 0)].sum() + (np.ones_like(x > 0) @ (x > 0)) * x[0]",
        "w = np.minimum(x > 0, y > 0)\n    v = np.where(x > 9, 0, x > 0)\n    return (w + w) @ x + (v + v) @ y",
    ],
)
def test_kinds_of_results(body):
    with uncompiled():
        agrees(function(f"def f(x, y):\n    {body}\n"), (X, Y))


BESIDE_FLOAT32 = [
    "np.stack((x, x > 0))", "np.append(x > 0, x)", "np.array([x > 0, x])", "np.outer(x > 0, x)",
    "(x > 0) @ np.outer(x, y)", "np.kron(x > 0, x[:2])", "np.einsum('i,j->ij', x > 0, x)", "np.sum(x, keepdims=True)",
    "np.max(x, keepdims=True)", "x // (1 + (x > 0))", "x * (1 + (x > 0))",
]  # fmt: skip


@pytest.mark.parametrize("expression", BESIDE_FLOAT32)
def test_dtypes_beside_float32(expression):
    x, y = X.astype(np.float32), Y.astype(np.float32)
    with uncompiled():
        value = nb.adjoint(function(f"def f(x, y):\n    return {expression}\n")).vjp(x, y).value
    assert value.dtype == eval(expression, {"np": np, "x": x, "y": y}).dtype


def test_max_and_min_of_bools_compile():
    """Numba has none of single bools."""
    joined = "np.array([max(a, b) for a, b in zip(x > 0, y > 0)]) | np.array([min(a, b) for a, b in zip(x > 0, y > 0)])"
    agrees(function(f"def f(x, y):\n    w = {joined}\n    return (w + w) @ x\n"), (X, Y))


@pytest.mark.parametrize(
    "use",
    ["np.nan_to_num(w) + (x > -1)", "np.nanmax(w) + x", "np.nanmin(w) * x", "np.trapezoid(w) * x",
     "np.convolve(w, w)", "x * 2 if w.dtype.kind == 'b' else x"],
)  # fmt: skip
@pytest.mark.parametrize("mixed", [False, True])
def test_functions_that_ask_for_the_kind(use, mixed):
    """They are NumPy's for bools, and refused at the line of their call where there are numbers, too."""
    again = "x * (k + 2)" if mixed else "x > k"
    lines = f"w = x > 0\ns = x * 0\nfor k in range(3):\n    s = s + ({use})[:1]\n    w = {again}\nreturn s"
    f = function("def f(x):\n" + "".join(f"    {line}\n" for line in lines.splitlines()))
    with uncompiled():
        if mixed:
            with pytest.raises(TraceError, match=r"bools here,? .* there,? in 's = s \+"):
                nb.adjoint(f).vjp(X)
        else:
            agrees(f, (X,))


@pytest.mark.parametrize("of", ["nansum", "nanprod", "nancumsum", "nanmax", "nan_to_num"])
def test_missing_data_of_bools(of):
    f = function(f"def f(x):\n    return np.{of}(x > 0)")
    with uncompiled():
        found = nb.adjoint(f).vjp(X).value
    np.testing.assert_array_equal(found, f(X))
    assert np.asarray(found).dtype == np.asarray(f(X)).dtype
