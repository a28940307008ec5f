"""What the turns of a loop add to several neighbours: the sweep back through a stencil.

Each turn puts what it adds into an element of its own, in an array with room around it. Another loop then gathers, for
each element, what neighbouring turns have for it, in one statement. So no turn touches what another one does, and the
compiler can use vector registers. That is done for the loops of a nest along which there are several neighbours; where
this is the innermost loop alone, the array is a row.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from ...core.source_text import constant
from ..analysis.must_execute import surely
from ..ir.affine import offset, parts, plus
from ..ir.reverse_ir import Item, Nest, Step, exchange, loop_head, steps, tidy
from ..ir.statements import Loop, changed, parse, parsed, reads, subtrees, unparse
from .loop_fusion import Gather

if TYPE_CHECKING:
    from .loop_reversal import Turns

__all__ = ["gather", "read_ahead"]

#: Loops that are known to have no more turns than this stay as they are.
_SHORT = 8


@dataclass
class _Scaled:
    """An expression as a product with constants."""

    value: ast.expr
    factors: list[str] = field(default_factory=list)
    negative: bool = False


@dataclass
class _Term:
    """What is added to one element in each turn."""

    array: str
    index: str
    shift: tuple[int, ...]  # along the loops of the nest
    rest: str  # the other parts of the index
    found: list[tuple[Step, int]]
    key: tuple  # the same for terms that are multiples of each other
    scaled: _Scaled  # its value, if it is one addition in every turn
    row: str = ""

    @property
    def alone(self) -> bool:
        """Whether it is one addition in every turn."""
        return _alone(self.found)


def _alone(found: list[tuple[Step, int]]) -> bool:
    return len(found) == 1 and found[0][1] == 0


def gather(turns: Turns) -> None:
    """Rewrite the body of a loop; the loops that gather go to ``reverse.later``, by the outermost loop of the nest."""
    several = {
        name: elements
        for name, elements in turns.added.items()
        if len(elements) > 1 and name not in turns.stored and name not in turns.read
    }
    if several and _lasting(turns, turns.loop):
        _Gathered(turns, several).rewrite()


def _array(turns: Turns, name: str) -> str:
    """That of which `name` is the cotangent."""
    return next((n for n, bar in turns.reverse.bars.items() if bar == name), name)


def _given(turns: Turns, name: str) -> str:
    """What has the dtype of a cotangent, and is there: that of a local array may turn out not to be needed."""
    array = _array(turns, name)
    return name if array in turns.reverse.f.parameters else array


def _there(turns: Turns, name: str) -> bool:
    """Whether there are all elements that turns may add to: those that are added to in branches alone may not be."""
    array = _array(turns, name)
    inside, first = turns.plan.independence.inside, turns.loop.body[0]
    return all(
        any(not depth for _, depth in found) or inside(first, array, parse(index))
        for index, found in turns.added[name].items()
    )


def read_ahead(turns: Turns) -> None:
    """Read the foremost of neighbouring elements first. LLVM keeps what it has read for the turns that follow, and can
    then use vector registers only if nothing is written before it reads the next one."""
    rows: dict[tuple[str, ...], dict[int, str]] = {}
    for name in turns.read.keys() - turns.stored.keys() - turns.added.keys():
        for index in turns.read[name]:
            *rest, last = parts(parse(index))
            if turns.counts(last) and turns.constant(*rest):
                rows.setdefault((name, *map(unparse, rest)), {})[offset(last)[1]] = index
    for (name, *_), found in sorted(rows.items()):
        element = f"{name}[{found[max(found)]}]"
        if len(found) > 1 and _late(turns.body, element):
            first = turns.reverse.named(turns.loop, f"{name}_ahead", element)
            for item in turns.body:
                exchange(item, {element: first})
            turns.body.insert(0, Step(ast.Name(first), "=", element))


def _late(body: list[Item], element: str) -> bool:
    """Whether an element is read in any case, after something was written."""
    written = False
    for item in body:
        if isinstance(item, Step) and element in surely(parsed(item.value)):
            return written
        written = written or any(isinstance(s.target, ast.Subscript) for s, _ in steps([item]))
    return False


def _lasting(turns: Turns, loop: Loop) -> bool:
    """Whether one array is enough for all turns of the loops around."""
    start, stop = loop.start, loop.stop
    outer = turns.loops[: turns.loops.index(loop)]
    if unparse(loop.step) != "1" or not turns.plan.independence.counted(start, outer):
        return False
    if isinstance(start, ast.Constant) and isinstance(stop, ast.Constant) and stop.value - start.value <= _SHORT:  # type: ignore[operator]
        return False
    return not reads(start, stop) & changed(turns.loops[0])


class _Gathered:
    """The loops that are gone through together, the places of their variables in indices, and what is added."""

    def __init__(self, turns: Turns, several: dict[str, dict[str, list[tuple[Step, int]]]]) -> None:
        self.turns = turns
        self.reverse = turns.reverse
        self.added = several
        #: Those of which turns may meet elements that are not there, but for tests.
        self.partly = {name for name in several if not _there(turns, name)}
        self.nest, self.places = self._loops()
        self.terms = [self._term(n, index, found) for n, each in several.items() for index, found in each.items()]
        self.common = self._common()
        self.terms = [part for t in self.terms for part in self._apart(t)]
        axes = range(len(self.nest))
        self.least = {n: [min(t.shift[k] for t in self.terms if t.array == n) for k in axes] for n in several}
        self.most = {n: [max(t.shift[k] for t in self.terms if t.array == n) for k in axes] for n in several}

    def _loops(self) -> tuple[tuple[Loop, ...], dict[str, list[int]]]:
        nest: tuple[Loop, ...] = (self.turns.loop,)
        places = {name: [len(parts(parse(min(elements)))) - 1] for name, elements in self.added.items()}
        best = nest, places
        for outer in reversed(self.turns.loops[:-1]):
            found = {name: self._place(outer, name) for name in self.added}
            nested = len(outer.body) == 1 and outer.index and not outer.count
            if (
                not nested
                or outer in self.turns.plan.fusion.loops
                or None in found.values()
                or not _lasting(self.turns, outer)
            ):
                break
            nest = (outer, *nest)
            places = {name: [at, *places[name]] for name, at in found.items() if at is not None}
            if any(len({unparse(parts(parse(i))[at]) for i in self.added[n]}) > 1 for n, (at, *_) in places.items()):
                best = nest, places  # there are several neighbours along this loop
        return best

    def _place(self, loop: Loop, name: str) -> int | None:
        """The axis along which all indices are a loop's turn, moved by a constant; None if there is not just one."""
        indices = [parts(parse(index)) for index in self.added[name]]
        axes = [
            k
            for k in range(len(indices[0]))
            if all(self.turns.along(name, index, k, loop) for index in self.added[name])
        ]
        used = [k for p in indices for k, node in enumerate(p) if loop.index in reads(node)]
        return axes[0] if len(axes) == 1 and set(used) == set(axes) else None

    def _term(self, name: str, index: str, found: list[tuple[Step, int]], at: Step | None = None) -> _Term:
        """A term; `at`: the step of which its one addition is a part."""
        axes = parts(parse(index))
        places = self.places[name]
        rest = ", ".join(unparse(p) for k, p in enumerate(axes) if k not in places)
        key: tuple[object, ...] = name, index
        step, scaled = found[0][0], _Scaled(ast.Constant(0.0))
        if _alone(found):
            scaled = _scaled(parse(step.value))
            scaled.negative = scaled.negative != (step.how == "-=")
            key = name, *self._same(at or step, scaled.value)
        return _Term(name, index, tuple(offset(axes[k])[1] for k in places), rest, found, key, scaled)

    def _common(self) -> dict[tuple, Counter[str]]:
        """The constants by which all that neighbours get of the same value is multiplied: they stay in the row."""
        made: dict[tuple, Counter[str]] = {}
        for t in self.terms:
            if any(t.shift):
                factors = Counter(t.scaled.factors)
                made[t.key] = made[t.key] & factors if t.key in made else factors
        return made

    def _gathered(self, t: _Term) -> bool:
        """Whether a term goes into a row: what is added to a turn's own element, if it is a multiple of what neighbours
        get."""
        common = self.common.get(t.key) if t.alone else None
        if t.array in self.partly and all(depth for _, depth in t.found):
            return True  # it may not be there
        return any(t.shift) or (common is not None and not common - Counter(t.scaled.factors))

    def _apart(self, t: _Term) -> list[_Term]:
        """Let multiples of what neighbours get, among what is added to a turn's own element, be terms of their own."""
        if any(t.shift):
            return [t]
        moved: list[_Term] = []
        left: list[tuple[Step, int]] = []
        for step, depth in t.found:
            rest: list[ast.expr] = []
            for value in _addends(parse(step.value)):
                part = Step(step.target, step.how, unparse(value))
                term = self._term(t.array, t.index, [(part, depth)], step)
                if term.scaled.factors and self._gathered(term):
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
        turns, made = self.turns, dict[tuple, str]()
        own = Counter(name for name, _ in {(t.array, t.index) for t in self.terms if not any(t.shift)})
        for t in sorted(self.terms, key=lambda t: not any(t.shift)):
            gathered = self._gathered(t) or own[t.array] > 1  # rows, say, that the compiler could not tell apart
            if t.alone and not gathered:
                continue
            if self.common.get(t.key, Counter()) - Counter(t.scaled.factors):
                t.key = *t.key, t.index  # it is no multiple of what is in that row: one of its own
            if t.key in made:
                t.row = made[t.key]
                self._remove(t.found[0][0])
                continue
            element = parse(f"{t.array}[{t.index}]")
            if gathered:
                t.row = made[t.key] = self.reverse.named(turns.loop, f"{t.array}_row", t.index)
                element = parse(f"{t.row}[{self._at(t.array)}]")
            self._put(t, element)
        turns.body[:] = tidy(turns.body)
        parallel = [p for p in turns.loops[: turns.loops.index(self.nest[0])] if p.parallel]
        for row, name in {t.row: t.array for t in self.terms if t.row}.items():
            sizes = [
                f"max({unparse(plus(p.stop, 2 * high - low))}, 0)"
                for p, low, high in zip(self.nest, self.least[name], self.most[name], strict=True)
            ]
            shape = sizes[0] if len(sizes) == 1 else f"({', '.join(sizes)})"
            zeros = f"np.zeros({shape}, {_given(turns, name)}.dtype)"
            if parallel:
                self.reverse.own.setdefault(parallel[0], {})[row] = zeros
            else:
                self.reverse.before_all(f"{row} = {zeros}")
        groups: dict[tuple[str, str], list[_Term]] = {}
        for t in self.terms:
            if t.row:
                groups.setdefault((t.array, t.rest), []).append(t)
        self.reverse.later[self.nest[0]] = [self._all(list(groups.values()), parallel)]

    def _all(self, groups: list[list[_Term]], parallel: list[Loop]) -> Gather:
        """What adds to all elements, and how a part of it goes along with the outermost loop of the nest: after a turn,
        the row is complete to which later ones add nothing."""
        outer, *inner = self.nest
        some = [f"{unparse(p.stop)} > {unparse(p.start)}" for p in self.nest]
        made = Gather(f"if {' and '.join(some)}:", [self._loop(g) for g in groups], " and ".join(some))
        if inner and not parallel and not any(p.parallel for p in self.nest) and not self.partly:
            made.loop = loop_head(outer)
            made.targets = {n: (self.places[n][0], self.least[n][0]) for n in {g[0].array for g in groups}}
            made.rest = [self._loop(g, late=True) for g in groups]
            rows = [self._row(g) for g in groups]
            test = " and ".join(some[1:])
            made.inside = [Nest(f"if {test}:", rows, test)]
        return made

    def _same(self, step: Step, value: ast.expr) -> tuple[str, int]:
        """The same for all expressions that have the value of one, which a step reads."""
        names = {n.id for n in subtrees(value) if isinstance(n, ast.Name)}
        at = next(k for k, (s, _) in enumerate(self.turns.steps) if s is step)
        version = sum(s.name in names for s, _ in self.turns.steps[:at])
        return self._original(value.id) if isinstance(value, ast.Name) else unparse(value), version

    def _original(self, name: str) -> str:
        """The number of which another one is a copy, or `name`."""
        found = [s for s, _ in self.turns.steps if s.name == name]
        copied = parse(found[0].value) if len(found) == 1 else None
        if isinstance(copied, ast.Name) and sum(s.name == copied.id for s, _ in self.turns.steps) == 1:
            return self._original(copied.id)
        return name

    def _put(self, t: _Term, element: ast.expr) -> None:
        """Let a turn put a term into `element`."""
        first, how = t.found[0][0], "=" if t.row else "+="
        if t.alone:
            first.target, first.how = element, how
            first.value = unparse(_product(t.scaled.value, self.common.get(t.key, Counter()).elements()))
            return
        part = self.reverse.named(self.turns.loop, f"{t.array}_part", t.index)  # a number first
        self.turns.body.insert(0, Step(ast.Name(part), "=", "0.0"))
        for s, _ in t.found:
            s.target = ast.Name(part)
        self.turns.body.append(Step(element, how, part))

    def _at(self, name: str, shift: tuple[int, ...] | None = None) -> str:
        """The place of a turn's own element in a row; with `shift`, that of the turn which lies so far behind."""
        shift = shift or (0,) * len(self.nest)
        return ", ".join(
            unparse(plus(ast.Name(p.index, ast.Load()), high - c))
            for p, high, c in zip(self.nest, self.most[name], shift, strict=True)
        )

    def _factors(self, t: _Term) -> list[str]:
        """The constants by which what is in a row is multiplied."""
        return list((Counter(t.scaled.factors) - self.common.get(t.key, Counter())).elements())

    def _loop(self, terms: list[_Term], late: bool = False) -> Item:
        """The loops that add to all elements, or to those of one row; `late`: to the last of these rows."""
        outer, array = self.nest[0], terms[0].array
        low = min(t.shift[0] for t in terms)
        loop = self._range(array, 0, low, max(t.shift[0] for t in terms))
        if late:
            loop.start = plus(outer.stop, self.least[array][0])
        return Nest(loop_head(loop, "prange" if outer.parallel else "range"), [self._row(terms, 0)])

    def _range(self, array: str, k: int, low: int, high: int) -> Loop:
        """A loop over what turns of the nest's `k`-th loop meet with shifts from `low` to `high`, and is there."""
        p = self.nest[k]
        start, stop = plus(p.start, low), plus(p.stop, high)
        if array in self.partly:
            start = parse("0" if unparse(p.start) == "0" and low < 0 else f"max({unparse(start)}, 0)")
            stop = parse(f"min({unparse(stop)}, {array}.shape[{self.places[array][k]}])")
        return Loop(p.index, start, stop, p.step, None, [])

    def _row(self, terms: list[_Term], ahead: int | None = None) -> Item:
        """What adds to one row: `ahead` of the outermost loop's turn, as a rule the one to which no later turn adds.
        Around what turns wrote, there are zeros."""
        array = terms[0].array
        ahead = self.least[array][0] if ahead is None else ahead
        value = ""
        for t in sorted(terms, key=lambda t: bool(self._factors(t))):  # these are float64, sums before them need not be
            element = f"{t.row}[{self._at(array, (t.shift[0] - ahead, *t.shift[1:]))}]"
            element, sign = " * ".join([*self._factors(t), element]), "-" if t.scaled.negative else "+"
            value += f" {sign} {element}" if value else element if sign == "+" else f"-{element}"
        index = [unparse(p) for p in parts(parse(terms[0].index))]
        for place, p in zip(self.places[array], self.nest, strict=True):
            index[place] = p.index
        index[self.places[array][0]] = unparse(plus(ast.Name(self.nest[0].index, ast.Load()), ahead))
        target = parse(f"{array}[{', '.join(index)}]")
        lonely = value.startswith("-") and len(terms) == 1
        made: Item = Step(target, "-=", value[1:]) if lonely else Step(target, "+=", value)
        for k, p in reversed(list(enumerate(self.nest))[1:]):
            low, high = min(t.shift[k] for t in terms), max(t.shift[k] for t in terms)
            loop = self._range(array, k, low, high)
            made = Nest(loop_head(loop, "prange" if p.parallel else "range"), [made])
        return made


def _addends(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(op=ast.Add()):
            return [*_addends(node.left), *_addends(node.right)]
        case ast.BinOp(op=ast.Sub()):
            return [*_addends(node.left), *(ast.UnaryOp(ast.USub(), n) for n in _addends(node.right))]
    return [node]


def _scaled(node: ast.expr) -> _Scaled:
    """What remains of `node` without the signs that apply to all of it, and without constant factors."""
    match node:
        case ast.UnaryOp(op=ast.USub()):
            inner = _scaled(node.operand)
            return _Scaled(inner.value, inner.factors, not inner.negative)
        case ast.BinOp(op=ast.Mult(), left=ast.Constant(value), right=other):
            inner = _scaled(other)
            return _Scaled(inner.value, [constant(value), *inner.factors], inner.negative)
        case ast.BinOp(op=ast.Mult(), left=other, right=ast.Constant(value)):
            inner = _scaled(other)
            return _Scaled(inner.value, [*inner.factors, constant(value)], inner.negative)
        case ast.BinOp(op=ast.Mult()):
            left, right = _scaled(node.left), _scaled(node.right)
            made = ast.BinOp(left.value, node.op, right.value)
            return _Scaled(made, [*left.factors, *right.factors], left.negative != right.negative)
        case ast.BinOp(op=ast.Div()):
            left, right = _scaled(node.left), _scaled(node.right)
            made = ast.BinOp(left.value, node.op, _product(right.value, right.factors))
            return _Scaled(made, left.factors, left.negative != right.negative)
    return _Scaled(node)


def _product(value: ast.expr, constants: Iterable[str]) -> ast.expr:
    return reduce(lambda a, c: ast.BinOp(a, ast.Mult(), parse(c)), constants, value)
