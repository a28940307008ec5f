"""Matrix products by cublasLt, NVIDIA's library, called as its header ``cublasLt.h`` says.

Its matrices are column-major. It sees a row-major matrix as the transposed one, so it is asked for the transposed
product, that of the exchanged operands.

Each product is described, and its algorithm chosen, once; a call passes addresses only. If anything fails, nbgrad's own
kernel computes that product from then on.
"""

from __future__ import annotations

import ctypes
import importlib
import weakref
from collections.abc import Callable, Sequence
from ctypes import byref, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...core import config
from ...core.fork_safety import lock
from . import driver, launches
from .buffers import pools

__all__ = ["Product", "library", "status"]

#: Bytes of workspace for split reductions: what NVIDIA recommends for Hopper; less is recommended for others.
_WORKSPACE = 32 << 20
#: The largest alignment that makes a difference, and the alignment that a bias vector needs.
_ALIGNED, _VECTOR = 256, 16

# Values of the header's enumerations.
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS_POINTER = 3, 4, 7, 8  # cublasLtMatmulDescAttributes_t
_BIAS = 4  # cublasLtEpilogue_t
_BATCH_COUNT, _BATCH_OFFSET = 5, 6  # cublasLtMatrixLayoutAttribute_t
_MAX_WORKSPACE, _REDUCTIONS, _ALIGNMENTS = 1, 3, (5, 6, 7, 8)  # cublasLtMatmulPreferenceAttributes_t: a, b, c, d


class _Kind(NamedTuple):
    """How the library computes in a dtype: cudaDataType of elements, cublasComputeType_t, cudaDataType of scalars."""

    element: int
    compute: int
    scale: int
    scalar: Any
    #: cublasLtReductionScheme_t: the split reductions that it may use. None that round partial sums to float16.
    reductions: int


_KINDS = {
    np.dtype(np.float32): _Kind(0, 68, 0, c_float, 7),
    np.dtype(np.float64): _Kind(1, 70, 1, c_double, 7),
    np.dtype(np.uint16): _Kind(2, 68, 0, c_float, 2),  # the storage of float16, which is computed in float32
}


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = [
        ("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int), ("waves", c_float),
        ("reserved", c_int * 4),
    ]  # fmt: skip


_SIGNATURES: dict[str, tuple] = {
    "Create": (c_void_p,),
    "MatmulDescCreate": (c_void_p, c_int, c_int),
    "MatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "MatmulDescDestroy": (c_void_p,),
    "MatrixLayoutCreate": (c_void_p, c_int, c_uint64, c_uint64, c_int64),
    "MatrixLayoutSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "MatrixLayoutDestroy": (c_void_p,),
    "MatmulPreferenceCreate": (c_void_p,),
    "MatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "MatmulPreferenceDestroy": (c_void_p,),
    "MatmulAlgoGetHeuristic": (*[c_void_p] * 7, c_int, c_void_p, c_void_p),
    "Matmul": (*[c_void_p] * 14, c_size_t, c_void_p),
}


class CublasError(Exception):
    """The library is missing, or refuses something."""


def load() -> Any:
    """Load the library from where it is installed."""
    if driver.simulated() or not config.CUBLAS:
        raise CublasError("the simulator has no library" if driver.simulated() else "NBGRAD_CUBLAS is 0")
    try:  # the wheels next to numba-cuda, conda's packages, the toolkit, the system
        return ctypes.CDLL(importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib("cublasLt").abs_path)
    except Exception as err:  # whatever pathfinder raises
        for name in ("libcublasLt.so.13", "libcublasLt.so.12"):
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
        raise CublasError("libcublasLt is not installed: pip install 'nbgrad[cublas13]' (or cublas12)") from err


class Library:
    """The library on one device."""

    def __init__(self, number: int) -> None:
        with driver.on(number, launch=True):
            loaded = load()
            self._functions: dict[str, Callable[..., int]] = {}
            for name, kinds in _SIGNATURES.items():
                function = self._functions[name] = getattr(loaded, f"cublasLt{name}")
                function.argtypes, function.restype = kinds, c_int
            self._name = loaded.cublasLtGetStatusName
            self._name.argtypes, self._name.restype = (c_int,), ctypes.c_char_p
            loaded.cublasLtGetVersion.restype = c_size_t
            #: For example 131000.
            self.version = int(loaded.cublasLtGetVersion())
            self.handle = self.create_object("")
            self._lease = pools(number).lend(_WORKSPACE)  # never returned: graphs contain its address
            self.workspace = driver.address(self._lease.memory)

    def call(self, name: str, *arguments) -> None:
        """Call ``cublasLt<name>``.

        Raises
        ------
        CublasError
            If its status is an error.
        """
        status_code = self._functions[name](*arguments)
        if status_code != 0:
            raise CublasError(f"cublasLt{name} failed: {(self._name(status_code) or b'').decode() or status_code}")

    def create_object(self, name: str, *arguments) -> c_void_p:
        """The object that ``cublasLt<name>Create`` creates."""
        handle = c_void_p()
        self.call(f"{name}Create", byref(handle), *arguments)
        return handle

    def set_attribute(self, name: str, of: c_void_p, attribute: int, value: Any) -> None:
        """Set an attribute of an object that :meth:`create_object` created."""
        self.call(f"{name}SetAttribute", of, attribute, byref(value), sizeof(value))


@cache
def _opened(number: int) -> Library | str:
    """The library on a device, or why it cannot be used."""
    try:
        return Library(number)
    except Exception as err:  # whatever it is, nbgrad's own kernels remain
        return " ".join(str(err).split()) or type(err).__name__


def library(number: int) -> Library | None:
    """The library on a device, if it can be used there."""
    opened = _opened(number)
    return opened if isinstance(opened, Library) else None


def status(number: int) -> str:
    """What multiplies large matrices on a device, in words."""
    opened = _opened(number)
    if isinstance(opened, str):
        return f"nbgrad's kernel ({opened})"
    return f"cublasLt {opened.version // 10_000}.{opened.version // 100 % 100}"


class Product(NamedTuple):
    """``out = alpha * (a @ b) + beta * c + bias`` for stacks of row-major matrices.

    Attributes
    ----------
    dtype : dtype
        Of all.
    stacks : int
        Matrices in `out`.
    sizes : (int, int, int)
        m, k and n.
    transposed : (bool, bool)
        `a` is stored as (k, m), `b` as (n, k).
    shared : (bool, bool)
        One `a`, or one `b`, serves all products.
    alpha, beta : float
        `c` is like `out`, and not read if `beta` is 0.
    bias : bool
        A vector (n,) is added to all rows.
    """

    dtype: np.dtype
    stacks: int
    sizes: tuple[int, int, int]
    transposed: tuple[bool, bool] = (False, False)
    shared: tuple[bool, bool] = (False, False)
    alpha: float = 1.0
    beta: float = 0.0
    bias: bool = False

    def possible(self, number: int) -> bool:
        """Whether the library can compute it, for arrays aligned like newly allocated ones."""
        count = 3 + bool(self.beta) + self.bias
        return library(number) is not None and not _plan(self, number, (_ALIGNED,) * count).error

    def __call__(self, number: int, arrays: Sequence) -> bool:
        """Start it on the device arrays out, a, b, then c and the bias if used. False if that is impossible."""
        try:
            driver.enqueue(self, driver.device_of(number), arrays)
        except CublasError:
            return False
        return True

    def start(self, device: driver.Device, arrays: Sequence) -> None:
        """See :func:`.driver.enqueue`."""
        self._launcher(device.number, arrays)(device.queue)

    def later(self, number: int, arrays: Sequence) -> Any:
        """See :func:`.driver.build_graph`."""
        return driver.captured_node(number, self._launcher(number, arrays))

    def _launcher(self, number: int, arrays: Sequence) -> Callable[[int], None]:
        """A function that starts it on a stream."""
        addresses = [launches.address_and_size(x.words)[0] for x in arrays]
        plan = _plan(self, number, tuple([min(_ALIGNED, x & -x) for x in addresses]))
        return lambda stream: plan(stream, *addresses)


class _Plan:
    """The description and algorithm of a product for arrays of these alignments; `error` says why there is none."""

    def __init__(self, product: Product, number: int, aligned: tuple[int, ...]) -> None:
        self.error = ""
        self._lock = lock("gpu")  # a description has one slot for the address of a bias
        self._product = product
        self._kind = _KINDS[product.dtype]
        self._scalars = self._kind.scalar(product.alpha), self._kind.scalar(product.beta)
        loaded = library(number)
        assert loaded is not None
        self._library = loaded
        self._made: list[tuple[str, c_void_p]] = []
        try:
            self._describe(aligned)
        except CublasError as err:
            self.error = str(err)
        #: Not at exit, when the library may be unloaded.
        weakref.finalize(self, _destroy_objects, loaded, self._made).atexit = False

    def _new(self, name: str, *arguments) -> c_void_p:
        self._made.append((name, self._library.create_object(name, *arguments)))
        return self._made[-1][1]

    def _describe(self, aligned: tuple[int, ...]) -> None:
        """Describe the product to the library and let it choose the algorithm."""
        product, kind, say = self._product, self._kind, self._library.set_attribute
        self._what = self._new("MatmulDesc", kind.compute, kind.scale)
        # The library's first operand is our second.
        for attribute, flag in zip((_TRANSPOSE_B, _TRANSPOSE_A), product.transposed, strict=True):
            say("MatmulDesc", self._what, attribute, c_int32(flag))
        if product.bias:
            if aligned[-1] < _VECTOR:
                raise CublasError("the bias does not begin at a multiple of 16 bytes")
            say("MatmulDesc", self._what, _EPILOGUE, c_uint32(_BIAS))
            say("MatmulDesc", self._what, _BIAS_POINTER, c_void_p(aligned[-1]))  # only its alignment matters here
        m, k, n = product.sizes
        a, b = product.transposed
        self._a = self._layout((k, m) if a else (m, k), product.shared[0])
        self._b = self._layout((n, k) if b else (k, n), product.shared[1])
        self._out = self._layout((m, n), False)
        preference = self._new("MatmulPreference")
        say("MatmulPreference", preference, _MAX_WORKSPACE, c_uint64(_WORKSPACE))
        say("MatmulPreference", preference, _REDUCTIONS, c_uint32(kind.reductions))
        alignments = aligned[2], aligned[1], aligned[3 if product.beta else 0], aligned[0]
        for attribute, alignment in zip(_ALIGNMENTS, alignments, strict=True):
            say("MatmulPreference", preference, attribute, c_uint32(alignment))
        self._best, count = _Heuristic(), c_int(0)
        layouts = self._b, self._a, self._out, self._out
        self._library.call(
            "MatmulAlgoGetHeuristic",
            self._library.handle,
            self._what,
            *layouts,
            preference,
            1,
            byref(self._best),
            byref(count),
        )
        if count.value < 1 or self._best.state != 0:
            raise CublasError("cublasLt has no algorithm for this product")

    def _layout(self, shape: tuple[int, int], shared: bool) -> c_void_p:
        """The layout of a stack of row-major matrices."""
        rows, columns = shape
        layout = self._new("MatrixLayout", self._kind.element, columns, rows, columns)
        if self._product.stacks > 1:
            self._library.set_attribute("MatrixLayout", layout, _BATCH_COUNT, c_int32(self._product.stacks))
            self._library.set_attribute("MatrixLayout", layout, _BATCH_OFFSET, c_int64(0 if shared else rows * columns))
        return layout

    def __call__(self, stream: int, out: int, a: int, b: int, *more: int) -> None:
        if self.error:
            raise CublasError(self.error)
        alpha, beta = self._scalars
        c = more[0] if self._product.beta else out
        with self._lock:
            if self._product.bias:
                self._library.set_attribute("MatmulDesc", self._what, _BIAS_POINTER, c_void_p(more[-1]))
            try:
                self._library.call(
                    "Matmul", self._library.handle, self._what, byref(alpha), b, self._b, a, self._a, byref(beta),
                    c, self._out, out, self._out, byref(self._best), self._library.workspace, _WORKSPACE, stream,
                )  # fmt: skip
            except CublasError as err:
                self.error = str(err)
                raise


def _destroy_objects(library: Library, objects: list[tuple[str, c_void_p]]) -> None:
    for name, handle in objects:
        library.call(f"{name}Destroy", handle)


@lru_cache(1 << 10)
def _plan(product: Product, number: int, aligned: tuple[int, ...]) -> _Plan:
    return _Plan(product, number, aligned)
