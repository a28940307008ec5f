"""The architecture, read off the source: layers, who may compile, sizes."""

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from nbgrad.loops.ir.reverse_ir import Item

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "nbgrad"
#: The packages and modules at the top; each imports from those above it alone.
LAYERS = [
    {"errors", "data"},
    {"core"},
    {"ir"},
    {"backends"},
    {"vmath"},
    {"arrays"},
    {"autodiff"},
    {"operators"},
    {"kernels"},
    {"functional", "loops"},
    {"compiler"},
    {"custom"},
    {"symbol"},
    {"autograd"},
    {"protocols", "testing", "warmup"},
    {"nd", "np", "test_utils"},
    {"mpi", "numpy", "scipy"},
    {""},
    {"compat", "demo"},
    {"__main__"},
]
#: The same inside ``loops``: in the order of the work.
LOOPS = [
    {"runtime"},
    {"ir", "custom_rules"},
    {"frontend"},
    {"arguments", "unit_axes"},
    {"analysis"},
    {"transforms"},
    {"planning"},
    {"codegen"},
    {"explanation"},
    {
        "checkpoint_options",
        "memory",
        "variants",
        "flattened_arguments",
        "differentiable_operator",
        "pullback",
        "differentiated",
        "api",
        "",
    },
]
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
TOOLS = ["tests", "tools", "benchmarks", "asv_bench"]


def module_name(path):
    """A module's dotted name inside the package; the package itself is ''."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def for_type_checkers_only(tree):
    """Nodes inside ``if TYPE_CHECKING:``, which never run."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for statement in node.body:
                found.update(ast.walk(statement))
    return found


def inner(dotted):
    """A dotted name under nbgrad without that prefix; None for other packages."""
    return dotted.removeprefix("nbgrad").lstrip(".") if dotted.split(".")[0] == "nbgrad" else None


def imports(name, node):
    """The modules of nbgrad that an import statement in module `name` runs."""
    if isinstance(node, ast.Import):
        return [m for alias in node.names if (m := inner(alias.name)) is not None]
    if not isinstance(node, ast.ImportFrom):
        return []
    if node.level:
        package = name.split(".") if MODULES[name].name == "__init__.py" else name.split(".")[:-1]
        package = [p for p in package if p]
        base = ".".join(package[: len(package) - node.level + 1] + ([node.module] if node.module else []))
    else:
        base = inner(node.module or "")
        if base is None:
            return []
    found = []
    for alias in node.names:
        whole = f"{base}.{alias.name}".lstrip(".")
        found.append(whole if whole in MODULES else base)
    return found


def edges():
    for name, tree in TREES.items():
        skipped = for_type_checkers_only(tree)
        for node in ast.walk(tree):
            if node not in skipped:
                for target in imports(name, node):
                    yield name, target, node


def top(name):
    return name.split(".")[0]


def layer(name):
    return LAYER[top(name)]


def test_every_module_has_a_layer():
    assert {name.split(".")[0] for name in MODULES} == set(LAYER)
    assert sum(map(len, LAYERS)) == len(LAYER)


def test_imports_point_downwards():
    wrong = [
        f"{name} (L{layer(name)}) imports {target} (L{layer(target)})"
        for name, target, _ in edges()
        if layer(target) > layer(name) or (layer(target) == layer(name) and top(target) != top(name))
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_in_loops_point_backwards_in_the_order_of_the_work():
    stage = {part: number for number, parts in enumerate(LOOPS) for part in parts}
    modules = [n for n in MODULES if n.split(".")[0] == "loops"]
    of = {n: stage[n.removeprefix("loops").lstrip(".").split(".")[0]] for n in modules}
    wrong = [f"{n} imports {t}" for n, t, _ in edges() if n in of and t in of and of[t] > of[n]]
    assert not wrong, "\n".join(wrong)


def test_no_cycles():
    graph: dict = {name: set() for name in MODULES}
    for name, target, _ in edges():
        if target != name and MODULES[target].name != "__init__.py":
            graph[name].add(target)
    done, active = set(), []

    def visit(name):
        assert name not in active, "cycle: " + " -> ".join([*active[active.index(name) :], name])
        if name not in done:
            active.append(name)
            for target in sorted(graph[name]):
                visit(target)
            active.pop()
            done.add(name)

    for name in graph:
        visit(name)


def test_no_imports_inside_functions():
    """A late import hides a cycle. (Optional packages from outside are another matter.)"""
    wrong = []
    for name, tree in TREES.items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                wrong += [f"{name}:{n.lineno}" for n in ast.walk(function) if imports(name, n)]
    assert not wrong, wrong


def names_spelled(tree):
    """Every name, attribute and imported name in the code (not in strings or comments)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id, node
        elif isinstance(node, ast.Attribute):
            yield node.attr, node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield alias.name.split(".")[-1], node


#: What takes a string apart, in adjoints, and why that takes no meaning from how a user called something.
SPELLING = {
    ("custom_rules", "startswith"): "Python's own attributes of modules",
    ("transforms.common_subexpressions", "rpartition"): "a new variable is called like a function, for readers",
    ("codegen.checkpoint_levels", "split"): "the target of a loop, beside the one that a user names",
    ("differentiated", "rpartition"): "the name in a repr",
    ("runtime.index_errors", "partition"): "a program of ours, and what it is given",
    ("runtime.printing", "partition"): "a program of ours, and what it is given",
    ("runtime.index_errors", "split"): "the kinds of what a program is given",
    ("frontend.array_creation", "split"): "a table of ours",
    ("frontend.calls", "split"): "the package of a function, not a name in a program",
    **dict.fromkeys([("frontend.einsum", n) for n in ("partition", "replace", "split")], "the subscripts of np.einsum"),
    **dict.fromkeys([("frontend.made_classes", n) for n in ("startswith", "endswith", "lstrip")], "private names"),
    ("frontend.lowering", "partition"): "a text of the library's about what it refuses",
    ("frontend.assignments", "endswith"): "the whole text of a function: what it does, not its name",
    ("frontend.tuple_assignments", "replace"): "a new variable is called like an item of a tuple, for readers",
    ("frontend.source_check", "startswith"): "where a function of a generated file begins",
    ("frontend.source", "lstrip"): "whether a file's text of a function is indented",
    ("frontend.source", "split"): "spaces in a message",
    ("frontend.subset_check", "split"): "the package of a function",
    ("frontend.subset_check", "startswith"): "advice in a message",
    ("frontend.subset_check", "endswith"): "advice in a message",
    ("memory", "findall"): "a file of the system's",
    ("ir.names", "replace"): "what Numba makes of a name",
    ("ir.type_inference", "fullmatch"): "the location in an error",
    ("ir.statements", "search"): "which copies a message has to explain",
    ("ir.verify", "rpartition"): "which module the text of a function names",
}
TAKE_APART = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit",
              "find", "rfind", "isidentifier", "replace", "lstrip", "rstrip", "search", "match", "fullmatch", "findall",
              "finditer"}  # fmt: skip


def test_adjoints_take_no_meaning_from_how_something_is_called():
    """What a pass made is marked in the data; strings are not looked into, and no name has a meaning by its letters."""
    found = set()
    for name, tree in TREES.items():
        for node in ast.walk(tree) if top(name) == "loops" else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKE_APART:
                of_dataclass = node.func.attr == "replace" and len(node.args) < 2
                found |= set() if of_dataclass else {(name.removeprefix("loops."), node.func.attr)}
    assert found == set(SPELLING), (found - set(SPELLING), set(SPELLING) - found)


#: Where strings of adjoints have the syntax of statements, and why.
STATEMENTS = {
    "ir.effects": "the text of effects, for the printer",
    "ir.printer": "the printer",
    "ir.reverse_ir": "the text of assignments and of heads, for the printer",
    "ir.statements": "the text of checks, for the printer",
    "ir.tapes": "a routine of generated files",
    "codegen.module_source": "routines and imports of generated files",
    "codegen.bounds_checks": "imports and messages of a search program",
}
SYNTAX = re.compile(r"^\s*(if|for|while|return|raise|else|break|def|import)(?=[ :]|$)|^[\s\w,]* [+-]?= ", re.MULTILINE)


def test_sweeps_have_typed_items_and_the_printer_makes_text():
    """No item of a sweep is a string, and what generates code formats no statements."""
    assert all(kind.__module__.startswith("nbgrad.loops.ir.") for kind in get_args(Item))
    parts = ("ir.", "analysis.", "transforms.", "codegen.", "frontend.primitive_calls")
    modules = {n.removeprefix("loops."): tree for n, tree in TREES.items() if n.startswith("loops.")}
    found = {n for n, tree in modules.items() if n.startswith(parts) and any(map(SYNTAX.search, strings(tree)))}
    assert found == set(STATEMENTS), (found - set(STATEMENTS), set(STATEMENTS) - found)


def strings(node):
    """The strings in code, f-strings with ``x`` for what they format: no docstrings, and no messages of errors."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(v.value if isinstance(v, ast.Constant) else "x" for v in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif not isinstance(node, ast.Raise) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        for child in ast.iter_child_nodes(node):
            yield from strings(child)


@pytest.mark.parametrize("word", ["njit", "guvectorize", "cfunc"])
def test_who_compiles(word):
    found = {name for name, tree in TREES.items() if any(word == w for w, _ in names_spelled(tree))}
    assert found == ({"backends.numba.compile"} if word != "guvectorize" else set())


#: What the backends use of Numba's public names; njit and cfunc: :func:`test_who_compiles`.
NUMBA = {"cfunc", "config", "from_dtype", "njit", "types", "typeof"}
#: What others use: public names, and entries of the one module that imports anything else of Numba, or llvmlite.
NUMBA_OUTSIDE = {
    "__main__": {"VERSIONS", "host_processor"},
    "compiler.native": {"carray"},
    "loops.custom_rules": {"NumbaError", "as_dtype", "types"},
    "loops.frontend.function_table": {"prange"},
    "loops.frontend.iteration": {"pndindex", "prange"},
    "loops.frontend.number_types": {"types"},
    "loops.frontend.primitive_calls": {"NumbaError"},
    "loops.ir.type_inference": {"NumbaError"},
    "loops.runtime.index_errors": {"add_symbol", "as_dtype"},
    "loops.runtime.printing": {"add_symbol"},
    "protocols.numpy_functions": {"register_typeof"},
}


def names_of_numba(name, tree):
    """The names that a module uses of Numba, llvmlite, and ``backends/numba/internals.py``; dotted if not public."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith(("numba.", "llvmlite")))
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "numba":
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            library = (node.module or "").split(".")[0] in ("numba", "llvmlite") and not node.level
            if library or "backends.numba.internals" in imports(name, node):
                public = not library or node.module == "numba"
                yield from (alias.name if public else f"{node.module}.{alias.name}" for alias in node.names)


def test_who_uses_numba():
    used = {name: set(names_of_numba(name, tree)) for name, tree in TREES.items()}
    assert any("." in x for x in used.pop("backends.numba.internals"))
    entries = set(ast.literal_eval(next(
        s.value for s in TREES["backends.numba.internals"].body
        if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "__all__"
    )))  # fmt: skip
    assert {n: u for n, u in used.items() if u and top(n) != "backends"} == NUMBA_OUTSIDE
    assert set().union(*(u for n, u in used.items() if top(n) == "backends")) - entries == NUMBA


def test_one_module_talks_to_cuda():
    spells = re.compile(r"[\"' ]numba[._]cuda\b")
    found = [n for n, path in MODULES.items() if spells.search(path.read_text(encoding="utf-8"))]
    assert found == ["backends.cuda.driver"]


def test_code_is_generated_in_one_place():
    calls = {
        (name, node.func.id)
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("exec", "eval", "compile")
    }
    compared = ("loops.frontend.source_check", "compile")  # and never run
    assert calls == {("backends.numba.compile", "exec"), ("backends.numba.compile", "compile"), compared}


def test_kernels_know_neither_tape_nor_user():
    """Kernels over raw buffers take no arrays: a file of kernels alone imports only the compile module's decorators."""
    above = {"autograd", "nd", "protocols", "custom", "symbol", "functional"}
    wrong = [(n, t) for n, t, _ in edges() if n.startswith("kernels") and t.split(".")[0] in above | {""}]
    assert not wrong, wrong


def test_machinery_names_no_operator():
    """Tape, array and code generation reach operators by role alone."""
    for name in ("core", "ir", "backends", "arrays", "autodiff"):
        assert not any(top(t) == "kernels" for n, t, _ in edges() if top(n) == name)


def test_every_lock_is_in_the_register():
    """A lock that a fork does not know of is one that hangs a child."""
    made = {"Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition", "Barrier", "allocate_lock"}
    where = {name for name, tree in TREES.items() if any(word in made for word, _ in names_spelled(tree))}
    assert where == {"core.fork_safety"}


def test_finalizers_run_no_python():
    """A signal's handler may run in Python code that a finalizer calls; what it raises there is printed and lost."""
    known = {f"backends.cuda.{name}" for name in ("buffers", "exchange", "launches", "cublas")}  # on a GPU
    spelled = {
        name
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.FunctionDef) and node.name == "__del__")
        or (isinstance(node, ast.Attribute) and ast.unparse(node) == "weakref.finalize")
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "ref"
            and any(isinstance(a, ast.Lambda | ast.Name) for a in node.args[1:])
        )
    }
    assert spelled == known


def files():
    yield from MODULES.values()
    for folder in TOOLS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def test_size():
    lines = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in files()}
    assert not {path: n for path, n in lines.items() if n > 500}


def test_most_files_are_small():
    sizes = sorted(path.read_text(encoding="utf-8").count("\n") for path in MODULES.values())
    assert sizes[len(sizes) // 2] < 250


#: Modules that write source, without those that write for people or make fingerprints.
WRITERS = ("loops/", "compiler/", "ir/", "backends/", "arrays/", "kernels/", "custom/primitive.py")
FOR_PEOPLE = {
    "compiler/report.py",
    "backends/numba/fingerprint.py",
    "backends/numba/package_sources.py",
    "loops/frontend/source_check.py",
}  # fmt: skip (or for a hash, or to compare)
SAID = {"__repr__", "_described_briefly", "_with_precedence", "is_cuda"}


def formatted(node, said=False):
    """Lines in which a repr may come into a text that is no message."""
    if isinstance(node, ast.FunctionDef):
        said = node.name in SAID
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    said = said or isinstance(node, ast.Raise) or called.endswith(("Error", "refuse"))
    own = isinstance(node, ast.FormattedValue) and node.conversion == ord("r")
    found = [node.lineno] if not said and (own or (isinstance(node, ast.Name) and node.id in ("repr", "ascii"))) else []
    return found + [line for child in ast.iter_child_nodes(node) for line in formatted(child, said)]


def test_source_text_alone_makes_text_of_values():
    """Elsewhere a repr could come into generated code: of an infinity, of what a class says of itself."""
    assert formatted(ast.parse("def f(x):\n    return f'y = {x!r}', repr(x)")) == [2, 2]
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(WRITERS) and name not in FOR_PEOPLE:
            text = path.read_text(encoding="utf-8")
            assert formatted(ast.parse(text)) == [], name
            assert ".splitlines(" not in text.replace("str(err).strip().splitlines()", "").replace(
                "str(error).strip().splitlines()", ""
            ), name  # which splits at form feeds, too


def test_threads_take_turns_at_syntax_trees():
    """Python 3.11 counts the depth of trees of all threads in one place, and raises SystemError where they meet."""
    found = {name for name, path in MODULES.items() if "ast.parse(" in path.read_text(encoding="utf-8")}
    assert found == {"core.source_text"}


def test_programs_in_tests_are_run():
    """A function of a test file is a test or a fixture, or something there mentions it: none stands beside a list."""
    unused = []
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        words = {getattr(n, field, "") for n in ast.walk(tree) for field in ("id", "attr", "value")}
        own = [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and not n.decorator_list]
        by_text = [n for n in own if text.count(f"{n}(") > 1]  # in the program of another process
        unused += [(path.name, n) for n in own if not n.startswith("test_") and n not in {*words, *by_text}]
    assert unused == []
