"""Views without axes: what ``x[..., 0]`` of a vector is, or ``np.squeeze`` of an array of one element.

In NumPy these are arrays, which share their element with the array that they are of; in generated code they are
numbers. Both are the same unless the one is written in place, or the other's elements are while the view has a name:
that is refused. The indices of their elements are marked until lowering ends, by a sign that nobody writes.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.statements import Assign, Function, Store, Swap, map_terms, terms_of, walk, writes
from ..ir.terms import Element, Select, Term, Unary, Variable, subterms
from .array_expressions import Scalar
from .syntax import unparse
from .views import View

if TYPE_CHECKING:
    from .expressions import Expressions
    from .lowering_state import LoweringState

__all__ = ["element_of", "resolve_views_without_axes"]


def element_of(low: Expressions, node: ast.expr, view: View) -> Scalar:
    """The element of a view without axes."""
    if low.shared.view_without_axes is None:
        what = f"{unparse(node)}, an array without axes, that is written in place, or whose array is"
        low.shared.view_without_axes = low.source.refuse(node, what, "write the element, as x[0] *= 2, or copy it")
    element = view.at([])
    *others, last = element.index
    return Scalar(Element(element.array, (*others, Unary("+", Unary("+", last)))))


def _is_mark(term: Term) -> bool:
    return isinstance(term, Unary) and term.op == "+" and isinstance(term.operand, Unary) and term.operand.op == "+"


def _views(value: Term) -> set[str]:
    """The arrays whose elements a value may be, as views without axes, and the names that it may be of such."""
    match value:
        case Element(array, index) if any(_is_mark(t) for i in index for t in subterms(i)):
            return {array}
        case Variable(name):
            return {name}
        case Select(_, body, orelse):
            return _views(body) | _views(orelse)
    return set()


def resolve_views_without_axes(f: Function, state: LoweringState) -> None:
    """Refuse what would write through such views; then their elements are as others."""
    if state.view_without_axes is None:
        return
    statements = list(walk(f.body))
    written = {
        s.array for s in statements if isinstance(s, Store) and (s in f.element_writes or s.array in f.parameters)
    }
    written |= {n for s in statements if isinstance(s, Swap) for n in (s.first, s.second)}
    of: dict[str, set[str]] = {}  # the arrays that each name may be a view of
    grew = True
    while grew:
        grew = False
        for s in statements:
            fills = isinstance(s, Store) and s not in f.element_writes  # a new array, as np.atleast_1d(y) is of one
            if (isinstance(s, Assign) or fills) and (views := _views(s.value)):  # type: ignore[attr-defined]
                (name,) = writes(s)
                found = {a for v in views for a in ({v} if f.ranks.get(v) else of.get(v, ()))}
                grew |= not found <= of.get(name, set())
                of[name] = of.get(name, set()) | found
    if any(arrays and (n in state.augmented or n in written or arrays & written) for n, arrays in of.items()):
        raise state.view_without_axes
    for s in statements:
        if any(_is_mark(t) for term in terms_of(s) for t in subterms(term)):
            map_terms(s, _unmarked)


def _unmarked(term: Term) -> Term:
    if _is_mark(term):
        return _unmarked(term.operand.operand)  # type: ignore[attr-defined]
    operands = tuple(map(_unmarked, term.operands))
    return term.rebuilt(operands) if operands else term
