"""Functions with loops, differentiated: what :func:`.api.adjoint` and :func:`.api.tangent` make of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ..core import collector
from ..core.pickling import Derived
from ..errors import AttrError, DTypeError, TraceError
from .analysis.searches import searches, warn_of_searches
from .arguments import (
    DetailedPaths,
    arrange_gradients,
    arrange_outputs,
    as_cotangent,
    as_given,
    as_tuple,
    bind_arguments,
    check_no_aliasing,
    checked_argnums,
    copies,
    copy_written,
    directions_of,
    flat_cotangents,
    float64_among_float32,
    has_float32,
    output_names,
    parameters,
    ranks_and_kinds,
    tupled_arguments,
    types_of,
    wrt_parameters,
)
from .checkpoint_options import CheckpointOptions
from .codegen.checkpoint_levels import check, choose_loops
from .explanation import explanation
from .flattened_arguments import FlattensArguments
from .frontend.large_systems import are_large
from .frontend.lowering import lower
from .frontend.source import Source
from .frontend.tuple_arguments import argnum_indices
from .frontend.wrapped_calls import source_of
from .ir.passes import Pass, checked, enabled, recorded, without
from .ir.statements import Alloc, Function, If, walk
from .pullback import Pullback
from .unit_axes import UnitAxis, broadcasting_axes, squeezed_axes
from .variants import AdjointVariant, CheckpointedVariant, SplitVariant, TangentVariant

__all__ = ["Adjoint", "Tangent"]


class _Differentiated(FlattensArguments, Derived):
    """The common part of adjoints and tangents: generated code per combination of ranks and kinds of arguments."""

    _generate: Callable
    _methods: str  # for messages
    _fixed_buffers = False  # whether array arguments must not be rebound

    def __init__(
        self, f: Callable | _Differentiated | Source, argnums: int | tuple[int, ...] | None, boundscheck: bool = True
    ) -> None:
        if not isinstance(boundscheck, bool):
            raise AttrError(f"boundscheck is True or False, got {boundscheck!r}")
        self._made_of: tuple = (f, argnums, boundscheck)
        self._inner_transform = f if isinstance(f, _Differentiated) else None
        self._sources: dict[Any, Source] = {}
        self._source: Source | None = None
        if self._inner_transform is None:
            self._source = f if isinstance(f, Source) else source_of(f)
        name = self._inner_transform.__name__ if self._source is None else self._source.name  # type: ignore[union-attr]
        self._argnums = checked_argnums(name, argnums)
        if self._source is not None and self._argnums is not None:
            argnum_indices(name, self._argnums, parameters(self._source))
        self._boundscheck = boundscheck and self._inner_transform is None  # generated code checks indices itself
        self._clear_caches()
        self.__name__: str = f"{name}_{type(self).__name__.lower()}"

    def _clear_caches(self) -> None:
        super()._clear_caches()
        self._programs: dict[tuple, Any] = {}
        self._last: Any = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} of {self.__name__.rpartition('_')[0]}>"

    def __call__(self, *args, **kwargs):
        raise DTypeError(f"{self!r} is called by its methods: {self._methods}")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no {name!r}; its methods are {self._methods}")

    def _origin(self) -> tuple[Callable, tuple]:
        return type(self), self._made_of

    def _current(self) -> bool:
        return self._source.current() if self._source is not None else self._inner_transform._current()  # type: ignore[union-attr]

    def compiled(self, *args, **kwargs) -> Callable:
        """The generated function for arguments like these, to call from compiled code.

        It takes the arguments, then cotangents (an adjoint's: of the results that are floats or local arrays, and of
        the arrays) or tangents (of the arguments), as its signature in :attr:`source` says. An adjoint returns the
        results and the gradients of scalars, a tangent the results and their derivatives; gradients and derivatives
        of arrays are left in the arrays passed for them. An array that is written must not share memory with another
        one.
        """
        arguments = self._bound_arguments(args, kwargs)
        if (parts := self._flatten(arguments)) is not None:
            return parts[0].compiled(*parts[2])
        program = self._generated(arguments)
        f, entry = program.f, program.entry
        own_floats = [k for k, n in enumerate(f.parameters) if f.kinds.get(n) == "float"]
        entry.floats = (*own_floats, *range(len(f.parameters), entry.__code__.co_argcount))
        return entry

    @property
    def source(self) -> str:
        """The generated file for the arguments of the latest call."""
        if self._last is None and self._flattened:
            return next(reversed(self._flattened.values())).source
        if self._last is None:
            raise AttrError(f"{self.__name__}.source depends on the types of the arguments: make a call first")
        return self._last.text

    def _bound_arguments(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """The arguments of a call, one per parameter."""
        if self._source is not None:
            return bind_arguments(self._source, args, kwargs)
        if kwargs:
            raise AttrError(
                f"{self.__name__}: {', '.join(kwargs)} by name; which parameters there are depends on the arguments "
                f"here: give them in order, which the source of {self._inner_transform.__name__} shows"  # type: ignore[union-attr]
            )
        return args

    def _generated(self, args: tuple) -> Any:
        program = self._variant(self._generate, args, True)
        check_no_aliasing(program.f, args)
        self._last = program
        return program

    def _variant(self, generate: Callable, args: tuple, differentiated: bool) -> Any:
        source = self._source_for(args)
        ranks, kinds = ranks_and_kinds(source, args)
        single, doubles = has_float32(args), float64_among_float32(source, args)
        key = source, generate, differentiated, doubles, enabled(Pass.STRIP_MINING), *ranks.values(), *kinds.values()
        large = are_large(args) and not self._fixed_buffers
        unit_axes, refused = frozenset[tuple[str, int]](), None
        while True:
            program = self._programs.get((single, unit_axes, large, *key))
            if program is None:
                with collector.paused():
                    try:
                        f, wrt = self._lowered(source, ranks, kinds, single, doubles, unit_axes, large)
                    except TraceError as err:
                        if refused or not (unit_axes := squeezed_axes(getattr(err, "lowered", None), args)):
                            raise refused or err from None
                        refused = err
                        continue
                    full = (f.single_precision, unit_axes, f.large_systems, *key)
                    program = self._programs.get(full)
                    if program is None:
                        warn_of_searches(f.searches if differentiated else [], f)
                        program = generate(f, wrt if differentiated else [])
                self._programs[full] = self._programs[single, unit_axes, large, *key] = program
            if unit_axes or not (unit_axes := broadcasting_axes(program.f, args)):
                return program

    def _lowered(
        self,
        source: Source,
        ranks: dict[str, int],
        kinds: dict[str, str],
        single: bool,
        doubles: frozenset[str],
        unit_axes: frozenset[tuple[str, int]],
        large: bool,
    ) -> tuple[Function, list[str]]:
        """The lowered function, with types, and the parameters to differentiate with respect to."""
        f = lower(source, ranks, kinds, self._fixed_buffers, doubles, unit_axes, large, single)
        f.checked = self._boundscheck
        f.single_precision = single and any(isinstance(s, If | Alloc) for s in walk(f.body))
        wrt = [f.renamed_parameters[n] for n in wrt_parameters(source, kinds, self._argnums)]
        f.searches = searches(f, set(wrt))
        return checked(f, "lowering"), wrt

    def _source_for(self, args: tuple) -> Source:
        """The source to differentiate; that of an adjoint or a tangent depends on its arguments."""
        if self._source is not None:
            return self._source
        assert self._inner_transform is not None
        count = len(parameters(self._inner_transform._source_for(args)))
        # Of loops in blocks derivatives are slower than those of others, in blocks.
        with without(Pass.STRIP_MINING, Pass.UNROLL_AND_JAM):
            program = self._inner_transform._generated(args[:count])
        if isinstance(program, CheckpointedVariant):
            raise TraceError(
                f"{self.__name__}: the adjoint has checkpoints, and cannot be differentiated; for second derivatives "
                "take nb.adjoint(nb.tangent(f), checkpoint=...)"
            )
        entry = program.entry
        if entry not in self._sources:
            self._sources[entry] = source_of(entry)
        return self._sources[entry]


class Tangent(_Differentiated):
    """The result of :func:`tangent`."""

    _methods = ".jvp(args, tangents), .compiled(...)"
    _generate = TangentVariant

    def jvp(self, args: tuple, tangents: tuple) -> tuple[Any, Any]:
        """The outputs and their derivatives in a direction.

        Parameters
        ----------
        args : tuple
            The arguments, one per parameter; defaults may be left out at the end. Arrays that the function writes are
            not modified; their new values are outputs.
        tangents : tuple
            One per parameter, or per argnum; None for zeros. None or 0 for arguments that are not floats.

        Returns
        -------
        outputs, derivatives
            What the function returns, followed by the float arrays that it writes, if any: a tuple, or the array alone
            if there is only one output.
        """
        args, tangents = tupled_arguments(self.__name__, self._source, args, tangents, self._argnums)
        if (parts := self._flatten(args)) is not None:
            inner, form, flat = parts
            return inner.jvp(flat, form.flatten_directions(args, self._argnums, tangents))
        program = self._generated(args)
        dots = directions_of(program.f, program.wrt, self._argnums, tangents, "tangents")
        values, derivatives = program(args, dict(zip(program.wrt, dots, strict=True)))
        return arrange_outputs(program.f, values), arrange_outputs(program.f, derivatives)


class Adjoint(_Differentiated):
    """The result of :func:`adjoint`."""

    _methods = ".value_and_grad(...), .vjp(...), .hvp(args, direction), .report(...), .parallel(...), .compiled(...)"

    def __init__(self, f, argnums, checkpoint=None, loop=None, memory=None, boundscheck=True) -> None:
        super().__init__(f, argnums, boundscheck)
        self._checkpoints = CheckpointOptions.of(self.__name__, checkpoint, loop, memory)
        self._made_of = (f, argnums, checkpoint, loop, memory, boundscheck)
        self._fixed_buffers = checkpoint is not None
        if self._checkpoints is not None and self._source is not None:
            check(self._source, self._checkpoints.names)

    def _clear_caches(self) -> None:
        super()._clear_caches()
        # By types of arguments, where these are taken as they are: for the fast paths.
        self._fast_path: dict[tuple, tuple[AdjointVariant, Callable]] = {}
        self._detailed_paths: dict[tuple, DetailedPaths] = {}
        self._fast_halves: dict[tuple, tuple[AdjointVariant, SplitVariant | TangentVariant]] = {}
        # The tangent of this adjoint, and the adjoint of the tangent, by the differentiated parameters.
        self._tangents: dict[tuple[int, ...], Tangent] = {}
        self._adjoints_of_tangents: dict[tuple[int, ...], Adjoint] = {}

    def _generate(self, f: Function, wrt: list[str]) -> AdjointVariant:
        options = self._checkpoints
        nested = options is not None and len(options.names) > 1  # the tapes of loops inside need the loops around them
        program = AdjointVariant(f, wrt, self._argnums, not nested)
        loops = [] if options is None else choose_loops(program.reverse, options.names)
        return CheckpointedVariant(program, loops, options) if options is not None and loops else program

    def value_and_grad(self, *args, **kwargs) -> tuple[Any, Any]:
        """The scalar result and its gradients.

        Takes the arguments of the function, positional and by name. Arrays that the function writes are modified.

        Returns
        -------
        value : float
        gradients : tuple, or a single one where `argnums` is an int
            One per parameter, in order, and None for an argument that has none (integers, bools, strings, None, and
            arrays that are not of floats); or one per argnum. The gradient of a tuple is a tuple of the same structure.
        """
        key = types_of(args)
        known = None if kwargs else self._fast_path.get(key)
        if known is not None:
            self._last, entry = known
            try:
                return entry(*args)
            except UnitAxis:
                pass  # or larger matrices
        if not kwargs and (paths := self._detailed_paths.get(key)) and (known := paths.get(args)):
            with suppress(UnitAxis):
                self._last, entry = known
                return entry(*args)
        bound_args = self._bound_arguments(args, kwargs)
        if (parts := self._flatten(bound_args)) is not None:
            inner, form, flat = parts
            with self._written_back(*parts, bound_args):
                value, gradients = inner.value_and_grad(*flat)
            if not kwargs and as_given(args, bound_args):
                self._remember_flattened(key, args, bound_args, *parts)
            return value, form.gradients(bound_args, self._argnums, gradients)
        program = self._generated(bound_args)
        if not self._returns_scalar(program.f):
            raise AttrError(f"{program.f.name}: value_and_grad is for functions that return one number; use vjp")
        if not kwargs and self._takes_as_they_are(program, args, bound_args):
            self._remember(key, args, bound_args[len(args) :], program)
        results, gradients = program(bound_args, {program.f.results[0]: 1.0})
        return results[0], self._arrange_gradients(program, gradients)

    def vjp(self, *args, **kwargs) -> Pullback:
        """Call the function, and return the pullback, which maps cotangents of outputs to gradients.

        The outputs are the results, in order, then the float arrays that the function writes. The pullback takes one
        cotangent per output (a tuple; the cotangent itself if there is one output; None for zeros), and returns the
        gradients in the form of :meth:`value_and_grad`. Cotangents of results that are tuples may be such tuples,
        too. ``.value`` is what the function returned.

        The pullback's first call uses what the forward sweep stored; later calls rerun the function. Until the first
        call, arrays that the function only reads must not be modified.
        """
        key = types_of(args)
        known = None if kwargs else self._fast_halves.get(key)
        if known is not None:
            program, forward = known
            try:
                program.admit(*args)
            except UnitAxis:
                pass  # or larger matrices
            else:
                self._last = program
                return self._pullback(program, forward, args)
        given, args = args, self._bound_arguments(args, kwargs)
        if (parts := self._flatten(args)) is not None:
            inner, form, flat = parts
            with self._written_back(*parts, args):
                pull = inner.vjp(*flat)
            pull._gradient_form = partial(form.gradients, args, self._argnums)
            return pull
        program = self._generated(args)
        program.check_memory(args, 4)
        halves = program.split_variant
        if halves is None and not isinstance(program, CheckpointedVariant):
            halves = program.split_variant = self._variant(SplitVariant, args, True)
        once = program.f.draws  # running it again would draw other numbers
        if halves is None or halves.split_tape_axes is None or (
            halves.split_tape_axes > program.reverse.tape_axes() and not once
        ):  # fmt: skip
            if once:
                raise TraceError(f"{self.__name__}: vjp would draw random numbers twice; use value_and_grad")
            halves = self._variant(TangentVariant, args, False)
        if self._takes_as_they_are(program, given, args) and len(given) == len(args) and not program.f.unit_axes:
            self._fast_halves[key] = program, halves
        return self._pullback(program, halves, args)

    def _pullback(self, program: AdjointVariant, forward: SplitVariant | TangentVariant, args: tuple) -> Pullback:
        """Run the forward half, or the function itself where the pullback runs both halves."""
        form, snapshot = partial(self._arrange_gradients, program), copy_written(program.f, args)
        if isinstance(forward, TangentVariant):
            return Pullback(form, program, snapshot, forward.run(args))
        results, state = forward.forward(args)
        return Pullback(form, program, snapshot, results, forward, state)

    def _takes_as_they_are(self, program: AdjointVariant, given: tuple, bound: tuple) -> bool:
        """Whether arguments of these types are passed on as they were given."""
        return as_given(given, bound) and type(program) is AdjointVariant and self._source is not None

    def hvp(self, args: tuple, direction: tuple, cotangents: Any = None) -> Any:
        """The product of the Hessian with a direction: the derivative of the gradients in it.

        Parameters
        ----------
        args : tuple
            The arguments, one per parameter; defaults may be left out at the end. They are not modified.
        direction : tuple
            One per parameter, or per argnum; None for zeros. None or 0 for arguments that are not floats.
        cotangents : optional
            The weights of the outputs, as for the pullback of :meth:`vjp`: the Hessian is that of their weighted sum.
            They may be left out if the function returns one scalar.

        Returns
        -------
        tuple, or a single product where `argnums` is an int
            In the form of the gradients of :meth:`value_and_grad`.
        """
        args, direction = tupled_arguments(self.__name__, self._source, args, direction, self._argnums)
        if (parts := self._flatten(args)) is not None:
            inner, form, flat = parts
            products = inner.hvp(flat, form.flatten_directions(args, self._argnums, direction), cotangents)
            return form.gradients(args, self._argnums, products)
        program = self._generated(args)
        f, names = program.f, output_names(program.f)
        if cotangents is None and not self._returns_scalar(f):
            raise AttrError(f"{f.name}: hvp needs cotangents of {', '.join(names)}; only one number needs none")
        first = 1.0, *[None] * (len(names) - 1)
        weights = first if cotangents is None else flat_cotangents(f, as_tuple(cotangents))
        if len(weights) != len(names):
            raise AttrError(f"{f.name}: {len(names)} cotangents expected ({', '.join(names)}), {len(weights)} given")
        directions = directions_of(f, program.wrt, self._argnums, direction, "directions")
        if any(call.loops for call in program.reverse.calls.values()):
            by_output = dict(zip(names, weights, strict=True))
            return self._arrange_gradients(program, self._hvp_from_tangent(program, args, by_output, directions))
        local = any(f.ranks.get(n) for n in program.reverse.seeds)
        values = self._primal(copies(args)) if local else ()
        full = (*args, *program.cotangent_arguments(args, dict(zip(names, weights, strict=True)), values).values())
        wrt = tuple(f.parameters.index(n) for n in program.wrt)
        if wrt not in self._tangents:
            self._tangents[wrt] = Tangent(self, wrt)
        second = self._tangents[wrt]._generated(full)
        derivatives = second(full, dict(zip(program.wrt, directions, strict=True)))[1]
        products = dict(zip(output_names(second.f), derivatives, strict=True))
        zeros = {n: np.zeros_like(a) if f.ranks[n] else 0.0 for n, a in zip(f.parameters, args, strict=True)}
        values = tuple(products.get(program.reverse.bars.get(n, ""), zeros[n]) for n in program.wrt)
        return self._arrange_gradients(program, values)

    def _hvp_from_tangent(
        self, program: AdjointVariant, args: tuple, weights: dict[str, Any], directions: tuple
    ) -> tuple:
        """Products with the Hessian from the adjoint of the tangent.

        Used where the adjoint has no tangent, because it stores the results of primitives called in loops in lists.
        """
        f = program.f
        wrt = tuple(f.parameters.index(n) for n in program.wrt)
        if wrt not in self._adjoints_of_tangents:
            self._adjoints_of_tangents[wrt] = Adjoint(Tangent(self._inner_transform or self._source, wrt), wrt)  # type: ignore[arg-type]
        adjoint_of_tangent = self._adjoints_of_tangents[wrt]
        forward = adjoint_of_tangent._inner_transform._generated(args).forward  # type: ignore[union-attr]
        inputs, directed = dict(zip(f.parameters, args, strict=True)), dict(zip(program.wrt, directions, strict=True))
        dots = [
            as_cotangent(f, n, directed.get(n), inputs[n] if f.ranks[n] else None) for n in forward.tangent_parameters
        ]
        pull = adjoint_of_tangent.vjp(*copies(args), *dots)
        seeds = {forward.dots[n]: w for n, w in weights.items() if n in forward.dots}
        results = [forward.dots.get(r) for r in f.results or []]
        return pull((*(None for _ in results), *map(seeds.get, [*results, *pull.outputs[2 * len(results) :]])))

    def _returns_scalar(self, f: Function) -> bool:
        return f.results is not None and len(f.results) == 1 and not f.ranks.get(f.results[0], 0)

    def report(self, *args, **kwargs) -> dict[str, int]:
        """Bytes stored for the reverse sweep, by variable and loops. The function may run, on copies of arguments."""
        args = self._bound_arguments(args, kwargs)
        if (parts := self._flatten(args)) is not None:
            return parts[0].report(*parts[2])
        return self._generated(args).tape_bytes(copies(args), lambda: self._primal(copies(args)))

    def parallel(self, *args, **kwargs) -> dict[str, str]:
        """Which loops over ``prange`` run on several threads, for arguments like these.

        Returns
        -------
        dict
            "parallel", or "serial" and why, by the first line of the loop; the keys of loops of the reverse sweep end
            with "in reverse".
        """
        args = self._bound_arguments(args, kwargs)
        if (parts := self._flatten(args)) is not None:
            return parts[0].parallel(*parts[2])
        return self._generated(args).reverse.parallel_verdicts()

    def explain(self, *args, **kwargs) -> str:
        """How the adjoint comes about, for arguments like these: a text to read.

        It has the function after lowering and what each pass changes in it, which values are stored for the reverse
        sweep or computed again and why, in which order loops are reversed, which loops over ``prange`` are serial
        and why, and the generated code. Nothing is compiled or run.

        Examples
        --------
        >>> import nbgrad as nb
        >>> def cube(x):
        ...     y = x * x
        ...     y = y * x
        ...     return y
        >>> nb.adjoint(cube).explain(2.0).split()[:2]
        ['After', 'lowering']
        """
        args = self._bound_arguments(args, kwargs)
        if (parts := self._flatten(args)) is not None:
            return parts[0].explain(*parts[2])
        source = self._source_for(args)
        ranks, kinds = ranks_and_kinds(source, args)
        single, doubles = has_float32(args), float64_among_float32(source, args)
        like = self._generated(args).f
        with recorded() as history:
            f, wrt = self._lowered(source, ranks, kinds, single, doubles, like.unit_axes, like.large_systems)
            program = self._generate(f, wrt)
        return explanation(history, program.reverse, program.text)

    def _primal(self, args: tuple) -> tuple:
        """Call the function itself, compiled; its results."""
        return self._variant(TangentVariant, args, False).run(args)

    def _arrange_gradients(self, program: AdjointVariant, gradients: tuple) -> Any:
        return arrange_gradients(program.f, program.wrt, self._argnums, gradients)
