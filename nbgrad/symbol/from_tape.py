"""From the tape to the nodes of a Symbol."""

from __future__ import annotations

from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ..autodiff import tape
from ..autodiff.constants import Constant, NoDerivative
from ..errors import NBGradError
from .steps import Aval, Step, from_tape

__all__ = ["Node", "build"]

NOT_RECORDED = "NDArray is not part of a computation graph. Did you forget to turn on recording?"


class Node(NamedTuple):
    """One node: a variable (without step), or an operator with its inputs as (node number, result number)."""

    name: str
    step: Step | None
    inputs: tuple[tuple[int, int], ...]
    outs: tuple[Aval | None, ...]

    @property
    def op(self) -> str:
        return "null" if self.step is None else self.step.op

    def attrs(self) -> dict[str, str]:
        return {} if self.step is None else self.step.attrs()


_next_variable = count().__next__
_next_null = count().__next__
_variables: WeakKeyDictionary[tape.Leaf, str] = WeakKeyDictionary()


def _variable_name(leaf: tape.Leaf) -> str:
    name = _variables.get(leaf)
    return _variables.setdefault(leaf, f"var{_next_variable()}") if name is None else name


def _recorded(head: tape.Node) -> list[tape.Node]:
    """All tape nodes behind `head`, in the order they were recorded."""
    seen = {head}
    stack = [head]
    while stack:
        parents = stack.pop().parents
        if parents is None:
            raise NBGradError(NOT_RECORDED)
        for p in parents:
            if type(p) is tape.Node and p not in seen:
                seen.add(p)
                stack.append(p)
    return sorted(seen, key=attrgetter("seq"))


class _Builder:
    """Nodes of a Symbol from nodes of the tape."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.entries: dict[Any, tuple[int, int]] = {}
        self.nulls: dict[tuple, list[list]] = {}  # (version cell, shape, kind) -> [where it was seen, entry]
        self.operators = 0

    def add(self, name: str, step: Step | None, inputs, outs) -> int:
        self.nodes.append(Node(name, step, tuple(inputs), tuple(outs)))
        return len(self.nodes) - 1

    def leaf(self, leaf: tape.Leaf) -> tuple[int, int]:
        entry = self.entries.get(leaf)
        if entry is None:
            k = self.add(_variable_name(leaf), None, (), [Aval(leaf.shape, leaf.kind.dtype)])
            entry = self.entries[leaf] = (k, 0)
        return entry

    def null(self, cell: list, known: tuple | None, seen: tuple | None) -> tuple[int, int]:
        """An operand that was not on the tape. Arrays on one memory are one argument, unless the tape tells them
        apart: by shape, or, where derivatives keep them, by address and version."""
        uses = self.nulls.setdefault((id(cell), known), [])
        for use in uses:
            if seen is None or use[0] is None or use[0] == seen:
                use[0] = use[0] or seen
                return use[1]
        out = None if known is None else Aval(known[0], known[1].dtype)
        entry = (self.add(f"null{_next_null()}", None, (), [out]), 0)
        uses.append([seen, entry])
        return entry

    def operator(self, item: tape.Node) -> None:
        step, known, seen = from_tape(item)
        inputs = []
        for k, p in enumerate(item.parents):
            if type(p) is list:
                inputs.append(self.null(p, known[k], seen.get(k)))
            else:
                inputs.append(self.leaf(p) if type(p) is tape.Leaf else self.entries[p])
        several = isinstance(item.kind, tuple)
        pairs = zip(item.shape, item.kind, strict=True) if several else [(item.shape, item.kind)]  # type: ignore
        k = self.add(f"node_{self.operators}", step, inputs, [Aval(s, kind.dtype) for s, kind in pairs])
        self.operators += 1
        self.entries[item] = (k, 0)


def build(head: tape.Node | tape.Leaf | None) -> tuple[list[Node], tuple[int, int]]:
    """The graph behind a place on the tape: its nodes, inputs before what uses them, and which result is `head`.

    Raises
    ------
    NBGradError
        If `head` is None, or part of its history was freed.
    """
    if head is None:
        raise NBGradError(NOT_RECORDED)
    builder = _Builder()
    if isinstance(head, tape.Leaf):
        return builder.nodes, builder.leaf(head)
    for item in _recorded(head):
        if item.op is tape.SELECT:
            builder.entries[item] = (builder.entries[item.parents[0]][0], item.attrs)
        elif isinstance(item.op, Constant | NoDerivative):
            builder.entries[item] = builder.null(item.attrs, (item.shape, item.kind), None)
        else:
            builder.operator(item)
    return builder.nodes, builder.entries[head]
