"""Copies through pinned memory are right whenever the device comes to them."""

import numpy as np
import pytest

from nbgrad import nd
from nbgrad.backends.cuda import driver
from nbgrad.backends.cuda.staging import Staging


class Queue:
    """A device that does nothing until somebody waits: what is in its queue, and how far it has come."""

    def __init__(self):
        self.work = []
        self.come = 0

    def run(self, end):
        while self.come < end:
            self.work[self.come]()
            self.come += 1


class Piece:
    def __init__(self, queue):
        self.memory = np.zeros(32, np.uint8)
        self.queue = queue
        self.place = 0

    def mark(self):
        self.place = len(self.queue.work)

    def done(self):
        return self.queue.come >= self.place

    def wait(self):
        self.queue.run(self.place)


@pytest.mark.parametrize("dtype", ["uint8", "float64", "float32"])
@pytest.mark.parametrize("n", [1, 4, 5, 100])
def test_copies_that_are_late(n, dtype):
    queue = Queue()
    staging = Staging(lambda: Piece(queue), 32, 3)
    there = np.zeros(n, dtype)

    def send(start, stop, memory):
        queue.work.append(lambda: np.copyto(there[start:stop], memory))

    def receive(start, stop, memory):
        queue.work.append(lambda: np.copyto(memory, there[start:stop]))

    values = (np.arange(n) % 250 + 1).astype(dtype)
    wanted = values.copy()
    staging.upload(values, send)
    values[:] = 0  # it is the caller's again
    found = np.zeros(n, dtype)
    staging.download(found, receive)
    np.testing.assert_array_equal(found, wanted)
    made = staging.made
    assert made <= 3
    for _ in range(5):
        staging.upload(wanted, send)
    queue.run(len(queue.work))
    assert staging.made <= 3 and np.array_equal(there, wanted)


def test_large_arrays(gpu, monkeypatch):
    """Both ways, in pieces, and what is given may be changed at once."""
    monkeypatch.setattr(driver, "_DIRECT", 100)
    monkeypatch.setattr(driver, "_PIECE", 128)
    device = driver.device_of(0)
    monkeypatch.setattr(device, "staging", Staging(lambda: driver._Pinned(device.stream), 128, 3))
    for dtype in ("float32", "float16", "bool"):
        values = (np.arange(500) % 7).astype(dtype)
        wanted = values.copy()
        x = nd.array(values, ctx=gpu, dtype=dtype)
        values[:] = 0
        found = x.asnumpy()
        np.testing.assert_array_equal(found, wanted)
        found[:] = 0
        x[10:490] = wanted[:480]
        np.testing.assert_array_equal(x.asnumpy()[10:490], wanted[:480])
    assert 0 < device.staging.made <= 3
