"""Modules of generated code: a type by which they are distinguished from users' modules, whatever their names."""

from __future__ import annotations

from types import FunctionType, ModuleType

__all__ = ["GeneratedModule", "is_generated"]


class GeneratedModule(ModuleType):
    """The module of a generated file. Its globals refer to it, since equal files are separate modules of one name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        vars(self)[_OF] = self


#: The global name by which a generated module refers to itself.
_OF = "__generated_module__"


def is_generated(function: FunctionType) -> bool:
    """Whether a function belongs to a generated module."""
    module = function.__globals__.get(_OF)
    return isinstance(module, GeneratedModule) and vars(module) is function.__globals__
