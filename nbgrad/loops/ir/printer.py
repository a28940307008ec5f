"""The printer of items, the only one: what is generated is items until it is a whole function (:func:`definition`).

:class:`ItemBuilder` makes items of the statements of a function. As it is, they are what people read, without
index checks (:func:`listing`); what generates code extends it (:mod:`..codegen.sweep_builder`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ...core.source_text import constant_source
from .effects import Bind, BlankLine, Break, Return
from .matrix_products import Range, factors, length, matrix, with_roles
from .names import called
from .reverse_ir import Branch, Comment, For, Item, Nest, Step, loop_head, walk_items
from .statements import (
    Alloc,
    Assign,
    Block,
    Call,
    Check,
    Function,
    Grow,
    If,
    InRange,
    Loop,
    Statement,
    Store,
    Swap,
)
from .terms import ONE, Element, Global, Term, Tuple, Variable, variables
from .terms import Call as CallTerm

__all__ = ["Definition", "ItemBuilder", "Routine", "definition", "lines_of_items", "listing"]


class Routine(Enum):
    """The routines that steps call: sums whose additions may be reordered, and the schedule of checkpoints."""

    PLUS = "plus"
    AHEAD = "ahead"

    def called(self, *operands: Term) -> Term:
        return CallTerm(Global(self.value, self), operands)


def lines_of_items(items: list[Item], indent: str = "") -> list[str]:
    """`items` as lines of code."""
    lines: list[str] = []
    for item in items:
        match item:
            case Nest():
                call = product_call(item) if isinstance(item, For) and item.product else []
                own = f"{indent}    " if call else indent
                inner = lines_of_items(item.body, f"{own}    ") or [f"{own}    pass"]
                lines += [*(f"{indent}{line}" for line in call), f"{own}{item.head}", *inner]
            case BlankLine():
                lines.append("")
            case Check():
                lines += [f"{indent}{line}" for line in item.code()]
            case Grow(name, size):
                lines.append(f"{indent}{name} = grown({name}, {size})")
            case Swap(a, b):
                lines.append(f"{indent}{a}, {b} = {b}, {a}")
            case Statement():
                raise TypeError(f"{type(item).__name__} has no text")
            case _:
                lines.append(f"{indent}{item}")
    return lines


def product_call(nest: For) -> list[str]:
    """The call of BLAS for a product of matrices, up to the ``else`` of loops for a small one; [] if it is none."""
    loops: list[For] = [nest]
    while len(loops[-1].body) == 1 and isinstance(loops[-1].body[0], For):
        loops.append(loops[-1].body[0])
    (core,) = loops[-1].body if len(loops[-1].body) == 1 else (None,)
    if len(loops) != 3 or not isinstance(core, Step) or not isinstance(core.target, Element) or core.assign_op == "=":
        return []
    parts = factors(core.value, {p.index for p in loops})
    if parts is None or parts.others or any(p.parallel or p.step is not ONE for p in loops):
        return []
    product = with_roles([Range(p.index, p.start, p.stop) for p in loops], core.target, parts)
    if product is None:
        return []
    found = product.triangle
    if found is not None and product.rows not in (found.outer, found.inner):
        product = product.transposed()  # now it is the left matrix that is triangular
    rows, inner, columns = ranges = product.box
    left, right = product.parts.left, product.parts.right
    of = ((product.target, rows, columns), (left, rows, inner), (right, inner, columns))
    matrices = [matrix(*each) for each in of]
    if None in matrices:
        return []
    factor = product.parts.factor if core.assign_op == "+=" else -product.parts.factor
    operands, suffix = [*map(str, matrices), constant_source(factor)], "product"
    routine = "add_product"
    if found is not None:
        of_target = product.inner not in (found.outer, found.inner)
        routine, suffix = "add_to_triangle" if of_target else "add_triangular_product", "triangle"
        operands += map(str, product.diagonal)
    return [
        f"if large_{suffix}({', '.join([str(length(r)) for r in ranges])}):",
        f"    {routine}({', '.join(operands)})",
        "else:",
    ]


@dataclass(frozen=True)
class Definition:
    """A function as text, and the routines that it calls (:mod:`..codegen.module_source`), ``prange`` among them."""

    text: str
    routines: frozenset[str]


def definition(name: str, parameters: list[str], items: list[Item]) -> Definition:
    """The definition of a function."""
    body = [] if all(isinstance(item, BlankLine) for item in items) else items  # an empty function
    buffers = {name: new for item in walk_items(body) if isinstance(item, For) for name, new in item.buffers.items()}
    made: list[Item] = [Bind((name,), new) for name, new in buffers.items()]
    lines = lines_of_items([*made, *body], "    ") or ["    pass"]
    text = "\n".join([f"def {name}({', '.join(parameters)}):", *lines, ""])
    return Definition(text, frozenset(map(_routine, walk_items(body))) - {""})


def _routine(item: Item) -> str:
    """The routine that an item calls: its value is the call."""
    match item:
        case Grow():
            return "grown"
        case For(parallel=True):
            return "prange"
        case Step(reassociable=True) | Step(value=CallTerm(Global(value=Routine.PLUS))):
            return Routine.PLUS.value
        case Step(value=CallTerm(Global(value=Routine.AHEAD))):
            return Routine.AHEAD.value
    return ""


def listing(f: Function) -> str:
    """A function as text that people read."""
    result = [Return(variables(f.results))] if f.results else []
    return definition(f.name, f.parameters, [*ItemBuilder().block(f.body), *result]).text


class ItemBuilder:
    """Makes items of statements, as they are."""

    def block(self, block: Block) -> list[Item]:
        """The items of a block."""
        return [item for s in block for item in self.statement(s)]

    def statement(self, s: Statement) -> list[Item]:
        """The items of a statement, and of the blocks in it."""
        match s:
            case Assign():
                return self.assign(s)
            case Store():
                return self.store(s)
            case InRange():
                return self.in_range(s)
            case Check():
                return [s]
            case Call():
                return self.call(s)
            case Alloc():
                return self.alloc(s)
            case Grow():
                return self.grow(s)
            case Swap():
                return self.swap(s)
            case If():
                orelse = [Branch(s.test, otherwise=True, body=self.block(s.orelse))] if s.orelse else []
                return [Branch(s.test, body=self.block(s.body)), *orelse]
            case Loop():
                return self.loop_items(s)
        raise TypeError(f"{type(s).__name__} has no text")

    def assign(self, s: Assign) -> list[Item]:
        return [Step(Variable(s.name), "=", s.value)]

    def store(self, s: Store) -> list[Item]:
        return [Step(s.target, "=", s.value)]

    def in_range(self, s: InRange) -> list[Item]:
        return [Comment(f"{s.index} must be in range for {s.what}, of {s.size} elements")]

    def call(self, s: Call) -> list[Item]:
        return [Bind(tuple(s.results), CallTerm(Global(s.function, s.rule), tuple(s.operands)), s.returns_tuple)]

    def alloc(self, s: Alloc) -> list[Item]:
        return [Bind((s.name,), called(np.empty, s.shape[0] if len(s.shape) == 1 else Tuple(s.shape), s.dtype))]

    def grow(self, s: Grow) -> list[Item]:
        return [s]

    def swap(self, s: Swap) -> list[Item]:
        return [s]

    def loop_items(self, s: Loop) -> list[Item]:
        return [loop_head(s, s.parallel).with_body([*self.block(s.body), *self.loop_exit(s)])]

    def loop_exit(self, s: Loop) -> list[Item]:
        """What ends a loop after the iteration that sets its flag."""
        return [Branch(Variable(s.exit_flag), body=[Break()])] if s.exit_flag else []
