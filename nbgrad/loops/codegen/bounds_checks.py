"""Code generation for index checks; :mod:`..analysis.index_bounds` decides which indices are checked, and where.

The generated function holds one comparison that suffices for several indices, and a call. Where the comparison fails,
the call runs a separate program, compiled on demand, that looks for the first index out of range.
"""

from __future__ import annotations

import ast

from ...core.source_text import constant_source
from ..analysis.index_bounds import Access, Guard, IndexBounds
from ..ir.affine import is_array_length
from ..ir.names import RESERVED, Names
from ..ir.reverse_ir import Item, Nest, flatten_items, loop_head, names_in_line
from ..ir.statements import Check, Function, IndexCheck, Loop, parse, unparse
from ..runtime.index_errors import OUTSIDE_NAME, SEARCH_FUNCTION, SEARCH_MESSAGES, outside

__all__ = ["guard_lines", "import_index_check", "shape_checks"]


def import_index_check(bounds: IndexBounds, names: Names) -> None:
    """Add the function that checks call to the imports of the file."""
    if not bounds.has_no_checks:
        names.imported(OUTSIDE_NAME, outside)


def shape_checks(arrays: dict[str, str], f: Function) -> list[str]:
    """Code that checks that each array argument has the shape of the array that it is the tangent or cotangent of."""
    tests = [f"({given}.shape[{d}] != {n}.shape[{d}])" for n, given in arrays.items() for d in range(f.ranks[n])]
    if not tests or not f.checked:
        return []
    text = f"{f.name}: {', '.join(arrays.values())} must have the shapes of {', '.join(arrays)}"
    return Check(parse(" | ".join(tests)), text).code()


def guard_lines(guards: list[Guard]) -> list[str]:
    """Code for the checks before a statement; the sufficient conditions of all guards are tested at once."""
    items: list[Item] = []
    sufficient = [g for g in guards if g.sufficient_conditions is not None]
    for guard in guards:
        if guard.sufficient_conditions is None:
            items += _inside_path(guard, [line for access in guard.accesses for line in _exact_check(*access)])
        elif guard is sufficient[0]:
            items += _combined_check(sufficient)
    return flatten_items(items)


def _combined_check(guards: list[Guard]) -> list[str]:
    """One check for several guards: where their sufficient conditions do not all hold, a program decides."""
    conditions = list(dict.fromkeys(test for g in guards for test in g.sufficient_conditions or []))
    texts: list[tuple[str, str]] = []
    body: list[Item] = []
    for guard in guards:
        comparisons: list[Item] = []
        for access, index, size in guard.accesses:
            returned = f"return {len(texts)}, {unparse(index)}, {unparse(size)}"
            comparisons.append(Nest(f"if {_out_of_range_test(access.low, access.high, index, size)}:", [returned]))
            texts.append((access.what, access.where))
        body += _inside_path(guard, comparisons)
    body.append("return -1, 0, 0")
    inner, arguments = flatten_items(body), _program_arguments(guards)
    free = Names(
        {*(text for text in arguments if text.isidentifier()), *(n for line in inner for n in names_in_line(line))}
    )
    names = {  # array lengths become scalar parameters of the program
        text: text if text.isidentifier() else free.fresh(f"{text.partition('.')[0]}_size") for text in arguments
    }
    program = _Program(names).text(inner, list(names.values()), texts)
    doubt = parse(f"not (({') & ('.join(conditions)}))")  # without branches, which are slow to compile
    return IndexCheck(doubt, program, OUTSIDE_NAME, list(map(parse, arguments))).code()


def _exact_check(access: Access, index: ast.expr, size: ast.expr) -> list[str]:
    """A check that compares one index with its bounds, exactly."""
    program = _Program({}).text(["return 0, index, size"], ["index", "size"], [(access.what, access.where)])
    doubt = parse(_out_of_range_test(access.low, access.high, index, size))
    return IndexCheck(doubt, program, OUTSIDE_NAME, [index, size]).code()


def _program_arguments(guards: list[Guard]) -> list[str]:
    """The arguments of a program, as code: scalars, arrays whose elements it reads, and array lengths."""
    loop_variables = {part[1] for g in guards for part in g.path if len(part) == 3}
    arguments: dict[str, None] = {}
    for g in guards:
        nodes = [n for part in g.path for n in (part[2] if len(part) == 3 else [part[0]])]
        nodes += [n for _, index, size in g.accesses for n in (index, size)]
        for node in nodes:
            stack: list[ast.AST] = [node]
            while stack:
                n = stack.pop()
                if isinstance(n, ast.Subscript | ast.Attribute) and is_array_length(n):
                    arguments[unparse(n)] = None
                elif isinstance(n, ast.Name):
                    if n.id not in RESERVED | loop_variables:
                        arguments[n.id] = None
                elif isinstance(n, ast.Call):
                    stack += n.args
                else:
                    stack += [c for c in ast.iter_child_nodes(n) if isinstance(c, ast.expr)]
    return sorted(arguments)


class _Program(ast.NodeTransformer):
    """Prints a program, in which array lengths are replaced by `names`."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        name = self.names.get(unparse(node))
        return ast.Name(name, ast.Load()) if name else self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        name = self.names.get(unparse(node))
        return ast.Name(name, ast.Load()) if name else self.generic_visit(node)

    def text(self, body: list[str], parameters: list[str], texts: list[tuple[str, str]]) -> str:
        source = f"def {SEARCH_FUNCTION}({', '.join(parameters)}):\n" + "\n".join(f"    {line}" for line in body)
        tree = self.visit(ast.parse(source))
        messages = f"{SEARCH_MESSAGES} = {constant_source(tuple(texts))}"
        return f"import math\n\nimport numpy as np\n{ast.unparse(tree)}\n{messages}\n"


def _inside_path(guard: Guard, items: list[Item]) -> list[Item]:
    """`items` inside the loops and tests of a guard."""
    tests: list[str] = []
    for part in reversed(guard.path):
        if len(part) == 2:
            node, holds = part
            tests.append(f"({unparse(node)})" if holds else f"not ({unparse(node)})")
            continue
        items = _inside_tests(tests, items)
        _, name, (start, stop, step) = part
        items = [Nest(loop_head(Loop(name, start, stop, step, None, [])), items)]
        tests = []
    return _inside_tests(tests, items)


def _inside_tests(tests: list[str], items: list[Item]) -> list[Item]:
    """`items` under a branch on all `tests`, which are listed from the innermost."""
    test = " and ".join(reversed(tests))
    return [Nest(f"if {test}:", items)] if tests else items


def _out_of_range_test(low: bool, high: bool, index: ast.expr, size: ast.expr) -> str:
    """Code for the test that an index is out of range, at the ends asked for."""
    below = ast.Compare(index, [ast.Lt()], [ast.UnaryOp(ast.USub(), size)])
    above = ast.Compare(index, [ast.GtE()], [size])
    return " or ".join([unparse(below)] * low + [unparse(above)] * high)
