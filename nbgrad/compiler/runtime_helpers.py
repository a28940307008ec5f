"""Runtime helpers: intrinsics that generated programs use besides the scalar functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import populate_array

from ..backends.numba import casts
from ..backends.numba.casts import __all__ as _conversions
from ..backends.numba.compile import NO_REALIGN_STACK, intrinsic
from ..kernels.extreme import greater, smaller
from ..kernels.linear import narrow, narrow_transposed

__all__ = ["memory", "product", "used_helpers"]


def _add(typingctx, a, b):
    # Additions of one sum may be reordered, so that LLVM can vectorize it; no other addition may.
    if not (isinstance(a, types.Float) and a == b):
        return None

    def lower(context, builder, signature, args):
        return builder.fadd(*args, flags=("reassoc", "nsz", "contract"))

    return a(a, b), lower


add: Any = intrinsic(_add)


def _gemm(typingctx, a, b, c, m, k, n, a_start, b_start, c_start, transpose_a, transpose_b):
    # numba_xxgemm is what np.dot calls. A direct call works on slices of arrays, and compiles much faster.
    if not (isinstance(a, types.Array) and a == b == c and a.dtype in (types.float32, types.float64)):
        return None
    flags = [x.literal_value for x in (transpose_a, transpose_b) if isinstance(x, types.IntegerLiteral)]
    if len(flags) < 2:
        return None

    def lower(context, builder, signature, args):
        char, word, pointer = ir.IntType(8), ir.IntType(64), ir.IntType(8).as_pointer()
        kinds = [char] * 3 + [word] * 3 + [pointer, pointer, word, pointer, word, pointer, pointer, word]
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.IntType(32), kinds), "numba_xxgemm"
        )
        m, k, n = args[3:6]

        def data(array, start):
            begin = context.make_array(a)(context, builder, array).data
            return builder.bitcast(builder.gep(begin, [start]), pointer)

        def number(value):
            slot = cgutils.alloca_once_value(builder, context.get_constant(a.dtype, value))
            return builder.bitcast(slot, pointer)

        def letter(flag):
            return ir.Constant(char, ord("t" if flag else "n"))

        kind = ir.Constant(char, ord("d" if a.dtype == types.float64 else "s"))
        left, right, result = (data(x, start) for x, start in zip(args[:3], args[6:9], strict=True))
        ta, tb = flags
        # BLAS is column-major: compute the transposed product.
        operands = [right, k if tb else n, left, m if ta else k]
        builder.call(
            function,
            [kind, letter(tb), letter(ta), n, m, k, number(1.0), *operands, number(0.0), result, n],
        )
        return context.get_dummy_value()

    words = [types.int64] * 6
    return types.void(a, b, c, *words, transpose_a, transpose_b), lower


gemm: Any = intrinsic(prefer_literal=True)(_gemm)


def _memory(typingctx, address, n, element):
    # An array on memory that it does not own.
    array_type = types.Array(element.dtype, 1, "C")

    def lower(context, builder, signature, args):
        made = context.make_array(array_type)(context, builder)
        word = context.get_value_type(types.intp)
        item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(element.dtype)))
        data = builder.inttoptr(args[0], made.data.type)
        populate_array(made, data, [args[1]], [item], item, meminfo=ir.Constant(word, 0).inttoptr(_POINTER))
        return made._getvalue()

    return array_type(types.intp, types.intp, element), lower


_POINTER = ir.IntType(8).as_pointer()
memory: Any = intrinsic(_memory)
#: Bytes of a cache line.
_LINE = 64


def _local(typingctx, dtype, n, moved):
    # LLVM knows that stack memory aliases nothing else, and it needs no allocation call.
    if not (isinstance(dtype, types.NumberClass) and all(isinstance(x, types.IntegerLiteral) for x in (n, moved))):
        return None
    array_type = types.Array(dtype.dtype, 1, "C")
    length = n.literal_value

    def lower(context, builder, signature, args):
        kind, byte, word = context.get_data_type(array_type.dtype), ir.IntType(8), ir.IntType(64)
        step = context.get_constant(types.intp, context.get_abi_sizeof(kind))
        size = length * step.constant
        with builder.goto_entry_block():
            space = builder.alloca(byte, size=ir.Constant(word, size + _LINE * (not moved.literal_value)))
        if moved.literal_value:
            builder.function.attributes.discard(NO_REALIGN_STACK)
            space.align = _LINE
        else:  # align to the first cache line in it, which costs one more register
            begin = builder.and_(builder.neg(builder.ptrtoint(space, word)), ir.Constant(word, _LINE - 1))
            space = builder.gep(space, [begin])
        data = builder.bitcast(space, kind.as_pointer())
        array = context.make_array(array_type)(context, builder)
        populate_array(array, data, [context.get_constant(types.intp, length)], [step], step, None)
        return array._getvalue()

    return array_type(dtype, n, moved), lower


local: Any = intrinsic(prefer_literal=True)(_local)


def product(transpose_a: bool, transpose_b: bool, m: int, k: int, n: int) -> str:
    """The name of the best routine for c (m, n) = a (m, k) b (k, n)."""
    if not transpose_a and transpose_b and n <= 16 and k >= 64:  # BLAS would copy `a` first
        return "narrow"
    if transpose_a and not transpose_b and m <= 16 and n >= 64:
        return "narrow_transposed"
    return "gemm"


#: Name in generated source -> object.
_HELPERS: dict[str, Any] = {
    "add": add,
    "greater": greater,
    "smaller": smaller,
    "gemm": gemm,
    "local": local,
    "narrow": narrow,
    "narrow_transposed": narrow_transposed,
    "u": np.uint64,
    "np": np,
    **{name: getattr(casts, name) for name in _conversions},
}


def used_helpers(source: str) -> dict[str, Any]:
    """The helpers that a source uses."""
    return {k: v for k, v in _HELPERS.items() if f"{k}(" in source or f"{k}." in source}
