"""NumPy's linear algebra, by ``nbgrad.np.linalg`` where an argument is recorded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....np import linalg as _own
from ..boxes import getval, holds_box
from .wrapping import wrapped_module

__all__: list[str] = []

globals().update(wrapped_module(np.linalg, _own))


def _always(own: Callable) -> Callable:
    """A factorization whose signs are the same for what is recorded and what is not."""

    @functools.wraps(own)
    def call(*args: Any, **kwargs: Any) -> Any:
        return own(*args, **kwargs) if holds_box(args) else getval(own(*args, **kwargs))

    return call


eigh, svd = _always(_own.eigh), _always(_own.svd)


if TYPE_CHECKING:  # for type checkers, which do not see these names

    def __getattr__(name: str) -> Any: ...
