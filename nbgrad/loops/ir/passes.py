"""The optional passes: which of them run, and what is checked after each.

Any of them can be switched off, alone or with others; what is generated is then slower, and computes the same. The
tests rely on it: random programs must agree under random subsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import TypeVar

from ...core import config
from .printer import listing
from .reverse_ir import Item
from .statements import Function
from .verify import verify, verify_sweep, verify_sweeps

__all__ = ["Pass", "check_sweeps", "checked", "checked_sweep", "enabled", "recorded", "run_pass", "without"]

_T = TypeVar("_T")

#: Whether functions are verified after each pass; the tests set it.
VERIFIES = config.CHECKED


class Pass(Enum):
    """An optional pass, in the order in which they run, by the field's term for it."""

    # On the function, before it is differentiated.
    COUNTED_LOOPS = "counted loops"
    MATRIX_PRODUCTS = "products of matrices"
    LOOP_INTERCHANGE = "loop interchange"
    PRIVATIZATION = "privatization of arrays"
    SELECTION_SINKING = "sinking of selections"
    IF_CONVERSION = "if-conversion"
    RELAXATIONS = "branches of relaxations"
    RENAMING = "renaming"
    INVARIANT_FACTORS = "loop-invariant factors"
    NAMED_VALUES = "common subexpressions"
    VECTORIZATION = "vectorization"
    STRIP_MINING = "strip-mining"
    LOCAL_REVERSAL = "iteration-local reversal"
    DEFERRED_UPDATES = "deferred updates"
    SAVES_BEFORE_LOOPS = "saves before loops"
    SCALAR_REPLACEMENT = "scalar replacement"
    # On the sweeps.
    UNROLL_AND_JAM = "unroll-and-jam"
    SHARED_TAPES = "tapes that share arrays"
    COPY_ELIMINATION = "copy elimination"
    PRESIZED_STACKS = "presized stacks"
    COMMON_STEPS = "common steps of branches"
    LOOP_FUSION = "loop fusion"
    LOOP_DISTRIBUTION = "loop distribution"
    HOISTED_SUMS = "sums in scalars"
    SCATTER_TO_GATHER = "scatter to gather"
    REDUCTION_PRIVATIZATION = "reduction privatization"
    DEAD_ADJOINTS = "dead adjoints"


_history: ContextVar[list[tuple[str, str]] | None] = ContextVar("listings after passes", default=None)
_off: ContextVar[frozenset[Pass]] = ContextVar("passes that are switched off", default=frozenset())


@contextmanager
def without(*passes: Pass) -> Iterator[None]:
    """Generate code without some passes, in the current context."""
    token = _off.set(_off.get() | set(passes))
    try:
        yield
    finally:
        _off.reset(token)


def enabled(optional: Pass) -> bool:
    """Whether a pass runs."""
    return optional not in _off.get()


def run_pass(optional: Pass, run: Callable[..., _T], f: Function, *args: object) -> _T | None:
    """What a pass over `f` returns, unless it is switched off; `f` is verified after it."""
    if not enabled(optional):
        return None
    result = run(f, *args)
    checked(f, optional.value)
    return result


def checked(f: Function, after: str) -> Function:
    """`f` after a pass: verified, and its listing recorded, if that is asked for."""
    if VERIFIES:
        verify(f, after)
    history = _history.get()
    if history is not None:
        history.append((after, listing(f)))
    return f


@contextmanager
def recorded() -> Iterator[list[tuple[str, str]]]:
    """Record the listing of functions after each pass over them: the name of the pass, and the listing."""
    history: list[tuple[str, str]] = []
    token = _history.set(history)
    try:
        yield history
    finally:
        _history.reset(token)


def checked_sweep(items: list[Item], where: str, after: str) -> list[Item]:
    """A reverse sweep, verified if that is asked for."""
    if VERIFIES:
        verify_sweep(items, where, after)
    return items


def check_sweeps(items: list[Item], tapes: set[str], known: set[str], cotangents: set[str], where: str) -> None:
    """Verify both sweeps together if that is asked for, by :func:`.verify_sweeps`."""
    if VERIFIES:
        verify_sweeps(items, tapes, known, cotangents, where)
