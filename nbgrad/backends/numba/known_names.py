"""Fingerprints by name: functions and classes of libraries with known versions, nbgrad's own, and Numba's types."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np
from numba import types as _types

from .package_sources import PACKAGE

types: Any = _types

__all__ = [
    "NoFingerprint",
    "is_own_function",
    "is_versioned",
    "library_name",
    "of_type",
    "own_class",
    "resolve_name",
    "scipy_versions",
]

#: Packages identified by their versions; :func:`.code_store.key` contains those of the first three and of Python.
_VERSIONED = {"numpy", "numba", "llvmlite", *sys.stdlib_module_names, "scipy", "numba_scipy"}
_STANDARD = os.path.dirname(os.__file__)


class NoFingerprint(TypeError):
    """Raised for something that has no fingerprint; the message says what."""


def is_own_function(value: Any) -> bool:
    """Whether a function is nbgrad's own, whose source is in the hash of all sources."""
    space = getattr(value, "__globals__", {})
    module = sys.modules.get(space.get("__name__", ""))
    file = space.get("__file__")
    return (
        getattr(module, "__dict__", None) is space
        and isinstance(file, str)
        and file.startswith(PACKAGE + os.sep)
        and value.__code__.co_filename == file
    )


def own_class(value: type) -> str | None:
    """The qualified name of a class of nbgrad; None for others."""
    file = getattr(sys.modules.get(value.__module__), "__file__", None) or ""
    if file.startswith(PACKAGE + os.sep) and resolve_name(value.__module__, value.__qualname__) is value:
        return f"{value.__module__}.{value.__qualname__}"
    return None


def is_versioned(module: ModuleType) -> bool:
    """Whether a module belongs to a library whose version is in the key, not to a user's package of that name."""
    root = module.__name__.partition(".")[0]
    if root not in _VERSIONED:
        return False
    file = getattr(sys.modules.get(root), "__file__", None)
    return root not in sys.stdlib_module_names or file is None or file.startswith(_STANDARD)


def library_name(value: Any) -> str | None:
    """The qualified name of a library object, with its version if the key lacks that; None if it has no such name."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    places = [getattr(value, "__module__", None)]
    if isinstance(value, np.ufunc):
        places = ["numpy", "scipy.special"]
    for place in places:
        module = sys.modules.get(place) if isinstance(place, str) else None
        if module is None or not isinstance(name, str) or not is_versioned(module):
            continue
        if resolve_name(module.__name__, name) is value:
            return f"{module.__name__}.{name} {scipy_versions(module.__name__)}"
    return None


def scipy_versions(module: str) -> str:
    """The versions that an object of SciPy depends on; "" for other libraries."""
    if module.partition(".")[0] not in ("scipy", "numba_scipy"):
        return ""
    return f"{_version('scipy')} {_version('numba_scipy')}"


@functools.cache
def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # rarely needed

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def resolve_name(module: str, name: str) -> Any:
    """The object that a qualified name of a module is bound to; None for local names of functions."""
    try:
        return functools.reduce(getattr, name.split("."), sys.modules.get(module))
    except AttributeError:
        return None


@functools.lru_cache(1000)
def of_type(kind: Any) -> str:
    """The fingerprint of a Numba type: its name, for types that their name describes completely."""
    parts: Iterable = ()
    if isinstance(kind, types.Array | types.DType | types.Optional):
        parts = (kind.type if isinstance(kind, types.Optional) else kind.dtype,)
    elif isinstance(kind, types.BaseTuple):
        parts = kind.types
    elif isinstance(kind, types.NumberClass):
        parts = (kind.instance_type,)
    elif isinstance(kind, types.Literal):
        if type(kind.literal_value) not in (int, str, bool):
            raise NoFingerprint(f"the type {type(kind).__name__}")
    elif not isinstance(
        kind,
        types.Number | types.Boolean | types.NoneType | types.UnicodeType
        | types.UnicodeCharSeq | types.CharSeq | types.NPDatetime | types.NPTimedelta
        | types.Record,
    ):  # fmt: skip
        raise NoFingerprint(f"an argument of the type {type(kind).__name__}")
    for part in parts:
        of_type(part)
    return f"{type(kind).__name__} {kind}"
