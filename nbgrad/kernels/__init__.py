"""The mathematics: operators, their kernels and their rules, a family a file.

Importing this package fills the registry (:mod:`nbgrad.registry`).
"""

from . import (  # noqa: F401
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
    scan,
    selection,
    shape,
    softmax,
    statistics,
    subscript,
    unary,
)
