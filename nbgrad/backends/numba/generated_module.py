"""Modules that hold generated code, so that it is told from users' by what it is, not by what it is called."""

from __future__ import annotations

from types import FunctionType, ModuleType

__all__ = ["GeneratedModule", "is_generated"]


class GeneratedModule(ModuleType):
    """The module of a generated file. Its names know it, for two files of one text are two modules of one name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        vars(self)[_OF] = self


#: Under which name a generated module is among its own names.
_OF = "__generated_module__"


def is_generated(function: FunctionType) -> bool:
    """Whether a function is one of such a module."""
    made = function.__globals__.get(_OF)
    return isinstance(made, GeneratedModule) and vars(made) is function.__globals__
