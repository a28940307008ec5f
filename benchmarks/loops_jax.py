"""The examples of ``nbgrad.demo.loops`` in jax, each in the form that was fastest of those tried; a worker of loops.py.

`heat`, `lynx_hare` and `lstm` scan over time, with whole arrays within a step; the products of `lstm` with its inputs
are one product for all steps. `thomas` is the solver of ``jax.lax.linalg``, `cholesky` that of ``jax.numpy``. `sor`
scans over rows, and within a row over points, for what is not there before. `soft_dtw` scans over diagonals. `pairwise`
scans over particles, with a mask over the others. `csr_product` sums sorted segments. ``jax.checkpoint`` and `unroll`
are there where they help: most loops are slower unrolled.
"""

from time import process_time

import jax
import jax.numpy as jnp
import numpy as np
from worker import seconds, serve

jax.config.update("jax_enable_x64", True)
scan = jax.lax.scan


def heat(u, conductivity, dt, steps):
    rate = dt * conductivity[1:-1, 1:-1, 1:-1]

    def step(u, _):
        flow = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
        flow += u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:] - 6.0 * u[1:-1, 1:-1, 1:-1]
        return u + jnp.pad(rate * flow, 1), None

    return {"u": scan(step, u, length=steps)[0]}


def lynx_hare(parameters, start, dt, hares, lynx):
    a, b, c, d = parameters

    def slope(x, y):
        return (a - b * y) * x, (c * x - d) * y

    @jax.checkpoint
    def step(state, _):
        x, y = state
        k1, l1 = slope(x, y)
        k2, l2 = slope(x + 0.5 * dt * k1, y + 0.5 * dt * l1)
        k3, l3 = slope(x + 0.5 * dt * k2, y + 0.5 * dt * l2)
        k4, l4 = slope(x + dt * k3, y + dt * l3)
        new = x + dt * (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0, y + dt * (l1 + 2.0 * l2 + 2.0 * l3 + l4) / 6.0
        return new, state

    hares, lynx = scan(step, (start[0], start[1]), length=hares.size)[1]
    return {"hares": hares, "lynx": lynx}


def thomas(lower, diagonal, upper, right, x):
    return {"x": jax.lax.linalg.tridiagonal_solve(lower, diagonal, upper, right[:, None])[:, 0]}


def cholesky(a):
    lower = jnp.tril(a)
    whole = lower + jnp.tril(a, -1).T
    return {"a": jnp.linalg.cholesky(whole, symmetrize_input=False) + jnp.triu(a, 1)}


def sor(u, right, omega, sweeps):
    def point(left, rest):
        new = rest + 0.25 * omega * left
        return new, new

    def row(above, rows):
        old, below, right = rows
        mean = 0.25 * (above[1:-1] + below[1:-1] + old[2:] - right[1:-1])
        inner = scan(point, old[0], (1.0 - omega) * old[1:-1] + omega * mean)[1]
        new = jnp.concatenate([old[:1], inner, old[-1:]])
        return new, new

    def sweep(u, _):
        rows = scan(row, u[0], (u[1:-1], u[2:], right[1:-1]))[1]
        return jnp.concatenate([u[:1], rows, u[-1:]]), None

    return {"u": scan(sweep, u, length=sweeps)[0]}


def soft_dtw(x, y, gamma):
    n, m = x.size, y.size
    i = jnp.arange(n)
    padded = jnp.concatenate([jnp.zeros(n), y[::-1], jnp.zeros(n)])

    def diagonal(before, k):
        last, earlier = before  # r at (i + 1, k - i) and (i + 1, k - 1 - i), by i
        j = k - i
        a = jnp.concatenate([jnp.where(k == 0, 0.0, 1e10)[None], earlier[:-1]])
        b = jnp.concatenate([jnp.full(1, 1e10), last[:-1]])
        low = jnp.minimum(jnp.minimum(a, b), last)
        total = jnp.exp((low - a) / gamma) + jnp.exp((low - b) / gamma) + jnp.exp((low - last) / gamma)
        r = (x - jax.lax.dynamic_slice(padded, (n + m - 1 - k,), (n,))) ** 2 + low - gamma * jnp.log(total)
        return (jnp.where((j >= 0) & (j < m), r, 1e10), last), None

    border = jnp.full(n, 1e10)
    return {"result": scan(diagonal, (border, border), jnp.arange(n + m - 1))[0][0][n - 1]}


def lstm(x, w, u, b, h):
    size = h.shape[1]

    def step(state, driven):
        h, c = state
        z = driven + u @ h
        gate_in, gate_forget, gate_out = (jax.nn.sigmoid(z[k * size : (k + 1) * size]) for k in (0, 1, 3))
        c = gate_forget * c + gate_in * jnp.tanh(z[2 * size : 3 * size])
        h = gate_out * jnp.tanh(c)
        return (h, c), h

    states = scan(step, (h[0], jnp.zeros(size)), x @ w.T + b, unroll=4)[1]
    return {"h": jnp.concatenate([h[:1], states])}


def pairwise(position, cutoff):
    places, others = jnp.arange(position.shape[0]), position.T

    @jax.checkpoint
    def particle(energy, i):
        distance = position[i][:, None] - others
        r2 = jnp.sum(distance * distance, 0)
        near = (r2 < cutoff * cutoff) & (i < places)
        s = 1.0 / jnp.where(near, r2, 1.0) ** 3
        return energy + jnp.sum(jnp.where(near, 4.0 * (s * s - s), 0.0)), None

    return {"energy": scan(particle, 0.0, places)[0]}


def csr_product(data, columns, starts, x, y):
    rows = jnp.repeat(jnp.arange(y.size), jnp.diff(starts), total_repeat_length=data.size)
    return {"y": jax.ops.segment_sum(data * x[columns], rows, y.size, indices_are_sorted=True)}


EXAMPLES = {f.__name__: f for f in (heat, lynx_hare, thomas, cholesky, sor, soft_dtw, lstm, pairwise, csr_product)}


def compiled(name: str, file: str):
    """Values and gradients, compiled, and as a call without arguments for what `file` holds."""
    given = dict(np.load(file))
    arguments = {n: a for n, a in given.items() if not n.endswith("_bar")}
    bars = {n.removesuffix("_bar"): jnp.asarray(a) for n, a in given.items() if n.endswith("_bar")}
    wanted = {n: a for n, a in arguments.items() if a.dtype.kind == "f" and n != "cutoff"}
    fixed = {n: a.item() if a.ndim == 0 else jnp.asarray(a) for n, a in arguments.items() if n not in wanted}

    @jax.jit
    def both(wanted, bars, arrays):
        def run(wanted):
            return EXAMPLES[name](**wanted, **{n: a for n, a in fixed.items() if n not in arrays}, **arrays)

        found, pull = jax.vjp(run, wanted)
        return found, pull({n: bars[n] for n in found})[0]

    arrays = {n: a for n, a in fixed.items() if isinstance(a, jax.Array)}
    wanted = {n: jnp.asarray(a) for n, a in wanted.items()}
    return lambda: jax.block_until_ready(both(wanted, bars, arrays))


def main() -> None:
    run = None

    def answer(asked: dict) -> dict:
        nonlocal run
        if "rounds" in asked:
            return seconds(run, asked["rounds"], process_time)
        run = compiled(asked["prepare"], asked["file"])
        values, gradients = run()
        np.savez(asked["file"], **values, **{f"{n}_bar": a for n, a in gradients.items()})
        return {}

    serve(answer)


if __name__ == "__main__":
    main()
