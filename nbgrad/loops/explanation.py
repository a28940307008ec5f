"""What each pass does to a function, and why the reverse sweep stores what it stores: the text of ``explain``."""

from __future__ import annotations

import difflib

from ..core.source_text import lines_of
from .analysis.tbr import adjoint_reads, cheaper_to_store
from .codegen.reverse_sweep import AdjointBuilder
from .ir.reverse_ir import loop_head
from .ir.statements import Assign, Loop, Statement, Store, walk, writes

__all__ = ["explanation"]


def explanation(history: list[tuple[str, str]], reverse: AdjointBuilder, text: str) -> str:
    """The explanation of an adjoint.

    Parameters
    ----------
    history : list of tuple of str
        The name of each pass, and the function after it.
    reverse : AdjointBuilder
        What wrote the adjoint.
    text : str
        The generated code.
    """
    sections = [*_passes(history), ("Derivatives", _activity(reverse)), ("Stored values", _stored(reverse))]
    sections += [("Loops", _loops(reverse)), ("Generated code", lines_of(text))]
    return "\n".join(line for title, lines in sections for line in (title, "-" * len(title), *lines, ""))


def _passes(history: list[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """The function after lowering, then what each pass changed in it."""
    (first, before), *later = history
    sections = [(f"After {first}", lines_of(before))]
    idle: list[str] = []
    for name, after in later:
        changed = difflib.unified_diff(lines_of(before), lines_of(after), lineterm="", n=1)
        lines = [line for line in changed if line[:3] not in ("---", "+++", "@@ ")]
        if lines:
            sections.append((f"Changed by {name}", lines))
        elif name not in idle:
            idle.append(name)
        before = after
    return [*sections, ("Passes that changed nothing", [", ".join(idle) or "none"])]


def _activity(reverse: AdjointBuilder) -> list[str]:
    """Which variables have derivatives."""
    names = list(dict.fromkeys([*reverse.f.parameters, *(n for s in walk(reverse.f.body) for n in writes(s))]))
    active = [n for n in names if n in reverse.plan.active]
    passive = [n for n in names if n not in reverse.plan.active]
    return [
        *(f"{found}: their derivative is not that of what the loop finds" for found in reverse.f.searches),
        f"with: {', '.join(active) or 'none'}",
        f"without, as nothing returned depends on them, or they on no argument: {', '.join(passive) or 'none'}",
    ]


def _stored(reverse: AdjointBuilder) -> list[str]:
    """What is stored for the reverse sweep, and why; what is computed again instead."""
    plan, lines = reverse.plan, []
    for s in walk(reverse.f.body):
        what = str(s.target) if isinstance(s, Store) else getattr(s, "name", "")
        if s in plan.saved_overwrites:
            lines.append(f"{what}: {_place(s, reverse)}, since '{_code(s)}' overwrites it, and {_needed(s, reverse)}")
        elif s in plan.stored_definitions:
            costly = cheaper_to_store(s, reverse.f, plan)
            why = "computing it again is expensive" if costly else "it is computed from what changes"
            lines.append(f"{what}: {_place(s, reverse)}, since {why}, and {_needed(s, reverse)}")
        elif s in plan.recomputed_definitions:
            lines.append(f"{what}: computed again, since {_needed(s, reverse)}")
    return lines or ["nothing: no derivative reads a value that is lost"]


def _place(s: Statement, reverse: AdjointBuilder) -> str:
    """Where the value is held that a statement overwrites or sets."""
    if s in reverse.plan.inverse_increments:
        return f"restored as {reverse.plan.inverse_increments[s]}"
    if s in reverse.plan.scalar_copies:
        return f"held in {reverse.plan.scalar_copies[s]}"
    tape = reverse.tapes[s]
    loops = ", ".join(p.index or "while" for p in tape.loops)
    counted = tape.stack is not None and tape.stack.total_slots
    grows = "" if tape.sizes is not None else ", whose length is counted before," if counted else " that grows"
    where = f"{tape.array}[..., {tape.beside.index(tape)}]" if tape.is_shared else tape.array
    return f"recorded on the tape {where}{grows}{f', over the loops {loops}' * bool(loops)}"


def _needed(s: Statement, reverse: AdjointBuilder) -> str:
    readers = _readers(s, reverse)
    return f"the derivative of {readers} reads it" if readers else "the reverse sweep reads it"


def _readers(s: Statement, reverse: AdjointBuilder) -> str:
    """The statements whose derivatives read what `s` writes."""
    name = writes(s)[0]
    readers = [t for t in walk(reverse.f.body) if name in adjoint_reads(t, reverse.plan)]
    return ", ".join(dict.fromkeys(f"'{_code(t)}'" for t in readers[:3])) + ", ..." * (len(readers) > 3)


def _code(s: Statement) -> str:
    """The user's line of a statement, or, where a pass made it, its own text."""
    if s.line:
        return s.line
    match s:
        case Assign():
            return f"{s.name} = {s.value}"
        case Store():
            return f"{s.target} = {s.value}"
    return type(s).__name__.lower()


def _loops(reverse: AdjointBuilder) -> list[str]:
    """How each loop is reversed, and which run in parallel."""
    lines = []
    for loop in (s for s in walk(reverse.f.body) if isinstance(s, Loop)):
        how = reverse.loop_orders.get(loop, "not reversed: nothing in it has a derivative")
        if loop in reverse.plan.local_reversal.loops:
            how = "each iteration is reversed as soon as it has run"
        lines.append(f"{loop_head(loop, loop.parallel).head} {how}")
    return [*lines, *(f"{head} {verdict}" for head, verdict in reverse.parallel_verdicts().items())]
