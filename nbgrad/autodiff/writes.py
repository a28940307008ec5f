"""In-place writes while recording: which are allowed, and how the tape represents them.

The rules hold per memory, whichever of its arrays (views, reshapes, ``detach``, ``from_numpy``) is written through:

* Memory that an array on the tape reads must not be written.
* A recorded value may be written into the whole of an array whose memory is not on the tape. From then on all arrays
  on that memory are on the tape: each is what it was with the shared elements replaced by those of the value.
* Arrays of NumPy's conventions may also be redefined: all arrays on the memory move to memory of their own, where one
  has a recorded value, and those that share elements with it have them from it. What the tape saved stays as it was.
"""

from __future__ import annotations

from ..arrays.launch import address, cast_into
from ..arrays.ndarray import NDArray, is_exported, memory_sharers, register_owner, wrap
from ..core.registry import operators
from ..core.shapes import size
from ..errors import NBGradError
from . import tape
from .state import recording

__all__ = ["IN_GRAPH", "IN_PLACE", "check_target", "on_tape", "overwrite", "redefine"]

IN_GRAPH = (
    "Assigning to NDArrays that are already in a computational graph will cause undefined behavior when evaluating "
    "gradients. Please call backward first to clear the graph or do this out side of a record section. Or compute a "
    "new array (x = x + y, nd.where, nd.stack, nd.concat)."
)
IN_PLACE = (
    "Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with autograd. Compute a new array "
    "(x = x + y, nd.where, nd.stack, nd.concat); what needs no gradient may be written under autograd.pause()."
)
_SHARED = " The array itself is not, but shares memory with one of shape {shape} that is."
_RETYPED = (
    "a recorded value of dtype {dtype} is written into memory that another array reads as {other}: its gradient would "
    "be lost there; write into a copy"
)


_LENT = " (Another library may have this memory, where a recorded value cannot be written: write into a copy.)"


def _offset(x: NDArray, other: NDArray) -> int:
    """The offset of `x` from the beginning of `other`, in bytes."""
    return address(x._buf) - address(other._buf)


def _bytes(x: NDArray) -> int:
    return x._buf.size * x._kind.dtype.storage.itemsize


def _overlapping(target: NDArray) -> list[NDArray]:
    """The other arrays whose memory overlaps that of `target`."""
    others = memory_sharers(target)
    return [x for x in others if -_bytes(x) < _offset(x, target) < _bytes(target)] if others else others


def on_tape(target: NDArray) -> bool:
    """Whether an array, or another one that shares elements with it, is on the tape."""
    if target._node is not None:
        return True
    return len(target._cell) > 1 and any(x._node is not None for x in _overlapping(target))


def check_target(target: NDArray, op: str = "") -> None:
    """Raise if, while recording, a write of operator `op` goes into memory that is on the tape."""
    if not recording():
        return
    begin = f"{op}: " if op else ""
    if target._node is not None:
        raise NBGradError(begin + IN_GRAPH)
    if len(target._cell) > 1:
        for x in _overlapping(target):
            if x._node is not None:
                raise NBGradError(begin + IN_GRAPH + _SHARED.format(shape=x._shape))


class _Overwritten(tape.Rule):
    """An array of which a slice was overwritten by a recorded one, which are the parents in the other order.

    A node's attributes: the first shared element in the array, the first in the recorded one, and their count.
    """

    name = "overwritten"

    def grads(self, node, g, useful):
        (value, before), (begin, source, count) = node.parents, node.attrs
        flat = operators["reshape"].call(g, shape=(-1,))
        end = begin + count
        by_value = by_before = None
        if tape.cotangent_wanted(value, useful):
            part = operators["slice_axis"].call(flat, axis=0, begin=begin, end=end)
            whole = _joined(_zeros(node, source), part, _zeros(node, size(value.shape) - source - count))
            by_value = operators["reshape"].call(whole, shape=value.shape)
        if tape.cotangent_wanted(before, useful):
            first = operators["slice_axis"].call(flat, axis=0, begin=0, end=begin)
            last = operators["slice_axis"].call(flat, axis=0, begin=end, end=size(node.shape))
            by_before = operators["reshape"].call(_joined(first, _zeros(node, count), last), shape=node.shape)
        return [by_value, by_before]


def _zeros(node: tape.Node, n: int) -> NDArray:
    return wrap(node.kind.zeros(n), (n,), node.kind)


def _joined(*parts: NDArray) -> NDArray:
    filled = [x for x in parts if x._shape[0]]
    return filled[0] if len(filled) == 1 else operators["concat"].call(*filled, dim=0)


_OVERWRITTEN = _Overwritten()


def overwrite(target: NDArray, value: NDArray) -> None:
    """Copy `value`, of the same shape and device, into `target`, which :func:`check_target` has accepted.

    If `value` is on the tape and this thread records, all arrays on the memory of `target` are on the tape, too.
    """
    recorded = recording() and value._node is not None
    others = _overlapping(target) if recorded else []
    for x in others:
        if x._kind is not target._kind:
            raise NBGradError(_RETYPED.format(dtype=target._kind.dtype, other=x._kind.dtype))
    cast_into(value._buf, value._kind, target._buf, target._kind)
    target._cell[0] += 1
    if not recorded:
        return
    target._node = value._node
    for x in others:
        _share(x, target, value)


def _share(x: NDArray, target: NDArray, value: NDArray) -> None:
    """Let the elements that `x` shares with `target`, which overlap, be those of `value`; one of both is recorded."""
    if x._node is None and value._node is None:
        return
    begin = _offset(x, target) // target._kind.dtype.storage.itemsize
    count = min(begin + x._buf.size, target._buf.size) - max(begin, 0)
    attrs = max(-begin, 0), max(begin, 0), count
    x._node = tape.node(_OVERWRITTEN, (tape.parent(value), tape.parent(x)), (), attrs, x._shape, x._kind)


def redefine(target: NDArray, value: NDArray) -> None:
    """Let `target` be `value`, an array of its shape and kind, from now on; on the tape, if that is.

    Raises
    ------
    NBGradError
        If an array on its memory is a marked variable, has another dtype or class, or belongs to another library, too.
    """
    arrays = _connected(target)
    for x in arrays:
        if _is_variable(x):
            raise NBGradError(IN_GRAPH + ("" if x is target else _SHARED.format(shape=x._shape)))
        if x._kind is not target._kind:
            raise NBGradError(_RETYPED.format(dtype=target._kind.dtype, other=x._kind.dtype))
    if is_exported(target):
        raise NBGradError(IN_GRAPH + _LENT)
    others = _overlapping(target)
    _move(arrays)
    cast_into(value._buf, value._kind, target._buf, target._kind)
    target._node = value._node
    for x in others:
        _share(x, target, value)


def _is_variable(x: NDArray) -> bool:
    """Whether an array is a marked variable or a transform's argument, or the same memory in another shape or class."""
    node = x._node
    while isinstance(node, tape.Node) and isinstance(node.op, tape.SameMemory):
        node = node.parents[0]
    return type(node) is tape.Leaf or (isinstance(node, tape.Node) and node.parents == ())


def _connected(target: NDArray) -> list[NDArray]:
    """The arrays that share elements with `target`, with one of these, and so on."""
    found = [target]
    for x in found:
        found += [y for y in _overlapping(x) if not any(y is z for z in found)]
    return found


def _move(arrays: list[NDArray]) -> None:
    """Give arrays whose memory is connected the same elements in new memory, with the same overlaps."""
    first = min(arrays, key=lambda x: address(x._buf))
    starts = [_offset(x, first) // x._kind.dtype.storage.itemsize for x in arrays]
    memory = first._kind.empty(max(k + x._buf.size for k, x in zip(starts, arrays, strict=True)), first._kind.storage)
    cell: list = [0]
    for k, x in zip(starts, arrays, strict=True):
        memory[k : k + x._buf.size] = x._buf
        x._buf = memory[k : k + x._buf.size]
        if len(arrays) == 1:
            x._cell = cell
        else:
            register_owner(x, cell)
