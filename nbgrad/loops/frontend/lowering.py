"""Lowering: the body of a Python function becomes statements of :mod:`..ir.statements`.

Jumps become structured control flow (branches and flags), tuples become variables for their items, and calls of other
functions are inlined. Every statement remembers the line of the user's that it comes from.
"""

from __future__ import annotations

import ast
from typing import Any

from ...core.source_text import identifier
from ...errors import TraceError
from ..ir.names import RESERVED, Names, nfkc_name
from ..ir.statements import Assign, Block, Check, Function, If, walk, writes
from ..ir.terms import FALSE, ONE, TRUE, Compare, Constant, Length, Logical, Term, Unary, Variable, variables
from ..ir.type_inference import IntegerExpected, infer
from ..runtime.tape_memory import in_large_pages
from .array_expressions import (
    ArrayExpr,
    Lowered,
    Scalar,
    Static,
    form_of,
)
from .conditional_expressions import evaluate_first, truth
from .dictionaries import Dictionary
from .exception_handling import attempt_of, lower_attempt
from .findings import Findings
from .function_table import MODULES, refuse_call
from .implicit_errors import refuse_unknown_errors
from .iteration import Iteration
from .list_vectors import append_item
from .lists_of_rows import no_items, store_item
from .live_range_splitting import NeedsSplitting, count_webs
from .lowering_state import LoweringState
from .memory_order import check_orders
from .partial_evaluation import deciding_parameters, static_truth
from .print_lowering import lower_print
from .print_statements import prints
from .raised_errors import error_text, raised_error
from .record_types import RecordType
from .records import record_parameter
from .reshaping import resolve_reshaped
from .results import Results
from .rewrites import decided_test, items_of_loop, rewritten
from .runtime_calls import RUNTIME_CALLS, lower_runtime_call
from .scope import Pack
from .source import Source
from .static_values import GeneratorArgument, static_text
from .structured_control import always_jumps, contains_jump, falls_through, with_location
from .syntax import all_names, bound_name, free_variables, subtrees, unparse
from .tuple_arguments import Keys, StaticArgument
from .unset_names import initial_values, read_before_set, refuse_unset, refused_as_unset
from .views_without_axes import resolve_views_without_axes
from .wrapped_calls import lower_wrapped

__all__ = ["lower"]


def lower(
    source: Source,
    ranks: dict[str, int],
    kinds: dict[str, str],
    swap_copies_only: bool = False,
    float64_parameters: frozenset[str] = frozenset(),
    unit_axes: frozenset[tuple[str, int]] = frozenset(),
    large_systems: bool = False,
    float32_arguments: bool = False,
) -> Function:
    """The lowered function of `source`, with types, for arguments of these ranks and kinds.

    `swap_copies_only`: swaps exchange copies of the arguments, not the arguments; `float64_parameters`: the float64
    arrays where other arguments are float32; for the others see Function. Lowering begins again with what it found.
    """
    findings = Findings()
    first_error: IntegerExpected | None = None
    refused: list[Exception] = []  # lists and comprehensions, before they became rows
    options = {"swap_copies_only": swap_copies_only, "float64_parameters": float64_parameters,
               "large_systems": large_systems, "float32_arguments": float32_arguments}  # fmt: skip
    while True:
        findings.scopes.clear()
        try:
            f = _lower_once(source, ranks, kinds, findings, unit_axes, **options)
        except NeedsSplitting as err:
            new = findings.add(err)
            if new and err.refused is not None:
                refused.append(err.refused)
            elif not new:  # it does not help, and never will
                what = f"{err.name}, which stands for more than one thing"
                raise source.refuse(source.node, what, "use a name for each") from None
        except TraceError:
            if any(n in kinds and kinds[n] != "float" for e in refused for n in e.deciding):  # type: ignore[attr-defined]
                raise refused[0] from None  # with constants for arguments, loops may be unrolled
            if not findings.fix_axes():
                raise
        else:
            try:
                infer(f)
            except IntegerExpected as err:  # a name may be a float first, and then an integer
                first_error = first_error or err
                several = [n for n in sorted(err.names) if count_webs(source.node, n) > 1]
                if not any([findings.add(NeedsSplitting(n)) for n in several]):
                    raise first_error from None
            else:
                if not findings.learn_kinds(f):
                    return f


def _lower_once(
    source: Source,
    ranks: dict[str, int],
    kinds: dict[str, str],
    findings: Findings,
    unit_axes: frozenset[tuple[str, int]],
    **options: Any,
) -> Function:
    """One attempt, with what earlier ones found."""
    strings = [p for p, a in source.packs.items() if isinstance(a, StaticArgument) and isinstance(a.value, str | None)]
    source = rewritten(source, findings.rewrites, strings=strings)
    where = f"{source.file}, line {source.first + 1}"
    names = Names({*all_names(source.node), *ranks}, free_variables(source.node))
    own = {p: names.fresh(p) if p in RESERVED else nfkc_name(p) for p in ranks}
    unsigned = {own[p] for p, kind in kinds.items() if kind == "unsigned"}
    kinds = {own[p]: "int" if own[p] in unsigned else kind for p, kind in kinds.items()}
    ranks = {own[p]: n for p, n in ranks.items()}
    name = identifier(source.name)
    program = Function(name, list(ranks), [], None, ranks, kinds, {}, where, names, None, own, source.options)
    program.unit_axes, program.unsigned, program.rounds_bounds = unit_axes, unsigned, source.compiled
    options["float64_parameters"] = frozenset(own[p] for p in options["float64_parameters"])
    state = LoweringState(
        program,
        names,
        findings=findings,
        sources=dict(source.called_sources),
        **options,
    )
    lowering = Lowering(source, state, None, None)
    for p, name in own.items():
        if kinds[name] == "generator":
            lowering.bind_parameter(lowering, p, Static(GeneratorArgument(name)), source.node)
            continue
        lowering.rename[p] = name
        lowering.scalar_parameters.add(name)
        if program.ranks[name]:
            lowering.bind(p, lowering.whole_view(name))
            lowering.owners[p] = name
    for p, pack in source.packs.items():
        if isinstance(pack, StaticArgument):
            value = pack.value
            static: ArrayExpr = Scalar(Constant(value)) if isinstance(value, bool | int) else Static(value)
            static = lowering.numbered_if(p in source.numbered, static)
            lowering.bind_parameter(lowering, p, static, source.node)
        elif isinstance(pack, list):
            made = lowering.parameter_tuple(pack)
            if isinstance(made, Static):
                lowering.bind_parameter(lowering, p, made, source.node)
            else:
                lowering.tuples[p] = made
    given: Block = [
        Check(
            Compare(("!=",), (Length(n, d), ONE)), f"{program.name}: axis {d} of {n} must have length 1", "ValueError"
        )
        for n, d in sorted(unit_axes)
    ]
    try:
        program.body = [*given, *lowering.out, *lowering.function()]
        if state.read_before:
            raise next(iter(state.read_before.values()))
    except TraceError as err:
        if state.may_be_peeled:
            raise NeedsSplitting("", optional=state.may_be_peeled[0]) from None
        # After a list was read that has no items, nothing was lowered in earnest.
        found = next(iter(state.read_before.values()), err)
        found.deciding = state.may_decide  # type: ignore[attr-defined]
        found.lowered = program  # type: ignore[attr-defined]
        raise found from None
    program.results, program.form = lowering.flat_results(), form_of(lowering.result)
    if program.results:
        program.results, trimmed = lowering.trim_results(program.results)
        program.body += trimmed
    for name, refusal in state.read_above.items():
        if program.ranks.get(name):
            raise NeedsSplitting("", optional=state.may_be_peeled[0]) if state.may_be_peeled else refusal
    program.body[:0] = initial_values(program.body, program.parameters, state.left_out)
    refuse_unset(program, state.names_read)
    check_orders(program, lowering.shared)
    resolve_reshaped(program, lowering.shared.reshaped, lowering.shared.sizes, lowering.shared.reshaped_groups)
    resolve_views_without_axes(program, state)
    if stale := state.copied_at_once & program.contiguous:
        raise NeedsSplitting("", written=stale)
    return program


class Lowering(Results, Iteration):
    """Lowers one function; a called function is inlined by a Lowering of its own."""

    def __init__(self, source: Source, shared: LoweringState, outer: Lowering | None, around: Lowering | None) -> None:
        super().__init__(source, shared, outer, around)
        self.within = (*(outer.within if outer else ()), source.definition_site)
        self.break_flags: list[str] = []  # the break flag of each enclosing loop, "" until needed
        self.skip_flags: list[list[str]] = [[]]  # per enclosing loop, flags of branches that a jump may leave

    def lowering(self, source: Source, around: object) -> Lowering:
        return Lowering(source, self.shared, self, around)  # type: ignore[arg-type]

    def wrapped_call(self, node: ast.Call, called: object) -> ArrayExpr | None:
        return lower_wrapped(self, node, called)

    def parameter_tuple(self, pack: list) -> Pack | Static:
        """A parameter that is a tuple, list or dictionary, from the parameters that hold its items."""
        f = self.lowered_function

        def item(n: Any) -> Any:
            if isinstance(n, list):
                return self.parameter_tuple(n)
            if isinstance(n, StaticArgument):
                return Static(n.value)
            name = f.renamed_parameters[n]
            if f.kinds[name] == "generator":
                return Static(GeneratorArgument(name))
            return self.whole_view(name) if f.ranks[name] else name

        if isinstance(pack[0], RecordType):
            return record_parameter(pack[0], list(map(item, pack[1:])))
        made = Pack(tuple(map(item, pack[1:])), tuple if isinstance(pack[0], Keys) else pack[0])
        if isinstance(pack[0], Keys):
            return Static(Dictionary(dict(zip(pack[0], self.several(made).items, strict=True))))
        return made

    # Statements.

    def function(self) -> Block:
        """Lower the body of the function."""
        body = self.source.node.body
        if (unset := read_before_set(self.source.node)) is not None:
            raise refused_as_unset(self.source, unset)
        if any(isinstance(n, ast.Return) for s in body for loop in subtrees(s) if isinstance(loop, ast.For | ast.While)
               for n in subtrees(loop)):  # fmt: skip
            self.returned_flag = self.names.fresh("returned")
            self.lowered_function.ranks[self.returned_flag] = 0
        self.shared.left_out |= {self.local(ast.Name(n, ast.Load())) for n in getattr(self.source.node, "optional", ())}
        if self.source.module not in MODULES:
            self.shared.findings.scopes.append((self.source.node, self.rename))
        self.find_rebound_names(body)
        copies = dict(self.shared.read_only_copies)
        lowered = self.block(body, first=True)
        if self.inlined:
            self.forget_copies(copies, self.result)
        return lowered

    @property
    def copies_back(self) -> bool:
        """Whether a return copies arrays into parameters."""
        return bool(self.swapped_parameters or (not self.inlined and self.shared.findings.writable_copies))

    def block(self, statements: list[ast.stmt], first: bool = False) -> Block:
        """Lower `statements`; those after a branch that jumps go into the branch that does not."""
        saved, self.out = self.out, []
        if first:
            self.outermost = self.out
            if self.outer is None:
                self.shared.top, self.shared.current = self.out, statements
            if self.returned_flag:
                self.emit(Assign(self.returned_flag, FALSE))
            self.copy_parameters()
            if self.returns_values() and falls_through(statements):
                text = ast.Constant(f"{self.source.name}: the end is reached, and nothing is returned")
                error = ast.Raise(ast.Call(bound_name(ValueError, "ValueError"), [text], []))
                statements = [*statements, with_location(error, statements[-1])]
            elif self.copies_back and not always_jumps(statements):
                statements = [*statements, ast.copy_location(ast.Return(), statements[-1])]
        k, statements = -1, list(statements)
        while (k := k + 1) < len(statements):
            s = statements[k]
            holds = static_truth(self, s.test) if isinstance(s, ast.If) else None
            if holds is not None:
                self.decides(s, holds)  # type: ignore[arg-type]
                self.line = self.source.lines[s.lineno - 1].strip()
                begun = len(self.out)
                evaluate_first(self, s.test, holds)  # type: ignore[attr-defined]
                self.record_location(s, self.out[begun:])
                statements[k : k + 1] = s.body if holds else s.orelse  # type: ignore[attr-defined]
                k -= 1
                continue
            rest = statements[k + 1 :]
            if self.out is self.shared.top:
                self.shared.current = statements[k:]
            self.line = self.source.lines[s.lineno - 1].strip()
            self.block_position = statements, k
            if self.at_function_level and isinstance(s, ast.For | ast.While | ast.If):
                self.copy_before_rebinding(s)
            begun, standing = len(self.out), frozenset(self.shared.read_only_copies)
            self.standing_before = standing
            last = self.lower_jumping(s, rest)
            if not last:
                self.statement(s)
                if isinstance(s, ast.Expr | ast.Assert):
                    self.standing_before = standing
                    self.forget_unnamed(s)
            self.record_location(s, self.out[begun:])
            if last or (not first and self.always_raises(begun)):
                break
        lowered, self.out = self.out, saved
        return lowered

    def always_raises(self, begun: int) -> bool:
        """Whether a statement raises an error in any case; what it emitted after that error is left out then: Python's
        compiler would leave it out, but not what the reverse sweep makes of it."""
        errors = (k for k, t in enumerate(self.out[begun:], begun) if type(t) is Check and t.test is TRUE)  # not Print
        if (at := next(errors, None)) is None:
            return False
        self.shared.left_out |= {n for t in walk(self.out[at + 1 :]) for n in writes(t)}
        del self.out[at + 1 :]
        return True

    def lower_jumping(self, s: ast.stmt, rest: list[ast.stmt]) -> bool:
        """Lower `s` together with the `rest` of its block if it is or contains a jump; whether it did."""
        if isinstance(s, ast.Continue | ast.Break | ast.Return):
            self.jump(s)
        elif isinstance(s, ast.If) and contains_jump(s) and always_jumps(s.body) and attempt_of(s) is None:
            self.branch(s, s.body, [*s.orelse, *rest])
        elif isinstance(s, ast.If) and contains_jump(s) and always_jumps(s.orelse):
            self.branch(s, [*s.body, *rest], s.orelse)
        elif isinstance(s, ast.If | ast.For | ast.While) and rest and self.may_skip_rest(s):
            self.lower_conditional_rest(s, rest)
        else:
            return False
        return True

    def record_location(self, s: ast.stmt, statements: Block) -> None:
        """Record the user's line that statements come from; for functions of the library, the line that calls them."""
        for t in statements:
            t.source_location = t.source_location or self.user_location(s)

    def may_skip_rest(self, s: ast.stmt) -> bool:
        """Whether a jump in `s` may skip the statements after it."""
        inside = any(isinstance(n, ast.Return) for n in subtrees(s) if not isinstance(n, ast.FunctionDef))
        return (isinstance(s, ast.If) and contains_jump(s)) or bool(self.returned_flag and inside)

    def lower_conditional_rest(self, s: ast.stmt, rest: list[ast.stmt]) -> None:
        """Lower a statement that may jump or fall through, and the rest under a test that it fell through."""
        returns = self.returned_flag and any(isinstance(n, ast.Return) for n in subtrees(s))
        tests = [self.returned_flag] if returns else []
        if isinstance(s, ast.If) and contains_jump(s):
            flag = self.names.fresh("gone")
            self.lowered_function.ranks[flag] = 0
            self.out.append(Assign(flag, FALSE))
            self.skip_flags[-1].append(flag)
            self.statement(s)
            self.skip_flags[-1].remove(flag)
            tests.insert(0, flag)
        else:
            self.statement(s)
        jumped = Variable(tests[0]) if len(tests) == 1 else Logical("or", variables(tests))
        above, self.enclosing_branches = self.enclosing_branches, ()
        with self.nested_block():
            inner = self.block(rest)
        self.enclosing_branches = above
        self.out.append(If(Unary("not", jumped), inner, []))

    def jump(self, s: ast.stmt) -> None:
        """Lower a jump: set the flags that skip what it leaves."""
        if isinstance(s, ast.Return):
            self.lower_return(s)
        for flag in self.skip_flags[-1]:
            self.emit(Assign(flag, TRUE))
        if isinstance(s, ast.Return) and self.break_flags:
            self.emit(Assign(self.returned_flag, TRUE))
            for k, stop in enumerate(self.break_flags):
                if stop and stop != self.returned_flag:
                    self.emit(Assign(stop, TRUE))
                self.break_flags[k] = stop or self.returned_flag
        elif isinstance(s, ast.Break):
            self.emit(Assign(self.break_flags[-1], TRUE))

    # One statement.

    def branch(self, s: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        """Lower an ``if`` with these branches."""
        test = self.test(s.test)
        outside, self.decided_by = self.decided_by, deciding_parameters(self, test)
        self.shared.may_decide |= self.decided_by
        self.shared.tests_around.append(test.named)
        line, self.line = self.line, ""
        above, self.enclosing_branches = self.enclosing_branches, (*self.enclosing_branches, self.block_position)
        with self.nested_block():
            first = self.block(body)
        with self.nested_block():
            second = self.block(orelse)
        self.enclosing_branches, self.decided_by = above, outside
        self.shared.tests_around.pop()
        self.out.append(If(test, first, second, line=line))

    def test(self, node: ast.expr) -> Term:
        self.walrus_in = self.root_expression = node
        return truth(self, node)

    walrus_in: ast.expr | None = None

    def walrus(self, node: ast.NamedExpr) -> str:
        name = node.target.id
        again = [n for n in subtrees(self.walrus_in or node) if isinstance(n, ast.Name) and n.id == name]
        if self.walrus_in is None or len(again) > 1:
            return super().walrus(node)
        self.assign(ast.copy_location(ast.Assign([node.target], node.value), node), node.target, node.value)
        return self.local(node.target)

    def statement(self, s: ast.stmt) -> None:
        self.root_expression = None
        self.walrus_in = None
        match s:
            case ast.Assign(targets=[ast.Name(id=first) as target, *others]):
                self.assign(s, target, s.value)
                for other in others:
                    self.assign(s, other, ast.copy_location(ast.Name(first, ast.Load()), s))
            case ast.Assign(targets=[target]):
                self.assign(s, target, s.value)
            case ast.Assign():
                names = [t for t in s.targets if isinstance(t, ast.Name)]
                others = [t for t in s.targets if t not in names]
                if names and not any(t.id in all_names(other) for t in names for other in others):
                    self.statement(ast.copy_location(ast.Assign([*names, *others], s.value), s))
                    return
                if not all(isinstance(t, ast.Subscript) for t in s.targets):
                    raise self.source.refuse(s, "several targets", "put the name first, or write one per line")
                value = ast.copy_location(Lowered(self.evaluate_first(s, self.tree(s.value))), s)
                for target in s.targets:
                    self.assign(s, target, value)
            case ast.AugAssign():
                self.augmented(s)
            case ast.For() | ast.While():
                above, self.enclosing_branches = self.enclosing_branches, ()
                self.loop(s)
                self.enclosing_branches = above
            case ast.If() if (attempt := attempt_of(s)) is not None:
                lower_attempt(self, s, attempt)
            case ast.If():
                self.branch(s, s.body, s.orelse)
            case ast.Assert():
                fails = Unary("not", self.test(s.test))
                self.emit(Check(fails, static_text(self, s.msg), "AssertionError", exact=True))
            case ast.Raise():
                self.error(s)
            case ast.FunctionDef():
                self.functions[s.name] = self.defined(s.name, s)
            case ast.Expr(value=ast.Call() as call):
                self.effect(call)

    def error(self, s: ast.Raise) -> None:
        text = error_text(self, s.exc.args if isinstance(s.exc, ast.Call) else [])
        self.emit(Check(TRUE, text, raised_error(self, s), exact=self.source.module not in MODULES))

    def effect(self, call: ast.Call) -> None:
        """Lower a call that is a statement: for its side effects."""
        call = self.method_of_generator(self.with_chosen_function(call))
        called = self.function_of(call.func)
        if called is in_large_pages:
            return
        if called is prints:
            lower_print(self, call)
            return
        if called in RUNTIME_CALLS:  # in generated code
            lower_runtime_call(self, call, called)
            return
        if called is items_of_loop:
            self.check_items(*call.args)
            return
        if called is decided_test:
            self.check_decided(*call.args)
            return
        if called in (append_item, store_item, no_items):
            self.known_call(call, called, "")
            return
        if called is refuse_call:
            what, _, instead = static_text(self, call.args[0]).partition(": ")
            self.unroll_innermost(frozenset())  # by which an axis, say, becomes a constant
            raise self.source.refuse(call, what, instead)
        refuse_unknown_errors(self, call, called)
        if self.callee(call) is not None:
            self.inline(call)
            return
        if self.wrapped_call(call, called) is not None:
            return
        if isinstance(call.func, ast.Attribute) and call.func.attr == "fill" and len(call.args) == 1:
            self.write(call, self.view(call.func.value), self.tree(call.args[0]))
            return
        raise self.source.refuse(call, f"the call {unparse(call)}", "leave it out, or assign its result")
