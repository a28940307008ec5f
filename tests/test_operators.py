"""Every operator of the registry, by its table of samples: values, dtypes, shapes, errors, gradients.

A sample says what goes in and what NumPy or SciPy gives; see :mod:`nbgrad.operators.samples`. What a table cannot
say is in the literal rows of :mod:`test_kinks`.
"""

import inspect
import pathlib
import re

import numpy as np
import pytest
from operator_forms import represents, rows

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.core.registry import operators
from nbgrad.operators.elementwise import Elementwise
from nbgrad.operators.samples import Input
from nbgrad.testing import check_grads

ENTRIES = list(operators.values())
CASES = [pytest.param(e, s, id=f"{e.name}-{s!r}") for e in ENTRIES for s in e.samples]
#: In dtypes other than float64.
FEWER = [pytest.param(e, s, id=f"{e.name}-{s!r}") for e in ENTRIES for s in rows(e)]
BY_OP = [pytest.param(e, id=e.name) for e in ENTRIES]
SAMPLED = [pytest.param(e, id=e.name) for e in ENTRIES if e.samples]
ORDERS = 3
DIFFERENTIABLE = [
    pytest.param(e, s, ORDERS if k == 0 else 2, id=f"{e.name}-{s!r}")
    for e in ENTRIES
    for k, s in enumerate(rows(e))
    if e.differentiable and s.order and s.result in ("same", "float", "float64")
]
DECLARED = [pytest.param(e, s, id=f"{e.name}-{s!r}") for e in ENTRIES for s in e.samples if s.loss]
BINARY = [pytest.param(e, id=e.name) for e in ENTRIES if isinstance(e.rule, Elementwise) and len(e.rule.operands) == 2]


def listed(result):
    return list(result) if isinstance(result, list | tuple) else [result]


def run(entry, sample, arrays, **more):
    """What a call as the sample says gives, and the operands that it changed: copies of those given."""
    arrays = [x.copy() if k in sample.changes else x for k, x in enumerate(arrays)]
    if sample.random:
        nb.random.seed(0)
    with autograd.train_mode() if sample.training else autograd.predict_mode():
        result = entry.call(*arrays, **sample.attrs, **more)
    return result, [arrays[k] for k in sample.changes]


def apply(entry, sample, arrays):
    return listed(run(entry, sample, arrays)[0])


def result_dtype(sample, dtype):
    if sample.result == "same":
        return np.dtype(dtype)
    if sample.result == "float":
        return np.dtype(dtype) if np.dtype(dtype).kind == "f" else np.dtype("float32")
    return np.dtype(sample.result)


def distance(found, expected, elementwise):
    """The greatest distance in units in the last place."""
    assert (np.isnan(found) == np.isnan(expected)).all()
    found, expected = (np.nan_to_num(v, nan=0.0, posinf=None, neginf=None) for v in (found, expected))
    if not found.size:
        return 0.0
    limits = np.finfo(expected.dtype)
    size = np.abs(expected) if elementwise else np.max(np.abs(expected))
    apart = np.abs(found.astype(np.longdouble) - expected.astype(np.longdouble))
    return float(np.max(apart / np.spacing(np.clip(size, limits.tiny, limits.max / 2))))


def reference(sample, values, wide):
    """What the reference gives, computed in the dtype `wide` if there is one."""
    if sample.random:
        nb.random.seed(0)
    elif wide:
        pairs = zip(values, sample.inputs, strict=True)
        values = [v.astype(wide) if i.dtype is None else v for v, i in pairs]
    with np.errstate(all="ignore"):
        return [np.asarray(v) for v in listed(sample.reference(*values))]


def check_value(entry, sample, dtype, values=None, arrays=None):
    values = sample.draw(dtype) if values is None else values
    arrays = [nd.array(v) for v in values] if arrays is None else arrays
    result, changed = run(entry, sample, arrays)
    found = listed(result) + changed
    target = result_dtype(sample, dtype)
    wide = np.float64 if np.dtype(dtype).kind == "f" or sample.result == "float" else None
    expected = reference(sample, values, wide)
    assert len(found) == len(expected)
    for k, (y, want) in enumerate(zip(found, expected, strict=True)):
        want = want.astype(target)
        got = y.asnumpy()
        assert got.dtype == target
        assert got.shape == want.shape
        if target.kind == "f":
            limit, elementwise = (
                min(1, sample.ulp) if target == np.float16 else sample.ulp,
                isinstance(entry.rule, Elementwise),
            )
            if elementwise and distance(got, want, True) > limit:  # NumPy's are off by more on some processors
                want = reference(sample, values, np.longdouble)[k].astype(target)
            assert distance(got, want, elementwise) <= limit
        else:
            assert (got == want).all()
    for x, before in zip(arrays, values, strict=True):
        if isinstance(x, nb.NDArray):
            assert np.array_equal(x.asnumpy(), before, equal_nan=True), "an operand was changed"


@pytest.mark.parametrize(("entry", "sample"), CASES)
def test_value_dtype_and_shape(entry, sample):
    check_value(entry, sample, "float64")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("entry", "sample"), FEWER)
def test_other_floats(entry, sample, dtype):
    check_value(entry, sample, dtype)


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
@pytest.mark.parametrize(("entry", "sample"), [c for c in FEWER if c.values[1].ints])
def test_integers(entry, sample, dtype):
    values = sample.draw(dtype)
    if entry.name == "power":  # NumPy refuses negative exponents
        values[1] = np.abs(values[1])
    check_value(entry, sample, dtype, values)


# Broadcasting of two operands.

SHAPES = [
    ((3, 1), (1, 4)),
    ((2, 3), (1,)),
    ((2, 1, 3), (4, 1)),
    ((1, 1), (1,)),
    ((), (3,)),
    ((0,), (1,)),
    ((3, 1), (0,)),
]


@pytest.mark.parametrize("entry", [e for e in BINARY if represents(e.values[0])])
def test_broadcast(entry):
    """Of others, the samples of float64 have operands that broadcast."""
    sample = entry.samples[0]
    for shapes in SHAPES:
        inputs = [Input(s, i.low, i.high) for s, i in zip(shapes, sample.inputs, strict=True)]
        check_value(entry, sample, "float64", [i.draw(k, "float64") for k, i in enumerate(inputs)])


@pytest.mark.parametrize("entry", BINARY)
def test_one_operand_is_a_number_or_a_numpy_array(entry):
    sample = entry.samples[0]
    a, b = sample.draw()
    for left, right in ((a, float(b[0])), (float(a[0]), b), (a, b[0]), (a, b.tolist())):
        values = [np.asarray(left), np.asarray(right)]
        arrays = [nd.array(v) if isinstance(v, np.ndarray) else v for v in (left, right)]
        check_value(entry, sample, "float64", values, arrays)
    check_value(entry, sample, "float64", [a, b], [nd.array(a), b])
    check_value(entry, sample, "float64", [a, b], [a, nd.array(b)])


@pytest.mark.parametrize("entry", BINARY)
def test_shapes_that_do_not_broadcast(entry):
    with pytest.raises(ValueError, match=rf"{entry.name}: .*broadcast"):
        entry.call(nd.ones((2, 3)), nd.ones((2,)))


@pytest.mark.parametrize("exponent", [1, 2, 3, 0.5, -1, -2, -0.5, 0, 0.0, 4])
def test_powers_with_a_number(exponent):
    x = np.array([0.5, 0.9, 1.4])
    assert distance((nd.array(x) ** exponent).asnumpy(), x**exponent, True) <= 2
    check_grads(lambda a: nd.sin(a**exponent), [x], order=3, modes=["backward"])
    check_grads(lambda a: nd.sin(a**exponent), [x], order=2, modes=["recorded"])
    if exponent in (1, 2, 3, 4, 0):
        whole = nd.array([-2, 0, 3], dtype="int32") ** int(exponent)
        assert whole.dtype == np.int32
        assert whole.tolist() == [(-2) ** int(exponent), 0 ** int(exponent), 3 ** int(exponent)]


# Empty and 0-d.


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
@pytest.mark.parametrize("entry", [e for e in SAMPLED if isinstance(e.values[0].rule, Elementwise)])
def test_empty_and_0d(entry, shape):
    sample = entry.samples[0]
    inputs = [Input(shape, i.low, i.high) for i in sample.inputs]
    values = [i.draw(k, "float64") for k, i in enumerate(inputs)]
    check_value(entry, sample, "float64", values)
    arrays = [nd.array(v) for v in values]
    for x in arrays:
        x.attach_grad()
    with autograd.record():
        y = entry.call(*arrays, **sample.attrs)
    y.backward()
    assert all(x.grad.shape == shape for x in arrays)


# How an operator is called.


@pytest.mark.parametrize("entry", SAMPLED)
def test_out(entry):
    if "out" not in inspect.signature(entry.call, follow_wrapped=False).parameters:
        pytest.fail(f"{entry.name} takes no out")
    sample = entry.samples[0]
    arrays = [nd.array(v) for v in sample.draw("float32")]
    expected = apply(entry, sample, arrays)
    outs = [nd.zeros(y.shape, dtype=y.dtype) for y in expected]
    given = outs if isinstance(run(entry, sample, arrays)[0], list) else outs[0]
    found, _ = run(entry, sample, arrays, out=given)
    for y, o, want in zip(listed(found), outs, expected, strict=True):
        assert y is o
        assert np.array_equal(o.asnumpy(), want.asnumpy())
    wrong = [nd.zeros((*y.shape, 7), dtype=y.dtype) for y in expected]
    with pytest.raises(ValueError, match=f"{entry.name}: out must have .*shape"):
        run(entry, sample, arrays, out=wrong if isinstance(given, list) else wrong[0])


@pytest.mark.parametrize("entry", SAMPLED)
def test_unknown_keyword(entry):
    sample = entry.samples[0]
    arrays = [nd.array(v) for v in sample.draw("float32")]
    with pytest.raises(TypeError, match=rf"{entry.name}.*no_such_keyword"):
        entry.call(*arrays, **sample.attrs, no_such_keyword=1)


@pytest.mark.parametrize("bad", [5, "text", None, [1.0, 2.0]], ids=repr)
def test_data_that_is_no_array(bad):
    for entry in [e for e in ENTRIES if e.samples]:
        sample = entry.samples[0]
        if bad == 5 and isinstance(entry.rule, Elementwise) and len(sample.inputs) == 2:
            assert isinstance(entry.call(5, 5), float)  # two numbers give a number
            continue
        with pytest.raises(TypeError, match=f"{entry.name}: "):
            entry.call(*[bad] * len(sample.inputs), **sample.attrs)
            pytest.fail(f"{entry.name} takes it")


@pytest.mark.parametrize("entry", BY_OP)
def test_names_and_documentation(entry):
    for name in (entry.name, *entry.aliases):
        assert getattr(nd, name) is entry.call
        if entry.method:
            assert hasattr(nb.NDArray, name)
    doc = inspect.getdoc(entry.call)
    assert doc
    assert "Parameters\n-----" in doc or doc.split("\n\n")[0].rstrip().endswith(".")


def test_every_operator_is_tested():
    """By samples, or by name in another file of tests; what is private, through what is made of it."""
    here = pathlib.Path(__file__)
    text = "\n".join(p.read_text() for p in here.parent.glob("test_*.py") if p != here)
    public = [e.name for e in ENTRIES if not e.samples and not e.name.startswith("_")]
    missing = [name for name in public if not re.search(rf"\b{name}\b", text)]
    assert not missing


# Gradients.


def drawn(sample):
    """The operands in float64, and the numbers of those that are differentiated."""
    return [nd.array(v) for v in sample.draw()], [k for k, i in enumerate(sample.inputs) if i.grad]


@pytest.mark.parametrize(("entry", "sample", "order"), DIFFERENTIABLE)
def test_gradients(entry, sample, order):
    operands, active = drawn(sample)

    def f(*variables):
        arrays = list(operands)
        for k, x in zip(active, variables, strict=True):
            arrays[k] = x
        # The sine makes gradients of linear operators depend on the operands.
        return [nd.sin(y) for y in apply(entry, sample, arrays)]

    assert active
    check_orders(entry, f, [operands[k] for k in active], min(order, sample.order))


def check_orders(entry, f, args, order):
    """Both modes at every order; of an elementwise operator, up to the second, unless it represents others.

    What is recorded as the third derivative has the expressions that ``backward`` has in one kernel, which are derived
    once for both.
    """
    if order < 3 or not isinstance(entry.rule, Elementwise) or represents(entry):
        check_grads(f, args, order=order)
    else:
        check_grads(f, args, order=order, modes=["backward"])
        check_grads(f, args, order=2, modes=["recorded"])


@pytest.mark.parametrize(("entry", "sample"), DECLARED)
def test_declared_gradients(entry, sample):
    """They are those of a loss, and so are their gradients."""
    found = []
    for loss in (False, True):
        (x, *others), _ = drawn(sample)
        x.attach_grad()
        with autograd.record():
            y = sample.loss(x, *others, **sample.attrs) if loss else run(entry, sample, [x, *others])[0]
            for _ in range(ORDERS):
                y = autograd.grad(y, x, create_graph=True)
                found.append(y.asnumpy())
                y = x * nd.sin(y)
    for a, b in zip(found[:ORDERS], found[ORDERS:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def heads_of(ys, seed=0):
    random = np.random.default_rng(seed)
    return [nd.array(random.uniform(0.5, 1.5, y.shape).astype(y.dtype)) for y in ys]


def backward(f, operands, marked, request="write", times=1):
    """The gradients that `backward` leaves in the marked operands."""
    operands = [x.copy() for x in operands]
    for k in marked:
        operands[k].attach_grad(request)
    for _ in range(times):
        with autograd.record():
            ys = listed(f(*operands))
        pairs = [(y, h) for y, h in zip(ys, heads_of(ys), strict=True) if y._node is not None]
        autograd.backward(*zip(*pairs, strict=True))
    return [operands[k].grad.asnumpy() for k in marked]


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


FIRST = [pytest.param(p.values[0], id=p.id) for p in DIFFERENTIABLE if p.values[2] == ORDERS]


@pytest.mark.parametrize("entry", [e for e in FIRST if represents(e.values[0])])
def test_backward_is_the_recorded_gradient(entry):
    """However a cotangent is stored: written, added to what is there, passed on, for all operands or some."""
    sample = entry.samples[0]
    operands, active = drawn(sample)

    def f(*arrays):
        return run(entry, sample, arrays)[0]

    def total(ys):
        return sum((y.sum() for y in listed(ys)), 0.0)

    variables = [operands[k] for k in active]
    for x in variables:
        x.attach_grad()
    with autograd.record():
        ys = listed(f(*operands))
    single = [g.asnumpy() for g in autograd.grad(ys, variables, heads_of(ys), create_graph=True)]
    with autograd.record():
        ys = listed(f(*operands))
    assert_same([g.asnumpy() for g in autograd.grad(ys, variables, heads_of(ys))], single)

    operands = [x.detach() for x in operands]
    assert_same(backward(f, operands, active), single)
    double = [2 * g for g in single]
    assert_same(backward(lambda *a: [y + z for y, z in zip(listed(f(*a)), listed(f(*a)))], operands, active), double)
    assert_same(backward(f, operands, active, "add", times=2), double)
    head = heads_of([nd.ones((1,), dtype="float64")])[0].asscalar()
    for n, k in enumerate(active):
        assert_same(backward(f, operands, [k]), single[n : n + 1])
        # Other uses of the operand leave a cotangent before, or after, this one.
        ones = backward(lambda *a, k=k: total(f(*a)), operands, [k])
        before = backward(lambda *a, k=k: total(a[k]) + total(f(*a)), operands, [k])
        after = backward(lambda *a, k=k: total(f(*a)) + total(a[k] * 3.0), operands, [k])
        assert_same(before, [ones[0] + head])
        assert_same(after, [ones[0] + 3 * head])


@pytest.mark.parametrize("entry", [e for e in BINARY if e.values[0].differentiable])
def test_the_same_array_for_both_operands(entry):
    x = nd.array([0.3, 0.5, 0.9], dtype="float64")
    if not entry.samples[0].inputs[0].grad:  # an order, not a variable
        x = nd.ones((3,), dtype="float64")
    x.attach_grad()
    for f in (entry.call, lambda a, b: entry.call(a, b) * entry.call(b, a)):
        with autograd.record():
            y = f(x, x)
        y.backward(heads_of([y])[0])
        raw = x.grad.asnumpy()
        with autograd.record():
            y = f(x, x)
        recorded = autograd.grad(y, x, heads_of([y])[0], create_graph=True)
        with autograd.record():
            y = f(x + 0.0, x.copy())
        apart = autograd.grad(y, x, heads_of([y])[0])
        assert_same([raw, recorded.asnumpy()], [apart.asnumpy()] * 2)


@pytest.mark.parametrize("entry", BINARY)
def test_broadcast_operands_get_sums(entry):
    if not entry.differentiable:
        return
    sample = entry.samples[0]
    for shapes in [((), (2,)), ((2, 2), (1,))]:
        inputs = [Input(s, i.low, i.high) for s, i in zip(shapes, sample.inputs, strict=True)]
        values = [nd.array(i.draw(k, "float64")) for k, i in enumerate(inputs)]
        active = [k for k, i in enumerate(inputs) if i.grad]

        def f(*variables, values=values, active=active):
            arrays = list(values)
            for k, x in zip(active, variables, strict=True):
                arrays[k] = x
            return nd.sin(entry.call(*arrays))

        check_grads(f, [values[k] for k in active], order=1)


#: Updates refuse operands that have a gradient: tests/test_constants.py.
WITHOUT_GRADIENT = [e for e in SAMPLED if not e.values[0].differentiable and not e.id.endswith("_update")]


@pytest.mark.parametrize("entry", WITHOUT_GRADIENT)
def test_gradient_of_what_has_none_is_zero(entry):
    """Alone, an operator may also make a constant of its operands; beside another use it adds nothing."""
    for sample in entry.samples:
        operands, active = drawn(sample)
        if not active:
            continue

        def f(*arrays, sample=sample, active=active):
            ys = apply(entry, sample, arrays)
            return [arrays[k] * 2.0 for k in active] + [y * 3.0 for y in ys]

        operands = [x.copy() for x in operands]
        for k in active:
            operands[k].attach_grad()
        with autograd.record():
            ys = [y for y in f(*operands) if y._node is not None]
        variables = [operands[k] for k in active]
        for recorded in (False, True):
            for g in autograd.grad(ys, variables, retain_graph=True, create_graph=recorded):
                assert (g.asnumpy() == 2.0).all()


# Integers where a table of small numbers would not notice.


def test_mean_and_norm_of_integers_do_not_overflow():
    assert nd.mean(nd.array([100, 100], dtype="int8")).asscalar() == 100
    assert nd.norm(nd.array([60000, 80000], dtype="int32")).asscalar() == 100000
    assert nd.sum(nd.array([100, 100], dtype="int8")).tolist() == [-56]  # a sum keeps its dtype


@pytest.mark.parametrize("name", ["modulo", "floor_divide", "divide", "power"])
def test_integers_and_zero(name):
    """Whatever the value, neither a crash nor an error in a kernel."""
    for dtype in ("int8", "int32", "int64", "uint8", "bool"):
        y = operators[name].call(nd.array([5, 0, 1], dtype=dtype), nd.zeros((3,), dtype=dtype))
        assert y.shape == (3,)
    y = nd.array([-(2**63)], dtype="int64") // nd.array([-1], dtype="int64")
    assert y.shape == (1,)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logical_and", "logical_xor", "equal"])
def test_bools(name):
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    y = operators[name].call(nd.array(a), nd.array(b)).asnumpy()
    assert y.dtype == np.bool_
    assert (y == operators[name].samples[0].function(a, b)).all()


def test_a_list_of_floats_beside_integers_stays_floats():
    assert (nd.array([1, 2], dtype="int32") + [0.5, 1.0]).tolist() == [1.5, 3.0]
    assert (nd.array([1, 2], dtype="int32") + [1, 2]).dtype == np.int32
