"""The architecture, read off the source: layers, who may compile, sizes."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "nbgrad"
LAYERS = [
    {"errors", "config", "dtypes", "context", "forks", "pickling"},
    {"expr", "shapes"},
    {"codegen", "cuda", "vmath", "ndarray"},
    {
        "state",
        "observe",
        "orders",
        "tracing",
        "registry",
        "cotangents",
        "tape",
        "cast",
        "pullback",
        "elementwise",
        "entry",
        "samples",
        "documentation",
        "declare",
        "plan",
        "structured",
    },
    {"kernels"},
    {
        "scopes",
        "adjoint",
        "function",
        "primitive",
        "checkpoint",
        "control_flow",
        "anomaly",
        "symbol",
        "autograd",
        "functional",
        "compiler",
        "inplace",
        "testing",
        "test_utils",
        "serialization",
        "dlpack",
        "numpy_functions",
    },
    {"", "nd", "methods", "demo", "data", "warmup", "__main__"},
]
#: The same inside ``adjoint``: in the order of the work.
ADJOINT = [
    {"memory"},
    {"statements", "adopted"},
    {"reading"},
    {"arguments"},
    {"analysis"},
    {"sweep"},
    {"writing"},
    {"generated", "composed", "function", ""},
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


def layer(name):
    return LAYER[name.split(".")[0]]


def test_every_module_has_a_layer():
    assert {name.split(".")[0] for name in MODULES} == set(LAYER)
    assert sum(map(len, LAYERS)) == len(LAYER)


def test_imports_point_downwards():
    wrong = [
        f"{name} (L{layer(name)}) imports {target} (L{layer(target)})"
        for name, target, _ in edges()
        if layer(target) > layer(name)
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_of_adjoints_point_backwards_in_the_order_of_the_work():
    stage = {part: number for number, parts in enumerate(ADJOINT) for part in parts}
    modules = [n for n in MODULES if n.split(".")[0] == "adjoint"]
    of = {n: stage[n.removeprefix("adjoint").lstrip(".").split(".")[0]] for n in modules}
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


@pytest.mark.parametrize(
    ("word", "where"), [("njit", {"codegen.compile"}), ("guvectorize", set()), ("cfunc", {"codegen.compile"})]
)  # fmt: skip
def test_who_compiles(word, where):
    assert {name for name, tree in TREES.items() if any(word == w for w, _ in names_spelled(tree))} == where


def test_one_module_talks_to_cuda():
    spells = re.compile(r"[\"' ]numba[._]cuda\b")
    assert [n for n, path in MODULES.items() if spells.search(path.read_text(encoding="utf-8"))] == ["cuda.driver"]


def test_code_is_generated_in_one_place():
    calls = {
        (name, node.func.id)
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("exec", "eval", "compile")
    }
    assert calls == {("codegen.compile", "exec"), ("codegen.compile", "compile")}


def test_kernels_know_neither_tape_nor_user():
    """Kernels over raw buffers take no arrays: a file of kernels alone imports only the compile module's decorators."""
    above = {"autograd", "nd", "methods", "function", "checkpoint", "anomaly", "symbol", "scopes", "inplace"}
    wrong = [(n, t) for n, t, _ in edges() if n.startswith("kernels") and t.split(".")[0] in above | {""}]
    assert not wrong, wrong


def test_machinery_names_no_operator():
    """Tape, array and code generation reach operators by role alone."""
    for name in ("tape", "ndarray", "codegen.loops", "codegen.launch", "codegen.compile", "codegen.cache", "registry"):
        assert not any(t.startswith("kernels") for n, t, _ in edges() if n == name)


def files():
    yield from MODULES.values()
    for folder in TOOLS:
        yield from sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", list(files()), ids=lambda p: str(p.relative_to(ROOT)))
def test_size(path):
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= 500, f"{path.relative_to(ROOT)} has {lines} lines"


def test_most_files_are_small():
    sizes = sorted(path.read_text(encoding="utf-8").count("\n") for path in MODULES.values())
    assert sizes[len(sizes) // 2] < 250
