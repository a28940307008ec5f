"""``python -m nbgrad``: a demonstration, and information about this installation."""

from __future__ import annotations

import argparse
import os
import platform
import runpy
import sys
import time
from pathlib import Path

import numpy as np
import scipy

from . import __version__
from .backends.buffer_pool import pool
from .backends.cuda import cublas
from .backends.numba import disk_cache
from .backends.numba.internals import VERSIONS, host_processor
from .backends.threads import get_num_threads
from .compat import autograd
from .core import config
from .core.context import gpu_memory_info, num_gpus
from .demo import digits, ecology, plots
from .errors import ContextError, NBGradError
from .warmup import warmup


def _progress():
    """A progress bar if tqdm is installed, else none."""
    try:
        from tqdm import tqdm
    except ImportError:
        return iter
    return lambda epochs: tqdm(epochs, desc="  training", unit=" epochs")


def _digits(out: Path) -> None:
    print("1. A convolutional network on 1,797 handwritten digits (UCI)", flush=True)
    start = time.perf_counter()
    result = digits.train(progress=_progress())
    took = time.perf_counter() - start
    wrong = round((1 - result.accuracy) * len(result.labels))
    print(
        f"   test accuracy {100 * result.accuracy:.2f} % ({wrong} of {len(result.labels)} held-out images wrong), "
        f"{took:.1f} s"
    )
    _drawn(plots.draw_digits(result, out / "digits.png"))


def _ecology(out: Path) -> None:
    print("2. Lotka-Volterra equations fitted to the lynx and hare pelts of 1900-1920", flush=True)
    start = time.perf_counter()
    fit = ecology.fit()
    took = time.perf_counter() - start
    for name, unit, value, error in zip(ecology.NAMES, ecology.UNITS, fit.values, fit.errors, strict=True):
        print(f"   {name:6s} {value:9.4f} ± {error:.4f} {unit}")
    print(
        f"   gradient within {fit.gradient_error:.1e} of finite differences; {fit.evaluations} evaluations and the "
        f"Hessian in {took:.1f} s"
    )
    _drawn(plots.draw_populations(fit, out / "lynx_hare.png"))


def _drawn(path: Path | None) -> None:
    print(f"   picture: {path}" if path else "   no picture: matplotlib is not installed (pip install 'nbgrad[demo]')")


def demo(out: str) -> None:
    """Run both parts of the demonstration and save pictures in `out`."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    print("the first time compiles what it needs, which takes its time; it is kept for the next")
    _digits(folder)
    _ecology(folder)
    print(f"done in {time.perf_counter() - start:.1f} s")


def _gpus() -> str:
    count = num_gpus()
    if not count:
        try:
            gpu_memory_info(0)
        except ContextError as err:
            return f"none: {str(err).removeprefix('gpu(0) is not available: ').removesuffix('; use cpu()')}"
    sizes = [f"{free / 1e9:.1f} of {total / 1e9:.1f} GB free" for free, total in map(gpu_memory_info, range(count))]
    return f"{count} device(s): {', '.join(sizes)}; large matrix products by {cublas.status(0)}"


def info() -> None:
    """Print versions, processor, threads, CUDA, the pool of memory and the kernel cache."""
    where, count, size = disk_cache.info()
    rows = {
        "nbgrad": __version__,
        "python": platform.python_version(),
        "numba": f"{VERSIONS[0]} (llvmlite {VERSIONS[1]})",
        "numpy, scipy": f"{np.__version__}, {scipy.__version__}",
        "system": platform.platform(),
        "processor": host_processor()[0],
        "cores": f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} usable",
        "threads": f"up to {get_num_threads()} on a large operation (BLAS has its own)",
        "threading layer": "Python threads that run ranges of a loop; none of Numba's",
        "CUDA": _gpus(),
        "memory pool": f"{pool!r} (NBGRAD_POOL_MB={config.POOL / 1e6:g})",
        "kernel cache": f"{where or 'none (memory only)'}: {count} kernels, {size / 1e6:.1f} MB",
    }
    for name, value in rows.items():
        print(f"{name:16s}{value}")


def manage_cache(action: str) -> None:
    """Show or clear the directory of compiled kernels."""
    if action == "clear":
        print(f"deleted {disk_cache.clear()} kernels")
        return
    where, count, size = disk_cache.info()
    print(f"directory  {where or 'none (memory only)'}\nkernels    {count}\nsize       {size / 1e6:.1f} MB")
    for other in disk_cache.sources():
        if other != where:
            print(f"also read  {other}")


def compile_ahead(names: list[str], dtypes: list[str], jobs: int, order: int) -> None:
    """Compile kernels into the cache, and report the result."""
    done = warmup(names, dtypes, jobs, order)
    print(f"{done.compiled} kernels compiled, {done.ready} were ready, {done.seconds:.1f} s: {disk_cache.directory()}")
    for failure in done.failures:
        print(f"failed: {failure}")


def run_script(script: str, arguments: list[str]) -> None:
    """Run a file as Python does, in which ``import autograd`` finds :mod:`nbgrad.compat.autograd`."""
    if not Path(script).is_file():
        raise SystemExit(f"python -m nbgrad autograd: there is no file {script}")
    autograd.install()
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    runpy.run_path(script, run_name="__main__")


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"a number from 1 on is expected, got {text!r}")
    return int(text)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m nbgrad", description="Arrays with gradients of any order.")
    parser.add_argument("--version", action="version", version=f"nbgrad {__version__}")
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser("demo", help="train on digits, fit an equation, draw two pictures")
    run.add_argument("--out", default="nbgrad-demo", help="folder for the pictures (default: %(default)s)")
    commands.add_parser("info", help="versions, processor, threads, CUDA, cache")
    manage = commands.add_parser("cache", help="the directory of compiled kernels")
    manage.add_argument("action", choices=["info", "clear"])
    ahead = commands.add_parser("warmup", help="compile kernels ahead, in parallel processes")
    ahead.add_argument("--ops", nargs="+", default=[], metavar="NAME", help="operators (default: all)")
    ahead.add_argument("--dtypes", nargs="+", default=["float32", "float64"], metavar="DTYPE")
    ahead.add_argument("--jobs", type=_positive, default=0, help="processes (default: one per processor)")
    ahead.add_argument("--order", type=_positive, default=1, help="derivatives up to this order (default: %(default)s)")
    script = commands.add_parser("autograd", help="run a script written for HIPS autograd, with nbgrad in its place")
    script.add_argument("script", help="the file; what follows it are its own arguments")
    script.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
    elif options.command == "demo":
        demo(options.out)
    elif options.command == "info":
        info()
    elif options.command == "autograd":
        run_script(options.script, options.arguments)
    elif options.command == "warmup":
        try:
            compile_ahead(options.ops, options.dtypes, options.jobs, options.order)
        except NBGradError as err:
            parser.error(str(err))
    else:
        manage_cache(options.action)


if __name__ == "__main__":
    main()
