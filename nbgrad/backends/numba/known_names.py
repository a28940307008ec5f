"""What has a name that says what it is: functions and classes of libraries and of nbgrad, and types of Numba's."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np
from numba.core import types as _types

from .package_sources import PACKAGE

types: Any = _types

__all__ = ["Unfit", "found", "library", "more", "of_type", "own", "own_class", "versioned"]

#: Packages that are known by their versions; :func:`.code_store.key` has those of the first four.
_VERSIONED = {"numpy", "numba", "llvmlite", *sys.stdlib_module_names, "scipy", "numba_scipy"}
_STANDARD = os.path.dirname(os.__file__)


class Unfit(TypeError):
    """Something that has no fingerprint; the message says what."""


def own(value: Any) -> bool:
    """Whether it is a function of nbgrad's, whose source is in the hash of all sources."""
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
    file = getattr(sys.modules.get(value.__module__), "__file__", None) or ""
    if file.startswith(PACKAGE + os.sep) and found(value.__module__, value.__qualname__) is value:
        return f"{value.__module__}.{value.__qualname__}"
    return None


def versioned(module: ModuleType) -> bool:
    """Whether it is a module of a library whose version is in the key; not one of the user's that is called so."""
    root = module.__name__.partition(".")[0]
    if root not in _VERSIONED:
        return False
    file = getattr(sys.modules.get(root), "__file__", None)
    return root not in sys.stdlib_module_names or file is None or file.startswith(_STANDARD)


def library(value: Any) -> str | None:
    """The name of something in a library, if it has one, with what the key lacks of its version."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    places = [getattr(value, "__module__", None)]
    if isinstance(value, np.ufunc):
        places = ["numpy", "scipy.special"]
    for place in places:
        module = sys.modules.get(place) if isinstance(place, str) else None
        if module is None or not isinstance(name, str) or not versioned(module):
            continue
        if found(module.__name__, name) is value:
            return f"{module.__name__}.{name} {more(module.__name__)}"
    return None


def more(module: str) -> str:
    """The versions that a name of SciPy's stands for."""
    if module.partition(".")[0] not in ("scipy", "numba_scipy"):
        return ""
    return f"{_version('scipy')} {_version('numba_scipy')}"


@functools.cache
def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # nearly nobody needs it

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def found(module: str, name: str) -> Any:
    """What the name stands for in the module; None for what is inside of functions."""
    try:
        return functools.reduce(getattr, name.split("."), sys.modules.get(module))
    except AttributeError:
        return None


@functools.lru_cache(1000)
def of_type(kind: Any) -> str:
    """The name of a type of Numba's, if that says all of it."""
    parts: Iterable = ()
    if isinstance(kind, types.Array | types.DType | types.Optional):
        parts = (kind.type if isinstance(kind, types.Optional) else kind.dtype,)
    elif isinstance(kind, types.BaseTuple):
        parts = kind.types
    elif isinstance(kind, types.NumberClass):
        parts = (kind.instance_type,)
    elif isinstance(kind, types.Literal):
        if type(kind.literal_value) not in (int, str, bool):
            raise Unfit(f"the type {type(kind).__name__}")
    elif not isinstance(
        kind,
        types.Number | types.Boolean | types.NoneType | types.UnicodeType
        | types.UnicodeCharSeq | types.CharSeq | types.NPDatetime | types.NPTimedelta
        | types.Record,
    ):  # fmt: skip
        raise Unfit(f"an argument of the type {type(kind).__name__}")
    for part in parts:
        of_type(part)
    return f"{type(kind).__name__} {kind}"
