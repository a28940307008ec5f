"""nbgrad: arrays with gradients of any order, computed by kernels that Numba compiles.

>>> import nbgrad as nb
>>> from nbgrad import autograd, nd
>>> x = nd.array([1, 2, 3, 4])
>>> x.attach_grad()
>>> with autograd.record():
...     y = x * x + 1
>>> y.backward()
>>> print(x.grad)
<BLANKLINE>
[2. 4. 6. 8.]
<NDArray 4 @cpu(0)>
"""

from .core import config as _config  # noqa: F401  # first: it says when this began

# isort: split
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import autograd, functional, nd, np, symbol, test_utils, testing
from . import errors as base
from . import nd as ndarray
from . import symbol as sym
from .arrays.ndarray import NDArray
from .autograd import checkpoint
from .backends.threads import get_num_threads, set_num_threads
from .compiler import jit
from .core import context
from .core.config import __version__
from .core.context import Context, cpu, current_context, gpu, gpu_memory_info, num_gpus
from .core.dtypes import set_default_dtype
from .errors import MXNetError, NBGradError
from .functional import (
    ScipyObjective,
    ScipyResiduals,
    elementwise_grad,
    ensemble,
    grad,
    hessian,
    hessian_operator,
    hvp,
    jacobian,
    jacobian_operator,
    jvp,
    value_and_grad,
    vjp,
)
from .nd import random
from .protocols import methods

__all__ = [
    "Context",
    "MXNetError",
    "NBGradError",
    "NDArray",
    "ScipyObjective",
    "ScipyResiduals",
    "__version__",
    "adjoint",
    "autograd",
    "base",
    "checkpoint",
    "context",
    "cpu",
    "current_context",
    "elementwise_grad",
    "ensemble",
    "fixed_point",
    "functional",
    "get_num_threads",
    "gpu",
    "gpu_memory_info",
    "grad",
    "hessian",
    "hessian_operator",
    "hvp",
    "jacobian",
    "jacobian_operator",
    "jit",
    "jvp",
    "nd",
    "ndarray",
    "np",
    "num_gpus",
    "primitive",
    "random",
    "set_default_dtype",
    "set_num_threads",
    "sym",
    "symbol",
    "tangent",
    "test_utils",
    "testing",
    "value_and_grad",
    "vjp",
]

del methods

if _TYPE_CHECKING:
    from .custom.fixed_point import fixed_point
    from .custom.primitive import primitive
    from .loops import adjoint, tangent

#: What compiles loops is half of the library: it is imported where one of these is asked for.
_LATER = {
    "adjoint": "loops",
    "tangent": "loops",
    "loops": "",
    "custom": "",
    "mpi": "",
    "fixed_point": "custom.fixed_point",
    "primitive": "custom.primitive",
}


def __getattr__(name: str) -> _Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _import_module(f"{__name__}.{_LATER[name] or name}")
    found = getattr(module, name) if _LATER[name] else module
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
