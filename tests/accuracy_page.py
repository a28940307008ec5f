"""Writes docs/accuracy.md: the rows of tests/accuracy, which test_accuracy.py measures, as a page.

python tests/accuracy_page.py
"""

from __future__ import annotations

from pathlib import Path

from test_accuracy import ROWS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "accuracy.md"

HEAD = """# Accuracy of the scalar functions

Elementwise operators are made of the functions below, which are plain arithmetic (`nbgrad/vmath`) that the compiler
turns into packed instructions together with the loop around it. The tests compare each with mpmath, with 200 bits, over
its whole domain: densely, and at the edges (subnormal arguments and results, where results overflow or underflow,
halfway cases, huge arguments), and hold it to the errors in this table, in units in the last place (ulp) of the exact
result. Angles are reduced exactly up to the largest number. Values at zeros of either sign, infinities, NaN and poles
are literal tables in the tests.

Where terms cancel next to a zero that is not 0 itself (of `gammaln`, `digamma` and `polygamma` below 0, and of
`logaddexp` where one argument is negative), the unit is that of the larger term: there the last bit of an argument
changes the result by many of its own ulp. For Bessel functions it is that of their swing, and of the terms that
negative orders are made of. "Packed" says that a loop over the function is vector code on x86-64, which the tests read
off the machine code. `float16` is computed in float32 and rounded once.

On CPUs without fused multiply-add the functions are slower; their errors were measured with it.

"""

FOOT = """

Square roots, arithmetic and rounding are exact to half a unit. The incomplete gamma functions (`gammainc`, `gammaincc`)
are integrals: their relative error is at most 2e-14 + 4e-16 |log y| of a share y; their inverses (`gammaincinv`,
`gammainccinv`) are solved to the rounding errors of the shares. The same holds for those of the beta distribution
(`betainc`, `betaincc`, and their inverses) and of Student's (`stdtr` within 3e-14, `stdtrit`). This page is generated
from the rows that the tests run: `python tests/accuracy_page.py`.
"""


def page() -> str:
    """The whole page."""
    lines = ["| function | domain | float64: at most | float32: at most | packed |", "|---|---|---|---|---|"]
    for name, row in sorted(ROWS.items()):
        packed = "yes" if row.vector else "no"
        lines.append(f"| `{name}` | {row.domain} | {row.ulp64:g} ulp | {row.ulp32:g} ulp | {packed} |")
    return HEAD + "\n".join(lines) + FOOT


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
