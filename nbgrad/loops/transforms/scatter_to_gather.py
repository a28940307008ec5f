"""Scatter to gather: the reverse sweep through a stencil, whose iterations add to several neighbours each.

Each iteration stores its contribution in an element of its own, in an array padded on both sides. Another loop then
gathers, for each element, the contributions of neighbouring iterations in one statement. No iteration accesses what
another one writes, so the compiler can vectorize. This is done for the loops of a nest along which there are several
neighbours; where that is the innermost loop alone, the array is a row.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from ...core.source_text import constant_source
from ..analysis.must_execute import must_evaluate
from ..ir.affine import axis_indices, offset, plus
from ..ir.reverse_ir import Item, Nest, Step, loop_head, merge_zero_steps, replace_by_scalars, steps
from ..ir.statements import Loop, names_written, parse, parsed, reads, subtrees, unparse
from .loop_fusion import Gather

if TYPE_CHECKING:
    from .loop_reversal import LoopReversal

__all__ = ["read_foremost_first", "rewrite_as_gather"]

#: Loops known to have no more iterations than this are left as they are.
_MIN_TRIP_COUNT = 8


@dataclass
class _Scaled:
    """An expression as a product with constants."""

    value: ast.expr
    factors: list[str] = field(default_factory=list)
    negative: bool = False


@dataclass
class _Term:
    """What every iteration adds to one element."""

    array: str
    index: str
    shift: tuple[int, ...]  # the offset from the loop variables of the nest
    rest: str  # the index along other axes
    steps_with_depth: list[tuple[Step, int]]
    key: tuple  # equal for terms that are multiples of each other
    scaled: _Scaled  # its value, if it is one addition in every iteration
    row: str = ""

    @property
    def is_single_addition(self) -> bool:
        """Whether it is one addition in every iteration."""
        return _is_single_addition(self.steps_with_depth)


def _is_single_addition(found: list[tuple[Step, int]]) -> bool:
    return len(found) == 1 and found[0][1] == 0


def rewrite_as_gather(reversal: LoopReversal) -> None:
    """Rewrite the body of a loop; the gathering loops go to ``reverse.later``, by the outermost loop of the nest."""
    several = {
        name: elements
        for name, elements in reversal.added.items()
        if len(elements) > 1 and name not in reversal.stored and name not in reversal.read
    }
    if several and _one_array_suffices(reversal, reversal.loop):
        _GatherPlan(reversal, several).rewrite()


def _primal_array(reversal: LoopReversal, name: str) -> str:
    """The array whose cotangent is `name`."""
    return next((n for n, bar in reversal.reverse.bars.items() if bar == name), name)


def _dtype_source(reversal: LoopReversal, name: str) -> str:
    """An array that exists and has the dtype of a cotangent: the cotangent of a local array may be removed as dead."""
    array = _primal_array(reversal, name)
    return name if array in reversal.reverse.f.parameters else array


def _all_in_range(reversal: LoopReversal, name: str) -> bool:
    """Whether all elements that iterations may add to are in range: those only added to in branches may not be."""
    array = _primal_array(reversal, name)
    inside, first = reversal.plan.dependence_tests.index_in_range, reversal.loop.body[0]
    return all(
        any(not depth for _, depth in found) or inside(first, array, parse(index))
        for index, found in reversal.added[name].items()
    )


def read_foremost_first(reversal: LoopReversal) -> None:
    """Read the foremost of several neighbouring elements first.

    LLVM reuses values it has read in later iterations, and can then vectorize only if nothing is written before the
    next one is read.
    """
    rows: dict[tuple[str, ...], dict[int, str]] = {}
    for name in reversal.read.keys() - reversal.stored.keys() - reversal.added.keys():
        for index in reversal.read[name]:
            *rest, last = axis_indices(parse(index))
            if reversal.is_shifted_variable(last) and reversal.is_invariant(*rest):
                rows.setdefault((name, *map(unparse, rest)), {})[offset(last)[1]] = index
    for (name, *_), found in sorted(rows.items()):
        element = f"{name}[{found[max(found)]}]"
        if len(found) > 1 and _read_after_write(reversal.body, element):
            first = reversal.reverse.named(reversal.loop, f"{name}_ahead", element)
            for item in reversal.body:
                replace_by_scalars(item, {element: first})
            reversal.body.insert(0, Step(ast.Name(first), "=", element))


def _read_after_write(body: list[Item], element: str) -> bool:
    """Whether an element is read unconditionally after a write."""
    written = False
    for item in body:
        if isinstance(item, Step) and element in must_evaluate(parsed(item.value)):
            return written
        written = written or any(isinstance(s.target, ast.Subscript) for s, _ in steps([item]))
    return False


def _one_array_suffices(reversal: LoopReversal, loop: Loop) -> bool:
    """Whether one array is large enough for all iterations of the enclosing loops."""
    start, stop = loop.start, loop.stop
    outer = reversal.loops[: reversal.loops.index(loop)]
    if unparse(loop.step) != "1" or not reversal.plan.dependence_tests.provably_nonnegative(start, outer):
        return False
    match start, stop:
        case ast.Constant(value=int() as first), ast.Constant(value=int() as last) if last - first <= _MIN_TRIP_COUNT:
            return False
    return not reads(start, stop) & names_written(reversal.loops[0])


class _GatherPlan:
    """The loop nest that is rewritten, the axes of its variables in indices, and the terms that are added."""

    def __init__(self, reversal: LoopReversal, several: dict[str, dict[str, list[tuple[Step, int]]]]) -> None:
        self.turns = reversal
        self.reverse = reversal.reverse
        self.added = several
        #: Arrays with elements that would be out of range without tests.
        self.guarded_arrays = {name for name in several if not _all_in_range(reversal, name)}
        self.nest, self.axes_of_nest = self._loops()
        self.terms = [self._term(n, index, found) for n, each in several.items() for index, found in each.items()]
        self.common = self._common()
        self.terms = [part for t in self.terms for part in self._split_multiples(t)]
        axes = range(len(self.nest))
        self.min_shifts = {n: [min(t.shift[k] for t in self.terms if t.array == n) for k in axes] for n in several}
        self.max_shifts = {n: [max(t.shift[k] for t in self.terms if t.array == n) for k in axes] for n in several}

    def _loops(self) -> tuple[tuple[Loop, ...], dict[str, list[int]]]:
        nest: tuple[Loop, ...] = (self.turns.loop,)
        positions = {name: [len(axis_indices(parse(min(elements)))) - 1] for name, elements in self.added.items()}
        best = nest, positions
        for outer in reversed(self.turns.loops[:-1]):
            found = {name: self._axis_of_variable(outer, name) for name in self.added}
            nested = len(outer.body) == 1 and outer.index and not outer.trip_counter
            if (
                not nested
                or outer in self.turns.plan.local_reversal.loops
                or None in found.values()
                or not _one_array_suffices(self.turns, outer)
            ):
                break
            nest = (outer, *nest)
            positions = {name: [at, *positions[name]] for name, at in found.items() if at is not None}
            if any(
                len({unparse(axis_indices(parse(i))[at]) for i in self.added[n]}) > 1
                for n, (at, *_) in positions.items()
            ):
                best = nest, positions  # there are several neighbours along this loop
        return best

    def _axis_of_variable(self, loop: Loop, name: str) -> int | None:
        """The axis along which all indices are the loop variable plus a constant; None unless there is exactly one."""
        indices = [axis_indices(parse(index)) for index in self.added[name]]
        axes = [
            k
            for k in range(len(indices[0]))
            if all(self.turns.follows_variable(name, index, k, loop) for index in self.added[name])
        ]
        used = [k for p in indices for k, node in enumerate(p) if loop.index in reads(node)]
        return axes[0] if len(axes) == 1 and set(used) == set(axes) else None

    def _term(self, name: str, index: str, found: list[tuple[Step, int]], at: Step | None = None) -> _Term:
        """A term; `at` is the step that its one addition was taken from."""
        axes = axis_indices(parse(index))
        places = self.axes_of_nest[name]
        rest = ", ".join(unparse(p) for k, p in enumerate(axes) if k not in places)
        key: tuple[object, ...] = name, index
        step, scaled = found[0][0], _Scaled(ast.Constant(0.0))
        if _is_single_addition(found):
            scaled = _scaled(parse(step.value))
            scaled.negative = scaled.negative != (step.assign_op == "-=")
            key = name, *self._value_key(at or step, scaled.value)
        return _Term(name, index, tuple(offset(axes[k])[1] for k in places), rest, found, key, scaled)

    def _common(self) -> dict[tuple, Counter[str]]:
        """The constant factors that all contributions of a value to neighbours share: they are applied to the row."""
        shared: dict[tuple, Counter[str]] = {}
        for t in self.terms:
            if any(t.shift):
                factors = Counter(t.scaled.factors)
                shared[t.key] = shared[t.key] & factors if t.key in shared else factors
        return shared

    def _needs_row(self, t: _Term) -> bool:
        """Whether a term goes into a row.

        One for the iteration's own element does if neighbours get multiples of it.
        """
        common = self.common.get(t.key) if t.is_single_addition else None
        if t.array in self.guarded_arrays and all(depth for _, depth in t.steps_with_depth):
            return True  # it may be out of range
        return any(t.shift) or (common is not None and not common - Counter(t.scaled.factors))

    def _split_multiples(self, t: _Term) -> list[_Term]:
        """Split what is added to the element of the iteration itself: multiples of what neighbours get become terms."""
        if any(t.shift):
            return [t]
        moved: list[_Term] = []
        left: list[tuple[Step, int]] = []
        for step, depth in t.steps_with_depth:
            rest: list[ast.expr] = []
            for value in _addends(parse(step.value)):
                part = Step(step.target, step.assign_op, unparse(value))
                term = self._term(t.array, t.index, [(part, depth)], step)
                if term.scaled.factors and self._needs_row(term):
                    moved.append(term)
                else:
                    rest.append(value)
            if rest:
                step.value = unparse(reduce(lambda a, b: ast.BinOp(a, ast.Add(), b), rest))
                left.append((step, depth))
            else:
                self._remove(step)
        return [*([self._term(t.array, t.index, left)] if left else []), *moved]

    def _remove(self, step: Step) -> None:
        self.turns.body[:] = [item for item in self.turns.body if item is not step]

    def rewrite(self) -> None:
        reversal, rows = self.turns, dict[tuple, str]()
        own = Counter(name for name, _ in {(t.array, t.index) for t in self.terms if not any(t.shift)})
        for t in sorted(self.terms, key=lambda t: not any(t.shift)):
            gathered = self._needs_row(t) or own[t.array] > 1  # e.g. rows that may alias for the compiler
            if t.is_single_addition and not gathered:
                continue
            if self.common.get(t.key, Counter()) - Counter(t.scaled.factors):
                t.key = *t.key, t.index  # it is no multiple of what is in that row: use a row of its own
            if t.key in rows:
                t.row = rows[t.key]
                self._remove(t.steps_with_depth[0][0])
                continue
            element = parse(f"{t.array}[{t.index}]")
            if gathered:
                t.row = rows[t.key] = self.reverse.named(reversal.loop, f"{t.array}_row", t.index)
                element = parse(f"{t.row}[{self._slot_index(t.array)}]")
            self._store_term(t, element)
        reversal.body[:] = merge_zero_steps(reversal.body)
        parallel = [p for p in reversal.loops[: reversal.loops.index(self.nest[0])] if p.parallel]
        for row, name in {t.row: t.array for t in self.terms if t.row}.items():
            sizes = [
                f"max({unparse(plus(p.stop, 2 * high - low))}, 0)"
                for p, low, high in zip(self.nest, self.min_shifts[name], self.max_shifts[name], strict=True)
            ]
            shape = sizes[0] if len(sizes) == 1 else f"({', '.join(sizes)})"
            zeros = f"np.zeros({shape}, {_dtype_source(reversal, name)}.dtype)"
            if parallel:
                self.reverse.private_arrays.setdefault(parallel[0], {})[row] = zeros
            else:
                self.reverse.hoist_before_loop(f"{row} = {zeros}")
        groups: dict[tuple[str, str], list[_Term]] = {}
        for t in self.terms:
            if t.row:
                groups.setdefault((t.array, t.rest), []).append(t)
        self.reverse.after_loop[self.nest[0]] = [self._gathering_branch(list(groups.values()), parallel)]

    def _gathering_branch(self, groups: list[list[_Term]], parallel: list[Loop]) -> Gather:
        """The branch that gathers into all elements.

        It holds what can be fused with the outermost loop of the nest, too: after an iteration, the row that later ones
        do not add to is complete.
        """
        outer, *inner = self.nest
        tests = [f"{unparse(p.stop)} > {unparse(p.start)}" for p in self.nest]
        gather = Gather(f"if {' and '.join(tests)}:", [self._gathering_loop(g) for g in groups], " and ".join(tests))
        if inner and not parallel and not any(p.parallel for p in self.nest) and not self.guarded_arrays:
            gather.loop = loop_head(outer)
            gather.targets = {n: (self.axes_of_nest[n][0], self.min_shifts[n][0]) for n in {g[0].array for g in groups}}
            gather.rest = [self._gathering_loop(g, late=True) for g in groups]
            rows = [self._gather_row(g) for g in groups]
            test = " and ".join(tests[1:])
            gather.inside = [Nest(f"if {test}:", rows, test)]
        return gather

    def _value_key(self, step: Step, value: ast.expr) -> tuple[str, int]:
        """A key that is equal for expressions with the same value as one that a step reads."""
        names = {n.id for n in subtrees(value) if isinstance(n, ast.Name)}
        at = next(k for k, (s, _) in enumerate(self.turns.steps) if s is step)
        version = sum(s.name in names for s, _ in self.turns.steps[:at])
        return self._original(value.id) if isinstance(value, ast.Name) else unparse(value), version

    def _original(self, name: str) -> str:
        """The scalar that `name` is a copy of, or `name`."""
        found = [s for s, _ in self.turns.steps if s.name == name]
        source = parse(found[0].value) if len(found) == 1 else None
        if isinstance(source, ast.Name) and sum(s.name == source.id for s, _ in self.turns.steps) == 1:
            return self._original(source.id)
        return name

    def _store_term(self, t: _Term, element: ast.expr) -> None:
        """Assign a term to `element` if it is in a row, else add it."""
        first, how = t.steps_with_depth[0][0], "=" if t.row else "+="
        if t.is_single_addition:
            first.target, first.assign_op = element, how
            first.value = unparse(_product(t.scaled.value, self.common.get(t.key, Counter()).elements()))
            return
        part = self.reverse.named(self.turns.loop, f"{t.array}_part", t.index)  # accumulate in a scalar first
        self.turns.body.insert(0, Step(ast.Name(part), "=", "0.0"))
        for s, _ in t.steps_with_depth:
            s.target = ast.Name(part)
        self.turns.body.append(Step(element, how, part))

    def _slot_index(self, name: str, shift: tuple[int, ...] | None = None) -> str:
        """The index of the slot of an iteration in a row; with `shift`, of the iteration that many before."""
        shift = shift or (0,) * len(self.nest)
        return ", ".join(
            unparse(plus(ast.Name(p.index, ast.Load()), high - c))
            for p, high, c in zip(self.nest, self.max_shifts[name], shift, strict=True)
        )

    def _factors(self, t: _Term) -> list[str]:
        """The constants to multiply a slot of the row with."""
        return list((Counter(t.scaled.factors) - self.common.get(t.key, Counter())).elements())

    def _gathering_loop(self, terms: list[_Term], late: bool = False) -> Item:
        """The loops that gather into all elements; `late`: into the last rows only, those left over by fusion."""
        outer, array = self.nest[0], terms[0].array
        low = min(t.shift[0] for t in terms)
        loop = self._range(array, 0, low, max(t.shift[0] for t in terms))
        if late:
            loop.start = plus(outer.stop, self.min_shifts[array][0])
        return Nest(loop_head(loop, "prange" if outer.parallel else "range"), [self._gather_row(terms, 0)])

    def _range(self, array: str, k: int, low: int, high: int) -> Loop:
        """A loop over the indices that the nest's `k`-th loop accesses with shifts from `low` to `high`, in range."""
        p = self.nest[k]
        start, stop = plus(p.start, low), plus(p.stop, high)
        if array in self.guarded_arrays:
            start = parse("0" if unparse(p.start) == "0" and low < 0 else f"max({unparse(start)}, 0)")
            stop = parse(f"min({unparse(stop)}, {array}.shape[{self.axes_of_nest[array][k]}])")
        return Loop(p.index, start, stop, p.step, None, [])

    def _gather_row(self, terms: list[_Term], ahead: int | None = None) -> Item:
        """Gather into the row `ahead` of the iteration of the outermost loop.

        By default, that is the row that no later iteration adds to. The padding of the row is zero.
        """
        array = terms[0].array
        ahead = self.min_shifts[array][0] if ahead is None else ahead
        value = ""
        for t in sorted(terms, key=lambda t: bool(self._factors(t))):  # float64 terms go last
            element = f"{t.row}[{self._slot_index(array, (t.shift[0] - ahead, *t.shift[1:]))}]"
            element, sign = " * ".join([*self._factors(t), element]), "-" if t.scaled.negative else "+"
            value += f" {sign} {element}" if value else element if sign == "+" else f"-{element}"
        index = [unparse(p) for p in axis_indices(parse(terms[0].index))]
        for axis, p in zip(self.axes_of_nest[array], self.nest, strict=True):
            index[axis] = p.index
        index[self.axes_of_nest[array][0]] = unparse(plus(ast.Name(self.nest[0].index, ast.Load()), ahead))
        target = parse(f"{array}[{', '.join(index)}]")
        negated = value.startswith("-") and len(terms) == 1
        item: Item = Step(target, "-=", value[1:]) if negated else Step(target, "+=", value)
        for k, p in reversed(list(enumerate(self.nest))[1:]):
            low, high = min(t.shift[k] for t in terms), max(t.shift[k] for t in terms)
            loop = self._range(array, k, low, high)
            item = Nest(loop_head(loop, "prange" if p.parallel else "range"), [item])
        return item


def _addends(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(op=ast.Add()):
            return [*_addends(node.left), *_addends(node.right)]
        case ast.BinOp(op=ast.Sub()):
            return [*_addends(node.left), *(ast.UnaryOp(ast.USub(), n) for n in _addends(node.right))]
    return [node]


def _scaled(node: ast.expr) -> _Scaled:
    """`node` without the sign and the constant factors that apply to all of it."""
    match node:
        case ast.UnaryOp(op=ast.USub()):
            inner = _scaled(node.operand)
            return _Scaled(inner.value, inner.factors, not inner.negative)
        case ast.BinOp(op=ast.Mult(), left=ast.Constant(value), right=other):
            inner = _scaled(other)
            return _Scaled(inner.value, [constant_source(value), *inner.factors], inner.negative)
        case ast.BinOp(op=ast.Mult(), left=other, right=ast.Constant(value)):
            inner = _scaled(other)
            return _Scaled(inner.value, [*inner.factors, constant_source(value)], inner.negative)
        case ast.BinOp(op=ast.Mult()):
            left, right = _scaled(node.left), _scaled(node.right)
            core = ast.BinOp(left.value, node.op, right.value)
            return _Scaled(core, [*left.factors, *right.factors], left.negative != right.negative)
        case ast.BinOp(op=ast.Div()):
            left, right = _scaled(node.left), _scaled(node.right)
            core = ast.BinOp(left.value, node.op, _product(right.value, right.factors))
            return _Scaled(core, left.factors, left.negative != right.negative)
    return _Scaled(node)


def _product(value: ast.expr, constants: Iterable[str]) -> ast.expr:
    return reduce(lambda a, c: ast.BinOp(a, ast.Mult(), parse(c)), constants, value)
