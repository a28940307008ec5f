"""Code generation: from scheduled loops to the Python source of one function over flat arrays, for Numba."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ..arrays.templates import load, store
from ..core.dtypes import DType
from ..core.shapes import size
from ..ir.expr import Expr, const, free_variables, substitute, topological_order, var
from ..ir.expr_source import expression_code
from ..ir.graph import Value
from ..kernels.narrow_products import product_routine
from .buffer_placement import BufferLocation, BufferPlacement, defining_scope, flat_index
from .elements import element_compute_type, rounded
from .kernel_source import Source
from .parallel_chunks import Chunks
from .reductions import accumulation_type, combined, identity
from .runtime_helpers import used_helpers
from .schedule import Loop, Program, TileAxis, has_short_ends, reduction_axes
from .statements import Access, Axis, Guard, Statement

__all__ = ["generate_source"]

#: Functions that call no vector functions: kernels with no others may align their stack to a cache line (``STILL``).
_NO_VECTOR_VARIANT = {"exp", "expm1", "log", "log1p", "np", "math", "sigmoid", "sqrt", "tanh"}
#: A loop with guards is split into so many loops in which all are constant, or, if these were more, into two: the
#: longest, and a short one in which guards are not constant.
_RANGES = 3
#: Bytes of the stack that a kernel may use, which cost a call nothing. None where the stack grows page by page.
_STACK = 0 if os.name == "nt" else 1 << 16


def generate_source(
    name: str,
    items: Sequence[Loop | Statement],
    program: Program,
    names: dict[Value, str],
    chunks: Chunks | None = None,
    inside: bool = False,
) -> Source:
    """Generate the function that runs `items` (some of the program's top-level loops); `names` are those of the arrays.

    `inside`: it is inlined into another function.
    """
    return _Writer(name, items, program, names, chunks).write(inside)


class _Writer:
    def __init__(self, name: str, items, program: Program, names: dict[Value, str], chunks: Chunks | None) -> None:
        self.name = name
        self.items = items
        self.program = program
        self.names = names
        self.source = Source()
        self.lines: list[str] = []
        self.depth = 1
        self.counter = itertools.count()
        self.env: dict[Any, str] = {}  # (value, indices on unrolled axes), (value, element), code -> local variable
        #: Of an axis whose loop is around: the range in which every guard is constant; None if not all are.
        self.ranges: dict[Axis, tuple[int, int] | None] = {}
        self.chunks = chunks
        self.value_locations = BufferPlacement(items, program, names, chunks)
        self.used: set[str] = set(self.value_locations.arrays)

    # The function.

    def write(self, inside: bool) -> Source:
        source, chunks = self.source, self.chunks
        tail: list[str] = []
        if chunks is not None:
            source.chunks = chunks
            tail = ["start", "stop"]
            number = chunks.axis.number
            self.line(f"for i{number} in range(u(start), u(stop)):")
            self.depth += 1
            self.line(f"first = i{number} * u({chunks.length})")
            self.line(f"last = min(first + u({chunks.length}), u({chunks.loop.axis.extent}))")
        for item in self.items:
            for s in item.statements() if isinstance(item, Loop) else [item]:
                if s.how in ("embed", "scatter"):
                    self._emit_zeroing(s, self._zero(s.value.dtype))
            self._item(item)
        # In the order of their use: so equal steps have equal sources, whatever the names of their arrays.
        place = {name: -k for k, name in enumerate(reversed(re.findall(r"\w+", "\n".join(self.lines))))}
        place |= {name: int(name[3:]) for name in self.used if name.startswith("out")}
        source.arrays = sorted(self.used, key=lambda name: (name.startswith("out"), place.get(name, 0)))
        own = []
        moved = int(not inside and source.helpers.keys() <= _NO_VECTOR_VARIANT)
        for name, (dtype, n) in sorted(self.value_locations.slots.arrays.items(), key=lambda item: item[1][1]):
            size = n * dtype.storage.itemsize
            if source.stack + size <= _STACK:
                source.stack += size
                own.append(f"    {name} = local(np.{dtype.storage.name}, {n}, {moved})")
            else:
                source.scratch[name] = (dtype, n)
        sums = [] if chunks is None else [f"q{k}" for k in range(len(chunks.partial))]
        head = f"def {self.name}({', '.join([*source.arrays, *sums, *source.scratch, *tail])}):"
        source.text = "\n".join([head, *own, *(self.lines or ["    pass"])]) + "\n"
        source.helpers |= used_helpers(source.text)
        return source

    def _emit_zeroing(self, s: Statement, zero: str) -> None:
        """Zero an array before it is written into or accumulated into."""
        part = ""
        if self._partial(s):
            assert self.chunks is not None
            begin = self.chunks.begin(s)
            part = f"{begin} : {begin} + {size(s.value.shape)}"
        self.line(f"{self._array(s.value)}[{part or ':'}] = {zero}")

    def _partial(self, s: Statement) -> bool:
        """Whether each chunk has a partial result of its own."""
        return self.chunks is not None and s in self.chunks.partial

    def _array(self, value: Value) -> str:
        if value in self.value_locations.location_of:
            return self.value_locations.location_of[value].array
        name = self.names[value]
        self.used.add(name)
        return name

    def line(self, code: str) -> None:
        self.lines.append("    " * self.depth + code)

    def _zero(self, dtype: DType) -> str:
        return "0" if dtype.name == "float16" else f"np.{dtype.storage.name}(0)"

    def _item(self, item: Loop | Statement) -> None:
        if isinstance(item, Loop):
            self._loop(item)
        elif item.how == "product":
            self._product(item)
        else:
            self._statement(item)

    def _product(self, s: Statement) -> None:
        a, b = s.value.inputs
        transpose_a, transpose_b = s.value.attrs
        *stack, m, n = s.value.shape
        k = a.shape[-2] if transpose_a else a.shape[-1]
        arrays = [self._array(a.value), self._array(b.value), self._array(s.value)]
        call = product_routine(transpose_a, transpose_b, m, k, n)
        sizes = [str(m), str(k), str(n)]
        starts = ["0", "0", "0"]
        path = self.program.paths[s]
        adds = False  # accumulates over iterations
        if stack and size(stack) != 1:
            self.line(f"for b in range({size(stack)}):")
            self.depth += 1
            starts = [f"b * {m * k}", f"b * {k * n}", f"b * {m * n}"]
        elif path:
            axis = path[-1].axis
            assert isinstance(axis, TileAxis)
            number = axis.number
            adds = any(s.axes[j].root() is axis.whole for j in s.reduced)
            sizes[1 if adds else 0] = f"np.int64(e{number} - b{number})"
            first = f"np.int64(b{number})"
            starts = [f"{first} * {m}", f"{first} * {n}", "0"] if adds else [f"{first} * {k}", "0", f"{first} * {n}"]
            if self.chunks is not None and self._partial(s):
                starts[2] = self.chunks.begin(s)
        if call.startswith("narrow_transposed") and not adds:
            self.line(f"{arrays[2]}[:] = 0" if not stack else f"{arrays[2]}[{starts[2]} : {starts[2]} + {m * n}] = 0")
        flags = [str(int(transpose_a)), str(int(transpose_b))] if call == "gemm" else []
        self.line(f"{call}({', '.join([*arrays, *sizes, *starts, *flags])})")
        self.depth -= bool(stack and size(stack) != 1)

    def _loop(self, loop: Loop) -> None:
        every = list(loop.statements())
        inside = [s for s in every if s.how != "product"]
        for s in every:
            if s.how == "product" and self._outermost(s) is loop:
                self._emit_zeroing(s, "0")
        starting = [s for s in inside if self._outermost(s) is loop]
        ending = [
            s for s in inside if self.program.paths[s][-1] is loop and loop.axis in reduction_axes(s, self.program)
        ]
        for s in starting:
            if ending and s in ending:
                continue
            self._init_reduction(s)
        for s in ending:
            for combo in self._unrolled_indices(s.kept, s):
                name = self._accumulator(s, combo)
                self.line(f"{name} = {self._first(s)}")
        outer_env = dict(self.env)
        for ranges, exact in self._segments(loop, inside):
            self._emit_iterations(loop, ranges, exact)
            self.env = dict(outer_env)
        for s in ending:
            self._finish_inner(s, s in starting)
        for s in starting:
            if s not in ending:
                self._finish_outer(s)

    def _outermost(self, s: Statement) -> Loop | None:
        reduction = reduction_axes(s, self.program)
        return next((loop for loop in self.program.paths[s] if loop.axis in reduction), None)

    def _segments(self, loop: Loop, inside: list[Statement]) -> list[tuple[list[tuple[int, int]], bool]]:
        """Ranges of a loop in which every guard is constant; those with the same true guards are grouped.

        If there are many and all but one are short, as at the ends of a stencil, these are one group, in which guards
        are not constant (False).
        """
        axis = loop.axis
        if isinstance(axis, TileAxis):
            if not axis.inner:
                return [([(0, axis.extent)], True)]
            axis = axis.whole
        guards = [g for s in inside for g in self._undecided_guards(s) if s.axes[g.axis].root() is axis]
        ends = {0, axis.extent}
        for g in guards:
            ends |= {min(max(e, 0), axis.extent) for e in (g.start, g.stop)}
        grouped: dict[tuple, list[tuple[int, int]]] = {}
        for start, stop in itertools.pairwise(sorted(ends)):
            grouped.setdefault(tuple([g.start <= start < g.stop for g in guards]), []).append((start, stop))
        groups = list(grouped.values()) or [[(0, 0)]]
        longest = max(groups, key=_points)
        if len(groups) <= _RANGES or not has_short_ends(axis.extent, _points(longest)):
            return [(ranges, True) for ranges in groups]
        others = sorted(r for ranges in groups if ranges is not longest for r in ranges)
        return [(longest, True), (_merged(others), False)]

    def _undecided_guards(self, s: Statement) -> list[Guard]:
        """The guards that still matter to a statement, given those already decided."""
        if not s.guards:
            return []
        axes = [s.axes[g.axis].root() for g in s.guards]
        known = {
            var(f"g{k}"): const(int(self._inside(s, g, {})))
            for k, g in enumerate(s.guards)
            if self.ranges.get(axes[k]) is not None
        }
        names = free_variables(substitute(s.expr, known))
        return [g for k, g in enumerate(s.guards) if f"g{k}" in names]

    def _emit_iterations(self, loop: Loop, ranges: list[tuple[int, int]], exact: bool) -> None:
        axis = loop.axis
        n = axis.number
        start, stop = ranges[0]
        depth = self.depth
        shared = self.chunks is not None and loop is self.chunks.loop
        if isinstance(axis, TileAxis) and not axis.inner:
            self.line(f"for o{n} in range(first, last):" if shared else f"for o{n} in range(u({axis.extent})):")
            self.depth += 1
            self.line(f"b{n} = o{n} * u({axis.length})")
            end = f"b{n} + u({axis.length})"
            self.line(f"e{n} = " + (f"min({end}, u({axis.whole.extent}))" if axis.whole.extent % axis.length else end))
        else:
            whole = axis.whole if isinstance(axis, TileAxis) else axis
            self.ranges[whole] = (start, stop) if exact else None
            low, high = f"u({start})", f"u({stop})"
            if len(ranges) > 1:
                self.line(f"for low, high in ({', '.join(f'(u({a}), u({b}))' for a, b in ranges)}):")
                self.depth += 1
                low, high = "low", "high"
            if isinstance(axis, TileAxis) and len(ranges) == 1 and (start, stop) == (0, whole.extent):
                self.line(f"for j{n} in range(e{n} - b{n}):")
                self.depth += 1
                self.line(f"i{n} = b{n} + j{n}")
            elif isinstance(axis, TileAxis):
                self.line(f"low{n} = min(e{n}, max(b{n}, {low}))")
                self.line(f"high{n} = max(low{n}, min(e{n}, {high}))")
                self.line(f"for i{n} in range(low{n}, high{n}):")
                self.depth += 1
                self.line(f"j{n} = i{n} - b{n}")
            else:
                if shared:
                    low, high = (
                        ("first", "last")
                        if (start, stop) == (0, whole.extent)
                        else (f"max(first, {low})", f"min(last, {high})")
                    )
                self.line(f"for i{n} in range({high if low == 'u(0)' else f'{low}, {high}'}):")
                self.depth += 1
        before = len(self.lines)
        for item in loop.body:
            self._item(item)
        if len(self.lines) == before:  # unrolled axes of length 0
            self.line("pass")
        self.depth = depth
        self.ranges.pop(axis.whole if isinstance(axis, TileAxis) else axis, None)

    # Reductions.

    def _first(self, s: Statement) -> str:
        return identity(s.how, element_compute_type(s.value.dtype))

    def _accumulator(self, s: Statement, combo) -> str:
        return f"r{s.value.number}" + "".join(f"_{n}" for _, n in combo)

    def _init_reduction(self, s: Statement) -> None:
        """Initialize a reduction before its outermost loop, wherever its value is stored."""
        _, spread = defining_scope(s, self.program)
        combos = list(self._unrolled_indices(s.kept, s))
        if not spread:
            first = identity(s.how, accumulation_type(s.how, s.value.dtype))
            for combo in combos:
                self.line(f"w{self._accumulator(s, combo)[1:]} = {first}")
            return
        location = self.value_locations.location_of[s.value]
        depth = self.depth
        for axis in spread:
            self._emit_loop_over(axis)
        for combo in combos:
            self.line(
                f"{self._element_code(location, combo)} = {store(s.value.dtype, self._first(s), self._compute(s))}"
            )
        self.depth = depth

    def _emit_loop_over(self, axis: Axis) -> None:
        n = axis.number
        if isinstance(axis, TileAxis) and axis.inner:
            self.line(f"for j{n} in range(e{n} - b{n}):")
            self.depth += 1
            self.line(f"i{n} = b{n} + j{n}")
        elif isinstance(axis, TileAxis):
            self.line(f"for o{n} in range(u({axis.extent})):")
            self.depth += 1
            self.line(f"b{n} = o{n} * u({axis.length})")
            self.line(f"e{n} = min(b{n} + u({axis.length}), u({axis.whole.extent}))")
        else:
            self.line(f"for i{n} in range(u({axis.extent})):")
            self.depth += 1

    def _finish_inner(self, s: Statement, complete: bool) -> None:
        """Finish the innermost loop of a reduction that runs along it."""
        for combo in self._unrolled_indices(s.kept, s):
            name = self._accumulator(s, combo)
            if complete:
                self._result(s, combo, name)
                continue
            _, spread = defining_scope(s, self.program)
            if not spread:
                total = "w" + name[1:]
                if s.value.dtype.is_float and s.how == "sum":
                    self.line(f"{total} += np.float64({name})")
                else:
                    self.line(f"{total} = {combined(s.how, total, name)}")
            else:
                self._combine_in_memory(s, combo, name)

    def _combine_in_memory(self, s: Statement, combo, code: str) -> None:
        location = self.value_locations.location_of[s.value]
        at = self._element_code(location, combo)
        both = combined(s.how, load(s.value.dtype, at), code)
        self.line(f"{at} = {store(s.value.dtype, both, self._compute(s))}")

    def _finish_outer(self, s: Statement) -> None:
        _, spread = defining_scope(s, self.program)
        if spread:
            return
        compute = element_compute_type(s.value.dtype)
        wide = compute != accumulation_type(s.how, s.value.dtype)
        for combo in self._unrolled_indices(s.kept, s):
            total = "w" + self._accumulator(s, combo)[1:]
            self._result(s, combo, f"np.{compute}({total})" if wide else total)

    def _result(self, s: Statement, combo, code: str) -> None:
        """Name the computed value `code`, and store it if it has a location in memory."""
        location = self.value_locations.location_of.get(s.value)
        if location is not None:
            self.line(f"{self._element_code(location, combo)} = {store(s.value.dtype, code, self._compute(s))}")
        self.env[s.value, combo] = code

    def _compute(self, s: Statement) -> str:
        return element_compute_type(s.value.attrs[1] if s.value.op == "map" else s.value.dtype)

    # Statements.

    def _unrolled_indices(self, value_axes: Iterable[int], s: Statement) -> Iterable[tuple]:
        """All index combinations on the unrolled ones of these axes of `s`: tuples of (axis, index)."""
        axes = [a for k in value_axes if (a := s.axes[k].root()) in self.program.unrolled[s]]
        for point in itertools.product(*[range(a.extent) for a in axes]):
            yield tuple(sorted(zip(axes, point, strict=True), key=lambda pair: pair[0].number))

    def _statement(self, s: Statement) -> None:
        reduction = reduction_axes(s, self.program)
        loops = [loop.axis for loop in self.program.paths[s]]
        for combo in self._unrolled_indices(s.kept, s):
            elements = [self._element(s, dict([*combo, *rest])) for rest in self._unrolled_indices(s.reduced, s)]
            code = elements[0] if elements else self._first(s)
            for more in elements[1:]:
                code = f"({code} + {more})" if s.how == "sum" else combined(s.how, code, more)
            if s.target is not None:
                begin = f"u({self.chunks.begin(s)}) + " if self.chunks is not None and self._partial(s) else ""
                at = f"{self._array(s.value)}[{begin}{self._index_of(s, s.target, dict(combo))}]"
                if s.how == "scatter":
                    code = f"{load(s.value.dtype, at)} + {code}"
                self.line(f"{at} = {store(s.value.dtype, code, self._compute(s))}")
            elif not any(a in reduction for a in loops):
                self._result(s, combo, code)
            elif loops[-1] in reduction:
                name = self._accumulator(s, combo)
                self.line(f"{name} = {combined(s.how, name, code, reorder=s.value.dtype.is_float)}")
            else:
                self._combine_in_memory(s, combo, code)

    def _element(self, s: Statement, combo: dict[Axis, int]) -> str:
        """Code for what `s` computes at one point."""
        expr, compute = s.expr, self._compute(s)
        names: dict[str, str] = {}
        if s.guards:
            inside = {f"g{k}": self._inside(s, g, combo) for k, g in enumerate(s.guards)}
            names = {name: code for name, code in inside.items() if isinstance(code, str)}
            expr = substitute(expr, {var(name): const(int(v)) for name, v in inside.items() if name not in names})
        guarded = any(name in names for name in free_variables(expr))
        for node in topological_order([expr]):
            if node.name is not None and node.name not in names:
                access = s.reads[int(node.name[1:])]
                code = self._read(s, access, combo, guarded)
                same = element_compute_type(access.value.dtype) == compute
                names[node.name] = code if same else f"np.{compute}({code})"
        return rounded(s.value.dtype, self._expression(expr, names, compute), compute)

    def _inside(self, s: Statement, guard: Guard, combo: dict[Axis, int]) -> bool | str:
        """Whether a guard holds, or code that tells."""
        axis = s.axes[guard.axis].root()
        if axis in combo:
            return guard.start <= combo[axis] < guard.stop
        if axis.extent == 1:
            return guard.start <= 0 < guard.stop
        if (exact := self.ranges[axis]) is not None:
            return guard.start <= exact[0] < guard.stop
        i = f"i{axis.number}"
        code = f"u({guard.start}) <= {i} < u({guard.stop})"
        if guard.start <= 0 or guard.stop >= axis.extent:
            code = f"{i} < u({guard.stop})" if guard.start <= 0 else f"{i} >= u({guard.start})"
        return self._local_for(code, code, "c")

    def _expression(self, expr: Expr, names: dict[str, str], compute: str) -> str:
        def local(text: str) -> str:
            return self._local_for(f"{compute}:{text}", text, "x")

        return expression_code([expr], names, f"np.{compute}", local, self.source.helpers)[0]

    def _local_for(self, key: Any, text: str, letter: str) -> str:
        """The local variable that holds the value of `text`."""
        variable = self.env.get(key)
        if variable is None:
            variable = self.env[key] = f"{letter}{next(self.counter)}"
            self.line(f"{variable} = {text}")
        return variable

    def _read(self, s: Statement, access: Access, combo: dict[Axis, int], guarded: bool = False) -> str:
        """Code for an element; of those that a guard excludes when it runs, the index is wrong and must be in range."""
        value = access.value
        maker = self.program.makers.get(value)
        if access.pointwise is not None and maker is not None:
            indices = self._combo_of(maker, combo)
            variable = self.env.get((value, indices))
            if variable is not None:
                return variable
            if value in self.value_locations.location_of:
                at = self._element_code(self.value_locations.location_of[value], indices)
                return self._local_for((value, at), load(value.dtype, at), "x")
        index = self._index_of(s, access, combo, guarded)
        if guarded:
            index = f"min({index}, u({size(value.shape) - 1}))"
        at = f"{self._array(value)}[{index}]"
        return self._local_for((value, at), load(value.dtype, at), "x")

    def _combo_of(self, maker: Statement, combo: dict[Axis, int]) -> tuple:
        axes = [maker.axes[k].root() for k in maker.kept]
        return tuple(sorted([(a, combo[a]) for a in axes if a in combo], key=lambda pair: pair[0].number))

    # Flat indices.

    def _index_of(self, s: Statement, access: Access, combo: dict[Axis, int], guarded: bool = False) -> str:
        terms = [(s.axes[k].root(), c) for k, c in access.coefficients if s.axes[k].extent != 1]
        code = flat_index(terms, access.offset, combo)
        for k, c in access.through:
            index = f"u({self._read(s, s.reads[k], combo, guarded)})"
            code += f" + {index}" if c == 1 else f" + {index} * u({c})"
        return code

    def _element_code(self, location: BufferLocation, combo: tuple) -> str:
        return f"{location.array}[{flat_index(location.coefficients, 0, dict(combo))}]"


def _points(ranges: list[tuple[int, int]]) -> int:
    return sum(stop - start for start, stop in ranges)


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted ranges, one for those that follow one another without a gap."""
    merged: list[tuple[int, int]] = []
    for start, stop in ranges:
        if merged and merged[-1][1] == start:
            start = merged.pop()[0]
        merged.append((start, stop))
    return merged
