"""A call of a primitive's function: its nested arguments, and what it returns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays.launch import common_conventions
from ..arrays.ndarray import NDArray, from_value
from ..autodiff.state import state
from ..backends.numba.compile import is_nopython
from ..backends.numba.result_types import result_form
from ..compiler import opaque
from ..core.context import Context
from ..core.conventions import Conventions
from ..core.dtypes import require_readable
from ..core.shapes import Shape, size
from ..core.source_text import constant_source
from ..errors import DTypeError, NBGradError
from ..functional.pytrees import flatten
from ..loops.differentiable_operator import OperatorVariant

__all__ = ["MISSING", "PrimitiveCall", "described_briefly", "listed", "results_of"]

MISSING = "{name}: there is no cotangent for argument {k}; one per argument is needed, None for zero"


class PrimitiveCall:
    """A call of a function with nested arguments; `places` are the indices of leaves that are arrays."""

    def __init__(self, function: Callable, name: str, args: tuple) -> None:
        self.function = function
        self.name = name
        self.leaves: list = []
        self.build: Callable[[Iterator], tuple] = flatten(args, self.leaves)
        if is_nopython(function):
            require_readable(name, self.leaves)
        self.places = [k for k, x in enumerate(self.leaves) if isinstance(x, NDArray)]
        self.arrays: list[NDArray] = [self.leaves[k] for k in self.places]
        self.derived: OperatorVariant | str = ""  # or the reason why there is none

    def args(self, arrays: Sequence[Any]) -> tuple:
        """The arguments with the arrays replaced."""
        return self.build(iter(self.with_arrays(arrays).leaves))

    def with_arrays(self, arrays: Sequence[Any]) -> PrimitiveCall:
        """The same call with other arrays."""
        call = copy.copy(self)
        call.arrays, call.leaves = list(arrays), list(self.leaves)
        for k, x in zip(self.places, arrays, strict=True):
            call.leaves[k] = x
        return call

    def without_arrays(self) -> PrimitiveCall:
        """The call without its arrays and with copies of NumPy arrays, to be saved on the tape."""
        call = copy.copy(self)
        call.arrays = []
        call.leaves = [x.copy() if isinstance(x, np.ndarray) else x for x in self.leaves]
        for k in self.places:
            call.leaves[k] = None
        return call

    def paths(self) -> dict[int, tuple[int, ...]]:
        """The path of each leaf in the arguments, through tuples and lists."""
        return dict(_paths(self.build(iter(range(len(self.leaves)))), ()))

    def conventions(self) -> Conventions:
        """Those of the results."""
        return common_conventions([x._kind for x in self.arrays], self.name, indices=True)

    def run(self, arrays: Sequence[NDArray]) -> Any:
        """The function's result for these arrays."""
        with opaque.eager_cpu_scope(state.training):
            return self.function(*self.args([_value(x) for x in arrays]))

    def native(self, results: Sequence[opaque.Aval], paths: Sequence[tuple[int, ...]]) -> Callable | None:
        """A generator of code for the call in a nopython function, if possible; see :class:`.opaque.Opaque`.

        `paths`: the path of each result in the return value.
        """
        if not is_nopython(self.function) or len(self.paths()) < len(self.leaves):
            return None

        def native(operands: list[str], names: list[str], prefix: str) -> tuple[list[str], dict[str, Any]]:
            used = {f"{prefix}_{k}": x for k, x in enumerate(self.leaves) if k not in self.places}
            leaves = [f"{prefix}_{k}" for k in range(len(self.leaves))]
            for k, flat, x in zip(self.places, operands, self.arrays, strict=True):
                leaves[k] = f"{flat}.reshape({x._shape})" if x._shape else f"{flat}[0]"
            lines = [f"{prefix} = {prefix}_call{_code(self.build(iter(leaves)))}"]
            form = result_form(self.function, self.args([_value(opaque.sample(x)) for x in self.arrays]))
            for name, aval, path in zip(names, results, paths, strict=True):
                lines += self._copy_result_code(prefix, form, path, name, aval.shape)
            return lines, {f"{prefix}_call": self.function, **used}

        return native

    def _copy_result_code(self, code: str, form: Any, path: Sequence[int], name: str, shape: Shape) -> list[str]:
        """Code that copies the result at `path` of the expression `code` into the flat array `name`."""
        for k in path:
            if not isinstance(form, tuple) and path == (0,):  # a single one need not be in a tuple
                break
            if not isinstance(form, tuple) or k >= len(form):
                raise NBGradError(MISSING.format(name=self.name, k=path[0]))
            code, form = f"{code}[{k}]", form[k]
        if form is None:
            return [f"{name}[:] = 0"]
        if form == "number" and not shape:
            return [f"{name}[0] = {code}"]
        if form != "array":
            raise DTypeError(f"{self.name}: it gives {form} where an array of shape {shape} is expected")
        wrong = " or ".join(f"{code}.shape[{d}] != {n}" for d, n in enumerate(shape))
        message = f"{self.name}: an array of another shape than {shape} came out, which was expected"
        check = [f"if {wrong}:", f"    raise ValueError({constant_source(message)})"] if shape else []
        return [*check, f"{name}[:] = np.ascontiguousarray({code}).reshape({size(shape)})"]


def _code(tree: Any) -> str:
    """Code for a nested tuple of expressions."""
    return (
        tree
        if isinstance(tree, str)
        else "None"
        if tree is None
        else f"({''.join(_code(part) + ', ' for part in tree)})"
    )


def _paths(tree: Any, path: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    if isinstance(tree, int):
        yield tree, path
    elif isinstance(tree, tuple | list):
        for k, part in enumerate(tree):
            yield from _paths(part, (*path, k))


def _value(x: NDArray) -> Any:
    """The argument that a function gets for an array: a NumPy view, or a scalar."""
    return x._view() if x._shape else x._view()[()]


def listed(given: Any) -> list:
    return list(given) if isinstance(given, tuple | list) else [given]


def results_of(name: str, given: Any, ctx: Context, conventions: Conventions) -> list[NDArray]:
    """Copies of the results of `forward` as arrays with these conventions."""
    arrays = []
    for k, y in enumerate(listed(given)):
        values = np.asarray(y) if isinstance(y, np.ndarray | np.generic | float | int) else None
        if values is None or values.dtype.kind not in "fiub":
            what = f"{name}: result {k} must be an array of real numbers or a number"
            raise DTypeError(f"{what}, got {described_briefly(y)}")
        try:
            arrays.append(from_value(values, ctx=ctx, conventions=conventions))
        except DTypeError as err:
            raise DTypeError(f"{name}: result {k}: {err}") from None
    return arrays


def described_briefly(y: Any) -> str:
    return f"an array of dtype {y.dtype}" if isinstance(y, np.ndarray) else f"{y!r}"
