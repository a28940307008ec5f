"""Products of matrices: loops that compute one become a nest that computes nothing else, which BLAS can run.

``for i: for j: s = 0; for k: s += a[i, k] * b[k, j]; c[i, j] = s`` and its variants become a nest that sets `c`, the
product ``for i: for k: for j: c[i, j] += a[i, k] * b[k, j]``, and a nest for what is done with the sums. More loops may
be around these three. Additions are thereby reordered, as in NumPy's own products. Where a product of a matrix and a
vector goes along columns, as ``a.T @ x`` does, its two loops change places.
"""

from __future__ import annotations

from itertools import product as pairs
from typing import NamedTuple

from ..analysis.dependence import lower_bound
from ..ir.affine import minus, offset
from ..ir.matrix_products import Factors, accumulated, added, factors, product_term, shift
from ..ir.statements import Alloc, Assign, Block, Function, Loop, Statement, Store, mentions, nested_blocks, walk
from ..ir.statements import names_written as written_in
from ..ir.tapes import trip_count
from ..ir.terms import (
    ONE,
    ZERO,
    Binary,
    Constant,
    Element,
    Length,
    Term,
    Variable,
    elements_in,
    reads,
    substitute,
    subterms,
)
from ..ir.type_inference import DTYPES

__all__ = ["isolate_products"]

#: Products with no more multiplications than this, if that is known, stay loops, which the compiler unrolls.
_SMALL = 1000


class _Nest(NamedTuple):
    """Loops around a sum, and the statements before and after the inner loop in the body of each."""

    loops: list[Loop]
    before: list[Block]
    after: list[Block]
    core: Assign | Store
    sign: int
    parts: Factors


class _Order(NamedTuple):
    """The variables of the loops to run innermost, and the operands: ``c[i, j] += a[i, k] * b[k, j]`` for (i, k, j),
    and ``c[j] += a[k] * b[k, j]`` for (k, j)."""

    names: tuple[str, ...]
    parts: Factors


def isolate_products(f: Function) -> None:
    """Rewrite the products of matrices in `f`."""
    _rewrite(f, f.body, ())


def _rewrite(f: Function, block: Block, around: tuple[Loop, ...]) -> None:
    for s in list(block):
        made = _isolated(f, s, around) if isinstance(s, Loop) and not s.parallel else None
        if made is not None:
            at = block.index(s)
            block[at : at + 1] = made
            continue
        for inner in nested_blocks(s):
            _rewrite(f, inner, (*around, s) if isinstance(s, Loop) else around)


def _isolated(f: Function, loop: Loop, around: tuple[Loop, ...]) -> Block | None:
    """The statements that replace a loop; None if it is no product of matrices."""
    nest = _nest(f, loop)
    if nest is None or not all(_plain(p) for p in nest.loops):
        return None
    changing = written_in(loop)
    if any(reads(p.start, p.stop) & changing for p in nest.loops):
        return None
    if isinstance(nest.core, Assign):
        if f.single_precision and not nest.core.reassociable:
            return None  # a sum that the function makes in float64, of numbers that may be float32, stays so
        return _from_scalar(f, nest, around)
    return _from_elements(f, nest, around)


def _plain(loop: Loop) -> bool:
    special = loop.exit_flag or loop.trip_counter or loop.values_before_loop or loop.parallel or loop.product
    return bool(loop.index) and loop.step is ONE and not special


def _nest(f: Function, loop: Loop) -> _Nest | None:
    """The loops around the only sum of products in `loop`."""
    loops, before, after = [loop], [], []
    while inner := [s for s in loops[-1].body if isinstance(s, Loop)]:
        sums = [s for s in inner if _sums(s)]
        if len(sums) != 1:
            return None
        at = loops[-1].body.index(sums[0])
        before.append(loops[-1].body[:at])
        after.append(loops[-1].body[at + 1 :])
        loops.append(sums[0])
    if len(loops) < 2 or len(loops[-1].body) != 1:
        return None
    (core,) = loops[-1].body
    if not isinstance(core, Assign | Store):
        return None
    target, name = (core.target, core.array) if isinstance(core, Store) else (Variable(core.name), core.name)
    total = accumulated(target, core.value) if f.kinds.get(name) == "float" else None
    names = {p.index for p in loops}
    fixed = reads(*core.index) if isinstance(core, Store) else {p.index for p in loops[: _depth_of_start(before, name)]}
    parts = total and factors(total[1], names - fixed)
    if not total or not parts or name in (parts.left.array, parts.right.array):
        return None
    if any(f.kinds.get(e.array) != "float" for e in (parts.left, parts.right)):
        return None
    return _Nest(loops, before, after, core, total[0], parts)


def _sums(loop: Loop) -> bool:
    """Whether there is a sum of products of elements in a loop, which adds to a scalar or an element."""
    for s in walk(loop.body):
        if isinstance(s, Assign | Store):
            total = accumulated(Variable(s.name) if isinstance(s, Assign) else s.target, s.value)
            if total and sum(isinstance(t, Element) for t in subterms(total[1])) > 1:
                return True
    return False


def _depth_of_start(before: list[Block], name: str) -> int:
    """How many loops are around the statement that begins a sum."""
    return next((d + 1 for d, block in enumerate(before) if any(mentions(s, name) for s in block)), 0)


def _from_scalar(f: Function, nest: _Nest, around: tuple[Loop, ...]) -> Block | None:
    """``s = start; for k: s += a * b; c[...] = g(s)``."""
    assert isinstance(nest.core, Assign)
    name = nest.core.name
    depth = _depth_of_start(nest.before, name)
    level = depth - 1
    if level < 0 or any(nest.before[:level] + nest.before[depth:] + nest.after[:level] + nest.after[depth:]):
        return None
    if len(nest.before[level]) != 1 or len(nest.after[level]) != 1:
        return None
    (start,), (last,) = nest.before[level], nest.after[level]
    inside = {start, last, nest.core}
    if not isinstance(start, Assign) or not isinstance(last, Store) or name in reads(*last.index):
        return None
    if any(mentions(s, name) for s in walk(f.body) if s not in inside) or name in (f.results or []):
        return None
    array, zero = last.array, isinstance(start.value, Constant) and start.value.value == 0
    if name in start.value.reads or array in (nest.parts.left.array, nest.parts.right.array):
        return None
    outer, total = nest.loops[:depth], accumulated(last.target, last.value)
    direct = not nest.parts.others and all(_axis(last.index, p) is not None for p in outer)
    if direct and zero and total and total[1] is Variable(name):
        return _assembled(f, nest, last.target, [], [], nest.sign * total[0], around)
    if direct and last.value is Variable(name) and (array not in start.value.reads or start.value is last.target):
        first: Block = [] if start.value is last.target else [_around(outer, Store(array, last.index, start.value))]
        return _assembled(f, nest, last.target, first, [], nest.sign, around)
    if array in start.value.reads or any(array in t.reads for t in nest.parts.others):
        return None
    sums = _new_array(f, outer)
    own = None if sums is None else Element(sums, tuple([_from_zero(p) for p in outer]))
    if own is None or _order(f, nest, own, around) is None:
        return None
    _allocate(f, own.array, outer)
    begin = Store(own.array, own.index, start.value)
    value: Term = own
    for t in nest.parts.others:
        value = Binary("*", t, value)
    if nest.parts.others and not zero:
        return None
    end = Store(array, last.index, substitute(last.value, {Variable(name): value}), line=last.line)
    return _assembled(f, nest, own, [_around(outer, begin)], [_around(outer, end)], nest.sign, around)


def _from_elements(f: Function, nest: _Nest, around: tuple[Loop, ...]) -> Block | None:
    """``c[...] += a * b``, with other statements about `c` before and after inner loops."""
    target = nest.core.target  # type: ignore[union-attr]
    axes = {p.index: _axis(target.index, p) for p in nest.loops}
    before: Block = []
    after: Block = []
    for depth, blocks in enumerate(zip(nest.before, nest.after, strict=True)):
        outer = nest.loops[: depth + 1]
        own = [(axes[p.index], p) for p in outer]
        for block, made in zip(blocks, (before, after), strict=True):
            if block and not all(_only_about(s, target, [d for d, _ in own]) for s in block):
                return None
            made += [_around(outer, *block)] if block else []
    if not nest.parts.others:
        return _assembled(f, nest, target, before, after[::-1], nest.sign, around)
    # c += e * (sum of a * b), with a new array for the sums.
    outer = [p for p in nest.loops if axes[p.index] is not None]
    others = reads(*nest.parts.others)
    sums = None if target.array in others or not outer else _new_array(f, outer)
    if sums is None or others & {p.index for p in nest.loops} - {p.index for p in outer}:
        return None
    own_sum = Element(sums, tuple([_from_zero(p) for p in outer]))
    if _order(f, nest, own_sum, around) is None:
        return None
    _allocate(f, sums, outer)
    value: Term = own_sum
    for t in nest.parts.others:
        value = Binary("*", t, value)
    zero = _around(outer, Store(sums, own_sum.index, Constant(0.0)))
    add = _around(outer, Store(target.array, target.index, Binary("+", target, value), line=nest.core.line))
    return _assembled(f, nest, own_sum, [*before, zero], [add, *after[::-1]], nest.sign, around)


def _axis(index: tuple[Term, ...], loop: Loop) -> int | None:
    """The axis along which an index is the variable of a loop plus something else; None if there is none."""
    return next((d for d, i in enumerate(index) if shift(i, loop.index) is not None), None)


def _only_about(s: Statement, target: Element, axes: list[int | None]) -> bool:
    """Whether a statement only stores into the array of `target`, at its indices along some axes."""
    if isinstance(s, Loop):
        return _plain(s) and all(_only_about(t, target, axes) for t in s.body)
    if not isinstance(s, Store) or s.array != target.array or None in axes:
        return False
    indices = [s.index, *(i for t in (*s.index, s.value) for i in elements_in(t, target.array))]
    return all(index[d] is target.index[d] for index in indices for d in axes)  # type: ignore[index]


def _assembled(
    f: Function, nest: _Nest, target: Element, before: Block, after: Block, sign: int, around: tuple[Loop, ...]
) -> Block | None:
    """The nests for what comes before the product, the product, and what comes after."""
    found = _order(f, nest, target, around)
    if found is None:
        return None
    loops = {p.index: p for p in nest.loops}
    innermost = [loops.pop(n) for n in found.names]
    parts = found.parts._replace(factor=found.parts.factor * sign)
    value = Binary("+" if parts.factor > 0 else "-", target, product_term(parts))
    core = _around([*loops.values(), *innermost], Store(target.array, target.index, value, line=nest.core.line))
    if len(innermost) == 3:
        next(s for s in walk([core]) if isinstance(s, Loop) and s.index == found.names[0]).product = True
    return [*before, core, *after]


def _order(f: Function, nest: _Nest, target: Element, around: tuple[Loop, ...]) -> _Order | None:
    """The order of the innermost loops, with those along the last axes last; None if they are best left as they are."""
    found = _by_rows(nest, target) if len(nest.loops) == 2 else _of_matrices(nest, target, around)
    return None if found is None or _is_small(f, nest, found) else found


def _by_rows(nest: _Nest, target: Element) -> _Order | None:
    """The order in which a matrix is read along its rows, where the inner loop goes along a column."""
    outer, inner = nest.loops
    (matrix, *others) = [e for e in nest.parts[1:3] if {outer.index, inner.index} <= reads(*e.index)] or [target]
    across = not others and matrix is not target and outer.index in reads(matrix.index[-1])
    if not across or inner.index in reads(matrix.index[-1]) or inner.index in reads(*target.index):
        return None
    vector = nest.parts.left if matrix is nest.parts.right else nest.parts.right
    return _Order((inner.index, outer.index), nest.parts._replace(left=vector, right=matrix))


def _of_matrices(nest: _Nest, target: Element, around: tuple[Loop, ...]) -> _Order | None:
    """The three loops of a product of matrices."""
    left, right = nest.parts.left, nest.parts.right
    names = [p.index for p in nest.loops]
    free = reads(*target.index)
    best: tuple[int, _Order] | None = None
    for one, other in ((left, right), (right, left)):
        of_one, of_other = reads(*one.index), reads(*other.index)
        rows = [n for n in names if n in (free & of_one) - of_other]
        columns = [n for n in names if n in (free & of_other) - of_one]
        inner = [n for n in names if n in (of_one & of_other) - free]
        for (row, column), k in pairs(pairs(rows, columns), inner):
            indexed = ((target, row, column), (one, row, k), (other, k, column))
            if not all(_is_matrix(e, a, b, (row, column, k), nest, around) for e, a, b in indexed):
                continue
            last = [e.index[-1] for e in (target, one, other)]
            score = sum(shift(i, n) is not None for i, n in zip(last, (column, k, column), strict=True))
            if best is None or score > best[0]:
                best = score, _Order((row, k, column), nest.parts._replace(left=one, right=other))
    return best and best[1]


def _is_matrix(
    e: Element, row: str, column: str, three: tuple[str, ...], nest: _Nest, around: tuple[Loop, ...]
) -> bool:
    """Whether the elements for all values of two loop variables are a matrix, in range of non-negative indices."""
    loops = {p.index: p for p in nest.loops}
    found = []
    for index in e.index:
        here = [n for n in three if n in index.reads]
        if not here:
            continue
        distance = shift(index, here[0])
        if len(here) != 1 or distance is None:
            return False
        low = lower_bound(added(loops[here[0]].start, distance), (*around, *nest.loops))
        if low is None or low < 0:
            return False
        found += here
    return sorted(found) == sorted((row, column))


def _is_small(f: Function, nest: _Nest, order: _Order) -> bool:
    """Whether the lengths of all innermost loops are constants, and the product is small."""
    lengths = {Length(s.name, d): n for s in f.body if isinstance(s, Alloc) for d, n in enumerate(s.shape)}
    loops = {p.index: p for p in nest.loops}
    size = 1
    for name in order.names:
        stop = loops[name].stop
        while stop in lengths:
            stop = lengths[stop]
        base, trips = offset(minus(stop, loops[name].start))
        if base is not None:
            return False
        size *= trips
    return size <= _SMALL


# New arrays and loops.


def _around(loops: list[Loop], *body: Statement) -> Loop:
    """Copies of loops, around a body."""
    block: Block = list(body)
    for p in reversed(loops):
        block = [Loop(p.index, p.start, p.stop, p.step, None, block, target=p.target)]
    (nest,) = block
    nest.line, nest.source_location = loops[0].line, loops[0].source_location
    assert isinstance(nest, Loop)
    return nest


def _from_zero(p: Loop) -> Term:
    """The number of the current iteration."""
    return Variable(p.index) if p.start is ZERO else minus(Variable(p.index), p.start)


def _new_array(f: Function, loops: list[Loop]) -> str | None:
    """A name for an array with an element for each iteration of some loops, if their trip counts are known early.

    It is one of float64, with which BLAS does not multiply matrices of float32.
    """
    if f.single_precision:
        return None
    outer = next(s for s in f.body if loops[0] in walk([s]))
    changing = {n for s in walk([outer]) for n in ([s.name] if isinstance(s, Assign | Alloc) else [])}
    changing |= {s.index for s in walk([outer]) if isinstance(s, Loop)}
    if any(reads(p.start, p.stop) & changing for p in loops):
        return None
    return f.names.fresh("sums")


def _allocate(f: Function, name: str, loops: list[Loop]) -> None:
    f.ranks[name], f.kinds[name] = len(loops), "float"
    at = next(k for k, s in enumerate(f.body) if loops[0] in walk([s]))
    shape = tuple([trip_count(p) for p in loops])
    f.body.insert(at, Alloc(name, shape, DTYPES["float"], "", "float"))
