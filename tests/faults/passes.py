"""Random programs with some passes switched off: the results and gradients are the same.

A wrong one is described by its seed: ``python -m faults passes --count 1 --seed N`` runs that program alone.
"""

import traceback
from random import Random

import numpy as np
from loop_programs import uncompiled
from random_arrays import NAMES, ArrayProgram
from random_loops import Program, arguments, function

import nbgrad as nb
from nbgrad.errors import TraceError
from nbgrad.loops.ir.passes import Pass, without
from nbgrad.loops.transforms import scatter_to_gather

from . import Outcome
from .loops import Large, gradients

SHORT, LONG = 30, 5000


def attempt(seed):
    """What came of a program; an assertion fails if anything is wrong."""
    random = Random(seed)
    kind = random.choices([Program, ArrayProgram, Large], [5, 4, 1])[0]
    source = kind(random).source()
    args = arguments(seed % 101)
    f = function(source, NAMES if kind is ArrayProgram else {})
    off = [p for p in Pass if random.random() < random.choice([0.1, 0.5, 1.0])]
    small, scatter_to_gather._MIN_TRIP_COUNT = scatter_to_gather._MIN_TRIP_COUNT, 1
    try:
        every = gradients(nb.adjoint(f), f, args)
        with without(*off):
            some = gradients(nb.adjoint(f), f, args)
    except TraceError:
        return "refused"
    finally:
        scatter_to_gather._MIN_TRIP_COUNT = small
    for a, b in zip(every, some, strict=True):
        scale, names = max(1.0, np.max(np.abs(a), initial=0.0)), ", ".join(p.name for p in off)
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10 * scale, err_msg=f"without {names}")
    return "right"


def run(count, seed):
    outcome = Outcome()
    with uncompiled():
        for k in range(seed, seed + count):
            try:
                outcome.counts[attempt(k)] += 1
            except Exception:
                outcome.wrong.append(f"seed {k}: {traceback.format_exc(limit=-3)}"[:1500])
    return outcome
