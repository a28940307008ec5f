"""The memory of compiled programs: who shares it, how much there is, and that nobody sees what others wrote."""

from __future__ import annotations

import numpy as np

import nbgrad as nb
from nbgrad import nd


def _long_rows(x):
    """More than fifty statements: a kernel for each loop at the top; the first one needs the most scratch memory."""
    y = nd.softmax(nd.sin(x) * 2, axis=1)
    for k in range(60):
        y = y / nd.sum(y * y + 0.1 * k)
    z = nd.reshape(nd.slice_axis(y, axis=1, begin=0, end=8), (-1, 8))
    return nd.sum(nd.softmax(z, axis=1) ** 2) + nd.sum(y)


def test_kernels_of_one_program_share_scratch_memory_of_the_largest():
    x = np.random.default_rng(0).standard_normal((40, 500))
    call = nb.jit(nb.value_and_grad(_long_rows))
    value, gradient = call(x)
    compiled = call.latest.compiled
    for step in compiled.steps:
        assert step.startswith("kernel")
    expected, slope = nb.value_and_grad(_long_rows)(x)
    np.testing.assert_allclose(value, expected, 1e-12)
    np.testing.assert_allclose(gradient, slope, 1e-9, 1e-12)
    sizes = {name: code for name, code in compiled.space.items() if name.startswith("s_")}
    for name, code in sizes.items():
        needed = max(source.scratch[name][1] for source in compiled.sources if name in source.scratch)
        assert int(code.split("(")[1].split(",")[0]) >= needed
