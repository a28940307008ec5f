"""Call plans: how a structured operator runs, prepared once per combination of shapes, kinds and attributes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from ..arrays.launch import cast_into, common_conventions
from ..arrays.ndarray import NDArray, wrap
from ..autodiff import tracing
from ..backends.buffer_pool import LARGE
from ..core import dtypes
from ..core.context import CPU0, Context
from ..core.dtypes import DType, as_dtype
from ..core.shapes import Shape, size
from ..errors import AttrError

if TYPE_CHECKING:
    from .structured import Structured

__all__ = ["REQUIRED", "Plan", "Spec", "device_runners"]


class _Required:
    def __repr__(self) -> str:
        return "required"


#: Factories of launchers on devices of a type, from (operator, operands, results, attributes) as for
#: :meth:`.Structured.bind`; the modules for these devices register them.
device_runners: dict[str, Callable[[Structured, tuple, tuple, dict], Callable]] = {}


#: The default of an attribute that the caller must pass.
REQUIRED: Any = _Required()


class Spec:
    """The return value of a structured operator's checking function: the result's shape and dtype, and the attributes.

    Parameters
    ----------
    shape : tuple of int, or list of them
        A list for an operator with several results.
    dtype : DType or type or str, or list of them
    **attrs
        The attributes in canonical form, as launcher and rules get them.
    """

    __slots__ = ("attrs", "kinds", "shapes", "single")

    def __init__(self, shape: Shape | list[Shape], dtype, /, **attrs) -> None:
        self.single = not isinstance(shape, list)
        self.shapes: list[Shape] = shape if isinstance(shape, list) else [shape]
        self.kinds: list[DType] = [as_dtype(d) for d in ([dtype] if self.single else dtype)]
        self.attrs = attrs


class Plan:
    """A prepared call of a structured operator: shapes and kinds, attributes, and the function to run.

    Attributes
    ----------
    given, attrs : dict
        The attributes as passed, and in canonical form.
    avals : tuple of (shape, kind)
        Of the operands.
    shapes, kinds, results : sequence
        Of the results; `results` has for each its allocator, number of elements, shape and kind.
    single : bool
        Whether there is one result that is not in a list.
    run : callable
        ``run(*operands, result)``, or with a list of results.
    pulls : tuple or None
        Per operand the raw pullback from :meth:`Structured.raw`.
    """

    __slots__ = (
        "_places", "_saves", "_steps", "attrs", "avals", "given", "kinds", "op", "pulls", "results", "run", "shapes",
        "single",
    )  # fmt: skip

    def __init__(self, op: Structured, arrays: Sequence[NDArray], spec: Spec, given: dict) -> None:
        missing = [name for name, value in spec.attrs.items() if value is REQUIRED]
        if missing:
            raise AttrError(f"{op.name}: {', '.join(missing)} must be given")
        kind = arrays[0]._kind.by(common_conventions([x._kind for x in arrays], op.name, indices=True))
        self.op = op
        self.given = given
        self.attrs = spec.attrs
        self.single = spec.single
        self.avals = tuple([(x._shape, x._kind) for x in arrays])
        self.shapes = tuple(spec.shapes)
        self.kinds = tuple([kind.of(dtype) for dtype in spec.kinds])
        self.results = []
        for shape, result in zip(self.shapes, self.kinds, strict=True):
            n = size(shape)
            self.results.append((result.empty if n >= LARGE else result.small, n, shape, result))
        self.run = self._runner()
        self.pulls = None
        if op.raw_binder is not None and not (self.kinds[0].gpu or kind.traced):
            self.pulls = op.raw_binder(self.avals, results_of(self), self.attrs)
        self._places: dict[tuple, list] = {}
        self._saves: dict[tuple, tuple] = {}
        self._steps: list = [None] * len(self.avals)

    def _runner(self) -> Callable:
        op = self.op
        results = results_of(self)
        if self.kinds[0].traced:
            return functools.partial(tracing.trace_structured, self)
        bound = functools.partial(device_runners["gpu"], op) if self.kinds[0].gpu else op.bound
        half = [kind.dtype.name == "float16" for _, kind in (*self.avals, *results)]
        native = op.moves_only or (op.half and self.kinds[0].gpu and all(half))
        if native or not any(half):
            return bound(self.avals, results, self.attrs)
        # float16 is computed in float32.
        inner = bound(tuple(map(_wider, self.avals)), tuple(map(_wider, results)), self.attrs)

        def run(*arguments):
            *arrays, outputs = arguments
            outs = [outputs] if self.single else outputs
            wide = [_widened(x, copy=True) for x in arrays]
            wide_outs = [_widened(x, copy=False) for x in outs]
            inner(*wide, wide_outs[0] if self.single else wide_outs)
            for out, full in zip(outs, wide_outs, strict=True):
                if full is not out:
                    cast_into(full._buf, full._kind, out._buf, out._kind)

        return run

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def form(self) -> tuple:
        """What a call depends on, besides its operands."""
        return self.op, self.attrs

    def on(self, arrays: Sequence[NDArray]) -> Plan:
        """The same call for arrays of the same shapes and dtypes on another device."""
        spec = Spec(list(self.shapes), [kind.dtype for kind in self.kinds], **self.attrs)
        spec.single = self.single
        return Plan(self.op, arrays, spec, self.given)

    #: Unused results cannot be omitted.
    partial = False
    #: The generated sources, for inspection.
    code: Sequence[str] = ()
    #: It runs from Python, and is not the user's code.
    native = None
    inside = None
    foreign = False
    #: It has no steps of its own.
    subprograms: Sequence = ()

    def concrete(self, read: Collection[int] = (), ctx: Context = CPU0, is_nested: bool = False) -> Plan:
        """The same call for arrays on a device; `read` are the results that are used, `is_nested`: in a loop's step."""
        return self.on([wrap(None, shape, kind.on(ctx)) for shape, kind in self.avals])

    def saves(self, wanted: tuple[bool, ...]) -> tuple[tuple[str, int], ...]:
        """The values that rules of wanted operands read: (name, index); operands from 0 up, results from -1 down."""
        reads = self._saves.get(wanted)
        if reads is None:
            op = self.op
            names: dict[str, int] = {}
            for k, want in enumerate(wanted):
                for name in op.reads.get(op.operand(k), ()) if want else ():
                    if name in op.inputs:
                        names[name] = op.inputs.index(name)
                    elif name == "y":
                        names[name] = -1
                    elif name.startswith("y") and name[1:].isdigit():
                        names[name] = -1 - int(name[1:])
            reads = self._saves[wanted] = tuple(names.items())
        return reads

    def places(self, names: tuple) -> list[list[int]]:
        """Per operand: the indices in a node's ``saved``, which holds `names`, of the buffers that its rule reads."""
        indices = self._places.get(names)
        if indices is None:
            position = {name: 3 * i for i, (name, _) in enumerate(names)}
            reads = [self.op.reads.get(self.op.operand(k), ()) for k in range(len(self.avals))]
            indices = self._places[names] = [[position[name] for name in read if name in position] for read in reads]
        return indices

    def step(self, k: int) -> tuple[Callable | None, dict, tuple[str, ...]]:
        """The rule of operand `k`, its arguments that the plan determines, and the names of the others."""
        entry = self._steps[k]
        if entry is None:
            op = self.op
            known: dict[str, Any] = dict(self.attrs)
            known |= {f"{name}_shape": aval[0] for name, aval in zip(op.inputs, self.avals)}
            if op.variadic:
                known |= {"index": k, "shapes": [aval[0] for aval in self.avals]}
            names = op.reads.get(op.operand(k), ())
            saved = {name for name, _ in self.saves((True,) * len(self.avals))}
            static = {name: known[name] for name in names if name not in saved and name in known}
            rule = op.rules.get(op.operand(k))
            entry = self._steps[k] = (rule, static, tuple([name for name in names if name not in static]))
        return entry


def results_of(plan: Plan) -> tuple:
    """(shape, kind) of each result."""
    return tuple(zip(plan.shapes, plan.kinds, strict=True))


def _wider(aval: tuple) -> tuple:
    shape, kind = aval
    return shape, kind.of(dtypes.float32) if kind.dtype.name == "float16" else kind


def _widened(x: NDArray, copy: bool) -> NDArray:
    if x._kind.dtype.name != "float16":
        return x
    kind = x._kind.of(dtypes.float32)
    out = wrap(kind.empty(x._buf.size, kind.storage), x._shape, kind)
    if copy:
        cast_into(x._buf, x._kind, out._buf, kind)
    return out
