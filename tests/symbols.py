"""What the tests of symbols share."""

import pickle

import numpy as np

from nbgrad import autograd, nd, symbol


def array(shape, seed=0, dtype="float64", low=0.3, high=2.0):
    return nd.array(np.random.default_rng(seed).uniform(low, high, shape), dtype=dtype)


def marked(shape, seed=0, **kwargs):
    x = array(shape, seed, **kwargs)
    x.attach_grad()
    return x


def recorded(f, *arrays):
    with autograd.record():
        return f(*arrays)


def same(a, b):
    np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    assert a.dtype is b.dtype
    assert a.shape == b.shape


def round_trips(s):
    return s, symbol.load_json(s.tojson()), pickle.loads(pickle.dumps(s))


def check(f, *arrays):
    """`f` of the marked arrays, traced, evaluates to the same bits; also after a round trip. Gives the symbol."""
    y = recorded(f, *arrays)
    s = autograd.get_symbol(y)
    names = s.list_arguments()
    by_name = {}
    for name in names:
        for x in arrays:
            if x.grad is not None and autograd.get_symbol(x).name == name:
                by_name[name] = x
    rest = [x for x in arrays if x.grad is None]
    by_name |= dict(zip([n for n in names if n not in by_name], rest, strict=True))
    for t in round_trips(s):
        assert t.list_arguments() == names
        assert t.list_outputs() == s.list_outputs()
        assert t.tojson() == s.tojson()
        (out,) = t.eval(**by_name)
        same(out, y)
        assert t.infer_shape() == ([by_name[n].shape for n in names], [y.shape], [])
        assert t.infer_type() == ([by_name[n].dtype for n in names], [y.dtype], [])
    return s
