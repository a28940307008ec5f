"""Generated code with its arguments and results in order."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..backends.numba.compile import module as compiled_module
from ..backends.numba.compile import python
from ..backends.numba.exported import trusting
from .analysis.activity import plan, survey
from .arguments import apart, copies, cotangent, outputs, placed
from .codegen.checkpointing import Checkpointed, runs
from .codegen.module_source import module
from .codegen.reverse_sweep import Reverse
from .codegen.split_mode import Sweeps
from .codegen.tangent import Forward
from .ir.statements import Function, Loop

__all__ = ["Backwards", "Checkpointing", "Forwards", "Halves"]


class Backwards:
    """The adjoint for one combination of ranks and kinds of arguments; `argnums` as they were given, `halves` the same
    in two functions, once it is needed."""

    halves: Halves | None = None

    def __init__(self, f: Function, wrt: list[str], argnums: int | tuple[int, ...] | None = ()) -> None:
        self.f = f
        self.wrt = wrt
        self.argnums = argnums
        self.plan = plan(f, set(wrt))
        self._write(Reverse(f, self.plan, wrt))

    def _write(self, reverse: Reverse) -> None:
        self.reverse = reverse
        self.text = module(reverse.source(), self.f, reverse.free)
        self.entry = compiled_module(reverse.entry, self.text, reverse.arrays_of_tapes)
        self._call = trusting(self.entry)

    def more(self, args: tuple) -> tuple:
        """Further arguments of the code."""
        return ()

    def bars(self, args: tuple, cotangents: dict[str, Any], values: tuple) -> dict[str, Any]:
        """The cotangents that the code takes, by name."""
        f, names = self.f, self.reverse
        given = {**dict(zip(f.results or [], values, strict=False)), **dict(zip(f.parameters, args, strict=True))}
        wanted = dict.fromkeys([*names.seeds, *names.arrays])
        return {n: cotangent(f, n, cotangents.get(n), given.get(n)) for n in wanted}

    def stored(self, args: tuple, values: tuple) -> dict[str, int]:
        """The bytes that each tape takes for these arguments; it runs the function on them."""
        names = [*self.reverse.stored(), *(f"a copy of {n}" for n in self.reverse.copied)]
        if not names:
            return {}
        text = module(self.reverse.measure(), self.f, self.reverse.free)
        entry = compiled_module(self.reverse.entry, text)
        return dict(zip(map(self.f.explained, names), entry(*args, *self.bars(args, {}, values).values()), strict=True))

    def __call__(self, args: tuple, cotangents: dict[str, Any], values: tuple = ()) -> tuple[tuple, tuple]:
        """The results and the gradients; `values` are the results where they are known before."""
        f, names = self.f, self.reverse
        given = dict(zip(f.parameters, args, strict=True))
        bars = self.bars(args, cotangents, values)
        found = self._call(*args, *bars.values(), *self.more(args)) or ()
        count = len(f.results or [])
        numbers = dict(zip(names.numbers, found[count:], strict=True))
        gradients = []
        for n in self.wrt:
            if n in names.arrays:
                gradients.append(bars[n])
            else:
                gradients.append(numbers.get(n, np.zeros_like(given[n]) if f.ranks[n] else 0.0))
        return tuple(found[:count]), tuple(gradients)

    @cached_property
    def short(self) -> Callable:
        """``short(*args)``, the one number that comes out and the gradients in their places: all of the above, written
        out."""
        f, names = self.f, self.reverse
        at = {n: f"a{k}" for k, n in enumerate(f.parameters)}
        bars = {n: f"b{k}" for k, n in enumerate(names.arrays)}
        found = {n: f"g{k}" for k, n in enumerate(names.numbers)}
        shared = [f"may_share({at[n]}, {at[m]})" for n in f.written for m in f.parameters if f.ranks[m] and m != n]
        shared += [f"not ({at[n]}.flags.writeable and {at[n]}.flags.forc)" for n in f.written]
        lines = [f"if {' or '.join(shared)}:", f"    apart(f, ({', '.join(at.values())},))"] if shared else []
        lines += [f"{bar} = zeros_like({at[n]})" for n, bar in bars.items()]
        given = ", ".join([*at.values(), *("1.0" for _ in names.seeds), *bars.values()])
        lines.append(f"{', '.join(['y', *found.values()])}, = entry({given})")
        zero = {n: f"zeros_like({at[n]})" if f.ranks[n] else "0.0" for n in self.wrt}
        gradients = placed(f, self.wrt, self.argnums, tuple([{**zero, **bars, **found}[n] for n in self.wrt]))
        if isinstance(gradients, tuple):
            gradients = f"({''.join(f'{g}, ' for g in gradients)})"
        text = "\n    ".join([f"def call({', '.join(at.values())}):", *lines, f"return y, {gradients}"])
        used = {"entry": self._call, "zeros_like": np.zeros_like, "apart": apart, "f": f}
        return python(f.name, text, {**used, "may_share": np.may_share_memory})


class Checkpointing(Backwards):
    """The same with checkpoints in a loop; `count` says how many, or `memory` how many bytes they may take."""

    reverse: Checkpointed

    def __init__(self, plain: Backwards, loop: Loop, count: int | None, memory: int | None) -> None:
        self.f, self.wrt, self.argnums, self.plan = plain.f, plain.wrt, plain.argnums, plain.plan
        self.plain = plain
        self.count = count
        self.memory = memory
        self._write(Checkpointed(self.f, self.plan, self.wrt, loop))
        self._budget = compiled_module(
            self.reverse.budget_entry, module(self.reverse.budget(), self.f, self.reverse.free)
        )

    def snapshots(self, args: tuple) -> tuple[int, int, int]:
        """How many there are for these arguments, 0 where the tapes fit without; how large one is, and the turns."""
        turns, each, tapes = self._budget(*copies(args))
        if self.count is not None:
            return min(self.count, max(turns, 1)) if self.reverse.known else self.count, each, turns
        budget = available() // 4 if self.memory is None else self.memory
        if 0 <= tapes <= budget:
            return 0, each, turns
        return max(min(budget // max(each, 1), turns), 1), each, turns

    def more(self, args: tuple) -> tuple:
        return (self.count if self.count is not None else self.snapshots(args)[0],)

    def stored(self, args: tuple, values: tuple) -> dict[str, int]:
        count, each, turns = self.snapshots(args)
        if not count:
            return self.plain.stored(args, values)
        kept = f"{count} snapshots of {', '.join(self.reverse.state)}"
        return {kept: count * each, "turns run again": runs(turns, count), **super().stored(args, values)}

    def __call__(self, args: tuple, cotangents: dict[str, Any], values: tuple = ()) -> tuple[tuple, tuple]:
        if self.count is None and not self.snapshots(args)[0]:
            return self.plain(args, cotangents, values)
        return super().__call__(args, cotangents, values)


def _zero(y: Any) -> Any:
    """The derivative of a result that depends on nothing that is differentiated."""
    return np.zeros_like(y, y.dtype if y.dtype.kind == "f" else np.float64) if isinstance(y, np.ndarray) else 0.0


def available() -> int:
    """Bytes of memory that are free; a guess where the system does not say."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**31


class Halves:
    """The forward sweep and the sweep back. What is handed over serves for one sweep back.

    Attributes
    ----------
    stored : int or None
        The number of axes that tapes have; None if something may be missing between the sweeps: what a branch makes.
    """

    def __init__(self, f: Function, wrt: list[str]) -> None:
        sweeps = Sweeps(f, plan(f, set(wrt), fused=False), wrt)
        self.f = f
        self.cotangents = sweeps.cotangents
        forward, backward = sweeps.halves()
        self.stored = sweeps.axes() if sweeps.whole else None
        tapes = sweeps.arrays_of_tapes
        there, back = sweeps.entries
        self._forward = trusting(compiled_module(there, module(forward, f, sweeps.free), tapes))
        self._backward = trusting(compiled_module(back, module(backward, f, sweeps.free), tapes))

    def forward(self, args: tuple) -> tuple[tuple, tuple]:
        """Call the function; the results, and what is handed over."""
        found = self._forward(*args)
        results = self.f.results or []
        middle = len(results) + len(self.f.written)
        given = {n: a for n, a in zip(self.f.parameters, args, strict=True) if self.f.ranks[n]}
        for n, array in zip(self.f.written, found[len(results) : middle], strict=True):
            np.copyto(given[n], array)
        state = [a.view() if isinstance(a, np.ndarray) else a for a in found[middle:]]  # its shape is for the caller
        return tuple(given.get(n, y) for n, y in zip(results, found, strict=False)), tuple(state)

    def weights(self, args: tuple, results: tuple, cotangents: dict[str, Any]) -> tuple:
        """The cotangents of outputs as the code takes them."""
        like = dict(zip(self.f.parameters, args, strict=True)) | dict(zip(self.f.results or [], results, strict=False))
        return tuple(cotangent(self.f, n, cotangents[n], like.get(n)) for n in self.cotangents)

    def backward(self, state: tuple, weights: tuple) -> tuple:
        """The gradients."""
        return self._backward(*state, *weights)


class Forwards:
    """The tangent for one combination of ranks and kinds of arguments."""

    def __init__(self, f: Function, wrt: list[str]) -> None:
        self.f = f
        self.wrt = wrt
        self.forward = Forward(f, survey(f, set(wrt)), wrt)
        self.text = module(self.forward.source(), f, self.forward.free)
        self.entry = compiled_module(self.forward.entry, self.text)
        self._call = trusting(self.entry)

    def __call__(self, args: tuple, tangents: dict[str, Any]) -> tuple[tuple, tuple]:
        """The outputs and their tangents."""
        f, changed = self.f, self.f.written
        given = {n: a.copy() if n in changed else a for n, a in zip(f.parameters, args, strict=True)}
        dots = {n: cotangent(f, n, tangents.get(n), given[n] if f.ranks[n] else None) for n in self.forward.given}
        found = self.run((*given.values(), *dots.values()))
        count = len(f.results or [])
        arrays = outputs(f)[count:]
        values = (*found[:count], *(given[n] for n in arrays))
        given_back = found[count : 2 * count] if self.wrt else found[:count]
        active = [bool(self.wrt) and n in self.forward.dots for n in f.results or []]
        slopes = [d if there else _zero(y) for y, d, there in zip(found[:count], given_back, active, strict=True)]
        return values, (*slopes, *(dots.get(n, np.zeros_like(given[n])) for n in arrays))

    def run(self, args: tuple) -> tuple:
        """Call the code; what it returns."""
        found = self._call(*args)
        return () if found is None else found if isinstance(found, tuple) else (found,)
