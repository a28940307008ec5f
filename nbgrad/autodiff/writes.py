"""In-place writes while recording: which are allowed, and how the tape represents them.

The rules hold per memory, whichever of its arrays (views, reshapes, ``detach``, ``from_numpy``) is written through:

* Memory that an array on the tape reads must not be written.
* A recorded value may be written into the whole of an array whose memory is not on the tape. From then on all arrays
  on that memory are on the tape: each is what it was with the shared elements replaced by those of the value.
* Arrays of NumPy's conventions may also be redefined: all arrays on the memory move to memory of their own, where one
  has a recorded value, and those that share elements with it have them from it. What the tape saved stays as it was.
  Constants, which operators on the tape may have read, move likewise before they are written.
"""

from __future__ import annotations

import sys

import numpy as np

from ..arrays.launch import address, cast_into, kind_of
from ..arrays.ndarray import NDArray, from_host_values, wrap
from ..arrays.sharing import is_exported, mark_moved, memory_owners, memory_sharers, register_owner, update_sharers
from ..core.context import CPU0
from ..core.conventions import MXNET
from ..core.dtypes import float32, int64
from ..core.registry import operators
from ..core.shapes import size
from ..errors import NBGradError
from . import tape, tracing
from .state import recording

__all__ = ["IN_GRAPH", "IN_PLACE", "SHARED", "check_target", "element_offset", "is_variable", "leave_to_tape",
           "on_tape", "overlapping", "overwrite", "redefine"]  # fmt: skip

IN_GRAPH = (
    "Assigning to NDArrays that are already in a computational graph will cause undefined behavior when evaluating "
    "gradients. Please call backward first to clear the graph or do this out side of a record section. Or compute a "
    "new array (x = x + y, nd.where, nd.stack, nd.concat)."
)
IN_PLACE = (
    "Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with autograd. Compute a new array "
    "(x = x + y, nd.where, nd.stack, nd.concat); what needs no gradient may be written under autograd.pause()."
)
SHARED = " The array itself is not, but shares memory with one of shape {shape} that is."
_OF_ND = (
    "a recorded value is written into memory that an array of nbgrad.nd shares (as_nd, as_np), which cannot be "
    "redefined while recording: write into a copy, or make the array of nd one of nbgrad.np"
)
_RETYPED = (
    "a recorded value of dtype {dtype} is written into memory that another array reads as {other}: its gradient would "
    "be lost there; write into a copy"
)


_LENT = " (Another library may have this memory, where a recorded value cannot be written: write into a copy.)"


def _offset(x: NDArray, other: NDArray) -> int:
    """The offset of `x` from the beginning of `other`, in bytes."""
    return address(x._buf) - address(other._buf)


def element_offset(x: NDArray, other: NDArray) -> int:
    """The offset of `x` from the beginning of `other`, which is on the same memory, in elements."""
    return 0 if x is other else _offset(x, other) // other._kind.dtype.storage.itemsize


def _bytes(x: NDArray) -> int:
    return x._buf.size * x._kind.dtype.storage.itemsize


def overlapping(target: NDArray) -> list[NDArray]:
    """The other arrays whose memory overlaps that of `target`."""
    others = memory_sharers(target)
    return [x for x in others if _shared_bytes(x, target) > 0] if others else others


def _shared_bytes(x: NDArray, target: NDArray) -> int:
    begin = _offset(x, target)
    return min(begin + _bytes(x), _bytes(target)) - max(begin, 0)


def on_tape(target: NDArray) -> bool:
    """Whether an array, or another one that shares elements with it, is on the tape."""
    if target._node is not None:
        return True
    return len(target._cell) > 1 and any(x._node is not None for x in overlapping(target))


def check_target(target: NDArray, op: str = "") -> None:
    """Raise if, while recording, a write of operator `op` goes into memory that is on the tape."""
    if not recording():
        return
    begin = f"{op}: " if op else ""
    if target._node is not None:
        raise NBGradError(begin + IN_GRAPH)
    if len(target._cell) > 1:
        for x in overlapping(target):
            if x._node is not None:
                raise NBGradError(begin + IN_GRAPH + SHARED.format(shape=x._shape))


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
    others = overlapping(target) if recorded else []
    for x in others:
        if x._kind is not target._kind:
            raise NBGradError(_RETYPED.format(dtype=target._kind.dtype, other=x._kind.dtype))
    cast_into(value._buf, value._kind, target._buf, target._kind)
    target._cell[0] += 1
    if not recorded:
        update_sharers(target)
        return
    target._node = value._node
    for x in others:
        _share(x, target, value)


def _share(x: NDArray, target: NDArray, value: NDArray) -> None:
    """Let the elements that `x` shares with `target`, which overlap, be those of `value`; one of both is recorded."""
    if x._node is None and value._node is None:
        return
    begin = element_offset(x, target)
    count = min(begin + x._buf.size, target._buf.size) - max(begin, 0)
    attrs = max(-begin, 0), max(begin, 0), count
    if count == x._buf.size:
        x._node = None  # nothing is left of its history
    if x._node is not None or value._node is not None:
        x._node = tape.node(_OVERWRITTEN, (tape.parent(value), tape.parent(x)), (), attrs, x._shape, x._kind)


def redefine(target: NDArray, value: NDArray, written: np.ndarray | None = None) -> None:
    """Let `target` be `value`, an array of its shape and kind, from now on; on the tape, if that is.

    `written` are the positions of the elements that differ; None for all.

    Raises
    ------
    NBGradError
        If an array on its memory is a marked variable, has another dtype or class, or belongs to another library, too.
    """
    arrays = _connected(target)
    for x in arrays:
        if is_variable(x):
            raise NBGradError(IN_GRAPH + ("" if x is target else SHARED.format(shape=x._shape)))
        if x._kind.conventions is not target._kind.conventions:
            raise NBGradError(_OF_ND)
        if x._kind is not target._kind:
            raise NBGradError(_RETYPED.format(dtype=target._kind.dtype, other=x._kind.dtype))
    if is_exported(target):
        raise NBGradError(IN_GRAPH + _LENT)
    others = overlapping(target)
    # Of a detached array and the one that it is of, elements that are not written keep their own history.
    detached = (len(target._cell) > 1 and target._cell[1].detached) or len({x._node is None for x in arrays}) == 2
    _move(arrays)
    cast_into(value._buf, value._kind, target._buf, target._kind)
    target._node = value._node
    if detached:
        memory_owners(target).detached = True
    for x in others:
        if detached and written is not None:
            _share_elements(x, target, value, written)
        else:
            _share(x, target, value)


def _share_elements(x: NDArray, target: NDArray, value: NDArray, written: np.ndarray) -> None:
    """The same as :func:`_share` for the elements at the positions `written` of `target` alone."""
    at = written - element_offset(x, target)
    inside = (at >= 0) & (at < x._buf.size)
    source = np.arange(x._buf.size)
    source[at[inside]] = x._buf.size + written[inside]
    both = [operators["reshape"].call(a, shape=(-1,)) for a in (x, value)]
    index = from_host_values(source, tracing.outside_kind(x._kind, int64))
    x._node = operators["reshape"].call(operators["take"].call(_joined(*both), index), shape=x._shape)._node


def leave_to_tape(target: NDArray) -> None:
    """Before a constant of NumPy's conventions is written: leave its memory to the tape, if that may read it later.

    The arrays on the memory move to new memory. Those on the tape do not, nor what other classes or libraries share.
    """
    cell = target._cell  # to which each node refers that was computed from an array on this memory
    count = sys.getrefcount(cell)
    if count <= _UNREAD or count <= _UNREAD + len(memory_sharers(target)) or is_exported(target):
        return
    arrays = _connected(target)
    if target._kind.conventions is not MXNET and all(x._node is None and x._kind is target._kind for x in arrays):
        _move(arrays)


def _reference_count(x: NDArray) -> int:
    cell = x._cell
    return sys.getrefcount(cell)


#: What is counted where nothing refers to the version cell but one array; it differs between Python versions.
_UNREAD = _reference_count(wrap(None, (), kind_of(float32, CPU0)))


def is_variable(x: NDArray) -> bool:
    """Whether an array is a marked variable or a transform's argument, or the same memory in another shape or class."""
    node = x._node
    while isinstance(node, tape.Node) and isinstance(node.op, tape.SameMemory) and node.parents:
        node = node.parents[0]
    return type(node) is tape.Leaf or (isinstance(node, tape.Node) and node.parents == ())


def _connected(target: NDArray) -> list[NDArray]:
    """The arrays that share elements with `target`, with one of these, and so on."""
    if not target._buf.size:
        return [target]
    spans = [(_offset(x, target), x) for x in (target, *memory_sharers(target)) if x._buf.size]
    group: list[NDArray] = []
    end = 0
    for first, x in sorted(spans, key=lambda span: span[0]):
        if first >= end and group:
            if any(y is target for y in group):
                break
            group = []
        end = max(end, first + _bytes(x)) if group else first + _bytes(x)
        group.append(x)
    return [target, *(x for x in group if x is not target)]


def _move(arrays: list[NDArray]) -> None:
    """Give arrays whose memory is connected the same elements in new memory, with the same overlaps."""
    first = min(arrays, key=lambda x: address(x._buf))
    starts = [element_offset(x, first) for x in arrays]
    memory = first._kind.empty(max(k + x._buf.size for k, x in zip(starts, arrays, strict=True)), first._kind.storage)
    cell: list = [0]
    for x in arrays:
        mark_moved(x)
    for k, x in zip(starts, arrays, strict=True):
        memory[k : k + x._buf.size] = x._buf
        x._buf = memory[k : k + x._buf.size]
        if len(arrays) == 1:
            x._cell = cell
        else:
            register_owner(x, cell)
