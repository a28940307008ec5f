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
        #: The calls for one and for two operands, with short cuts for the common case.
        self.apply1 = _apply1(self)
        self.apply2 = _apply2(self)

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
            buf = kind.empty(first._buf.size, kind.storage)
            self.entry(kind, None)(*[x._buf for x in arrays], buf, *scalars)
        else:
            shape = layout.out
            buf = kind.empty(layout.size, kind.storage)
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


# The short cuts. What `apply` and `record` do, for operands of one shape and a kind seen before, with
# nothing between the call and the kernel that could be left out: this is where small arrays spend their time.

_new = object.__new__
_next_seq = tape.next_seq
_FLAT: tuple = (None, ())


def _apply1(op: Elementwise):
    flat = op.flat
    alone: list = []  # the pullback, once known

    def apply1(x: NDArray, scalars: tuple = ()) -> NDArray:
        kind = x._kind
        entry = flat.get(kind)
        if entry is None:
            return op.apply((x,), scalars)
        source = x._buf
        buf = kind.empty(source.size, kind.storage)
        entry(source, buf, *scalars)
        out = _new(NDArray)
        out._buf = buf
        out._shape = x._shape
        out._kind = kind
        out._cell = [0]
        out._node = None
        if state.recording:
            p = x._node
            if p is not None:
                if not alone:
                    alone.append(op.pullback((p,), None, None))
                pullback = alone[0]
                node = _new(tape.Node)
                node.op = pullback
                node.parents = (p,)
                saves = pullback.saves
                if not saves:
                    node.saved = ()
                elif len(saves) == 1:
                    read = out if saves[0] < 0 else x
                    cell = read._cell
                    node.saved = (read._buf, cell, cell[0])
                else:
                    node.saved = tape.save((x, out))
                node.attrs = (None, scalars) if scalars else _FLAT
                node.shape = x._shape
                node.kind = kind
                node.seq = _next_seq()
                out._node = node
        return out

    return apply1


def _apply2(op: Elementwise):
    flat = op.flat
    cases: list = [None] * 4  # pullbacks: both operands on the tape, only the first, only the second, one twice

    def apply2(a: NDArray, b: NDArray) -> NDArray:
        kind = a._kind
        entry = flat.get(kind)
        if entry is None or kind is not b._kind or a._shape != b._shape:
            return op.apply((a, b))
        source = a._buf
        buf = kind.empty(source.size, kind.storage)
        entry(source, b._buf, buf)
        out = _new(NDArray)
        out._buf = buf
        out._shape = a._shape
        out._kind = kind
        out._cell = [0]
        out._node = None
        if state.recording:
            p, q = a._node, b._node
            if p is not None or q is not None:
                case = (3 if p is q else 0) if p is not None and q is not None else 2 if p is None else 1
                parents = (p or a._cell, q or b._cell)
                pullback = cases[case]
                if pullback is None:
                    pullback = cases[case] = op.pullback(parents, None, None)
                node = _new(tape.Node)
                node.op = pullback
                node.parents = parents
                saves = pullback.saves
                if not saves:
                    node.saved = ()
                elif len(saves) == 1:
                    k = saves[0]
                    read = out if k < 0 else b if k else a
                    cell = read._cell
                    node.saved = (read._buf, cell, cell[0])
                elif saves == (0, 1):
                    c, d = a._cell, b._cell
                    node.saved = (source, c, c[0], b._buf, d, d[0])
                else:
                    node.saved = tape.save([out if k < 0 else b if k else a for k in saves])
                node.attrs = _FLAT
                node.shape = a._shape
                node.kind = kind
                node.seq = _next_seq()
                out._node = node
        return out

    return apply2


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
        #: Per wanted cotangent: an operand it belongs to, and whether it is g itself (then nothing is computed).
        self.plan = tuple([(group[0], e is _G) for group, e in zip(groups, self.exprs, strict=True)])
        self.computed = [e for e in self.exprs if e is not _G]
        self.write: dict[Kind, object] = {}  # the commonest case, one cotangent that is written -> entry point
        self.flat: dict[tuple, object] = {}  # (kind, add to the cotangent?, ...) -> entry point
        self._entries: dict[tuple, object] = {}

    def _entry(self, kind: Kind, modes: Sequence[bool], rank: int, moves: tuple):
        """The kernel for these operands; `modes` says of each computed cotangent whether it is added to."""
        key = (kind, tuple(modes), rank, moves)
        found = self._entries.get(key)
        if found is None:
            dtype = kind.dtype
            names = ["g"] + ["y" if k < 0 else f"x{k}" for k in self.saves]
            inputs = [
                loops.Input(n, dtype, loops.STEP if m else loops.HOLD) for n, m in zip(names, moves, strict=True)
            ]
            outputs = [
                loops.Output(e, dtype, loops.ADD if add_to else loops.WRITE)
                for e, add_to in zip(self.computed, modes, strict=True)
            ]
            kernel = loops.elementwise(f"{self.name}_pullback", inputs, self.op.params, outputs, rank)
            kinds = _argument_kinds(kind, len(inputs) + len(outputs), len(self.op.params), rank, len(inputs))
            found = self._entries[key] = kernel.bind(*kinds)
        return found

    def pull_raw(self, node, g, cotangents, borrowed, useful):
        parents = node.parents
        if useful is not None and not all(parents[group[0]] in useful for group in self.groups):
            return self._pull_fewer(node, g, cotangents, borrowed, useful)
        attrs = node.attrs
        layout, scalars = attrs
        if layout is not None:
            return self._pull_broadcast(node, g, cotangents, borrowed, layout, scalars)
        kind = node.kind
        plan = self.plan
        if len(plan) == 1:
            k, passes = plan[0]
            p = parents[k]
            if p not in cotangents:
                if passes:
                    cotangents[p] = g
                    borrowed.add(p)
                    return None
                cotangents[p] = out = kind.empty(g.size, kind.storage)
                entry = self.write.get(kind)
                if entry is None:
                    entry = self.write[kind] = self._entry(kind, (False,), 1, (True,) * (1 + len(self.saves)))
                saved = node.saved
                if len(saved) == 3 and attrs is _FLAT:
                    entry(g, saved[0], out)
                else:
                    entry(g, *saved[::3], out, *scalars)
                return None
        outs = []
        modes = []
        for k, passes in plan:
            p = parents[k]
            old = cotangents.get(p)
            if passes:
                if old is None:
                    cotangents[p] = g
                    borrowed.add(p)
                else:
                    tape.add_raw(p, g, kind, cotangents, borrowed)
            elif old is None:
                cotangents[p] = out = kind.empty(g.size, kind.storage)
                outs.append(out)
                modes.append(False)
            else:
                outs.append(tape.own(p, kind, cotangents, borrowed) if p in borrowed else old)
                modes.append(True)
        if outs:
            key = (kind, *modes)
            entry = self.flat.get(key)
            if entry is None:
                entry = self.flat[key] = self._entry(kind, modes, 1, (True,) * (1 + len(self.saves)))
            entry(g, *node.saved[::3], *outs, *scalars)
        return None

    def _pull_broadcast(self, node, g, cotangents, borrowed, layout, scalars):
        kind = node.kind
        outs, modes, sums = [], [], []
        for k, passes in self.plan:
            p = node.parents[k]
            buf = g if passes else kind.empty(g.size, kind.storage)
            add_to = False
            if layout.shapes[k] != layout.out:  # computed in the shape of the result, then summed
                sums.append((p, buf, layout.shapes[k]))
            elif passes:
                tape.add_raw(p, g, kind, cotangents, borrowed)
            elif p in cotangents:
                buf = tape.own(p, kind, cotangents, borrowed)
                add_to = True
            else:
                cotangents[p] = buf
            if not passes:
                outs.append(buf)
                modes.append(add_to)
        if outs:
            shapes = (layout.out, *[layout.out if k < 0 else layout.shapes[k] for k in self.saves])
            walk = broadcast(shapes, self.name)
            entry = self._entry(kind, modes, walk.rank, walk.moves)
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
    buf = kind.empty(x._buf.size, kind.storage)
    cast_into(x._buf, x._kind.dtype, buf, kind.dtype)
    out = wrap(buf, x._shape, kind)
    if state.recording and x._node is not None:
        out._node = tape.node(_CAST, (x._node,), (), x._kind, x._shape, kind)
    return out

