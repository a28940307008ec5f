"""Lists of numbers that grow: a vector with spare capacity, and the number of its elements that are in use.

``y = []`` sets that number to 0, ``y.append(v)`` stores `v` behind the elements in use and adds 1, and whatever reads
`y` reads the view of the elements in use. ``y.pop(0)`` and ``y.insert(0, v)`` shift them, as Python does. The vector
itself is allocated at the top of the function.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.numba.wrapped_functions import package_of, plain_function
from ..ir.names import Names
from .function_table import is_definition, is_known, row_of
from .library.lists import contains_item, count_of, position
from .list_vectors import append_item, list_copy, list_items, new_list
from .lists_of_rows import new_rows, no_items, taken_item
from .structured_control import with_location
from .syntax import (
    Transformer,
    all_names,
    bound_name,
    first_name,
    own_nodes,
    subtrees,
    with_own_variables,
)

if TYPE_CHECKING:
    from .source import Source

__all__ = ["GrowingLists", "is_end", "makes_list", "nested_loops", "with_all"]

_CHANGES = ("append", "pop", "insert", "extend", "sort", "reverse", "clear")
_READERS = (len, sum, max, min, any, all, sorted, enumerate, zip, reversed)

_READING = tuple([f.__name__ for f in _READERS])


class GrowingLists(Transformer):
    """Rewrites lists that change, and those in `grown`; the items of those in `rows` are arrays."""

    def __init__(self, source: Source, rows: Collection[str] = (), grown: Collection[str] = ()) -> None:
        self.source, self.rows, self.grown = source, rows, grown
        self.is_called = source.is_called or source.enclosing_scope is not None  # by the differentiated function

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outside, self.is_called = self.is_called, True
        self.generic_visit(node)
        self.is_called = outside
        names = set() if self.source.generated else _changing_lists(node, self.grown)
        if names:
            free = Names(all_names(node))
            counts = {n: free.fresh(f"{n}_count") for n in sorted(names)}
            rewriting = _Rewriting(self.source, counts, names & set(self.rows), self.is_called, free)
            body = [t for s in node.body for t in rewriting.statements(s)]
            made = [t for n in rewriting.counts for t in rewriting.made(n, node.body[0])]
            node.body = [*made, *body]
        return node


def _changing_lists(node: ast.FunctionDef, grown: Collection[str]) -> set[str]:
    """The names of lists that a function makes and changes, or that are in `grown`."""
    made, displays, changed = set(), set(grown), set(grown)
    for n in own_nodes(node):
        match n:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if makes_list(value):
                made.add(name)
                changed |= {name} if isinstance(value, ast.List) and not value.elts else set()  # it is empty, then
                displays |= {name} if not isinstance(value, ast.ListComp) else set()
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in _CHANGES:
                changed.add(name)
                displays.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                changed.add(name)
    return made & displays & changed


def makes_list(value: ast.expr) -> bool:
    """Whether an expression is a new list."""
    match value:
        case ast.List() | ast.ListComp() | ast.Call(func=ast.Name(id="list"), args=[]):
            return True
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return isinstance(left, ast.List) or isinstance(right, ast.List)
    return False


class _Rewriting(Transformer):
    """Rewrites the statements of one function; `counts` are the variables with the numbers of elements in use, `rows`
    the lists whose items are arrays."""

    def __init__(self, source: Source, counts: dict[str, str], rows: Collection[str], is_called: bool,
                 free: Names) -> None:  # fmt: skip
        self.source, self.counts, self.rows, self.is_called, self.free = source, counts, rows, is_called, free
        self.copied: set[str] = set()  # lists that change in the loop over what is visited

    def statements(self, s: ast.stmt) -> list[ast.stmt]:
        done = self.visit(s)
        return done if isinstance(done, list) else [done]

    def made(self, name: str, s: ast.stmt) -> list[ast.stmt]:
        vector = ast.Call(bound_name(new_list, "list"), [], [])
        if name in self.rows:
            vector = ast.Call(bound_name(new_rows, "list"), [ast.Constant(name)], [])
        return with_all([ast.Assign([ast.Name(name, ast.Store())], vector), self.count_set(name, ast.Constant(0))], s)

    def count_set(self, name: str, value: ast.expr) -> ast.stmt:
        return ast.Assign([ast.Name(self.counts[name], ast.Store())], value)

    def count(self, name: str) -> ast.expr:
        return ast.Name(self.counts[name], ast.Load())

    def items(self, node: ast.Name) -> ast.expr:
        """The elements in use."""
        call = ast.Call(bound_name(list_items, node.id), [ast.Name(node.id, ast.Load()), self.count(node.id)], [])
        call.written = node  # type: ignore[attr-defined]
        return with_location(call, node)

    def refused(self, node: ast.AST, name: str) -> Exception:
        first = "" if name in self.rows else ", insert(0, v), pop(0)"
        instead = (
            f"read it by its elements, len({name}), a loop over it, or np.array({name}); change it on lines of their "
            f"own, by append, extend{first} and v = {name}.pop()"
        )
        return self.source.refuse(node, f"this use of {name}, a list that changes", instead)

    # Changes.

    def appended(self, name: str, value: ast.expr, visited: bool = False) -> list[ast.stmt]:
        item = value if visited else self.visit(value)
        store = ast.Call(bound_name(append_item, "append"), [ast.Name(name, ast.Load()), self.count(name), item], [])
        more = self.count_set(name, ast.BinOp(self.count(name), ast.Add(), ast.Constant(1)))
        return [ast.Expr(store), more]

    def visit_Assign(self, node: ast.Assign) -> Any:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in self.counts:
                of_itself = any(isinstance(n, ast.Name) and n.id == name for n in subtrees(value))
                if of_itself and isinstance(value, ast.ListComp) and name not in self.rows:
                    return self.filled_by_itself(node, name, value)
                if not makes_list(value) or of_itself or (name in self.rows and isinstance(value, ast.BinOp)):
                    raise self.refused(node, name)
                begin = [self.count_set(name, ast.Constant(0))]
                if name in self.rows:
                    begin += [ast.Expr(ast.Call(bound_name(no_items, "list"), [ast.Name(name, ast.Load())], []))]
                return with_all([*begin, *self.filled(name, value)], node)
            case ast.Assign(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name) as made, attr="pop"), args=args)):
                if name in self.counts and is_end(args) and not (args and name in self.rows):
                    return with_all(self.popped(made, node.targets, bool(args)), node)
        return self.generic_visit(node)

    def filled_by_itself(self, s: ast.Assign, name: str, value: ast.ListComp) -> list[ast.stmt]:
        """The statements for ``hs = [f(h) for h in hs]``: the new items are in a list of their own before."""
        new, item = self.free.fresh(name), self.free.fresh("item")
        self.counts[new] = self.free.fresh(f"{new}_count")
        over = ast.comprehension(ast.Name(item, ast.Store()), ast.Name(new, ast.Load()), [], 0)
        copied = ast.ListComp(ast.Name(item, ast.Load()), [over])
        both = [ast.Assign([ast.Name(new, ast.Store())], value), ast.Assign([ast.Name(name, ast.Store())], copied)]
        return [t for made in with_all(both, s) for t in self.statements(made)]  # type: ignore[arg-type]

    def popped(self, made: ast.Name, targets: list[ast.expr], first: bool) -> list[ast.stmt]:
        """The statements that take the first or last item; targets are evaluated when it is gone."""
        name, held = made.id, f"{self.counts[made.id]}_item"
        value: ast.expr = ast.Subscript(self.items(made), ast.Constant(0 if first else -1), ast.Load())
        if name in self.rows:
            value = ast.Call(bound_name(taken_item, "pop"), [ast.Name(name, ast.Load()), self.count(name)], [])
        plain = all(isinstance(t, ast.Name) for t in targets)
        taken: list[ast.expr] = targets if plain else [ast.Name(held, ast.Store())]
        shift = self.shifted(made, [self.less(name)], 1) if first else []
        assigned = [] if plain else [ast.Assign([self.visit(t) for t in targets], ast.Name(held, ast.Load()))]
        return [ast.Assign(taken, value), *shift, self.count_set(name, self.less(name)), *assigned]

    def less(self, name: str) -> ast.expr:
        return ast.BinOp(self.count(name), ast.Sub(), ast.Constant(1))

    def shifted(self, made: ast.Name, bounds: list[ast.expr], by: int) -> list[ast.stmt]:
        """The loop over a range that sets each item to the one `by` places behind it."""
        turn = f"{self.counts[made.id]}_turn"
        other = ast.BinOp(ast.Name(turn, ast.Load()), ast.Add() if by > 0 else ast.Sub(), ast.Constant(abs(by)))
        target = ast.Subscript(self.items(made), ast.Name(turn, ast.Load()), ast.Store())
        move = ast.Assign([target], ast.Subscript(self.items(made), other, ast.Load()))
        loop = ast.Call(bound_name(range, "range"), bounds, [])
        return [ast.For(ast.Name(turn, ast.Store()), loop, [move], [])]

    def inserted(self, made: ast.Name, value: ast.expr) -> list[ast.stmt]:
        """The statements that insert an item before all others."""
        held = ast.Name(f"{self.counts[made.id]}_item", ast.Load())
        first = ast.Subscript(self.items(made), ast.Constant(0), ast.Store())
        bounds = [self.less(made.id), ast.Constant(0), ast.UnaryOp(ast.USub(), ast.Constant(1))]
        return [
            ast.Assign([ast.Name(held.id, ast.Store())], self.visit(value)),
            *self.appended(made.id, held, visited=True),
            *self.shifted(made, bounds, -1),
            ast.Assign([first], held),
        ]

    def extended(self, made: ast.Name, value: ast.expr) -> list[ast.stmt]:
        """The statements that append the items of a display, a comprehension, or what can be looped over."""
        name = made.id
        if isinstance(value, ast.List | ast.Tuple):
            held = [f"{self.counts[name]}_item{k}" for k in range(len(value.elts))]
            first = [
                ast.Assign([ast.Name(h, ast.Store())], self.visit(v)) for h, v in zip(held, value.elts, strict=True)
            ]
            return [*first, *(t for h in held for t in self.appended(name, ast.Name(h, ast.Load()), visited=True))]
        if any(isinstance(n, ast.Name) and n.id == name for n in subtrees(value)):
            raise self.refused(value, name)
        if isinstance(value, ast.ListComp | ast.GeneratorExp):
            own = with_own_variables(value, self.free.fresh)
            return nested_loops(own.generators, self.appended(name, own.elt), self.iterated)
        item = f"{self.counts[name]}_item"
        counted = isinstance(value, ast.Name) and value.id in self.counts
        over = self.items(value) if counted else self.visit(value)  # type: ignore[arg-type]
        body = self.appended(name, ast.Name(item, ast.Load()), visited=True)
        return [ast.For(ast.Name(item, ast.Store()), over, body, [])]

    def filled(self, name: str, value: ast.expr) -> list[ast.stmt]:
        """The statements that append the items of a new list."""
        match value:
            case ast.List(elts=items):
                return [t for item in items for t in self.appended(name, item)]
            case ast.BinOp(left=left, right=right):
                shown, times = (left, right) if isinstance(left, ast.List) else (right, left)
                loop = ast.Call(bound_name(range, "range"), [self.visit(times)], [])
                turn = ast.Name(f"{self.counts[name]}_turn", ast.Store())
                return [ast.For(turn, loop, self.filled(name, shown), [])]
            case ast.ListComp():
                made = with_own_variables(value, self.free.fresh)
                return nested_loops(made.generators, self.appended(name, made.elt), self.iterated)
        return []

    def visit_Expr(self, node: ast.Expr) -> Any:
        match node.value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[item], keywords=[]):
                if name in self.counts:
                    return with_all(self.appended(name, item), node)
            case ast.Call(ast.Attribute(ast.Name() as made, "sort" | "reverse" as method), [], keywords):
                if made.id in self.counts and made.id not in self.rows and (backwards := _order(method, keywords)):
                    function = np.sort if method == "sort" else np.array
                    items = ast.Call(bound_name(function, f"np.{function.__name__}"), [self.items(made)], [])
                    value = ast.Subscript(items, ast.Slice(None, None, ast.Constant(backwards)), ast.Load())
                    whole = ast.Subscript(self.items(made), ast.Slice(), ast.Store())
                    return with_all([ast.Assign([whole], value)], node)
            case ast.Call(func=ast.Attribute(value=ast.Name() as made, attr=method), args=args, keywords=[]):
                if made.id in self.counts and method == "extend" and len(args) == 1:
                    return with_all(self.extended(made, args[0]), node)
                shifts = made.id in self.counts and made.id not in self.rows
                if shifts and method == "insert" and len(args) == 2 and is_end(args[:1]):
                    return with_all(self.inserted(made, args[1]), node)
                if made.id in self.counts and method == "clear" and not args:
                    return self.visit(ast.copy_location(ast.Assign([made], ast.List([], ast.Load())), node))
                if made.id in self.counts and method == "pop" and is_end(args) and (shifts or not args):
                    unused = ast.Name(f"{self.counts[made.id]}_item", ast.Store())
                    return with_all(self.popped(made, [unused], bool(args)), node)
        return self.generic_visit(node)

    # Reads.

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """A list that is returned is a copy: nothing else has it. The differentiated function returns arrays."""
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        whole = [v.id for v in values if isinstance(v, ast.Name)]
        names = [n.id for n in subtrees(node) if isinstance(n, ast.Name)]

        def returned(value: ast.expr) -> ast.expr:
            if not (isinstance(value, ast.Name) and value.id in self.counts):
                return self.visit(value)
            if (names if value.id in self.rows else whole).count(value.id) > 1:
                raise self.refused(value, value.id)
            kept = bound_name(list_copy, "list") if self.is_called else bound_name(np.array, "np.array")
            return with_location(ast.Call(kept, [self.items(value)], []), value)

        if isinstance(node.value, ast.Tuple):
            node.value.elts = [returned(v) for v in node.value.elts]
        elif node.value is not None:
            node.value = returned(node.value)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.counts:
            raise self.refused(node, node.id)
        return node

    def read_only(self, node: ast.expr) -> ast.expr | None:
        """A list, or a slice of it, that is only read where it stands; None for other expressions."""
        match node:
            case ast.Name(id=name) if name in self.counts:
                return self.items(node)
            case ast.Subscript(ast.Name(id=name) as whole, ast.Slice() as part) if name in self.counts:
                items = with_location(ast.Subscript(self.items(whole), self.visit(part), ast.Load()), node)
                if name in self.copied:  # it is a list of its own, which does not change with the other
                    items = with_location(ast.Call(bound_name(list_copy, "list"), [items], []), node)
                return items
        return None

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        node.slice = self.visit(node.slice)
        if isinstance(node.value, ast.Name) and node.value.id in self.counts and not isinstance(node.slice, ast.Slice):
            node.value = self.items(node.value)
        elif isinstance(node.ctx, ast.Load) and (items := self.read_only(node)) is not None:
            return with_location(ast.Call(bound_name(list_copy, "list"), [items], []), node)
        else:
            node.value = self.visit(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        called = self.source.resolve(node.func)
        match node:
            case ast.Call(ast.Attribute(ast.Name() as whole, "index" | "count" as method), [value], []):
                if whole.id in self.counts:
                    function = position if method == "index" else count_of
                    made = ast.Call(bound_name(function, method), [self.items(whole), self.visit(value)], [])
                    return with_location(made, node)
        match node.args:
            case [ast.Name(id=name)] if called is len and name in self.rows:
                return with_location(self.count(name), node)
        if self.is_numpy(called):
            row = row_of(called)
            as_it_is = called is np.array or (row is not None and not row.shares)
            node.args = [self.array_like(a, as_it_is) for a in node.args]
            for k in node.keywords:
                k.value = self.array_like(k.value)
        else:
            reader = any(called is f for f in _READERS)
            reads = [reader or self.only_reads(called, k) for k in range(len(node.args))]
            node.args = [
                self.visit(a) if not read or (i := self.read_only(a)) is None else i
                for a, read in zip(node.args, reads, strict=True)
            ]
            node.keywords = [self.visit(k) for k in node.keywords]
        node.func = self.visit(node.func)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """``v in hs``."""
        match node:
            case ast.Compare(left, [ast.In() | ast.NotIn() as op], [ast.Name() as whole]) if whole.id in self.counts:
                found = ast.Call(bound_name(contains_item, "in"), [self.items(whole), self.visit(left)], [])
                return with_location(found if isinstance(op, ast.In) else ast.UnaryOp(ast.Not(), found), node)
        return self.generic_visit(node)

    def only_reads(self, called: object, k: int) -> bool:
        """Whether a function of the user's only reads the items of its argument number `k`."""
        plain = plain_function(called)
        if not isinstance(plain, types.FunctionType) or is_known(called) or is_definition(called):
            return False
        if package_of(plain) in ("numpy", "scipy"):
            return False
        source = self.source.source_of_called(plain, called)
        node = getattr(source, "node", None)
        if node is None or k >= len(node.args.args) or node.args.posonlyargs:
            return False
        name = node.args.args[k].arg
        read = [n for m in subtrees(node) for n in _items_read(source, m) if isinstance(n, ast.Name) and n.id == name]
        return len(read) == sum(isinstance(n, ast.Name) and n.id == name for n in subtrees(node))

    def is_numpy(self, called: object) -> bool:
        """Whether it is a function of NumPy, or what is lowered in its place."""
        name = getattr(called, "__name__", "")
        known = [getattr(module, name, None) for module in (np, np.linalg)]
        return any(f is not None and self.source.differentiable(f) is called for f in known)

    def array_like(self, node: ast.expr, as_it_is: bool = False) -> ast.expr:
        """An argument of NumPy's functions, which make arrays of lists and of those in a display of several."""
        if isinstance(node, ast.List | ast.Tuple):
            node.elts = [self.array_like(e) for e in node.elts]
            return node
        if (items := self.read_only(node)) is None:
            return self.visit(node)
        return items if as_it_is else with_location(ast.Call(bound_name(np.array, "np.array"), [items], []), node)

    def visit_For(self, node: ast.For) -> ast.AST:
        looped = [n.id for n in subtrees(node.iter) if isinstance(n, ast.Name) and n.id in self.counts]
        for name in looped:
            for n in (n for s in node.body for n in subtrees(s)):
                if isinstance(n, ast.Attribute) and n.attr in _CHANGES and first_name(n) == name and _is_direct(node):
                    raise self.source.refuse(n, f"{name}, which changes in a loop over it", "loop over a range")
        above, self.copied = self.copied, {n for n in looped if self.changes(node.body, [n])}
        items = self.read_only(node.iter)
        if items is None:
            node.iter = self.visit(node.iter)
        self.copied = above
        if items is not None:
            node.iter = items
        node.target, node.orelse = self.visit(node.target), [t for s in node.orelse for t in self.statements(s)]
        node.body = [t for s in node.body for t in self.statements(s)]
        return node

    @staticmethod
    def changes(body: list[ast.stmt], names: list[str]) -> bool:
        """Whether statements change lists of these names."""
        for n in (n for s in body for n in subtrees(s)):
            match n:
                case ast.Subscript(ast.Name(id=name), ctx=ast.Store() | ast.Del()) | ast.Attribute(ast.Name(id=name)):
                    if name in names:
                        return True
        return False

    def iterated(self, node: ast.expr) -> ast.expr:
        """What a loop is over, or a test in it."""
        items = self.read_only(node)
        return self.visit(node) if items is None else items

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        if (items := self.read_only(node.iter)) is not None:
            node.iter = items
            node.ifs = [self.visit(test) for test in node.ifs]
            return node
        return self.generic_visit(node)

    def tested(self, node: Any) -> ast.AST:
        """A list as a test, or in ``and`` and ``or`` of one: whether it has elements."""
        part = "operand" if isinstance(node, ast.UnaryOp) else "test"
        setattr(node, part, self._truth(getattr(node, part)))
        return self.generic_visit(node)

    visit_If = visit_While = visit_IfExp = visit_Assert = tested

    def _truth(self, test: ast.expr) -> ast.expr:
        if isinstance(test, ast.BoolOp):
            test.values = [self._truth(v) for v in test.values]
        if isinstance(test, ast.Name) and test.id in self.counts:
            return with_location(ast.Compare(self.count(test.id), [ast.Gt()], [ast.Constant(0)]), test)
        return test

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return self.tested(node) if isinstance(node.op, ast.Not) else self.generic_visit(node)


def _items_read(source: Source, node: ast.AST) -> list[ast.expr]:
    """The expressions whose items a node reads, and does not keep."""
    match node:
        case ast.Subscript(value=value, ctx=ast.Load()):
            return [value]
        case ast.For(iter=iterable) | ast.comprehension(iter=iterable):
            return [iterable]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _READING:
            return args
        case ast.Call(func=ast.Attribute(ast.Name("np")), args=args):
            return args
        case ast.Call(func=function, args=args) if is_definition(source.resolve(function)):
            return args
    return []


def is_end(args: list[ast.expr]) -> bool:
    """Whether the arguments of ``pop`` or ``insert`` say an end: none, the last item, or 0, the first."""
    return not args or (len(args) == 1 and isinstance(args[0], ast.Constant) and args[0].value is not False
                        and args[0].value == 0)  # fmt: skip


def _order(method: str, keywords: list[ast.keyword]) -> int:
    """The step in which ``sort`` or ``reverse`` puts the items; 0 for other arguments than these."""
    match method, keywords:
        case "reverse", []:
            return -1
        case "sort", []:
            return 1
        case "sort", [ast.keyword("reverse", ast.Constant(bool(value)))]:
            return -1 if value else 1
    return 0


def _is_direct(loop: ast.For) -> bool:
    """Whether a loop is over a list itself, not over a range of its length."""
    return not (isinstance(loop.iter, ast.Call) and first_name(loop.iter.func) in ("range", "prange"))


def with_all(statements: list[ast.stmt], s: ast.AST) -> list[ast.stmt]:
    """Statements with the source location of `s`."""
    return [with_location(t, s) for t in statements]


def nested_loops(
    generators: list[ast.comprehension], body: list[ast.stmt], visit: Callable = lambda node: node
) -> list[ast.stmt]:
    """The loops and branches of a comprehension around a body."""
    for g in reversed(generators):
        for test in reversed(g.ifs):
            body = [ast.If(visit(test), body, [])]
        body = [ast.For(g.target, visit(g.iter), body, [])]
    return body
