"""Activity analysis: which variables depend on the inputs, and influence the outputs."""

from __future__ import annotations

from ...errors import TraceError
from ..ir.algebra import Algebra
from ..ir.statements import Assign, Call, Function, Statement, Store, Swap, walk
from ..ir.terms import reads
from ..ir.type_inference import kinds_of

__all__ = ["active_names", "useful_names", "varied_names"]


def active_names(f: Function, algebra: Algebra, wrt: set[str], outputs: set[str]) -> set[str]:
    """Names that depend on `wrt` and on which `outputs` depend."""
    varied, useful = varied_names(f, algebra, wrt), useful_names(f, algebra, outputs)
    statements = list(walk(f.body))
    for s in statements:
        if isinstance(s, Call) and s.rule.draws and reads(*s.operands) & varied and set(s.results) & useful:
            refuse_drawn_parameters(s, f)
    return varied & useful


def refuse_drawn_parameters(s: Call, f: Function) -> None:
    raise TraceError(
        f"adjoint: {f.where}: a parameter of {s.rule.name} depends on "
        "differentiated arguments, and the numbers drawn have no derivative by it; draw standard numbers and transform "
        "them, or leave the argument out of argnums"
    )


def varied_names(f: Function, algebra: Algebra, wrt: set[str]) -> set[str]:
    """Names that depend on `wrt`."""
    varied, statements, before = set(wrt), list(walk(f.body)), -1
    while len(varied) > before:  # in the direction of data flow, so that few rounds suffice
        before = len(varied)
        for s in statements:
            _propagate_varied(s, varied, f, algebra)
    return varied


def useful_names(f: Function, algebra: Algebra, outputs: set[str]) -> set[str]:
    """Names on which `outputs` depend."""
    useful, statements, before = set(outputs), list(walk(f.body))[::-1], -1
    while len(useful) > before:
        before = len(useful)
        for s in statements:
            _propagate_useful(s, useful, f, algebra)
    return useful


def _propagate_varied(s: Statement, varied: set[str], f: Function, algebra: Algebra) -> None:
    """Propagate `varied` forward through a statement."""
    match s:
        case Swap() if {s.first, s.second} & varied:
            varied |= {s.first, s.second}
        case Call() if _differentiable_operands(s, f) & varied:
            varied |= {r for r in s.results if f.kinds[r] == "float"}
        case Assign() | Store():
            target = s.name if isinstance(s, Assign) else s.array
            if target not in varied and f.kinds.get(target, "float") == "float" and algebra.depends(s.value, varied):
                varied.add(target)


def _propagate_useful(s: Statement, useful: set[str], f: Function, algebra: Algebra) -> None:
    """Propagate `useful` backward through a statement."""
    match s:
        case Swap() if {s.first, s.second} & useful:
            useful |= {s.first, s.second}
        case Call() if useful & set(s.results):
            useful |= reads(*s.operands) if s.rule.draws else _differentiable_operands(s, f)
        case Assign() | Store() if (s.name if isinstance(s, Assign) else s.array) in useful:
            useful |= {n for n in reads(s.value) if n not in useful and algebra.depends(s.value, {n})}


def _differentiable_operands(s: Call, f: Function) -> set[str]:
    """The names in the operands for which the rule of a call has a derivative."""
    ranks = s.rule.result_types(kinds_of(s, f)).cotangent_ranks
    return reads(*(t for t, rank in zip(s.operands, ranks, strict=True) if rank is not None))
