"""The fault campaign: damaged files, races, signals, mutated input and random programs, counted by what came of each.

A module of this package is a campaign. It has

* ``SHORT`` and ``LONG``: how many attempts the test-suite makes (seconds), and how many ``make faults`` makes;
* ``run(count, seed)``: makes `count` attempts and returns an :class:`Outcome`.

Any attempt that gives a wrong number, an error that is not ours, a hang or a dead process is *wrong*, and is described
so that it can be repeated. ``python -m faults [name ...]`` in ``tests/`` runs the long form and prints a table.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from dataclasses import dataclass, field
from types import ModuleType

__all__ = ["Outcome", "campaigns"]


@dataclass
class Outcome:
    """What came of the attempts: how often each harmless thing happened, and each wrong one in words."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        return self.counts.total() + len(self.wrong)


def campaigns() -> dict[str, ModuleType]:
    """All campaigns by name, in alphabetical order."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}
