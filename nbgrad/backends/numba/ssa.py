"""SSA construction and destruction for Numba IR.

Numba rewrites the whole function for each variable with several definitions, a sixth of the compile time of a function
of hundreds of lines. Here definitions and uses of all variables are collected once. The result is the same, names
included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from copy import copy

from .internals import (
    PreLowerStripPhis,
    ReconstructSSA,
    compute_cfg_from_blocks,
    ir,
    ir_utils,
    rebuild_definitions,
    register_pass,
)

__all__ = ["SsaConstruction", "SsaDestruction", "definitions_and_uses"]

#: A statement: the label of its block, and its index there.
StatementIndex = tuple[int, int]


@register_pass(mutates_CFG=False, analysis_only=False)
class SsaConstruction(ReconstructSSA):
    """Numba's SSA pass, with :func:`construct_ssa` for its algorithm; growing tapes stay one variable each."""

    _name = "nbgrad_versions"

    def run_pass(self, state):
        construct_ssa(state.func_ir.blocks, _growing_tapes(state.func_ir.blocks))
        self._patch_locals(state)
        rebuild_definitions(state.func_ir)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class SsaDestruction(PreLowerStripPhis):
    """Numba's pass that removes phi nodes, without its liveness analysis, which only generators need."""

    _name = "nbgrad_without_phis"

    def run_pass(self, state):
        if state.flags.auto_parallel.enabled:
            return super().run_pass(state)
        self._strip_phi_nodes(state.func_ir)
        rebuild_definitions(state.func_ir)
        return True


def construct_ssa(blocks: dict[int, ir.Block], others: Set[str] = frozenset()) -> None:
    """Rename variables with several definitions, and insert phi nodes where several definitions reach a use.

    Those in `others` stay as they are."""
    if not blocks:
        return
    graph = compute_cfg_from_blocks(blocks)
    sets, uses = definitions_and_uses(blocks)
    joins = _iterated_frontiers(graph)
    renamed: dict[StatementIndex, ir.Var] = {}
    substitutions: dict[StatementIndex, dict[str, ir.Var]] = defaultdict(dict)
    phis: dict[int, list[ir.Assign]] = defaultdict(list)
    for name in (n for n in _multiply_defined(sets, uses, graph.dominators()) if n not in others):
        v = _Variable(name, blocks, graph, sets[name], joins)
        renamed.update(v.renamed)
        for place in uses.get(name, ()):
            reaching = v.before(*place)
            if reaching is not ir.UNDEFINED and reaching.name != name:
                substitutions[place][name] = reaching
        for label, phi in v.phis.items():
            phis[label].insert(0, phi)
    for label, block in blocks.items():
        body = [_rewritten(s, renamed.get((label, k)), substitutions.get((label, k))) for k, s in enumerate(block.body)]
        block.body = [*phis[label], *body]


def definitions_and_uses(
    blocks: dict[int, ir.Block],
) -> tuple[dict[str, list[StatementIndex]], dict[str, list[StatementIndex]]]:
    """The definitions and the uses of each variable, in program order."""
    sets: dict[str, list[StatementIndex]] = defaultdict(list)
    uses: dict[str, list[StatementIndex]] = defaultdict(list)
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


def _growing_tapes(blocks: dict[int, ir.Block]) -> set[str]:
    """The growing tapes of adjoints. With several versions, their references would be counted in every iteration."""
    roles: dict[str, object] = {}
    for block in blocks.values():
        for s in block.body:
            if isinstance(s, ir.Assign):
                v = s.value
                callee = roles.get(v.func.name) if isinstance(v, ir.Expr) and v.op == "call" else None
                if callee == "function" or (isinstance(v, ir.Var) and roles.get(v.name) == "result"):
                    roles[s.target.name] = "result"
                elif isinstance(v, ir.Global) and v.name == "grown":
                    roles[s.target.name] = "function"
    return {name for name, role in roles.items() if role == "result"}


def _multiply_defined(
    sets: dict[str, list[StatementIndex]], uses: dict[str, list[StatementIndex]], dominators: dict[int, set[int]]
) -> list[str]:
    """The variables with several definitions, and then those that may be used before their definition."""
    variables = [name for name, where in sets.items() if len(where) > 1]
    for name, where in uses.items():
        first = sets[name][:2]
        if len(first) < 2 and any(
            not first or (first[0][0] not in dominators[label]) for label, k in where if (label, k) not in first
        ):
            variables.append(name)
    return variables


def _iterated_frontiers(graph) -> dict[int, set[int]]:
    """The iterated dominance frontier of each block."""
    frontiers = graph.dominance_frontier()
    frontier_of = {}
    for label in frontiers:
        reached: set[int] = set()
        worklist = [label]
        while worklist:
            new = set(frontiers[worklist.pop()]) - reached
            reached |= new
            worklist += new
        frontier_of[label] = reached
    return frontier_of


class _Variable:
    """A variable with a version per definition: `renamed` has these, `phis` the phi nodes by block."""

    def __init__(self, name: str, blocks, graph, sets: list[StatementIndex], joins: dict[int, set[int]]) -> None:
        self.name, self.blocks, self.graph = name, blocks, graph
        self.scope = next(iter(blocks.values())).scope
        self.above = graph.immediate_dominators()
        self.phis: dict[int, ir.Assign] = {}
        self.renamed: dict[StatementIndex, ir.Var] = {}
        self.last: dict[int, ir.Var] = {}  # at the end of a block that defines it
        self.inside: dict[int, list[tuple[int, ir.Var]]] = defaultdict(list)
        for label, k in sets:
            s = blocks[label].body[k]
            var = self.scope.redefine(name, loc=s.loc) if self.renamed else s.target
            self.renamed[label, k] = self.last[label] = var
            self.inside[label].append((k, var))
        self.joins: set[int] = set().union(*(joins[label] for label in self.last))

    def before(self, label: int, k: int) -> ir.Var:
        """The version that reaches a statement."""
        here = next((var for position, var in reversed(self.inside.get(label, ())) if position < k), None)
        return self.begin(label) if here is None else here

    def begin(self, label: int) -> ir.Var:
        """The version that reaches the beginning of a block."""
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
        """Insert a phi node at the beginning of a block, before its operands: loops may lead back to it."""
        loc = self.blocks[label].loc
        phi = ir.Assign(ir.Expr.phi(loc=loc), self.scope.redefine(self.name, loc=loc), loc)
        self.phis[label] = phi
        for predecessor, _ in self.graph.predecessors(label):
            version = self.last[predecessor] if predecessor in self.last else self.begin(predecessor)
            phi.value.incoming_values.append(version)
            phi.value.incoming_blocks.append(predecessor)


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
