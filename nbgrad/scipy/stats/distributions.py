"""Distributions of numbers: each method is one expression of the numbers and the parameters, and so one kernel, with
derivatives by all of them to any order."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

from ...ir.expr import Expr, const, either, eq, isnan, le, lt, select, substitute, var
from ...kernels import scalar as vm
from ...np import random
from ...np.arrays import ndarray, with_common_dtype
from ...operators.elementwise import Elementwise, derived

__all__ = ["Continuous", "Discrete", "Distribution", "Frozen"]

_INF, _NAN = const(math.inf), const(math.nan)
Form = Callable[..., Expr]


class Distribution:
    """A family of distributions, as SciPy's object of this name.

    Its methods take a number (`x` or `k`) or a probability (`q`) first, then the shapes, ``loc`` and ``scale``, by
    position or name. All broadcast; results have the dtype that NumPy gives. What is not a valid parameter gives NaN.

    Parameters
    ----------
    name : str
    shapes : str
        The names of the shapes, which must be positive.
    **forms
        Expressions of the standard form, by method. Those of ``mean``, ``var`` and ``entropy`` have the shapes alone.
    """

    #: The parameters besides the shapes, with their defaults.
    _places: ClassVar[dict[str, float]]

    def __init__(self, name: str, shapes: str, **forms: Any) -> None:
        self.name = self.__name__ = name
        self.__module__ = __package__
        self.shapes = shapes.split()
        self.forms = forms
        self.rule = cache(self._rule)
        self.__doc__ = f"The {name} distribution, as ``scipy.stats.{name}``. Parameters: {', '.join(self.parameters)}."

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters."""
        return [*self.shapes, *self._places]

    def __repr__(self) -> str:
        return f"<distribution {self.name}({', '.join(self.parameters)})>"

    def __reduce__(self) -> str:
        return self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Frozen:
        """The distribution with these parameters: its methods take what comes before them alone."""
        return Frozen(self, self._bound("", args, kwargs))

    def _bound(self, method: str, args: tuple, kwargs: dict) -> dict[str, Any]:
        """The parameters that are given, by name."""
        names = self.parameters
        said = f"{self.name}.{method}" if method else self.name
        if len(args) > len(names):
            raise TypeError(f"{said}: {len(names)} parameters at most ({', '.join(names)}), got {len(args)}")
        found = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in found:
                what = "is given twice" if name in found else "is unknown"
                raise TypeError(f"{said}: the parameter {name!r} {what}; the parameters are {', '.join(names)}")
            found[name] = value
        if missing := [n for n in self.shapes if n not in found]:
            raise TypeError(f"{said}: {', '.join(missing)} must be given; the parameters are {', '.join(names)}")
        return {n: v for n, v in found.items() if not _is_number(v, self._places.get(n))}

    def _apply(self, method: str, first: tuple, args: tuple, kwargs: dict) -> ndarray:
        given = self._bound(method, args, kwargs)
        rule = self.rule(method, tuple(given))
        values = [given[n] for n in self.parameters if n in given]
        arrays = with_common_dtype(f"{self.name}.{method}", *first, *(values or ([] if first else [1.0])))
        found: Any = rule.apply(arrays)
        return found

    def _rule(self, method: str, given: tuple[str, ...]) -> Elementwise:
        """The rule of a method, for these parameters; others have their defaults."""
        first = [] if method in ("mean", "var", "std", "entropy") else [var("first")]
        operands = [*first, *(var(n) for n in self.parameters if n in given)] or [var("first")]
        values: dict[str, Any] = {n: var(n) if n in given else const(v) for n, v in self._places.items()}
        expr = self._expression(method, [var(n) for n in self.shapes], **values)
        for name in (*self.shapes, "scale"):
            if name in given:
                expr = select(self._invalid(var(name)), _NAN, expr)
        renamed = {operand: var(f"x{i}") for i, operand in enumerate(operands)}
        return derived(f"{self.name}_{method}", substitute(expr, renamed), len(operands), 0, ints=False)

    def _invalid(self, parameter: Expr) -> Expr:
        """Whether a shape or a scale is not valid."""
        return le(parameter, 0)

    def _expression(self, method: str, shapes: list[Expr], **places: Expr) -> Expr:
        raise NotImplementedError


def _named(method: Callable, name: str, doc: str) -> Callable:
    method.__name__, method.__doc__ = name, doc
    return method


def _of_argument(name: str, doc: str, argument: str = "x") -> Callable[..., ndarray]:
    """A method of a number, a count or a probability, and the parameters."""

    def method(self: Distribution, *args: Any, **kwargs: Any) -> ndarray:
        if not args and argument not in kwargs:
            raise TypeError(f"{self.name}.{name}: {argument} must be given; then {', '.join(self.parameters)}")
        first, *others = args or (kwargs.pop(argument),)
        return self._apply(name, (first,), tuple(others), kwargs)

    return _named(method, name, doc)


def _of_parameters(name: str, doc: str) -> Callable[..., ndarray]:
    """A method of the parameters alone."""

    def method(self: Distribution, *args: Any, **kwargs: Any) -> ndarray:
        return self._apply(name, (), args, kwargs)

    return _named(method, name, doc)


def _is_number(value: Any, number: float | None) -> bool:
    return type(value) in (int, float) and value == number


class Continuous(Distribution):
    """A distribution with a density, on a part of the numbers.

    The forms are ``logpdf``, ``cdf``, ``sf``, ``ppf`` and ``isf``, and ``logcdf`` and ``logsf`` where these have one of
    their own, as functions of a number or probability and the shapes. `open` says that the density is 0 where the
    support begins.
    """

    _places: ClassVar = {"loc": 0.0, "scale": 1.0}

    def __init__(
        self,
        name: str,
        shapes: str,
        support: tuple[float, float] = (-math.inf, math.inf),
        *,
        open: bool = False,
        **forms: Form,
    ) -> None:
        super().__init__(name, shapes, **forms)
        self._support, self._open = support, open

    pdf = _of_argument("pdf", "The density at `x`.")
    logpdf = _of_argument("logpdf", "The logarithm of the density at `x`; minus infinity outside of the support.")
    cdf = _of_argument("cdf", "The probability of a number of at most `x`.")
    logcdf = _of_argument("logcdf", "The logarithm of :meth:`cdf`.")
    sf = _of_argument("sf", "The probability of a number above `x`: the survival function.")
    logsf = _of_argument("logsf", "The logarithm of :meth:`sf`.")
    ppf = _of_argument("ppf", "The x whose :meth:`cdf` is `q`.", "q")
    isf = _of_argument("isf", "The x whose :meth:`sf` is `q`.", "q")
    mean = _of_parameters("mean", "The expected value.")
    var = _of_parameters("var", "The variance.")
    std = _of_parameters("std", "The standard deviation.")
    entropy = _of_parameters("entropy", "The differential entropy, in nats.")

    def median(self, *args: Any, **kwargs: Any) -> ndarray:
        """The number that is exceeded with probability 1/2."""
        return self.ppf(0.5, *args, **kwargs)

    def rvs(self, *args: Any, size: Any = None, random_state: Any = None, **kwargs: Any) -> ndarray:
        """Draws of an array of shape `size`, differentiated by the parameters: where :meth:`cdf` is uniform.

        Parameters
        ----------
        *args, **kwargs
            The parameters.
        size : int or tuple of int, optional
        random_state : int or nbgrad.np.random.Generator, optional
            A seed, or where numbers are drawn.
        """
        generator = random_state if isinstance(random_state, random.Generator) else random.default_rng(random_state)
        return self.ppf(generator.uniform(size=size), *args, **kwargs)

    def _expression(self, method: str, shapes: list[Expr], **places: Expr) -> Expr:
        loc, scale = places["loc"], places["scale"]
        first, form = var("first"), self.forms.get(method)
        if method in ("ppf", "isf"):
            found = self.forms[method](first, *shapes)
            return select(either(lt(first, 0), lt(1, first)), _NAN, found * scale + loc)
        if method in ("mean", "var", "std", "entropy"):
            return self._moment(method, shapes, loc, scale)
        at = (first - loc) / scale
        low, high = self._support
        below, above = either(lt(at, low), eq(at, -math.inf)), either(lt(high, at), eq(at, math.inf))
        below = either(below, eq(at, low)) if self._open else below
        if method in ("logpdf", "pdf"):
            log_density = self.forms["logpdf"](at, *shapes)
            outside = either(below, above)
            if method == "logpdf":
                return select(outside, -_INF, log_density - vm.log(scale))
            return select(outside, 0, vm.exp(log_density) / scale)
        logarithm, upper = method.startswith("log"), method.endswith("sf")
        found = form(at, *shapes) if form else self._log_share(upper, at, shapes)
        none, all_ = (-_INF, const(0.0)) if logarithm else (const(0.0), const(1.0))
        return select(below, all_ if upper else none, select(above, none if upper else all_, found))

    def _log_share(self, upper: bool, at: Expr, shapes: list[Expr]) -> Expr:
        """By the smaller one of the share and what remains."""
        share, rest = (self.forms[name](at, *shapes) for name in (("sf", "cdf") if upper else ("cdf", "sf")))
        return select(lt(share, rest), vm.log(share), vm.log1p(-rest))

    def _moment(self, method: str, shapes: list[Expr], loc: Expr, scale: Expr) -> Expr:
        form = self.forms.get("var" if method == "std" else method)
        if form is None:
            raise NotImplementedError(f"{self.name}.{method} is not there; integrate, or use the formula")
        found = form(*shapes)
        if method == "mean":
            return found * scale + loc
        if method == "entropy":
            return found + vm.log(scale)
        return found * scale * scale if method == "var" else vm.sqrt(found) * scale


class Discrete(Distribution):
    """A distribution on whole numbers, from `least` on.

    The forms are ``logpmf``, ``cdf`` and ``sf``, as functions of a count and the shapes, ``mean`` and ``var``. Counts
    have no derivative.
    """

    _places: ClassVar = {"loc": 0.0}

    def __init__(self, name: str, shapes: str, least: int = 0, **forms: Form) -> None:
        super().__init__(name, shapes, **forms)
        self._least = least

    pmf = _of_argument("pmf", "The probability of `k`.", "k")
    logpmf = _of_argument("logpmf", "The logarithm of the probability of `k`; minus infinity for what cannot be.", "k")
    cdf = _of_argument("cdf", "The probability of a number of at most `k`.", "k")
    logcdf = _of_argument("logcdf", "The logarithm of :meth:`cdf`.", "k")
    sf = _of_argument("sf", "The probability of a number above `k`.", "k")
    logsf = _of_argument("logsf", "The logarithm of :meth:`sf`.", "k")
    mean = _of_parameters("mean", "The expected value.")
    var = _of_parameters("var", "The variance.")
    std = _of_parameters("std", "The standard deviation.")

    def _invalid(self, parameter: Expr) -> Expr:
        return lt(parameter, 0)

    def _expression(self, method: str, shapes: list[Expr], **places: Expr) -> Expr:
        loc = places["loc"]
        if method == "mean":
            return self.forms["mean"](*shapes) + loc
        if method in ("var", "std"):
            return self.forms["var"](*shapes) if method == "var" else vm.sqrt(self.forms["var"](*shapes))
        at = var("first") - loc
        whole, below = vm.floor(at), lt(at, self._least)  # floor has no derivative
        if method in ("pmf", "logpmf"):
            found = self.forms["logpmf"](whole, *shapes)
            outside = either(below, lt(whole, at))
            return select(outside, -_INF, found) if method == "logpmf" else select(outside, 0, vm.exp(found))
        logarithm, upper = method.startswith("log"), method.endswith("sf")
        found = self.forms["sf" if upper else "cdf"](whole, *shapes)
        found = vm.log(found) if logarithm else found
        outside = (const(0.0) if upper else -_INF) if logarithm else const(float(upper))
        return select(below, outside, select(isnan(at), _NAN, found))


class Frozen:
    """A distribution with its parameters: ``norm(loc, scale).logpdf(x)`` is ``norm.logpdf(x, loc, scale)``."""

    def __init__(self, distribution: Distribution, parameters: dict[str, Any]) -> None:
        self.dist, self.kwds = distribution, parameters

    def __repr__(self) -> str:
        return f"<{self.dist.name} with {', '.join(self.kwds) or 'defaults'}>"

    def __getattr__(self, name: str) -> Callable:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self.dist, name)

        def call(*args: Any, **kwargs: Any) -> ndarray:
            return method(*args, **self.kwds, **kwargs)

        call.__name__, call.__doc__ = name, method.__doc__
        return call
