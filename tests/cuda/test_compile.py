"""Every kernel that the operators ask for compiles to PTX; nothing is run, and no device or driver is needed."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.special
from operator_forms import rows
from ptx import ptx
from sampled import ROWS, outcome

import nbgrad as nb
from nbgrad import nd
from nbgrad.backends.cuda import driver, kernels
from nbgrad.core import context
from nbgrad.errors import NBGradError
from nbgrad.kernels import random_device, sorting_device

CAPABILITIES = (8, 0), (9, 0)
#: Of tests of every operator: the older one refuses whatever the newer one does, and no kernel asks which one it is.
OLDEST = CAPABILITIES[:1]
#: The PTX of all kernels that were made in this process, by their names: each is made once, by whichever test is first.
MADE: dict[str, list[str]] = {}


class Memory:
    """Host memory that looks like a device array."""

    def __init__(self, array):
        self.array = array
        self.dtype, self.size = array.dtype, array.size
        self.__cuda_array_interface__ = {"data": (array.ctypes.data, False)}

    def __getitem__(self, part):
        return Memory(self.array[part])

    def view(self, dtype):
        return Memory(self.array.view(dtype))


@pytest.fixture(autouse=True)
def compiled(monkeypatch, request):
    """The driver, replaced: memory is the host's, and kernels are compiled instead of run; name -> PTX."""
    strings = {}
    capabilities = OLDEST if request.node.originalname == "test_kernels_of" else CAPABILITIES

    def compile_only(function, kinds):
        made = ptx(function, kinds, capabilities)
        for known in (strings, MADE):
            known.setdefault(function.__name__, []).extend(made)
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
    return strings


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "entry", sorted({e.name: e for e, _ in ROWS}.values(), key=lambda e: e.name), ids=lambda e: e.name
)
def test_kernels_of(entry, dtype, compiled):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for sample in rows(entry) if dtype == "float64" else entry.samples[:1]:
            try:
                outcome(entry, sample, sample.draw(dtype), nb.gpu(0), 1)
            except NBGradError as err:  # what was not computed is zero
                assert "has a zero on its diagonal" in str(err)
    every = [text for strings in compiled.values() for text in strings]
    assert all(".entry" in text for text in every)
    assert all(f".target sm_{major}{minor}" in text for text in every for major, minor in OLDEST)


def normalized(x):
    return nd.sum(nd.LayerNorm(x, nd.ones(1024, dtype=x.dtype), nd.ones(1024, dtype=x.dtype)) ** 2)


FUNCTIONS = {
    "chain": lambda x: nd.tanh(nd.exp(x) * 2 + x) / 3,
    "softmax": lambda x: nd.softmax(x),
    "norm": nb.value_and_grad(normalized),
    "sums": lambda x: (nd.sum(x), nd.max(nd.exp(x)), nd.sum(x, axis=0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_compiled_functions(name, dtype, compiled):
    """Arrays are read and written 16 bytes at once, and nothing is in local memory."""
    x = np.zeros((256, 1024), dtype)
    nb.jit(FUNCTIONS[name])(nd.array(x, ctx=nb.gpu(0), dtype=dtype))
    every = "".join(text for strings in compiled.values() for text in strings)
    wide = {"float64": "v2.f64", "float32": "v4.f32", "float16": "v4."}[dtype]
    assert f"ld.global.{wide}" in every
    assert name == "sums" or f"st.global.{wide}" in every
    assert ".local" not in every
    if name != "chain":
        assert "shfl.sync" in every


@pytest.mark.parametrize("dtype, wide", [("float64", "v2.f64"), ("float32", "v4.f32"), ("float16", "v4.")])
def test_elementwise_operators(dtype, wide, compiled):
    """16 bytes at once, forward and backward."""
    x = nd.zeros((64, 64), ctx=nb.gpu(0), dtype=dtype)
    nb.elementwise_grad(lambda x: nd.exp(x) * x)(x)
    every = [text for name, strings in compiled.items() for text in strings if name.startswith(("exp", "multiply"))]
    assert every and all(f"{kind}.global.{wide}" in text for text in every for kind in ("ld", "st"))
    assert not any(".local" in text for text in every)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "uint32", "uint64"])
def test_integers(dtype, compiled):
    x = nd.zeros((64, 4), ctx=nb.gpu(0), dtype=dtype).as_np()
    assert ((x // (x + 1) + x % 3) ** 2 * (x < 5)).dtype == x.dtype
    assert [(x * 2.5).astype(dtype).dtype, (x / 2).dtype, x.sum().dtype.kind] == [x.dtype, "float64", x.dtype.kind]
    every = [text for strings in compiled.values() for text in strings]
    assert len(every) > 6 and all(".entry" in text for text in every)
    assert dtype != "uint64" or any("div.u64" in text or "rem.u64" in text for text in every)


@pytest.mark.parametrize("name", ["j0", "k0e", "jv", "yv", "iv", "kv", "expi", "expn", "zetac"])
def test_special_functions(name, compiled):
    """Forward and backward."""
    x, f = nd.zeros(64, ctx=nb.gpu(0), dtype="float64"), getattr(scipy.special, name)
    order = (2.0,) if f.nin == 2 else ()
    nb.elementwise_grad(lambda x: f(*order, x))(x)
    every = [text for strings in compiled.values() for text in strings]
    assert len(compiled) >= 2 and all(".entry" in text for text in every)


@pytest.mark.parametrize("compile_first", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_strong_zeros_are_selected(dtype, compile_first, compiled):
    """Derivatives with poles compare and select; they do not branch for it."""
    x = nd.zeros((64, 64), ctx=nb.gpu(0), dtype=dtype)
    f = nb.elementwise_grad(lambda x: nd.where(x > 0, nd.sqrt(x) * nd.log(x), 0 * x))
    compiled.clear()
    (nb.jit(f) if compile_first else f)(x)
    for name in ["map"] if compile_first else ["sqrt_pullback", "log_pullback"]:
        every = [t for key, strings in (compiled if compile_first else MADE).items() for t in strings if name in key]
        assert every, (name, list(compiled))
        for text in every:
            assert "selp" in text and ".local" not in text


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_products_are_in_registers(dtype, compiled):
    """And nothing else is computed for one."""
    x = nd.zeros((512, 512), ctx=nb.gpu(0), dtype=dtype)
    compiled.clear()
    nd.dot(x, x, transpose_b=True)
    (made,) = compiled.values()
    short = {"float64": "f64", "float32": "f32", "float16": "f32"}[dtype]
    assert len(made) == len(CAPABILITIES)
    assert all(text.count(f"fma.rn.{short}") >= 16 and ".local" not in text for text in made)


def test_what_follows_products_is_in_their_kernels(compiled):
    """It is no call in there."""
    x = nd.zeros((512, 512), ctx=nb.gpu(0), dtype="float32")
    nb.jit(lambda x: nd.tanh(nd.dot(x, x) + x[0]) * x)(x)
    assert [name.split("_")[0] for name in compiled] == ["product"]
    for text in next(iter(compiled.values())):
        assert text.count("fma.rn.f32") >= 16 and "call" not in text and ".local" not in text


DRAWS = {
    "uniform": lambda **how: nd.random.uniform(0, 2, **how),
    "normal": lambda **how: nd.random.normal(1, 2, dtype="float64", **how),
    "exponential": lambda **how: nd.random.exponential(2, **how),
    "bernoulli": lambda **how: nb.random.bernoulli(0.3, **how),
    "gamma": lambda **how: nd.random.gamma(2.0, 3.0, **how),
    "poisson": lambda **how: nd.random.poisson(30.0, dtype="float64", **how),
    "integers": lambda **how: nd.random.randint(0, 9, **how),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers(name, compiled, monkeypatch):
    monkeypatch.setattr(kernels, "_kernels", {})
    random_device._kernel.cache_clear()
    DRAWS[name](shape=(5, 3), ctx=nb.gpu(0))
    (strings,) = [strings for made, strings in compiled.items() if made.startswith("draw_")]
    assert len(strings) == len(CAPABILITIES) and not any(".local" in text for text in strings)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sorting(dtype, compiled, monkeypatch):
    """Rows of more than a tile: all of its kernels."""
    for made in (sorting_device._keys, sorting_device._sort_tiles, sorting_device._merge):
        monkeypatch.setattr(made, "_launches", {})
    nd.sort(nd.zeros((2, 2 * sorting_device.TILE + 1), ctx=nb.gpu(0), dtype=dtype))
    every = [compiled[name] for name in ("_keys", "_sort_tiles", "_merge")]
    assert all(".shared" in text for text in compiled["_sort_tiles"])
    assert not any(".local" in text for strings in every for text in strings)
