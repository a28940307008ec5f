"""Steps: the operations of a Symbol's nodes, one class per kind of recorded operation.

Each can be created from the tape and from text, run again with the same results, and infer shapes and dtypes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays.launch import Kind, address, kind_of
from ..arrays.ndarray import NDArray, wrap
from ..core.context import CPU0, Context
from ..core.dtypes import DType, as_dtype, default_dtype, promote
from ..core.registry import operators
from ..core.shapes import Shape, broadcast_shape, size
from ..custom.function_rules import FunctionRule
from ..errors import AttrError, DTypeError, NBGradError, ShapeError
from ..kernels.shape import reshape
from ..kernels.slices import slice_
from ..operators.call_plan import Plan, Spec
from ..operators.cast import Cast as CastRule
from ..operators.cast import cast, unify
from ..operators.elementwise import Elementwise, derived
from ..operators.structured import Structured
from .operand_checks import OPERAND_CHECKS, check, check_attrs, check_values
from .text import NotWritable, decode, encode, read_expr, write_expr

__all__ = ["Aval", "Step", "from_tape", "from_text"]


class Aval(NamedTuple):
    """Shape and dtype of an array."""

    shape: Shape
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


def aval(x: NDArray) -> Aval:
    """The aval of an array."""
    return Aval(x._shape, x._kind.dtype)


def _shape_only_array(a: Aval) -> NDArray:
    """An array for shape inference, which takes no memory."""
    kind = kind_of(a.dtype, CPU0)
    return wrap(np.broadcast_to(np.zeros(1, kind.storage), (size(a.shape),)), a.shape, kind)


class Step:
    """The operation of a node.

    Attributes
    ----------
    op : str
        The operator's name.
    """

    op: str
    #: Whether the step can be run.
    runs = True

    def attrs(self) -> dict[str, str]:
        """All data besides `op` and the inputs, as strings. Names with underscores are internal."""
        return {}

    def run(self, arrays: list[NDArray], before: Sequence, after: Sequence) -> list[NDArray]:
        """All results. `before` and `after` are the recorded avals of inputs and results."""
        raise NotImplementedError

    def infer(self, given: Sequence[Aval], before: Sequence, after: Sequence) -> list[Aval]:
        """Avals of all results, for inputs that differ from the recorded ones, `before`."""
        raise NotImplementedError

    def check(self, given: Sequence[Aval]) -> list[Aval]:
        """Avals of all results of a step that was read from text, which is not trusted."""
        if len(given) != 1:
            raise NBGradError(f"takes 1 array, got {len(given)}")
        return self.infer(given, given, ())


class ElementwiseStep(Step):
    """An elementwise operator."""

    def __init__(self, op: Elementwise, scalars: tuple) -> None:
        self.op = op.name
        self.rule = op
        self.scalars = scalars

    @staticmethod
    def names(name: str, count: int) -> list[str]:
        """The names of an operator's scalar parameters."""
        entry = operators.get(name)
        known = [] if entry is None else list(entry.params)
        if len(known) == count:
            return known
        return ["scalar"] if count == 1 else [f"s{k}" for k in range(count)]

    def attrs(self) -> dict[str, str]:
        strings = dict(zip(self.names(self.op, len(self.scalars)), map(encode, self.scalars), strict=True))
        entry = operators.get(self.op)
        if entry is None or entry.rule is not self.rule:
            written = write_expr(self.rule.expr)
            counts = (len(self.rule.operands), len(self.rule.params), self.rule.ints)
            strings["__expr__"] = "unwritable('scalar function')" if written is None else written
            strings["__operands_params_ints__"] = encode(counts)
        return strings

    @classmethod
    def read(cls, name: str, attrs: dict[str, str]) -> ElementwiseStep:
        if "__expr__" in attrs:
            if attrs["__expr__"].startswith("unwritable("):
                raise NotWritable("it uses a scalar function that has no name")
            operands, params, ints = decode(attrs["__operands_params_ints__"])
            if not (type(operands) is type(params) is int and 0 < operands < 100 and 0 <= params < 100):
                raise ValueError(f"{operands!r} operands, {params!r} parameters")
            if type(ints) is not bool:
                raise ValueError(f"True or False is needed, got {ints!r}")
            plain = re.sub(r"\W", "_", name, flags=re.ASCII)  # it is used in generated source
            op = derived(
                f"_{plain}" if plain[:1].isdigit() else plain,
                read_expr(attrs["__expr__"], operands, params),
                operands,
                params,
                ints,
            )
        else:
            op = operators[name].rule
        keys = cls.names(name, len(op.params))
        _known(attrs, {*keys, "__expr__", "__operands_params_ints__"} if "__expr__" in attrs else set(keys))
        scalars = tuple([decode(attrs[key]) for key in keys])
        for s in scalars:
            if type(s) not in (int, float):
                raise NBGradError(f"Symbol: parameters of operator {name!r} must be numbers, got {s!r}")
        step = cls(op, scalars)
        step.op = name
        return step

    def run(self, arrays, before, after):
        if not self.scalars:
            return [self.rule.apply(arrays)]
        arrays = unify(arrays, self.op, self.rule.ints)
        return [self.rule.apply(arrays, self._scalars(arrays[0]._kind.dtype))]

    def _scalars(self, dtype: DType) -> tuple:
        """The parameters converted for a kernel for `dtype`."""
        if dtype.is_float:
            return tuple(map(float, self.scalars))
        if all(float(s).is_integer() for s in self.scalars):
            return tuple(map(int, self.scalars))
        raise NBGradError(f"{self.op}: parameters {self.scalars} do not fit arrays of {dtype}; cast those to a float")

    def infer(self, given, before, after):
        dtype = given[0].dtype
        for a in given[1:]:
            dtype = promote(dtype, a.dtype)
        if not (dtype.is_float or self.rule.ints):
            dtype = default_dtype()
        if self.scalars:
            self._scalars(dtype)
        return [Aval(broadcast_shape([a.shape for a in given], self.op), dtype)]

    def check(self, given):
        if len(given) != len(self.rule.operands):
            raise NBGradError(f"takes {len(self.rule.operands)} array(s), got {len(given)}")
        return self.infer(given, given, ())


class StructuredStep(Step):
    """A structured operator.

    With inputs as recorded it runs with the recorded canonical attributes, without checks. With others it checks
    again, from the attributes it was called with; operators with an underscore do not check, so they raise.
    """

    def __init__(self, op: Structured, given: dict, canonical: dict, several: bool) -> None:
        self.op = op.name
        self.rule = op
        self.given = given
        self.canonical = canonical
        self.several = several

    def attrs(self) -> dict[str, str]:
        strings = {key: encode(value) for key, value in self.given.items()}
        canonical = encode(self.canonical)
        if canonical != encode(self.given):
            strings["__attrs__"] = canonical
        if self.several:
            strings["__several__"] = "True"
        return strings

    @classmethod
    def read(cls, name: str, attrs: dict[str, str]) -> StructuredStep:
        rule = operators[name].rule
        _known(attrs, {*rule.attrs, "__attrs__", "__several__"})
        if OPERAND_CHECKS.get(name, rule) is None:
            raise NotWritable("it takes functions, which have no text")
        if attrs.get("__several__", "True") != "True":
            raise NBGradError(f"__several__ must be True or absent, got {attrs['__several__']!r}")
        given = {key: decode(text) for key, text in attrs.items() if not key.startswith("__")}
        canonical = decode(attrs["__attrs__"]) if "__attrs__" in attrs else given
        if not isinstance(canonical, dict):
            raise NBGradError(f"__attrs__ must be a dictionary, got {canonical!r}")
        return cls(rule, given, canonical, "__several__" in attrs)

    def run(self, arrays, before, after):
        spec = self._spec(arrays, list(map(aval, arrays)), before, after)
        check_values(self.op, arrays, self.canonical)  # kernels do not check indices, and these come from the caller
        return self.rule.execute(arrays, Plan(self.rule, arrays, spec, self.given))

    def infer(self, given, before, after):
        spec = self._spec(list(map(_shape_only_array, given)), given, before, after)
        return list(map(Aval, spec.shapes, spec.kinds))

    def check(self, given):
        if not given or not (self.rule.variadic or len(given) == len(self.rule.inputs)):
            raise NBGradError(f"takes {len(self.rule.inputs) or 'some'} array(s), got {len(given)}")
        check_attrs(self.op, self.given)
        if missing := [key for key in self.rule.required if key not in self.given]:
            raise AttrError(f"{', '.join(missing)} must be given")
        check(self.op, given, self.given)
        spec = self.rule.infer(*map(_shape_only_array, given), **self.given)
        if self.several == spec.single:
            raise NBGradError(f"it has {'one result' if spec.single else 'several results'}")
        if encode(spec.attrs) != encode(self.canonical):
            raise AttrError(f"the attributes {self.given} mean {spec.attrs}, the text says {self.canonical}")
        return list(map(Aval, spec.shapes, spec.kinds))

    def _spec(self, arrays: list[NDArray], given: Sequence[Aval], before, after) -> Spec:
        if list(given) == list(before):
            shapes, dtypes = [a.shape for a in after], [a.dtype for a in after]
            spec = Spec(shapes, dtypes) if self.several else Spec(shapes[0], dtypes[0])
            spec.attrs = self.canonical
            return spec
        if self.op.startswith("_"):
            for a, b in zip(given, before, strict=True):
                if a.shape != b.shape:
                    _refuse(self.op, [a.shape for a in given], [a.shape for a in before])
                if a.dtype is not b.dtype and not (a.dtype.is_float and b.dtype.is_float):
                    raise DTypeError(f"{self.op}: traced for inputs of {b.dtype}, got {a.dtype}; give it {b.dtype}")
            check(self.op, given, self.given)
        if not self.rule.variadic and len(arrays) != len(self.rule.inputs):
            raise NBGradError(f"{self.op}: takes {len(self.rule.inputs)} array(s), got {len(arrays)}")
        return self.rule.infer(*arrays, **self.given)


class Reshape(Step):
    """A reshape to the recorded shape."""

    op = "reshape"

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def attrs(self) -> dict[str, str]:
        return {"shape": encode(self.shape)}

    @classmethod
    def read(cls, name: str, attrs: dict[str, str]) -> Reshape:
        _known(attrs, {"shape"})
        return cls(_lengths(decode(attrs["shape"])))

    def run(self, arrays, before, after):
        if arrays[0].size != size(self.shape):
            _refuse(self.op, [arrays[0].shape], [a.shape for a in before])
        return [reshape(arrays[0], self.shape)]

    def infer(self, given, before, after):
        if size(given[0].shape) != size(self.shape):
            _refuse(self.op, [given[0].shape], [a.shape for a in before])
        return [Aval(self.shape, given[0].dtype)]


class View(Step):
    """A contiguous view: a block at `begin` with lengths `counts`, reshaped to `shape`."""

    op = "slice_view"

    def __init__(self, begin: Shape, counts: Shape, shape: Shape) -> None:
        self.begin, self.counts, self.shape = begin, counts, shape

    def attrs(self) -> dict[str, str]:
        return {"begin": encode(self.begin), "counts": encode(self.counts), "shape": encode(self.shape)}

    @classmethod
    def read(cls, name: str, attrs: dict[str, str]) -> View:
        _known(attrs, {"begin", "counts", "shape"})
        view = cls(*[_lengths(decode(attrs[key])) for key in ("begin", "counts", "shape")])
        if len(view.begin) != len(view.counts) or size(view.counts) != size(view.shape):
            raise NBGradError(f"a block of {view.counts} from {view.begin} on cannot be seen as {view.shape}")
        return view

    def run(self, arrays, before, after):
        self.infer([aval(arrays[0])], before, after)
        block = slice_(arrays[0], begin=self.begin, step=(1,) * len(self.begin), shape=self.counts)
        return [reshape(block, self.shape)]

    def infer(self, given, before, after):
        shape = given[0].shape
        if len(shape) != len(self.begin) or any(b + c > n for b, c, n in zip(self.begin, self.counts, shape)):
            _refuse(self.op, [shape], [a.shape for a in before])
        return [Aval(self.shape, given[0].dtype)]


class Convert(Step):
    """Conversion to another dtype, or device."""

    op = "cast"

    def __init__(self, dtype: DType, ctx) -> None:
        self.dtype = dtype
        self.ctx = ctx

    def attrs(self) -> dict[str, str]:
        strings = {"dtype": self.dtype.name}
        if self.ctx is not None:
            strings["ctx"] = encode(self.ctx)
        return strings

    @classmethod
    def read(cls, name: str, attrs: dict[str, str]) -> Convert:
        _known(attrs, {"dtype", "ctx"})
        ctx = decode(attrs["ctx"]) if "ctx" in attrs else None
        if not (ctx is None or isinstance(ctx, Context)):
            raise NBGradError(f"ctx must be a context, got {ctx!r}")
        return cls(as_dtype(attrs["dtype"]), ctx)

    def run(self, arrays, before, after):
        x = arrays[0]
        return [cast(x, kind_of(self.dtype, self.ctx or x._kind.ctx))]

    def infer(self, given, before, after):
        return [Aval(given[0].shape, self.dtype)]


class UnrunnableStep(Step):
    """A step that can be inspected but not run, for `reason`."""

    runs = False

    def __init__(self, op: str, text: dict[str, str], reason: str) -> None:
        self.op = op
        self.text = text
        self.reason = reason

    def attrs(self) -> dict[str, str]:
        return dict(self.text)

    def run(self, arrays, before, after):
        raise NBGradError(f"Symbol.eval: {self.reason}")

    def infer(self, given, before, after):
        raise ShapeError(f"Symbol: shapes and dtypes other than those traced are not known: {self.reason}")


def _known(attrs: dict[str, str], keys: set[str]) -> None:
    if more := [key for key in attrs if key not in keys]:
        raise AttrError(f"attributes {', '.join(map(repr, more[:5]))} are unknown; it has {', '.join(sorted(keys))}")


def _lengths(given) -> Shape:
    if not isinstance(given, tuple) or not all(type(n) is int and n >= 0 for n in given):
        raise NBGradError(f"Symbol: a tuple of lengths >= 0 is needed, got {given!r}")
    return given


def _refuse(op: str, given: Sequence[Shape], before: Sequence[Shape]):
    raise ShapeError(
        f"{op}: traced for input shapes {', '.join(map(str, before))}, got {', '.join(map(str, given))}; "
        "this operator depends on them: record again with arrays of these shapes"
    )


def _custom(name: str) -> UnrunnableStep:
    return UnrunnableStep(
        "Custom",
        {"op_type": name},
        f"the graph calls Function {name}, and an instance of that runs once, when it is recorded; "
        f"record again, or write {name} with operators of nd",
    )


def _unknown(op: str, text: dict[str, str]) -> UnrunnableStep:
    return UnrunnableStep(op, text, f"operator {op!r} cannot be run from a Symbol")


def from_tape(node) -> tuple[Step, list[tuple[Shape, Kind] | None], dict[int, tuple]]:
    """The step of a tape node.

    Returns
    -------
    step : Step
    inputs : list of (shape, kind)
        None if the tape does not store them.
    seen : dict
        For saved inputs: index -> (address of its memory, version).
    """
    rule, attrs, count = node.op, node.attrs, len(node.parents)
    inner = getattr(rule, "op", None)
    if isinstance(inner, Elementwise):
        layout, scalars = attrs
        shapes = (node.shape,) * count if layout is None else layout.shapes
        return ElementwiseStep(inner, scalars), [(s, node.kind) for s in shapes], _seen(node, rule.saves)
    if isinstance(rule, Structured):
        plan, names = attrs
        read = [k for _, k in names]
        return StructuredStep(rule, plan.given, plan.attrs, not plan.single), list(plan.avals), _seen(node, read)
    if isinstance(rule, FunctionRule):
        return _custom(rule.name), list(attrs[1]), {}
    unknown: list[Any] = [None] * count
    if isinstance(rule, CastRule):
        source, target = attrs, node.kind
        return Convert(target.dtype, None if source.ctx == target.ctx else target.ctx), unknown, {}
    if rule.name == Reshape.op:
        return Reshape(node.shape), unknown, {}
    if rule.name == View.op:
        begin, counts, _ = attrs
        return View(begin, counts, node.shape), unknown, {}
    return _unknown(rule.name, {}), unknown, {}


def _seen(node, operands: Sequence[int]) -> dict[int, tuple]:
    saved = node.saved
    return {k: (address(saved[3 * n]), saved[3 * n + 2]) for n, k in enumerate(operands) if k >= 0}


def from_text(op: str, attrs: dict[str, str]) -> Step:
    """The step with this operator and these attributes."""
    if op == "Custom":
        return _custom(attrs.get("op_type", "?"))
    entry = operators.get(op)
    rule = None if entry is None else entry.rule
    kinds: dict[str, Any] = {Reshape.op: Reshape, View.op: View, Convert.op: Convert}
    if "__expr__" in attrs or isinstance(rule, Elementwise):
        reader: Any = ElementwiseStep
    elif isinstance(rule, Structured):
        reader = StructuredStep
    elif op in kinds:
        reader = kinds[op]
    else:
        return _unknown(op, attrs)
    try:
        return reader.read(op, attrs)
    except NotWritable as err:
        return UnrunnableStep(op, attrs, f"operator {op!r} cannot be run: {err}")
