"""Entries of the registry, and what every public operator does with its arguments and ``out``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays.ndarray import NDArray
from ..autodiff import tracing
from ..autodiff.writes import check_target, overwrite
from ..core.dtypes import convertible, said
from ..core.registry import operators, register
from ..errors import DTypeError, ShapeError
from .documentation import completed
from .samples import Sample

__all__ = ["Entry", "as_array", "lookup", "namesake", "store_out"]


class Entry:
    """One operator in the registry: what users call, and what docs, tests and benchmarks read.

    Attributes
    ----------
    name : str
    aliases : tuple of str
    call : callable
        The function behind ``nd.name``.
    method : bool
        Whether NDArray has it as a method.
    rule : Elementwise or Structured or None
        The tape's rule; None for a composite.
    samples : tuple
        What tests feed it; see :mod:`nbgrad.operators.samples`.
    differentiable : bool
    params : tuple of str
        The names of an elementwise operator's scalar parameters.
    gradient : str
        For the docstring: the gradient in a few words, g being that of the result.
    operator : callable
        What stands behind the Python operator, ``x + y``: `call` without its check of keywords.
    """

    def __init__(
        self,
        name,
        aliases,
        call,
        *,
        method,
        rule,
        samples=(),
        differentiable=True,
        params=(),
        formula="",
        gradient="",
        operator=None,
    ) -> None:
        self.name: str = name
        self.aliases: tuple[str, ...] = tuple(aliases)
        self.call: Callable = call
        self.method: bool = method
        self.rule = rule
        self.samples: tuple[Sample, ...] = samples
        self.differentiable = differentiable
        self.params: tuple[str, ...] = params
        self.formula = formula
        self.operator: Callable = operator or call
        register(self)
        if not name.startswith("_"):
            call.__doc__ = completed(call.__doc__ or "", call, samples, aliases, differentiable, formula, gradient)

    @property
    def max_order(self):
        """How often results can be differentiated, where that ends: a number, or what depends on the operands."""
        return getattr(self.rule, "max_order", None)

    def __repr__(self) -> str:
        return f"<operator {self.name}>"


def as_array(x, op: str, argument: str = "data") -> NDArray:
    """`x` if it is an NDArray; else an error that says so."""
    if isinstance(x, NDArray):
        return x
    instead = ""
    if isinstance(x, np.ndarray):
        instead = "; pass nd.array(x), or nd.from_numpy(x), which takes its memory"
    elif convertible(x):
        instead = "; pass nd.array(x.to_numpy())"
    elif isinstance(x, list | tuple | float | int):
        instead = "; pass nd.array(x)"
    raise DTypeError(f"{op}: Argument {argument} must have NDArray type, but got {said(x)}{instead}")


def store_out(result: NDArray, out: NDArray | None, op: str) -> NDArray:
    """`result`, or `out` after it was given the value (and place on the tape) of `result`."""
    if out is None:
        return result
    tracing.check_write(op)
    as_array(out, op, "out")
    if out._shape != result._shape or out._kind is not result._kind:
        raise ShapeError(
            f"{op}: out must have shape {result._shape} and dtype {result._kind.dtype}, "
            f"got {out._shape} and {out._kind.dtype}"
        )
    check_target(out)
    overwrite(out, result)
    return out


def lookup(name: str) -> Entry:
    """The entry of an operator, by name or alias."""
    for entry in operators.values():
        if name == entry.name or name in entry.aliases:
            return entry
    raise KeyError(f"no operator is called {name!r}")


def namesake(name: str) -> str:
    """How users call the operator that is called as a function of another library is; "" if there is none."""
    for prefix, written in (("linalg_", "nd.linalg."), ("", "nd.")):
        if not name.startswith("_") and any(prefix + name in (e.name, *e.aliases) for e in operators.values()):
            return written + name
    return ""
