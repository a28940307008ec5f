"""Attach the methods of :class:`.arrays.ndarray`: functions of this package under NumPy's names, and protocols."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray, wrap
from ..autodiff.constants import carries_gradient
from ..errors import DTypeError, LostGradientError
from ..kernels import creation as _creation
from ..kernels import subscript
from ..protocols import in_place
from . import lib, linalg, manipulation, products, reductions, selection, writing
from .arrays import as_np, check_kept, ndarray, plain_arguments
from .assignment import check_index, setitem, single_bool, update_views, write
from .at import At
from .special import of_ufunc
from .traced_writes import write_traced
from .ufuncs import UFUNCS
from .views import link, source_of, view
from .writing import Flat

__all__ = ["attach"]


def _reshape(self: ndarray, *shape, order="C", copy=None) -> ndarray:
    """The elements in another shape; see ``np.reshape``."""
    return manipulation.reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)


def _view_of(self: ndarray, dtype=None) -> ndarray:
    """The same elements as another array."""
    if dtype is not None and np.dtype(dtype) != self.dtype:
        raise DTypeError(f"view: memory of {self.dtype} cannot be seen as {np.dtype(dtype)}; convert it with astype")
    return self[...]


def _rounded(self: ndarray, ndigits: int | None = None) -> Any:
    """``round(x)``: the nearest whole number, an int for a single element as in Python; it is constant."""
    if ndigits is None and not self._shape and not self._kind.traced:
        return round(self._view().item())
    return selection.round(self, ndigits or 0)


def _set_flat(self: ndarray, values: Any) -> None:
    Flat(self)[...] = values


def _transpose(self: ndarray, *axes) -> ndarray:
    """The axes in another order; see ``np.transpose``."""
    given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
    return manipulation.transpose(self, given)


def _astype(self: ndarray, dtype, order="K", casting="unsafe", subok=True, copy=True, *, device=None) -> Any:
    """A copy in another dtype, which is recorded."""
    return self if not copy and self.dtype == np.dtype(dtype) else _creation.astype(self, dtype)


def _item(self: ndarray, *index) -> Any:
    """An element as a Python number; of a recorded array it would lose the gradient, and is an error."""
    check_kept(self, "item")
    return self._view().item(*index)


def _tolist(self: ndarray) -> Any:
    """The elements as nested lists of Python numbers; of a recorded array an error."""
    check_kept(self, "tolist")
    return self._view().tolist()


def _sort(self: ndarray, axis=-1, kind=None, order=None, *, stable=None) -> None:
    """Sort the elements along an axis, in place."""
    self[...] = reductions.sort(self, axis, kind, order, stable=stable)


def _fill(self: ndarray, value) -> None:
    """Set all elements to a number, in place."""
    if np.ndim(value):
        raise ValueError(f"fill: a number is expected, got the shape {np.shape(value)}; write x[...] = values")
    self[...] = value


def _getitem(self: ndarray, key) -> Any:
    truth = single_bool(key)
    if truth is not None:
        whole = manipulation.expand_dims(self, 0)
        return whole.copy() if truth else subscript.getitem(whole, slice(0))
    basic, number = True, True  # whether NumPy has a view or a number, and whether a number if no axis is left
    for part in key if key.__class__ is tuple else (key,):
        if part is ...:
            number = False
        elif not (part.__class__ is int or part.__class__ is slice or part is None or isinstance(part, np.integer)):
            basic = False
            check_index(part)
    version = self._cell[0]
    found = subscript.getitem(self, key)
    if not basic:
        return found
    if not found._shape and number:
        shared = found._cell is self._cell
        return wrap(found._buf.copy(), (), found._kind, found._node) if shared else found
    return view(found, self, lambda x: x[key], version=version)


def _array_ufunc(self: ndarray, ufunc: np.ufunc, method: str, *inputs, **kwargs) -> Any:
    """NumPy's ufuncs of arrays of this class: the functions of this package."""
    known = UFUNCS.get(ufunc.__name__) if getattr(np, ufunc.__name__, None) is ufunc else None
    known = known or _PRODUCTS.get(ufunc) or of_ufunc(ufunc)
    if known is None:
        own = getattr(np, ufunc.__name__, None) is ufunc
        name = f"numpy.{ufunc.__name__}" if own else f"{ufunc.__name__}, a ufunc of another library,"
        return NotImplemented if any(_foreign(x) for x in inputs) else _refuse(name)
    out = kwargs.get("out")
    if isinstance(out, tuple) and len(out) == 1 and isinstance(out[0], np.ndarray):
        del kwargs["out"]
        return _stored(_call(known, method, inputs, kwargs), out[0], ufunc.__name__)
    return _call(known, method, inputs, kwargs)


_PRODUCTS = {getattr(np, n): getattr(products, n) for n in ("matmul", "vecdot", "matvec", "vecmat") if hasattr(np, n)}


def _call(known: Any, method: str, inputs: tuple, kwargs: dict) -> Any:
    return (known if method == "__call__" else getattr(known, method))(*inputs, **kwargs)


def _stored(result: NDArray, out: np.ndarray, name: str) -> np.ndarray:
    if carries_gradient(result):
        raise LostGradientError(
            f"numpy.{name}: the result is recorded, and in a NumPy array its gradient would be lost; write a = a + x "
            "instead of a += x, or use x.detach()"
        )
    np.copyto(out, result._view(), casting="same_kind")
    return out


def _foreign(x: Any) -> bool:
    own = getattr(type(x), "__array_ufunc__", None)
    return own is not None and own is not np.ndarray.__array_ufunc__ and not isinstance(x, NDArray | np.generic)


def _refuse(name: str) -> Any:
    short = name.split(",")[0].rpartition(".")[2]
    known = f" np.{short} is;" if short in UFUNCS or ("numpy", short) in _FUNCTIONS else ""
    raise DTypeError(
        f"{name} is no function of nbgrad.np: its result would be a constant;{known} call it with x.asnumpy() if one "
        "is meant"
    )


def _detach(self: ndarray) -> ndarray:
    """The same memory as an array without gradient and history; of a view, the view."""
    detached: Any = NDArray.detach(self)  # type: ignore[attr-defined]
    if (source := source_of(self)) is not None:
        link(detached, source)
    return detached


#: The functions of this package, by NumPy's module and name.
_FUNCTIONS: dict[tuple[str, str], Callable] = {}


def _array_function(self: ndarray, function: Callable, types, args: tuple, kwargs: dict) -> Any:
    """NumPy's functions of arrays of this class: those of this package that have the same name."""
    key = function.__module__, function.__name__
    own = _FUNCTIONS.get(key)
    if own is not None:
        return own(*args, **kwargs)
    if key[1] in _OUTPUT:  # prints numbers
        return function(*plain_arguments(args, key[1]), **plain_arguments(kwargs, key[1]))
    return _refuse(".".join(key))


_OUTPUT = frozenset({"array2string", "array_repr", "array_str"})


_FROM = {
    reductions: "all any argmax argmin argsort cumprod cumsum max mean min prod std sum var",
    manipulation: "ravel squeeze swapaxes",
    selection: "choose clip diagonal nonzero repeat round take",
    products: "dot trace",
}


def attach(names: dict[str, Any]) -> None:
    """Attach the methods, and let NumPy's functions call those of the namespace with these `names`."""
    _FUNCTIONS.update({("numpy", n): f for n, f in names.items() if callable(f) and hasattr(np, n)})
    _FUNCTIONS.update({("numpy.linalg", n): getattr(linalg, n) for n in linalg.__all__})
    _FUNCTIONS["numpy.lib.stride_tricks", "sliding_window_view"] = lib.sliding_window_view
    for module, methods in _FROM.items():
        for name in methods.split():
            setattr(ndarray, name, getattr(module, name))
    more: dict[str, Any] = {
        "T": property(lambda self: manipulation.transpose(self), doc="The axes in reverse order."),
        "mT": property(lambda self: manipulation.swapaxes(self, -1, -2), doc="The last two axes exchanged."),
        "flat": property(Flat, _set_flat, doc="All elements, in one row: to iterate over, to index and to write."),
        "put": writing.put,
        "view": _view_of,
        "real": property(lambda self: self, doc="The array itself."),
        "at": property(At, doc="Arrays with some elements changed: ``x.at[key].set(values)``."),
        "device": property(lambda self: self.ctx, doc="The device."),
        "ptp": reductions.ptp,
        "conj": lambda self: self,
        "conjugate": lambda self: self,
        "flatten": lambda self, order="C": manipulation.ravel(self, order).copy(),
        "fill": _fill,
        "reshape": _reshape,
        "sort": _sort,
        "transpose": _transpose,
        "astype": _astype,
        "item": _item,
        "tolist": _tolist,
        "detach": _detach,
        "__getitem__": _getitem,
        "__setitem__": setitem,
        "_write": write,
        "_write_traced": write_traced,
        "_update_views": update_views,
        "__matmul__": lambda self, other: products.matmul(self, other),
        "__rmatmul__": lambda self, other: products.matmul(other, self),
        "__imatmul__": in_place.operator("matmul", lambda self, other: products.matmul(self, other)),
        "__array_namespace__": lambda self, *, api_version=None: import_module(__package__),
        "to_device": lambda self, device, /, *, stream=None: self.as_in_context(device),
        "__array_ufunc__": _array_ufunc,
        "__array_function__": _array_function,
        "__round__": _rounded,
    }
    for name, value in more.items():
        setattr(ndarray, name, value)
    NDArray.as_np = as_np  # type: ignore[attr-defined]
