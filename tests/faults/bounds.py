"""Random loops over arrays that may be too short: an adjoint raises an error where Python does, and else is right.

Most are run by Python, which has no undefined behaviour to hide in. Of each hundred one is compiled, with arrays and
their cotangents between elements that nobody may touch."""

import random

import numpy as np
import random_bounds
import random_loops
from loop_programs import copies, uncompiled

import nbgrad as nb
from nbgrad.errors import NBGradError

from . import Outcome

SHORT, LONG = 30, 5000
_COMPILED = 100
_ZONE, _CANARY = 64, 7.25e77


def _shortened(args, draw):
    made = []
    for a in args:
        if isinstance(a, np.ndarray):
            a = np.ascontiguousarray(a[tuple(slice(0, n - draw.choice([0, 0, 0, 0, 1, 2, 3])) for n in a.shape)])
        made.append(a)
    return tuple(made)


def _program(draw, seed):
    if draw.random() < 0.3:
        return random_loops.Program(draw).source(), _shortened(random_loops.arguments(seed), draw)
    source = random_bounds.Reach(draw).source()
    return source, random_bounds.arguments(np.random.default_rng(seed), draw)


def _tried(call):
    """What a call gives, or its error."""
    with np.errstate(all="ignore"):
        try:
            return call(), None
        except (IndexError, ValueError, ZeroDivisionError, UnboundLocalError) as err:
            return None, err


def _floats(values):
    values = values if isinstance(values, tuple) else (values,)
    return [np.ravel(v) for v in values if v is not None]


#: Why the adjoint may raise an error of another kind than Python does.
_REASONS = (
    # lengths of whole arrays are compared before their elements are read, and NumPy's order is another one
    ("lengths before elements", lambda python, ours: type(ours) is ValueError and "lengths" in str(ours)),
    # a function is run to its end where Python stops at a name that has no value
    ("a name without a value", lambda python, ours: isinstance(python, UnboundLocalError)),
)


def _kind(err):
    return next(k for k in (IndexError, UnboundLocalError, ZeroDivisionError, ValueError) if isinstance(err, k))


def _allowed(python, ours):
    """Whether an error is of Python's kind, or there is a reason why not."""
    return _kind(python) is _kind(ours) or any(holds(python, ours) for _, holds in _REASONS)


def _attempt(source, args, seed):
    """What came of it, and a description if it is wrong."""
    f = random_loops.function(source)
    mine = copies(args)
    expected, error = _tried(lambda: f(*mine))
    outcomes = []
    for how in ("vjp", "jvp", "at once"):
        with uncompiled():
            here = copies(args)
            try:
                found, raised = _tried(lambda how=how, here=here: _differentiated(f, here, how, seed))
            except NBGradError:
                return "refused", ""
        if error is not None:
            if raised is None:
                return "", f"{how}: Python raises {error!r}, the adjoint {raised!r}"
            if not _allowed(error, raised):
                return "", f"{how}: Python raises {error!r}, the adjoint an error of another kind, {raised!r}"
        elif raised is not None:
            return "", f"{how}: Python raises nothing, the adjoint {raised!r}"
        else:
            for a, b in zip(_floats(found[0]), _floats(expected), strict=False):
                if not np.allclose(a, b, rtol=1e-10, equal_nan=True):
                    return "", f"{how}: the value is {a}, not {b}"
            outcomes.append(found[1])
    if error is not None:
        return "an error in both", ""
    scale = max(1.0, *map(abs, outcomes))
    if all(map(np.isfinite, outcomes)) and max(outcomes) - min(outcomes) > 1e-9 * scale:
        return "", f"derivatives in a direction differ: {outcomes}"
    return "right", ""


def _differentiated(f, args, how, seed):
    """The value, and the derivative of all outputs together in a random direction."""
    rng = np.random.default_rng(seed)
    along = [rng.normal(size=np.shape(a)) for a in args if np.asarray(a).dtype.kind == "f"]
    along = [a if a.ndim else float(a) for a in along]
    if how == "jvp":
        rest = iter(along)
        given = tuple(next(rest) if np.asarray(a).dtype.kind == "f" else None for a in args)
        values, dots = nb.tangent(f).jvp(args, given)
        return values, float(sum(np.sum(d) for d in _floats(dots)))
    pull = nb.adjoint(f).vjp(*args)
    given = dict(zip(pull.parameters, args, strict=True))
    count = 0 if pull.value is None else len(pull.value) if isinstance(pull.value, tuple) else 1
    values = pull.value if isinstance(pull.value, tuple) else (pull.value,)
    weights = tuple(
        (np.ones_like(v) if np.ndim(v) else 1.0)
        for v in [*values[:count], *(given[n] for n in pull.outputs[count:])]
    )  # fmt: skip
    value = tuple(np.copy(v) for v in values)
    if how == "at once":
        whole = pull._generated(copies(pull._args), dict(zip(pull.outputs, weights, strict=True)), pull._results)[1]
        return value, float(sum(np.sum(g * d) for g, d in zip(whole, along, strict=True)))
    gradients = [g for g in pull(weights) if g is not None]  # None for integers
    return value, float(sum(np.sum(g * d) for g, d in zip(gradients, along, strict=True)))


def _guarded(array):
    """A copy between elements that nobody may touch, and what has these too."""
    canary = _CANARY if array.dtype.kind == "f" else 1 << 40
    around = np.full(array.size + 2 * _ZONE, canary, array.dtype)
    inner = around[_ZONE : _ZONE + array.size].reshape(array.shape)
    inner[...] = array
    return inner, around


def _compiled(source, args):
    """The same for compiled code, where errors must come before anything is touched that is not an array's."""
    f = random_loops.function(source)
    error = _tried(lambda: f(*copies(args)))[1]
    try:
        made = nb.adjoint(f)._generated(args)
    except NBGradError:
        return "refused", ""
    given = dict(zip(made.f.parameters, args, strict=True))
    for n in dict.fromkeys([*made.reverse.seeds, *made.reverse.arrays]):
        rank = made.f.ranks.get(n, 0)
        given[f"{n} bar"] = np.ones_like(given[n]) if n in given else np.ones((5,) * rank) if rank else 1.0
    arrays = {n: _guarded(a) for n, a in given.items() if isinstance(a, np.ndarray)}
    raised = _tried(lambda: made.entry(*(arrays[n][0] if n in arrays else a for n, a in given.items())))[1]
    for n, (_, around) in arrays.items():
        canary = _CANARY if around.dtype.kind == "f" else 1 << 40
        if not (np.all(around[:_ZONE] == canary) and np.all(around[-_ZONE:] == canary)):
            return "", f"compiled: written beside {n}"
    if error is not None and raised is None:
        return "", f"compiled: Python raises {error!r}, the adjoint {raised!r}"
    if error is not None and not _allowed(error, raised):
        return "", f"compiled: Python raises {error!r}, the adjoint an error of another kind, {raised!r}"
    if error is None and raised is not None and "must have the shape" not in str(raised):
        return "", f"compiled: Python raises nothing, the adjoint {raised!r}"
    return "compiled", ""


def run(count: int, seed: int) -> Outcome:
    outcome = Outcome()
    for k in range(count):
        number = seed * 1_000_003 + k
        draw = random.Random(number)
        source, args = _program(draw, number)
        compiled = k % _COMPILED == 7
        done, wrong = _compiled(source, args) if compiled else _attempt(source, args, number)
        if wrong:
            outcome.wrong.append(f"seed {number}: {wrong}\n{source}{args!r}")
        else:
            outcome.counts[done] += 1
    return outcome
