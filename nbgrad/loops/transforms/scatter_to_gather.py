"""Scatter to gather: the reverse sweep through a stencil, whose iterations add to several neighbours each.

Each iteration stores its contribution in an element of its own, in an array padded on both sides. Another loop then
gathers, for each element, the contributions of neighbouring iterations in one statement. No iteration accesses what
another one writes, so the compiler can vectorize. This is done for the loops of a nest along which there are several
neighbours; where that is the innermost loop alone, the array is a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from ..analysis.must_execute import must_evaluate
from ..ir.affine import offset, plus
from ..ir.effects import Bind
from ..ir.names import called
from ..ir.reverse_ir import FLOAT_ZERO, Branch, For, Item, Step, merge_zero_steps, replace_by_scalars, steps
from ..ir.statements import Loop, names_written
from ..ir.terms import ONE, ZERO, Binary, Compare, Constant, Element, Length, Logical, Term, Unary, Variable, reads
from .loop_fusion import Gather
from .reduction_privatization import zeros

if TYPE_CHECKING:
    from ..analysis.dependence import Index
    from .loop_reversal import LoopReversal

__all__ = ["read_foremost_first", "rewrite_as_gather"]

#: Loops known to have no more iterations than this are left as they are.
_MIN_TRIP_COUNT = 8
#: Arrays with more neighbours than this are left as they are: each takes a row, which is allocated and gathered from.
_MAX_NEIGHBOURS = 32


@dataclass
class _Scaled:
    """A term as a product with constants."""

    value: Term
    factors: list[Term] = field(default_factory=list)
    negative: bool = False


@dataclass
class _Addend:
    """What every iteration adds to one element."""

    array: str
    index: Index
    shift: tuple[int, ...]  # the offset from the loop variables of the nest
    rest: Index  # the index along other axes
    steps_with_depth: list[tuple[Step, int]]
    key: tuple  # equal for addends that are multiples of each other
    scaled: _Scaled  # its value, if it is one addition in every iteration
    row: str = ""

    @property
    def is_single_addition(self) -> bool:
        """Whether it is one addition in every iteration."""
        return _is_single_addition(self.steps_with_depth)

    @property
    def name_key(self) -> str:
        """What tells names for it from those for other elements."""
        return str(Element(self.array, self.index))


def _is_single_addition(found: list[tuple[Step, int]]) -> bool:
    return len(found) == 1 and found[0][1] == 0


def rewrite_as_gather(reversal: LoopReversal) -> None:
    """Rewrite the body of a loop; the gathering loops go to ``reverse.later``, by the outermost loop of the nest."""
    several = {
        name: elements
        for name, elements in reversal.added.items()
        if 1 < len(elements) <= _MAX_NEIGHBOURS and name not in reversal.stored and name not in reversal.read
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
        any(not depth for _, depth in found) or inside(first, array, index)
        for index, found in reversal.added[name].items()
    )


def read_foremost_first(reversal: LoopReversal) -> None:
    """Read the foremost of several neighbouring elements first.

    LLVM reuses values it has read in later iterations, and can then vectorize only if nothing is written before the
    next one is read.
    """
    rows: dict[str, dict[int, Index]] = {}
    for name in reversal.read.keys() - reversal.stored.keys() - reversal.added.keys():
        for index in reversal.read[name]:
            if len(index) == 1 and reversal.is_shifted_variable(index[0]):  # so far, of vectors only
                rows.setdefault(name, {})[offset(index[0])[1]] = index
    for name, found in sorted(rows.items()):
        element = Element(name, found[max(found)])
        if len(found) > 1 and _read_after_write(reversal.body, element):
            first = Variable(reversal.reverse.named(reversal.loop, f"{name}_ahead", str(element)))
            for item in reversal.body:
                replace_by_scalars(item, {element: first})
            reversal.body.insert(0, Step(first, "=", element))


def _read_after_write(body: list[Item], element: Element) -> bool:
    """Whether an element is read unconditionally after a write."""
    written = False
    for item in body:
        if isinstance(item, Step) and element in must_evaluate(item.value):
            return written
        written = written or any(isinstance(s.target, Element) for s, _ in steps([item]))
    return False


def _one_array_suffices(reversal: LoopReversal, loop: Loop) -> bool:
    """Whether one array is large enough for all iterations of the enclosing loops."""
    start, stop = loop.start, loop.stop
    outer = reversal.loops[: reversal.loops.index(loop)]
    if loop.step is not ONE or not reversal.plan.dependence_tests.provably_nonnegative(start, outer):
        return False
    match start, stop:
        case Constant(int() as first), Constant(int() as last) if last - first <= _MIN_TRIP_COUNT:
            return False
    return not reads(start, stop) & names_written(reversal.loops[0])


class _GatherPlan:
    """The loop nest that is rewritten, the axes of its variables in indices, and what is added."""

    def __init__(self, reversal: LoopReversal, several: dict[str, dict[Index, list[tuple[Step, int]]]]) -> None:
        self.reversal = reversal
        self.reverse = reversal.reverse
        self.added = several
        #: Arrays with elements that would be out of range without tests.
        self.guarded_arrays = {name for name in several if not _all_in_range(reversal, name)}
        self.nest, self.axes_of_nest = self._loops()
        self.addends = [self._addend(n, index, found) for n, each in several.items() for index, found in each.items()]
        self.common = self._common()
        self.addends = [part for t in self.addends for part in self._split_multiples(t)]
        axes = range(len(self.nest))
        self.min_shifts = {n: [min(t.shift[k] for t in self.addends if t.array == n) for k in axes] for n in several}
        self.max_shifts = {n: [max(t.shift[k] for t in self.addends if t.array == n) for k in axes] for n in several}

    def _loops(self) -> tuple[tuple[Loop, ...], dict[str, list[int]]]:
        nest: tuple[Loop, ...] = (self.reversal.loop,)
        positions = {name: [len(next(iter(elements))) - 1] for name, elements in self.added.items()}
        best = nest, positions
        for outer in reversed(self.reversal.loops[:-1]):
            found = {name: self._axis_of_variable(outer, name) for name in self.added}
            nested = len(outer.body) == 1 and outer.index and not outer.trip_counter
            if (
                not nested
                or outer in self.reversal.plan.local_reversal.loops
                or None in found.values()
                or not _one_array_suffices(self.reversal, outer)
            ):
                break
            nest = (outer, *nest)
            positions = {name: [at, *positions[name]] for name, at in found.items() if at is not None}
            if any(len({index[at] for index in self.added[n]}) > 1 for n, (at, *_) in positions.items()):
                best = nest, positions  # there are several neighbours along this loop
        return best

    def _axis_of_variable(self, loop: Loop, name: str) -> int | None:
        """The axis along which all indices are the loop variable plus a constant; None unless there is exactly one."""
        indices = [*self.added[name]]
        axes = [
            k
            for k in range(len(indices[0]))
            if all(self.reversal.follows_variable(name, index, k, loop) for index in indices)
        ]
        used = [k for index in indices for k, part in enumerate(index) if loop.index in part.reads]
        return axes[0] if len(axes) == 1 and set(used) == set(axes) else None

    def _addend(self, name: str, index: Index, found: list[tuple[Step, int]], at: Step | None = None) -> _Addend:
        """What is added to an element; `at` is the step that its one addition was taken from."""
        places = self.axes_of_nest[name]
        rest = tuple([p for k, p in enumerate(index) if k not in places])
        key: tuple[object, ...] = name, index
        step, scaled = found[0][0], _Scaled(FLOAT_ZERO)
        if _is_single_addition(found):
            scaled = _scaled(step.value)
            scaled.negative = scaled.negative != (step.assign_op == "-=")
            key = name, *self._value_key(at or step, scaled.value)
        return _Addend(name, index, tuple(offset(index[k])[1] for k in places), rest, found, key, scaled)

    def _common(self) -> dict[tuple, Counter[Term]]:
        """The constant factors that all contributions of a value to neighbours share: they are applied to the row."""
        shared: dict[tuple, Counter[Term]] = {}
        for t in self.addends:
            if any(t.shift):
                factors = Counter(t.scaled.factors)
                shared[t.key] = shared[t.key] & factors if t.key in shared else factors
        return shared

    def _needs_row(self, t: _Addend) -> bool:
        """Whether an addend goes into a row.

        One for the iteration's own element does if neighbours get multiples of it.
        """
        common = self.common.get(t.key) if t.is_single_addition else None
        if t.array in self.guarded_arrays and all(depth for _, depth in t.steps_with_depth):
            return True  # it may be out of range
        return any(t.shift) or (common is not None and not common - Counter(t.scaled.factors))

    def _split_multiples(self, t: _Addend) -> list[_Addend]:
        """Split what is added to the element of the iteration itself: multiples of what neighbours get are separate."""
        if any(t.shift):
            return [t]
        moved: list[_Addend] = []
        left: list[tuple[Step, int]] = []
        for step, depth in t.steps_with_depth:
            rest: list[Term] = []
            for value in _summands(step.value):
                part = Step(step.target, step.assign_op, value)
                addend = self._addend(t.array, t.index, [(part, depth)], step)
                if addend.scaled.factors and self._needs_row(addend):
                    moved.append(addend)
                else:
                    rest.append(value)
            if rest:
                step.value = reduce(lambda a, b: Binary("+", a, b), rest)
                left.append((step, depth))
            else:
                self._remove(step)
        return [*([self._addend(t.array, t.index, left)] if left else []), *moved]

    def _remove(self, step: Step) -> None:
        self.reversal.body[:] = [item for item in self.reversal.body if item is not step]

    def rewrite(self) -> None:
        reversal, rows = self.reversal, dict[tuple, str]()
        own = Counter(name for name, _ in {(t.array, t.index) for t in self.addends if not any(t.shift)})
        for t in sorted(self.addends, key=lambda t: not any(t.shift)):
            gathered = self._needs_row(t) or own[t.array] > 1  # e.g. rows that may alias for the compiler
            if t.is_single_addition and not gathered:
                continue
            if self.common.get(t.key, Counter()) - Counter(t.scaled.factors):
                t.key = *t.key, t.index  # it is no multiple of what is in that row: use a row of its own
            if t.key in rows:
                t.row = rows[t.key]
                self._remove(t.steps_with_depth[0][0])
                continue
            element = Element(t.array, t.index)
            if gathered:
                t.row = rows[t.key] = self.reverse.named(reversal.loop, f"{t.array}_row", t.name_key)
                element = Element(t.row, self._slot_index(t.array))
            self._store(t, element)
        reversal.body[:] = merge_zero_steps(reversal.body)
        parallel = [p for p in reversal.loops[: reversal.loops.index(self.nest[0])] if p.parallel]
        for row, name in {t.row: t.array for t in self.addends if t.row}.items():
            sizes = [
                called(max, plus(p.stop, 2 * high - low), ZERO)
                for p, low, high in zip(self.nest, self.min_shifts[name], self.max_shifts[name], strict=True)
            ]
            empty = zeros(sizes, _dtype_source(reversal, name))
            if parallel:
                self.reverse.private_arrays.setdefault(parallel[0], {})[row] = empty
            else:
                self.reverse.hoist_before_loop(Bind((row,), empty))
        groups: dict[tuple[str, Index], list[_Addend]] = {}
        for t in self.addends:
            if t.row:
                groups.setdefault((t.array, t.rest), []).append(t)
        self.reverse.after_loop[self.nest[0]] = [self._gathering_branch(list(groups.values()), parallel)]

    def _gathering_branch(self, groups: list[list[_Addend]], parallel: list[Loop]) -> Gather:
        """The branch that gathers into all elements.

        It holds what can be fused with the outermost loop of the nest, too: after an iteration, the row that later ones
        do not add to is complete.
        """
        outer, *inner = self.nest
        tests = [Compare((">",), (p.stop, p.start)) for p in self.nest]
        gather = Gather(_all(tests), body=[self._gathering_loop(g) for g in groups])
        if inner and not parallel and not any(p.parallel for p in self.nest) and not self.guarded_arrays:
            gather.loop = For(outer.index, outer.start, outer.stop, outer.step)
            gather.targets = {n: (self.axes_of_nest[n][0], self.min_shifts[n][0]) for n in {g[0].array for g in groups}}
            gather.rest = [self._gathering_loop(g, late=True) for g in groups]
            rows = [self._gather_row(g) for g in groups]
            gather.inside = [Branch(_all(tests[1:]), body=rows)]
        return gather

    def _value_key(self, step: Step, value: Term) -> tuple[Term, int]:
        """A key that is equal for terms with the same value as one that a step reads."""
        at = next(k for k, (s, _) in enumerate(self.reversal.steps) if s is step)
        version = sum(s.name in value.named for s, _ in self.reversal.steps[:at])
        return self._original(value) if isinstance(value, Variable) else value, version

    def _original(self, scalar: Variable) -> Variable:
        """The scalar that `scalar` is a copy of, or itself."""
        found = [s for s, _ in self.reversal.steps if s.name == scalar.name]
        source = found[0].value if len(found) == 1 else None
        if isinstance(source, Variable) and sum(s.name == source.name for s, _ in self.reversal.steps) == 1:
            return self._original(source)
        return scalar

    def _store(self, t: _Addend, element: Element) -> None:
        """Assign an addend to `element` if it is in a row, else add it."""
        first, how = t.steps_with_depth[0][0], "=" if t.row else "+="
        if t.is_single_addition:
            first.target, first.assign_op = element, how
            first.value = _product(t.scaled.value, self.common.get(t.key, Counter()).elements())
            return
        # Accumulate in a scalar first.
        part = Variable(self.reverse.named(self.reversal.loop, f"{t.array}_part", t.name_key))
        self.reversal.body.insert(0, Step(part, "=", FLOAT_ZERO))
        for s, _ in t.steps_with_depth:
            s.target = part
        self.reversal.body.append(Step(element, how, part))

    def _slot_index(self, name: str, shift: tuple[int, ...] | None = None) -> Index:
        """The index of the slot of an iteration in a row; with `shift`, of the iteration that many before."""
        shift = shift or (0,) * len(self.nest)
        bounds = zip(self.nest, self.max_shifts[name], shift, strict=True)
        return tuple([plus(Variable(p.index), high - c) for p, high, c in bounds])

    def _factors(self, t: _Addend) -> list[Term]:
        """The constants to multiply a slot of the row with."""
        return list((Counter(t.scaled.factors) - self.common.get(t.key, Counter())).elements())

    def _gathering_loop(self, group: list[_Addend], late: bool = False) -> Item:
        """The loops that gather into all elements; `late`: into the last rows only, those left over by fusion."""
        array = group[0].array
        loop = self._loop(group, 0)
        if late:
            loop.start = plus(self.nest[0].stop, self.min_shifts[array][0])
        return loop.with_body([self._gather_row(group, 0)])

    def _loop(self, group: list[_Addend], k: int) -> For:
        """A loop, without a body, over the indices in range that the nest's `k`-th loop accesses with the shifts of
        `group`."""
        p, array = self.nest[k], group[0].array
        low = min(t.shift[k] for t in group)
        start, stop = plus(p.start, low), plus(p.stop, max(t.shift[k] for t in group))
        if array in self.guarded_arrays:
            start = ZERO if p.start is ZERO and low < 0 else called(max, start, ZERO)
            stop = called(min, stop, Length(array, self.axes_of_nest[array][k]))
        return For(p.index, start, stop, p.step, p.parallel)

    def _gather_row(self, group: list[_Addend], ahead: int | None = None) -> Item:
        """Gather into the row `ahead` of the iteration of the outermost loop.

        By default, that is the row that no later iteration adds to. The padding of the row is zero.
        """
        array = group[0].array
        ahead = self.min_shifts[array][0] if ahead is None else ahead
        negated = len(group) == 1 and group[0].scaled.negative
        value: Term | None = None
        for t in sorted(group, key=lambda t: bool(self._factors(t))):  # float64 addends go last
            slot = Element(t.row, self._slot_index(array, (t.shift[0] - ahead, *t.shift[1:])))
            first, *others = [*self._factors(t), slot]
            if value is None:
                value = _product(Unary("-", first) if t.scaled.negative and not negated else first, others)
            else:
                value = Binary("-" if t.scaled.negative else "+", value, _product(first, others))
        assert value is not None
        index = [*group[0].index]
        for axis, p in zip(self.axes_of_nest[array], self.nest, strict=True):
            index[axis] = Variable(p.index)
        index[self.axes_of_nest[array][0]] = plus(Variable(self.nest[0].index), ahead)
        item: Item = Step(Element(array, tuple(index)), "-=" if negated else "+=", value)
        for k in range(len(self.nest) - 1, 0, -1):
            item = self._loop(group, k).with_body([item])
        return item


def _all(tests: Sequence[Term]) -> Term:
    """The test whether all of `tests` hold."""
    return tests[0] if len(tests) == 1 else Logical("and", tuple(tests))


def _summands(term: Term) -> list[Term]:
    match term:
        case Binary("+", left, right):
            return [*_summands(left), *_summands(right)]
        case Binary("-", left, right):
            return [*_summands(left), *(Unary("-", t) for t in _summands(right))]
    return [term]


def _scaled(term: Term) -> _Scaled:
    """`term` without the sign and the constant factors that apply to all of it."""
    match term:
        case Unary("-", operand):
            inner = _scaled(operand)
            return _Scaled(inner.value, inner.factors, not inner.negative)
        case Binary("*", Constant() as factor, other):
            inner = _scaled(other)
            return _Scaled(inner.value, [factor, *inner.factors], inner.negative)
        case Binary("*", other, Constant() as factor):
            inner = _scaled(other)
            return _Scaled(inner.value, [*inner.factors, factor], inner.negative)
        case Binary("*" | "/" as op, one, other):
            left, right = _scaled(one), _scaled(other)
            negative = left.negative != right.negative
            if op == "*":
                return _Scaled(Binary("*", left.value, right.value), [*left.factors, *right.factors], negative)
            return _Scaled(Binary("/", left.value, _product(right.value, right.factors)), left.factors, negative)
    return _Scaled(term)


def _product(value: Term, factors: Iterable[Term]) -> Term:
    return reduce(lambda a, b: Binary("*", a, b), factors, value)
