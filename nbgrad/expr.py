"""Scalar expressions: what an elementwise kernel computes for one element.

An expression is a node of a directed acyclic graph: a variable, a constant, or a :class:`Fn` applied to
expressions. Nodes are hash-consed (equal expressions are one object), so that common subexpressions are
found by identity and derivatives stay small. The functions themselves come from outside: here are only
the arithmetic, comparisons and selection that differentiation itself needs.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from threading import RLock

from .forks import free_in_child

__all__ = ["ONE", "ZERO", "Expr", "Fn", "const", "emit", "free", "pretty", "scale", "select", "var", "vjp", "work"]


class Fn:
    """A scalar function, applied by calling it.

    Parameters
    ----------
    name : str
    template : str
        Python code of an application, with ``{0}``, ``{1}`` ... for the arguments.
    partials : callable, optional
        ``partials(*args, y)`` gives one expression (or a tuple of them, one per argument) for the partial
        derivatives, where `y` is the application itself. ``None`` in place of a partial, or no `partials`,
        means the derivative is zero wherever it exists (comparisons, rounding).
    helpers : dict, optional
        The global names that `template` uses.
    fold : callable, optional
        Evaluates the function on Python numbers; used to fold constants.
    boolean : bool
        The result is a truth value, for conditions only.
    integer : str, optional
        Python code for integer operands, where it differs.
    max_order : int or callable, optional
        How often the function can be differentiated where that ends; or ``max_order(*args)``, an expression.
    """

    __slots__ = ("boolean", "fold", "helpers", "integer", "max_order", "name", "partials", "template")

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
    ) -> None:
        self.name = name
        self.max_order = max_order
        self.integer = integer or template
        self.template = template
        self.partials = partials
        self.helpers = helpers or {}
        self.fold = fold
        self.boolean = boolean

    def __call__(self, *args: Expr | float) -> Expr:
        operands = tuple(as_expr(a) for a in args)
        if self.fold is not None and all(a.fn is None and a.name is None for a in operands):
            try:
                return const(self.fold(*(a.value for a in operands)))
            except (ArithmeticError, ValueError):  # e.g. 1/0: leave it to the kernel, which gives inf or nan
                pass
        return _make(self, operands)

    def __repr__(self) -> str:
        return self.name


class Expr:
    """A node: a variable (`name`), a constant (`value`), or `fn` applied to `args`. Immutable, unique."""

    __slots__ = ("__weakref__", "args", "fn", "name", "value")

    fn: Fn | None
    args: tuple[Expr, ...]
    name: str | None
    value: float | int | None

    def __repr__(self) -> str:
        if self.fn is None:
            return self.name if self.name is not None else repr(self.value)
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
_interning = free_in_child(RLock())


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


def var(name: str) -> Expr:
    """The variable called `name`."""
    return _intern(("var", name), None, (), name, None)


def const(value: float | int) -> Expr:
    """The constant `value`. Signed zeros, and ints and floats, are told apart."""
    return _intern(("const", type(value), repr(value)), None, (), None, value)


def as_expr(value: Expr | float) -> Expr:
    return value if isinstance(value, Expr) else const(value)


def _is(e: Expr, value: float) -> bool:
    return e.value is not None and e.value == value


ZERO = const(0)
ONE = const(1)

# Arithmetic. The simplifications below are those that hold for every operand, NaN and infinities
# included: x*1, x/1, x-0, --x. (x*0, x-x and x/x are not among them.) x+0 is kept for a +0 constant
# unless it is the ZERO of a derivative being accumulated, because -0 + 0 is +0.


def _binary(name: str, symbol: str, partials: Callable, fold: Callable) -> Fn:
    return Fn(name, "({0} " + symbol + " {1})", partials, fold=fold)


_add = _binary("add", "+", lambda a, b, y: (ONE, ONE), lambda a, b: a + b)
_sub = _binary("sub", "-", lambda a, b, y: (ONE, const(-1)), lambda a, b: a - b)
_mul = _binary("mul", "*", lambda a, b, y: (b, a), lambda a, b: a * b)
_div = _binary("div", "/", lambda a, b, y: (1 / b, -y / b), lambda a, b: a / b)
_neg = Fn("neg", "(-{0})", lambda a, y: const(-1), fold=lambda a: -a)


def add(a, b) -> Expr:
    a, b = as_expr(a), as_expr(b)
    if a is ZERO:
        return b
    if b is ZERO:
        return a
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
)


def select(condition: Expr, a, b) -> Expr:
    """`a` where `condition` holds, else `b`. Both are computed; neither's NaN leaks into the other."""
    a, b = as_expr(a), as_expr(b)
    if condition.value is not None:
        return a if condition.value else b
    return a if a is b else _select(condition, a, b)


def isnan(x: Expr) -> Expr:
    return ne(x, x)


# Differentiation.


def scale(g: Expr, partial: Expr) -> Expr:
    """``g * partial``; selections stay outermost, so that a branch not taken cannot make NaN of 0*inf."""
    if partial is ZERO or g is ZERO:
        return ZERO
    if g.fn is _select and (g.args[1] is ZERO or g.args[2] is ZERO):  # the cotangent of a branch
        condition, a, b = g.args
        return select(condition, scale(a, partial), scale(b, partial))
    if partial.fn is _select:
        condition, a, b = partial.args
        return select(condition, scale(g, a), scale(g, b))
    if partial.fn is _neg:
        return neg(scale(g, partial.args[0]))
    if partial.fn is _div and partial.args[0] is ONE:
        return div(g, partial.args[1])
    return mul(g, partial)


def _sum(a: Expr, b: Expr) -> Expr:
    """``a + b``; what one condition selects is added side by side."""
    if a.fn is _select and b.fn is _select and a.args[0] is b.args[0]:
        return select(a.args[0], _sum(a.args[1], b.args[1]), _sum(a.args[2], b.args[2]))
    return add(a, b)


def partials_of(e: Expr) -> tuple[Expr, ...]:
    """The partial derivatives of an application with respect to its arguments."""
    assert e.fn is not None
    if e.fn.partials is None:
        return (ZERO,) * len(e.args)
    found = e.fn.partials(*e.args, e)
    if isinstance(found, Expr | int | float):
        found = (found,)
    return tuple(ZERO if p is None else as_expr(p) for p in found)


def vjp(e: Expr, g: Expr, wrt: Sequence[str]) -> list[Expr]:
    """The cotangents of the variables `wrt`, when that of `e` is `g`: reverse mode over the expression.

    Parameters
    ----------
    e, g : Expr
    wrt : sequence of str

    Returns
    -------
    list of Expr
        One per name in `wrt`; the constant 0 where `e` does not depend on it.
    """
    cotangents: dict[Expr, Expr] = {e: g}
    active = _depending(e, set(wrt))
    for node in reversed(order([e])):
        if node.fn is None or node not in cotangents or node not in active:
            continue
        g = cotangents[node]
        for arg, partial in zip(node.args, partials_of(node), strict=True):
            if arg in active:
                cotangents[arg] = _sum(cotangents.get(arg, ZERO), scale(g, partial))
    return [cotangents.get(var(name), ZERO) for name in wrt]


def _depending(e: Expr, names: set[str]) -> set[Expr]:
    found: set[Expr] = set()
    for node in order([e]):
        if (node.name in names) if node.fn is None else any(a in found for a in node.args):
            found.add(node)
    return found


def order(roots: Iterable[Expr]) -> list[Expr]:
    """All nodes below `roots`, arguments before what uses them."""
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


def free(*roots: Expr) -> list[str]:
    """Names of the variables in `roots`, in order of first use."""
    return [node.name for node in order(roots) if node.name is not None]


def work(*roots: Expr) -> int:
    """About how much computing `roots` is, in additions."""
    return 1 + 2 * sum(1 for node in order(roots) if node.fn is not None and node.fn.helpers)


def max_orders(e: Expr) -> list[Expr]:
    """How often `e` can be differentiated, for each function in it whose derivatives end somewhere."""
    found = []
    for node in order([e]):
        limit = None if node.fn is None else node.fn.max_order
        if limit is not None:
            found.append(as_expr(limit(*node.args) if callable(limit) else limit))
    return list(dict.fromkeys(found))


def substitute(e: Expr, replace: dict[Expr, Expr]) -> Expr:
    """`e` with every occurrence of a key of `replace` exchanged for its value (outermost first)."""
    made: dict[Expr, Expr] = dict(replace)
    stack = [e]
    while stack:
        node = stack[-1]
        if node in made:
            stack.pop()
            continue
        if node.fn is None:
            made[node] = node
            continue
        missing = [a for a in node.args if a not in made]
        if missing:
            stack.extend(missing)
            continue
        args = tuple(made[a] for a in node.args)
        made[node] = node if args == node.args else rebuild(node.fn, args)
    return made[e]


_smart: dict[Fn, Callable] = {_add: add, _sub: sub, _mul: mul, _div: div, _neg: neg, _select: select}


def rebuild(fn: Fn, args: tuple[Expr, ...]) -> Expr:
    return _smart.get(fn, fn)(*args)


# For people.

_OPERATORS = {"or": ("or", 1), "and": ("and", 2), "lt": ("<", 4), "le": ("<=", 4), "eq": ("==", 4), "ne": ("!=", 4),
              "add": ("+", 5), "sub": ("-", 5), "mul": ("*", 6), "div": ("/", 6)}  # fmt: skip


def pretty(e: Expr) -> str:
    """`e` as one would write it: ``g*(1 - y)*(1 + y)``."""
    return _written(e)[0]


def _written(e: Expr) -> tuple[str, int]:
    """The text, and how strongly its outermost operator binds."""
    if e.fn is None:
        return (e.name, 9) if e.name is not None else (f"{e.value:.10g}", 9 if not repr(e.value).startswith("-") else 5)
    parts = [_written(a) for a in e.args]
    if e.fn.name in _OPERATORS:
        symbol, level = _OPERATORS[e.fn.name]
        (left, a), (right, b) = parts
        space = "" if level == 6 else " "
        left = f"({left})" if a < level else left
        right = f"({right})" if b < level + (e.fn.name in ("sub", "div")) else right
        return f"{left}{space}{symbol}{space}{right}", level
    if e.fn in (_neg, invert):
        text = f"({parts[0][0]})" if parts[0][1] < 7 else parts[0][0]
        return (f"-{text}" if e.fn is _neg else f"not {text}"), 5 if e.fn is _neg else 3
    name = "where" if e.fn is _select else e.fn.name
    return f"{name}({', '.join(text for text, _ in parts)})", 9


# Emission.


def literal(value: float | int, cast: str) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return f"{cast}(np.nan)"
        if math.isinf(value):
            return f"{cast}({'-' if value < 0 else ''}np.inf)"
    return f"{cast}({value!r})"


def emit(outputs: Sequence[Expr], names: dict[str, str], cast: str) -> tuple[list[str], list[str], list[str], dict]:
    """Python statements that compute `outputs`, each subexpression once.

    Parameters
    ----------
    outputs : sequence of Expr
    names : dict
        What code stands for each variable.
    cast : str
        Name of the type that constants get, so that a float32 kernel stays in float32.

    Returns
    -------
    constants : list of str
        Statements that belong before the loop.
    body : list of str
        Statements that belong inside it.
    results : list of str
        The code of each output after `body`.
    helpers : dict
        Global names that the statements use.
    """
    code: dict[Expr, str] = {}
    constants: list[str] = []
    body: list[str] = []
    helpers: dict[str, object] = {}
    for node in order(outputs):
        if node.name is not None:
            code[node] = names[node.name]
        elif node.fn is None:
            code[node] = f"c{len(constants)}"
            constants.append(f"c{len(constants)} = {literal(node.value, cast)}")  # type: ignore[arg-type]
        else:
            code[node] = f"t{len(body)}"
            template = node.fn.integer if cast == "np.int64" else node.fn.template
            body.append(f"t{len(body)} = " + template.format(*(code[a] for a in node.args)))
            helpers.update(node.fn.helpers)
    return constants, body, [code[e] for e in outputs], helpers
