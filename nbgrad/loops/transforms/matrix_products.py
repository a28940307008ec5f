"""Products of matrices: loops that compute one become a nest that computes nothing else, which BLAS can run.

``for i: for j: s = 0; for k: s += a[i, k] * b[k, j]; c[i, j] = s`` and its variants become a nest that sets `c`, the
product ``for i: for k: for j: c[i, j] += a[i, k] * b[k, j]``, and a nest for what is done with the sums. More loops may
be around these three. Additions are thereby reordered, as in NumPy's own products. Where a product of a matrix and a
vector goes along columns, as ``a.T @ x`` does, its two loops change places.
"""

from __future__ import annotations

from dataclasses import replace

from ..analysis.dependence import DependenceTests
from ..ir.affine import minus, offset
from ..ir.matrix_products import (
    accumulated,
    box,
    factors,
    product_term,
    shift,
    triangle,
)
from ..ir.statements import (
    Alloc,
    Assign,
    Block,
    Function,
    InRange,
    Loop,
    Statement,
    Store,
    enclosing_loops,
    mentions,
    nested_blocks,
    terms_of,
    uses,
    walk,
)
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
)
from ..ir.type_inference import DTYPES
from .loop_fission import fission, is_sum, split_sums
from .product_loops import Nest, order, ranges_of

__all__ = ["isolate_products"]


def isolate_products(f: Function) -> None:
    """Rewrite the products of matrices in `f`."""
    _rewrite(f, f.body, ())


def _rewrite(f: Function, block: Block, around: tuple[Loop, ...]) -> None:
    for s in list(block):
        made = None
        if isinstance(s, Loop) and not s.parallel:
            made = _isolated(f, s, around) or _after_checks(f, s, block, around) or _from_parts(f, s, block, around)
        if made is not None:
            at = block.index(s)
            block[at : at + 1] = made
            continue
        for inner in nested_blocks(s):
            _rewrite(f, inner, (*around, s) if isinstance(s, Loop) else around)


def _isolated(f: Function, loop: Loop, around: tuple[Loop, ...]) -> Block | None:
    """The statements that replace a loop; None if it is no product of matrices."""
    nest = _nest(f, loop)
    if nest is None or not all(p.counts_up and not p.product for p in nest.loops):
        return None
    changing = written_in(loop)
    if any(reads(p.start, p.stop) & changing for p in box(ranges_of(nest.loops))):
        return None
    if isinstance(nest.core, Assign) and f.single_precision and not nest.core.reassociable:
        return None  # a sum that the function makes in float64, of numbers that may be float32, stays so
    own = _reading_copies(f, nest)
    if own is None:
        return None
    form = _from_scalar if isinstance(own.core, Assign) else _from_elements
    made = form(f, own, around)
    return None if made is None else [*_copies(f, nest, own), *made]


def _after_checks(f: Function, loop: Loop, block: Block, around: tuple[Loop, ...]) -> Block | None:
    """The same for a loop in `block` with checks of indices into views, which come before, in a nest of their own."""
    checks = [s for s in walk([loop]) if isinstance(s, InRange)]
    indices = {s.index for s in walk([loop]) if isinstance(s, Loop)}
    if not checks or reads(*(t for s in checks for t in terms_of(s))) & (written_in(loop) - indices):
        return None
    at = block.index(loop)
    checking, rest = _with_only(loop, True), _with_only(loop, False)
    block[at] = rest
    made = _isolated(f, rest, around)
    block[at] = loop
    return None if made is None else [checking, *made]


def _with_only(loop: Loop, checks: bool) -> Loop:
    """A copy of a loop with the checks of indices in it, or without them."""
    body: Block = []
    for s in loop.body:
        if isinstance(s, Loop):
            body.append(_with_only(s, checks))
        elif isinstance(s, InRange) is checks:
            body.append(s)
    return replace(loop, body=body, line="" if checks else loop.line)


def _from_parts(f: Function, loop: Loop, block: Block, around: tuple[Loop, ...]) -> Block | None:
    """The same for a loop in `block` in which several products are computed, with a nest for each."""
    split = split_sums(f, loop)
    several = sum(is_sum(s) for s in walk([loop])) > 1 and any(isinstance(s, Loop) for s in loop.body)
    parts = fission(f, loop) if several else [loop]
    at = block.index(loop)
    block[at : at + 1] = parts
    made = [_isolated(f, p, around) for p in parts] if len(parts) > 1 else [None]
    for p, products in zip(parts, made, strict=True):
        if products is None and any(made):
            _rewrite(f, p.body, (*around, p))
    at, end = block.index(parts[0]), block.index(parts[-1]) + 1
    block[at:end] = [*(s for s in block[at:end] if s not in parts), loop]  # first the arrays that are new
    if any(made):
        return [s for p, products in zip(parts, made, strict=True) for s in products or [p]]
    for body, terms, whole in reversed(split):
        at = body.index(terms[0])
        body[at : at + len(terms)] = [whole]
    return None


def _reading_copies(f: Function, nest: Nest) -> Nest | None:
    """The nest with operands read from copies, made before it, where it writes into their arrays only later; None where
    it writes there before."""
    stores, reader = [s for s in walk([nest.loops[0]]) if isinstance(s, Store)], nest.core
    for e in nest.parts[1:3]:
        writing = [s for s in stores if s.array == e.array]
        if not writing:
            continue
        known_early = e.array in f.parameters or any(isinstance(s, Alloc) and s.name == e.array for s in f.body)
        if f.single_precision or len(nest.loops) < 3 or len(e.index) != 2 or not known_early:
            return None
        tests = DependenceTests(f, enclosing_loops(f.body))
        outer = tests.enclosing[nest.loops[0]]
        later = [tests.never_precedes(s, s.index, reader, e.index, outer=outer) for s in writing]
        if e.array in tests.swapped or not all(later):
            return None
        copied = Element(f.names.fresh(f"{e.array}_before"), e.index)
        core = replace(nest.core, value=substitute(nest.core.value, {e: copied}))
        left, right = (copied if t is e else t for t in nest.parts[1:3])
        nest = nest._replace(core=core, parts=nest.parts._replace(left=left, right=right))
    return nest


def _copies(f: Function, nest: Nest, own: Nest) -> Block:
    """The loops that copy the arrays whose copies `own` reads."""
    loops: Block = []
    for e, copied in zip(nest.parts[1:3], own.parts[1:3], strict=True):
        if e is copied:
            continue
        rows, columns = (Loop(f.names.fresh("k"), ZERO, Length(e.array, d), ONE, None, []) for d in (0, 1))
        for p in (rows, columns):
            f.ranks[p.index], f.kinds[p.index] = 0, "int"
        index = Variable(rows.index), Variable(columns.index)
        columns.body = [Store(copied.array, index, Element(e.array, index))]
        rows.body = [columns]
        loops.append(rows)
        f.ranks[copied.array], f.kinds[copied.array] = 2, "float"
        f.copied_from[copied.array] = f.copied_from.get(e.array, e.array)
        at = _place(f, nest)
        shape = Length(e.array, 0), Length(e.array, 1)
        f.body.insert(at, Alloc(copied.array, shape, DTYPES["float"], "", "float"))
    return loops


def _nest(f: Function, loop: Loop) -> Nest | None:
    """The loops around the only sum of products in `loop`."""
    loops, before, after = [loop], [], []
    while inner := [s for s in loops[-1].body if isinstance(s, Loop)]:
        sums = [s for s in inner if any(map(is_sum, walk([s])))]
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
    if not total or not parts:
        return None
    if any(f.kinds.get(e.array) != "float" for e in (parts.left, parts.right)):
        return None
    return Nest(loops, before, after, core, total[0], parts)


def _depth_of_start(before: list[Block], name: str) -> int:
    """How many loops are around the statement that begins a sum."""
    return next((d + 1 for d, block in enumerate(before) if any(mentions(s, name) for s in block)), 0)


def _from_scalar(f: Function, nest: Nest, around: tuple[Loop, ...]) -> Block | None:
    """``s = start; for k: s += a * b; c[...] = g(s)``."""
    assert isinstance(nest.core, Assign)
    name = nest.core.name
    depth = _depth_of_start(nest.before, name)
    level = depth - 1
    if level < 0 or any(nest.before[:level] + nest.before[depth:] + nest.after[:level] + nest.after[depth:]):
        return None
    if len(nest.before[level]) != 1 or not nest.after[level]:
        return None
    (start,), stores = nest.before[level], [s for s in nest.after[level] if isinstance(s, Store)]
    inside = {start, *stores, *nest.loops[-1].body}
    if not isinstance(start, Assign) or len(stores) < len(nest.after[level]):
        return None
    if any(mentions(s, name) for s in walk(f.body) if s not in inside) or name in (f.results or []):
        return None
    zero = isinstance(start.value, Constant) and start.value.value == 0
    if name in start.value.reads or any(name in reads(*s.index) for s in stores):
        return None
    if {s.array for s in stores} & {nest.parts.left.array, nest.parts.right.array}:
        return None
    outer, last = nest.loops[:depth], stores[0]
    array, total = last.array, accumulated(last.target, last.value)
    whole = last.value is Variable(name)
    halves = [replace(s, value=substitute(s.value, {Variable(name): last.target} if whole else {})) for s in stores[1:]]
    mirrored = all(_mirrors(s, last.target, outer) and name not in uses(s) for s in halves)
    once = all(_axis(last.index, p) is not None for p in outer)  # each element
    direct = once and mirrored and not nest.parts.others
    after: Block = [_around(outer, *halves)] if halves else []
    if direct and zero and total and total[1] is Variable(name):
        return _assembled(f, nest, last.target, [], after, nest.sign * total[0], around)
    if direct and whole and (array not in start.value.reads or start.value is last.target):
        first: Block = [] if start.value is last.target else [_around(outer, replace(last, value=start.value))]
        return _assembled(f, nest, last.target, first, after, nest.sign, around)
    once &= len(stores) == 1
    changed = {s.array for s in stores}
    before = set() if once and all(i == last.index for i in elements_in(start.value, array)) else changed
    if changed & reads(*nest.parts.others) or before & start.value.reads or (nest.parts.others and not zero):
        return None
    sums = _new_array(f, nest, outer)
    own = None if sums is None else Element(sums, _from_zero(outer))
    if own is None or order(f, nest, own, around) is None:
        return None
    _allocate(f, own.array, nest, outer)
    begin = Store(own.array, own.index, start.value)
    value: Term = own
    for t in nest.parts.others:
        value = Binary("*", t, value)
    end = [replace(s, value=substitute(s.value, {Variable(name): value})) for s in stores]
    return _assembled(f, nest, own, [_around(outer, begin)], [_around(outer, *end)], nest.sign, around)


def _from_elements(f: Function, nest: Nest, around: tuple[Loop, ...]) -> Block | None:
    """``c[...] += a * b``, with other statements about `c` before and after inner loops."""
    target = nest.core.target  # type: ignore[union-attr]
    axes = {p.index: _axis(target.index, p) for p in nest.loops}
    before: Block = []
    after: Block = []
    for depth, blocks in enumerate(zip(nest.before, nest.after, strict=True)):
        outer = nest.loops[: depth + 1]
        own = [(axes[p.index], p) for p in outer]
        for block, made in zip(blocks, (before, after), strict=True):
            if not all(_only_about(s, target, [d for d, _ in own]) or _mirrors(s, target, outer) for s in block):
                return None
            made += [_around(outer, *block)] if block else []
    if not nest.parts.others:
        return _assembled(f, nest, target, before, after[::-1], nest.sign, around)
    # c += e * (sum of a * b), with a new array for the sums.
    outer = _over_target(nest, [p for p in nest.loops if axes[p.index] is not None])
    others = reads(*nest.parts.others)
    sums = None if target.array in others or not outer else _new_array(f, nest, outer)
    if sums is None or others & {p.index for p in nest.loops} - {p.index for p in outer}:
        return None
    own_sum = Element(sums, _from_zero(outer))
    if order(f, nest, own_sum, around) is None:
        return None
    _allocate(f, sums, nest, outer)
    value: Term = own_sum
    for t in nest.parts.others:
        value = Binary("*", t, value)
    zero = _around(outer, Store(sums, own_sum.index, Constant(0.0)))
    add = _around(outer, replace(nest.core, value=Binary("+", target, value)))
    return _assembled(f, nest, own_sum, [*before, zero], [add, *after[::-1]], nest.sign, around)


def _axis(index: tuple[Term, ...], loop: Loop) -> int | None:
    """The axis along which an index is the variable of a loop plus something else; None if there is none."""
    return next((d for d, i in enumerate(index) if shift(i, loop.index) is not None), None)


def _only_about(s: Statement, target: Element, axes: list[int | None]) -> bool:
    """Whether a statement only stores into the array of `target`, at its indices along some axes."""
    if isinstance(s, Loop):
        return s.counts_up and all(_only_about(t, target, axes) for t in s.body)
    if not isinstance(s, Store) or s.array != target.array or None in axes:
        return False
    indices = [s.index, *(i for t in (*s.index, s.value) for i in elements_in(t, target.array))]
    return all(index[d] is target.index[d] for index in indices for d in axes)  # type: ignore[index]


def _over_target(nest: Nest, loops: list[Loop]) -> list[Loop]:
    """Loops over all elements that a nest adds to, of its `loops` over these; [] if they may be others."""
    found = triangle(ranges_of(nest.loops))
    names = {p.index for p in loops}
    if found is None or found.inner.name not in names or found.outer.name in names:
        return loops
    base, k = offset(found.shift)
    if found.outer.start is not ZERO or base is not None:
        return []
    # Without iterations of the outer loop, there must be none over its box.
    if not (k <= 1 and found.inner.start is ZERO if found.below else k >= 0 and found.inner.stop is found.outer.stop):
        return []
    whole = {r.name: r for r in box(ranges_of(nest.loops))}
    return [replace(p, start=whole[p.index].start, stop=whole[p.index].stop) for p in loops]


def _mirrors(s: Statement, target: Element, loops: list[Loop]) -> bool:
    """Whether a statement stores an element of a triangle on the other side of the diagonal."""
    found = triangle(ranges_of(loops))
    if found is None or not isinstance(s, Store) or s.array != target.array or s.index != target.index[::-1]:
        return False
    base, k = offset(found.shift)
    one_side = base is None and (k <= 1 if found.below else k >= 0)  # perhaps with the diagonal, where both are one
    indices = {Variable(found.outer.name), Variable(found.inner.name)}
    return one_side and set(target.index) == indices and all(i == target.index for i in elements_in(s.value, s.array))


def _assembled(
    f: Function, nest: Nest, target: Element, before: Block, after: Block, sign: int, around: tuple[Loop, ...]
) -> Block | None:
    """The nests for what comes before the product, the product, and what comes after."""
    found = order(f, nest, target, around)
    if found is None:
        return None
    loops = {p.index: p for p in nest.loops}
    innermost = [loops.pop(n) for n in found.names]
    parts = found.parts._replace(factor=found.parts.factor * sign)
    value = Binary("+" if parts.factor > 0 else "-", target, product_term(parts))
    store = Store(target.array, target.index, value, line=nest.core.line, source_location=nest.core.source_location)
    core = _around([*loops.values(), *innermost], store)
    if len(innermost) == 3:
        next(s for s in walk([core]) if isinstance(s, Loop) and s.index == innermost[0].index).product = True
    return [*before, core, *after]


# New arrays and loops.


def _around(loops: list[Loop], *body: Statement) -> Loop:
    """Copies of loops, around a body."""
    block: Block = list(body)
    for p in reversed(loops):
        block = [Loop(p.index, p.start, p.stop, p.step, None, block, target=p.target, over_elements=p.over_elements)]
    (nest,) = block
    nest.line, nest.source_location = loops[0].line, loops[0].source_location
    assert isinstance(nest, Loop)
    return nest


def _from_zero(loops: list[Loop]) -> tuple[Term, ...]:
    """The indices in an array with an element for each iteration of some loops."""
    starts = [r.start for r in box(ranges_of(loops))]
    return tuple(
        [Variable(p.index) if n is ZERO else minus(Variable(p.index), n) for p, n in zip(loops, starts, strict=True)]
    )


def _place(f: Function, nest: Nest) -> int:
    """The number of the statement of `f` that contains a nest."""
    return next(k for k, s in enumerate(f.body) if nest.loops[0] in walk([s]))


def _new_array(f: Function, nest: Nest, loops: list[Loop]) -> str | None:
    """A name for an array with an element for each iteration of some loops, if their trip counts are known early.

    It is one of float64, with which BLAS does not multiply matrices of float32.
    """
    if f.single_precision:
        return None
    outer = f.body[_place(f, nest)]
    changing = {n for s in walk([outer]) for n in ([s.name] if isinstance(s, Assign | Alloc) else [])}
    changing |= {s.index for s in walk([outer]) if isinstance(s, Loop)}
    if any(reads(r.start, r.stop) & changing for r in box(ranges_of(loops))):
        return None
    return f.names.fresh("sums")


def _allocate(f: Function, name: str, nest: Nest, loops: list[Loop]) -> None:
    f.ranks[name], f.kinds[name] = len(loops), "float"
    at = _place(f, nest)
    ranges = zip(loops, box(ranges_of(loops)), strict=True)
    shape = tuple([trip_count(replace(p, start=r.start, stop=r.stop)) for p, r in ranges])
    f.body.insert(at, Alloc(name, shape, DTYPES["float"], "", "float"))
