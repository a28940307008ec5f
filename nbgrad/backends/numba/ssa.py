"""Numba's variables, each set at one place (SSA), and back.

Numba rewrites the whole function for each variable that is set more than once, a sixth of the time for a function of
hundreds of lines. Here the places of all variables are looked up once. What comes out is the same, names included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from copy import copy

from numba.core import ir, ir_utils
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import PreLowerStripPhis
from numba.core.untyped_passes import ReconstructSSA

__all__ = ["Versions", "WithoutPhis", "places"]

#: A statement: the label of its block, and its position there.
Place = tuple[int, int]


@register_pass(mutates_CFG=False, analysis_only=False)
class Versions(ReconstructSSA):
    """Numba's pass, with :func:`versions` for its algorithm; tapes that grow stay one variable each."""

    _name = "nbgrad_versions"

    def run_pass(self, state):
        versions(state.func_ir.blocks, _grown(state.func_ir.blocks))
        self._patch_locals(state)
        state.func_ir._definitions = ir_utils.build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class WithoutPhis(PreLowerStripPhis):
    """Numba's pass that undoes phi nodes, and does not ask what is alive where: only generators are."""

    _name = "nbgrad_without_phis"

    def run_pass(self, state):
        if state.flags.auto_parallel.enabled:
            return super().run_pass(state)
        self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = ir_utils.build_definitions(state.func_ir.blocks)
        return True


def versions(blocks: dict[int, ir.Block], others: Set[str] = frozenset()) -> None:
    """Give variables that are set several times a name per place, and phi nodes where several reach a use; `others`
    stay as they are."""
    if not blocks:
        return
    graph = compute_cfg_from_blocks(blocks)
    sets, uses = places(blocks)
    joins = _joins(graph)
    renamed: dict[Place, ir.Var] = {}
    put: dict[Place, dict[str, ir.Var]] = defaultdict(dict)
    phis: dict[int, list[ir.Assign]] = defaultdict(list)
    for name in (n for n in _several(sets, uses, graph.dominators()) if n not in others):
        v = _Variable(name, blocks, graph, sets[name], joins)
        renamed.update(v.renamed)
        for place in uses.get(name, ()):
            reaching = v.before(*place)
            if reaching is not ir.UNDEFINED and reaching.name != name:
                put[place][name] = reaching
        for label, phi in v.phis.items():
            phis[label].insert(0, phi)
    for label, block in blocks.items():
        body = [_rewritten(s, renamed.get((label, k)), put.get((label, k))) for k, s in enumerate(block.body)]
        block.body = [*phis[label], *body]


def places(blocks: dict[int, ir.Block]) -> tuple[dict[str, list[Place]], dict[str, list[Place]]]:
    """Where each variable is set, and where it is used, in the order of the text."""
    sets: dict[str, list[Place]] = defaultdict(list)
    uses: dict[str, list[Place]] = defaultdict(list)
    for label, block in blocks.items():
        for k, s in enumerate(block.body):
            if isinstance(s, ir.Assign):
                sets[s.target.name].append((label, k))
                used = [s.value] if isinstance(s.value, ir.Var) else []
                used = s.value.list_vars() if isinstance(s.value, ir.Inst) else used
            else:
                used = s.list_vars()
            for name in dict.fromkeys(v.name for v in used):
                uses[name].append((label, k))
    return sets, uses


def _grown(blocks: dict[int, ir.Block]) -> set[str]:
    """The tapes of adjoints that grow. References to what has several versions would be counted in every turn."""
    found: dict[str, object] = {}
    for block in blocks.values():
        for s in block.body:
            if isinstance(s, ir.Assign):
                v = s.value
                made = found.get(v.func.name) if isinstance(v, ir.Expr) and v.op == "call" else None
                if made == "function" or (isinstance(v, ir.Var) and found.get(v.name) == "result"):
                    found[s.target.name] = "result"
                elif isinstance(v, ir.Global) and v.name == "grown":
                    found[s.target.name] = "function"
    return {name for name, what in found.items() if what == "result"}


def _several(sets: dict[str, list[Place]], uses: dict[str, list[Place]], dominators: dict[int, set[int]]) -> list[str]:
    """The variables that are set at several places, and then those that may be used before they are set."""
    found = [name for name, where in sets.items() if len(where) > 1]
    for name, where in uses.items():
        first = sets[name][:2]
        if len(first) < 2 and any(
            not first or (first[0][0] not in dominators[label]) for label, k in where if (label, k) not in first
        ):
            found.append(name)
    return found


def _joins(graph) -> dict[int, set[int]]:
    """The blocks in which what is set in a block meets other values: its iterated dominance frontier."""
    frontiers = graph.dominance_frontier()
    found = {}
    for label in frontiers:
        reached: set[int] = set()
        stack = [label]
        while stack:
            new = set(frontiers[stack.pop()]) - reached
            reached |= new
            stack += new
        found[label] = reached
    return found


class _Variable:
    """A variable that gets names of its own where it is set; `renamed` has them, `phis` the nodes by block."""

    def __init__(self, name: str, blocks, graph, sets: list[Place], joins: dict[int, set[int]]) -> None:
        self.name, self.blocks, self.graph = name, blocks, graph
        self.scope = next(iter(blocks.values())).scope
        self.above = graph.immediate_dominators()
        self.phis: dict[int, ir.Assign] = {}
        self.renamed: dict[Place, ir.Var] = {}
        self.last: dict[int, ir.Var] = {}  # at the end of a block that sets it
        self.inside: dict[int, list[tuple[int, ir.Var]]] = defaultdict(list)
        for label, k in sets:
            s = blocks[label].body[k]
            var = self.scope.redefine(name, loc=s.loc) if self.renamed else s.target
            self.renamed[label, k] = self.last[label] = var
            self.inside[label].append((k, var))
        self.joins: set[int] = set().union(*(joins[label] for label in self.last))

    def before(self, label: int, k: int) -> ir.Var:
        """What a statement reads."""
        here = next((var for at, var in reversed(self.inside.get(label, ())) if at < k), None)
        return self.begin(label) if here is None else here

    def begin(self, label: int) -> ir.Var:
        """What there is where a block begins."""
        while label not in self.phis and label not in self.joins:
            above = self.above[label]
            if above == label:
                return ir.UNDEFINED
            if above in self.last:
                return self.last[above]
            label = above
        if label not in self.phis:
            self.join(label)
        return self.phis[label].target

    def join(self, label: int) -> None:
        """Put a phi node where a block begins. Loops may lead back to it."""
        loc = self.blocks[label].loc
        phi = ir.Assign(ir.Expr.phi(loc=loc), self.scope.redefine(self.name, loc=loc), loc)
        self.phis[label] = phi
        for before, _ in self.graph.predecessors(label):
            found = self.last[before] if before in self.last else self.begin(before)
            phi.value.incoming_values.append(found)
            phi.value.incoming_blocks.append(before)


def _rewritten(s: ir.Stmt, target: ir.Var | None, names: dict[str, ir.Var] | None) -> ir.Stmt:
    if not isinstance(s, ir.Assign):
        if names:
            s = copy(s)
            ir_utils.replace_vars_stmt(s, names)
        return s
    value = s.value
    if names:
        value = ir_utils.replace_vars_inner(copy(value) if isinstance(value, ir.Inst) else value, names)
    return s if target is None and value is s.value else ir.Assign(value, target or s.target, s.loc)
