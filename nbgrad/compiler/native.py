"""A traced program as a nopython function for Numba-compiled callers: no call runs any Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numba import carray

from ..arrays.ndarray import NDArray
from ..backends.numba.compile import for_c, nopython
from ..backends.numba.raw_arrays import memory
from ..core.shapes import size
from ..core.source_text import constant_source, identifier
from ..errors import ContextError, DTypeError, TraceError
from ..kernels import random
from .compiled_program import Compiled, allocation_code, numpy_name
from .program import Program

__all__ = ["c_callback", "nopython_function"]


def nopython_function(program: Program, out: bool = False) -> Callable:
    """The nopython function of the program's array and float arguments; see :meth:`.jitted.Jitted.njit`."""
    _check(program)
    function = _NopythonBuilder(program, out)
    name = identifier(function.name, function.names)
    head = f"def {name}({', '.join(function.parameters)}):"
    return nopython(name, "\n    ".join([head, *function.lines]) + "\n", function.names, function.kinds)


class _NopythonBuilder:
    """Builds the function: its parameters and their kinds, its lines, and their global names."""

    def __init__(self, program: Program, out: bool) -> None:
        self.program = program
        self.name = program.compiled.name
        self.names: dict[str, Any] = {"np": np, "memory": memory}
        self.parameters: list[str] = []
        self.kinds: list[tuple[int | None, np.dtype]] = []
        self.lines: list[str] = []
        for k, ((shape, kind), leaf_type) in enumerate(zip(program.avals, program.leaf_types, strict=True)):
            self._parameter(f"p{k}", f"a{k}", f"argument {k}", shape, kind, issubclass(leaf_type, float | np.generic))
        self._captured()
        given_outs = self._outs() if out else []
        self._steps(given_outs)
        outs = iter(range(len(program.results)))
        self.lines.append(f"return {self._code(program.result, outs, given_outs)}")

    def _parameter(self, name: str, flat: str, what: str, shape, kind, number: bool = False) -> None:
        """Add a parameter, with checks, and a flat view of its elements named `flat`."""
        self.parameters.append(name)
        self.kinds.append((None if number else len(shape), kind.dtype.np))
        if number:
            self.lines += [allocation_code(flat, kind.dtype, 1), f"{flat}[0] = {name}"]
            return
        if shape:
            message = f"{self.name}: {what} must have shape {shape}, for which this function was made"
            wrong = " or ".join(f"{name}.shape[{d}] != {n}" for d, n in enumerate(shape))
            self.lines += [f"if {wrong}:", f"    raise ValueError({constant_source(message)})"]
        self.lines.append(f"{flat} = {name}.reshape({size(shape)})")

    def _captured(self) -> None:
        """Captured arrays: their addresses are constants, and their contents are read at every call."""
        for k, x in enumerate(self.program.captured):
            # Keep them alive as long as the function; holding the cell keeps a gradient from being reallocated.
            self.names[f"kept{k}"] = x._buf, x._cell
            view = f"memory({x._buf.ctypes.data}, {x._buf.size}, {numpy_name(x._kind.dtype)})"
            self.lines.append(f"a{len(self.program.avals) + k} = {view}")

    def _outs(self) -> list[str]:
        """Parameters for the results that are not scalars; their memory must not alias anything else."""
        outputs: list[str] = []
        for k, (shape, kind) in enumerate(self.program.results[: self.program.count]):
            if shape:
                self._parameter(f"q{k}", f"out{k}", f"the array for result {len(outputs)}", shape, kind)
                outputs.append(f"out{k}")
        arrays = [f"a{k}" for k in range(len(self.program.avals) + len(self.program.captured))]
        pairs = [(a, b) for k, a in enumerate(outputs) for b in [*arrays, *outputs[:k]]]
        for a, b in pairs:
            before = f"{a}.ctypes.data < {b}.ctypes.data + {b}.nbytes"
            message = f"{self.name}: an array for a result shares memory with an argument or with another result"
            self.lines += [
                f"if {before} and {b}.ctypes.data < {a}.ctypes.data + {a}.nbytes:",
                f"    raise ValueError({constant_source(message)})",
            ]
        return outputs

    def _steps(self, provided: list[str]) -> None:
        compiled = self.program.compiled
        assert isinstance(compiled, Compiled)
        sizes = compiled.buffers.items()
        self.lines += [allocation_code(name, dtype, n) for name, (dtype, n) in sizes if name not in provided]
        lines, names = compiled.native()
        self.lines += lines
        self.names |= names

    def _code(self, tree: Any, outs: Iterator[int], provided: list[str]) -> str:
        """Code for the results: lists become tuples, arrays without axes become numbers."""
        if type(tree) in (tuple, list):
            return f"({''.join(self._code(t, outs, provided) + ', ' for t in tree)})"
        if isinstance(tree, NDArray):
            k = next(outs)
            shape, _ = self.program.results[k]
            if not shape:
                return f"out{k}[0]"
            return f"q{k}" if f"out{k}" in provided else f"out{k}.reshape({shape})"
        if tree is None or isinstance(tree, bool | int | float):
            name = f"constant{len(self.names)}"
            self.names[name] = tree
            return name
        raise DTypeError(
            f"{self.name}.njit: the function returns a {type(tree).__name__}; results of nopython functions are "
            "arrays, numbers and tuples of them"
        )


def _check(program: Program) -> None:
    compiled = program.compiled
    if not isinstance(compiled, Compiled):
        raise ContextError(
            f"{compiled.name}.njit: nopython functions run on the CPU, and the examples or arrays that the function "
            f"reads are on {program.ctx}; give NumPy arrays, and move the others with as_in_context"
        )
    if any(x is random.PART for x in program.captured):
        raise TraceError(
            f"{compiled.name}.njit: the function draws random numbers, and compiled code cannot draw new ones at every "
            "call; draw them outside, and pass them as arguments"
        )
    if program.updated:
        raise TraceError(
            f"{compiled.name}.njit: an operator writes into an array (BatchNorm into its running statistics), which "
            "compiled code cannot do; call it in predict mode"
        )
    for runner, _, _ in compiled.opaque.values():
        if runner.native is None:
            raise TraceError(
                f"{compiled.name}.njit: the operator {runner.name} runs from Python and cannot be part of a nopython "
                "function; call the jitted function itself, or write this step with other operators"
            )
    inside = [*(k.dtype for _, k in program.avals), *(x._kind.dtype for x in program.captured)]
    for dtype in [*inside, *(k.dtype for _, k in program.results)]:
        if dtype.name == "float16":
            raise DTypeError(f"{compiled.name}.njit: Numba has no arrays of float16; use float32 or float64")


def c_callback(program: Program, vector: bool) -> Any:
    """The program as a C callback: ``double f(double)``, or with `vector` ``double f(int, double *, void *)``."""
    name = program.compiled.name
    if any(kind.dtype.name != "float64" for _, kind in program.avals):
        raise DTypeError(f"{name}.low_level: the arguments must be floats and arrays of float64, as passed by C code")
    if not isinstance(program.result, NDArray) or program.results[0][0]:
        raise DTypeError(f"{name}.low_level: the function must return one number")
    names = {"function": nopython_function(program), "carray": carray, "nan": np.nan}
    if not vector:
        return for_c("call", "def call(x):\n    return function(x)\n", names, "float64(float64)")
    sizes = [size(shape) for shape, _ in program.avals]
    ends = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    arguments = []
    for (start, stop), (shape, _), kind in zip(pairwise(ends), program.avals, program.leaf_types, strict=True):
        number = issubclass(kind, float | np.generic)
        arguments.append(f"x[{start}]" if number else f"x[{start}:{stop}].reshape({shape})")
    lines = [f"if n < {ends[-1]}:", "    return nan", f"x = carray(first, {ends[-1]})"]
    source = "\n    ".join(["def call(n, first, data):", *lines, f"return function({', '.join(arguments)})"])
    return for_c("call", source + "\n", names, "float64(intc, CPointer(float64), voidptr)")
