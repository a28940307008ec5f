"""Values and items that the source alone shows: constants, names of constants, and what Python makes of these.

``("a", "b")``, ``RATES`` of the module, ``range(3)``, ``enumerate(NAMES)``, ``zip(NAMES, x)``,
``itertools.permutations(range(3))``: the items of such iterables are expressions, of which those in `x` are computed.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ...backends.numba.wrapped_functions import has_hash
from .structured_control import with_location
from .syntax import copy_tree, number_node, own_nodes

if TYPE_CHECKING:
    from .source import Source

__all__ = ["MAX_ITEMS", "UNKNOWN", "KnownIterables", "constant_names", "constant_node"]

#: The most items of an iterable whose loop is written out.
MAX_ITEMS = 64
#: Stands for a value that is not known.
UNKNOWN = object()

_ARITHMETIC: Mapping[type, Callable] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
_COMPARISONS: Mapping[type, Callable] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_TABLES: tuple[Callable, ...] = (
    itertools.permutations, itertools.combinations, itertools.combinations_with_replacement, itertools.product,
    itertools.chain,
)  # fmt: skip


def constant_node(value: object) -> ast.expr | None:
    """The node of a string, number, None, or a tuple of such, as Python parses it; None for other values."""
    if type(value) is int:
        return number_node(value)
    if value is None or type(value) in (str, bool):
        return ast.Constant(value)  # type: ignore[arg-type]
    if type(value) is float and value == value and abs(value) != float("inf"):
        number = ast.Constant(abs(value))
        return number if str(value)[0] != "-" else ast.UnaryOp(ast.USub(), number)
    if type(value) is tuple:
        items = [constant_node(v) for v in value]
        return None if None in items else ast.Tuple(items, ast.Load())  # type: ignore[arg-type]
    return None


def constant_names(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """The names that are bound once, to a display of constants or one constant, and are never changed."""
    bound: dict[str, list[ast.expr | None]] = {}
    changed: set[str] = set()
    nodes = [n for n in own_nodes(function)]
    for n in nodes:
        match n:
            case ast.Assign([ast.Name(id=name)], value):
                bound.setdefault(name, []).append(value)
            case ast.Attribute(ast.Name(id=name), attribute) if attribute not in ("index", "count"):
                changed.add(name)
            case ast.Subscript(ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                changed.add(name)
    stored = [n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    stored += [n.name for n in nodes if isinstance(n, ast.FunctionDef)]
    stored += [a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)]
    values = {name: values[0] for name, values in bound.items() if len(values) == 1 and stored.count(name) == 1}
    return {n: v for n, v in values.items() if v is not None and n not in changed and _is_display(v)}


def _is_display(node: ast.expr) -> bool:
    """Whether it is a constant that may be a key, or a display of such."""
    match node:
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return all(map(_is_display, items))
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float())):
            return True
    return isinstance(node, ast.Constant) and isinstance(node.value, str | int | float)


class KnownIterables:
    """What is known of the expressions in one function; `outside` are the names that it does not bind.

    Attributes
    ----------
    constants : dict
        The names that are bound to constants, and these.
    required : list
        Names that a zip is over beside known items, and how many items they must have.
    """

    def __init__(self, source: Source, function: ast.FunctionDef, outside: Iterable[str]) -> None:
        self.source, self.outside = source, set(outside)
        self.constants = constant_names(function)
        self.required: list[tuple[ast.Name, int]] = []

    def called(self, node: ast.expr) -> object:
        """The function from outside that is called; None for others, as arrays, which compare by elements."""
        found = self.from_outside(node)
        return found if callable(found) and has_hash(found) else None

    def from_outside(self, node: ast.expr) -> object:
        """The value of a name or attribute from outside; None for others."""
        named = node
        while isinstance(named, ast.Attribute):
            named = named.value
        return self.source.resolve(node) if isinstance(named, ast.Name) and self._is_outside(named) else None

    def _is_outside(self, node: ast.Name) -> bool:
        return node.id in self.outside or hasattr(node, "function")

    def value(self, node: ast.expr) -> object:
        """The value of an expression, or `UNKNOWN`: of strings, numbers, tuples of such, and their arithmetic."""
        match node:
            case ast.Constant(value=str() | int() | float() | None as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                number = self.value(inner)
                return -number if type(number) in (int, float) else UNKNOWN  # type: ignore[operator]
            case ast.Tuple(elts=elements):
                values = [self.value(e) for e in elements]
                return UNKNOWN if UNKNOWN in values else tuple(values)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                a, b = self.value(left), self.value(right)
                integers = type(a) is int and type(b) is int and not (b == 0 and isinstance(op, ast.FloorDiv | ast.Mod))
                joined = type(a) is str and type(b) is str and isinstance(op, ast.Add)
                return _ARITHMETIC[type(op)](a, b) if integers or joined else UNKNOWN
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return UNKNOWN if (held := self.value(inner)) is UNKNOWN else not held
            case ast.BoolOp(op=op, values=operands):
                values = [self.value(v) for v in operands]
                decides = isinstance(op, ast.Or)
                if any(v is not UNKNOWN and bool(v) is decides for v in values[:1]):
                    return values[0]
                return UNKNOWN if UNKNOWN in values else next((v for v in values if bool(v) is decides), values[-1])
            case ast.Compare(left, [op], [right]):
                return self._compared(left, op, right)
            case ast.JoinedStr(values=parts):
                return self._text(parts)
            case ast.Name(id=name) if name in self.constants:
                return self.value(self.constants[name])
            case ast.Name(id=name) if self._is_outside(node):
                held = self.source.outer_values.get(name)
                return held if type(held) in (str, int) else UNKNOWN
            case ast.Call(ast.Name() as function, [only], []) if self.called(function) is str:
                shown = self.value(only)
                return str(shown) if type(shown) in (str, int) else UNKNOWN
        return UNKNOWN

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> object:
        """The outcome of a comparison of strings or integers."""
        a = self.value(left)
        if isinstance(op, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List):
            values = [self.value(e) for e in right.elts]
            return UNKNOWN if UNKNOWN in (a, *values) else (a in values) == isinstance(op, ast.In)
        b = self.value(right)
        if type(a) is not type(b) or type(a) not in (str, int) or type(op) not in _COMPARISONS:
            return UNKNOWN
        return _COMPARISONS[type(op)](a, b)

    def _text(self, parts: list[ast.expr]) -> object:
        """An f-string of known strings and integers."""
        text = ""
        for part in parts:
            value = self.value(part.value if isinstance(part, ast.FormattedValue) else part)
            plain = not isinstance(part, ast.FormattedValue) or (part.conversion == -1 and part.format_spec is None)
            if type(value) not in (str, int) or not plain:
                return UNKNOWN
            text += str(value)
        return text

    def items(self, node: ast.expr) -> list[ast.expr] | None:
        """The items of an iterable; None if they are not known, or too many."""
        found = self._items(node)
        return found if found is not None and len(found) <= MAX_ITEMS else None

    def _items(self, node: ast.expr) -> list[ast.expr] | None:
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return None if any(isinstance(e, ast.Starred) for e in elements) else elements
            case ast.Constant(value=str(text)):
                return [ast.Constant(c) for c in text]
            case ast.Name(id=name) if name in self.constants:
                return self._items(self.constants[name])
            case ast.Name() | ast.Attribute():
                return self._outer_items(node)
            case ast.Call(ast.Attribute(owner, "keys" | "values" | "items" as part), [], []):
                return self._dictionary_items(owner, part)
            case ast.Call(function, args, keywords):
                made = self._called_items(self.called(function), args, keywords)
                return made and [with_location(copy_tree(e), node) for e in made]
        return None

    def _outer_items(self, node: ast.expr) -> list[ast.expr] | None:
        """The items of a tuple, list, string or dictionary from outside."""
        value = self.from_outside(node)
        if isinstance(value, dict):
            value = tuple(value)
        if type(value) not in (tuple, list, str, range) or len(value) > MAX_ITEMS:  # type: ignore[arg-type]
            return None
        nodes = [constant_node(v) for v in value]  # type: ignore[attr-defined]
        return None if None in nodes else nodes  # type: ignore[return-value]

    def _dictionary_items(self, owner: ast.expr, part: str) -> list[ast.expr] | None:
        """What a loop over the keys, values or items of a dictionary from outside goes over."""
        if not isinstance(owner, ast.Name | ast.Attribute) or not isinstance(held := self.from_outside(owner), dict):
            return None
        keys = [constant_node(k) for k in held]
        if None in keys or any(type(k) is not str for k in held):
            return None
        values: list[ast.expr] = [ast.Subscript(copy_tree(owner), k, ast.Load()) for k in keys]  # type: ignore[arg-type]
        if part != "items":
            return keys if part == "keys" else values  # type: ignore[return-value]
        return [ast.Tuple([k, v], ast.Load()) for k, v in zip(keys, values, strict=True)]  # type: ignore[list-item]

    def _called_items(self, called: object, args: list[ast.expr], keywords: list[ast.keyword]) -> list[ast.expr] | None:
        """The items of what a call of one of Python's functions gives."""
        if called is builtins.enumerate and args and len(args) + len(keywords) <= 2:
            start = self.value([*args[1:], *(k.value for k in keywords)][0]) if len(args) + len(keywords) > 1 else 0
            inner = self.items(args[0])
            if inner is None or type(start) is not int:
                return None
            return [ast.Tuple([number_node(k), e], ast.Load()) for k, e in enumerate(inner, start)]
        if any(isinstance(a, ast.Starred) for a in args):
            return None
        if called is builtins.range and args and not keywords:
            bounds = [b for a in args if isinstance(b := self.value(a), int)]
            if len(bounds) < len(args) or bounds[2:] == [0]:
                return None
            numbers = range(*bounds)
            return [number_node(k) for k in numbers] if len(numbers) <= MAX_ITEMS else None
        if called is builtins.zip and args and not keywords:
            return self._zipped(args)
        if called in (builtins.list, builtins.tuple, builtins.reversed) and len(args) == 1 and not keywords:
            inner = self.items(args[0])
            return inner[::-1] if inner is not None and called is builtins.reversed else inner
        if called is builtins.sorted and len(args) == 1 and not keywords:
            return self._sorted(args[0])
        if any(called is f for f in _TABLES):
            return self._combined(called, args, keywords)  # type: ignore[arg-type]
        return None

    def _zipped(self, args: list[ast.expr]) -> list[ast.expr] | None:
        """The items of a zip of known items and what else there is, which must not end before them."""
        columns = [self.items(a) for a in args]
        known = [len(c) for c in columns if c is not None]
        if not known:
            return None
        count = min(known)
        for k, (column, operand) in enumerate(zip(columns, args, strict=True)):
            if column is None:
                if not isinstance(operand, ast.Name):
                    return None
                self.required.append((operand, count))
                columns[k] = [ast.Subscript(copy_tree(operand), ast.Constant(j), ast.Load()) for j in range(count)]
        return [ast.Tuple(list(row), ast.Load()) for row in zip(*columns, strict=False)]

    def _sorted(self, node: ast.expr) -> list[ast.expr] | None:
        inner = self.items(node)
        values = [self.value(e) for e in inner or ()]
        if inner is None or len({type(v) for v in values}) > 1 or not all(type(v) in (str, int) for v in values):
            return None
        return [inner[k] for k in sorted(range(len(values)), key=values.__getitem__)]  # type: ignore[arg-type]

    def _combined(self, called: Callable, args: list[ast.expr], keywords: list[ast.keyword]) -> list[ast.expr] | None:
        """The tuples that a function of itertools makes of known items."""
        iterables = called in (itertools.product, itertools.chain)
        columns = [self.items(a) for a in (args if iterables else args[:1])]
        numbers = [self.value(a) for a in ([] if iterables else args[1:])]
        repeat = [self.value(k.value) for k in keywords]
        counts = [*numbers, *repeat]
        if any(c is None for c in columns) or any(type(n) is not int or not 0 <= n <= 8 for n in counts):
            return None
        names = {str(k.arg): v for k, v in zip(keywords, repeat, strict=True)}
        if names.keys() - {"repeat" if iterables else "r"} or (names and called is itertools.chain):
            return None
        rows = list(itertools.islice(called(*columns, *numbers, **names), MAX_ITEMS + 1))
        return rows if called is itertools.chain else [ast.Tuple(list(row), ast.Load()) for row in rows]
