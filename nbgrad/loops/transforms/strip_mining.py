"""Strip-mining: run a loop with sums in blocks of iterations, first the terms of a block, then the sums.

A sum whose additions have a fixed order keeps a loop from being vectorized. Its terms go to a buffer here, which stays
in the cache, so that the rest of the loop is vectorized; they are added in the order in which they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from ..ir.names import called
from ..ir.reverse_ir import Comment, For, Item, Step
from ..ir.terms import ONE, Binary, Constant, Element, Select, Term, Unary, Variable, reads

__all__ = ["strip_mined", "summands"]

#: The number of iterations in a block.
_BLOCK = 256


def strip_mined(loop: For, named: Callable[[str], str]) -> For:
    """The loop in blocks; itself if it has no sums, or more than sums and other assignments. `named` gives fresh
    names."""
    steps = [item for item in loop.body if isinstance(item, Step)]
    if loop.step is not ONE or not all(isinstance(item, Step | Comment) for item in loop.body):
        return loop
    mentions = Counter(n for s in steps for n in {s.name, *reads(*s.evaluated())})
    block, stop = Variable(named("block")), Variable(named("block_stop"))
    place = (Binary("-", Variable(loop.index), block),)
    inside: list[Item] = []
    sums: list[Item] = []
    buffers: dict[str, Term] = {}
    for item in loop.body:
        terms = _terms_of(item) if isinstance(item, Step) and mentions[item.name] == 1 else []
        if not isinstance(item, Step) or not terms:
            inside.append(item)
            continue
        buffered: list[Term] = []
        for k, term in enumerate(terms, 1):
            name = named(f"{item.name}_term{k if len(terms) > 1 else ''}")
            buffers[name] = called(np.empty, Constant(_BLOCK))
            buffered.append(Element(name, place))
            inside.append(Step(buffered[-1], "=", term))  # type: ignore[arg-type]
        assert isinstance(item.target, Variable)
        value = _with_terms(as_sum(item.target, item.value), buffered) if item.assign_op == "=" else buffered[0]
        sums.append(Step(item.target, item.assign_op, value))
    if not sums:
        return loop
    last = Step(stop, "=", called(min, Binary("+", block, Constant(_BLOCK)), loop.stop))
    parts: list[Item] = [For(loop.index, block, stop, body=body) for body in (inside, sums)]
    return For(block.name, loop.start, loop.stop, Constant(_BLOCK), body=[last, *parts], buffers=buffers)


def summands(total: Variable, value: Term) -> list[Term]:
    """The terms that ``total + a - b`` adds to and subtracts from a variable, in order; none of another value."""
    terms: list[Term] = []
    value = as_sum(total, value)
    while isinstance(value, Binary) and value.op in ("+", "-"):
        terms.insert(0, value.right)
        value = value.left
    return terms if value is total and total.name not in reads(*terms) else []


def as_sum(total: Variable, value: Term) -> Term:
    """``total + a if test else total - b`` as ``total + (a if test else -b)``; other values as they are."""

    def added(value: Term) -> Term | None:
        match value:
            case Binary("+", left, right) if left is total:
                return right
            case Binary("-", left, right) if left is total:
                return Unary("-", right)
            case Select(test, body, orelse):
                a, b = added(body), added(orelse)
                return None if a is None or b is None else Select(test, a, b)
        return Constant(-0.0) if value is total else None  # 0.0 would change the sign of -0.0

    term = added(value) if isinstance(value, Select) else None
    return value if term is None else Binary("+", total, term)


def _with_terms(value: Term, terms: list[Term]) -> Term:
    """A sum with other terms."""
    if not terms:
        return value
    assert isinstance(value, Binary)
    return Binary(value.op, _with_terms(value.left, terms[:-1]), terms[-1])


def _terms_of(step: Step) -> list[Term]:
    """What a step adds to and subtracts from a scalar; none of other steps."""
    total = step.target
    if not isinstance(total, Variable) or step.reassociable:
        return []
    if step.assign_op == "=":
        return summands(total, step.value)
    return [] if total.name in step.value.reads else [step.value]
