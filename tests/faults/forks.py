"""Forks at any moment, while other threads compile, run large kernels and differentiate: each child does all of it."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import warnings
from functools import cache

import numpy as np

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.backends import threads
from nbgrad.backends.numba import disk_cache as on_disk
from nbgrad.backends.numba.compile import generate

from . import Outcome
from ._apart import attempts

__all__ = ["LONG", "SHORT", "attempt", "run"]

SHORT, LONG = 6, 200

#: Seconds that a child has.
_PATIENCE = 60


def _program() -> bytes:
    x = nd.array(np.linspace(0.1, 2, 20_000))
    x.attach_grad()
    with autograd.record():
        y = nd.tanh(x * x + 0.5) * nd.exp(x)
    y.backward()
    return y.asnumpy().tobytes() + x.grad.asnumpy().tobytes()


def _compile(number: int) -> bool:
    source = f"def f(x, y):\n    for i in range(x.size):\n        y[i] = x[i] + {number}.0\n"
    x, y = np.zeros(4), np.zeros(4)
    generate("f", source, {})(x, y)
    return bool((y == number).all())


class _Busy:
    """Threads that compile, calculate and differentiate until the process ends."""

    def __init__(self) -> None:
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks with threads
        on_disk.store = lambda *_: None
        threads.GRAIN = 2048
        nb.set_num_threads(2)
        self.expected = _program()
        self.wrong: list[str] = []
        for work in (self.compile, self.calculate, self.calculate):
            threading.Thread(target=self.forever, args=(work,), daemon=True).start()

    def forever(self, work) -> None:
        k = 0
        while True:
            k += 1
            try:
                if not work(k):
                    self.wrong.append(f"a thread's {work.__name__} gave something else")
            except Exception as err:
                self.wrong.append(f"a thread raised {type(err).__name__}: {err}")

    def compile(self, k: int) -> bool:
        return _compile(1000 + k)

    def calculate(self, k: int) -> bool:
        return _program() == self.expected


busy = cache(_Busy)


def attempt(rng: random.Random) -> tuple[str, str | None]:
    found = busy()
    time.sleep(rng.uniform(0, 0.1))
    child = os.fork()
    if child == 0:
        code = 3
        try:
            code = 0 if _program() == found.expected and _compile(rng.randrange(1 << 20)) else 2
        finally:
            os._exit(code)
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            problem = None if code == 0 else f"the child ended with {code}"
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        problem = f"the child hangs for {_PATIENCE} s"
    if found.wrong:
        problem = "; ".join([*filter(None, [problem]), found.wrong.pop()])
    return "the child works", problem


def run(count: int, seed: int) -> Outcome:
    return attempts("forks", count, seed)
