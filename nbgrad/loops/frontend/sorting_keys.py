"""``sorted``, ``max`` and ``min`` with keys, and of tuples: what is at the places that the keys have in order."""

from __future__ import annotations

import ast
import operator

import numpy as np

from ..ir.names import Names
from .builtin_calls import called_with
from .canonical_form import Resolving
from .structured_control import assignment, with_location
from .syntax import bound_name, copy_tree, subtrees

__all__ = ["CHANGING_METHODS", "SortingKeys", "is_stable"]

#: The methods that change a list, set or dictionary.
CHANGING_METHODS = frozenset({"append", "add", "clear", "discard", "extend", "insert", "pop", "popleft", "popitem",
                              "remove", "setdefault", "sort", "update"})  # fmt: skip


class SortingKeys(Resolving):
    """Rewrites calls of them."""

    names: Names
    before: list[ast.stmt]  # what is done before the statement that is visited
    certain: bool  # what is visited is evaluated once, in any case
    dictionaries: set[str]  # names of what has keys, not places
    effects: list[ast.AST]  # what may change something, in that statement

    def comes_first(self, node: ast.AST) -> bool:
        """Whether a call may be evaluated before its statement: it is in what may change something there."""
        return self.certain and all(any(n is node for n in subtrees(e)) for e in self.effects)

    def listed(self, over: ast.expr) -> ast.expr:
        """A list of what is iterated, where it has no positions."""
        match over:
            case ast.GeneratorExp(elt=element, generators=generators):
                return with_location(ast.ListComp(element, generators), over)
            case ast.Call(args=args) if (called := self.called(over.func)) in (range, map, zip, enumerate, reversed):
                count = len(args) if called is zip else 2 if called is enumerate else 1
                names = [self.names.fresh("v") for _ in range(count)]
                target, item = ([ast.Name(n, context()) for n in names] for context in (ast.Store, ast.Load))
                over_all = ast.comprehension(target[0], over, [], 0)
                if count > 1:
                    over_all.target = ast.Tuple(target, ast.Store())  # type: ignore[arg-type]
                element = ast.Tuple(item, ast.Load()) if count > 1 else item[0]  # type: ignore[arg-type]
                return with_location(ast.ListComp(element, [over_all]), over)
            case ast.Name(id=name) if name in self.dictionaries:
                key = self.names.fresh("v")
                keys = ast.comprehension(ast.Name(key, ast.Store()), over, [], 0)
                return with_location(ast.ListComp(ast.Name(key, ast.Load()), [keys]), over)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                if not any(isinstance(e, ast.Tuple | ast.List) for e in items):
                    return with_location(ast.Call(bound_name(np.array, "np.array"), [over], []), over)
        return over

    def gives_tuples(self, over: ast.expr) -> bool:
        """Whether the items of an iterable are tuples that are written there."""
        match over:
            case ast.Call(args=[_, _, *_]):
                return self.called(over.func) is zip
            case ast.GeneratorExp(elt=item) | ast.ListComp(elt=item):
                return isinstance(item, ast.Tuple)
        return False

    def held(self, over: ast.expr) -> str:
        """The name of a list of what is iterated, which is made before."""
        name = self.names.fresh("items")
        self.before.append(assignment(over, ast.Name(name, ast.Store()), self.listed(over)))
        return name

    def keyed(self, key: ast.expr, value: str) -> ast.expr:
        """The key of an item."""
        match key:
            case ast.Call(function, [place], []) if self.called(function) is operator.itemgetter:
                return ast.Subscript(ast.Name(value, ast.Load()), place, ast.Load())
        return called_with(key, [value])

    def by_key(
        self, node: ast.Call, called: object, over: ast.expr, keywords: dict[str | None, ast.expr]
    ) -> ast.expr | None:
        """The expression for ``max(x, key=f)``, ``min`` or ``sorted`` of a name or range; None for others."""
        key = keywords.pop("key", None)
        if key is None or called not in (max, min, sorted) or _is_method(key, over):
            return None
        backwards = keywords.pop("reverse", None) if called is sorted else None
        if keywords or not isinstance(backwards, ast.Constant | None):
            return None
        start: ast.expr | None = None
        match over:
            case ast.Call(ast.Name("range"), [_], []):
                pass
            case ast.Call(ast.Name("range"), [start, _], []) if is_stable(over):
                pass
            case ast.Name(id=name) if name not in self.dictionaries:
                pass
            case _ if self.comes_first(node):
                over = ast.copy_location(ast.Name(self.held(over), ast.Load()), over)
            case _:
                return None
        value = self.names.fresh("v")
        element = self.keyed(key, value)
        if backwards is not None and backwards.value:
            element = ast.UnaryOp(ast.USub(), element)
        keys = ast.ListComp(element, [ast.comprehension(ast.Name(value, ast.Store()), copy_tree(over), [], 0)])
        array = ast.Call(bound_name(np.array, "np.array"), [keys], [])
        if called is sorted:
            stable = [ast.keyword("kind", ast.Constant("stable"))]
            found: ast.expr = ast.Call(bound_name(np.argsort, "np.argsort"), [array], stable)
        else:
            function = np.argmax if called is max else np.argmin
            found = ast.Call(bound_name(function, f"np.{function.__name__}"), [array], [])
        named = isinstance(over, ast.Name)
        if called is not sorted:
            if named:
                return ast.Subscript(over, found, ast.Load())
            return found if start is None else ast.BinOp(start, ast.Add(), found)
        place = self.names.fresh("place")
        item: ast.expr = ast.Name(place, ast.Load())
        if named:
            item = ast.Subscript(over, item, ast.Load())
        elif start is not None:
            item = ast.BinOp(start, ast.Add(), item)
        return ast.ListComp(item, [ast.comprehension(ast.Name(place, ast.Store()), found, [], 0)])


def _is_method(key: ast.expr, over: ast.expr) -> bool:
    """Whether a key is ``d.get`` of what is gone through."""
    match key, over:
        case ast.Attribute(ast.Name(id=owner)), ast.Name(id=name):
            return owner == name
    return False


def is_stable(node: ast.expr) -> bool:
    """Whether an iterable may be made in every iteration of a loop around."""
    match node:
        case ast.Call(ast.Name("range"), args, []):
            calls = [n for a in args for n in subtrees(a) if isinstance(n, ast.Call | ast.NamedExpr)]
            return all(map(_is_length, calls))
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return all(isinstance(e, ast.Constant | ast.Name) for e in items)
    return isinstance(node, ast.Name | ast.Constant)


def _is_length(node: ast.AST) -> bool:
    """Whether it is the length of what has a name."""
    match node:
        case ast.Call(ast.Name("len"), [ast.Name()], []):
            return True
    return False
