"""Registry entries, and the handling of arguments and ``out`` that all public operators share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..arrays.launch import common_conventions
from ..arrays.ndarray import NDArray
from ..autodiff import tracing
from ..autodiff.state import recording
from ..autodiff.writes import check_target, leave_to_tape, on_tape, overwrite, redefine
from ..core.conventions import MXNET
from ..core.dtypes import convertible, describe_argument
from ..core.registry import operators, register
from ..errors import DTypeError, ShapeError
from .cast import reinterpreted
from .documentation import complete_docstring
from .samples import Sample

__all__ = ["Entry", "as_array", "lookup", "public_name", "store_out"]


class Entry:
    """One operator in the registry: the public function, and the data for docs, tests and benchmarks.

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
        Its test inputs; see :mod:`nbgrad.operators.samples`.
    differentiable : bool
    params : tuple of str
        The names of an elementwise operator's scalar parameters.
    gradient : str
        For the docstring: the gradient in a few words, in terms of g, that of the result.
    operator : callable
        The implementation of the Python operator, ``x + y``: `call` without its check of keywords.
    scalar_forms : (callable, callable) or None
        Of an operator of two arrays: those of a scalar and an array, see :func:`.declare.scalar_forms`.
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
        scalar_forms=None,
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
        self.scalar_forms: tuple[Callable, Callable] | None = scalar_forms
        register(self)
        if not name.startswith("_"):
            call.__doc__ = complete_docstring(
                call.__doc__ or "", call, samples, aliases, differentiable, formula, gradient
            )

    @property
    def max_order(self):
        """How often results can be differentiated: a number, or a function of the node; None if without limit."""
        return getattr(self.rule, "max_order", None)

    def __repr__(self) -> str:
        return f"<operator {self.name}>"


def as_array(x, op: str, argument: str = "data") -> NDArray:
    """`x` if it is an NDArray; else raise an error that says what to pass."""
    if isinstance(x, NDArray):
        return x
    instead = ""
    if isinstance(x, np.ndarray) and argument == "out":
        instead = "; out must be an array of the class of the others"
    elif isinstance(x, np.ndarray):
        instead = "; pass nd.array(x), or nd.from_numpy(x), which takes its memory"
    elif convertible(x):
        instead = "; pass nd.array(x.to_numpy())"
    elif isinstance(x, list | tuple | float | int):
        instead = "; pass nd.array(x)"
    raise DTypeError(f"{op}: Argument {argument} must have NDArray type, but got {describe_argument(x)}{instead}")


def store_out(result: NDArray, out: NDArray | None, op: str) -> NDArray:
    """`result`, or `out` after the value (and tape node) of `result` was stored in it."""
    if out is None:
        return result
    as_array(out, op, "out")
    traced = tracing.current.graph is not None
    common_conventions([result._kind if traced else out._kind, result._kind], op)
    result = reinterpreted(result, out._kind.conventions)
    same = out._kind.dtype is result._kind.dtype if traced else out._kind is result._kind
    if out._shape != result._shape or not same:
        raise ShapeError(
            f"{op}: out must have shape {result._shape} and dtype {result._kind.dtype}, "
            f"got {out._shape} and {out._kind.dtype}"
        )
    if traced:
        out._write_traced(result, op)
    else:
        out._write(result._node is not None, partial(_put, out, result))
    return out


def _put(out: NDArray, result: NDArray) -> None:
    if out._kind.conventions is not MXNET and recording() and on_tape(out):
        redefine(out, result)
    else:
        check_target(out)
        leave_to_tape(out)
        overwrite(out, result)


def lookup(name: str) -> Entry:
    """The entry of an operator, by name or alias."""
    for entry in operators.values():
        if name == entry.name or name in entry.aliases:
            return entry
    raise KeyError(f"no operator is called {name!r}")


def public_name(name: str) -> str:
    """The public name of the operator with the name of another library's function; "" if there is none."""
    for prefix, public in (("linalg_", "nd.linalg."), ("", "nd.")):
        if not name.startswith("_") and any(prefix + name in (e.name, *e.aliases) for e in operators.values()):
            return public + name
    return ""
