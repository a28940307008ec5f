"""Casts: recorded conversion between dtypes and devices, and promotion of operands to a common dtype."""

from __future__ import annotations

from collections.abc import Sequence

from ..arrays.launch import Kind, cast_into, common_conventions
from ..arrays.ndarray import NDArray, wrap
from ..arrays.sharing import alias
from ..autodiff import tape, tracing
from ..autodiff.constants import Constant
from ..autodiff.observers import notify_observer, observers
from ..autodiff.state import recording
from ..core.conventions import Conventions
from ..core.dtypes import DType

__all__ = ["Cast", "cast", "reinterpreted", "unify"]


def unify(arrays: Sequence[NDArray], op: str, ints: bool = True) -> list[NDArray]:
    """The arrays with their common conventions, cast to their promoted dtype, which is made a float unless `ints`."""
    dtype = arrays[0]._kind.dtype
    if tracing.current.graph is not None:
        arrays, dtype = _capture_and_promote(arrays, op)
    kinds = [x._kind for x in arrays]
    conventions = common_conventions(kinds, op)
    for kind in kinds[1:]:
        dtype = conventions.promote(dtype, kind.dtype)
    kind = kinds[0].by(conventions).of(dtype)
    if not ints:
        kind = kind.as_float()
    return [reinterpreted(x, conventions) if x._kind.dtype is kind.dtype else cast(x, kind) for x in arrays]


def _capture_and_promote(arrays: Sequence[NDArray], op: str) -> tuple[Sequence[NDArray], DType]:
    """The arrays of a traced function, with outside ones captured, and the dtype to start from.

    Traced Python numbers take the dtype of the arrays."""
    if tracing.has_outside_arrays(arrays):
        arrays = tracing.capture_outside(arrays)
    first = arrays[0]._kind
    weak = [tracing.is_weak(x) for x in arrays]
    if all(weak) or not any(weak):
        return arrays, first.dtype
    strong = [x._kind.dtype for x, w in zip(arrays, weak, strict=True) if not w]
    conventions = common_conventions([x._kind for x in arrays], op)
    dtype = strong[0] if any(d.is_float for d in strong) else conventions.float_dtype()
    for other in strong:
        dtype = conventions.promote(dtype, other)
    return [cast(x, first.of(dtype)) if w else x for x, w in zip(arrays, weak, strict=True)], dtype


class _Reinterpretation(tape.SameMemory):
    """An array of the other class."""

    name = "conversion"

    def grads(self, node, g, useful):
        return [reinterpreted(g, node.attrs)]


_REINTERPRETATION = _Reinterpretation()


def reinterpreted(x: NDArray, conventions: Conventions) -> NDArray:
    """The array on the same memory that follows these conventions; recorded. It is `x` itself if that does."""
    kind = x._kind.by(conventions)
    if kind is x._kind:
        return x
    out = alias(x, x._buf, x._shape, kind=kind)
    if tracing.is_weak(x):
        out._label = tracing.WEAK
    if x._node is not None and recording():
        out._node = tape.node(_REINTERPRETATION, (x._node,), (), x._kind.conventions, x._shape, kind)
    return out


class Cast(tape.Rule):
    """Conversion to another dtype or device: its cotangent is converted back."""

    name = "cast"

    def grads(self, node, g, useful):
        return [cast(g, node.attrs)]


class _Rounding(Cast):
    """Conversion to integers or bools, whose derivative is zero."""

    constant = True
    passes, pull_raw, pull_recorded = Constant.passes, Constant.pull_raw, Constant.pull_recorded


_CAST = Cast()
_ROUNDING = _Rounding()


def cast(x: NDArray, kind: Kind) -> NDArray:
    """`x` converted to `kind`, always a new array; recorded."""
    if kind.traced and x._kind.ctx != kind.ctx:
        x = tracing.captured(x)
    elif x._kind.traced and not kind.traced:  # traced arrays have no device of their own
        kind = kind.on(x._kind.ctx)
    buf = kind.empty(x._buf.size, kind.storage)
    cast_into(x._buf, x._kind, buf, kind)
    out = wrap(buf, x._shape, kind)
    if recording() and x._node is not None:
        rule = _CAST if kind.dtype.is_float else _ROUNDING
        out._node = tape.node(rule, (x._node,), (), x._kind, x._shape, kind)
    if observers:
        notify_observer(Cast.name, (x,), (out,), lambda operands: [cast(operands[0], kind.on(operands[0]._kind.ctx))])
    return out
