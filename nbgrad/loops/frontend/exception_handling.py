"""Exceptions: ``try`` becomes flags and branches, as jumps do.

The body of a ``try`` is lowered as a branch; then what may raise in it is known: checks, those of functions inlined
into it included. Those whose error a handler catches set a flag instead, and what follows them runs only where it is
not set. Operations raise what Python's do (:mod:`.implicit_errors`). What only the subset refuses, or what is not known
to be NumPy's error to the letter, stays an error that ends the call.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.affine import offset, plus
from ..ir.names import Names
from ..ir.statements import Assign, Block, Check, If, IndexCheck, InRange, Loop, Statement
from ..ir.terms import FALSE, ONE, TRUE, ZERO, Binary, Compare, Logical, Term, Unary, Variable, integer, variables
from .structured_control import always_jumps, contains_jump, with_location
from .syntax import Transformer, bound_name, bound_to, subtrees, unparse

if TYPE_CHECKING:
    from .lowering import Lowering
    from .source import Source

__all__ = [
    "Attempt",
    "TryStatements",
    "attempt_of",
    "lower_attempt",
]


@dataclass(frozen=True)
class Attempt:
    """A ``try``: the names of the flag that an error sets and of the number of the handler, and what each handler
    catches; `last`: its ``finally`` follows it, so that no error may leave it for another handler."""

    flag: str
    number: str
    handlers: tuple[tuple[type, ...], ...]
    last: bool = False

    def handler_of(self, error: type) -> int | None:
        """The number of the handler of an error; None if it is not caught."""
        return next((k for k, kinds in enumerate(self.handlers) if issubclass(error, kinds)), None)


def attempt_of(s: ast.AST) -> Attempt | None:
    """The ``try`` whose body a branch is; None for other statements."""
    found = bound_to(s.test) if isinstance(s, ast.If) else None
    return found if isinstance(found, Attempt) else None


# The source: a try becomes a branch with its body, marked by its test, and branches with the handlers.


class TryStatements(Transformer):
    """Rewrites ``try``."""

    def __init__(self, source: Source, names: Names) -> None:
        self.source = source
        self.names = names

    def visit_Try(self, node: ast.Try) -> list[ast.stmt]:
        inside = [*node.body, *node.orelse, *(s for h in node.handlers for s in h.body)]
        self.generic_visit(node)
        if node.finalbody and any(contains_jump(s) or _holds_return(s) for s in inside):
            raise self.source.refuse(node, "a jump out of a try with finally", "jump after it")
        kinds = tuple([self.caught(h) for h in node.handlers])
        attempt = Attempt(self.names.fresh("raised"), self.names.fresh("handler"), kinds, bool(node.finalbody))
        body: ast.stmt = ast.If(bound_name(attempt, "try"), node.body, [])
        blocks = [h.body for h in node.handlers]
        if always_jumps(node.body) and blocks:  # what follows it is reached through a handler only
            rest = blocks.pop()
        elif node.orelse and blocks:
            raised = ast.Name(attempt.flag, ast.Load())
            rest = [ast.If(ast.UnaryOp(ast.Not(), raised), node.orelse, self.dispatch(attempt, blocks, []))]
            blocks = []
        else:
            rest = node.orelse
        return [with_location(s, node) for s in (body, *self.dispatch(attempt, blocks, rest), *node.finalbody)]

    def visit_TryStar(self, node: ast.TryStar) -> ast.AST:
        raise self.source.refuse(node, "except*", "write except")

    def dispatch(self, attempt: Attempt, blocks: list[list[ast.stmt]], rest: list[ast.stmt]) -> list[ast.stmt]:
        """Branches to the handlers; `rest` where none of these is meant."""
        several = len(attempt.handlers) > 1
        for k, block in reversed(list(enumerate(blocks))):
            test: ast.expr = ast.Name(attempt.flag, ast.Load())
            if several:
                chosen = ast.Compare(ast.Name(attempt.number, ast.Load()), [ast.Eq()], [ast.Constant(k)])
                test = ast.BoolOp(ast.And(), [test, chosen])
            rest = [ast.If(test, block, rest)]
        return rest

    def caught(self, handler: ast.ExceptHandler) -> tuple[type, ...]:
        """The errors that a handler catches."""
        nodes = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        kinds = [Exception if n is None else self.source.resolve(n) for n in nodes]
        for kind, n in zip(kinds, nodes, strict=True):
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                what = f"except {'' if n is None else unparse(n)}, which is no class of errors"
                raise self.source.refuse(handler, what, "name Python's errors, or classes of your own, defined before")
            if issubclass(kind, FloatingPointError | Warning):
                what = f"except {kind.__name__}, which NumPy raises or not by its settings"
                raise self.source.refuse(handler, what, "test the numbers with if, and np.isfinite")
        used = {n.id for s in handler.body for n in subtrees(_without_causes(s)) if isinstance(n, ast.Name)}
        if handler.name in used:
            what = f"the error {handler.name} as a value"
            raise self.source.refuse(handler, what, "leave out what reads it; messages of errors may name it")
        return tuple(kinds)  # type: ignore[arg-type]


def _holds_return(s: ast.stmt) -> bool:
    return any(isinstance(n, ast.Return) for n in subtrees(s))


def _without_causes(s: ast.stmt) -> ast.stmt:
    """The statement; its ``raise ... from err`` without the causes."""
    for n in subtrees(s):
        if isinstance(n, ast.Raise):
            n.cause = None
    return s


# The body, lowered: checks become flags.


def lower_attempt(low: Lowering, s: ast.If, attempt: Attempt) -> None:
    """Lower the body of a ``try``."""
    attempts = low.shared.attempts
    if attempt.last and attempts:
        raise low.source.refuse(s, "try with finally inside of another try", "write what it does where it is needed")
    for name, value in ((attempt.flag, FALSE), (attempt.number, ZERO)):
        low.locals.add(name)
        low.rename[name] = low.names.fresh(name)
        low.lowered_function.ranks[low.rename[name]] = 0
        if name == attempt.flag or len(attempt.handlers) > 1:
            low.emit(Assign(low.rename[name], value))
    attempts.append(attempt)
    above, low.enclosing_branches = low.enclosing_branches, (*low.enclosing_branches, low.block_position)
    with low.nested_block():
        body = low.block(s.body)
    low.enclosing_branches = above
    attempts.pop()
    low.out += _Flagging(low, attempt).block(body)[0]


class _Flagging:
    """Turns checks into flags."""

    def __init__(self, low: Lowering, attempt: Attempt) -> None:
        self.low, self.attempt = low, attempt
        self.flag, self.number = low.rename[attempt.flag], low.rename[attempt.number]

    def block(self, block: Block) -> tuple[Block, bool]:
        """The block, in which the rest of each block runs only if no error has been raised; whether one may be."""
        done: Block = []
        for k, s in enumerate(block):
            if not self.statement(s, done):
                continue
            rest = block[k + 1 :]
            always = isinstance(done[-1], Assign) and done[-1].value is TRUE
            if rest and not always:
                done.append(If(Unary("not", Variable(self.flag)), self.block(rest)[0], []))
            return done, True
        return done, False

    def statement(self, s: Statement, done: Block) -> bool:
        """Append the statement to `done`; whether it may raise an error that is caught."""
        match s:
            case If():
                (s.body, first), (s.orelse, second) = self.block(s.body), self.block(s.orelse)
                done.append(s)
                return first or second
            case Loop():
                return self.loop(s, done)
            case InRange():
                test = None if self.always_in_range(s) else _outside(s)
                return self.caught(s, IndexError, test, done)
            case Check() if not isinstance(s, IndexCheck):
                return self.caught(s, _error_class(self.low, s.error), s.test, done)
        done.append(s)
        return False

    def caught(self, s: Check | InRange, error: type, test: Term | None, done: Block) -> bool:
        """Append the check `s` as a flag if its error is caught; whether it is. `test` is None if it never fails."""
        handler = self.attempt.handler_of(error)
        if handler is not None and not s.exact:
            if isinstance(s, Check) and _NOT_CAUGHT not in s.message:
                s.message += _NOT_CAUGHT
            handler = None
        if handler is None or test is None:
            done.append(s)
            return False
        raised = Assign(self.flag, test, line=s.line, source_location=s.source_location)
        if handler:
            done += [raised, If(Variable(self.flag), [Assign(self.number, integer(handler))], [])]
            if test is TRUE:
                done[-2:] = [Assign(self.number, integer(handler)), raised]
        else:
            done.append(raised)
        return True

    def loop(self, s: Loop, done: Block) -> bool:
        """A loop, which ends after the iteration that raises an error."""
        s.body, raises = self.block(s.body)
        if not raises:
            done.append(s)
            return False
        if s.exit_flag:
            either = Logical("or", tuple(variables([s.exit_flag, self.flag])))
            s.body.append(Assign(s.exit_flag, either))
        else:
            s.exit_flag = self.flag
        s.parallel = False
        if not s.trip_counter:
            s.trip_counter = self.low.names.fresh("trips")
            self.low.lowered_function.ranks[s.trip_counter] = 0
            s.body.insert(0, Assign(s.trip_counter, Binary("+", Variable(s.trip_counter), ONE)))
            done.append(Assign(s.trip_counter, ZERO))
        done.append(s)
        return True

    def always_in_range(self, s: InRange) -> bool:
        """Whether an index is a constant from an end of a constant length."""
        index, k = offset(s.index)
        size, n = offset(s.size)
        return index is None and size is None and -n <= k < n


#: What follows the message of a check whose error no handler may have.
_NOT_CAUGHT = "; try does not catch this here: test for it before"


def _outside(s: InRange) -> Term:
    """The test that an index is out of range."""
    index, k = offset(s.index)
    if index is None:  # one comparison suffices
        return Compare(("<=",), (s.size, integer(k))) if k >= 0 else Compare(("<",), (s.size, integer(-k)))
    below = Compare(("<",), (plus(s.index, 0), Unary("-", s.size)))
    return Logical("or", (below, Compare((">=",), (s.index, s.size))))


def _error_class(low: Lowering, name: str) -> type:
    """The class of an error of a check."""
    return low.shared.error_classes.get(name) or getattr(builtins, name)
