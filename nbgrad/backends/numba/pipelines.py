"""The compilers: Numba's own, with some passes replaced or removed."""

from __future__ import annotations

from typing import ClassVar

from . import code_store
from .alias_analysis import AliasRootAnalysis, NoAliasLowering
from .direct_calls import DirectCalls
from .disk_cache import PART
from .fingerprint import of_function
from .internals import (
    MOVES_MASKED_LOADS,
    Compiler,
    DeadBranchPrune,
    InlineClosureLikes,
    IRProcessing,
    Lower,
    NativeLowering,
    NativeParforLowering,
    NopythonRewrites,
    NopythonTypeInference,
    PreLowerStripPhis,
    ReconstructSSA,
    WithLifting,
    add_to_target,
    register_pass,
    vectorize_unless,
)
from .linking import ParallelLowering
from .masked_loads import may_read_too_late
from .ssa import SsaConstruction, SsaDestruction
from .type_inference import TypeInference

__all__ = [
    "NO_REALIGN_STACK",
    "GeneratedCompiler",
    "HelperCompiler",
    "KernelCompiler",
    "NoAliasKernelCompiler",
    "RoutineCompiler",
]

#: LLVM's attribute for functions that do not realign their stack; llvmlite does not know it.
NO_REALIGN_STACK = '"no-realign-stack"'


class _Lower(Lower):
    """Lowering of functions without stack realignment.

    A function that aligns its stack to 32 or 64 bytes, to spill vector registers, needs a base pointer to restore it.
    The vector functions do not preserve that register (:mod:`...vmath.rare`), so LLVM's code would be wrong where it
    spills a result right after such a call.
    """

    def setup_function(self, fndesc):
        super().setup_function(fndesc)
        set.add(self.function.attributes, NO_REALIGN_STACK)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "nbgrad_lowering"
    lowering_class = _Lower


class _Compiler(Compiler):
    """Numba's compiler with some passes replaced, or removed (None), as `replaced_passes` says."""

    replaced_passes: ClassVar[dict] = {
        ReconstructSSA: SsaConstruction,
        NopythonTypeInference: TypeInference,
        PreLowerStripPhis: SsaDestruction,
    }

    def define_pipelines(self):
        if MOVES_MASKED_LOADS:
            vectorize_unless(self.state, may_read_too_late)
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            passes = [(self.replaced_passes.get(p, p), why) for p, why in pipeline.passes]
            pipeline.passes = [(p, why) for p, why in passes if p is not None]
            pipeline.finalize()
        return pipelines


class RoutineCompiler(_Compiler):
    """The compiler for helpers, which have no closures, array expressions or ``with``."""

    replaced_passes: ClassVar[dict] = {
        **_Compiler.replaced_passes,
        **dict.fromkeys([InlineClosureLikes, NopythonRewrites, WithLifting]),
    }


class HelperCompiler(RoutineCompiler):
    """The same for scalar helpers, with a disk cache: a new kernel needs no other compilation than its own."""

    def compile_extra(self, func):
        state = self.state
        key = code_store.key(lambda: of_function(func), {"flags": state.flags.summary()}, state.args)
        result = code_store.load(key, PART)
        if result is not None:
            add_to_target(state.targetctx, result)
            return result
        result = super().compile_extra(func)
        code_store.store(key, func.__name__, result, PART)
        return result


class KernelCompiler(_Compiler):
    """The compiler for kernels."""

    replaced_passes: ClassVar[dict] = {**_Compiler.replaced_passes, NativeLowering: _Lowering}


class GeneratedCompiler(_Compiler):
    """The compiler for generated files, without the passes that they do not need.

    They have no closures, array expressions, generators or ``with``. Dead branches are not pruned either: a variable
    that is only set there, and read elsewhere, would have no type."""

    replaced_passes: ClassVar[dict] = {
        **_Compiler.replaced_passes,
        PreLowerStripPhis: AliasRootAnalysis,
        NativeLowering: NoAliasLowering,
        NativeParforLowering: ParallelLowering,
        IRProcessing: DirectCalls,
        **dict.fromkeys([DeadBranchPrune, InlineClosureLikes, NopythonRewrites, WithLifting]),
    }


class NoAliasKernelCompiler(KernelCompiler):
    """The same with ``noalias`` arguments, for which Numba's decorators have no option."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        flags.noalias = True
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)
