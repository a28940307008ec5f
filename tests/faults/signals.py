"""Signals at any moment of operators, of backward, of compiling: their handlers see whole gradients, may do whatever
the library does, and may interrupt, after which everything works."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable
from functools import cache

import numpy as np

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.backends.numba import disk_cache as on_disk
from nbgrad.backends.numba.compile import generate
from nbgrad.core import fork_safety

from . import Outcome
from ._apart import attempts

__all__ = ["LONG", "SHORT", "attempt", "run"]

SHORT, LONG = 40, 1000

_printed: list[str] = []


class _Graphs:
    """Gradients that are all one number, and are written over, or added to, by one backward."""

    def __init__(self) -> None:
        on_disk.store = lambda *_: None  # what is compiled here is of no use to anybody
        sys.unraisablehook = lambda given: _printed.append(repr(given.exc_value))
        self.leaves = {req: [nd.ones(20_000) for _ in range(6)] for req in ("write", "add")}
        self.kept = [w.attach_grad(req) for req, ws in self.leaves.items() for w in ws]
        self.mine = nd.ones(20_000)
        self.mine.attach_grad()
        self.heads = {req: self.record(ws) for req, ws in self.leaves.items()}
        self.total = 0.0

    def record(self, ws: list) -> nb.NDArray:
        with autograd.record():
            y = ws[0]
            for w in ws[1:]:
                y = y + w
        return y


graphs = cache(_Graphs)


def _gradients(req: str) -> set[float]:
    return {float(v) for w in graphs().leaves[req] for v in w.grad.asnumpy()[::19_999]}


class _Handler:
    """What the signal does: looks, calculates, interrupts."""

    def __init__(self, what: str, problems: list[str]) -> None:
        self.what, self.problems, self.came = what, problems, False

    def __call__(self, number, frame) -> None:
        self.came = True
        try:
            self.look()
        except Exception as err:
            self.problems.append(f"the handler raised {type(err).__name__}: {err}")
        if self.what == "interrupt":
            raise KeyboardInterrupt

    def look(self) -> None:
        for req in ("write", "add"):
            if len(_gradients(req)) != 1:
                self.problems.append(f"the handler saw gradients {_gradients(req)}")
        if self.what == "operators":
            y = nd.exp(graphs().mine * 0) + 1
            if not (y.asnumpy() == 2).all():
                self.problems.append("an operator of the handler gave something else")
        if self.what == "backward":
            x = graphs().mine
            with autograd.record():
                y = x * x
            y.backward()
            if not (x.grad.asnumpy() == 2).all():
                self.problems.append("a backward of the handler gave something else")


def _operators(number: int) -> bool:
    x = nd.ones(20_000)
    for _ in range(6):
        x = nd.sqrt(x * 4 - 3)
    return bool((x.asnumpy() == 1).all())


def _backward(req: str) -> Callable[[int], bool]:
    def program(number: int) -> bool:
        graphs().heads[req].backward(nd.ones(20_000) * number, retain_graph=True)
        return len(_gradients(req)) == 1 and (req == "add" or _gradients(req) == {float(number)})

    return program


def _recorded(number: int) -> bool:
    x = nd.ones(20_000)
    x.attach_grad()
    with autograd.record():
        y = x
        for _ in range(5):
            y = y * x
    y.backward()
    return bool((x.grad.asnumpy() == 6).all())


def _compiled(number: int) -> bool:
    source = f"def f(x, y):\n    for i in range(x.size):\n        y[i] = x[i] * {number}.0\n"
    x, y = np.ones(10), np.zeros(10)
    made = _made.setdefault(number, generate("f", source, {}))
    made(x, y)
    return bool((y == number).all())


def _jitted(number: int) -> bool:
    f = _made.setdefault(-number, nb.jit(lambda x: nd.sum(nd.tanh(x * 0) + number)))
    return f(nd.ones(8)).asscalar() == 8 * number


_made: dict = {}

#: Programs, how long they take about, and how often they are tried.
_PROGRAMS: dict[str, tuple[Callable[[int], bool], float, int]] = {
    "operators": (_operators, 4e-4, 6),
    "backward": (_backward("write"), 4e-4, 6),
    "adding": (_backward("add"), 4e-4, 6),
    "recorded": (_recorded, 5e-4, 6),
    "compiling": (_compiled, 0.15, 2),
    "jit": (_jitted, 0.3, 1),
}


def attempt(rng: random.Random) -> tuple[str, str | None]:
    name = rng.choice([name for name, (_, _, often) in _PROGRAMS.items() for _ in range(often)])
    program, takes, _ = _PROGRAMS[name]
    what = rng.choice(["operators", "backward", "interrupt"])
    number, delay = rng.randrange(1, 1 << 20), rng.uniform(1e-6, takes)
    graphs()
    if name not in _made:
        _made[name] = program(1)  # what it needs is there
    problems: list[str] = []
    handler = _Handler(what, problems)
    before = signal.signal(signal.SIGALRM, handler)
    interrupted, where = False, ""
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        try:
            if not program(number):
                problems.append("it gave something else")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            time.sleep(0)
    except KeyboardInterrupt as err:
        interrupted = True
        at = err.__traceback__
        while at is not None:
            where, at = at.tb_frame.f_code.co_qualname, at.tb_next
            if where.startswith("_Scope.__"):
                break
    except Exception as err:
        problems.append(f"{type(err).__name__}: {err}")
    finally:
        signal.signal(signal.SIGALRM, before)
    if where.startswith("_Scope.__"):  # Python's with lets an interrupt come before a scope's own first line
        autograd.set_recording(False)
        autograd.set_training(False)
    if interrupted and what != "interrupt":
        problems.append("a KeyboardInterrupt that nobody raised")
    if autograd.is_recording() or autograd.is_training():
        problems.append(f"a flag stays on, interrupted in {where}")
    problems += [f"a lock stays taken: {made}" for made in list(fork_safety._register) if made._is_owned()]
    for req in ("write", "add"):
        if len(_gradients(req)) != 1:
            problems.append(f"gradients are {_gradients(req)}")
    if not program(number) or not _recorded(number):
        problems.append("afterwards it gives something else")
    problems += [f"printed and lost: {text}" for text in _printed]
    _printed.clear()
    came = "interrupted" if interrupted else f"handler of {what}" if handler.came else "came too late"
    problem = f"{name}, {what} after {delay:.6f} s: {'; '.join(problems)}" if problems else None
    return f"{name}, {came}", problem


def run(count: int, seed: int) -> Outcome:
    return attempts("signals", count, seed)
