"""Where was the heat? The first temperatures of a plate from later ones, with the plate cut into parts, one a rank.

    mpiexec -n 4 python heat_inversion.py [--cells 64] [--steps 40] [--picture heat_inversion.svg]

What is observed is a linear function of the first temperatures u. So the sum of squares of errors, with a penalty for
roughness, is least where its gradient vanishes: a linear system, which conjugate gradients solve by products with the
Hessian. Each rank holds its part of all fields.
"""

import argparse

import numpy as np
from mpi4py import MPI

import nbgrad as nb
import nbgrad.mpi
import nbgrad.np as nbnp


def later(u, steps, cart):
    """The temperatures after some steps of the heat equation; zero outside the plate."""
    for _ in range(steps):
        v = nb.mpi.halo(u, comm=cart)
        u = u + 0.2 * (v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4 * u)
    return u


def roughness(u, cart):
    """The sum of the squares of differences between neighbours; those to the outside count as well."""
    v = nb.mpi.halo(u, comm=cart)
    return nbnp.sum((v[1:-1, 1:-1] - v[:-2, 1:-1]) ** 2) + nbnp.sum((v[1:-1, 1:-1] - v[1:-1, :-2]) ** 2)


def dot(a, b, cart):
    return cart.allreduce(float(np.sum(a * b)))


def conjugate_gradients(product, b, cart, rounds):
    """The solution of a system with a symmetric positive matrix, which `product` multiplies by."""
    x, r = np.zeros_like(b), b.copy()
    p, size = r.copy(), dot(r, r, cart)
    first = size
    for _ in range(rounds):
        q = product(p)
        step = size / dot(p, q, cart)
        x, r = x + step * p, r - step * q
        new = dot(r, r, cart)
        p, size = r + new / size * p, new
        if size < 1e-20 * first:
            break
    return x


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=64)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--picture")
    args = parser.parse_args()
    cart = MPI.COMM_WORLD.Create_cart(MPI.Compute_dims(MPI.COMM_WORLD.size, 2))
    n = args.cells
    rows, columns = ([len(part) for part in np.array_split(np.arange(n), k)] for k in cart.dims)
    i, j = cart.coords
    part = np.s_[sum(rows[:i]) : sum(rows[: i + 1]), sum(columns[:j]) : sum(columns[: j + 1])]

    x, y = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n), indexing="ij")
    truth = 1.0 * ((x - 0.3) ** 2 + (y - 0.35) ** 2 < 0.02) + 0.7 * ((abs(x - 0.7) < 0.12) & (abs(y - 0.65) < 0.2))
    noise = np.random.default_rng(1).normal(0.0, 0.005, (n, n))
    observed = later(nbnp.array(truth[part]), args.steps, cart).asnumpy() + noise[part]

    def misfit(u):
        u = nb.mpi.local(u)
        errors = later(u, args.steps, cart) - observed
        return nb.mpi.allreduce(nbnp.sum(errors**2) + 1e-3 * roughness(u, cart), comm=cart)

    nowhere = np.zeros_like(observed)
    gradient = nb.grad(misfit)(nowhere)
    hessian_times = nb.hvp(misfit)
    found = conjugate_gradients(lambda p: hessian_times(nowhere, p), -gradient, cart, 200)

    left = dot(nb.grad(misfit)(found), nb.grad(misfit)(found), cart) ** 0.5 / dot(gradient, gradient, cart) ** 0.5
    error = (dot(found - truth[part], found - truth[part], cart) / dot(truth[part], truth[part], cart)) ** 0.5
    parts = cart.gather((part, observed, found))
    if cart.rank == 0:
        print(f"{cart.size} ranks, {n} x {n} cells: gradient {left:.1e} of the first, error {error:.3f}")
        whole = np.zeros((2, n, n))
        for place, *fields in parts:
            for k, field in enumerate(fields):
                whole[(k, *place)] = field
        print(f"sum of the temperatures found: {whole[1].sum():.9f}")
        if args.picture:
            draw(truth, *whole, args.steps, args.picture)


def draw(truth, observed, found, steps, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
    titles = ["first temperatures", f"observed after {steps} steps", "found from these"]
    for ax, title, field in zip(axes, titles, (truth, observed, found), strict=True):
        image = ax.imshow(field.T, origin="lower", extent=(0, 1, 0, 1), vmin=-0.1, vmax=1.1, cmap="inferno")
        ax.set_title(title, fontsize=10)
        ax.set_xlabel("x")
    axes[0].set_ylabel("y")
    figure.colorbar(image, ax=axes, label="temperature", shrink=0.9)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
