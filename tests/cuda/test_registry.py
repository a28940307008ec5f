"""Every operator on the device: values, gradients and second derivatives are the CPU's."""

import warnings

import pytest
from pages import ON_HOST
from sampled import ROWS, close, outcome

import nbgrad as nb
from nbgrad.backends.cuda import driver

TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2}
#: Samples that are differentiated twice: the first of each operator.
FIRST = {id(entry.samples[0]) for entry, _ in ROWS}


@pytest.fixture
def downloads(monkeypatch):
    """How many elements each copy to the host is of."""
    sizes, before = [], driver.download
    monkeypatch.setattr(driver, "download", lambda number, source: sizes.append(source.size) or before(number, source))
    return sizes


def check(gpu, entry, sample, dtype, order, downloads):
    values = sample.draw(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        wanted = outcome(entry, sample, values, nb.cpu(0), order)
        found = outcome(entry, sample, values, gpu, order)
    told = entry.name in ON_HOST or entry.name.startswith("linalg_")
    assert told or max(downloads, default=0) <= 1, "docs/devices.md does not say that it looks at numbers on the host"
    assert len(found) == len(wanted)
    for y, z in zip(found, wanted, strict=True):
        assert y.context == gpu
        assert close(y.asnumpy(), z.asnumpy(), TOLERANCE[dtype]), (y, z)


@pytest.mark.parametrize("entry, sample", [pytest.param(e, s, id=f"{e.name}-{s!r}") for e, s in ROWS])
def test_device_is_cpu(gpu, entry, sample, downloads):
    check(gpu, entry, sample, "float64", 2 if id(sample) in FIRST else 1, downloads)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "entry, sample", [pytest.param(e, s, id=e.name) for e, s in ROWS if id(s) in FIRST and s.result == "same"]
)
def test_other_dtypes(gpu, entry, sample, dtype, downloads):
    check(gpu, entry, sample, dtype, 1 if dtype == "float32" and not sample.changes else 0, downloads)
