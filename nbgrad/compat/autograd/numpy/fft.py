"""NumPy's Fourier transforms, of what is not recorded: their results are complex, which has no gradient here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

__all__: list[str] = []

globals().update({name: getattr(np.fft, name) for name in dir(np.fft) if not name.startswith("_")})


if TYPE_CHECKING:  # for type checkers, which do not see these names

    def __getattr__(name: str) -> Any: ...
