"""The lowering itself: statements with jumps, calls and tuples become those of :mod:`.ir`."""

from __future__ import annotations

import ast
from typing import Any

from ...core.source_text import identifier
from ..ir.names import RESERVED, Names, all_names, known, normal, outside_names
from ..ir.statements import Assign, Block, Check, Function, If, Look, Swap, parse, subtrees, unparse, walk
from ..ir.structured_control import ends, jumps, located, own_returns, runs_off
from ..runtime.index_errors import NAME, outside
from ..runtime.tape_memory import in_large_pages
from .array_expressions import Chosen, Leaf, Scalar, Several, Tree, copied, leaves
from .assignments import Storing
from .expressions import Done
from .iteration import Iteration
from .live_range_splitting import Mixed
from .numpy_library import refused
from .partial_evaluation import decided
from .reshaping import resolved
from .scope import Pack, Shared
from .source import Source
from .tuple_arguments import Fixed, Form

__all__ = ["lower"]


def lower(
    source: Source,
    ranks: dict[str, int],
    kinds: dict[str, str],
    still: bool = False,
    wide: frozenset[str] = frozenset(),
) -> Function:
    """The function in `source` for arguments of these ranks and kinds; `still`: copies of the arguments change places,
    not they; `wide`: the arrays of float64 among arguments of which others are float32."""
    apart: set[str] = set()
    moving: set[str] = set()
    while True:
        try:
            return _lowered(source, ranks, kinds, apart, moving, still=still, wide=wide)
        except Mixed as err:
            (moving if err.moving else apart).add(err.name)


def _lowered(
    source: Source, ranks: dict[str, int], kinds: dict[str, str], apart: set[str], moving: set[str], **given: Any
) -> Function:
    """The same, where each thing that a name in `apart` stands for has a name of its own, and copies of parameters in
    `moving` are written."""
    source = source.separated(apart)
    where = f"{source.file}, line {source.first + 1}"
    names = Names({*all_names(source.node), *ranks}, outside_names(source.node))
    own = {p: names.fresh(p) if p in RESERVED else normal(p) for p in ranks}
    ranks, kinds = {own[p]: n for p, n in ranks.items()}, {own[p]: kind for p, kind in kinds.items()}
    name = identifier(source.name)
    made = Function(name, list(ranks), [], None, ranks, kinds, {}, where, names, None, own, source.options)
    given["wide"] = frozenset(own[p] for p in given["wide"])
    given |= {"apart": apart, "moving": moving, "sources": dict(source.called)}
    lowering = Lowering(source, Shared(made, names, **given), None, None)
    for p, name in own.items():
        lowering.rename[p] = name
        lowering.given.add(name)
        if made.ranks[name]:
            lowering.bind(p, lowering.all_of(name))
            lowering.owners[p] = name
    for p, pack in source.packs.items():
        if isinstance(pack, Fixed):
            lowering.texts[p] = pack.value
        elif isinstance(pack, list):
            lowering.tuples[p] = lowering.given_pack(pack)
    made.body = lowering.function()
    made.results, made.form = lowering.flat_results(), _form(lowering.result)
    if lowering.shared.roomy.intersection(made.results or []):
        raise source.refuse(
            source.node,
            "an array that is returned in a loop or branch, whose length is not known before it",
            "return at the end, or fill an array that is made at the beginning, and return its length, too",
        )
    written = resolved(made, lowering.shared.reshaped, lowering.shared.sizes) if lowering.shared.reshaped else ""
    if written:
        raise source.refuse(source.node, f"the array {written}, which is reshaped and written", "copy it before")
    swapped = {n for s in walk(made.body) if isinstance(s, Swap) for n in (s.first, s.second)}
    if swapped & lowering.shared.hoisted:
        raise source.refuse(source.node, "an array made in a loop that changes places", "make it before the loop")
    return made


class Lowering(Storing, Iteration):
    """Lowers one function; calls of others are lowered into it by a Lowering of their own."""

    def __init__(self, source: Source, shared: Shared, outer: Lowering | None, around: Lowering | None) -> None:
        super().__init__(source, shared, outer, around)
        self.within = (*(outer.within if outer else ()), source.place)
        self.result: Tree | None = None
        self.results: set[str] = set()  # arrays that were made for what different returns give
        self.returns = sum(isinstance(n, ast.Return) for n in subtrees(source.node))
        self.returned = ""
        self.stops: list[str] = []  # the flag of each enclosing loop, "" until wanted
        self.gone: list[list[str]] = [[]]  # per enclosing loop, flags of branches that may be left by a jump

    def lowering(self, source: Source, around: object) -> Lowering:
        return Lowering(source, self.shared, self, around)  # type: ignore[arg-type]

    def given_pack(self, pack: list) -> Pack:
        """A tuple that is a parameter, of those that have its items."""
        items = (
            self.given_pack(n)
            if isinstance(n, list)
            else self.all_of(self.made.called[n])
            if self.made.ranks[self.made.called[n]]
            else self.made.called[n]
            for n in pack[1:]
        )
        return Pack(tuple(items), pack[0])

    # Statements.

    def function(self) -> Block:
        body = self.source.node.body
        if any(isinstance(n, ast.Return) for s in body for loop in subtrees(s) if isinstance(loop, ast.For | ast.While)
               for n in subtrees(loop)):  # fmt: skip
            self.returned = self.names.fresh("returned")
            self.made.ranks[self.returned] = 0
        self.separate(body)
        return self.block(body, first=True)

    def block(self, statements: list[ast.stmt], first: bool = False) -> Block:
        """Lower `statements`; what follows a jump goes into the branch that does not jump."""
        saved, self.out = self.out, []
        if first:
            self.outermost = self.out
            if self.outer is None:
                self.shared.top, self.shared.current = self.out, statements
            if self.returned:
                self.emit(Assign(self.returned, ast.Constant(False)), final=False)
            self.copy_parameters()
            if self.returns_values() and runs_off(statements):
                text = ast.Constant(f"{self.source.name}: the end is reached, and nothing is returned")
                error = ast.Raise(ast.Call(known(ValueError, "ValueError"), [text], []))
                statements = [*statements, located(error, statements[-1])]
            elif (self.memories or (not self.inlined and self.shared.moving)) and not ends(statements):
                statements = [*statements, ast.copy_location(ast.Return(), statements[-1])]
        k, statements = -1, list(statements)
        while (k := k + 1) < len(statements):
            s = statements[k]
            holds = decided(self, s.test) if isinstance(s, ast.If) else None
            if holds is not None:
                statements[k : k + 1] = s.body if holds else s.orelse  # type: ignore[attr-defined]
                k -= 1
                continue
            rest = statements[k + 1 :]
            if self.out is self.shared.top:
                self.shared.current = statements[k:]
            self.line = self.source.lines[s.lineno - 1].strip()
            self.here = statements, k
            if self.in_top and isinstance(s, ast.For | ast.While | ast.If):
                self.copy_later(s)
            begun = len(self.out)
            last = self.last(s, rest)
            if not last:
                self.statement(s)
            self.mark(s, self.out[begun:])
            if last:
                break
        made, self.out = self.out, saved
        return made

    def last(self, s: ast.stmt, rest: list[ast.stmt]) -> bool:
        """Whether `s` is a jump, or one with jumps in it, which was lowered together with the `rest` of its block."""
        if isinstance(s, ast.Continue | ast.Break | ast.Return):
            self.jump(s)
        elif isinstance(s, ast.If) and jumps(s) and ends(s.body):
            self.branch(s, s.body, [*s.orelse, *rest])
        elif isinstance(s, ast.If) and jumps(s) and ends(s.orelse):
            self.branch(s, [*s.body, *rest], s.orelse)
        elif isinstance(s, ast.If | ast.For | ast.While) and rest and self.leaves(s):
            self.leaving(s, rest)
        else:
            return False
        return True

    def mark(self, s: ast.stmt, made: Block) -> None:
        """Note from which line of the user's statements come: in functions of the library, that which calls them."""
        for t in made:
            t.place = t.place or self.place_of(s)

    def leaves(self, s: ast.stmt) -> bool:
        """Whether what follows `s` may be skipped."""
        inside = any(isinstance(n, ast.Return) for n in subtrees(s) if not isinstance(n, ast.FunctionDef))
        return (isinstance(s, ast.If) and jumps(s)) or bool(self.returned and inside)

    def leaving(self, s: ast.stmt, rest: list[ast.stmt]) -> None:
        """A statement with jumps that may also run on, and then, if it did, the rest."""
        tests = [self.returned] if self.returned and any(isinstance(n, ast.Return) for n in subtrees(s)) else []
        if isinstance(s, ast.If) and jumps(s):
            flag = self.names.fresh("gone")
            self.made.ranks[flag] = 0
            self.out.append(Assign(flag, ast.Constant(False)))
            self.gone[-1].append(flag)
            self.statement(s)
            self.gone[-1].remove(flag)
            tests.insert(0, flag)
        else:
            self.statement(s)
        text = f"not {tests[0]}" if len(tests) == 1 else f"not ({' or '.join(tests)})"
        above, self.above = self.above, ()
        with self.inside():
            inner = self.block(rest)
        self.above = above
        self.out.append(If(parse(text), inner, []))

    def jump(self, s: ast.stmt) -> None:
        if isinstance(s, ast.Return):
            self.give_back(s)
        for flag in self.gone[-1]:
            self.emit(Assign(flag, ast.Constant(True)), final=False)
        if isinstance(s, ast.Return) and self.stops:
            self.emit(Assign(self.returned, ast.Constant(True)), final=False)
            for k, stop in enumerate(self.stops):
                if stop and stop != self.returned:
                    self.emit(Assign(stop, ast.Constant(True)), final=False)
                self.stops[k] = stop or self.returned
        elif isinstance(s, ast.Break):
            self.emit(Assign(self.stops[-1], ast.Constant(True)), final=False)

    # Results.

    def give_back(self, s: ast.Return) -> None:
        previous, self.only = self.result, s.value
        found = None
        if s.value is not None and not (isinstance(s.value, ast.Constant) and s.value.value is None):
            found = self.kept(s.value, self.tree(s.value), previous, set())
        if self.returned_before and not _alike(found, previous):
            raise self.source.refuse(
                s, "returns of different form", "return the same arrays, and as many numbers, everywhere"
            )
        self.put_back()
        self.result, self.returned_before = found, True

    returned_before = False

    def returns_values(self) -> bool:
        """Whether the function gives back anything, somewhere."""
        found = [n.value for n in own_returns(self.source.node)]
        return any(v is not None and not (isinstance(v, ast.Constant) and v.value is None) for v in found)

    def kept(
        self, node: ast.expr, tree: Tree, previous: Tree | None, taken: set[str], path: tuple[int, ...] = ()
    ) -> Tree:
        """What is returned, by names that keep it."""
        if isinstance(tree, Several):
            befores = previous.items if isinstance(previous, Several) else []
            nodes = node.elts if isinstance(node, ast.Tuple) else [node] * len(tree.items)
            made = [self.kept(n, t, befores[k] if k < len(befores) else None, taken, (*path, k))
                    for k, (n, t) in enumerate(zip(nodes, tree.items, strict=True))]  # fmt: skip
            return Several(made, tree.of)
        if tree.rank:
            if isinstance(tree, Chosen) and self.owns(tree):
                tree = copied(tree)  # nobody writes it afterwards
            view = self.view_of(tree, node, "result")
            own = not isinstance(tree, Leaf) or tree.fresh or view.name in self.owners.values()
            if self.returns > 1 and (own or not self.inlined) and self.varies(path):
                if isinstance(previous, Leaf) and previous.view.name in self.results:
                    self.write(node, previous.view, Leaf(view))
                    return previous
                view = self.copy_of(view, node, self.names.fresh("result"))
                self.results.add(view.name)
            elif not self.inlined and (
                not self.is_whole(view)
                or view.name in self.shared.roomy
                or view.name in taken
                or view.name in self.made.constants
            ):
                view = self.copy_of(view, node, self.names.fresh("result"))
            taken.add(view.name)
            return Leaf(view)
        assert isinstance(tree, Scalar)
        name = previous.node.id if isinstance(previous, Scalar) else ""  # type: ignore[attr-defined]
        given = tree.node.id if isinstance(tree.node, ast.Name) else ""
        if not name:
            mine = given and (not self.inlined or self.returns == 1) and not self.returned
            mine = mine and given not in taken and given not in self.made.constants and given not in self.shared.bound
            name = given if mine else self.names.fresh("result")
        if name != given:
            self.made.ranks[name] = 0
            self.emit(Assign(name, tree.node), final=self.returns == 1)
        taken.add(name)
        return Scalar(ast.Name(name, ast.Load()))

    def owns(self, tree: Tree) -> bool:
        """Whether the arrays in `tree` are of this function alone."""
        mine = self.owners.values()
        return not self.inlined or all(self.root(t.view.name) in mine for t in leaves(tree) if isinstance(t, Leaf))

    def varies(self, path: tuple[int, ...]) -> bool:
        """Whether returns differ in what they give at a place in the result."""
        found = set()
        for node in (n.value for n in subtrees(self.source.node) if isinstance(n, ast.Return)):
            if node is None:
                continue
            for k in path:
                node = node.elts[k] if isinstance(node, ast.Tuple) and k < len(node.elts) else node
            found.add(unparse(node))
        return len(found) > 1

    def flat_results(self) -> list[str] | None:
        """The names returned by the function itself."""
        if self.result is None:
            return None
        stack, names = [self.result], []
        while stack:
            tree = stack.pop(0)
            if isinstance(tree, Scalar):
                names.append(tree.node.id)  # type: ignore[attr-defined]
            elif isinstance(tree, Leaf):
                names.append(tree.view.name)
            else:
                stack = [*tree.items, *stack]  # type: ignore[attr-defined]
        return names

    # One statement.

    def branch(self, s: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        test = self.test(s.test)
        line, self.line = self.line, ""
        above, self.above = self.above, (*self.above, self.here)
        with self.inside():
            first = self.block(body)
        with self.inside():
            second = self.block(orelse)
        self.above = above
        self.out.append(If(test, first, second, line=line))

    def test(self, node: ast.expr) -> ast.expr:
        self.walrus_in = self.only = node
        return self.value(node)

    walrus_in: ast.expr | None = None

    def walrus(self, node: ast.NamedExpr) -> str:
        name = node.target.id
        again = [n for n in subtrees(self.walrus_in or node) if isinstance(n, ast.Name) and n.id == name]
        if self.walrus_in is None or len(again) > 1:
            return super().walrus(node)
        self.assign(ast.copy_location(ast.Assign([node.target], node.value), node), node.target, node.value)
        return self.local(node.target)

    def statement(self, s: ast.stmt) -> None:
        self.only = None
        self.walrus_in = None
        match s:
            case ast.AnnAssign() if s.value is not None:
                self.assign(s, s.target, s.value)
            case ast.Assign(targets=[ast.Name(id=first) as target, *others]):
                self.assign(s, target, s.value)
                for other in others:
                    self.assign(s, other, ast.copy_location(ast.Name(first, ast.Load()), s))
            case ast.Assign(targets=[target]):
                self.assign(s, target, s.value)
            case ast.Assign():
                if not all(isinstance(t, ast.Subscript) for t in s.targets):
                    raise self.source.refuse(s, "several targets", "put the name first, or write one per line")
                value = ast.copy_location(Done(self.apart(s, self.tree(s.value))), s)
                for target in s.targets:
                    self.assign(s, target, value)
            case ast.AugAssign():
                self.augmented(s)
            case ast.For() | ast.While():
                above, self.above = self.above, ()
                self.loop(s)
                self.above = above
            case ast.If():
                self.branch(s, s.body, s.orelse)
            case ast.Assert():
                self.emit(Check(ast.UnaryOp(ast.Not(), self.test(s.test)), _text(s.msg), "AssertionError"))
            case ast.Raise():
                self.error(s)
            case ast.FunctionDef():
                self.functions[s.name] = self.defined(s.name, s)
            case ast.Expr(value=ast.Call() as call):
                self.effect(call)

    def error(self, s: ast.Raise) -> None:
        call = s.exc
        kind = call.func if isinstance(call, ast.Call) else call
        found = self.source.resolve(kind) if kind is not None else None
        if not (isinstance(found, type) and issubclass(found, Exception) and found.__module__ == "builtins"):
            raise self.source.refuse(s, "this error", "raise one of Python's, with a text")
        text = _text(call.args[0]) if isinstance(call, ast.Call) and call.args else ""
        self.emit(Check(ast.Constant(True), text, found.__name__))

    def effect(self, call: ast.Call) -> None:
        """A call for what it writes."""
        called = self.function_of(call.func)
        if called is in_large_pages:
            return
        if called is outside:  # of what was generated
            doubt, program, given = call.args
            items = self.items_in(self.tree(given)) or []
            names = (t.node if isinstance(t, Scalar) else ast.Name(self.view_of(t, call, "").name) for t in items)
            self.names.imported(NAME, outside)
            self.emit(Look(self.test(doubt), _text(program), NAME, list(names)))
            return
        if called is refused:
            what, _, instead = _text(call.args[0]).partition(": ")
            raise self.source.refuse(call, what, instead)
        if self.callee(call) is not None:
            self.inline(call)
            return
        if isinstance(call.func, ast.Attribute) and call.func.attr == "fill" and len(call.args) == 1:
            self.write(call, self.view(call.func.value), self.tree(call.args[0]))
            return
        raise self.source.refuse(call, f"the call {unparse(call)}", "leave it out, or assign its result")


def _form(tree: Tree | None) -> Form:
    return (tree.of, tuple(map(_form, tree.items))) if isinstance(tree, Several) else None


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _alike(a: Tree | None, b: Tree | None) -> bool:
    """Whether two results are the same arrays, and as many numbers."""
    if a is None or b is None:
        return a is b
    if isinstance(a, Leaf) or isinstance(b, Leaf):
        return isinstance(a, Leaf) and isinstance(b, Leaf) and a.view == b.view
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        return isinstance(a, Scalar) and isinstance(b, Scalar)
    x, y = a.items, b.items  # type: ignore[attr-defined]
    return len(x) == len(y) and all(_alike(p, q) for p, q in zip(x, y, strict=True))
