"""Writes docs/operators.md: every operator, and what the tests check of it.

    python tests/operator_page.py

The page is made from the registry and from the rows that tests/test_operators.py runs, so it says what is tested.
"""

from __future__ import annotations

import re
from pathlib import Path

from test_operators import DIFFERENTIABLE, ENTRIES, ORDERS

from nbgrad.operators.elementwise import Elementwise

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "operators.md"

HEAD = """# Operators

Every operator of `nd`, by name. *Orders*: up to which order its derivatives are checked against finite differences in
float64, for all samples that are differentiated and, in parentheses, for the first; any order can be asked for. `0`
means a gradient of zero wherever there is one; `-` that there is none to speak of, the result being a constant, a
position, a shape, a truth value, or an update in place. `loss`: the gradient is declared, that of a loss, and compared
with the loss's to that order. *Limit*: `max_order`, the order after which the derivatives of an operator end; most
have none. *Dtypes*: `f` is float16, float32 and float64; `i` integers and bool, kept; `i→f` integers that become the
default float dtype. Which run on a GPU, and how: [devices](devices.md).

This page is generated: `python tests/operator_page.py`.

| operator | also called | orders | limit | dtypes | what it is |
|---|---|---|---|---|---|
"""


def orders(entry) -> str:
    """Orders checked: for every sample, and at most."""
    if not entry.differentiable:
        return "0" if isinstance(entry.rule, Elementwise) else "-"
    if entry.samples[0].loss:
        return f"loss {ORDERS}"
    checked = [min(order, sample.order) for (e, sample, order) in rows() if e is entry]
    if not checked:  # its results are float32, whatever the operands are: too coarse for differences
        return "-"
    low, high = min(checked), max(checked)
    return f"{low}" if low == high else f"{low} ({high})"


def limit(entry) -> str:
    """The order after which derivatives end, where they do; `a` and `b` are the operands."""
    end = entry.max_order
    return "" if end is None else repr(end).replace("x0", "a").replace("x1", "b")


def rows():
    """The parameters of ``test_gradients``."""
    return [tuple(row.values) if hasattr(row, "values") else tuple(row) for row in DIFFERENTIABLE]


def dtypes(entry) -> str:
    """Dtypes that are taken."""
    if isinstance(entry.rule, Elementwise):
        return "f, i" if entry.rule.ints else "f, i→f"
    results = {sample.result for sample in entry.samples if sample.ints}
    return "f" if not results else "f, i→f" if "float" in results else "f, i"


def sentence(entry) -> str:
    """The first sentence of the docstring, for a table cell."""
    text = " ".join((entry.call.__doc__ or "").strip().split("\n\n")[0].split())
    first = re.split(r"(?<=[.;]) (?=[A-Z])", text)[0]
    return first.replace("|", "\\|").replace("``", "`").rstrip(".;")


def page() -> str:
    """The text of the page."""
    lines = []
    for entry in sorted(ENTRIES, key=lambda e: e.name.lower()):
        if not entry.name.startswith("_"):
            also = ", ".join(f"`{a}`" for a in entry.aliases if not a.startswith("_"))
            cells = f"`{entry.name}`", also, orders(entry), limit(entry), dtypes(entry), sentence(entry)
            lines.append(f"| {' | '.join(cells)} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
