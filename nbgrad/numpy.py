"""Another name of :mod:`nbgrad.np`: ``import nbgrad.numpy as np`` gives the same module."""

from __future__ import annotations

import sys

from . import np

__all__: list[str] = []

sys.modules[__name__] = np
