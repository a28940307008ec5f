"""Limits of differentiability: a rule's ``max_order``, which sweeps check before they compute anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isfinite

from ..errors import NBGradError
from ..ir.expr import Expr, const, substitute, var
from ..ir.expr_source import pretty

__all__ = ["GRADIENT", "ByOperands", "check_order", "limit_order"]

#: The suffix that the name of an operator's gradient has.
GRADIENT = "_grad"

_ENDS = "{op}: order {order} is asked for, but max_order is {limit}"
_CREATE_GRAPH = " (create_graph=True is one more)"


def check_order(item, more: int) -> None:
    """Raise if a node whose rule has a `max_order` cannot be differentiated `more` times."""
    limit = item.op.max_order
    left = limit(item) if callable(limit) else limit
    if left < more:
        name = item.op.name
        while name.endswith(GRADIENT):
            name = name.removesuffix(GRADIENT)
        done = (len(item.op.name) - len(name)) // len(GRADIENT)
        message = _ENDS.format(op=name, order=done + more, limit=max(done + left, 0))
        raise NBGradError(message + _CREATE_GRAPH if more > 1 else message)


def limit_order(rule, max_order: float | Callable) -> None:
    """Set a rule's `max_order` and check it in its raw pull; rules without one have no check to pay for."""
    rule.max_order = max_order
    pull_raw = rule.pull_raw

    def checked(node, g, cotangents, borrowed, useful):
        check_order(node, 1)
        pull_raw(node, g, cotangents, borrowed, useful)

    rule.pull_raw = checked


class ByOperands:
    """A `max_order` that depends on an elementwise operator's operands or parameters: a function of a node.

    Parameters
    ----------
    limits : sequence of Expr
        Their minimum is the limit.
    params : sequence of str
        The names of the parameters.
    """

    def __init__(self, limits: Sequence[Expr], params: Sequence[str]) -> None:
        self.limits = limits
        self.params = params

    def __repr__(self) -> str:
        return " or ".join(map(pretty, self.limits))

    def __call__(self, node) -> float:
        if node.kind.traced:  # the operands are not known yet
            return inf
        values = dict(zip(self.params, node.attrs[1]))
        # The operands of a traced function are not known yet, and set no limit.
        for k, buf in zip(node.op.saves, () if node.kind.traced else node.saved[::3]):
            elements = buf.view(node.kind.dtype.np).reshape(-1)  # a copy, if the buffer is on a GPU
            values["y" if k < 0 else f"x{k}"] = elements.max(initial=0)  # the largest operand sets the limit
        known = {var(name): const(float(value)) for name, value in values.items()}
        left = [substitute(e, known).value for e in self.limits]
        return min((int(n) for n in left if n is not None and isfinite(n)), default=inf)
