"""Fixtures of all tests, and how many random examples they try.

``NBGRAD_EXAMPLES=10000 pytest tests/test_random_shapes.py tests/test_indexing.py`` tries more.
"""

import os
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from nbgrad.loops.ir import passes

settings.register_profile(
    "nbgrad",
    max_examples=int(os.environ.get("NBGRAD_EXAMPLES", "120")),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
)
settings.load_profile("nbgrad")
passes.VERIFIES = True  # between all passes over loops

#: Tests for GPUs are run by tests/test_cuda.py, and by hand where there is one.
collect_ignore = [] if any("cuda" in argument for argument in sys.argv) else ["cuda"]


@pytest.fixture
def rng():
    return np.random.default_rng(11)
