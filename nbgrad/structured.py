"""Operators with kernels of their own, and operators made of others.

* :func:`structured`: a function that checks its arguments and says what comes out, a kernel launcher, and
  one derivative rule per operand. The rules are written with operators and so serve every order.
* :func:`composite`: a function of other operators, recorded as those.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from . import dtypes, tape
from .codegen.launch import cast_into, kind_of
from .dtypes import DType, as_dtype
from .elementwise import cast
from .entry import Entry, as_array, store_out
from .errors import AttrError, NBGradError
from .ndarray import NDArray, wrap
from .shapes import Shape, size
from .state import state

__all__ = ["REQUIRED", "Spec", "composite", "structured"]

class _Required:
    def __repr__(self) -> str:
        return "required"


#: Default of an attribute that the caller has to give.
REQUIRED: Any = _Required()


class Spec:
    """What a structured operator's checking function returns: the result's shape and dtype, and the attributes.

    Parameters
    ----------
    shape : tuple of int, or list of them
        A list for an operator with several results.
    dtype : DType or type or str, or list of them
    **attrs
        The attributes in canonical form; launcher and rules get these.
    """

    __slots__ = ("attrs", "kinds", "shapes", "single")

    def __init__(self, shape: Shape | list[Shape], dtype, /, **attrs) -> None:
        self.single = not isinstance(shape, list)
        self.shapes: list[Shape] = [shape] if self.single else shape  # type: ignore[list-item]
        self.kinds: list[DType] = [as_dtype(d) for d in ([dtype] if self.single else dtype)]
        self.attrs = attrs


class Structured(tape.Rule):
    """An operator with kernels of its own. Built by :func:`structured`; see there."""

    def __init__(self, infer: Callable, name: str, aliases: Sequence[str], options: dict) -> None:
        parameters = inspect.signature(infer).parameters
        self.name = name
        self.infer = infer
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
        empty = inspect.Parameter.empty
        self.inputs = tuple(n for n, p in parameters.items() if p.default is empty and p.kind is not p.VAR_POSITIONAL)
        self.attrs = tuple(n for n, p in parameters.items() if p.default is not empty)
        self.moves_only = options.pop("moves_only", False)
        self.visible = options.pop("visible", None)
        self.launch: Callable | None = None
        self.rules: dict[str, Callable] = {}
        self._reads: dict[str, tuple[str, ...]] = {}

        @functools.wraps(infer)
        def call(*args, out=None, name=None, **kwargs):
            arrays, attrs = self._split(args, kwargs)
            result = self.invoke(arrays, attrs)
            if out is None:
                return result
            if isinstance(result, list):
                return [store_out(r, o, self.name) for r, o in zip(result, out, strict=True)]
            return store_out(result, out, self.name)

        call.__name__ = call.__qualname__ = name
        self.call = call
        options.setdefault("method", True)
        self.entry = Entry(name, aliases, call, rule=self, formula="", **options)

    def __call__(self, *args, **kwargs):
        return self.call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def run(self, launcher: Callable) -> Callable:
        """Decorator: the launcher, called with the input arrays, the output array(s), and the attributes."""
        self.launch = launcher
        return launcher

    def vjp(self, **rules: Callable | None) -> None:
        """Give the derivative rules, by operand.

        A rule takes the cotangent ``g`` and, by name, whatever it reads: operands, ``y`` (the result),
        attributes, and ``<operand>_shape``. It returns the operand's cotangent, computed with operators.
        ``None`` instead of a rule, or no rule, means zero. A variadic operator has one rule named like its
        parameter, which also takes ``index`` (the operand's number) and ``shapes`` (of all operands).
        """
        for operand, rule in rules.items():
            if rule is not None:
                self.rules[operand] = rule
                self._reads[operand] = tuple(inspect.signature(rule).parameters)[1:]

    # Calling.

    def _split(self, args: tuple, kwargs: dict) -> tuple[list[NDArray], dict]:
        if self.variadic:
            arrays = list(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple) else list(args)
            rest: tuple = ()
        else:
            count = len(self.inputs)
            arrays = list(args[:count])
            rest = args[count:]
            for name in self.inputs[len(arrays) :]:
                if name not in kwargs:
                    raise TypeError(f"{self.name}: operand {name!r} is missing; operands are {', '.join(self.inputs)}")
                arrays.append(kwargs.pop(name))
        if len(rest) > len(self.attrs):
            raise TypeError(f"{self.name}: takes {len(self.inputs)} array(s) and {', '.join(self.attrs)}; got too many")
        attrs = dict(zip(self.attrs, rest))
        for key, value in kwargs.items():
            if key not in self.attrs or key in attrs:
                wrong = "is given twice" if key in attrs else "is unknown"
                known = ", ".join((*self.inputs, *self.attrs, "out", "name"))
                raise TypeError(f"{self.name}: keyword {key!r} {wrong}; its arguments are {known}")
            attrs[key] = value
        for k, x in enumerate(arrays):
            if type(x) is not NDArray:
                arrays[k] = as_array(x, self.name, self.inputs[k] if k < len(self.inputs) else f"{k}")
        return arrays, attrs

    def invoke(self, arrays: Sequence[NDArray], attrs: dict):
        """Check, allocate, run, record."""
        spec = self.infer(*arrays, **attrs)
        missing = [name for name, value in spec.attrs.items() if value is REQUIRED]
        if missing:
            raise AttrError(f"{self.name}: {', '.join(missing)} must be given")
        ctx = arrays[0]._kind.ctx if arrays else None
        for x in arrays[1:]:
            if x._kind.ctx != ctx:
                raise NBGradError(f"{self.name}: operands are on different devices, {ctx} and {x._kind.ctx}")
        kinds = [kind_of(dtype, ctx) for dtype in spec.kinds]
        outs = [wrap(kind.empty(size(s), kind.storage), s, kind) for s, kind in zip(spec.shapes, kinds, strict=True)]
        self._launch(arrays, outs, spec)
        if state.recording:
            for x in arrays:
                if x._node is not None:
                    self._record(arrays, outs, spec)
                    break
        if spec.single:
            return outs[0]
        return outs if self.visible is None else (outs[0] if self.visible == 1 else outs[: self.visible])

    def _launch(self, arrays: Sequence[NDArray], outs: list[NDArray], spec: Spec) -> None:
        assert self.launch is not None
        given = outs[0] if spec.single else outs
        halves = () if self.moves_only else [x for x in (*arrays, *outs) if x._kind.dtype.name == "float16"]
        if not halves:
            self.launch(*arrays, given, **spec.attrs)
            return
        # float16 is calculated in float32.
        wide = [_widened(x, copy=True) for x in arrays]
        wide_outs = [_widened(x, copy=False) for x in outs]
        self.launch(*wide, wide_outs[0] if spec.single else wide_outs, **spec.attrs)
        for narrow, full in zip(outs, wide_outs, strict=True):
            if full is not narrow:
                cast_into(full._buf, full._kind.dtype, narrow._buf, narrow._kind.dtype)

    def _operand(self, k: int) -> str:
        return "data" if self.variadic else self.inputs[k]

    def _record(self, arrays: Sequence[NDArray], outs: list[NDArray], spec: Spec) -> None:
        parents = tuple([tape.parent(x) for x in arrays])
        reads: dict[str, NDArray] = {}
        for k, p in enumerate(parents):
            if type(p) is not list:
                for name in self._reads.get(self._operand(k), ()):
                    if name in self.inputs:
                        reads[name] = arrays[self.inputs.index(name)]
                    elif name == "y":
                        reads[name] = outs[0]
                    elif name.startswith("y") and name[1:].isdigit():
                        reads[name] = outs[int(name[1:])]
        avals = tuple([(x._shape, x._kind) for x in arrays])
        attrs = (spec.attrs, avals, tuple(reads))
        saved = tape.save(reads.values())
        if spec.single:
            out = outs[0]
            out._node = tape.node(self, parents, saved, attrs, out._shape, out._kind)
            return
        shapes, kinds = tuple(o._shape for o in outs), tuple(o._kind for o in outs)
        big = tape.node(self, parents, saved, attrs, shapes, kinds)  # type: ignore[arg-type]
        for k, out in enumerate(outs):
            out._node = tape.select(big, k)

    # Derivatives.

    def grads(self, node, g, useful):
        attrs, avals, names = node.attrs
        values: dict[str, Any] = dict(attrs)
        for name, buf, cell in zip(names, node.saved[::3], node.saved[1::3], strict=True):
            if name in self.inputs:
                k = self.inputs.index(name)
                p = node.parents[k]
                x = wrap(buf, *avals[k], None if type(p) is list else p)
            elif isinstance(node.shape, tuple) and node.shape and isinstance(node.shape[0], tuple):
                k = int(name[1:] or 0)
                x = wrap(buf, node.shape[k], node.kind[k], tape.select(node, k))
            else:
                x = wrap(buf, node.shape, node.kind, node)
            x._cell = cell
            values[name] = x
        if isinstance(g, list):
            g = [_zeros(s, k) if h is None else h for h, s, k in zip(g, node.shape, node.kind, strict=True)]
        found: list[NDArray | None] = []
        for k, p in enumerate(node.parents):
            if not tape.wanted(p, useful):
                found.append(None)
                continue
            shape, kind = avals[k]
            operand = self._operand(k)
            rule = self.rules.get(operand)
            if rule is None:
                found.append(_zeros(shape, kind))
                continue
            if self.variadic:
                values |= {"index": k, "shapes": [a[0] for a in avals]}
            values |= {f"{n}_shape": a[0] for n, a in zip(self.inputs, avals)}
            h = rule(g, **{name: values[name] for name in self._reads[operand]})
            if h._shape != shape:
                raise NBGradError(f"{self.name}: the rule for {operand} gave shape {h._shape}, expected {shape}")
            found.append(h if h._kind is kind else cast(h, kind))
        return found


def _zeros(shape: Shape, kind) -> NDArray:
    buf = kind.empty(size(shape), kind.storage)
    buf.fill(0)
    return wrap(buf, shape, kind)


def _widened(x: NDArray, copy: bool) -> NDArray:
    if x._kind.dtype.name != "float16":
        return x
    kind = kind_of(dtypes.float32, x._kind.ctx)
    out = wrap(kind.empty(x._buf.size, kind.storage), x._shape, kind)
    if copy:
        cast_into(x._buf, x._kind.dtype, out._buf, kind.dtype)
    return out


def structured(name: str | None = None, *, aliases: Sequence[str] = (), **options) -> Callable[[Callable], Structured]:
    """Decorator: declare an operator with kernels of its own.

    The decorated function is the operator's face: its docstring is what users read, its parameters without
    defaults are the arrays, those with defaults the attributes. It checks them and returns a :class:`Spec`.
    Then ``@op.run`` gives the launcher and ``op.vjp(...)`` the rules.

    Parameters
    ----------
    name : str, optional
        Default: the function's.
    aliases : sequence of str
    **options
        `moves_only`: elements are moved, not calculated with, so float16 needs no conversion. `visible`: how
        many of several results users get. `method`, `samples`, `differentiable`: see :class:`Entry`.
    """

    def declare(infer: Callable) -> Structured:
        return Structured(infer, name or infer.__name__, aliases, options)

    return declare


def composite(name: str | None = None, *, aliases: Sequence[str] = (), **options) -> Callable[[Callable], Callable]:
    """Decorator: declare an operator that is a function of others.

    The function's arguments are documented and checked as Python does; ``out`` and ``name`` are added.
    Options as for :func:`structured`.
    """

    def declare(function: Callable) -> Callable:
        public = name or function.__name__
        parameters = inspect.signature(function).parameters
        known = ", ".join((*parameters, "out", "name"))
        open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())

        @functools.wraps(function)
        def call(*args, out=None, name=None, **kwargs):
            if not open_ended:
                for key in kwargs:
                    if key not in parameters:
                        raise TypeError(f"{public}: keyword {key!r} is unknown; its arguments are {known}")
            result = function(*args, **kwargs)
            if out is None:
                return result
            if isinstance(result, list):
                return [store_out(r, o, public) for r, o in zip(result, out, strict=True)]
            return store_out(result, out, public)

        call.__name__ = call.__qualname__ = public
        options.setdefault("method", False)
        Entry(public, aliases, call, rule=None, **options)
        return call

    return declare
