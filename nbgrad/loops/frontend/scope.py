"""What names stand for while a function is lowered: numbers, arrays and parts of them, tuples, functions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..ir.affine import length, offset, plus
from ..ir.names import RESERVED, Names, bound_to, first_name
from ..ir.statements import (
    Alloc,
    Assign,
    Block,
    Call,
    Function,
    Like,
    Put,
    Statement,
    children,
    parse,
    parsed,
    reads,
    subtrees,
    unparse,
    walk,
    writes,
)
from .live_range_splitting import Mixed, meanings
from .source import Source, source_of
from .views import ZERO, Axis, View

if TYPE_CHECKING:
    from .array_expressions import Tree
    from .lowering import Lowering

__all__ = ["Pack", "Scope", "stored_names"]


UNCERTAIN = object()  # one function or another, or None or not


@dataclass(frozen=True)
class Pack:
    """A tuple. Its items are names of numbers, views, other tuples, and, with a dot, arrays by a name of their own;
    `of` is its type."""

    items: tuple[str | View | Pack, ...]
    of: type = tuple

    @property
    def fields(self) -> tuple[str, ...]:
        return getattr(self.of, "_fields", ())


@dataclass
class Shared:
    """What one lowering shares with those of the functions that are lowered into it."""

    made: Function
    names: Names
    sizes: dict[str, list[ast.expr]] = field(default_factory=dict)  # of arrays, along each axis
    looks: dict[str, str] = field(default_factory=dict)  # kinds of local arrays as they were made, "" if not known
    reshaped: dict[str, View] = field(default_factory=dict)  # what arrays of other shapes are made of
    dtypes: dict[str, str] = field(default_factory=dict)  # code for the dtypes of local arrays
    wide: frozenset[str] = frozenset()  # parameters of float64, where others are float32
    hoisted: set[str] = field(default_factory=set)  # arrays made inside of loops, once for all turns
    roomy: set[str] = field(default_factory=set)  # those of them with room for more elements than they may have
    ruled: set[str] = field(default_factory=set)  # arrays made by primitives with rules of their own
    ranges: dict[str, tuple[ast.expr, ast.expr]] = field(default_factory=dict)  # of loop variables: least, largest
    known: dict[str, ast.expr] = field(default_factory=dict)  # integers that are made of what never changes
    again: set[str] = field(default_factory=set)  # those of them that turns of loops set
    bound: list[str] = field(default_factory=list)  # loop variables in scope
    most: dict[str, ast.expr] = field(default_factory=dict)  # what lengths of arrays do not exceed
    parts: dict[str, ast.expr] = field(default_factory=dict)  # by lengths of parts of arrays, those of the arrays
    copies: set[str] = field(default_factory=set)  # arrays that stand for a parameter that is given new arrays
    parallel: bool = False  # whether a loop over prange is being lowered
    apart: set[str] = field(default_factory=set)  # names whose meanings have names of their own
    moving: set[str] = field(default_factory=set)  # parameters that are written, and then stand for other arrays
    still: bool = False  # whether arrays of the caller's never change places
    sources: dict[Callable, Source] = field(default_factory=dict)  # of functions that are called
    top: Block | None = None  # the outermost block
    current: list[ast.stmt] = field(default_factory=list)  # what is being lowered of it, and what follows

    def source_of(self, function: Callable) -> Source:
        """The source of a function that is called, each time."""
        plain: Any = getattr(function, "py_func", function)
        if plain not in self.sources:
            self.sources[plain] = source_of(function)
        return self.sources[plain]


class Scope:
    """The names of one function.

    `rename` gives the names of its numbers in the result: those of an inlined function are made apart. `arrays`,
    `tuples` and `functions` say what else names stand for at the place that has been reached; `lost` are arrays that
    a name may stand for or not, with what to write instead.
    """

    def __init__(self, source: Source, shared: Shared, outer: Lowering | None, around: Lowering | None) -> None:
        self.source = source
        self.shared = shared
        self.made, self.names = shared.made, shared.names
        self.outer = outer
        self.around = around  # of the function whose variables this one sees
        self.inlined = outer is not None
        self.rename: dict[str, str] = {}
        self.arrays: dict[str, View] = {}
        self.owners: dict[str, str] = {}  # the array that was made for a name
        self.tuple_with: dict[str, str] = {}  # what arrays in tuples are known by, and the name of the tuple
        self.tuples: dict[str, Pack] = {}
        self.functions: dict[str, object] = {}
        self.lost: dict[str, str] = {}
        self.texts: dict[str, object] = {}  # parameters that stand for a text, or for None
        self.given: set[str] = set()  # the numbers that are parameters
        self.memories: list[View] = []  # arrays of the caller's that change places, by numbers,
        self.places: dict[str, str] = {}  # and the numbers that say which arrays would be in their memory
        self.out: Block = []
        self.outermost: Block | None = None  # of this function
        self.line = ""
        arguments = source.node.args
        parameters = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        self.stores = stored_names(source.node.body)
        self.locals = {*self.stores, *parameters}
        self.straight: bool = outer is None or (outer.straight and outer.in_top)  # it runs once

    def mixed(self, name: str) -> None:
        """Begin anew with several names instead of this one, if that can tell apart what it stands for."""
        if name not in self.shared.apart and meanings(self.source.node, name) > 1:
            raise Mixed(name)

    @property
    def in_top(self) -> bool:
        """Whether what is lowered now runs once, before what follows."""
        return self.out is self.outermost

    # Statements that are made.

    def emit(self, s: Statement, final: bool = True) -> None:
        """Write a statement; `final`: a number that it sets keeps its value."""
        s.line, self.line = self.line, ""
        self.out.append(s)
        if isinstance(s, Assign) and final:
            self.learn(s)

    def learn(self, s: Assign) -> None:
        """Remember integers that are made of sizes and of parameters that never change."""
        mine = [n for n in self.stores if self.rename.get(n, "") == s.name]
        if len(mine) + (s.name in self.given) > 1 or s.name in self.shared.bound:
            return
        found = Put(self.shared.known).visit(parse(unparse(s.value)))
        if all(isinstance(n, _SIMPLE) for n in subtrees(s.value)) and all(self.fixed(n) for n in reads(found)):
            self.shared.known[s.name] = found
            if not (self.straight and self.in_top):
                self.shared.again.add(s.name)
        elif self.nonnegative(found):  # perhaps a length
            most = self.at_most(found)
            if most is not None:
                self.shared.most[s.name] = most

    def steady(self, bound: ast.expr) -> ast.expr:
        """The bound of a loop without numbers that a loop around it sets, each time to the same."""
        known = {n: self.shared.known[n] for n in self.shared.again}
        return Put(known).visit(parse(unparse(bound))) if known else bound

    def fixed(self, name: str) -> bool:
        """Whether `name` is a number that has one value throughout."""
        root: Scope = self
        while root.outer is not None:
            root = root.outer
        made = self.made
        set_again = {root.rename.get(n, n) for n in root.stores}
        parameter = name in made.parameters and not made.ranks.get(name) and name not in set_again
        return parameter or (name in made.constants) or name in RESERVED

    def number(self, name: str, value: ast.expr, final: bool = True) -> str:
        """A new variable; not `final`: it is set again."""
        made = self.names.fresh(name)
        self.made.ranks[made] = 0
        self.emit(Assign(made, value), final)
        return made

    # Names.

    def local(self, node: ast.Name) -> str:
        """What a number, or an array made here, is called in the result."""
        name = node.id
        if name not in self.locals and self.around is not None:
            return self.around.local(node)
        if name not in self.rename:
            taken = self.inlined or name in RESERVED
            self.rename[name] = self.names.fresh(name, of_theirs=True) if taken else name
        return self.rename[name]

    def known_here(self, name: str) -> bool:
        return name in self.locals or (self.around is not None and self.around.known_here(name))

    def array(self, node: ast.expr) -> View | None:
        """The array or part of one that a name stands for."""
        if not isinstance(node, ast.Name):
            return None
        if node.id not in self.locals:
            return self.around.array(node) if self.around is not None else None
        if node.id in self.lost:
            raise self.source.refuse(
                node, f"the array {node.id}, whose name may stand for another one", self.lost[node.id]
            )
        return self.arrays.get(node.id)

    def tuple_of(self, node: ast.expr) -> Pack | None:
        if not isinstance(node, ast.Name):
            return None
        if node.id not in self.locals and self.around is not None:
            return self.around.tuple_of(node)
        return self.tuples.get(node.id)

    def function_of(self, node: ast.expr) -> object:
        """What is called: a function from outside, one that was defined inside, or one that was passed."""
        if isinstance(node, ast.Name) and bound_to(node) is None:
            found = self.functions.get(node.id)
            if found is UNCERTAIN:
                raise self.source.refuse(
                    node, f"the function {node.id}, which may be another one", "call each by its name"
                )
            if found is not None:
                return found
            if node.id in self.locals:
                return None
            if self.around is not None:
                return self.around.function_of(node)
        return self.resolve(node)

    def resolve(self, node: ast.expr) -> object:
        """What a name, or an attribute of a module, from outside stands for; None for those of the function."""
        return None if bound_to(node) is None and self.known_here(first_name(node)) else self.source.resolve(node)

    def base(self, name: str) -> str:
        """The name in the function, of a variable or an item of it."""
        return self.tuple_with.get(name, name)

    def is_item(self, name: str) -> bool:
        return name in self.tuple_with or (self.around is not None and self.around.is_item(name))

    def bind(self, name: str, view: View) -> None:
        self.texts.pop(name, None)
        self.arrays[name] = view
        self.lost.pop(name, None)

    def all_of(self, name: str) -> View:
        return View(name, tuple(Axis(ZERO, n) for n in self.size(name)), tuple(range(self.made.ranks[name])))

    def size(self, name: str) -> list[ast.expr]:
        """Code for the lengths of an array."""
        if name not in self.shared.sizes:
            rank = self.made.ranks[name]
            self.shared.sizes[name] = [parse(f"{name}.shape[{d}]") for d in range(rank)]
        return self.shared.sizes[name]

    def root(self, name: str) -> str:
        """The array whose elements those of `name` are."""
        while name in self.shared.reshaped:
            name = self.shared.reshaped[name].name
        return name

    def is_whole(self, view: View) -> bool:
        return view.name not in self.shared.reshaped and view.whole(self.size(view.name))

    def nonnegative(self, node: ast.expr) -> bool:
        name, k = offset(node)
        if not name:
            return k >= 0
        if name in self.shared.most:  # a length
            return k >= 0
        if name in self.shared.ranges:
            return self.nonnegative(plus(self.shared.ranges[name][0], k))
        if name in self.shared.known and unparse(self.shared.known[name]) != name:
            return self.nonnegative(plus(self.shared.known[name], k))
        match parsed(name):
            case ast.Call(func=ast.Name(id="max"), args=args):
                return k >= 0 and any(map(self.nonnegative, args))
            case ast.Call(func=ast.Name(id="min"), args=args):
                return k >= 0 and all(map(self.nonnegative, args))
            case ast.BinOp(left=left, op=ast.Add() | ast.Mult() | ast.FloorDiv(), right=right):
                return k >= 0 and self.nonnegative(left) and self.nonnegative(right)
            case ast.BinOp(op=ast.Mod(), right=divisor):
                return k >= 0 and self.nonnegative(divisor)
        return k >= 0 and length(parsed(name))

    def exceeds(self, a: ast.expr, b: ast.expr) -> bool:
        """Whether a > b for sure."""
        name, k = offset(a)
        other, j = offset(b)
        if name == other:
            return k > j
        if name in self.shared.ranges:
            return self.exceeds(plus(self.shared.ranges[name][0], k), b)
        if other in self.shared.ranges:
            return self.exceeds(a, plus(self.shared.ranges[other][1], j))
        return False

    def at_most(self, node: ast.expr) -> ast.expr | None:
        """Code for a number that `node` does not exceed, made of what does not change."""
        node = Put(self.shared.known).visit(parse(unparse(node)))
        if all(self.fixed(n) for n in reads(node)):
            return node
        name, k = offset(node)
        whole = self.shared.parts.get(unparse(node))
        if whole is not None and unparse(whole) != unparse(node):
            return self.at_most(whole)
        if name in self.shared.most:
            return plus(self.shared.most[name], k)
        if name in self.shared.ranges:
            return self.at_most(plus(self.shared.ranges[name][1], k))
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                parts = [self.at_most(left), self.at_most(right)]
                return ast.BinOp(parts[0], ast.Add(), parts[1]) if all(parts) else None  # type: ignore[arg-type]
            case ast.BinOp(left=left, op=ast.Mult(), right=right) if self.nonnegative(left) and self.nonnegative(right):
                parts = [self.at_most(left), self.at_most(right)]
                return ast.BinOp(parts[0], ast.Mult(), parts[1]) if all(parts) else None  # type: ignore[arg-type]
            case ast.BinOp(left=left, op=ast.Sub(), right=right) if self.nonnegative(right):
                return self.at_most(left)
            case ast.Call(func=ast.Name(id="max"), args=args):
                parts = [self.at_most(n) for n in args]
                return ast.Call(node.func, parts, []) if all(parts) else None  # type: ignore[arg-type]
            case ast.Call(func=ast.Name(id="min"), args=args):
                return next((n for n in map(self.at_most, args) if n is not None), None)
            case ast.Call(func=ast.Name(id="len"), args=[ast.Call(args=[start, stop, _])]) if self.nonnegative(start):
                return self.at_most(stop)
        return None

    # Blocks.

    @contextmanager
    def inside(self) -> Iterator[None]:
        """While a branch or a loop is lowered."""
        before, copies, functions = dict(self.arrays), set(self.shared.copies), dict(self.functions)
        texts = set(self.texts)
        yield
        self.texts |= dict.fromkeys(texts - set(self.texts), UNCERTAIN)
        for name in {n for n, f in self.functions.items() if functions.get(n) is not f}:
            self.functions[name] = UNCERTAIN
        self.shared.copies |= copies
        for name, view in list(self.arrays.items()):
            if before.get(name) == view:
                continue
            owner = self.owners.get(name)
            if owner is not None and view.name == owner and name not in before:
                continue  # made here; it stays
            del self.arrays[name]
            self.lost[name] = "give it this name only where it is used, or write a[:] = ... into an array made before"

    def enter(self, stored: set[str]) -> None:
        """What is bound to another array somewhere in a loop is not certain when a turn begins."""
        moved = {self.owners[n] for n in stored if n in self.owners}
        for name, view in list(self.arrays.items()):
            if self.owners.get(name) != view.name and (self.base(name) in stored or self.root(view.name) in moved):
                del self.arrays[name]
                self.lost[name] = "copy it (.copy()), or give it this name in the loop, before it is used"
        for name in stored & set(self.texts):
            self.texts[name] = UNCERTAIN
        for name in stored & set(self.functions):
            self.functions[name] = UNCERTAIN

    def forget(self, name: str) -> None:
        """The array `name` gets new values, as if it were another one: names for parts of it stand for the old one."""
        for n, view in list(self.arrays.items()):
            if self.root(view.name) == name and self.owners.get(n) != name:
                del self.arrays[n]
                self.lost[n] = "copy it (.copy()) before the other one changes"

    # Arrays.

    def dtype_of_floats(self, names: Iterable[str]) -> str:
        """Code for the dtype that what is made of these arrays of floats has. Arguments have one dtype, or it is known
        which of them are float64."""
        codes = dict.fromkeys(self.shared.dtypes.get(n, f"{n}.dtype") for n in names)
        if len(codes) > 1:
            codes.pop("np.float32", None)
        given = {f"{p}.dtype": p in self.shared.wide for p in self.made.parameters}
        if len(codes) > 1 and not codes.keys() <= given.keys():
            return "np.float64"
        return max(codes, key=lambda code: given.get(code, False), default="np.float64")

    def look(self, tree: Tree) -> str:
        """The kind of the elements of `tree`, or "" where that is not known yet."""
        raise NotImplementedError

    def allocate(
        self, name: str, node: ast.AST, shape: list, kind: str | Like, dtype: str, like: str = "", line: str = ""
    ) -> None:
        """Make an array; one made inside of a loop or branch is made once, at the top of the function.

        `kind` is "" where it is that of what is stored into it; `dtype` then is its dtype if these are floats.
        """
        looks = self.shared.looks
        if not kind or (isinstance(kind, Like) and kind.name in looks):
            looks.setdefault(name, looks[kind.name] if isinstance(kind, Like) else "")
        dtype = self.shared.dtypes[name] = self.shared.dtypes.get(like, dtype) if like else dtype
        once = self.straight and self.in_top
        if not once:
            shape = [Put(self.shared.known).visit(parse(unparse(n))) for n in shape]
        if once or all(map(self.settled, shape)):
            texts = [unparse(Put(self.shared.known).visit(parse(unparse(n)))) for n in shape]
            ahead = self.out is not self.shared.top  # in a function that is called: what loops make is made before
            short = [(".shape[" in t[-12:] and " " not in t) or (ahead and self.settled(parse(t))) for t in texts]
            self.shared.sizes[name] = [
                parse(t if s else f"{name}.shape[{d}]") for d, (t, s) in enumerate(zip(texts, short, strict=True))
            ]
        else:
            # As large as it can become; how many elements it has now are numbers of their own.
            most = [self.at_most(n) for n in shape]
            if not all(n is not None and self.settled(n) for n in most):
                lengths = {n for n, most in self.shared.most.items() if unparse(most) == n}  # of a primitive's results
                given = bool(lengths & {unparse(n) for n in shape})
                raise self.source.refuse(
                    node,
                    "a new array in a loop or branch, whose size is not known before it",
                    "make it at the beginning" + given * ", or give the primitive that it comes from an infer",
                )
            self.shared.sizes[name] = [
                n if self.settled(n) else ast.Name(self.number("size", n), ast.Load()) for n in shape
            ]
            for n, bound in zip(self.shared.sizes[name], most, strict=True):
                if isinstance(n, ast.Name) and bound is not None:
                    self.shared.most[n.id] = bound
            shape = most
            self.shared.roomy.add(name)
        certain = [n if once or self.nonnegative(n) else parse(f"max({unparse(n)}, 0)") for n in shape]
        sizes = ", ".join(unparse(n) for n in certain)
        text = f"np.empty(({sizes}), {dtype})" if len(shape) > 1 else f"np.empty({sizes}, {dtype})"
        made = Alloc(name, parse(text), len(shape), like, kind, certain)
        guessed = self.made.kinds[kind.name] if isinstance(kind, Like) else kind or "float"
        self.made.ranks[name], self.made.kinds[name] = len(shape), guessed
        if once:
            made.line = line
            self.out.append(made)
            return
        assert self.shared.top is not None
        self.shared.top.append(made)
        self.shared.hoisted.add(name)

    def settled(self, size: ast.expr) -> bool:
        """Whether a size has its value already before the statement of the outermost block that is being lowered."""
        used = {n.id for n in subtrees(size) if isinstance(n, ast.Name)} - RESERVED
        before = {*self.made.parameters, *self.made.constants}
        before |= {n for s in walk(self.shared.top or []) if isinstance(s, Assign | Alloc | Call) for n in writes(s)}
        numbers = {n for n in used if not self.made.ranks.get(n)}
        return used <= before and not numbers & set(stored_names(self.shared.current))


_SIMPLE = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Subscript, ast.Call, ast.Load,
           ast.operator, ast.unaryop)  # fmt: skip


def stored_names(body: list[ast.stmt], added: bool = True) -> list[str]:
    """The names that statements set, once for each time; not those of functions inside, and with `added`, those that
    are added to and the like, too, which are the same arrays as before."""
    found: list[str] = []
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.AugAssign) and not added:
            continue
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append(node.id)
        elif isinstance(node, ast.comprehension):  # its variables are its own
            stack += [node.iter, *node.ifs]
        elif not isinstance(node, ast.Lambda):
            stack += children(node)
    return found
