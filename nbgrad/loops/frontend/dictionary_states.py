"""Which keys a dictionary has at each point of a function, as far as the source shows it.

The domain of the abstract interpretation in :mod:`.filled_dictionaries`: the keys that it has in any case, and those
that it may have. Where paths meet, it has the keys of all of them and may have those of any.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

__all__ = ["Held", "State", "joined"]


@dataclass(frozen=True)
class Held:
    """The keys of one dictionary.

    Attributes
    ----------
    keys : tuple
        Those that it has in any case, in the order in which they were put in if it is `ordered`.
    may : frozenset
        Those that it may have, with those.
    shared : bool
        Whether something else may have the dictionary, and would see it change.
    """

    keys: tuple[Hashable, ...] = ()
    may: frozenset = frozenset()
    ordered: bool = True
    shared: bool = False

    @property
    def complete(self) -> bool:
        """Whether all keys are known, and their order."""
        return self.ordered and len(self.may) == len(self.keys)

    def with_key(self, key: Hashable) -> Held:
        """After an item is set."""
        if key in self.keys:
            return self
        ordered = self.ordered and key not in self.may
        return replace(self, keys=(*self.keys, key), may=self.may | {key}, ordered=ordered)

    def with_possible_key(self, key: Hashable) -> Held:
        """After an item is perhaps set."""
        return replace(self, may=self.may | {key})

    def without_key(self, key: Hashable) -> Held:
        """After an item is taken out."""
        return replace(self, keys=tuple(k for k in self.keys if k != key), may=self.may - {key})


#: The dictionaries that are made at a point; None where no path leads there.
State = Mapping[str, Held] | None


def joined(states: Iterable[State]) -> State:
    """The state where these paths meet."""
    reached = [s for s in states if s is not None]
    return reduce(_join, reached) if reached else None


def _join(a: Mapping[str, Held], b: Mapping[str, Held]) -> Mapping[str, Held]:
    return {name: _both(a[name], b[name]) for name in a if name in b}


def _both(a: Held, b: Held) -> Held:
    keys = tuple(k for k in a.keys if k in b.keys)
    ordered = a.ordered and b.ordered and keys == tuple(k for k in b.keys if k in a.keys)
    return Held(keys, a.may | b.may, ordered, a.shared or b.shared)
