"""Reshaping: arrays that view the elements of another array under another shape.

While a function is lowered they have names and lengths of their own. :func:`resolve_reshaped` then replaces each by the
array that it views, with other indices.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.statements import Alloc, Check, Function, Like, Store, Swap, walk
from ..ir.terms import Element, Term
from .affine_syntax import is_array_length
from .syntax import parse, unparse
from .views import ZERO, Axis, View, add_indices, axis_length

if TYPE_CHECKING:
    from .expressions import Expressions
    from .scope import Scope

__all__ = ["contiguous", "reshaped", "resolve_reshaped"]


def reshaped(low: Expressions, node: ast.expr, view: View, sizes: list[ast.expr]) -> View:
    """`view` with the shape `sizes`, of which one may be -1; it shares the elements."""
    if not contiguous(low, view):
        raise low.source.refuse(node, f"{unparse(node)}, of elements that are not contiguous", "copy them (.copy())")
    view = low.snapshot_view(view)
    total = _product(low.shape(view))
    codes = [unparse(n) for n in sizes]
    if codes.count("-1") > 1:
        raise low.source.refuse(node, f"{unparse(node)}, with more than one unknown length", "give all lengths but one")
    if "-1" in codes:
        others = _product([n for n, code in zip(sizes, codes, strict=True) if code != "-1"])
        inferred = total if others == "1" else f"({total}) // ({others})"
        sizes = [parse(inferred) if code == "-1" else n for n, code in zip(sizes, codes, strict=True)]
    if _product(sizes) != total:
        message = f"{low.lowered_function.name}: {unparse(node)} has another number of elements"
        low.out.append(Check(low.term(parse(f"{_product(sizes)} != {total}")), message))
    lengths = [_length(low, n) for n in sizes]
    name = low.names.fresh(f"{view.name}_reshaped")
    function, shared = low.lowered_function, low.shared
    function.ranks[name], function.kinds[name] = len(sizes), function.kinds[view.name]
    shared.sizes[name], shared.reshaped[name] = lengths, view
    shared.dtypes[name] = shared.dtypes.get(view.name, f"{view.name}.dtype")
    if view.name in shared.element_kinds:
        shared.element_kinds[name] = shared.element_kinds[view.name]
    return low.whole_view(name)


def _length(low: Expressions, node: ast.expr) -> ast.expr:
    """A length as a name or constant; an upper bound is recorded for a new name."""
    if isinstance(node, ast.Constant) or is_array_length(node):
        return node
    bound, name = low.constant_upper_bound(node), low.name_or_constant(node)
    if bound is not None and isinstance(name, ast.Name):
        low.shared.length_upper_bounds.setdefault(name.id, bound)
    return name


def contiguous(low: Expressions, view: View) -> bool:
    """Whether the elements are contiguous: all of an array, a range along its first axis, or a row."""
    if list(view.order) != sorted(p for p in view.order if p is not None):
        return False
    first = view.order[0]
    steps = all(unparse(view.axis(d).step) == "1" for d in range(view.rank))
    trailing = range(len(view.parts) - view.rank, len(view.parts))
    full = [Axis(ZERO, n) for n in low.size(view.name)]
    complete = all(_slice_bounds(view.parts[p]) == _slice_bounds(full[p]) for p in trailing if p != first)
    return steps and list(view.order) == list(trailing) and complete


def _slice_bounds(part: ast.expr | Axis) -> str:
    return f"{unparse(part.start)}:{unparse(part.stop)}" if isinstance(part, Axis) else ""


def _product(sizes: list[ast.expr]) -> str:
    factors = [t for t in map(unparse, sizes) if t != "1"]
    return " * ".join(t if t.isidentifier() or len(factors) == 1 else f"({t})" for t in factors) or "1"


def resolve_reshaped(low: Scope, f: Function, views: dict[str, View], sizes: dict[str, list[ast.expr]]) -> str:
    """Replace reshaped arrays by the arrays that they view.

    Returns the name of a parameter that is reshaped and written, which is not supported, or "" if there is none.
    """
    transformer = _ResolveReshaped(views, sizes)

    def resolved(t: Term) -> Term:
        return t if t.named.isdisjoint(views) else low.term(transformer.visit(parse(str(t))))

    for s in walk(f.body):
        for field, value in list(vars(s).items()):
            if isinstance(value, Term):
                setattr(s, field, resolved(value))
        if isinstance(s, Store):
            target = resolved(s.target)
            assert isinstance(target, Element)
            s.array, s.index = target.array, target.index
        if isinstance(s, Alloc):
            s.shape = tuple(map(resolved, s.shape))
            s.source = transformer.root(s.source)
            s.kind = Like(transformer.root(s.kind.name)) if isinstance(s.kind, Like) else s.kind
    for name in views:
        del f.ranks[name]
    f.assumed_kinds = [(transformer.root(n), values, error) for n, values, error in f.assumed_kinds]
    parameters = {transformer.root(n) for n in views} & set(f.parameters)
    written = {n for s in walk(f.body) for n in _written(s)}
    return next(iter(sorted(parameters & written)), "")


def _written(s: object) -> list[str]:
    return [s.array] if isinstance(s, Store) else [s.first, s.second] if isinstance(s, Swap) else []


class _ResolveReshaped(ast.NodeTransformer):
    def __init__(self, views: dict[str, View], sizes: dict[str, list[ast.expr]]) -> None:
        self.views, self.sizes = views, sizes

    def root(self, name: str) -> str:
        while name in self.views:
            name = self.views[name].name
        return name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self.root(node.id), node.ctx)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if not isinstance(node.value, ast.Name) or node.value.id not in self.views:
            return self.generic_visit(node)  # type: ignore[return-value]
        view, sizes = self.views[node.value.id], self.sizes[node.value.id]
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        flat = unparse(indices[0])
        for size, i in zip(sizes[1:], indices[1:], strict=True):
            extent = unparse(size)
            flat = f"({flat}) * ({extent}) + ({unparse(i)})" if flat != "0" else unparse(i)
        index: list[ast.expr] = []
        for d in reversed(range(view.rank)):
            extent = unparse(axis_length(view.axis(d)))
            position = parse(f"({flat}) % ({extent})" if d else flat)
            index.insert(0, add_indices(view.axis(d).start, position))
            flat = f"({flat}) // ({extent})"
        return self.visit(view.at(index))
