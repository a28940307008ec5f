"""``nbgrad.jit``: trace a function once per signature, and run it as compiled programs from then on."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence

from ..autodiff.state import state
from ..core.dtypes import convertible
from ..core.pickling import Derived
from ..core.source_text import identifier
from ..errors import AttrError, DTypeError, TraceError
from ..ir.graph import current
from .native import c_callback, nopython_function
from .program import Program, Static
from .report import drawing, report
from .signatures import flat_signature, recognizer, tree_signature

__all__ = ["Jitted", "jit"]

#: The number of signatures after which a warning says that a function is traced too often.
_MAX_SIGNATURES = 16
#: The number of structures of nested arguments that are recognized at once.
_MAX_STRUCTURES = 4


def jit(function: Callable | None = None, *, static_argnames: Sequence[str] | str = ()) -> Callable:
    """Compile `function`: trace it once for every combination of shapes and dtypes, and run it as loops.

    While it is traced, the function runs on abstract arrays, which have no values. Every operator it calls becomes a
    step of a program; so do those of derivatives taken inside (``jit(grad(f))``, ``jit(hessian(f))``, to any order).
    The steps are fused into loops as one would write them by hand, compiled, and cached on disk.

    Parameters
    ----------
    function : callable
        Takes and returns arrays, numbers, and nested dicts, lists, tuples and dataclasses of them. NumPy arrays and
        Python floats become arrays. Everything else, ints and strings included, is *static*: a new value means a new
        trace. Arrays that the function captures are read again at every call.
    static_argnames : str or sequence of str
        Arguments that are static although they are numbers. Their values must be hashable.

    Returns
    -------
    callable
        Like `function`. It returns NumPy arrays if it is called with NumPy arrays and numbers alone, else NDArrays.
        Called while recording, it is one operation on the tape, differentiable to any order. Methods: ``source()``,
        ``report()`` and ``graph()`` show the program of the latest signature.

    Raises
    ------
    DTypeError
        If `function` cannot be called.
    TraceError
        At the first call, if the function needs the values of its arrays (``if x > 0``, ``float(x)``), or writes into
        arrays.

    Examples
    --------
    >>> import nbgrad as nb
    >>> import numpy as np
    >>> @nb.jit
    ... def energy(x):
    ...     return nb.nd.sum(nb.nd.sin(x) ** 2)
    >>> bool(abs(nb.jit(nb.grad(energy))(np.array([0.5]))[0] - np.sin(1.0)) < 1e-15)
    True
    """
    if function is None:
        return functools.partial(jit, static_argnames=static_argnames)
    if not callable(function):
        raise DTypeError(f"jit: a function is needed, got {function!r}; write jit(f)(x), not jit(f(x))")
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    return Jitted(function, names)


class Jitted(Derived):
    """The result of :func:`jit`: `function` with its compiled programs, by signature."""

    def __init__(self, function: Callable, static: tuple[str, ...] = ()) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.static = static
        self.name = identifier(getattr(function, "__name__", type(function).__name__))
        self.programs: dict[tuple, Program] = {}
        self.latest: Program | None = None
        self._recognizers: list[Callable] = []
        self._shortcuts: dict[tuple, Program] = {}
        self._positions: tuple[int, ...] = ()
        if static:
            parameters = list(inspect.signature(function).parameters)
            for name in static:
                if name not in parameters:
                    raise DTypeError(
                        f"jit: static_argnames {name!r} is no argument of {self.name}; it has {parameters}"
                    )
            self._positions = tuple([parameters.index(name) for name in static])

    def __repr__(self) -> str:
        return f"<jit of {self.name}, {len(self.programs)} signature(s)>"

    def _origin(self) -> tuple[Callable, tuple]:
        return Jitted, (self.function, self.static)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        if current.graph is not None:
            return self.function(*args, **kwargs)
        if self.static:
            args = tuple([Static(a) if k in self._positions else a for k, a in enumerate(args)])
            kwargs = {k: Static(v) if k in self.static else v for k, v in kwargs.items()}
        found = None if kwargs else flat_signature(args)
        if found is not None:
            leaves, key = found
            program = self._program((state.training, *key), len(args), leaves)
        elif kwargs or self.static:
            leaves, key, build = tree_signature(args, kwargs, self.name)
            program = self._program((state.training, *key), build, leaves)
        else:
            leaves, program = self._program_of_tree(args)
        self.latest = program
        return program(leaves)

    def _program_of_tree(self, args: tuple) -> tuple[list, Program]:
        """The leaves of nested arguments, and their program."""
        for number, recognize in enumerate(self._recognizers):
            found = recognize(args)
            if found is not None:
                leaves, parts = found
                shortcut: tuple = (state.training, number, *parts)
                program = self._shortcuts.get(shortcut)
                if program is not None:
                    return leaves, program
                break
        else:
            shortcut = ()
        leaves, key, build = tree_signature(args, {}, self.name)
        program = self._program((state.training, *key), build, leaves)
        if shortcut:
            self._shortcuts[shortcut] = program
        elif len(self._recognizers) < _MAX_STRUCTURES and (new := recognizer(args)) is not None:
            self._recognizers.append(new)
        return leaves, program

    def _program(self, key: tuple, build: Callable | int, leaves: list) -> Program:
        try:
            program = self.programs.get(key)
        except TypeError as err:
            instead = "" if not any(map(convertible, leaves)) else "; pass x.to_numpy(), which is an array"
            raise DTypeError(f"{self.name}: a static argument cannot be hashed: {err}{instead}") from None
        return self._trace(key, build, leaves) if program is None else program

    def _trace(self, key: tuple, build, leaves: list) -> Program:
        if len(self.programs) == _MAX_SIGNATURES:
            warnings.warn(
                f"jit: {self.name} is traced for the {_MAX_SIGNATURES + 1}th time; every new shape, dtype and "
                "static value (ints, strings) makes a new program; latest signatures: "
                f"{[k[1:] for k in list(self.programs)[-2:]]}",
                stacklevel=3,
            )
        found = self.programs[key] = Program(self, build, leaves)
        return found

    def _latest(self) -> Program:
        if self.latest is None:
            raise TraceError(f"{self.name} was not called yet: there is a program once it was")
        return self.latest

    def njit(self, *args, out: bool = False) -> Callable:
        """The program for arguments like these, as a function to call from ``numba.njit`` code.

        Parameters
        ----------
        *args
            Example arguments; the function is called with them once. The arrays and floats among them, in order, are
            the arguments of the compiled function; anything else keeps its value.
        out : bool
            After its arguments, the compiled function takes an output array for each result that is not a scalar,
            and returns these. They must share no memory with arguments or one another.

        Returns
        -------
        callable
            Compiled for C-contiguous NumPy arrays of the examples' shapes and dtypes. It returns new arrays, numbers
            for scalar results, and tuples of these. ValueError if an argument has another shape. Captured NDArrays are
            read in place: it sees what is written into them later.

        Raises
        ------
        TraceError
            If the function draws random numbers or calls an operator that runs from Python.
        DTypeError
            For float16, and results that are not arrays, numbers or tuples of them.

        Examples
        --------
        >>> import nbgrad as nb
        >>> import numpy as np
        >>> slope = nb.jit(nb.grad(lambda x: x**3)).njit(2.0)
        >>> slope(2.0)
        12.0
        """
        return nopython_function(self._example(args), out)

    def _example(self, args: tuple) -> Program:
        if current.graph is not None:
            raise TraceError(f"{self.name}.njit: make the function outside of other traced functions")
        self(*args)
        return self._latest()

    def low_level(self, *args):
        """The function as C code calls it: ``double f(double)``, or ``double f(int n, double *x, void *data)``.

        Parameters
        ----------
        *args
            Example arguments, floats and arrays of float64: their elements are read from `x`, one argument after the
            other. If there are fewer than needed, the function returns nan. Without examples, the function takes one
            float.

        Returns
        -------
        numba.core.ccallback.CFunc
            ``scipy.LowLevelCallable(f.low_level().ctypes)`` is what SciPy takes.

        Raises
        ------
        DTypeError
            If the function does not return one number, or an example has another dtype.
        TraceError
            As for :meth:`njit`.

        Examples
        --------
        >>> import nbgrad as nb
        >>> import scipy
        >>> slope = nb.jit(nb.grad(lambda x: x**3)).low_level()
        >>> round(scipy.integrate.quad(scipy.LowLevelCallable(slope.ctypes), 0, 2)[0], 12)
        8.0
        >>> area = nb.jit(lambda x, y: x * y).low_level(1.0, 1.0)
        >>> round(scipy.integrate.nquad(scipy.LowLevelCallable(area.ctypes), [[0, 1], [0, 2]])[0], 12)
        1.0
        """
        return c_callback(self._example(args or (1.0,)), bool(args))

    def source(self, device: str | None = None) -> str:
        """The generated code of the program that ran last.

        Parameters
        ----------
        device : {"cpu", "gpu"}, optional
            The device to generate code for; default: the one on which the program ran. No GPU is needed to see its
            code.
        """
        if device not in (None, "cpu", "gpu"):
            raise AttrError(f"source: device must be 'cpu' or 'gpu', got {device!r}")
        return "\n\n".join(self._latest().code(device))

    def report(self) -> str:
        """The loops of the program that ran last, and what it reads, writes and allocates."""
        return report(self._latest().compiled)

    def graph(self, kind: str = "mermaid") -> str:
        """The steps of the program that ran last as a graph: text for mermaid, or for Graphviz (``"dot"``)."""
        if kind not in ("mermaid", "dot"):
            raise AttrError(f"graph: kind must be 'mermaid' or 'dot', got {kind!r}")
        return drawing(self._latest().compiled, kind)
