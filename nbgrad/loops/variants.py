"""Variants: generated adjoints and tangents, for one combination of ranks and kinds of arguments each."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any

import numpy as np

from ..backends.numba.compile import module as compiled_module
from ..backends.numba.compile import python
from ..backends.numba.exported import unchecked_call
from ..errors import TraceError
from .arguments import arrange_gradients, as_cotangent, check_no_aliasing, copies, output_names
from .checkpoint_options import CheckpointOptions
from .codegen.checkpoint_levels import rerun_iterations
from .codegen.checkpointing import Checkpointed
from .codegen.module_source import module, refusing_deep_nesting
from .codegen.reverse_sweep import AdjointBuilder
from .codegen.split_mode import SplitAdjointBuilder
from .codegen.tangent import TangentBuilder
from .frontend.large_systems import are_large
from .ir.statements import Function, Loop
from .memory import TapeEstimate, available_memory
from .planning import plan, plan_tangents
from .unit_axes import UnitAxis

__all__ = ["AdjointVariant", "CheckpointedVariant", "SplitVariant", "TangentVariant"]


def _compiled(entry: str, source: str, f: Function, tapes: Collection[str] = ()) -> Callable:
    """The function `entry` of a module generated for `f`, which Numba compiles."""
    with refusing_deep_nesting(f):
        return compiled_module(entry, source, tapes)


class AdjointVariant:
    """The adjoint for one combination of ranks and kinds of arguments.

    `argnums` is as the user gave it; without `fused`, no loop is reversed iteration by iteration; `split_variant` is
    the same adjoint in split mode, generated when first needed.
    """

    split_variant: SplitVariant | None = None

    def __init__(
        self, f: Function, wrt: list[str], argnums: int | tuple[int, ...] | None = (), fused: bool = True
    ) -> None:
        self.f = f
        self.wrt = wrt
        self.argnums = argnums
        self.plan = plan(f, set(wrt), fused)
        self._write(AdjointBuilder(f, self.plan, wrt))

    def _write(self, reverse: AdjointBuilder) -> None:
        self.reverse = reverse
        self.text = module(reverse.source(), self.f, reverse.free)
        self.entry = _compiled(reverse.entry, self.text, self.f, reverse.arrays_of_tapes)
        self._call = unchecked_call(self.entry)
        self.estimate = TapeEstimate(reverse)

    def check_memory(self, args: tuple, level: int = 5) -> None:
        """Warn of tapes that are large for this machine; raise an error if they do not fit.

        `level` frames above :func:`warnings.warn` is the caller of nbgrad.
        """
        self.estimate.check(args, level)

    def extra_arguments(self, args: tuple) -> tuple:
        """Arguments of the generated function after the cotangents."""
        return ()

    def cotangent_arguments(self, args: tuple, cotangents: dict[str, Any], values: tuple) -> dict[str, Any]:
        """The cotangents that the generated function takes, by name."""
        f, names = self.f, self.reverse
        like = {**dict(zip(f.results or [], values, strict=False)), **dict(zip(f.parameters, args, strict=True))}
        needed = dict.fromkeys([*names.seeds, *names.arrays])
        return {n: as_cotangent(f, n, cotangents.get(n), like.get(n)) for n in needed}

    def tape_bytes(self, args: tuple, values: Callable[[], tuple]) -> dict[str, int]:
        """The size in bytes of each tape for these arguments; it runs the function on them if sizes depend on more.

        `values` gives the results.
        """
        names = [*self.reverse.stored_in_loops(), *(f"a copy of {n}" for n in self.reverse.copied)]
        if not names:
            return {}
        given = dict(zip(self.f.parameters, args, strict=True))
        if len(names) - len(self.reverse.copied) == len(self.estimate.tapes) and given.keys() >= {*self.reverse.copied}:
            sizes = self.estimate.bytes(args) | {f"a copy of {n}": given[n].nbytes for n in self.reverse.copied}
            return {self.f.with_user_names(n): size for n, size in sizes.items()}  # nothing needs to run
        self.check_memory(args)
        text = module(self.reverse.measure(), self.f, self.reverse.free)
        entry = _compiled(self.reverse.entry, text, self.f)
        return dict(
            zip(
                map(self.f.with_user_names, names),
                entry(*args, *self.cotangent_arguments(args, {}, values()).values()),
                strict=True,
            )
        )

    def __call__(self, args: tuple, cotangents: dict[str, Any], values: tuple = ()) -> tuple[tuple, tuple]:
        """The results and the gradients; `values` are the results if they are known already."""
        f, names = self.f, self.reverse
        self.check_memory(args)
        by_name = dict(zip(f.parameters, args, strict=True))
        bars = self.cotangent_arguments(args, cotangents, values)
        returned = self._call(*args, *bars.values(), *self.extra_arguments(args)) or ()
        count = len(f.results or [])
        scalars = dict(zip(names.scalar_wrt, returned[count:], strict=True))
        gradients = []
        for n in self.wrt:
            if n in names.arrays:
                gradients.append(bars[n])
            else:
                gradients.append(scalars.get(n, np.zeros_like(by_name[n]) if f.ranks[n] else 0.0))
        return tuple(returned[:count]), tuple(gradients)

    @cached_property
    def scalar_entry(self) -> Callable:
        """``scalar_entry(*args)`` returns the value and the gradients: `__call__` for one scalar result, written
        out. It raises :class:`.UnitAxis` if the arguments need other code."""
        return self._scalar_entry(admits=True)

    @cached_property
    def exact_entry(self) -> Callable:
        """The same for arguments of shapes that are known to need this code."""
        return self._scalar_entry(admits=False)

    def _scalar_entry(self, admits: bool) -> Callable:
        f, names = self.f, self.reverse
        at = {n: f"a{k}" for k, n in enumerate(f.parameters)}
        bars = {n: f"b{k}" for k, n in enumerate(names.arrays)}
        scalars = {n: f"g{k}" for k, n in enumerate(names.scalar_wrt)}
        lines = [*(self._admission(at) if admits else []), *self._guards(at)]
        lines += [f"{bar} = zeros_like({at[n]}, subok=False)" for n, bar in bars.items()]
        passed = ", ".join([*at.values(), *("1.0" for _ in names.seeds), *bars.values()])
        lines.append(f"{', '.join(['y', *scalars.values()])}, = entry({passed})")
        zero = {n: f"zeros_like({at[n]})" if f.ranks[n] else "0.0" for n in self.wrt}
        gradients = arrange_gradients(
            f, self.wrt, self.argnums, tuple([{**zero, **bars, **scalars}[n] for n in self.wrt])
        )
        if isinstance(gradients, tuple):
            gradients = f"({''.join(f'{g}, ' for g in gradients)})"
        text = "\n    ".join([f"def call({', '.join(at.values())}):", *lines, f"return y, {gradients}"])
        return python(f.name, text, {**self._guard_names, "entry": self._call, "zeros_like": np.zeros_like})

    @cached_property
    def admit(self) -> Callable:
        """``admit(*args)`` raises :class:`.UnitAxis` if the arguments need other code, and what is wrong with them."""
        at = {n: f"a{k}" for k, n in enumerate(self.f.parameters)}
        lines = [*self._admission(at), *self._guards(at), "return None"]
        text = "\n    ".join([f"def call({', '.join(at.values())}):", *lines])
        return python(self.f.name, text, self._guard_names)

    def _admission(self, at: dict[str, str]) -> list[str]:
        """The lines that find out whether arguments need other code; `at` are their names there."""
        f = self.f
        ones = [f"{at[n]}.shape[{d}] == 1" for n, d in f.compared_axes]
        lines = [f"if {' or '.join(ones)}:", "    raise unit_axis"] if ones else []
        if f.has_systems:
            lines += [f"if are_large(({', '.join(at.values())},)) is not {f.large_systems}:", "    raise unit_axis"]
        return lines

    def _guards(self, at: dict[str, str]) -> list[str]:
        """The lines that check arguments; `at` are their names there."""
        f = self.f
        hazards = [
            f"may_share({at[n]}, {at[m]})" for n in f.modified_parameters for m in f.parameters if f.ranks[m] and m != n
        ]
        hazards += [f"not ({at[n]}.flags.writeable and {at[n]}.flags.forc)" for n in f.modified_parameters]
        hazards += [f"not {at[n]}.flags.c_contiguous" for n in sorted(f.c_ordered | f.contiguous)]
        lines = [f"if {' or '.join(hazards)}:", f"    apart(f, ({', '.join(at.values())},))"] if hazards else []
        small = self.estimate.harmless_size
        large = [f"{at[n]}.size > {small}" for n in f.parameters if f.ranks[n]]
        large += [f"{at[n]} > {small}" for n in f.parameters if not f.ranks[n] and f.kinds.get(n) == "int"]
        if self.estimate.tapes and large:
            lines += [f"if {' or '.join(large)}:", f"    check_memory(({', '.join(at.values())},))"]
        return lines

    @property
    def _guard_names(self) -> dict[str, Any]:
        """What those lines call."""
        return {
            "unit_axis": UnitAxis,
            "are_large": are_large,
            "apart": check_no_aliasing,
            "f": self.f,
            "check_memory": self.check_memory,
            "may_share": np.may_share_memory,
        }


class CheckpointedVariant(AdjointVariant):
    """The adjoint with checkpoints in loops, each directly in the body of the one before."""

    reverse: Checkpointed

    def __init__(self, plain: AdjointVariant, loops: list[Loop], options: CheckpointOptions) -> None:
        self.f, self.wrt, self.argnums, self.plan = plain.f, plain.wrt, plain.argnums, plain.plan
        if self.f.draws:
            raise TraceError(
                f"{self.f.name}: checkpoints run iterations again, which would draw other random numbers; leave "
                "checkpoint out, or pass the numbers as an array"
            )
        if self.f.prints:
            raise TraceError(
                f"{self.f.name}: checkpoints run iterations again, which would print again; leave checkpoint out, or "
                "return what is to be printed"
            )
        self.plain = plain
        self.counts = options.counts and options.counts[: len(loops)]
        self.memory = options.memory
        self._write(Checkpointed(self.f, self.plan, self.wrt, loops))
        budget = module(self.reverse.budget(), self.f, self.reverse.free)
        self._budget = _compiled(self.reverse.budget_entry, budget, self.f)

    def check_memory(self, args: tuple, level: int = 5) -> None:
        pass  # what it stores was chosen

    def snapshots(self, args: tuple) -> tuple[tuple[int, ...], list[int], int]:
        """The numbers of snapshots for these arguments, outermost loop first (none if all tapes fit), the sizes of one,
        and the iterations of the outermost loop."""
        iterations, tapes, *sizes = self._budget(*copies(args))
        most = max(iterations, 1)
        if self.counts is not None:
            outer, *inner = self.counts
            if self.reverse.levels[0].trip_count_known:
                outer = most if self.reverse.saves_every_iteration else min(outer, most)
            return (outer, *inner), sizes, iterations
        left = available_memory() // 4 if self.memory is None else self.memory
        if 0 <= tapes <= left:
            return (), sizes, iterations
        counts: list[int] = []
        for k, each in enumerate(sizes):  # equal parts, and what the outermost loop cannot use goes to the others
            fitting = left // (len(sizes) - k) // max(each, 1)
            every = k == 0 and self.reverse.saves_every_iteration
            counts.append(most if every else max(min(fitting, most) if k == 0 else fitting, 1))
            left -= counts[k] * each
        return tuple(counts), sizes, iterations

    def extra_arguments(self, args: tuple) -> tuple:
        return self.counts if self.counts is not None else self.snapshots(args)[0]

    def tape_bytes(self, args: tuple, values: Callable[[], tuple]) -> dict[str, int]:
        counts, sizes, iterations = self.snapshots(args)
        if not counts:
            return self.plain.tape_bytes(args, values)
        found: dict[str, int] = {}
        for count, each, level in zip(counts, sizes, self.reverse.levels, strict=True):
            over = f" over {level.loop.index or 'while'}" if len(counts) > 1 else ""
            found[f"{count} snapshots of {', '.join(level.state)}{over}"] = count * each
        found["iterations run again"] = rerun_iterations(iterations, counts[0])
        return {**found, **super().tape_bytes(args, values)}

    def __call__(self, args: tuple, cotangents: dict[str, Any], values: tuple = ()) -> tuple[tuple, tuple]:
        if self.counts is None and not self.snapshots(args)[0]:
            return self.plain(args, cotangents, values)
        return super().__call__(args, cotangents, values)


def _zero(y: Any) -> Any:
    """The derivative of a result that does not depend on the differentiated arguments."""
    return np.zeros_like(y, y.dtype if y.dtype.kind == "f" else np.float64) if isinstance(y, np.ndarray) else 0.0


class SplitVariant:
    """Split mode: the forward and reverse sweeps as two functions. Each saved state serves one reverse sweep.

    Attributes
    ----------
    split_tape_axes : int or None
        The number of axes of the tapes; None if a branch may leave some of the state undefined.
    """

    def __init__(self, f: Function, wrt: list[str]) -> None:
        sweeps = SplitAdjointBuilder(f, plan(f, set(wrt), fused=False), wrt)
        self.f = f
        self.cotangents = sweeps.cotangents
        forward, backward = sweeps.split_sources()
        self.split_tape_axes = sweeps.tape_axes() if sweeps.state_always_defined else None
        tapes = sweeps.arrays_of_tapes
        forward_entry, backward_entry = sweeps.entries
        self._forward = unchecked_call(_compiled(forward_entry, module(forward, f, sweeps.free), f, tapes))
        self._backward = unchecked_call(_compiled(backward_entry, module(backward, f, sweeps.free), f, tapes))

    def forward(self, args: tuple) -> tuple[tuple, tuple]:
        """Call the function; its results, and the state for the reverse sweep."""
        returned = self._forward(*args)
        f = self.f
        results, changed = f.results or [], f.modified_parameters
        middle = len(results) + len(changed)
        # Views, because the caller may reshape the results.
        state = tuple([a.view() if isinstance(a, np.ndarray) else a for a in returned[middle:]])
        if not changed:
            return returned[: len(results)], state
        arrays = {n: a for n, a in zip(f.parameters, args, strict=True) if f.ranks[n]}
        for n, array in zip(changed, returned[len(results) : middle], strict=True):
            np.copyto(arrays[n], array)
        return tuple(arrays.get(n, y) for n, y in zip(results, returned, strict=False)), state

    def seed_arguments(self, args: tuple, results: tuple, cotangents: dict[str, Any]) -> tuple:
        """The cotangents of outputs as the generated function takes them."""
        like = dict(zip(self.f.parameters, args, strict=True)) | dict(zip(self.f.results or [], results, strict=False))
        return tuple(as_cotangent(self.f, n, cotangents[n], like.get(n)) for n in self.cotangents)

    def backward(self, state: tuple, weights: tuple) -> tuple:
        """The gradients."""
        return self._backward(*state, *weights)


class TangentVariant:
    """The tangent for one combination of ranks and kinds of arguments."""

    def __init__(self, f: Function, wrt: list[str]) -> None:
        self.f = f
        self.wrt = wrt
        self.forward = TangentBuilder(f, plan_tangents(f, set(wrt)), wrt)
        self.text = module(self.forward.source(), f, self.forward.free)
        self.entry = _compiled(self.forward.entry, self.text, f)
        self._call = unchecked_call(self.entry)

    def __call__(self, args: tuple, tangents: dict[str, Any]) -> tuple[tuple, tuple]:
        """The outputs and their tangents."""
        f, changed = self.f, self.f.modified_parameters
        by_name = {n: a.copy() if n in changed else a for n, a in zip(f.parameters, args, strict=True)}
        dots = {
            n: as_cotangent(f, n, tangents.get(n), by_name[n] if f.ranks[n] else None)
            for n in self.forward.tangent_parameters
        }
        returned = self.run((*by_name.values(), *dots.values()))
        count = len(f.results or [])
        arrays = output_names(f)[count:]
        values = (*returned[:count], *(by_name[n] for n in arrays))
        derivatives = returned[count : 2 * count] if self.wrt else returned[:count]
        active = [bool(self.wrt) and n in self.forward.dots for n in f.results or []]
        dots_of_results = [
            d if depends else _zero(y) for y, d, depends in zip(returned[:count], derivatives, active, strict=True)
        ]
        return values, (*dots_of_results, *(dots.get(n, np.zeros_like(by_name[n])) for n in arrays))

    def run(self, args: tuple) -> tuple:
        """Call the generated function; what it returns, as a tuple."""
        returned = self._call(*args)
        return () if returned is None else returned if isinstance(returned, tuple) else (returned,)
