"""The tests of tests/cuda without a GPU: in Numba's simulator, compiled to PTX, and with a stub of the driver.

In a process for each of these, which takes its time to begin; the longer ones have several.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent / "cuda"
ELSEWHERE = ("test_compile.py", "test_driver.py", "test_library.py", "test_products.py", "test_registry.py")
OTHERS = sorted(path.name for path in FOLDER.glob("test_*.py") if path.name not in ELSEWHERE)
#: Processes that run a part of the longer ones each, so that there is work for all of pytest's workers.
PARTS = [f"{k}/4" for k in (1, 2, 3, 4)]


def run(*files, **settings):
    """Run files of tests/cuda; all their tests must pass."""
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *[str(FOLDER / f) for f in files]],
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
        cwd=FOLDER.parent.parent,
        timeout=1500,
    )
    last = found.stdout.strip().splitlines()[-1:]
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
    assert " passed" in last[0] and "skipped" not in last[0], last


@pytest.mark.skipif(sys.platform != "linux", reason="NVIDIA's compiler is installed for Linux alone")
@pytest.mark.parametrize("part", PARTS)
def test_compiled(part):
    run("test_compile.py", NUMBA_ENABLE_CUDASIM="0", NBGRAD_PART=part)


@pytest.mark.parametrize("part", PARTS)
def test_operators_simulated(part):
    run("test_registry.py", NUMBA_ENABLE_CUDASIM="1", NBGRAD_PART=part)


def test_simulated():
    run(*OTHERS, NUMBA_ENABLE_CUDASIM="1")


needs_stubs = pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc") or find_spec("numba_cuda") is None,
    reason="needs Linux, a C compiler and numba-cuda",
)


def build(folder, source, name):
    """A stub as a shared library."""
    made = folder / name
    whole = ["cc", "-O1", "-shared", "-fPIC", "-o", str(made), str(FOLDER / source), "-ldl", "-lm"]
    subprocess.run(whole, check=True, capture_output=True)
    return str(made)


@needs_stubs
def test_with_a_stub_of_the_driver(tmp_path):
    stub, library = build(tmp_path, "driver.c", "libcuda.so.1"), build(tmp_path, "cublas.c", "products.so")
    files = "test_driver.py", "test_library.py"
    run(*files, NUMBA_ENABLE_CUDASIM="0", NBGRAD_STUB=stub, NBGRAD_STUB_LIBRARY=library, LD_LIBRARY_PATH=str(tmp_path))


@needs_stubs
def test_with_a_stub_of_the_library(tmp_path):
    run("test_products.py", NUMBA_ENABLE_CUDASIM="1", NBGRAD_STUB_LIBRARY=build(tmp_path, "cublas.c", "products.so"))
