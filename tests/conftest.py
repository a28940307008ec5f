"""Fixtures of all tests, and how many random examples they try.

``NBGRAD_EXAMPLES=10000 pytest tests/test_random_shapes.py tests/test_indexing.py`` tries more.
"""

import gc
import os
import sys

import numba
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
gc.set_threshold(20_000, 20, 20)  # code is generated from many small objects

#: Tests for GPUs are run by tests/test_cuda.py, and by hand where there is one.
collect_ignore = [] if any("cuda" in argument for argument in sys.argv) else ["cuda"]


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture(autouse=True, scope="module")
def settled_objects():
    """What the tests of other modules left, compiled code for the most part, is looked at by no collection any more:
    these take seconds in the end."""
    gc.collect()
    gc.freeze()


#: The tests of loops that LLVM optimizes as for users: of programs, and of passes that are there for it.
OPTIMIZED = {
    "alias_analysis", "copy_elimination", "infinities", "loop_distribution", "loop_fusion", "parallel",
    "private_arrays", "programs", "random_programs", "reduction_privatization", "scatter_to_gather",
    "selection_sinking", "strip_mining", "unroll_and_jam", "vectorization", "vectorize",
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def optimization(request):
    """The other tests of loops ask what is accepted and what is generated for it, those of SciPy's functions ask for
    values. LLVM does less with their code, which takes two thirds of the time; code is cached by the level."""
    name = request.module.__name__
    with pytest.MonkeyPatch.context() as patch:
        loops = name.startswith("test_adjoint_") and name.removeprefix("test_adjoint_") not in OPTIMIZED
        if loops or name.startswith("test_scipy_"):
            patch.setattr(numba.config, "OPT", type(numba.config.OPT)(min(numba.config.OPT, 1)))
        yield
