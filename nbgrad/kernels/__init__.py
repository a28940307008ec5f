"""The mathematics: operators, their kernels and their rules, a family a file.

Importing this package fills the registry (:mod:`nbgrad.registry`).
"""

from . import (
    binary,
    creation,
    indexing,
    layout,
    linear,
    random,
    reduce,
    selection,
    shape,
    unary,
)

__all__ = [
    "binary",
    "creation",
    "indexing",
    "layout",
    "linear",
    "random",
    "reduce",
    "selection",
    "shape",
    "unary",
]
