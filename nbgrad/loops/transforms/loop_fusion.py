"""Loop fusion: merge adjacent loops of the reverse sweep.

What one loop leaves in the cache, or in a register, the next one can use there. Two loops over the same iterations are
fused if no iteration of the second depends on what later iterations of the first change, except elements that are
restored: these can get a loop of their own before it. An element that is accumulated into and reset to zero within one
iteration becomes a scalar. A loop that gathers from neighbours is fused with the loop before it, one row behind, or
with the loop that reads what is gathered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..analysis.iteration_local_reversal import cotangent_name
from ..analysis.must_execute import must_evaluate
from ..analysis.parallelization import first_access, reduction_variables
from ..ir.affine import offset
from ..ir.reverse_ir import Branch, Comment, For, Item, Nest, Step, negative, replace_by_scalars, same_iterations
from ..ir.statements import Alloc, Call, Function, Statement, Swap, uses, walk, writes
from ..ir.terms import Element, Term, Variable, reads, subterms, variables

if TYPE_CHECKING:
    from ..analysis.dependence import Index
    from ..analysis.reverse_plan import Plan

__all__ = ["Accessed", "Gather", "fuse_loops", "merge_zero_and_add", "replace_by_scalar", "single_read_arrays"]


@dataclass(eq=False)
class Gather(Branch):
    """A branch that gathers what iterations of the `loop` before it have stored for their neighbours.

    The same can be done at the end of each iteration (`inside`), so that less remains (`rest`), if later iterations do
    not access what was accumulated into: rows of `targets`, by the axis and the shift against the iteration.
    """

    loop: For | None = None  # without its body
    inside: list[Item] = field(default_factory=list)
    rest: list[Item] = field(default_factory=list)
    targets: dict[str, tuple[int, int]] = field(default_factory=dict)


def single_read_arrays(f: Function, plan: Plan) -> dict[str, Statement]:
    """The local arrays that are read for derivatives in one location only, inside a loop, with the statement there."""
    readers = [(cotangent_name(atom), s) for s, pull in plan.statement_adjoints.items() for atom, _ in pull.parts]
    count = Counter(name for name, _ in readers)
    rebound = {n for s in walk(f.body) if isinstance(s, Swap | Call) for n in (*writes(s), *uses(s))}
    local = {s.name for s in walk(f.body) if isinstance(s, Alloc)} - rebound - {*f.parameters, *(f.results or [])}
    return {n: s for n, s in readers if n in local and count[n] == 1 and plan.enclosing[s]}


def fuse_loops(items: list[Item], passing: dict[str, str]) -> list[Item]:
    """Fuse loops in `items`, a block, which is changed.

    Arrays in `passing` are zero, except between the statement that accumulates into them and the one that consumes it;
    with the name of the scalar that can replace an element.
    """
    fused: list[Item] = []
    for item in items:
        if isinstance(item, Gather):
            item = _fuse_gather_behind(fused, item)
        elif isinstance(item, For) and not item.parallel:
            if _fuse_with_last(fused, item, passing):
                continue
            _fuse_gather_ahead(fused, item)
        fused.append(item)
    for array in sorted(passing.keys() & {item.name for item in fused if isinstance(item, Step)}):
        replace_by_scalar(fused, array, passing[array])
    _remove_zero_and_restore(fused)
    merge_zero_and_add(fused, lambda a, b: False)
    return fused


def _fuse_with_last(items: list[Item], loop: For, passing: dict[str, str]) -> bool:
    """Fuse `loop` with the last loop in `items`; whether that was possible."""
    at, steps, notes = _split_at_last_nest(items)
    before = items[at] if at >= 0 else None
    if not isinstance(before, For) or not same_iterations(before, loop):
        return False
    first, last = _sink_or_hoist(steps, before, loop)
    if len(first) + len(last) < len(steps):
        return False
    hoisted: list[Item] = []
    rest = before
    if not _fusible(before, loop):
        hoisted, rest = _split_restores(before, Accessed([loop]).names)
        if not hoisted or not _fusible(rest, loop):
            return False
    notes = [note for note in notes if note not in items[max(at - 1, 0) : at]]
    rest.body = fuse_loops([*rest.body, *notes, *loop.body], passing)
    items[at:] = [*first, *hoisted, rest, *last]
    return True


def _split_at_last_nest(items: list[Item]) -> tuple[int, list[Step], list[Comment]]:
    """The index of the last loop or branch, and the steps and comments after it; -1 if anything else follows."""
    at = len(items) - 1
    while at >= 0 and not isinstance(items[at], Nest):
        at -= 1
    steps = [item for item in items[at + 1 :] if isinstance(item, Step)]
    notes = [item for item in items[at + 1 :] if isinstance(item, Comment)]
    return at if len(steps) + len(notes) == len(items) - at - 1 else -1, steps, notes


def _sink_or_hoist(steps: list[Step], before: Nest, after: Nest) -> tuple[list[Step], list[Step]]:
    """The steps between two loops that can move before the first, and those that can move after the second."""
    first: list[Step] = []
    last: list[Step] = []
    for s in steps:
        depends = any({s.name, *_reads(s)} & {t.name, *_reads(t)} for t in last)
        if not depends and _commutes(s, before):
            first.append(s)
        elif _commutes(s, after):
            last.append(s)
    return first, last


def _split_restores(loop: For, names: set[str]) -> tuple[list[Item], For]:
    """Split `loop`: what only sets elements of arrays in `names` to loop-invariant values, and the rest."""
    used = Accessed([loop])
    separable = {n for n in used.arrays_written & names - used.whole if len(used.elements[n]) == 1}
    first, rest = _partition_body(loop, separable, used.written)
    return [first] if first.body and used.is_structured else [], rest


def _partition_body(loop: For, separable: set[str], written: set[str]) -> tuple[For, For]:
    first, rest = loop.with_body([]), loop.with_body([])
    for item in loop.body:
        if isinstance(item, For) and not item.parallel and not reads(*item.bounds) & written:
            inner, remainder = _partition_body(item, separable, written)
            first.body += [inner] if inner.body else []
            rest.body += [remainder] if not all(isinstance(i, Comment) for i in remainder.body) else []
        elif isinstance(item, Step) and item.assign_op == "=" and item.name in separable and not _reads(item) & written:
            first.body.append(item)
        else:
            rest.body.append(item)
    return first, rest


def _reads(s: Step) -> set[str]:
    return reads(*s.evaluated())


def replace_by_scalar(body: list[Item], array: str, number: str) -> None:
    """Replace an element that is accumulated into and consumed in the same iteration by the scalar `number`."""
    accesses = [k for k, item in enumerate(body) if array in Accessed([item]).elements]
    add, take = body[accesses[0]], body[accesses[-1]]
    if (
        not isinstance(add, Step)
        or not isinstance(take, Step)
        or add.assign_op == "="
        or add.name != array
        or add is take
    ):
        return
    element = add.target
    used = Accessed(body[accesses[0] : accesses[-1] + 1])
    if (
        not (take.zeroes and take.target is element)
        or {Element(array, index) for index in used.elements[array]} != {element}
        or array in used.whole | _reads(add)
        or reads(*element.operands) & used.written
    ):
        return
    for k in accesses:
        replace_by_scalars(body[k], {element: Variable(number)})
    if add.assign_op == "-=":
        add.value = negative(add.value)
    add.assign_op = "="
    body.remove(take)


def _zeroed(body: list[Item]) -> list[Step]:
    """The steps that set elements to zero."""
    return [s for s in body if isinstance(s, Step) and isinstance(s.target, Element) and s.zeroes]


def _index_names(s: Step) -> set[str]:
    """The names that the index of an element reads: scalars and integer arrays."""
    return reads(*s.target.operands)


def _remove_zero_and_restore(body: list[Item]) -> None:
    """Remove zeroing and accumulation of elements that are read, set to zero, and then restored by accumulation."""
    for zero in _zeroed(body):
        later = body[body.index(zero) + 1 :]
        back = next((s for s in later if zero.name in Accessed([s]).names), None)
        if isinstance(back, Step) and back.assign_op == "+=" and _adds_old_value(body, zero, back):
            between = later[: later.index(back)]
            if Accessed(between).is_structured and not Accessed(between).written & _index_names(zero):
                body.remove(zero)
                body.remove(back)


def _adds_old_value(body: list[Item], zero: Step, back: Step) -> bool:
    """Whether what is added to an element that was set to zero is the value that was read right before."""
    at = body.index(zero)
    read = body[at - 1] if at else None
    return (
        isinstance(read, Step)
        and isinstance(read.target, Variable)
        and read.assign_op == "="
        and read.value is zero.target is back.target
        and back.value in _copies(read.target, body[at + 1 : body.index(back)])
    )


def merge_zero_and_add(body: list[Item], differ: Callable[[Index, Index], bool]) -> None:
    """Replace ``e = 0; e += v`` by ``e = v`` for elements.

    Elements accessed in between must provably `differ`.
    """
    for zero in _zeroed(body):
        assert isinstance(zero.target, Element)
        at, index = body.index(zero), zero.target.index
        back = next((s for s in body[at + 1 :] if _may_access(s, zero.name, index, differ)), None)
        if (
            isinstance(back, Step)
            and back.assign_op != "="
            and back.target is zero.target
            and zero.name not in _reads(back)
            and not Accessed(body[at + 1 : body.index(back)]).written & _index_names(zero)
            and not _adds_old_value(body, zero, back)
        ):
            back.value, back.assign_op = back.value if back.assign_op == "+=" else negative(back.value), "="
            body.remove(zero)


def _may_access(item: Item, name: str, index: Index, differ: Callable[[Index, Index], bool]) -> bool:
    """Whether an item may access the element of an array at `index`."""
    used = Accessed([item])
    return (
        not used.is_structured
        or name in used.whole
        or not all(differ(index, other) for other in used.elements.get(name, ()))
    )


def _copies(scalar: Variable, items: list[Item]) -> set[Term]:
    """The scalars that have the value that `scalar` has before `items`."""
    same: set[Term] = {scalar}
    for item in items:
        if isinstance(item, Step) and item.assign_op == "=" and item.value in same:
            same.add(Variable(item.name))
        elif isinstance(item, Step | Nest):
            same.difference_update(variables(Accessed([item]).scalars_written))
    return same


def _commutes(s: Step, loop: Nest) -> bool:
    """Whether a step can be moved across `loop`."""
    used = Accessed([loop])
    return s.name not in used.names and not _reads(s) & used.written


class Accessed:
    """The names that `items` read and write.

    `elements` are the indices accessed, by array; `whole` the names that occur other than in an element access;
    `is_structured` says whether there are only assignments, branches and loops.
    """

    def __init__(self, items: list[Item]) -> None:
        self.elements: dict[str, list[Index]] = {}
        self.whole: set[str] = set()
        self.scalars_written: set[str] = set()
        self.arrays_written: set[str] = set()
        self.is_structured = True
        stack = list(items)
        while stack:
            item = stack.pop()
            if isinstance(item, Nest):
                self._collect_names(item.terms)
                stack += item.body
            elif isinstance(item, Step):
                self._collect_names((item.target, *item.evaluated()))
                (self.scalars_written if isinstance(item.target, Variable) else self.arrays_written).add(item.name)
            else:
                self.is_structured = self.is_structured and isinstance(item, Comment)

    def _collect_names(self, terms: tuple[Term, ...]) -> None:
        for t in subterms(*terms):
            if isinstance(t, Element):
                self.elements.setdefault(t.array, []).append(t.index)
            elif isinstance(t, Variable):
                self.whole.add(t.name)

    @property
    def names(self) -> set[str]:
        return self.whole | self.elements.keys()

    @property
    def written(self) -> set[str]:
        return self.scalars_written | self.arrays_written


def _fusible(a: For, b: For) -> bool:
    """Whether each iteration of `b` may run right after that of `a`."""
    one, other = Accessed(a.body), Accessed(b.body)
    written = one.written | other.written
    if not (one.is_structured and other.is_structured) or reads(*a.bounds) & written:
        return False
    for array in one.arrays_written | other.arrays_written:
        here, there = one.elements.get(array, []), other.elements.get(array, [])
        if array in one.whole | other.whole or (here and there and not _disjoint_by_iteration(a, [*here, *there])):
            return False
    sums = reduction_variables(a.body) & reduction_variables(b.body)
    both = (one.scalars_written | other.scalars_written) & one.names & other.names - sums
    return all("read" not in (first_access(a.body, n), first_access(b.body, n)) for n in both)


def _disjoint_by_iteration(loop: For, elements: list[Index]) -> bool:
    """Whether iterations access disjoint elements: along one axis, all have the same index, affine in the variable."""
    least = _min_of_variable(loop)
    for k, index in enumerate(elements[0]):
        base, shift = offset(index)
        nonnegative = least is not None and least + shift >= 0
        if nonnegative and base is Variable(loop.index) and all(e[k] is index for e in elements):
            return True
    return False


def _min_of_variable(loop: For) -> int | None:
    """The minimum of a loop variable, if that is a constant."""
    varies, step = offset(loop.step)
    base, least = offset(loop.start if step > 0 else loop.stop)
    return None if varies or base else least if step > 0 else least + 1


def _fuse_gather_behind(items: list[Item], gather: Gather) -> Nest:
    """Fuse a part of `gather` into its loop, the last of `items`, if possible; return what remains of `gather`."""
    loop = items[-1] if items else None
    if not isinstance(loop, For) or gather.loop is None or not same_iterations(loop, gather.loop):
        return gather
    used = Accessed(loop.body)
    if loop.parallel or not gather.inside or not used.is_structured:
        return gather
    for array, (axis, shift) in gather.targets.items():
        offsets = [offset(e[axis]) for e in used.elements.get(array, ())]
        if array in used.whole or not all(base is Variable(loop.index) and k >= shift for base, k in offsets):
            return gather
    loop.body += gather.inside
    return Branch(gather.test, body=gather.rest)


def _fuse_gather_ahead(items: list[Item], loop: For) -> None:
    """Fuse a gather right before `loop` with it: iterations begin by adding to the elements they access."""
    at, steps, _ = _split_at_last_nest(items)
    gather = items[at] if at >= 0 else None
    if not isinstance(gather, Gather):
        return
    movable = [
        n
        for n in gather.body
        if isinstance(n, For) and all(_commutes(s, n) for s in steps) and _may_begin_with(n, loop)
    ]
    if movable:
        gather.body = [n for n in gather.body if n not in movable]
        loop.body[:0] = [step for n in movable for step in n.body]
        items[at : at + 1] = [gather] if gather.body else []


def _may_begin_with(part: For, loop: For) -> bool:
    """Whether iterations of `loop` may begin with those of `part`, a loop of a gather.

    They access the elements that it adds to unconditionally, so these are in range even if nothing is gathered; then it
    adds zeros.
    """
    step, least = part.body[0], _min_of_variable(loop)
    if not same_iterations(part, loop) or len(part.body) > 1 or not isinstance(step, Step):
        return False
    if least is None or least < 0:
        return False
    accessed = any(
        s.target is step.target or any(step.target in must_evaluate(t) for t in s.evaluated())
        for s in loop.body
        if isinstance(s, Step)
    )
    return accessed and _fusible(part, loop)
