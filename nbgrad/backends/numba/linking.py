"""Linking: make a freshly compiled parallel function run the same machine code as one loaded from disk."""

from __future__ import annotations

from llvmlite.binding import Linkage
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeParforLowering

__all__ = ["ParallelLowering"]


#: The linkage of functions from other libraries.
_LINKED = (Linkage.linkonce_odr, Linkage.weak_odr)


@register_pass(mutates_CFG=True, analysis_only=False)
class ParallelLowering(NativeParforLowering):
    """Numba's pass, with the bodies of parallel loops linked internally.

    Numba puts the loop body into its own function, optimizes it, and optimizes it again where it is linked in. The code
    on disk contains the second version. The process that compiled it has both and would call the first, so a sum could
    differ in the last bit between that process and the next.
    """

    _name = "nbgrad_parallel_lowering"

    def run_pass(self, state):
        if state.library is None:  # as Numba creates it
            state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
            state.library.enable_object_caching()
        library, optimize = state.library, state.library._optimize_final_module

        def optimized():
            for function in library._final_module.functions:
                if not function.is_declaration and function.linkage in _LINKED:
                    function.linkage = Linkage.internal
            optimize()

        library._optimize_final_module = optimized
        return super().run_pass(state)
