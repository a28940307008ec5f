"""Every operator of the registry in a compiled function: values, gradients, second derivatives are the eager ones."""

import warnings

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.core.registry import operators
from nbgrad.errors import TraceError

#: They change their operands, or give a shape that depends on values.
REFUSED = ("bincount", "boolean_mask", "sgd_update", "signsgd_update")
#: Samples per operator that are compiled, and how many of them are differentiated once and twice.
SAMPLES, ONCE, TWICE = 2, 1, 1
#: Operators in a program: it is compiled in half the time that programs of one operator each take.
TOGETHER = 6


def chosen(entry):
    return [s for s in entry.samples if not s.changes][:SAMPLES]


SAMPLED = [pytest.param(e, id=e.name) for e in operators.values() if chosen(e) and e.name not in REFUSED]
GROUPS = [SAMPLED[k : k + TOGETHER] for k in range(0, len(SAMPLED), TOGETHER)]


def result_of(entry, sample, arrays):
    with autograd.train_mode() if sample.training else autograd.predict_mode():
        found = entry.call(*arrays, **sample.attrs)
    return list(found) if isinstance(found, list | tuple) else [found]


def derivatives(entry, sample, arrays, orders):
    """The gradient of a sum of sines of all results, and that of the sum of its squares."""
    places = tuple(k for k, given in enumerate(sample.inputs) if given.grad)
    if not (entry.differentiable and sample.order and sample.result in ("same", "float", "float64") and places):
        return []

    def loss(*xs):
        return sum(nd.sum(nd.sin(y)) for y in result_of(entry, sample, xs) if np.dtype(y.dtype).kind == "f")

    first = nb.grad(loss, argnums=places)
    second = nb.grad(lambda *xs: sum(nd.sum(g * g) for g in first(*xs)), argnums=places)
    return [g for gradient in (first, second)[: min(orders, sample.order)] for g in gradient(*arrays)]


def close(a, b):
    """Whether arrays are equal but for the rounding of the largest element."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    size = np.abs(b[np.isfinite(b)]).max(initial=0)
    with np.errstate(invalid="ignore"):
        return bool(np.all((a == b) | (np.abs(a - b) <= 1e-11 * size) | (np.isnan(a) & np.isnan(b))))


def outcomes(entry, given):
    """The results of the chosen samples, and derivatives; an error tells the operator."""
    found = []
    try:
        for k, (sample, arrays) in enumerate(zip(chosen(entry), given, strict=True)):
            found.append(result_of(entry, sample, arrays))
            found.append(derivatives(entry, sample, arrays, (k < ONCE) + (k < TWICE)))
    except Exception as err:
        err.add_note(f"in {entry.name}")
        raise
    return found


@pytest.mark.parametrize(
    "entries", [pytest.param([p.values[0] for p in g], id=" ".join(p.id for p in g)) for g in GROUPS]
)
def test_compiled_is_eager(entries):
    given = [[[nd.array(v) for v in s.draw()] for s in chosen(e)] for e in entries]

    def everything(given):
        return [outcomes(e, arrays) for e, arrays in zip(entries, given, strict=True)]

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for call in (everything, nb.jit(everything)):
            nb.random.seed(0)
            found.append(call(given))
    for entry, eager, compiled in zip(entries, *found, strict=True):
        for k, (a, b) in enumerate(zip(eager, compiled, strict=True)):
            assert len(a) == len(b)
            for x, y in zip(a, b, strict=True):
                x, y = x.asnumpy(), y.asnumpy()
                assert close(y, x), f"{entry.name}, {chosen(entry)[k // 2]!r}: {y} compiled, {x} eager"


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_traced_says_so(name):
    entry = operators[name]
    sample = entry.samples[0]
    with pytest.raises(TraceError, match=name):
        nb.jit(lambda *xs: entry.call(*xs, **sample.attrs))(*map(nd.array, sample.draw()))


def test_the_code_does_not_depend_on_where_objects_are_in_memory():
    """It would not be found on disk by the next process."""
    sample = chosen(operators["_embed"])[0]
    arrays = [nd.array(v) for v in sample.draw()]
    elsewhere, sources = [], set()
    for k in range(12):
        elsewhere.append([[] for _ in range(37 * k)])
        compiled = nb.jit(lambda *xs: derivatives(operators["_embed"], sample, xs, 2))
        compiled(*arrays)
        sources.add(compiled.source())
    assert len(sources) == 1
