"""What is asked of expressions, and one rewriting: cost, orders of derivatives, truth, quotients of quotients."""

from __future__ import annotations

from .expr import ZERO, Expr, _div, _mul, _neg, _select, as_expr, div, rebuild, scaled_partial, topological_order

__all__ = ["avoid_double_quotients", "evaluation_cost", "is_truth", "max_orders"]


def avoid_double_quotients(e: Expr, g: Expr) -> Expr:
    """`e` with ``h * (y / d)`` as ``(h * y) / d``, where `h` depends on `g` and `y` is itself a quotient by `d`.

    The product of both quotients, as in the derivative of ``1 / x**2``, may under- or overflow although the result does
    not.
    """
    rewritten: dict[Expr, Expr] = {}
    dependent: set[Expr] = {g}
    for node in topological_order([e]):
        args = tuple(rewritten[a] for a in node.args)
        rewritten[node] = node if args == node.args else rebuild(node.fn, args)  # type: ignore[arg-type]
        if not dependent.isdisjoint(node.args):
            dependent.add(node)
            quotient = args[1] if node.fn is _mul and node.args[0] in dependent else ZERO
            if quotient.fn is _div:
                y, d = quotient.args
                inner = y.args[0] if y.fn is _neg else y
                if inner.fn is _div and inner.args[1] is d:
                    rewritten[node] = div(scaled_partial(args[0], y), d)
    return rewritten[e]


def is_truth(e: Expr) -> bool:
    """Whether an expression is 0 or 1, by its form."""
    return e.value in (0, 1) or (e.fn is _select and all(map(is_truth, e.args[1:])))


def evaluation_cost(*roots: Expr) -> int:
    """The approximate cost of computing `roots`, in additions."""
    return 1 + 2 * sum(1 for node in topological_order(roots) if node.fn is not None and node.fn.helpers)


def max_orders(e: Expr) -> list[Expr]:
    """For each function in `e` whose derivatives are limited, how often it can be differentiated."""
    orders = []
    for node in topological_order([e]):
        limit = None if node.fn is None else node.fn.max_order
        if limit is not None:
            orders.append(as_expr(limit(*node.args) if callable(limit) else limit))
    return list(dict.fromkeys(orders))
