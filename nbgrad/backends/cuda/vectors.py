"""Vector loads and stores: up to 16 bytes of neighbouring elements at once.

An elementwise kernel reaches memory bandwidth if each thread loads 16 bytes at once. That needs addresses that are
multiples of 16, which buffers have but slices may not: kernels test ``aligned(array)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ..numba.compile import intrinsic

__all__ = ["HELPERS", "SIMULATED", "WIDTH", "lanes"]

#: Bytes of a load.
WIDTH = 16
_LANES = (2, 4, 8)


def _vector(context, builder, kind, array, at, lanes: int) -> tuple[Any, int]:
    """Pointer to the vector number `at` of an array, and the alignment of vectors."""
    element = context.get_data_type(kind.dtype)
    data = context.make_array(kind)(context, builder, array).data
    pointer = builder.gep(data, [builder.mul(at, ir.Constant(at.type, lanes))])
    size = context.get_abi_sizeof(element) * lanes
    return builder.bitcast(pointer, ir.VectorType(element, lanes).as_pointer()), size


def _index(k: int) -> ir.Constant:
    return ir.Constant(ir.IntType(32), k)


def _fetcher(lanes: int) -> Any:
    def fetched(typingctx, array, at):
        if not isinstance(array, types.Array):
            return None
        result = types.UniTuple(array.dtype, lanes)

        def lower(context, builder, signature, args):
            pointer, size = _vector(context, builder, array, args[0], args[1], lanes)
            whole = builder.load(pointer, align=size)
            return context.make_tuple(
                builder, result, [builder.extract_element(whole, _index(k)) for k in range(lanes)]
            )

        return result(array, types.int64), lower

    return intrinsic(fetched)


def _putter(lanes: int) -> Any:
    def put(typingctx, array, at, values):
        if not isinstance(array, types.Array):
            return None
        given = types.UniTuple(array.dtype, lanes)

        def lower(context, builder, signature, args):
            pointer, size = _vector(context, builder, array, args[0], args[1], lanes)
            whole = ir.Constant(pointer.type.pointee, ir.Undefined)
            for k in range(lanes):
                whole = builder.insert_element(whole, builder.extract_value(args[2], k), _index(k))
            builder.store(whole, pointer, align=size)
            return context.get_dummy_value()

        return types.void(array, types.int64, given), lower

    return intrinsic(put)


def _aligned(typingctx, array):
    """Whether an array begins at a multiple of 16 bytes."""
    if not isinstance(array, types.Array):
        return None

    def lower(context, builder, signature, args):
        data = context.make_array(array)(context, builder, args[0]).data
        word = builder.ptrtoint(data, ir.IntType(64))
        rest = builder.and_(word, ir.Constant(word.type, WIDTH - 1))
        return builder.icmp_unsigned("==", rest, ir.Constant(word.type, 0))

    return types.boolean(array), lower


#: Names that generated kernels use: ``fetched4(array, at)`` is a tuple of the elements of vector number `at`,
#: ``put4(array, at, values)`` writes them.
HELPERS: dict[str, Any] = {"aligned": intrinsic(_aligned)}
HELPERS |= {f"fetched{n}": _fetcher(n) for n in _LANES} | {f"put{n}": _putter(n) for n in _LANES}


def _simulated_fetcher(lanes: int) -> Callable:
    return lambda array, at: tuple([array[at * lanes + k] for k in range(lanes)])


def _simulated_putter(lanes: int) -> Callable:
    def put(array, at, values) -> None:
        for k, value in enumerate(values):
            array[at * lanes + k] = value

    return put


#: The same in the simulator, where memory counts as aligned like a device's, slices included.
SIMULATED: dict[str, Callable] = {"aligned": lambda array: array.size > 0}
SIMULATED |= {f"fetched{lanes}": _simulated_fetcher(lanes) for lanes in _LANES}
SIMULATED |= {f"put{lanes}": _simulated_putter(lanes) for lanes in _LANES}


def lanes(dtypes: list[np.dtype]) -> int:
    """How many elements of arrays of these dtypes a thread loads at once; 1 if vector loads are not possible."""
    if not dtypes or any(d.kind == "b" for d in dtypes):
        return 1
    return min(WIDTH // max(d.itemsize for d in dtypes), max(_LANES))
