"""Second half of the demonstration: a differential equation fitted to observations, with standard errors.

The Lotka-Volterra equations for prey u and predators v,

    du/dt = u (alpha - beta v),    dv/dt = v (delta u - gamma),

are integrated by the classical Runge-Kutta method, written in ``nd``. Counts scatter log-normally around
the solution; the negative log-likelihood is minimised in the logarithms of all parameters with its gradient
through the integrator, and its Hessian, the gradient differentiated again, gives the errors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from .. import autograd, nd
from ..arrays.ndarray import NDArray
from ..data import load_lynx_hare

__all__ = ["NAMES", "UNITS", "Fit", "fit", "hessian", "loss_and_gradient", "simulate"]

NAMES = ("alpha", "beta", "gamma", "delta", "u0", "v0", "sigma")
UNITS = ("1/year", "1/(thousand year)", "1/year", "1/(thousand year)", "thousand", "thousand", "")
STEPS = 8  # Runge-Kutta steps a year
_START = (0.5, 0.02, 0.9, 0.03, 30.0, 5.0, 0.5)


class Fit(NamedTuple):
    """Estimates, their standard errors, the fitted populations over time, and how good the gradient was."""

    values: np.ndarray
    errors: np.ndarray
    time: np.ndarray
    hare: np.ndarray
    lynx: np.ndarray
    evaluations: int
    gradient_error: float


def simulate(p: list[NDArray], years: int, steps: int = STEPS) -> tuple[list[NDArray], list[NDArray]]:
    """Populations after every step.

    Parameters
    ----------
    p : list of NDArray
        alpha, beta, gamma, delta, u0, v0, each of shape (1,).
    years : int
    steps : int
        Runge-Kutta steps a year.

    Returns
    -------
    u, v : list of NDArray
        ``years*steps + 1`` arrays of shape (1,) each.
    """
    alpha, beta, gamma, delta, u, v = p[:6]
    h = 1.0 / steps

    def rate(u, v):
        return u * (alpha - beta * v), v * (delta * u - gamma)

    us, vs = [u], [v]
    for _ in range(years * steps):
        a, b = rate(u, v)
        c, d = rate(u + (h / 2) * a, v + (h / 2) * b)
        e, f = rate(u + (h / 2) * c, v + (h / 2) * d)
        g, k = rate(u + h * e, v + h * f)
        u = u + (h / 6) * (a + 2 * (c + e) + g)
        v = v + (h / 6) * (b + 2 * (d + f) + k)
        us.append(u)
        vs.append(v)
    return us, vs


def _loss(theta: NDArray, log_counts: NDArray) -> NDArray:
    """Negative log-likelihood, but for a constant; `theta` are the logarithms of the parameters."""
    parameters = nd.exp(theta)
    p = [parameters[k] for k in range(len(NAMES))]
    u, v = simulate(p, log_counts.shape[1] - 1)
    predicted = nd.log(nd.stack(nd.concat(*u[::STEPS], dim=0), nd.concat(*v[::STEPS], dim=0)))
    residuals = (log_counts - predicted) / p[6]
    return log_counts.size * theta[6] + 0.5 * nd.sum(residuals * residuals)


def _marked(theta: np.ndarray) -> NDArray:
    x = nd.array(np.asarray(theta, np.float64))
    x.attach_grad()
    return x


def loss_and_gradient(theta: np.ndarray, log_counts: NDArray) -> tuple[float, np.ndarray]:
    """The negative log-likelihood and its gradient, as ``scipy.optimize.minimize(jac=True)`` wants them."""
    x = _marked(theta)
    with autograd.record():
        loss = _loss(x, log_counts)
    loss.backward()
    assert x.grad is not None
    return float(loss), x.grad.asnumpy()


def hessian(theta: np.ndarray, log_counts: NDArray) -> np.ndarray:
    """Second derivatives: each component of the gradient differentiated."""
    x = _marked(theta)
    with autograd.record():
        gradient = autograd.grad(_loss(x, log_counts), x, create_graph=True)
        components = [gradient[k] for k in range(gradient.size)]
    return np.stack([autograd.grad(c, x, retain_graph=True).asnumpy() for c in components])


def _gradient_error(theta: np.ndarray, log_counts: NDArray) -> float:
    """Largest deviation of the gradient from central differences, relative to its largest component."""
    _, exact = loss_and_gradient(theta, log_counts)
    step = 1e-5
    numeric = [
        (loss_and_gradient(theta + step * e, log_counts)[0] - loss_and_gradient(theta - step * e, log_counts)[0])
        / (2 * step)
        for e in np.eye(len(theta))
    ]
    return float(np.abs(np.array(numeric) - exact).max() / np.abs(exact).max())


def fit() -> Fit:
    """Fit the equations to the lynx and hare pelts of 1900-1920."""
    years, lynx, hare = load_lynx_hare()
    log_counts = nd.array(np.log(np.stack([hare, lynx])))
    start = np.log(_START)
    gradient_error = _gradient_error(start, log_counts)
    found = minimize(loss_and_gradient, start, args=(log_counts,), jac=True, method="BFGS", options={"gtol": 1e-6})
    if gradient_error > 1e-6 or np.abs(found.jac).max() > 1e-3:
        raise RuntimeError(f"the fit failed: {found.message} (gradient off by {gradient_error:.1e})")
    values = np.exp(found.x)
    covariance = np.linalg.inv(hessian(found.x, log_counts))
    scales = [nd.array(values[k : k + 1]) for k in range(6)]
    u, v = simulate(scales, len(years) - 1)
    return Fit(
        values,
        values * np.sqrt(np.diag(covariance)),
        np.linspace(years[0], years[-1], len(u)),
        np.array([float(x) for x in u]),
        np.array([float(x) for x in v]),
        found.nfev,
        gradient_error,
    )
