"""Classes of values: ``isinstance(x, np.ndarray)``, decided when code is generated.

Numbers are those of Python, as in Numba: ``isinstance(n, int)`` holds for each integer.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.statements import Assign, walk
from .dictionaries import Dictionary
from .lists_of_rows import RowList
from .number_types import numpy_type
from .record_types import RecordType
from .scope import UNCERTAIN
from .static_values import GeneratorArgument

if TYPE_CHECKING:
    from .scope import Scope

__all__ = ["is_instance"]

_NUMBERS: dict[str, type] = {"float": float, "int": int, "bool": bool}
_OF_NUMPY: dict[type, type] = {float: np.float64, int: np.int64, bool: np.bool_}


def is_instance(low: Scope, name: ast.Name, kind: ast.expr) -> bool | None:
    """Whether a local variable is of a class, or of one in a tuple of them; None if that is not known."""
    kinds = [_class(low, k) for k in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
    perhaps = classes_of(low, name) if low.is_local_name(name.id) else []
    if not perhaps or not all(isinstance(k, type | tuple) for k in kinds):
        return None
    wanted: Any = tuple(kinds)
    held = {issubclass(c, wanted) for c in perhaps}
    of_numpy = any(issubclass(_OF_NUMPY.get(c, c), wanted) for c in perhaps)
    return True if held == {True} else None if True in held or of_numpy else False


def _class(low: Scope, node: ast.expr) -> object:
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    found = low.resolve(node)
    return numpy_type(found) if not isinstance(found, tuple) else found


def classes_of(low: Scope, node: ast.Name) -> list[type]:
    """The class of what a local name is bound to, or those that it may be of; none if it may be of any."""
    if (pack := low.tuple_of(node)) is not None:
        return [] if isinstance(pack.of, RecordType) else [pack.of]
    if (static := low.string_of(node.id)) is not None:
        value = static.value
        listed = dict if isinstance(value, Dictionary) else list if isinstance(value, RowList) else type(value)
        return [] if value is UNCERTAIN or isinstance(value, GeneratorArgument) else [listed]
    if (view := low.array(node)) is not None:
        return [list, np.ndarray] if low.shared.lists.get(view.name) else [np.ndarray]
    if node.id in low.functions or node.id in low.uncertain_arrays:
        return []
    mine = low.local(node)
    if _is_argument(low, mine):
        return [_NUMBERS[low.lowered_function.kinds[mine]]]
    return [*_NUMBERS.values(), np.ndarray]  # what np.asarray makes of a number is a number here


def _is_argument(low: Scope, name: str) -> bool:
    """Whether a number is an argument of the function that is differentiated, here."""
    program = low.lowered_function
    first = low.at_function_level and low.outer is None and name in program.parameters
    return low.is_constant_scalar(name) or (
        first and not any(isinstance(s, Assign) and s.name == name for s in walk(low.out))
    )
