"""Singularities of roots: their derivatives are infinite at zero, which must not turn into NaN when multiplied by 0.

Infinite factors are guarded by selects, and products with poles become strong products, where 0 times anything is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Set
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
    rebuild,
    select,
    strip_strong,
    strong,
    substitute,
    topological_order,
    var,
    vjp,
)
from ...kernels import scalar as vm
from .terms import Element, Term, Variable

__all__ = [
    "as_strong_product",
    "cotangent_at",
    "guard_infinities",
    "is_multiple",
    "is_sum_of_squares",
    "lower_powers",
    "normalize_strong",
    "singular_factors",
]


@dataclass(frozen=True)
class Root:
    """The replacement of a factor that is infinite where `zero` is zero.

    Attributes
    ----------
    factor : Expr
        Equal to the factor, but finite where everything that it is multiplied by is zero.
    radicand : Expr or None
        The operand of the root, unless its partial derivatives vanish together, as those of a sum of squares do.
    """

    factor: Expr
    zero: Expr
    radicand: Expr | None


def singular_factors(e: Expr, moved: Callable[[Expr], Expr], squares: Set[Term]) -> dict[Expr, Root]:
    """The factors in derivatives of `e` that are infinite where the operand of a root is 0, with their replacements.

    `moved` gives what the derivative of a root is multiplied by, as far as it is known, and `squares` the variables
    that are sums of squares. Roots of these are norms, for which 0 is a subgradient at zero.
    """
    replacements: dict[Expr, Root] = {}
    for y in topological_order([e]):
        if y.fn is vm.sqrt:
            (x,) = y.args
            is_norm = is_sum_of_squares(x, squares)
            divisor = select(ne(y, 0), y, 1) if is_norm else _one_where_zero(y, moved(y))
            replacements[const(0.5) / y] = Root(const(0.5) / divisor, y, None if is_norm else x)
        elif y.fn is vm.power and 0 < (y.args[1].value or 0) < 1:
            x, p = y.args
            replacements[vm.power(x, p - 1)] = Root(vm.power(_one_where_zero(x, moved(y)), p - 1), x, x)
    return replacements


def cotangent_at(e: Expr, g: Expr, y: Expr) -> Expr:
    """The cotangent of `y`, a subexpression of `e`, when that of `e` is `g`, if it is a product of `g` and variables;
    else `g`, which assumes that the other factors are nonzero."""
    placeholder = var("@there")
    cotangent = vjp(substitute(e, {y: placeholder}), g, [placeholder.name])[0]
    return cotangent if placeholder not in topological_order([cotangent]) and _is_product(cotangent) else g


def _is_product(e: Expr) -> bool:
    return e.fn is None or (e.fn.name in ("mul", "neg") and all(map(_is_product, e.args)))


def guard_infinities(part: Expr, name: Term | None, roots: dict[Expr, Root]) -> Expr:
    """`part`, the derivative with respect to `name` (None: a tangent), guarded: nothing infinite is multiplied by 0.

    The tests go around whole products, whose factors can then be shared with the derivatives for other names.
    """
    if not roots:
        return part
    made: dict[Expr, Expr] = {}
    tests: dict[Expr, list[Expr]] = {}  # conditions for evaluating products with infinite factors

    def whole(e: Expr) -> Expr:
        return reduce(lambda made, test: select(test, made, ZERO), tests.get(e, ()), made[e])

    for node in topological_order([part]):
        if node in roots:
            made[node], tests[node] = roots[node].factor, _nonzero_tests(roots[node], name)
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


def as_strong_product(part: Expr, g: Expr, tame: dict[Expr, Expr] | None = None, infinite: bool = False) -> Expr:
    """`part`, a multiple of `g`, as a strong product with `g` if it has poles; inside selects and signs.

    `tame` maps expressions without a pole where `g` is zero to one. `infinite`: variables in `part` may hold
    infinities.
    """
    name = part.fn and part.fn.name
    if name == "select":
        test, a, b = part.args
        return select(test, as_strong_product(a, g, tame, infinite), as_strong_product(b, g, tame, infinite))
    if name == "neg":
        return neg(as_strong_product(part.args[0], g, tame, infinite))
    return strong(part, g) if infinite or has_poles(substitute(part, tame or {})) else part


def is_multiple(e: Expr, factor: Expr) -> bool:
    """Whether `e` is `factor` times something that does not depend on it, so that the strong product has the derivative
    of the plain one wherever that exists."""
    name, args = e.fn and e.fn.name, e.args
    if name == "mul":
        return any(is_multiple(a, factor) and factor not in topological_order([b]) for a, b in (args, args[::-1]))
    return e is factor or (name in ("neg", "strong") and is_multiple(args[0], factor))


def normalize_strong(e: Expr) -> Expr:
    """`e` with strong products in the normal form ``factor * partial``.

    What does not depend on the factor can then be named, and :func:`is_multiple` recognizes the product when an adjoint
    is differentiated.
    """
    rewritten: dict[Expr, Expr] = {}
    for node in topological_order([e]):
        args = tuple(rewritten[a] for a in node.args)
        rewritten[node] = node if args == node.args else rebuild(node.fn, args)  # type: ignore[arg-type]
        if rewritten[node].fn is not None and rewritten[node].fn.name == "strong":  # type: ignore[union-attr]
            inner, factors = strip_strong(rewritten[node])
            partial = _cofactor(inner, factors[0])
            rewritten[node] = rewritten[node] if partial is None else _strong_in_selects(partial, factors)
    return rewritten[e]


def _strong_in_selects(partial: Expr, factors: tuple[Expr, ...]) -> Expr:
    """The product of `partial` and the first factor, strong in all `factors`; inside the selects of `partial`."""
    if partial.fn is not None and partial.fn.name == "select":
        test, a, b = partial.args
        return select(test, _strong_in_selects(a, factors), _strong_in_selects(b, factors))
    return ZERO if partial.value == 0 else reduce(strong, factors[::-1], factors[0] * partial)


def _cofactor(e: Expr, factor: Expr) -> Expr | None:
    """The cofactor of `factor` in `e`; None if `e` is no multiple of it."""
    if e is factor or e.value == 0:
        return ONE if e is factor else e
    args = e.args
    cofactors = [_cofactor(a, factor) for a in args]
    match e.fn and e.fn.name, cofactors:
        case "neg" | "add" | "sub", [*_] if None not in cofactors:
            return rebuild(e.fn, tuple(cofactors))  # type: ignore[arg-type]
        case "select", [_, Expr() as a, Expr() as b]:
            return select(args[0], a, b)
        case "div", [Expr() as a, *_]:
            return a / args[1]
        case "mul", [Expr() as a, _]:
            return a * args[1]
        case "mul", [_, Expr() as b]:
            return args[0] * b
    return None


def _nonzero_tests(root: Root, name: Term | None) -> list[Expr]:
    """The test that a root, or what it is multiplied by, is nonzero; none if that is known.

    It is a single comparison, because LLVM turns several into branches and duplicates the code between them.
    """
    if root.radicand is None or name is None:
        return []
    factor = _numerator(vjp(root.radicand, ONE, [name])[0])
    return [ne(root.zero + vm.absolute(factor), 0)] if factor.value is None else []


def _numerator(e: Expr) -> Expr:
    """An expression with the zeros of `e`, without divisors and constant factors."""
    match e.fn and e.fn.name:
        case "neg" | "div":
            return _numerator(e.args[0])
        case "mul":
            return _numerator(e.args[0]) * _numerator(e.args[1])
    return ONE if e.value else e


def is_sum_of_squares(e: Expr, names: Set[Term]) -> bool:
    """Whether `e` is a sum of squares, whose derivatives vanish where it is zero.

    `names` are known ones: scalars, and arrays for all of their elements.
    """
    if e.fn is None:
        name = Variable(e.name.array) if isinstance(e.name, Element) else e.name
        return name in names if e.value is None else e.value >= 0
    match e.fn.name:
        case "add":
            return is_sum_of_squares(e.args[0], names) and is_sum_of_squares(e.args[1], names)
        case "mul":
            a, b = e.args
            scaled = any((c.value or 0) > 0 and is_sum_of_squares(x, names) for c, x in ((a, b), (b, a)))
            return a is b or scaled
        case "div":
            return is_sum_of_squares(e.args[0], names)
        case "select":
            return is_sum_of_squares(e.args[1], names) and is_sum_of_squares(e.args[2], names)
    return False


def _one_where_zero(e: Expr, factor: Expr) -> Expr:
    """`e`, or 1 where `e` and `factor` are zero."""
    return select(either(ne(e, 0), ne(factor, 0)), e, 1)


def lower_powers(e: Expr, value: Expr, roots: dict[Expr, Root]) -> dict[Expr, Expr]:
    """The replacement of ``x**(p - 1)`` by ``x**p / x``, unless `value` is near 0 or infinite: a division is faster."""
    if e.fn is not vm.power or e.args[1].value in (1.5, 2.5):
        return {}
    x, p = e.args
    usual = both(lt(1e-290, value), lt(value, 1e290))
    lower = vm.power(x, p - 1)
    otherwise = roots[lower].factor if lower in roots else lower
    return {otherwise: select(usual, value / x, otherwise)} if lower.fn is vm.power else {}
