"""What is constant to a gradient: values through which none flows, and whether a recorded array is one of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..arrays.ndarray import NDArray, alias
from .differentiability import end_at
from .tape import Leaf, Rule, node

__all__ = ["CONSTANT", "NoDerivative", "alive", "as_constants", "carries_gradient", "constant"]


class Constant(Rule):
    """A value through which no gradient flows: a sweep adds nothing to its parents, and so gives them zeros."""

    name = "constant"
    constant = True

    def passes(self, k):
        return False

    def pull_raw(self, node, g, cotangents, borrowed, useful):
        pass

    def pull_recorded(self, node, g, cotangents, useful):
        pass


CONSTANT = Constant()


def constant(x: NDArray, parents: tuple) -> NDArray:
    """`x`, put on the tape as a constant of `parents`: the gradient of a linear function can be differentiated too.

    Without parents it is a variable to differentiate by.
    """
    y = alias(x, x._buf, x._shape)
    y._node = node(CONSTANT, parents, (), x._cell, x._shape, x._kind)
    return y


class NoDerivative(Rule):
    """A value that depends on its parents, in a way that the tape does not know: asking for a gradient is an error."""

    def __init__(self, name: str) -> None:
        self.name = name
        end_at(self, 0)


def alive(place: Any) -> bool:
    """Whether a place on the tape is one that a sweep can start from or lead to: not None, and not freed."""
    return place is not None and (type(place) is Leaf or place.parents is not None)


def carries_gradient(x: NDArray) -> bool:
    """Whether a derivative by some variable would flow through `x`: nothing is lost with one that is always zero."""
    if x._node is None or not x._kind.dtype.is_float:
        return False
    stack: list = [x._node]
    seen = set(stack)
    while stack:
        item = stack.pop()
        if type(item) is Leaf or item.parents == ():
            return True
        for k, p in enumerate(item.parents or ()):
            if type(p) is not list and p not in seen and item.op.passes(k):
                seen.add(p)
                stack.append(p)
    return False


def variables_of(arrays: Iterable[NDArray]) -> tuple:
    """The marked variables, and those of derivatives of functions, that the arrays depend on in any way.

    What is found is kept on the arrays' nodes, so that asking again after every step of a long record costs each
    step once.
    """
    found: dict = {}
    for x in arrays:
        if x._node is not None:
            found.update(dict.fromkeys(_variables(x._node)))
    return tuple(found)


def _variables(head) -> tuple:
    found: dict = {}
    stack: list = [head]
    seen = set(stack)
    while stack:
        item = stack.pop()
        if type(item) is Leaf or item.parents == ():
            found[item] = None
        elif item.parents is not None:
            known = getattr(item, "variables", None)
            if known is not None:
                found.update(dict.fromkeys(known))
                continue
            for p in item.parents:
                if type(p) is not list and p not in seen:
                    seen.add(p)
                    stack.append(p)
    result = tuple(found)
    if type(head) is not Leaf:
        head.variables = result
    return result


def as_constants(results: Iterable[NDArray], operands: Iterable[NDArray], rule: Rule = CONSTANT) -> None:
    """Put results without a gradient on the tape, as constants of the variables that their operands depend on.

    They hold these variables and not the history between: a state that is cut off at every step of a long loop
    drops what was before.
    """
    parents = variables_of(operands)
    if parents:
        for y in results:
            if y._node is None:
                y._node = node(rule, parents, (), y._cell, y._shape, y._kind)
