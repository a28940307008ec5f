"""Records: structured arrays and their elements, whose fields are arrays of their own in generated code.

Numba could read strided fields, but two fields of one array share memory, which generated code relies on not to happen.
So fields are copied at a call, and copied back where the function modifies them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import AttrError

__all__ = ["RecordType", "is_record", "is_record_argument", "record_type"]


@dataclass(frozen=True)
class RecordType:
    """The type of a structured array of `rank` axes, or of one record, where that is 0."""

    dtype: np.dtype
    rank: int

    @property
    def _fields(self) -> tuple[str, ...]:
        return tuple([n for n in self.dtype.names or () if _has_numbers(self.dtype[n].base)])

    def inner(self, name: str) -> RecordType | None:
        """The type of a field that is structured itself; None for others."""
        field = self.dtype[name]
        return RecordType(field.base, self.rank + len(field.shape)) if field.base.names else None

    def is_number(self, name: str) -> bool:
        """Whether a field is one number, which is passed as an array of length 1."""
        return self.rank == 0 and self.dtype[name].shape == () and self.dtype[name].names is None

    def is_float(self, name: str) -> bool:
        return self.dtype[name].base.kind == "f"

    @property
    def has_floats(self) -> bool:
        return any(self.is_float(n) or ((t := self.inner(n)) is not None and t.has_floats) for n in self._fields)

    def field(self, value: Any, name: str) -> Any:
        """A field of a value, as generated code takes it: a new array."""
        names = getattr(getattr(value, "dtype", None), "names", None)
        if names is None or name not in names or np.ndim(value) != self.rank:
            wanted = f"{self.rank} axes and the fields {', '.join(self._fields)}"
            raise AttrError(f"adjoint: a value with {wanted} is expected, like the argument, got {value!r}")
        part = value[name]
        if self.inner(name) is not None:
            return part
        dtype = np.dtype(np.int64) if part.dtype.kind == "u" else part.dtype.newbyteorder("=")
        copy = np.array(part, dtype=dtype, order="C", ndmin=1)
        copy.flags.writeable = getattr(value, "flags", copy.flags).writeable
        return copy

    def part(self, value: Any, name: str) -> Any:
        """A field of an argument, as it is."""
        return value[name]

    def put(self, value: Any, name: str, part: Any) -> None:
        """Set a field of a value to what generated code has for it."""
        value[name] = np.reshape(part, np.shape(value[name])) if self.inner(name) is None else part

    def zeros(self, like: Any) -> Any:
        """A value of this type whose fields are 0."""
        if isinstance(like, np.ndarray):
            return np.zeros_like(like)
        made = np.zeros((), like.dtype)
        return made.view(np.recarray)[()] if isinstance(like, np.record) else made[()]


def is_record(tree: object) -> bool:
    """Whether a tree, or what a name is bound to, is a structured array or a record."""
    return isinstance(getattr(tree, "tuple_class", None) or getattr(tree, "of", None), RecordType)


def _has_numbers(dtype: np.dtype) -> bool:
    """Whether a field is, or has, numbers that generated code can read. It reads unsigned integers as int64."""
    return bool(dtype.names) or dtype.kind in "iub" or dtype.newbyteorder("=") in (np.float32, np.float64)


def is_record_argument(a: Any) -> bool:
    """Whether an argument is a structured array or one of its elements."""
    structured = isinstance(a, np.ndarray | np.void) and a.dtype.names is not None
    return structured and not isinstance(a, np.ma.MaskedArray)


def record_type(a: Any) -> RecordType:
    return RecordType(a.dtype, a.ndim)
