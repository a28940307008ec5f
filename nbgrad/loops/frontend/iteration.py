"""Lowering of loops: all forms become loops over ranges, or while loops.

Loops over arrays, ``enumerate``, ``zip``, ``reversed``, ``np.ndindex`` and comprehensions count over a range and assign
elements to their targets.
"""

from __future__ import annotations

import ast
import copy
from collections import defaultdict
from collections.abc import Collection
from functools import cached_property

import numba
import numpy as np

from ..ir.affine import offset, plus
from ..ir.names import called as call_of
from ..ir.statements import Assign, Check, Loop, Print, walk
from ..ir.terms import (
    FALSE,
    MINUS_ONE,
    ONE,
    TRUE,
    ZERO,
    Binary,
    Compare,
    Logical,
    Select,
    Term,
    Unary,
    Variable,
)
from ..ir.type_inference import DTYPES
from .array_creation import ArrayCreation
from .array_expressions import ArrayExpr, Leaf, Lowered, Scalar, TupleExpr
from .filled_numbers import check_filled
from .function_table import RANGES
from .growing_lists import makes_list, nested_loops
from .list_vectors import append_item, empty_list, list_items
from .lists_of_rows import RowList, row_list, store_item, type_of_row
from .live_range_splitting import loop_target_text
from .record_types import is_record
from .records import shape_of_record
from .structured_control import assignment, contains_jump, flag_assignment, flag_breaks, with_location
from .syntax import Replaced, bound_name, children, copy_tree, stored_names, subtrees, unparse
from .unrolling import EnclosingRange, Unrolling
from .views import View, fold_negation

__all__ = ["Iteration"]


class Iteration(Unrolling):
    """Lowers loops."""

    def loop(self, s: ast.For | ast.While) -> None:
        """Lower a loop, by what it iterates over."""
        if isinstance(s, ast.While):
            self.build_loop(s, s.body, "", [ZERO, ZERO, ONE])
            return
        called = self.function_of(s.iter.func) if isinstance(s.iter, ast.Call) else None
        if called in (np.ndindex, numba.pndindex, np.ndenumerate):
            self.index_loops(s, s.iter, called is np.ndenumerate)  # type: ignore[arg-type]
            return
        s = copy.copy(s)
        s.iter = call = self.with_tuples_lowered(s.iter)
        if (zipped := self.zip_of_tuples(s)) is not None:
            self.loop(zipped)
            return
        if (items := self.unrolled_items(s, s.iter)) is not None:
            self.unroll(s, items)
            return
        called = self.function_of(call.func) if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and called in RANGES:
            bounds = [self.value(a) for a in call.args]
            bounds = [ZERO, bounds[0], ONE] if len(bounds) == 1 else [*bounds, ONE][:3]
            self.range_loop(s, s.target, s.body, bounds, called is numba.prange)
        elif called is reversed and (inner := self.reversed_range(s.iter)) is not None:
            self.range_loop(s, s.target, s.body, inner)
        else:
            self.array_loop(s)

    def reversed_range(self, node: ast.expr) -> list[Term] | None:
        """Start, stop and step of ``reversed(range(...))``; None for anything else."""
        call = node.args[0] if isinstance(node, ast.Call) and self.function_of(node.func) is reversed else None
        if not isinstance(call, ast.Call) or self.function_of(call.func) is not range:
            return None
        bounds = [self.value(a) for a in call.args]
        start, stop, step = [ZERO, bounds[0], ONE] if len(bounds) == 1 else [*bounds, ONE][:3]
        if step is ONE:
            return [plus(stop, -1), plus(start, -1), MINUS_ONE]
        before = Binary("-", start, step)
        trips = call_of(len, call_of(range, start, stop, step))
        return [Binary("+", before, Binary("*", trips, step)), before, fold_negation(Unary("-", step))]

    def range_loop(
        self, s: ast.For, target: ast.expr, body: list[ast.stmt], bounds: list[Term], parallel: bool = False
    ) -> None:
        """A loop over a range. A target that is set in the loop or read after it is a copy of the counter."""
        if not isinstance(target, ast.Name):
            raise self.source.refuse(s, "a loop with several variables", "use one variable")
        name = target.id
        if name in self.arrays or name in self.tuples:
            self.split_if_reused(name)
            raise self.source.refuse(s, f"the loop variable {name}, which was an array", "use another name")
        local = self.local(target)
        outside = self.uses_outside_loops[name]
        own = name in stored_names(body) or local in self.shared.induction_variables or ast.Load in outside
        if own and ast.Store in outside:
            self.split_if_reused(name)
        counter = self.names.fresh(f"{name}_turn") if own else local
        first: list[ast.stmt] = []
        if own:
            self.lowered_function.ranks.setdefault(local, 0)
            first = [assignment(s, target, _number(counter))]
        self.lowered_function.ranks[counter], self.lowered_function.kinds[counter] = 0, "int"
        known = not parallel and self.can_be_unrolled(s.iter)
        named = frozenset().union(*(b.named for b in bounds))
        self.shared.ranges_around.append(EnclosingRange(counter, self.rewrite_key(s), known, named))
        self.build_loop(s, [*first, *body], counter, bounds, parallel)
        self.shared.ranges_around.pop()

    @cached_property
    def uses_outside_loops(self) -> dict[str, set[type]]:
        """Whether a name is read (Load) or set (Store) outside of the loops that count with it."""
        contexts: dict[str, set[type]] = defaultdict(set)
        stack: list[tuple[ast.AST, frozenset[str]]] = [(self.source.node, frozenset())]
        while stack:
            node, counters = stack.pop()
            if isinstance(node, ast.Name):
                if node.id not in counters:
                    contexts[node.id].add(type(node.ctx))
            elif isinstance(node, ast.For) and (name := self.plain_counter(node)):
                stack += [(n, counters) for n in (node.iter, *node.orelse)]
                stack += [(n, counters | {name}) for n in node.body]
            else:
                stack += [(n, counters) for n in children(node)]
        return contexts

    def plain_counter(self, s: ast.For) -> str:
        """The name that a loop counts with, and does not set; "" for other loops."""
        name = s.target.id if isinstance(s.target, ast.Name) else ""
        called = self.function_of(s.iter.func) if isinstance(s.iter, ast.Call) else None
        return name if called in (*RANGES, reversed) and name not in stored_names(s.body) else ""

    def array_loop(self, s: ast.For) -> None:
        """A loop over an array, or ``enumerate`` or ``zip`` of arrays and ranges."""
        counter = self.names.fresh("k")
        self.locals.add(counter)
        self.rename[counter] = counter
        target = ast.copy_location(ast.Name(counter, ast.Store()), s)
        first: list[ast.stmt] = []
        sizes: list[Term] = []
        self.elements(s, s.target, s.iter, counter, first, sizes)
        stop = sizes[0] if len(sizes) == 1 else call_of(min, *sizes)
        self.range_loop(s, target, [*first, *s.body], [ZERO, stop, ONE])

    def elements(self, s: ast.For, target: ast.expr, iterable: ast.expr, counter: str, first: list[ast.stmt],
                 sizes: list[Term]) -> None:  # fmt: skip
        """Append the assignments that begin an iteration over `iterable` to `first`, and its lengths to `sizes`."""
        bounds = self.reversed_range(iterable)
        iterable = iterable if bounds else self.forwards(iterable)
        called = self.function_of(iterable.func) if isinstance(iterable, ast.Call) else None
        if (
            isinstance(iterable, ast.Call)
            and called is enumerate
            and isinstance(target, ast.Tuple)
            and len(target.elts) == 2
        ):
            begin = [*iterable.args[1:], *(k.value for k in iterable.keywords)]
            number = _number(counter)
            if begin:
                number = ast.BinOp(number, ast.Add(), begin[0])
            first.append(assignment(s, target.elts[0], number))
            self.elements(s, target.elts[1], iterable.args[0], counter, first, sizes)
        elif isinstance(iterable, ast.Call) and called is zip and isinstance(target, ast.Tuple):
            if len(iterable.args) != len(target.elts):
                raise self.source.refuse(
                    s, "a zip that does not match the loop variables", "use as many arrays as variables"
                )
            lengths: list[Term] = []
            for t, a in zip(target.elts, iterable.args, strict=True):
                before = len(sizes)
                self.elements(s, t, a, counter, first, sizes)
                lengths.append(call_of(min, *sizes[before:]) if len(sizes) > before + 1 else sizes[before])
            for length in lengths[1:] if self.is_strict(iterable) else ():
                text = f"{self.lowered_function.name}: {unparse(iterable)}: of different lengths"
                self.emit(Check(Compare(("!=",), (length, lengths[0])), text))
        elif isinstance(iterable, ast.Call) and (bounds or called in RANGES):
            bounds = bounds or [self.value(a) for a in iterable.args]
            start, stop, step = [ZERO, bounds[0], ONE] if len(bounds) == 1 else [*bounds, ONE][:3]
            sizes.append(call_of(len, call_of(range, start, stop, step)))
            count = Variable(counter)
            plain = start is ZERO and step is ONE
            item = count if plain else Binary("+", start, Binary("*", count, step))
            first.append(assignment(s, target, Lowered(Scalar(item))))
        else:
            self.rows_of(s, target, iterable, counter, first, sizes)

    def lower_comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> ArrayExpr:
        """A comprehension: a vector with a scalar per iteration."""
        node = copy.copy(node)
        node.generators = [copy.copy(g) for g in node.generators]
        node.generators[0].iter = self.with_tuples_lowered(node.generators[0].iter)
        if (unrolled := self.unrolled_comprehension(node)) is not None:
            return unrolled
        grows = len(node.generators) > 1 or node.generators[0].ifs
        key = self.rewrite_key(node)
        self.shared.comprehensions.append(key)
        made = self.growing_comprehension if grows else self.plain_comprehension
        of_rows = key in self.shared.findings.rewrites.lists_of_rows
        tree = made(node, of_rows)
        self.shared.comprehensions.pop()
        if isinstance(node, ast.ListComp):
            self.shared.lists.setdefault(tree.view.name, 1 if of_rows and not makes_list(node.elt) else tree.rank)
        return tree

    def plain_comprehension(self, node: ast.ListComp | ast.GeneratorExp, of_rows: bool) -> Leaf:
        """A comprehension with one iteration for each item; of comprehensions with fixed lengths, an array with an axis
        for each. `of_rows`: its elements are arrays."""
        name = self.names.fresh("listed")
        renamed = Replaced({})
        levels: list[tuple[ast.For, str, list[ast.stmt], Term]] = []
        element: ast.expr = node
        while not levels or _is_nested(element, renamed.names):
            assert isinstance(element, ast.ListComp | ast.GeneratorExp)
            (generator,) = element.generators
            own = {n.id: self.names.fresh(n.id) for n in subtrees(generator.target) if isinstance(n, ast.Name)}
            counter = self.names.fresh("k")
            self.locals |= {*own.values(), counter}
            self.rename |= {n: n for n in (*own.values(), counter)}
            renamed.names = {**renamed.names, **own}
            s = ast.copy_location(ast.For(renamed.visit(copy_tree(generator.target)), generator.iter, [], []), node)
            first: list[ast.stmt] = []
            sizes: list[Term] = []
            self.elements(s, s.target, generator.iter, counter, first, sizes)
            levels.append((s, counter, first, sizes[0] if len(sizes) == 1 else call_of(min, *sizes)))
            element = element.elt
        indices: list[ast.expr] = [_number(counter) for _, counter, *_ in levels]
        rows = RowList(name, tuple([stop for *_, stop in levels]), self.out)
        value = renamed.visit(copy_tree(element))
        if of_rows:
            store = ast.Expr(ast.Call(bound_name(store_item, "listed"), [row_list(rows), *indices, value], []))
            body = [with_location(store, node)]
        else:
            self.allocate(name, node, [*rows.counts], "", DTYPES["float"])
            index = indices[0] if len(indices) == 1 else ast.Tuple(indices, ast.Load())
            slot = ast.Subscript(Lowered(Leaf(self.whole_view(name))), index, ast.Store())
            body = [assignment(node, slot, value)]
        for s, counter, first, stop in levels[:0:-1]:
            over = ast.Call(bound_name(range, "range"), [Lowered(Scalar(stop))], [])
            body = [with_location(ast.For(ast.Name(counter, ast.Store()), over, [*first, *body], []), s)]
        s, counter, first, stop = levels[0]
        self.range_loop(s, ast.copy_location(ast.Name(counter, ast.Store()), s), [*first, *body], [ZERO, stop, ONE])
        return Leaf(self.whole_view(rows.array or name), True)

    def growing_comprehension(self, node: ast.ListComp | ast.GeneratorExp, of_rows: bool) -> Leaf:
        """A comprehension with tests or several loops: a list that grows. `of_rows`: its elements are arrays."""
        if self.shared.parallel:
            raise self.source.refuse(
                node, "a comprehension with 'if' or several 'for' in a parallel loop", "write a loop"
            )
        targets = [n for g in node.generators for n in subtrees(g.target) if isinstance(n, ast.Name)]
        own = {n.id: self.names.fresh(n.id) for n in targets}
        count = self.names.fresh("count")
        self.locals |= {*own.values(), count}
        self.rename |= {n: n for n in (*own.values(), count)}
        self.stores += [count, count]  # set more than once
        renamed = Replaced(own).visit(copy_tree(node))
        renamed.generators[0].iter = node.generators[0].iter  # Python evaluates it outside
        name = self.names.fresh("listed")
        vector = row_list(RowList(name)) if of_rows else Lowered(Leaf(empty_list(self, node, name)))
        root, walrus = self.root_expression, self.walrus_in
        counter = ast.Name(count, ast.Load())
        append = ast.Expr(ast.Call(bound_name(append_item, "append"), [vector, counter, renamed.elt], []))
        more = ast.Assign([ast.Name(count, ast.Store())], ast.BinOp(counter, ast.Add(), ast.Constant(1)))
        begin = ast.Assign([ast.Name(count, ast.Store())], ast.Constant(0))
        for s in (begin, *nested_loops(renamed.generators, [append, more])):
            self.out += self.block([with_location(s, node)])
        self.root_expression, self.walrus_in = root, walrus
        items = ast.Call(bound_name(list_items, "listed"), [vector, counter], [])
        tree = self.tree(with_location(items, node))
        assert isinstance(tree, Leaf)
        return tree

    def rows_of(self, s: ast.For, target: ast.expr, iterable: ast.expr, counter: str, first: list[ast.stmt],
                sizes: list[Term]) -> None:  # fmt: skip
        """`elements` for an array, or for a tuple of scalars."""
        tree = self.tree(iterable)
        if isinstance(tree, Leaf) and self.storage_of(tree.view.name) in self.arrays_of(
            stored_names(s.body, added=False)
        ):
            tree = self.as_it_was(s, tree)
        if is_record(tree):
            sizes.append(shape_of_record(self, s, tree)[0])  # type: ignore[arg-type]
            first.append(assignment(s, target, ast.Subscript(Lowered(tree), _number(counter), ast.Load())))
            return
        if isinstance(tree, TupleExpr):
            rows = [t.items for t in tree.items if isinstance(t, TupleExpr)]
            if isinstance(target, ast.Tuple) and rows and {len(r) for r in rows} == {len(target.elts)}:
                for t, column in zip(target.elts, zip(*rows, strict=True), strict=True):  # columns may differ in kind
                    self.rows_of(s, t, with_location(Lowered(TupleExpr(list(column))), s), counter, first, sizes)
                return
            view = self.tuple_as_array(s, tree)
            self.note_standing(view.name, frozenset(self.arrays_in(tree)))
        elif tree.rank:
            view = self.view_of(tree, iterable)
        else:
            raise self.source.refuse(
                s, "a loop over something other than range or an array", "write for i in range(...)"
            )
        if isinstance(tree, Leaf) and not tree.fresh:
            view = self.snapshot_view(view)
        sizes.append(self.shape(view)[0])
        element = ast.Subscript(Lowered(Leaf(view)), _number(counter), ast.Load())
        first.append(assignment(s, target, element))

    def tuple_as_array(self, s: ast.AST, tree: TupleExpr) -> View:
        """A tuple of scalars, of tuples of scalars, or of arrays, as a new array."""

        def node(t: ArrayExpr) -> ast.expr:
            return ast.List([node(i) for i in t.items], ast.Load()) if isinstance(t, TupleExpr) else Lowered(t)

        nested = node(tree)
        nested.written = s.iter if isinstance(s, ast.For) else s  # type: ignore[attr-defined]
        call = with_location(ast.Call(bound_name(np.array, "array"), [nested], []), s)
        array = ArrayCreation(self, call).from_display(nested, "")  # type: ignore[arg-type]
        assert isinstance(array, Leaf)
        made_of = {type_of_row(self, s, t) for t in tree.items}
        if len(made_of) == 1:
            self.shared.note_rows(array.view.name, made_of.pop())
        return array.view

    def index_loops(self, s: ast.For, call: ast.Call, with_values: bool) -> None:
        """``np.ndindex`` and ``np.ndenumerate`` as nested loops over all indices."""
        target: ast.expr = s.target
        array: ast.expr | None = None
        if with_values:
            if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
                raise self.source.refuse(s, "this loop over np.ndenumerate", "write for index, value in ...")
            target, value = target.elts
            view = self.snapshot_view(self.view(call.args[0]))
            array = Lowered(Leaf(view))
            sizes = self.shape(view)
        else:
            args = self.expand_starred(call).args
            only = self.tree(args[0]) if len(args) == 1 else None
            sizes = [self.value(a) for a in (map(Lowered, only.items) if isinstance(only, TupleExpr) else args)]
        counters = [self.names.fresh("k") for _ in sizes]
        self.locals |= set(counters)
        self.rename |= {c: c for c in counters}
        index = ast.Tuple([ast.Name(c, ast.Load()) for c in counters], ast.Load())
        first = [assignment(s, target, index)]
        if array is not None:
            first.append(assignment(s, value, ast.Subscript(array, index, ast.Load())))
        leave: list[ast.stmt] = []
        body: list[ast.stmt] = [*first, *s.body]
        if len(sizes) > 1 and any(contains_jump(b, ast.Break) for b in s.body):
            flag = self.names.fresh("left")
            self.locals.add(flag)
            self.rename[flag] = flag
            self.stores += [flag, flag]  # set twice
            body = flag_breaks(body, flag)
            leave = [with_location(ast.If(ast.Name(flag, ast.Load()), [ast.Break()], []), s)]
            self.statement(flag_assignment(flag, False, s))
        for c, n in reversed(list(zip(counters, sizes, strict=True))):
            loop = ast.For(ast.Name(c, ast.Store()), _range(n), body, [])
            body = [with_location(loop, s), *leave]
        self.loop(body[0])  # type: ignore[arg-type]

    def build_loop(
        self, s: ast.For | ast.While, body: list[ast.stmt], index: str, bounds: list[Term], parallel: bool = False
    ) -> None:
        """Emit a loop; `index` is "" for while. A parallel loop in a parallel loop is serial, as in Numba; so is one
        that prints, whose lines come in order."""
        parallel = parallel and not self.shared.parallel
        line = self.line
        self.enter(set(stored_names(body, added=False)))
        test: Term | None = None
        if isinstance(s, ast.While):
            before, self.line = self.out, ""
            self.out = []
            test = self.test(s.test)
            if self.out:  # the test needs statements: it moves into the body
                leave = ast.If(ast.UnaryOp(ast.Not(), s.test), [ast.Break()], [])
                body, test = [ast.copy_location(leave, s), *body], TRUE
                with_location(leave, s)
            self.out = before
        self.line = ""
        breaks = any(contains_jump(b, ast.Break) for b in body)
        stop = self.names.fresh("stop") if breaks else ""
        start, end, step = map(self.bound, bounds)
        positive = len(self.shared.positive)
        if index:
            self.shared.induction_variables.append(index)
            changed = {self.rename.get(n, n) for n in stored_names(body)}
            if changed.isdisjoint(start.reads | end.reads | step.reads):
                self.shared.ranges[index] = self.range_of(start, end, step)
                if isinstance(step, Variable) and start is ZERO and self.nonnegative(end):  # else no iterations
                    self.shared.positive.append(step.name)
        self.break_flags.append(stop)
        self.skip_flags.append([])
        self.arrays_before_loops.append(dict(self.arrays))
        self.shared.parallel |= parallel
        begun, copies = len(self.shared.written), dict(self.shared.read_only_copies)
        with self.nested_block():
            inner = self.block(body)
            self.check_copies_of_iteration(s, copies, set(self.shared.written[begun:]))
        self.shared.parallel &= not parallel
        self.arrays_before_loops.pop()
        self.skip_flags.pop()
        stop = self.break_flags.pop()
        if index:
            self.shared.induction_variables.remove(index)
            self.shared.ranges.pop(index, None)
            del self.shared.positive[positive:]
        parallel = parallel and not any(isinstance(p, Print) for p in walk(inner))
        loop = Loop(index, start, end, step, test, inner, stop, parallel=parallel, line=line)
        loop.target = loop_target_text(s) if isinstance(s, ast.For) else ""
        if stop or not index:
            loop.trip_counter = self.names.fresh("trips")
            self.lowered_function.ranks[loop.trip_counter] = 0
            inner.insert(0, Assign(loop.trip_counter, Binary("+", Variable(loop.trip_counter), ONE)))
            self.out.append(Assign(loop.trip_counter, ZERO))
        if stop and stop != self.returned_flag:
            self.lowered_function.ranks[stop] = 0
            self.out.append(Assign(stop, FALSE))
        self.out.append(loop)
        check_filled(self, s)

    def range_of(self, start: Term, end: Term, step: Term) -> tuple[Term, Term]:
        """The least and the largest value of a counter, in the iterations that there are."""
        first, last = plus(end, 1), plus(end, -1)
        base, by = offset(step)
        if self.nonnegative(step):
            return start, last
        return (first, start) if base is None and by < 0 else (call_of(min, start, first), call_of(max, start, last))

    def bound(self, term: Term) -> Term:
        """A bound of a loop, in a variable if it binds looser than a sum."""
        bound = next((t for t in (self.loop_invariant_bound(term), term) if not _binds_looser_than_sum(t)), None)
        return Variable(self.fresh_scalar("bound", term)) if bound is None else bound

    def test(self, node: ast.expr) -> Term:
        raise NotImplementedError


def _number(name: str) -> ast.expr:
    """A node for a scalar variable of the lowered function."""
    return Lowered(Scalar(Variable(name)))


def _binds_looser_than_sum(term: Term) -> bool:
    """Whether an expression binds looser than a sum."""
    bits = isinstance(term, Binary) and term.op in ("|", "^", "&", "<<", ">>")
    return bits or isinstance(term, Select | Logical | Compare) or (isinstance(term, Unary) and term.op == "not")


def _range(size: Term) -> ast.expr:
    """``range(size)`` of a lowered size."""
    return ast.Call(bound_name(range, "range"), [Lowered(Scalar(size))], [])


def _is_nested(node: ast.expr, names: Collection[str]) -> bool:
    """Whether `node` is a comprehension of a length that does not depend on `names`."""
    match node:
        case ast.ListComp(generators=[ast.comprehension(iter=iterable, ifs=[])]):
            return not any(isinstance(n, ast.Name) and n.id in names for n in subtrees(iterable))
    return False
