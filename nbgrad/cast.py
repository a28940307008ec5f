"""Conversion between dtypes and devices, recorded; and bringing operands to one dtype."""

from __future__ import annotations

from collections.abc import Sequence

from . import dtypes, tape
from .codegen.launch import Kind, cast_into, kind_of
from .dtypes import promote
from .errors import ContextError
from .ndarray import NDArray, wrap
from .observe import observed, observers
from .state import state

__all__ = ["Cast", "cast", "unify"]


def unify(arrays: Sequence[NDArray], op: str, ints: bool = True) -> list[NDArray]:
    """The arrays in one dtype: the promoted one, and a float unless `ints`."""
    ctx = arrays[0]._kind.ctx
    dtype = arrays[0]._kind.dtype
    for x in arrays[1:]:
        if x._kind.ctx != ctx:
            raise ContextError(
                f"{op}: operands are on different devices, {ctx} and {x._kind.ctx}; move one with as_in_context"
            )
        dtype = promote(dtype, x._kind.dtype)
    if not (ints or dtype.is_float):
        dtype = dtypes.default_dtype()
    kind = kind_of(dtype, ctx)
    return [x if x._kind is kind else cast(x, kind) for x in arrays]


class Cast(tape.Rule):
    """Conversion to another dtype or device: its cotangent is converted back."""

    name = "cast"

    def grads(self, node, g, useful):
        return [cast(g, node.attrs)]


_CAST = Cast()


def cast(x: NDArray, kind: Kind) -> NDArray:
    """`x` converted to `kind`, always a new array; recorded."""
    buf = kind.empty(x._buf.size, kind.storage)
    cast_into(x._buf, x._kind.dtype, buf, kind.dtype)
    out = wrap(buf, x._shape, kind)
    if state.recording and x._node is not None:
        out._node = tape.node(_CAST, (x._node,), (), x._kind, x._shape, kind)
    if observers:
        observed(Cast.name, (x,), (out,))
    return out
