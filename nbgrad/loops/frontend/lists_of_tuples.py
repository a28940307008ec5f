"""Lists of tuples that change, as a list for each place: ``q.append((t, v))`` is ``q_0.append(t)``, ``q_1.append(v)``.

That is where a function makes the list, under one name, and every item is a tuple of one length, which is put in, taken
out, unpacked or read by its items. So integers stay integers, and nothing is packed. Other lists of tuples are rows of
an array (:mod:`.lists_of_rows`), or tuples.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import Any

import numpy as np

from ..ir.names import Names
from .canonical_form import Resolving
from .growing_lists import makes_list, nested_loops
from .structured_control import TupleTargets, with_location
from .syntax import (
    Transformer,
    all_names,
    bound_name,
    copy_tree,
    count_mentions,
    free_variables,
    own_nodes,
    stored_names,
    subtrees,
    with_own_variables,
)

__all__ = ["ListsOfTuples"]

_GROWS = "append", "insert", "extend"
_ALIKE = "pop", "clear", "reverse"


class _GivenUp(Exception):
    """A list has another use."""


class ListsOfTuples(Resolving):
    """Rewrites each function."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        around, self.outside = self.outside, free_variables(node)
        self.generic_visit(node)
        node = _Separate(TupleTargets(node)).visit(node)
        for name, count in self.candidates(node).items():
            try:
                node = _Columns(self, copy_tree(node), name, count).rewritten()
            except _GivenUp:
                continue
        self.outside = around
        return node

    def candidates(self, function: ast.FunctionDef) -> dict[str, int]:
        """The names of lists that get tuples alone, and change or are made by a comprehension; how long those are."""
        bound: Counter[str] = Counter()
        sizes: dict[str, set[int | str]] = {}  # of a list whose items are those of another, that one's name
        changed: set[str] = set()
        for n in own_nodes(function):
            match n:
                case ast.Assign([ast.Name(id=name)], ast.List(elts=items)):
                    bound[name] += 1
                    sizes.setdefault(name, set()).update(map(_size, items))
                case ast.Assign([ast.Name(id=name)], ast.ListComp() as made):
                    bound[name] += 1
                    sizes.setdefault(name, set()).add(_list_of_items(made) or _size(made.elt))
                    changed.add(name)
                case ast.Call(ast.Attribute(ast.Name(id=name), "append" | "insert"), args, []) if args:
                    changed.add(name)
                    if not isinstance(args[-1], ast.Name | ast.Subscript):
                        sizes.setdefault(name, set()).add(_size(args[-1]))
                case ast.Call(ast.Attribute(ast.Name(id=name), "sort" | "pop")):
                    changed.add(name)
        for _ in sizes:
            for name, found in sizes.items():
                others = {n for n in found if isinstance(n, str)}
                found -= others
                found.update(*(sizes.get(n, {0}) for n in others - {name}))
        stored = [*stored_names(function.body), *(a.arg for a in subtrees(function.args) if isinstance(a, ast.arg))]
        return {
            name: size
            for name, count in bound.items()
            if stored.count(name) == count and len(sizes[name]) == 1 and name in changed
            for size in sizes[name]
            if isinstance(size, int) and size
        }


class _Separate(Transformer):
    """Sets names one after the other where new lists are among the values, and none reads what is set."""

    def __init__(self, targets: TupleTargets) -> None:
        self.targets = targets

    def visit_Assign(self, s: ast.Assign) -> Any:
        new = isinstance(s.value, ast.Tuple) and any(map(makes_list, s.value.elts))
        return (self.targets.one_by_one(s) if new else []) or s


def _size(node: ast.expr) -> int:
    """The number of items of a tuple that is written there; 0 for other expressions."""
    plain = isinstance(node, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in node.elts)
    return len(node.elts) if plain and len(node.elts) > 1 else 0  # type: ignore[attr-defined]


def _list_of_items(made: ast.ListComp) -> str:
    """The list whose items a comprehension takes; "" for others."""
    match made.elt, made.generators:
        case ast.Subscript(ast.Name(id=name)), _:
            return name
        case ast.Name(id=item), [ast.comprehension(ast.Name(id=target), ast.Name(id=name))] if item == target:
            return name
    return ""


class _Columns(Transformer):
    """Rewrites one list, whose items are tuples of `count`."""

    def __init__(self, low: ListsOfTuples, node: ast.FunctionDef, name: str, count: int) -> None:
        self.low, self.node, self.name, self.count = low, node, name, count
        self.fresh = Names(all_names(node))
        self.columns = [self.fresh.fresh(f"{name}_{j}") for j in range(count)]

    def rewritten(self) -> ast.FunctionDef:
        self.generic_visit(self.node)
        if any(isinstance(n, ast.Name) and n.id == self.name for n in subtrees(self.node)):
            raise _GivenUp
        return self.node

    def is_list(self, node: ast.AST | None) -> bool:
        return isinstance(node, ast.Name) and node.id == self.name

    # Parts.

    def zipped(self) -> ast.expr:
        """What gives the items."""
        return ast.Call(bound_name(zip, "zip"), [ast.Name(c, ast.Load()) for c in self.columns], [])

    def parts(self, value: ast.expr) -> list[ast.expr]:
        """The items of a tuple."""
        match value:
            case ast.Tuple(elts=items) if len(items) == self.count:
                return items
            case ast.Name() | ast.Subscript(ast.Name(), ast.Name() | ast.Constant()):
                return [ast.Subscript(copy_tree(value), ast.Constant(j), ast.Load()) for j in range(self.count)]
        raise _GivenUp

    def held(self, value: ast.expr) -> tuple[list[ast.stmt], list[ast.expr]]:
        """The items of a tuple with names, and what sets these."""
        first: list[ast.stmt] = []
        names: list[ast.expr] = []
        for part in self.parts(value):
            if isinstance(part, ast.Constant | ast.Name):
                names.append(part)
                continue
            item = self.fresh.fresh("item")
            first.append(ast.Assign([ast.Name(item, ast.Store())], part))
            names.append(ast.Name(item, ast.Load()))
        return first, names

    def located(self, statements: list[ast.stmt], s: ast.stmt) -> list[ast.stmt]:
        return [with_location(t, s) for t in statements]

    # Statements.

    def visit_Assign(self, s: ast.Assign) -> Any:
        match s:
            case ast.Assign([ast.Name() as target], value) if self.is_list(target):
                return self.located(self.made(value), s)
            case ast.Assign([ast.Subscript(whole, place)], value) if self.is_list(whole):
                first, items = self.held(self.visit(value))
                place = self.plain(self.visit(place), first)
                put = [ast.Assign([ast.Subscript(ast.Name(c, ast.Load()), copy_tree(place), ast.Store())], v)
                       for c, v in zip(self.columns, items, strict=True)]  # fmt: skip
                return self.located([*first, *put], s)
            case ast.Assign([ast.Tuple(elts=targets)], ast.Call(function, [ast.Starred(whole)], [])):
                if self.is_list(whole) and self.low.called(function) is zip and len(targets) == self.count:
                    copies = [ast.Assign([t], self.copied(c)) for t, c in zip(targets, self.columns, strict=True)]
                    return self.located(copies, s)  # type: ignore[arg-type]
            case ast.Assign(targets, ast.Call(ast.Attribute(whole, "pop"), args, [])) if self.is_list(whole):
                return self.located(self.taken(args, targets), s)
        return self.generic_visit(s)

    def copied(self, column: str) -> ast.expr:
        item = self.fresh.fresh("item")
        over = ast.comprehension(ast.Name(item, ast.Store()), ast.Name(column, ast.Load()), [], 0)
        return ast.ListComp(ast.Name(item, ast.Load()), [over])

    def plain(self, place: ast.expr, first: list[ast.stmt]) -> ast.expr:
        """A place that may be evaluated more than once."""
        match place:
            case ast.Constant() | ast.Name() | ast.UnaryOp(ast.USub(), ast.Constant()):
                return place
            case ast.Slice():
                raise _GivenUp
        name = self.fresh.fresh("place")
        first.append(ast.Assign([ast.Name(name, ast.Store())], place))
        return ast.Name(name, ast.Load())

    def made(self, value: ast.expr) -> list[ast.stmt]:
        """The statements for a new list."""
        match value:
            case ast.List(elts=items):
                rows = [self.parts(self.visit(e)) for e in items]
                columns = [ast.List(list(c), ast.Load()) for c in zip(*rows, strict=True)] if rows else []
                columns = columns or [ast.List([], ast.Load()) for _ in self.columns]
                if not any(isinstance(n, ast.Name) and n.id in self.columns for c in columns for n in subtrees(c)):
                    return [
                        ast.Assign([ast.Name(c, ast.Store())], v) for c, v in zip(self.columns, columns, strict=True)
                    ]
            case ast.ListComp():
                own = with_own_variables(value, self.fresh.fresh)
                names = [self.fresh.fresh(c) for c in self.columns]
                done: list[ast.stmt] = [ast.Assign([ast.Name(n, ast.Store())], ast.List([], ast.Load())) for n in names]
                own = self.visit(own)
                appended, items = self.held(own.elt)
                for n, item in zip(names, items, strict=True):
                    appended.append(self.called(n, "append", [item]))
                pairs = zip(self.columns, names, strict=True)
                copies = [ast.Assign([ast.Name(c, ast.Store())], self.copied(n)) for c, n in pairs]
                return [*done, *nested_loops(own.generators, appended), *copies]
        raise _GivenUp

    def taken(self, args: list[ast.expr], targets: list[ast.expr]) -> list[ast.stmt]:
        """The statements for ``a, b = q.pop(k)``."""
        first: list[ast.stmt] = []
        place = [self.plain(self.visit(a), first) for a in args]
        names = [self.fresh.fresh("item") for _ in self.columns]
        for c, n in zip(self.columns, names, strict=True):
            pop = ast.Call(ast.Attribute(ast.Name(c, ast.Load()), "pop", ast.Load()), copy_tree(place), [])
            first.append(ast.Assign([ast.Name(n, ast.Store())], pop))
        made = ast.Tuple([ast.Name(n, ast.Load()) for n in names], ast.Load())
        return [*first, *([ast.Assign([self.visit(t) for t in targets], made)] if targets else [])]

    def visit_Expr(self, s: ast.Expr) -> Any:
        match s.value:
            case ast.Call(ast.Attribute(whole, method), args, []) if self.is_list(whole):
                return self.located(self.method(method, args, s), s)
        return self.generic_visit(s)

    def method(self, method: str, args: list[ast.expr], s: ast.stmt) -> list[ast.stmt]:
        """The statements for a method that changes the list."""
        match method, args:
            case "append" | "insert", [*places, value] if len(places) == (method == "insert"):
                first, items = self.held(self.visit(value))
                places = [self.plain(self.visit(p), first) for p in places]
                pairs = zip(self.columns, items, strict=True)
                return [*first, *(self.called(c, method, [*places, v]) for c, v in pairs)]
            case "extend", [ast.List(elts=rows)]:
                return [t for row in rows for t in self.method("append", [row], s)]
            case "pop", [] | [_]:
                return self.taken(args, [])
            case "clear" | "reverse", []:
                return [self.called(c, method, []) for c in self.columns]
            case "sort", []:
                return self.sorted()
        raise _GivenUp

    def called(self, column: str, method: str, args: list[ast.expr]) -> ast.stmt:
        function = ast.Attribute(ast.Name(column, ast.Load()), method, ast.Load())
        return ast.Expr(ast.Call(function, copy_tree(args), []))

    def sorted(self) -> list[ast.stmt]:
        """The statements that sort by the first items, then the second, and so on: from the last on, each in order."""
        done: list[ast.stmt] = []
        for key in reversed(self.columns):
            array = ast.Call(bound_name(np.array, "np.array"), [ast.Name(key, ast.Load())], [])
            stable = [ast.keyword("kind", ast.Constant("stable"))]
            order = self.fresh.fresh("order")
            found = ast.Call(bound_name(np.argsort, "np.argsort"), [array], stable)
            done.append(ast.Assign([ast.Name(order, ast.Store())], found))
            for c in self.columns:
                place = self.fresh.fresh("place")
                item = ast.Subscript(ast.Name(c, ast.Load()), ast.Name(place, ast.Load()), ast.Load())
                over = ast.comprehension(ast.Name(place, ast.Store()), ast.Name(order, ast.Load()), [], 0)
                done.append(ast.Assign([ast.Name(c, ast.Store())], ast.ListComp(item, [over])))
        return done

    # Loops.

    def visit_For(self, s: ast.For) -> Any:
        if self.is_list(s.iter) and isinstance(s.target, ast.Name):
            body = ast.Module(s.body, [])
            if count_mentions(self.node, {s.target.id}) != count_mentions(body, {s.target.id}) + 1:
                raise _GivenUp  # it is read after the loop, or bound elsewhere
            s.target, items = self.unpacked(s.target.id)
            s.body = _Items(items).visit(body).body
        s.iter = self.over(s.iter, s.target)
        return self.generic_visit(s)

    def visit_ListComp(self, node: Any) -> Any:
        for g in node.generators:
            if self.is_list(g.iter) and isinstance(g.target, ast.Name):
                name = g.target.id
                g.target, items = self.unpacked(name)
                replaced = _Items({name: items[name]})
                for part in ("elt", "key", "value"):
                    if hasattr(node, part):
                        setattr(node, part, replaced.visit(getattr(node, part)))
                for other in node.generators:
                    other.ifs = [replaced.visit(test) for test in other.ifs]
            g.iter = self.over(g.iter, g.target)
        return self.generic_visit(node)

    visit_GeneratorExp = visit_SetComp = visit_DictComp = visit_ListComp

    def unpacked(self, name: str) -> tuple[ast.expr, dict[str, list[str]]]:
        """A target for each of the items that a name stands for."""
        names = [self.fresh.fresh(f"{name}_{j}") for j in range(self.count)]
        return ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store()), {name: names}

    def over(self, iterable: ast.expr, target: ast.expr) -> ast.expr:
        """What a loop over the list is over."""
        if self.is_list(iterable):
            if not isinstance(target, ast.Tuple) or len(target.elts) != self.count:
                raise _GivenUp
            return with_location(self.zipped(), iterable)
        match iterable, target:
            case ast.Call(function, [inner], []), ast.Tuple(elts=items) if self.low.called(function) is reversed:
                if self.is_list(inner) and len(items) == self.count:
                    step = ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1)))
                    names = [ast.Name(c, ast.Load()) for c in self.columns]
                    backwards: list[ast.expr] = [ast.Subscript(n, copy_tree(step), ast.Load()) for n in names]
                    return with_location(ast.Call(bound_name(zip, "zip"), backwards, []), iterable)
            case ast.Call(function, [inner, *_], []), ast.Tuple(elts=[_, ast.Tuple(elts=items)]):
                if self.is_list(inner) and self.low.called(function) is enumerate and len(items) == self.count:
                    iterable.args[0] = with_location(self.zipped(), inner)
        return iterable

    # Expressions.

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(ast.Subscript(whole, place), ast.Constant(int(j)), ctx) if self.is_list(whole):
                if not isinstance(place, ast.Slice) and -self.count <= j < self.count:
                    column = ast.Name(self.columns[j], ast.Load())
                    return with_location(ast.Subscript(column, self.visit(place), ctx), node)
            case ast.Subscript(whole, place, ast.Load()) if self.is_list(whole):
                place = self.visit(place)
                if isinstance(place, ast.Constant | ast.Name | ast.UnaryOp) or not any(
                    isinstance(n, ast.Call | ast.NamedExpr | ast.Slice) for n in subtrees(place)
                ):
                    items = [ast.Subscript(ast.Name(c, ast.Load()), copy_tree(place), ast.Load()) for c in self.columns]
                    return with_location(ast.Tuple(items, ast.Load()), node)  # type: ignore[arg-type]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if self.low.called(node.func) is len and len(node.args) == 1 and self.is_list(node.args[0]):
            node.args = [ast.copy_location(ast.Name(self.columns[0], ast.Load()), node.args[0])]
            return node
        return self.generic_visit(node)

    def tested(self, node: Any) -> ast.AST:
        """A list as a test: whether it has items."""
        part = "operand" if isinstance(node, ast.UnaryOp) else "test"
        if self.is_list(getattr(node, part)):
            setattr(node, part, ast.copy_location(ast.Name(self.columns[0], ast.Load()), getattr(node, part)))
        return self.generic_visit(node)

    visit_If = visit_While = visit_IfExp = visit_Assert = tested

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return self.tested(node) if isinstance(node.op, ast.Not) else self.generic_visit(node)


class _Items(Transformer):
    """Puts the names of its items in place of a tuple."""

    def __init__(self, items: dict[str, list[str]]) -> None:
        self.items = items

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(ast.Name(id=name), ast.Constant(int(j)), ast.Load()) if name in self.items:
                if -len(self.items[name]) <= j < len(self.items[name]):
                    return ast.copy_location(ast.Name(self.items[name][j], ast.Load()), node)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.items:
            return node
        if not isinstance(node.ctx, ast.Load):
            raise _GivenUp
        made = ast.Tuple([ast.Name(n, ast.Load()) for n in self.items[node.id]], ast.Load())
        return with_location(made, node)
