"""The time that it takes to generate an adjoint, by the length of a function, and the exponent with which it grows.

    python benchmarks/generation.py [kind ...] [--most 1000] [--budget 60] [--calls]
    python benchmarks/generation.py --programs

Kinds: elif chains, nests of branches and of loops, and straight lines, loops and calls of other functions. Nothing is
compiled. ``--calls`` counts calls of Python functions instead of seconds, which does not depend on the machine. A row
ends when a program has taken more than the budget, in seconds. The exponent is that of the two longest.

``--programs`` measures every fourth program of ``tests/frozen.py`` instead: its adjoint, halves, tangent and the
adjoint of its tangent, in processor seconds for all. To compare two checkouts, run it in both by turns.
"""

import argparse
import linecache
import math
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np

from nbgrad.core import collector
from nbgrad.loops.codegen.module_source import module
from nbgrad.loops.codegen.reverse_sweep import AdjointBuilder
from nbgrad.loops.codegen.split_mode import SplitAdjointBuilder
from nbgrad.loops.codegen.tangent import TangentBuilder
from nbgrad.loops.frontend.lowering import lower
from nbgrad.loops.frontend.source import source_of
from nbgrad.loops.ir.type_inference import infer
from nbgrad.loops.planning import plan, plan_tangents

SHORT, LONG = [5, 10, 20, 40], [10, 30, 100, 300, 1000]


def chain(n: int) -> str:
    """An elif chain of `n` branches in a loop."""
    tests = [
        f"        {'el' * (k > 0)}if u[i] < {k / n}:\n            u[i] = u[i] * u[i] * {k + 1}.0 * a\n"
        for k in range(n)
    ]
    return f"def f(u, a):\n    s = 0.0\n    for i in range(u.size):\n{''.join(tests)}        s += u[i]\n    return s\n"


def uneven(n: int) -> str:
    """An elif chain of which every other branch does nothing that is differentiated."""
    lines = "".join(
        f"        {'el' * (k > 0)}if u[i] < {k / n}:\n            {'c += 1' if k % 2 else f's += {k + 1}.0 * u[i]'}\n"
        for k in range(n)
    )
    return f"def f(u, a):\n    s = 0.0\n    c = 0\n    for i in range(u.size):\n{lines}    return s * a + c\n"


def branches(n: int) -> str:
    """`n` branches, one inside of the other."""
    lines, depth = "", 2
    for k in range(n):
        lines += f"{'    ' * depth}t{k} = u[i] * {k + 1}.0\n{'    ' * depth}if t{k} > {k / n}:\n"
        depth += 1
    return (
        f"def f(u, a):\n    s = 0.0\n    for i in range(u.size):\n{lines}{'    ' * depth}s += a * u[i]\n    return s\n"
    )


def loops(n: int) -> str:
    """`n` loops, one inside of the other."""
    lines = "".join(f"{'    ' * (k + 1)}for i{k} in range(2):\n" for k in range(n))
    body = f"{'    ' * (n + 1)}u[i{n - 1}] = u[i{n - 1}] * a + u[i0]\n"
    return f"def f(u, a):\n{lines}{body}    return u[0]\n"


def straight(n: int) -> str:
    """`n` statements."""
    return _lines("v0 = u[0]", [f"v{k + 1} = v{k} * a + {k}.5 * v{max(k - 2, 0)}" for k in range(n)], f"v{n}")


def again(n: int) -> str:
    """`n` statements that set the same numbers."""
    return _lines("s = u[0]; t = u[1]", [f"{'st'[k % 2]} = {'ts'[k % 2]} * a + 0.5 * s" for k in range(n)], "s")


def _lines(first: str, lines: list[str], result: str) -> str:
    return "\n    ".join(["def f(u, a):", first, *lines, f"return {result}\n"])


def elements(n: int) -> str:
    """`n` statements that write elements."""
    lines = "".join(f"    u[{k % 7}] = u[{(k + 3) % 7}] * u[{(k + 1) % 7}] + a\n" for k in range(n))
    return f"def f(u, a):\n{lines}    return u[0]\n"


def iteration(n: int) -> str:
    """`n` statements in a loop."""
    lines = "".join(f"        v{k + 1} = v{k} * a + {k}.5 * math.sin(v{max(k - 2, 0)})\n" for k in range(n))
    head = "def f(u, a):\n    s = 0.0\n    for i in range(u.size):\n        v0 = u[i]\n"
    return f"{head}{lines}        s += v{n}\n    return s\n"


def many(n: int) -> str:
    """`n` loops, one after the other."""
    lines = "".join(f"    for i in range(1, u.size):\n        u[i] = u[i] * a + {k}.5 * u[i - 1]\n" for k in range(n))
    return f"def f(u, a):\n{lines}    return u[0]\n"


def called(n: int) -> str:
    """`n` calls of another function."""
    lines = "".join("    s = g(s, a)\n" for _ in range(n))
    return f"def g(x, y):\n    z = x * y\n    return z + x\n\n\ndef f(u, a):\n    s = u[0]\n{lines}    return s\n"


KINDS: dict[str, tuple[Callable[[int], str], list[int]]] = {
    "chain": (chain, SHORT),
    "uneven": (uneven, SHORT),
    "branches": (branches, [5, 10, 15]),
    "loops": (loops, [2, 4, 6]),
    "straight": (straight, LONG),
    "again": (again, LONG),
    "elements": (elements, LONG),
    "iteration": (iteration, LONG),
    "many": (many, LONG),
    "called": (called, LONG),
}


def function(source: str) -> Callable:
    name = f"<generation {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    made: dict = {"np": np, "math": math}
    exec(compile(source, name, "exec"), made)
    return made["f"]


def generate(f: Callable) -> None:
    """Adjoint, its two halves, and tangent, as text."""
    source = source_of(f)
    for way in ("adjoint", "halves", "tangent"):
        lowered = lower(source, {"u": 1, "a": 0}, {"u": "float", "a": "float"})
        infer(lowered)
        wrt = ["u", "a"]
        if way == "tangent":
            forward = TangentBuilder(lowered, plan_tangents(lowered, set(wrt)), wrt)
            module(forward.source(), lowered, forward.free)
        elif way == "adjoint":
            reverse = AdjointBuilder(lowered, plan(lowered, set(wrt)), wrt)
            module(reverse.source(), lowered, reverse.free)
        else:
            sweeps = SplitAdjointBuilder(lowered, plan(lowered, set(wrt), fused=False), wrt)
            for half in sweeps.split_sources():
                module(half, lowered, sweeps.free)


def seconds(f: Callable) -> float:
    start = process_time()
    generate(f)
    return process_time() - start


def calls(work: Callable, *args, **options) -> int:
    """How many calls of Python functions it takes to call `work`."""
    count = 0

    def look(frame, event, arg):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        work(*args, **options)
    finally:
        sys.setprofile(before)
    return count


def programs() -> tuple[int, float]:
    """How many programs are generated, and the seconds for all of them."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    import frozen

    tasks = [task for name, task in frozen.loops() if not name.startswith("generation")][::4]
    for task in tasks[:5]:  # what is computed once
        frozen.generated(task)
    start = process_time()
    with collector.paused():  # as where users' functions are generated
        for task in tasks:
            frozen.generated(task)
    return len(tasks), process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS], metavar="kind")
    parser.add_argument("--most", type=int, default=1000, help="statements at most")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for one program, about")
    parser.add_argument("--calls", action="store_true", help="count calls instead of seconds")
    parser.add_argument("--programs", action="store_true", help="measure programs of the tests instead")
    options = parser.parse_args()
    if options.programs:
        print("{} programs: {:.1f} s".format(*programs()))
        return
    sys.setrecursionlimit(20_000)
    generate(function(chain(3)))  # what is kept from one to the next
    print("| kind     |" + "".join(f"{n:>9} |" for n in sorted({*SHORT, *LONG})) + " exponent |")
    for kind in options.kinds or KINDS:
        write, sizes = KINDS[kind]
        found: dict[int, float] = {}
        for n in sizes:
            if n > options.most or (found and max(found.values()) > options.budget and not options.calls):
                break
            f = function(write(n))
            found[n] = calls(generate, f) if options.calls else seconds(f)
        (n, a), (m, b) = list(found.items())[-2:] if len(found) > 1 else [(1, 1.0), (2, 1.0)]
        row = "  ".join(f"{k}: {v:,.0f}" if options.calls else f"{k}: {v:.2f} s" for k, v in found.items())
        print(f"{kind:<9} {row}   exponent {math.log(b / a) / math.log(m / n):.2f}", flush=True)


if __name__ == "__main__":
    main()
