"""Assignments: to numbers, arrays, elements, parts of arrays, and tuples."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from ..ir.statements import Assign, Check, Grow, Store, Swap, parse, reads, subtrees, unparse, walk
from ..ir.tapes import GROWN
from .advanced_indexing import Same, look, store_masked, unmasked
from .array_expressions import Elementwise, Leaf, Op, Scalar, Several, Tree, copied, leaves
from .copy_insertion import Copies, exchange
from .expressions import Done
from .mod_ref import written
from .scope import Pack, stored_names
from .views import Axis, View, size_of

__all__ = ["Storing"]


class Storing(Copies):
    """Lowers assignments."""

    here: tuple[list[ast.stmt], int] = ([], 0)  # the block that is being lowered, and the place in it
    above: tuple[tuple[list[ast.stmt], int], ...] = ()  # those around, as far as they are branches

    def assign(self, s: ast.stmt, target: ast.expr, value: ast.expr) -> None:
        self.only = value
        if isinstance(target, ast.Subscript):
            index = self.array_index(target)
            if index is not None:
                self.write_at(target, index, value)
                return
            tree = self.tree(value)
            self.write(target, self.part_of(target), tree)
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(s, target, value)
        elif isinstance(target, ast.Name):
            function = self.passed(value)
            if function is not None:
                self.functions[target.id] = function
                return
            if self.grows(value):
                size = self.tree(value.args[1])  # type: ignore[attr-defined]
                assert isinstance(size, Scalar)
                self.emit(Grow(self.owners[target.id], size.node))
                return
            if target.id not in self.arrays and self.made.ranks.get(self.local(target)) is None:
                self.hint = self.local(target)
            tree = self.tree(value)
            self.hint = ""
            self.name_it(s, target.id, tree, value)
        else:
            raise self.source.refuse(s, "an assignment to this", "assign to a name or to elements of an array")

    def array_index(self, target: ast.Subscript) -> Tree | None:
        """The only index, if it is an array."""
        part = target.slice
        if not isinstance(part, ast.Compare | ast.UnaryOp | ast.BinOp) and self.array(part) is None:
            return None
        tree = self.tree(part)
        return tree if tree.rank else None

    def write_at(self, target: ast.Subscript, index: Tree, value: ast.expr) -> None:
        """Write elements at the indices that an array has, or that a mask tells."""
        view, mask = self.view(target.value), look(self, index) == "bool"
        mask = mask and view.rank == index.rank
        tree = self.tree(unmasked(self, value, unparse(target.slice)) if mask else value)
        kinds = {isinstance(t, Same) for t in leaves(tree) if t.rank}
        if len(kinds) > 1:
            raise self.source.refuse(
                target, "a part by a mask with other arrays", "take the same part of each, or loop"
            )
        if mask and False not in kinds:
            self.writable(target, view)
            store_masked(self, target, view, index, tree)
            return
        done = ast.Subscript(target.value, ast.copy_location(Done(index), target), ast.Store())
        self.write(target, self.part_of(ast.copy_location(done, target)), tree)

    def grows(self, value: ast.expr) -> bool:
        """Whether it is a tape of generated code that gets more room."""
        called = self.callee(value) if isinstance(value, ast.Call) else None
        return getattr(called, "__name__", "") == "grown" and inspect.getsource(called).endswith(GROWN)  # type: ignore[arg-type]

    def augmented(self, s: ast.AugAssign) -> None:
        read = parse(unparse(s.target))
        for n in subtrees(read):
            ast.copy_location(n, s.target)
        value = ast.copy_location(ast.BinOp(read, s.op, s.value), s)
        view = self.array(s.target)
        if view is not None:
            before = len(self.out)
            self.write(s.target, view, self.tree(value))
            error = self.source.refuse(s, "an array of integers that floats are added to in place", "make it of floats")
            stores = [t for t in walk(self.out[before:]) if isinstance(t, Store) and t.array == view.name]
            self.made.reused += [(t.array, t.value, error) for t in stores]  # unlike that of elements, NumPy refuses it
        else:
            self.assign(s, s.target, value)

    def name_it(self, s: ast.stmt, name: str, tree: Tree, value: ast.expr) -> None:
        """Give a number, an array or a tuple a name."""
        self.texts.pop(name, None)
        if isinstance(tree, Several):
            self.tuple_it(s, name, tree)
        elif tree.rank:
            self.array_it(s, name, tree, value)
        else:
            assert isinstance(tree, Scalar)
            self.number_it(s, name, tree.node)

    def number_it(self, s: ast.stmt, name: str, value: ast.expr) -> None:
        if name in self.arrays or name in self.lost or name in self.tuples:
            self.mixed(name)
            raise self.source.refuse(s, f"{name} becomes a number and was an array or tuple", "use another name")
        made = self.local(ast.Name(name, ast.Store()))
        self.made.ranks.setdefault(made, 0)
        if not (isinstance(value, ast.Name) and value.id == made):
            self.emit(Assign(made, value))

    # Arrays.

    def array_it(self, s: ast.stmt, name: str, tree: Tree, value: ast.expr) -> None:
        local = self.local(ast.Name(name, ast.Store()))
        if name in self.tuples or (self.made.ranks.get(local) == 0 and name not in self.arrays):
            self.mixed(name)
            raise self.source.refuse(s, f"{name} becomes an array and was something else", "use another name")
        owner, straight = self.owners.get(name), self.straight and self.in_top
        self.leave(s, owner)
        alias = isinstance(tree, Leaf) and not tree.fresh
        if owner is not None and not straight and name in self.arrays:
            if alias and not self.moves(name, value) and not self.read_only(name, value):
                self.mixed(name)
                raise self.source.refuse(
                    s, f"another array under the name {name}", f"copy the other one (.copy()), or write {name}[:] = ..."
                )
            if not self.fits(s, tree, owner):
                self.mixed(name)
            if tree.rank != self.made.ranks[owner]:
                raise self.source.refuse(s, f"{name} gets another number of axes", "use another name")
            if name in self.foreign:
                raise self.source.refuse(
                    s, f"a new array {name}, which changes places with a parameter", f"write {name}[:] = ..."
                )
            self.forget(owner)
            self.shared.copies.discard(owner)
            before = len(self.out)
            self.write(s, self.all_of(owner), tree)
            error = self.source.refuse(s, f"{name} gets elements of another kind", "use another name")
            stores = [t for t in walk(self.out[before:]) if isinstance(t, Store)]
            self.made.reused += [(owner, t.value, error) for t in stores]
            return
        if isinstance(tree, Leaf) and tree.view.name in self.shared.ruled and self.changes(name):
            tree = copied(tree)
        if isinstance(tree, Leaf):
            base = self.base(name)
            given = isinstance(s, ast.FunctionDef)  # an item of a parameter
            varies = base in self.rebound and self.stores.count(base) + given > 1
            lasts = straight or isinstance(value, ast.Name)  # rows in loops are seldom wanted later
            moved = lasts and _base(value) in self.rebound and self.read_only(name, value)
            if alias and (varies or moved):
                self.copy_for(name, tree.view, s)
                return
            view = self.frozen(tree.view) if alias else tree.view
        else:
            free = self.made.ranks.get(local) is None
            view = Elementwise(self, s).materialise(tree, local if free else self.names.fresh(name))
        self.bind(name, view)
        self.owners.pop(name, None)
        if not alias:
            self.owners[name] = view.name

    def fits(self, s: ast.stmt, tree: Tree, owner: str) -> bool:
        """Whether the elements of `tree` are as many as those of an array for sure, and of its kind."""
        looks = {self.look(tree), self.look(Leaf(self.all_of(owner)))} - {""}
        sizes = [unparse(size_of(a)) for a in Elementwise(self, s).axes(tree)]
        return len(looks) < 2 and sizes == [unparse(n) for n in self.size(owner)]

    def changes(self, name: str) -> bool:
        """Whether elements are stored into what the name stands for, or it stands for several arrays."""
        stored = {
            n.value.id
            for n in subtrees(self.source.node)
            if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name)
        }
        added = {n for t in subtrees(self.source.node) if isinstance(t, ast.AugAssign) for n in stored_names([t])}
        return name in stored | added or (name in self.rebound and self.stores.count(name) > 1)

    def frozen(self, view: View) -> View:
        """`view` as it is now: numbers in it that may change later get names of their own."""

        def still(node: ast.expr) -> ast.expr:
            names = {n.id for n in subtrees(node) if isinstance(n, ast.Name)}
            if all(self.made.ranks.get(n) or self.fixed(n) or n in self.shared.known or n in self.shared.bound
                   for n in names):  # fmt: skip
                return node
            name = self.number("at", node)
            made.add(name)
            return ast.Name(name, ast.Load())

        made: set[str] = set()  # set here alone
        parts = [
            Axis(still(p.start), still(p.stop), still(p.step)) if isinstance(p, Axis) else still(p) for p in view.parts
        ]
        for part, size in zip(parts, self.size(view.name), strict=True):
            length = size_of(part) if isinstance(part, Axis) else ast.Constant(0)
            if made & reads(length) and all(n in made or self.fixed(n) for n in reads(length)):
                self.shared.parts[unparse(length)] = size  # a part is not longer than the whole
        return View(view.name, tuple(parts), view.order)

    def moves(self, name: str, value: ast.expr) -> bool:
        """Whether ``name = value`` gives an array its name for good: it was made in this block, or in one around this
        branch, and is not used again, so that copying its values does the same."""
        if not isinstance(value, ast.Name) or value.id not in self.owners or value.id in self.made.parameters:
            return False
        same = {value.id} | self.names_of(self.owners[value.id])
        inner = [n for n in subtrees(self.source.node) if isinstance(n, ast.FunctionDef | ast.Lambda)]
        if any(_uses(n, same) for n in inner if n is not self.source.node):  # may be called later
            return False
        for statements, k in [self.here, *reversed(self.above)]:
            made = [j for j, t in enumerate(statements[:k]) if isinstance(t, ast.Assign) and _names(t, value.id)]
            if made:
                return sum(_uses(t, same) for t in statements[made[0] : k + 1]) == _uses(self.source.node, same)
            if any(_uses(t, same) for t in statements[k + 1 :]):
                return False
        return False

    def names_of(self, array: str) -> set[str]:
        """The names by which an array or a part of it is known, those of tuples with it included."""
        found = list(self.arrays.items())
        packs = list(self.tuples.items())
        while packs:
            name, pack = packs.pop()
            found += [(name, i) for i in pack.items if isinstance(i, View)]
            packs += [(name, i) for i in pack.items if isinstance(i, Pack)]
        return {self.base(n) for n, v in found if self.root(v.name) == array}

    def read_only(self, name: str, value: ast.expr) -> bool:
        """Whether neither the array `value` nor what `name` stands for is written in place, so that copying its values
        does the same."""
        base = _base(value)
        if base not in self.locals:
            return False
        if self.inlined and base not in self.owners:  # who else writes it, the caller knows
            return False
        return not {name, base} & written(self.source, self.source.node)

    # Elements and parts.

    def part_of(self, target: ast.Subscript) -> View:
        view = self.part(target)
        self.writable(target, view)
        return view

    def writable(self, node: ast.AST, view: View) -> None:
        if self.root(view.name) in self.made.constants:
            raise self.source.refuse(node, "an array from outside that is written", "pass it as an argument")
        if self.root(view.name) in self.shared.ruled:
            raise self.source.refuse(
                node, "an array made by a primitive with a vjp that is written", "copy it, by another name"
            )
        if self.root(view.name) in self.shared.copies:
            self.could_leave(self.root(view.name))
            raise self.source.refuse(
                node,
                "an array parameter that is written and stands for new arrays elsewhere",
                "copy it, by another name",
            )

    def write(self, node: ast.AST, view: View, tree: Tree) -> None:
        """``view[...] = tree``."""
        self.writable(node, view)
        if isinstance(tree, Several) and view.rank == 1 and all(isinstance(t, Scalar) for t in tree.items):
            items = [self.apart(node, t) for t in tree.items]  # type: ignore[arg-type]
            for place, item in zip(self.rows(view, node, len(items)), items, strict=True):
                self.write(node, place, item)
            return
        if tree.rank > view.rank or isinstance(tree, Several):
            raise self.source.refuse(node, "more axes than what is assigned to", "index it, or write a loop")
        if view.rank:
            Elementwise(self, node).store(view, tree)
            return
        assert isinstance(tree, Scalar)
        self.emit(Store(view.name, view.at([]).slice, tree.node))

    # Tuples.

    def unpack(self, s: ast.stmt, target: ast.Tuple | ast.List, value: ast.expr) -> None:
        if exchange(s) and all(self.array(t) is not None for t in target.elts):
            self.swap(s, target.elts, value.elts)  # type: ignore[attr-defined]
            return
        items = self.items(s, value, len(target.elts))
        names = stored_names([ast.copy_location(ast.Expr(target), s)])
        mine = {self.local(ast.Name(n, ast.Load())) for n in names} if len(items) > 1 else set()
        subscripts = any(isinstance(t, ast.Subscript) for t in target.elts)
        held: list[Tree] = []
        given = value.elts if isinstance(value, ast.Tuple) else [value] * len(items)
        for item, t, node in zip(items, target.elts, given, strict=True):
            if isinstance(item, Op) and len(items) > 1:
                item = Leaf(Elementwise(self, s).materialise(item, self.names.fresh("held")), True)
            if isinstance(item, Scalar) and len(items) > 1 and self.may_change(item.node, subscripts, mine):
                item = Scalar(ast.Name(self.number("held", item.node), ast.Load()))
            if isinstance(item, Leaf) and not item.fresh and any(
                self.owners.get(n) == self.root(item.view.name) and n in self.arrays for n in names
            ):  # fmt: skip
                if not isinstance(t, ast.Name) or not self.read_only(t.id, node):
                    raise self.source.refuse(s, "arrays given other names", "write a, b = b, a, or copy elements")
                item = Leaf(self.copy_of(item.view, s, ""), True)
            held.append(item)
        for t, item, node in zip(target.elts, held, given, strict=True):
            if isinstance(t, ast.Name):
                self.name_it(s, t.id, item, node)
            else:
                self.assign(s, t, ast.copy_location(Done(item), s))

    def may_change(self, node: ast.expr, elements: bool, names: set[str]) -> bool:
        """Whether setting some `names`, or elements of arrays, may change a number."""
        return any(
            isinstance(n, ast.Subscript) or (isinstance(n, ast.Name) and (elements or n.id in names))
            for n in subtrees(node)
        )

    def items(self, s: ast.stmt, value: ast.expr, count: int) -> list[Tree]:
        sizes = self.shape_of(value)
        if sizes is not None:
            found: list[Tree] = [Scalar(n) for n in sizes]
        else:
            tree = self.tree(value)
            if tree.rank:
                view = self.view_of(tree, value, "held")
                found = [Leaf(v) if v.rank else Scalar(v.at([])) for v in self.rows(view, value, count)]
            else:
                found = tree.items if isinstance(tree, Several) else []
        if len(found) != count:
            raise self.source.refuse(s, "this unpacking", "assign the values one by one")
        return found

    def rows(self, view: View, node: Any, count: int) -> list[View]:
        """The elements or rows of an array that is unpacked, or to which a tuple is assigned."""
        whole = ast.copy_location(Done(Leaf(view)), node)
        size = unparse(self.shape(view)[0])
        if size != str(count):
            text = self.source.lines[node.lineno - 1].strip()
            message = f"{self.made.name}: not {count} elements in '{text}'"
            self.out.append(Check(parse(f"{size} != {count}"), message))
        return [
            self.part(ast.copy_location(ast.Subscript(whole, ast.Constant(k), ast.Load()), node)) for k in range(count)
        ]

    def swap(self, s: ast.stmt, targets: list[ast.expr], values: list[ast.expr]) -> None:
        """Arrays that change places, two at a time."""
        names, wanted = [t.id for t in targets], [v.id for v in values]  # type: ignore[attr-defined]
        if len(set(names)) < len(names):
            raise self.source.refuse(s, "arrays given other names", "write a, b = b, a, or copy elements")
        owned = {n: self.owners.get(n, "") for n in names}
        if not all(owned[n] and self.arrays[n].name == owned[n] for n in names) or (
            self.inlined and any(not self.straight for n in names)
        ):
            raise self.source.refuse(
                s, "arrays given other names", "write a, b = b, a with whole arrays, or copy elements"
            )
        for n in names:
            self.forget(owned[n])
        first = owned[names[0]]
        for n in names[1:]:
            a, b = first, owned[n]
            if self.made.ranks[a] != self.made.ranks[b] or self.made.kinds[a] != self.made.kinds[b]:
                raise self.source.refuse(s, "a swap of arrays of different kinds", "use arrays of one rank and dtype")
            message = f"{self.made.name}: {names[0]} and {n} change places and have different shapes"
            self.emit(Check(parse(f"{a}.shape != {b}.shape"), message))
        now = list(names)  # which of the arrays each name stands for
        for k, n in enumerate(names):
            j = now.index(wanted[k])
            if j != k:
                self.exchange(owned[n], owned[names[j]])
                now[k], now[j] = now[j], now[k]

    def exchange(self, a: str, b: str) -> None:
        self.emit(Swap(a, b))
        if self.memories:
            first, second = self.place(a), self.place(b)
            held = self.number("held", ast.Name(first, ast.Load()))
            self.emit(Assign(first, ast.Name(second, ast.Load())))
            self.emit(Assign(second, ast.Name(held, ast.Load())))

    def tuple_it(self, s: ast.stmt, name: str, tree: Several) -> None:
        if name in self.arrays or (name in self.rename and self.made.ranks.get(self.rename[name]) is not None):
            self.mixed(name)
            raise self.source.refuse(s, f"{name} becomes a tuple and was something else", "use another name")
        known = self.tuples.get(name) if name in self.made_tuples else None
        found = self.stored(s, name, tree, known)
        self.tuples[name] = found
        self.made_tuples.add(name)

    @property
    def made_tuples(self) -> set[str]:
        """Tuples that were assigned here; what a parameter stands for is the caller's."""
        return self.__dict__.setdefault("_made_tuples", set())

    def stored(self, s: ast.stmt, name: str, tree: Several, known: Pack | None) -> Pack:
        """The items of a tuple in variables of their own, those of before if there were any."""
        if known is not None and (len(known.items) != len(tree.items) or known.of is not tree.of):
            raise self.source.refuse(s, f"the tuple {name} gets another form", "use another name")
        if len(tree.items) > 1:
            labels = tree.fields or range(len(tree.items))
            tree = Several([self.apart(s, t, f"{name}_{k}") for k, t in zip(labels, tree.items, strict=True)], tree.of)
        items: list[str | View | Pack] = []
        for k, item in enumerate(tree.items):
            label = tree.fields[k] if tree.fields else str(k)
            before = known.items[k] if known is not None else None
            if isinstance(item, Several):
                self.tuple_with[f"{name}.{label}"] = self.base(name)
                items.append(self.stored(s, f"{name}.{label}", item, before if isinstance(before, Pack) else None))
            elif item.rank:
                pseudo = f"{name}.{label}"
                self.locals.add(pseudo)
                self.tuple_with[pseudo] = self.base(name)
                self.rename.setdefault(pseudo, self.names.fresh(self.spelled(pseudo)))
                self.array_it(s, pseudo, item, s)  # type: ignore[arg-type]
                items.append(pseudo)
            else:
                assert isinstance(item, Scalar)
                made = before if isinstance(before, str) else self.names.fresh(self.spelled(f"{name}.{label}"))
                self.made.ranks[made] = 0
                self.emit(Assign(made, item.node), final=self.stores.count(self.base(name)) == 1)
                items.append(made)
        return Pack(tuple(items), tree.of)

    @staticmethod
    def spelled(item: str) -> str:
        """What a variable for an item of a tuple may be called."""
        return item.replace(".", "_")

    def apart(self, s: ast.stmt, tree: Tree, name: str = "held") -> Tree:
        """A number or new array, with a name, before any item is set."""
        if isinstance(tree, Scalar) and not isinstance(tree.node, ast.Constant):
            return Scalar(ast.Name(self.number("held", tree.node), ast.Load()))
        if isinstance(tree, Op):
            return Leaf(Elementwise(self, s).materialise(tree, self.names.fresh(self.spelled(name))), True)
        return tree

    def packed(self, tree: Several, node: ast.expr) -> Pack:
        """A tuple as an argument."""
        items: list[str | View | Pack] = []
        for t in tree.items:
            if isinstance(t, Several):
                items.append(self.packed(t, node))
            elif t.rank:
                items.append(self.view_of(t, node))
            else:
                assert isinstance(t, Scalar)
                items.append(t.node.id if isinstance(t.node, ast.Name) else self.number("item", t.node))
        return Pack(tuple(items), tree.of)


def _base(node: ast.expr) -> str:
    """The name of the array that an expression is a part of."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _uses(s: ast.AST, names: set[str]) -> int:
    return sum(isinstance(n, ast.Name) and n.id in names for n in subtrees(s))


def _names(s: ast.Assign, name: str) -> bool:
    targets = [e for t in s.targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return any(isinstance(t, ast.Name) and t.id == name for t in targets)
