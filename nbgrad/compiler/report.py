"""Descriptions of a compiled program: a report in words, and a drawing of its graph."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.shapes import size
from ..ir.expr import topological_order
from ..ir.expr_source import pretty
from ..ir.graph import Value
from .compiled_program import Compiled
from .device.program import DeviceProgram
from .reductions import REDUCTIONS
from .schedule import Loop, TileAxis
from .statements import Statement

__all__ = ["drawing", "report"]


def _bytes(n: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} GB"


def _points(s: Statement) -> int:
    return size([a.extent for a in s.axes])


def _operations(s: Statement) -> int:
    """The approximate number of arithmetic operations."""
    if s.how == "product":
        m, n = s.value.shape[-2:]
        a, _ = s.value.inputs
        k = a.shape[-2] if s.value.attrs[0] else a.shape[-1]
        return 2 * size(s.value.shape[:-2]) * m * n * k
    each = sum(1 for node in topological_order([s.expr]) if node.fn is not None) + (s.how in REDUCTIONS)
    return each * _points(s)


def _inside(item: Loop | Statement) -> Iterable[Statement]:
    return item.statements() if isinstance(item, Loop) else [item]


def _lines(item: Loop | Statement, depth: int) -> Iterable[str]:
    pad = "  " * depth
    if isinstance(item, Statement):
        what = {"opaque": "runs the kernels of", "product": "multiplies matrices:"}.get(item.how)
        if what is None:
            shown = pretty(item.expr)
            shown = shown if len(shown) < 60 else f"{shown[:57]}..."
            how = "" if item.how == "map" else f"{item.how} of "
            yield f"{pad}{item.value!r}{list(item.value.shape)} = {how}{shown}"
        else:
            name = item.value.attrs[0].name if item.how == "opaque" else ""
            yield f"{pad}{item.value!r}: {what} {name or ' @ '.join(str(list(x.shape)) for x in item.value.inputs)}"
        return
    axis = item.axis
    of = "" if not isinstance(axis, TileAxis) else " in a block" if axis.inner else f" blocks of {axis.length}"
    yield f"{pad}for {axis.extent}{of}:"
    for part in item.body:
        yield from _lines(part, depth + 1)


def report(compiled: Compiled | DeviceProgram) -> str:
    """The loops of a program with their statements, the bytes it reads, writes and allocates, and its operations.

    Bytes are those of whole arrays, each counted once as it is read and once as it is written; what is local to a loop
    iteration is not memory traffic.
    """
    if isinstance(compiled, DeviceProgram):
        return _on_device(compiled)
    items = compiled.program.body
    statements = [s for item in items for s in _inside(item)]

    temporaries = sum(
        dtype.storage.itemsize * n for name, (dtype, n) in compiled.buffers.items() if not name.startswith("out")
    )
    stack = max((source.stack for source in compiled.sources), default=0)
    lines = [
        f"{compiled.name}: {len(statements)} statements in {len(items)} loops and calls, "
        f"{len(compiled.sources)} kernel(s)"
        + (f"; threads share {len(compiled.chunks)} of the loops" if compiled.chunks else ""),
        f"{_traffic(compiled)}; temporaries {_bytes(temporaries)}, on the stack {_bytes(stack)}",
        f"about {sum(map(_operations, statements)):.3g} operations",
        "",
    ]
    for item in items:
        lines += _lines(item, 0)
    return "\n".join(lines)


def _total(values: Iterable[Value]) -> int:
    return sum(size(v.shape) * v.dtype.storage.itemsize for v in values)


def _traffic(compiled: Compiled | DeviceProgram) -> str:
    """The bytes that a call reads and writes."""
    read, written = _bytes(_total(compiled.arguments)), _bytes(_total(compiled.outputs))
    return f"reads {read} of arguments, writes {written} of results"


def _on_device(compiled: DeviceProgram) -> str:
    """The report of a program on a GPU: the statements in each kernel."""
    statements = [m.s for g in compiled.groups for m in g.members.values() if not m.is_recomputed]
    statements += [g.product for g in compiled.groups if g.product is not None]
    calls = sum(s.how in ("product", "opaque") for s in statements)
    lines = [
        f"{compiled.name}: {len(statements)} statements in {len(compiled.kernels)} kernel(s) and "
        f"{calls} call(s) on {compiled.ctx}",
        _traffic(compiled),
        f"about {sum(map(_operations, statements)):.3g} operations",
        "",
    ]
    for g in compiled.groups:
        rows, inner = g.sizes()
        inside = f", {inner} elements in each" if g.inside else ""
        is_call = g.how in ("product", "opaque")
        if g.product is not None:
            lines += [*_lines(g.product, 0), "  each of which goes on:"]
        elif not is_call:
            lines.append(f"kernel of {rows} row(s){inside}:")
        for m in g.members.values():
            lines += _lines(m.s, 0 if is_call else 1)
    return "\n".join(lines)


def drawing(compiled: Compiled | DeviceProgram, kind: str) -> str:
    """The steps as a graph, in the language of mermaid or of Graphviz's dot."""
    seen: dict[Value, None] = {}
    stack = list(compiled.outputs)
    while stack:
        value = stack.pop()
        if value not in seen:
            seen[value] = None
            stack += [x.value for x in value.inputs]

    def text(v: Value) -> str:
        names = {"map": lambda: pretty(v.attrs[0]), "reduce": lambda: f"{v.attrs[0]} over {v.attrs[1]}"}
        names["opaque"] = lambda: v.attrs[0].name
        shown = names.get(v.op, lambda: v.op)()
        return f"{shown if len(shown) < 40 else shown[:37] + '...'} {list(v.shape)}".replace('"', "'")

    values = sorted(seen, key=lambda v: v.number)
    edges = [(x.value, v) for v in values for x in v.inputs]
    if kind == "dot":
        body = [f'  {v!r} [label="{text(v)}"];' for v in values] + [f"  {a!r} -> {b!r};" for a, b in edges]
        return "\n".join(["digraph {", *body, "}"])
    body = [f'  {v!r}["{text(v)}"]' for v in values] + [f"  {a!r} --> {b!r}" for a, b in edges]
    return "\n".join(["flowchart TD", *body])
