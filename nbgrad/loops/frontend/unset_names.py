"""Local variables that are read before they are set.

If that is so on every path (Python's UnboundLocalError), also because constants rule out the branches that set them,
the function is refused. If an earlier iteration sets them,
further down in the text, they get an initial value, as Numba demands an assignment above.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ...errors import TraceError
from ..ir.statements import Assign, Block, Function, terms_of, walk, writes
from ..ir.terms import ZERO, reads
from .syntax import Transformer, children, stored_names, subtrees

if TYPE_CHECKING:
    from .source import Source

__all__ = [
    "SettingBranchFirst",
    "initial_values",
    "is_set_below",
    "read_before_set",
    "refuse_unset",
    "refused_as_array",
    "refused_as_unset",
]


def initial_values(body: Block, parameters: Sequence[str], left_out: set[str]) -> list[Assign]:
    """Initial values for the variables of a lowered function that are read above of where they are set, or that only
    statements set that are `left_out`."""
    set_by_others = {n for s in walk(body) if not isinstance(s, Assign) for n in writes(s)}
    later = ({s.name for s in walk(body) if isinstance(s, Assign)} | (left_out - set_by_others)) - {*parameters}
    values: list[Assign] = []
    for s in walk(body):
        above = sorted(reads(*terms_of(s)) & later)
        values += [Assign(name, ZERO) for name in above]
        later -= {*above, *([s.name] if isinstance(s, Assign) else [])}
    return values


def read_before_set(function: ast.FunctionDef) -> ast.Name | None:
    """The first read of such a variable; None if there is none."""
    parameters = {n.arg for n in children(function.args) if isinstance(n, ast.arg)}
    checked: set[str] = getattr(function, "optional", set())  # reads of names that are None at first
    return _Reads(set(stored_names(function.body)) - parameters - checked).first(function.body)


def refuse_unset(program: Function, names_read: Mapping[str, tuple[Source, ast.Name]]) -> None:
    """Refuse a read of a name that no statement of the lowered function sets: constants rule out those that do."""
    unset = (
        names_read.keys()
        - {*program.parameters, *program.constants}
        - {n for s in walk(program.body) for n in writes(s)}
    )
    read = {*(program.results or ()), *(n for s in walk(program.body) for n in reads(*terms_of(s)))} if unset else set()
    for name, (source, node) in names_read.items():
        if name in unset & read:
            raise refused_as_unset(source, node)


def refused_as_unset(source: Source, name: ast.Name) -> TraceError:
    """The error for a read of a name that nothing has set."""
    what = f"{name.id}, which nothing has set before it is read"
    return source.refuse(name, what, "set it before, or make it an argument")


def is_set_below(function: ast.FunctionDef, name: ast.Name) -> bool:
    """Whether what sets a name stands below this read of it alone."""
    first = _first_places(function).get(name.id)
    return first is not None and first > _place(name)


def refused_as_array(source: Source, name: ast.Name) -> TraceError:
    """The error if such a name turns out to be an array."""
    what = f"{name.id} where an array is expected, which an earlier iteration sets further down"
    return source.refuse(name, what, f"set it before the loop, too, as in {name.id} = np.zeros(n)")


class SettingBranchFirst(Transformer):
    """Puts the branch first that sets what the other one reads, from an earlier iteration: ``if i > 0: d = r + b * d``
    and ``else: d = r`` become ``if not i > 0: d = r`` and so on."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.first = _first_places(function)

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if self._reads_what_is_set_in(node.body, node.orelse) and not self._reads_what_is_set_in(
            node.orelse, node.body
        ):
            node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
            node.body, node.orelse = node.orelse, node.body
        return node

    def _reads_what_is_set_in(self, block: list[ast.stmt], other: list[ast.stmt]) -> bool:
        """Whether a block reads a name that nothing above sets and that another block sets."""
        start = min([_place(s) for s in [*block, *other]], default=(0, 0))
        unset = {name for name in stored_names(other) if self.first.get(name, (0, 0)) > start}
        names = (n for s in block for n in subtrees(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
        return any(n.id in unset for n in names)


@lru_cache(8)
def _first_places(function: ast.FunctionDef) -> dict[str, tuple[int, int]]:
    """Where each name is set first: assignments are, after their values, at their ends."""
    parameters = [n.arg for n in children(function.args) if isinstance(n, ast.arg)]
    places: dict[str, tuple[int, int]] = {}

    def visit(node: ast.AST, end: tuple[int, int] | None) -> None:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            end = getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            places[node.id] = min(places.get(node.id, (1 << 30, 0)), end or _place(node))
        for child in children(node):
            visit(child, end)

    visit(function, None)
    return {name: place for name, place in places.items() if name not in parameters}


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


class _Reads:
    """A walk in the order of evaluation. A name counts as set after any branch that sets it, and in loops that do."""

    def __init__(self, unset: set[str]) -> None:
        self.unset = unset

    def first(self, nodes: Sequence[ast.AST]) -> ast.Name | None:
        """The first read of an unset name in nodes that are evaluated one after the other."""
        return next((found for node in nodes if self.unset and (found := self._visit(node))), None)

    def _visit(self, node: ast.AST) -> ast.Name | None:
        match node:
            case ast.Name():
                if isinstance(node.ctx, ast.Load) and node.id in self.unset:
                    return node
                self.unset.discard(node.id)
                return None
            case ast.Lambda() | ast.FunctionDef():  # what they read is evaluated when they are called
                found = self.first([d for d in [*node.args.defaults, *node.args.kw_defaults] if d is not None])
                self.unset.discard(getattr(node, "name", ""))
                return found
            case ast.Assign():
                return self.first([node.value, *node.targets])
            case ast.AnnAssign():
                return self.first([node.value, node.target]) if node.value is not None else None
            case ast.AugAssign():
                if isinstance(node.target, ast.Name) and node.target.id in self.unset:
                    return node.target
                return self.first([node.value, node.target])
            case ast.NamedExpr():
                return self.first([node.value, node.target])
            case ast.For():
                return self.first([node.iter]) or self._loop([node.target, *node.body], node.orelse)
            case ast.While():
                return self.first([node.test]) or self._loop(node.body, node.orelse)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                return self._comprehension(node)
            case ast.If():
                return self.first([node.test]) or self._branches([node.body, node.orelse])
            case ast.Try():
                handlers = [handler.body for handler in node.handlers]
                self.unset -= {handler.name for handler in node.handlers if handler.name}
                return self._branches([[*node.body, *node.orelse], *handlers]) or self.first(node.finalbody)
        return self.first(children(node))

    def _loop(self, body: Sequence[ast.AST], otherwise: Sequence[ast.AST]) -> ast.Name | None:
        before = self.unset
        self.unset = before - set(stored_names(body))  # an earlier iteration may have set them
        return self.first(body) or self.first(otherwise)

    def _branches(self, branches: list[list[ast.stmt]]) -> ast.Name | None:
        before, left = self.unset, self.unset
        for branch in branches:
            self.unset = set(before)
            found = self.first(branch)
            if found is not None:
                return found
            left = left & self.unset
        self.unset = set(left)
        return None

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) -> ast.Name | None:
        before = self.unset
        self.unset = before - {name for g in node.generators for name in stored_names([g.target])}
        parts = [e for g in node.generators for e in (g.iter, *g.ifs)]
        found = self.first([*parts, *([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])])
        self.unset = before - set(stored_names([node]))
        return found
