"""Strings that branches choose when a function runs: numbers in the generated function.

``mode = "b" if n > 3 else "a"`` and later ``if mode == "a":``, where the names are only bound to strings, None and one
another, compared with these, and passed to functions that do the same. It is applied on demand: a string that the
source alone shows decides which branches are generated.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...backends.numba.wrapped_functions import is_overloaded, plain_function
from ..custom_rules import rule_of
from .function_table import DEFINITIONS, is_known
from .syntax import Transformer, copy_tree, subtrees

if TYPE_CHECKING:
    from .source import Source

__all__ = ["StringNumbers", "error_of_other_use", "number_strings"]

_COLLECTS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


@dataclass
class StringNumbers:
    """The `names` that stand for numbers instead of strings, and the number of each string, in all functions."""

    names: set[str] = field(default_factory=set)
    numbers: dict[object, int] = field(default_factory=dict)

    def of(self, string: object) -> int:
        return self.numbers.setdefault(string, len(self.numbers))


def number_strings(
    source: Source, strings: StringNumbers, numbered: Collection[str]
) -> tuple[ast.FunctionDef, Collection[str]]:
    """A function with numbers instead of strings, and the names that stand for these; the parameters `numbered` do."""
    node, done = source.node, set[str]()
    for name in sorted({*strings.names, *numbered}):
        if name not in done and _other_use(source, node, name) is None:
            group = _related(node, name)
            node = _Numbering(group, strings, source).visit(copy_tree(node))
            done |= group
    return node, done


def error_of_other_use(at: Source, node: ast.AST, source: Source, name: str) -> Exception | None:
    """The error, at a node of the source `at`, for a name of `source` that stands for one of several strings, where
    these are not only bound, compared and passed; None where they are."""
    other = _other_use(source, source.node, name)
    if other is None:
        return None
    line = source.lines[other.lineno - 1].strip()  # type: ignore[attr-defined]
    whose = "" if source is at else f" of {source.name}"
    what = f"{name}{whose}, which is perhaps None, or one of several strings"
    return at.refuse(node, what, f"only bind it to strings, compare and pass it, unlike in '{line}'")


def _other_use(source: Source, node: ast.FunctionDef, name: str) -> ast.AST | None:
    """What a function does with strings that a name, or one that it is bound to, stands for, if it is something else
    than binding, comparing and passing them."""
    group = _related(node, name)
    for n in subtrees(node):
        if isinstance(n, ast.arg) and n.arg in group and n.arg not in source.string_parameters:
            return n
    numbering = _Numbering(group, StringNumbers(), source)
    numbering.visit(twin := copy_tree(node))
    functions = [f for s in twin.body for f in subtrees(s) if isinstance(f, ast.FunctionDef | ast.Lambda)]
    inner = {id(n) for f in functions for n in subtrees(f)}
    for n in subtrees(twin):
        if isinstance(n, ast.Name) and n.id in group and (id(n) in inner or id(n) not in numbering.numbered):
            return n
    return None


def _related(node: ast.FunctionDef, name: str) -> set[str]:
    """The names that a name is bound to or compared with, and those that these are."""
    links = []
    for n in subtrees(node):
        if isinstance(n, ast.Assign):
            links += [(t, x) for t, value in _bindings(n) for x in _choices(value)]
        elif isinstance(n, ast.Compare) and len(n.ops) == 1:
            links.append((n.left, n.comparators[0]))
    pairs = [(a.id, b.id) for a, b in links if isinstance(a, ast.Name) and isinstance(b, ast.Name)]
    group: set[str] = set()
    new = {name}
    while new:
        group |= new
        new = {n for pair in pairs for n in pair if not group.isdisjoint(pair)} - group
    return group


class _Numbering(Transformer):
    """Replaces the strings that names are bound to or compared with; `numbered` are the occurrences of the names."""

    def __init__(self, names: set[str], strings: StringNumbers, source: Source) -> None:
        self.names = names
        self.strings = strings
        self.source = source
        self.numbered: set[int] = set()

    def visit_Assign(self, s: ast.Assign) -> ast.AST | list[ast.AST]:
        pairs = _bindings(s)
        mine = [t for t, value in pairs if self._is_name(t) and all(map(self._is_symbol, _choices(value)))]
        if len(s.targets) > 1 and 0 < len(mine) < len(s.targets):  # as in a = b = "start"
            others = [t for t in s.targets if t not in mine]
            rest = ast.copy_location(ast.Assign(others, copy_tree(s.value)), s)
            s.targets = [t for t in s.targets if t in mine]
            return [self.generic_visit(rest), self.visit_Assign(s)]
        self.numbered |= set(map(id, mine))
        if len(mine) == len(pairs) == len(s.targets):
            s.value = self._symbol(s.value)
        elif mine and isinstance(s.value, ast.Tuple):
            s.value.elts = [self._symbol(v) if t in mine else v for t, v in pairs]
        return self.generic_visit(s)

    def visit_Compare(self, test: ast.Compare) -> ast.AST:
        left, right, op = test.left, test.comparators[0], test.ops[0]
        if len(test.ops) > 1 or not (self._is_name(left) or self._is_name(right)):
            return self.generic_visit(test)
        if isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot) and self._is_symbol(left) and self._is_symbol(right):
            equal = ast.Eq() if isinstance(op, ast.Eq | ast.Is) else ast.NotEq()
            return ast.copy_location(ast.Compare(self._symbol(left), [equal], [self._symbol(right)]), test)
        listed = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else []
        if isinstance(op, ast.In | ast.NotIn) and listed and all(map(self._is_symbol, listed)):
            items = ast.copy_location(ast.Tuple([self._symbol(x) for x in listed], ast.Load()), right)
            return ast.copy_location(ast.Compare(self._symbol(left), [op], [items]), test)
        return self.generic_visit(test)

    def visit_Call(self, call: ast.Call) -> ast.AST:
        passed = [a for a in (*call.args, *(k.value for k in call.keywords)) if self._is_name(a)]
        if passed and _is_inlined(self.source, call):
            self.numbered |= set(map(id, passed))
        return self.generic_visit(call)

    def _is_name(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.names

    def _is_symbol(self, node: ast.expr) -> bool:
        """Whether a node is one of the names, None or a string, without values in it that are not known."""
        constant = isinstance(node, ast.Constant) and (node.value is None or type(node.value) is str)
        return constant or self._is_name(node)

    def _symbol(self, node: ast.expr) -> ast.expr:
        """An expression with numbers instead of strings."""
        if isinstance(node, ast.IfExp):
            node.body, node.orelse = self._symbol(node.body), self._symbol(node.orelse)
        elif isinstance(node, ast.Constant):
            return ast.copy_location(ast.Constant(self.strings.of(node.value)), node)
        elif self._is_name(node):
            self.numbered.add(id(node))
        return node


def _is_inlined(source: Source, call: ast.Call) -> bool:
    """Whether a call is one of a function of the user's, without a rule or other bodies, that is known here, and has no
    parameters that collect arguments: what is read from these is no string's number."""
    called = source.resolve(call.func)
    plain = plain_function(called)
    if not isinstance(plain, types.FunctionType) or plain.__code__.co_flags & _COLLECTS:
        return False
    other = rule_of(called) is not None or is_known(called) or is_overloaded(called)
    return not other and plain not in DEFINITIONS.values()


def _bindings(s: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """Each target of an assignment with its value; the items of ``a, b = b, a``."""
    match s.targets, s.value:
        case [ast.Tuple(elts=targets)], ast.Tuple(elts=values) if len(targets) == len(values):
            return list(zip(targets, values, strict=True))
    return [(t, s.value) for t in s.targets]


def _choices(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that a conditional expression chooses from."""
    if isinstance(node, ast.IfExp):
        yield from (*_choices(node.body), *_choices(node.orelse))
    else:
        yield node
