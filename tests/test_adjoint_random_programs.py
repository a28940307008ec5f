"""Of random programs with loops, adjoints, tangents and finite differences agree."""

import os
import re
import warnings
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_programs import agrees, uncompiled
from random_arrays import NAMES, ArrayProgram
from random_loops import Program, arguments, function
from random_tuples import NAMES as TUPLE_NAMES
from random_tuples import TupleProgram

from nbgrad.errors import DerivativeWarning, TraceError
from nbgrad.loops.transforms import scatter_to_gather

EXAMPLES = int(os.environ.get("NBGRAD_EXAMPLES", "60"))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=True), seed=st.integers(0, 100))
def test_random_functions(random, seed):
    with uncompiled(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(scatter_to_gather, "_MIN_TRIP_COUNT", seed % 2 * scatter_to_gather._MIN_TRIP_COUNT)
        source = Program(random).source()
        agrees(function(source), arguments(seed), rtol=1e-5)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=True), seed=st.integers(0, 100))
def test_random_functions_of_arrays(random, seed):
    with uncompiled(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(scatter_to_gather, "_MIN_TRIP_COUNT", seed % 2 * scatter_to_gather._MIN_TRIP_COUNT)
        f = function(ArrayProgram(random).source(), NAMES)
        try:
            agrees(f, arguments(seed), rtol=1e-5)
        except TraceError as err:
            assert re.search(
                "its body rebinds|different form|is swapped|assigned to other names|another array under|"
                "may be bound to another",
                str(err),
            )  # random programs do not avoid these


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=True), seed=st.integers(0, 100))
def test_random_functions_of_tuples(random, seed):
    f = function(TupleProgram(random).source(), TUPLE_NAMES)
    v = np.random.default_rng(seed).normal(size=4) * 0.7
    with uncompiled(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DerivativeWarning)
        try:
            agrees(f, (v,), rtol=1e-5)
        except TraceError as err:
            assert re.search("may be bound to another|assigned to other names", str(err))


@settings(max_examples=max(EXAMPLES // 20, 1), deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=True))
def test_random_functions_compiled(random):
    agrees(function(Program(random).source()), arguments(1), rtol=1e-5)


def stencil(random):
    """A stencil with constant weights, of which some are multiples of others."""

    def weighted():
        weight = random.choice(["0.3", "0.3", "0.2", "0.5", "p", "2.0", "-0.2", "0.3 * 0.2", "p * 0.3"])
        row, column = random.choice(["i", "i", "i + 1", "i - 1"]), random.choice(["j", "j", "j + 1", "j - 1"])
        term = f"{weight} * u[{row}, {column}]"
        return term if random.random() > 0.15 else f"({term} if j > 1 else 0.0)"

    besides = [f"v[i, j] += {weighted()}", f"v[i - 1, j] += {weighted()} * p", "u[i, j] += 0.1 * v[i, j]", "pass"]
    return f"""
def f(u, v, p):
    for i in range(1, u.shape[0] - 1):
        {random.choice(["pass", "p = p * 0.9"])}
        for j in range(1, u.shape[1] - 1):
            t = {" + ".join(weighted() for _ in range(random.randint(2, 5)))}
            {random.choice(besides)}
            v[i, j] += t * {random.choice(["1.0", "t", "p", "0.3", "v[i, j]"])}
"""


@pytest.mark.parametrize("seed", range(8))
def test_weights_of_neighbours(seed):
    random, rng = Random(seed), np.random.default_rng(seed)
    with uncompiled():
        for _ in range(12):
            agrees(function(stencil(random)), (rng.normal(size=(5, 6)), rng.normal(size=(5, 6)), 0.7), rtol=1e-5)
