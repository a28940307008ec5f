"""Pullbacks of elementwise operators: all wanted cotangents in one kernel.

The raw sweep uses that kernel; the recorded sweep composes the same expressions from operators
(:meth:`Pullback.grads`), so that they can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..arrays import templates
from ..arrays.launch import Kind
from ..arrays.ndarray import NDArray, wrap
from ..backends import threads
from ..backends.buffer_pool import LARGE
from ..core.registry import role
from ..core.shapes import broadcast
from ..ir.expr import Expr, add, free_variables, var
from ..ir.expr_passes import evaluation_cost
from . import tape
from .cotangents import add_uniform, dense_copy, is_uniform, own_cotangent, pass_on_cotangent, uniform_buffer

__all__ = ["COTANGENT", "FLAT", "RESULT", "Pullback", "argument_kinds", "reads"]

#: The variables of derivative expressions besides the operands: the result and its cotangent.
RESULT, COTANGENT = var("y"), var("g")

#: In place of the number of a result: g is uniform.
UNIFORM_COTANGENT = -2

#: ``attrs`` of a node whose operands are small and have one shape, and that has no parameters.
FLAT: tuple = (None, ())


def reads(exprs: Sequence[Expr], operands: int) -> tuple[int, ...]:
    """The values that expressions read: indices of operands, and -1 for the result."""
    names = set(free_variables(*exprs))
    return tuple([k for k in range(operands) if f"x{k}" in names] + ([-1] if "y" in names else []))


def argument_kinds(kind: Kind, arrays: int, params: int, rank: int, inputs: int) -> list:
    """The argument kinds of an elementwise kernel, as :meth:`Kernel.bind` takes them."""
    number: type = float if kind.dtype.is_float else int
    integers = rank + inputs * (rank - 1) if rank > 1 else 0
    return [kind.storage] * arrays + [number] * params + [int] * integers


class Pullback(tape.Rule):
    """The rule of an elementwise node: one kernel computes the wanted cotangents.

    Parameters
    ----------
    op : Elementwise
    groups : tuple of tuple of int
        Operands whose cotangents are wanted; those in one group are the same array, so the expressions of
        their cotangents are added (x*x is one pass).
    """

    takes_uniform = True

    def __init__(self, op, groups: tuple[tuple[int, ...], ...]) -> None:
        self.op = op
        self.name = op.name
        self.groups = groups
        self.exprs = []
        for group in groups:
            total = op.cotangent(group[0])
            for k in group[1:]:
                total = add(total, op.cotangent(k))
            self.exprs.append(total)
        self.saves = reads(self.exprs, len(op.operands))
        #: Per wanted cotangent: an operand of its group, and whether it is g itself (then nothing is computed).
        self.plan = tuple([(group[0], e is COTANGENT) for group, e in zip(groups, self.exprs, strict=True)])
        self.computed = [e for e in self.exprs if e is not COTANGENT]
        self.weight = evaluation_cost(*self.computed)
        self.passing = tuple([k for k, passes in self.plan if passes])
        self.flat: dict[tuple[Kind, int, int], Callable] = {}  # (kind, mode, reuse) -> entry point
        self._entries: dict[tuple, Callable] = {}
        if len(self.computed) == 1 == len(groups):
            self.pull_raw = _fast_single(self, self.pull_raw)  # type: ignore[method-assign]
        elif len(self.computed) == 2 == len(groups):
            self.pull_raw = _fast_pair(self, self.pull_raw)  # type: ignore[method-assign]
        elif len(self.passing) == 1 == len(groups):
            self.pull_raw = _fast_passing_one(self, self.pull_raw)  # type: ignore[method-assign]
        elif len(self.passing) == 2 == len(groups):
            self.pull_raw = _fast_passing_two(self, self.pull_raw)  # type: ignore[method-assign]
        elif len(self.computed) == 1 == len(self.passing) and not self.saves:
            self.pull_raw = _fast_mixed(self, self.pull_raw)  # type: ignore[method-assign]

    def passes(self, k):
        return self.op.cotangent(k).value != 0

    def _entry(self, kind: Kind, modes: Sequence[bool], rank: int, moves: tuple, reuse: int = -1):
        """The kernel for these operands; `modes` says for each computed cotangent whether to accumulate into it.

        The computed cotangent number `reuse` overwrites g.
        """
        key = (kind, tuple(modes), rank, moves, reuse)
        entry = self._entries.get(key)
        if entry is None:
            dtype = kind.dtype
            names = ["g"] + ["y" if k < 0 else f"x{k}" for k in self.saves]
            inputs = [
                templates.Input(n, dtype, templates.STEP if m else templates.HOLD)
                for n, m in zip(names, moves, strict=True)
            ]
            if reuse >= 0:
                inputs[0] = templates.Input("g", dtype, templates.IN_PLACE, reuse)
            outputs = [
                templates.Output(e, dtype, templates.ADD if add_to else templates.WRITE)
                for e, add_to in zip(self.computed, modes, strict=True)
            ]
            kernel = templates.elementwise(f"{self.name}_pullback", inputs, self.op.params, outputs, rank)
            arrays = len(inputs) - (reuse >= 0) + len(outputs)
            kinds = argument_kinds(kind, arrays, len(self.op.params), rank, len(inputs))
            entry = self._entries[key] = kernel.bind(*kinds)
        return entry

    def pull_raw(self, node, g, cotangents, borrowed, useful):
        parents = node.parents
        if useful is not None and not all(parents[group[0]] in useful for group in self.groups):
            return self._pull_useful(node, g, cotangents, borrowed, useful)
        layout, scalars = node.attrs
        lent = node in borrowed
        held = lent and is_uniform(g)
        if held and layout is None and not self.saves:
            return self._pull_uniform(node, g, cotangents, borrowed, scalars)
        if layout is not None:
            return self._pull_broadcast(node, g, cotangents, borrowed, layout, scalars, held)
        kind = node.kind
        outs: list = []
        mode = 0  # a bit per computed cotangent: accumulate into an existing one
        free = not self.passing and not lent  # g may be written
        reuse = UNIFORM_COTANGENT if held else -1
        for k, passes in self.plan:
            if passes:
                continue
            p = parents[k]
            out = cotangents.get(p)
            if out is None and free and reuse < 0:
                reuse = len(outs)
                cotangents[p] = out = g
            elif out is None:
                cotangents[p] = out = kind.empty(g.size, kind.storage)
            else:
                mode |= 1 << len(outs)
                if p in borrowed:
                    out = own_cotangent(p, kind, cotangents, borrowed)
            outs.append(out)
        if outs:
            read = node.saved[::3] if reuse >= 0 else (g[:1] if held else g, *node.saved[::3])
            entry = self.entry(kind, mode, reuse)
            if g.size < LARGE:
                entry(*read, *outs, *scalars)
            else:
                threads.run_flat(entry, [*read, *outs], scalars, self.weight)
        if self.passing:
            pass_on_cotangent(node, [parents[k] for k in self.passing], g, cotangents, borrowed)
        return None

    def entry(self, kind: Kind, mode: int, reuse: int = -1) -> Callable:
        """The flat kernel that accumulates into the cotangents whose bits are set in `mode` and writes the others.

        Number `reuse` overwrites g; :data:`UNIFORM_COTANGENT`: g is uniform."""
        found = self.flat.get((kind, mode, reuse))
        if found is None:
            modes = [bool(mode >> k & 1) for k in range(len(self.computed))]
            found = self._entry(
                kind, modes, 1, (reuse != UNIFORM_COTANGENT,) + (True,) * len(self.saves), max(reuse, -1)
            )
            self.flat[kind, mode, reuse] = found
        return found

    def _pull_uniform(self, node, g, cotangents, borrowed, scalars):
        """A uniform cotangent where nothing else is read: those of the parents are uniform, too."""
        kind = node.kind
        values = [kind.small(1, kind.storage) for _ in self.computed]
        if values:
            self.entry(kind, 0)(g[:1], *values, *scalars)
        remaining = iter(values)
        for k, passes in self.plan:
            h = g if passes else uniform_buffer(next(remaining), g.size)
            add_uniform(node.parents[k], h, kind, cotangents, borrowed)

    def _pull_broadcast(self, node, g, cotangents, borrowed, layout, scalars, held):
        """Pull with broadcast operands; `held`: the cotangent is uniform."""
        kind, whole, shapes = node.kind, node.shape, layout.shapes
        if held and (self.passing or not self.saves):
            g, held = dense_copy(g, kind), False
            borrowed.discard(node)
        outs, modes, sums, passed_on = [], [], [], []
        for k, passes in self.plan:
            p = node.parents[k]
            if passes and shapes[k] == whole:
                passed_on.append(p)
                continue
            buf = g if passes else kind.empty(g.size, kind.storage)
            add_to = False
            if shapes[k] != whole:  # computed in the shape of the result, then reduced
                sums.append((p, buf, shapes[k]))
            elif p in cotangents:
                buf = own_cotangent(p, kind, cotangents, borrowed) if p in borrowed else cotangents[p]
                add_to = True
            else:
                cotangents[p] = buf
            if not passes:
                outs.append(buf)
                modes.append(add_to)
        if outs:
            read = tuple([whole if k < 0 else shapes[k] for k in self.saves])
            if held:
                cotangent, walk = g[:1], broadcast(((), *read, whole), self.name).for_operands(1 + len(read))
            else:
                cotangent, walk = g, broadcast((whole, *read), self.name)
            entry = self._entry(kind, modes, walk.rank, walk.moves)
            threads.run_broadcast(entry, [cotangent, *node.saved[::3]], outs, scalars, walk, self.weight)
        for p, buf, shape in sums:
            old = cotangents.get(p)
            if old is not None and p in borrowed:
                old = own_cotangent(p, kind, cotangents, borrowed)
            cotangents[p] = role("unbroadcast_raw")(kind, whole, shape)(buf, old)
        if passed_on:
            pass_on_cotangent(node, passed_on, g, cotangents, borrowed)

    def _pull_useful(self, node, g, cotangents, borrowed, useful):
        """Pull with a kernel for the parents in `useful` only."""
        layout = node.attrs[0]
        fewer = self.op.pullback(node.parents, useful, layout)
        if fewer.groups:
            saved_by_index = dict(
                zip(
                    self.saves,
                    zip(node.saved[::3], node.saved[1::3], node.saved[2::3], strict=True),
                    strict=True,
                )
            )
            saved = tuple([part for k in fewer.saves for part in saved_by_index[k]])
            short = tape.node(fewer, node.parents, saved, node.attrs, node.shape, node.kind)
            if node in borrowed:
                borrowed.add(short)
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

        results: list[NDArray | None] = []
        for k, p in enumerate(node.parents):
            if not tape.cotangent_wanted(p, useful):
                results.append(None)
                continue
            op, reads = self.op.partial(k)
            h = g if op is None else op.apply((g, *map(handle, reads)), scalars)
            if layout is not None and h._shape != layout.shapes[k]:
                h = role("unbroadcast")(h, shape=layout.shapes[k])
            results.append(h)
        return results


# Fast paths of `pull_raw` for small operands of one shape and writable cotangents, where the overhead per call
# dominates, as in :mod:`nbgrad.operators.elementwise`. Those with a kernel for two operands are for rules without
# parameters.


def _fast_single(rule: Pullback, otherwise: Callable) -> Callable:
    """One cotangent, which is computed."""
    k = rule.plan[0][0]
    reads_one = len(rule.saves) == 1
    write: dict[Kind, Callable] = {}

    def pull_raw(node, g, cotangents, borrowed, useful):
        p = node.parents[k]
        attrs = node.attrs
        if useful is not None or p in cotangents or node in borrowed:
            return otherwise(node, g, cotangents, borrowed, useful)
        if attrs is not FLAT and (attrs[0] is not None or g.size >= LARGE):
            return otherwise(node, g, cotangents, borrowed, useful)
        kind = node.kind
        entry = write.get(kind)
        if entry is None:
            entry = write[kind] = rule.entry(kind, 0, 0)
        cotangents[p] = g
        if attrs is not FLAT:
            entry(*node.saved[::3], g, *attrs[1])
        elif reads_one:
            entry(node.saved[0], g)
        else:
            entry(*node.saved[::3], g)
        return None

    return pull_raw


def _fast_passing_one(rule: Pullback, otherwise: Callable) -> Callable:
    """One cotangent, which is g itself: addition of a constant."""
    (k,) = rule.passing

    def pull_raw(node, g, cotangents, borrowed, useful):
        p = node.parents[k]
        if useful is not None or p in cotangents or node in borrowed or node.attrs[0] is not None:
            return otherwise(node, g, cotangents, borrowed, useful)
        cotangents[p] = g
        return None

    return pull_raw


def _fast_pair(rule: Pullback, otherwise: Callable) -> Callable:
    """Two cotangents, both computed: multiplication."""
    (j, _), (k, _) = rule.plan
    reads_two = len(rule.saves) == 2
    flat = rule.flat

    def pull_raw(node, g, cotangents, borrowed, useful):
        p, q = node.parents[j], node.parents[k]
        if node.attrs is not FLAT or useful is not None or (borrowed and not borrowed.isdisjoint((node, p, q))):
            return otherwise(node, g, cotangents, borrowed, useful)
        kind = node.kind
        mode, reuse = 0, -1
        first = cotangents.get(p)
        if first is None:
            cotangents[p] = first = g
            reuse = 0
        else:
            mode = 1
        second = cotangents.get(q)
        if second is not None:
            mode += 2
        elif reuse:
            cotangents[q] = second = g
            reuse = 1
        else:
            empty = kind.small
            cotangents[q] = second = empty(g.size, kind.storage)
        entry = flat.get((kind, mode, reuse)) or rule.entry(kind, mode, reuse)
        saved = node.saved
        if reuse >= 0:
            if reads_two:
                entry(saved[0], saved[3], first, second)
            else:
                entry(*saved[::3], first, second)
        elif reads_two:
            entry(g, saved[0], saved[3], first, second)
        else:
            entry(g, *saved[::3], first, second)
        return None

    return pull_raw


def _fast_passing_two(rule: Pullback, otherwise: Callable) -> Callable:
    """Two cotangents, both g itself: addition."""
    j, k = rule.passing

    def pull_raw(node, g, cotangents, borrowed, useful):
        if node.attrs is not FLAT or useful is not None:
            return otherwise(node, g, cotangents, borrowed, useful)
        parents = node.parents
        p = parents[j]
        q = parents[k]
        if q in cotangents:
            p, q = q, p
        if q in cotangents or p not in cotangents or p in borrowed or node in borrowed:
            pass_on_cotangent(node, (p, q), g, cotangents, borrowed)
        else:
            node.kind.accumulate_small(g, cotangents[p])
            cotangents[q] = g
        return None

    return pull_raw


def _fast_mixed(rule: Pullback, otherwise: Callable) -> Callable:
    """One cotangent is g itself, one is computed from g alone: subtraction."""
    (j,) = rule.passing
    (k,) = [k for k, passes in rule.plan if not passes]
    flat = rule.flat

    def pull_raw(node, g, cotangents, borrowed, useful):
        parents = node.parents
        p = parents[j]
        q = parents[k]
        if node.attrs is not FLAT or useful is not None or p in cotangents or q in borrowed or node in borrowed:
            return otherwise(node, g, cotangents, borrowed, useful)
        kind = node.kind
        mode = 1
        out = cotangents.get(q)
        if out is None:
            mode = 0
            empty = kind.small
            cotangents[q] = out = empty(g.size, kind.storage)
        (flat.get((kind, mode, -1)) or rule.entry(kind, mode))(g, out)
        cotangents[p] = g
        return None

    return pull_raw
