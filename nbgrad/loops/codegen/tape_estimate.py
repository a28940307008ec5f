"""The bytes of tapes before anything runs: the source of a Python function from arguments to sizes."""

from __future__ import annotations

import builtins
import math
from collections import Counter
from collections.abc import Iterable
from functools import reduce

import numpy as np

from ..ir.effects import Bind, Return
from ..ir.printer import definition
from ..ir.reverse_ir import Item
from ..ir.statements import Alloc, Assign, Function, Statement, walk, writes
from ..ir.tapes import Tape
from ..ir.terms import Binary, Call, Constant, DType, Global, Property, Term, Tuple, Variable, named, subterms
from .augmented_forward import AugmentedForward

__all__ = ["estimate_source"]

#: What Python, `math` and NumPy define, by identity.
_PLAIN = {id(value) for module in (builtins, math, np) for value in vars(module).values()}


def estimate_source(reverse: AugmentedForward) -> tuple[str, dict[str, Tape]]:
    """The source of ``call(*arguments)``, which returns the bytes of each tape whose size is known before the function
    runs, and these tapes, by their labels. It calls `shaped` for local arrays: an object with that shape."""
    f = reverse.f
    definitions = _definitions(f)
    found: dict[str, Tape] = {}
    needed: dict[Statement, None] = {}
    for label, tape in reverse.stored_in_loops().items():
        steps = _needed(tape.sizes, f, definitions) if isinstance(tape, Tape) and tape.sizes else None
        if isinstance(tape, Tape) and steps is not None:
            found[label] = tape
            needed |= dict.fromkeys(steps)
    shaped = f.names.copy().fresh("shaped")
    items: list[Item] = [_binding(s, shaped) for s in f.body if s in needed]
    sizes = [reduce(lambda a, b: Binary("*", a, b), tape.sizes or [], _slot_bytes(tape, f)) for tape in found.values()]
    items.append(Return(tuple(sizes), parenthesized=True))
    return definition("call", [shaped, *f.parameters], items).text, found


def _definitions(f: Function) -> dict[str, Assign | Alloc]:
    """The only statements that set these names, which are executed once."""
    count = Counter(n for s in walk(f.body) for n in _set_by(s))
    count.update(f.parameters)
    return {s.name: s for s in f.body if isinstance(s, Assign | Alloc) and count[s.name] == 1}


def _set_by(s: Statement) -> Iterable[str]:
    return [s.name] if isinstance(s, Alloc) else writes(s) if isinstance(s, Assign) else []


def _needed(
    sizes: Iterable[Term], f: Function, definitions: dict[str, Assign | Alloc]
) -> dict[Assign | Alloc, None] | None:
    """The statements that sizes need; None if they depend on more than arguments and lengths."""
    written = {n for s in walk(f.body) for n in writes(s)}
    needed: dict[Assign | Alloc, None] = {}
    stack = list(sizes)
    while stack:
        term = stack.pop()
        if any(isinstance(t, Global) and id(t.value) not in _PLAIN for t in subterms(term)):
            return None
        if term.reads & written - definitions.keys() or any(f.ranks.get(n) and n in written for n in term.reads):
            return None
        for n in named(term) - set(f.parameters):
            s = definitions.get(n)
            if s is None:
                return None
            if s not in needed:
                needed[s] = None
                stack += s.shape if isinstance(s, Alloc) else [s.value]
    return needed


def _binding(s: Statement, shaped: str) -> Bind:
    if isinstance(s, Alloc):
        return Bind((s.name,), Call(Global(shaped, None), (Tuple(s.shape),)))
    assert isinstance(s, Assign)
    return Bind((s.name,), s.value)


def _slot_bytes(tape: Tape, f: Function) -> Term:
    """The bytes of a slot: those of an element of an argument, or at most 8."""
    array = tape.dtype.array if isinstance(tape.dtype, DType) else ""
    return Property(Variable(array), "itemsize") if array in f.parameters else Constant(8)
