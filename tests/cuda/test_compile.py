"""Every kernel that the operators ask for compiles to PTX; nothing is run, and no device or driver is needed."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sampled import ROWS, outcome

import nbgrad as nb
from nbgrad import context
from nbgrad.cuda import driver
from nbgrad.errors import NBGradError

CAPABILITIES = (8, 0), (9, 0)


class Memory:
    """Host memory that looks like a device array."""

    def __init__(self, array):
        self.array = array
        self.dtype, self.size = array.dtype, array.size

    def __getitem__(self, part):
        return Memory(self.array[part])

    def view(self, dtype):
        return Memory(self.array.view(dtype))


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """The driver, replaced: memory is the host's, and kernels are compiled instead of run; name -> PTX."""
    texts = {}

    def compile_only(function, kinds):
        texts.setdefault(function.__name__, []).append([driver.ptx(function, kinds, c) for c in CAPABILITIES])
        return lambda *arguments: None

    def store(number, target, source):
        target.array[:] = (source.array if isinstance(source, Memory) else source)[: target.size]

    gpus = SimpleNamespace(count=lambda: 1, check=lambda ctx: None, memory_info=lambda number: (0, 0))
    monkeypatch.setattr(context, "_gpus", gpus)
    monkeypatch.setattr(driver, "compiled", compile_only)
    monkeypatch.setattr(driver, "allocate", lambda number, size: Memory(np.zeros(size, np.uint8)))
    monkeypatch.setattr(driver, "upload", store)
    monkeypatch.setattr(driver, "download", lambda number, source: source.array.copy())
    monkeypatch.setattr(driver, "copy", lambda number, source, target: store(number, target, source))
    monkeypatch.setattr(driver, "fill", lambda number, target, size, value: target.array.fill(value))
    return texts


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "entry", sorted({e.name: e for e, _ in ROWS}.values(), key=lambda e: e.name), ids=lambda e: e.name
)
def test_kernels_of(entry, dtype, compiled):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for sample in entry.samples if dtype == "float64" else entry.samples[:1]:
            try:
                outcome(entry, sample, sample.draw(dtype), nb.gpu(0), 1)
            except NBGradError as err:  # what was not computed is zero
                assert "has a zero on its diagonal" in str(err)
    for name, made in compiled.items():
        for texts in made:
            for text, (major, minor) in zip(texts, CAPABILITIES, strict=True):
                assert ".entry" in text and f".target sm_{major}{minor}" in text, name
