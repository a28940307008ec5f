"""Vector loads and stores: up to 16 bytes of neighbouring elements at once.

An elementwise kernel reaches memory bandwidth if each thread loads 16 bytes at once. That needs addresses that are
multiples of 16, which buffers have but slices may not: kernels test ``aligned(array)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..numba.intrinsics import intrinsic, llvm, types

__all__ = ["HELPERS", "SIMULATED", "WIDTH", "lanes"]

#: Bytes of a load.
WIDTH = 16
_LANES = (2, 4, 8)
_INDEX = llvm.IntType(32)


def _vector(emit, array, at, lanes: int) -> tuple[Any, int]:
    """Pointer to the vector number `at` of an array, and the alignment of vectors."""
    builder, kind = emit.builder, emit.types[0]
    pointer = builder.gep(emit.array(kind, array).data, [builder.mul(at, at.type(lanes))])
    vector = llvm.VectorType(emit.element_type(kind.dtype), lanes)
    return builder.bitcast(pointer, vector.as_pointer()), emit.element_size(kind.dtype) * lanes


def _fetcher(lanes: int) -> Any:
    def typed(array, at):
        return types.UniTuple(array.dtype, lanes)(array, types.int64) if isinstance(array, types.Array) else None

    @intrinsic(typed)
    def fetched(emit, array, at):
        pointer, size = _vector(emit, array, at, lanes)
        whole = emit.builder.load(pointer, align=size)
        return emit.pack(emit.result, [emit.builder.extract_element(whole, _INDEX(k)) for k in range(lanes)])

    return fetched


def _putter(lanes: int) -> Any:
    def typed(array, at, values):
        if not isinstance(array, types.Array):
            return None
        return types.void(array, types.int64, types.UniTuple(array.dtype, lanes))

    @intrinsic(typed)
    def put(emit, array, at, values):
        pointer, size = _vector(emit, array, at, lanes)
        whole = llvm.Constant(pointer.type.pointee, llvm.Undefined)
        for k, value in enumerate(emit.unpack(values, lanes)):
            whole = emit.builder.insert_element(whole, value, _INDEX(k))
        emit.builder.store(whole, pointer, align=size)

    return put


@intrinsic(lambda array: types.boolean if isinstance(array, types.Array) else None)
def _aligned(emit, array):
    """Whether an array begins at a multiple of 16 bytes."""
    builder, word = emit.builder, llvm.IntType(64)
    rest = builder.and_(builder.ptrtoint(emit.array(emit.types[0], array).data, word), word(WIDTH - 1))
    return builder.icmp_unsigned("==", rest, word(0))


#: Names that generated kernels use: ``fetched4(array, at)`` is a tuple of the elements of vector number `at`,
#: ``put4(array, at, values)`` writes them.
HELPERS: dict[str, Any] = {"aligned": _aligned}
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
