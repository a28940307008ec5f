"""Numbers for the programs."""

import numpy as np

RNG = np.random.default_rng(11)


def normal(*shape):
    return RNG.normal(size=shape)


def positive(*shape):
    return 0.5 + RNG.random(shape)
