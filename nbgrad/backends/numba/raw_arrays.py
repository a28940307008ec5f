"""Flat arrays on memory that they do not own: on the stack, or at an address."""

from __future__ import annotations

from .intrinsics import intrinsic, llvm, types
from .pipelines import NO_REALIGN_STACK

__all__ = ["local", "memory"]

_BYTE = llvm.IntType(8)
#: Bytes of a cache line.
_LINE = 64
#: From this size in bytes on, the memory belongs to a call: the function is not inlined into others.
_LARGE = 1 << 14


def _is_local(dtype, n, moved):
    known = isinstance(dtype, types.NumberClass | types.DType)
    fits = known and all(isinstance(x, types.IntegerLiteral) for x in (n, moved))
    return types.Array(dtype.dtype, 1, "C")(dtype, n, moved) if fits else None


@intrinsic(_is_local, literal=True)
def local(emit, dtype, n, moved):
    """An array on the stack: LLVM knows that this aliases nothing else, and it needs no allocation call."""
    builder, word = emit.builder, llvm.IntType(64)
    length, realigns = (x.literal_value for x in emit.types[1:])
    size = length * emit.element_size(emit.result.dtype)
    if size >= _LARGE:
        builder.function.attributes.add("noinline")
    with builder.goto_entry_block():
        space = builder.alloca(_BYTE, size=word(size + _LINE * (not realigns)))
    if realigns:
        builder.function.attributes.discard(NO_REALIGN_STACK)
        space.align = _LINE
    else:  # align to the first cache line in it, which costs one more register
        begin = builder.and_(builder.neg(builder.ptrtoint(space, word)), word(_LINE - 1))
        space = builder.gep(space, [begin])
    return emit.array_on(emit.result, space, emit.constant(types.intp, length))


@intrinsic(lambda address, n, element: types.Array(element.dtype, 1, "C")(types.intp, types.intp, element))
def memory(emit, address, n, element):
    """An array on memory that it does not own."""
    return emit.array_on(emit.result, emit.builder.inttoptr(address, _BYTE.as_pointer()), n)
