"""Generated code with its arguments and results in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codegen.compile import module as compiled_module
from .analysis import plan
from .arguments import cotangent, outputs, written
from .forward import Forward
from .ir import Function
from .reverse import Reverse, module

__all__ = ["Backwards", "Forwards"]


class Backwards:
    """The adjoint for one combination of ranks and kinds of arguments."""

    def __init__(self, f: Function, wrt: list[str]) -> None:
        self.f = f
        self.wrt = wrt
        self.reverse = Reverse(f, plan(f, set(wrt)), wrt)
        self.text = module(self.reverse.source(), f, self.reverse.helpers)
        self.entry = compiled_module(f"{f.name}_adjoint", self.text)

    def bars(self, args: tuple, cotangents: dict[str, Any], values: tuple) -> dict[str, Any]:
        """The cotangents that the code takes, by name."""
        f, names = self.f, self.reverse
        given = {**dict(zip(f.results or [], values, strict=False)), **dict(zip(f.parameters, args, strict=True))}
        wanted = dict.fromkeys([*names.seeds, *names.arrays])
        return {n: cotangent(f, n, cotangents.get(n), given.get(n)) for n in wanted}

    def stored(self, args: tuple, values: tuple) -> dict[str, int]:
        """The bytes that each tape takes for these arguments; it runs the function on them."""
        if not self.reverse.stored():
            return {}
        text = module(self.reverse.measure(), self.f, self.reverse.helpers)
        entry = compiled_module(f"{self.f.name}_adjoint", text)
        return dict(zip(self.reverse.stored(), entry(*args, *self.bars(args, {}, values).values()), strict=True))

    def __call__(self, args: tuple, cotangents: dict[str, Any], values: tuple = ()) -> tuple[tuple, tuple]:
        """The results and the gradients; `values` are the results where they are known before."""
        f, names = self.f, self.reverse
        given = dict(zip(f.parameters, args, strict=True))
        bars = self.bars(args, cotangents, values)
        found = self.entry(*args, *bars.values()) or ()
        count = len(f.results or [])
        numbers = dict(zip(names.numbers, found[count:], strict=True))
        gradients = []
        for n in self.wrt:
            if n in names.arrays:
                gradients.append(bars[n])
            else:
                gradients.append(numbers.get(n, np.zeros_like(given[n]) if f.ranks[n] else 0.0))
        return tuple(found[:count]), tuple(gradients)


class Forwards:
    """The tangent for one combination of ranks and kinds of arguments."""

    def __init__(self, f: Function, wrt: list[str]) -> None:
        self.f = f
        self.wrt = wrt
        self.forward = Forward(f, plan(f, set(wrt)), wrt)
        self.text = module(self.forward.source(), f, self.forward.helpers)
        self.entry = compiled_module(f"{f.name}_tangent", self.text)

    def __call__(self, args: tuple, tangents: dict[str, Any]) -> tuple[tuple, tuple]:
        """The outputs and their tangents."""
        f, changed = self.f, written(self.f)
        given = {n: a.copy() if n in changed else a for n, a in zip(f.parameters, args, strict=True)}
        dots = {n: cotangent(f, n, tangents.get(n), given[n] if f.ranks[n] else None) for n in self.forward.given}
        found = self.run((*given.values(), *dots.values()))
        count = len(f.results or [])
        arrays = outputs(f)[count:]
        values = (*found[:count], *(given[n] for n in arrays))
        return values, (*found[count:], *(dots.get(n, np.zeros_like(given[n])) for n in arrays))

    def run(self, args: tuple) -> tuple:
        """Call the code; what it returns."""
        found = self.entry(*args)
        return () if found is None else found if isinstance(found, tuple) else (found,)
