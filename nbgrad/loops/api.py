"""What users call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from ..core.pickling import Made
from ..errors import AttrError, DTypeError, TraceError
from .arguments import (
    along,
    apart,
    bound,
    chosen,
    completed,
    copies,
    cotangent,
    describe,
    formed,
    kept,
    listed,
    narrow,
    one_by_one,
    outputs,
    parameters,
    placed,
    wanted,
    wide,
)
from .codegen.checkpointing import check, choose
from .frontend.lowering import lower
from .frontend.source import Source, source_of
from .frontend.tuple_arguments import Structure, places, structure
from .ir.statements import Alloc, Function, If, walk
from .ir.type_inference import infer
from .pullback import Pullback
from .variants import Backwards, Checkpointing, Forwards, Halves

__all__ = ["Adjoint", "Tangent", "adjoint", "tangent"]


def adjoint(
    f: Callable | Adjoint | Tangent,
    argnums: int | tuple[int, ...] | None = None,
    *,
    checkpoint: int | Literal["auto"] | None = None,
    loop: str | None = None,
    memory: int | None = None,
    boundscheck: bool = True,
) -> Adjoint:
    """The adjoint of a function with loops: reverse mode, as source code that Numba compiles.

    Parameters
    ----------
    f : callable
        A Python function, or one that Numba compiles, of numbers and NumPy arrays, in the subset of Python that
        ``docs/adjoint.md`` lists. Or an adjoint or tangent: the generated function is differentiated then.
    argnums : int or tuple of int, optional
        The arguments to differentiate with respect to: their gradients come in this order, and that of an int alone.
        Without it there is one gradient per parameter, in their order, and it is None where the value that was given
        has none: integers, bools, arrays of these, strings and None.
    checkpoint : int or "auto", optional
        Keep this many snapshots of what an outermost loop changes, and run its turns again from them, instead of
        storing what all of them overwrite. With "auto", as many as `memory` holds; none if what is stored fits.
    loop : str, optional
        The variable of that loop. Without it, it is the loop for which most is stored.
    memory : int, optional
        Bytes for "auto"; a quarter of the memory that is free when not given.
    boundscheck : bool, optional
        Whether an index outside of an array is an IndexError. If not, the sweep back may write anywhere.

    Returns
    -------
    Adjoint

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> def length(x):
    ...     total = 0.0
    ...     for i in range(x.size):
    ...         total += x[i] * x[i]
    ...     return total**0.5
    >>> value, (x_bar,) = nb.adjoint(length).value_and_grad(np.array([3.0, 4.0]))
    >>> print(value, x_bar)
    5.0 [0.6 0.8]
    """
    return Adjoint(f, argnums, checkpoint, loop, memory, boundscheck)


def tangent(f: Callable, argnums: int | tuple[int, ...] | None = None, *, boundscheck: bool = True) -> Tangent:
    """The tangent of a function with loops: forward mode, as source code that Numba compiles.

    Parameters
    ----------
    f, argnums, boundscheck
        As for :func:`adjoint`.

    Returns
    -------
    Tangent

    Examples
    --------
    >>> import nbgrad as nb
    >>> def cube(x):
    ...     y = 1.0
    ...     for i in range(3):
    ...         y *= x
    ...     return y
    >>> nb.tangent(cube).jvp((2.0,), (1.0,))
    (8.0, 12.0)
    """
    return Tangent(f, argnums, boundscheck)


class _Differentiated(Made):
    """What adjoints and tangents share: code per combination of ranks and kinds of arguments."""

    _make: Callable
    _methods: str  # for messages
    _still = False  # whether arguments may not change places

    def __init__(
        self, f: Callable | _Differentiated | Source, argnums: int | tuple[int, ...] | None, boundscheck: bool = True
    ) -> None:
        if not isinstance(boundscheck, bool):
            raise AttrError(f"boundscheck is True or False, got {boundscheck!r}")
        self._made_of: tuple = (f, argnums, boundscheck)
        self._of = f if isinstance(f, _Differentiated) else None
        self._sources: dict[Any, Source] = {}
        self._source: Source | None = None
        if self._of is None:
            self._source = f if isinstance(f, Source) else source_of(f)
        of = self._of.__name__ if self._source is None else self._source.name  # type: ignore[union-attr]
        self._argnums = chosen(of, argnums)
        if self._source is not None and self._argnums is not None:
            places(of, self._argnums, parameters(self._source))
        self._boundscheck = boundscheck and self._of is None  # what was generated looks at indices itself
        self._begin()
        self.__name__: str = f"{of}_{type(self).__name__.lower()}"

    def _begin(self) -> None:
        """Nothing is generated yet."""
        self._made: dict[tuple, Any] = {}
        self._last: Any = None
        self._parts: dict[tuple, Any] = {}  # the same for arguments that are tuples, taken apart

    def _apart(self, given: tuple) -> tuple[Any, Structure, tuple] | None:
        """If an argument is a tuple: what differentiates with its items as arguments, and the arguments so."""
        if self._source is None:
            return None
        form = structure(self._source.name, parameters(self._source), given)
        if form is None:
            return None
        key = form, form.argnums(given, self._argnums)
        made = self._parts.get(key)
        if made is None:
            made = self._parts[key] = object.__new__(type(self))
            made.__dict__ |= self.__dict__
            made._source, made._argnums = self._source.taken_apart(form.forms), key[1]
            made._begin()
        return made, form, tuple(form.leaves(given))

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} of {self.__name__.rpartition('_')[0]}>"

    def __call__(self, *args, **kwargs):
        raise DTypeError(f"{self!r} is called by its methods: {self._methods}")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no {name!r}; its methods are {self._methods}")

    def _origin(self) -> tuple[Callable, tuple]:
        return type(self), self._made_of

    def _current(self) -> bool:
        return self._source.current() if self._source is not None else self._of._current()  # type: ignore[union-attr]

    def compiled(self, *args, **kwargs) -> Callable:
        """The generated function for arguments like these, for your own compiled code.

        It takes the arguments, and then cotangents (an adjoint's: of the results that are floats or local arrays, and
        of the arrays) or tangents (of the arguments), as its signature in :attr:`source` says. An adjoint returns the
        results and the gradients by numbers, a tangent the results and their derivatives; what belongs to an array is
        in the array that was given for it. An array that is written may not share memory with another one.
        """
        given = self._given(args, kwargs)
        if (parts := self._apart(given)) is not None:
            return parts[0].compiled(*parts[2])
        made = self._generated(given)
        f, entry = made.f, made.entry
        theirs = [k for k, n in enumerate(f.parameters) if f.kinds.get(n) == "float"]
        entry.floats = (*theirs, *range(len(f.parameters), entry.__code__.co_argcount))
        return entry

    @property
    def source(self) -> str:
        """The generated file, for the arguments of the latest call."""
        if self._last is None and self._parts:
            return next(reversed(self._parts.values())).source
        if self._last is None:
            raise AttrError(f"{self.__name__}.source depends on the types of the arguments: make a call first")
        return self._last.text

    def _given(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """The arguments of a call, one per parameter."""
        if self._source is not None:
            return bound(self._source, args, kwargs)
        if kwargs:
            raise AttrError(
                f"{self.__name__}: {', '.join(kwargs)} by name; which parameters there are depends on the arguments "
                f"here: give them in order, which the source of {self._of.__name__} shows"  # type: ignore[union-attr]
            )
        return args

    def _listed(self, args: Any) -> tuple:
        """The arguments that are given as one, one per parameter."""
        if not isinstance(args, tuple | list):
            raise AttrError(
                f"{self.__name__}: args is the tuple of the function's arguments, {type(args).__name__} was given"
            )
        return tuple(args) if self._source is None else completed(self._source, tuple(args))

    def _generated(self, args: tuple) -> Any:
        made = self._variant(self._make, args, True)
        apart(made.f, args)
        self._last = made
        return made

    def _variant(self, how: Callable, args: tuple, differentiated: bool) -> Any:
        source = self._read(args)
        ranks, kinds = describe(source, args)
        single, doubles = narrow(args), wide(source, args)
        key = (source, how, differentiated, doubles, *ranks.values(), *kinds.values())
        made = self._made.get((single, *key))
        if made is None:
            f = lower(source, ranks, kinds, self._still, doubles)
            infer(f)
            f.checked = self._boundscheck
            f.narrow = single and any(isinstance(s, If | Alloc) for s in walk(f.body))
            wrt = [f.called[n] for n in wanted(source, kinds, self._argnums)] if differentiated else []
            made = self._made.get((f.narrow, *key)) or how(f, wrt)
            self._made[f.narrow, *key] = self._made[single, *key] = made
        return made

    def _read(self, args: tuple) -> Source:
        """The source that is differentiated; that of an adjoint or a tangent depends on its arguments."""
        if self._source is not None:
            return self._source
        assert self._of is not None
        count = len(parameters(self._of._read(args)))
        made = self._of._generated(args[:count])
        if isinstance(made, Checkpointing):
            raise TraceError(
                f"{self.__name__}: the adjoint has checkpoints, and cannot be differentiated; for second derivatives "
                "take nb.adjoint(nb.tangent(f), checkpoint=...)"
            )
        entry = made.entry
        if entry not in self._sources:
            self._sources[entry] = source_of(entry)
        return self._sources[entry]


class Tangent(_Differentiated):
    """What :func:`tangent` gives."""

    _methods = ".jvp(args, tangents), .compiled(...)"
    _make = Forwards

    def jvp(self, args: tuple, tangents: tuple) -> tuple[Any, Any]:
        """The outputs and their derivatives in a direction.

        Parameters
        ----------
        args : tuple
            The arguments, one per parameter; defaults may be left out at the end. Arrays that the function writes are
            left alone; their new values are outputs.
        tangents : tuple
            One per parameter, or per argnum; None for zeros. None or 0 for what is no float.

        Returns
        -------
        outputs, derivatives
            What the function returns, with the arrays of floats that it writes after it, if there are any: a tuple
            then, or the array if there is nothing else.
        """
        args = self._listed(args)
        if (parts := self._apart(args)) is not None:
            inner, form, flat = parts
            return inner.jvp(flat, form.along(args, self._argnums, listed(tangents)))
        made = self._generated(args)
        given = along(made.f, made.wrt, self._argnums, listed(tangents), "tangents")
        values, derivatives = made(args, dict(zip(made.wrt, given, strict=True)))
        return formed(made.f, values), formed(made.f, derivatives)


class Adjoint(_Differentiated):
    """What :func:`adjoint` gives."""

    _methods = ".value_and_grad(...), .vjp(...), .hvp(args, direction), .report(...), .parallel(...), .compiled(...)"

    def __init__(self, f, argnums, checkpoint=None, loop=None, memory=None, boundscheck=True) -> None:
        super().__init__(f, argnums, boundscheck)
        if checkpoint is None and (loop is not None or memory is not None):
            raise AttrError(f"{self.__name__}: loop and memory are for checkpoints; say checkpoint=")
        if loop is not None and not isinstance(loop, str):
            raise AttrError(f"{self.__name__}: loop is the name of the loop's variable, as in loop='t'; got {loop!r}")
        if checkpoint not in (None, "auto") and not _positive(checkpoint):
            raise AttrError(f"{self.__name__}: checkpoint must be a number of snapshots or 'auto', got {checkpoint!r}")
        if memory is not None and (checkpoint != "auto" or not _positive(memory)):
            raise AttrError(f"{self.__name__}: memory is a number of bytes, for checkpoint='auto'; got {memory!r}")
        self._checkpoint, self._loop, self._memory = checkpoint, loop, memory
        self._made_of = (f, argnums, checkpoint, loop, memory, boundscheck)
        self._still = checkpoint is not None
        if checkpoint is not None and self._source is not None:
            check(self._source, loop)

    def _begin(self) -> None:
        super()._begin()
        self._ready: dict[tuple, Backwards] = {}  # by kinds of arguments, for the short way
        # The tangent of this, and the adjoint of the tangent, by what kinds of arguments say is differentiated.
        self._second: dict[tuple[int, ...], Tangent] = {}
        self._turned: dict[tuple[int, ...], Adjoint] = {}

    def _make(self, f: Function, wrt: list[str]) -> Backwards:
        made = Backwards(f, wrt, self._argnums)
        loop = None if self._checkpoint is None else choose(made.reverse, self._loop)
        if loop is None:
            return made
        return Checkpointing(made, loop, None if self._checkpoint == "auto" else self._checkpoint, self._memory)

    def value_and_grad(self, *args, **kwargs) -> tuple[Any, Any]:
        """The result, a number, and its gradients.

        Arguments are given as to the function, by place and by name. Arrays that the function writes are written.

        Returns
        -------
        value : float
        gradients : tuple, or a single one where `argnums` is an int
            One per parameter, in their order, and None where the value that was given has none (integers, bools,
            strings, None, and arrays that are not of floats); or one per argnum. Those of tuples are such tuples.
        """
        key = tuple([(a.dtype, a.ndim) if a.__class__ is np.ndarray else a.__class__ for a in args])
        made = None if kwargs else self._ready.get(key)
        if made is not None:
            self._last = made
            return made.short(*args)
        given = self._given(args, kwargs)
        if (parts := self._apart(given)) is not None:
            inner, form, flat = parts
            value, gradients = inner.value_and_grad(*flat)
            return value, form.gradients(given, self._argnums, gradients)
        made = self._generated(given)
        f = made.f
        if not self._one_number(f):
            raise AttrError(f"{f.name}: value_and_grad is for functions that return one number; use vjp")
        same = len(given) == len(args) and all(a is b for a, b in zip(given, args, strict=True))
        if same and type(made) is Backwards and self._source is not None:
            self._ready[key] = made
        results, gradients = made(given, {f.results[0]: 1.0})
        return results[0], self._form(made, gradients)

    def vjp(self, *args, **kwargs) -> Pullback:
        """Call the function, and get what takes cotangents of its outputs to those of its arguments.

        The outputs are the results, in order, and then the arrays of floats that the function writes. Called with one
        cotangent per output (a tuple; the cotangent itself if there is one output; None for zeros), the pullback gives
        the gradients, in the places that :meth:`value_and_grad` gives them. Cotangents of results that are tuples may
        be such tuples, too. ``.value`` is what the function returned.

        The pullback's first call takes what was stored for it; others run the function again. Until then, arrays that
        the function only reads are to stay as they are.
        """
        args = self._given(args, kwargs)
        if (parts := self._apart(args)) is not None:
            inner, form, flat = parts
            pull = inner.vjp(*flat)
            pull._form = partial(form.gradients, args, self._argnums)
            return pull
        made = self._generated(args)
        snapshot = kept(made.f, args)
        halves = made.halves
        if halves is None and not isinstance(made, Checkpointing):
            halves = made.halves = self._variant(Halves, args, True)
        if halves is None or halves.stored is None or halves.stored > made.reverse.axes():
            return Pullback(partial(self._form, made), made, snapshot, self._primal(args))
        results, state = halves.forward(args)
        return Pullback(partial(self._form, made), made, snapshot, results, halves, state)

    def hvp(self, args: tuple, direction: tuple, cotangents: Any = None) -> Any:
        """The product of the Hessian with a direction: the derivative of the gradients in it.

        Parameters
        ----------
        args : tuple
            The arguments, one per parameter; defaults may be left out at the end. They are left alone.
        direction : tuple
            One per parameter, or per argnum; None for zeros. None or 0 for what is no float.
        cotangents : optional
            The weights of the outputs, as for the pullback of :meth:`vjp`: it is the Hessian of their weighted sum.
            They may be left out if the function returns one number.

        Returns
        -------
        tuple, or a single product where `argnums` is an int
            In the places that :meth:`value_and_grad` gives gradients.
        """
        args = self._listed(args)
        if (parts := self._apart(args)) is not None:
            inner, form, flat = parts
            products = inner.hvp(flat, form.along(args, self._argnums, listed(direction)), cotangents)
            return form.gradients(args, self._argnums, products)
        made = self._generated(args)
        f, names = made.f, outputs(made.f)
        if cotangents is None and not self._one_number(f):
            raise AttrError(f"{f.name}: hvp needs cotangents of {', '.join(names)}; only one number needs none")
        given = (1.0,) + (None,) * (len(names) - 1) if cotangents is None else one_by_one(f, listed(cotangents))
        if len(given) != len(names):
            raise AttrError(f"{f.name}: {len(names)} cotangents expected ({', '.join(names)}), {len(given)} given")
        directions = along(f, made.wrt, self._argnums, listed(direction), "directions")
        if any(call.loops for call in made.reverse.calls.values()):
            return self._form(made, self._of_tangent(made, args, dict(zip(names, given, strict=True)), directions))
        local = any(f.ranks.get(n) for n in made.reverse.seeds)
        values = self._primal(copies(args)) if local else ()
        full = (*args, *made.bars(args, dict(zip(names, given, strict=True)), values).values())
        wrt = tuple(f.parameters.index(n) for n in made.wrt)
        if wrt not in self._second:
            self._second[wrt] = Tangent(self, wrt)
        second = self._second[wrt]._generated(full)
        derivatives = second(full, dict(zip(made.wrt, directions, strict=True)))[1]
        products = dict(zip(outputs(second.f), derivatives, strict=True))
        zeros = {n: np.zeros_like(a) if f.ranks[n] else 0.0 for n, a in zip(f.parameters, args, strict=True)}
        return self._form(made, tuple(products.get(made.reverse.bars.get(n, ""), zeros[n]) for n in made.wrt))

    def _of_tangent(self, made: Backwards, args: tuple, weights: dict[str, Any], directions: tuple) -> tuple:
        """Products with the Hessian from the adjoint of the tangent. The adjoint has no tangent where primitives with a
        vjp are called in loops, whose results it keeps in lists."""
        f = made.f
        wrt = tuple(f.parameters.index(n) for n in made.wrt)
        if wrt not in self._turned:
            self._turned[wrt] = Adjoint(Tangent(self._of or self._source, wrt), wrt)  # type: ignore[arg-type]
        turned = self._turned[wrt]
        forward = turned._of._generated(args).forward  # type: ignore[union-attr]
        given, known = dict(zip(f.parameters, args, strict=True)), dict(zip(made.wrt, directions, strict=True))
        dots = [cotangent(f, n, known.get(n), given[n] if f.ranks[n] else None) for n in forward.given]
        pull = turned.vjp(*copies(args), *dots)
        found = {forward.dots[n]: w for n, w in weights.items() if n in forward.dots}
        results = [forward.dots.get(r) for r in f.results or []]
        return pull((*(None for _ in results), *map(found.get, [*results, *pull.outputs[2 * len(results) :]])))

    def _one_number(self, f: Function) -> bool:
        return f.results is not None and len(f.results) == 1 and not f.ranks.get(f.results[0], 0)

    def report(self, *args, **kwargs) -> dict[str, int]:
        """Bytes stored for the sweep back, by variable and loops. The function runs, on copies of the arguments."""
        args = self._given(args, kwargs)
        if (parts := self._apart(args)) is not None:
            return parts[0].report(*parts[2])
        made = self._generated(args)
        return made.stored(copies(args), self._primal(copies(args)))

    def parallel(self, *args, **kwargs) -> dict[str, str]:
        """Which loops over ``prange`` run on several threads, for arguments like these.

        Returns
        -------
        dict
            "parallel", or "serial" and why, by the first line of the loop; those of the sweep back end with
            "backwards".
        """
        args = self._given(args, kwargs)
        if (parts := self._apart(args)) is not None:
            return parts[0].parallel(*parts[2])
        return self._generated(args).reverse.threads()

    def _primal(self, args: tuple) -> tuple:
        """Call the function itself, compiled; its results."""
        return self._variant(Forwards, args, False).run(args)

    def _form(self, made: Backwards, gradients: tuple) -> Any:
        return placed(made.f, made.wrt, self._argnums, gradients)


def _positive(number: Any) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and bool(number > 0)
