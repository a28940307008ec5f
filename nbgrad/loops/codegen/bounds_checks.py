"""Code generation for index checks; :mod:`..analysis.index_bounds` decides which indices are checked, and where.

The generated function holds one comparison that suffices for several indices, and a call. Where the comparison fails,
the call runs a separate program, compiled on demand, that looks for the first index out of range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from ...core.source_text import constant_source
from ..analysis.index_bounds import Access, Guard, IndexBounds
from ..ir.effects import Return
from ..ir.names import Names
from ..ir.printer import definition
from ..ir.reverse_ir import Branch, For, Item
from ..ir.statements import Check, Function, IndexCheck
from ..ir.terms import (
    MINUS_ONE,
    ZERO,
    Binary,
    Compare,
    Constant,
    Element,
    Length,
    Logical,
    Term,
    Tuple,
    Unary,
    Variable,
    named,
    reads,
    substitute,
    subterms,
)
from ..runtime.index_errors import OUTSIDE_NAME, SEARCH_FUNCTION, SEARCH_MESSAGES, outside

__all__ = ["guards", "import_index_check", "shape_checks"]


def import_index_check(bounds: IndexBounds, names: Names) -> None:
    """Add the function that checks call to the imports of the file."""
    if not bounds.has_no_checks:
        names.imported(OUTSIDE_NAME, outside)


def shape_checks(arrays: dict[str, str], f: Function) -> list[Item]:
    """A check that each array argument has the shape of the array that it is the tangent or cotangent of."""
    tests = [
        Compare(("!=",), (Length(given, d), Length(n, d))) for n, given in arrays.items() for d in range(f.ranks[n])
    ]
    if not tests or not f.checked:
        return []
    text = f"{f.name}: {', '.join(arrays.values())} must have the shapes of {', '.join(arrays)}"
    return [Check(_without_branches("|", tests), text)]


def guards(wanted: list[Guard]) -> list[Item]:
    """The checks before a statement; the sufficient conditions of all guards are tested at once."""
    items: list[Item] = []
    sufficient = [g for g in wanted if g.sufficient_conditions is not None]
    for guard in wanted:
        if guard.sufficient_conditions is None:
            items += _inside_path(guard, [_exact_check(*access) for access in guard.accesses], {})
        elif guard is sufficient[0]:
            items.append(_combined_check(sufficient))
    return items


def _combined_check(guards: list[Guard]) -> IndexCheck:
    """One check for several guards: where their sufficient conditions do not all hold, a program decides."""
    conditions = list(dict.fromkeys(test for g in guards for test in g.sufficient_conditions or []))
    arguments, lengths = _program_arguments(guards)
    texts: list[tuple[str, str]] = []
    body: list[Item] = []
    for guard in guards:
        comparisons: list[Item] = []
        for access, *terms in guard.accesses:
            index, size = [substitute(t, lengths) for t in terms]
            found = _found(Constant(len(texts)), index, size)
            comparisons.append(Branch(_out_of_range_test(access, index, size), body=[found]))
            texts.append((access.what, access.where))
        body += _inside_path(guard, comparisons, lengths)
    body.append(_found(MINUS_ONE, ZERO, ZERO))
    program = _program(body, [lengths.get(t, t) for t in arguments], texts)
    reading = [c for c in conditions if any(isinstance(t, Element) for t in subterms(c))]
    others = [c for c in conditions if c not in reading]  # where these hold, the elements that are read are there
    tests = tuple([_without_branches("&", part) for part in (others, reading) if part])
    return IndexCheck(Unary("not", Logical("and", tests) if reading and others else tests[0]), program, OUTSIDE_NAME,
                      arguments)  # fmt: skip


def _exact_check(access: Access, index: Term, size: Term) -> IndexCheck:
    """A check that compares one index with its bounds, exactly."""
    parameters = [Variable("index"), Variable("size")]
    program = _program([_found(ZERO, *parameters)], parameters, [(access.what, access.where)])
    return IndexCheck(_out_of_range_test(access, index, size), program, OUTSIDE_NAME, [index, size])


def _found(number: Term, index: Term, size: Term) -> Return:
    """What a program returns: the number of the access that is out of range."""
    return Return((Tuple((number, index, size)),))


def _program_arguments(guards: list[Guard]) -> tuple[list[Term], dict[Term, Term]]:
    """The arguments of a program: scalars, arrays whose elements it reads, and array lengths.

    Also returns the scalar parameters that the lengths become.
    """
    terms = [t for g in guards for part in g.path for t in (part[2] if len(part) == 3 else part[:1])]
    terms += [t for g in guards for _, index, size in g.accesses for t in (index, size)]
    loop_variables = {part[1] for g in guards for part in g.path if len(part) == 3}
    values: list[Term] = [Variable(n) for n in reads(*terms) - loop_variables]
    arguments = sorted({*values, *(t for t in subterms(*terms) if isinstance(t, Length))}, key=str)
    free = Names(named(*terms) | loop_variables)
    return arguments, {t: Variable(free.fresh(f"{t.array}_size")) for t in arguments if isinstance(t, Length)}


def _program(body: list[Item], parameters: Sequence[Term], texts: list[tuple[str, str]]) -> str:
    """The source of a program."""
    function = definition(SEARCH_FUNCTION, list(map(str, parameters)), body).text
    return f"import math\n\nimport numpy as np\n{function}{SEARCH_MESSAGES} = {constant_source(tuple(texts))}\n"


def _inside_path(guard: Guard, items: list[Item], lengths: Mapping[Term, Term]) -> list[Item]:
    """`items` inside the loops and tests of a guard, in which `lengths` are replaced."""
    tests: list[Term] = []
    for part in reversed(guard.path):
        if len(part) == 2:
            test = substitute(part[0], lengths)
            tests.insert(0, test if part[1] else Unary("not", test))
            continue
        start, stop, step = [substitute(t, lengths) for t in part[2]]
        items, tests = [For(part[1], start, stop, step, body=_inside_tests(tests, items))], []
    return _inside_tests(tests, items)


def _inside_tests(tests: list[Term], items: list[Item]) -> list[Item]:
    """`items` under a branch on all `tests`."""
    return [Branch(_joined("and", tests), body=items)] if tests else items


def _out_of_range_test(access: Access, index: Term, size: Term) -> Term:
    """The test that an index is out of range, at the ends at which it may be."""
    below, above = Compare(("<",), (index, Unary("-", size))), Compare((">=",), (index, size))
    return _joined("or", [below] * access.low + [above] * access.high)


def _joined(op: str, tests: Sequence[Term]) -> Term:
    return Logical(op, tuple(tests)) if len(tests) > 1 else tests[0]


def _without_branches(op: str, tests: Sequence[Term]) -> Term:
    """All `tests` in an operation on bits: branches are slow to compile."""
    return reduce(lambda a, b: Binary(op, a, b), tests[1:], tests[0])
