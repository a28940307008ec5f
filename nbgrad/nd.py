"""The ``nd`` namespace: all operators of the registry under their names, and array creation.

``nd.random``, ``nd.linalg`` and ``nd.contrib`` are namespaces inside it.
"""

from __future__ import annotations

from difflib import get_close_matches as _near
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .arrays.ndarray import NDArray
from .arrays.sharing import from_numpy
from .backends.cuda.driver import finish as _finish
from .compiler import control_flow as _control_flow
from .core.registry import operators as _operators
from .errors import AttrError as _AttrError
from .kernels import creation as _creation
from .kernels import random as _random
from .kernels import random_like as _random_like
from .kernels import sampling as _sampling
from .protocols.dlpack import from_dlpack, to_dlpack_for_read, to_dlpack_for_write
from .protocols.serialization import load, load_frombuffer, save

__all__ = [
    "NDArray",
    "array",
    "from_dlpack",
    "from_numpy",
    "load",
    "load_frombuffer",
    "save",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
]

array = _creation.array
zeros = _creation.zeros
ones = _creation.ones
full = _creation.full_of
empty = _creation.empty_of
arange = _creation.arange
linspace = _creation.linspace
eye = _creation.eye


class _Names(SimpleNamespace):
    """A nested namespace; each has its own class, of the same name."""

    def __getattr__(self, name: str) -> Any:
        near = _near(name, vars(self))
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise AttributeError(f"nd.{type(self).__name__} has no {name!r}{hint}")


def _namespace(_name: str, **members: Any) -> Any:
    return type(_name, (_Names,), {})(**members)


random: Any = _namespace(
    "random",
    **{name: getattr(m, name) for m in (_random, _sampling, _random_like) for name in m.__all__},
)
random_uniform, random_normal, random_randint = _random.uniform, _random.normal, _random.randint
sample_uniform = _random.uniform
random_gamma = sample_gamma = _sampling.gamma
random_poisson = sample_poisson = _sampling.poisson
random_negative_binomial = sample_negative_binomial = _sampling.negative_binomial
random_generalized_negative_binomial = sample_generalized_negative_binomial = _sampling.generalized_negative_binomial
sample_multinomial = _sampling.multinomial
shuffle, uniform, normal = _random.shuffle, _random.uniform, _random.normal

#: Linear algebra; ``linalg.potrf`` is ``linalg_potrf``.
linalg: Any = _namespace("linalg")

#: What MXNet has in ``nd.contrib``.
contrib: Any = _namespace("contrib", **{name: getattr(_control_flow, name) for name in _control_flow.__all__})
_CONTRIB = (
    "arange_like",
    "isnan",
    "isinf",
    "isfinite",
    "boolean_mask",
    "SyncBatchNorm",
    "CTCLoss",
    "allclose",
    "div_sqrt_dim",
    "gradientmultiplier",
    "index_array",
    "index_copy",
    "quadratic",
    "round_ste",
    "sign_ste",
)

#: Operators that MXNet has in ``nd._internal`` and this library under another name.
_internal: Any = _namespace("_internal")


if TYPE_CHECKING:  # the registry's operators

    def __getattr__(name: str) -> Any: ...


def waitall() -> None:
    """Wait until everything is computed. On the CPU it always is; kernels of GPUs may still be in their queues.

    Raises
    ------
    ContextError
        If a kernel failed.
    """
    _finish()


def concatenate(arrays, axis: int = 0, always_copy: bool = True) -> NDArray:
    """Arrays joined along an axis, the first by default; see ``concat``."""
    return _operators["concat"].call(*arrays, dim=axis)


def random_exponential(lam=1.0, shape=None, **kwargs) -> NDArray:
    """Exponential with rate `lam`, that is with mean ``1/lam``; other parameters as for ``random.exponential``."""
    if not isinstance(lam, NDArray) and not lam > 0:
        raise _AttrError(f"random_exponential: lam must be positive, got {lam}")
    return _random.exponential(1.0 / lam, shape, **kwargs)


sample_exponential = random_exponential


def sample_normal(mu=0.0, sigma=1.0, shape=None, **kwargs) -> NDArray:
    """Normal with mean `mu` and standard deviation `sigma`; other parameters as for ``random.normal``."""
    return _random.normal(mu, sigma, shape, **kwargs)


def onehot_encode(indices, out: NDArray) -> NDArray:
    """Fill each row of `out` with a one at its index and zeros elsewhere; see ``one_hot``."""
    return _operators["one_hot"].call(indices, depth=out.shape[-1], dtype=out.dtype, out=out)


def reset_arrays(*arrays: NDArray, num_arrays: int | None = None) -> None:
    """Fill arrays, such as the gradients of a model, with zeros. `num_arrays` is ignored."""
    for x in arrays:
        x[:] = 0


def _fill() -> None:
    names = globals()
    for entry in _operators.values():
        if entry.name not in names:  # where pickle looks it up
            entry.call.__module__, entry.call.__qualname__ = __name__, entry.name
        for name in (entry.name, *entry.aliases):
            names.setdefault(name, entry.call)
            if not name.startswith("_"):
                __all__.append(name)
            elif name != entry.name:
                setattr(_internal, name, entry.call)
            if entry.name in _CONTRIB:
                setattr(contrib, name, entry.call)
        if entry.name.startswith("linalg_"):
            setattr(linalg, entry.name.removeprefix("linalg_"), entry.call)


_fill()
