"""In-place operators: ``x += y`` and its like."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

import numpy as np

from ..arrays.launch import cast_into
from ..arrays.ndarray import NDArray
from ..arrays.sharing import is_exported, memory_sharers, update_sharers
from ..autodiff import tracing
from ..autodiff.state import state
from ..autodiff.writes import is_variable, leave_to_tape, on_tape, redefine
from ..core.conventions import MXNET
from ..errors import DTypeError, ShapeError
from ..kernels.subscript import check_write
from ..operators.cast import cast, reinterpreted

__all__ = ["operator", "rebinds"]

#: Whether in-place operators of recorded arrays of NumPy's conventions bind the name to a new one, as in HIPS autograd.
rebinds: ContextVar[bool] = ContextVar("nbgrad_rebinds", default=False)


def operator(name: str, call: Callable) -> Callable:
    """The method of an in-place operator: `y` is broadcast to `x`, and the result cast to the dtype of `x`.

    By NumPy's conventions the dtype of the result must be of the same kind, and arrays on the tape are redefined.
    Single numbers are not written: ``total += x[i]`` binds `total` to a new one, as it does with NumPy's numbers.
    """

    def inplace(self: NDArray, other) -> NDArray:
        tracked = self._kind.conventions is not MXNET and (state.recording or self._kind.traced)
        if (tracked and rebinds.get()) or _is_number(self):
            return call(self, other)
        redefines = self._kind.conventions is not MXNET and state.recording
        recorded = isinstance(other, NDArray) and other._node is not None
        traced = tracing.current.graph is not None
        redefines = redefines and (traced or recorded or on_tape(self))
        if not redefines and not traced:
            check_write(self, other)
        recording, state.recording = state.recording, redefines
        try:
            result = call(self, other)
        finally:
            state.recording = recording
        if result is NotImplemented:
            return result
        dtypes = result._kind.dtype.np, self._kind.dtype.np
        if self._kind.conventions is not MXNET and not np.can_cast(*dtypes, "same_kind"):
            raise DTypeError(
                f"in-place {name}: a result of dtype {dtypes[0]} cannot be stored in an array of {dtypes[1]}; write "
                "x = x ... instead, or convert the operand"
            )
        if result._shape != self._shape:
            raise ShapeError(
                f"in-place {name}: an operand of shape {np.shape(other)} does not broadcast into {self._shape}"
            )
        if traced:
            self._write_traced(result, f"in-place {name}")
        else:
            self._write(recorded, partial(_redefine if redefines else _overwrite, self, result))
        return self

    inplace.__name__ = f"__i{name}__"
    return inplace


def _redefine(x: NDArray, result: NDArray) -> None:
    result = reinterpreted(result, x._kind.conventions)
    redefine(x, result if result._kind is x._kind else cast(result, x._kind))


def _overwrite(x: NDArray, result: NDArray) -> None:
    leave_to_tape(x)
    cast_into(result._buf, result._kind, x._buf, x._kind)
    x._cell[0] += 1
    update_sharers(x)


def _is_number(x: NDArray) -> bool:
    """Whether an array is a number in NumPy, which is immutable: in-place operators bind the name to another one."""
    if x._shape or x._kind.conventions is MXNET:
        return False
    return x._kind.traced or not (memory_sharers(x) or is_exported(x) or is_variable(x))
