"""Structured operators, which have their own kernels, and composite operators.

* :func:`structured`: a function that checks the arguments and infers shape and dtype of the result, a kernel launcher,
  and one derivative rule per operand. The rules are written with operators and so serve every order.
* :func:`composite`: a function of other operators, recorded as those.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..arrays.ndarray import NDArray, wrap, zeros
from ..autodiff import tape, tracing
from ..autodiff.constants import as_constants
from ..autodiff.cotangents import add_uniform, is_uniform, own_cotangent
from ..autodiff.differentiability import limit_order
from ..autodiff.observers import notify_observer, observe_call, observers
from ..autodiff.state import recording
from ..backends.buffer_pool import LARGE
from ..errors import NBGradError
from .call_plan import REQUIRED, Plan, Spec
from .cast import cast
from .entry import Entry, as_array, store_out

__all__ = ["REQUIRED", "Spec", "composite", "structured"]


#: Plans with more operands and results than this are not cached: they are large, and cheap compared to the call.
_MANY = 256


#: Classes whose values are equal only if they are the same.
_PLAIN = frozenset({int, str, bool, type(None)})


def _exact(value: Any) -> Any:
    """What is equal only for the same value: 1, 1.0 and True differ in tuples, too, and so do 0.0 and -0.0."""
    if isinstance(value, tuple):
        return tuple([(v.__class__, v if v.__class__ in _PLAIN else _exact(v)) for v in value])
    return str(value) if isinstance(value, float) and not value else value


class Structured(tape.Rule):
    """An operator with its own kernels, created by :func:`structured`; see there."""

    def __init__(self, infer: Callable, name: str, aliases: Sequence[str], options: dict) -> None:
        parameters = inspect.signature(infer).parameters
        self.name = name
        self.infer = infer
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
        empty = inspect.Parameter.empty
        self.inputs = tuple(n for n, p in parameters.items() if p.default is empty and p.kind is not p.VAR_POSITIONAL)
        self.attrs = tuple(n for n, p in parameters.items() if p.default is not empty)
        self.required = tuple(n for n in self.attrs if parameters[n].default is REQUIRED)
        self.moves_only = options.pop("moves_only", False)
        self.visible = options.pop("visible", None)
        self.anywhere = options.pop("anywhere", False)
        self.half = options.pop("half", False)
        max_order = options.pop("max_order", None)
        if max_order is not None:
            limit_order(self, (lambda node: max_order(**node.attrs[0].attrs)) if callable(max_order) else max_order)
        self.rules: dict[str, Callable] = {}
        self.joint: Callable | None = None
        self.raw_binder: Callable | None = None
        self.lowering: Callable | None = None
        self.expansion: Callable | None = None
        self.finite = False
        self.device_launcher: Callable | None = None
        self.reads: dict[str, tuple[str, ...]] = {}
        self._plans: dict[tuple, Plan] = {}

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

    # Declaring.

    def run(self, launcher: Callable) -> Callable:
        """Decorator: the launcher, called with the input arrays, the output array(s), and the attributes."""
        self.bound = lambda operands, results, attrs: functools.partial(launcher, **attrs)
        return launcher

    def bind(self, binder: Callable) -> Callable:
        """Decorator, instead of :meth:`run`: a factory of launchers, one per combination of shapes and kinds.

        Called once per combination with the (shape, kind) pairs of operands and of results, and the
        attributes. Returns a function of the operands and the result (or the list of results).
        """
        self.bound = lambda operands, results, attrs: binder(operands, results, **attrs)
        return binder

    def vjp(self, **rules: Callable | None) -> None:
        """Set the derivative rules, by operand.

        A rule takes the cotangent ``g`` and, by name, the values it reads: operands, ``y`` (the result; with
        several results ``y0``, ``y1`` ...), attributes, and ``<operand>_shape``. It returns the operand's cotangent,
        computed with operators. ``None`` instead of a rule, or no rule, means zero. A variadic operator has
        one rule named like its parameter, which also takes ``index`` (the operand's number) and ``shapes``
        (of all operands).
        """
        for operand, rule in rules.items():
            if rule is not None:
                self.rules[operand] = rule
                self.reads[operand] = tuple(inspect.signature(rule).parameters)[1:]

    def pullback(self, rule: Callable) -> Callable:
        """Decorator: one derivative rule for all operands together, where they share work.

        It takes the same arguments as rules of :meth:`vjp`, and optionally ``wanted``, a bool per operand. It
        returns a cotangent, or None for zero, per operand.
        """
        self.joint = rule
        for operand in self.inputs or (self.operand(0),):
            self.reads[operand] = tuple(inspect.signature(rule).parameters)[1:]
        return rule

    def raw(self, binder: Callable) -> Callable:
        """Decorator, besides :meth:`vjp`: the same on raw buffers, for raw sweeps.

        Called like the function of :meth:`bind`. Returns, per operand, ``pull(g, old, *read)``: `read` are the buffers
        of the operands and results that the operand's rule names, `old` is None or a writable cotangent to accumulate
        into; it returns the cotangent's buffer, uniquely owned. Or it returns None, and the rules are used.
        """
        self.raw_binder = lambda operands, results, attrs: binder(operands, results, **attrs)
        return binder

    def lower(self, rule: Callable) -> Callable:
        """Decorator: the operator's lowering to a :class:`..ir.graph.Graph`, so that the compiler can fuse it.

        Called with the graph, the graph value of each operand, and the attributes; returns the result's value, or a
        list of them, or None to use the operator's kernel.
        """
        self.lowering = rule
        return rule

    def expand(self, rule: Callable, finite: bool = False) -> Callable:
        """Decorator: the operator's expansion into other operators, for the compiler.

        `finite`: the results are finite if the operands are, though intermediate values may not be."""
        self.expansion = rule
        self.finite = finite
        return rule

    def device(self, binder: Callable) -> Callable:
        """Decorator: like :meth:`bind`, for arrays on a GPU; the function returns None if there is no kernel."""
        self.device_launcher = lambda operands, results, attrs: binder(operands, results, **attrs)
        return binder

    def operand(self, k: int) -> str:
        """The name of operand number `k`."""
        return "data" if self.variadic else self.inputs[k]

    # Calling.

    def _split(self, args: tuple, kwargs: dict) -> tuple[Sequence[NDArray], dict]:
        if not kwargs and len(args) == len(self.inputs) and not self.variadic:
            for x in args:
                if x.__class__ is not NDArray:
                    break
            else:
                return args, {}
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
        attrs = dict(zip(self.attrs, rest)) if rest else {}
        for key, value in kwargs.items():
            if key not in self.attrs or key in attrs:
                problem = "is given twice" if key in attrs else "is unknown"
                known = ", ".join((*self.inputs, *self.attrs, "out", "name"))
                raise TypeError(f"{self.name}: keyword {key!r} {problem}; its arguments are {known}")
            attrs[key] = value
        for k, x in enumerate(arrays):
            if x.__class__ is not NDArray:
                arrays[k] = as_array(x, self.name, self.inputs[k] if k < len(self.inputs) else f"{k}")
        return arrays, attrs

    def invoke(self, arrays: Sequence[NDArray], attrs: dict):
        """Check the arguments, then allocate, run and record."""
        plan = self.plan(arrays, attrs)
        if plan is None:
            return self.invoke(tracing.capture_outside(arrays), attrs)
        outs = self.execute(arrays, plan)
        if plan.single:
            return outs[0]
        return outs if self.visible is None else (outs[0] if self.visible == 1 else outs[: self.visible])

    def plan(self, arrays: Sequence[NDArray], attrs: dict) -> Plan | None:
        """The plan of such calls; None if a traced function must capture some of the arrays first."""
        if len(arrays) == 1:
            key: Any = (arrays[0]._shape, arrays[0]._kind)
        else:
            key = (*[x._shape for x in arrays], *[x._kind for x in arrays])
        if attrs:
            key += tuple([(name, v.__class__, v if v.__class__ in _PLAIN else _exact(v)) for name, v in attrs.items()])
        try:
            plan = self._plans.get(key)
        except TypeError:  # an unhashable attribute
            plan = key = None
        if plan is None:
            if tracing.has_outside_arrays(arrays):
                return None
            plan = Plan(self, arrays, self.infer(*arrays, **attrs), attrs)
            if key is not None and len(plan.avals) + len(plan.results) <= _MANY:
                if len(self._plans) >= 1024:
                    self._plans.clear()
                self._plans[key] = plan
        return plan

    def execute(self, arrays: Sequence[NDArray], plan: Plan) -> list[NDArray]:
        """Allocate, run and record; returns all results."""
        if plan.single:
            ((empty, n, shape, kind),) = plan.results
            out = wrap(empty(n, kind.storage), shape, kind)
            plan.run(*arrays, out)
            outs = [out]
        else:
            outs = [wrap(empty(n, kind.storage), shape, kind) for empty, n, shape, kind in plan.results]
            plan.run(*arrays, outs)
        if recording():
            for x in arrays:
                if x._node is not None:
                    self._record(arrays, outs, plan)
                    break
            else:
                for out in outs:
                    out._cell[0] = tape.UNMARKED
        if observers:
            notify_observer(self.name, arrays, outs, lambda operands: self.execute(operands, plan.on(operands)))
        return outs

    def _record(self, arrays: Sequence[NDArray], outs: list[NDArray], plan: Plan) -> None:
        parents = tuple([x._node or x._cell for x in arrays])
        names = plan.saves(tuple([p.__class__ is not list for p in parents]))
        saved = tape.save([arrays[k] if k >= 0 else outs[-1 - k] for _, k in names]) if names else ()
        if plan.single:
            out = outs[0]
            out._node = tape.node(self, parents, saved, (plan, names), out._shape, out._kind)
            return
        big = tape.node(self, parents, saved, (plan, names), plan.shapes, plan.kinds)  # type: ignore[arg-type]
        for k, out in enumerate(outs):
            out._node = tape.select(big, k)

    # Derivatives.

    def passes(self, k):
        return self.joint is not None or self.operand(k) in self.rules

    def pull_raw(self, node, g, cotangents, borrowed, useful):
        plan, names = node.attrs
        if plan.pulls is None:
            return super().pull_raw(node, g, cotangents, borrowed, useful)
        saved = node.saved
        for p, pull, indices in zip(node.parents, plan.pulls, plan.places(names)):
            if p.__class__ is not list and (useful is None or p in useful):
                old = cotangents.get(p)
                if old is not None and p in borrowed:
                    old = own_cotangent(p, p.kind, cotangents, borrowed)
                h = pull(g, old, *[saved[i] for i in indices])
                if h.size >= LARGE and is_uniform(h):
                    add_uniform(p, h, p.kind, cotangents, borrowed)
                else:
                    cotangents[p] = h
        return None

    def grads(self, node, g, useful):
        plan, names = node.attrs
        values: dict[str, Any] = {}
        for (name, k), buf, cell in zip(names, node.saved[::3], node.saved[1::3]):
            if k >= 0:
                p = node.parents[k]
                x = wrap(buf, plan.avals[k][0], plan.avals[k][1], None if p.__class__ is list else p)
            else:
                x = wrap(
                    buf, plan.shapes[-1 - k], plan.kinds[-1 - k], node if plan.single else tape.select(node, -1 - k)
                )
            x._cell = cell
            values[name] = x
        if not plan.single:
            # An integer result (indices, for example) beside others has no cotangent; its slot stays None.
            floats = [k.dtype.is_float for k in plan.kinds]
            has = floats if any(floats) else [True] * len(floats)
            g = [zeros(*aval) if h is None and f else h for h, f, *aval in zip(g, has, plan.shapes, plan.kinds)]
        wanted = [tape.cotangent_wanted(p, useful) for p in node.parents]
        joint_results = None
        if self.joint is not None:
            values["wanted"] = wanted
            _, static, open_ = plan.step(0)
            joint_results = self.joint(g, **static, **{name: values[name] for name in open_})
        results: list[NDArray | None] = []
        for k, (shape, kind) in enumerate(plan.avals):
            if not wanted[k]:
                results.append(None)
                continue
            if joint_results is not None:
                h = joint_results[k]
            else:
                rule, static, open_ = plan.step(k)
                h = None if rule is None else rule(g, **static, **{name: values[name] for name in open_})
            if h is None:
                h = zeros(shape, kind)
            if h._shape != shape:
                raise NBGradError(
                    f"{self.name}: the rule for {self.operand(k)} gave shape {h._shape}, expected {shape}"
                )
            results.append(h if h._kind is kind else cast(h, kind))
        return results


def structured(name: str | None = None, *, aliases: Sequence[str] = (), **options) -> Callable[[Callable], Structured]:
    """Decorator: declare an operator with its own kernels.

    The decorated function is the operator's interface: its docstring is the public one, its parameters without
    defaults are the arrays, those with defaults the attributes. It checks them and returns a :class:`Spec`.
    Then ``@op.run`` sets the launcher and ``op.vjp(...)`` the rules.

    Parameters
    ----------
    name : str, optional
        Default: the function's.
    aliases : sequence of str
    **options
        `moves_only`: elements are only moved, so float16 needs no conversion. `anywhere`: the launcher takes arrays on
        any device. `half`: the launchers of :meth:`Structured.device` take float16 directly, if all operands are.
        `visible`: how many of several results users get. `max_order`: how often the result can be differentiated, if
        limited; a number, or a function of the attributes. `method`, `samples`, `differentiable`, `gradient`: see
        :class:`Entry`.
    """

    def declare(infer: Callable) -> Structured:
        return Structured(infer, name or infer.__name__, aliases, options)

    return declare


def _arrays(value) -> list[NDArray]:
    """The arrays in nested tuples, lists and dicts."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        return [x for part in value for x in _arrays(part)]
    return [value] if isinstance(value, NDArray) else []


def composite(name: str | None = None, *, aliases: Sequence[str] = (), **options) -> Callable[[Callable], Callable]:
    """Decorator: declare an operator composed of others.

    The function's arguments are documented and checked as by Python; ``out`` and ``name`` are added.
    Options as for :func:`structured`; an operator that is not `differentiable` has the gradient zero.
    """

    def declare(function: Callable) -> Callable:
        public = name or function.__name__
        parameters = inspect.signature(function).parameters
        known = ", ".join((*parameters, "out", "name"))
        open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        constant = not options.get("differentiable", True)

        @functools.wraps(function)
        def call(*args, out=None, name=None, **kwargs):
            if not open_ended:
                for key in kwargs:
                    if key not in parameters:
                        raise TypeError(f"{public}: keyword {key!r} is unknown; its arguments are {known}")
            result = observe_call(public, function, args, kwargs) if observers else function(*args, **kwargs)
            if constant and recording():
                as_constants(_arrays(result), _arrays((args, kwargs)))
            if out is None:
                return result
            if isinstance(result, list):
                return [store_out(r, o, public) for r, o in zip(result, out, strict=True)]
            return store_out(result, out, public)

        call.__name__ = call.__qualname__ = public
        call.__dict__.pop("__signature__", None)  # copied from the function: this one also takes `out` and `name`
        options.setdefault("method", False)
        Entry(public, aliases, call, rule=None, **options)
        return call

    return declare
