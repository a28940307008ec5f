"""Dead adjoints: remove cotangents that stay zero, and the statements that use or write them.

After loop fusion, scalars often carry what would have gone through a local array. The cotangent of that array is then
always zero, and whatever reads it adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.effects import Bind
from ..ir.names import called
from ..ir.reverse_ir import (
    FLOAT_ZERO,
    Branch,
    Comment,
    Item,
    Nest,
    Opaque,
    Step,
    bound_by,
    evaluated_by,
    mentions,
    walk_items,
)
from ..ir.terms import Element, Term, Variable, named
from .loop_fusion import replace_by_scalar

__all__ = ["remove_dead_adjoints"]


def remove_dead_adjoints(
    items: list[Item], there: list[Item], middle: list[Item], local: dict[str, str], fresh: Callable[[str], str]
) -> list[Item]:
    """Remove dead adjoints; return the reverse sweep without them. Their allocations are removed from `there`.

    An array of cotangents is dead if it stays zero, or would once a scalar replaces the element that is accumulated
    into and read at once. So is a loop that only sets elements to zero that nothing uses after it.

    Parameters
    ----------
    items : list of Item
        The reverse sweep.
    there, middle : list of Item
        The forward sweep, and what is between the two.
    local : dict
        The arrays with a local array of cotangents, by the names of the latter.
    fresh : callable
        Returns a new name for the scalar that replaces an element of such an array.
    """
    items, dead = _without_final_zeroing(items, set(local)), set[Item]()
    mentioned: dict[str, list[Item]] = {}
    for item in walk_items([*there, *middle]):
        for name in {*bound_by(item), *named(*evaluated_by(item))} & local.keys():
            mentioned.setdefault(name, []).append(item)
    for array, name in local.items():
        allocation = Bind((array,), called(np.zeros_like, Variable(name)))
        if mentioned.get(array) != [allocation]:
            continue
        _hand_over(items, array, fresh)
        live = _without_zero_array(items, array)
        if live is not None:
            items = live
            dead.add(allocation)
    _remove(there, dead)
    return items


def _remove(items: list[Item], dead: set[Item]) -> None:
    """Remove items, wherever they are in `items`."""
    items[:] = [item for item in items if item not in dead]
    for item in items if dead else ():
        if isinstance(item, Nest):
            _remove(item.body, dead)


def _hand_over(items: list[Item], array: str, fresh: Callable[[str], str]) -> None:
    """Replace an element that is accumulated into by one step, and read in the same block, by a scalar."""
    added: list[list[Item]] = []
    blocks = [items]
    while blocks:
        block = blocks.pop()
        for item in block:
            if isinstance(item, Nest):
                blocks.append(item.body)
            elif isinstance(item, Opaque) and mentions(item, array):
                return  # it is swapped
            elif isinstance(item, Step) and item.name == array and not item.zeroes:
                added.append(block)
    if len(added) == 1:
        replace_by_scalar(added[0], array, fresh(array))


def _without_final_zeroing(items: list[Item], local: set[str]) -> list[Item]:
    live: list[Item] = []
    for item in reversed(items):
        zeroed = _zeroed(item)
        if not zeroed or not zeroed <= local or any(mentions(s, n) for s in live for n in zeroed):
            live.append(item)
    return live[::-1]


def _zeroed(item: Item) -> set[str]:
    """The arrays that a loop sets to zero, if it does nothing else."""
    arrays: set[str] = set()
    stack: list[Item] = [item] if isinstance(item, Nest) else []
    while stack:
        inner = stack.pop()
        if isinstance(inner, Nest) and not isinstance(inner, Branch):
            stack += inner.body
        elif isinstance(inner, Step) and isinstance(inner.target, Element) and inner.zeroes:
            arrays.add(inner.name)
        elif not isinstance(inner, Comment):
            return set()
    return arrays


def _without_zero_array(items: list[Item], array: str) -> list[Item] | None:
    """The block without `array`, which is zero before it; None if the block adds to the array, or does more with its
    zeros than add them."""
    live: list[Item] = []
    zero: Variable | None = None  # the scalar that holds an element
    for item in items:
        if isinstance(item, Nest):
            inner = None if zero and mentions(item, zero.name) else _without_zero_array(item.body, array)
            if inner is None or mentions(item.with_body([]), array):
                return None
            if len(inner) < len(item.body) and all(isinstance(s, Comment) for s in inner):
                if live and isinstance(live[-1], Comment):
                    live.pop()  # the comment with the line that it reverses
            else:
                live.append(item.with_body(inner))
        elif isinstance(item, Step) and (_is_element(item.value, array) or item.value is zero):
            if item.assign_op == "=":
                if item.value is zero or zero not in (None, item.target) or not isinstance(item.target, Variable):
                    return None
                zero = item.target
        elif isinstance(item, Step) and _is_element(item.target, array) and item.assign_op == "=":
            if item.value is not FLOAT_ZERO:
                return None
        elif mentions(item, array):
            return None
        else:
            if zero and mentions(item, zero.name):
                redefined = isinstance(item, Step) and item.target is zero and item.assign_op == "="
                if not redefined or zero.name in item.value.named:  # type: ignore[union-attr]
                    return None
                zero = None
            live.append(item)
    return live


def _is_element(term: Term, array: str) -> bool:
    return isinstance(term, Element) and term.array == array
