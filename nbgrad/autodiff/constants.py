"""Constants on the tape: values through which no gradient flows, and the test whether one flows through an array."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..arrays.ndarray import NDArray
from ..arrays.sharing import alias
from .differentiability import limit_order
from .tape import Leaf, Rule, node

__all__ = [
    "CONSTANT",
    "COTANGENT",
    "NoDerivative",
    "as_constants",
    "carries_gradient",
    "constant",
    "is_live_node",
    "variable_cotangent",
]


class Constant(Rule):
    """A value through which no gradient flows: it adds nothing to the cotangents of its parents, which stay zero."""

    name = "constant"
    constant = True

    def passes(self, k):
        return False

    def pull_raw(self, node, g, cotangents, borrowed, useful):
        pass

    def pull_recorded(self, node, g, cotangents, useful):
        pass


CONSTANT = Constant()
#: Cotangents to differentiate by; `attrs` of a node is the node of what it is the cotangent of.
COTANGENT = Constant()


def constant(x: NDArray, parents: tuple) -> NDArray:
    """`x` recorded as a constant that depends on `parents`, so that the gradient of a linear function can be
    differentiated. Without parents it is a variable to differentiate by."""
    y = alias(x, x._buf, x._shape)
    y._node = node(CONSTANT, parents, (), x._cell, x._shape, x._kind)
    return y


def variable_cotangent(y: NDArray, values: NDArray) -> NDArray:
    """`values` as the cotangent of the recorded `y`, and a variable to differentiate by: pullbacks are linear in it."""
    g = alias(values, values._buf, values._shape)
    g._node = node(COTANGENT, (), (), y._node, g._shape, g._kind)
    return g


class NoDerivative(Rule):
    """A value that depends on its parents without a known derivative: asking for a gradient is an error."""

    def __init__(self, name: str) -> None:
        self.name = name
        limit_order(self, 0)


def is_live_node(item: Any) -> bool:
    """Whether a node or leaf can be the start or the target of a sweep: not None, and not freed."""
    return item is not None and (type(item) is Leaf or item.parents is not None)


def carries_gradient(x: NDArray) -> bool:
    """Whether a derivative by some variable flows through `x`; one that is always zero does not count."""
    if x._node is None or not x._kind.dtype.is_float:
        return False
    worklist: list = [x._node]
    seen = set(worklist)
    while worklist:
        item = worklist.pop()
        if type(item) is Leaf or item.parents == ():
            return True
        for k, p in enumerate(item.parents or ()):
            if type(p) is not list and p not in seen and item.op.passes(k):
                seen.add(p)
                worklist.append(p)
    return False


def variables_of(arrays: Iterable[NDArray]) -> tuple:
    """The variables that the arrays depend on in any way: marked ones, and those of derivatives of functions.

    The result is cached on the arrays' nodes, so that asking after every step of a long recording visits each step
    once.
    """
    variables: dict = {}
    for x in arrays:
        if x._node is not None:
            variables.update(dict.fromkeys(_variables(x._node)))
    return tuple(variables)


def _variables(head) -> tuple:
    reached: dict = {}
    worklist: list = [head]
    seen = set(worklist)
    while worklist:
        item = worklist.pop()
        if type(item) is Leaf or item.parents == ():
            reached[item] = None
        elif item.parents is not None:
            known = getattr(item, "variables", None)
            if known is not None:
                reached.update(dict.fromkeys(known))
                continue
            for p in item.parents:
                if type(p) is not list and p not in seen:
                    seen.add(p)
                    worklist.append(p)
    result = tuple(reached)
    if type(head) is not Leaf:
        head.variables = result
    return result


def as_constants(results: Iterable[NDArray], operands: Iterable[NDArray], rule: Rule = CONSTANT) -> None:
    """Record results without a gradient as constants that depend on their operands' variables.

    They refer to these variables and not to the history in between: a state that is detached at every step of a long
    loop releases the steps before.
    """
    parents = variables_of(operands)
    if parents:
        for y in results:
            if y._node is None:
                y._node = node(rule, parents, (), y._cell, y._shape, y._kind)
