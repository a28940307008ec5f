"""``x.at[key]``: new arrays with some elements changed."""

import numpy
import pytest

import nbgrad as nb
import nbgrad.np as np
from nbgrad.errors import AttrError, DTypeError, ShapeError

X = numpy.arange(12.0).reshape(3, 4) + 0.5
KEYS = [1, (1, 2), slice(0, 2), (slice(None), [0, 2]), X > 4.0, (slice(None, None, -2), 1), ..., ([0, 2], [1, 3]), None]
CHANGES = {
    "set": lambda a, k, v: a.__setitem__(k, v),
    "add": lambda a, k, v: numpy.add.at(a, k, v),
    "subtract": lambda a, k, v: numpy.subtract.at(a, k, v),
    "multiply": lambda a, k, v: numpy.multiply.at(a, k, v),
    "divide": lambda a, k, v: numpy.divide.at(a, k, v),
    "power": lambda a, k, v: numpy.power.at(a, k, v),
    "min": lambda a, k, v: numpy.minimum.at(a, k, v),
    "max": lambda a, k, v: numpy.maximum.at(a, k, v),
}


def changed(name, key, values):
    a = X.copy()
    if name == "set" or key is not None:
        CHANGES[name](a, key, values)
    return a


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("key", range(len(KEYS)))
def test_as_numpy(name, key):
    key = KEYS[key]
    if key is None and name != "set":
        return
    x = np.array(X)
    for values in (3.3, numpy.random.default_rng(0).uniform(1, 6, X[key].shape)):
        found = getattr(x.at[key], name)(values)
        numpy.testing.assert_allclose(found.asnumpy(), changed(name, key, values), rtol=1e-14)
    assert (x == X).all()

    def total(x, v):
        return np.sum(np.log(np.abs(getattr(x.at[key], name)(v)) + 1.5))

    for g in (nb.grad(total, (0, 1)), nb.jit(nb.grad(total, (0, 1)))):
        by_x, by_v = g(X, values)
        for found, of in ((by_x, 0), (by_v, 1)):
            at = (X, values)
            moved = numpy.zeros(at[of].shape)
            for i in numpy.ndindex(at[of].shape):
                args = [[a.copy() for a in at] for _ in range(2)]
                args[0][of][i] -= 1e-6
                args[1][of][i] += 1e-6
                moved[i] = float(total(*map(np.array, args[1])) - total(*map(np.array, args[0]))) / 2e-6
            numpy.testing.assert_allclose(found, moved, rtol=1e-5, atol=1e-6)


def test_elements_that_are_selected_several_times():
    x = np.zeros(3)
    assert x.at[[0, 0, 2]].set([1.0, 2.0, 3.0]).tolist() == [2, 0, 3]
    assert x.at[[0, 0, 2]].add([1.0, 2.0, 3.0]).tolist() == [3, 0, 3]
    assert x.at[np.array([0, 0])].subtract(1.0).tolist() == [-2, 0, 0]
    assert nb.grad(lambda v: np.sum(x.at[[0, 0]].set(v) ** 2))(numpy.array([1.0, 2.0])).tolist() == [0, 4]
    with pytest.raises(AttrError, match="an element is selected several times"):
        x.at[[0, 0]].multiply(2.0)
    assert x.at[1:].apply(lambda e: e + 1).tolist() == [0, 1, 1]
    assert x.at[1].get() == 0.0


def test_errors():
    x = np.zeros((2, 3))
    with pytest.raises(ShapeError, match=r"values of shape \(2,\) do not broadcast to \(3,\)"):
        x.at[0].set([1.0, 2.0])
    with pytest.raises(IndexError):
        x.at[5].set(1.0)
    with pytest.raises(IndexError, match="not float"):
        x.at[np.ones(2)].set(1.0)
    with pytest.raises(DTypeError, match="cannot be stored in an array of int64"):
        np.arange(3).at[0].set(0.5)
    assert np.arange(3).at[0].set(7).dtype == numpy.int64
    assert np.array([True, False]).at[0].set(False).tolist() == [False, False]
