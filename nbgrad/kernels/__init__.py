"""The mathematics: operators, their kernels and their rules, a family a file.

Importing this package fills the registry (:mod:`nbgrad.registry`).
"""

from . import (
    binary,
    creation,
    extreme,
    indexing,
    join,
    layout,
    linear,
    product,
    random,
    reduce,
    selection,
    shape,
    subscript,
    unary,
)

__all__ = [
    "binary",
    "creation",
    "extreme",
    "indexing",
    "join",
    "layout",
    "linear",
    "product",
    "random",
    "reduce",
    "selection",
    "shape",
    "subscript",
    "unary",
]
