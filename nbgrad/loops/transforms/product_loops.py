"""The order of the loops of a product: which of them are over rows and columns of matrices, and which are inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import product as pairs
from typing import NamedTuple

from ..analysis.dependence import lower_bound
from ..ir.affine import distance as apart
from ..ir.affine import is_length, minus, offset
from ..ir.matrix_products import Factors, Product, Range, added, shift, triangle
from ..ir.statements import Alloc, Assign, Block, Function, Loop, Store, walk, writes
from ..ir.terms import Element, Length, Unary, Variable, reads

__all__ = ["Nest", "Order", "order", "ranges_of"]

#: Products with no more multiplications than this, if that is known, stay loops, which the compiler unrolls.
_SMALL = 1000


class Nest(NamedTuple):
    """Loops around a sum, and the statements before and after the inner loop in the body of each."""

    loops: list[Loop]
    before: list[Block]
    after: list[Block]
    core: Assign | Store
    sign: int
    parts: Factors


class Order(NamedTuple):
    """The variables of the loops to run innermost, and the operands: ``c[i, j] += a[i, k] * b[k, j]`` for (i, k, j),
    and ``c[j] += a[k] * b[k, j]`` for (k, j)."""

    names: tuple[str, ...]
    parts: Factors


def ranges_of(loops: list[Loop]) -> list[Range]:
    return [Range(p.index, p.start, p.stop) for p in loops]


def order(f: Function, nest: Nest, target: Element, around: tuple[Loop, ...]) -> Order | None:
    """The order of the innermost loops, with those along the last axes last, and none inside of one whose bounds depend
    on it; None if they are best left as they are."""
    found = _by_rows(nest, target) if len(nest.loops) == 2 else _of_matrices(f, nest, target, around)
    if found is None or _is_small(f, nest, found):
        return None
    bounds = triangle(ranges_of(nest.loops))
    if bounds is None:
        return found
    if len(found.names) < 3 or (bounds.outer.name in found.names and bounds.inner.name not in found.names):
        return None
    by_name = {r.name: r for r in ranges_of(nest.loops)}
    rows, inner, columns = [by_name[n] for n in found.names]
    product = Product(rows, inner, columns, target, found.parts)
    return found._replace(names=tuple([r.name for r in product.in_order]))


def _by_rows(nest: Nest, target: Element) -> Order | None:
    """The order in which a matrix is read along its rows, where the inner loop goes along a column."""
    outer, inner = nest.loops
    pair = {outer.index, inner.index}
    matrices = [e for e in (*nest.parts[1:3], target) if pair <= reads(*e.index)]
    last = reads(matrices[0].index[-1]) if len(matrices) == 1 else set()
    if outer.index not in last or inner.index in last:
        return None
    left, right = nest.parts[1:3]
    if matrices[0] is target:
        return Order((inner.index, outer.index), nest.parts)
    if inner.index in reads(*target.index):
        return None
    left, right = (left, right) if matrices[0] is right else (right, left)
    return Order((inner.index, outer.index), nest.parts._replace(left=left, right=right))


def _of_matrices(f: Function, nest: Nest, target: Element, around: tuple[Loop, ...]) -> Order | None:
    """The three loops of a product of matrices."""
    lengths = _lengths(f)
    left, right = nest.parts.left, nest.parts.right
    names = [p.index for p in nest.loops]
    free = reads(*target.index)
    best: tuple[int, Order] | None = None
    for one, other in ((left, right), (right, left)):
        of_one, of_other = reads(*one.index), reads(*other.index)
        rows = [n for n in names if n in (free & of_one) - of_other]
        columns = [n for n in names if n in (free & of_other) - of_one]
        inner = [n for n in names if n in (of_one & of_other) - free]
        for (row, column), k in pairs(pairs(rows, columns), inner):
            indexed = ((target, row, column), (one, row, k), (other, k, column))
            if not all(_is_matrix(e, a, b, (row, column, k), nest, around, lengths) for e, a, b in indexed):
                continue
            last = [e.index[-1] for e in (target, one, other)]
            score = sum(shift(i, n) is not None for i, n in zip(last, (column, k, column), strict=True))
            if best is None or score > best[0]:
                best = score, Order((row, k, column), nest.parts._replace(left=one, right=other))
    return best and best[1]


def _lengths(f: Function) -> set[str]:
    """The scalars that are lengths of arrays."""
    times = Counter(n for s in walk(f.body) for n in writes(s))
    found: set[str] = set()
    for s in f.body:
        if isinstance(s, Assign) and times[s.name] == 1:
            known = is_length(s.value) or (isinstance(s.value, Variable) and s.value.name in found)
            found |= {s.name} if known else set()
    return found


def _is_matrix(
    e: Element,
    row: str,
    column: str,
    three: tuple[str, ...],
    nest: Nest,
    around: tuple[Loop, ...],
    lengths: Collection[str],
) -> bool:
    """Whether the elements for all values of two loop variables are a matrix, in range of non-negative indices; scalars
    in `lengths` are lengths."""
    loops = {p.index: p for p in nest.loops}
    found = []
    for index in e.index:
        here = [n for n in three if n in index.reads]
        if not here:
            continue
        distance = shift(index, here[0])
        if len(here) != 1 or distance is None:
            return False
        start = loops[here[0]].start
        low = apart(start, distance.operand) if isinstance(distance, Unary) and distance.op == "-" else None
        if low is None:
            low = lower_bound(added(start, distance), (*around, *nest.loops), lengths)
        if low is None or low < 0:
            return False
        found += here
    return sorted(found) == sorted((row, column))


def _is_small(f: Function, nest: Nest, order: Order) -> bool:
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
