"""Importing these modules under autograd's own names."""

from __future__ import annotations

import sys

__all__ = ["install"]


def install() -> None:
    """Make ``import autograd`` and ``import autograd.numpy as np`` find nbgrad's modules in this process.

    Raises
    ------
    ImportError
        If autograd itself is imported already: programs would then use both.

    Examples
    --------
    >>> import nbgrad.compat.autograd
    >>> nbgrad.compat.autograd.install()
    >>> import autograd.numpy as np
    >>> from autograd import grad
    >>> grad(np.sin)(0.0)
    1.0
    """
    own = __name__.rpartition(".")[0]
    known = sys.modules.get("autograd")
    if known is not None and known is not sys.modules[own]:
        raise ImportError("install: autograd itself is imported already; call install() before")
    for name, module in list(sys.modules.items()):
        if name == own or name.startswith(own + "."):
            sys.modules["autograd" + name.removeprefix(own)] = module
