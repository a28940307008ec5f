"""Numba's type inference, which asks once for what the same call with the same types gives, not at each place."""

from __future__ import annotations

from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NopythonTypeInference

__all__ = ["TypeInference"]


@register_pass(mutates_CFG=True, analysis_only=False)
class TypeInference(NopythonTypeInference):
    """Numba's pass, in a context that remembers."""

    _name = "nbgrad_type_inference"

    def run_pass(self, state):
        context, state.typingctx = state.typingctx, _Remembering(state.typingctx)
        try:
            return super().run_pass(state)
        finally:
            state.typingctx = context


class _Remembering:
    """A typing context for one function. Half of Numba's inference goes into trying all that ``+`` can mean."""

    def __init__(self, context) -> None:
        self._context = context
        self._known: dict[tuple, object] = {}

    def __getattr__(self, name: str):
        return getattr(self._context, name)

    def resolve_function_type(self, function, args, kws):
        key = function, tuple(args), tuple(kws.items())
        found = self._known.get(key)
        if found is None:  # and so also what may be known later, as in recursion
            found = self._known[key] = self._context.resolve_function_type(function, args, kws)
        return found
