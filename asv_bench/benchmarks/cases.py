"""What is timed, and the same in NumPy: elementwise operators read off the registry, the rest a table.

A case makes operands of about `n` elements (NumPy arrays, from a fixed seed) and computes the same from them
with nbgrad and with NumPy. Both allocate their results, and both results have the operands' dtype: NumPy's
comparisons pay for the conversion of their bools, which is what a user who wants numbers pays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy import special

from nbgrad import nd
from nbgrad.core.registry import operators
from nbgrad.operators.elementwise import Elementwise

__all__ = ["Case", "elementwise", "movements", "reductions"]


class Case(NamedTuple):
    """A name; `make(n)` gives the operands; `ours` takes them as NDArrays, `theirs` as NumPy arrays."""

    name: str
    make: Callable[[int], tuple[np.ndarray, ...]]
    ours: Callable
    theirs: Callable


_REDUCTIONS = ("sum", "mean", "prod", "nansum", "nanprod", "max", "min", "argmax", "argmin", "norm", "logsumexp")

#: Where the reference that tests compare with is not what one would use for its speed.
_SPEEDY: dict[str, Callable] = {
    "gelu": lambda x: x * special.ndtr(x),
    "smooth_l1": lambda x, scalar=1.0: np.where(np.abs(x) < 1, 0.5 * x * x, np.abs(x) - 0.5),
}


def _same_dtype(function: Callable, attrs: dict) -> Callable:
    def call(*arrays):
        result = function(*arrays, **attrs)
        return result if result.dtype == arrays[-1].dtype else result.astype(arrays[-1].dtype)

    return call


def _uniform(domains, n: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return tuple(rng.uniform(*domain, n) for domain in domains)


def _ranges(inputs, theirs: Callable) -> list[tuple[float, float]]:
    """Both signs where the function is defined there, so that no branch is always taken; else where tests sample."""
    wide = [(-2.0, 2.0)] * len(inputs)
    with np.errstate(all="ignore"):
        defined = np.isfinite(theirs(*_uniform(wide, 100))).all()
    return wide if defined else [(i.low, i.high) for i in inputs]


def elementwise() -> Iterator[Case]:
    """One case per public elementwise operator."""
    for name, entry in operators.items():
        if name.startswith("_") or not isinstance(entry.rule, Elementwise):
            continue
        sample = entry.samples[0]
        theirs = _same_dtype(_SPEEDY.get(name, sample.reference), {} if name not in _SPEEDY else sample.attrs)
        yield Case(
            name,
            lambda n, inputs=sample.inputs, theirs=theirs: _uniform(_ranges(inputs, theirs), n),
            lambda *arrays, call=entry.call, attrs=sample.attrs: call(*arrays, **attrs),
            theirs,
        )


def _square(n: int) -> tuple[np.ndarray, ...]:
    side = round(n**0.5)
    return (_uniform([(-2.0, 2.0)], side * side)[0].reshape(side, side),)


def _cube(n: int) -> tuple[np.ndarray, ...]:
    side = round((n / 16) ** 0.5)
    return (_uniform([(-2.0, 2.0)], 16 * side * side)[0].reshape(side, 16, side),)


def _two(n: int) -> tuple[np.ndarray, ...]:
    (x,) = _square(n)
    return x, x[::-1].copy()


def _row(n: int) -> tuple[np.ndarray, ...]:
    (x,) = _square(n)
    return x, x[:1].copy()


def _column(n: int) -> tuple[np.ndarray, ...]:
    (x,) = _square(n)
    return x, x[:, :1].copy()


def _rows_to_take(n: int) -> tuple[np.ndarray, ...]:
    (x,) = _square(n)
    return x, np.random.default_rng(1).integers(0, len(x), len(x))


def _masked(n: int) -> tuple[np.ndarray, ...]:
    (x,) = _square(n)
    return x, x > 0


def reductions() -> Iterator[Case]:
    """Reductions over all elements, the last axis, the first, and the middle one of three."""
    theirs = {"norm": lambda x, axis=None: np.sqrt(np.sum(x * x, axis)), "logsumexp": special.logsumexp}
    layouts = {"all": (_square, None), "last": (_square, 1), "first": (_square, 0), "middle": (_cube, 1)}
    for name in _REDUCTIONS:
        ours, reference = operators[name].call, theirs.get(name) or getattr(np, name)
        for label, (make, axis) in layouts.items():
            yield Case(
                f"{name} {label}",
                make,
                lambda x, call=ours, axis=axis: call(x, axis=axis),
                lambda x, call=reference, axis=axis: call(x, axis=axis),
            )


def movements() -> Iterator[Case]:
    """Operators that move elements, broadcasting, and choosing."""
    yield Case("add row", _row, lambda x, r: x + r, lambda x, r: x + r)
    yield Case("add column", _column, lambda x, c: x + c, lambda x, c: x + c)
    yield Case("multiply scalar", _square, lambda x: x * 1.5, lambda x: x * 1.5)
    yield Case("power scalar 2", _square, lambda x: x**2, lambda x: x**2)
    yield Case("where", _two, lambda x, y: nd.where(x > y, x, y), lambda x, y: np.where(x > y, x, y))
    yield Case("transpose", _square, lambda x: x.transpose(), lambda x: x.T.copy())
    yield Case("transpose 0,2,1", _cube, lambda x: x.transpose(axes=(0, 2, 1)), lambda x: x.transpose(0, 2, 1).copy())
    yield Case("transpose 1,0,2", _cube, lambda x: x.transpose(axes=(1, 0, 2)), lambda x: x.transpose(1, 0, 2).copy())
    yield Case("transpose 2,1,0", _cube, lambda x: x.transpose(axes=(2, 1, 0)), lambda x: x.transpose(2, 1, 0).copy())
    yield Case("slice columns", _square, lambda x: x[:, 1:-1], lambda x: x[:, 1:-1].copy())
    yield Case("slice step 2", _square, lambda x: x[::2, ::2], lambda x: x[::2, ::2].copy())
    yield Case("flip", _square, lambda x: nd.flip(x, axis=1), lambda x: np.flip(x, 1).copy())
    yield Case("concat 0", _two, lambda x, y: nd.concat(x, y, dim=0), lambda x, y: np.concatenate([x, y], 0))
    yield Case("concat 1", _two, lambda x, y: nd.concat(x, y, dim=1), lambda x, y: np.concatenate([x, y], 1))
    yield Case("stack 0", _two, lambda x, y: nd.stack(x, y, axis=0), lambda x, y: np.stack([x, y], 0))
    yield Case("stack last", _two, lambda x, y: nd.stack(x, y, axis=2), lambda x, y: np.stack([x, y], 2))
    yield Case("take rows", _rows_to_take, lambda x, i: nd.take(x, i), lambda x, i: x.take(i, 0, mode="clip"))
    yield Case(
        "take columns", _rows_to_take, lambda x, i: nd.take(x, i, axis=1), lambda x, i: x.take(i, 1, mode="clip")
    )
    yield Case(
        "pick", _rows_to_take, lambda x, i: nd.pick(x, i), lambda x, i: np.take_along_axis(x, i[:, None], 1)[:, 0]
    )
    yield Case(
        "broadcast_to rows",
        _row,
        lambda x, r: nd.broadcast_to(r, shape=x.shape),
        lambda x, r: np.broadcast_to(r, x.shape).copy(),
    )
    yield Case(
        "broadcast_to columns",
        _column,
        lambda x, c: nd.broadcast_to(c, shape=x.shape),
        lambda x, c: np.broadcast_to(c, x.shape).copy(),
    )
    yield Case("tile", _row, lambda x, r: nd.tile(r, reps=(len(x), 1)), lambda x, r: np.tile(r, (len(x), 1)))
    yield Case("repeat", _row, lambda x, r: nd.repeat(r, repeats=len(x)), lambda x, r: np.repeat(r, len(x)))
    yield Case(
        "pad",
        _square,
        lambda x: nd.pad(x, mode="constant", pad_width=(1, 1, 1, 1)),
        lambda x: np.pad(x, 1),
    )
    yield Case("tril", _square, lambda x: nd.tril(x), lambda x: np.tril(x))
    yield Case("roll", _square, lambda x: nd.roll(x, 3, axis=1), lambda x: np.roll(x, 3, 1))
    yield Case("mask read", _masked, lambda x, m: x[m], lambda x, m: x[m])
    yield Case(
        "one_hot",
        lambda n: (np.random.default_rng(1).integers(0, 100, n // 100),),
        lambda i: nd.one_hot(i, 100, dtype="float64"),
        lambda i: np.eye(100)[i],
    )
    yield Case("copy", _square, lambda x: x.copy(), lambda x: x.copy())
    yield Case("cast float32", _square, lambda x: x.astype("float32"), lambda x: x.astype("float32"))
    yield Case("dot", _two, lambda x, y: nd.dot(x, y), lambda x, y: x @ y)
    yield Case("dot transpose_b", _two, lambda x, y: nd.dot(x, y, transpose_b=True), lambda x, y: x @ y.T)
