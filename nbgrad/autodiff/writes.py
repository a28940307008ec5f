"""In-place writes while recording: which are allowed, and how the tape represents them.

The rules hold per memory, whichever of its arrays (views, reshapes, ``detach``, ``from_numpy``) is written through:

* Memory that an array on the tape reads must not be written.
* A recorded value may be written into the whole of an array whose memory is not on the tape. From then on all arrays
  on that memory are on the tape: each is its old constant with the shared elements replaced by those of the value.
"""

from __future__ import annotations

from ..arrays.launch import address, cast_into
from ..arrays.ndarray import NDArray, memory_sharers, wrap
from ..core.registry import operators
from ..core.shapes import size
from ..errors import NBGradError
from . import tape
from .state import recording

__all__ = ["IN_GRAPH", "IN_PLACE", "check_target", "overwrite"]

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


def _offset(x: NDArray, other: NDArray) -> int:
    """The offset of `x` from the beginning of `other`, in bytes."""
    return address(x._buf) - address(other._buf)


def _bytes(x: NDArray) -> int:
    return x._buf.size * x._kind.dtype.storage.itemsize


def _overlapping(target: NDArray) -> list[NDArray]:
    """The other arrays whose memory overlaps that of `target`."""
    others = memory_sharers(target)
    return [x for x in others if -_bytes(x) < _offset(x, target) < _bytes(target)] if others else others


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
    """A constant array, of which a slice was overwritten by a recorded one.

    A node's attributes: the first shared element in the array, the first in the recorded one, and their count.
    """

    name = "overwritten"

    def grads(self, node, g, useful):
        (p,), (begin, source, count) = node.parents, node.attrs
        flat = operators["reshape"].call(g, shape=(-1,))
        part = operators["slice_axis"].call(flat, axis=0, begin=begin, end=begin + count)
        n = size(p.shape)
        if count < n:
            zeros = [wrap(node.kind.zeros(k), (k,), node.kind) for k in (source, n - source - count)]
            part = operators["concat"].call(zeros[0], part, zeros[1], dim=0)
        return [operators["reshape"].call(part, shape=p.shape)]


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
    node = target._node = value._node
    for x in others:
        begin = _offset(x, target) // target._kind.dtype.storage.itemsize
        count = min(begin + x._buf.size, target._buf.size) - max(begin, 0)
        attrs = max(-begin, 0), max(begin, 0), count
        x._node = tape.node(_OVERWRITTEN, (node,), (), attrs, x._shape, x._kind)
