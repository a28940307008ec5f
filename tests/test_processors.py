"""The same numbers on other processors than this one: code for vectors of 16, of 32 and, if there are, of 64 bytes."""

import os
import platform
import subprocess
import sys

import llvmlite.binding as llvm
import pytest

PROGRAM = """
import numpy as np
import nbgrad as nb
from nbgrad import nd

FUNCTIONS = {
    "cos": (nd.cos, np.cos), "sin": (nd.sin, np.sin), "tan": (nd.tan, np.tan),
    "mod": (lambda x: x % 0.75, lambda x: x % 0.75), "floor": (lambda x: x // 0.75, lambda x: x // 0.75),
    "exp": (nd.exp, np.exp), "tanh": (nd.tanh, np.tanh), "log1p": (nd.log1p, np.log1p),
}
WITHOUT_CALLS = "exp", "tanh", "log1p"  # the others call functions of vectors in their loops
# Kernels of operators take any length. Programs are compiled for one: a few elements after the last vector of the
# longest kind, or so many that all shorter vectors are needed for them.
LENGTHS, COMPILED = (35, 39, 47, 61), (35, 47)

def turns(u, v):
    for k in range(u.shape[0]):
        for i in range(u.shape[1]):
            v[k, i] = np.cos(u[k, i]) * np.sin(u[k, i])
    total = 0.0
    for k in range(u.shape[0]):
        for i in range(u.shape[1]):
            total += v[k, i] + u[k, i] % 0.75
    return total

for dtype, tolerance in (("float32", 2e-4), ("float64", 1e-11)):
    for n in LENGTHS:
        x = np.random.default_rng(n).uniform(-0.9, 1.4, (3, n)).astype(dtype)
        for large in (False, True):
            if large:
                x[1, ::7] = 1e7 if dtype == "float32" else 1e16  # is reduced by another function
            exact = x.astype("float64")
            for name, (ours, theirs) in FUNCTIONS.items():
                if large and name in ("floor", "exp", "log1p"):
                    continue
                given, y = nd.array(x, dtype=dtype), theirs(exact)
                compiled = n in COMPILED and not (n == 35 and name in WITHOUT_CALLS)
                for form in (lambda f: f, nb.jit)[: 1 + compiled]:
                    np.testing.assert_allclose(form(ours)(given).asnumpy(), y, tolerance, tolerance, err_msg=name)
                    for axis in (None, 1):
                        found = form(lambda x: nd.sum(ours(x), axis=axis))(given).asnumpy()
                        total, about = np.sum(y, axis).reshape(found.shape), f"{name} {n} {axis} {dtype}"
                        np.testing.assert_allclose(found, total, tolerance, n * tolerance, err_msg=about)
        if dtype == "float64":
            u = exact.clip(-1.4, 1.4)
            value, (slope, _) = nb.adjoint(turns).value_and_grad(u, np.zeros(u.shape))
            np.testing.assert_allclose(value, (np.cos(u) * np.sin(u) + u % 0.75).sum(), 1e-12)
            np.testing.assert_allclose(slope, np.cos(2 * u) + 1, 1e-12, 1e-12)
print("right")
"""


FEATURES = llvm.get_host_cpu_features()
#: Of the processors that this one can stand for.
NAMES = [n for n, needs in {"nehalem": "sse4.2", "haswell": "avx2", "skylake-avx512": "avx512f"}.items()
         if FEATURES.get(needs)]  # fmt: skip


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="they are processors of x86-64")
@pytest.mark.parametrize("name", NAMES)
def test_every_length_of_vectors(name, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    env = {**os.environ, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": "", "NBGRAD_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout.strip() == "right", done.stderr
