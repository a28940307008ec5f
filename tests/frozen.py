"""Hashes of all code that is generated for the programs of the tests and benchmarks, against changes by accident.

    cd tests && python -m frozen             compare with frozen.txt; sources are left in build/frozen
    cd tests && python -m frozen --write     take what is generated now for what is right

Nothing is compiled. Each line of frozen.txt has the name of a program, how many sources are generated for it, and the
hash of these sources, without what changes from one checkout to another: folders, numbers of lines, modules of nbgrad.
To see what differs, run it in both checkouts and compare their folders build/frozen.
"""

# ruff: noqa: E402

import gc
import hashlib
import linecache
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
TABLE, SOURCES = ROOT / "tests" / "frozen.txt", ROOT / "build" / "frozen"
sys.path[:0] = [str(ROOT / folder) for folder in ("benchmarks", "asv_bench/benchmarks", "tests")]

import generation
import other_programs
import parallel_loops
import test_jit_random_graphs as graphs
import test_jit_registry as registry
from libraries import LIBRARIES
from loop_programs import copies, examples
from programs import PROGRAMS
from random_arrays import NAMES, ArrayProgram
from random_loops import Program, arguments, function
from small_programs import arguments as small_arguments
from workloads import WORKLOADS

import nbgrad as nb
from nbgrad.arrays import launch
from nbgrad.backends.numba import compile as compiling
from nbgrad.errors import NBGradError
from nbgrad.loops.variants import SplitVariant

#: Random programs of each kind.
RANDOM = 120
#: Processes that share the work; which one has a program is the same every time.
PARTS = 2
Task = Callable[[], object]


def generate_all(f: Callable, args: tuple) -> None:
    """Adjoint, its halves, tangent, and the adjoint of the tangent, as text."""
    adj, tangent = nb.adjoint(f), nb.tangent(f)
    adj._generated(copies(args))
    adj._variant(SplitVariant, copies(args), True)
    tangent._generated(copies(args))
    with suppress(NBGradError):
        nb.adjoint(tangent)._generated((*copies(args), *_floats(args)))


def _floats(args: tuple) -> list:
    return [a for a in copies(args) if isinstance(a, float) or (isinstance(a, np.ndarray) and a.dtype.kind == "f")]


def loops() -> Iterator[tuple[str, Task]]:
    """Adjoints of loops."""
    for name, (f, args) in {**PROGRAMS, **examples()}.items():
        yield name, lambda f=f, args=args: generate_all(f, args)
    for module, known in ((other_programs, small_arguments()), (parallel_loops, parallel_loops.arguments())):
        for key, args in known.items():
            f = getattr(module, key, None) if isinstance(key, str) else key
            if f is not None:
                yield f"benchmarks {f.__name__}", lambda f=f, args=args: generate_all(f, args)
    for seed in range(RANDOM):
        for kind, names in ((Program, None), (ArrayProgram, NAMES)):
            f = function(kind(Random(seed)).source(), names)
            yield f"random {kind.__name__} {seed}", lambda f=f, seed=seed: generate_all(f, arguments(seed))
    for kind, (write, sizes) in generation.KINDS.items():
        f = generation.function(write(sizes[1]))
        yield f"generation {kind}", lambda f=f: generate_all(f, (np.ones(8), 0.5))


def traced() -> Iterator[tuple[str, Task]]:
    """Graphs."""
    for k in range(len(graphs.STEPS)):
        steps = [(k, k % 5, 1, 2), ((7 * k) % len(graphs.STEPS), 1, 2, 3)]
        yield f"graph {k}", lambda steps=steps: _graph(steps)
    for parameter in registry.SAMPLED:
        (entry,) = parameter.values
        yield f"operator {entry.name}", lambda entry=entry: _operator(entry)
    for workload in WORKLOADS:
        yield f"benchmarks {workload.name}", lambda workload=workload: _workload(workload)


def _graph(steps: list) -> None:
    rng = np.random.default_rng(0)
    leaves = [nb.nd.array(rng.uniform(-1, 1, shape)) for shape in graphs.SHAPES]
    nb.jit(lambda *xs: graphs.results(steps, xs))(*leaves)


def _operator(entry) -> None:
    for sample in registry.chosen(entry):
        arrays = [nb.nd.array(v) for v in sample.draw()]
        nb.jit(lambda *xs, s=sample: registry.result_of(entry, s, xs))(*arrays)
        nb.jit(lambda *xs, s=sample: registry.derivatives(entry, s, xs, 2))(*arrays)


def _workload(workload) -> None:
    arrays = workload.arrays(np.random.default_rng(0))
    LIBRARIES["nbgrad.jit"].start()(workload, arrays)()


def uncompiled(kernel: compiling.Kernel, signature: tuple) -> Callable:
    """Make the text of a kernel, and something in its place that does nothing."""
    kernel._build()
    return lambda *args: None


def plain(text: str) -> str:
    """Text without what differs from one checkout to another."""
    text = re.sub(r"[\w./-]*/(\w+\.py)", r"\1", text)
    text = re.sub(r"\bline \d+", "line N", text)
    text = re.sub(r"\b(random loops|generation) -?\d+", r"\1 N", text)
    text = re.sub(r"_[0-9a-f]{12}\b", "", text)
    return re.sub(r"\bnbgrad(\.\w+)+( import|\.)", r"nbgrad\2", text)


def generated(task: Task) -> list[str]:
    """What is generated for one program; how it is refused, if it is."""
    for file in [k for k in linecache.cache if k.startswith("<nbgrad ")]:
        del linecache.cache[file]
    refused = []
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            task()
    except NBGradError as err:
        refused = [f"refused: {type(err).__name__}"]
    made = [k for k in linecache.cache if k.startswith("<nbgrad ")]
    return sorted({plain(t) for t in [*("".join(linecache.cache[k][2]) for k in made), *refused]})


def part(number: int) -> dict[str, list[str]]:
    """The sources of every other program. What kernels would have computed is zero."""
    for kind in [k for k in gc.get_objects() if isinstance(k, launch.Kind)]:
        kind.empty = kind.small = np.zeros
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling.Kernel, "_compile", uncompiled)
        patch.setattr(launch, "buffer_pool", SimpleNamespace(empty=np.zeros))
        patch.setattr(launch, "np", SimpleNamespace(**vars(np) | {"empty": np.zeros}))
        tasks = [task for k, task in enumerate([*loops(), *traced()]) if k % PARTS == number]
        return {name: generated(task) for name, task in tasks}


def main() -> None:
    shutil.rmtree(SOURCES, ignore_errors=True)
    with ProcessPoolExecutor(PARTS, get_context("spawn")) as pool:
        found = {name: sources for made in pool.map(part, range(PARTS)) for name, sources in made.items()}
    lines = []
    for name, sources in sorted(found.items()):
        whole = hashlib.sha256("\0".join(sources).encode()).hexdigest()[:16]
        lines.append(f"{name}: {len(sources)} {whole}")
        folder = SOURCES / name.replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        for k, text in enumerate(sources):
            (folder / f"{k}.py").write_text(text, encoding="utf-8")
    if "--write" in sys.argv:
        TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{len(lines)} programs, {sum(map(len, found.values()))} sources")
        return
    different = sorted(set(lines) ^ set(TABLE.read_text(encoding="utf-8").splitlines()))
    print(*different or [f"{len(lines)} programs: as they were"], sep="\n")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
