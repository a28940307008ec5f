"""Every example in docstrings, README and docs runs and prints what it says."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import nbgrad

ROOT = Path(nbgrad.__file__).parent.parent
MODULES = sorted(m.name for m in pkgutil.walk_packages(nbgrad.__path__, "nbgrad.") if not m.name.endswith("__main__"))
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))
FLAGS = doctest.FAIL_FAST


def run(test: doctest.DocTest) -> int:
    said = io.StringIO()
    outcome = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.write)
    assert not outcome.failed, said.getvalue()
    return outcome.attempted


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    for found in finder.find(module, module.__name__):
        run(found)


def test_there_are_examples_to_run():
    finder = doctest.DocTestFinder()
    examples = [e for name in MODULES for t in finder.find(importlib.import_module(name), name) for e in t.examples]
    assert len(examples) > 60


@pytest.mark.parametrize("name", PAGES)
def test_pages(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    source = "\n".join(block for block in blocks if ">>>" in block)
    run(doctest.DocTestParser().get_doctest(source, {}, name, name, 0))


def test_readme_examples_print_what_they_say(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pairs = re.findall(r"```python\n((?:(?!```).)*)```\n+```\n(.*?)```", text, re.S)
    assert len(pairs) == 3
    for k, (code, shown) in enumerate(pairs):
        said, file = io.StringIO(), tmp_path / f"example{k}.py"
        file.write_text(code, encoding="utf-8")  # nb.adjoint reads the source of functions
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(file))
        assert said.getvalue().strip() == shown.strip()


def test_public_autograd_names_have_examples():
    from nbgrad import autograd

    for name in autograd.__all__:
        doc = getattr(autograd, name).__doc__
        assert doc, name
        assert ">>>" in doc, f"autograd.{name} has no example"
