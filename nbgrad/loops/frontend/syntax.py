"""Syntax trees of users' functions: their text, what is in them, and questions that need no scope to be answered."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

__all__ = [
    "Replaced",
    "Transformer",
    "all_names",
    "assigns",
    "base_name",
    "bound_name",
    "bound_to",
    "changed_names",
    "children",
    "copy_tree",
    "count_mentions",
    "first_name",
    "free_variables",
    "is_new_axis",
    "number_node",
    "own_nodes",
    "owner_of",
    "stored_names",
    "subtrees",
    "too_deep",
    "unparse",
    "with_own_variables",
    "written_name",
]  # fmt: skip


def unparse(node: ast.AST) -> str:
    """The code of an expression, as it was written: that of a method, where a function stands for it."""
    return node.id if isinstance(node, ast.Name) else ast.unparse(getattr(node, "written", node))


def written_name(name: str) -> str:
    """The name of an item of a tuple, ``hs.0``, as it is written: ``hs[0]``."""
    return re.sub(r"\.(\d+)", r"[\1]", name)


#: Fields that hold no child nodes, or contexts and operators.
_NO_CHILDREN = {
    *("ctx", "op", "ops", "id", "arg", "attr", "kind", "name", "asname", "module", "level", "type_comment"),
    *("simple", "conversion", "is_async", "rest", "lineno", "tag", "kwd_attrs"),
}
#: The fields that may hold child nodes, by type of node.
_CHILD_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple([name for name in kind._fields if name not in _NO_CHILDREN])
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
} | {ast.Constant: (), ast.Name: (), ast.MatchSingleton: (), ast.Global: (), ast.Nonlocal: ()}
_INNER_NODES = {kind for kind, fields in _CHILD_FIELDS.items() if fields}
#: The fields with lists that may hold None.
_MIXED_FIELDS = {"keys", "kw_defaults"}


def children(node: ast.AST) -> list[ast.AST]:
    """The child nodes, without contexts and operators."""
    nodes: list[ast.AST] = []
    held = node.__dict__
    for name in _CHILD_FIELDS.get(type(node), ()):
        value = held.get(name)
        if type(value) is list:
            nodes += [n for n in value if n is not None] if name in _MIXED_FIELDS else value
        elif value is not None:
            nodes.append(value)
    return nodes


def subtrees(tree: ast.AST) -> list[ast.AST]:
    """All nodes of a tree, breadth first, without contexts and operators; much faster than :func:`ast.walk`."""
    nodes = [tree]
    for node in nodes:
        if type(node) in _INNER_NODES:
            nodes += children(node)
    return nodes


def own_nodes(node: ast.AST) -> list[ast.AST]:
    """The nodes of a function, without those of the functions in it."""
    nodes, stack = [], children(node)
    while stack:
        n = stack.pop()
        nodes.append(n)
        stack += [] if isinstance(n, ast.FunctionDef | ast.Lambda) else children(n)
    return nodes


def copy_tree(tree: Any) -> Any:
    """A copy of a tree, or of a list of trees, as :func:`copy.deepcopy` makes it, several times faster: nodes of
    contexts and operators, and what else nodes have, are shared, and so are trees that are lowered already."""
    done: dict[int, ast.AST] = {}

    def twin(node: ast.AST) -> ast.AST:
        kind = type(node)
        if kind not in _CHILD_FIELDS:
            return node
        new = done.get(id(node))
        if new is None:
            done[id(node)] = new = kind.__new__(kind)
            held = vars(new)
            held.update(vars(node))
            for name in _CHILD_FIELDS[kind]:
                value = held.get(name)
                if type(value) is list:
                    held[name] = [twin(n) if isinstance(n, ast.AST) else n for n in value]
                elif isinstance(value, ast.AST):
                    held[name] = twin(value)
        return new

    return [twin(t) for t in tree] if isinstance(tree, list) else twin(tree)


class Transformer:
    """Rewrites trees by methods ``visit_Assign`` and so on, as :class:`ast.NodeTransformer` does, several times faster.

    A transformer without a method for anything but statements does not enter expressions: none is in them.
    """

    _methods: ClassVar[dict[type, str]] = {}
    _of_statements: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        cls._methods = {
            kind: f"visit_{kind.__name__}" for kind in _CHILD_FIELDS if hasattr(cls, f"visit_{kind.__name__}")
        }
        cls._of_statements = all(issubclass(kind, ast.stmt) for kind in cls._methods)

    def visit(self, node: Any) -> Any:
        """What takes the place of a node: a node, several statements, or None for nothing."""
        name = self._methods.get(type(node))
        return self.generic_visit(node) if name is None else getattr(self, name)(node)

    def generic_visit(self, node: Any) -> Any:
        """Visit all that is in a node."""
        for field in _CHILD_FIELDS.get(type(node), ()):
            value = getattr(node, field, None)
            if type(value) is list:
                new = []
                for n in value:
                    done = self._visited(n)
                    new += done if type(done) is list else [] if done is None and n is not None else [done]
                value[:] = new
            elif isinstance(value, ast.AST) and (done := self._visited(value)) is not value:
                setattr(node, field, done)
        return node

    def _visited(self, node: Any) -> Any:
        if not isinstance(node, ast.AST) or (self._of_statements and isinstance(node, ast.expr)):
            return node
        return self.visit(node)


#: Python allows 100 levels of indentation, and generated code may need a few more than the function.
_MAX_NESTING = 92


def too_deep(tree: ast.FunctionDef) -> ast.stmt | None:
    """A statement nested too deeply for generated code; None if there is none."""
    stack: list[tuple[ast.stmt, int]] = [(s, 1) for s in tree.body]
    while stack:
        s, level = stack.pop()
        if level > _MAX_NESTING:
            return s
        stack += [(n, level + 1) for n in children(s) if isinstance(n, ast.stmt)]
    return None


def first_name(node: ast.expr) -> str:
    """``a`` of ``a.b.c``; empty if that does not begin with a name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def bound_name(function: object, text: str) -> ast.Name:
    """A name node that is bound to `function` in every scope; `text` is its spelling in messages."""
    node = ast.Name(text, ast.Load())
    node.function = function  # type: ignore[attr-defined]
    return node


def bound_to(node: ast.expr) -> object:
    """The function that a node made by :func:`bound_name` is bound to; None for other nodes."""
    return getattr(node, "function", None)


def all_names(tree: ast.AST) -> set[str]:
    """All names of variables, parameters and nested functions in a tree."""
    names: set[str] = set()
    for n in subtrees(tree):
        if isinstance(n, ast.Name):
            names.add(n.id)
        elif isinstance(n, ast.arg):
            names.add(n.arg)
        elif isinstance(n, ast.FunctionDef) and n is not tree:
            names.add(n.name)
    return names


def free_variables(tree: ast.AST) -> set[str]:
    """The free variables of a function: names that it reads and nowhere binds."""
    read: set[str] = set()
    bound: set[str] = set()
    for n in subtrees(tree):
        if isinstance(n, ast.Name):
            (read if isinstance(n.ctx, ast.Load) else bound).add(n.id)
        elif isinstance(n, ast.arg):
            bound.add(n.arg)
        elif isinstance(n, ast.FunctionDef):
            bound.add(n.name)
    return read - bound


def stored_names(body: Sequence[ast.AST], added: bool = True) -> list[str]:
    """The names that statements set, once per assignment, without those inside nested functions. `added`: augmented
    assignments count as well, although an array stays the same one there."""
    names: list[str] = []
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.AugAssign) and not added:
            continue
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.comprehension):  # its variables are its own
            stack += [node.iter, *node.ifs]
        elif not isinstance(node, ast.Lambda):
            stack += children(node)
    return names


def changed_names(body: Sequence[ast.stmt]) -> set[str]:
    """The names that statements bind, and those of what they may write: by elements, methods, or functions."""
    nodes = [n for s in body for n in subtrees(s)]
    owners = [n.value for n in nodes if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load)]
    owners += [n.func.value for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    owners += [a for n in nodes if isinstance(n, ast.Call) for a in n.args if isinstance(a, ast.Name)]
    return {*stored_names(body), *(base_name(n) for n in owners)}


def base_name(node: ast.expr) -> str:
    """The name of the array that an expression is a view of."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def assigned_pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """A target and its value, or those of the items of tuples that are written out."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return [p for t, v in zip(target.elts, value.elts, strict=True) for p in assigned_pairs(t, v)]
    return [(target, value)]


def count_mentions(s: ast.AST, names: set[str]) -> int:
    """How often `s` mentions one of the names."""
    return sum(isinstance(n, ast.Name) and n.id in names for n in subtrees(s))


def assigns(s: ast.Assign, name: str) -> bool:
    """Whether an assignment sets `name`."""
    targets = [e for t in s.targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return any(isinstance(t, ast.Name) and t.id == name for t in targets)


def owner_of(node: ast.expr) -> ast.expr:
    """``p`` of ``p.a[0]``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def is_new_axis(node: ast.expr) -> bool:
    """Whether an index is ``None`` or ``np.newaxis``."""
    named = isinstance(node, ast.Attribute) and node.attr == "newaxis"
    return named or (isinstance(node, ast.Constant) and node.value is None)


class Replaced(Transformer):
    """Replaces names: by other names, and where they are read by numbers or other constants. Parameters of functions in
    it are names of their own, and so are, beside constants, variables of comprehensions and of these functions."""

    def __init__(self, names: Mapping[str, str | int | ast.expr]) -> None:
        self.names = names

    def _function(self, node: ast.FunctionDef | ast.Lambda) -> ast.AST:
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [d and self.visit(d) for d in node.args.kw_defaults]
        body = node.body if isinstance(node.body, list) else [node.body]
        own = {a.arg for a in subtrees(node.args) if isinstance(a, ast.arg)}
        inner = self._inside(own, stored_names(body) if isinstance(node, ast.FunctionDef) else ())
        node.body = [inner.visit(s) for s in body] if isinstance(node.body, list) else inner.visit(node.body)
        return node

    visit_FunctionDef = visit_Lambda = _function

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> ast.AST:
        inner = self._inside((), [n.id for g in node.generators for n in subtrees(g.target) if isinstance(n, ast.Name)])
        node.elt = inner.visit(node.elt)
        for k, g in enumerate(node.generators):
            g.iter = (inner if k else self).visit(g.iter)  # Python evaluates the first one outside
            g.target, g.ifs = inner.visit(g.target), [inner.visit(test) for test in g.ifs]
        return node

    visit_ListComp = visit_GeneratorExp = _comprehension

    def _inside(self, parameters: Collection[str], variables: Collection[str]) -> Replaced:
        """The same in a scope with names of its own."""
        kept = {n: new for n, new in self.names.items() if n not in parameters}
        return Replaced({n: new for n, new in kept.items() if isinstance(new, str) or n not in variables})

    def visit_Name(self, node: ast.Name) -> ast.expr:
        new = self.names.get(node.id)
        if isinstance(new, str):
            return ast.copy_location(ast.Name(new, node.ctx), node)
        if new is None or not isinstance(node.ctx, ast.Load):
            return node
        constant = copy_tree(new) if isinstance(new, ast.expr) else number_node(new)
        return ast.fix_missing_locations(ast.copy_location(constant, node))


def with_own_variables(node: Any, fresh: Callable[[str], str]) -> Any:
    """A comprehension that is to be a loop, with other names for its variables."""
    targets = [n.id for g in node.generators for n in subtrees(g.target) if isinstance(n, ast.Name)]
    renamed = Replaced({n: fresh(n) for n in targets}).visit(copy_tree(node))
    renamed.generators[0].iter = node.generators[0].iter  # Python evaluates it outside
    return renamed


def number_node(n: int) -> ast.expr:
    """The node of an integer, as Python parses it: ``-1`` is the negative of ``1``."""
    return ast.Constant(n) if n >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-n))
