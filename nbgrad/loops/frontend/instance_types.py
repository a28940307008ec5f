"""Instances of jitclasses as arguments: records whose array fields are the arrays of the instance, not copies.

Numbers are copied into arrays of length 1 at a call, and back where the function sets them. So names for an instance,
and methods that set its fields, refer to the same numbers, as those of records do.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from ...backends.numba.jitclasses import address_of_instance, class_name, fields_of, instance_type, own_name
from ...errors import AttrError, TraceError
from .record_types import RecordType

__all__ = ["InstanceType", "as_direction", "is_instance", "number_parameters", "type_of_instance"]


@dataclass(frozen=True)
class InstanceType(RecordType):
    """The type of an instance; `kind` is Numba's."""

    kind: Any = None

    @property
    def name(self) -> str:
        return class_name(self.kind)

    @property
    def _fields(self) -> tuple[str, ...]:
        return tuple(fields_of(self.kind))

    def own_name(self, name: str) -> str:
        """The name of an attribute as the class has it: that of a private one begins with the class's."""
        return own_name(self.kind, name)

    def inner(self, name: str) -> RecordType | None:
        kind = fields_of(self.kind)[name].instance
        return None if kind is None else _type(kind)

    def is_number(self, name: str) -> bool:
        field = fields_of(self.kind)[name]
        return field.rank is None and field.instance is None

    def is_float(self, name: str) -> bool:
        dtype = fields_of(self.kind)[name].dtype
        return dtype is not None and dtype.kind == "f"

    def field(self, value: Any, name: str) -> Any:
        """A field of an instance, or of a direction, as generated code takes it."""
        part = self.part(value, name)
        if not self.is_number(name) or (part is None and instance_type(value) is None):
            return part
        return np.array([part], fields_of(self.kind)[name].dtype) if instance_type(value) else np.array([part])

    def part(self, value: Any, name: str) -> Any:
        """A field of an instance or of a direction."""
        if instance_type(value) is not None:
            return getattr(value, name)
        if not isinstance(value, tuple | list) or len(value) != len(self._fields):
            wanted = ", ".join(self._fields)
            raise AttrError(
                f"adjoint: for an instance of {self.name}, a tuple of {len(self._fields)} is expected ({wanted}), or "
                f"an instance or None, got {value!r}"
            )
        return value[self._fields.index(name)]

    def put(self, value: Any, name: str, part: Any) -> None:
        """Set a field that is a number; arrays are those of the instance."""
        if self.is_number(name):
            setattr(value, name, part[0].item())

    def gradient(self, parts: list) -> Any:
        """The named tuple of the gradients of the fields."""
        numbers = [
            float(p[0]) if p is not None and self.is_number(n) else p for n, p in zip(self._fields, parts, strict=True)
        ]
        return _gradient_class(self.kind)(*numbers)


@lru_cache(256)
def _gradient_class(kind: Any) -> Any:
    """A named tuple for the gradients of instances. Its fields may begin with an underscore, as those of classes."""
    names = tuple(fields_of(kind))
    made = namedtuple(class_name(kind), names, rename=True)  # type: ignore[misc]
    for k, name in enumerate(names):
        if made._fields[k] != name:
            setattr(made, name, property(itemgetter(k)))
    return made


def is_instance(a: Any) -> bool:
    """Whether an argument is an instance of a jitclass."""
    return instance_type(a) is not None


def type_of_instance(a: Any) -> InstanceType:
    """The type of an instance, whose fields are checked."""
    return _type(instance_type(a))


@lru_cache(256)
def _type(kind: Any) -> InstanceType:
    for name, field in fields_of(kind).items():
        wrong = field.other or (str(field.dtype) if field.dtype is not None and field.dtype.kind == "u" else "")
        instead = "declare it int64" if not field.other else "make it an argument of its own, or several fields"
        if wrong:
            raise TraceError(
                f"adjoint: the field {name} of the jitclass {class_name(kind)} is a {wrong}; floats, integers, bools, "
                f"arrays of these and instances of jitclasses are expected: {instead}"
            )
    return InstanceType(np.dtype([]), 0, kind)


def as_direction(record: InstanceType, direction: Any) -> Any:
    """A direction in the form of a gradient; given as an instance, what is not a float in it is no direction."""
    kind = instance_type(direction)
    if kind is None:
        return direction
    if kind is not record.kind:
        raise AttrError(f"adjoint: the direction of an instance of {record.name} is one of {class_name(kind)}")
    parts = []
    for name in record._fields:
        inner, value = record.inner(name), getattr(direction, name)
        parts.append(as_direction(inner, value) if inner else value if record.is_float(name) else None)  # type: ignore[arg-type]
    return tuple(parts)


def number_parameters(form: Any, a: Any, parameters: Iterator[str]) -> list[tuple[int, set[str]]]:
    """The addresses of the instances in an argument of this form, each with the parameters that hold its numbers."""
    found: list[tuple[int, set[str]]] = []
    if form is None:
        next(parameters)
    elif isinstance(form, tuple) and isinstance(record := form[0], RecordType):
        is_one = isinstance(record, InstanceType)
        mine: set[str] = set()
        for name, inner in zip(record._fields, form[1], strict=True):
            if inner is not None:
                found += number_parameters(inner, record.part(a, name), parameters)
            else:
                parameter = next(parameters)
                mine |= {parameter} if is_one and record.is_number(name) else set()
        found += [(address_of_instance(a), mine)] if is_one else []
    elif isinstance(form, tuple):
        for inner, part in zip(form[1], a, strict=True):
            found += number_parameters(inner, part, parameters)
    return found
