"""Arrays in files, and in text, as NumPy reads and writes them. What is read has no gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import plain_arguments
from .creation import from_numpy_values

__all__ = ["fromstring", "genfromtxt", "load", "loadtxt", "save", "savetxt", "savez", "savez_compressed"]


def _read(found: Any) -> Any:
    supported = isinstance(found, np.ndarray) and found.dtype.names is None and found.dtype.kind in "fiub"
    return from_numpy_values(found) if supported else found


def _reading(name: str) -> Callable:
    function = getattr(np, name)

    def read(*args, **kwargs):
        found = function(*args, **kwargs)
        return tuple(map(_read, found)) if isinstance(found, tuple | list) else _read(found)

    read.__name__ = read.__qualname__ = name
    read.__doc__ = f"As ``numpy.{name}``; an array of numbers becomes one of this package. (Those of archives do not.)"
    return read


def _writing(name: str) -> Callable:
    function = getattr(np, name)

    def write(file, *args, **kwargs) -> None:
        function(file, *plain_arguments(args, name), **plain_arguments(kwargs, name))

    write.__name__ = write.__qualname__ = name
    write.__doc__ = f"As ``numpy.{name}``, of the values of arrays."
    return write


fromstring, genfromtxt, load, loadtxt = map(_reading, ("fromstring", "genfromtxt", "load", "loadtxt"))
save, savetxt, savez, savez_compressed = map(_writing, ("save", "savetxt", "savez", "savez_compressed"))
