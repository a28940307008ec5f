"""Writes docs/kinks.md: the rows of tests/test_kinks.py, which runs them, as a page.

python tests/kink_page.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from test_kinks import BINARY, OTHERS, UNARY, value_of

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "kinks.md"

HEAD = """# Ties, kinks and poles

What operators give where they are not smooth: values and gradients at signed zeros, ties, jumps, poles, infinities and
NaN. The rules behind the rows:

* Values are NumPy's (for what NumPy has not, SciPy's).
* At a kink the gradient is a one-sided one, or 0 between opposite ones: `relu`, `abs` and `sign` have 0 at 0, `clip`
  has 1 at its limits, `hard_sigmoid` 0, `LeakyReLU` its slope at 0.
* Between two operands the first wins a tie: `maximum(a, a)` passes all to the left. Reductions give every extreme
  element the whole cotangent: `max([1, 3, 3])` has gradient `[0, 1, 1]`; a window of `Pooling` gives it to the first.
* What is constant between jumps (`floor`, `round`, comparisons) has gradient 0 everywhere, at jumps and NaN too.
* At a pole the gradient is the limit, with its sign: `sqrt` has `inf` at 0, `log` `inf` at 0 and `-inf` at -0. Where
  the function has the limit 0 (a norm of zeros, `hypot(0, 0)`), the gradient is 0.
* NaN makes NaN of the values that depend on it; the gradient is NaN where the derivative reads it (`exp`), and is not
  where that is a constant (`clip`, `maximum`).
* A cotangent that is zero contributes zero, whatever it is multiplied by (a *strong zero*): elementwise operators give
  0 for it where their derivative is infinite or NaN, to every order. So a branch that is not taken does not leak:
  `where(x > 0, sqrt(x), 0*x)` and `where(x > 0, x*log(x), 0*x)` have gradient 0 at 0. What is not zero times infinity
  stays infinite, zero itself stays differentiable (Hessians are right where a cotangent happens to be zero), and a zero
  that other factors made counts, too: `sqrt(x)**2`, in two steps, has gradient 0 at 0.
  Along an axis, `softmax`, `log_softmax`, `prod` and `cumprod` have it, too: rows that are all `-inf`, or hold NaN,
  give 0 where their cotangents are. Operators that are linear in each operand (matrix products, convolutions,
  `einsum`) multiply and add as they always did, and do not have it: 0 times an operand that is infinite is NaN there.
  Nor have `LayerNorm` and the other normalizations, which have poles at infinite operands alone.
  Compiled programs keep it where a derivative has poles or a condition chose the zero, adjoints of loops where the
  derivative of a statement has poles, where a root within one is multiplied by zero, and everywhere in functions that
  look for NaN (`np.nansum((y - a*x)**2)`, `if np.isnan(r): continue`, `r == r`): what these leave out contributes 0,
  and its partners have their gradients without it. Otherwise they have none within a statement: `exp(-1/(x*x))` and
  `sqrt(x)**2` have NaN at 0, and 0 as two statements; tangents have NaN. Nor where a factor is a variable that is
  infinite itself: in `l = log(x); h = l*x` the derivative of `h` by `x` at 0 is `l`.

Each block is one operator: operands, the result `y`, and the gradient of the sum of `y`. The tests run these rows, with
`backward()` and with `create_graph=True`. This page is generated from them: `python tests/kink_page.py`.
"""


def number(v) -> str:
    return f"{float(v):.5g}".replace("e+", "e")


def block(title: str, rows: list[tuple[str, np.ndarray]]) -> str:
    """Lines of numbers under each other; a matrix takes a line per row."""
    lines = []
    for name, values in rows:
        table = np.asarray(values, np.float64)
        table = table.reshape(-1, table.shape[-1]) if table.ndim else table.reshape(1, 1)
        lines += [(name if k == 0 else "", [number(v) for v in row]) for k, row in enumerate(table)]
    count = max(len(cells) for _, cells in lines)
    widths = [max(len(cells[k]) for _, cells in lines if k < len(cells)) for k in range(count)]
    label = max(len(name) for name, _ in lines)
    text = [
        f"{name:<{label}}  " + "  ".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=False))
        for name, cells in lines
    ]
    return "\n".join([title, *("    " + line.rstrip() for line in text)])


def blocks():
    for name, operand, gradient in UNARY:
        yield 0, block(f"{name}(x)", [("x", operand), ("y", value_of(name, [operand], {})), ("dy/dx", gradient)])
    for name, left, right, by_left, by_right in BINARY:
        value = value_of(name, [left, right], {})
        rows = [("a", left), ("b", right), ("y", value), ("dy/da", by_left), ("dy/db", by_right)]
        yield 1, block(f"{name}(a, b)", rows)
    for name, operand, attrs, gradient in OTHERS:
        given = ", ".join(["x", *(f"{k}={v!r}" for k, v in attrs.items())])
        rows = [("x", operand), ("y", value_of(name, [operand], attrs)), ("dy/dx", gradient)]
        yield 2, block(f"{name.lstrip('_')}({given})", rows)


def page() -> str:
    """The text of the page."""
    found = list(blocks())
    parts = [HEAD]
    for k, title in enumerate(("One operand", "Two operands", "With attributes, and reductions")):
        body = "\n\n".join(text for section, text in found if section == k)
        parts.append(f"## {title}\n\n```text\n{body}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
