"""The mathematics: operators, their kernels and their rules, a family a file.

Importing this package fills the registry (:mod:`nbgrad.registry`).
"""

from . import (
    activation,
    binary,
    convolution,
    creation,
    dense,
    dropout,
    extreme,
    indexing,
    join,
    layout,
    linear,
    normalization,
    optimizer,
    pooling,
    product,
    random,
    reduce,
    selection,
    shape,
    softmax,
    subscript,
    unary,
)

__all__ = [
    "activation",
    "binary",
    "convolution",
    "creation",
    "dense",
    "dropout",
    "extreme",
    "indexing",
    "join",
    "layout",
    "linear",
    "normalization",
    "optimizer",
    "pooling",
    "product",
    "random",
    "reduce",
    "selection",
    "shape",
    "softmax",
    "subscript",
    "unary",
]
