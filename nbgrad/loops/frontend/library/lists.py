"""Methods of lists that search them."""

from __future__ import annotations

from ..function_table import MODULES

__all__ = ["LIST_METHODS", "contains_item", "count_of", "position"]

MODULES.add(__name__)


def position(items, value):
    """``items.index(value)``."""
    for k in range(len(items)):
        if items[k] == value:
            return k
    raise ValueError("list.index: the value is not in the list")


def count_of(items, value):
    """``items.count(value)``."""
    found = 0
    for k in range(len(items)):
        found += items[k] == value
    return found


def contains_item(items, value):
    """``value in items``."""
    found = False
    for k in range(len(items)):
        if items[k] == value:
            found = True
            break
    return found


#: The methods of lists that do not change them.
LIST_METHODS = {"index": position, "count": count_of}
