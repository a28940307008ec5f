"""What a function of the subset is lowered to: a tree of few kinds of statements.

Expressions stay Python syntax trees; :mod:`.algebra` makes expressions with derivatives of them. Slices, jumps, calls
of other functions and tuples are gone, arrays are made at the top of the function only, and each array keeps its name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ...core.source_text import constant

if TYPE_CHECKING:
    from ..custom_rules import Rule
    from ..frontend.tuple_arguments import Form
    from .names import Names

__all__ = ["Alloc", "Assign", "Block", "Call", "Check", "Function", "Grow", "If", "Like", "Look", "Loop", "Made", "Put",
           "Statement", "Store", "Swap", "Within", "below", "changed", "children", "duplicate", "elements_in", "listed",
           "mentioned", "mentions", "parse", "parsed", "reads", "subtrees", "touched", "unparse", "uses", "walk",
           "writes"]  # fmt: skip


@dataclass(eq=False)
class Statement:
    """`line` is the text of the line it came from, for comments; empty where it shares the one before. `place` says
    where that line is, for errors; empty where it is that of the statement before or around it."""

    line: str = field(default="", kw_only=True)
    place: str = field(default="", kw_only=True)


class Made(Enum):
    """For what a pass made a number."""

    FACTOR = "a product that does not change in the loops after it"
    BRANCH = "what a test gave"
    BOUND = "a bound of a loop"


@dataclass(eq=False)
class Assign(Statement):
    """``name = value``, of numbers; `free`: a sum whose additions may be reordered, ``name + term``; `made`: for what a
    pass made it, None for those of the function."""

    name: str
    value: ast.expr
    free: bool = False
    made: Made | None = field(default=None, kw_only=True)


@dataclass(eq=False)
class Store(Statement):
    """``array[index] = value``, one element."""

    array: str
    index: ast.expr
    value: ast.expr

    @property
    def target(self) -> ast.Subscript:
        return ast.Subscript(ast.Name(self.array, ast.Load()), self.index, ast.Load())


@dataclass(frozen=True)
class Like:
    """The kind that another array has, which may not be known yet."""

    name: str


@dataclass(eq=False)
class Alloc(Statement):
    """``name = value``, an array made anew: `value` is a call of np.empty, np.zeros or the like, or a copy."""

    name: str
    value: ast.expr
    rank: int
    source: str  # the array whose values or dtype it has, or ""
    kind: str | Like  # "float", "int" or "bool"; "" for that of what is stored into it
    shape: list[ast.expr]


@dataclass(eq=False)
class Check(Statement):
    """Raise an error where `test` holds."""

    test: ast.expr
    message: str
    error: str = "ValueError"

    def code(self) -> list[str]:
        return [f"if {unparse(self.test)}:", f"    raise {self.error}({constant(self.message)})"]


@dataclass(eq=False)
class Look(Check):
    """Where `test` holds, ask a program (`message`, see :mod:`..runtime.index_errors`) whether an index is out of
    range; `given` are the scalars and arrays that it gets."""

    given: list[ast.expr] = field(default_factory=list)

    def code(self) -> list[str]:
        given = listed([unparse(n) for n in self.given], True)
        return [f"{self.error}({unparse(self.test)}, {constant(self.message)}, ({given}))"]


@dataclass(eq=False)
class Within(Statement):
    """`index` must be one of a part of an array, `what`, which has `size` elements along that axis."""

    index: ast.expr
    size: ast.expr
    what: str


@dataclass(eq=False)
class Swap(Statement):
    """``a, b = b, a`` of arrays."""

    first: str
    second: str


@dataclass(eq=False)
class Grow(Statement):
    """``name = grown(name, size)``: room for more elements of a vector, zeros, until there are `size` at least."""

    name: str
    size: ast.expr


@dataclass(eq=False)
class Call(Statement):
    """``results = function(given)``: of a primitive with a rule of its own, which makes new arrays and numbers.

    `lengths` has, for each result that is an array, names of the numbers of elements along its axes; `given` are names
    of arrays, with ``[:n]`` where not all of it is meant, names of numbers, and constants; `function` and `vjp`: what
    the primitive and its rule are called. With a name `found` for what the function gives, its elements are copied into
    the results, which are there before and have just been set to zero: so what they were is stored as if statements had
    overwritten it. `places` are names for loops over an array then.
    """

    rule: Rule
    function: str
    vjp: str
    results: list[str]
    lengths: dict[str, list[str]]
    given: list[ast.expr]
    several: bool = False  # whether it gives a tuple
    found: str = ""
    places: dict[str, list[str]] = field(default_factory=dict)

    @property
    def sizes(self) -> list[str]:
        return [n for names in self.lengths.values() for n in names]


@dataclass(eq=False)
class If(Statement):
    test: ast.expr
    body: Block
    orelse: Block


@dataclass(eq=False)
class Loop(Statement):
    """``for index in range(start, stop, step)``, or, without an index, ``while test``.

    `until`: a flag that ends the loop after the turn that sets it; `count`: the variable with the number of turns, of
    loops whose number of turns is not known when they begin; `resets`: numbers that the loop changes, with the names of
    the values that they had before; `parallel`: whether it is over ``prange``; `target`: the variables that it has in
    the function.
    """

    index: str
    start: ast.expr
    stop: ast.expr
    step: ast.expr
    test: ast.expr | None
    body: Block
    until: str = ""
    count: str = ""
    resets: dict[str, str] = field(default_factory=dict)
    parallel: bool = False
    target: str = ""


Block = list[Statement]


@dataclass(eq=False)
class Function:
    """A lowered function.

    `ranks` and `kinds` are those of arguments and local arrays (rank 0: numbers); `constants` what names from outside
    stand for; `names` are all that are in use, with the functions that are imported; `called` says what a parameter of
    the function is called here; `results` the names returned, None for a function that returns
    nothing, and `form` how they are in tuples; `options` are for ``njit``. `doubtful` are arrays with what they are
    made of, whose kind must be that of the array, or else an error; `reused` are such whose names got new elements,
    which the array must hold; `copies` are copies with the names of the arrays that they stand for. `narrow` says that
    arguments are float32: what is calculated again, of numbers that were stored, may then differ in the last digits.
    `checked` says that indices are looked at before they are used.
    """

    name: str
    parameters: list[str]
    body: Block
    results: list[str] | None
    ranks: dict[str, int]
    kinds: dict[str, str]
    constants: dict[str, object]
    where: str
    names: Names
    form: Form = None
    called: dict[str, str] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)
    doubtful: list[tuple[str, list[ast.expr], Exception]] = field(default_factory=list)
    reused: list[tuple[str, ast.expr, Exception]] = field(default_factory=list)
    copies: dict[str, str] = field(default_factory=dict)
    narrow: bool = False
    checked: bool = True

    def explained(self, text: str) -> str:
        """`text`, with what copies in it are called in the function."""
        said = [f"{n} is {of}" for n, of in self.copies.items() if re.search(rf"\b{n}(_|\b)", text)]
        return f"{text} ({', '.join(said)})" if said else text

    @cached_property
    def written(self) -> list[str]:
        """The array parameters that are written. Every call asks."""
        names = {s.array for s in walk(self.body) if isinstance(s, Store)}
        swaps = [(s.first, s.second) for s in walk(self.body) if isinstance(s, Swap)]
        for _ in swaps:
            for pair in swaps:
                if names & set(pair):
                    names |= set(pair)
        return [p for p in self.parameters if p in names]


def parse(code: str) -> ast.expr:
    return ast.parse(code, mode="eval").body


@lru_cache(16_384)
def parsed(code: str) -> ast.expr:
    """The same, to be looked at and not to be changed."""
    return parse(code)


#: The texts of expressions and the names they read, once that is asked; no expression is changed after that.
_texts: WeakKeyDictionary[ast.AST, str] = WeakKeyDictionary()
_names: WeakKeyDictionary[ast.AST, frozenset[str]] = WeakKeyDictionary()


def unparse(node: ast.AST) -> str:
    """The text of an expression."""
    if isinstance(node, ast.Name):
        return node.id
    text = _texts.get(node)
    if text is None:
        text = _texts[node] = ast.unparse(node)
    return text


#: The fields of a node that may hold nodes, by its type, without contexts and operators.
_PARTS = {
    kind: tuple([name for name in kind._fields if name not in ("ctx", "op", "ops", "id", "arg", "attr", "kind")])
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and kind not in (ast.Constant, ast.Name)
}


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below, without contexts and operators."""
    found: list[ast.AST] = []
    for name in _PARTS.get(type(node), ()):
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [n for n in value if isinstance(n, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def subtrees(tree: ast.AST) -> list[ast.AST]:
    """All nodes, as from :func:`ast.walk`, which takes three times as long."""
    found = [tree]
    for node in found:
        found += children(node)
    return found


#: Python takes 100 levels of indentation, and what is generated may need a few more than the function.
_LEVELS = 92


def too_deep(tree: ast.FunctionDef) -> ast.stmt | None:
    """A statement with too many branches and loops around it for code that is made of it, if there is one."""
    stack: list[tuple[ast.stmt, int]] = [(s, 1) for s in tree.body]
    while stack:
        s, level = stack.pop()
        if level > _LEVELS:
            return s
        stack += [(n, level + 1) for n in children(s) if isinstance(n, ast.stmt)]
    return None


def duplicate(node: ast.AST) -> ast.AST:
    """A copy, of which nothing was asked."""
    made = type(node).__new__(type(node))  # its __init__ asks for all fields
    for name, value in vars(node).items():
        if isinstance(value, list):
            value = [duplicate(n) if isinstance(n, ast.AST) else n for n in value]
        setattr(made, name, duplicate(value) if isinstance(value, ast.AST) and value._fields else value)
    return made


def listed(parts: list[str], several: bool) -> str:
    """Code for one of them, or for a tuple."""
    return f"{', '.join(parts)}{',' * (several and len(parts) == 1)}"


def walk(block: Block) -> Iterator[Statement]:
    """All statements of `block` and of the blocks in it, in the order of the text."""
    stack = block[::-1]
    while stack:
        s = stack.pop()
        yield s
        if isinstance(s, If):
            stack += s.orelse[::-1]
            stack += s.body[::-1]
        elif isinstance(s, Loop):
            stack += s.body[::-1]


def below(s: Statement) -> list[Block]:
    """The blocks of a statement."""
    if isinstance(s, If):
        return [s.body, s.orelse]
    return [s.body] if isinstance(s, Loop) else []


def elements_in(node: ast.expr, array: str) -> list[ast.expr]:
    """The indices at which an expression reads `array`."""
    if array not in reads(node):
        return []
    return [n.slice for n in subtrees(node) if isinstance(n, ast.Subscript) and unparse(n.value) == array]


def reads(*nodes: ast.AST | None) -> set[str]:
    """The names whose values the expressions read. What is asked of an array's shape does not read its values."""
    found: set[str] = set()
    for node in nodes:
        if node is not None:
            if node not in _names:
                _names[node] = frozenset(_reads(node))
            found |= _names[node]
    return found


def _reads(expression: ast.AST) -> Iterator[str]:
    stack = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            continue  # an array's shape, or a module
        elif isinstance(node, ast.Call):
            length = isinstance(node.func, ast.Name) and node.func.id == "len" and isinstance(node.args[0], ast.Name)
            if not length:
                stack += [a for a in node.args if not isinstance(a, ast.Starred)]
        else:
            stack += children(node)


def writes(s: Statement) -> list[str]:
    """The names that a statement itself writes."""
    match s:
        case Assign():
            return [s.name]
        case Store():
            return [s.array]
        case Alloc():
            return [s.name]
        case Swap():
            return [s.first, s.second]
        case Call():
            return [*s.results, *s.sizes]
        case Loop() if s.index:
            return [s.index]
    return []


def uses(s: Statement) -> set[str]:
    """The names that a statement itself reads."""
    match s:
        case Assign():
            return reads(s.value)
        case Store():
            return reads(s.index, s.value)
        case Alloc():
            return reads(s.value)
        case Grow():
            return reads(s.size)
        case Call():
            return reads(*s.given)
        case If() | Check():
            return reads(s.test, *getattr(s, "given", ()))
        case Within():
            return reads(s.index, s.size)
        case Loop():
            return reads(s.start, s.stop, s.step, s.test) | {n for n in (s.until, s.count, *s.resets.values()) if n}
    return set()


def mentioned(s: Statement) -> set[str]:
    """The names that a statement itself reads or writes, and those of arrays for whose shapes it asks."""
    return {*writes(s), *uses(s), *reads(*getattr(s, "shape", ()))}


def mentions(s: Statement, name: str) -> bool:
    """Whether a name is among those."""
    return name in writes(s) or name in uses(s) or any(name in reads(n) for n in getattr(s, "shape", ()))


class Put(ast.NodeTransformer):
    """Puts expressions in the places of names."""

    def __init__(self, names: dict[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.names.get(node.id, node)


def touched(block: Block, of: Callable[[Statement], set[str]]) -> dict[Statement, set[str]]:
    """What `of` gives for each statement, together with those in its blocks."""
    found: dict[Statement, set[str]] = {}
    for s in block:
        found[s] = of(s)
        for inner in below(s):
            found |= touched(inner, of)
            found[s] = found[s].union(*(found[t] for t in inner))
    return found


def changed(loop: Loop) -> set[str]:
    """The names that a loop writes."""
    return {n for s in walk([loop]) for n in writes(s)}
