"""Loops that search: scalars that tests move, such as the bounds of a bisection.

Such a scalar is set to others in branches, and no arithmetic of the loop brings differentiated values into it: they
only enter the tests. Its derivative is then that of where the search began, whatever the result depends on.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from ...errors import DerivativeWarning
from ..ir.algebra import Algebra
from ..ir.statements import Assign, Block, Call, Function, If, Loop, Store, Swap, nested_blocks, walk, writes
from ..ir.terms import Variable, reads
from .activity import useful_names, varied_names

__all__ = ["searches", "warn_of_searches"]


def searches(f: Function, wrt: set[str]) -> list[str]:
    """What is found by the loops of `f`, as it was lowered, that search: a sentence for each of these loops."""
    algebra = Algebra(set())
    outputs = {*(f.results or []), *f.modified_parameters}
    useful, varied = useful_names(f, algebra, outputs), varied_names(f, algebra, wrt)
    useful = {n for n in useful if f.kinds.get(n) == "float"}
    loops = [s for s in walk(f.body) if isinstance(s, Loop)]
    found = [(loop, _searched(loop, useful, varied)) for loop in loops]
    return [f"{' and '.join(names)} in '{loop.line}' are moved by tests alone" for loop, names in found if names]


def warn_of_searches(searched: list[str], f: Function) -> None:
    for found in searched:
        warnings.warn(
            f"{f.where}: {found}, so the derivative is not that of what the loop finds; "
            "nb.fixed_point(residual=...) differentiates the equation that it solves",
            DerivativeWarning,
            stacklevel=5,  # where a method of an adjoint is called
        )


def _searched(loop: Loop, useful: set[str], varied: set[str]) -> list[str]:
    inner = list(walk(loop.body))
    arrays = {s.array for s in inner if isinstance(s, Store)} | {
        n for s in inner if isinstance(s, Swap | Call) for n in writes(s)
    }
    values: dict[str, list[Assign]] = {}
    for s in inner:
        if isinstance(s, Assign):
            values.setdefault(s.name, []).append(s)
    tests = dict(_tests(loop.body, ()))

    def sources(names: set[str]) -> tuple[set[str], set[str]]:
        """What the loop computes `names` from: names that it assigns, and others."""
        inside, outside, new = set(), set(), set(names)
        while new:
            name = new.pop()
            if name in values and name not in inside:
                inside.add(name)
                new |= {n for s in values[name] for n in reads(s.value)}
            elif name not in values:
                outside.add(name)
        return inside, outside

    result = []
    for name, assigned in values.items():
        if name not in useful or not all(isinstance(s.value, Variable) and tests.get(s) for s in assigned):
            continue
        own, outside = sources({name})
        if outside & (varied | arrays) or not own <= useful:
            continue
        asked, given = sources({n for s in assigned for test in tests[s] for n in reads(test)})
        if asked & own and given & varied:
            result.append(name)
    return result


def _tests(block: Block, around: tuple) -> Iterator[tuple[Assign, tuple]]:
    """The scalar assignments of a block, each with the tests that it depends on."""
    for s in block:
        if isinstance(s, Assign):
            yield s, around
        for inner in nested_blocks(s):
            yield from _tests(inner, (*around, s.test) if isinstance(s, If) else around)
