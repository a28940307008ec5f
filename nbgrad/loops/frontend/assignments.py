"""Lowering of assignments: to scalars, arrays, elements, slices and tuples.

In Python an assignment binds a name; in the lowered function a name is one array. Binding a name to another array
therefore becomes an alias known at compile time, a copy where that gives the same results, or an error.
"""

from __future__ import annotations

import ast
import copy
import inspect
import math
from collections.abc import Callable

import numpy as np

from ..ir.statements import Call as CallStatement
from ..ir.statements import Grow, Store, walk
from ..ir.tapes import GROWN
from ..ir.terms import ZERO, Select, Term, Variable, subterms
from .advanced_indexing import MaskedLeaf, store_masked, without_mask
from .array_expressions import (
    ArrayExpr,
    Elementwise,
    Leaf,
    Lowered,
    Scalar,
    SelectExpr,
    Static,
    TupleExpr,
    copy_of_values,
    leaves,
    record_order,
)
from .dictionaries import dictionary_of
from .einsum import is_view
from .element_kinds import element_kind, refuse_rounding
from .filled_numbers import becomes_array, fill_number, is_new_from_here, mark_bound
from .function_table import DEFINITIONS, row_of
from .list_vectors import is_list
from .lists_of_rows import set_item, type_of_row
from .mod_ref import modified_arrays
from .records import assign_to_record
from .scope import Pack
from .static_values import bind_static, makes_functions
from .structured_control import always_jumps, own_returns
from .syntax import assigned_pairs, assigns, base_name, count_mentions, stored_names, subtrees, unparse, written_name
from .tuple_assignments import TupleAssignments
from .varying_lengths import may_be_rebound, rebound
from .views import Axis, View, axis_length

__all__ = ["Assignments"]


class Assignments(TupleAssignments):
    """Lowers assignments and updates the bindings of names."""

    block_position: tuple[list[ast.stmt], int] = ([], 0)  # the block that is being lowered, and the index in it
    enclosing_branches: tuple[tuple[list[ast.stmt], int], ...] = ()  # the enclosing blocks, as far as they are branches
    unroll_comprehension: Callable[..., None]  # of Unrolling
    decided_by: frozenset[str] = frozenset()  # the parameters that alone decide whether the innermost branch is taken

    def assign(self, s: ast.stmt, target: ast.expr, value: ast.expr) -> None:
        """``target = value``, for any target."""
        self.root_expression = value
        for name, given in assigned_pairs(target, value):  # k = int(k): what was a float before is an integer now
            rounds = isinstance(given, ast.Call) and self.function_of(given.func) in (int, round, math.floor, math.ceil)
            if rounds and isinstance(name, ast.Name):
                self.split_if_reused(name.id)
        if assign_to_record(self, s, target, value):  # type: ignore[arg-type]
            return
        if isinstance(target, ast.Subscript):
            if dictionary_of(self, target.value) is not None:
                instead = "make it in one place, and only read and set items, by keys that are written there"
                raise self.source.refuse(s, f"{unparse(target)}, an item of a dictionary, which is set", instead)
            index = self.array_index(target)
            if index is not None:
                self.scatter_elements(target, index, value)
                return
            tree = self.tree(value)
            if self.sets_item(s, target):
                set_item(self, target, self.subscript_view(target), tree)
                return
            self.forget_unnamed(s)
            fills = isinstance(target.value, Lowered) or is_list(target.value)  # it has the kind of its elements
            (self.write_elements if fills else self.write)(target, self.writable_view(target), tree)
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(s, target, value)
        elif isinstance(target, ast.Name):
            if self.is_tape_growth(value):
                size = self.tree(value.args[1])  # type: ignore[attr-defined]
                assert isinstance(size, Scalar)
                self.emit(Grow(self.owners[target.id], size.term))
                return
            if target.id not in self.arrays and self.lowered_function.ranks.get(self.local(target)) is None:
                self.hint = self.local(target)
            tree = self.tree_or_static(value)
            self.hint = ""
            self.bind_value(s, target.id, tree, value)
        else:
            raise self.source.refuse(s, "an assignment to this", "assign to a name or to elements of an array")

    def array_index(self, target: ast.Subscript) -> ArrayExpr | None:
        """The index of a subscript, if it is a single array."""
        part = target.slice
        made = self.callee(part) is None if isinstance(part, ast.Call) else getattr(part, "attr", "") == "T"
        if not made and not isinstance(part, ast.Compare | ast.UnaryOp | ast.BinOp) and self.array(part) is None:
            return None
        before = len(self.out)
        tree = self.tree_or_static(part)
        if tree.rank and not isinstance(tree, TupleExpr):
            return tree
        del self.out[before:]  # a number, a tuple or a slice
        return None

    def scatter_elements(self, target: ast.Subscript, index: ArrayExpr, value: ast.expr) -> None:
        """Scatter: write the elements selected by an array of indices or a mask."""
        view, mask = self.view(target.value), self.kind_of_tree(index) == "bool"
        mask = mask and view.rank == index.rank
        before = len(self.out)
        tree = self.tree(without_mask(self, value, unparse(target.slice)) if mask else value)
        kinds = {isinstance(t, MaskedLeaf) for t in leaves(tree) if t.rank}
        if len(kinds) > 1:  # what is masked is beside arrays that hold selected elements already
            del self.out[before:]
            tree = self.tree(value)
        if mask and False not in kinds:
            self.check_writable(target, view)
            before = len(self.out)
            store_masked(self, target, view, index, tree)
            self.keep_kind(before)
            return
        subscript = ast.Subscript(target.value, ast.copy_location(Lowered(index), target), ast.Store())
        self.write(target, self.writable_view(ast.copy_location(subscript, target)), tree)

    def sets_item(self, s: ast.stmt, target: ast.Subscript) -> bool:
        """Whether a list whose items are arrays or lists gets another item."""
        if isinstance(s, ast.AugAssign) or not (is_list(target.value) or self.shared.lists):
            return False
        of, row = self.view(target.value), self.subscript_view(target)
        listed = is_list(target.value) or self.is_list(Leaf(of))
        if listed and row.rank == of.rank > self.shared.lists.get(of.name, 1):
            raise self.source.refuse(target, "items of a list that are set at once", "set one after the other")
        return listed and row.rank == of.rank - 1 > 0

    def is_tape_growth(self, value: ast.expr) -> bool:
        """Whether `value` grows a tape of generated code."""
        called = self.callee(value) if isinstance(value, ast.Call) else None
        return getattr(called, "__name__", "") == "grown" and inspect.getsource(called).endswith(GROWN)  # type: ignore[arg-type]

    def augmented(self, s: ast.AugAssign) -> None:
        """An augmented assignment; arrays are updated in place."""
        if isinstance(s.target, ast.Subscript):
            s = copy.copy(s)
            s.target = self.with_index_once(s.target)  # type: ignore[arg-type]
        read = copy.copy(s.target)
        read.ctx = ast.Load()
        value = ast.copy_location(ast.BinOp(read, s.op, s.value), s)
        view = self.array(s.target)
        if isinstance(s.target, ast.Subscript) and dictionary_of(self, s.target.value) and self.tree(read).rank:
            view = self.view(read)
            self.check_writable(s, view)
        if view is not None and self.is_list(Leaf(view)):
            raise self.source.refuse(s, f"a list in {unparse(value)}", "use np.array of it")
        if view is not None:
            tree, before = self.tree(value), len(self.out)
            self.forget_unnamed(s)
            self.write(s.target, view, tree)
            mark_bound(self, getattr(s.target, "id", ""))
            error = self.source.refuse(s, "an array of integers that floats are added to in place", "make it of floats")
            stores = [t for t in walk(self.out[before:]) if isinstance(t, Store) and t.array == view.name]
            self.lowered_function.refilled_arrays += [
                (t.array, t.value, error) for t in stores
            ]  # NumPy refuses it, though not for elements
        else:
            if isinstance(s.target, ast.Name):
                self.shared.augmented.add(self.local(s.target))
            self.assign(s, s.target, value)

    def with_index_once(self, target: ast.Subscript) -> ast.Subscript:
        """The target of ``x[f()] += y`` with the results of calls in its index, which is computed once, and first."""
        parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        held: list[ast.expr] = []
        for part in parts:
            held.append(part)
            if isinstance(part, ast.Slice) or not any(isinstance(n, ast.Call) for n in subtrees(part)):
                continue
            before = len(self.out)
            tree = self.tree_or_static(part)
            if isinstance(tree, Scalar):
                held[-1] = ast.copy_location(Lowered(Scalar(self.name_or_constant(tree.term))), part)
            elif isinstance(tree, Leaf) and any(isinstance(t, CallStatement) for t in walk(self.out[before:])):
                held[-1] = ast.copy_location(Lowered(tree), part)  # drawn, or by a primitive
            else:
                del self.out[before:]  # to compute it again is the same
        if held == parts:
            return target
        index = ast.copy_location(ast.Tuple(held, ast.Load()), target) if len(held) > 1 else held[0]
        return ast.copy_location(ast.Subscript(target.value, index, target.ctx), target)

    def bind_value(self, s: ast.stmt, name: str, tree: ArrayExpr, value: ast.expr) -> None:
        """Bind a name to a value."""
        if isinstance(tree, Static):
            bind_static(self, s, name, tree)
            return
        self.unbind_static(name)
        if isinstance(tree, TupleExpr):
            self.bind_tuple(s, name, tree)
        elif tree.rank:
            self.bind_array(s, name, tree, value)
            mark_bound(self, name)
        else:
            assert isinstance(tree, Scalar)
            if not fill_number(self, s, name, tree.term):
                self.bind_scalar(s, name, tree.term)

    def bind_scalar(self, s: ast.stmt, name: str, value: Term) -> None:
        """Set a scalar."""
        if name in self.arrays or name in self.uncertain_arrays or name in self.tuples:
            self.may_differ_by_iteration()
            self.split_if_reused(name)
            raise self.source.refuse(s, f"{name} becomes a number and was an array or tuple", "use another name")
        variable = self.local(ast.Name(name, ast.Store()))
        self.lowered_function.ranks.setdefault(variable, 0)
        if value is not Variable(variable):
            self.assign_scalar(variable, value)
        self.forget_unnamed(s)

    # Arrays.

    def bind_array(self, s: ast.stmt, name: str, tree: ArrayExpr, value: ast.expr) -> None:
        """Bind a name to an array: by reusing its own array, by a copy, or by an alias."""
        if isinstance(tree, SelectExpr) and tree.refusal is not None:
            raise tree.refusal
        others = {array for n, array in self.owners.items() if n != name}
        if isinstance(tree, Leaf) and tree.fresh and tree.view.name in others:
            tree = Leaf(tree.view)  # it is another name's already
        if isinstance(tree, Leaf) and self.arrays.get(name) == tree.view:
            return  # the array that it has, as a called function returned it
        local = self.local(ast.Name(name, ast.Store()))
        if name in self.tuples or (self.lowered_function.ranks.get(local) == 0 and name not in self.arrays):
            self.list_that_grows(name, tree)
            self.may_differ_by_iteration()
            self.split_if_reused(name)
            if name not in self.tuples:
                becomes_array(self, s, name, tree)
            if not is_new_from_here(self, s, name):
                raise self.source.refuse(s, f"{name} becomes an array and was something else", "use another name")
            local = self.rename[name] = self.names.fresh(name)
        base, standing = self.user_variable(name), self.stands_for(tree) | self.viewed_in_numpy(tree, value)
        if isinstance(tree, Leaf) and tree.fresh and base in self.rebound and not self.is_whole(tree.view):
            tree = copy_of_values(tree)  # of which the name is to be the whole, as with keepdims
        owner, straight = self.owners.get(name), self.runs_once and self.at_function_level
        self.copy_back(s, owner)
        alias = isinstance(tree, Leaf) and not tree.fresh
        if owner is not None and not straight and name in self.arrays:
            if owner in self.lowered_function.parameters:  # the caller's
                self.split_if_reused(name)
                what = f"another array under the name {name}, which is an argument,"
                raise self.source.refuse(s, what, "use another name")
            in_part = not self.is_whole(self.arrays[name])
            if in_part or (alias and not self.transfers_ownership(name, value) and not self.read_only(name, value)):
                self.split_if_reused(name)
                if name in self.tuple_owner:
                    self.may_differ_by_iteration(in_ranges=True)
                instead = f"copy the other one (.copy()), or write {written_name(name)}[:] = ..."
                raise self.source.refuse(s, f"another array under the name {written_name(name)}", instead)
            mixed = self.is_list(tree) != self.is_list(Leaf(self.whole_view(owner)))
            if mixed or not self.same_shape_and_kind(s, tree, owner):
                self.may_differ_by_iteration()
                self.split_if_reused(name)
            if mixed:
                raise self.source.refuse(s, f"{name} is a list here and an array there", "use another name")
            if tree.rank != self.lowered_function.ranks[owner]:
                self.shared.may_decide.update(*self.shared.tests_around)
                raise self.source.refuse(s, f"{name} gets another number of axes", "use another name")
            if self.decided_by and Elementwise(self, s).has_other_lengths(tree, Leaf(self.whole_view(owner))):
                self.lowered_function.deciding |= self.decided_by
            if self.would_broadcast(s, tree, Leaf(self.whole_view(owner))):
                self.may_differ_by_iteration(in_ranges=True)
                self.shared.may_decide.update(*self.shared.tests_around)
            if not may_be_rebound(self, s, owner, tree):
                what = f"{written_name(name)}, with length 1 along an axis here or before, and longer there,"
                raise self.source.refuse(s, what, "use another name, or allocate it once with room for all")
            if name in self.may_alias_caller:
                what = f"a new array {name}, which is swapped with a parameter"
                raise self.source.refuse(s, what, f"write {name}[:] = ...")
            refuse_rounding(self, s, owner, tree)
            self.invalidate_views(owner)
            self.shared.read_only_copies.pop(owner, None)
            self.forget_original(owner)
            before, written = len(self.out), len(self.shared.written)
            read = self.read_here(tree)
            view, tree = rebound(self, s, owner, tree)
            record_order(self, owner, tree)
            self.write_elements(s, view, tree)
            del self.shared.written[written:]  # in Python, it is another array
            self.note_standing(owner, standing - {owner})
            self.forget_unnamed(s, read)
            error = self.source.refuse(s, f"{name} gets elements of another kind", "use another name")
            stores = [t for t in walk(self.out[before:]) if isinstance(t, Store)]
            self.lowered_function.refilled_arrays += [(owner, t.value, error) for t in stores]
            self.lowered_function.rebinding_stores += [(t, error) for t in stores if t.array == owner]
            return
        if isinstance(tree, Leaf) and tree.view.name in self.shared.primitive_results and self.may_be_modified(name):
            tree = copy_of_values(tree)
        if isinstance(tree, Leaf):
            parameter = isinstance(s, ast.FunctionDef)  # an item of a parameter
            varies = base in self.rebound and self.stores.count(base) + parameter > 1
            lasts = straight or isinstance(value, ast.Name)  # rows in loops are seldom used later
            moved = lasts and base_name(value) in self.rebound and self.read_only(name, value)
            if alias and (varies or moved or self.copies_key(name) in self.shared.findings.rewrites.copied):
                self.bind_read_only_copy(name, tree.view, s)
                return
            view = self.snapshot_view(tree.view) if alias else tree.view
        else:
            free = self.lowered_function.ranks.get(local) is None
            view = Elementwise(self, s).materialise(tree, local if free else self.names.fresh(self.item_variable(name)))
        self.bind(name, view)
        self.owners.pop(name, None)
        if not alias:
            self.owners[name] = view.name
            self.note_standing(view.name, standing)
            self.forget_unnamed(s, self.read_here(tree))
            if standing or view.name in self.shared.holders or name in self.tuple_owner:
                self.note_name(view.name, name)

    def viewed_in_numpy(self, tree: ArrayExpr, value: ast.expr) -> set[str]:
        """The array that a function copies here and NumPy gives a view of: diagonals."""
        called = self.function_of(value.func) if isinstance(value, ast.Call) else None
        match value:
            case ast.Call(args=[of, *_]) if tree.rank == 1 and called is DEFINITIONS[np.diag]:
                pass
            case ast.Call(args=[_, of]) if called is np.einsum and is_view(value):
                pass
            case _:
                return set()
        view = self.array(ast.Name(base_name(of), ast.Load())) if base_name(of) else None
        return set() if view is None else {self.storage_of(view.name)}

    def same_shape_and_kind(self, s: ast.stmt, tree: ArrayExpr, owner: str) -> bool:
        """Whether `tree` provably has the shape and kind of the array `owner`."""
        looks = {element_kind(self, tree), element_kind(self, Leaf(self.whole_view(owner)))} - {""}
        return len(looks) < 2 and Elementwise(self, s).lengths(tree) == self.size(owner)

    def may_be_modified(self, name: str) -> bool:
        """Whether elements are stored into the array of a name, or the name is bound to several arrays."""
        stored = {
            n.value.id
            for n in subtrees(self.source.node)
            if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name)
        }
        added = {n for t in subtrees(self.source.node) if isinstance(t, ast.AugAssign) for n in stored_names([t])}
        return name in stored | added or (name in self.rebound and self.stores.count(name) > 1)

    def snapshot_view(self, view: View) -> View:
        """`view` as it is now: bounds and indices that may change later are saved in fresh scalars."""

        def still(term: Term) -> Term:
            integers = {*self.shared.known_integers, *self.shared.induction_variables}
            ranks = self.lowered_function.ranks
            if all(ranks.get(n) or self.is_constant_scalar(n) or n in integers for n in term.named):
                return term
            name = self.fresh_scalar("at", term)
            saved.add(name)
            return Variable(name)

        saved: set[str] = set()  # scalars that are set here only
        parts = [
            Axis(still(p.start), still(p.stop), still(p.step)) if isinstance(p, Axis) else still(p) for p in view.parts
        ]
        for part, size in zip(parts, self.size(view.name), strict=True):
            extent = axis_length(part) if isinstance(part, Axis) else ZERO
            if saved & extent.reads and all(n in saved or self.is_constant_scalar(n) for n in extent.reads):
                self.shared.view_lengths[extent] = size  # a view is not longer than its array
            self.hold_length(extent)
        return View(view.name, tuple(parts), view.order)

    def hold_length(self, length: Term) -> None:
        """Compute a length with branches once, if it is the same everywhere: each index of the view would have them
        otherwise, and Numba takes gigabytes for thousands."""
        if not (self.runs_once and self.at_function_level) or length in self.shared.held_lengths:
            return
        constant = all(self.lowered_function.ranks.get(n) or self.is_constant_scalar(n) for n in length.named)
        if constant and any(isinstance(t, Select) for t in subterms(length)):
            self.shared.held_lengths[length] = Variable(self.fresh_scalar("length", length))

    def transfers_ownership(self, name: str, value: ast.expr) -> bool:
        """Whether ``name = value`` moves an array: it was created in this block or one enclosing this branch and is not
        used again under its old name, so that copying its values is equivalent."""
        if not isinstance(value, ast.Name) or value.id not in self.owners.keys() - {*self.lowered_function.parameters}:
            return False
        same = {value.id} | self.names_of(self.owners[value.id])
        inner = [n for n in subtrees(self.source.node) if isinstance(n, ast.FunctionDef | ast.Lambda)]
        if any(
            count_mentions(n, same) for n in inner if n is not self.source.node
        ):  # a nested function may be called later
            return False
        left, inside = False, set[int]()  # whether what follows around is not reached from here, and what is not there
        for statements, k in [self.block_position, *reversed(self.enclosing_branches)]:
            rest = [t for t in statements[k + 1 :] if id(t) not in inside]
            if not left and any(count_mentions(t, same) for t in rest):
                return False
            left, inside = left or always_jumps(rest), inside | set(map(id, statements))
            created = [j for j, t in enumerate(statements[:k]) if isinstance(t, ast.Assign) and assigns(t, value.id)]
            if created:
                lived = sum(count_mentions(t, same) for t in statements[created[0] :])
                return lived == count_mentions(self.source.node, same)
        return False

    def names_of(self, array: str) -> set[str]:
        """The names bound to an array or a view of it, tuples with it included."""
        bindings = list(self.arrays.items())
        packs = list(self.tuples.items())
        while packs:
            name, pack = packs.pop()
            bindings += [(name, i) for i in pack.items if isinstance(i, View)]
            packs += [(name, i) for i in pack.items if isinstance(i, Pack)]
        return {self.user_variable(n) for n, v in bindings if self.storage_of(v.name) == array}

    def read_only(self, name: str, value: ast.expr) -> bool:
        """Whether neither `value` nor what `name` is bound to is written in place, so that copying its values is
        equivalent."""
        base, modified = base_name(value), modified_arrays(self.source, self.source.node)
        if base not in self.locals:
            return isinstance(self.source.outer_values.get(base), np.ndarray) and name not in modified
        if self.inlined and base not in self.owners:  # the caller may write it, and what is returned
            of, results = self.arrays.get(base), [r.value for r in own_returns(self.source.node.body)]
            returned = set().union(*[self.shared_names(r) for r in results if r is not None])
            storage = "" if of is None else self.storage_of(of.name)
            others = {n for n, v in self.arrays.items() if self.storage_of(v.name) == storage}
            if of is None or name in returned or makes_functions(self.source.node) or others & modified:
                return False
        return not {name, base} & modified

    def shared_names(self, value: ast.expr) -> set[str]:
        """The names whose arrays, or parts of them, a value may be."""
        if isinstance(value, ast.BinOp | ast.UnaryOp | ast.Compare):
            return set()
        if isinstance(value, ast.Call):
            row = row_of(self.function_of(value.func))
            if row is not None and not row.shares:
                return set()
        return {n.id for n in subtrees(value) if isinstance(n, ast.Name)}

    # Elements and slices.

    def writable_view(self, target: ast.Subscript) -> View:
        """The view that a subscript writes to."""
        view = self.subscript_view(target)
        self.check_writable(target, view)
        return view

    def check_writable(self, node: ast.AST, view: View) -> None:
        """Refuse to write constants, results of primitives with rules, and read-only copies."""
        if self.storage_of(view.name) in self.lowered_function.constants:
            raise self.source.refuse(node, "an array from outside that is written", "pass it as an argument")
        if self.storage_of(view.name) in self.shared.primitive_results:
            raise self.source.refuse(
                node, "the result of a primitive with a vjp, which is written", "copy it, by another name"
            )
        if self.storage_of(view.name) in self.shared.read_only_copies:
            self.require_writable(self.storage_of(view.name))
            raise self.source.refuse(node, *self.about_copy(self.storage_of(view.name)))
        self.check_copies(node, self.storage_of(view.name))

    def write(self, node: ast.AST, view: View, tree: ArrayExpr) -> None:
        """``view[...] = tree``, by the user: the array keeps its kind."""
        before = len(self.out)
        self.write_elements(node, view, tree)
        self.keep_kind(before)

    def keep_kind(self, before: int) -> None:
        """The stores emitted since then are the user's: they do not decide about the kind of an array."""
        self.lowered_function.element_writes |= {t for t in walk(self.out[before:]) if isinstance(t, Store)}

    def write_elements(self, node: ast.AST, view: View, tree: ArrayExpr) -> None:
        """``view[...] = tree``: an array that has no kind yet gets one that can hold the elements."""
        self.check_writable(node, view)
        if isinstance(tree, TupleExpr) and view.rank == 1 and all(isinstance(t, Scalar) for t in tree.items):
            items = [self.evaluate_first(node, t) for t in tree.items]
            for element, item in zip(self.rows(view, node, len(items)), items, strict=True):
                self.write_elements(node, element, item)
            return
        if isinstance(tree, TupleExpr) or tree.rank > view.rank:
            self.unroll_comprehension(node)
        if isinstance(tree, TupleExpr):
            instead = "write a loop; of a minimum, as if d < best: best, at = d, i"
            refused = self.source.refuse(node, "a tuple as an element", instead)
            if type_of_row(self, node, tree):
                self.comprehension_of_rows(node, refused)
            raise refused
        if tree.rank > view.rank:
            refused = self.source.refuse(node, "more axes than what is assigned to", "index it, or write a loop")
            self.comprehension_of_rows(node, refused)
            raise refused
        if view.rank:
            Elementwise(self, node).store(view, tree)
            return
        assert isinstance(tree, Scalar)
        self.emit(Elementwise(self, node).store_of(view.at([]), tree.term))
