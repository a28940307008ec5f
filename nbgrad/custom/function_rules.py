"""The tape's rule for calls of a :class:`~.function.Function`, and checks of the gradients that `backward` returns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays.ndarray import NDArray, from_value, leaving, zeros
from ..arrays.sharing import alias
from ..autodiff import tape
from ..autodiff.cotangents import add_raw
from ..autodiff.state import recording
from ..compiler import opaque
from ..errors import DTypeError, InPlaceError, NBGradError, ShapeError
from ..operators.cast import cast

__all__ = ["FunctionRule", "checked_gradients", "guard_gradients", "zeros"]


class FunctionRule(tape.Rule):
    """The tape's rule for a call of a :class:`Function`.

    The instance and the inputs' (shape, kind) pairs are the node's `attrs`, which a freeing sweep drops. `cells` are
    the version cells of the arrays in its attributes, by their ids: others since then if a write has redefined them.
    """

    def __init__(self, name: str, cells: dict[int, list]) -> None:
        self.name, self.cells = name, cells

    def grads(self, node, g, useful):
        if any(self.cells.get(id(x), x._cell) is not x._cell for x in node.attrs[0]._held(saved=False)):
            raise InPlaceError(tape.CHANGED.format(op=self.name))
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
        left: list[NDArray] = []
        before = leaving.set(left if recording() and function.max_order is None else None)
        try:
            checked = checked_gradients(self.name, function.backward(*gs), avals)
        finally:
            leaving.reset(before)
            function._node = None
        results = [h if tape.cotangent_wanted(p, useful) else None for h, p in zip(checked, node.parents, strict=True)]
        if self.max_order == 1 and avals[0][1].traced:
            return opaque.without_derivatives(self.name, results, node, gs)
        if recording() and (function._hides or left):
            return guard_gradients(self.name, results, (*node.parents, *map(tape.parent, left)))
        return results

    def pull_raw(self, node, g, cotangents, borrowed, useful):
        g = tape.wrap_cotangent(node, g)
        for p, h in zip(node.parents, self.grads(node, g, useful), strict=True):
            if h is not None:  # the user may hold and change what backward returned
                add_raw(p, h._buf.copy(), h._kind, cotangents, borrowed)


class _Guard(tape.Rule):
    """A gradient that `backward` of a Function computed from numbers whose derivatives are unknown.

    The first parent is the gradient's own node, the others are the operands.
    """

    def __init__(self, name: str) -> None:
        self.name = f"{name}.backward"

    def grads(self, node, g, useful):
        if any(tape.cotangent_wanted(p, useful) for p in node.parents[1:]):
            raise NBGradError(
                f"{self.name} reads an array that forward computed and stored, or numbers of NumPy, whose derivative "
                "is not known, and a derivative of the gradient is asked for: save inputs or results of forward, and "
                "compute it from them in backward by nd operators. What is constant can be an array of bools or "
                "integers (a mask), or an attribute from before forward; max_order = 2 in the class body says that "
                "all that NumPy computes is constant"
            )
        return [g, *[None] * (len(node.parents) - 1)]


def guard_gradients(name: str, found: list, operands: tuple) -> list:
    """Gradients that raise if they are differentiated with respect to the operands."""
    rule = _Guard(name)
    results = []
    for h in found:
        if h is not None:
            guard = tape.node(rule, (tape.parent(h), *operands), (), None, h._shape, h._kind)
            h = alias(h, h._buf, h._shape, guard)
        results.append(h)
    return results


def checked_gradients(name: str, returned, avals: Sequence) -> list[NDArray]:
    """The checked gradients that `backward` of `name` returned, one per array of these shapes and kinds."""
    returned = list(returned) if isinstance(returned, list | tuple) else [returned]
    if len(returned) != len(avals):
        raise NBGradError(
            f"{name}.backward must return {len(avals)} gradient(s), one per NDArray input of forward; "
            f"it returned {len(returned)}"
        )
    results: list[NDArray] = []
    for k, (h, (shape, kind)) in enumerate(zip(returned, avals, strict=True)):
        if h is None:
            h = zeros(shape, kind)
        elif isinstance(h, np.ndarray | np.generic):  # NumPy turns 0-d arrays into scalars
            h = from_value(h, like=kind, dtype=kind.dtype)
        if not isinstance(h, NDArray):
            raise DTypeError(f"{name}.backward: gradient {k} must be an NDArray or None, got {h!r}")
        if h._shape != shape:
            raise ShapeError(f"{name}.backward: gradient {k} has shape {h._shape}, its input has shape {shape}")
        results.append(h if h._kind is kind else cast(h, kind))
    return results
