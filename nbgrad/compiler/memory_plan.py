"""The memory plan: arrays that several values share, one after the other."""

from __future__ import annotations

from ..core.dtypes import DType

__all__ = ["SharedBuffers"]


class SharedBuffers:
    """Allocates arrays for values by their live ranges; ranges must be requested in the order of their starts.

    Parameters
    ----------
    letter : str
        Names of the arrays begin with it.

    Attributes
    ----------
    arrays : dict
        Name -> (dtype, number of elements).
    """

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.arrays: dict[str, tuple[DType, int]] = {}
        self._last: dict[str, int] = {}
        self._fixed: set[str] = set()

    def allocate_for(self, dtype: DType, n: int, first: int, last: int, exact: bool = False) -> str:
        """The name of an array for `n` elements that is free from `first` to `last`.

        It may be longer, unless it must be `exact` because its length is read.
        """

        def fits(name: str) -> bool:
            own, length = self.arrays[name]
            if own is not dtype or self._last[name] >= first:
                return False
            return length == n if exact else length >= n or name not in self._fixed

        def waste(name: str) -> tuple[int, int]:
            _, length = self.arrays[name]
            return max(n - length, 0), length

        name = min(filter(fits, self.arrays), key=waste, default=f"{self.letter}{len(self.arrays)}")
        _, length = self.arrays.get(name, (dtype, 0))
        self.arrays[name] = (dtype, max(n, length))
        self._last[name] = last
        if exact:
            self._fixed.add(name)
        return name
