"""Code that looks at indices before they are used; :mod:`..analysis.index_bounds` says which, and where."""

from __future__ import annotations

import ast

from ...core.source_text import constant
from ..analysis.index_bounds import Access, Guard, IndexBounds
from ..ir.affine import length
from ..ir.names import RESERVED, Names
from ..ir.reverse_ir import Item, Nest, flat, loop_head, words
from ..ir.statements import Check, Function, Look, Loop, parse, unparse
from ..runtime.index_errors import LOOK, NAME, TEXTS, outside

__all__ = ["alike", "imports", "lines"]


def imports(bounds: IndexBounds, names: Names) -> None:
    """What the code calls is among the imports of its file."""
    if not bounds.none:
        names.imported(NAME, outside)


def alike(arrays: dict[str, str], f: Function) -> list[str]:
    """Arrays that are given for others must have their shapes."""
    tests = [f"({given}.shape[{d}] != {n}.shape[{d}])" for n, given in arrays.items() for d in range(f.ranks[n])]
    if not tests or not f.checked:
        return []
    text = f"{f.name}: {', '.join(arrays.values())} must have the shapes of {', '.join(arrays)}"
    return Check(parse(" | ".join(tests)), text).code()


def lines(guards: list[Guard]) -> list[str]:
    """Code before a statement. What suffices for several indices is asked at once."""
    made: list[Item] = []
    some = [g for g in guards if g.enough is not None]
    for guard in guards:
        if guard.enough is None:
            made += _turns(guard, [line for given in guard.accesses for line in _compared(*given)])
        elif guard is some[0]:
            made += _decided(some)
    return flat(made)


def _decided(guards: list[Guard]) -> list[str]:
    """Where that does not hold, a program decides, with numbers and arrays that it gets."""
    enough = list(dict.fromkeys(test for g in guards for test in g.enough or []))
    texts: list[tuple[str, str]] = []
    body: list[Item] = []
    for guard in guards:
        found: list[Item] = []
        for access, index, size in guard.accesses:
            returned = f"return {len(texts)}, {unparse(index)}, {unparse(size)}"
            found.append(Nest(f"if {_wrong(access.low, access.high, index, size)}:", [returned]))
            texts.append((access.what, access.where))
        body += _turns(guard, found)
    body.append("return -1, 0, 0")
    inner, given = flat(body), _given(guards)
    free = Names({*(text for text in given if text.isidentifier()), *(n for line in inner for n in words(line))})
    names = {  # lengths are numbers of the program
        text: text if text.isidentifier() else free.fresh(f"{text.partition('.')[0]}_size") for text in given
    }
    program = _Program(names).text(inner, list(names.values()), texts)
    doubt = parse(f"not (({') & ('.join(enough)}))")  # without branches, which take long to compile
    return Look(doubt, program, NAME, list(map(parse, given))).code()


def _compared(access: Access, index: ast.expr, size: ast.expr) -> list[str]:
    """The same for an index of which all is known."""
    program = _Program({}).text(["return 0, index, size"], ["index", "size"], [(access.what, access.where)])
    doubt = parse(_wrong(access.low, access.high, index, size))
    return Look(doubt, program, NAME, [index, size]).code()


def _given(guards: list[Guard]) -> list[str]:
    """What a program reads: names, and lengths of arrays of which it reads nothing else."""
    own = {part[1] for g in guards for part in g.path if len(part) == 3}
    found: dict[str, None] = {}
    for g in guards:
        nodes = [n for part in g.path for n in (part[2] if len(part) == 3 else [part[0]])]
        nodes += [n for _, index, size in g.accesses for n in (index, size)]
        for node in nodes:
            stack: list[ast.AST] = [node]
            while stack:
                n = stack.pop()
                if isinstance(n, ast.Subscript | ast.Attribute) and length(n):
                    found[unparse(n)] = None
                elif isinstance(n, ast.Name):
                    if n.id not in RESERVED | own:
                        found[n.id] = None
                elif isinstance(n, ast.Call):
                    stack += n.args
                else:
                    stack += [c for c in ast.iter_child_nodes(n) if isinstance(c, ast.expr)]
    return sorted(found)


class _Program(ast.NodeTransformer):
    """Writes a program, in which lengths have names."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        name = self.names.get(unparse(node))
        return ast.Name(name, ast.Load()) if name else self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        name = self.names.get(unparse(node))
        return ast.Name(name, ast.Load()) if name else self.generic_visit(node)

    def text(self, body: list[str], parameters: list[str], texts: list[tuple[str, str]]) -> str:
        source = f"def {LOOK}({', '.join(parameters)}):\n" + "\n".join(f"    {line}" for line in body)
        whole = self.visit(ast.parse(source))
        return f"import math\n\nimport numpy as np\n{ast.unparse(whole)}\n{TEXTS} = {constant(tuple(texts))}\n"


def _turns(guard: Guard, items: list[Item]) -> list[Item]:
    """The loops and tests around comparisons."""
    tests: list[str] = []
    for part in reversed(guard.path):
        if len(part) == 2:
            node, holds = part
            tests.append(f"({unparse(node)})" if holds else f"not ({unparse(node)})")
            continue
        items = _under(tests, items)
        _, name, (start, stop, step) = part
        items = [Nest(loop_head(Loop(name, start, stop, step, None, [])), items)]
        tests = []
    return _under(tests, items)


def _under(tests: list[str], items: list[Item]) -> list[Item]:
    test = " and ".join(reversed(tests))
    return [Nest(f"if {test}:", items)] if tests else items


def _wrong(low: bool, high: bool, index: ast.expr, size: ast.expr) -> str:
    below = ast.Compare(index, [ast.Lt()], [ast.UnaryOp(ast.USub(), size)])
    above = ast.Compare(index, [ast.GtE()], [size])
    return " or ".join([unparse(below)] * low + [unparse(above)] * high)
