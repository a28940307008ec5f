"""Statements that change lists, in the forms that the rewriting of lists knows.

``hs += [v]`` and ``hs = hs + [v]`` become ``hs.extend([v])``, ``hs[0], hs[1] = a, b``
one for each item, after the values are held, and ``hs.pop(k)`` a loop (:mod:`.moved_items`). No other name is bound to
a list that changes, so that it cannot be told whether it is a new one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from ..ir.names import Names
from .evaluated_once import uncertain_parts
from .growing_lists import is_end, makes_list, with_all
from .lists_of_rows import exchanged_item, held_item, moved_item
from .moved_items import MovedItems
from .syntax import (
    Transformer,
    all_names,
    assigned_pairs,
    bound_name,
    children,
    count_mentions,
    subtrees,
    unparse,
)

__all__ = ["ListStatements"]


class ListStatements(Transformer):
    """Rewrites the statements of each function that makes lists."""

    def __init__(self) -> None:
        self.lists: set[str] = set()
        self.grown: set[str] = set()  # the lists that methods change
        self.fresh = Names(())
        self.moves = MovedItems(self.fresh)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        around = self.lists, self.fresh, self.grown
        nodes = subtrees(node)
        pairs = [pair for n in nodes if isinstance(n, ast.Assign) for pair in _pairs(n)]
        self.lists = {t.id for t, value in pairs if isinstance(t, ast.Name) and makes_list(value)}
        self.grown = {n.value.id for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)}
        self.fresh = Names(all_names(node))
        if self.lists:
            for n in nodes:
                match n:  # hs.pop(-1) is hs.pop()
                    case ast.Call(ast.Attribute(ast.Name(id=name), "pop"), [ast.UnaryOp(ast.USub(), ast.Constant(1))]):
                        n.args = [] if name in self.lists else n.args
            self.moves = MovedItems(self.fresh)
            self.rename_arrays(node)
            self.copy_lists_handed_on(node)
            self.generic_visit(node)
        self.lists, self.fresh, self.grown = around
        return node

    def rename_arrays(self, function: ast.FunctionDef) -> None:
        """Give another name to what replaces a list: ``path = np.array(path)``, up to the end of the block."""
        nodes = subtrees(function)
        inner = [n for n in nodes[1:] if isinstance(n, ast.FunctionDef | ast.Lambda)]  # which read what it is then
        kept = {m.id for n in inner for m in subtrees(n) if isinstance(m, ast.Name)}
        blocks = [
            block for n in nodes for part in ("body", "orelse") if isinstance(block := getattr(n, part, None), list)
        ]
        for block in blocks:
            for k, s in enumerate(block):
                match s:
                    case ast.Assign([ast.Name()], ast.BinOp(op=ast.Add(), right=ast.List())):
                        pass  # longer by these
                    case ast.Assign([ast.Name(id=name) as target], value) if name in self.lists - kept:
                        rest = block[k + 1 :]
                        uses = [n for n in nodes if isinstance(n, ast.Name) and n.id == name]
                        later = [n for t in rest for n in subtrees(t) if isinstance(n, ast.Name) and n.id == name]
                        beyond = [n for n in uses if (n.lineno, n.col_offset) > (s.end_lineno, s.end_col_offset)]
                        read = any(isinstance(n, ast.Name) and n.id == name for n in subtrees(value))
                        anew = block is function.body or any(_makes(t, name) for t in block[:k])
                        if read and anew and len(beyond) == len(later) and not any(_makes(t, name) for t in rest):
                            new = self.fresh.fresh(name)
                            for n in (target, *later):
                                n.id = new

    def copy_lists_handed_on(self, function: ast.FunctionDef) -> None:
        """``a = [v for v in b]`` for ``a = b`` of lists, where nothing uses `b` before it is made anew, and nothing
        changes `a` in place, or it has no third name: it does not matter then that both are one list. So ``a, b = b,
        c`` is made of copies."""
        changed: set[str] = set()
        blocks: list[list[ast.stmt]] = []
        for n in subtrees(function):
            blocks += [b for b in (getattr(n, "body", None), getattr(n, "orelse", None)) if isinstance(b, list)]
            match n:
                case ast.Attribute(ast.Name(id=name)) | ast.Subscript(ast.Name(id=name), ctx=ast.Store()):
                    changed.add(name)
        for block in blocks:
            k = -1
            while (k := k + 1) < len(block):
                s = block[k]
                match s:
                    case ast.Assign([ast.Name(id=name)], ast.Name(id=other)) if {name, other} <= self.lists:
                        if self.is_handed_on(function, block, k, other, name in changed):
                            s.value = self.copied(other)
                            with_all([s], s)
                    case ast.Assign([ast.Tuple(elts=targets)], ast.Tuple(elts=values)):
                        names = [n.id for n in (*targets, *values) if isinstance(n, ast.Name)]
                        if len(names) != len(targets) + len(values) or not set(names) <= self.lists:
                            continue
                        new, old = names[: len(targets)], names[len(targets) :]
                        moved = [n for n in old if n not in new]
                        if len(set(old)) == len(old) and all(
                            self.is_handed_on(function, block, k, n, True) for n in moved
                        ):
                            held = [self.fresh.fresh(n) for n in old]
                            self.lists |= set(held)
                            pairs = [*zip(held, old, strict=True), *zip(new, held, strict=True)]
                            copies: list[ast.stmt] = [
                                ast.Assign([ast.Name(a, ast.Store())], self.copied(b)) for a, b in pairs
                            ]
                            block[k : k + 1] = with_all(copies, s)
                            k += len(copies) - 1

    def is_handed_on(self, function: ast.AST, block: list[ast.stmt], k: int, name: str, changed: bool) -> bool:
        """Whether statement `k` is the last to use a list that this block makes; `changed`: and it has no third name,
        by which changes in place would be seen."""
        made = next((j for j, t in enumerate(block[:k]) if _makes(t, name)), k)
        lived = sum(count_mentions(t, {name}) for t in block[made : k + 1])
        handed = sum(_hands_on(n, name) for t in block[made : k + 1] for n in subtrees(t))
        return (not changed or handed == 1) and made < k and lived == count_mentions(function, {name})

    def copied(self, name: str) -> ast.expr:
        """``[v for v in name]``."""
        item = self.fresh.fresh("item")
        over = ast.comprehension(ast.Name(item, ast.Store()), ast.Name(name, ast.Load()), [], 0)
        return ast.ListComp(ast.Name(item, ast.Load()), [over])

    def visit(self, node: ast.AST) -> Any:
        done = super().visit(node)
        if not isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Return) or not isinstance(done, ast.stmt):
            return done
        return self.with_pops_before(done)

    def with_pops_before(self, s: ast.stmt) -> Any:
        """``v = hs.pop()`` before a statement with ``hs.pop()`` in it, which is evaluated once, and before all other
        uses of `hs`."""
        inside, whole = subtrees(s), getattr(s, "value", None)
        pops = [n for n in _evaluated(s) if self.is_pop(n)]
        if len(pops) != 1 or (isinstance(s, ast.Assign | ast.Expr) and whole is pops[0]):
            return s
        (pop,) = pops
        assert isinstance(pop, ast.Call)
        name = pop.func.value.id  # type: ignore[attr-defined]
        kept = {id(pop.func.value)}  # type: ignore[attr-defined]
        match s:
            case ast.Expr(ast.Call(func=ast.Attribute(ast.Name() as owner))):  # as hs.append(hs.pop(0))
                kept.add(id(owner))
        reads = [n for n in inside if isinstance(n, ast.Name) and n.id == name and id(n) not in kept]
        if any((n.lineno, n.col_offset) < (pop.lineno, pop.col_offset) for n in reads):  # what is read before
            return s
        item = self.fresh.fresh("item")
        taken = ast.Assign([ast.Name(item, ast.Store())], pop)
        new = ast.copy_location(ast.Name(item, ast.Load()), pop)
        for n in inside:
            for field, value in ast.iter_fields(n):
                if value is pop:
                    setattr(n, field, new)
                elif isinstance(value, list):
                    value[:] = [new if v is pop else v for v in value]
        done = self.visit_Assign(with_all([taken], s)[0])  # type: ignore[arg-type]
        return [*(done if isinstance(done, list) else [done]), s]

    def is_pop(self, node: ast.AST) -> bool:
        """Whether it takes an item of a list."""
        match node:
            case ast.Call(func=ast.Attribute(ast.Name(id=name), "pop"), args=args, keywords=[]):
                return name in self.lists and len(args) < 2
        return False

    def visit_Expr(self, node: ast.Expr) -> Any:
        match node.value:
            case ast.Call(ast.Attribute(ast.Name(id=name), "pop"), [index], []) if name in self.lists:
                return node if is_end([index]) else self.moves.taken_out(node, name, index, [])
            case ast.Call(ast.Attribute(ast.Name(id=name) as whole, "remove"), [value], []) if name in self.lists:
                place = ast.Call(ast.Attribute(whole, "index", ast.Load()), [value], [])
                return self.moves.taken_out(node, name, place, [])
            case ast.Call(ast.Attribute(ast.Name(id=name), "insert"), [index, value], []) if name in self.lists:
                return node if is_end([index]) else self.moves.put_in(node, name, index, value)
        return node

    def visit_Delete(self, node: ast.Delete) -> Any:
        """``del hs[k]``."""
        match node.targets:
            case [ast.Subscript(ast.Name(id=name), index)] if name in self.lists and not isinstance(index, ast.Slice):
                return self.moves.taken_out(node, name, index, [])
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        match node:
            case ast.AugAssign(ast.Name(id=name), ast.Add(), value) if name in self.lists:
                return _extend(node, name, value)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        match node:
            case ast.Assign(targets, ast.Call(ast.Attribute(ast.Name(id=name), "pop"), [index], [])):
                if name in self.lists and not is_end([index]):
                    return self.moves.taken_out(node, name, index, targets)
            case ast.Assign([ast.Name(id=name)], ast.BinOp(ast.Name(id=same), ast.Add(), ast.List() as more)):
                if same == name and name in self.lists:
                    return _extend(node, name, more)
            case ast.Assign([ast.Name(id=name) as target], ast.ListComp() as kept) if name in self.lists & self.grown:
                if count_mentions(kept, {name}):  # as in hs = [h for h in hs if h > 0]
                    new = self.fresh.fresh(name)
                    extended = _extend(node, name, ast.Name(new, ast.Load()))
                    emptied = ast.Assign([target], ast.List([], ast.Load()))
                    return with_all([ast.Assign([ast.Name(new, ast.Store())], kept), emptied, extended], node)
            case ast.Assign([ast.Tuple(elts=targets)], ast.Tuple(elts=values)) if len(targets) == len(values):
                if any(map(self.is_item, targets)) and not any(map(makes_list, values)):
                    names = [self.fresh.fresh("item") for _ in values]
                    exchanged = sorted(map(unparse, targets)) == sorted(map(unparse, values))
                    function = bound_name(exchanged_item if exchanged else held_item, "held")
                    held = [ast.Assign([ast.Name(n, ast.Store())], ast.Call(function, [v], []))
                            for n, v in zip(names, values, strict=True)]  # fmt: skip
                    put = [ast.Assign([t], ast.Call(bound_name(moved_item, n), [ast.Name(n, ast.Load())], []))
                           for t, n in zip(targets, names, strict=True)]  # fmt: skip
                    return with_all([*held, *put], node)
        return node

    def is_item(self, target: ast.expr) -> bool:
        """Whether it is an item of a list."""
        return (
            isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id in self.lists
        )


def _hands_on(node: ast.AST, name: str) -> bool:
    """Whether a node gives a list another name, or may."""
    match node:
        case ast.Subscript(value=ast.Name(id=other)) | ast.Attribute(value=ast.Name(id=other)) if other == name:
            return False
        case ast.Call(func=ast.Name("len" | "enumerate" | "zip" | "range" | "sum" | "max" | "min")):
            return False
    held = [v for v in children(node) if isinstance(v, ast.Name) and v.id == name and isinstance(v.ctx, ast.Load)]
    return bool(held) and not (isinstance(node, ast.For | ast.comprehension) and node.iter in held)


def _makes(s: ast.stmt, name: str) -> bool:
    """Whether a statement makes a list of this name, or may."""
    return any(
        isinstance(n, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name and makes_list(v) for t, v in _pairs(n))
        for n in subtrees(s)
    )


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement that are evaluated once, whatever their values are."""
    yield node
    if not uncertain_parts(node):
        for child in ast.iter_child_nodes(node):
            yield from _evaluated(child)


def _pairs(node: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment with their values."""
    return [pair for t in node.targets for pair in assigned_pairs(t, node.value)]


def _extend(node: ast.AST, name: str, value: ast.expr) -> ast.stmt:
    method = ast.Attribute(ast.Name(name, ast.Load()), "extend", ast.Load())
    (statement,) = with_all([ast.Expr(ast.Call(method, [value], []))], node)
    return statement
