"""What tests of recording and gradients share."""

from nbgrad import autograd, nd


def marked(values, request="write", dtype="float64"):
    """A marked array."""
    x = nd.array(values, dtype=dtype)
    x.attach_grad(request)
    return x


def recorded(function, *args):
    """What `function` gives while recording."""
    with autograd.record():
        return function(*args)


def values(x):
    """Nested lists of an array's values."""
    return x.asnumpy().tolist()
