"""``functools.reduce``, ``itertools.accumulate``, and the operators as functions, which they are given."""

from __future__ import annotations

import functools
import itertools
import operator

import numpy as np

from ..function_table import definition

__all__: list[str] = []  # they are found through the table


@definition(functools)
def reduce(function, iterable, initial=None):
    if initial is None:
        if len(iterable) == 0:
            raise TypeError("functools.reduce: what it goes over is empty, and there is no initial value")
        total, begin = iterable[0], 1
    else:
        total, begin = initial, 0
    for k in range(begin, len(iterable)):
        total = function(total, iterable[k])
    return total


def plus(total, item):
    return total + item


@definition(itertools)
def accumulate(iterable, func=plus, *, initial=None):
    if initial is None:
        found = np.empty(len(iterable))
        for k in range(len(iterable)):
            if k == 0:
                total = iterable[0]
            else:
                total = func(total, iterable[k])
            found[k] = total
    else:
        total = initial
        found = np.empty(len(iterable) + 1)
        found[0] = total
        for k in range(len(iterable)):
            total = func(total, iterable[k])
            found[k + 1] = total
    return found


@definition(operator)
def add(a, b):
    return a + b


@definition(operator)
def sub(a, b):
    return a - b


@definition(operator)
def mul(a, b):
    return a * b


@definition(operator)
def truediv(a, b):
    return a / b


@definition(operator, "pow")
def power(a, b):
    return a**b


@definition(operator)
def neg(a):
    return -a
