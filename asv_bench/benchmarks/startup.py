"""What a new process pays: importing, the first gradient, loading a kernel. Each measured in processes of its own."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nbgrad

_FIRST_GRADIENT = """
import time
from nbgrad import autograd, nd
start = time.perf_counter()
x = nd.array([1.0, 2.0, 3.0])
x.attach_grad()
with autograd.record():
    y = nd.tanh(x) * x + 1
y.backward()
print(time.perf_counter() - start)
"""
_IMPORT = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
_OVER_NUMBA = "import numba, time; start = time.perf_counter(); import nbgrad; print(time.perf_counter() - start)"
_LOAD = """
import time
import numpy as np
from nbgrad.codegen.compile import generate

def loaded(name):
    source = f"def {name}(x, out):\\n    for i in range(out.size):\\n        out[i] = 2 * x[i]\\n"
    generate(name, source, {"np": np}).bind(np.dtype("float64"), np.dtype("float64"))

loaded("first")  # the first kernel of a process also starts Numba's runtime
start = time.perf_counter()
for name in ("a", "b", "c", "d"):
    loaded(name)
print((time.perf_counter() - start) / 4)
"""


def _in_new_process(code: str, cache: str, repeat: int = 3) -> float:
    """The least number of seconds that `code` prints."""
    here = str(Path(nbgrad.__file__).parents[1])
    environment = {**os.environ, "NBGRAD_CACHE_DIR": cache, "PYTHONPATH": here}
    command = [sys.executable, "-c", code]
    return min(float(subprocess.check_output(command, env=environment)) for _ in range(repeat))


class Startup:
    timeout = 300

    def setup(self):
        self.folder = tempfile.TemporaryDirectory()
        self.warm = os.path.join(self.folder.name, "warm")

    def teardown(self):
        self.folder.cleanup()

    def track_import_numba(self):
        return _in_new_process(_IMPORT.format("numba"), self.warm)

    def track_import_over_numba(self):
        return _in_new_process(_OVER_NUMBA, self.warm)

    def track_first_gradient_cold(self):
        return _in_new_process(_FIRST_GRADIENT, os.path.join(self.folder.name, "cold"), repeat=1)

    def track_first_gradient_warm(self):
        return _in_new_process(_FIRST_GRADIENT, self.warm)

    def track_cached_kernel_load(self):
        return _in_new_process(_LOAD, self.warm)

    for _track in (
        track_import_numba,
        track_import_over_numba,
        track_first_gradient_cold,
        track_first_gradient_warm,
        track_cached_kernel_load,
    ):
        _track.unit = "seconds"
