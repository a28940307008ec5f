"""Functions that generated files define for themselves."""

from __future__ import annotations

__all__ = ["GROWN", "routines"]

#: More room for a tape.
GROWN = """def grown(tape, size):
    larger = np.zeros(max(2 * tape.size, size), tape.dtype)
    larger[:tape.size] = tape
    return larger
"""

#: The schedule of checkpoints.
_AHEAD = '''def ahead(turns, snapshots):
    """How many of `turns` to run before the next snapshot, if there are `snapshots`, the present one among them."""
    if snapshots == 1:
        return turns - 1
    repeats, reach = 0, 1  # reach is the binomial coefficient of snapshots + repeats over repeats
    while reach < turns:
        repeats += 1
        reach = reach * (snapshots + repeats) // repeats
    fewer = reach * snapshots // (snapshots + repeats)  # with one snapshot less
    once = reach * repeats // (snapshots + repeats)  # with one repeat less
    twice = once * (repeats - 1) // (snapshots + repeats - 1)
    return max(twice, turns - fewer, 1)
'''


#: A sum whose additions may be reordered, so that it can be made in vector registers.
_PLUS = """def plus(total, term):
    return total + term
"""


def routines(body: str) -> str:
    """The definitions of those that `body` calls."""
    used = (text for text in (GROWN, _AHEAD, _PLUS) if f" {text[4 : text.index('(')]}(" in body)
    options = {_PLUS: '(fastmath={"reassoc", "nsz"}, forceinline=True)'}
    return "".join(f"@njit{options.get(text, '')}\n{text}\n\n" for text in used)
