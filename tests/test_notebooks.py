"""The notebooks run, and print what is stored in them."""

import os
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")


def text(cell) -> str:
    """What a cell printed or showed as text, in one: how much arrives at a time depends on the time it takes."""
    shown = [
        o.get("text", "") if o.get("name") == "stdout" else o.get("data", {}).get("text/plain", "")
        for o in cell.get("outputs", ())
    ]
    return " ".join("".join(shown).split())


def pictures(cell) -> int:
    return sum("image/png" in o.get("data", {}) for o in cell.get("outputs", ()))


class ThisPython(AsyncKernelManager):
    """Starts the Python that runs the tests, whatever kernels are installed."""

    def _kernel_spec_manager_default(self):
        return KernelSpecManager(kernel_dirs=[])


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """The kernel finds this checkout, and nobody's settings."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_prints_what_it_shows(path):
    stored = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)
    NotebookClient(
        fresh,
        kernel_name="python3",
        kernel_manager_class=ThisPython,
        timeout=300,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    for before, after in zip(stored.cells, fresh.cells, strict=True):
        where = f"in the cell\n{after.source}"
        assert pictures(before) == pictures(after), where
        shown, printed = text(before), text(after)
        assert NUMBER.sub("#", shown) == NUMBER.sub("#", printed), where
        numbers = [list(map(float, NUMBER.findall(t))) for t in (shown, printed)]
        np.testing.assert_allclose(*numbers, rtol=1e-5, err_msg=where)
