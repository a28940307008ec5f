"""From statements to loops: which axes are one, in which order they nest, and which statements share a loop.

Statements that read each other point by point share axes. All axes get one order, and each statement its loops in that
order; then the statements go, one after the other, into the deepest loops that are already there and that they may be
in: a loop may be shared if every element that is read inside was computed in the same or an earlier turn of it.

The innermost loop is the one for vector registers. If its axis is short (three coordinates, ten classes) and there is a
long one, that one is cut into blocks, and the loop over the elements of a block goes to the inside: everything
in between then works on small blocks, which stay in the first-level cache. Axes of a few elements are written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.graph import Value
from .runtime_helpers import product
from .statements import Access, Axis, Statement

__all__ = ["Block", "Loop", "Program", "arranged", "reduced"]

#: Axes up to this length are written out.
_UNROLLED = 4
#: A last axis shorter than this is no loop for vector registers, if there is another.
_SHORT = 24
#: Elements of a matrix that the second-level cache does not hold.
_LONG = 1 << 17
#: Points at which what a loop does may change; each costs another copy of its body.
_ENDS = 3
#: Elements of a block: of a long axis that goes to the inside; of a long sum.
_LANES, _RUN = 64, 4096


class Block(Axis):
    """An axis that counts the blocks of another, or the elements of one block."""

    __slots__ = ("inner", "length", "whole")

    def __init__(self, whole: Axis, length: int, inner: bool) -> None:
        super().__init__(length if inner else -(-whole.extent // length), whole.number)
        self.whole = whole
        self.length = length
        self.inner = inner


class Loop:
    """A loop over one axis. `body`: loops and statements."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.body: list[Loop | Statement] = []

    def statements(self) -> Iterable[Statement]:
        for item in self.body:
            if isinstance(item, Loop):
                yield from item.statements()
            else:
                yield item


class Program:
    """The loops, and what was decided on the way.

    Attributes
    ----------
    body : list
        Loops and statements at the top.
    paths : dict
        Of each statement, the loops it is in.
    loops, unrolled : dict
        Of each statement, its axes that are loops, and those that are written out.
    blocks : dict
        Axis -> the two it was cut into.
    full : set of Value
    """

    def __init__(self, full: set[Value]) -> None:
        self.body: list[Loop | Statement] = []
        self.paths: dict[Statement, list[Loop]] = {}
        self.loops: dict[Statement, list[Axis]] = {}
        self.unrolled: dict[Statement, list[Axis]] = {}
        self.blocks: dict[Axis, tuple[Block, Block]] = {}
        self.full = full
        self.makers: dict[Value, Statement] = {}

    def parts(self, axis: Axis) -> Sequence[Axis]:
        """The axes it was cut into, or the axis itself."""
        return self.blocks.get(axis, (axis,))


def arranged(statements: list[Statement], full: set[Value], lanes: int = _LANES) -> Program:
    """The loops of a program.

    Parameters
    ----------
    statements : list of Statement
        In an order that works.
    full : set of Value
        What is needed as an array of its own; more may be added.
    lanes : int
        Elements of a block.
    """
    program = Program(full)
    program.makers = {s.value: s for s in statements}
    _join(statements, program)
    order = _ordered(statements)
    _cut(statements, program, order, lanes)
    rank = {axis: k for k, axis in enumerate(order)}
    for s in statements:
        axes = [part for a in s.axes if a.extent != 1 for part in program.parts(a.root())]
        axes.sort(key=lambda a: rank[a])
        program.loops[s] = [a for a in axes if a.extent > _UNROLLED or isinstance(a, Block)]
        if s.how == "product":
            program.loops[s] = _blocks_of_rows(s, program)
        program.unrolled[s] = [a for a in axes if a not in program.loops[s]]
    for s in statements:
        _insert(program, program.body, s, program.loops[s], [])
    return program


def _blocks_of_rows(s: Statement, program: Program) -> list[Axis]:
    """The loop that a large matrix product is in: over blocks of rows, of its result or of what it sums over.

    That saves reading a long operand twice. BLAS is left its whole matrices.
    """
    if not s.axes:
        return []
    m, n, k = (axis.root() for axis in s.axes)
    transpose_a, transpose_b = s.value.attrs
    if max(m.extent * k.extent, k.extent * n.extent) < _LONG:
        return []
    if product(transpose_a, transpose_b, m.extent, k.extent, n.extent) == "gemm":
        return []
    if m in program.blocks and not transpose_a:
        return [program.blocks[m][0]]
    if k in program.blocks and transpose_a and not transpose_b:
        return [program.blocks[k][0]]
    return []


def _points(axes: Iterable[Axis]) -> int:
    n = 1
    for a in axes:
        n *= a.extent
    return n


def _join(statements: list[Statement], program: Program) -> None:
    """Make one axis of the axes along which a statement reads another point by point."""
    members: dict[Axis, set[Statement]] = {}
    for s in statements:
        for axis in s.axes:
            members.setdefault(axis, set()).add(s)
    for s in statements:
        for k, access in enumerate(s.reads):
            maker = program.makers.get(access.value)
            if maker is None or access.pointwise is None:
                continue
            if maker.how in ("opaque", "embed", "scatter") or (maker.how == "product" and not maker.axes):
                s.reads[k] = access._replace(pointwise=None)
                continue
            pairs = [
                (maker.axes[kept].root(), s.axes[own].root())
                for kept, own, n in zip(maker.kept, access.pointwise, access.value.shape, strict=True)
                if n != 1 and own >= 0
            ]
            if _clash(pairs, members):
                program.full.add(access.value)
                s.reads[k] = access._replace(pointwise=None)
                continue
            for a, b in pairs:
                a, b = a.root(), b.root()
                if a is not b:
                    b.parent = a
                    members[a] |= members.pop(b)
    number = 0
    for s in statements:
        for axis in s.axes:
            root = axis.root()
            if root.number == 0 and root.extent != 1:
                number += 1
                root.number = number


def _clash(pairs: list, members: dict) -> bool:
    """Whether joining these axes would make two axes of one statement the same."""
    joined: dict[Axis, set[Axis]] = {}
    for a, b in pairs:
        group = joined.get(a, {a}) | joined.get(b, {b})
        for axis in group:
            joined[axis] = group
    for group in {id(g): g for g in joined.values()}.values():
        seen: set[Statement] = set()
        for axis in group:
            if seen & members[axis]:
                return True
            seen |= members[axis]
    return False


def _ordered(statements: list[Statement]) -> list[Axis]:
    """All axes; each statement's in its own order if possible, the largest statement's first of all."""
    order: list[Axis] = []
    for s in sorted(statements, key=lambda s: -_points(s.axes)):
        own = [a.root() for a in s.axes if a.extent != 1]
        place = 0
        for axis in own:
            if axis in order:
                place = max(place, order.index(axis) + 1)
            else:
                following = [order.index(a) for a in own[own.index(axis) + 1 :] if a in order]
                at = min([place, *following]) if following and min(following) < place else place
                order.insert(at, axis)
                place = at + 1
    return order


def _cut(statements: list[Statement], program: Program, order: list[Axis], lanes: int) -> None:
    """Cut axes into blocks where that pays; `order` gets the new axes."""
    for s in sorted([s for s in statements if s.how != "product"], key=lambda s: -_points(s.axes)):
        own = sorted([a.root() for a in s.axes if a.extent != 1], key=order.index) if s.axes else []
        if any(a in program.blocks for a in own) or _points(own) < 256:
            continue
        loops = [a for a in own if a.extent > _UNROLLED]
        if not loops:
            continue
        last = loops[-1]
        longest = max(loops, key=lambda a: a.extent)
        if last.extent < _SHORT and longest.extent >= 2 * _SHORT:
            _divide(program, order, longest, lanes, to_inside=True)
        elif last.extent > 2 * _RUN:
            _divide(program, order, last, _RUN, to_inside=False)
    # `order` still holds whole axes that were cut: nobody asks for them any more.


def _divide(program: Program, order: list[Axis], axis: Axis, length: int, to_inside: bool) -> None:
    outer, inner = Block(axis, length, False), Block(axis, length, True)
    program.blocks[axis] = (outer, inner)
    at = order.index(axis)
    if to_inside:
        order.insert(0, outer)
        order.append(inner)
    else:
        order[at : at + 1] = [axis, outer, inner]


def _insert(program: Program, body: list, s: Statement, axes: list[Axis], path: list[Loop]) -> None:
    """Put `s`, with these loops still to come, into `body` or into a loop there."""
    if axes:
        for item in reversed(body):
            fits = isinstance(item, Loop) and item.axis is axes[0]
            if fits and _shareable(program, item, s) and _ends([*item.statements(), s], item.axis) <= _ENDS:
                _insert(program, item.body, s, axes[1:], [*path, item])
                return
            if _needs(s, item):
                break
        new = Loop(axes[0])
        body.append(new)
        _insert(program, new.body, s, axes[1:], [*path, new])
    else:
        body.append(s)
        program.paths[s] = path


def _ends(statements: Iterable[Statement], axis: Axis) -> int:
    """At how many points of an axis a guard of these statements becomes true or false."""
    whole = axis.whole if isinstance(axis, Block) else axis
    found: set[int] = set()
    for s in statements:
        for g in s.guards:
            if s.axes[g.axis].root() is whole:
                found |= {g.start, g.stop}
    return len(found - {0, whole.extent})


def _values(access: Access) -> Value:
    return access.value.inputs[0].value if access.value.op == "part" else access.value


def _needs(s: Statement, item: Loop | Statement) -> bool:
    """Whether `s` reads something that `item` computes."""
    made = {m.value for m in item.statements()} if isinstance(item, Loop) else {item.value}
    return any(_values(a) in made for a in s.reads)


def _shareable(program: Program, loop: Loop, s: Statement) -> bool:
    """Whether a turn of `loop` has all that `s` reads in that turn."""
    for access in s.reads:
        maker = program.makers.get(access.value)
        if maker is None or loop not in program.paths.get(maker, ()):
            continue
        if access.pointwise is None or loop.axis not in _kept(program, maker):
            return False
    return True


def reduced(s: Statement, program: Program) -> list[Axis]:
    """The axes that a statement sums over, cut ones as their parts."""
    return [part for k in s.reduced for part in program.parts(s.axes[k].root())]


def _kept(program: Program, s: Statement) -> list[Axis]:
    """The axes of a statement's value, cut ones as their parts."""
    return [part for k in s.kept if s.axes[k].extent != 1 for part in program.parts(s.axes[k].root())]
