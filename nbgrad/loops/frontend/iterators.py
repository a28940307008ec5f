"""Iterators of Python's, as loops: ``itertools``, ``next``, keys of ``sorted``, ``max`` and ``min``.

``for a, b in combinations(x, 2)`` becomes two loops, ``next((v for v in x if c), d)`` a loop that is left at the first
item, ``max(x, key=f)`` the item at the largest of the keys, and ``it = iter(x)`` a position that ``next(it)`` moves on.
What becomes statements must be evaluated in any case, once; other calls are left as they are, and refused.
"""

from __future__ import annotations

import ast
import functools
import itertools
import types
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.names import Names
from .evaluated_once import EvaluatedOnce
from .function_table import DEFINITIONS, is_definition
from .known_iterables import UNKNOWN, KnownIterables
from .sorting_keys import CHANGING_METHODS, SortingKeys, is_stable
from .structured_control import assignment, contains_jump, with_location
from .syntax import (
    Replaced,
    all_names,
    bound_name,
    changed_names,
    copy_tree,
    free_variables,
    number_node,
    own_nodes,
    stored_names,
    subtrees,
    unparse,
)

if TYPE_CHECKING:
    from .source import Source

__all__ = ["Iterators"]

_SIMPLE = ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.If, ast.For
#: What is defined in the library, where it is called.
_OWN = {DEFINITIONS[f]: f for f in (functools.reduce, itertools.accumulate)}
_CACHES = functools.cache, functools.lru_cache


class Iterators(EvaluatedOnce, SortingKeys):
    """Rewrites each function."""

    def __init__(self, source: Source, names: Names) -> None:
        super().__init__(source)
        self.names = names
        self.before: list[ast.stmt] = []  # what is done before the statement that is visited
        self.certain = False  # what is visited is evaluated once, in any case
        self.known: KnownIterables | None = None
        self.dictionaries: set[str] = set()
        self.effects: list[ast.AST] = []
        self.target = ""  # the name that is bound to what is visited
        self.positions: dict[str, str] = {}  # names of iterators, and what they are over

    # Functions and statements.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        kept = [d for d in node.decorator_list if not self.is_cache(d)]  # of functions that nothing else comes of
        node.decorator_list = kept
        above = self.known, self.positions, self.certain, self.before
        outside = free_variables(node)
        self.known, self.positions = KnownIterables(self.source, node, outside), self.positions_in(node, outside)
        self.certain, self.before = False, []
        self.dictionaries |= {n.targets[0].id for n in own_nodes(node) if makes_dictionary(n)}  # type: ignore[attr-defined]
        done = super().visit_FunctionDef(node)
        self.known, self.positions, self.certain, self.before = above
        return done

    def positions_in(self, function: ast.FunctionDef, outside: set[str]) -> dict[str, str]:
        """The names that are bound once, to ``iter(x)``, and only given to ``next`` and looped over; each with `x`."""
        nodes, stored = own_nodes(function), stored_names(function.body)
        stored += [a.arg for a in subtrees(function.args) if isinstance(a, ast.arg)]
        found: dict[str, str] = {}
        used: Counter[str] = Counter()
        for n in nodes:
            match n:
                case ast.Assign([ast.Name(id=name)], ast.Call(ast.Name("iter"), [ast.Name(id=of)], [])):
                    if "iter" in outside and stored.count(name) == 1 and stored.count(of) < 2:
                        found[name] = of
                case ast.Call(ast.Name("next"), [ast.Name(id=name)], []) | ast.For(iter=ast.Name(id=name)):
                    used[name] += 1
        mentions = Counter(n.id for n in subtrees(function) if isinstance(n, ast.Name))
        return {name: of for name, of in found.items() if mentions[name] == used[name] + 1}

    def is_cache(self, node: ast.expr) -> bool:
        """Whether a decorator keeps results alone."""
        called = self.source.resolve(node.func if isinstance(node, ast.Call) else node)
        return any(called is f for f in _CACHES)

    def visit(self, node: Any) -> Any:
        if not isinstance(node, _SIMPLE):
            return super().visit(node)
        above, self.before, self.certain = self.before, [], True
        evaluated = node.test if isinstance(node, ast.If) else node.iter if isinstance(node, ast.For) else node
        self.effects = [n for n in subtrees(evaluated) if self.has_effects(n)]
        if isinstance(node, ast.If | ast.For):
            field = "test" if isinstance(node, ast.If) else "iter"
            setattr(node, field, self.visit(getattr(node, field)))
            self.certain, first, self.before = False, self.before, []
            done = super().visit(node)
        else:
            done = super().visit(node)
            self.certain, first = False, self.before
        self.before = above
        return [with_location(t, node) for t in (*first, *(done if isinstance(done, list) else [done]))]

    def has_effects(self, node: ast.AST) -> bool:
        """Whether something may change by an expression: it binds a name, or calls a function of the user's or a method
        that may change its owner."""
        if isinstance(node, ast.NamedExpr):
            return True
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute) and self.resolve(node.func) is None:
            return node.func.attr in CHANGING_METHODS
        called = self.called(node.func)
        own = isinstance(called, types.FunctionType) and not is_definition(called)
        return own or called is None

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        match node.targets:
            case [ast.Name(id=name)] if name in self.positions and isinstance(node.value, ast.Call):
                node.value = ast.copy_location(ast.Constant(0), node.value)
            case [ast.Name(id=name)]:
                called = isinstance(node.value, ast.Call) and self.called(node.value.func) is next
                self.target = name if called and name not in all_names(node.value) else ""
        done = self.generic_visit(node)
        self.target = ""
        match node:
            case ast.Assign([ast.Name(id=name)], ast.Name(id=same)) if name == same:
                return ast.copy_location(ast.Pass(), node)
        return done

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """``hs.sort(key=f)`` as ``hs = sorted(hs, key=f)``."""
        match node.value:
            case ast.Call(ast.Attribute(ast.Name(id=name), "sort"), [], [_, *_] as keywords):
                if any(k.arg == "key" for k in keywords):
                    call = ast.Call(bound_name(sorted, "sorted"), [ast.Name(name, ast.Load())], keywords)
                    made = self.visit_Call(with_location(call, node))
                    if made is not call:
                        return assignment(node, ast.Name(name, ast.Store()), made)  # type: ignore[arg-type]
        return self.generic_visit(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        (node.test,) = self.uncertain([node.test])
        return self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp) -> ast.AST:
        generators: list[ast.comprehension] = []
        items: dict[str, ast.expr] = {}
        for g in node.generators:
            g.target = self.without_star(g.target, items)
        for k, g in enumerate(node.generators):
            g.iter = self.visit(g.iter) if k == 0 else self.uncertain([g.iter])[0]
            g.ifs = self.uncertain(g.ifs)
            generators += self.generators(g, items)
        node.generators = generators
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                setattr(node, part, Replaced(items).visit(self.uncertain([getattr(node, part)])[0]))
        for g in generators:
            g.ifs = [Replaced(items).visit(test) for test in g.ifs]
        return node

    def without_star(self, target: ast.expr, items: dict[str, ast.expr]) -> ast.expr:
        """The target of a generator over rows, for ``*x, y``; `items` gets what these names stand for then."""
        if not isinstance(target, ast.Tuple):
            return target
        stars = [k for k, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
        names = [t.value if isinstance(t, ast.Starred) else t for t in target.elts]
        if len(stars) != 1 or not all(isinstance(n, ast.Name) for n in names):
            return target
        (k,) = stars
        row, behind = self.names.fresh("row"), len(names) - 1 - k
        for j, name in enumerate(names):
            last = number_node(-behind) if behind else None
            place = ast.Slice(ast.Constant(k), last) if j == k else number_node(j if j < k else j - len(names))
            items[name.id] = ast.Subscript(ast.Name(row, ast.Load()), place, ast.Load())  # type: ignore[attr-defined]
        return ast.copy_location(ast.Name(row, ast.Store()), target)

    visit_GeneratorExp = visit_DictComp = visit_SetComp = visit_ListComp

    # Loops over what itertools makes.

    def generators(self, g: ast.comprehension, items: dict[str, ast.expr]) -> list[ast.comprehension]:
        """The generators in place of one over combinations or a product; `items` gets what names stand for then."""
        loops = self.nested(g.target, g.iter)
        named = None if loops is None else {t.id: v for t, v in loops[1] if isinstance(t, ast.Name)}
        if loops is None or named is None or len(named) < len(loops[1]):
            g.iter = self.single(g.iter)
            return [g]
        made = [ast.comprehension(t, over, [], 0) for t, over in loops[0]]
        items |= named
        made[-1].ifs = g.ifs
        return made

    def visit_For(self, node: ast.For) -> Any:
        counted = isinstance(node.iter, ast.Call) and self.called(node.iter.func) is itertools.count
        if counted and not node.orelse and isinstance(node.iter, ast.Call):
            return self.counted(node, node.iter)
        if isinstance(node.iter, ast.Name) and node.iter.id in self.positions:
            node = self.rest(node, node.iter.id)
        self.generic_visit(node)
        if isinstance(node.iter, ast.Call) and _changes(node.body, node.iter):
            if _OWN.get(self.called(node.iter.func)) is itertools.accumulate:  # type: ignore[call-overload]
                what = f"{unparse(node.iter)}, which reads what the loop over it changes"
                raise self.source.refuse(node, what, "make a list of it before the loop")
            return node  # what Python reads once, at first
        leaves = any(contains_jump(s, ast.Break) for s in node.body) or bool(node.orelse)
        loops = None if leaves else self.nested(node.target, node.iter)
        if loops is None:
            node.iter = self.single(node.iter)
            return node
        body: list[ast.stmt] = [*(ast.Assign([t], v) for t, v in loops[1]), *node.body]
        for target, over in reversed(loops[0]):
            body = [ast.For(target, over, body, [])]
        return with_location(body[0], node)

    def counted(self, node: ast.For, call: ast.Call) -> list[ast.stmt]:
        """``for k in itertools.count(start, step)``, which a jump must leave."""
        given: list[ast.expr] = [*call.args, *(ast.Constant(k) for k in (0, 1)[len(call.args) :])]
        start, step = given
        counter = self.names.fresh("count")
        first = assignment(node, ast.Name(counter, ast.Store()), ast.BinOp(start, ast.Sub(), copy_tree(step)))
        more = assignment(
            node, ast.Name(counter, ast.Store()), ast.BinOp(ast.Name(counter, ast.Load()), ast.Add(), step)
        )
        taken = assignment(node, node.target, ast.Name(counter, ast.Load()))
        loop = ast.While(ast.Constant(True), [more, taken, *node.body], [])
        return [first, self.visit_While(with_location(loop, node))]  # type: ignore[list-item]

    def rest(self, node: ast.For, name: str) -> ast.For:
        """A loop over what an iterator has not given yet."""
        place = self.names.fresh("place")
        position, over = ast.Name(place, ast.Load()), ast.Name(self.positions[name], ast.Load())
        moved = ast.Assign([ast.Name(name, ast.Store())], ast.BinOp(position, ast.Add(), ast.Constant(1)))
        taken = ast.Assign([node.target], ast.Subscript(over, position, ast.Load()))
        bounds = [ast.Name(name, ast.Load()), ast.Call(bound_name(len, "len"), [over], [])]
        loop = ast.Call(bound_name(range, "range"), bounds, [])
        return with_location(ast.For(ast.Name(place, ast.Store()), loop, [moved, taken, *node.body], node.orelse), node)

    def following(self, node: ast.Call, name: str) -> ast.expr:
        """The name of the next item of an iterator."""
        item, over = self.names.fresh("item"), ast.Name(self.positions[name], ast.Load())
        position = ast.Name(name, ast.Load())
        length = ast.Call(bound_name(len, "len"), [over], [])
        error = ast.Raise(bound_name(StopIteration, "StopIteration"))
        self.before += [
            ast.If(ast.Compare(position, [ast.GtE()], [length]), [error], []),
            ast.Assign([ast.Name(item, ast.Store())], ast.Subscript(over, position, ast.Load())),
            ast.Assign([ast.Name(name, ast.Store())], ast.BinOp(position, ast.Add(), ast.Constant(1))),
        ]
        return with_location(ast.Name(item, ast.Load()), node)

    def nested(
        self, target: ast.expr, iterable: ast.expr
    ) -> tuple[list[tuple[ast.expr, ast.expr]], list[tuple[ast.expr, ast.expr]]] | None:
        """The loops in place of one over ``product(a, b)`` or ``combinations(x, 2)``, and what is set in the innermost;
        None for others."""
        if not isinstance(iterable, ast.Call) or not isinstance(target, ast.Tuple):
            return None
        called, args = self.called(iterable.func), iterable.args
        if any(isinstance(e, ast.Starred) for e in (*target.elts, *args)):
            return None
        if called is itertools.product:
            match iterable.keywords:
                case []:
                    pass
                case [ast.keyword("repeat", ast.Constant(int(n)))] if 0 < n <= len(target.elts):
                    args = [copy_tree(a) for _ in range(n) for a in args]
                case _:
                    return None
            plain = all(is_stable(a) for a in args)
            return (list(zip(target.elts, args, strict=True)), []) if plain and len(args) == len(target.elts) else None
        match args:
            case [over, ast.Constant(int(size))] if not iterable.keywords and size == len(target.elts) > 0:
                again = called is itertools.combinations_with_replacement
                if called is itertools.combinations or again:
                    return self.increasing(target, over, int(not again))
        return None

    def increasing(
        self, target: ast.Tuple, over: ast.expr, step: int
    ) -> tuple[list[tuple[ast.expr, ast.expr]], list[tuple[ast.expr, ast.expr]]] | None:
        """The loops over increasing positions in `over`."""
        first: ast.expr = ast.Constant(0)
        match over:
            case ast.Call(ast.Name("range"), [stop], []) if is_stable(over):
                pass
            case ast.Call(ast.Name("range"), [first, stop], []) if is_stable(over):
                pass
            case ast.Name():
                stop = ast.Call(bound_name(len, "len"), [over], [])
            case _:
                return None
        items = isinstance(over, ast.Name)
        counters = [self.names.fresh("position") if items else t for t in target.elts]
        names = [c if isinstance(c, str) else c.id if isinstance(c, ast.Name) else "" for c in counters]
        if not all(names):
            return None
        loops: list[tuple[ast.expr, ast.expr]] = []
        for name in names:
            bounds = [copy_tree(first), copy_tree(stop)]
            loops.append((ast.Name(name, ast.Store()), ast.Call(bound_name(range, "range"), bounds, [])))
            first = ast.Name(name, ast.Load())
            first = ast.BinOp(first, ast.Add(), ast.Constant(1)) if step else first
        taken = [ast.Subscript(copy_tree(over), ast.Name(n, ast.Load()), ast.Load()) for n in names]
        pairs: list[tuple[ast.expr, ast.expr]] = list(zip(target.elts, taken, strict=True))
        return loops, pairs if items else []

    def single(self, iterable: ast.expr) -> ast.expr:
        """What a loop is over in place of ``pairwise(x)``, ``islice(x, n)``, or tuples of known integers."""
        if not isinstance(iterable, ast.Call):
            return iterable
        called, args = self.called(iterable.func), iterable.args
        match args:
            case [ast.Name() as x] if called is itertools.pairwise:
                ahead = ast.Subscript(copy_tree(x), ast.Slice(ast.Constant(1)), ast.Load())
                return with_location(ast.Call(bound_name(zip, "zip"), [x, ahead], []), iterable)
            case [ast.Name() as x, *bounds] if called is itertools.islice and 0 < len(bounds) < 4:
                limits = [None, bounds[0]] if len(bounds) == 1 else bounds
                return with_location(ast.Subscript(x, ast.Slice(*limits), ast.Load()), iterable)
        if called in (itertools.permutations, itertools.combinations, itertools.product) and self.known is not None:
            rows = [self.known.value(r) for r in self.known.items(iterable) or ()]
            if rows and all(isinstance(r, tuple) and r and all(type(v) is int for v in r) for r in rows):
                table = ast.Call(bound_name(np.array, "np.array"), [ast.Constant(0)], [])
                display = [ast.List([ast.Constant(v) for v in r], ast.Load()) for r in rows]  # type: ignore[attr-defined]
                table.args = [ast.List(display, ast.Load())]  # type: ignore[arg-type]
                return with_location(table, iterable)
        return iterable

    # Calls.

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = self.called(node.func)
        called = _OWN.get(called, called) if isinstance(called, types.FunctionType) else called
        match node:
            case ast.Call(ast.Attribute(owner, "index" | "count" as method), [item], []) if self.known is not None:
                items, value = [self.known.value(e) for e in self.known.items(owner) or ()], self.known.value(item)
                found = items and UNKNOWN not in (*items, value)
                if found and (method == "count" or value in items):
                    return with_location(ast.Constant(getattr(items, method)(value)), node)
            case ast.Call(args=[ast.Call(function, [over], [])], keywords=[]) if (
                called is reversed and self.comes_first(node)
            ):
                if self.called(function) in (list, tuple) and self.gives_tuples(over):
                    node.args = [ast.copy_location(ast.Name(self.held(over), ast.Load()), node)]
            case ast.Call(args=[over], keywords=[]) if (
                called is sorted and self.comes_first(node) and self.gives_tuples(over)
            ):
                name = ast.copy_location(ast.Name(self.held(over), ast.Load()), node)
                self.before.append(ast.Expr(ast.Call(ast.Attribute(name, "sort", ast.Load()), [], [])))
                return copy_tree(name)
            case ast.Call(args=[over], keywords=[_, *_] as keywords):
                made = self.by_key(node, called, over, {k.arg: k.value for k in keywords})
                return node if made is None else with_location(made, node)
            case ast.Call(args=[ast.Name(id=name)]) if (
                called is next and name in self.positions and self.comes_first(node)
            ):
                return self.following(node, name)
            case ast.Call(args=[ast.GeneratorExp(generators=[_]) as made, *default], keywords=[]) if called is next:
                if self.comes_first(node) and len(default) < 2:
                    return with_location(self.first_item(node, made, default), node)
            case ast.Call(args=[ast.GeneratorExp() as made], keywords=[]) if called in (any, all):
                return self.first_that_decides(node, made, called is any)
            case ast.Call(args=[function, over, *initial], keywords=[]) if called is functools.reduce:
                node.args = [function, self.listed(over), *initial]
            case ast.Call(args=[over, *others]) if called is itertools.accumulate:
                node.args = [self.listed(over), *others]
        return node

    def first_that_decides(self, node: ast.Call, made: ast.GeneratorExp, wanted: bool) -> ast.expr:
        """``any(c for v in x)`` as ``next((True for v in x if c), False)``, where it matters at how many one looks."""
        later = [made.elt, *(t for g in made.generators for t in g.ifs), *(g.iter for g in made.generators[1:])]
        parts = [n for part in later for n in subtrees(part)]
        effects = any(map(self.has_effects, parts))
        if not (effects or any(isinstance(n, ast.Subscript) for n in parts)):
            return node
        if len(made.generators) > 1 or not self.comes_first(node):
            if effects:
                what = f"{unparse(node)}, whose items may change something, and are not all looked at"
                raise self.source.refuse(node, what, "write it as a loop with break")
            return node
        (g,) = made.generators
        g.ifs.append(made.elt if wanted else ast.UnaryOp(ast.Not(), made.elt))
        made.elt = ast.Constant(wanted)
        return with_location(self.first_item(node, made, [ast.Constant(not wanted)]), node)

    def first_item(self, node: ast.Call, made: ast.GeneratorExp, default: list[ast.expr]) -> ast.expr:
        """The name of the first item of a generator, which a loop before finds."""
        (g,) = made.generators
        found = self.target or self.names.fresh("first")
        own = [n.id for n in subtrees(g.target) if isinstance(n, ast.Name)]
        renamed = {n: self.names.fresh(n) for n in own}
        inner = with_names(made, renamed)
        (g,) = inner.generators
        missing = self.names.fresh("missing")
        early = bool(default) and not any(isinstance(n, ast.Call) for n in subtrees(default[0]))
        flag = [] if early else [assignment(node, ast.Name(missing, ast.Store()), ast.Constant(False))]
        body: list[ast.stmt] = [assignment(node, ast.Name(found, ast.Store()), inner.elt), *flag, ast.Break()]
        for test in reversed(g.ifs):
            body = [ast.If(test, body, [])]
        if early:
            self.before.append(assignment(node, ast.Name(found, ast.Store()), default[0]))
        else:
            self.before.append(assignment(node, ast.Name(missing, ast.Store()), ast.Constant(True)))
        self.before.append(ast.For(g.target, g.iter, body, []))
        if not early:
            end: ast.stmt = ast.Raise(bound_name(StopIteration, "StopIteration"))
            if default:  # evaluated where it is needed
                end = assignment(node, ast.Name(found, ast.Store()), default[0])
            self.before.append(ast.If(ast.Name(missing, ast.Load()), [end], []))
        return ast.Name(found, ast.Load())


def _changes(body: list[ast.stmt], iterable: ast.Call) -> bool:
    """Whether the body of a loop binds a name in what it is over, or may write one that stands there by itself."""
    alone = {a.id for a in iterable.args if isinstance(a, ast.Name)}
    lazy = any(isinstance(n, ast.Lambda | ast.GeneratorExp) for n in subtrees(iterable))
    held = all_names(iterable) if lazy else alone
    return not (held.isdisjoint(changed_names(body)) and all_names(iterable).isdisjoint(stored_names(body)))


def makes_dictionary(node: ast.AST) -> bool:
    """Whether a statement binds a name to a dictionary."""
    match node:
        case ast.Assign([ast.Name()], ast.Dict() | ast.DictComp() | ast.Call(ast.Name("dict" | "defaultdict"))):
            return True
    return False


def with_names(made: ast.GeneratorExp, names: dict[str, str]) -> ast.GeneratorExp:
    """A generator with other names for its variables."""
    twin = copy_tree(made)
    for n in subtrees(twin):
        if isinstance(n, ast.Name) and n.id in names:
            n.id = names[n.id]
    return twin
