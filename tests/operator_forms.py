"""Which elementwise operators stand for the others where loops are tested, and not what is computed in them.

An elementwise operator is an expression, which templates put into loops: over arrays of one shape or along axes that
broadcast, in each dtype, writing results or adding to them. Of the expression, templates see which values it and its
derivatives read. Operators in which these are the same have a *form* in common. So every expression is tested in some
loops, and every loop with one operator of each form: together they would find what all pairs find.
"""

from nbgrad.core.registry import operators
from nbgrad.operators.elementwise import Elementwise

__all__ = ["represents", "rows"]


def form(entry):
    """What templates see of an elementwise operator; of any other, itself."""
    rule = entry.rule
    if not isinstance(rule, Elementwise):
        return entry.name
    known = len(rule.operands), len(rule.params), rule.ints, [s.result for s in entry.samples[:1]]
    if not entry.differentiable:
        return repr(known)
    partials = [rule.partial(k) for k in range(len(rule.operands))]
    return repr((*known, [(partial is None, read) for partial, read in partials]))


_FIRST: dict[str, str] = {}
for _entry in operators.values():
    _FIRST.setdefault(form(_entry), _entry.name)


def represents(entry) -> bool:
    """Whether it is the first operator of its form; whatever is not elementwise has its own."""
    return _FIRST.get(form(entry), entry.name) == entry.name


def rows(entry) -> list:
    """The samples without those that differ from the first in their shapes alone, if others are tested with these."""
    if represents(entry):
        return list(entry.samples)
    return [s for k, s in enumerate(entry.samples) if k == 0 or s.attrs != entry.samples[0].attrs]
