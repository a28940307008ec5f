"""Operators that are scalar expressions: one kernel forward, one kernel for all partials backward.

The derivative of an expression is an expression, so the derivative of an elementwise operator with
respect to one operand is another elementwise operator (:meth:`Elementwise.partial`), to any order. The
raw sweep does not call those one by one: a :class:`_Pullback` is the kernel that computes all wanted
partials in one pass and writes or adds them into the parents' cotangents.

Names inside: operands are x0, x1, ...; parameters (Python numbers, not differentiated) s0, ...; the
result is y; its cotangent g.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import dtypes, tape
from .codegen import loops
from .codegen.launch import Kind, cast_into, kind_of
from .dtypes import promote
from .errors import ContextError
from .expr import Expr, add, free, substitute, var, vjp
from .ndarray import NDArray, wrap
from .registry import role
from .shapes import Broadcast, broadcast
from .state import state

__all__ = ["Cast", "Elementwise", "cast", "derived"]

_Y, _G = var("y"), var("g")


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
        Integer and bool arrays are taken as they are; otherwise they become the default float dtype first.
    """

    def __init__(self, name: str, expr: Expr, operands: int, params: int = 0, *, ints: bool = True) -> None:
        self.name = name
        self.expr = expr
        self.operands = tuple(f"x{k}" for k in range(operands))
        self.params = tuple(f"s{k}" for k in range(params))
        self.ints = ints
        self.flat: dict[Kind, object] = {}  # kind -> entry point of the flat kernel; the call's fast path reads it
        self._entries: dict[tuple, object] = {}
        self._vjps: dict[int, Expr] = {}
        self._partials: dict[int, Elementwise | None] = {}
        self._pullbacks: dict[tuple, _Pullback] = {}

    def __repr__(self) -> str:
        return f"<operator {self.name}: {self.expr!r}>"

    # Forward.

    def entry(self, kind: Kind, layout: Broadcast | None):
        """The compiled kernel for operands of `kind` walking as `layout` says (None: all of one shape)."""
        if layout is None:
            found = self.flat.get(kind)
            if found is None:
                found = self.flat[kind] = self._bind(kind, 1, (True,) * len(self.operands))
            return found
        key = (kind, layout.rank, layout.moves)
        found = self._entries.get(key)
        if found is None:
            found = self._entries[key] = self._bind(kind, layout.rank, layout.moves)
        return found

    def _bind(self, kind: Kind, rank: int, moves: Sequence[bool]):
        inputs = [
            loops.Input(name, kind.dtype, loops.STEP if move else loops.HOLD)
            for name, move in zip(self.operands, moves, strict=True)
        ]
        kernel = loops.elementwise(self.name, inputs, self.params, [loops.Output(self.expr, kind.dtype)], rank)
        return kernel.bind(*_argument_kinds(kind, len(inputs) + 1, len(self.params), rank, len(inputs)))

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
        if layout is None:
            buf = kind.empty(first._buf.size)
            self.entry(kind, None)(*[x._buf for x in arrays], buf, *scalars)
        else:
            shape = layout.out
            buf = kind.empty(layout.size)
            self.entry(kind, layout)(*[x._buf for x in arrays], buf, *scalars, *layout.arguments)
        out = wrap(buf, shape, kind)
        if state.recording:
            for x in arrays:
                if x._node is not None:
                    self.record(arrays, out, layout, scalars)
                    break
        return out

    def record(self, arrays: Sequence[NDArray], out: NDArray, layout: Broadcast | None, scalars: tuple) -> None:
        """Put `out` on the tape."""
        parents = tuple([x._node or x._cell for x in arrays])
        pullback = self.pullback(parents, None, layout)
        saved = tape.save([out if k < 0 else arrays[k] for k in pullback.saves])
        out._node = tape.node(pullback, parents, saved, (layout, scalars), out._shape, out._kind)

    # Derivatives.

    def cotangent(self, k: int) -> Expr:
        """The cotangent of operand `k` in terms of g, the operands, y and the parameters."""
        found = self._vjps.get(k)
        if found is None:
            found = vjp(self.expr, _G, [f"x{k}"])[0]
            if self.expr.fn is not None:  # where the derivative computes the result again, read it instead
                found = substitute(found, {self.expr: _Y})
            self._vjps[k] = found
        return found

    def partial(self, k: int) -> tuple[Elementwise | None, tuple[int, ...]]:
        """The operator that computes the cotangent of operand `k`, and what it reads after g.

        Returns
        -------
        op : Elementwise or None
            None where the cotangent is g itself.
        reads : tuple of int
            Operand numbers; -1 means the result.
        """
        e = self.cotangent(k)
        reads = _reads([e], len(self.operands))
        if k not in self._partials:
            if e is _G:
                self._partials[k] = None
            else:
                names = {_G: var("x0")}
                names |= {(_Y if r < 0 else var(f"x{r}")): var(f"x{n}") for n, r in enumerate(reads, 1)}
                self._partials[k] = derived(
                    f"{self.name}_grad", substitute(e, names), 1 + len(reads), len(self.params), self.ints
                )
        return self._partials[k], reads

    def pullback(self, parents: tuple, useful: set | None, layout: Broadcast | None) -> _Pullback:
        """The rule for a node with these parents: which cotangents are wanted, and which are one and the same."""
        groups: list[list[int]] = []
        owners: list = []
        for k, p in enumerate(parents):
            if tape.wanted(p, useful):
                for owner, group in zip(owners, groups, strict=True):
                    if owner is p and (layout is None or layout.shapes[group[0]] == layout.shapes[k]):
                        group.append(k)
                        break
                else:
                    owners.append(p)
                    groups.append([k])
        key = tuple(map(tuple, groups))
        found = self._pullbacks.get(key)
        if found is None:
            found = self._pullbacks[key] = _Pullback(self, key)
        return found


class _Pullback(tape.Rule):
    """The rule of an elementwise node: one kernel for the wanted cotangents.

    Parameters
    ----------
    op : Elementwise
    groups : tuple of tuple of int
        Operands whose cotangents are wanted; those in one group are the same array, so their cotangents
        are added before they are stored (x*x is one pass).
    """

    def __init__(self, op: Elementwise, groups: tuple[tuple[int, ...], ...]) -> None:
        self.op = op
        self.name = op.name
        self.groups = groups
        self.exprs = []
        for group in groups:
            total = op.cotangent(group[0])
            for k in group[1:]:
                total = add(total, op.cotangent(k))
            self.exprs.append(total)
        self.saves = _reads(self.exprs, len(op.operands))
        self.first = groups[0][0] if groups else 0
        self.passes = len(groups) == 1 and self.exprs[0] is _G  # a lone cotangent that is g itself: nothing to compute
        self.single = len(groups) == 1
        self.write: dict[Kind, object] = {}  # the commonest kernel: one cotangent, flat, written
        self._entries: dict[tuple, object] = {}

    def _entry(self, kind: Kind, modes: tuple, rank: int, moves: tuple):
        key = (kind, modes, rank, moves)
        found = self._entries.get(key)
        if found is None:
            dtype = kind.dtype
            names = ["g"] + ["y" if k < 0 else f"x{k}" for k in self.saves]
            inputs = [
                loops.Input(n, dtype, loops.STEP if m else loops.HOLD) for n, m in zip(names, moves, strict=True)
            ]
            outputs = [loops.Output(e, dtype, m) for e, m in zip(self.exprs, modes, strict=True) if m]
            kernel = loops.elementwise(f"{self.name}_pullback", inputs, self.op.params, outputs, rank)
            kinds = _argument_kinds(kind, len(inputs) + len(outputs), len(self.op.params), rank, len(inputs))
            found = self._entries[key] = kernel.bind(*kinds)
        return found

    def pull_raw(self, node, g, cotangents, borrowed, useful):
        parents = node.parents
        if useful is not None and not all(parents[group[0]] in useful for group in self.groups):
            return self._pull_fewer(node, g, cotangents, borrowed, useful)
        layout, scalars = node.attrs
        if layout is not None:
            return self._pull_broadcast(node, g, cotangents, borrowed, layout, scalars)
        kind = node.kind
        saved = node.saved
        if self.single:
            p = parents[self.first]
            if p not in cotangents:
                if self.passes:
                    cotangents[p] = g
                    borrowed.add(p)
                    return None
                out = cotangents[p] = kind.empty(g.size)
                entry = self.write.get(kind)
                if entry is None:
                    moves = (True,) * (1 + len(self.saves))
                    entry = self.write[kind] = self._entry(kind, (loops.WRITE,), 1, moves)
                entry(g, *saved[::3], out, *scalars)
                return None
            if self.passes:
                return tape.add_raw(p, g, kind, cotangents, borrowed)
        outs, modes = self._targets(node, g.size, cotangents, borrowed, g)
        if outs:
            entry = self._entry(kind, modes, 1, (True,) * (1 + len(self.saves)))
            entry(g, *saved[::3], *outs, *scalars)
        return None

    def _targets(self, node, size, cotangents, borrowed, g):
        """Buffers and modes, one per group: a fresh one to write, or the parent's own to add to."""
        outs, modes = [], []
        for group, e in zip(self.groups, self.exprs, strict=True):
            p = node.parents[group[0]]
            if e is _G:
                tape.add_raw(p, g, node.kind, cotangents, borrowed)
                modes.append(None)
            elif p in cotangents:
                outs.append(tape.own(p, node.kind, cotangents, borrowed))
                modes.append(loops.ADD)
            else:
                cotangents[p] = out = node.kind.empty(size)
                outs.append(out)
                modes.append(loops.WRITE)
        return outs, tuple(modes)

    def _pull_broadcast(self, node, g, cotangents, borrowed, layout, scalars):
        kind = node.kind
        outs, modes, sums = [], [], []
        for group, e in zip(self.groups, self.exprs, strict=True):
            p = node.parents[group[0]]
            shape = layout.shapes[group[0]]
            if shape != layout.out:  # computed in the shape of the output, then summed
                buf = g if e is _G else kind.empty(g.size)
                sums.append((p, buf, shape))
            elif e is _G:
                tape.add_raw(p, g, kind, cotangents, borrowed)
                buf = g
            elif p in cotangents:
                outs.append(tape.own(p, kind, cotangents, borrowed))
                modes.append(loops.ADD)
                continue
            else:
                buf = cotangents[p] = kind.empty(g.size)
            if e is _G:
                modes.append(None)
            else:
                outs.append(buf)
                modes.append(loops.WRITE)
        if outs:
            shapes = (layout.out, *[layout.out if k < 0 else layout.shapes[k] for k in self.saves])
            walk = broadcast(shapes, self.name)
            entry = self._entry(kind, tuple(modes), walk.rank, walk.moves)
            entry(g, *node.saved[::3], *outs, *scalars, *walk.arguments)
        for p, buf, shape in sums:
            reduced = role("unbroadcast")(wrap(buf, layout.out, kind), shape=shape)
            tape.add_raw(p, reduced._buf, kind, cotangents, borrowed)

    def _pull_fewer(self, node, g, cotangents, borrowed, useful):
        """Some parents do not lead to what was asked for: the same with a kernel for the others."""
        layout = node.attrs[0]
        fewer = self.op.pullback(node.parents, useful, layout)
        if fewer.groups:
            kept = dict(zip(self.saves, zip(node.saved[::3], node.saved[1::3], node.saved[2::3], strict=True), strict=True))
            saved = tuple([part for k in fewer.saves for part in kept[k]])
            short = tape.node(fewer, node.parents, saved, node.attrs, node.shape, node.kind)
            fewer.pull_raw(short, g, cotangents, borrowed, useful)

    def grads(self, node, g, useful):
        layout, scalars = node.attrs
        buffers = dict(zip(self.saves, node.saved[::3], strict=True))
        cells = dict(zip(self.saves, node.saved[1::3], strict=True))

        def handle(k: int) -> NDArray:
            if k < 0:
                x = wrap(buffers[k], node.shape, node.kind, node)
            else:
                p = node.parents[k]
                shape = node.shape if layout is None else layout.shapes[k]
                x = wrap(buffers[k], shape, node.kind, None if type(p) is list else p)
            x._cell = cells[k]
            return x

        found: list[NDArray | None] = []
        for k, p in enumerate(node.parents):
            if not tape.wanted(p, useful):
                found.append(None)
                continue
            op, reads = self.op.partial(k)
            h = g if op is None else op.apply((g, *map(handle, reads)), scalars)
            if layout is not None and h._shape != layout.shapes[k]:
                h = role("unbroadcast")(h, shape=layout.shapes[k])
            found.append(h)
        return found


def _reads(exprs: Sequence[Expr], operands: int) -> tuple[int, ...]:
    names = set(free(*exprs))
    return tuple([k for k in range(operands) if f"x{k}" in names] + ([-1] if "y" in names else []))


def _argument_kinds(kind: Kind, arrays: int, params: int, rank: int, inputs: int) -> list:
    number: type = float if kind.dtype.is_float else int
    integers = rank + inputs * (rank - 1) if rank > 1 else 0
    return [kind.storage] * arrays + [number] * params + [int] * integers


_derived: dict[tuple, Elementwise] = {}


def derived(name: str, expr: Expr, operands: int, params: int, ints: bool) -> Elementwise:
    """The operator with this expression; the same one for the same expression, whoever asks."""
    key = (expr, operands, params, ints)
    found = _derived.get(key)
    if found is None:
        found = _derived[key] = Elementwise(name, expr, operands, params, ints=ints)
    return found


def unify(arrays: Sequence[NDArray], op: str, ints: bool = True) -> list[NDArray]:
    """The arrays in one dtype: the promoted one, and a float unless `ints`."""
    ctx = arrays[0]._kind.ctx
    dtype = arrays[0]._kind.dtype
    for x in arrays[1:]:
        if x._kind.ctx != ctx:
            raise ContextError(
                f"{op}: operands are on different devices, {ctx} and {x._kind.ctx}; move one with as_in_context"
            )
        dtype = promote(dtype, x._kind.dtype)
    if not (ints or dtype.is_float):
        dtype = dtypes.default_dtype()
    kind = kind_of(dtype, ctx)
    return [x if x._kind is kind else cast(x, kind) for x in arrays]


class Cast(tape.Rule):
    """Conversion to another dtype or device: its cotangent is converted back."""

    name = "cast"

    def grads(self, node, g, useful):
        return [cast(g, node.attrs)]


_CAST = Cast()


def cast(x: NDArray, kind: Kind) -> NDArray:
    """`x` converted to `kind`, always a new array; recorded."""
    buf = kind.empty(x._buf.size)
    cast_into(x._buf, x._kind.dtype, buf, kind.dtype)
    out = wrap(buf, x._shape, kind)
    if state.recording and x._node is not None:
        out._node = tape.node(_CAST, (x._node,), (), x._kind, x._shape, kind)
    return out

