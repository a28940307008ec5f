"""Scalar expressions: what an elementwise kernel computes for one element.

An expression is a node of a directed acyclic graph: a variable, a constant, or a :class:`Fn` applied to expressions.
Nodes are hash-consed (equal expressions are one object), so common subexpressions are found by identity and derivatives
stay small. Functions are defined elsewhere; here are only the arithmetic, comparisons and selection that
differentiation itself needs.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from ..core.fork_safety import lock
from ..core.source_text import checked_helpers, constant_source

__all__ = [
    "ONE",
    "ZERO",
    "Expr",
    "Fn",
    "const",
    "free_variables",
    "scaled_partial",
    "select",
    "strong",
    "var",
    "vjp",
]


class Fn:
    """A scalar function, applied by calling it.

    Parameters
    ----------
    name : str
    template : str
        Python code of an application, with ``{0}``, ``{1}`` ... for the arguments.
    partials : callable, optional
        ``partials(*args, y)`` returns the partial derivatives: one expression, or a tuple of them, one per
        argument; `y` is the application itself. ``None`` instead of a partial, or no `partials`, means that
        the derivative is zero wherever it exists (comparisons, rounding).
    helpers : dict, optional
        The global names that `template` uses.
    fold : callable, optional
        Evaluates the function on Python numbers; used to fold constants.
    boolean : bool
        The result is a truth value, for conditions only.
    integer : str, optional
        Python code for integer operands, where it differs.
    max_order : int or callable, optional
        How often the function can be differentiated, if not indefinitely; or ``max_order(*args)``, an expression.
    finite : bool
        The result is finite where the arguments are: it has no poles, and does not grow exponentially.
    vectorizes : bool
        `helpers` holds arithmetic without branches, which LLVM turns into packed code in a loop.
    """

    __slots__ = ("boolean", "finite", "fold", "helpers", "integer", "max_order", "name", "partials", "template",
                 "vectorizes")  # fmt: skip

    def __init__(
        self,
        name: str,
        template: str,
        partials: Callable | None = None,
        *,
        helpers: dict[str, object] | None = None,
        fold: Callable | None = None,
        boolean: bool = False,
        integer: str | None = None,
        max_order: int | Callable | None = None,
        finite: bool = False,
        vectorizes: bool = False,
    ) -> None:
        self.name = name
        self.vectorizes = vectorizes
        self.finite = finite or boolean
        self.max_order = max_order
        self.integer = integer or template
        self.template = template
        self.partials = partials
        self.helpers = checked_helpers(name, helpers or {})
        self.fold = fold
        self.boolean = boolean

    def __call__(self, *args: Expr | float) -> Expr:
        operands = tuple(as_expr(a) for a in args)
        if self.fold is not None and all(a.fn is None and a.name is None for a in operands):
            try:
                return const(self.fold(*(a.value for a in operands)))
            except (ArithmeticError, ValueError):  # e.g. 1/0: leave it to the kernel, which computes inf or nan
                pass
        return _make(self, operands)

    @property
    def called(self) -> tuple[str, object] | None:
        """What is called, with its name, if `template` is nothing but a call of one helper; else None."""
        name, _, slots = self.template.partition("(")
        plain = slots.rstrip(")") == ", ".join(f"{{{k}}}" for k in range(slots.count("{")))
        return (name, self.helpers[name]) if plain and name in self.helpers else None

    def __repr__(self) -> str:
        return self.name


class Expr:
    """A node: a variable (`name`), a constant (`value`), or `fn` applied to `args`. Immutable and unique."""

    __slots__ = ("__weakref__", "args", "fn", "name", "value")

    fn: Fn | None
    args: tuple[Expr, ...]
    name: Any  # hashable
    value: float | int | None

    def __repr__(self) -> str:
        if self.fn is None:
            return str(self.name) if self.name is not None else repr(self.value)
        return f"{self.fn.name}({', '.join(map(repr, self.args))})"

    def __add__(self, other):
        return add(self, other)

    def __radd__(self, other):
        return add(other, self)

    def __sub__(self, other):
        return sub(self, other)

    def __rsub__(self, other):
        return sub(other, self)

    def __mul__(self, other):
        return mul(self, other)

    def __rmul__(self, other):
        return mul(other, self)

    def __truediv__(self, other):
        return div(self, other)

    def __rtruediv__(self, other):
        return div(other, self)

    def __neg__(self):
        return neg(self)

    def __lt__(self, other):
        return lt(self, other)

    def __le__(self, other):
        return le(self, other)

    def __gt__(self, other):
        return lt(other, self)

    def __ge__(self, other):
        return le(other, self)

    def __and__(self, other):
        return both(self, other)

    def __or__(self, other):
        return either(self, other)

    def __invert__(self):
        return invert(self)


_nodes: weakref.WeakValueDictionary[tuple, Expr] = weakref.WeakValueDictionary()
_interning = lock("expressions")


def _intern(key: tuple, fn, args, name, value) -> Expr:
    with _interning:
        node = _nodes.get(key)
        if node is None:
            node = Expr()
            node.fn, node.args, node.name, node.value = fn, args, name, value
            _nodes[key] = node
    return node


def _make(fn: Fn, args: tuple[Expr, ...]) -> Expr:
    return _intern((fn, args), fn, args, None, None)


def var(name: Hashable) -> Expr:
    """The variable called `name`: a string, or any other object that stands for it."""
    return _intern(("var", name), None, (), name, None)


def const(value: float | int) -> Expr:
    """The constant `value`. Signed zeros are distinct, as are ints and floats."""
    return _intern(("const", type(value), constant_source(value)), None, (), None, value)


def as_expr(value: Expr | float) -> Expr:
    return value if isinstance(value, Expr) else const(value)


def _is(e: Expr, value: float) -> bool:
    return e.value is not None and e.value == value


ZERO = const(0)
ONE = const(1)

# Arithmetic. The simplifications below hold for every operand, NaN and infinities included: x*1, x/1, x-0, --x.
# (x*0, x-x and x/x do not.) x + 0 is not simplified, because -0 + 0 is +0, except for the ZERO of a derivative being
# accumulated.


def _binary(name: str, symbol: str, partials: Callable, fold: Callable) -> Fn:
    return Fn(name, "({0} " + symbol + " {1})", partials, fold=fold, finite=symbol != "/")


_add = _binary("add", "+", lambda a, b, y: (ONE, ONE), lambda a, b: a + b)
_sub = _binary("sub", "-", lambda a, b, y: (ONE, const(-1)), lambda a, b: a - b)
_mul = _binary("mul", "*", lambda a, b, y: (b, a), lambda a, b: a * b)
_div = _binary("div", "/", lambda a, b, y: (1 / b, -y / b), lambda a, b: a / b)
_neg = Fn("neg", "(-{0})", lambda a, y: const(-1), fold=lambda a: -a, finite=True)


def add(a, b) -> Expr:
    a, b = as_expr(a), as_expr(b)
    if a is ZERO:
        return b
    if b is ZERO:
        return a
    if a.fn is _strong and b.fn is _strong and a.args[1] is b.args[1]:
        return strong(add(a.args[0], b.args[0]), a.args[1])
    if b.fn is _neg:
        return sub(a, b.args[0])
    return _add(a, b)


def sub(a, b) -> Expr:
    a, b = as_expr(a), as_expr(b)
    return a if b is ZERO else _sub(a, b)


def mul(a, b) -> Expr:
    a, b = as_expr(a), as_expr(b)
    if _is(a, 1):
        return b
    if _is(b, 1):
        return a
    if _is(a, -1):
        return neg(b)
    if _is(b, -1):
        return neg(a)
    return _mul(a, b)


def div(a, b) -> Expr:
    a, b = as_expr(a), as_expr(b)
    return a if _is(b, 1) else _div(a, b)


def neg(a) -> Expr:
    a = as_expr(a)
    return a.args[0] if a.fn is _neg else _neg(a)


lt = Fn("lt", "({0} < {1})", boolean=True)
le = Fn("le", "({0} <= {1})", boolean=True)
eq = Fn("eq", "({0} == {1})", boolean=True)
ne = Fn("ne", "({0} != {1})", boolean=True)
both = Fn("and", "({0} & {1})", boolean=True)
either = Fn("or", "({0} | {1})", boolean=True)
invert = Fn("not", "(not {0})", boolean=True)
_select = Fn(
    "select",
    "({1} if {0} else {2})",
    lambda c, a, b, y: (None, select(c, ONE, ZERO), select(c, ZERO, ONE)),
    finite=True,
)


def select(condition: Expr, a, b) -> Expr:
    """`a` where `condition` holds, else `b`. Both are computed; neither's NaN leaks into the other."""
    a, b = as_expr(a), as_expr(b)
    if condition.value is not None:
        return a if condition.value else b
    return a if a is b else _select(condition, a, b)


def isnan(x: Expr) -> Expr:
    return ne(x, x)


# Strong zeros. A derivative is linear in the cotangent, and a zero cotangent contributes nothing, even if it is
# multiplied by infinity or NaN: otherwise a branch that is not taken turns 0*inf into NaN.

_strong = Fn("strong", "({0} if {1} != {2} else {2})", finite=True)  # differentiated as a whole: see `vjp`


def strong(e, factor) -> Expr:
    """`e`, which is linear in `factor`, and zero where `factor` is zero, whatever is infinite or NaN in `e`.

    Infinity or NaN times another factor stays so. No simplification looks inside, or makes it a plain product.
    """
    e, factor = as_expr(e), as_expr(factor)
    if factor.fn is None and factor.value is not None:
        return e if factor.value else ZERO
    return e if _vanishes(e, factor) else _make(_strong, (e, factor, ZERO))


def _vanishes(e: Expr, factor: Expr) -> bool:
    """Whether `e` is zero where `factor` is, because `factor` is multiplied by finite constants only."""
    if e is factor or e is ZERO:
        return True
    if e.fn in (_add, _sub):
        return _vanishes(e.args[0], factor) and _vanishes(e.args[1], factor)
    if e.fn is _neg:
        return _vanishes(e.args[0], factor)
    if e.fn is _select:
        return _vanishes(e.args[1], factor) and _vanishes(e.args[2], factor)
    if e.fn is _strong:
        return e.args[1] is factor or _vanishes(e.args[0], factor) or _vanishes(e.args[1], factor)
    if e.fn is _mul:
        return any(_finite(c) and _vanishes(x, factor) for c, x in (e.args, e.args[::-1]))
    return e.fn is _div and _finite(e.args[1]) and not _is(e.args[1], 0) and _vanishes(e.args[0], factor)


def _finite(e: Expr) -> bool:
    return e.value is not None and math.isfinite(e.value)


def has_poles(e: Expr) -> bool:
    """Whether it may be infinite or NaN where its variables are finite (other than by overflow of a product)."""
    return any(
        not _finite(node)
        if node.fn is None
        else not (node.fn.finite or (node.fn is _div and _finite(node.args[1]) and not _is(node.args[1], 0)))
        for node in topological_order([e])
        if node.name is None
    )


def strip_strong(e: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """The plain product inside a strong one, and the factors."""
    factors: list[Expr] = []
    while e.fn is _strong:
        factors.append(e.args[1])
        e = e.args[0]
    return e, tuple(factors)


# Differentiation.


def scaled_partial(g: Expr, partial: Expr) -> Expr:
    """``g * partial``; selections and strong products stay outermost: what they leave out cannot make 0*inf NaN."""
    if partial is ZERO or g is ZERO:
        return ZERO
    if g.fn is _strong:
        return strong(scaled_partial(g.args[0], partial), g.args[1])
    if g.fn is _select and (g.args[1] is ZERO or g.args[2] is ZERO):  # the cotangent of a branch
        condition, a, b = g.args
        return select(condition, scaled_partial(a, partial), scaled_partial(b, partial))
    if partial.fn is _select:
        condition, a, b = partial.args
        return select(condition, scaled_partial(g, a), scaled_partial(g, b))
    if partial.fn is _neg:
        return neg(scaled_partial(g, partial.args[0]))
    if partial.fn is _div and partial.args[0] is ONE:
        return div(g, partial.args[1])
    return mul(g, partial)


def sum_of(a: Expr, b: Expr) -> Expr:
    """``a + b``; selections by the same condition are added branch by branch, strong products of one factor within."""
    if a.fn is _strong and b.fn is _strong and a.args[1] is b.args[1]:
        return strong(sum_of(a.args[0], b.args[0]), a.args[1])
    if a.fn is _select and b.fn is _select and a.args[0] is b.args[0]:
        return select(a.args[0], sum_of(a.args[1], b.args[1]), sum_of(a.args[2], b.args[2]))
    return add(a, b)


def partials_of(e: Expr) -> tuple[Expr, ...]:
    """The partial derivatives of an application with respect to its arguments."""
    assert e.fn is not None
    if e.fn.partials is None:
        return (ZERO,) * len(e.args)
    partials = e.fn.partials(*e.args, e)
    if isinstance(partials, Expr | int | float):
        partials = (partials,)
    return tuple(ZERO if p is None else as_expr(p) for p in partials)


class _Factor(NamedTuple):
    """The name of a variable that stands for the factor of a strong product while that is differentiated."""

    number: int


def vjp(e: Expr, g: Expr, wrt: Sequence[Hashable]) -> list[Expr]:
    """The cotangents of the variables `wrt`, when that of `e` is `g`: reverse mode over the expression.

    Parameters
    ----------
    e, g : Expr
    wrt : sequence
        Names of variables.

    Returns
    -------
    list of Expr
        One per name in `wrt`; the constant 0 where `e` does not depend on it.

    Notes
    -----
    The derivative of a strong product is a strong product with the same factors: where one is zero, the product is
    constant in everything else. With respect to that factor it is what the factor is multiplied by, also where the
    factor is zero, so that second derivatives of functions at their minima are right.
    """
    cotangents: dict[Expr, Expr] = {e: g}
    active = _depending(e, set(wrt))
    for node in reversed(topological_order([e])):
        if node.fn is None or node not in cotangents or node not in active:
            continue
        g = cotangents[node]
        if node.fn is _strong:
            inner, factor, _ = node.args
            # A variable for this factor, distinct from those of nested strong products.
            alone = var(_Factor(sum(isinstance(name, _Factor) for name in {*free_variables(inner), *wrt})))
            inner_cotangents = vjp(substitute(inner, {factor: alone}), g, [*wrt, alone.name])
            updates = {var(n): strong(part, factor) for n, part in zip(wrt, inner_cotangents, strict=False)}
            updates[factor] = add(updates.get(factor, ZERO), inner_cotangents[-1])
            for arg, part in updates.items():
                cotangents[arg] = sum_of(cotangents.get(arg, ZERO), substitute(part, {alone: factor}))
            continue
        for arg, partial in zip(node.args, partials_of(node), strict=True):
            if arg in active:
                cotangents[arg] = sum_of(cotangents.get(arg, ZERO), scaled_partial(g, partial))
    return [cotangents.get(var(name), ZERO) for name in wrt]


def _depending(e: Expr, names: set[Hashable]) -> set[Expr]:
    dependent: set[Expr] = set()
    for node in topological_order([e]):
        if (node.name in names) if node.fn is None else any(a in dependent for a in node.args):
            dependent.add(node)
    return dependent


def topological_order(roots: Iterable[Expr]) -> list[Expr]:
    """All nodes below `roots` in topological order, arguments before their users."""
    done: dict[Expr, None] = {}
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, expanded = stack.pop()
        if node in done:
            continue
        if expanded:
            done[node] = None
        else:
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args))
    return list(done)


def free_variables(*roots: Expr) -> list[Any]:
    """Names of the variables in `roots`, in order of first use."""
    return [node.name for node in topological_order(roots) if node.name is not None]


def substitute(e: Expr, replace: dict[Expr, Expr]) -> Expr:
    """`e` with every occurrence of a key of `replace` replaced by its value (outermost first)."""
    replaced: dict[Expr, Expr] = dict(replace)
    stack = [e]
    while stack:
        node = stack[-1]
        if node in replaced:
            stack.pop()
            continue
        if node.fn is None:
            replaced[node] = node
            continue
        missing = [a for a in node.args if a not in replaced]
        if missing:
            stack.extend(missing)
            continue
        args = tuple(replaced[a] for a in node.args)
        replaced[node] = node if args == node.args else rebuild(node.fn, args)
    return replaced[e]


_smart: dict[Fn, Callable] = {_add: add, _sub: sub, _mul: mul, _div: div, _neg: neg, _select: select,
                               _strong: lambda e, factor, _: strong(e, factor)}  # fmt: skip


def rebuild(fn: Fn, args: tuple[Expr, ...]) -> Expr:
    return _smart.get(fn, fn)(*args)
