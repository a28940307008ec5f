"""Python's containers, which need no special ones here, and checks of types that see through recorded arrays."""

from __future__ import annotations

import builtins as _builtins
from typing import Any

from .boxes import Box, getval, isbox

__all__ = ["DictBox", "ListBox", "SequenceBox", "TupleBox", "dict", "isinstance", "list", "tuple", "type"]

#: The classes of recorded containers in autograd. Here containers stay what they are.
DictBox = ListBox = TupleBox = SequenceBox = Box
dict, list, tuple = _builtins.dict, _builtins.list, _builtins.tuple


def isinstance(x: Any, classes: Any) -> bool:
    """As Python's; for a recorded array, also by the class of its value."""
    return _builtins.isinstance(x, classes) or (isbox(x) and _builtins.isinstance(getval(x), classes))


def type(x: Any) -> Any:
    """As Python's; for a recorded array, the class of its value."""
    return _builtins.type(getval(x)) if isbox(x) else _builtins.type(x)
