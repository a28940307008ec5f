"""Loops: over ranges, arrays, and several at once."""

from __future__ import annotations

import ast
import copy
from functools import cached_property

import numba
import numpy as np

from ..ir.affine import offset, plus
from ..ir.names import known
from ..ir.statements import Assign, Block, Loop, children, parse, reads, subtrees, unparse
from ..ir.structured_control import flagged, jumps, located, setting
from .array_creation import Makers
from .array_expressions import Leaf, Scalar, Several, Tree, numbers
from .calls import Calls
from .expressions import Done
from .live_range_splitting import variable_of
from .scope import stored_names
from .source import RANGES
from .views import ONE, ZERO, View

__all__ = ["Iteration"]


class Iteration(Calls):
    """Lowers loops."""

    stops: list[str]
    gone: list[list[str]]
    returned: str

    def block(self, statements: list[ast.stmt], first: bool = False) -> Block:
        raise NotImplementedError

    def statement(self, s: ast.stmt) -> None:
        raise NotImplementedError

    def loop(self, s: ast.For | ast.While) -> None:
        if isinstance(s, ast.While):
            self.run(s, s.body, "", [ZERO, ZERO, ONE])
            return
        call = s.iter
        called = self.function_of(call.func) if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and called in RANGES:
            bounds = [self.value(a) for a in call.args]
            bounds = [ZERO, bounds[0], ONE] if len(bounds) == 1 else [*bounds, ONE][:3]
            self.counted(s, s.target, s.body, bounds, called is numba.prange)
        elif called is reversed and isinstance(call, ast.Call) and isinstance(call.args[0], ast.Call):
            self.backwards(s, call.args[0])
        elif called in (np.ndindex, np.ndenumerate) and isinstance(call, ast.Call):
            self.every_index(s, call, called is np.ndenumerate)
        elif (items := self.unrolled(s.iter)) is not None:
            self.one_by_one(s, items)
        else:
            self.over(s)

    def unrolled(self, node: ast.expr) -> list[Tree] | None:
        """What a loop goes over, if it is a tuple of others than numbers, or some in parallel."""
        items = self.items_of(node)
        return None if items is None or all(map(numbers, items)) else items

    def items_of(self, node: ast.expr) -> list[Tree] | None:
        if isinstance(node, ast.Tuple | ast.List) or self.tuple_of(node) is not None:
            return self.tree(node).items  # type: ignore[attr-defined]
        called = self.function_of(node.func) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and called is enumerate and len(node.args) == 1:
            inner = self.items_of(node.args[0])
            return inner and [Several([Scalar(ast.Constant(k)), t]) for k, t in enumerate(inner)]
        if isinstance(node, ast.Call) and called is zip:
            given = [self.items_of(a) for a in node.args]
            if None not in given:
                return [Several(list(items)) for items in zip(*given, strict=False)]
        return None

    def held(self, s: ast.For, tree: Tree, moved: set[str]) -> Tree:
        """What a loop goes over, as it is before."""
        if isinstance(tree, Several):
            return Several([self.held(s, t, moved) for t in tree.items], tree.of)
        if isinstance(tree, Leaf) and self.root(tree.view.name) in moved:
            raise self.source.refuse(s, "a loop over an array that is made anew in it", "give the new one another name")
        return Leaf(self.frozen(tree.view)) if isinstance(tree, Leaf) else self.apart(s, tree)

    def apart(self, s: ast.stmt, tree: Tree, name: str = "held") -> Tree:
        raise NotImplementedError

    def one_by_one(self, s: ast.For, items: list[Tree]) -> None:
        if any(jumps(b) for b in s.body):
            raise self.source.refuse(s, "a jump in a loop over a tuple of arrays", "write its turns one by one")
        moved = {self.owners[n] for n in stored_names(s.body) if n in self.owners}
        items = [self.held(s, t, moved) for t in items]
        for t in items:
            done = ast.copy_location(Done(t), s)
            self.out += self.block([_assignment(s, s.target, done), *s.body])

    def backwards(self, s: ast.For, call: ast.Call) -> None:
        """``reversed(range(...))``."""
        bounds = [self.value(a) for a in call.args] if self.function_of(call.func) is range else []
        if not bounds or len(bounds) == 3:
            raise self.source.refuse(s, "reversed of something else than range(start, stop)", "write range(..., -1)")
        start, stop = [ZERO, bounds[0]] if len(bounds) == 1 else bounds
        self.counted(s, s.target, s.body, [plus(stop, -1), plus(start, -1), parse("-1")])

    def counted(
        self, s: ast.For, target: ast.expr, body: list[ast.stmt], bounds: list[ast.expr], parallel: bool = False
    ) -> None:
        """A loop over a range. A variable that is set in the loop, or read after it, is not the counter itself."""
        if not isinstance(target, ast.Name):
            raise self.source.refuse(s, "a loop with several variables", "use one variable")
        name = target.id
        if name in self.arrays or name in self.tuples:
            self.mixed(name)
            raise self.source.refuse(s, f"the loop variable {name}, which was an array", "use another name")
        local = self.local(target)
        outside = self.outside_loops(name)
        own = name in stored_names(body) or local in self.shared.bound or ast.Load in outside
        if own and ast.Store in outside:
            self.mixed(name)
        counter = self.names.fresh(f"{name}_turn") if own else local
        first: list[ast.stmt] = []
        if own:
            self.made.ranks.setdefault(local, 0)
            first = [_assignment(s, target, _number(counter))]
        self.made.ranks[counter], self.made.kinds[counter] = 0, "int"
        self.run(s, [*first, *body], counter, bounds, parallel)

    def outside_loops(self, name: str) -> set[type]:
        """Whether a loop variable is read, or set, anywhere but in loops that count with it."""
        if name in self.met:
            return self.met[name]
        found: set[type] = set()
        stack: list[ast.AST] = [self.source.node]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Name):
                found |= {type(node.ctx)} if node.id == name else set()
            elif isinstance(node, ast.For) and self.counts(node, name):
                stack += [node.iter, *node.orelse]
            else:
                stack += children(node)
        self.met[name] = found
        return found

    @cached_property
    def met(self) -> dict[str, set[type]]:
        """What is known of that."""
        return {}

    def counts(self, s: ast.For, name: str) -> bool:
        """Whether a loop counts with `name`, which nothing in it sets."""
        called = self.function_of(s.iter.func) if isinstance(s.iter, ast.Call) else None
        return unparse(s.target) == name and called in (*RANGES, reversed) and name not in stored_names(s.body)

    def over(self, s: ast.For) -> None:
        """A loop over arrays: enumerate, zip, or one itself."""
        counter = self.names.fresh("k")
        self.locals.add(counter)
        self.rename[counter] = counter
        target = ast.copy_location(ast.Name(counter, ast.Store()), s)
        first: list[ast.stmt] = []
        sizes: list[ast.expr] = []
        self.elements(s, s.target, s.iter, counter, first, sizes)
        stop = sizes[0] if len(sizes) == 1 else parse(f"min({', '.join(unparse(n) for n in sizes)})")
        self.counted(s, target, [*first, *s.body], [ZERO, stop, ONE])

    def elements(self, s: ast.For, target: ast.expr, given: ast.expr, counter: str, first: list[ast.stmt],
                 sizes: list[ast.expr]) -> None:  # fmt: skip
        """What a turn of a loop over `given` begins with, and how many elements there are."""
        called = self.function_of(given.func) if isinstance(given, ast.Call) else None
        if (
            isinstance(given, ast.Call)
            and called is enumerate
            and isinstance(target, ast.Tuple)
            and len(target.elts) == 2
        ):
            start = given.args[1] if len(given.args) > 1 else None
            if given.keywords:
                start = given.keywords[0].value
            number = _number(counter)
            if start is not None:
                number = ast.BinOp(number, ast.Add(), start)
            first.append(_assignment(s, target.elts[0], number))
            self.elements(s, target.elts[1], given.args[0], counter, first, sizes)
        elif isinstance(given, ast.Call) and called is zip and isinstance(target, ast.Tuple):
            if len(given.args) != len(target.elts) or given.keywords:
                raise self.source.refuse(s, "zip of other arguments than variables", "use as many arrays as variables")
            for t, a in zip(target.elts, given.args, strict=True):
                self.elements(s, t, a, counter, first, sizes)
        elif isinstance(given, ast.Call) and called in RANGES:
            bounds = [self.value(a) for a in given.args]
            start, stop, step = [ZERO, bounds[0], ONE] if len(bounds) == 1 else [*bounds, ONE][:3]
            texts = [unparse(n) for n in (start, stop, step)]
            sizes.append(parse(f"len(range({', '.join(texts)}))"))
            plain = texts[0] == "0" and texts[2] == "1"
            place = counter if plain else f"({texts[0]}) + {counter} * ({texts[2]})"
            first.append(_assignment(s, target, Done(Scalar(parse(place)))))
        else:
            self.rows_of(s, target, given, counter, first, sizes)

    def comprehended(self, node: ast.ListComp | ast.GeneratorExp) -> Tree:
        """Numbers, one for each turn: a vector."""
        generator = node.generators[0]
        if len(node.generators) > 1 or generator.ifs:
            raise self.source.refuse(node, "a comprehension with 'if' or several 'for'", "write a loop")
        own = {n.id: self.names.fresh(n.id) for n in subtrees(generator.target) if isinstance(n, ast.Name)}
        self.locals |= set(own.values())
        self.rename |= {n: n for n in own.values()}
        target, element = (_Renamed(own).visit(copy.deepcopy(n)) for n in (generator.target, node.elt))
        counter, name = self.names.fresh("k"), self.names.fresh("listed")
        self.locals.add(counter)
        self.rename[counter] = counter
        s = ast.copy_location(ast.For(target, generator.iter, [], []), node)
        first: list[ast.stmt] = []
        sizes: list[ast.expr] = []
        self.elements(s, target, generator.iter, counter, first, sizes)
        stop = sizes[0] if len(sizes) == 1 else parse(f"min({', '.join(unparse(n) for n in sizes)})")
        self.allocate(name, node, [stop], "", "np.float64")
        place = ast.Subscript(Done(Leaf(self.all_of(name))), _number(counter), ast.Store())
        body = [*first, _assignment(s, place, element)]
        self.counted(s, ast.copy_location(ast.Name(counter, ast.Store()), s), body, [ZERO, stop, ONE])
        return Leaf(self.all_of(name), True)

    def rows_of(self, s: ast.For, target: ast.expr, given: ast.expr, counter: str, first: list[ast.stmt],
                sizes: list[ast.expr]) -> None:  # fmt: skip
        tree = self.tree(given)
        moved = {self.owners[n] for n in stored_names(s.body) if n in self.owners}
        if isinstance(tree, Leaf) and self.root(tree.view.name) in moved:
            raise self.source.refuse(s, "a loop over an array that is made anew in it", "give the new one another name")
        if isinstance(tree, Several):
            rows = [t.items for t in tree.items if isinstance(t, Several)]
            if isinstance(target, ast.Tuple) and rows and {len(r) for r in rows} == {len(target.elts)}:
                for t, column in zip(target.elts, zip(*rows, strict=True), strict=True):  # each has a kind of its own
                    self.rows_of(s, t, located(Done(Several(list(column))), s), counter, first, sizes)
                return
            view = self.listed(s, tree)
        elif tree.rank:
            view = self.view_of(tree, given)
        else:
            raise self.source.refuse(
                s, "a loop over something else than range or an array", "write for i in range(...)"
            )
        if isinstance(tree, Leaf) and not tree.fresh:
            view = self.frozen(view)
        sizes.append(self.shape(view)[0])
        element = ast.Subscript(Done(Leaf(view)), _number(counter), ast.Load())
        first.append(_assignment(s, target, element))

    def listed(self, s: ast.AST, tree: Several) -> View:
        """A tuple of numbers, or of tuples of numbers, as an array."""

        def node(t: Tree) -> ast.expr:
            return ast.List([node(i) for i in t.items], ast.Load()) if isinstance(t, Several) else Done(t)

        made = node(tree)
        call = located(ast.Call(known(np.array, "array"), [made], []), s)
        found = Makers(self, call).listed(made, "")  # type: ignore[arg-type]
        assert isinstance(found, Leaf)
        return found.view

    def every_index(self, s: ast.For, call: ast.Call, with_values: bool) -> None:
        """Nested loops over all indices of an array."""
        target: ast.expr = s.target
        array: ast.expr | None = None
        if with_values:
            if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
                raise self.source.refuse(s, "this loop over np.ndenumerate", "write for index, value in ...")
            target, value = target.elts
            view = self.frozen(self.view(call.args[0]))
            array = Done(Leaf(view))
            sizes = self.shape(view)
        else:
            shape = self.shape_of(call.args[0])
            single = call.args[0].elts if isinstance(call.args[0], ast.Tuple) else call.args
            sizes = shape if shape is not None else [self.value(a) for a in single]
        counters = [self.names.fresh("k") for _ in sizes]
        self.locals |= set(counters)
        self.rename |= {c: c for c in counters}
        index = ast.Tuple([ast.Name(c, ast.Load()) for c in counters], ast.Load())
        first = [_assignment(s, target, index)]
        if array is not None:
            first.append(_assignment(s, value, ast.Subscript(array, index, ast.Load())))
        leave: list[ast.stmt] = []
        body: list[ast.stmt] = [*first, *s.body]
        if len(sizes) > 1 and any(jumps(b, ast.Break) for b in s.body):
            flag = self.names.fresh("left")
            self.locals.add(flag)
            self.rename[flag] = flag
            self.stores += [flag, flag]  # set at two places
            body = flagged(body, flag)
            leave = [located(ast.If(ast.Name(flag, ast.Load()), [ast.Break()], []), s)]
            self.statement(setting(flag, False, s))
        for c, n in reversed(list(zip(counters, sizes, strict=True))):
            loop = ast.For(ast.Name(c, ast.Store()), _range(n), body, [])
            body = [located(loop, s), *leave]
        self.loop(body[0])  # type: ignore[arg-type]

    def run(
        self, s: ast.For | ast.While, body: list[ast.stmt], index: str, bounds: list[ast.expr], parallel: bool = False
    ) -> None:
        """The loop itself; `index` is "" for while. A parallel loop in another one is serial, as in Numba."""
        parallel = parallel and not self.shared.parallel
        line = self.line
        self.enter(set(stored_names(body, added=False)))
        test: ast.expr | None = None
        if isinstance(s, ast.While):
            before, self.line = self.out, ""
            self.out = []
            test = self.test(s.test)
            if self.out:  # something is calculated for the test, so it belongs into the body
                leave = ast.If(ast.UnaryOp(ast.Not(), s.test), [ast.Break()], [])
                body, test = [ast.copy_location(leave, s), *body], ast.Constant(True)
                located(leave, s)
            self.out = before
        self.line = ""
        breaks = any(jumps(b, ast.Break) for b in body)
        stop = self.names.fresh("stop") if breaks else ""
        start, end, step = map(self.bound, bounds)
        if index:
            self.shared.bound.append(index)
            name, by = offset(step)
            changed = {self.rename.get(n, n) for n in stored_names(body)}
            if not name and by and not reads(start, end) & changed:
                last = plus(end, -1) if by > 0 else plus(start, 0)
                self.shared.ranges[index] = (start if by > 0 else plus(end, 1), last)
        self.stops.append(stop)
        self.gone.append([])
        self.shared.parallel |= parallel
        with self.inside():
            inner = self.block(body)
        self.shared.parallel &= not parallel
        self.gone.pop()
        stop = self.stops.pop()
        if index:
            self.shared.bound.remove(index)
            self.shared.ranges.pop(index, None)
        made = Loop(index, start, end, step, test, inner, stop, parallel=parallel, line=line)
        made.target = variable_of(s) if isinstance(s, ast.For) else ""
        if stop or not index:
            made.count = self.names.fresh("turns")
            self.made.ranks[made.count] = 0
            inner.insert(0, Assign(made.count, parse(f"{made.count} + 1")))
            self.out.append(Assign(made.count, ast.Constant(0)))
        if stop and stop != self.returned:
            self.made.ranks[stop] = 0
            self.out.append(Assign(stop, ast.Constant(False)))
        self.out.append(made)

    def bound(self, node: ast.expr) -> ast.expr:
        """A bound of a loop: code is put together of its text and operators, so nothing that binds less than sums."""
        made = next((n for n in (self.steady(node), node) if not _loose(n)), None)
        return ast.Name(self.number("bound", node), ast.Load()) if made is None else made

    def test(self, node: ast.expr) -> ast.expr:
        raise NotImplementedError


def _number(name: str) -> ast.expr:
    """A number of the result."""
    return Done(Scalar(ast.Name(name, ast.Load())))


def _assignment(s: ast.stmt, target: ast.expr, value: ast.expr) -> ast.stmt:
    return located(ast.Assign([target], value), s)


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)


def _loose(node: ast.expr) -> bool:
    """Whether an expression binds less than a sum."""
    bits = ast.BitOr | ast.BitXor | ast.BitAnd | ast.LShift | ast.RShift
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, bits)
    return isinstance(node, ast.IfExp | ast.BoolOp | ast.Compare) or isinstance(getattr(node, "op", None), ast.Not)


def _range(size: ast.expr) -> ast.expr:
    return ast.Call(known(range, "range"), [Done(Scalar(size))], [])
