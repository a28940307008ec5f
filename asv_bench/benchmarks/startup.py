"""What a new process pays: importing, the first gradient, loading a kernel, README's example. Each in new processes."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import nbgrad

_HERE = Path(__file__).resolve().parents[2]
_FIRST_GRADIENT = """
x = nd.array([1.0, 2.0, 3.0])
x.attach_grad()
with autograd.record():
    y = nd.tanh(x) * x + 1
y.backward()
"""
_README = re.search(r"```python\n(.*?)```", (_HERE / "README.md").read_text(encoding="utf-8"), re.S).group(1)
_LOAD = """
import time
import numpy as np
from nbgrad.backends.numba.compile import generate

def loaded(name):
    source = f"def {name}(x, out):\\n    for i in range(out.size):\\n        out[i] = 2 * x[i]\\n"
    generate(name, source, {"np": np}).bind(np.dtype("float64"), np.dtype("float64"))

loaded("first")  # the first kernel of a process also starts Numba's runtime
start = time.perf_counter()
for name in ("a", "b", "c", "d"):
    loaded(name)
print((time.perf_counter() - start) / 4)
"""
_LAYERS = """
import time
import numpy as np
import nbgrad as nb
from nbgrad import nd

def loss(weights, x):
    for w, v, u in weights:
        scores = nd.softmax(nd.batch_dot(nd.dot(x, w), x, transpose_b=True), axis=-1)
        x = nd.tanh(x + nd.batch_dot(scores, nd.dot(x, v)))
        x = x + nd.relu(nd.dot(x, u))
    return nd.mean(x * x)

rng = np.random.default_rng(0)
nb.jit(nb.grad(lambda x: nd.sum(nd.sin(x))))(np.ones(3))  # starts Numba
start = time.perf_counter()
nb.jit(nb.value_and_grad(loss))(list(rng.standard_normal((6, 3, 32, 32)) / 6), rng.standard_normal((4, 16, 32)))
print(time.perf_counter() - start)
"""


def _in_new_process(code: str, cache: str, repeat: int = 3) -> tuple[float, str]:
    """The least number of seconds that a process takes to run `code`, and what it prints."""
    environment = {**os.environ, "NBGRAD_CACHE_DIR": cache, "PYTHONPATH": str(Path(nbgrad.__file__).parents[1])}
    times = []
    for _ in range(repeat):
        start = perf_counter()
        said = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
        times.append(perf_counter() - start)
    return min(times), said


def timeraw_import_numba():
    return "import numba"


def timeraw_import_over_numba():
    return "import nbgrad", "import numba"


def timeraw_first_gradient():
    """With whatever the user's cache has after one such process."""
    return _FIRST_GRADIENT, "from nbgrad import autograd, nd"


for _timeraw in (timeraw_import_numba, timeraw_import_over_numba, timeraw_first_gradient):
    _timeraw.number = 1  # the second time is another matter


class Startup:
    """With caches of its own, empty or filled."""

    timeout = 300

    def setup(self):
        self.folder = tempfile.TemporaryDirectory()
        self.warm = os.path.join(self.folder.name, "warm")

    def teardown(self):
        self.folder.cleanup()

    def track_readme_cold(self):
        return _in_new_process(_README, os.path.join(self.folder.name, "cold"), repeat=1)[0]

    def track_readme_warm_over_import_numba(self):
        _in_new_process(_README, self.warm, repeat=1)
        return _in_new_process(_README, self.warm)[0] - _in_new_process("import numba", self.warm)[0]

    def track_first_call_of_six_layers(self):
        return float(_in_new_process(_LAYERS, os.path.join(self.folder.name, "layers"), repeat=1)[1])

    def track_cached_kernel_load(self):
        _in_new_process(_LOAD, self.warm, repeat=1)
        return float(_in_new_process(_LOAD, self.warm, repeat=1)[1])

    track_readme_cold.unit = track_readme_warm_over_import_numba.unit = track_cached_kernel_load.unit = "seconds"
    track_first_call_of_six_layers.unit = "seconds"
