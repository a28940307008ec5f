"""Long recordings: what an operator costs when many are on the tape, and the memory that going back takes."""

import gc
from time import process_time

import numpy as np

from nbgrad import autograd, nd
from nbgrad.backends.buffer_pool import pool, rounded


def _recorded(x, length):
    with autograd.record():
        y = x
        for _ in range(length // 2):
            y = nd.tanh(y) * x
    return y


class Length:
    """Microseconds for one of so many operators on 10 elements, the collector on as programs have it, and off.

    These should be the same for all lengths: nothing is searched, and going back takes each node once. What grows with
    the collector on is Python's: it looks at all living objects again and again.
    """

    params = ((100, 10_000, 100_000), (True, False))
    param_names = ("operators", "collector")

    def setup(self, length, collector):
        self.x = nd.array(np.linspace(0.1, 1.0, 10))
        self.x.attach_grad()
        _recorded(self.x, 100).backward()
        gc.collect()
        if not collector:
            gc.disable()

    def teardown(self, length, collector):
        gc.enable()

    def _least(self, length):
        """CPU time of recording and of going back, an operator, of the fastest rounds."""
        forward, backward = [], []
        for _ in range(max(3, 10_000 // length)):
            start = process_time()
            y = _recorded(self.x, length)
            middle = process_time()
            y.backward()
            backward.append(process_time() - middle)
            forward.append(middle - start)
        return 1e6 * min(forward) / length, 1e6 * min(backward) / length

    def track_recording(self, length, collector):
        return self._least(length)[0]

    def track_backward(self, length, collector):
        return self._least(length)[1]

    track_recording.unit = track_backward.unit = "us an operator"


class Memory:
    """A chain of 100 operators on 1e6 elements."""

    def setup(self):
        self.x = nd.array(np.linspace(0.1, 1.0, 10**6))
        self.x.attach_grad()

    def peakmem_chain(self):
        _recorded(self.x, 100).backward()

    def track_backward_over_recording(self):
        """The peak of going back, over what recording holds, in arrays."""
        y = _recorded(self.x, 100)
        held = pool.peak = pool.lent
        y.backward()
        return (pool.peak - held) / rounded(8 * 10**6)

    track_backward_over_recording.unit = "arrays"
