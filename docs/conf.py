"""The configuration of the site: ``make docs``. Nothing is fetched while it is built, or by its pages.

The pages of the reference are generated: lists of public names are taken from the package by :func:`write_reference`.
"""

import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("NBGRAD_PROGRESS", "0")

from reference_pages import write_reference  # noqa: E402

import nbgrad  # noqa: E402

project = "nbgrad"
author = "the nbgrad developers"
copyright = "the nbgrad developers; Apache-2.0"
version = release = nbgrad.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "matplotlib.sphinxext.mathmpl",  # formulas as pictures: no script from elsewhere
]
exclude_patterns = ["programs"]
suppress_warnings = ["autosummary.import_cycle"]

# Pages in Markdown, and notebooks, which the tests have run.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"

# Docstrings.
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "alphabetical"

html_theme = "furo"
html_title = f"nbgrad {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7fb2ee", "color-brand-content": "#7fb2ee"},
    "top_of_page_buttons": [],
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


_LITERAL = re.compile(r"(``.*?``|`.*?`)")


def escape(app, what, name, obj, options, lines: list[str]) -> None:
    """Let bars and products in the prose of docstrings, as in ``|x|`` or ``2*x``, be what they are in Python's help."""
    for k, line in enumerate(lines):
        parts = _LITERAL.split(line)
        for n in range(0, len(parts), 2):
            parts[n] = re.sub(r"(?<=[\w)\]])\*(?=[\w(])|(?<=[\s(])\*(?=\w+[),])", r"\\*", parts[n].replace("|", r"\|"))
        lines[k] = "".join(parts)


def setup(app) -> None:
    app.connect("autodoc-process-docstring", escape)


def copy_notebooks() -> None:
    """The notebooks, into the folder that Sphinx reads."""
    target = HERE / "tutorials"
    target.mkdir(exist_ok=True)
    for notebook in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        text = notebook.read_text(encoding="utf-8").replace("(../docs/", "(../")  # links to pages
        (target / notebook.name).write_text(text, encoding="utf-8")


copy_notebooks()
write_reference(HERE / "reference")
