"""Symbolic differentiation of right-hand sides: terms to expressions, derivatives, and back to terms.

The variables of an expression are terms: ``u[i - 1]``, ``dt``, or a passive subterm like ``c*dt``.
"""

from __future__ import annotations

import ast
import builtins
import math
import sys
from collections.abc import Callable, Iterable, Set
from functools import lru_cache

import numpy as np

from ...core.source_text import parsed
from ...ir.expr import (
    ONE,
    ZERO,
    Expr,
    as_expr,
    both,
    const,
    either,
    free_variables,
    lt,
    ne,
    rebuild,
    select,
    strong,
    substitute,
    topological_order,
    var,
    vjp,
)
from ...kernels import scalar as vm
from .from_syntax import term_of_syntax
from .functions import FUNCTIONS, MATH_FUNCTIONS, is_passive
from .names import Names, called, literal
from .selections import is_select, simplify_selects
from .singularities import (
    as_strong_product,
    cotangent_at,
    guard_infinities,
    is_multiple,
    lower_powers,
    normalize_strong,
    singular_factors,
)
from .strong_chains import may_overflow, strong_vjp
from .terms import (
    Binary,
    Call,
    Compare,
    Constant,
    Element,
    Global,
    Item,
    Logical,
    Select,
    Term,
    Unary,
    Variable,
)
from .terms import substitute as substitute_terms

__all__ = [
    "COTANGENT",
    "VALUE",
    "Algebra",
    "common",
    "term_of",
]  # fmt: skip

#: The cotangent of the differentiated expression; no name in a program looks like it.
COTANGENT = var(Variable("@"))
#: The value that a statement wrote, where its derivative reads it.
VALUE = var(Variable("@value"))

#: The largest number: 0 times it is 0, as 0 times infinity is not.
_LARGEST = const(sys.float_info.max)

#: Operators whose results are integers.
_INTEGER_OPERATORS = {"//", "&", "|", "^", "<<", ">>"}
_OPERATIONS: dict[str, Callable] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": vm.floor_mod,
}


class Algebra:
    """Derivatives of right-hand sides.

    Parameters
    ----------
    active : set of str
        The names of active variables.

    Attributes
    ----------
    square_sums : set of Term
        Variables that are sums of squares: where one is zero, so are all its terms.
    infinite : set of str
        Variables and arrays that may hold infinities.
    overflowing : set of str
        Those that may overflow, and that something is divided by.
    """

    def __init__(
        self, active: set[str], square_sums: Set[Term] = frozenset(), infinite: Set[str] = frozenset()
    ) -> None:
        self.active = active
        self.square_sums = square_sums
        self.infinite = infinite
        self.overflowing: Set[str] = frozenset()

    def depends(self, term: Term, names: Set[str] | None = None) -> bool:
        """Whether the derivative of `term` with respect to one of `names` (default: the active ones) may be nonzero."""
        names = self.active if names is None else names
        if names.isdisjoint(term.reads):
            return False
        match term:
            case Variable(name) | Element(name):
                return name in names
            case Binary(op, left, right):
                return op not in _INTEGER_OPERATORS and (self.depends(left, names) or self.depends(right, names))
            case Unary(op, operand):
                return op not in ("not", "~") and self.depends(operand, names)
            case Select(_, body, orelse):
                return self.depends(body, names) or self.depends(orelse, names)
            case Item(whole):
                return self.depends(whole, names)
            case Call(function, operands):
                return not is_passive(function.value) and any(self.depends(t, names) for t in operands)
        return False

    def expression(self, term: Term) -> Expr:
        """`term` as an expression, in which each passive subterm is one variable."""
        match term:
            case Constant(value):
                return const(value)
            case Unary("-", operand):
                return -self.expression(operand)
            case Unary("+", operand):
                return self.expression(operand)
        if not self.depends(term):
            return var(term)
        match term:
            case Binary("**", base, Binary("/", Constant(int() | float() as a), Constant(int() | float() as b))) if b:
                return _power(self.expression(base), const(a / b))
            case Binary("**", base, exponent):
                return _power(self.expression(base), self.expression(exponent))
            case Binary(op, left, right):
                return _OPERATIONS[op](self.expression(left), self.expression(right))
            case Select(test, body, orelse):
                chosen, other = self.expression(body), self.expression(orelse)
                match test:  # a strong product, as generated adjoints contain
                    case Compare(("!=",), (left, Constant(0))) if other.value == 0:
                        factor = self.expression(left)
                        if is_multiple(chosen, factor):
                            return strong(chosen, factor)
                return select(var(test), chosen, other)
            case Call(function, operands):
                build = FUNCTIONS[function.value].expression
                assert build is not None  # passive functions depend on nothing
                return as_expr(build(*[self.expression(t) for t in operands]))
        return var(term)

    def atoms(self, term: Term) -> list[Variable | Element]:
        """The active variables and array elements in `term`, each once, in order."""
        atoms: dict[Variable | Element, None] = {}
        stack = [term]
        while stack:
            t = stack.pop()
            if not self.depends(t):
                continue
            if isinstance(t, Variable | Element):
                atoms.setdefault(t)
            elif isinstance(t, Select):
                stack += [t.orelse, t.body]
            else:
                stack += reversed(t.operands)
        return list(atoms)

    def pull(
        self,
        term: Term,
        g: Expr,
        known: Expr | None = None,
        dot: Callable[[Variable | Element], Expr] | None = None,
        target: str = "",
    ) -> list[tuple[Variable | Element, Expr]]:
        """The vector-Jacobian product: the cotangent that each active variable or element in `term` gets from `g`, that
        of `term`; zeros are left out.

        `known` holds the value of `term` where the results are evaluated; it is that of `target`. If the results are
        for a tangent instead, `dot` gives the tangent of a variable or element.
        """
        if dot is not None:
            return self._pull(term, g, known, dot)
        squares = frozenset([t for t in self.square_sums if not t.reads.isdisjoint(term.reads)])
        infinite, overflows = frozenset(self.infinite & term.reads), target in self.overflowing
        return list(_pulled(term, g, known, frozenset(self.active & term.reads), squares, infinite, overflows))

    def may_be_infinite(self, e: Expr) -> bool:
        """Whether `e` reads a variable that may hold an infinity."""
        return bool(self.infinite) and any(
            isinstance(name, Term) and not self.infinite.isdisjoint(name.reads) for name in free_variables(e)
        )

    def _pull(
        self,
        term: Term,
        g: Expr,
        known: Expr | None,
        dot: Callable[[Variable | Element], Expr] | None,
        overflows: bool = False,
    ) -> list[tuple[Variable | Element, Expr]]:
        e = self.expression(term)
        atoms = self.atoms(term)

        def moved(root: Expr) -> Expr:
            """What the derivative of a root is multiplied by."""
            if dot is None:
                return cotangent_at(e, g, root)
            parts = zip(vjp(root.args[0], ONE, atoms), atoms, strict=True)
            return sum((p * dot(a) for p, a in parts if p is not ZERO), ZERO)

        roots = singular_factors(e, moved, self.square_sums)
        partials = [
            guard_infinities(p, a if dot is None else None, roots)
            for p, a in zip(strong_vjp(e, g, atoms, self.may_be_infinite), atoms, strict=True)
        ]
        partials = [simplify_selects(p, e, known) for p in partials]
        lower = {} if known is None else lower_powers(e, known, roots)
        if known is not None and e.fn is not None:
            partials = [_fold_comparisons(p, {e: known, **lower}) for p in partials]
        partials = multiply_by_reciprocals(share_quotients(map(simplify, partials)), g)
        if dot is None:
            tame = dict.fromkeys([*(root.factor for root in roots.values()), *map(simplify, lower.values())], ONE)
            infinite = self.may_be_infinite(e)  # and so is its value
            bounds = {}
            if overflows and not infinite and known is not None and e.fn is vm.exp:  # faster than a strong product
                bounds, overflows = {known: select(lt(_LARGEST, known), _LARGEST, known)}, False
            partials = [
                as_strong_product(
                    p,
                    g,
                    tame,
                    self.may_be_infinite(p)
                    or (infinite and VALUE in topological_order([p]))
                    or (overflows and may_overflow(p)),
                )
                for p in partials
            ]
            partials = [substitute(p, bounds) for p in partials]
        partials = [normalize_strong(p) for p in partials]
        return [(a, p) for a, p in zip(atoms, partials, strict=True) if p is not ZERO]


@lru_cache(2048)
def _pulled(
    term: Term,
    g: Expr,
    known: Expr | None,
    active: frozenset[str],
    squares: frozenset[Term],
    infinite: frozenset[str],
    overflows: bool,
) -> tuple[tuple[Variable | Element, Expr], ...]:
    """What :meth:`Algebra.pull` returns: the adjoint of a function, and its halves, pull the same terms."""
    return tuple(Algebra(set(active), squares, infinite)._pull(term, g, known, None, overflows))


def _power(base: Expr, exponent: Expr) -> Expr:
    """``base ** exponent``, with products for small integers and a square root for one half."""
    n = exponent.value
    if n == 0.5:
        return vm.sqrt(base)
    if n not in (1, 2, 3, 4, -1, -2):
        return vm.power(base, exponent)
    product = base
    for _ in range(int(abs(n)) - 1):
        product = product * base
    return product if n > 0 else ONE / product


def share_quotients(found: Iterable[Expr]) -> list[Expr]:
    """Rewrite ``g*(-(y/b))`` as ``-(g/b)*y`` where ``g/b`` is computed anyway, as in the derivatives of a quotient."""
    parts = list(found)
    nodes = set(topological_order(parts))
    replace = {}
    for node in nodes:
        if node.fn is not None and node.fn.name == "mul" and node.args[1].fn is not None:
            g, quotient = node.args
            if (
                quotient.fn is not None
                and quotient.fn.name == "div"
                and rebuild(quotient.fn, (g, quotient.args[1])) in nodes
            ):
                replace[node] = rebuild(quotient.fn, (g, quotient.args[1])) * quotient.args[0]
    return [substitute(p, replace) for p in parts] if replace else parts


def multiply_by_reciprocals(parts: list[Expr], g: Expr) -> list[Expr]:
    """Rewrite ``g/b`` as ``g*(1/b)`` where `b` does not depend on `g`.

    This takes the division off the critical path of a recurrence, and lets one reciprocal serve several quotients, or
    all iterations of a loop.
    """
    rewritten: dict[Expr, Expr] = {}
    below: set[Expr] = {g}
    for node in topological_order(parts):
        if node.fn is None:
            continue
        args = tuple(rewritten.get(a, a) for a in node.args)
        if node.fn.name == "div" and node.args[0] in below and node.args[1] not in below:
            rewritten[node] = args[0] * _inverse(args[1])
        elif args != node.args:
            rewritten[node] = rebuild(node.fn, args)
        if not below.isdisjoint(node.args):
            below.add(node)
    return [rewritten.get(p, p) for p in parts]


def _inverse(e: Expr) -> Expr:
    """``1 / e``; that of a constant is folded only where this is exact."""
    if e.value is None:
        return ONE / e
    exact = math.frexp(e.value)[0] in (0.5, -0.5)
    return const(1.0 / e.value) if exact else var(Binary("/", Constant(1.0), literal(e.value)))


def common(roots: list[Expr]) -> list[Expr]:
    """The common subexpressions of `roots` that are worth a name, operands first.

    One that is evaluated conditionally qualifies only if it is cheap arithmetic on scalars, which is safe to evaluate
    always.
    """
    uses: dict[Expr, int] = dict.fromkeys(roots, 0)
    weight: dict[Expr, int] = {}
    cheap: set[Expr] = set()
    nodes = topological_order(roots)
    for node in nodes:
        weight[node] = 0
        if node.fn is not None:
            weight[node] = sum(weight[a] for a in node.args) + (3 if node.fn.helpers else 1)
            if node.fn.name in _SPECULATABLE and cheap.issuperset(node.args):
                cheap.add(node)
        elif node.value is not None or node in (COTANGENT, VALUE) or isinstance(node.name, Variable):
            cheap.add(node)
        for a in node.args:
            uses[a] = uses.get(a, 0) + 1
    for root in roots:
        uses[root] += 1
    certain, stack = set(), list(roots)
    while stack:
        node = stack.pop()
        if node not in certain:
            certain.add(node)
            lazy = node.fn is not None and node.fn.name in ("select", "and", "or") and not _is_usual(node)
            stack += node.args[:1] if lazy else node.args
    # A division under a test is not hoisted out of loops unless it has a name.
    tested = topological_order(n.args[0] for n in certain if n.fn is not None and n.fn.name == "strong")
    reciprocals = {n for n in tested if n.fn is not None and n.fn.name == "div" and n.args[0] is ONE}
    often = {n for n in certain | cheap if uses[n] > 1 and weight[n] >= 3}
    return [n for n in nodes if n in often | reciprocals and n.fn and not n.fn.boolean]


def _is_usual(e: Expr) -> bool:
    """Whether `e` is a select that nearly always takes the same side, as those around roots do."""
    return is_select(e) and e.args[0].fn is ne


#: Operations that may be speculated: they never raise an error.
_SPECULATABLE = {"add", "sub", "mul", "neg"}

_COMPARE = {"lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b}


def simplify(e: Expr) -> Expr:
    """`e` with comparisons of constants folded."""
    return _fold_comparisons(e, {})


def _fold_comparisons(e: Expr, table: dict[Expr, Expr]) -> Expr:
    """`e` with the nodes in `table` replaced and comparisons of constants folded; `table` gets every node."""
    for node in topological_order([e]):
        if node in table:
            continue
        if node.fn is None:
            table[node] = node
            continue
        args = tuple(table[a] for a in node.args)
        if node.fn.name == "add" and args[0] is args[1]:  # from the derivative of a square
            table[node] = 2 * args[0]
            continue
        all_constant = all(a.value is not None for a in args)
        if all_constant and node.fn.name in _COMPARE:
            table[node] = const(_COMPARE[node.fn.name](*(a.value for a in args)))
        else:
            table[node] = node if args == node.args else rebuild(node.fn, args)
    return table[e]


# Expressions to terms.


def term_of(e: Expr, names: Names, ours: bool = False) -> Term:
    """`e` as a term; the functions that it calls are added to the imports. `ours`: use those that vectorize."""
    terms: dict[Expr, Term] = {}
    for node in topological_order([e]):
        if node.name is not None:
            terms[node] = node.name
        elif node.fn is None:
            terms[node] = literal(node.value)  # type: ignore[arg-type]
        else:
            terms[node] = _application(node, tuple([terms[a] for a in node.args]), names, ours)
    return terms[e]


def _application(e: Expr, operands: tuple[Term, ...], names: Names, ours: bool) -> Term:
    """The application of a function to these operands, as a term."""
    fn = e.fn
    assert fn is not None
    if not (ours and fn.vectorizes):
        if fn is vm.power:
            return called(math.sqrt, operands[0]) if e.args[1].value == 0.5 else Binary("**", *operands)
        if fn in (both, either):
            return Logical(fn.name, operands)
        if fn in MATH_FUNCTIONS:
            return called(MATH_FUNCTIONS[fn], *operands)
    needed = {k: v for k, v in fn.helpers.items() if k not in ("math", "np") and k in fn.template}
    imports = tuple([(n, names.imported(n, f, f), f) for n, f in needed.items()])
    pattern = _pattern(fn.template, imports)
    return substitute_terms(pattern, {_hole(k): t for k, t in enumerate(operands)})


def _hole(k: int) -> Variable:
    """What stands for the `k`-th argument in a pattern."""
    return Variable(f"argument_{k}_")


@lru_cache(1024)
def _pattern(template: str, imports: tuple[tuple[str, str, object], ...]) -> Term:
    """The term of a template, with holes; `imports` are its functions, each with its name there and in the file."""
    known = {name: Global(text, function) for name, text, function in imports}

    def outside(node: ast.expr) -> Global | None:
        match node:
            case ast.Name(id=name):
                return known.get(name) or (Global(name, getattr(builtins, name)) if hasattr(builtins, name) else None)
            case ast.Attribute(value=ast.Name(id="np" | "math" as module), attr=name):
                return Global(f"{module}.{name}", getattr({"np": np, "math": math}[module], name))
        return None

    holes = [_hole(k).name for k in range(template.count("{"))]
    term = term_of_syntax(parsed(template.format(*holes), "eval").body, outside)
    return substitute_terms(term, {Variable(name): value for name, value in known.items()})
