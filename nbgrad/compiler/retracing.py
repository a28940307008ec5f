"""Check that a function retraced for its derivatives is still the one that was compiled.

A derivative is traced from the function, not from its compiled steps. If a global or an attribute that it reads has
changed in between, the derivative would be that of another function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TraceError

if TYPE_CHECKING:
    from ..arrays.ndarray import NDArray
    from ..ir.graph import ShapedValue, Value

__all__ = ["check_same"]

_CHANGED = (
    "{name}: a number, function or array that it reads from outside has changed since it was {when}, and its "
    "gradient would not be that of its value: {advice}"
)


def check_same(
    name: str,
    when: str,
    advice: str,
    old: Iterable[ShapedValue],
    new: Iterable[ShapedValue],
    known: Mapping[Value, Value],
    read: tuple[Mapping[Value, NDArray], Mapping[Value, NDArray]],
) -> None:
    """Check that results of two graphs come from equal steps.

    Python code that runs as a step is not compared.

    Parameters
    ----------
    name, when, advice : str
        For the error message.
    old, new : iterable of ShapedValue
        The results.
    known : mapping
        Arguments of the old graph -> those of the new one.
    read : pair of mappings
        Arguments -> the captured arrays that they are bound to, in the old graph and in the new. They must be the same
        array, or arrays with equal values, which a function may create each time.

    Raises
    ------
    TraceError
        If they do not.
    """
    if not _same(list(zip(old, new, strict=True)), dict(known), read):
        raise TraceError(_CHANGED.format(name=name, when=when, advice=advice))


def _same(
    stack: list[tuple[ShapedValue, ShapedValue]],
    known: dict[Value, Value],
    read: tuple[Mapping[Value, NDArray], Mapping[Value, NDArray]],
) -> bool:
    while stack:
        a, b = stack.pop()
        x, y = a.value, b.value
        if a.shape != b.shape:
            return False
        if known.get(x) is y:
            continue
        if x.op == "argument":
            if y.op != "argument" or not _equal(read[0].get(x), read[1].get(y)):
                return False
        elif x in known or (x.op, x.shape, x.dtype) != (y.op, y.shape, y.dtype) or len(x.inputs) != len(y.inputs):
            return False
        elif x.op == "opaque":
            if not _same_run(*x.attrs, *y.attrs):
                return False
        elif x.attrs != y.attrs:
            return False
        known[x] = y
        stack += zip(x.inputs, y.inputs, strict=True)
    return True


def _same_run(run: Any, results: Sequence, other: Any, other_results: Sequence) -> bool:
    """Whether two opaque steps do the same: operators by their attributes, loops and branches by their steps."""
    if type(run) is not type(other) or results != other_results:
        return False
    parts, others = run.subprograms, other.subprograms
    return (
        run.name == other.name
        and run.form == other.form
        and len(parts) == len(others)
        and all(
            len(p.arguments) == len(q.arguments)
            and len(p.results) == len(q.results)
            and _same(list(zip(p.results, q.results)), dict(zip(p.arguments, q.arguments)), ({}, {}))
            for p, q in zip(parts, others)
        )
    )


def _equal(a: NDArray | None, b: NDArray | None) -> bool:
    """Whether two captured arrays are the same, or have equal values."""
    if a is None or b is None or a is b:
        return a is b and a is not None
    if a._kind is not b._kind or a._shape != b._shape or a._kind.traced:
        return False
    return np.array_equal(a.asnumpy(), b.asnumpy(), equal_nan=True)
