"""What this library relies on in Numba and llvmlite beyond Numba's public names; no other module imports that.

Each entry says the contract relied on, and where Numba's versions differ, the difference ends here.
``tests/test_numba_internals.py`` has a test of each, by its name, so a new version of Numba shows at once which of them
does not hold any more. (Numba's CUDA target is the matter of ``backends/cuda/driver.py``.)
"""

from __future__ import annotations

import copy
import ctypes
import itertools
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import llvmlite
import numba
from llvmlite import binding as _binding
from llvmlite import ir as llvm
from llvmlite.binding import Linkage, newpassmanagers
from numba.core import cgutils, event, ir, ir_utils, serialize, sigutils
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import NullCache
from numba.core.ccallback import CFunc
from numba.core.codegen import RuntimeLinker
from numba.core.compiler import Compiler, CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.controlflow import CFGraph as ControlFlowGraph
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numba.core.imputils import user_function
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime import rtsys
from numba.core.typed_passes import (
    NativeLowering,
    NativeParforLowering,
    NopythonRewrites,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.typing.npydecl import parse_dtype, parse_shape
from numba.core.typing.templates import builtin_registry
from numba.core.typing.typeof import typeof_impl
from numba.core.untyped_passes import DeadBranchPrune, InlineClosureLikes, IRProcessing, ReconstructSSA, WithLifting
from numba.cpython.builtins import do_minmax
from numba.experimental.jitclass import _box
from numba.experimental.jitclass.base import JitClassType
from numba.extending import _Intrinsic as Intrinsic
from numba.extending import intrinsic, overload
from numba.np.arrayobj import (
    _empty_nd_impl,
    _parse_empty_like_args,
    _parse_shape,
    fix_integer_index,
    load_item,
    populate_array,
    store_item,
)
from numba.np.numpy_support import as_dtype
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc
from numba.np.ufunc.sigparse import parse_signature
from numba.stencils.stencil import StencilFunc

__all__ = [
    "COMPILER_LOCK",
    "LLVM_LOCK",
    "MOVES_MASKED_LOADS",
    "NO_MATCH",
    "VERSIONS",
    "CFunc",
    "CPUDispatcher",
    "CompileResult",
    "Compiler",
    "ControlFlowGraph",
    "DUFunc",
    "DeadBranchPrune",
    "Dispatcher",
    "FunctionPass",
    "GUFunc",
    "IRProcessing",
    "InlineClosureLikes",
    "Intrinsic",
    "JitClassType",
    "Linkage",
    "Lower",
    "NativeLowering",
    "NativeParforLowering",
    "NopythonRewrites",
    "NopythonTypeInference",
    "NullCache",
    "NumbaError",
    "PreLowerStripPhis",
    "ReconstructSSA",
    "StencilFunc",
    "WithLifting",
    "add_symbol",
    "add_to_target",
    "address_of_instance",
    "argument_types",
    "as_dtype",
    "before_optimizing",
    "call_by_symbol",
    "can_compile",
    "cgutils",
    "compute_cfg_from_blocks",
    "core_dimensions",
    "definition_of",
    "definitions",
    "dispatcher_of",
    "do_minmax",
    "dynamic_globals",
    "emit_empty",
    "emit_empty_like",
    "fix_integer_index",
    "free_pass_managers",
    "function_compiler",
    "function_numbers",
    "host_processor",
    "intrinsic",
    "ir",
    "ir_utils",
    "kernel_address",
    "kernel_of_stencil",
    "links_at_runtime",
    "llvm",
    "load_item",
    "loops_of_gufunc",
    "native_library",
    "number_functions_from",
    "on_compilation",
    "overload",
    "overloads_of",
    "packed",
    "packed_library",
    "parse_dtype",
    "parse_shape",
    "populate_array",
    "prefers_literals",
    "rebuild_definitions",
    "register_pass",
    "register_typeof",
    "replace_in_target",
    "stencil_result",
    "store_item",
    "unpacked",
    "unpacked_library",
    "use_cache",
    "vectorize_unless",
]

# Versions, the processor, and locks.

#: The versions of Numba and llvmlite: machine code of one cannot be loaded by another.
VERSIONS = numba.__version__, llvmlite.__version__
#: Whether LLVM may move masked loads past stores (:mod:`.masked_loads`).
MOVES_MASKED_LOADS = _binding.llvm_version_info[0] >= 22
#: The lock that is held while Numba compiles: reentrant, and it knows whether this thread owns it.
COMPILER_LOCK: Any = global_compiler_lock._lock
#: The lock that llvmlite holds while it is inside LLVM, likewise; None if this version of llvmlite has none.
LLVM_LOCK: Any = getattr(getattr(_binding.ffi.lib, "_lock", None), "_lock", None)


def host_processor() -> tuple[str, str]:
    """The processor that code is generated for: LLVM's name of it, and its features."""
    return _binding.get_host_cpu_name(), _binding.get_host_cpu_features().flatten()


# Dispatchers: the objects that ``njit`` makes.
#
# Dispatcher: the type of all compiled functions, weakly referable; ``py_func``, ``targetoptions`` and ``overloads``
#     (by the tuple of argument types; each has ``signature``, ``entry_point``, ``library``) are what they say.
# CPUDispatcher: the type of what ``njit`` returns; an instance may be given a subclass as its ``__class__``.
# DUFunc: the type of what ``numba.vectorize`` returns.
# GUFunc, StencilFunc: those of what ``numba.guvectorize`` and ``numba.stencil`` return. A GUFunc has ``is_dynamic``,
#     and its kernel as ``__wrapped__``; a StencilFunc has ``options``, as the decorator got them.
# CFunc, JitClassType: the types of what ``numba.cfunc`` returns, with its function as ``__wrapped__``, and of the
#     classes that ``jitclass`` makes.
# _box.box_dataptr_offset: where a Python object for an instance has the address of its fields.
# NullCache: a cache of a dispatcher that does nothing; its methods may be overridden (:func:`use_cache`).
# NumbaError: what Numba raises when it cannot compile a function.
# overload: a function of the argument types chooses the body of a Python function that compiled code calls.

#: How the error begins that a dispatcher raises which has no code for its arguments and must not compile.
NO_MATCH = "No matching definition for argument type(s) "


def address_of_instance(instance: Any) -> int:
    """The address of the fields of an instance of a jitclass, which all Python objects for it have in common."""
    return ctypes.c_void_p.from_address(id(instance) + _box.box_dataptr_offset).value or 0


def argument_types(signature: Any) -> tuple:
    """The argument types of a signature as Numba takes them: a tuple, a signature or a string."""
    return sigutils.normalize_signature(signature)[0]


def overloads_of(function: Any) -> list[Callable]:
    """The functions of argument types that ``overload`` was given for a function of Python, in order, without that of
    ``register_jitable``, which chooses the function itself."""
    kinds = [kind for value, kind in builtin_registry.globals if value is function]
    chosen = [getattr(t, "_overload_func", None) for kind in kinds for t in getattr(kind, "templates", ())]
    return [c for c in chosen if c is not None and not c.__qualname__.startswith("register_jitable.")]


def prefers_literals(choose: Callable) -> bool:
    """Whether a function of :func:`overloads_of` is asked for constants first, by their values."""
    kinds = [kind for _, kind in builtin_registry.globals]
    templates = [t for kind in kinds for t in getattr(kind, "templates", ())]
    return any(t.prefer_literal for t in templates if getattr(t, "_overload_func", None) is choose)


def can_compile(function: Any) -> bool:
    """Whether a dispatcher compiles for further argument types."""
    return function._can_compile


def dispatcher_of(ufunc: DUFunc) -> Any:
    """What compiles the scalar function of a ufunc; it has ``py_func`` and ``targetoptions``."""
    return ufunc._dispatcher


def core_dimensions(ufunc: GUFunc) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """The names of the core dimensions of each input, and of each output."""
    inputs, outputs = parse_signature(ufunc.gufunc_builder.signature)
    return tuple(inputs), tuple(outputs)


def loops_of_gufunc(ufunc: GUFunc) -> list[tuple]:
    """The argument types of each loop that has been declared or compiled."""
    return [signature.args for signature in ufunc.gufunc_builder._sigs]


def kernel_of_stencil(stencil: StencilFunc) -> Any:
    """The function that a stencil was made of."""
    return stencil.kernel_ir.func_id.func


def stencil_result(stencil: StencilFunc, arguments: tuple) -> Any:
    """The type of the elements of a stencil's result for these argument types."""
    return stencil.get_return_type(arguments)[0].dtype


def use_cache(function: Any, cache: NullCache) -> None:
    """Ask `cache` for code before compiling (``load_overload(sig, target_context)``), and hand it what was compiled
    (``save_overload(sig, result)``). A function with a cache keeps its object code, which :func:`packed` needs."""
    function._cache = cache


def function_compiler(function: Any) -> Any:
    """What a dispatcher compiles with: ``compile(args, return_type)`` returns the result; ``targetoptions`` and
    ``pipeline_class``, a :class:`Compiler`, may be replaced."""
    return function._compiler


def on_compilation(start: Callable[[Dispatcher], None], end: Callable[[Dispatcher], None]) -> None:
    """Call functions whenever Numba begins and ends to compile a dispatcher; the calls are nested like parentheses."""

    class Listener(event.Listener):
        def on_start(self, event):
            start(event.data["dispatcher"])

        def on_end(self, event):
            end(event.data["dispatcher"])

    event.register("numba:compile", Listener())


def register_typeof(kind: type) -> Callable[[Callable], Callable]:
    """Decorator: ``function(value, context)`` gives the type of a class's values to dispatchers, or raises."""
    return typeof_impl.register(kind)


# The compiler: passes over functions.
#
# Compiler: its ``define_pipelines()`` returns pipelines; ``passes`` of each is a list of (pass, reason), replaceable
#     before ``finalize()``. Its constructor is given the flags (``noalias`` among them; ``summary()`` has all);
#     ``compile_extra(function)`` returns a CompileResult.
# FunctionPass, register_pass: a pass is a class with a ``_name`` and ``run_pass(state)``, which returns whether it has
#     changed the function; ``state`` has func_id, func_ir, typemap, flags, typingctx, targetctx, library.
# The passes of Numba that are replaced, extended or left out; a function goes through each, with NativeParforLowering
#     if it is parallel, and else with NativeLowering:
#     IRProcessing (canonical loops; lifetimes of variables, for generators), DeadBranchPrune, InlineClosureLikes,
#     WithLifting, NopythonRewrites (array expressions), ReconstructSSA (its ``_patch_locals(state)`` carries declared
#     types over to new versions), NopythonTypeInference (uses ``state.typingctx``), PreLowerStripPhis (its
#     ``_strip_phi_nodes(func_ir)``), NativeLowering (``lowering_class``), NativeParforLowering.
# Lower: lowering of one function. Overridden are init, setup_function, lower_function_body, pre_block, lower_inst,
#     storevar, loadvar, delvar, lower_binop, lower_getitem, lower_setitem; blocks are lowered in the order of labels.


def add_to_target(context: Any, result: CompileResult) -> None:
    """Let other functions call code that was not compiled in this process. (``context`` is ``state.targetctx``.)"""
    context.insert_user_function(result.entry_point, result.fndesc, [result.library])


def replace_in_target(context: Any, result: CompileResult, implementation: Callable) -> None:
    """Let other functions call compiled code by what `implementation` emits, and link nothing."""
    context.remove_user_function(result.entry_point)
    context.insert_func_defn([(implementation, result.entry_point, implementation.signature)])  # type: ignore[attr-defined]


def call_by_symbol(result: CompileResult, symbol: str, mark: str) -> Callable:
    """What emits calls of compiled code under a symbol, and a global with the name `mark`, which stays in the module
    (after ``numba.dynamic.globals`` at its beginning, Numba stores neither the caller nor its callers)."""
    descriptor = copy.copy(result.fndesc)
    descriptor.mangled_name = symbol
    emit = user_function(descriptor, ())

    def implementation(context, builder, signature, args):
        if mark not in builder.module.globals:
            made = llvm.GlobalVariable(builder.module, llvm.IntType(8), mark)
            made.initializer, made.linkage = llvm.IntType(8)(0), "weak_odr"
        return emit(context, builder, signature, args)

    implementation.signature, implementation.libs = emit.signature, emit.libs  # type: ignore[attr-defined]
    return implementation


def _library(state: Any) -> Any:
    if state.library is None:  # as Numba creates it
        state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        state.library.enable_object_caching()
    return state.library


def before_optimizing(state: Any, action: Callable[[Any], None]) -> None:
    """Run ``action(functions)`` on the LLVM functions of what is compiled, once other libraries are linked in."""
    library = _library(state)
    optimize = library._optimize_final_module

    def optimized() -> None:
        action(library._final_module.functions)
        optimize()

    library._optimize_final_module = optimized


def vectorize_unless(state: Any, wrong: Callable[[str], bool]) -> None:
    """Optimize what is compiled without vectorised loops if ``wrong(code)`` of an LLVM function with them."""
    library = _library(state)
    optimize = library._optimize_final_module

    def optimized() -> None:
        before = library._final_module.clone()
        optimize()
        if any(f.name.startswith("llvm.masked.load.") for f in library._final_module.functions) and any(
            wrong(str(f)) for f in library._final_module.functions if not f.is_declaration
        ):
            library._final_module = before
            passes, builder = library._codegen._module_pass_manager(loop_vectorize=False)
            passes.run(before, builder)

    library._optimize_final_module = optimized


# Numba's IR.
#
# ir: blocks by label, with a ``body`` of statements; Assign, SetItem, Branch, Expr, Var, Const, Global, FreeVar, Arg.
# ir_utils: ``build_definitions``, ``replace_vars_stmt`` and ``replace_vars_inner``.
# compute_cfg_from_blocks: dominators, dominance frontiers and predecessors of blocks; ControlFlowGraph: of any nodes.


def definitions(func_ir: Any) -> dict[str, list[Any]]:
    """The values that are assigned to each variable; passes keep them true."""
    return func_ir._definitions


def rebuild_definitions(func_ir: Any) -> None:
    """Compute them anew, after a pass that has renamed variables."""
    func_ir._definitions = ir_utils.build_definitions(func_ir.blocks)


# LLVM code.
#
# llvm: llvmlite's types, values and builder of LLVM IR.
# cgutils: ``unpack_tuple``, ``alloca_once``, ``memset``, ``get_item_pointer2`` and their like.
# Linkage: the linkage of a function, which may be set; functions of other libraries are linkonce_odr or weak_odr.
# Intrinsic, intrinsic: a function given by its types and LLVM instructions, emitted where it is called. The type takes
#     a subclass as its ``__class__``. (:mod:`.intrinsics` is for those who write one.)
# do_minmax: LLVM code of ``max`` or ``min``, as Numba has it for arguments of other types.
# load_item, store_item: an array's element to and from memory. fix_integer_index: negative indices from the end.
# populate_array: sets the fields of an array's structure.
# parse_dtype, parse_shape: the element type and the rank of a new array, from the types of NumPy's arguments; or None.
# as_dtype: NumPy's dtype of a type of elements.


def definition_of(function: Intrinsic) -> Callable:
    """The function that gives an intrinsic's types and instructions."""
    return function._defn


def add_symbol(name: str, address: Any) -> None:
    """Let compiled code call what is at an address by name, also code that was stored by other processes."""
    _binding.add_symbol(name, address)


def emit_empty(context: Any, builder: Any, kind: Any, shape_type: Any, shape: Any) -> Any:
    """Emit the allocation of an array; the result has its fields, and `_getvalue`. Raises for impossible shapes."""
    return _empty_nd_impl(context, builder, kind, _parse_shape(context, builder, shape_type, shape))


def emit_empty_like(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """The same for an array like another one: its shape, dtype and layout."""
    kind, shapes = _parse_empty_like_args(context, builder, signature, args)
    return _empty_nd_impl(context, builder, kind, shapes)


def free_pass_managers() -> None:
    """Let llvmlite free LLVM's pass managers from now on; its classes hide the method that does."""
    for manager in (newpassmanagers.ModulePassManager, newpassmanagers.FunctionPassManager):
        if manager._dispose is _binding.ffi.ObjectRef._dispose:
            manager._dispose = newpassmanagers.NewPassManager._dispose


# Compiled code in other processes.

_FUNCTION_NUMBER = re.compile(r"B\d+v(\d+)")


def number_functions_from(start: int) -> None:
    """Numba numbers the functions that it compiles, and their symbols contain the number: count from `start`."""
    FunctionIdentity._unique_ids = itertools.count(start)


def function_numbers(result: CompileResult) -> Iterator[int]:
    """The numbers of all functions in compiled code."""
    for function in result.library.get_defined_functions():
        yield from map(int, _FUNCTION_NUMBER.findall(function.name))


def kernel_address(result: CompileResult) -> int:
    """The address of compiled code: a function with the arguments of Numba's calling convention."""
    return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


def native_library(name: str, emit: Callable[[Any, Any], None]) -> Any:
    """Machine code of what ``emit(context, module)`` adds to an LLVM module; it can be packed. Its
    ``get_pointer_to_function(name)`` is the address of a function in it."""
    context = cpu_target.target_context
    with global_compiler_lock:
        library = context.codegen().create_library(name)
        library.enable_object_caching()
        module = context.create_module(name)
        emit(context, module)
        library.add_ir_module(module)
        library.finalize()
    return library


def packed_library(library: Any) -> bytes:
    """Machine code for :func:`unpacked_library` in another process."""
    return pickle.dumps(library.serialize_using_object_code())


def unpacked_library(payload: bytes) -> Any:
    """What :func:`packed_library` has packed."""
    return cpu_target.target_context.codegen().unserialize_library(pickle.loads(payload))


def dynamic_globals(result: CompileResult) -> list[str]:
    """The names of the globals for which Numba does not store code: addresses of this process."""
    return list(result.library._dynamic_globals) if result.library.has_dynamic_globals else []


def links_at_runtime(result: CompileResult) -> bool:
    """Whether code calls functions that Numba links when it is run: functions that call each other."""
    return any(g.name.startswith(RuntimeLinker.PREFIX) for g in result.library._final_module.global_variables)


def packed(result: CompileResult) -> bytes:
    """Compiled code of a function with a cache, for :func:`unpacked` in another process.

    Raises
    ------
    AttributeError, TypeError, ValueError, pickle.PicklingError
        If it cannot be stored.
    """
    return serialize.dumps(result._reduce())


def unpacked(payload: bytes) -> CompileResult:
    """Compiled code that can be called. Raises whatever is wrong with it.

    It needs nothing of Numba but the symbols of its runtime. A first *dispatch* would also load every typing and
    lowering registry, which takes 0.3 to 0.5 s.
    """
    context = cpu_target.target_context
    if b"NRT_" in payload:
        rtsys.initialize(context)
    return CompileResult._rebuild(context, *pickle.loads(payload))
