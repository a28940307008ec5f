"""Conversion of tape nodes to the nodes of a Symbol."""

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
    """A node: a variable (without step), or an operator with its inputs as (node index, result index)."""

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
    """All tape nodes that `head` depends on, in the order of recording."""
    seen = {head}
    worklist = [head]
    while worklist:
        parents = worklist.pop().parents
        if parents is None:
            raise NBGradError(NOT_RECORDED)
        for p in parents:
            if type(p) is tape.Node and p not in seen:
                seen.add(p)
                worklist.append(p)
    return sorted(seen, key=attrgetter("seq"))


class _Builder:
    """Builds the nodes of a Symbol from nodes of the tape."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.entries: dict[Any, tuple[int, int]] = {}
        self.nulls: dict[tuple, list[list]] = {}  # (version cell, shape, kind) -> [(address, version) or None, entry]
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
        """The argument for an operand that is not on the tape.

        Arrays on one memory are one argument, unless the tape distinguishes them: by shape, or, if they are saved for
        derivatives, by address and version."""
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
    """The graph of a node or leaf: its nodes in topological order, and which result is `head`.

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
