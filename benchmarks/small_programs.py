"""Adjoints of programs of many fields (tests/programs, other_programs.py) beside the functions themselves.

    python benchmarks/small_programs.py [name ...] [--seconds 0.4] [--json FILE]

Each row: the time of the compiled function in microseconds, and that of function and gradient as a multiple of it. They
run in turn; the shortest times count, of the CPU.
"""

import sys
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from types import CodeType, FunctionType

import numpy as np
import other_programs
from numba import njit
from rows import print_rows

import nbgrad as nb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from programs import PROGRAMS


def arguments() -> dict[str, tuple]:
    """Arguments for each program that Numba compiles as it is."""
    rng = np.random.default_rng(1)
    normal, positive = (lambda *shape: rng.normal(size=shape)), (lambda *shape: 0.5 + rng.random(shape))
    line, image, matrix = np.linspace(0.0, 3.0, 20), normal(40, 40), normal(60, 60)
    return {
        "burgers": (normal(200), 0.07, 0.3, 0.02, 200),
        "heat_new_arrays": (normal(200), 0.3, 0.4, 200),
        "laplace": (image, 1e-9, 100),
        "red_black": (normal(201), normal(201), 200),
        "shallow_water": (positive(200), 0.3 * normal(200), 9.81, 1.0, 0.005, 200),
        "lattice_boltzmann": (positive(3, 200), 0.8, 200),
        "advection_limiter": (normal(200), 0.4, 200),
        "wave": (normal(64, 64), normal(64, 64), 0.2 * positive(64, 64), 40),
        "euler": (positive(200), 0.1 * normal(200), 3.0 * positive(200), 1.4, 0.1, 50),
        "upwind": (normal(1000), 0.8, 0.1, 0.5, 100),
        "upwind_copies": (normal(1000), normal(1000), 0.3, 100),
        "diffusion": (normal(64, 64), positive(64, 64), 0.1, 40),
        "heat_2d": (normal(200, 200), 0.1 * positive(200, 200), 20),
        "gray_scott_periodic": (positive(64, 64), positive(64, 64), 0.2, 0.1, 0.04, 0.06, 20),
        "gray_scott_box": (positive(64, 64), positive(64, 64), 0.2, 0.1, 0.04, 0.06, 20),
        "maxwell": (normal(400), normal(399), positive(400), 200),
        "maxwell_2d": (normal(64, 64), normal(64, 63), normal(63, 64), 0.5 * positive(64, 64), 40),
        "crank_nicolson": (normal(400), 0.4, 100),
        "lax_wendroff": (normal(400), 0.4, 200),
        "kuramoto_sivashinsky": (normal(400), 0.0002, 0.5, 200),
        "burgers_flux": (normal(400), 0.1, 0.005, 0.5, 200),
        "nine_points": (normal(64, 64), 0.01, 40),
        "leapfrog": (normal(400), normal(400), 0.3 * positive(400), 200),
        "phase_field": (normal(64, 64), 0.8, 0.6, 0.1, 40),
        "rk4_lorenz": (normal(3), 10.0, 28.0, 8.0 / 3.0, 0.001, 2000),
        "pendulum": (normal(2), 1.2, 0.9, 0.1, 0.01, 2000),
        "kepler": (np.array([1.0, 0.1]), np.array([0.1, 0.9]), 0.005, 2000),
        "numerov": (0.7, 0.5 * np.linspace(-2, 2, 2000) ** 2, 0.002),
        "adaptive": (1.2, 0.7, 1e-10, 0.9),
        "nbody": (normal(20, 3), normal(20, 3), positive(20), 0.01, 20, 0.05),
        "lennard_jones": (8.0 * normal(100, 2), 0.9, 0.8, 16.0, 4.0),
        "ising": (normal(100, 100), 0.8, 0.1),
        "march": (np.array([0.1, 0.0, -3.0]), np.array([0.0, 0.05, 1.0]), 1.0, 60, 10.0),
        "pagerank": (positive(80, 80), 0.85, 20),
        "shortest": (positive(30, 30), 0.5),
        "kalman": (normal(500), normal(2), np.eye(2) + 0.1, np.array([[1.0, 0.1], [0.0, 0.9]]), np.array([1.0, 0.2]),
                   0.1 * np.eye(2), 0.3),
        "hmm_forward": (positive(16), positive(16, 16), positive(16, 8), rng.integers(0, 8, 200)),
        "log_viterbi": (normal(100, 16), normal(16, 16)),
        "soft_edit": (normal(100), normal(100), 0.7, 0.4),
        "gru": (normal(100, 16), normal(32), *normal(3, 32, 16) / 4),
        "mlp_loss": (normal(32, 16), normal(32), normal(32), normal(200, 16), normal(200)),
        "softmax_regression": (normal(10, 20), normal(200, 20), rng.integers(0, 10, 200)),
        "option": (100.0, 0.3, 0.05, 95.0, normal(1000, 50), 0.02, 250.0),
        "garch": (0.1 * normal(5000), 0.02, 0.1, 0.8),
        "exponential_smoothing": (normal(5000), 0.4, 0.2),
        "iir": (normal(5000), normal(5), np.array([1.1, 0.3, -0.2])),
        "dft_power": (normal(5000), 2),
        "bilateral": (image, 1.2, 0.8),
        "convolve": (normal(60, 60), normal(5, 5)),
        "conjugate_gradient": (matrix @ matrix.T + 60 * np.eye(60), normal(60), normal(60), 1e-12),
        "gauss_newton": (np.linspace(0.1, 2, 500), positive(500), 1.1, 0.6, 10),
        "lu_solve": (matrix, normal(60)),
        "qr": (normal(60, 30),),
        "givens": (normal(60, 30), normal(60)),
        "householder": (normal(60, 30), normal(60)),
        "eigenvalues": (matrix[:40, :40] + matrix[:40, :40].T, 5),
        "isotonic": (normal(2000) + np.linspace(0.0, 3.0, 2000), positive(2000)),
        "queue": (positive(3000), positive(3000)),
        "alignment": (normal(100, 100), 0.3),
        "spline": (line, normal(20), normal(20), 3.0 * rng.random(2000)),
        "interpolate": (line, normal(20), 3.0 * rng.random(2000)),
        "quadrature": (0.8, -1.0, 1.5, 2000),
        "legendre": (normal(20), normal(500)),
        "weno5": (normal(400), 1.0, 0.001, 0.01, 50),
        "level_set": (normal(64, 64), normal(64, 64), 0.01, 0.1, 20),
        "limiter": (normal(1000), 0.4, 50),
        "wind": (normal(64, 64), normal(64, 64), normal(64, 64), 0.01, 0.1, 30),
        "optical_flow": (normal(64, 64), normal(64, 64), 0.7, 20),
        "cahn_hilliard": (0.1 * normal(64, 64), 0.5, 0.01, 30),
        "rk4_lorenz96": (normal(40), 8.0, 0.01, 300),
        "running_means": (normal(500, 32), 0.5 * positive(32), positive(32)),
        "trapezoid": (normal(5000), np.sort(normal(5000))),
    }  # fmt: skip


def compiled(f: FunctionType):
    """`f`, with the functions that it calls."""
    used, stack = set(), [f.__code__]
    while stack:
        code = stack.pop()
        used |= set(code.co_names)
        stack += [c for c in code.co_consts if isinstance(c, CodeType)]
    called = {n: compiled(g) for n, g in f.__globals__.items() if n in used and isinstance(g, FunctionType)}
    copy = FunctionType(f.__code__, {**f.__globals__, **called}, f.__name__, f.__defaults__, f.__closure__)
    return njit(nogil=True, error_model="numpy")(copy)


def seconds(call, args: tuple, repeat: int) -> float:
    given = [[a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(repeat)]
    start = process_time()
    for each in given:
        call(*each)
    return (process_time() - start) / repeat


def measure(name: str, args: tuple, limit: float) -> dict[str, float]:
    """The shortest times of the function, and of function and gradient."""
    f = PROGRAMS[name][0] if name in PROGRAMS else getattr(other_programs, name)
    function, made = compiled(f), nb.adjoint(f)._generated(args)
    values = function(*(a.copy() if isinstance(a, np.ndarray) else a for a in args))
    bars = made.cotangent_arguments(args, {}, values if isinstance(values, tuple) else (values,)).values()
    ones = [np.ones_like(b) if isinstance(b, np.ndarray) else 1.0 for b in bars]
    calls = {"function": (function, args), "gradient": (made.entry, (*args, *ones))}
    once = max(seconds(*call, 3) for call in (*calls.values(), *calls.values()))
    repeat, times = max(1, int(1e-3 / once)), dict.fromkeys(calls, float("inf"))
    stop, rounds = perf_counter() + limit, 0
    while perf_counter() < stop or rounds < 7:
        for kind, call in calls.items():
            times[kind] = min(times[kind], seconds(*call, repeat))
        rounds += 1
    return times


def line(times: dict[str, float]) -> str:
    return f"{1e6 * times['function']:10.1f}{times['gradient'] / times['function']:8.2f}"


if __name__ == "__main__":
    measures = {name: partial(measure, name, args) for name, args in arguments().items()}
    print_rows(__doc__, measures, line, seconds=0.4)
