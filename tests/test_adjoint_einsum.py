"""``np.einsum`` and products of stacks of matrices in loops."""

import runpy

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.errors import TraceError

RNG = np.random.default_rng(8)
A, B, STACK, OTHER = (RNG.normal(size=s) for s in ((4, 5), (5, 3), (2, 4, 5), (2, 5, 3)))


def matrices(a, b):
    return np.sum(np.einsum("ij,jk->ik", a, b) ** 3) + np.sum(np.einsum("ij, jk -> ki", a, b, optimize=True)[0])


def three(a, b):
    return np.einsum("ij,jk,i->", a, b, a[:, 0])


def diagonals(a, b):
    return np.einsum("ii", a[:3, :3]) * np.sum(np.einsum("ii->i", b[:3, :3]) ** 2)


def implicit(a, b):
    return np.sum(np.sin(np.einsum("ij,kj", a, b.T))) + np.sum(np.einsum("ba", a)[1])


def transposed_and_inner(a, b):
    c = np.einsum("ij->ji", a)
    return np.sum(c[0] * c[0]) + np.sum(np.inner(a, b.T) ** 2) + np.inner(a[0], b[:, 0]) + np.sum(np.inner(b.T, a[1]))


def in_a_loop(a, b):
    s, c = 0.0, b.copy()
    for t in range(a.shape[0]):
        w = np.einsum("j,jk->k", a[t], c)
        c = c * 0.5 + np.einsum("k,j->jk", w, a[t])
        s += np.sum(w * w)
    return s


def of_stacks(a, b):
    return np.sum(np.matmul(a, b) ** 2)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (matrices, (A, B)),
        (three, (A, B)),
        (diagonals, (A, B)),
        (implicit, (A, B)),
        (transposed_and_inner, (A, B)),
        (in_a_loop, (A, B)),
        (of_stacks, (A, B)),
        (of_stacks, (STACK, OTHER)),
        (of_stacks, (STACK, B)),
        (of_stacks, (A, OTHER)),
        (of_stacks, (STACK, B[:, 0])),
        (of_stacks, (A[:, 0], STACK)),
        (of_stacks, (RNG.normal(size=(2, 2, 4, 5)), OTHER)),
        (of_stacks, (STACK[:0], OTHER[:0])),
    ],
)
def test_values_and_derivatives(f, args):
    adj, u = nb.adjoint(f), tuple(np.cos(np.arange(a.size)).reshape(a.shape) for a in args)
    value, gradients = adj.value_and_grad(*args)
    assert value == pytest.approx(f(*args), rel=1e-13)

    def slope(g):
        return sum(np.sum(p * q) for p, q in zip(g, u, strict=True))

    def moved(h):
        return [a + h * d for a, d in zip(args, u, strict=True)]

    assert slope(gradients) == pytest.approx((f(*moved(1e-6)) - f(*moved(-1e-6))) / 2e-6, rel=1e-7, abs=1e-9)
    assert nb.tangent(f).jvp(args, u)[1] == pytest.approx(slope(gradients), rel=1e-12)
    ahead, behind = (slope(adj.value_and_grad(*moved(h))[1]) for h in (1e-5, -1e-5))
    assert slope(adj.hvp(args, u)) == pytest.approx((ahead - behind) / 2e-5, rel=1e-6, abs=1e-8)


REFUSED = {
    'np.einsum("ij,jk->ik", a)[0, 0]': "for 1 arrays",
    'np.einsum("...j->j", a)[0]': "give each axis a letter",
    'np.einsum("ij->ii", a)[0, 0]': "give each axis a letter",
    'np.einsum("ij->k", a)[0]': "give each axis a letter",
    'np.einsum("ijk->i", a)[0]': "'ijk' for an array with 2 axes",
    'np.einsum("ij->i", a, dtype=np.float32)[0]': "leave it out",
    "np.einsum(a, a)": "write them as a string",
    "np.inner(a, 2.0)[0, 0]": "use vectors and matrices",
}


@pytest.mark.parametrize("body", REFUSED)
def test_refused(body, tmp_path):
    file = tmp_path / "products.py"
    file.write_text(f"import numpy as np\n\n\ndef f(a):\n    return {body}\n", encoding="utf-8")
    f = runpy.run_path(str(file))["f"]
    with pytest.raises(TraceError, match=r"products\.py, line 5") as caught:
        nb.adjoint(f).value_and_grad(A)
    assert REFUSED[body] in str(caught.value)


def test_lengths_that_differ():
    with pytest.raises(ValueError, match="different lengths"):
        nb.adjoint(matrices).value_and_grad(A, B[:3])
