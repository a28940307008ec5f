"""Parameters whose names come to stand for other arrays: copies of them, so that a name is one array throughout."""

from __future__ import annotations

import ast

from ..ir.statements import Assign, If, parse, subtrees, unparse
from .array_expressions import Elementwise, Leaf, Several, Tree, copied, leaves
from .calls import Calls
from .live_range_splitting import Mixed
from .mod_ref import written
from .scope import stored_names
from .views import View

__all__ = ["Copies", "exchange"]


class Copies(Calls):
    """Copies parameters."""

    def write(self, node: ast.AST, view: View, tree: Tree) -> None:
        raise NotImplementedError

    def tuple_it(self, s: ast.stmt, name: str, tree: Several) -> None:
        raise NotImplementedError

    def separate(self, body: list[ast.stmt]) -> None:
        """Note names that may stand for new arrays from somewhere in a loop or branch on."""
        inner = [t for s in body if isinstance(s, ast.For | ast.While | ast.If) for t in subtrees(s)]
        self.rebound = {
            n
            for t in inner
            if isinstance(t, ast.Assign) and not exchange(t) and not isinstance(t.value, ast.Subscript)
            for n in stored_names([t])
        }

    rebound: set[str] = set()  # noqa: RUF012
    later: list[str] = []  # noqa: RUF012 (parameters that are copied later)
    stays: set[str] = set()  # noqa: RUF012 (parameters that were copied later)
    parting: dict[str, tuple[str, View]] = {}  # noqa: RUF012 (copies of those that are written: whether they left, and them)
    foreign: set[str] = set()  # noqa: RUF012 (names that may stand for the caller's memory, after exchanges)

    def copy_parameters(self) -> None:
        self.later, self.stays, self.parting = [], set(), {}
        for name in sorted(self.rebound & set(self.arrays)):
            self.not_written(name, Leaf(self.arrays[name]))
            if self.inlined or name not in written(self.source, self.source.node):
                self.copy_for(name, self.arrays[name], self.source.node)
            else:
                self.later.append(name)
        groups = exchanges(self.source.node)
        self.foreign = {n for group in groups if group & set(self.arrays) for n in group}
        returned = {n for t in subtrees(self.source.node) if isinstance(t, ast.Return) for n in _items(t.value)}
        for group in groups:
            if self.inlined or self.shared.still or group & returned:
                for name in sorted(group & set(self.arrays)):
                    self.copy_moving(name, self.arrays[name])
        for name in sorted(self.rebound & set(self.tuples)):
            tree = self.several(self.tuples[name])
            for item in tree.items:
                self.not_written(name, item)
            self.tuple_it(self.source.node, name, tree)

    def copy_later(self, s: ast.stmt) -> None:
        """Copy parameters that are written first, before the statement that gives their names to new arrays."""
        for name in [n for n in self.later if n in stored_names([s]) and n in self.arrays]:
            self.later.remove(name)
            if self.root(self.arrays[name].name) in self.made.parameters:
                self.forget(self.arrays[name].name)
                if name in self.shared.moving:
                    self.copy_leaving(name, self.arrays[name], s)
                else:
                    self.copy_for(name, self.arrays[name], s)
                    self.stays.add(name)

    def not_written(self, name: str, tree: Tree) -> None:
        """Refuse a parameter that is to be copied and is written under another name."""
        roots = {self.root(t.view.name) for t in leaves(tree) if isinstance(t, Leaf)}
        for other in written(self.source, self.source.node) - {name} if self.inlined else ():
            view = self.array(ast.Name(other, ast.Load())) if self.known_here(other) else None
            if view is not None and self.root(view.name) in roots:
                raise self.source.refuse(
                    self.source.node, f"one array as {name} and {other}, which is written", "pass a copy"
                )

    def copy_for(self, name: str, view: View, node: ast.AST) -> None:
        """Let `name` stand for a copy of another array, which must not be written: Python would write the other one."""
        local = self.local(ast.Name(name, ast.Store()))
        copy = self.copy_of(view, node, local if self.made.ranks.get(local) is None else "")
        self.own(name, copy)
        self.shared.copies.add(copy.name)

    def own(self, name: str, copy: View) -> None:
        """Let `name` stand for a copy."""
        self.bind(name, copy)
        self.owners[name] = copy.name
        if copy.name != name:
            self.made.copies[copy.name] = name

    def copy_moving(self, name: str, view: View) -> None:
        """Let `name`, which changes places with others, stand for a copy. What is in the memory of the array itself
        then, where Python changes names only, is put there at the end."""
        copy = self.copy_of(view, self.source.node, "")
        self.own(name, copy)
        self.place(copy.name, len(self.memories))
        self.memories.append(view)

    def copy_leaving(self, name: str, view: View, node: ast.AST) -> None:
        """Let `name` stand for a copy of a parameter, which may be written. The parameter gets what the copy is
        when the name gets another array for the first time, or at the end."""
        copy = self.copy_of(view, node, "")
        self.own(name, copy)
        flag = self.number(f"{name}_left", ast.Constant(False), final=False)
        self.parting[copy.name] = flag, view

    def could_leave(self, array: str) -> None:
        """Begin anew with several names, or with a copy that may be written, where `array` is one that is not."""
        scope: Copies | None = self
        while scope is not None:
            for name in [n for n, owner in scope.owners.items() if owner == array]:
                scope.mixed(name)
                if name in scope.stays - self.shared.moving - scope.foreign:
                    raise Mixed(name, moving=True)
            scope = scope.outer

    def leave(self, node: ast.AST, array: str | None, last: bool = False) -> None:
        """Write a parameter whose name gets another array than this one."""
        if array not in self.parting:
            return
        flag, view = self.parting[array]
        saved, self.out = self.out, []
        self.write(node, view, Leaf(self.all_of(array)))
        inner, self.out = self.out, saved
        done = [] if last else [Assign(flag, ast.Constant(True))]
        self.out.append(If(parse(f"not {flag}"), [*inner, *done], []))

    def place(self, array: str, memory: int = -1) -> str:
        """The number that says in whose memory an array would be: that of one of `memories`, or -1 for its own."""
        if array not in self.places:
            made = self.places[array] = self.names.fresh(f"{array}_place")
            self.made.ranks[made], self.made.kinds[made] = 0, "int"
            assert self.outermost is not None
            self.outermost.insert(
                0, Assign(made, ast.UnaryOp(ast.USub(), ast.Constant(1)) if memory < 0 else ast.Constant(memory))
            )
        return self.places[array]

    def put_back(self) -> None:
        """Before the function ends, write into the arrays that changed places what is in their memory then."""
        for array in self.parting:
            self.leave(self.source.node, array, last=True)
        names = [n for group in exchanges(self.source.node) for n in sorted(group)] if self.memories else []
        moving = dict.fromkeys(self.owners[n] for n in names if n in self.owners)
        for array, place in {a: self.place(a) for a in (*self.places, *moving)}.items():
            for k, view in enumerate(self.memories):
                saved, self.out = self.out, []
                self.write(self.source.node, view, Leaf(self.all_of(array)))
                inner, self.out = self.out, saved
                self.out.append(If(parse(f"{place} == {k}"), inner, []))

    def copy_of(self, view: View, node: ast.AST, name: str) -> View:
        return Elementwise(self, node).materialise(copied(Leaf(view)), name or self.names.fresh(view.name))


def exchange(s: ast.stmt) -> bool:
    """``a, b = b, a``."""
    if not isinstance(s, ast.Assign) or not isinstance(s.targets[0], ast.Tuple) or not isinstance(s.value, ast.Tuple):
        return False
    parts = [*s.targets[0].elts, *s.value.elts]
    if not all(isinstance(p, ast.Name) for p in parts):
        return False
    return {unparse(p) for p in s.targets[0].elts} == {unparse(p) for p in s.value.elts}


def exchanges(node: ast.AST) -> list[set[str]]:
    """The names that change places with one another."""
    groups: list[set[str]] = []
    for s in subtrees(node):
        if isinstance(s, ast.stmt) and exchange(s):
            names = set(stored_names([s]))
            names = names.union(*(g for g in groups if g & names))
            groups = [*(g for g in groups if not g & names), names]
    return groups


def _items(node: ast.expr | None) -> list[str]:
    """The names in what is returned."""
    if isinstance(node, ast.Tuple):
        return [n for e in node.elts for n in _items(e)]
    return [node.id] if isinstance(node, ast.Name) else []
