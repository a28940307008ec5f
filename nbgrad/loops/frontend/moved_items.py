"""Items that are taken out of the middle of a list, or put in there: loops that move those behind."""

from __future__ import annotations

import ast

from ..ir.names import Names
from .structured_control import with_location
from .syntax import bound_name

__all__ = ["MovedItems"]


class MovedItems:
    """Makes the statements, with names that are free."""

    def __init__(self, free: Names) -> None:
        self.free = free

    def taken_out(self, s: ast.stmt, name: str, index: ast.expr, targets: list[ast.expr]) -> list[ast.stmt]:
        """The statements for ``v = hs.pop(k)``: those behind the item move, and the last one is taken."""
        place, counter, item = (self.free.fresh(n) for n in ("place", "k", "item"))
        last = ast.BinOp(_length(name), ast.Sub(), ast.Constant(1))
        behind = ast.BinOp(_read(counter), ast.Add(), ast.Constant(1))
        pop = ast.Expr(ast.Call(ast.Attribute(_read(name), "pop", ast.Load()), [], []))
        done: list[ast.stmt] = [
            *self._place(name, place, index),
            self._is_there(place),
            _set(item, ast.Subscript(_read(name), _read(place), ast.Load())),
            _loop(counter, [_read(place), last], _move(name, counter, behind)),
            pop,
        ]
        if targets:
            done.append(ast.Assign(targets, _read(item)))
        return [with_location(t, s) for t in done]

    def put_in(self, s: ast.stmt, name: str, index: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """The statements for ``hs.insert(k, v)``: those from there on move behind, where there is one more."""
        place, counter, item = (self.free.fresh(n) for n in ("place", "k", "item"))
        least = ast.Call(bound_name(max, "max"), [_read(place), ast.Constant(0)], [])
        append = ast.Expr(ast.Call(ast.Attribute(_read(name), "append", ast.Load()), [_read(item)], []))
        last = ast.BinOp(_length(name), ast.Sub(), ast.Constant(1))
        before = ast.BinOp(_read(counter), ast.Sub(), ast.Constant(1))
        done: list[ast.stmt] = [
            *self._place(name, place, index),
            _set(place, ast.Call(bound_name(min, "min"), [least, _length(name)], [])),
            _set(item, value),
            append,
            _loop(
                counter, [last, _read(place), ast.UnaryOp(ast.USub(), ast.Constant(1))], _move(name, counter, before)
            ),
            ast.Assign([ast.Subscript(_read(name), _read(place), ast.Store())], _read(item)),
        ]
        return [with_location(t, s) for t in done]

    def _place(self, name: str, place: str, index: ast.expr) -> list[ast.stmt]:
        """The place of an item from the beginning of a list."""
        negative = ast.Compare(_read(place), [ast.Lt()], [ast.Constant(0)])
        counted = _set(place, ast.BinOp(_read(place), ast.Add(), _length(name)))
        if isinstance(index, ast.Call) and isinstance(index.func, ast.Attribute):  # hs.index(v)
            return [_set(place, index)]
        return [_set(place, index), ast.If(negative, [counted], [])]

    @staticmethod
    def _is_there(place: str) -> ast.stmt:
        """An error for a place before the first."""
        error = ast.Call(bound_name(IndexError, "IndexError"), [ast.Constant("index of a list out of range")], [])
        return ast.If(ast.Compare(_read(place), [ast.Lt()], [ast.Constant(0)]), [ast.Raise(error)], [])


def _read(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _set(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _length(name: str) -> ast.expr:
    return ast.Call(bound_name(len, "len"), [_read(name)], [])


def _move(name: str, counter: str, other: ast.expr) -> ast.stmt:
    """``hs[k] = hs[other]``."""
    target = ast.Subscript(_read(name), _read(counter), ast.Store())
    return ast.Assign([target], ast.Subscript(_read(name), other, ast.Load()))


def _loop(counter: str, bounds: list[ast.expr], s: ast.stmt) -> ast.stmt:
    over = ast.Call(bound_name(range, "range"), bounds, [])
    return ast.For(ast.Name(counter, ast.Store()), over, [s], [])
