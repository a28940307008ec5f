"""In-place operators: ``x += y`` and its like."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

import numpy as np

from ..arrays.launch import cast_into
from ..arrays.ndarray import NDArray
from ..arrays.sharing import is_exported, memory_sharers
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
        tracing.check_write(f"in-place {name}")
        redefines = self._kind.conventions is not MXNET and state.recording
        recorded = isinstance(other, NDArray) and other._node is not None
        self._before_write(recorded)
        redefines = redefines and (recorded or on_tape(self))
        if not redefines:
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
        if redefines:
            result = reinterpreted(result, self._kind.conventions)
            redefine(self, result if result._kind is self._kind else cast(result, self._kind))
        else:
            leave_to_tape(self)
            cast_into(result._buf, result._kind, self._buf, self._kind)
            self._cell[0] += 1
        self._after_write()
        return self

    inplace.__name__ = f"__i{name}__"
    return inplace


def _is_number(x: NDArray) -> bool:
    """Whether an array is a number in NumPy, which is immutable: in-place operators bind the name to another one."""
    if x._shape or x._kind.conventions is MXNET:
        return False
    return x._kind.traced or not (memory_sharers(x) or is_exported(x) or is_variable(x))
