"""Another name of :mod:`nbgrad.np`: ``import nbgrad.numpy as np``."""

from __future__ import annotations

from . import np as _np
from .np import *  # noqa: F403

__all__ = _np.__all__
