"""Type inference: Numba's pass with memoised overload resolution."""

from __future__ import annotations

from .internals import NopythonTypeInference, register_pass

__all__ = ["TypeInference"]


@register_pass(mutates_CFG=True, analysis_only=False)
class TypeInference(NopythonTypeInference):
    """Numba's pass in a memoising typing context."""

    _name = "nbgrad_type_inference"

    def run_pass(self, state):
        context, state.typingctx = state.typingctx, _MemoizingContext(state.typingctx)
        try:
            return super().run_pass(state)
        finally:
            state.typingctx = context


class _MemoizingContext:
    """A typing context for one function that resolves each call signature once.

    Half of Numba's inference time goes into trying the overloads of operators such as ``+``."""

    def __init__(self, context) -> None:
        self._context = context
        self._known: dict[tuple, object] = {}

    def __getattr__(self, name: str):
        return getattr(self._context, name)

    def resolve_function_type(self, function, args, kws):
        key = function, tuple(args), tuple(kws.items())
        signature = self._known.get(key)
        if signature is None:  # None is not remembered: it may become known later, as in recursion
            signature = self._known[key] = self._context.resolve_function_type(function, args, kws)
        return signature
