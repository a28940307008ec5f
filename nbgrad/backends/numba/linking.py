"""Machine code of parallel functions that is the same when it is compiled and when it is loaded."""

from __future__ import annotations

from llvmlite.binding import Linkage
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeParforLowering

__all__ = ["ParallelLowering"]


#: What functions from other libraries are.
_LINKED = (Linkage.linkonce_odr, Linkage.weak_odr)


@register_pass(mutates_CFG=True, analysis_only=False)
class ParallelLowering(NativeParforLowering):
    """Numba's pass, whose outcome calls the turns that it has a copy of.

    Turns are a function of their own, which Numba optimizes, and once more where it is linked in. What is on disk has
    the second version. A process that has just compiled it has both, and would call the first: a sum could differ in
    the last bit between a process and the next.
    """

    _name = "nbgrad_parallel_lowering"

    def run_pass(self, state):
        if state.library is None:  # as Numba makes it
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
