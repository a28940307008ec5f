"""Roots of zero. Their derivatives are infinite, which must not make NaN of what does not need them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from ...ir.expr import (
    ONE,
    ZERO,
    Expr,
    both,
    const,
    either,
    has_poles,
    lt,
    ne,
    neg,
    order,
    rebuild,
    select,
    strong,
    substitute,
    var,
    vjp,
    weak,
)
from ...kernels import scalar as vm

__all__ = ["arriving", "finite", "is_multiple", "lower_powers", "of_squares", "products", "roots_in", "strongly"]


@dataclass(frozen=True)
class Root:
    """What stands for a factor that is infinite where `zero` is zero.

    Attributes
    ----------
    factor : Expr
        The same, but finite where all that it is multiplied by is zero.
    inside : Expr or None
        What the root is of, if a part of what it is multiplied by may be zero alone.
    """

    factor: Expr
    zero: Expr
    inside: Expr | None


def roots_in(e: Expr, moved: Callable[[Expr], Expr], squares: set[str]) -> dict[Expr, Root]:
    """The factors in derivatives of `e` that are infinite where a root is one of 0, with what stands for them.

    `moved` gives what the derivative of a root is multiplied by, as far as it is known, and `squares` the names of sums
    of squares. The roots of these are lengths: where one is zero, 0 is a subgradient.
    """
    found: dict[Expr, Root] = {}
    for y in order([e]):
        if y.fn is vm.sqrt:
            (x,) = y.args
            known = of_squares(x, squares)
            divisor = select(ne(y, 0), y, 1) if known else _unless(y, moved(y))
            found[const(0.5) / y] = Root(const(0.5) / divisor, y, None if known else x)
        elif y.fn is vm.power and 0 < (y.args[1].value or 0) < 1:
            x, p = y.args
            found[vm.power(x, p - 1)] = Root(vm.power(_unless(x, moved(y)), p - 1), x, x)
    return found


def arriving(e: Expr, g: Expr, y: Expr) -> Expr:
    """The cotangent of `y`, a part of `e`, when that of `e` is `g`, where it is a product of `g` and variables; or else
    `g`, where the other factors are taken for other than zero."""
    there = var("@there")
    found = vjp(substitute(e, {y: there}), g, [there.name])[0]  # type: ignore[list-item]
    return found if there not in order([found]) and _is_product(found) else g


def _is_product(e: Expr) -> bool:
    return e.fn is None or (e.fn.name in ("mul", "neg") and all(map(_is_product, e.args)))


def finite(part: Expr, name: str, roots: dict[Expr, Root]) -> Expr:
    """`part`, the derivative with respect to `name`, where nothing infinite is multiplied by 0.

    What asks whether that is so stands around whole products: what is in them is the same for other names.
    """
    if not roots:
        return part
    made: dict[Expr, Expr] = {}
    tests: dict[Expr, list[Expr]] = {}  # under which products are needed that have infinite factors

    def whole(e: Expr) -> Expr:
        return reduce(lambda made, test: select(test, made, ZERO), tests.get(e, ()), made[e])

    for node in order([part]):
        if node in roots:
            made[node], tests[node] = roots[node].factor, _needed(roots[node], name)
            continue
        above = [t for a in node.args for t in tests.get(a, ())]
        product = node.fn is not None and (
            node.fn.name in ("mul", "neg") or (node.fn.name == "div" and not tests.get(node.args[1]))
        )
        if above and product:
            tests[node] = above
        args = tuple(made[a] if product else whole(a) for a in node.args)
        made[node] = node if args == node.args else rebuild(node.fn, args)  # type: ignore[arg-type]
    return whole(part)


def strongly(part: Expr, g: Expr, tame: dict[Expr, Expr] | None = None) -> Expr:
    """`part`, a multiple of `g`, as a strong product where it has poles (but for what is `tame`: no pole where `g` is
    zero); inside of what chooses it, and of its sign."""
    name = part.fn and part.fn.name
    if name == "select":
        test, a, b = part.args
        return select(test, strongly(a, g, tame), strongly(b, g, tame))
    if name == "neg":
        return neg(strongly(part.args[0], g, tame))
    return strong(part, g) if has_poles(substitute(part, tame or {})) else part


def is_multiple(e: Expr, factor: Expr) -> bool:
    """Whether `e` is `factor` times something that does not depend on it: as a strong product it has the derivative
    that it has as a plain one, where it has one."""
    name, args = e.fn and e.fn.name, e.args
    if name == "mul":
        return any(is_multiple(a, factor) and factor not in order([b]) for a, b in (args, args[::-1]))
    return e is factor or (name in ("neg", "strong") and is_multiple(args[0], factor))


def products(e: Expr) -> Expr:
    """`e`, whose strong products are all ``factor * partial``: what does not depend on the factor can have a name, and
    :func:`is_multiple` knows them again where an adjoint is differentiated."""
    made: dict[Expr, Expr] = {}
    for node in order([e]):
        args = tuple(made[a] for a in node.args)
        made[node] = node if args == node.args else rebuild(node.fn, args)  # type: ignore[arg-type]
        if made[node].fn is not None and made[node].fn.name == "strong":  # type: ignore[union-attr]
            inner, factors = weak(made[node])
            partial = _without(inner, factors[0])
            made[node] = made[node] if partial is None else _within(partial, factors)
    return made[e]


def _within(partial: Expr, factors: tuple[Expr, ...]) -> Expr:
    """The product with the first of the factors, strong in all of them, inside of what chooses the derivative."""
    if partial.fn is not None and partial.fn.name == "select":
        test, a, b = partial.args
        return select(test, _within(a, factors), _within(b, factors))
    return ZERO if partial.value == 0 else reduce(strong, factors[::-1], factors[0] * partial)


def _without(e: Expr, factor: Expr) -> Expr | None:
    """What `factor` is multiplied by in `e`; None if it is not multiplied by anything."""
    if e is factor or e.value == 0:
        return ONE if e is factor else e
    args = e.args
    parts = [_without(a, factor) for a in args]
    match e.fn and e.fn.name, parts:
        case "neg" | "add" | "sub", [*_] if None not in parts:
            return rebuild(e.fn, tuple(parts))  # type: ignore[arg-type]
        case "select", [_, Expr() as a, Expr() as b]:
            return select(args[0], a, b)
        case "div", [Expr() as a, *_]:
            return a / args[1]
        case "mul", [Expr() as a, _]:
            return a * args[1]
        case "mul", [_, Expr() as b]:
            return args[0] * b
    return None


def _needed(root: Root, name: str) -> list[Expr]:
    """Whether a root, or what it is multiplied by, is other than zero, unless that is known. As one comparison: LLVM
    makes branches of several, and copies of what is between them."""
    if root.inside is None or not name:
        return []
    factor = _numerator(vjp(root.inside, ONE, [name])[0])
    return [ne(root.zero + vm.absolute(factor), 0)] if factor.value is None else []


def _numerator(e: Expr) -> Expr:
    """What is zero where `e` is, without constant factors."""
    match e.fn and e.fn.name:
        case "neg" | "div":
            return _numerator(e.args[0])
        case "mul":
            return _numerator(e.args[0]) * _numerator(e.args[1])
    return ONE if e.value else e


def of_squares(e: Expr, names: set[str]) -> bool:
    """Whether `e` is a sum of squares, or of what is in `names`: where it is zero, so are its derivatives."""
    if e.fn is None:
        return e.name in names if e.value is None else e.value >= 0
    match e.fn.name:
        case "add":
            return of_squares(e.args[0], names) and of_squares(e.args[1], names)
        case "mul":
            a, b = e.args
            scaled = any((c.value or 0) > 0 and of_squares(x, names) for c, x in ((a, b), (b, a)))
            return a is b or scaled
        case "div":
            return of_squares(e.args[0], names)
        case "select":
            return of_squares(e.args[1], names) and of_squares(e.args[2], names)
    return False


def _unless(e: Expr, factor: Expr) -> Expr:
    """`e`, or 1 where `e` and `factor` are zero."""
    return select(either(ne(e, 0), ne(factor, 0)), e, 1)


def lower_powers(e: Expr, value: Expr, roots: dict[Expr, Root]) -> dict[Expr, Expr]:
    """``x**(p - 1)`` as ``x**p / x``, unless that is zero or infinite: a division takes less time than a power."""
    if e.fn is not vm.power or e.args[1].value in (1.5, 2.5):
        return {}
    x, p = e.args
    usual = both(lt(1e-290, value), lt(value, 1e290))
    lower = vm.power(x, p - 1)
    otherwise = roots[lower].factor if lower in roots else lower
    return {otherwise: select(usual, value / x, otherwise)} if lower.fn is vm.power else {}
