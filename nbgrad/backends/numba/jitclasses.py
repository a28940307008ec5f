"""Classes that ``numba.experimental.jitclass`` made: the fields of their instances, methods and properties."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import types

from .internals import address_of_instance, as_dtype

__all__ = [
    "Field",
    "address_of_instance",
    "class_name",
    "fields_of",
    "instance_type",
    "method_of",
    "own_name",
    "property_of",
]


class Field(NamedTuple):
    """A field: its dtype and number of axes, None for a number; or the type of an instance; or what else it is."""

    dtype: np.dtype | None = None
    rank: int | None = None
    instance: Any = None
    other: str = ""


def instance_type(value: object) -> Any:
    """Numba's type of an instance of a jitclass; None for other values."""
    kind = getattr(value, "_numba_type_", None)
    return kind if isinstance(kind, types.ClassInstanceType) else None


def class_name(kind: Any) -> str:
    return kind.class_type.class_name


@lru_cache(256)
def fields_of(kind: Any) -> dict[str, Field]:
    """The fields of instances of this type, in order."""
    return {name: _field(t) for name, t in kind.struct.items()}


def _field(kind: Any) -> Field:
    if isinstance(kind, types.ClassInstanceType):
        return Field(instance=kind)
    is_array = isinstance(kind, types.Array)
    element = kind.dtype if is_array else kind
    if not isinstance(element, types.Integer | types.Float | types.Boolean) or (is_array and not kind.ndim):
        return Field(other=str(kind))
    return Field(as_dtype(element), kind.ndim if is_array else None)


def own_name(kind: Any, name: str) -> str:
    """The name of an attribute as Python has it: that of a private one begins with the class's."""
    private = name.startswith("__") and not name.endswith("__")
    return f"_{class_name(kind).lstrip('_')}{name}" if private else name


def method_of(kind: Any, name: str) -> tuple[Callable, bool] | None:
    """The Python function of a method, and whether it takes the instance; None if there is no such method."""
    for methods, takes_instance in ((kind.jit_methods, True), (kind.jit_static_methods, False)):
        if name in methods:
            return methods[name].py_func, takes_instance
    return None


def property_of(kind: Any, name: str, which: str = "get") -> Callable | None:
    """The Python function that gets or sets a property; None if there is none."""
    function = kind.jit_props.get(name, {}).get(which)
    return None if function is None else function.py_func
