"""Linking: make a freshly compiled parallel function run the same machine code as one loaded from disk."""

from __future__ import annotations

from .internals import Linkage, NativeParforLowering, before_optimizing, register_pass

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
        before_optimizing(state, _link_internally)
        return super().run_pass(state)


def _link_internally(functions) -> None:
    """Link functions internally, under names of their own.

    LLVM's loader resolves a name to any function of that name, even an internal one of another file. And the parameters
    of an internal function may change.
    """
    functions = list(functions)
    entry = next(f.name for f in functions if not f.is_declaration and f.linkage == Linkage.external)
    for function in functions:
        if not function.is_declaration and function.linkage in _LINKED:
            function.linkage = Linkage.internal
            function.name = f"{function.name}.in.{entry}"
