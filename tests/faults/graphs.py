"""Random graphs of all operators: values and gradients against NumPy, finite differences of it, and compiled.

A program's steps are samples of the registry: an operator with attributes, its NumPy reference, and the ranges that its
operands lie in. Operands are elements of what was computed so far, brought into shape and range smoothly. The same
steps run with our operators and with NumPy; gradients are compared to differences of NumPy's values, so neither values
nor derivatives of ours check themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.core.registry import operators
from nbgrad.operators.samples import Input, Sample

from . import Outcome

SHORT, LONG = 4, 20_000

STEPS = 8
LEAVES = ((2, 3), (3,), (1,))
#: Every so many programs are compiled, too, with their gradients: that takes seconds.
COMPILED = 25
#: Operators whose gradient is not the derivative of their value, on purpose; so are the updates of optimizers.
DECLARED = {"BlockGrad", "gradientmultiplier", "round_ste", "sign_ste", "SVMOutput", "IdentityAttachKLSparseReg"}
#: Operators whose shape depends on numbers: they cannot be compiled.
VALUED = {"boolean_mask", "bincount", "histogram"}
#: Values beyond are not computed with further: differences of what follows would say nothing.
LARGE = 10.0


class Step(NamedTuple):
    """One operator of a program: a sample, and which array of those before each operand is made of."""

    name: str
    sample: Sample
    sources: tuple[int | None, ...]
    kept: tuple[int, ...] = ()  # the results that further steps read


def _free(given: Input) -> bool:
    return given.grad and given.values is None


def _table() -> list[tuple[str, Sample]]:
    found = []
    for name, entry in operators.items():
        if name.startswith("_") or name.endswith("_update") or name in DECLARED:
            continue
        for sample in entry.samples:
            usual = not (sample.random or sample.changes or sample.loss or sample.training)
            usual = usual and sample.result in (
                "same",
                "float",
                "float64",
                "bool",
                "int64",
                "int32",
            )  # no less than ours
            full = all(0 < np.prod(given.shape) <= 64 for given in sample.inputs)
            if usual and full and any(map(_free, sample.inputs)):
                found.append((name, sample))
    return found


TABLE = _table()


def _fitted(xp: Any, take: Callable, a: Any, given: Input, place: int) -> Any:
    """An operand for a sample, of elements of `a`: smooth, in the operand's range, no two alike."""
    n = int(np.prod(given.shape))
    shifts = 0.7 * np.arange(n) + 0.3 * place
    middle, half = (given.low + given.high) / 2, 0.47 * (given.high - given.low)
    fitted = middle + half * xp.sin(1.3 * take(a, np.arange(n) % a.size) + shifts)
    return fitted.reshape(given.shape)


def _in_numpy(step: Step, pool: list) -> list[np.ndarray]:
    operands = [
        given.draw(k, "float64") if source is None else _fitted(np, lambda a, i: a.ravel()[i], pool[source], given, k)
        for k, (given, source) in enumerate(zip(step.sample.inputs, step.sources, strict=True))
    ]
    found = step.sample.reference(*operands)
    return [np.atleast_1d(np.asarray(y)) for y in (found if isinstance(found, list | tuple) else [found])]


def _in_ours(step: Step, pool: list) -> list:
    operands = [
        nd.array(given.draw(k, "float64"))
        if source is None
        else _fitted(nd, lambda a, i: nd.take(nd.reshape(a, (-1,)), nd.array(i)), pool[source], given, k)
        for k, (given, source) in enumerate(zip(step.sample.inputs, step.sources, strict=True))
    ]
    found = operators[step.name].call(*operands, **step.sample.attrs)
    return list(found) if isinstance(found, list | tuple) else [found]


def _pool(steps: list[Step], leaves: list, run: Callable) -> list:
    pool = list(leaves)
    for step in steps:
        made = run(step, pool)
        pool += [made[k] for k in step.kept]
    return pool


def _total(xp: Any, pool: list, weights: np.ndarray) -> Any:
    """A number that depends on the last third of the results."""
    last = pool[-max(1, len(pool) // 3) :]
    return sum([w * xp.sum(xp.sin(y)) for w, y in zip(weights, last, strict=False)])


def _drawn(rng: np.random.Generator) -> tuple[list[Step], list[np.ndarray]]:
    """A program, and where it is evaluated."""
    leaves = [rng.uniform(-1, 1, shape) for shape in LEAVES]
    steps: list[Step] = []
    pool = list(leaves)
    while len(steps) < STEPS:
        name, sample = TABLE[rng.integers(len(TABLE))]
        recent = rng.integers(max(0, len(pool) - 5), len(pool), len(sample.inputs))
        sources = tuple([int(s) if _free(x) else None for s, x in zip(recent, sample.inputs, strict=True)])
        step = Step(name, sample, sources)
        made = _in_numpy(step, pool)
        usable = [
            k for k, y in enumerate(made)
            if y.dtype == "float64" and 0 < y.size <= 64 and np.isfinite(y).all() and np.abs(y).max() < LARGE
        ]  # fmt: skip
        steps.append(step._replace(kept=tuple(usable)))
        pool += [made[k] for k in usable]
    return steps, leaves


def _slope(value: Callable, leaves: list, k: int, direction: np.ndarray) -> tuple[float, float]:
    """The derivative of `value` along a direction of one leaf, by differences, and how sure that is."""

    def at(h: float) -> float:
        moved = list(leaves)
        moved[k] = leaves[k] + h * direction
        return value(moved)

    coarse, middle, fine = [(at(h) - at(-h)) / (2 * h) for h in (4e-4, 2e-4, 1e-4)]
    better, best = (4 * middle - coarse) / 3, (4 * fine - middle) / 3
    return best, abs(best - better)


def _attempt(seed: int, outcome: Outcome) -> None:
    rng = np.random.default_rng([17, seed])
    steps, starts = _drawn(rng)
    weights = rng.uniform(0.5, 1.5, len(steps) * 4 + 4)
    text = f"seed {seed}: " + "; ".join(f"{s.name}({s.sample!r}) of {s.sources}" for s in steps)

    def value(leaves: list) -> float:
        return float(np.sum(_total(np, _pool(steps, leaves, _in_numpy), weights)))

    def ours(*leaves: Any) -> Any:
        return _total(nd, _pool(steps, list(leaves), _in_ours), weights)

    leaves = [nd.array(x) for x in starts]
    for x in leaves:
        x.attach_grad()
    with autograd.record(train_mode=False):  # nothing random
        pool = _pool(steps, leaves, _in_ours)
        total = _total(nd, pool, weights)
    for k, (mine, numpys) in enumerate(zip(pool, _pool(steps, starts, _in_numpy), strict=True)):
        if not np.allclose(mine.asnumpy().reshape(numpys.shape), numpys, rtol=1e-9, atol=1e-10):
            outcome.wrong.append(f"{text}: value {k} is {mine.asnumpy()}, NumPy's {numpys}")
            return
    if total._node is not None:  # it may depend on nothing
        total.backward(train_mode=False)
    gradients = [x.grad.asnumpy() for x in leaves]
    kinks = 0
    for k, gradient in enumerate(gradients):
        direction = rng.uniform(-1, 1, starts[k].shape)
        expected, doubt = _slope(value, starts, k, direction)
        found = float((gradient * direction).sum())
        size = max(1.0, abs(expected), float(np.abs(gradient).max()))
        if doubt > 1e-6 * size:  # a jump or a kink within the differences
            kinks += 1
        elif not abs(found - expected) <= 1e-6 * size:
            outcome.wrong.append(f"{text}: along leaf {k} the gradient gives {found}, differences {expected} ± {doubt}")
            return
    if seed % COMPILED == 0 and not {s.name for s in steps} & VALUED:
        compiled = nb.jit(nb.value_and_grad(ours, argnums=tuple(range(len(leaves)))))
        again, slopes = compiled(*[nd.array(x) for x in starts])
        for mine, other in zip([total, *[x.grad for x in leaves]], [again, *slopes], strict=True):
            scale = max(1.0, float(np.abs(mine.asnumpy()).max()))
            if other.shape != mine.shape or not np.allclose(
                other.asnumpy(), mine.asnumpy(), rtol=0, atol=1e-10 * scale
            ):
                outcome.wrong.append(f"{text}: compiled {other.asnumpy()}, eager {mine.asnumpy()}")
                return
        outcome.counts["compiled, too"] += 1
    else:
        outcome.counts["right, but for a kink" if kinks else "right"] += 1


def run(count: int, seed: int) -> Outcome:
    """Programs number `seed` to ``seed + count - 1``: ranges may run apart."""
    outcome = Outcome()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in range(seed, seed + count):
            try:
                _attempt(number, outcome)
            except Exception as err:  # an error is wrong, too: all operands are in range
                outcome.wrong.append(f"seed {number}: {type(err).__name__}: {err}")
    return outcome
