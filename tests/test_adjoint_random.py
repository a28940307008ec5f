"""Random functions: adjoint, tangent and differences agree."""

import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_programs import agrees, uncompiled
from random_arrays import NAMES, ArrayProgram
from random_loops import Program, arguments, function

from nbgrad.adjoint.sweep import stencils
from nbgrad.errors import TraceError

EXAMPLES = int(os.environ.get("NBGRAD_EXAMPLES", "60"))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=True), seed=st.integers(0, 100))
def test_random_functions(random, seed):
    with uncompiled(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(stencils, "_SHORT", seed % 2 * stencils._SHORT)
        source = Program(random).source()
        agrees(function(source), arguments(seed), rtol=1e-5)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=True), seed=st.integers(0, 100))
def test_random_functions_of_arrays(random, seed):
    with uncompiled(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(stencils, "_SHORT", seed % 2 * stencils._SHORT)
        f = function(ArrayProgram(random).source(), NAMES)
        try:
            agrees(f, arguments(seed), rtol=1e-5)
        except TraceError as err:
            assert re.search(
                "made anew|different form|changes places|given other names|another array under|may stand for another",
                str(err),
            )  # which the programs do not avoid


@settings(max_examples=max(EXAMPLES // 20, 1), deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=True))
def test_random_functions_compiled(random):
    agrees(function(Program(random).source()), arguments(1), rtol=1e-5)
