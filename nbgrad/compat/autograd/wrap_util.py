"""Operators on functions of one argument as operators on functions of several."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

__all__ = ["get_doc", "get_name", "unary_to_nary", "wrap_nary_f", "wraps"]


def get_name(function: Any) -> str:
    return getattr(function, "__name__", "[unknown name]")


def get_doc(function: Any) -> str:
    return getattr(function, "__doc__", None) or ""


def wraps(function: Any, namestr: str = "{fun}", docstr: str = "{doc}", **names: Any) -> Callable:
    """Give a function a name and docstring made of those of another one."""

    def named(new: Any) -> Any:
        with contextlib.suppress(AttributeError, KeyError, ValueError):
            new.__name__ = namestr.format(fun=get_name(function), **names)
            new.__doc__ = docstr.format(fun=get_name(function), doc=get_doc(function), **names)
        return new

    return named


def wrap_nary_f(function: Any, operator: Any, argnum: Any) -> Callable:
    """The name and docstring of an operator applied to a function."""
    docstr = "    {op} of function {fun} with respect to argument number {argnum}. It takes the same arguments."
    return wraps(function, "{op}_of_{fun}_wrt_argnum_{argnum}", docstr, op=get_name(operator), argnum=argnum)


def unary_to_nary(operator: Callable) -> Callable:
    """An operator ``operator(f, x)`` of functions of one argument, as one of functions of several, of which `argnum`
    says which: a number, or a tuple of them."""

    @wraps(operator)
    def nary_operator(fun: Callable, argnum: Any = 0, *options: Any, **keywords: Any) -> Callable:
        if type(argnum) not in (int, tuple, list):
            raise TypeError(f"{get_name(operator)}: argnum must be an int or a tuple of them, got {argnum!r}")

        @wrap_nary_f(fun, operator, argnum)
        def nary(*args: Any, **kwargs: Any) -> Any:
            places = (argnum,) if isinstance(argnum, int) else tuple(argnum)

            @wraps(fun)
            def unary(x: Any) -> Any:
                replaced = list(args)
                for k, v in zip(places, (x,) if isinstance(argnum, int) else x, strict=True):
                    replaced[k] = v
                return fun(*replaced, **kwargs)

            x = args[argnum] if isinstance(argnum, int) else tuple([args[k] for k in places])
            return operator(unary, x, *options, **keywords)

        return nary

    return nary_operator
