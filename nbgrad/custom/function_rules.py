"""The tape's rule for a call of a :class:`~.function.Function`, and what its `backward` gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays.ndarray import NDArray, alias, from_value, wrap
from ..autodiff import tape
from ..autodiff.cotangents import add_raw
from ..autodiff.state import recording
from ..compiler import opaque
from ..core.shapes import size
from ..errors import DTypeError, NBGradError, ShapeError
from ..operators.cast import cast

__all__ = ["Call", "gradients", "guarded", "zeros"]


class Call(tape.Rule):
    """The tape's rule for a call of a :class:`Function`.

    The instance and the inputs' (shape, kind) pairs are the node's `attrs`, which backward lets go.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def grads(self, node, g, useful):
        several = isinstance(g, list)
        gs = [
            zeros(shape, kind) if h is None else cast(h, kind)  # a copy, which the user may change
            for h, shape, kind in zip(
                g if several else [g],
                node.shape if several else [node.shape],
                node.kind if several else [node.kind],
                strict=True,
            )
        ]
        function, avals = node.attrs
        function._node = node
        try:
            given = gradients(self.name, function.backward(*gs), avals)
        finally:
            function._node = None
        found = [h if tape.wanted(p, useful) else None for h, p in zip(given, node.parents, strict=True)]
        if self.max_order == 1 and avals[0][1].traced:
            return opaque.ended(self.name, found, node, gs)
        return guarded(self.name, found, node.parents) if function._hides and recording() else found

    def pull_raw(self, node, g, cotangents, borrowed, useful):
        g = tape.wrap_cotangent(node, g)
        for p, h in zip(node.parents, self.grads(node, g, useful), strict=True):
            if h is not None:  # the user may keep, and change, what backward returned
                add_raw(p, h._buf.copy(), h._kind, cotangents, borrowed)


class _Guard(tape.Rule):
    """A gradient that `backward` of a Function made of something whose derivative is not known.

    The first parent is where that gradient is on the tape, the others are the operands.
    """

    def __init__(self, name: str) -> None:
        self.name = f"{name}.backward"

    def grads(self, node, g, useful):
        if any(tape.wanted(p, useful) for p in node.parents[1:]):
            raise NBGradError(
                f"{self.name} reads an array that forward made and kept, of which the derivative is not known, and a "
                "derivative of the gradient is asked for: keep inputs or results of forward, and compute it from them "
                "in backward; where it is constant (a mask), keep it as an array of bool or integers, or of NumPy"
            )
        return [g, *[None] * (len(node.parents) - 1)]


def guarded(name: str, found: list, operands: tuple) -> list:
    """Gradients, which can be differentiated by anything but the operands."""
    rule = _Guard(name)
    made = []
    for h in found:
        if h is not None:
            place = tape.node(rule, (tape.parent(h), *operands), (), None, h._shape, h._kind)
            h = alias(h, h._buf, h._shape, place)
        made.append(h)
    return made


def gradients(name: str, found, avals: Sequence) -> list[NDArray]:
    """What `backward` of the function `name` returned, checked: one per array of these shapes and kinds."""
    found = list(found) if isinstance(found, list | tuple) else [found]
    if len(found) != len(avals):
        raise NBGradError(
            f"{name}.backward must return {len(avals)} gradient(s), one per NDArray input of forward; "
            f"it returned {len(found)}"
        )
    results: list[NDArray] = []
    for k, (h, (shape, kind)) in enumerate(zip(found, avals, strict=True)):
        if h is None:
            h = zeros(shape, kind)
        elif isinstance(h, np.ndarray | np.generic):  # of arrays without axes NumPy makes numbers
            h = from_value(h, like=kind, dtype=kind.dtype)
        if not isinstance(h, NDArray):
            raise DTypeError(f"{name}.backward: gradient {k} must be an NDArray or None, got {h!r}")
        if h._shape != shape:
            raise ShapeError(f"{name}.backward: gradient {k} has shape {h._shape}, its input has shape {shape}")
        results.append(h if h._kind is kind else cast(h, kind))
    return results


def zeros(shape, kind) -> NDArray:
    out = wrap(kind.empty(size(shape), kind.storage), shape, kind)
    out._buf.fill(0)
    return out
