"""Allocation, and the few kernels that every layer above needs: fill, copy, cast, add.

They are no operators: nothing here is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np

from ..backends import buffer_pool, threads
from ..backends.cuda.buffers import DeviceBuffer, on_device
from ..backends.cuda.buffers import allocator as device_allocator
from ..core.context import Context, is_traced
from ..core.conventions import EITHER, MXNET, Conventions
from ..core.dtypes import DType
from ..errors import ContextError, DTypeError
from ..ir.expr import var
from ..ir.graph import TracedBuffer, allocator
from . import templates

__all__ = ["Kind", "address", "cast_into", "common_conventions", "copy", "fill", "kind_of"]


class Kind:
    """An array's dtype, device and conventions; one instance for each combination: compare with ``is``.

    It is the key by which kernels are looked up, so one dictionary access covers both.

    Attributes
    ----------
    dtype : DType
    ctx : Context
    storage : numpy.dtype or OnDevice
        The element type of raw buffers.
    one : int
        The value 1 as stored in a raw buffer.
    empty : callable
        ``empty(n, storage)`` allocates a raw buffer there.
    small : callable
        The same for fewer than :data:`..backends.buffer_pool.LARGE` elements, at less cost.
    accumulate_small : callable
        :meth:`accumulate` for fewer elements than that, at less cost.
    conventions : Conventions
        Those of the array's class.
    array : type
        That class.
    truth : Kind
        The kind of comparisons.
    gpu, traced : bool
        Whether arrays of this kind are on a GPU; whether they belong to a traced program.
    """

    __slots__ = (
        "__dict__",
        "array",
        "conventions",
        "ctx",
        "dtype",
        "empty",
        "gpu",
        "one",
        "small",
        "storage",
        "traced",
    )

    def __init__(self, dtype: DType, ctx: Context, conventions: Conventions) -> None:
        self.dtype = dtype
        self.ctx = ctx
        self.conventions = conventions
        self.array = conventions.array
        self.storage: Any = dtype.storage
        self.traced = is_traced(ctx)
        self.gpu = ctx.device_type == "gpu"
        self.empty = self.small = allocator(dtype)
        if self.gpu:
            self.storage = on_device(dtype.storage, ctx)
            self.empty = self.small = device_allocator(ctx)
        elif not self.traced:
            self.empty, self.small = buffer_pool.empty, np.empty
        self.one = 0x3C00 if dtype.name == "float16" else 1

    def __repr__(self) -> str:
        return f"{self.dtype}@{self.ctx}"

    def of(self, dtype: DType) -> Kind:
        """The kind of such arrays with another dtype."""
        return self if dtype is self.dtype else kind_of(dtype, self.ctx, self.conventions)

    def on(self, ctx: Context) -> Kind:
        """The kind of such arrays on another device."""
        return self if ctx is self.ctx else kind_of(self.dtype, ctx, self.conventions)

    @cached_property
    def truth(self) -> Kind:
        return self.of(self.conventions.truth or self.dtype)

    def by(self, conventions: Conventions) -> Kind:
        """The kind of arrays of other conventions."""
        return self if conventions is self.conventions else kind_of(self.dtype, self.ctx, conventions)

    def as_float(self) -> Kind:
        """This kind, if it is a float; else that of results that are."""
        return self if self.dtype.is_float else self.of(self.conventions.float_dtype())

    @cached_property
    def accumulate_small(self) -> Callable:
        inputs = [templates.Input("x", self.dtype)]
        outputs = [templates.Output(_x, self.dtype, templates.ADD)]
        return templates.elementwise(f"accumulate_{self.dtype}", inputs, [], outputs).bind(self.storage, self.storage)

    @cached_property
    def _add(self) -> Callable:
        inputs = [templates.Input("x", self.dtype), templates.Input("z", self.dtype)]
        outputs = [templates.Output(_x + var("z"), self.dtype)]
        return templates.elementwise(f"add_{self.dtype}", inputs, [], outputs).bind(*[self.storage] * 3)

    def accumulate(self, source, target) -> None:
        """Add one raw buffer to another."""
        threads.run_flat(self.accumulate_small, [source, target])

    def add(self, a, b, out) -> None:
        """Add two raw buffers, into a third."""
        threads.run_flat(self._add, [a, b, out])

    def zeros(self, n: int):
        """A raw buffer of `n` zeros."""
        buf = self.empty(n, self.storage)
        buf.fill(0)
        return buf


_kinds: dict[tuple[DType, Context, Conventions], Kind] = {}


def kind_of(dtype: DType, ctx: Context, conventions: Conventions = MXNET) -> Kind:
    """The :class:`Kind` of a dtype, a context and conventions."""
    key = (dtype, ctx, conventions)
    return _kinds.get(key) or _kinds.setdefault(
        key, Kind(dtype, ctx, conventions)
    )  # setdefault: a single instance even if threads race


def common_conventions(kinds: Sequence[Kind], op: str, indices: bool = False) -> Conventions:
    """The conventions of a result of operands of these kinds, which must be on one device and of one class; with
    `indices`, integers beside floats may be of another."""
    ctx = kinds[0].ctx
    for kind in kinds:
        if kind.ctx != ctx:
            raise ContextError(
                f"{op}: operands are on different devices, {ctx} and {kind.ctx}; move one with as_in_context"
            )
    floats = [kind for kind in kinds if kind.dtype.is_float] if indices else None
    found = EITHER
    for kind in floats or kinds:
        if kind.conventions is found or kind.conventions is EITHER:
            continue
        if found is not EITHER:
            raise DTypeError(
                f"{op}: operands of nd and of np, whose results have different shapes and dtypes; convert one with "
                "x.as_np() or x.as_nd()"
            )
        found = kind.conventions
    return found


_x = var("x")


@cache
def _cast(source: Kind, target: Kind):
    inputs, outputs = [templates.Input("x", source.dtype)], [templates.Output(_x, target.dtype)]
    kernel = templates.elementwise(f"cast_{source.dtype}_{target.dtype}", inputs, [], outputs)
    return kernel.bind(source.storage, target.storage)


def cast_into(source, source_kind: Kind, target, target_kind: Kind) -> None:
    """Convert every element of `source` into `target` (raw buffers of equal size); plain copy for equal dtypes.

    They may be on different devices.
    """
    if target.__class__ is TracedBuffer:
        target.convert(source)
    elif source_kind.dtype is target_kind.dtype:
        copy(source, target)
    elif source_kind.ctx != target_kind.ctx and DeviceBuffer in (source.__class__, target.__class__):
        between = source_kind.of(target_kind.dtype)
        converted = between.empty(source.size, between.storage)
        cast_into(source, source_kind, converted, between)
        copy(converted, target)
    else:
        threads.run_flat(_cast(source_kind, target_kind), [source, target])


def copy(source, target) -> None:
    """Copy a raw buffer into another, which may be on another device."""
    n = target.size
    if source.__class__ is DeviceBuffer and target.__class__ is not DeviceBuffer:
        source = source.host()
    if threads.worth_splitting(n) and target.__class__ is not DeviceBuffer:
        threads.parallel_ranges(lambda start, stop: np.copyto(target[start:stop], source[start:stop]), n)
    else:
        target[:] = source


def address(buffer) -> int:
    """The address of a raw buffer in the memory of its device."""
    return buffer.address if buffer.__class__ is DeviceBuffer else buffer.ctypes.data


def fill(buffer, dtype: DType, value) -> None:
    """Set every element to the scalar `value`, converted to `dtype` as an array would be."""
    with np.errstate(invalid="ignore", over="ignore"):
        buffer.fill(np.asarray(value).astype(dtype.np).view(dtype.storage)[()])
