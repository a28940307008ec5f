"""Samples for tests and benchmarks of operators: inputs, attributes, and the same function in NumPy or SciPy.

Samples are declared with their operator (``samples=table(...)``); the tests iterate over the registry.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["Input", "Sample", "sample_table"]


class Input:
    """One array of sample values.

    The values are equally spaced in a range and shuffled: no two are close (which avoids kinks and ties), and
    zero and the ends are excluded. The same input as the same operand is always the same array.

    Parameters
    ----------
    shape : tuple of int
    low, high : float
        The range. If they are equal, the array is constant and not differentiated.
    dtype : str, optional
        A fixed dtype, for indices and masks, which are not differentiated; default: the dtype under test.
    values : sequence, optional
        These values instead of generated ones; `shape` is theirs.
    grad : bool
        Whether tests differentiate with respect to it.
    """

    def __init__(
        self, shape=(), low: float = -2.0, high: float = 2.0, *, dtype: str | None = None, values=None, grad=True
    ) -> None:
        self.shape: tuple[int, ...] = tuple(shape) if values is None else np.shape(values)
        self.low, self.high = low, high
        self.dtype = dtype
        self.values = values
        self.grad = grad and dtype is None and low < high

    def __repr__(self) -> str:
        return f"{self.shape}" if self.dtype is None else f"{self.dtype}{self.shape}"

    def draw(self, place: int, dtype) -> np.ndarray:
        """The array for operand number `place`."""
        target = np.dtype(self.dtype or dtype)
        if self.values is not None:
            return np.array(self.values, target)
        n = int(np.prod(self.shape))
        order = np.random.default_rng(1000 * place + n).permutation(n)
        grid = self.low + (self.high - self.low) * (order + (0.37, 0.61, 0.23)[place % 3]) / max(n, 1)
        if target.kind not in "fc":
            grid = np.floor(grid) if target.kind != "u" else np.abs(np.floor(grid))
        return grid.reshape(self.shape).astype(target)


class Sample:
    """One row of an operator's table.

    Parameters
    ----------
    inputs : sequence of Input
        The operands, passed by position.
    reference : callable or str
        Called like the operator with NumPy arrays; or its dotted name, imported when it is used.
    attrs : dict
        Keyword attributes.
    ulp : float
        The largest deviation from the reference, in units in the last place: of each element for an elementwise
        operator, of the largest element for others.
    order : int
        The highest order to which tests differentiate.
    ints : bool
        Whether tests also use integers.
    result : str
        The result's dtype: ``"same"`` as the operands'; ``"float"``, the same for floats and the default
        float dtype for integers; or a dtype's name.
    changes : sequence of int
        The operands that are changed in place. The reference returns their new values after the results.
    training : bool
        The operator is called in training mode; otherwise in prediction mode, whoever records.
    random : bool
        It draws random numbers: the stream is reseeded before each call, also of the reference, which gets the
        operands in the dtype under test, to draw the same numbers.
    loss : callable, optional
        For an operator with a declared gradient, that of a loss: this loss as a function of the same operands,
        written with operators and called with the attributes.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        reference: Callable | str,
        attrs: dict | None = None,
        *,
        ulp: float = 0,
        order: int = 3,
        ints: bool = True,
        result: str = "same",
        changes: Sequence[int] = (),
        training: bool = False,
        random: bool = False,
        loss: Callable | None = None,
    ) -> None:
        self.inputs = tuple(inputs)
        self.attrs = attrs or {}
        self.ulp = ulp
        self.order = order
        self.ints = ints
        self.result = result
        self.changes = tuple(changes)
        self.training = training
        self.random = random
        self.loss = loss
        self._reference = reference

    def __repr__(self) -> str:
        parts = [*map(repr, self.inputs), *(f"{k}={v!r}" for k, v in self.attrs.items())]
        return ", ".join(parts + ["training"] * self.training).replace(" ", "")

    def draw(self, dtype="float64") -> list[np.ndarray]:
        """The operands as NumPy arrays."""
        return [operand.draw(place, dtype) for place, operand in enumerate(self.inputs)]

    @property
    def function(self) -> Callable:
        """The reference, called with operands and attributes."""
        if isinstance(self._reference, str):
            module, _, name = self._reference.rpartition(".")
            imported: Callable = getattr(importlib.import_module(module), name)
            self._reference = imported
            return imported
        return self._reference

    def reference(self, *arrays: np.ndarray):
        """The reference's result for these operands: an array, or a list of them."""
        return self.function(*arrays, **self.attrs)


def sample_table(reference: Callable | str, *rows: Sequence, **options) -> tuple[Sample, ...]:
    """Samples with one reference.

    Parameters
    ----------
    reference : callable or str
    *rows : sequence
        The operands (an Input, or a shape for one with the default range), followed by a dict of attributes, if any.
    **options
        As for :class:`Sample`.
    """
    samples = []
    for row in rows:
        attrs = row[-1] if row and isinstance(row[-1], dict) else {}
        inputs = [r if isinstance(r, Input) else Input(r) for r in row if not isinstance(r, dict)]
        samples.append(Sample(inputs, reference, attrs, **options))
    return tuple(samples)
