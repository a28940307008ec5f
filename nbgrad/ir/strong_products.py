"""Weaken strong products: replace them by plain products where the whole program shows that this is safe.

A strong product matters where a cotangent is zero and a partial derivative is infinite or NaN. It can be a plain
product where that is impossible, of which there are two proofs:

- The partial derivative has no poles, so it is finite where the program's arguments are. If one of those is not, then
  the function's value is not, either, unless a condition selects something else: where a cotangent may be a structural
  zero, its products stay strong.
- Whatever makes the partial derivative infinite or NaN makes the cotangent so, too, and therefore not zero. In the
  derivative of ``1/x**6 - 1/x**3``, the cotangent of ``1/x`` is a sum of powers of ``1/x``.

For the second proof, each element has two sets of *causes*: those that certainly make it infinite or NaN, and those of
which at least one must hold if it is. A cause is that an element of a value is infinite or NaN, or that it is zero, for
elements at the same index only. Sums, products and negatives are infinite or NaN wherever one of their operands is; so
are quotients where the numerator is, or where the denominator is zero. A set is an integer with a bit for each cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from ..core.shapes import size
from .expr import ONE, ZERO, Expr, free_variables, has_poles, rebuild, topological_order, var

if TYPE_CHECKING:
    from .graph import ShapedValue, Value

__all__ = ["has_selection", "weaken_strong_products"]


class Causes(NamedTuple):
    """For an infinite or NaN element: the causes that suffice, and those of which one must hold (None: unknown)."""

    sufficient_causes: int
    necessary_causes: int | None


def weaken_strong_products(e: Expr, inputs: list[ShapedValue], count: int | None) -> Expr:
    """`e` with strong products replaced by plain ones where that is safe.

    `count` is the number of elements computed; None in a nested graph, where causes are unknown, since the values of
    both graphs have the same numbers.
    """
    if not any(node.fn is not None and node.fn.name == "strong" for node in topological_order([e])):
        return e
    finite = {var(f"x{k}") for k, x in enumerate(inputs) if x.value.finite}
    chosen = {var(f"x{k}") for k, x in enumerate(inputs) if x.value.has_structural_zeros}
    reduced: dict[Expr, Expr] = {}
    for node in topological_order([e]):
        if node.fn is None:
            reduced[node] = node
            continue
        args = tuple(reduced[a] for a in node.args)
        if node.fn.name == "strong" and not (
            has_selection(args[1]) or not chosen.isdisjoint(map(var, free_variables(args[1])))
        ):
            partial = _partial(args[0], args[1])
            if partial is not None and (
                (finite.issuperset(map(var, free_variables(partial))) and not has_poles(partial))
                or (count is not None and _factor_diverges_too(partial, args[1], inputs, count))
            ):
                reduced[node] = args[0]
                continue
        reduced[node] = node if args == node.args else rebuild(node.fn, args)
    return reduced[e]


def has_selection(e: Expr) -> bool:
    """Whether `e` contains a selection."""
    return any(node.fn is not None and node.fn.name == "select" for node in topological_order([e]))


def _partial(e: Expr, factor: Expr) -> Expr | None:
    """What `factor` is multiplied by in `e` (which may depend on the same variable again); None if not recognized."""
    name = e.fn and e.fn.name
    if e is factor:
        return ONE
    if name in ("add", "sub", "select"):
        a, b = (_partial(part, factor) for part in e.args[-2:])
        return None if a is None or b is None else rebuild(e.fn, (*e.args[:-2], a, b))  # type: ignore[arg-type]
    if name in ("neg", "div", "strong"):
        part = _partial(e.args[0], factor)
        return None if part is None else rebuild(e.fn, (part, *e.args[1:]))  # type: ignore[arg-type]
    if name == "mul":
        for a, b in (e.args, e.args[::-1]):
            if (part := _partial(a, factor)) is not None:
                return part * b
    return ZERO if e is ZERO else None


def _factor_diverges_too(partial: Expr, factor: Expr, inputs: list[ShapedValue], count: int) -> bool:
    """Whether the factor is infinite or NaN wherever the partial derivative is."""
    known = _causes([partial, factor], inputs, count)
    possibly = known[partial].necessary_causes
    return possibly is not None and not possibly & ~known[factor].sufficient_causes


def _causes(roots: list[Expr], inputs: Sequence[ShapedValue], count: int) -> dict[Expr, Causes]:
    """The causes of all expressions below `roots`, in ``x0``, ``x1`` ... for the inputs."""
    names = {f"x{k}": x for k, x in enumerate(inputs)}
    zero = {var(n): _cause_bit(x.value, zero=True) for n, x in names.items() if size(x.shape) == count}
    causes: dict[Expr, Causes] = {}
    for node in topological_order(roots):
        parts = [causes[a] for a in node.args]
        if node.name is not None:
            x = names[node.name]
            causes[node] = _value_causes(x.value) if node in zero else Causes(0, 0 if x.value.finite else None)
            continue
        if node.fn is None:
            causes[node] = Causes(0, None if has_poles(node) else 0)
            continue
        either = (
            None
            if any(p.necessary_causes is None for p in parts)
            else reduce(or_, [p.necessary_causes for p in parts], 0)
        )
        match node.fn.name:
            case "add" | "sub" | "mul" | "neg":
                causes[node] = Causes(reduce(or_, [p.sufficient_causes for p in parts]), either)
            case "div":
                bit = zero.get(node.args[1]) if has_poles(ONE / node.args[1]) else 0  # except for constants
                possibly = None if bit is None or either is None else either | bit
                causes[node] = Causes(parts[0].sufficient_causes | (bit or 0), possibly)
            case "select":
                causes[node] = Causes(parts[1].sufficient_causes & parts[2].sufficient_causes, either)
            case "strong":
                causes[node] = Causes(parts[0].sufficient_causes & parts[1].sufficient_causes, either)
            case _:
                causes[node] = Causes(0, either if node.fn.finite else None)
    return causes


def _value_causes(value: Value) -> Causes:
    """The causes of a value's elements."""
    stack = [value]
    while stack:
        v = stack[-1]
        parts = [x.value for x in v.inputs if v.op == "map" and x.value.causes is None]
        if v.causes is None and parts:
            stack += parts
            continue
        stack.pop()
        if v.causes is None:
            certain, possibly = 0, 0 if v.finite else None
            if v.op == "map" and v.dtype.is_float:
                e, compute = v.attrs
                if compute.is_float:
                    certain, possibly = _causes([e], v.inputs, size(v.shape))[e]
            own = _cause_bit(v)
            v.causes = Causes(certain | own, own if possibly is None else possibly)
    return value.causes


def _cause_bit(value: Value, zero: bool = False) -> int:
    """The cause that an element of `value` is infinite or NaN, or that it is zero."""
    return 1 << (2 * value.number + zero)
