"""Kernels of several fields, as one writes them for Numba: what kernels.py measures.

Each module has functions with a scalar result, and `KERNELS`, which says how to call them. The module of the same name
that ends in ``_jax`` has them in jax, each in the form that was fastest of those tried, with the same arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import numpy as np

FIELDS = ["linear_algebra", "solvers", "stencils", "tables", "fluids", "finance", "weather", "signals", "learning"]


@dataclass(frozen=True)
class Kernel:
    """A function, and arguments for it."""

    function: Callable[..., float]
    arguments: Callable[..., tuple]  #: of a random generator and of sizes
    size: tuple[int, ...]  #: to be timed
    small: tuple[int, ...]  #: to be checked
    name: str = ""  #: if it is not that of the function
    products: bool = False  #: whether most of its time goes into products of matrices

    def label(self) -> str:
        return self.name or self.function.__name__.replace("_", "-")

    def draw(self, sizes: tuple[int, ...]) -> tuple:
        return self.arguments(np.random.default_rng(1), *sizes)


def kernels() -> dict[str, Kernel]:
    """All of them, by name."""
    found = [kernel for field in FIELDS for kernel in import_module(f"fields.{field}").KERNELS]
    return {kernel.label(): kernel for kernel in found}
