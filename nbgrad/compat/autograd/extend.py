"""Functions with derivatives of their own, as autograd's programs define them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import np as _np
from ...autodiff.state import recording
from ...autograd import Function
from ...functional.pytrees import flatten
from ...ir.graph import current
from .boxes import Box, getval, holds_box, isbox
from .numpy.wrapping import Chosen
from .products import vspace
from .wrap_util import get_name

__all__ = ["Box", "defjvp", "defjvp_argnum", "defjvp_argnums", "defvjp", "defvjp_argnum", "defvjp_argnums",
           "notrace_primitive", "primitive", "vspace"]  # fmt: skip


class _Primitive:
    """A function that is not traced into; :func:`defvjp` gives its derivatives.

    Attributes
    ----------
    fun : callable
        The function, which gets NumPy arrays and numbers.
    vjps : callable or None
        ``vjps(argnum, ans, args, kwargs)`` is the function ``g -> g J`` for that argument.
    """

    def __init__(self, fun: Callable) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.name = get_name(fun)
        self.vjps: Callable | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        places = [k for k, a in enumerate(args) if isbox(a)]
        hidden = holds_box([a for a in args if not isbox(a)]) or holds_box(kwargs)
        if not places:  # what is recorded inside a list or keyword is traced through, as autograd does
            return self.fun(*args, **kwargs)
        if hidden:
            raise TypeError(
                f"{self.name}: recorded values are in a list, dict or keyword beside recorded arguments, and their "
                "gradients would be lost; pass them as arguments of their own"
            )
        return _Call(self, args, kwargs, places)(*[args[k] for k in places])


class _Call(Function):
    """One recorded call of a primitive."""

    def __init__(self, primitive: _Primitive, args: Sequence, kwargs: dict, places: Sequence[int]) -> None:
        self._primitive, self._args, self._kwargs, self._places = primitive, args, kwargs, places

    def forward(self, *arrays: Any) -> Any:
        args = list(self._args)
        for k, x in zip(self._places, arrays, strict=True):
            args[k] = x
        found = self._primitive.fun(*getval(args), **getval(self._kwargs))
        leaves: list = []
        build = flatten(found, leaves)
        results = [_np.array(np.asarray(y, np.float64) if np.asarray(y).dtype.kind in "iub" else y) for y in leaves]
        answer = build(iter(results))
        self._build = build
        self.save_for_backward(*arrays, *results)
        return answer

    def backward(self, *gs: Any) -> Any:
        saved = self.saved_tensors
        if not recording() and current.graph is None:  # no derivative of this one: arrays of NumPy, as in autograd
            saved, gs = getval(saved), getval(gs)
        arrays, results = saved[: len(self._places)], saved[len(self._places) :]
        args = list(self._args)
        for k, x in zip(self._places, arrays, strict=True):
            args[k] = x
        answer, g = self._build(iter(results)), self._build(iter(gs))
        if self._primitive.vjps is None:
            raise NotImplementedError(f"the VJP of {self._primitive.name} is not defined; see defvjp")
        found = []
        for k, x in zip(self._places, arrays, strict=True):
            maker = self._primitive.vjps(k, answer, args, self._kwargs)
            h = _np.array(maker(g) if maker is not None else np.zeros(x.shape))
            found.append(h if h.shape == x.shape else _np.broadcast_to(h, x.shape))
        return found[0] if len(found) == 1 else tuple(found)


def primitive(fun: Callable) -> Any:
    """`fun` as a function that is not traced into; it gets NumPy arrays and numbers, and needs a :func:`defvjp`."""
    return _Primitive(fun)


def notrace_primitive(fun: Callable) -> Callable:
    """`fun` with a derivative of zero."""
    return functools.wraps(fun)(lambda *args, **kwargs: fun(*getval(args), **getval(kwargs)))


def _checked(fun: Any) -> _Primitive:
    if isinstance(fun, Chosen):  # a function of NumPy's or SciPy's; what has a derivative here keeps that
        if not isinstance(fun.rule, _Primitive):
            fun.rule = _Primitive(fun.plain)
        return fun.rule
    if not isinstance(fun, _Primitive):
        raise TypeError(f"defvjp: {fun!r} is no primitive; decorate it with autograd.extend.primitive")
    return fun


def defvjp(fun: Any, *vjpmakers: Callable | None, argnums: Sequence[int] | None = None) -> None:
    """Give a primitive its derivatives: for each argument ``maker(ans, *args, **kwargs)``, which returns ``g -> g J``.

    ``None`` for a derivative that is zero; `argnums` says which arguments are meant, if not the first ones. Functions
    of NumPy's and SciPy's that have a derivative here keep that.
    """
    makers = dict(zip(range(len(vjpmakers)) if argnums is None else argnums, vjpmakers, strict=True))

    def vjps(argnum: int, ans: Any, args: Sequence, kwargs: dict) -> Callable | None:
        if argnum not in makers:
            raise NotImplementedError(f"the VJP of {fun.name} with respect to argument {argnum} is not defined")
        maker = makers[argnum]
        return None if maker is None else maker(ans, *args, **kwargs)

    _checked(fun).vjps = vjps


def defvjp_argnum(fun: Any, vjpmaker: Callable) -> None:
    """Give a primitive its derivatives by one ``maker(argnum, ans, args, kwargs)``."""
    _checked(fun).vjps = vjpmaker


def defvjp_argnums(fun: Any, vjpmaker: Callable) -> None:
    """Give a primitive its derivatives by one ``maker(argnums, ans, args, kwargs)``, which returns all of them."""
    _checked(fun).vjps = lambda k, ans, args, kwargs: lambda g: vjpmaker((k,), ans, args, kwargs)(g)[0]


def defjvp(fun: Any, *jvpfuns: Any, argnums: Sequence[int] | None = None) -> None:
    """Accepted: Jacobian-vector products follow from :func:`defvjp` here."""
    if not callable(fun):
        raise TypeError(f"defjvp: a function is expected, got {fun!r}")


def defjvp_argnum(fun: Any, jvpmaker: Any) -> None:
    """Accepted: see :func:`defjvp`."""
    defjvp(fun)


defjvp_argnums = defjvp_argnum
