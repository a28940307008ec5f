"""Corners of NumPy's functions: each expression gives the value, shape and dtype that it gives with NumPy, or the same
kind of error."""

import numpy
import pytest

import nbgrad as nb
import nbgrad.np as np

VALUES = """
np.quantile(np.array([1.0, np.nan, 3.0]), 0.1)
np.percentile(np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 4.0]]), [10, 50], axis=1)
np.quantile(np.array([1, 2, 4], dtype="float32"), [0.1, 0.4])
np.quantile(np.array([1, 2, 4], dtype="float32"), 0.1)
np.median(np.array([1.0, np.nan, 3.0]))
np.broadcast_to(np.ones((1, 3)), (0, 3))
np.broadcast_to(np.ones(()), (0,))
np.broadcast_arrays(np.ones((0, 3)), np.ones((1, 3)))[1]
np.full((0, 3), np.ones((1, 3)))
np.full((2, 3), np.ones(3))
np.linalg.trace(np.arange(12.0).reshape(3, 2, 2))
np.linalg.diagonal(np.arange(12.0).reshape(3, 2, 2), offset=1)
np.trace(np.arange(12.0).reshape(3, 2, 2))
np.exp(np.zeros((3, 3)), out=np.zeros((3, 3)), where=np.array([True, False, False]))
np.exp(np.zeros((2, 3)), out=np.zeros((2, 3)), where=np.array([True, False, False]))
np.polysub(np.array([2.0]), np.array([7], dtype="uint8"))
np.polysub(np.array([2.28, -0.56]), np.array([7, 4, 6], dtype="uint8"))
np.array([1.0, 2.0])[True]
np.array([1.0, 2.0])[False]
np.array([2, 3]) ** np.array([1, 0])
np.mean(np.full(70000, 1.0, dtype="float16"))
np.mean(np.full((3, 70000), 1.0, dtype="float16"), axis=1, keepdims=True)
np.vander(np.array([4, 5], dtype="int8"), 5)
np.vander(np.array([4, 5], dtype="float32"), 3)
np.einsum("ij->i", np.array([[True, True], [False, False]]))
np.vecdot(np.array([True, True]), np.array([True, True]))
np.vecdot(np.array([1, 2], dtype="int32"), np.array([1, 2], dtype="int32"))
np.std(np.array([1.0, 2.0]), axis=(), ddof=1)
np.var(np.array([1.0, 2.0]), ddof=2)
np.var(np.array([1.0, 2.0]), ddof=3)
np.var(np.array([[1.0, 2.0], [4.0, 2.0]]), axis=1, ddof=2)
np.nanvar(np.array([1.0, 2.0]), ddof=3)
np.nanstd(np.array([[1.0, np.nan], [2.0, 2.0]]), axis=1)
np.gradient(np.array([1.0, np.inf, 2.0, 3.0]))
np.gradient(np.array([1.0, 2.0, 4.0, 9.0]), 0.5, edge_order=2)
np.gradient(np.array([1.0, 2.0, 4.0, 9.0]), np.array([0.0, 1.0, 3.0, 4.0]), edge_order=2)
np.gradient(np.array([1, 2, 4], dtype="float32"), 0.5)
np.gradient(np.arange(12.0).reshape(3, 4) ** 2, 2.0, axis=0)
np.interp(-1.0, np.array([-1.0, 0.0]), np.array([np.inf, 1.0]))
np.interp(np.array([0.0, 0.5, 2.0]), np.array([0.0, 1.0]), np.array([3.0, 1.0]))
np.convolve(np.array([-1.0, 1.0, np.inf]), np.array([0.2, 0.8, 0.2, -0.5]), "same")
np.convolve(np.array([np.nan, 1.0, 2.0]), np.array([0.2, 0.8]), "full")
np.correlate(np.array([1.0, np.inf, 2.0, 3.0]), np.array([0.2, 0.8]), "valid")
np.average(np.array([[1.0, np.inf], [2.0, 3.0]]), axis=0, weights=np.array([1.0, 2.0]))
np.linalg.cond(np.zeros((2, 2)))
np.linalg.cond(np.array([[1.0, 2.0], [3.0, 4.0]]), 1)
np.diff(np.arange(3.0), n=0, prepend=0.0)
np.array([1.0, 2.0]) == None
np.array([1.0, 2.0]) != None
np.array([1.0, 2.0]) == "a"
np.cov(np.array([[1, 2, 4], [0, 1, 5]], dtype="float32"))
np.corrcoef(np.array([[1, 2, 4], [0, 1, 5]], dtype="float32"))
np.max(np.array([True, False]), initial=0)
np.max(np.array([1.0, 3.0]), initial=5)
np.min(np.zeros((0, 2)), axis=0, initial=3)
np.ediff1d(np.array([1, 4], dtype="int32"), to_end=1)
np.linspace(0, np.array([1, 2], dtype="float32"), 3)
np.logspace(1, np.array([1, 2], dtype="float32"), 3)
np.select([np.array([True, False])], [np.array([1, 2], dtype="float32")], 1.5)
np.select([np.array([True, False]), np.array([True, True])], [np.array([1, 2]), np.array([5.0, 6.0])])
np.clip(np.array([1, 200], dtype="uint8"), -5, 300)
np.linalg.norm(np.zeros(0), np.inf)
np.linalg.matrix_rank(np.zeros((0, 0)))
np.add.reduce(np.array([1.0, 2.0, 4.0]), initial=10.0)
np.add.reduce(np.array([1.0, 2.0, 4.0]), where=np.array([True, False, True]))
np.histogram(np.array([0.1, 0.5, 0.9]), 2, (0, 1), True)[0]
np.histogram(np.array([0.1, 0.5, 0.9]), 2)[1]
np.sort(np.array([3.0, 1.0]), 0, "stable")
np.argsort(np.array([3.0, 1.0]), 0, "stable")
np.tile(np.ones(2), np.array([2, 1]))
np.repeat(np.zeros((0, 2)), [], axis=0)
np.array([1, 2, 3])[[0, 1]]
np.array([1, 2, 3])[np.array([True, False, True])]
np.array([True, False])[np.array([1, 1])]
np.take(np.array([1, 2, 3]), np.array([0, 5]), mode="clip")
np.repeat(np.array([1, 2], dtype="uint8"), [2, 1])
np.take_along_axis(np.array([[3, 1]]), np.array([[1, 0]]), axis=1)
np.delete(np.array([1, 2, 3]), 1)
np.insert(np.array([1, 2, 3]), 1, 7)
np.diag(np.arange(16).reshape(4, 4), 2)
np.diagonal(np.arange(16).reshape(4, 4), 1)
np.pad(np.array([1, 2, 3]), 1, "wrap")
np.convolve(np.array([1, 2, 3]), np.array([1, 1]))
np.correlate(np.array([1, 2, 3]), np.array([1, 1]), "full")
np.polymul(np.array([1, 2]), np.array([1, 3]))
np.nanmedian(np.array([1, 4, 3]))
np.mean([np.ones(2)[0], np.ones(2)[1] * 3])
np.concatenate([[np.ones(2)[0]], np.ones(2)])
np.linalg.det([[np.ones(2)[0], 1.0], [0.0, 2.0]])
np.dot([np.ones(2)[0], 2.0], [1.0, 3.0])
""".strip().splitlines()

ERRORS = """
np.broadcast_to(np.ones(3), (2, 2))
np.power(np.array([2]), np.array([-1]))
np.array([2]) ** -1
np.array([300], dtype="uint8")
np.array([np.nan], dtype="int64")
np.array([1.0], dtype="float32", copy=False) if False else np.array([1.0], copy=False)
np.convolve(np.ones((2, 2)), np.ones(2))
np.nanargmax(np.array([np.nan, np.nan]))
np.sort(np.array([1.0]), kind="foo")
np.average(np.array([1.0, 2.0]), weights=np.array([0.0, 0.0]))
np.diff(np.ones(3), n=-1)
np.linalg.norm(np.ones(3), ord="fro")
np.linalg.matrix_power(np.eye(2), 1.5)
np.linalg.cholesky(-np.eye(2))
np.linalg.inv(np.zeros((2, 2)))
np.linalg.solve(np.zeros((2, 2)), np.ones(2))
np.matmul(np.ones((2, 3)), np.ones((2, 3)))
np.add(1)
pow(np.array([5.0]), 2, 3)
bool(np.array([]))
""".strip().splitlines()

STATEMENTS = """
x = np.array([3.0, 1.0, 2.0]); x.sort()
x = np.array([3.0, 1.0]); x.fill(2)
x = np.array([1.0, 2.0]); x[True] = 5
x = np.array([1.0, 2.0]); x[False] = 5
x = np.array([1.0, 2.0]); x[...] = 5
x = np.array([1, 2, 3]); x //= 2
x = np.array([1.0, 2.0], dtype="float32"); x += np.array([1.0, 2.0])
x = np.array([True, True]); k = x; x &= np.array([True, False]); x = k
x = np.array([True, False]); k = x; x |= np.array([True, True]); x = k
x = np.array([[1.0, 2.0], [3.0, 4.0]]); k = x; x @= x; x = k
x = np.array([1, 2, 3]); x /= 2
x = np.array([1, 2, 3]); x += 0.5
x = np.array([True, False]); x += 2
x = np.array([True, False]); x -= True
x = np.array([1, 2], dtype="uint8"); x[0] = -1
x = np.array([1, 2], dtype="uint8"); x[0] = 300
x = np.array([1, 2]); x[0] = float("nan")
x = np.array([1, 2, 3]); del x[0]
""".strip().splitlines()


def with_numpy(expression):
    with numpy.errstate(all="ignore"):
        return numpy.asarray(eval(expression, {"np": numpy}))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("expression", VALUES)
def test_values(expression):
    found, expected = eval(expression, {"np": np}), with_numpy(expression)
    assert isinstance(found, np.ndarray)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    numpy.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6 if expected.dtype == "float32" else 1e-13)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("expression", ERRORS)
def test_errors(expression):
    with pytest.raises(Exception) as expected:
        with_numpy(expression)
    kind = next(c for c in expected.type.__mro__ if c.__module__ in ("builtins", "numpy.linalg"))
    with pytest.raises(kind):
        eval(expression, {"np": np})


@pytest.mark.parametrize("statement", STATEMENTS)
def test_changes_in_place(statement):
    outcomes = []
    for namespace in ({"np": np}, {"np": numpy}):
        try:
            exec(statement, namespace)
        except (TypeError, ValueError, OverflowError) as error:
            outcomes.append(next(c for c in type(error).__mro__ if c.__module__ == "builtins"))
        else:
            outcomes.append((namespace["x"].dtype, namespace["x"].tolist()))
    if isinstance(outcomes[1], type):
        assert isinstance(outcomes[0], type)
        assert issubclass(outcomes[0], outcomes[1]) or {*outcomes} <= {RuntimeError, ValueError, TypeError}
    else:
        assert outcomes[0] == outcomes[1]


#: Calls of NumPy's and of ours that must agree, in values, dtypes and errors; y is an array of 8 bits without a sign.
AGREEING = [
    "np.unwrap(np.array([0, 5, 10, 15]))",
    "np.delete(np.arange(5.0), np.array([1, 2]))",
    "np.array([2**63 + 5], dtype='uint64') >> np.array([64], dtype='uint64')",
    "np.array([-100, 100]) >> np.array([64, 70])",
    "np.mean(np.array([1, 2]), dtype='int32')",
    *[f"np.gcd(np.array([12, 18], dtype='{d}'), 6)" for d in ("uint64", "int8", "uint16", "int32")],
    "np.fmod(np.array([-(2**63), -7, 7, 2**63 - 1]), 3)", "np.fmod(np.array([-7.5, -6.0, 6.0, 7.5]), -3.0)",
    "np.fmod(np.array([7, 200], dtype='uint8'), np.array([3, 9], dtype='uint8'))",
    "np.lcm(6, np.array([12, 18], dtype='uint64'))",
    *[f"np.{f}(np.array(3.0), axis={k})" for f in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "ptp",
      "argsort", "count_nonzero", "nansum", "squeeze", "cumsum") for k in (0, -1)],
    "np.var(np.array(3.0), axis=0)",
    "np.std(np.ones((2, 3)), axis=2)",
    *[f"{call.format(v=v)}" for v in ("3", "300", "-1", "[4]", "[300]") for call in (
        "np.put(y, [0], {v})", "np.place(y, y > 1, {v})", "np.putmask(y, y > 1, {v})", "np.fill_diagonal(z, {v})")],
    "y.__setitem__(0, 3)", "y.__setitem__(0, 300)", "y.__setitem__(slice(0, 1), [300])",
    "np.copyto(y, 3)", "np.copyto(y, 300)", "np.copyto(y, [3, 4, 5])", "np.copyto(y, 3.5)", "np.add.at(y, [0, 0], 1)",
]  # fmt: skip


@pytest.mark.parametrize("call", AGREEING)
def test_integers_and_arrays_without_axes_as_in_numpy(call):
    def outcome(module):
        names = {"np": module, "y": module.array([1, 2, 3], dtype="uint8"), "z": module.ones((2, 2), dtype="uint8")}
        try:
            found = eval(call, names)
        except (ValueError, TypeError, IndexError, ArithmeticError, nb.NBGradError) as err:
            return isinstance(err, OverflowError)
        arrays = [names["y"], names["z"]] if found is None else [found]
        return [(numpy.asarray(a).tolist(), str(a.dtype), a.shape) for a in arrays]

    assert outcome(np) == outcome(numpy)


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int8", "bool", "float32"])
def test_compiled_writes_convert_as_others_do(dtype):
    def written(x, y):
        y = y.copy()
        y[1:] = x[1:].astype("float64") * 1.5
        y[0] = 2
        z = np.reshape(y, (1, 3)) * np.ones((3, 1), dtype=dtype)
        np.fill_diagonal(z, 9)
        return y, z

    given = np.array([1.0, 2.0, 3.0]), np.array([1, 2, 3], dtype=dtype)
    for found, plain in zip(nb.jit(written)(*given), written(*given), strict=True):
        assert found.dtype == plain.dtype and found.asnumpy().tolist() == plain.asnumpy().tolist()


def test_variances_are_of_floats():
    with pytest.raises(nb.NBGradError, match="one of floats"):
        np.var(np.array([1, 2]), dtype="int32")
