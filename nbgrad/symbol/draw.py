"""Drawing a Symbol's graph: source for Graphviz and Mermaid, and files drawn by Graphviz."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..errors import NBGradError

__all__ = ["dot", "draw", "mermaid"]


def _label(node) -> list[str]:
    if node.step is None:
        return [node.name, str(node.outs[0])]
    attrs = [f"{key}={_short(value)}" for key, value in node.attrs().items() if not key.startswith("__")]
    return [f"{node.name}: {node.op}", *attrs, *map(str, node.outs)]


def _short(text: str) -> str:
    return text if len(text) <= 30 else text[:27] + "..."


def _edges(nodes: Sequence, order: Sequence[int]) -> list[tuple[int, int, str]]:
    """(from, to, result index) of each edge; the last is empty if there is only one result."""
    return [(p, k, str(n) if len(nodes[p].outs) > 1 else "") for k in order for p, n in nodes[k].inputs]


def dot(nodes: Sequence, order: Sequence[int], heads: Sequence[tuple[int, int]]) -> str:
    """The graph in Graphviz's language."""
    ends = {k for k, _ in heads}
    lines = ["digraph symbol {", "  rankdir=BT;", "  node [fontname=monospace, fontsize=10];"]
    for k in order:
        text = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in _label(nodes[k]))
        shape = "ellipse" if nodes[k].step is None else "box"
        bold = ", penwidth=2" if k in ends else ""
        lines.append(f'  n{k} [label="{text}", shape={shape}{bold}];')
    for p, k, which in _edges(nodes, order):
        lines.append(f"  n{p} -> n{k}" + (f' [label="{which}"];' if which else ";"))
    return "\n".join([*lines, "}"]) + "\n"


def mermaid(nodes: Sequence, order: Sequence[int], heads: Sequence[tuple[int, int]]) -> str:
    """The graph in Mermaid's language."""
    lines = ["flowchart BT"]
    for k in order:
        text = "<br/>".join(line.replace('"', "#quot;").replace("<", "#lt;") for line in _label(nodes[k]))
        lines.append(f'  n{k}(["{text}"])' if nodes[k].step is None else f'  n{k}["{text}"]')
    for p, k, which in _edges(nodes, order):
        lines.append(f"  n{p} -->{f'|{which}|' if which else ''} n{k}")
    lines += [f"  style n{k} stroke-width:3px" for k in sorted({k for k, _ in heads})]
    return "\n".join(lines) + "\n"


def draw(source: str, path: str) -> None:
    """Draw `source` into a file with Graphviz.

    Raises
    ------
    NBGradError
        If Graphviz is not installed, `path` has no ending, or drawing fails.
    """
    program = shutil.which("dot")
    if program is None:
        raise NBGradError(
            "Symbol.draw: Graphviz's program 'dot' was not found; install Graphviz (https://graphviz.org), "
            "or show the text of to_dot() or to_mermaid() elsewhere"
        )
    ending = Path(path).suffix[1:]
    if not ending:
        raise NBGradError(f"Symbol.draw: the file name must end with a format such as .svg or .png, got {str(path)!r}")
    result = subprocess.run([program, f"-T{ending}", "-o", str(path)], input=source, text=True, capture_output=True)
    if result.returncode:
        raise NBGradError(f"Symbol.draw: dot failed: {result.stderr.strip()}")
