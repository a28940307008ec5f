"""Version and settings. Each setting has an environment variable, read once at import."""

import os
import time

#: When this process began to import nbgrad, in nanoseconds of the clock of file times.
STARTED = time.time_ns()

__version__ = "0.1.0"

#: Where compiled kernels are stored; see :mod:`nbgrad.backends.numba.disk_cache` for the fallbacks.
CACHE_DIR = os.environ.get("NBGRAD_CACHE_DIR")

#: Check dtype, rank and contiguity of every buffer at every kernel call (slow; for tests and debugging).
CHECKED = os.environ.get("NBGRAD_CHECKED", "0") not in ("", "0")

#: Most bytes of free memory that the pool of large buffers holds (the variable is in megabytes).
POOL = int(float(os.environ.get("NBGRAD_POOL_MB", "512")) * 1e6)

#: Run the launches of a compiled function on a GPU as one CUDA graph, where possible.
GRAPHS = os.environ.get("NBGRAD_CUDA_GRAPHS", "1") not in ("", "0")

#: Use cublasLt for large matrix products, where it is installed.
CUBLAS = os.environ.get("NBGRAD_CUBLAS", "1") not in ("", "0")


def _threads() -> int:
    limits = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1]
    for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        first = (
            os.environ.get(variable, "").split(",")[0].strip()
        )  # OpenMP's variable may have a number per nesting level
        if first.isdecimal() and int(first) > 0:
            limits.append(int(first))
    return min(limits)


#: Threads per large operation: the number of usable cores, or that of these variables if less.
THREADS = _threads()

#: Report long compilations on a terminal.
PROGRESS = os.environ.get("NBGRAD_PROGRESS", "1") not in ("", "0")

#: Comma-separated topics to report on stderr; "compile": what is compiled, and how long it takes.
LOG = frozenset(os.environ.get("NBGRAD_LOG", "").split(",")) - {""}
