"""NumPy's random numbers, which do not depend on what is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

__all__: list[str] = []

globals().update({name: getattr(np.random, name) for name in dir(np.random) if not name.startswith("_")})


if TYPE_CHECKING:  # for type checkers, which do not see these names

    def __getattr__(name: str) -> Any: ...
