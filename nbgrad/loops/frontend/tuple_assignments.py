"""Assignments of tuples: each item is a variable of its own, and the name stands for all of them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ..ir.statements import Check
from ..ir.terms import Compare, Constant, Variable, integer
from .array_expressions import (
    ArrayExpr,
    Elementwise,
    FromFunction,
    Leaf,
    Lowered,
    Op,
    Scalar,
    Static,
    TupleExpr,
    leaves,
)
from .copy_insertion import CopyInsertion
from .lists_of_rows import hold_item
from .record_types import is_record
from .records import bind_record, bound_record, record_argument
from .scope import Pack, name_of
from .swaps import is_swap
from .syntax import unparse
from .unpacking import hold_items, without_star
from .views import View

__all__ = ["TupleAssignments"]


class TupleAssignments(CopyInsertion):
    """Lowers assignments of tuples, and to several targets."""

    assign: Callable[..., None]  # of Assignments
    sets_item: Callable[..., bool]
    bind_value: Callable[..., None]
    bind_array: Callable[..., None]
    read_only: Callable[..., bool]
    may_differ_by_iteration: Callable[..., None]  # of Unrolling
    list_that_grows: Callable[..., None]

    def unpack(self, s: ast.stmt, target: ast.Tuple | ast.List, value: ast.expr) -> None:
        """``a, b = value``: all items are evaluated before any target is set."""
        target, value = without_star(self, s, target, value)
        if is_swap(s) and all(self.array(t) is not None for t in target.elts):
            self.swap(s, target.elts, value.elts)  # type: ignore[attr-defined]
            return
        items = self.items(s, value, len(target.elts))
        nodes = value.elts if isinstance(value, ast.Tuple) else [value] * len(items)
        places = [t for t in target.elts if isinstance(t, ast.Subscript) and not self.is_tuple_access(t.value)]
        if any(self.sets_item(s, t) for t in places):  # of a list
            exchanged = sorted(map(unparse, target.elts)) == sorted(map(unparse, nodes))
            items = [hold_item(self, s, t, exchanged) for t in items]
        held = hold_items(self, s, target, items, nodes)
        for t, item, node in zip(target.elts, held, nodes, strict=True):
            if isinstance(t, ast.Name):
                self.bind_value(s, t.id, item, node)
            else:
                self.assign(s, t, ast.copy_location(Lowered(item), s))

    def items(self, s: ast.stmt, value: ast.expr, count: int) -> list[ArrayExpr]:
        """The `count` items of a tuple, shape or array that is unpacked."""
        sizes = self.shape_of(value)
        if sizes is not None:
            items: list[ArrayExpr] = [Scalar(n) for n in sizes]
        else:
            tree = self.tree(value)
            if tree.rank:
                view = self.view_of(tree, value, "held")
                items = [Leaf(v) if v.rank else Scalar(v.at([])) for v in self.rows(view, value, count)]
            else:
                items = self.tuple_items(tree) or []
        if len(items) != count:
            raise self.source.refuse(s, "unpacking into another number of names", "assign the values one by one")
        return items

    def rows(self, view: View, node: Any, count: int) -> list[View]:
        """The elements or rows of an array that is unpacked, or that a tuple is assigned to; its length is checked."""
        whole = ast.copy_location(Lowered(Leaf(view)), node)
        size = self.shape(view)[0]
        if size is not integer(count):
            text = self.source.lines[node.lineno - 1].strip()
            message = f"{self.lowered_function.name}: not {count} elements in '{text}'"
            self.out.append(Check(Compare(("!=",), (size, integer(count))), message))
        return [
            self.subscript_view(ast.copy_location(ast.Subscript(whole, ast.Constant(k), ast.Load()), node))
            for k in range(count)
        ]

    def bind_tuple(self, s: ast.stmt, name: str, tree: TupleExpr) -> None:
        """Bind a name to a tuple whose items are variables."""
        if name in self.arrays or (
            name in self.rename and self.lowered_function.ranks.get(self.rename[name]) is not None
        ):
            self.split_if_reused(name)
            raise self.source.refuse(s, f"{name} becomes a tuple and was something else", "use another name")
        if is_record(tree) or is_record(self.tuples.get(name)):
            bind_record(self, s, name, tree)  # type: ignore[arg-type]
            return
        known = self.tuples.get(name) if name in self.assigned_tuples else None
        if known is None and name in self.tuples and not self.at_function_level:  # it would keep its old items
            raise self.source.refuse(s, f"{name}, a tuple of the caller's, is bound here", "use another name")
        pack = self.store_items(s, name, tree, known)
        self.tuples[name] = pack
        self.assigned_tuples.add(name)

    @property
    def assigned_tuples(self) -> set[str]:
        """Names of tuples that were assigned here; those of parameters belong to the caller."""
        return self.__dict__.setdefault("_made_tuples", set())

    def store_items(self, s: ast.stmt, name: str, tree: TupleExpr, known: Pack | None) -> Pack:
        """Store the items of a tuple in variables, those of the `known` tuple if it is assigned again."""
        fixed = [(a, b) for a, b in zip(known.items if known else (), tree.items, strict=False)
                 if isinstance(a, Static) or isinstance(b, Static)]  # fmt: skip
        if known is not None and (
            len(known.items) != len(tree.items)
            or (known.of is not tree.tuple_class and list not in (known.of, tree.tuple_class))
            or any(a != b for a, b in fixed)
        ):
            self.may_differ_by_iteration()
            self.split_if_reused(self.user_variable(name))
            self.may_differ_by_iteration(in_ranges=True)
            instead = "use another name, or an array with one axis more; loops over few known numbers are unrolled"
            refused = self.source.refuse(s, f"the tuple or list {name} gets another form", instead)
            self.list_of_rows(self.user_variable(name), refused)
            self.shared.may_decide.update(*self.shared.tests_around)
            raise refused
        copies: list[str] = []
        if known is not None and not (self.runs_once and self.at_function_level):
            tree = TupleExpr(self.held_apart(s, tree.items, known, self.moving(tree, known), copies), tree.tuple_class)
        if len(tree.items) > 1:
            labels = tree.fields or range(len(tree.items))
            first = [self.evaluate_first(s, t, f"{name}_{k}") for k, t in zip(labels, tree.items, strict=True)]
            tree = TupleExpr(first, tree.tuple_class)
        items: list[str | View | Pack | Static] = []
        for k, item in enumerate(tree.items):
            label = tree.fields[k] if tree.fields else str(k)
            before = known.items[k] if known is not None else None
            if isinstance(item, Static):
                items.append(item)
            elif isinstance(item, TupleExpr):
                self.tuple_owner[f"{name}.{label}"] = self.user_variable(name)
                if is_record(item):  # not copied
                    items.append(bound_record(self, s, f"{name}.{label}", item))  # type: ignore[arg-type]
                    continue
                items.append(self.store_items(s, f"{name}.{label}", item, before if isinstance(before, Pack) else None))
            elif item.rank:
                pseudo = f"{name}.{label}"
                self.locals.add(pseudo)
                self.tuple_owner[pseudo] = self.user_variable(name)
                self.rename.setdefault(pseudo, self.names.fresh(self.item_variable(pseudo)))
                self.bind_array(s, pseudo, item, s)
                items.append(pseudo)
            else:
                assert isinstance(item, Scalar)
                variable = (
                    before if isinstance(before, str) else self.names.fresh(self.item_variable(f"{name}.{label}"))
                )
                self.lowered_function.ranks[variable] = 0
                self.assign_scalar(variable, item.term, final=self.stores.count(self.user_variable(name)) == 1)
                items.append(variable)
        for copy in {*copies} - {view.name for view in self.arrays.values()}:  # the items have their values
            self.shared.read_only_copies.pop(copy, None)
        return Pack(tuple(items), tree.tuple_class)

    def moving(self, tree: TupleExpr, known: Pack) -> set[str]:
        """The arrays of the `known` tuple that are in one place of the new one and have no other name: what was another
        item is this one alone from now on."""
        arrays = [self.storage_of(t.view.name) for t in leaves(tree) if isinstance(t, Leaf) and not t.fresh]
        named = {self.storage_of(v.name) for n, v in self.arrays.items() if n not in known.names}
        named = named.union(*self.shared.read_only_copies.values())
        return {a for n in known.names if (a := self.owners.get(n, "")) not in named and arrays.count(a) == 1}

    def held_apart(self, s: ast.AST, items: list[ArrayExpr], known: Pack | None, moving: set[str],
                   copies: list[str]) -> list[ArrayExpr]:  # fmt: skip
        """The items that a tuple is to have in a loop or branch, as in ``fs = (new, fs[0], fs[1])``, with `copies` of
        other arrays. Those that are not `moving` are known by a name as well, and the copy stands for them."""
        before = known.items if known is not None and len(known.items) == len(items) else [None] * len(items)
        done: list[ArrayExpr] = []
        for t, here in zip(items, before, strict=True):
            if isinstance(t, TupleExpr) and not is_record(t):
                inner = here if isinstance(here, Pack) else None
                t = TupleExpr(self.held_apart(s, t.items, inner, moving, copies), t.tuple_class)
            array = self.storage_of(t.view.name) if isinstance(t, Leaf) and not t.fresh else ""
            mine = self.owners.get(here, "") if isinstance(here, str) else ""
            if not array or array == mine or not isinstance(t, Leaf):
                done.append(t)
                continue
            copy = self.copy_of(t.view, s, "")
            alone = array in moving and self.is_whole(t.view)
            self.note_standing(copy.name, self.stands_for(Leaf(t.view, True)) | (set() if alone else {array}))
            done.append(Leaf(copy, True))
            copies.append(copy.name)
        return done

    @staticmethod
    def item_variable(item: str) -> str:
        """The name of a variable for an item of a tuple."""
        return item.replace(".", "_")

    def evaluate_first(self, s: ast.AST, tree: ArrayExpr, name: str = "held") -> ArrayExpr:
        """Evaluate a scalar or new array into a variable, before any item is set."""
        if isinstance(tree, Scalar) and not isinstance(tree.term, Constant):
            return Scalar(Variable(self.fresh_scalar("held", tree.term)))
        if isinstance(tree, Op | FromFunction):
            return Leaf(Elementwise(self, s).materialise(tree, self.names.fresh(self.item_variable(name))), True)
        if isinstance(tree, TupleExpr) and not is_record(tree):
            items = [self.evaluate_first(s, t, f"{name}_{k}") for k, t in enumerate(tree.items)]
            return TupleExpr(items, tree.tuple_class)
        return tree

    def tuple_argument(self, tree: TupleExpr, node: ast.expr) -> Pack:
        """A tuple as an argument of an inlined function."""
        if is_record(tree):
            return record_argument(self, node, tree)  # type: ignore[arg-type]
        items: list[str | View | Pack | Static] = []
        for t in tree.items:
            if isinstance(t, Static):
                items.append(t)
            elif isinstance(t, TupleExpr):
                items.append(self.tuple_argument(t, node))
            elif t.rank:
                items.append(self.view_of(t, node))
            elif isinstance(t, Scalar) and isinstance(t.term, Constant) and isinstance(t.term.value, bool):
                items.append(Static(t.term.value))  # it decides branches
            else:
                assert isinstance(t, Scalar)
                items.append(name_of(t.term) or self.fresh_scalar("item", t.term))
        return Pack(tuple(items), tree.tuple_class)
