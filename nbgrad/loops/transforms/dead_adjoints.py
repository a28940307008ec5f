"""Cotangents that stay zero: what is not made, and not written, because of them.

Where loops were merged, numbers often carry what would have gone through a local array. Its cotangent is zero all the
time then, and what takes it adds nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from ..ir.reverse_ir import Comment, Item, Nest, Step, mentions, names, words
from ..ir.statements import parsed
from .loop_fusion import hand_over

__all__ = ["without_zeros"]


def without_zeros(
    items: list[Item], lines: list[str], made: dict[str, str], named: Callable[[str], str]
) -> tuple[list[Item], set[str]]:
    """A sweep back without what nothing comes of: arrays that stay zero, or would if a number had what is added to them
    and taken at once, and loops that only set to zero what nothing uses after them; and the lines that are not needed
    for it.

    Parameters
    ----------
    items : list of Item
        The sweep back.
    lines : list of str
        What is before it.
    made : dict
        The arrays of which there are local arrays of cotangents, by the names of these.
    named : callable
        A new name for what an element of such an array has.
    """
    items, gone = _without_last(items, set(made)), set[str]()
    mentioned: dict[str, list[str]] = {}
    for text in lines:
        for word in words(text):
            mentioned.setdefault(word, []).append(text.strip())
    for array, name in made.items():
        line = f"{array} = np.zeros_like({name})"
        if mentioned.get(array) != [line]:
            continue
        _hand_over(items, array, named)
        silent = _silent(items, array)
        if silent is not None:
            items = silent
            gone.add(line)
    return items, gone


def _hand_over(items: list[Item], array: str, named: Callable[[str], str]) -> None:
    """Let a number have what the only step that adds to an array adds, if it is taken in the same block."""
    added: list[list[Item]] = []
    blocks = [items]
    while blocks:
        block = blocks.pop()
        for item in block:
            if isinstance(item, Nest):
                blocks.append(item.body)
            elif isinstance(item, str) and array in words(item):
                return  # it changes places
            elif isinstance(item, Step) and item.name == array and not item.zeroes:
                added.append(block)
    if len(added) == 1:
        hand_over(added[0], array, named(array))


def _without_last(items: list[Item], local: set[str]) -> list[Item]:
    kept: list[Item] = []
    for item in reversed(items):
        zeroed = _zeroed(item)
        if not zeroed or not zeroed <= local or any(mentions(s, n) for s in kept for n in zeroed):
            kept.append(item)
    return kept[::-1]


def _zeroed(item: Item) -> set[str]:
    """The arrays that a loop sets to zero, if it does nothing else."""
    found: set[str] = set()
    stack: list[Item] = [item] if isinstance(item, Nest) else []
    while stack:
        inner = stack.pop()
        if isinstance(inner, Nest) and not inner.test:
            stack += inner.body
        elif isinstance(inner, Step) and isinstance(inner.target, ast.Subscript) and inner.zeroes:
            found.add(inner.name)
        elif not isinstance(inner, Comment):
            return set()
    return found


def _silent(items: list[Item], array: str) -> list[Item] | None:
    """A block without an array that is zero before it, or None if something is added to it, or if more is done with
    its zeros than to add them."""
    made: list[Item] = []
    zero = ""  # a number that got an element
    for item in items:
        if isinstance(item, Nest):
            inner = None if zero and mentions(item, zero) else _silent(item.body, array)
            if inner is None or mentions(replace(item, body=[]), array):
                return None
            if len(inner) < len(item.body) and all(isinstance(s, Comment) for s in inner):
                if made and isinstance(made[-1], Comment):
                    made.pop()  # the line of the function that it undid
            else:
                made.append(replace(item, body=inner))
        elif isinstance(item, Step) and (_element(parsed(item.value), array) or (zero and item.value == zero)):
            if item.how == "=":
                if item.value == zero or zero not in ("", item.name) or not isinstance(item.target, ast.Name):
                    return None
                zero = item.name
        elif isinstance(item, Step) and _element(item.target, array) and item.how == "=":
            if item.value != "0.0":
                return None
        elif mentions(item, array):
            return None
        else:
            if zero and mentions(item, zero):
                again = isinstance(item, Step) and isinstance(item.target, ast.Name) and item.name == zero
                if again and item.how == "=" and zero not in names(item.value):  # type: ignore[union-attr]
                    zero = ""
                else:
                    return None
            made.append(item)
    return made


def _element(node: ast.expr, array: str) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == array
