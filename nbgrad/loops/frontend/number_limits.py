"""Limits of types of numbers: np.finfo and np.iinfo, as named tuples of constants."""

from __future__ import annotations

import ast
from collections import namedtuple
from typing import TYPE_CHECKING

import numpy as np

from ..ir.names import literal
from .array_expressions import Scalar, TupleExpr
from .function_table import lowers
from .number_types import named_dtype
from .syntax import unparse

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["FloatLimits", "IntegerLimits"]

FloatLimits = namedtuple("FloatLimits", "bits eps max min tiny smallest_normal resolution")
IntegerLimits = namedtuple("IntegerLimits", "bits max min")


@lowers(np.finfo, np.iinfo, arguments=(1, 1))
def _limits(low: Calls, node: ast.Call, called: type, hint: str) -> TupleExpr:
    limits, kinds = (FloatLimits, "f") if called is np.finfo else (IntegerLimits, "iu")
    given = low.resolve(node.args[0])
    dtype = None if given is None else named_dtype(given)
    if dtype is None or dtype.kind not in kinds:
        raise low.source.refuse(node, f"{unparse(node)}", "name a type, as in np.finfo(np.float64)")
    values = [getattr(called(dtype), field) for field in limits._fields]
    numbers = [int(v) if called is np.iinfo or f == "bits" else float(v) for f, v in zip(limits._fields, values)]
    return TupleExpr([Scalar(literal(n)) for n in numbers], limits)
