"""Reshaping: arrays that view the elements of another array under another shape.

While a function is lowered they have names and lengths of their own. :func:`resolve_reshaped` then replaces each by the
array that it views, with other indices.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.affine import is_length
from ..ir.statements import Alloc, Check, Function, Like, Store, Swap, walk
from ..ir.terms import MINUS_ONE, ONE, ZERO, Binary, Compare, Constant, DType, Element, Shape, Term, Variable
from .syntax import unparse
from .views import Axis, View, add_indices, axis_length, product

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["contiguous", "reshaped", "resolve_reshaped"]


def reshaped(low: Expressions, node: ast.expr, view: View, sizes: list[Term]) -> View:
    """`view` with the shape `sizes`, of which one may be -1; it shares the elements."""
    if not contiguous(low, view):
        raise low.source.refuse(node, f"{unparse(node)}, of elements that are not contiguous", "copy them (.copy())")
    view = low.snapshot_view(view)
    total = _number(low.shape(view))
    if sizes.count(MINUS_ONE) > 1:
        raise low.source.refuse(node, f"{unparse(node)}, with more than one unknown length", "give all lengths but one")
    if MINUS_ONE in sizes:
        others = _number([n for n in sizes if n is not MINUS_ONE])
        inferred = total if others is ONE else Binary("//", total, others)
        sizes = [inferred if n is MINUS_ONE else n for n in sizes]
    if (number := _number(sizes)) is not total:
        message = f"{low.lowered_function.name}: {unparse(node)} has another number of elements"
        low.out.append(Check(Compare(("!=",), (number, total)), message))
    lengths = [_length(low, n) for n in sizes]
    name = low.names.fresh(f"{view.name}_reshaped")
    function, shared = low.lowered_function, low.shared
    function.ranks[name], function.kinds[name] = len(sizes), function.kinds[view.name]
    shared.sizes[name], shared.reshaped[name] = lengths, view
    shared.dtypes[name] = shared.dtypes.get(view.name, DType(view.name))
    if view.name in shared.element_kinds:
        shared.element_kinds[name] = shared.element_kinds[view.name]
    return low.whole_view(name)


def _length(low: Expressions, length: Term) -> Term:
    """A length as a variable or constant; an upper bound is recorded for a new variable."""
    if isinstance(length, Constant) or is_length(length):
        return length
    bound, saved = low.constant_upper_bound(length), low.name_or_constant(length)
    if bound is not None and isinstance(saved, Variable):
        low.shared.length_upper_bounds.setdefault(saved.name, bound)
    return saved


def contiguous(low: Expressions, view: View) -> bool:
    """Whether the elements are contiguous: all of an array, a range along its first axis, or a row."""
    trailing = range(len(view.parts) - view.rank, len(view.parts))
    if list(view.order) != list(trailing):
        return False
    sizes = low.size(view.name)
    return view.axis(0).step is ONE and all(view.parts[p] == Axis(ZERO, sizes[p]) for p in trailing[1:])


def _number(sizes: list[Term]) -> Term:
    """The number of elements."""
    return product([n for n in sizes if n is not ONE])


def resolve_reshaped(f: Function, views: dict[str, View], sizes: dict[str, list[Term]]) -> str:
    """Replace reshaped arrays by the arrays that they view.

    Returns the name of a parameter that is reshaped and written, which is not supported, or "" if there is none.
    """

    def root(name: str) -> str:
        while name in views:
            name = views[name].name
        return name

    def resolved(t: Term) -> Term:
        if t.named.isdisjoint(views):
            return t
        match t:
            case Variable(name) | DType(name) | Shape(name):
                return type(t)(root(name))
            case Element(array, index) if array in views:
                return resolved(_element_of_view(views[array], sizes[array], index))
        return t.rebuilt(tuple(map(resolved, t.operands)))

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
            s.source = root(s.source)
            s.kind = Like(root(s.kind.name)) if isinstance(s.kind, Like) else s.kind
    for name in views:
        del f.ranks[name]
    f.assumed_kinds = [(root(n), values, error) for n, values, error in f.assumed_kinds]
    parameters = {root(n) for n in views} & set(f.parameters)
    written = {n for s in walk(f.body) for n in _written(s)}
    return next(iter(sorted(parameters & written)), "")


def _element_of_view(view: View, sizes: list[Term], index: tuple[Term, ...]) -> Element:
    """The element of a reshaped array with these `sizes` as one of the array that it views."""
    flat = index[0]
    for size, i in zip(sizes[1:], index[1:], strict=True):
        flat = i if flat is ZERO else Binary("+", Binary("*", flat, size), i)
    indices: list[Term] = []
    for d in reversed(range(view.rank)):
        axis = view.axis(d)
        extent = axis_length(axis)
        indices.insert(0, add_indices(axis.start, Binary("%", flat, extent) if d else flat))
        flat = Binary("//", flat, extent)
    return view.at(indices)


def _written(s: object) -> list[str]:
    return [s.array] if isinstance(s, Store) else [s.first, s.second] if isinstance(s, Swap) else []
