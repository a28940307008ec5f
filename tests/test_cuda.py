"""The tests of tests/cuda without a GPU: in Numba's simulator, compiled to PTX, and with a stub of the driver.

Each in a process of its own.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent / "cuda"
FILES = sorted(path.name for path in FOLDER.glob("test_*.py"))


def run(file, **settings):
    """Run a file of tests/cuda; all its tests must pass."""
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", str(FOLDER / file)],
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
        cwd=FOLDER.parent.parent,
        timeout=1500,
    )
    last = found.stdout.strip().splitlines()[-1:]
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
    assert " passed" in last[0] and "skipped" not in last[0], last


@pytest.mark.parametrize("file", [name for name in FILES if name not in ("test_compile.py", "test_driver.py")])
def test_simulated(file):
    run(file, NUMBA_ENABLE_CUDASIM="1")


@pytest.mark.skipif(sys.platform != "linux", reason="NVIDIA's compiler is installed for Linux alone")
def test_compiled():
    run("test_compile.py", NUMBA_ENABLE_CUDASIM="0")


@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc") or find_spec("numba_cuda") is None,
    reason="needs Linux, a C compiler and numba-cuda",
)
def test_with_a_stub_of_the_driver(tmp_path):
    stub = tmp_path / "libcuda.so.1"
    made = ["cc", "-shared", "-fPIC", "-o", str(stub), str(FOLDER / "driver.c"), "-ldl"]
    subprocess.run(made, check=True, capture_output=True)
    run("test_driver.py", NUMBA_ENABLE_CUDASIM="0", NBGRAD_STUB=str(stub), LD_LIBRARY_PATH=str(tmp_path))
