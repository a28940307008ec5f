"""Programs under other names: those that generated code contains, those of NumPy and Python, and Unicode's.

What a program does must not depend on how anything in it is called. So any of its names may become any other one,
variables, parameters and functions, and also what it reads from outside (``np``, ``range``), as long as different names
stay different.
"""

import ast
import builtins
import keyword
import math
import unicodedata
from functools import cache
from random import Random

import numba
import numpy as np
from loop_programs import copies, examples
from programs import PROGRAMS
from random_loops import Program, arguments, function

import nbgrad as nb
from nbgrad.loops import variants

#: Different ways to write the same name stand together: Python takes them for one (PEP 3131).
UNICODE = [("ﬁ", "fi"), ("µ", "μ"), ("x１", "x1"), ("ℌ_bar", "H_bar"), ("K", "K"), ("u_taｐe", "u_tape"), ("α",),
           ("变量",), ("a·b",), ("℘",), ("ñ", "n\u0303"), ("Ω", "\u2126"), ("factorⅷ",), ("ſ",),
           ("été", "e\u0301te\u0301")]  # fmt: skip


def identifiers(source):
    """All names in a file."""
    for node in ast.walk(ast.parse(source)):
        for part in ("id", "arg", "name", "attr", "asname"):
            name = getattr(node, part, None)
            if isinstance(name, str):
                yield from name.split(".")


def sources(f, args):
    """What is generated of a function: adjoint, tangent, both sweeps, checkpoints, sizes of tapes. None of it runs."""
    found = []

    def kept(name, source, tapes=()):
        found.append(source)
        return before(name, source, tapes)

    before, variants.compiled_module = variants.compiled_module, kept
    try:
        made = nb.adjoint(f)
        reverse = made._generated(copies(args)).reverse
        found += [reverse.measure().text] if reverse.stored_in_loops() else []
        made._variant(variants.SplitVariant, copies(args), True)
        nb.tangent(f)._generated(copies(args))
        nb.adjoint(f, checkpoint=2)._generated(copies(args))
    except nb.NBGradError:
        pass  # whatever cannot be had of this one
    finally:
        variants.compiled_module = before
    return found


@cache
def made_names():
    """The names in generated code, as it is for some programs; those of the programs themselves are in it, too."""
    programs = [*examples().values(), *list(PROGRAMS.values())[::16]]
    programs += [(function(Program(Random(seed)).source()), arguments(seed)) for seed in range(3)]
    return sorted({name for f, args in programs for source in sources(f, args) for name in identifiers(source)})


@cache
def pool():
    """All names to choose from, each with the ways to write it."""
    plain = {*made_names(), *dir(builtins), *dir(np), *dir(math), *keyword.softkwlist}
    plain = {n for n in plain if n.isidentifier() and not keyword.iskeyword(n) and not n.startswith("__")}
    return [*([(n,)] * 8 + [(f"{n}{k}",) for k in (1, 2, 3)] for n in made_names() if n in plain)], sorted(plain)


def chosen(random, count):
    """`count` names, no two of which are the same to Python."""
    made, plain = pool()
    found: dict[str, tuple[str, ...]] = {}
    while len(found) < count:
        kind = random.random()
        ways = random.choice(random.choice(made)) if kind < 0.6 else (random.choice(plain),)
        ways = random.choice(UNICODE) if kind > 0.9 else ways
        found.setdefault(unicodedata.normalize("NFKC", ways[0]), ways)
    return list(found.values())


class _Renamed(ast.NodeTransformer):
    def __init__(self, random, names):
        self.random, self.names = random, names

    def other(self, name):
        return self.random.choice(self.names[name])

    def visit_Name(self, node):
        node.id = self.other(node.id)
        return node

    def visit_arg(self, node):
        node.arg = self.other(node.arg)
        return node

    def visit_FunctionDef(self, node):
        node.name = self.other(node.name)
        return self.generic_visit(node)


def renamed(random, source, outside):
    """A program under other names: its source, what it reads from outside by its new names, and the function's name."""
    tree = ast.parse(source)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.arg | ast.FunctionDef)]
    names = sorted({getattr(n, "id", None) or getattr(n, "arg", None) or n.name for n in nodes})
    others = dict(zip(names, chosen(random, len(names)), strict=True))
    outer = {"np": np, "math": math, "prange": numba.prange, **vars(builtins), **outside}
    text = ast.unparse(_Renamed(random, others).visit(tree))
    given = {unicodedata.normalize("NFKC", others[n][0]): outer[n] for n in names if n in outer}
    return text, given, unicodedata.normalize("NFKC", others["f"][0])
