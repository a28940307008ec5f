"""Functions of other libraries that keep the gradient of arrays of np: each row of the tables in docs/numpy.md.

SciPy decides when it is imported whether its functions take arrays of others, so they run in a process of their own.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

#: By module, calls of its functions, of the vector x or the matrix m.
SCIPY = {
    "scipy.special": ["logsumexp(x)", "softmax(x)", "log_softmax(x)", "xlogy(x, x)", "rel_entr(x, x * x)"],
    "scipy.stats": [
        "zscore(x)", "gzscore(x)", "skew(x)", "kurtosis(x)", "moment(x, 3)", "variation(x)", "sem(x)", "gmean(x)",
        "hmean(x)", "pmean(x, 3)", "gstd(x)", "tmean(x)", "tvar(x)", "tstd(x)", "tsem(x)", "trim_mean(x, 0.2)",
        "iqr(x)",
        "median_abs_deviation(x)", "differential_entropy(x)", "circmean(x)", "circvar(x)", "circstd(x)",
        "directional_stats(np.outer(x, x)).mean_direction", "lmoment(x)", "boxcox_llf(0.5, x)",
        "describe(x).variance",
    ],
    "scipy.integrate": ["trapezoid(x)", "cumulative_trapezoid(x)", "cumulative_simpson(x)"],
    "scipy.optimize": ["rosen(x)", "rosen_der(x)"],
    "scipy.cluster": ["vq.whiten(np.outer(x, x) + np.eye(5))"],
    "scipy.spatial": ["transform.Rotation.from_rotvec(x[:3]).as_matrix()"],
}  # fmt: skip
OTHERS = {
    "einops.array_api": [
        "rearrange(m, 'a (b c) -> c (b a)', b=2)", "reduce(m, 'a (b c) -> a c', 'mean', b=2)",
        "repeat(x, 'a -> a k', k=3)", "pack([x, m[:, :2]], 'a *')[0]", "unpack(m, [(1,), (3,)], 'a *')[1]",
    ],
    "opt_einsum": ["contract('ij,kj,kl->il', m, m, m)"],
    "array_api_extra": [
        "apply_where(m > 0.5, m, np.sqrt, np.square)", "at(m, (slice(None), 1)).add(m[:, 0], copy=True)",
        "atleast_nd(m, ndim=3)", "cov(m)", "create_diagonal(x)", "expand_dims(m, axis=(0, 2))", "kron(m, m[:2, :2])",
        "nan_to_num(m)", "one_hot(np.asarray([0, 1, 2, 3, 1]), 4) * m", "pad(m, 2)", "sinc(m)",
    ],
    "xarray.DataArray": [
        "sum('t').data", "mean('t').data", "std('t').data", "var('s').data", "max('s').data", "min('s').data",
        "prod('s').data", "cumsum('t').data", "diff('t').data", "shift(t=1, fill_value=0.0).data", "transpose().data",
        "sel(t=[1, 3]).data", "isel(s=0).data", "where(table > 0.5, 0.5).data", "fillna(0.0).data",
        "clip(0.3, 0.9).data", "dot(table).data", "groupby('g').sum().data", "rolling(t=2).mean()[1:].data",
        "coarsen(s=2).mean().data", "weighted(table.t).mean('t').data", "integrate('t').data",
        "differentiate('t').data", "polyfit('t', 1).polyfit_coefficients.data", "stack(z=('t', 's')).data",
        "pad(t=1, constant_values=0.0).data", "roll(t=1).data", "broadcast_like(table).data", "sortby('t').data",
    ],
    "sklearn.metrics.pairwise": [
        "cosine_similarity(m)", "euclidean_distances(m[:2], m[2:])", "linear_kernel(m)", "polynomial_kernel(m)",
        "rbf_kernel(m[:2], m[2:])", "sigmoid_kernel(m)", "laplacian_kernel(m[:2], m[2:])", "chi2_kernel(m[:2], m[2:])",
        "manhattan_distances(m[:2], m[2:])", "paired_cosine_distances(m[:2], m[3:])",
        "paired_euclidean_distances(m[:2], m[3:])",
    ],
    "sklearn.preprocessing": [
        "StandardScaler().fit_transform(m)", "MinMaxScaler().fit_transform(m)", "MaxAbsScaler().fit_transform(m)",
        "Normalizer().fit_transform(m)", "PolynomialFeatures(2).fit_transform(m)",
    ],
    "sklearn.decomposition": ["PCA(2, svd_solver='full').fit(m).explained_variance_"],
    "sklearn.linear_model": ["Ridge(solver='svd').fit(m, x).coef_"],
}  # fmt: skip
NAMES = [f"{module}.{call}" for module, calls in (SCIPY | OTHERS).items() for call in calls]


def as_program(name: str) -> str:
    """A function of x that calls what a row has; methods of xarray's are called on a table with coordinates."""
    method = name.removeprefix("xarray.DataArray.")
    table = "xarray.DataArray(m, dims=('t', 's'), coords={'t': numpy.arange(5.0), 'g': ('t', [0, 0, 1, 1, 1])})"
    call = name if method == name else f"(lambda table: table.{method})({table})"
    return f"lambda x: (lambda m: np.sum(np.sin({call})))(np.outer(x, WEIGHTS) + MATRIX)"


def compare() -> None:
    """In the other process: the largest error of each gradient, or why there is none."""
    import importlib
    import warnings

    import numpy

    import nbgrad as nb
    import nbgrad.np

    warnings.simplefilter("ignore")
    modules = [*(m for m in SCIPY | OTHERS if m != "xarray.DataArray"), "xarray"]
    for module in [*modules, "scipy.cluster.vq", "scipy.spatial.transform"]:
        importlib.import_module(module)
    names = {m.split(".")[0]: sys.modules[m.split(".")[0]] for m in modules}
    names |= {"numpy": numpy, "WEIGHTS": numpy.linspace(0.5, 1.2, 4)}
    names |= {"MATRIX": numpy.random.default_rng(1).uniform(0.1, 0.9, (5, 4))}
    names["sklearn"].set_config(array_api_dispatch=True)
    x = numpy.array([0.3, 0.7, 1.1, 0.2, 0.55])
    found = {}
    for name in NAMES:
        plain, recorded = (eval(as_program(name), {**names, "np": module}) for module in (numpy, nbgrad.np))
        try:
            gradient = numpy.asarray(nb.grad(recorded)(x))
            steps = 1e-6 * numpy.eye(5)
            expected = numpy.array([(plain(x + d) - plain(x - d)) / 2e-6 for d in steps])
            found[name] = float(numpy.max(numpy.abs(gradient - expected) / (1 + numpy.abs(expected))))
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


def test_the_tables_in_the_documents_have_these_rows():
    page = (Path(__file__).parent.parent / "docs" / "numpy.md").read_text(encoding="utf-8")
    tables = dict(re.findall(r"^\| `([\w.]+)` \| (`.*) \|$", page, re.M))
    listed = {module: re.findall(r"`([\w.]+)`", row) for module, row in tables.items() if module in SCIPY | OTHERS}
    assert listed == {m: [re.split(r"[(]", call)[0] for call in calls] for m, calls in (SCIPY | OTHERS).items()}


if __name__ == "__main__":
    compare()
