"""Strong products in compiled programs, of which more is known than of single operators, that can be plain ones.

A strong product matters where a cotangent is zero and a partial derivative is infinite or NaN. A partial derivative
without poles is finite where the program's arguments are. If one of those is not, then so is what the function computes
of it, unless a condition chooses something else: where a cotangent may be zero by choice, its products stay strong.
"""

from __future__ import annotations

from ..expr import ONE, Expr, free, has_poles, order, rebuild, substitute, var

__all__ = ["chooses", "plain"]


def plain(e: Expr, finite: set[Expr], chosen: set[Expr]) -> Expr:
    """`e` without those of its strong products that have no poles and no chosen zeros.

    `finite` and `chosen`: the variables that are surely finite if the arguments are, and those with chosen zeros.
    """
    made: dict[Expr, Expr] = {}
    for node in order([e]):
        if node.fn is None:
            made[node] = node
            continue
        args = tuple(made[a] for a in node.args)
        if node.fn.name == "strong" and _known(args[0], args[1], finite, chosen):
            made[node] = args[0]
        else:
            made[node] = node if args == node.args else rebuild(node.fn, args)
    return made[e]


def _known(e: Expr, factor: Expr, finite: set[Expr], chosen: set[Expr]) -> bool:
    """Whether `e` is `factor`, which has no chosen zeros, times something finite."""
    partial = substitute(e, {factor: ONE})
    return (
        finite.issuperset(map(var, free(partial)))
        and chosen.isdisjoint(map(var, free(factor)))
        and not has_poles(partial)
        and not chooses(factor)
    )


def chooses(e: Expr) -> bool:
    """Whether a condition in `e` chooses."""
    return any(node.fn is not None and node.fn.name == "select" for node in order([e]))
