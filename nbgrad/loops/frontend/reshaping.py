"""Reshaping: arrays that view the elements of another array under another shape.

While a function is lowered they have names and lengths of their own. :func:`resolve_reshaped` then replaces each by the
array that it views, with other indices.
"""

from __future__ import annotations

import ast
from itertools import product as pairs_of
from typing import TYPE_CHECKING

from ..ir.affine import is_length
from ..ir.statements import Alloc, Block, Check, Function, If, Like, Loop, Store, Swap, walk
from ..ir.terms import (
    MINUS_ONE,
    ONE,
    ZERO,
    Binary,
    Compare,
    Constant,
    DType,
    Element,
    Logical,
    Shape,
    Term,
    Variable,
    substitute,
)
from .array_expressions import ArrayExpr, Elementwise, Leaf, copy_of_values
from .syntax import unparse
from .views import Axis, View, add_indices, axis_length, product

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["contiguous", "reshaped", "resolve_reshaped", "with_plain_indices"]

#: Consecutive axes of an array, and of its reshaped form, that have equally many elements together, as their numbers.
_Group = tuple[range, range]


def reshaped(low: Expressions, node: ast.expr, view: View, sizes: list[Term]) -> View:
    """`view` with the shape `sizes`, of which one may be -1; it shares the elements where they are contiguous. Others
    NumPy copies if it must: neither may be written from now on."""
    view = view.without_new_axes
    if contiguous(low, view):
        view = low.snapshot_view(view)
    else:
        standing = low.stands_for(Leaf(view)) | {low.storage_of(view.name)}
        view = low.copy_of(view, node, low.names.fresh(f"{view.name}_reshaped"))
        low.note_standing(view.name, standing)
        low.shared.reshaped_copies[view.name] = unparse(node)
    total = _number(low.shape(view))
    if sizes.count(MINUS_ONE) > 1:
        raise low.source.refuse(node, f"{unparse(node)}, with more than one unknown length", "give all lengths but one")
    if MINUS_ONE in sizes:
        others = _number([n for n in sizes if n is not MINUS_ONE])
        _check_lengths(low, node, others)
        if not isinstance(others, Constant) or others is ZERO:
            message = f"{low.lowered_function.name}: {unparse(node)} has a length that is 0, so that -1 is not known"
            low.out.append(Check(Compare(("==",), (others, ZERO)), message))
        inferred = total if others is ONE else _quotient(substitute(total, low.shared.constant_lengths), others)
        sizes = [inferred if n is MINUS_ONE else n for n in sizes]
    elif len(sizes) > 1:
        _check_lengths(low, node, *sizes)
    if (number := _number(sizes)) is not total:
        message = f"{low.lowered_function.name}: {unparse(node)} has another number of elements"
        low.out.append(Check(Compare(("!=",), (number, total)), message))
    return _under_shape(low, view, [_length(low, n) for n in sizes])


def _check_lengths(low: Expressions, node: ast.expr, *lengths: Term) -> None:
    """Check that lengths are not negative, which are given when the function is called."""
    for n in lengths:
        if not low.nonnegative(n):
            message = f"{low.lowered_function.name}: {unparse(node)} has a length that is negative; write -1 itself"
            low.out.append(Check(Compare(("<",), (n, ZERO)), message))


def _quotient(total: Term, others: Term) -> Term:
    if isinstance(total, Constant) and isinstance(others, Constant) and others.value:
        return Constant(total.value // others.value)  # an axis of length 1 broadcasts
    return Binary("//", total, others)


def _under_shape(low: Expressions, view: View, lengths: list[Term]) -> View:
    """`view` with the shape `lengths`, which has as many elements."""
    name = low.names.fresh(f"{view.name}_reshaped")
    function, shared = low.lowered_function, low.shared
    function.ranks[name], function.kinds[name] = len(lengths), function.kinds[view.name]
    shared.sizes[name], shared.reshaped[name] = lengths, view
    function.reshaped_from[name] = view.name
    shared.reshaped_groups[name] = _groups(*([*map(low.with_known_integers, n)] for n in (low.shape(view), lengths)))
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


def _groups(old: list[Term], new: list[Term]) -> list[_Group]:
    """The smallest groups of axes that provably have equally many elements in shapes `old` and `new`."""
    i = j = 0
    groups: list[_Group] = []
    while i < len(old) or j < len(new):
        a = b = 0
        if j < len(new) and new[j] is ONE:
            b = 1
        elif i < len(old) and old[i] is ONE:
            a = 1
        else:
            spans = pairs_of(range(1, len(old) - i + 1), range(1, len(new) - j + 1))
            equal = (s for s in sorted(spans, key=sum) if _number(old[i : i + s[0]]) is _number(new[j : j + s[1]]))
            a, b = next(equal, (len(old) - i, len(new) - j))
        groups.append((range(i, i + a), range(j, j + b)))
        i, j = i + a, j + b
    return groups


def with_plain_indices(low: Expressions, node: ast.expr, tree: ArrayExpr) -> ArrayExpr:
    """An operand of arithmetic, or a copy of it where each of its indices would be found by divisions.

    The copy is made before a loop that changes nothing of it. Where as many axes are not known to have the lengths of
    those that they view, they mostly do, and the copy then needs no divisions.
    """
    if not isinstance(tree, Leaf) or tree.masked:
        return tree
    name = tree.view.name
    if all(len(old) < 2 for old, _ in low.shared.reshaped_groups.get(name, ())):
        return tree
    view, sizes = low.shared.reshaped[name], low.shared.sizes[name]
    early = not (low.runs_once and low.at_function_level) and tree.view == low.whole_view(name)
    if early := early and _is_invariant(low, view, known := [*map(low.with_known_integers, sizes)]):
        tree, sizes = Leaf(_under_shape(low, view, known)), known
        name = tree.view.name
    before = len(low.out)
    copy = Elementwise(low, node).materialise(copy_of_values(tree), low.names.fresh(view.name))
    made = low.out[before:]
    loops: Block = [s for s in made if isinstance(s, Loop)]
    low.out[before:] = [s for s in made if not isinstance(s, Loop)]
    extents, lengths = low.shape(view), [n for n in sizes if n is not ONE]
    if tree.view == low.whole_view(name) and len(extents) == len(lengths):
        equal = [Compare(("==",), pair) for pair in zip(extents, lengths, strict=True) if pair[0] is not pair[1]]
        axes = iter(view.order)
        order = tuple([None if n is ONE else next(axes) for n in sizes])
        saved, low.out = low.out, []
        Elementwise(low, node).store(copy, Leaf(View(view.name, view.parts, order)))
        direct, low.out = low.out, saved
        loops = [If(equal[0] if len(equal) == 1 else Logical("and", tuple(equal)), direct, loops)]
    if early:
        low.shared.copied_at_once.add(view.name)
    if not early or low.shared.top is None:
        low.out += loops
    elif (number := _number(sizes)) is (total := _number(extents)):
        low.shared.top += loops
    else:  # the operand may never be evaluated, or raise an error there
        low.shared.top.append(If(Compare(("==",), (number, total)), loops, []))
    return Leaf(copy, True)


def _is_invariant(low: Expressions, view: View, sizes: list[Term]) -> bool:
    """Whether a view is of a whole parameter, which nothing is known to write, and lengths are known before all loops.
    If something does, lowering begins again, and knows it."""
    unwritten = view.name in low.lowered_function.parameters and view.name not in low.shared.findings.written_reshaped
    return unwritten and low.is_whole(view) and all(map(low.known_before_block, sizes))


def _number(sizes: list[Term]) -> Term:
    """The number of elements."""
    return product([n for n in sizes if n is not ONE])


def resolve_reshaped(
    f: Function, views: dict[str, View], sizes: dict[str, list[Term]], groups: dict[str, list[_Group]]
) -> None:
    """Replace reshaped arrays by the arrays that they view. Parameters among these that are written must be
    contiguous: of others, NumPy reshapes a copy."""

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
                return resolved(_element_of_view(views[array], sizes[array], index, groups[array]))
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
    f.contiguous |= parameters & {n for s in walk(f.body) for n in _written(s)}


def _element_of_view(view: View, sizes: list[Term], index: tuple[Term, ...], groups: list[_Group]) -> Element:
    """The element of a reshaped array with these `sizes` as one of the array that it views."""
    indices: list[Term] = []
    for old, new in groups:
        flat: Term = ZERO
        for d in new:
            flat = index[d] if flat is ZERO else Binary("+", Binary("*", flat, sizes[d]), index[d])
        part: list[Term] = []
        for d in reversed(old):
            axis = view.axis(d)
            extent = axis_length(axis)
            part.insert(0, add_indices(axis.start, Binary("%", flat, extent) if d > old.start else flat))
            flat = Binary("//", flat, extent)
        indices += part
    return view.at(indices)


def _written(s: object) -> list[str]:
    return [s.array] if isinstance(s, Store) else [s.first, s.second] if isinstance(s, Swap) else []
