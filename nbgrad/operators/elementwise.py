"""Elementwise operators from scalar expressions: one kernel forward, one kernel for all partials backward.

The derivative of an expression is an expression, so the derivative of an elementwise operator with respect to one
operand is another elementwise operator (:meth:`Elementwise.partial`), to any order. The raw reverse sweep does not call
those one by one: a :class:`~nbgrad.autodiff.pullback.Pullback` is the kernel that computes all wanted partials in one
pass and writes or accumulates them into the parents' cotangents.

Variable names in expressions: operands are x0, x1, ...; parameters (Python scalars, not differentiated)
s0, ...; the result is y; its cotangent g.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ..arrays import templates
from ..arrays.launch import Kind
from ..arrays.ndarray import NDArray, wrap
from ..autodiff import tape, tracing
from ..autodiff.differentiability import GRADIENT, ByOperands, limit_order
from ..autodiff.observers import notify_observer, observers
from ..autodiff.pullback import COTANGENT, FLAT, RESULT, Pullback, argument_kinds, reads
from ..autodiff.state import recording
from ..backends import threads
from ..backends.buffer_pool import LARGE
from ..core.conventions import MXNET
from ..core.dtypes import bool_
from ..core.shapes import Broadcast, broadcast
from ..errors import DTypeError
from ..ir.expr import Expr, strip_strong, strong, substitute, var, vjp
from ..ir.expr_passes import avoid_double_quotients, evaluation_cost, max_orders
from .cast import unify

__all__ = ["Elementwise", "derived", "fast_binary"]


class Elementwise(tape.Rule):
    """An operator that applies one scalar expression to each element of its (broadcast) operands.

    Parameters
    ----------
    name : str
    expr : Expr
        In x0 ... and s0 ...
    operands : int
        Number of arrays.
    params : int
        Number of scalar parameters.
    ints : bool
        Whether integer and bool arrays are used as they are; otherwise they are first cast to the default float dtype.
    truth : bool
        Whether results are truth values, whose dtype the conventions say.
    """

    def __init__(
        self, name: str, expr: Expr, operands: int, params: int = 0, *, ints: bool = True, truth: bool = False
    ) -> None:
        self.name = name
        self.expr = expr
        self.operands = tuple(f"x{k}" for k in range(operands))
        self.params = tuple(f"s{k}" for k in range(params))
        self.ints = ints
        self.truth = truth
        self.of_bools = True  # whether NumPy's conventions have it for bools, giving bools
        self.flat: dict[Kind, Callable] = {}  # kind -> entry point of the flat kernel; the call's fast path reads it
        self._entries: dict[tuple, Callable] = {}
        self._vjps: dict[int, Expr] = {}
        self._partials: dict[int, tuple[Elementwise | None, tuple[int, ...]]] = {}
        self._pullbacks: dict[tuple, Pullback] = {}
        #: The call for one operand and scalars, with a fast path.
        self.apply1 = fast_unary(self)

    def __repr__(self) -> str:
        return f"<operator {self.name}: {self.expr!r}>"

    # Forward.

    @cached_property
    def weight(self) -> int:
        """The work per element, in the unit of :mod:`..backends.threads`."""
        return evaluation_cost(self.expr)

    @cached_property
    def max_order(self) -> float | ByOperands | None:  # type: ignore[override]
        """How often the result can be differentiated; None if without limit."""
        limits = max_orders(self.expr)
        numbers = [e.value for e in limits if e.value is not None]
        return ByOperands(limits, self.params) if len(numbers) < len(limits) else min(numbers, default=None)

    def entry(self, kind: Kind, layout: Broadcast | None):
        """The compiled kernel for operands of `kind` with this broadcast layout (None: all have one shape)."""
        if layout is None:
            kernel = self.flat.get(kind)
            if kernel is None:
                kernel = self.flat[kind] = self._bind(kind, 1, (True,) * len(self.operands))
            return kernel
        key = (kind, layout.rank, layout.moves)
        kernel = self._entries.get(key)
        if kernel is None:
            kernel = self._entries[key] = self._bind(kind, layout.rank, layout.moves)
        return kernel

    def result_kind(self, kind: Kind) -> Kind:
        """The kind of results of operands of `kind`."""
        if not self.of_bools and kind.dtype is bool_ and kind.conventions is not MXNET:
            raise DTypeError(f"{self.name}: operands of dtype bool are not supported; convert one with astype('int64')")
        return kind.truth if self.truth else kind

    def _bind(self, kind: Kind, rank: int, moves: Sequence[bool]):
        inputs = [
            templates.Input(name, kind.dtype, templates.STEP if move else templates.HOLD)
            for name, move in zip(self.operands, moves, strict=True)
        ]
        result = self.result_kind(kind)
        outputs = [templates.Output(self.expr, result.dtype)]
        kernel = templates.elementwise(self.name, inputs, self.params, outputs, rank)
        types = argument_kinds(kind, len(inputs) + 1, len(self.params), rank, len(inputs))
        types[len(inputs)] = result.storage
        return kernel.bind(*types)

    def apply(self, arrays: Sequence[NDArray], scalars: tuple = ()) -> NDArray:
        """Compute, and record if this thread records and an operand is on the tape."""
        first = arrays[0]
        kind = first._kind
        shape = first._shape
        layout = None
        for x in arrays:
            if x._kind is not kind or not (self.ints or kind.dtype.is_float):
                return self.apply(unify(arrays, self.name, self.ints), scalars)
            if x._shape != shape:
                layout = broadcast(tuple([a._shape for a in arrays]), self.name)
        result = self.result_kind(kind)
        if kind.traced:
            shape = shape if layout is None else layout.out
            buf: Any = tracing.trace_elementwise(self.expr, scalars, arrays, shape, result.dtype)
        elif layout is None:
            n = first._buf.size
            buf = kind.empty(n, result.storage)
            entry = self.entry(kind, None)
            if n < LARGE:
                entry(*[x._buf for x in arrays], buf, *scalars)
            else:
                threads.run_flat(entry, [*[x._buf for x in arrays], buf], scalars, self.weight)
        else:
            shape = layout.out
            buf = kind.empty(layout.size, result.storage)
            entry = self.entry(kind, layout)
            threads.run_broadcast(entry, [x._buf for x in arrays], [buf], scalars, layout, self.weight)
        out = wrap(buf, shape, result)
        if kind.traced and all(map(tracing.is_weak, arrays)):
            out._label = tracing.WEAK
        if recording() and result is kind:
            for x in arrays:
                if x._node is not None:
                    self.record(arrays, out, layout, scalars)
                    break
            else:
                out._cell[0] = tape.UNMARKED
        if observers:
            notify_observer(self.name, arrays, (out,), lambda operands: (self.apply(operands, scalars),))
        return out

    def record(self, arrays: Sequence[NDArray], out: NDArray, layout: Broadcast | None, scalars: tuple) -> None:
        """Record `out` on the tape."""
        parents = tuple([x._node or x._cell for x in arrays])
        pullback = self.pullback(parents, None, layout)
        saved = tape.save([out if k < 0 else arrays[k] for k in pullback.saves])
        out._node = tape.node(pullback, parents, saved, (layout, scalars), out._shape, out._kind)

    # Derivatives.

    def cotangent(self, k: int) -> Expr:
        """The cotangent of operand `k` in terms of g, the operands, y and the parameters."""
        result = self._vjps.get(k)
        if result is None:
            result = avoid_double_quotients(vjp(self.expr, COTANGENT, [f"x{k}"])[0], COTANGENT)
            # Where the derivative recomputes the result, read it instead, unless that hides a factor of a strong
            # product, which must be recognised as a multiple of that factor.
            if self.expr.fn is not None and not strip_strong(self.expr)[1]:
                result = substitute(result, {self.expr: RESULT})
            self._vjps[k] = result = strong(result, COTANGENT)
        return result

    def partial(self, k: int) -> tuple[Elementwise | None, tuple[int, ...]]:
        """The operator that computes the cotangent of operand `k`, and the values that it reads besides g.

        Returns
        -------
        op : Elementwise or None
            None where the cotangent is g itself.
        reads : tuple of int
            Operand indices; -1 is the result.
        """
        result = self._partials.get(k)
        if result is None:
            e = self.cotangent(k)
            read = reads([e], len(self.operands))
            op = None
            if e is not COTANGENT:
                names = {COTANGENT: var("x0")}
                names |= {(RESULT if r < 0 else var(f"x{r}")): var(f"x{n}") for n, r in enumerate(read, 1)}
                name, count = self.name + GRADIENT, 1 + len(read)
                op = derived(name, substitute(e, names), count, len(self.params), self.ints)
            result = self._partials[k] = (op, read)
        return result

    def pullback(self, parents: tuple, useful: set | None, layout: Broadcast | None) -> Pullback:
        """The rule for a node with these parents; it depends on which are wanted and which coincide."""
        groups: list[list[int]] = []
        owners: list = []
        for k, p in enumerate(parents):
            if tape.cotangent_wanted(p, useful):
                for owner, group in zip(owners, groups, strict=True):
                    if owner is p and (layout is None or layout.shapes[group[0]] == layout.shapes[k]):
                        group.append(k)
                        break
                else:
                    owners.append(p)
                    groups.append([k])
        key = tuple(map(tuple, groups))
        rule = self._pullbacks.get(key)
        if rule is None:
            rule = self._pullbacks[key] = Pullback(self, key)
            if self.max_order is not None:
                limit_order(rule, self.max_order)
        return rule


# Fast paths: what `apply` and `record` do, for small operands of one shape and a kind seen before, with as little as
# possible between the call and the kernel, because this overhead dominates for small arrays.
# (`kind.small` is bound to a name first: calling a slot as a method takes longer.)

_new = object.__new__
_Node = tape.Node
_next_seq = tape.next_seq


def fast_unary(op: Elementwise) -> Callable:
    """``op.apply`` for one array and scalars, with a fast path."""
    flat, truth = op.flat, op.truth
    pullback: Pullback | None = None

    def apply1(data: NDArray, scalars: tuple = ()) -> NDArray:
        nonlocal pullback
        kind = data._kind
        entry = flat.get(kind)
        source = data._buf
        n = source.size
        if entry is None or n >= LARGE:
            return op.apply((data,), scalars)
        of = kind.truth if truth else kind
        empty = of.small
        buf = empty(n, of.storage)
        entry(source, buf, *scalars)
        result = _new(of.array)
        result._buf = buf
        result._shape = data._shape
        result._kind = of
        result._cell = [0]
        result._node = None
        if recording() and of is kind:
            p = data._node
            if p is not None:
                if pullback is None:
                    pullback = op.pullback((p,), None, None)
                node = _Node()
                node.op = pullback
                node.parents = (p,)
                saves = pullback.saves
                if not saves:
                    node.saved = ()
                elif len(saves) == 1:
                    read = result if saves[0] < 0 else data
                    cell = read._cell
                    node.saved = (read._buf, cell, cell[0])
                else:
                    node.saved = tape.save((data, result))
                node.attrs = (None, scalars) if scalars else FLAT
                node.shape = data._shape
                node.kind = kind
                node.seq = _next_seq()
                result._node = node
            else:
                result._cell[0] = tape.UNMARKED
        if observers:
            notify_observer(op.name, (data,), (result,), lambda operands: (op.apply(operands, scalars),))
        return result

    return apply1


def fast_binary(op: Elementwise, otherwise: Callable, array: Any = NDArray) -> Callable:
    """A function of two arrays with a fast path; ``otherwise(lhs, rhs, out)`` handles all other arguments.

    `array`: the class of arrays whose operator it is."""
    flat, truth = op.flat, op.truth
    cases: list = [None] * 4  # pullbacks: both operands on the tape, only the first, only the second, one twice

    def call(lhs: Any, rhs: Any, out=None, name=None):
        if lhs.__class__ is not array or rhs.__class__ is not array or out is not None:
            return otherwise(lhs, rhs, out)
        kind = lhs._kind
        shape = lhs._shape
        entry = flat.get(kind)
        a = lhs._buf
        n = a.size
        if entry is None or n >= LARGE or kind is not rhs._kind or shape != rhs._shape:
            return op.apply((lhs, rhs))
        of = kind.truth if truth else kind
        empty = of.small
        buf = empty(n, of.storage)
        entry(a, rhs._buf, buf)
        result = _new(of.array)
        result._buf = buf
        result._shape = shape
        result._kind = of
        result._cell = [0]
        result._node = None
        if recording() and of is kind:
            p = lhs._node
            q = rhs._node
            if p is not None or q is not None:
                case = (3 if p is q else 0) if p is not None and q is not None else 2 if p is None else 1
                parents = (p or lhs._cell, q or rhs._cell)
                pullback = cases[case]
                if pullback is None:
                    pullback = cases[case] = op.pullback(parents, None, None)
                node = _Node()
                node.op = pullback
                node.parents = parents
                saves = pullback.saves
                if not saves:
                    node.saved = ()
                elif len(saves) == 1:
                    k = saves[0]
                    read = result if k < 0 else rhs if k else lhs
                    cell = read._cell
                    node.saved = (read._buf, cell, cell[0])
                elif saves == (0, 1):
                    c = lhs._cell
                    d = rhs._cell
                    node.saved = (a, c, c[0], rhs._buf, d, d[0])
                else:
                    node.saved = tape.save(result if k < 0 else rhs if k else lhs for k in saves)
                node.attrs = FLAT
                node.shape = shape
                node.kind = kind
                node.seq = _next_seq()
                result._node = node
            else:
                result._cell[0] = tape.UNMARKED
        if observers:
            notify_observer(op.name, (lhs, rhs), (result,), lambda operands: (op.apply(operands),))
        return result

    return call


_derived: dict[tuple, Elementwise] = {}


def derived(name: str, expr: Expr, operands: int, params: int, ints: bool, truth: bool = False) -> Elementwise:
    """The operator with this expression; one instance per expression."""
    key = (expr, operands, params, ints, truth)
    op = _derived.get(key)
    if op is None:
        op = _derived[key] = Elementwise(name, expr, operands, params, ints=ints, truth=truth)
    return op
