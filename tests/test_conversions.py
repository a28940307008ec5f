"""Implicit conversions of recorded arrays are refused: what Python, NumPy and SciPy compute with them is a constant."""

import array
import copy
import decimal
import functools
import math
import operator
import pickle
import re
import statistics
import types

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from recording import marked, recorded

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.arrays.ndarray import NDArray
from nbgrad.errors import DTypeError, LostGradientError, TraceError
from nbgrad.protocols.conversions import IMPLICIT

A = np.eye(2) + 1


def into_numpy(x):
    out = np.zeros(3)
    out[0] = x[0]


def into_numpy_by_slice(x):
    out = np.zeros(3)
    out[:2] = x


LOST = {
    "np.array": lambda x: np.array([x[0] * 2, x[1]]),
    "np.asarray": lambda x: np.asarray(x),
    "np.full": lambda x: np.full((3,), x[0]),
    "out[0]": into_numpy,
    "out[:2]": into_numpy_by_slice,
    "np.copyto": lambda x: np.copyto(np.zeros(2), x),
    "np.put": lambda x: np.put(np.zeros(2), [0, 1], x),
    "np.polyval": lambda x: np.polyval([1.0, 2.0], x),
    "np.linalg.lstsq": lambda x: np.linalg.lstsq(A, x),
    "np.linspace": lambda x: np.linspace(0, x[0], 3),
    "np.float64": lambda x: np.float64(x[0]),
    "np.vectorize": lambda x: np.vectorize(math.exp)(x),
    "np.random.normal": lambda x: np.random.default_rng(0).normal(x, 1),
    "np.fromiter": lambda x: np.fromiter(x, float),
    "np.from_dlpack": lambda x: np.from_dlpack(x),
    "np.add out=": lambda x: np.add(x, 1, out=np.zeros(2)),
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "complex": lambda x: complex(x[0]),
    "range": lambda x: range(x[0]),
    "slice": lambda x: [1, 2, 3][x[0] :],
    "math.exp": lambda x: math.exp(x[0]),
    "math.hypot": lambda x: math.hypot(x[0], x[1]),
    "math.fsum": lambda x: math.fsum(x),
    "math.floor": lambda x: math.floor(x[0]),
    "percent": lambda x: "%f" % x[0],  # noqa: UP031
    "array.array": lambda x: array.array("d", x),
    "scipy.stats": lambda x: scipy.stats.norm.cdf(x),
    "scipy.linalg": lambda x: scipy.linalg.solve(A, x),
    "nd.array": lambda x: nd.array([x[0] * 2, x[1]]),
    "nd.array of lists": lambda x: nd.array([[x[0]], (x[1],)]),
    "nd.full": lambda x: nd.full((3,), x[0]),
    "nd.arange": lambda x: nd.arange(x[0]),
    "assignment of a list": lambda x: operator.setitem(nd.zeros(2), slice(None), [x[0], x[1]]),
}
#: What says that a constant is meant, loses nothing, or gives no number.
HARMLESS = {
    "asnumpy": lambda x: x.asnumpy(),
    "asscalar": lambda x: x[0].asscalar(),
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "detach": lambda x: np.asarray(x.detach()),
    "pause": lambda x: autograd.pause()(float)(x[0]),
    "dlpack for reading": lambda x: nd.to_dlpack_for_read(x),
    "bool": lambda x: 1 if x[0] > 0 else 2,
    "while": lambda x: [0 for _ in range(3) if x.norm() < 1000],
    "in": lambda x: 3.0 in x,
    "max": lambda x: max(x),
    "sorted": lambda x: sorted(x),
    "print": lambda x: f"{x}{x!r}",
    "pickle": lambda x: pickle.dumps(x),
    "copy": lambda x: copy.copy(x),
    "comparison": lambda x: np.asarray(x > 1),
    "position": lambda x: int(nd.argmax(x, axis=0)),
    "floor": lambda x: int(nd.floor(x[0])),
    "integers": lambda x: range(x.astype("int32")[0]),
    "BlockGrad": lambda x: float(nd.BlockGrad(x * x)[0] * 3),
    "zeros": lambda x: np.asarray(nd.zeros_like(x) + 1),
    "constant": lambda x: float(nd.ones(1)),
    "numpy counts": lambda x: np.allclose(x, x),
}


def lost(function, *args):
    with pytest.raises((LostGradientError, ValueError)) as caught:
        function(*args)
    error = caught.value
    if not isinstance(error, LostGradientError):  # NumPy puts its own around what an element's __float__ raises
        assert str(error) == "setting an array element with a sequence."
        error = error.__cause__
        assert isinstance(error, LostGradientError)
    return str(error)


@pytest.mark.parametrize("name", LOST)
def test_recorded_arrays_refuse(name):
    x = marked([1.5, 2.5])
    with autograd.record():
        message = lost(LOST[name], x)
        lost(LOST[name], x * 2)
    assert "gradients through it" in message or "gradient would be lost" in message
    assert "asnumpy()" in message or "x.detach()" in message


#: What ``nbgrad.np`` has, whose arrays functions get for NumPy's.
RECORDED = {"np.polyval", "np.linalg.lstsq", "np.linspace"}


@pytest.mark.parametrize("name", [n for n in LOST if n not in RECORDED])
@pytest.mark.parametrize(
    "transform",
    [
        nb.grad,
        nb.value_and_grad,
        nb.jacobian,
        nb.hessian,
        nb.elementwise_grad,
        lambda f: lambda x: nb.vjp(f, x),
        lambda f: lambda x: nb.jvp(f, (x,), (x,)),
        lambda f: nb.grad(autograd.checkpoint(f)),
    ],
)
def test_they_do_inside_transforms(name, transform):
    def f(x):
        LOST[name](x * 2)
        return x.sum()

    if name in ("np.copyto", "np.put"):
        with pytest.raises(
            DTypeError, match=r"what is written must be an array of nbgrad\.np.*gradients would be lost"
        ):
            transform(f)(np.array([1.5, 2.5]))
    else:
        lost(transform(f), np.array([1.5, 2.5]))


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_what_they_record(name):
    def f(x):
        found = LOST[name](x * 2)
        return (found[0] if isinstance(found, tuple) else found).sum()

    x = np.array([1.5, 2.5])
    slopes = [float(f(nb.np.array(x + d)) - f(nb.np.array(x - d))) / 2e-6 for d in np.eye(2) * 1e-6]
    np.testing.assert_allclose(nb.grad(f)(x), slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_says_it_or_loses_nothing_is_allowed(name):
    x = marked([1.5, 2.5])
    with autograd.record():
        HARMLESS[name](x * 2)


@pytest.mark.parametrize("name", LOST)
def test_outside_of_recording_nothing_is_refused(name):
    y = recorded(lambda: marked([1.5, 2.5]) * 2)
    try:
        LOST[name](y)
    except (TypeError, ValueError) as err:  # other reasons: a float is no count
        assert not isinstance(err, LostGradientError)


def test_a_history_that_was_used_up_has_no_gradient_to_lose():
    x = marked([1.5])
    with autograd.record():
        loss = (x * x).sum()
        loss.backward()
        assert float(loss) == 2.25


def test_black_scholes_with_scipy_has_no_vega_of_zero():
    def price(sigma):
        d = (math.log(1.1) + sigma * sigma / 2) / sigma
        return 110 * scipy.stats.norm.cdf(d) - 100 * scipy.stats.norm.cdf(d - sigma)

    assert "norm.cdf(d)" in lost(nb.grad(price), 0.2)
    assert abs(nb.grad(lambda s: nd.erf(s).sum())(0.2) - 2 / math.sqrt(math.pi) * math.exp(-0.04)) < 1e-12


def test_what_runs_without_recording_may_use_numpy():
    class Square(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return nd.array(np.square(np.asarray(x)))

        def backward(self, g):
            (x,) = self.saved_tensors
            return nd.array(2 * np.asarray(x) * np.asarray(g))

    x = marked([1.5])
    recorded(lambda: Square()(x)).backward()
    assert x.grad.tolist() == [3.0]


def test_the_message_names_the_call_and_the_line():
    def step(x):
        return math.exp(x)

    with pytest.raises(
        LostGradientError, match=r"^float\(x\), .* step \(test_conversions.py, line \d+\): `return math.exp\(x\)`"
    ):
        nb.grad(step)(1.0)


ASKS = {
    "float(x)": float,
    "int(x)": int,
    "an array as an index": range,
    "the truth value": bool,
    "asnumpy()": lambda x: x.asnumpy(),
    "item()": lambda x: x.item(),
    "tolist()": lambda x: x.tolist(),
    "print(x)": repr,
    "numpy.asarray(x)": np.asarray,
    "numpy.asarray(x), or a function": lambda x: scipy.stats.norm.cdf(x),
}


@pytest.mark.parametrize("what", ASKS)
def test_under_jit_the_message_names_the_call_and_the_line(what):
    ask = ASKS[what]

    def step(x):
        ask(x)
        return x

    value = nd.array([1], dtype="int32") if ask is range else nd.array([1.0])
    with pytest.raises(TraceError, match=re.escape(what) + r".* (step|<lambda>) \(test_conversions.py, line \d+\): `"):
        nb.jit(step)(value)


# Every protocol is classified.

#: By these nothing leaves for Python or NumPy, or it is said explicitly. `__bool__`: control flow on values. Those of
#: bits are errors at any time.
FREE = {
    "__and__", "__invert__", "__or__", "__rand__", "__ror__", "__rxor__", "__xor__",
    "__abs__", "__add__", "__array_function__", "__array_ufunc__", "__bool__", "__copy__", "__deepcopy__", "__divmod__",
    "__dlpack_device__", "__eq__", "__floordiv__", "__ge__", "__getitem__", "__gt__", "__iadd__", "__ifloordiv__",
    "__imod__", "__imul__", "__ipow__", "__isub__", "__iter__", "__itruediv__", "__le__", "__len__", "__lt__",
    "__matmul__", "__mod__", "__mul__", "__ne__", "__neg__", "__pos__", "__pow__", "__radd__", "__rdivmod__",
    "__repr__", "__rfloordiv__", "__rmatmul__", "__rmod__", "__rmul__", "__round__", "__rpow__", "__rsub__",
    "__rtruediv__", "__setitem__", "__sub__", "__truediv__", "__reduce__", "__hash__", "__format__", "__str__",
    "__slots__", "__weakref__", "__module__", "__doc__", "__init__", "__annotations__", "__firstlineno__",
    "__static_attributes__", "__annotate_func__", "__annotations_cache__", "__classdictcell__",
}  # fmt: skip


def test_every_protocol_is_classified():
    own = {name for name in vars(NDArray) if name.startswith("__") and name.endswith("__")}
    assert own - FREE == set(IMPLICIT), "is a new protocol of NDArray guarded (nbgrad.conversions), or free?"
    for name in IMPLICIT:
        member = vars(NDArray)[name]
        method = member.fget if isinstance(member, property) else member
        assert isinstance(method, types.FunctionType)
        x = recorded(lambda: marked([1.0]) * 2)
        with autograd.record(), pytest.raises(LostGradientError):
            method(x)


def test_other_libraries_numbers():
    x = marked([1.5])
    with autograd.record():
        for function in (decimal.Decimal, statistics.fmean, functools.partial(round, ndigits=1)):
            try:
                found = function(x)
            except (TypeError, LostGradientError):
                continue
            assert found._node is not None
