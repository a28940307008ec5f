"""Random numbers in the shape and dtype of an array."""

from __future__ import annotations

from collections.abc import Callable

from ..operators.entry import as_array
from . import random, sampling

__all__ = [
    "exponential_like",
    "gamma_like",
    "generalized_negative_binomial_like",
    "negative_binomial_like",
    "normal_like",
    "poisson_like",
    "uniform_like",
]


def _like(source: Callable, convert: Callable = lambda *values: values, **defaults) -> Callable:
    name = f"{source.__name__}_like"
    known = tuple(defaults)

    def call(data=None, *values, out=None, **given):
        data = as_array(data, name)
        given.pop("name", None)
        given.update(zip(known, values))
        unknown = next((key for key in given if key not in defaults), None)
        if unknown is not None or len(values) > len(known):
            raise TypeError(
                f"{name}: {'too many arguments' if unknown is None else f'keyword {unknown!r} is unknown'}; its "
                f"arguments are {', '.join(('data', *known, 'out', 'name'))}"
            )
        parameters = convert(*(defaults | given).values())
        return source(*parameters, shape=data.shape, dtype=data.dtype, ctx=data.ctx, out=out)

    call.__name__ = call.__qualname__ = name
    lines = "".join(f"    {key} : float\n        Default {value}.\n" for key, value in defaults.items())
    call.__doc__ = f"""Numbers of ``{source.__name__}`` in the shape and dtype of an array.

    Parameters
    ----------
    data : NDArray
        Of a floating dtype; its values are not read.
{lines}    out : NDArray, optional
        Where to put the numbers.

    Returns
    -------
    NDArray
        Shape and dtype of `data`.

    Raises
    ------
    TypeError, AttrError
        For unknown keywords, an integer array, or parameters that ``{source.__name__}`` does not take.
    """
    return call


uniform_like = _like(random.uniform, low=0.0, high=1.0)
normal_like = _like(random.normal, loc=0.0, scale=1.0)
exponential_like = _like(random.exponential, lambda lam: (1.0 / lam,), lam=1.0)
gamma_like = _like(sampling.gamma, alpha=1.0, beta=1.0)
poisson_like = _like(sampling.poisson, lam=1.0)
negative_binomial_like = _like(sampling.negative_binomial, k=1, p=1.0)
generalized_negative_binomial_like = _like(sampling.generalized_negative_binomial, mu=1.0, alpha=1.0)
