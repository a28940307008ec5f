"""einsum and its relatives beyond their samples: NumPy's answers for many expressions, and errors."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd
from nbgrad.testing import check_grads

CASES = [
    ("ab->ba", (2, 3)),
    ("abc->b", (2, 3, 4)),
    ("a,a", (3,), (3,)),
    ("ba", (2, 3)),
    ("cba,abc->b", (2, 3, 4), (4, 3, 2)),
    ("abab->ab", (2, 3, 2, 3)),
    ("aaa->a", (2, 2, 2)),
    ("aab,bcc->ca", (2, 2, 3), (3, 4, 4)),
    ("ab,cd->acbd", (2, 3), (4, 2)),
    ("ab,bc->", (2, 3), (3, 2)),
    ("ab,cb->ac", (2, 3), (4, 3)),
    ("ba,bc->ac", (3, 2), (3, 4)),
    ("zab,zcb->zac", (2, 2, 3), (2, 4, 3)),
    ("...", (2, 3)),
    ("...a->a...", (2, 3)),
    ("a...b,b...->a...", (2, 3, 2), (2, 3)),
    ("...ab,...bc", (4, 1, 2, 3), (5, 3, 2)),
    ("a...,...a->...", (3, 2), (2, 3)),
    ("...,...", (3, 1), (2,)),
    ("ab,b", (1, 3), (3,)),
    ("ab,ab->ab", (1, 3), (2, 1)),
    ("ab,bc->ac", (2, 1), (3, 2)),
    (",", (), ()),
    (",ab,->b", (), (2, 3), ()),
    ("ab,bc,cd,de->ae", (2, 3), (3, 4), (4, 2), (2, 5)),
    ("abc,bd,cd,a->d", (2, 3, 4), (3, 2), (4, 2), (2,)),
    ("ab,ab,ab->", (2, 3), (2, 3), (2, 3)),
    ("aB, Ba -> aB", (2, 3), (3, 2)),
    ("ab,cd", (0, 2), (2, 0)),
    ("ab->a", (2, 0)),
]


def drawn(shapes, dtype="float64"):
    random = np.random.default_rng(0)
    return [(random.uniform(-2, 2, s) * (1 if dtype == "float64" else 3)).astype(dtype) for s in shapes]


@pytest.mark.parametrize("optimize", [True, False, "optimal"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_values(case, optimize):
    subscripts, *shapes = case
    arrays = drawn(shapes)
    found = nd.einsum(subscripts, *map(nd.array, arrays), optimize=optimize)
    expected = np.atleast_1d(np.einsum(subscripts, *arrays))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool"])
def test_integers(dtype):
    arrays = drawn([(2, 3), (3, 2), (2, 2)], dtype)
    found = nd.einsum("ab,bc,ca->b", *map(nd.array, arrays)).asnumpy()
    assert found.dtype == ("int64" if dtype == "bool" else dtype)
    assert (found == np.einsum("ab,bc,ca->b", *[a.astype("int64") for a in arrays])).all()


@pytest.mark.parametrize(
    "case", [c for c in CASES if c[0] in ("abab->ab", "a...b,b...->a...", "ab,bc->ac", "abc,bd,cd,a->d")], ids=str
)
def test_gradients(case):
    subscripts, *shapes = case
    arrays = [nd.array(a) for a in drawn(shapes)]
    check_grads(lambda *xs: nd.sin(nd.einsum(subscripts, *xs)), arrays, order=2)


def test_a_path_can_be_given():
    arrays = drawn([(2, 3), (3, 4), (4, 2)])
    path = ["einsum_path", (1, 2), (0, 1)]
    found = nd.einsum("ab,bc,cd->ad", *map(nd.array, arrays), optimize=path)
    np.testing.assert_allclose(found.asnumpy(), np.linalg.multi_dot(arrays), rtol=1e-13)


def test_axes_of_the_ellipsis_can_be_summed():
    """NumPy refuses that."""
    assert nd.einsum("...->", nd.ones((2, 3))).tolist() == [6.0]
    assert nd.einsum("...a,a->a", nd.ones((2, 3)), nd.ones(3)).tolist() == [2.0] * 3


def test_the_result_is_a_new_array():
    x = nd.ones((2, 2))
    y = nd.einsum("ab", x)
    with nb.autograd.pause():
        y += 1
    assert y is not x


@pytest.mark.parametrize(
    ("subscripts", "shapes", "error", "text"),
    [
        ("ab,bc", [(2, 2)], nb.errors.AttrError, "2 operand"),
        ("ab", [(2,)], nb.errors.ShapeError, "does not fit 'ab'"),
        ("a...bc", [(2, 2)], nb.errors.ShapeError, "does not fit"),
        ("ab,bc", [(2, 3), (2, 2)], nb.errors.ShapeError, "'b' in 'ab,bc' has length 3"),
        ("aa", [(2, 3)], nb.errors.ShapeError, "'a'"),
        ("aa", [(1, 3)], nb.errors.ShapeError, "diagonal 'a'"),
        ("ab->c", [(2, 3)], nb.errors.AttrError, "'c' is in the result"),
        ("ab->aa", [(2, 3)], nb.errors.AttrError, "repeated"),
        ("a1", [(2, 3)], nb.errors.AttrError, "'1' is no letter"),
        ("a..", [(2, 3)], nb.errors.AttrError, "dots"),
        ("......", [(2, 3)], nb.errors.AttrError, "one '...'"),
        ("ab->a->b", [(2, 3)], nb.errors.AttrError, "is no letter"),
        (5, [(2, 3)], nb.errors.AttrError, "must be text"),
    ],
)
def test_errors(subscripts, shapes, error, text):
    with pytest.raises(error, match=text):
        nd.einsum(subscripts, *map(nd.ones, shapes))


@pytest.mark.parametrize("optimize", ["best", 3, ["einsum_path", (0, 5)], ["einsum_path", (0, 1)]])
def test_optimize_that_is_no_path(optimize):
    with pytest.raises(nb.errors.AttrError, match=r"einsum: .*(optimize|path)"):
        nd.einsum("ab,bc,cd", *[nd.ones((2, 2))] * 3, optimize=optimize)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda a: nd.tensordot(a, a, axes=1), nb.errors.ShapeError, "different lengths"),
        (lambda a: nd.tensordot(a, a, axes=3), nb.errors.AttrError, "axes must be from 0 to 2"),
        (lambda a: nd.tensordot(a, a, axes="ab"), Exception, "tensordot"),
        (lambda a: nd.tensordot(a, a, axes=((0, 1), (0,))), nb.errors.AttrError, "go in pairs"),
        (lambda a: nd.tensordot(a, a, axes=((0, 0), (0, 1))), nb.errors.ShapeError, "twice"),
        (lambda a: nd.tensordot(a, a, axes=(0, 4)), Exception, "tensordot: .*axis"),
        (lambda a: nd.khatri_rao(a, nd.ones((2, 2))), nb.errors.ShapeError, "equally many columns"),
        (lambda a: nd.khatri_rao(), nb.errors.AttrError, "at least one"),
    ],
)
def test_errors_of_the_relatives(call, error, text):
    with pytest.raises(error, match=text):
        call(nd.ones((2, 3)))


def test_khatri_rao_as_mxnet():
    y = nd.khatri_rao(nd.array([[1, 2], [3, 4]]), nd.array([[5, 6], [7, 8], [9, 10]]))
    assert y.tolist() == [[5, 12], [7, 16], [9, 20], [15, 24], [21, 32], [27, 40]]
