"""A traced program as a function that Numba-compiled code calls: no Python at any point of the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..codegen.compile import generate, nopython
from ..errors import DTypeError, TraceError
from ..ndarray import NDArray
from ..shapes import size
from .compiled import Call, Compiled
from .nests import Loop
from .signature import Program

__all__ = ["native"]


def native(program: Program) -> Callable:
    """The nopython function of the program's arrays and floats; see :meth:`.function.Jitted.njit`."""
    compiled = program.compiled
    name = compiled.name
    _check(program)
    names: dict[str, Any] = {"np": np}
    lines: list[str] = []
    kinds: list[tuple[int | None, np.dtype]] = []
    for k, ((shape, kind), given) in enumerate(zip(program.avals, program.given, strict=True)):
        if issubclass(given, float | np.generic):
            kinds.append((None, kind.dtype.np))
            lines += [f"a{k} = np.empty(1, np.{kind.dtype.type.__name__})", f"a{k}[0] = p{k}"]
            continue
        kinds.append((len(shape), kind.dtype.np))
        if shape:
            message = f"{name}: argument {k} must have shape {shape}, for which this function was made"
            wrong = " or ".join(f"p{k}.shape[{d}] != {n}" for d, n in enumerate(shape))
            lines += [f"if {wrong}:", f"    raise ValueError({message!r})"]
        lines.append(f"a{k} = p{k}.reshape({size(shape)})")
    lines += [_empty(buffer, dtype, n) for buffer, (dtype, n) in compiled.buffers.items()]
    for k, source in enumerate(compiled.sources):
        names[f"kernel{k}"] = generate(name, source.text, source.helpers, apart=True).within()
    for call in compiled.calls:
        assert isinstance(call, Call)  # _check lets no other pass
        lines += [_empty(f"s{k}", dtype, n) for k, (dtype, n) in enumerate(call.scratch)]
        own = [f"s{k}" for k in range(len(call.scratch))] + ["0", str(call.count)] * bool(call.count)
        lines.append(f"{call.entry}({', '.join([*call.arguments, *own])})")
    outs = iter(range(len(program.results)))
    lines.append(f"return {_code(program, program.result, outs, names)}")
    head = f"def {name}({', '.join(f'p{k}' for k in range(len(kinds)))}):"
    return nopython(name, "\n    ".join([head, *lines]) + "\n", names, kinds)


def _check(program: Program) -> None:
    compiled = program.compiled
    if program.captured:
        shapes = ", ".join(str(x.shape) for x in program.captured)
        raise TraceError(
            f"{compiled.name}.njit: the function reads arrays from outside (of shape {shapes}), which compiled code "
            "cannot look up at every call; pass them as arguments"
        )
    for s in _opaque(compiled):
        raise TraceError(
            f"{compiled.name}.njit: the operator {s.value.attrs[0].op.name} runs from Python and cannot be part of a "
            "nopython function; call the jitted function itself, or write this step with other operators"
        )
    for dtype in [*(k.dtype for _, k in program.avals), *(k.dtype for _, k in program.results)]:
        if dtype.name == "float16":
            raise DTypeError(f"{compiled.name}.njit: Numba has no arrays of float16; use float32 or float64")


def _opaque(compiled: Compiled) -> list:
    return [item for item in compiled.program.body if not isinstance(item, Loop) and item.how == "opaque"]


def _empty(name: str, dtype, n: int) -> str:
    kind = "bool_" if dtype.name == "bool" else dtype.storage.name
    return f"{name} = np.empty({n}, np.{kind})"


def _code(program: Program, tree: Any, outs: Iterator[int], names: dict) -> str:
    """Code for the results: lists become tuples, arrays without axes numbers."""
    if type(tree) in (tuple, list):
        return f"({''.join(_code(program, t, outs, names) + ', ' for t in tree)})"
    if isinstance(tree, NDArray):
        k = next(outs)
        shape, _ = program.results[k]
        return f"out{k}.reshape({shape})" if shape else f"out{k}[0]"
    if tree is None or isinstance(tree, bool | int | float):
        names[f"constant{len(names)}"] = tree
        return f"constant{len(names) - 1}"
    raise DTypeError(
        f"{program.compiled.name}.njit: the function gives a {type(tree).__name__}; results of nopython functions are "
        "arrays, numbers and tuples of them"
    )
