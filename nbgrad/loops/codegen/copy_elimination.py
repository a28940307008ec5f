"""Copy elimination: recompute new values where they would be copied back from a temporary array.

After ``new[i] = u[i] + c * flow`` in one loop comes ``u[i] = new[i]`` in the next. Where the forward sweep stores
`flow` anyway, the second loop can compute the new values itself. The stores to `new` are then dead, so one array fewer
is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..analysis.reverse_plan import Plan
from ..analysis.tbr import adjoint_reads
from ..ir.affine import offset
from ..ir.passes import Pass, enabled
from ..ir.statements import (
    Alloc,
    Assign,
    Block,
    Check,
    Function,
    Loop,
    Statement,
    Store,
    Swap,
    names_written,
    nested_blocks,
    uses,
    walk,
    writes,
)
from ..ir.tapes import Tape
from ..ir.terms import (
    Call,
    DType,
    Element,
    Global,
    Select,
    Term,
    Variable,
    elements_in,
    reads,
    substitute,
    subterms,
)

__all__ = ["CopyElimination"]

#: The most array elements that a recomputed value may read.
_MAX_ELEMENTS_READ = 4


class CopyElimination:
    """The copies that the forward sweep replaces by recomputation.

    Attributes
    ----------
    replacement_values : dict
        The value to store in place of the copied element, by the copying statement.
    dead_statements : set of Statement
        The statements that are dead then.
    """

    def __init__(self, f: Function, plan: Plan, tapes: dict[Statement, Tape]) -> None:
        self.f = f
        self.plan = plan
        self.tapes = tapes
        self.replacement_values: dict[Statement, Term] = {}
        self.dead_statements: set[Statement] = set()
        if (
            not enabled(Pass.COPY_ELIMINATION)
            or f.single_precision
            or any(isinstance(s, Alloc) and _is(s.dtype, np.float32) for s in walk(f.body))
        ):
            return  # a float32 array may round what is stored into it
        for block in (f.body, *(b for s in walk(f.body) for b in nested_blocks(s))):
            for first, between, second in _loop_pairs(block):
                if not self._has_checkpoints(first) and not self._has_checkpoints(second):
                    self._replace_copy(first, between, second)
        loops = [s for s in walk(f.body) if isinstance(s, Loop)]
        self.dead_statements |= {
            p for p in loops if all(s in self.dead_statements or isinstance(s, Loop) for s in walk(p.body))
        }

    def _has_checkpoints(self, loop: Loop) -> bool:
        """Whether a loop has checkpoints. Its iterations are then rerun as the function has them, with all copies, and
        tapes hold the values of one iteration."""
        return any(loop not in self.plan.enclosing[s] for s in loop.body)

    def _replace_copy(self, first: Loop, between: Block, second: Loop) -> None:
        """Replace a copy in `second`, if the value stored in `first` can be recomputed there."""
        later, copy = _nest(second, lambda s: isinstance(s, Store))
        if not isinstance(copy, Store) or len(later[-1].body) > 1 or not isinstance(copy.value, Element):
            return
        if copy in self.dead_statements:
            return  # what replaced a copy of it reads the array that it reads
        array = copy.value.array
        loops, store = _nest(first, lambda s: isinstance(s, Store) and s.array == array)
        moving = {n for s in walk([first, *between, second]) for n in writes(s)}
        names, stores = self._matching_loops(loops, later, moving), self._copied_stores(array, copy)
        if not isinstance(store, Store) or store not in stores or names is None or copy.array in names_written(first):
            return
        place, variables = copy.index, [offset(p)[0] for p in copy.index]
        own = place == copy.value.index == tuple([substitute(p, names) for p in store.index])
        stored = self.replacement_values.get(store, store.value)  # of a copy that is copied on
        value = self._available_value(stored, loops, moving)
        if value is None or not own or any(variables.count(Variable(p.index)) != 1 for p in later):
            return
        value = substitute(value, names)
        old = set(elements_in(value, copy.array))
        hidden = reads(value, *copy.index) & (moving - {copy.array} - {p.index for p in later})
        if not hidden and old <= {place} and _cheap(value):
            self.replacement_values[copy] = value
            self.dead_statements |= stores

    def _copied_stores(self, array: str, copy: Store) -> set[Statement]:
        """The stores to a local array that `copy` alone reads; empty if `array` is no such array."""
        statements = list(walk(self.f.body))
        allocations = [s for s in statements if isinstance(s, Alloc) and s.name == array]
        stores: set[Statement] = {s for s in statements if isinstance(s, Store) and s.array == array}
        read = any(array in uses(s) | adjoint_reads(s, self.plan) for s in statements if s is not copy)
        read |= array in adjoint_reads(copy, self.plan) or any(self.plan.statement_adjoints[s].value for s in stores)
        escapes = any(array in writes(s) for s in statements if isinstance(s, Swap)) or array in (self.f.results or [])
        exact = all(isinstance(s.dtype, DType) or _is(s.dtype, np.float64) for s in allocations)
        exact &= self.f.kinds.get(array) == self.f.kinds.get(copy.array) == "float"
        return (
            stores if allocations and exact and not read and not escapes and not stores & self.tapes.keys() else set()
        )

    def _matching_loops(self, first: list[Loop], second: list[Loop], moving: set[str]) -> dict[Term, Term] | None:
        """The variables of the loops `first` mapped to those of `second`; None if their iteration spaces may differ."""
        names: dict[Term, Term] = {}
        for a, b in zip(first, second, strict=False):
            same = all(substitute(p, names) is q for p, q in zip(_range(a), _range(b), strict=True))
            irregular = any(
                not p.index or p.exit_flag or p.trip_counter or p in self.plan.local_reversal.loops for p in (a, b)
            )
            if irregular or not same or reads(*_range(a)) & (moving - reads(*names)):
                return None
            names[Variable(a.index)] = Variable(b.index)
        return names if first and len(first) == len(second) else None

    def _available_value(self, value: Term, loops: list[Loop], moving: set[str]) -> Term | None:
        """`value` in terms of what is available after the loops, on the tape or unchanged; None if that is impossible.
        `moving` are the names that change."""
        names: dict[Term, Term] = {}
        for n in reads(value) & (moving - {p.index for p in loops}):
            if self.f.ranks.get(n):
                continue
            definitions = [s for s in self.plan.defined if isinstance(s, Assign) and s.name == n]
            if len(definitions) != 1 or not any(definitions[0] in p.body for p in loops):
                return None
            tape = self.tapes.get(definitions[0]) if definitions[0] in self.plan.stored_definitions else None
            if tape is not None and tape.sizes:
                available: Term | None = tape.slot(tape.index)
            else:
                available = self._available_value(definitions[0].value, loops, moving)
            if available is None:
                return None
            names[Variable(n)] = available
        return substitute(value, names)


def _is(dtype: Term, of: object) -> bool:
    """Whether `dtype` is that one of NumPy's."""
    return isinstance(dtype, Global) and dtype.value is of


def _loop_pairs(block: Block) -> Iterator[tuple[Loop, Block, Loop]]:
    """Pairs of loops with only assignments to scalars and checks between them, and these statements."""
    for k, first in enumerate(block):
        if not isinstance(first, Loop):
            continue
        for later, second in enumerate(block[k + 1 :], k + 1):
            if isinstance(second, Loop):
                yield first, block[k + 1 : later], second
            if not isinstance(second, Assign | Check):
                break


def _nest(loop: Loop, wanted: Callable[[Statement], bool]) -> tuple[list[Loop], Statement | None]:
    """The loops from `loop` inwards around the only statement that is wanted, and that statement; None in its place if
    there are several, or a branch around it."""
    matches = [s for s in walk(loop.body) if wanted(s)]
    loops = [loop]
    while len(matches) == 1:
        if matches[0] in loops[-1].body:
            return loops, matches[0]
        inner = [s for s in loops[-1].body if isinstance(s, Loop) and matches[0] in walk(s.body)]
        if not inner:
            break
        loops.append(inner[0])
    return loops, None


def _range(loop: Loop) -> tuple[Term, Term, Term]:
    return loop.start, loop.stop, loop.step


def _cheap(value: Term) -> bool:
    """Whether a value has no calls or selects and reads few elements."""
    parts = list(subterms(value))
    calls = any(isinstance(t, Call | Select) for t in parts)
    return not calls and sum(isinstance(t, Element) for t in parts) <= _MAX_ELEMENTS_READ
