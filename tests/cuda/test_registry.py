"""Every operator on the device: values, gradients and second derivatives are the CPU's."""

import warnings

import pytest
from sampled import ROWS, close, outcome

import nbgrad as nb

TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2}
#: Samples that are differentiated twice: the first of each operator.
FIRST = {id(entry.samples[0]) for entry, _ in ROWS}


def check(gpu, entry, sample, dtype, order):
    values = sample.draw(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        wanted = outcome(entry, sample, values, nb.cpu(0), order)
        found = outcome(entry, sample, values, gpu, order)
    assert len(found) == len(wanted)
    for y, z in zip(found, wanted, strict=True):
        assert y.context == gpu
        assert close(y.asnumpy(), z.asnumpy(), TOLERANCE[dtype]), (y, z)


@pytest.mark.parametrize("entry, sample", [pytest.param(e, s, id=f"{e.name}-{s!r}") for e, s in ROWS])
def test_device_is_cpu(gpu, entry, sample):
    check(gpu, entry, sample, "float64", 2 if id(sample) in FIRST else 1)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "entry, sample", [pytest.param(e, s, id=e.name) for e, s in ROWS if id(s) in FIRST and s.result == "same"]
)
def test_other_dtypes(gpu, entry, sample, dtype):
    check(gpu, entry, sample, dtype, 1 if dtype == "float32" and not sample.changes else 0)
