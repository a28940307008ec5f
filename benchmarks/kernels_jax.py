"""The kernels of ``fields`` in jax; a worker of kernels.py."""

from importlib import import_module
from time import perf_counter, process_time

import worker  # limits the threads of what is imported after it

# isort: split
import jax
import numpy as np
from fields import kernels


def compiled(name: str):
    """Value and gradients as a call without arguments."""
    kernel = kernels()[name]
    args = kernel.draw(kernel.size)
    module = import_module(f"{kernel.function.__module__}_jax")
    fixed = tuple(k for k, a in enumerate(args) if isinstance(a, int))
    wanted = tuple(k for k, a in enumerate(args) if isinstance(a, float) or getattr(a, "dtype", None) == np.float64)
    call = jax.jit(jax.value_and_grad(getattr(module, kernel.function.__name__), wanted), static_argnums=fixed)
    args = [a if k in fixed else jax.numpy.asarray(a) for k, a in enumerate(args)]
    return lambda: jax.block_until_ready(call(*args))


def main() -> None:
    run = None

    def answer(asked: dict) -> dict:
        nonlocal run
        if "rounds" in asked:
            return worker.seconds(run, asked["rounds"], process_time)
        run = compiled(asked["prepare"])
        start = perf_counter()
        outcome = run()
        return {"first": perf_counter() - start, "summary": worker.summary(*outcome)}

    worker.serve(answer)


if __name__ == "__main__":
    main()
