"""Writes the pages of the reference: the public names of the package, each with a page of its own by autosummary."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from pathlib import Path

#: Pages in their order: file, title, introduction, module.
PAGES = [
    ("top", "nbgrad: derivatives, compilers, devices", "What ``import nbgrad as nb`` has.", "nbgrad"),
    ("autograd", "nbgrad.autograd: recording", "Scopes in which operations are recorded, and backward.",
     "nbgrad.autograd"),
    ("np", "nbgrad.np: NumPy with gradients", "Functions under NumPy's names; see [NumPy programs](../numpy.md).",
     "nbgrad.np"),
    ("np_linalg", "nbgrad.np.linalg", "Linear algebra.", "nbgrad.np.linalg"),
    ("np_random", "nbgrad.np.random", "Random numbers, differentiable by their parameters.", "nbgrad.np.random"),
    ("scipy_special", "nbgrad.scipy.special", "Special functions; see [SciPy's functions](../scipy.md).",
     "nbgrad.scipy.special"),
    ("scipy_stats", "nbgrad.scipy.stats", "Distributions.", "nbgrad.scipy.stats"),
    ("scipy_linalg", "nbgrad.scipy.linalg", "Linear algebra beyond NumPy's.", "nbgrad.scipy.linalg"),
    ("scipy_signal", "nbgrad.scipy.signal", "Signals.", "nbgrad.scipy.signal"),
    ("scipy_ndimage", "nbgrad.scipy.ndimage", "Images.", "nbgrad.scipy.ndimage"),
    ("mpi", "nbgrad.mpi: several processes", "Collectives; see [several processes](../mpi.md).", "nbgrad.mpi"),
    ("testing", "nbgrad.testing: checks of gradients", "", "nbgrad.testing"),
    ("nd", "nbgrad.nd: MXNet's operators", "Which orders and dtypes are checked: [operators](../operators.md).",
     "nbgrad.nd"),
]  # fmt: skip
#: Modules, and second names of what has a page already.
_NO_ENTRIES = {"nd", "ndarray", "np", "sym", "symbol", "random", "autograd", "functional", "context", "base",
               "test_utils", "testing", "linalg", "lib"}  # fmt: skip


def public_names(module_name: str) -> list[str]:
    """The documented callables of a module, each once: what is there under several names, under the first."""
    module = importlib.import_module(module_name)
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    found: dict[int, str] = {}
    left_out = _NO_ENTRIES | ({"NDArray"} if module_name == "nbgrad.nd" else set())  # it is on the first page
    for name in sorted(set(names) - left_out, key=str.lower):
        value = getattr(module, name)
        if callable(value) and inspect.getdoc(value) and not getattr(value, "__module__", "").startswith("numpy"):
            found.setdefault(id(value), name)
    return sorted(found.values(), key=str.lower)


def page(title: str, introduction: str, module: str, names: Iterable[str]) -> str:
    entries = "\n".join(f"   {name}" for name in names)
    return (
        f"# {title}\n\n{introduction}\n\n```{{eval-rst}}\n.. currentmodule:: {module}\n\n.. autosummary::\n"
        f"   :toctree: generated/{module}\n   :nosignatures:\n\n{entries}\n```\n"
    )


def write_reference(folder: Path) -> None:
    """Write the pages into a folder, if they have changed."""
    folder.mkdir(exist_ok=True)
    index = ["# Reference", "", "```{toctree}", ":maxdepth: 1", ""]
    for file, title, introduction, module in PAGES:
        _write(folder / f"{file}.md", page(title, introduction, module, public_names(module)))
        index.append(file)
    _write(folder / "index.md", "\n".join([*index, "```", ""]))


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
