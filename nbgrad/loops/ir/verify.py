"""Verification of the IR: what every pass may rely on, and must leave behind.

A violation is a defect of this library, never of the user's program. :func:`verify` runs after lowering and after each
pass under ``NBGRAD_CHECKED=1`` and in the tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import numpy as np

from .effects import Bind, BlankLine, Break, Pop, PopFrame, Push, PushFrame, Return
from .names import Names
from .reverse_ir import Branch, Comment, For, Item, Nest, Step, bound_by, evaluated_by, walk_items
from .statements import (
    Alloc,
    Assign,
    Block,
    Call,
    Function,
    Grow,
    IndexCheck,
    Loop,
    Statement,
    Store,
    Swap,
    nested_blocks,
    terms_of,
    walk,
    writes,
)
from .terms import ZERO, DType, Element, Global, Length, Logical, Prefix, Select, Shape, Term, Variable, named, subterms
from .terms import Call as CallTerm

__all__ = ["InvalidIRError", "verify", "verify_sweep", "verify_sweeps"]


class InvalidIRError(AssertionError):
    """A pass left an invalid function behind."""


def verify(f: Function, after: str) -> None:
    """Check a lowered function with types; `after` names the pass that has run.

    Checked are: no statement and no block is in the function twice; names are defined before they are used, and results
    on some path to the end; arrays have as many axes in each use as in their definition, and are used as a whole only
    where statements take arrays; a called function is the one that its name is bound to; loops have bounds or a test;
    swapped arrays are of one rank and kind.

    Raises
    ------
    InvalidIRError
        If one of these does not hold.
    """
    _Verifier(f, after).run()


class _Verifier:
    def __init__(self, f: Function, after: str) -> None:
        self.f, self.after = f, after
        self.ranks = f.ranks
        self.statements: set[int] = set()
        #: The names that the blocks of a statement define.
        self.sets_inside: dict[Statement, set[str]] = {}
        #: What holds scalars from before a loop: those that are not set yet get an initial value when this is printed.
        self.held = {n for s in walk(f.body) if isinstance(s, Loop) for n in s.values_before_loop.values()}

    def run(self) -> None:
        f = self.f
        for s in walk(f.body):
            if id(s) in self.statements:
                self.fail(s, "it is in the function twice")
            self.statements.add(id(s))
            self.statement(s)
        self.collect_sets(f.body)
        defined = {*f.parameters, *f.constants}
        self.definitions(f.body, defined, frozenset())
        for name in f.results or []:
            if name not in defined:
                self.fail(None, f"the result {name} is never defined")

    def fail(self, s: Statement | None, what: str) -> NoReturn:
        where = "" if s is None else f" ({type(s).__name__} in '{s.line or s.source_location}')"
        raise InvalidIRError(f"{self.f.name}, after {self.after}: {what}{where}")

    # One statement.

    def statement(self, s: Statement) -> None:
        arrays = isinstance(s, Call | IndexCheck)
        for t in terms_of(s):
            self.term(s, t, arrays)
        match s:
            case Store():
                self.element(s, s.target)
            case Assign(name=name) if self.ranks.get(name):
                self.fail(s, f"the array {name} is assigned as a scalar")
            case Alloc(name=name, shape=shape) if self.ranks.get(name) != len(shape):
                self.fail(s, f"{name} has {self.ranks.get(name)} axes, and is allocated with {len(shape)}")
            case Grow(name=name) if not self.ranks.get(name):
                self.fail(s, f"{name} grows and is no array")
            case Swap(first=a, second=b) if (self.ranks.get(a), self.f.kinds.get(a)) != (
                self.ranks.get(b),
                self.f.kinds.get(b),
            ):
                self.fail(s, f"{a} and {b} are swapped and differ in rank or kind")
            case Call() if any(len(sizes) != self.ranks.get(n) for n, sizes in s.lengths.items()):
                self.fail(s, "a result has another number of lengths than axes")
            case Loop() if (s.test is None) != bool(s.index):
                self.fail(s, "a loop has either a variable or a test")
            case Loop() if s.step is ZERO:
                self.fail(s, "a loop of step 0")
            case Loop() if s.parallel and (s.test is not None or s.exit_flag):
                self.fail(s, "a parallel loop without a trip count")

    def term(self, s: Statement, root: Term, arrays: bool) -> None:
        """Check a term; `arrays`: it may be a whole array."""
        for t in subterms(root):
            match t:
                case Variable(name) if self.ranks.get(name) and not (arrays and t is root):
                    self.fail(s, f"the array {name} is used as a scalar")
                case Element():
                    self.element(s, t)
                case Prefix(array, sizes) if self.ranks.get(array) != len(sizes) or not (arrays and t is root):
                    self.fail(s, f"{t} is no argument")
                case Length(array, axis) if (axis or 0) >= self.ranks.get(array, 0):
                    self.fail(s, f"{t} of an array of {self.ranks.get(array, 0)} axes")
                case Shape(array) | DType(array) if not self.ranks.get(array):
                    self.fail(s, f"{t} of no array")
                case CallTerm(function):
                    self.function(s, function, self.f.names)

    def element(self, s: Statement, t: Element) -> None:
        if self.ranks.get(t.array) != len(t.index):
            self.fail(s, f"{t} of an array of {self.ranks.get(t.array)} axes")

    def function(self, s: Statement, function: Global, names: Names) -> None:
        """Check that a function's name is bound to it."""
        module, _, attribute = function.text.rpartition(".")
        bound = getattr(names.bound_to(module), attribute, None) if module else names.bound_to(attribute)
        if bound is not function.value:
            self.fail(s, f"{function.text} is bound to something else than what is called")

    # Definitions before uses.

    def definitions(self, block: Block, defined: set[str], carried: frozenset[str]) -> None:
        """Check that names are defined before their uses; `defined` grows by what `block` may define.

        Names in `carried` are defined by an earlier iteration of a loop around: what is always evaluated, in the first
        iteration, too, must not read them.
        """
        for s in block:
            known = defined | carried if carried else defined
            for t in () if getattr(s, "name", "") in self.held else terms_of(s):
                if not t.named <= defined:
                    self.defined(s, t, _always_evaluated(t), defined)
                    self.defined(s, t, t.named, known)
            for n in writes(s) if isinstance(s, Store | Swap) else ():
                self.defined(s, Variable(n), {n}, known)
            defined |= _sets(s)
            if not (blocks := nested_blocks(s)):
                continue
            inside = self.sets_inside[s]
            if isinstance(s, Loop):
                inside = inside - self.f.set_once  # there may be no iteration
            for inner in blocks:  # neither may run in the first iteration of a loop around
                self.definitions(inner, defined | carried, carried | inside if isinstance(s, Loop) else carried)
            defined |= inside

    def collect_sets(self, block: Block) -> set[str]:
        """The names that a block defines; :attr:`sets_inside` is filled with those of nested ones."""
        found = set[str]()
        for s in block:
            found |= _sets(s)
            if blocks := nested_blocks(s):
                self.sets_inside[s] = set().union(*map(self.collect_sets, blocks))
                found |= self.sets_inside[s]
        return found

    def defined(self, s: Statement, t: Term, names: Iterable[str], defined: set[str]) -> None:
        missing = set(names) - defined
        if missing:
            self.fail(s, f"{min(missing)} is used in {t}, and not defined before")


def _sets(s: Statement) -> set[str]:
    """The names that a statement defines: not those whose elements it writes."""
    return set() if isinstance(s, Store | Swap) else set(writes(s))


def _always_evaluated(t: Term) -> set[str]:
    """The names in a term that are evaluated whatever its tests give."""
    match t:
        case Select(test, body, orelse):
            return _always_evaluated(test) | (_always_evaluated(body) & _always_evaluated(orelse))
        case Logical(_, operands):
            return _always_evaluated(operands[0])
    own = set(t.named) if not t.operands or isinstance(t, Prefix) else {t.array} if isinstance(t, Element) else set()
    return own.union(*map(_always_evaluated, t.operands))


def verify_sweep(items: list[Item], where: str, after: str) -> None:
    """Check a reverse sweep: no assignment, loop or branch is in it twice, an ``else`` follows its ``if``, a ``break``
    is in a loop, and nothing follows a ``return``.

    Raises
    ------
    InvalidIRError
        If one of these does not hold.
    """
    seen: set[int] = set()

    def fail(what: str) -> NoReturn:
        raise InvalidIRError(f"{where}, after {after}: {what}")

    def block(items: list[Item], in_loop: bool) -> None:
        before: Item = BlankLine()
        for item in items:
            if isinstance(before, Return):
                fail("something follows a return")
            if isinstance(item, Step | Nest):
                if id(item) in seen:
                    fail(f"'{item}' is in the sweep twice")
                seen.add(id(item))
            follows = isinstance(before, Branch) and not before.otherwise
            if isinstance(item, Branch) and item.otherwise and not (follows and before.test is item.test):  # type: ignore[union-attr]
                fail(f"an else without its if, of {item.test}")
            if isinstance(item, For) and item.step is ZERO:
                fail("a loop of step 0")
            if isinstance(item, Break) and not in_loop:
                fail("a break outside of a loop")
            if isinstance(item, Nest):
                block(item.body, in_loop or not isinstance(item, Branch))
            before = before if isinstance(item, Comment) else item

    block(items, False)


def verify_sweeps(items: list[Item], tapes: set[str], known: set[str], cotangents: set[str], where: str) -> None:
    """Check both sweeps together: names are bound before they are used, so that arrays are allocated first, and sizes
    known; no array is read that nothing fills, and no iterations that run in parallel share a buffer; what the forward
    sweep records is read in reverse, and nothing else; frames and values are popped as often as they are pushed.

    Parameters
    ----------
    items : list of Item
        Both sweeps.
    tapes, known, cotangents : set of str
        The names of the tapes, of what is bound before the sweeps (parameters, constants, and lists that may stay
        empty), and of the cotangents that are created: they must have a value before a loop, other names may get it
        from an earlier iteration.

    Raises
    ------
    InvalidIRError
        If one of these does not hold.
    """
    bound, recorded, read = set(known), set[str](), set[str]()
    moved = Counter[tuple[str, Term | None]]()  # pushes, less pops

    def visit(items: list[Item], carried: set[str]) -> None:
        for item in items:  # the order in which they run, if every branch is taken once
            terms = evaluated_by(item)
            if unbound := named(*terms) - bound - carried:
                kind = type(item).__name__
                article = "an" if kind[0] in "AEIOU" else "a"
                raise InvalidIRError(f"{where}: {min(unbound)} is used before it has a value, in {article} {kind}")
            bound.update(bound_by(item))
            match item:
                case Step() if item.name in tapes:
                    recorded.add(item.name)
                    terms = (item.value,)
                case PushFrame(top, size):
                    moved[top, size] += 1
                case PopFrame(top, size):
                    moved[top, size] -= 1
                case Push(stack):
                    moved[stack, None] += 1
                case Pop(stack):
                    moved[stack, None] -= 1
            read.update(t.array for t in subterms(*terms) if isinstance(t, Element) and t.array in tapes)
            if isinstance(item, Branch):
                visit(item.body, carried)
            elif isinstance(item, Nest):
                visit(item.body, carried.union(*map(_begun, walk_items(item.body))) - cotangents)

    visit(items, set())
    if recorded != read:
        raise InvalidIRError(f"{where}: recorded or read, but not both: {', '.join(sorted(recorded ^ read))}")
    if wrong := {stack for (stack, _), n in moved.items() if n}:
        raise InvalidIRError(f"{where}: pushed and popped a different number of times: {', '.join(sorted(wrong))}")
    for loop in walk_items(items):
        if isinstance(loop, For) and loop.parallel:
            shared = [name for p in walk_items([loop]) if isinstance(p, For) for name in p.buffers]
            if shared:
                raise InvalidIRError(f"{where}: parallel iterations share the buffer {shared[0]}")
    if unfilled := _unfilled(items) - known:
        raise InvalidIRError(f"{where}: read, but never filled: {', '.join(sorted(unfilled))}")


def _unfilled(items: list[Item]) -> set[str]:
    """The arrays of ``np.empty`` whose elements are read, though no item stores elements or hands the array on."""
    empty, filled, read = set[str](), set[str](), set[str]()
    for item in walk_items(items):
        match item:
            case Bind(names, CallTerm(Global(_, np.empty))):
                empty.update(names)
                continue
            case Bind(_, CallTerm(Global(_, np.zeros_like))):
                continue
            case Step(target=Element()):
                filled.add(item.name)
                terms = (item.value, *item.target.operands)
            case _:
                terms = evaluated_by(item)
        filled.update(bound_by(item))
        for t in subterms(*terms):
            match t:
                case Element():
                    read.add(t.array)
                case Variable(name):
                    filled.add(name)
                case Prefix():
                    filled.update(t.named)
    return (empty & read) - filled


def _begun(item: Item) -> set[str]:
    """The names that an item binds to something new."""
    return set(bound_by(item)) - named(*evaluated_by(item))
