"""Direct calls: intrinsics in place of library functions that Numba would compile separately.

Numba implements ``np.empty`` and its like, and ``max`` and ``min`` of scalars, as Python functions: it compiles them
for each combination of types, 0.03 to 0.15 s each, and a generated adjoint has a dozen. The intrinsics here emit a few
LLVM instructions instead. So does ``plus`` of generated files, an addition that may be reassociated.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np
from numba import types

from .guarded_products import select_guarded
from .internals import (
    Dispatcher,
    FunctionPass,
    cgutils,
    definitions,
    do_minmax,
    emit_empty,
    emit_empty_like,
    intrinsic,
    ir,
    llvm,
    parse_dtype,
    parse_shape,
    register_pass,
)

__all__ = ["REPLACED_FUNCTION", "DirectCalls"]


def _outlined(name: str, inside):
    """A lowering that calls an internal LLVM function with the body from `inside`, one per combination of types.

    As in Numba, LLVM first optimises the caller without the body, and inlines it later; loops become faster so."""

    def code(context, builder, signature, args):
        convention, module = context.call_conv, builder.module
        symbol = f"nbgrad.{name}{signature}"
        function = module.globals.get(symbol)
        if function is None:
            kind = convention.get_function_type(signature.return_type, signature.args)
            function = llvm.Function(module, kind, symbol)
            function.linkage = "internal"
            convention.decorate_function(function, [f"a{k}" for k in range(len(args))], signature.args)
            body = llvm.IRBuilder(function.append_basic_block("entry"))
            packer = context.get_arg_packer(signature.args)
            arguments = packer.from_arguments(body, convention.get_arguments(function))
            convention.return_value(body, inside(context, body, signature, arguments))
        status, result = convention.call_function(builder, function, signature.return_type, signature.args, args)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    return code


def _allocation_intrinsic(name: str, dtyped: bool):
    """An intrinsic for ``np.empty`` or ``np.zeros``, with a dtype argument or without."""

    def made(shape, dtype):
        kind, axes = parse_dtype(dtype), parse_shape(shape)
        return None if kind is None or axes is None else types.Array(kind, axes, "C")

    def inside(context, builder, signature, args):
        array = emit_empty(context, builder, signature.return_type, signature.args[0], args[0])
        return _filled(name, builder, array)

    code = _outlined(name, inside)

    def typed(context, shape):
        result = made(shape, types.DType(types.float64))
        return None if result is None else (result(shape), code)

    def of_dtype(context, shape, dtype):
        result = made(shape, dtype)
        return None if result is None else (result(shape, dtype), code)

    return _intrinsic(name, of_dtype if dtyped else typed)


def _like_intrinsic(name: str):
    """An intrinsic for ``np.empty_like`` or ``np.zeros_like``."""

    def inside(context, builder, signature, args):
        return _filled(name, builder, emit_empty_like(context, builder, signature, args))

    code = _outlined(name, inside)

    def typed(context, array):
        if not isinstance(array, types.Array):
            return None
        result = array.copy(layout="C" if array.layout == "A" else array.layout, readonly=False)
        return result(array), code

    return _intrinsic(name, typed)


def _filled(name: str, builder, array):
    if name.startswith("zeros"):
        cgutils.memset(builder, array.data, builder.mul(array.itemsize, array.nitems), 0)
    return array._getvalue()


def _minmax_intrinsic(name: str, compare):
    """An intrinsic for ``max`` or ``min`` of two scalars."""

    def inside(context, builder, signature, args):
        return do_minmax(context, builder, signature.args, args, compare)

    code = _outlined(name, inside)

    def typed(context, a, b):
        numbers = all(isinstance(kind, types.Number) for kind in (a, b))
        return (context.unify_types(a, b)(a, b), code) if numbers else None

    return _intrinsic(name, typed)


def _plus(context, total, term):
    """``total + term`` as ``njit(fastmath={"reassoc", "nsz"})`` compiles it."""
    sums = context.resolve_function_type(operator.add, (total, term), {})

    def code(context, builder, signature, args):
        kind = sums.return_type
        cast = partial(context.cast, builder, toty=kind)
        return builder.fadd(*map(cast, args, signature.args), flags=("reassoc", "nsz"))

    return (sums.return_type(total, term), code) if isinstance(sums.return_type, types.Float) else None


def _intrinsic(name: str, typed) -> Any:
    typed.__name__ = typed.__qualname__ = name
    return intrinsic(typed)


#: The intrinsic for a function that Numba knows, by that function and the number of arguments.
_DIRECT: dict[tuple[Any, int], Any] = {
    (np.empty, 1): _allocation_intrinsic("empty", False),
    (np.empty, 2): _allocation_intrinsic("empty", True),
    (np.zeros, 1): _allocation_intrinsic("zeros", False),
    (np.zeros, 2): _allocation_intrinsic("zeros", True),
    (np.empty_like, 1): _like_intrinsic("empty_like"),
    (np.zeros_like, 1): _like_intrinsic("zeros_like"),
    (max, 2): _minmax_intrinsic("max", operator.gt),
    (min, 2): _minmax_intrinsic("min", operator.lt),
    ("plus", 2): _intrinsic("plus", _plus),
}

#: The functions that intrinsics replace.
REPLACED_FUNCTION: dict[Any, Any] = {found: original for (original, _), found in _DIRECT.items()}


@register_pass(mutates_CFG=False, analysis_only=False)
class DirectCalls(FunctionPass):
    """Replace calls of library functions by the intrinsics, and guarded products by selects."""

    _name = "nbgrad_direct"

    def __init__(self):
        FunctionPass.__init__(self)

    def run_pass(self, state):
        found = select_guarded(state.func_ir)
        names, blocks = state.func_id.func.__globals__, state.func_ir.blocks.values()
        assigned = {s.target.name: s for block in blocks for s in block.find_insts(ir.Assign)}
        for block in blocks:
            for call in block.find_exprs("call"):
                s = assigned.get(call.func.name)
                if s is None or call.kws or call.vararg:
                    continue
                direct = _DIRECT.get((_callee(s.value, assigned, names), len(call.args)))
                if direct is not None:
                    s.value = ir.Global(direct._name, direct, s.loc)
                    definitions(state.func_ir)[s.target.name] = [s.value]
                    found = True
        return found


def _callee(value: Any, assigned: dict[str, ir.Assign], names: dict[str, Any]) -> Any:
    """The function that a value refers to: a global or an attribute of NumPy; for one of the same file, its name."""
    if isinstance(value, ir.Expr) and value.op == "getattr" and value.value.name in assigned:
        module = assigned[value.value.name].value
        return getattr(np, value.attr, None) if isinstance(module, ir.Global) and module.value is np else None
    function = value.value if isinstance(value, ir.Global) else None
    if isinstance(function, Dispatcher) and function.py_func.__globals__ is names:
        return function.py_func.__name__
    return function if callable(function) else None
