"""Numbers for the programs."""

import numpy as np


def drawn(seed):
    """Normal numbers, and positive ones, by shape."""
    rng = np.random.default_rng(seed)
    return (lambda *shape: rng.normal(size=shape)), (lambda *shape: 0.5 + rng.random(shape))


normal, positive = drawn(11)
