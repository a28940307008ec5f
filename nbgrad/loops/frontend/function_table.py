"""The table of functions that loops may call: how the frontend lowers a call of each.

There are four kinds of rows, and adding a function of NumPy is adding one of them, in one place:

* a function of scalars, applied elementwise: :mod:`nbgrad.loops.ir.functions`, with its derivative;
* an operator, such as ``np.add``: :mod:`.operator_functions`, with the term of one element;
* a function written in the subset itself: :mod:`.library`, under :func:`definition`;
* one that is lowered by code of its own, such as ``np.sum``: under :func:`lowers`.

A method of arrays is the function ``np.ndarray.sum``; its calls are lowered with the array as the first argument.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

from ...backends.numba.wrapped_functions import address_of_c_function, has_hash
from ..ir import functions
from ..ir.functions import MANY
from .syntax import unparse

if TYPE_CHECKING:
    from .array_expressions import ArrayExpr
    from .calls import Calls
    from .source import Source

    Lower = Callable[[Calls, ast.Call, Any, str], ArrayExpr]

__all__ = [
    "DEFINITIONS",
    "MANY",
    "MODULES",
    "RANGES",
    "WRITING",
    "Array",
    "Known",
    "check_number",
    "definition",
    "elements_of",
    "floats_of",
    "holds_bools",
    "holds_floats",
    "is_definition",
    "is_known",
    "lowers",
    "method",
    "numbers_of",
    "refuse_call",
    "row_of",
    "takes_lists",
]


class Known(NamedTuple):
    """How a call is lowered.

    Attributes
    ----------
    function : object
        The function that `lower` is given: that of NumPy which a method is equal to.
    lower : callable or None
        ``lower(lowering, call, function, hint)`` gives the result; `hint` is the name for a new array. None if a call
        is understood only where it stands in a special place, such as ``range`` in the head of a loop.
    arguments : tuple of int
        How many arguments a call may have by position, at least and at most. What is not counted here is not looked at,
        so a row cannot leave it out.
    keywords : bool
        Whether `lower` takes the call's keywords.
    shares : bool
        Whether the result may share elements with an argument.
    writes : bool
        Whether an argument is written.
    """

    function: object
    lower: Lower | None
    arguments: tuple[int, int]
    keywords: bool = False
    shares: bool = False
    writes: bool = False


_ROWS: dict[object, Known] = {}
#: Functions of NumPy's that are written in the subset; a call of one is lowered like a call of its definition.
DEFINITIONS: dict[object, Callable] = {}
_DEFINED: set[Callable] = set()
#: Those of them that write an argument.
WRITING: set[Callable] = set()
#: The modules with these definitions.
MODULES: set[str] = set()


def lowers(
    *functions: object, arguments: tuple[int, int], methods: bool = False, **facts: bool
) -> Callable[[Lower], Lower]:
    """Decorator: how calls of these functions are lowered, and of the methods of arrays with their names."""

    def register(lower: Lower) -> Lower:
        for function in functions:
            _ROWS[function] = Known(function, lower, arguments, **facts)
            if methods:
                method(function)
        return lower

    return register


def method(function: Any, lower: Lower | None = None) -> None:
    """The method of arrays with the name of `function` is lowered like it, or by `lower`."""
    row = _ROWS[function] if lower is None else Known(function, lower, (1, MANY))
    _ROWS[getattr(np.ndarray, function.__name__)] = row


#: Parameters of NumPy's functions that are arrays, by which lists become such.
_ARRAYS = {"A", "a", "a1", "a2", "ar1", "ar2", "arr", "array", "b", "bins", "condition", "m", "test_elements", "v",
           "values", "weights", "x", "x1", "x2", "y"}  # fmt: skip


def takes_lists(function: object, parameter: inspect.Parameter) -> bool:
    """Whether a list that is passed for a parameter becomes an array."""
    return parameter.annotation == "Array" or (function in _DEFINED and parameter.name in _ARRAYS)


def definition(of: Any, name: str = "", writes: bool = False) -> Callable[[Callable], Callable]:
    """Decorator: this function, written in the subset, is that of the module `of` with its name, or this `name`;
    `writes`: it writes an argument.

    Parameters annotated as `Array`, and those with the usual names of arrays, may be given lists and tuples of numbers,
    which become arrays.
    """

    def register(function: Callable) -> Callable:
        DEFINITIONS[getattr(of, name or function.__name__)] = function
        MODULES.add(function.__module__)
        _DEFINED.add(function)
        if writes:
            WRITING.add(function)
        return function

    return register


def refuse_call(what: str) -> None:
    """In a definition: refuse the call with this message, while it is lowered."""


def floats_of(*arrays: object) -> Any:
    """In a definition, as a dtype: that of floats computed from these arrays, float64 for integers."""


def elements_of(value: object, *arrays: object) -> Any:
    """In a definition, as a dtype: that of the number or array `value`, of floats that of floats computed from both."""


def numbers_of(*arrays: object) -> Any:
    """In a definition, as a dtype: that of sums of products of these arrays, integers for those of integers."""


def holds_bools(array: object) -> Any:
    """In a definition, as a test: whether an array holds bools."""


def holds_floats(array: object) -> Any:
    """In a definition, as a test: whether an array holds floats, not bools or integers."""


def row_of(function: object) -> Known | None:
    """The row of a function; None if it is not known."""
    if not has_hash(function):
        return None
    row = _ROWS.get(function)
    if row is None and function in functions.FUNCTIONS:
        return _ELEMENTWISE._replace(arguments=functions.FUNCTIONS[function].arguments)
    return row


def is_definition(function: object) -> bool:
    """Whether this is the definition of a function of NumPy's."""
    return isinstance(function, types.FunctionType) and function in _DEFINED


def is_known(function: object) -> bool:
    """Whether calls of a function are lowered without a look at its source."""
    return row_of(function) is not None


def _elementwise(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return low.elementwise_call(node)


_ELEMENTWISE = Known(None, _elementwise, (1, MANY))

#: In a definition: a parameter that may be given a list or tuple of numbers.
Array = Any

#: What counts loops.
RANGES = {range, numba.prange}
for _function in RANGES:
    _ROWS[_function] = Known(_function, None, (1, 3))
for _function, _arguments in (
    (enumerate, (1, 2)), (zip, (0, MANY)), (reversed, (1, 1)), (np.ndindex, (1, MANY)), (np.ndenumerate, (1, 1)),
):  # fmt: skip
    _ROWS[_function] = Known(_function, None, _arguments, shares=True)
_ROWS[type] = Known(type, None, (1, 1))  # element_types
_ROWS[np.dtype] = Known(np.dtype, None, (1, 1))  # static_values
_ROWS[np.shape] = Known(np.shape, None, (1, 1))
_ROWS[np.ndarray.fill] = Known(np.ndarray.fill, None, (2, 2), writes=True)  # a statement: Lowering.effect


def no_function(node: ast.Call, called: object) -> tuple[str, str]:
    """What to say of a call of an object that is not callable, and what to do instead."""
    if address_of_c_function(called) is not None:
        return f"a call of {ast.unparse(node.func)}, a C function", "give it a vjp, by nb.primitive of an njit function"
    return f"a call of {ast.unparse(node.func)}, which is no function", "call one"


def check_number(source: Source, node: ast.Call, number: int, row: Known) -> None:
    """Refuse a call with a `number` of arguments by position that its function does not take."""
    fewest, most = row.arguments
    if not fewest <= number <= most:
        takes = f"{fewest}" if fewest == most else f"{fewest} or more" if most == MANY else f"{fewest} to {most}"
        what = f"{unparse(node)}, with {number} argument{'s' * (number != 1)} by position"
        raise source.refuse(node, what, f"{takes} may be given (the array of a method is one)")
