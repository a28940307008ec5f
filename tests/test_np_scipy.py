"""Functions of SciPy that keep the gradient of arrays of np by the array API: each row of the table in docs/numpy.md.

SciPy decides when it is imported whether its functions take arrays of others, so they run in a process of their own.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = {
    "special": ["logsumexp(x)", "softmax(x)", "log_softmax(x)", "xlogy(x, x)", "rel_entr(x, x * x)"],
    "stats": [
        "zscore(x)", "gzscore(x)", "skew(x)", "kurtosis(x)", "moment(x, 3)", "variation(x)", "sem(x)", "gmean(x)",
        "hmean(x)", "pmean(x, 3)", "gstd(x)", "tmean(x)", "tvar(x)", "tstd(x)", "tsem(x)", "trim_mean(x, 0.2)",
        "iqr(x)",
        "median_abs_deviation(x)", "differential_entropy(x)", "circmean(x)", "circvar(x)", "circstd(x)",
        "directional_stats(np.outer(x, x)).mean_direction", "lmoment(x)", "boxcox_llf(0.5, x)",
        "describe(x).variance",
    ],
    "integrate": ["trapezoid(x)", "cumulative_trapezoid(x)", "cumulative_simpson(x)"],
    "optimize": ["rosen(x)", "rosen_der(x)"],
    "cluster": ["vq.whiten(np.outer(x, x) + np.eye(5))"],
    "spatial": ["transform.Rotation.from_rotvec(x[:3]).as_matrix()"],
}  # fmt: skip
NAMES = [f"{module}.{row}" for module, rows in ROWS.items() for row in rows]


def compare() -> None:
    """In the other process: the largest error of each gradient, or why there is none."""
    import importlib
    import warnings

    import numpy as onp

    import nbgrad as nb
    import nbgrad.np as np

    warnings.simplefilter("ignore")
    names = {module: importlib.import_module(f"scipy.{module}") for module in ROWS}
    for module in ("cluster.vq", "spatial.transform"):
        importlib.import_module(f"scipy.{module}")
    x = onp.array([0.3, 0.7, 1.1, 0.2, 0.55])
    found = {}
    for name in NAMES:
        plain = eval(f"lambda x: np.sum(np.sin({name}))", {**names, "np": onp})
        recorded = eval(f"lambda x: np.sum(np.sin({name}))", {**names, "np": np})
        try:
            gradient = onp.asarray(nb.grad(recorded)(x))
            steps = 1e-6 * onp.eye(5)
            expected = onp.array([(plain(x + d) - plain(x - d)) / 2e-6 for d in steps])
            found[name] = float(onp.max(onp.abs(gradient - expected) / (1 + onp.abs(expected))))
        except Exception as err:
            found[name] = f"{type(err).__name__}: {err}"[:300]
    print(json.dumps(found))


@pytest.fixture(scope="module")
def errors():
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    ran = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_kept(name, errors):
    assert isinstance(errors[name], float) and errors[name] < 1e-5, errors[name]


def test_the_table_in_the_documents_has_these_rows():
    page = (Path(__file__).parent.parent / "docs" / "numpy.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| `scipy\.(\w+)` \| (.*) \|$", page, re.M))
    listed = {f"{module}.{name}" for module, row in table.items() for name in re.findall(r"`([\w.]+)`", row)}
    assert listed == {re.split(r"[(]", name)[0] for name in NAMES}


if __name__ == "__main__":
    compare()
