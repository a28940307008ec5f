"""Tests of arrays on a GPU: a real one, or Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``).

``make test-gpu`` runs them on a GPU; tests/test_cuda.py runs them in the simulator, and test_compile.py without either.
"""

import os
import sys

import pytest

import nbgrad as nb
from nbgrad.backends.cuda import driver

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import simulator

if driver.simulated():
    simulator.install()


@pytest.fixture
def gpu():
    return nb.gpu(0)


def pytest_collection_modifyitems(items):
    """``NBGRAD_PART=2/4``: every fourth test, from the second one on."""
    part, parts = map(int, os.environ.get("NBGRAD_PART", "1/1").split("/"))
    items[:] = items[part - 1 :: parts]
