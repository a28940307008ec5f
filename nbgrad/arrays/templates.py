"""Loop templates: generate elementwise kernels over arrays from scalar expressions.

A template knows layouts, dtypes and write modes, but no operator. The loops it generates:

* *flat*: all operands have the shape of the output, or one element;
* *broadcast*: the axes of all operands collapsed to the fewest that describe them
  (:func:`nbgrad.core.shapes.broadcast`), nested loops over those, strides as arguments. In the innermost
  loop an operand either advances by one element or is invariant, which is fixed at generation, so that
  the compiler can vectorise it.

An output is *written* or *accumulated into*; an input may *be* an output (in-place operators), which is
then one argument, because two names of one buffer would prevent vectorisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..backends.cuda import vectors
from ..backends.cuda.kernels import device_kernel, elementwise_entry
from ..backends.numba import casts
from ..backends.numba.compile import Kernel, generate
from ..core.dtypes import DType, uint64
from ..ir.expr import Expr, free_variables
from ..ir.expr_source import emit

__all__ = ["Input", "Output", "elementwise", "load", "store"]

STEP = "step"  # the operand advances in the innermost loop
HOLD = "hold"  # the operand is invariant in the innermost loop
IN_PLACE = "in place"  # the operand is also an output

WRITE = "write"
ADD = "add"


class Input(NamedTuple):
    """An array operand: its variable, its dtype, and its motion in the innermost loop.

    `output` is the number of the output that an in-place operand is.
    """

    name: str
    dtype: DType
    motion: str = STEP
    output: int = 0


class Output(NamedTuple):
    """An array result: the expression, its dtype, and whether it is written or accumulated into."""

    expr: Expr
    dtype: DType
    mode: str = WRITE


#: How floats become integers: those of 32 bits and less by int32, as in C, but for uint32, which has more numbers.
_FROM_FLOAT = {"int64": "float_to_int64", "uint32": "float_to_int64", "uint64": "float_to_uint64"}
_HELPERS = {name: getattr(casts, name) for name in casts.__all__} | {"np": np}


def compute_type(inputs: Sequence[Input], outputs: Sequence[Output]) -> str:
    """The dtype that the kernel computes in: the widest float among the operands (float32 for float16), else int64, or
    uint64 if one of them is."""
    operands = [x.dtype for x in inputs or outputs]
    widths = [d.compute for d in operands if d.is_float]
    if widths:
        return max(widths)  # "float64" > "float32"
    return "uint64" if uint64 in operands else "int64"


def load(dtype: DType, code: str, compute: str = "int64") -> str:
    """Code for the element `code` of an array of `dtype`, converted for computing in `compute`."""
    if dtype.name == "float16":
        return f"half_to_float({code})"
    if dtype.is_float:
        return code
    return f"np.uint64({code})" if dtype is uint64 or compute == "uint64" else f"np.int64({code})"


def store(dtype: DType, code: str, compute: str) -> str:
    """Code that converts a result `code`, computed in `compute`, for storage in an array of `dtype`."""
    if dtype.name == "float16":
        return f"float_to_half(np.float32({code}))"
    if dtype.name == "bool":
        return f"({code} != 0)"
    if dtype.is_float or "float" not in compute:
        return code
    return f"{_FROM_FLOAT.get(dtype.name, 'float_to_int32')}({code})"


def elementwise(
    name: str, inputs: Sequence[Input], params: Sequence[str], outputs: Sequence[Output], rank: int = 1
) -> Kernel:
    """The kernel that computes `outputs` from arrays and scalar parameters.

    Parameters
    ----------
    name : str
    inputs : sequence of Input
    params : sequence of str
        Variables that are passed as one 64-bit scalar each.
    outputs : sequence of Output
    rank : int
        1 for the flat loop; else the number of collapsed axes.

    Returns
    -------
    Kernel
        For the CPU and for GPUs. Arguments: input arrays (except in-place ones), output arrays, parameters; for
        ``rank > 1`` the collapsed shape, then for each input array its strides along all axes but the last.
    """
    loop = _Loop(name, inputs, params, outputs, rank)
    kernel = generate(name, loop.host(), {**_HELPERS, **loop.helpers})
    kernel.device = lambda *kinds: elementwise_entry(
        device_kernel(name, loop.device(), {**_HELPERS, **vectors.HELPERS, **loop.helpers}),
        len(loop.arrays),
        loop.lanes(),
    )(*kinds)
    return kernel


class _Loop:
    """One loop, generated for the CPU or for a GPU, with the same arguments."""

    def __init__(
        self, name: str, inputs: Sequence[Input], params: Sequence[str], outputs: Sequence[Output], rank: int
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.rank = rank
        self.compute = compute_type(inputs, outputs)
        cast = f"np.{self.compute}"
        self.arrays = [x for x in inputs if x.motion != IN_PLACE]
        self.outs = [f"out{k}" for k in range(len(outputs))]
        sizes = [f"n{k}" for k in range(rank)] if rank > 1 else []
        strides = [f"s_{x.name}{k}" for x in self.arrays for k in range(rank - 1)]
        names = {x.name: f"v_{x.name}" for x in inputs} | {p: f"v_{p}" for p in params}
        exprs = [y.expr for y in outputs]
        constants, self.body, self.results, self.helpers = emit(exprs, names, cast)
        self.used = set(free_variables(*exprs))
        arguments = [*(x.name for x in self.arrays), *self.outs, *params, *sizes, *strides]
        self.head = [f"def {name}({', '.join(arguments)}):"]
        self.head += [f"    v_{p} = {cast}({p})" for p in params] + [f"    {line}" for line in constants]

    def read(self, x: Input, index: str) -> str:
        """The statement that loads an element of an operand."""
        source = self.outs[x.output] if x.motion == IN_PLACE else x.name
        return f"v_{x.name} = " + load(x.dtype, f"{source}[{index}]", self.compute)

    def _vectors(self, n: int) -> list[str]:
        """The statements for vector number `i`, of `n` elements."""
        read = {self.outs[x.output] if x.motion == IN_PLACE else x.name for x in self.inputs if x.name in self.used}
        still = {x.name for x in self.inputs if x.motion == HOLD}
        read |= {out for out, y in zip(self.outs, self.outputs, strict=True) if y.mode == ADD}
        lines = [f"w_{a} = fetched{n}({a}, i)" for a in sorted(read - still)]
        lines += [self.read(x, "0") for x in self.inputs if x.name in self.used & still]
        for k in range(n):
            for x in self.inputs:
                if x.name in self.used and x.motion != HOLD:
                    source = self.outs[x.output] if x.motion == IN_PLACE else x.name
                    lines.append(f"v_{x.name} = {load(x.dtype, f'w_{source}[{k}]', self.compute)}")
            lines += self.body
            for out, y, result in zip(self.outs, self.outputs, self.results, strict=True):
                value = result if y.mode == WRITE else f"{load(y.dtype, f'w_{out}[{k}]', self.compute)} + {result}"
                stored = store(y.dtype, value, self.compute)
                lines.append(f"{out}_{k} = np.{y.dtype.storage.name}({stored})")
        return [*lines, *(f"put{n}({out}, i, ({', '.join(f'{out}_{k}' for k in range(n))}))" for out in self.outs)]

    def writes(self, at: str) -> list[str]:
        """The statements that compute and store the element `at` of the results."""
        lines = list(self.body)
        for out, y, result in zip(self.outs, self.outputs, self.results, strict=True):
            value = result if y.mode == WRITE else f"{load(y.dtype, f'{out}[{at}]', self.compute)} + {result}"
            lines.append(f"{out}[{at}] = " + store(y.dtype, value, self.compute))
        return lines

    def host(self) -> str:
        """Nested loops over the collapsed axes."""
        rank, arrays, used = self.rank, self.arrays, self.used
        lines = list(self.head)
        if rank == 1:
            held = [self.read(x, "0") for x in arrays if x.motion == HOLD and x.name in used]
            head = [f"if {self.outs[0]}.size == 0:", "    return", *held] if held else []
            lines += ["    " + line for line in head]
        pad = "    "
        for level in range(rank - 1):
            lines.append(f"{pad}for i{level} in range(np.uint64(n{level})):")
            pad += "    "
            for x in arrays:
                above = f" + p_{x.name}{level - 1}" if level else ""
                lines.append(f"{pad}p_{x.name}{level} = i{level} * np.uint64(s_{x.name}{level}){above}")
            row = "i0" if level == 0 else f"(r{level - 1} * np.uint64(n{level}) + i{level})"
            lines.append(f"{pad}r{level} = {row}")
        if rank > 1:
            lines += [f"{pad}base = r{rank - 2} * np.uint64(n{rank - 1})"]
            at = f"p_{{}}{rank - 2}"
            lines += [pad + self.read(x, at.format(x.name)) for x in arrays if x.motion == HOLD and x.name in used]
        extent = f"n{rank - 1}" if rank > 1 else f"{self.outs[0]}.size"
        lines.append(f"{pad}for i in range(np.uint64({extent})):")
        pad += "    "
        at = "base + i" if rank > 1 else "i"
        for x in self.inputs:
            if x.motion == STEP and x.name in used:
                lines.append(pad + self.read(x, f"p_{x.name}{rank - 2} + i" if rank > 1 else "i"))
            elif x.motion == IN_PLACE and x.name in used:
                lines.append(pad + self.read(x, at))
        lines += [pad + line for line in self.writes(at)]
        return "\n".join(lines) + "\n"

    def lanes(self) -> int:
        """The number of neighbouring elements that a GPU thread computes at once."""
        moving = [x.dtype.storage for x in self.arrays if x.motion == STEP]
        return vectors.lanes([*moving, *(y.dtype.storage for y in self.outputs)]) if self.rank == 1 else 1

    def device(self) -> str:
        """A grid-stride loop over vectors of elements, and one over the remaining elements."""
        packed, first = [], "cuda.grid(1)"
        n = self.lanes()
        if n > 1:
            arrays = [*(x.name for x in self.arrays if x.motion == STEP), *self.outs]
            packed = [
                f"    packed = {' and '.join(f'aligned({a})' for a in arrays)}",
                f"    whole = {self.outs[0]}.size // {n} if packed else 0",
                "    for i in range(cuda.grid(1), whole, cuda.gridsize(1)):",
                *(f"        {line}" for line in self._vectors(n)),
            ]
            first = f"whole * {n} + {first}"
        lines = [*self.head, *packed, f"    for i in range({first}, {self.outs[0]}.size, cuda.gridsize(1)):"]
        pad = "        "
        last = self.rank - 1
        if last:
            lines.append(f"{pad}i{last} = i % n{last}")
            lines.append(f"{pad}r = i // n{last}")
        for k in reversed(range(last)):
            lines.append(f"{pad}i{k} = r" + (f" % n{k}" if k else ""))
            if k:
                lines.append(f"{pad}r = r // n{k}")
        for x in self.inputs:
            if x.name not in self.used:
                continue
            if x.motion == IN_PLACE or (last == 0 and x.motion == STEP):
                at = "i"
            else:
                terms = [f"i{k} * s_{x.name}{k}" for k in range(last)] + [f"i{last}"] * (x.motion == STEP)
                at = " + ".join(terms) or "0"
            lines.append(pad + self.read(x, at))
        lines += [pad + line for line in self.writes("i")]
        return "\n".join(lines) + "\n"
