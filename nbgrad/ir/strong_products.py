"""Strong products in compiled programs, of which more is known than of single operators, that can be plain ones.

A strong product matters where a cotangent is zero and a partial derivative is infinite or NaN. It is a plain one where
that cannot be, of which there are two proofs:

- The partial derivative has no poles, so it is finite where the program's arguments are. If one of those is not, then
  so is what the function computes of it, unless a condition chooses something else: where a cotangent may be zero by
  choice, its products stay strong.
- Whatever makes the partial derivative infinite or NaN makes the cotangent so, too, which is not zero then. In the
  derivative of ``1/x**6 - 1/x**3``, the cotangent of ``1/x`` is a sum of powers of ``1/x``.

For the second, each element has two sets of *causes*: those that surely make it infinite or NaN, and those of which one
must hold if it is. A cause is that an element of a value is infinite or NaN, or that it is zero; elements at the same
place only. Sums, products and negatives are infinite or NaN wherever one of their operands is, and so are quotients
for the numerator, and where the denominator is zero. A set is an integer with a bit for each cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from ..core.shapes import size
from .expr import ONE, ZERO, Expr, free, has_poles, order, rebuild, var

if TYPE_CHECKING:
    from .graph import Seen, Value

__all__ = ["chooses", "plain"]


class Causes(NamedTuple):
    """Of an element that is infinite or NaN: what surely makes it so, and of what one must hold (None: unknown)."""

    surely: int
    possibly: int | None


def plain(e: Expr, inputs: list[Seen], places: int | None) -> Expr:
    """`e` without those of its strong products that are plain ones.

    `places` are the elements computed; None in a graph inside of another, where nothing is known of causes, as the
    values of both have the same numbers.
    """
    if not any(node.fn is not None and node.fn.name == "strong" for node in order([e])):
        return e
    finite = {var(f"x{k}") for k, x in enumerate(inputs) if x.value.finite}
    chosen = {var(f"x{k}") for k, x in enumerate(inputs) if x.value.chosen}
    made: dict[Expr, Expr] = {}
    for node in order([e]):
        if node.fn is None:
            made[node] = node
            continue
        args = tuple(made[a] for a in node.args)
        if node.fn.name == "strong" and not (chooses(args[1]) or not chosen.isdisjoint(map(var, free(args[1])))):
            partial = _partial(args[0], args[1])
            if partial is not None and (
                (finite.issuperset(map(var, free(partial))) and not has_poles(partial))
                or (places is not None and _covered(partial, args[1], inputs, places))
            ):
                made[node] = args[0]
                continue
        made[node] = node if args == node.args else rebuild(node.fn, args)
    return made[e]


def chooses(e: Expr) -> bool:
    """Whether a condition in `e` chooses."""
    return any(node.fn is not None and node.fn.name == "select" for node in order([e]))


def _partial(e: Expr, factor: Expr) -> Expr | None:
    """What `factor` is multiplied by in `e`, which may depend on the same variable once more; None if that is not
    seen."""
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


def _covered(partial: Expr, factor: Expr, inputs: list[Seen], places: int) -> bool:
    """Whether the factor is infinite or NaN wherever the partial derivative is."""
    known = _causes([partial, factor], inputs, places)
    possibly = known[partial].possibly
    return possibly is not None and not possibly & ~known[factor].surely


def _causes(roots: list[Expr], inputs: Sequence[Seen], places: int) -> dict[Expr, Causes]:
    """The causes of all expressions below `roots`, in ``x0``, ``x1`` ... for the inputs."""
    names = {f"x{k}": x for k, x in enumerate(inputs)}
    zero = {var(n): _bit(x.value, zero=True) for n, x in names.items() if size(x.shape) == places}
    found: dict[Expr, Causes] = {}
    for node in order(roots):
        parts = [found[a] for a in node.args]
        if node.name is not None:
            x = names[node.name]
            found[node] = _known(x.value) if node in zero else Causes(0, 0 if x.value.finite else None)
            continue
        if node.fn is None:
            found[node] = Causes(0, None if has_poles(node) else 0)
            continue
        either = None if any(p.possibly is None for p in parts) else reduce(or_, [p.possibly for p in parts], 0)
        match node.fn.name:
            case "add" | "sub" | "mul" | "neg":
                found[node] = Causes(reduce(or_, [p.surely for p in parts]), either)
            case "div":
                bit = zero.get(node.args[1]) if has_poles(ONE / node.args[1]) else 0  # but for constants
                possibly = None if bit is None or either is None else either | bit
                found[node] = Causes(parts[0].surely | (bit or 0), possibly)
            case "select":
                found[node] = Causes(parts[1].surely & parts[2].surely, either)
            case "strong":
                found[node] = Causes(parts[0].surely & parts[1].surely, either)
            case _:
                found[node] = Causes(0, either if node.fn.finite else None)
    return found


def _known(value: Value) -> Causes:
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
            surely, possibly = 0, 0 if v.finite else None
            if v.op == "map" and v.dtype.is_float:
                e, compute = v.attrs
                if compute.is_float:
                    surely, possibly = _causes([e], v.inputs, size(v.shape))[e]
            own = _bit(v)
            v.causes = Causes(surely | own, own if possibly is None else possibly)
    return value.causes


def _bit(value: Value, zero: bool = False) -> int:
    """The cause that an element of `value` is infinite or NaN, or that it is zero."""
    return 1 << (2 * value.number + zero)
