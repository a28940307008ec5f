"""Arrays whose lengths change: a name that is bound to a longer or shorter array, and results of several returns.

There is one array, with room for the longest. Its present lengths are scalars, which each assignment sets. Lengths that
turn out to change make lowering begin again, with such scalars for them.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.affine import offset
from ..ir.names import called
from ..ir.statements import Alloc, Assign, Grow, If, mentioned, walk, writes
from ..ir.terms import ONE, ZERO, Call, Compare, Constant, Length, Term, Variable
from .array_expressions import ArrayExpr, Elementwise, Leaf, copy_of_values
from .element_kinds import sample_element
from .integer_bounds import name_of
from .live_range_splitting import NeedsSplitting, VaryingAxis
from .views import Axis, View, axis_length

if TYPE_CHECKING:
    from .scope import Scope

__all__ = ["largest_lengths", "lengths_are_set_in", "may_be_rebound", "rebound", "with_lengths"]


def largest_lengths(low: Scope, node: ast.AST, name: str, shape: list[Term], grows: bool) -> list[Term] | None:
    """The lengths to allocate an array with that is created in a loop or branch, or whose lengths change; None if it is
    to grow. Its present lengths are scalars."""
    shared, varying = low.shared, low.shared.varying_axes.get(name, set())
    bounds = [b for b in map(low.bound_before_block, shape) if b is not None]
    if len(bounds) < len(shape) or grows:
        of_primitive = any(shared.length_upper_bounds.get(name_of(n)) is n for n in shape)  # its results
        others = all(map(low.known_before_block, shape[1:])) and not varying - {0}
        if not others or of_primitive or shared.parallel:
            raise low.refuse_unknown_size(node, of_primitive)
        size = low.fresh_scalar("size", called(max, shape[0], ZERO), final=not varying, of_array=True)
        shared.changing |= {size} if varying else set()
        shared.sizes[name] = [Variable(size), *shape[1:]]
        return None
    sizes = shared.sizes[name] = [
        n
        if d not in varying and low.known_before_block(n)
        else Variable(low.fresh_scalar("size", n, final=d not in varying, of_array=True))
        for d, n in enumerate(shape)
    ]
    for d, n in enumerate(sizes):
        if d in varying:
            bounds[d] = _most(low, bounds[d])
            shared.changing.add(name_of(n))
        if isinstance(n, Variable):
            shared.length_upper_bounds[n.name] = bounds[d]
    shared.over_allocated.add(name)
    return bounds


def _most(low: Scope, bound: Term) -> Variable:
    """A scalar, set before the outermost block, for an upper bound of a length that may turn out to be larger."""
    name = low.names.fresh("most")
    assert low.shared.top is not None
    low.lowered_function.ranks[name], low.lowered_function.kinds[name] = 0, "int"
    low.shared.top.append(Assign(name, bound))
    return Variable(name)


def rebound(low: Scope, node: ast.AST, array: str, tree: ArrayExpr) -> tuple[View, ArrayExpr]:
    """The array of a name that is bound to `tree` in a loop or branch, and `tree`, to be stored into it."""
    lengths, sizes = Elementwise(low, node).lengths(tree), low.size(array)
    varying, place = low.shared.varying_axes.get(array, set()), low.shared.places_of_arrays.get(array, ())
    pairs = enumerate(zip(lengths, sizes, strict=True))

    def changes(a: Term, b: Term) -> bool:
        other = low.with_known_integers(a) is not low.with_known_integers(b)
        return (other and array in low.shared.over_allocated) or _may_differ(low, a, b)

    asked = {VaryingAxis(place, d) for d, (a, b) in pairs if place and d not in varying and changes(a, b)}
    if asked := asked - low.shared.findings.fixed_axes:
        raise NeedsSplitting(array, varying=asked)
    if not varying:
        return low.whole_view(array), tree
    here = {array, *(n.name for n in sizes if isinstance(n, Variable))}
    sample = sample_element(tree)
    if here & sample.named.union(sample.reads, *(n.named for n in lengths)):  # it is computed before they change
        view = Elementwise(low, node).materialise(copy_of_values(tree), low.names.fresh("held"))
        tree, lengths = Leaf(view), [axis_length(view.axis(d)) for d in range(view.rank)]
    return with_lengths(low, node, array, lengths), tree


def may_be_rebound(low: Scope, node: ast.AST, array: str, tree: ArrayExpr) -> bool:
    """Whether the array of a name that is bound to `tree` can have its lengths: not if one of the two has length 1
    along an axis and the other perhaps not, which would broadcast, where lengths must not change."""
    varying, place = low.shared.varying_axes.get(array, set()), low.shared.places_of_arrays.get(array, ())
    pairs = enumerate(zip(Elementwise(low, node).lengths(tree), low.size(array), strict=True))
    ones = ((d, low.with_known_integers(a) is ONE, low.with_known_integers(b) is ONE) for d, (a, b) in pairs)
    broadcast = {VaryingAxis(place, d) for d, here, there in ones if here is not there and d not in varying}
    return not broadcast or bool(place and not broadcast & low.shared.findings.fixed_axes)


def lengths_are_set_in(low: Scope, node: ast.AST, first: ArrayExpr, second: ArrayExpr) -> bool:
    """Whether the lengths of two arrays may differ, of which the code chooses one."""
    pairs = zip(*(Elementwise(low, node).lengths(tree) for tree in (first, second)), strict=True)
    return any(_may_differ(low, a, b) or _may_differ(low, b, a) for a, b in pairs)


def _may_differ(low: Scope, length: Term, other: Term) -> bool:
    """Whether a length is not known at the place where an array with the other one is allocated, or is another one.
    Lengths of arguments, and arguments, are taken for equal ones, which is checked."""
    a, b = _when_made(low, length), _when_made(low, other)
    if a is b:
        return False
    if (isinstance(a, Constant) and isinstance(b, Constant)) or a is ONE or b is ONE:
        return True
    given = all(isinstance(n, Length | Variable | Constant) for n in (a, b))
    return not given or not low.known_before_block(length) or bool((a.named | b.named) & low.shared.changing)


def _when_made(low: Scope, length: Term) -> Term:
    """A length as the code gives it where the array is created, unless that changes afterwards."""
    length, seen, made = low.with_known_integers(length), set[Term](), low.shared.lengths_when_made
    while isinstance(length, Length) and length.axis is not None and length.array in made and length not in seen:
        seen.add(length)
        given = made[length.array][length.axis]
        if given.named & low.shared.changing:
            break
        length = given
    return length


def with_lengths(low: Scope, node: ast.AST, array: str, lengths: list[Term]) -> View:
    """An array, with these lengths along the axes on which they change."""
    sizes, varying = low.size(array), low.shared.varying_axes[array]
    for d in sorted(varying):
        size = sizes[d]
        assert isinstance(size, Variable)
        low.emit(Assign(size.name, lengths[d]))
        _make_room(low, node, array, d, lengths[d])
    parts = [Axis(ZERO, lengths[d] if d in varying else n) for d, n in enumerate(sizes)]
    return View(array, tuple(parts), tuple(range(len(sizes))))


def _make_room(low: Scope, node: ast.AST, name: str, d: int, length: Term) -> None:
    """Give an array at least this length along axis `d`: where it is allocated, or by growing."""
    size, bounds = low.size(name)[d], low.shared.length_upper_bounds
    assert isinstance(size, Variable)
    most, bound = bounds.get(size.name), low.constant_upper_bound(length)
    if most is not None and bound is not None:
        if _is_within(bound, most):
            return
        if most.named & bound.named:  # it becomes longer and longer
            raise _grows(low, node, name, d)
        if _raised(low, name, most, bound):
            return
    if low.lowered_function.ranks[name] > 1 or low.shared.parallel:
        raise low.refuse_unknown_size(node)
    if most is not None:  # from which the sizes of other arrays may have been computed
        raise _grows(low, node, name, d)
    low.emit(If(Compare((">",), (size, Length(name, 0))), [Grow(name, size)], []))


def _is_within(bound: Term, most: Term) -> bool:
    """Whether a bound is at most the length `most`: less some number, or ``max(most - 1, 0)``, as slices have it."""
    parts = bound.operands if isinstance(bound, Call) and bound.function.value is max else (bound,)
    return all((base is most or base is None) and more <= 0 for base, more in map(offset, parts))


def _grows(low: Scope, node: ast.AST, name: str, d: int) -> Exception:
    place = low.shared.places_of_arrays.get(name, ())
    asked = {VaryingAxis(place, d), VaryingAxis(place, d, grows=True)}
    fixed = bool(asked & low.shared.findings.fixed_axes)  # as lengths that change did not help
    if not place or fixed or low.lowered_function.ranks[name] > 1 or low.shared.parallel:
        return low.refuse_unknown_size(node)
    return NeedsSplitting(name, varying=asked)


def _raised(low: Scope, name: str, most: Term, bound: Term) -> bool:
    """Make `most` at least an upper bound, if that is known where `most` is set, before the outermost block."""
    top = low.shared.top
    assert top is not None
    k = next(k for k, s in enumerate(top) if isinstance(s, Assign) and Variable(s.name) is most)
    own = [s for s in top[k:] if any((most.named | {name}) & mentioned(t) for t in walk([s]))]
    if isinstance(own[-1], Alloc) and len(own) == 2:  # nothing else refers to them: they may come later
        top[k:] = [s for s in top[k:] if not any(s is t for t in own)] + own
        k = len(top) - 2
    before = {n for s in walk(top[:k]) for n in writes(s)}
    if not bound.named <= {*low.lowered_function.parameters, *low.lowered_function.constants, *before}:
        return False
    setting = top[k]
    assert isinstance(setting, Assign)
    if bound is not setting.value:
        setting.value = called(max, setting.value, bound)
    return True
