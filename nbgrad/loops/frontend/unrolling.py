"""Unrolling of loops whose iterations differ in kind: over tuples of arrays, and over ranges that index such tuples.

Each iteration is lowered by itself. A name that would be another kind of array in each asks for the loop to be written
out in the source (:mod:`.rewrites`), where its live ranges can be split.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..ir.affine import distance
from ..ir.names import literal
from ..ir.statements import Assign, walk
from ..ir.terms import TRUE, ZERO, Term, Variable, integer
from .array_expressions import ArrayExpr, Leaf, Lowered, Scalar, Static, TupleExpr, all_scalars, lowered_from
from .calls import Calls
from .dictionaries import dictionary_items, dictionary_of
from .function_table import RANGES
from .instance_types import InstanceType
from .known_integers import integer_of
from .list_vectors import is_list
from .lists_of_arrays import changed_lists
from .live_range_splitting import NeedsSplitting
from .optional_values import may_hold_none, names_bound_to
from .partial_evaluation import static_truth
from .records import has_instance
from .rewrites import N, Zipped, can_be_written_out, is_range, place_of, with_numbers
from .splits import SPLITS
from .structured_control import assignment, contains_jump, flag_assignment, flag_breaks, with_location
from .syntax import Replaced, copy_tree, stored_names, subtrees, unparse
from .views import NUMBERS

if TYPE_CHECKING:
    from ..ir.statements import Block

__all__ = ["MAX_ITERATIONS", "EnclosingRange", "Unrolling"]

#: The most iterations of a loop over a range that are lowered one by one.
MAX_ITERATIONS = 64


class EnclosingRange(NamedTuple):
    """A loop over a range, while its body is lowered: the name it counts with, what tells it from other loops, whether
    its numbers are known and few, and the names that its bounds depend on."""

    counter: str
    key: tuple
    known: bool
    named: frozenset[str]


class Unrolling(Calls):
    """Lowers loops iteration by iteration."""

    unrolled_loop: tuple | None = None  # the outermost that is being unrolled and can be written out, and its items
    unrolling = False
    walrus_in: ast.expr | None

    reversed_range: Callable[..., list[Term] | None]  # of Iteration
    check_copies_of_iteration: Callable[..., None]  # of CopyInsertion
    break_flags: list[str]
    skip_flags: list[list[str]]
    returned_flag: str

    def block(self, statements: list[ast.stmt], first: bool = False) -> Block:
        raise NotImplementedError

    def statement(self, s: ast.stmt) -> None:
        raise NotImplementedError

    def unrolled_items(self, s: ast.For | ast.expr, iterable: ast.expr) -> list[ArrayExpr] | None:
        """The items of a loop or comprehension to be unrolled: over a tuple of other items than scalars, a zip of such
        tuples, or a range that was found to index them; None for others."""
        items = self.static_items(self.forwards(iterable))
        if items is None or self.rewrite_key(s) in self.shared.findings.rewrites.unrolled:
            return items
        counts = isinstance(iterable, ast.Call) and self.function_of(iterable.func) is range
        counts = counts or self.reversed_range(iterable) is not None
        plain = (items or counts) and all(all_scalars(t) and not has_instance(t) for t in items)
        plain = plain and len(set(map(_form, items))) < 2  # or else no array
        made = isinstance(iterable, ast.ListComp | ast.GeneratorExp)  # its elements are lowered already
        return None if plain and not made else items

    def with_tuples_lowered(self, iterable: ast.expr) -> ast.expr:
        """An iterable in which what may be a computed tuple is lowered, so that it is computed once: displays with
        calls, calls of functions, sums and multiples."""
        match iterable:
            case ast.Tuple() | ast.List():
                computed = any(isinstance(n, ast.Call | ast.NamedExpr) for n in subtrees(iterable))
                return lowered_from(self.tree(iterable), iterable) if computed else iterable
            case ast.BinOp(op=ast.Add() | ast.Mult()):
                return lowered_from(self.tree(iterable), iterable)
            case ast.Call(args=args) if self.function_of(iterable.func) in (enumerate, zip, reversed):
                iterable = copy.copy(iterable)
                iterable.args = [self.with_tuples_lowered(a) for a in args]
            case ast.Call() if self.function_of(iterable.func) in SPLITS or self.callee(iterable) is not None:
                return lowered_from(self.tree(iterable), iterable)
            case ast.Subscript(value=owner) if dictionary_of(self, owner) is not None:
                return lowered_from(self.tree(iterable), iterable)
            case ast.Subscript(value=ast.Tuple() | ast.List() | ast.Call() as value, slice=ast.Slice()):
                iterable = copy.copy(iterable)
                iterable.value = self.with_tuples_lowered(value)
        return iterable

    def static_items(self, node: ast.expr) -> list[ArrayExpr] | None:
        """The items of a tuple, of a range of known numbers, or of ``enumerate`` or ``zip`` of such; None for anything
        else."""
        if isinstance(node, Lowered):
            return node.lowered_tree.items if isinstance(node.lowered_tree, TupleExpr) else None
        if is_list(node):
            tree = self.tree(node)
            return tree.items if isinstance(tree, TupleExpr) else None
        outside = self.resolve(node) if isinstance(node, ast.Name) else None
        if isinstance(outside, tuple) and all(isinstance(v, NUMBERS) for v in outside):
            return [Scalar(literal(v)) for v in outside]
        if isinstance(outside, tuple) and isinstance(tree := self.tree(node), TupleExpr):
            return tree.items
        if isinstance(node, ast.Tuple | ast.List) or self.plain_tuple(node) is not None:
            return self.tree(node).items  # type: ignore[attr-defined]
        if isinstance(node, ast.Subscript) and dictionary_of(self, node.value) and dictionary_of(self, node) is None:
            return getattr(self.tree(node), "items", None)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            held = getattr(node.value, "lowered_tree", None)
            if isinstance(node.value, ast.Tuple | ast.List):
                held = self.tree(node.value)
            if isinstance(held, TupleExpr):
                return self.item_of(node, held).items  # type: ignore[attr-defined]
            if self.tuple_of(node.value):
                return self.tree(node).items  # type: ignore[attr-defined]
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call) and _is_reversal(node.slice):
            forwards = self.static_items(node.value)
            return forwards and forwards[::-1]
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            made = self.unrolled_comprehension(node)
            return None if made is None else made.items
        if (items := dictionary_items(self, node)) is not None:
            return items
        if not isinstance(node, ast.Call):
            return None
        called = self.function_of(node.func)
        if called is range:
            known = self.known_range(node)
            return None if known is None else [Scalar(integer(k)) for k in known]
        if called is enumerate and 1 <= len(node.args) + len(node.keywords) <= 2:
            begin = [*node.args[1:], *(k.value for k in node.keywords)]
            start = self.known_integer(begin[0]) if begin else 0
            inner = self.static_items(self.forwards(node.args[0]))
            if inner is not None and start is not None:
                return [TupleExpr([Scalar(integer(start + k)), t]) for k, t in enumerate(inner)]
        if called is zip:
            operands = [self.static_items(self.forwards(a)) for a in node.args]
            if self.is_strict(node) and len({len(items) for items in operands if items is not None}) > 1:
                raise self.source.refuse(node, f"{unparse(node)}, of different lengths", "leave strict out")
            if [] in operands:  # there are no iterations, whatever the others are
                return []
            if None not in operands:
                return [TupleExpr(list(items)) for items in zip(*operands, strict=False)]
        return None

    def zip_of_tuples(self, s: ast.For) -> ast.For | None:
        """A loop over tuples of arrays beside other arrays, as one over the tuples, which is left where the others end;
        None for other loops."""
        match s.iter, s.target:
            case ast.Call(args=[ast.Call() as zipped], keywords=[]), ast.Tuple(elts=[number, ast.Tuple() as target]):
                if self.function_of(s.iter.func) is not enumerate:
                    return None
                numbers = [number]
            case ast.Call() as zipped, ast.Tuple() as target:
                numbers = []
            case _:
                return None
        if self.function_of(zipped.func) is not zip or len(zipped.args) != len(target.elts) or self.is_strict(zipped):
            return None
        known = [self.static_items(self.forwards(a)) for a in zipped.args]
        if not any(not all_scalars(t) for items in known for t in items or ()) or None not in known:
            return None
        calls = [a for a in zipped.args if isinstance(a, ast.Call)]
        if any(self.function_of(a.func) in RANGES or self.reversed_range(a) is not None for a in calls):
            return None
        k = self.names.fresh("k")
        self.locals.add(k)
        self.rename[k] = k
        self.stores += [k, k]
        counter = ast.Name(k, ast.Load())
        first = [assignment(s, number, counter) for number in numbers]
        targets: list[ast.expr] = [ast.Name(k, ast.Store())]
        count = min(len(items) for items in known if items is not None)
        columns: list[list[ArrayExpr]] = [[Scalar(integer(j)) for j in range(count)]]
        for t, a, items in zip(target.elts, zipped.args, known, strict=True):
            if items is not None:
                targets.append(t)
                columns.append(items[:count])
                continue
            tree = self.tree(self.forwards(a))
            if isinstance(tree, TupleExpr | Static) or not tree.rank:
                return None
            view = Lowered(Leaf(self.snapshot_view(self.view_of(tree, a))))
            size = Lowered(Scalar(self.shape(view.lowered_tree.view)[0]))  # type: ignore[attr-defined]
            first = [
                with_location(ast.If(ast.Compare(counter, [ast.GtE()], [size]), [ast.Break()], []), s),
                *first,
                assignment(s, t, ast.Subscript(view, counter, ast.Load())),
            ]
        rows: list[ArrayExpr] = [TupleExpr(list(row)) for row in zip(*columns, strict=True)]
        loop = ast.For(ast.Tuple(targets, ast.Store()), Lowered(TupleExpr(rows)), [*first, *s.body], s.orelse)
        lengths = Zipped([None if items is None else len(items) for items in known])
        loop.zipped = lengths if can_be_written_out(s) else None  # type: ignore[attr-defined]
        return ast.copy_location(with_location(loop, s), s)

    def is_strict(self, node: ast.Call) -> bool:
        """Whether a zip has ``strict=True``."""
        match node.keywords:
            case []:
                return False
            case [ast.keyword("strict", ast.Constant(bool() as strict))]:
                return strict
        raise self.source.refuse(node, f"the call {unparse(node)}", "write strict=True or strict=False")

    def can_be_unrolled(self, iterable: ast.expr) -> bool:
        """Whether the items of an iterable are known and few."""
        match iterable:
            case ast.Call() | ast.Name() | Lowered():
                return self.static_items(self.forwards(iterable)) is not None
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return all(isinstance(e, ast.Constant) for e in items)
        return False

    def known_range(self, node: ast.Call) -> range | None:
        """The numbers of ``range(...)``, if they are known and few."""
        bounds = [self.known_integer(a) for a in node.args]
        if node.keywords or None in bounds or not 1 <= len(bounds) <= 3 or bounds[2:] == [0]:
            return None
        known = range(*bounds)  # type: ignore[arg-type]
        return known if len(known) <= MAX_ITERATIONS else None

    def known_integer(self, node: ast.expr) -> int | None:
        """The integer that an expression without calls but ``len`` is, if it is known."""
        calls = [n for n in subtrees(node) if isinstance(n, ast.Call | ast.NamedExpr | ast.ListComp | ast.GeneratorExp)]
        if not all(isinstance(n, ast.Call) and self.function_of(n.func) is len for n in calls):
            return None
        return integer_of(self, self.value(node))

    def forwards(self, node: ast.expr) -> ast.expr:
        """``a[::-1]`` for ``reversed(a)``; other iterables are as they are."""
        if not isinstance(node, ast.Call) or self.function_of(node.func) is not reversed:
            return node
        backwards = ast.Slice(None, None, ast.Constant(-1))
        return with_location(ast.Subscript(node.args[0], backwards, ast.Load()), node)

    def rewrite_key(self, s: ast.AST) -> tuple:
        """What tells a loop from all others: the function, what is known of its arguments, and the place."""
        return *self.source.definition_site, self.source.context, place_of(s)

    def check_items(self, iterable: ast.expr, count: ast.expr) -> None:
        """Refuse a loop that is written out for another number of items."""
        items = self.static_items(self.forwards(iterable))
        if items is None or len(items) != count.value:  # type: ignore[attr-defined]
            what = f"a loop over {unparse(iterable)}, which has another number of items elsewhere"
            raise self.source.refuse(iterable, what, "write a loop for each")

    def value_before_loop(self, s: ast.For, tree: ArrayExpr, moved: set[str]) -> ArrayExpr:
        """An item of an unrolled loop, with the value that it has before the loop."""
        if isinstance(getattr(tree, "tuple_class", None), InstanceType) or isinstance(tree, Static):
            return tree  # which is the same during the loop
        if isinstance(tree, TupleExpr):
            return TupleExpr([self.value_before_loop(s, t, moved) for t in tree.items], tree.tuple_class)
        if isinstance(tree, Leaf) and self.storage_of(tree.view.name) in moved:
            return self.as_it_was(s, tree)
        if isinstance(tree, Scalar) and distance(tree.term, ZERO) is not None:  # a number
            return tree
        return Leaf(self.snapshot_view(tree.view)) if isinstance(tree, Leaf) else self.evaluate_first(s, tree)

    def unroll(self, s: ast.For, items: list[ArrayExpr]) -> None:
        """Unroll a loop."""
        moved = self.arrays_of(stored_names(s.body, added=False))
        items = [self.value_before_loop(s, t, moved) for t in items]
        around = self.unrolled_loop, self.unrolling
        if hasattr(s, "zipped"):
            if not self.unrolling and s.zipped is not None:
                self.unrolled_loop = self.rewrite_key(s), s.zipped
        elif not self.unrolling and can_be_written_out(s):  # an inner loop may have other items in each iteration
            numbers = [distance(t.term, ZERO) for t in items if isinstance(t, Scalar)]
            self.unrolled_loop = self.rewrite_key(s), numbers if is_range(s.iter) else len(items)
        self.unrolling = True
        self.lower_iterations(s, items)
        self.unrolled_loop, self.unrolling = around

    def lower_iterations(self, s: ast.For, items: list[ArrayExpr]) -> None:
        """Lower iterations one by one. Where one may end the loop, or the function, the others are under a test."""
        left, body = "", s.body
        if any(contains_jump(b, ast.Break) for b in s.body):
            left = self.names.fresh("left")
            self.locals.add(left)
            self.rename[left] = left
            self.stores += [left, left]  # set twice
            body = flag_breaks(s.body, left, ast.Continue)
            self.statement(flag_assignment(left, False, s))
        for k, t in enumerate(items):
            first = assignment(s, s.target, ast.copy_location(Lowered(t), s))
            self.skip_flags.append([])
            self.break_flags.append("")
            done = self.block([first, *_with_numbers(body, s.target, t)])
            returned = self.break_flags.pop()
            self.skip_flags.pop()
            self.out += done
            flags = {left, returned} - {""}
            set_here = {p.name for p in walk(done) if isinstance(p, Assign) and p.name in flags and p.value is TRUE}
            if any(isinstance(p, Assign) and p.name in set_here and p.value is TRUE for p in done):
                return  # in any case
            if set_here and k + 1 < len(items):
                tests: list[ast.expr] = [Lowered(Scalar(Variable(n))) for n in sorted(set_here)]
                test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests)
                rest = copy.copy(s)
                rest.iter = Lowered(TupleExpr(items[k + 1 :]))
                self.statement(with_location(ast.If(ast.UnaryOp(ast.Not(), test), [rest], []), s))
                return

    def unrolled_comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> TupleExpr | None:
        """A comprehension over a tuple of arrays, as the tuple of its elements; None for other comprehensions."""
        (generator, *others) = node.generators
        items = None if others or generator.ifs else self.unrolled_items(node, generator.iter)
        if items is None:
            return None
        made = with_location(ast.Tuple(self.elements_for(generator, node.elt, items), ast.Load()), node)
        made.of_list = isinstance(node, ast.ListComp)
        tree = self.tree(made)
        assert isinstance(tree, TupleExpr)
        return tree

    def elements_for(self, generator: ast.comprehension, element: N, items: list[ArrayExpr]) -> list[N]:
        """The element of a comprehension for each of these items, with variables of its own."""
        root, walrus = self.root_expression, self.walrus_in
        elements: list[N] = []
        for t in items:
            own = {n: self.names.fresh(n) for n in stored_names([generator.target])}
            self.locals |= {*own.values()}
            self.rename |= {n: n for n in own.values()}
            renamed = Replaced(own)
            target = renamed.visit(copy_tree(generator.target))
            self.statement(assignment(generator.target, target, Lowered(t)))
            elements += _with_numbers([renamed.visit(copy_tree(element))], target, t)
        self.root_expression, self.walrus_in = root, walrus
        return elements

    def may_differ_by_iteration(self, in_ranges: bool = False) -> None:
        """Lower again with the loop written out whose iterations bind a name to something else each, if it can be;
        `in_ranges`: first with the innermost loop over a known range unrolled, or without branches not taken."""
        if self.unrolled_loop is not None:
            raise NeedsSplitting("", written_out=self.unrolled_loop)
        if in_ranges:
            self.unroll_innermost(frozenset())
            self.shared.may_decide.update(*[r.named for r in self.shared.ranges_around])
            self.leave_decided()

    def decides(self, s: ast.If, holds: bool) -> None:
        """Note the outcome of a test that is known; not in a loop whose iterations share the source, nor with jumps, by
        which it is told whether a loop can be written out."""
        if contains_jump(s) or (self.unrolling and self.unrolled_loop is None):
            return
        key = self.rewrite_key(s)
        self.shared.decided[key] = holds if self.shared.decided.get(key, holds) is holds else None

    def leave_decided(self) -> None:
        """Lower again without the branches that known tests do not choose, in which names may be bound otherwise."""
        known = {key: holds for key, holds in self.shared.decided.items() if holds is not None}
        if known.keys() - self.shared.findings.rewrites.decided.keys():
            raise NeedsSplitting("", decided=known)

    def check_decided(self, test: ast.expr, holds: ast.expr) -> None:
        """Refuse a test that was known to have another outcome, in another call."""
        if static_truth(self, test) is not holds.value:  # type: ignore[attr-defined]
            what = f"the test {unparse(test)}, which has another outcome elsewhere"
            raise self.source.refuse(test, what, "write a function for each")

    def unroll_innermost(self, read: frozenset[str]) -> None:
        """Lower again with the innermost loop over a known range unrolled, of those whose counters are `read` if there
        are such."""
        done = self.shared.findings.rewrites.unrolled
        loops = [r for r in self.shared.ranges_around if r.known and r.key not in done]
        if asked := [r for r in loops if r.counter in read] or loops:
            raise NeedsSplitting("", unrolled=asked[-1].key)

    def hold_none_in_flag(self, name: str) -> None:
        """Lower again with a flag beside a name that holds None until it is set, if that is so."""
        known = self.shared.findings.rewrites.optional
        for n in (name, *names_bound_to(self.source.node, name)):
            key = (*self.source.definition_site, n, False)
            if key not in known and may_hold_none(self.source.node, n, self.source.is_called):
                raise NeedsSplitting(name, optional=key)

    def note_read_above(self, name: str) -> None:
        """Note that a name that holds None at first is read above of where it is set: if it is an array, loops must be
        peeled."""
        key, known = (*self.source.definition_site, name), self.shared.findings.rewrites.optional
        if (*key, False) in known and (*key, True) not in known:
            self.shared.may_be_peeled.append((*key, True))

    def list_that_grows(self, name: str, tree: ArrayExpr) -> None:
        """Lower again with a list that grows for one that was a tuple, if `tree` is a list."""
        key, pack = (*self.source.definition_site, name), self.tuples.get(name)
        numbers = pack is not None and pack.of is list and all(isinstance(t, str) for t in pack.items)
        if numbers and self.is_list(tree) and key not in self.shared.findings.rewrites.grown:
            raise NeedsSplitting("", grown=key)

    def list_of_arrays(self, name: str) -> None:
        """Lower again with a tuple for a list, if `name` is bound to such."""
        key = (*self.source.definition_site, name)
        if name in changed_lists(self.source) and key not in self.shared.findings.rewrites.lists_of_arrays:
            raise NeedsSplitting("", list_of_arrays=key)

    def unroll_comprehension(self, node: ast.AST) -> None:
        """Lower again with a comprehension unrolled whose elements are no numbers, if `node` stores these; or else with
        arrays as rows."""
        key = self.rewrite_key(node)
        for r in self.shared.ranges_around:
            if r.key == key and r.known and key not in self.shared.findings.rewrites.unrolled:
                raise NeedsSplitting("", unrolled=key)
            if r.key == key:
                self.shared.may_decide |= r.named

    def comprehension_of_rows(self, node: ast.AST, refused: Exception) -> None:
        """Lower again with rows for the elements of a comprehension, if `node` stores these."""
        key = self.rewrite_key(node)
        if key in self.shared.comprehensions:
            self.rows_instead(key, refused)

    def list_of_rows(self, name: str, refused: Exception) -> None:
        """Lower again with rows for a list that was made a tuple, if `name` is bound to such."""
        key = (*self.source.definition_site, name)
        if key in self.shared.findings.rewrites.lists_of_arrays:
            self.rows_instead(key, refused)

    def rows_instead(self, key: tuple, refused: Exception) -> None:
        """Lower again with rows for a list or comprehension, unless that was tried."""
        if key not in self.shared.findings.rewrites.lists_of_rows:
            refused.deciding = set(self.shared.may_decide)  # type: ignore[attr-defined]
            raise NeedsSplitting("", rows=key, refused=refused)

    def varying_index(self, node: ast.Subscript, *parts: Term) -> Exception:
        """Lower again with a loop unrolled that an index or slice of a tuple depends on; the error if there is none."""
        for n in subtrees(node.slice):
            if isinstance(n, ast.Name):
                self.split_if_reused(n.id)
        read = frozenset().union(*(p.reads for p in parts))
        self.unroll_innermost(read)
        decide = [r.named for r in self.shared.ranges_around if r.counter in read]
        self.shared.may_decide.update(*[p.named for p in parts], *decide)
        what = f"{unparse(node)}, an index of a tuple of arrays that is not a constant"
        refused = self.source.refuse(node, what, "use an array, or a range of constants")
        if isinstance(node.value, ast.Name):
            self.list_of_rows(node.value.id, refused)
        return refused


def _form(tree: ArrayExpr) -> tuple | None:
    """The numbers of items of a tuple and of the tuples in it; None for others."""
    return tuple(map(_form, tree.items)) if isinstance(tree, TupleExpr) else None


def _is_reversal(node: ast.expr) -> bool:
    """Whether a slice is ``[::-1]``, as :meth:`Unrolling.forwards` makes it."""
    return isinstance(node, ast.Slice) and isinstance(node.step, ast.Constant) and node.step.value == -1


def _with_numbers(body: list[N], target: ast.expr, item: ArrayExpr) -> list[N]:
    """A copy of the body of a loop, with the integers of an item in place of the names they are bound to."""
    numbers: dict[str, int] = {}
    stack: list[tuple[ast.expr, ArrayExpr]] = [(target, item)]
    while stack:
        match stack.pop():
            case ast.Name(id=name), Scalar(term=term) if (k := distance(term, ZERO)) is not None:
                numbers[name] = k
            case ast.Tuple(elts=targets), TupleExpr(items=items) if len(targets) == len(items):
                stack += zip(targets, items, strict=True)
    return with_numbers(body, numbers)
