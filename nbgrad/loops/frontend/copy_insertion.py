"""Copy insertion: copy array parameters whose names are rebound, so that a name is one array throughout.

A parameter whose name is bound to another array in a loop or branch, or that is swapped with others
(``a, b = b, a``), is copied when the function begins, or before the statement that rebinds it. Where the parameter is
written as well, the copy is written back into the caller's array.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping

from ..ir.statements import Assign, Check, If, Swap
from ..ir.terms import FALSE, TRUE, ZERO, Compare, Constant, Element, Shape, Unary, Variable, integer
from .array_expressions import ArrayExpr, Elementwise, Leaf, SelectExpr, TupleExpr, copy_of_values, leaves
from .calls import Calls
from .live_range_splitting import NeedsSplitting
from .mod_ref import modified_arrays
from .partial_evaluation import static_truth
from .static_values import makes_functions
from .structured_control import own_returns
from .swaps import is_swap, swap_groups, without_swaps, written_when_new
from .syntax import count_mentions, stored_names, subtrees, written_name
from .views import View

__all__ = ["CopyInsertion"]


class CopyInsertion(Calls):
    """Inserts the copies."""

    def write(self, node: ast.AST, view: View, tree: ArrayExpr) -> None:
        raise NotImplementedError

    def bind_tuple(self, s: ast.stmt, name: str, tree: TupleExpr) -> None:
        raise NotImplementedError

    def find_rebound_names(self, body: list[ast.stmt]) -> None:
        """Note the names that are bound to new arrays inside a loop or branch; and parameters that are bound to other
        arrays or views there, or where a return may have come before."""
        inner: list[ast.AST] = []
        after: list[ast.AST] = []
        for s in self.taken(body):
            after += subtrees(s) if after or own_returns([s]) else []
            inner += subtrees(s) if isinstance(s, ast.For | ast.While | ast.If) else []
        parameters = set(self.source.signature.parameters)
        assigned = [t for t in inner if isinstance(t, ast.Assign) and not is_swap(t)]
        self.rebound = {n for t in assigned if not isinstance(t.value, ast.Subscript) for n in stored_names([t])}
        assigned += [t for t in after if isinstance(t, ast.Assign) and not is_swap(t)]
        self.rebound |= parameters & {n for t in assigned for n in stored_names([t])}
        self.rebound |= set(self.tuples) & set(stored_names([*inner, *after]))  # of parameters, in all ways

    def taken(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of a body, with one branch in place of an ``if`` that the arguments decide: of names that the
        function never sets, so that the outcome is that which lowering will find there."""
        statements: list[ast.stmt] = []
        for s in body:
            decided = isinstance(s, ast.If) and not count_mentions(s.test, set(self.stores))
            holds = static_truth(self, s.test) if decided else None  # type: ignore[attr-defined]
            statements += [s] if holds is None else self.taken(s.body if holds else s.orelse)  # type: ignore[attr-defined]
        return statements

    rebound: set[str] = set()  # noqa: RUF012
    deferred_copies: list[str] = []  # noqa: RUF012 (parameters to be copied before they are rebound)
    copied_at_rebinding: set[str] = set()  # noqa: RUF012 (parameters that were copied before they were rebound)
    copied_back: dict[str, tuple[str, View]] = {}  # noqa: RUF012 (of writable copies: the flag "rebound", the parameter)
    written_when_new: set[str] = set()  # noqa: RUF012 (names that are swapped with new arrays, which alone are written)
    may_alias_caller: set[str] = set()  # noqa: RUF012 (names that may alias the caller's memory after swaps)

    def copy_parameters(self) -> None:
        """Copy parameters at the beginning of the function; those that are written first are copied later."""
        self.deferred_copies, self.copied_at_rebinding, self.copied_back = [], set(), {}
        for name in sorted(self.rebound & set(self.arrays)):
            self.require_unwritten(name, Leaf(self.arrays[name]))
            if self.inlined or name not in modified_arrays(self.source, self.source.node):
                self.bind_read_only_copy(name, self.arrays[name], self.source.node)
            else:
                self.deferred_copies.append(name)
        groups = swap_groups(self.source.node)
        self.may_alias_caller = {n for group in groups if group & set(self.arrays) for n in group}
        returned = {n for t in subtrees(self.source.node) if isinstance(t, ast.Return) for n in _items(t.value)}
        for group in groups:
            parameters = sorted(group & set(self.arrays))
            if parameters and group & self.rebound:
                self.copy_where_rebound(group, parameters)
            elif self.inlined or self.shared.swap_copies_only or group & returned:
                self.require_separate(group, parameters)
                for name in parameters:
                    self.copy_for_swap(name, self.arrays[name])
        swapped = set().union(*groups)  # of arrays, these have been copied
        for name in sorted((self.rebound | swapped) & set(self.tuples)):
            tree = self.several(self.tuples[name])
            for item in tree.items:
                self.require_unwritten(name, item)
            self.bind_tuple(self.source.node, name, tree)

    def copy_where_rebound(self, group: set[str], parameters: list[str]) -> None:
        """Bind parameters that are swapped with names of new arrays, as in ``new = f(u); u, new = new, u``, to copies.

        The caller's memory is then written by nobody: what is written in place is new in that iteration.
        """
        modified = modified_arrays(self.source, without_swaps(self.source.node))
        for name in sorted(group & modified):
            if not written_when_new(self.source.node, name, modified, self.statement_writes):
                what = f"a new array {name}, which is swapped with a parameter, and written"
                raise self.source.refuse(self.source.node, what, f"write {name}[:] = ... into an array made before")
        for name in parameters:
            if name not in self.rebound:
                self.bind_read_only_copy(name, self.arrays[name], self.source.node)
        self.may_alias_caller -= group
        self.written_when_new = self.written_when_new | group

    def statement_writes(self, s: ast.stmt, name: str) -> bool:
        """Whether a statement by itself may write the array of a name."""
        alone = ast.FunctionDef(self.source.node.name, self.source.node.args, [s], [])
        return name in modified_arrays(self.source, ast.copy_location(alone, s))

    def require_separate(self, group: set[str], parameters: list[str]) -> None:
        """Refuse swaps of parameters that share elements with others, if one of them is written."""
        views = {n: v for n, v in self.arrays.items() if n in self.source.signature.parameters}
        modified = modified_arrays(self.source, self.source.node)
        for name in parameters:
            for other, view in views.items():
                if other != name and modified & {*group, other} and may_overlap(self, self.arrays[name], view):
                    what = f"{name}, which is swapped and may share elements with {other}"
                    raise self.source.refuse(self.source.node, what, "pass a copy")

    def copy_before_rebinding(self, s: ast.stmt) -> None:
        """Copy parameters that are written before they are rebound, right before the statement that rebinds them."""
        for name in [n for n in self.deferred_copies if n in stored_names([s]) and n in self.arrays]:
            self.deferred_copies.remove(name)
            if self.storage_of(self.arrays[name].name) in self.lowered_function.parameters:
                self.invalidate_views(self.arrays[name].name)
                if name in self.shared.findings.writable_copies:
                    self.bind_writable_copy(name, self.arrays[name], s)
                else:
                    self.bind_read_only_copy(name, self.arrays[name], s)
                    self.copied_at_rebinding.add(name)

    def require_unwritten(self, name: str, tree: ArrayExpr) -> None:
        """Refuse a parameter that is to be copied and is written under another name."""
        roots = {self.storage_of(t.view.name) for t in leaves(tree) if isinstance(t, Leaf)}
        for other in modified_arrays(self.source, self.source.node) - {name} if self.inlined else ():
            view = self.array(ast.Name(other, ast.Load())) if self.is_local_name(other) else None
            if view is not None and self.storage_of(view.name) in roots:
                raise self.source.refuse(
                    self.source.node, f"one array as {name} and {other}, which is written", "pass a copy"
                )

    def bind_read_only_copy(self, name: str, view: View, node: ast.AST) -> None:
        """Bind `name` to a copy of an array. The copy must stay read-only: in Python, `name` is the array itself."""
        local = self.local(ast.Name(name, ast.Store()))
        copy = self.copy_of(view, node, local if self.lowered_function.ranks.get(local) is None else "")
        self.bind_owned_copy(name, copy)
        original = self.storage_of(view.name)
        copies = self.shared.read_only_copies
        copies[copy.name] = copies.get(original, frozenset()) | {original}

    def stands_for(self, tree: ArrayExpr) -> frozenset[str]:
        """The arrays that an array may be a read-only copy of, as a function returned it, or be chosen from."""
        if isinstance(tree, SelectExpr):
            return tree.chosen.union(*(self.shared.read_only_copies.get(n, frozenset()) for n in tree.chosen))
        copy = self.storage_of(tree.view.name) if isinstance(tree, Leaf) and tree.fresh else ""
        return self.shared.read_only_copies.get(copy, frozenset())

    def as_it_was(self, s: ast.AST, tree: Leaf) -> Leaf:
        """An array that a loop is over and whose name its body binds to others: a copy, which stands for it."""
        copy = self.copy_of(tree.view, s, "")
        self.note_standing(copy.name, self.stands_for(Leaf(tree.view, True)) | {self.storage_of(tree.view.name)})
        return Leaf(copy)

    def note_standing(self, array: str, originals: frozenset[str]) -> None:
        """Note that an array has the values of a read-only copy, and stands for what that is of."""
        if originals:
            self.shared.read_only_copies[array] = originals

    def check_copies(self, node: ast.AST, written: str) -> None:
        """Refuse to write an array while a read-only copy stands for it: in Python, both names are one array."""
        self.shared.written.append(written)
        for copy, originals in self.shared.read_only_copies.items():
            if written in originals:
                raise self.stale(node, copy)

    def check_copies_of_iteration(self, s: ast.AST, before: Mapping[str, frozenset[str]], written: set[str]) -> None:
        """Refuse copies that an iteration makes and leaves to the next one, in which they or their originals are
        `written`."""
        for copy, originals in self.shared.read_only_copies.items():
            new = originals - before.get(copy, frozenset())
            if new and not written.isdisjoint({copy, *new}):
                raise self.stale(s, copy)

    standing_before: frozenset[str] = frozenset()  # the read-only copies at the beginning of the statement
    temporaries: frozenset[str] = frozenset()  # arrays that are only known to this function, as its arguments

    def bind_argument(self, p: str, tree: ArrayExpr, view: View) -> None:
        """Bind a parameter of an inlined function."""
        self.bind(p, view)
        if not isinstance(tree, Leaf) or tree.fresh:
            self.temporaries |= {self.storage_of(view.name)}

    def forget_original(self, array: str) -> None:
        """The name of an array is about to be bound to another one, in the same memory: what stands for the one that it
        was is not written any more."""
        copies = self.shared.read_only_copies
        self.shared.read_only_copies = {copy: originals - {array} for copy, originals in copies.items()}

    def forget_copies(self, before: Container[str], result: ArrayExpr | None) -> None:
        """The function returns: nothing reads the copies that it made, but those in its result."""
        if makes_functions(self.source.node):  # which may read them later
            return
        returned: set[str] = set()
        stack = [] if result is None else [result]
        while stack:
            tree = stack.pop()
            stack += tree.items if isinstance(tree, TupleExpr) else []
            returned |= {self.storage_of(t.view.name) for t in leaves(tree) if isinstance(t, Leaf)}
        gone = self.temporaries - returned  # nothing else has them
        copies = {c: of - gone for c, of in self.shared.read_only_copies.items() if c in before or c in returned}
        self.shared.read_only_copies = {c: of for c, of in copies.items() if of or c in before}

    def forget_unnamed(self, s: ast.stmt, only: frozenset[str] | None = None) -> None:
        """The values of a statement's results that may be arguments have been read: nothing else does, where no name is
        bound to them. `only`: of these arrays."""
        copies = self.shared.read_only_copies
        made = self.shared.may_be_arguments & set(copies) - self.standing_before
        made = made if only is None else made & only
        if not made or any(isinstance(n, ast.FunctionDef | ast.Lambda | ast.GeneratorExp) for n in subtrees(s)):
            return
        targets = s.targets if isinstance(s, ast.Assign) else []
        if len(targets) > 1 or any(isinstance(t, ast.Tuple | ast.List) for t in targets):
            return  # another target may be bound to it yet
        scope: CopyInsertion | None = self
        while made and scope is not None:
            made = {a for a in made if a not in scope.owners.values() and not scope.names_of(a)}
            scope = scope.outer
        for array in made:
            del copies[array]

    def read_here(self, tree: ArrayExpr) -> frozenset[str] | None:
        """Which arrays need not be kept once a name is bound to a copy of these values: all (None) that an operation
        read, or the array itself; none of those that it may be one of."""
        if isinstance(tree, Leaf):
            return frozenset({self.storage_of(tree.view.name)})
        return frozenset() if isinstance(tree, SelectExpr | TupleExpr) else None

    def stale(self, node: ast.AST, copy: str) -> Exception:
        """The error of a copy whose original is written; or lower again with its name split."""
        self.require_writable(copy)
        return self.source.refuse(node, *self.about_copy(copy))

    def about_copy(self, copy: str) -> tuple[str, str]:
        """What may not be written while the array `copy` stands for another one, and what to do."""
        name = self.named_by_user(copy)
        if copy in self.shared.holders:
            what = f"a write to an array that is an item of the list {name}, too, or twice,"
            return what, f"put copies (.copy()) into {name}"
        if copy in self.shared.reshaped_copies:
            what = f"a write to elements that {self.shared.reshaped_copies[copy]} takes, which are not contiguous"
            return what, "copy them before (.copy()), or write them by a loop"
        if copy in self.shared.may_be_arguments:
            what = (
                "a result that is an argument as it was given here and a new array there, and is written or made again,"
            )
            return what, "let it return a copy (return x.copy()) in this case"
        what = f"a write to an array that {name} stands for, too (elsewhere, {name} is bound to other arrays),"
        return what, f"bind {name} to a copy (.copy()), or write before {name} is bound"

    def bind_owned_copy(self, name: str, copy: View) -> None:
        """Bind `name` to a copy that it owns."""
        self.bind(name, copy)
        self.owners[name] = copy.name
        self.note_name(copy.name, name)

    def note_name(self, array: str, name: str) -> None:
        """Note by which name messages are to speak of an array."""
        if array != name:
            self.lowered_function.copied_from[array] = name

    def copy_for_swap(self, name: str, view: View) -> None:
        """Bind `name`, which is swapped with others, to a copy. Python swaps names only, so the array that is in the
        parameter's memory at the end is written back there (`write_back_parameters`)."""
        copy = self.copy_of(view, self.source.node, "")
        self.bind_owned_copy(name, copy)
        self.memory_slot(copy.name, len(self.swapped_parameters))
        self.swapped_parameters.append(view)

    def caller_may_have(self, array: str) -> frozenset[str]:
        """The caller's arrays that the array `array` of a function stands for after swaps with its parameters."""
        swapped = any(self.owners.get(n) == array for n in self.may_alias_caller)
        return frozenset(self.storage_of(v.name) for v in self.swapped_parameters) if swapped else frozenset()

    def bind_writable_copy(self, name: str, view: View, node: ast.AST) -> None:
        """Bind `name` to a writable copy of a parameter. It is written back into the parameter before `name` is first
        rebound, or at the end."""
        copy = self.copy_of(view, node, "")
        self.bind_owned_copy(name, copy)
        flag = self.fresh_scalar(f"{name}_left", FALSE, final=False)
        self.copied_back[copy.name] = flag, view

    def require_writable(self, array: str) -> None:
        """Lower again with split live ranges, or with a writable copy, if `array` is a read-only copy."""
        scope: CopyInsertion | None = self
        while scope is not None:
            for name in [n for n, owner in scope.owners.items() if owner == array]:
                scope.split_if_reused(name)
                if name in scope.copied_at_rebinding - self.shared.findings.writable_copies - scope.may_alias_caller:
                    raise NeedsSplitting(name, writable_copy=True)
            scope = scope.outer

    def copy_back(self, node: ast.AST, array: str | None, last: bool = False) -> None:
        """Write the copy `array` back into its parameter, whose name is about to be rebound."""
        if array not in self.copied_back:
            return
        flag, view = self.copied_back[array]
        outer, self.out = self.out, []
        self.write(node, view, Leaf(self.whole_view(array)))
        inner, self.out = self.out, outer
        mark = [] if last else [Assign(flag, TRUE)]
        self.out.append(If(Unary("not", Variable(flag)), [*inner, *mark], []))

    def memory_slot(self, array: str, memory: int = -1) -> str:
        """The variable with the index in `swapped_parameters` of the memory that an array would be in; -1 for its own
        memory."""
        if array not in self.memory_slots:
            variable = self.memory_slots[array] = self.names.fresh(f"{array}_place")
            self.lowered_function.ranks[variable], self.lowered_function.kinds[variable] = 0, "int"
            assert self.outermost is not None
            self.outermost.insert(0, Assign(variable, integer(memory)))
        return self.memory_slots[array]

    def write_back_parameters(self) -> None:
        """Before the function returns, write copied-back and swapped arrays into the caller's memory."""
        for array in self.copied_back:
            self.copy_back(self.source.node, array, last=True)
        names = [n for group in swap_groups(self.source.node) for n in sorted(group)] if self.swapped_parameters else []
        moving = dict.fromkeys(self.owners[n] for n in names if n in self.owners)
        for array, place in {a: self.memory_slot(a) for a in (*self.memory_slots, *moving)}.items():
            for k, view in enumerate(self.swapped_parameters):
                saved, self.out = self.out, []
                self.write(self.source.node, view, Leaf(self.whole_view(array)))
                inner, self.out = self.out, saved
                self.out.append(If(Compare(("==",), (Variable(place), integer(k))), inner, []))

    def swap(self, s: ast.stmt, targets: list[ast.expr], values: list[ast.expr]) -> None:
        """Swap arrays: a permutation of names as a sequence of pairwise swaps."""
        names, wanted = [t.id for t in targets], [v.id for v in values]  # type: ignore[attr-defined]
        if len(set(names)) < len(names):
            raise self.source.refuse(s, "arrays assigned to other names", "write a, b = b, a, or copy elements")
        owned = {n: self.owners.get(n, "") for n in names}
        if not all(owned[n] and self.arrays[n].name == owned[n] for n in names) or (
            self.inlined and not self.runs_once and not set(names).isdisjoint(self.source.signature.parameters)
        ):
            raise self.source.refuse(
                s, "arrays assigned to other names", "write a, b = b, a with whole arrays, or copy elements"
            )
        self.require_no_copies(s, names, owned)
        for n in names:
            self.invalidate_views(owned[n])
        first = owned[names[0]]
        for n in names[1:]:
            a, b = first, owned[n]
            refused = self.source.refuse(s, "a swap of arrays of different kinds", "use arrays of one rank and dtype")
            if (rank := self.lowered_function.ranks[a]) != self.lowered_function.ranks[b]:
                raise refused
            self.lowered_function.assumed_kinds.append((a, [Element(b, (ZERO,) * rank)], refused))
            message = f"{self.lowered_function.name}: {names[0]} and {n} change places and have different shapes"
            self.emit(Check(Compare(("!=",), (Shape(a), Shape(b))), message))
            if self.shared.over_allocated & {a, b}:
                for mine, other in zip(self.size(a), self.size(b), strict=True):
                    self.emit(Check(Compare(("!=",), (mine, other)), message))
        bound = list(names)  # the array that each name is bound to, by the name it had
        for k, n in enumerate(names):
            j = bound.index(wanted[k])
            if j != k:
                self.emit_swap(owned[n], owned[names[j]])
                bound[k], bound[j] = bound[j], bound[k]

    def require_no_copies(self, s: ast.stmt, names: list[str], owned: dict[str, str]) -> None:
        """Refuse to swap a copy that stands for another array with what is written: that is the array itself then."""
        copies = [n for n in names if self.shared.read_only_copies.get(owned[n]) and n not in self.written_when_new]
        if copies and not modified_arrays(self.source, self.source.node).isdisjoint(names):
            what = f"{copies[0]}, another name of an array, which is swapped with others and written"
            raise self.source.refuse(s, what, f"bind {copies[0]} to a copy (.copy())")

    def release_items(self, node: ast.AST, array: str) -> None:
        """Rows of `array` are about to hold other items of a list: names bound to those that they hold end."""
        scope: CopyInsertion | None = self
        while scope is not None:
            for name, view in list(scope.arrays.items()):
                if self.storage_of(view.name) != array or view.rank == self.lowered_function.ranks[array]:
                    continue
                if any(before.get(name) == view for before in scope.arrays_before_loops):
                    what = f"an item of a list that changes in a loop, while {written_name(name)} is bound to one"
                    raise self.source.refuse(node, what, f"bind {written_name(name)} to a copy (.copy())")
                del scope.arrays[name]
                scope.uncertain_arrays[name] = "copy it (.copy()) before its place in the list gets another item"
            for name, pack in scope.tuples.items():
                if any(isinstance(i, View) and self.storage_of(i.name) == array for i in pack.items):
                    what = f"an item of a list that changes, while the tuple {written_name(name)} has one"
                    raise self.source.refuse(node, what, "put a copy (.copy()) into the tuple")
            scope = scope.outer

    def emit_swap(self, a: str, b: str) -> None:
        """Swap two arrays, and the indices of the memory they would be in."""
        self.emit(Swap(a, b))
        for copy, originals in self.shared.read_only_copies.items():
            if originals & {a, b}:  # it may be of either, as in a loop
                self.shared.read_only_copies[copy] = originals | {a, b}
        if self.swapped_parameters:
            first, second = self.memory_slot(a), self.memory_slot(b)
            held = self.fresh_scalar("held", Variable(first))
            self.assign_scalar(first, Variable(second))
            self.assign_scalar(second, Variable(held))

    def copy_of(self, view: View, node: ast.AST, name: str) -> View:
        made = Elementwise(self, node).materialise(copy_of_values(Leaf(view)), name or self.names.fresh(view.name))
        self.shared.note_rows(made.name, self.shared.of_tuples.get(view.name))
        return made


def may_overlap(low: CopyInsertion, a: View, b: View) -> bool:
    """Whether two views may share elements: they are of one array, and no index of theirs differs for certain."""
    if low.storage_of(a.name) != low.storage_of(b.name):
        return False
    pairs = zip(a.parts, b.parts, strict=True) if a.name == b.name else ()
    numbers = [(p.value, q.value) for p, q in pairs if isinstance(p, Constant) and isinstance(q, Constant)]
    return not any(p != q and (p >= 0) == (q >= 0) for p, q in numbers)


def _items(node: ast.expr | None) -> list[str]:
    """The names in a returned expression."""
    if isinstance(node, ast.Tuple):
        return [n for e in node.elts for n in _items(e)]
    return [node.id] if isinstance(node, ast.Name) else []
