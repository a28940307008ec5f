"""Checks of derivatives against differences, in both modes and to any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from .products import make_jvp, make_vjp, vspace
from .wrap_util import get_name, unary_to_nary, wraps

__all__ = ["check_equivalent", "check_grads", "check_jvp", "check_vjp", "combo_check", "scalar_close"]

TOL = RTOL = EPS = 1e-6


def scalar_close(a: Any, b: Any) -> bool:
    """Whether numbers are equal within :data:`TOL`, absolutely or relatively."""
    return bool(abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL)


def _numerical_jvp(f: Callable, x: Any) -> Callable:
    space, results = vspace(x), vspace(f(x))

    def along(v: Any) -> Any:
        above, below = (f(space.add(x, space.scalar_mul(v, step))) for step in (EPS / 2, -EPS / 2))
        return results.scalar_mul(results.add(above, results.scalar_mul(below, -1.0)), 1.0 / EPS)

    return along


def check_vjp(f: Callable, x: Any) -> None:
    """Compare a vector-Jacobian product with a difference, along random vectors."""
    vjp, y = make_vjp(f, x)
    space, results = vspace(x), vspace(y)
    v, u = space.randn(), results.randn()
    found = vjp(u)
    assert vspace(found) == space, f"the gradient of {get_name(f)} is in {vspace(found)}, its argument in {space}"
    exact, numeric = space.inner_prod(v, found), results.inner_prod(u, _numerical_jvp(f, x)(v))
    said = f"Derivative (VJP) check of {get_name(f)} failed at {x}: {exact}, by differences {numeric}"
    assert scalar_close(numeric, exact), said


def check_jvp(f: Callable, x: Any) -> None:
    """Compare a Jacobian-vector product with a difference, along a random vector."""
    v = vspace(x).randn()
    check_equivalent(make_jvp(f, x)(v)[1], _numerical_jvp(f, x)(v))


def check_equivalent(x: Any, y: Any) -> None:
    """Whether two values are in one space, and equal along a random vector."""
    first, second = vspace(x), vspace(y)
    assert first == second, f"{first} and {second}"
    v = first.randn()
    assert scalar_close(first.inner_prod(x, v), first.inner_prod(y, v)), f"{x} and {y}"


@unary_to_nary
def check_grads(f: Callable, x: Any, modes: Sequence[str] | None = None, order: int = 2) -> None:
    """Compare derivatives up to an order with differences; `modes` of "fwd" and "rev"."""
    modes = ["fwd", "rev"] if modes is None else list(modes)
    if "fwd" in modes:
        check_jvp(f, x)
        if order > 1:
            along = wraps(f, "jvp_{fun}")(lambda x, v: make_jvp(f, x)(v)[1])
            check_grads(along, (0, 1), modes, order=order - 1)(x, vspace(x).randn())
    if "rev" in modes:
        check_vjp(f, x)
        if order > 1:
            pulled = wraps(f, "vjp_{fun}")(lambda x, v: make_vjp(f, x)[0](v))
            check_grads(pulled, (0, 1), modes, order=order - 1)(x, vspace(f(x)).randn())


def combo_check(fun: Callable, *options: Any, **keywords: Any) -> Callable:
    """:func:`check_grads` for all combinations of the arguments in these lists."""

    def check(*args: Any, **kwargs: Any) -> None:
        named = [[(name, v) for v in values] for name, values in kwargs.items()]
        for given in product(*args):
            for chosen in product(*named):
                check_grads(lambda *a, **k: fun(*a, **k), *options, **keywords)(*given, **dict(chosen))

    return check
