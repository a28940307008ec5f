"""The pictures of the demonstration, where matplotlib is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..data import load_lynx_hare
from .digits import Digits
from .ecology import Fit

__all__ = ["draw_digits", "draw_populations"]

_BLUE, _RED, _GREY = "#1f6fb4", "#c8442c", "#888888"


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    return Figure(figsize=(width, height), layout="constrained")


def _tidy(axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def draw_digits(result: Digits, path: Path) -> Path | None:
    """Learning curves, and 40 held-out images with what the network read: those it got wrong first."""
    figure = _figure(11, 4.6)
    if figure is None:
        return None
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.25])
    top, bottom = left.subplots(2, 1, sharex=True)
    epochs = np.arange(1, len(result.losses) + 1)
    top.plot(epochs, result.losses, color=_BLUE, marker="o", markersize=3)
    top.set(yscale="log", ylabel="training loss")
    bottom.plot(epochs, 100 * np.array(result.accuracies), color=_RED, marker="o", markersize=3)
    bottom.set(xlabel="epoch", ylabel="test accuracy (%)")
    for axes in (top, bottom):
        _tidy(axes)
        axes.grid(alpha=0.25)
    left.suptitle(f"{100 * result.accuracy:.2f} % of {len(result.labels)} held-out images")
    order = np.argsort(result.predictions == result.labels, kind="stable")
    cells = right.subplots(4, 10)
    for axes, k in zip(cells.flat, order, strict=False):
        axes.imshow(result.images[k], cmap="gray_r", vmin=0, vmax=1)
        good = result.predictions[k] == result.labels[k]
        title = f"{result.predictions[k]}" if good else f"{result.predictions[k]} (is {result.labels[k]})"
        axes.set_title(title, fontsize=9, color=_GREY if good else _RED, pad=3)
        axes.axis("off")
    right.suptitle("what the network read (mistakes first)")
    figure.savefig(path, dpi=130)
    return path


def draw_populations(fit: Fit, path: Path) -> Path | None:
    """The pelts, the fitted populations, and both against each other."""
    figure = _figure(11, 4.2)
    if figure is None:
        return None
    years, lynx, hare = load_lynx_hare()
    time_axes, phase_axes = figure.subplots(1, 2, width_ratios=[1.7, 1])
    spread = np.exp(fit.values[6])
    for name, counts, curve, color in (("hare", hare, fit.hare, _BLUE), ("lynx", lynx, fit.lynx, _RED)):
        time_axes.fill_between(fit.time, curve / spread, curve * spread, color=color, alpha=0.12, linewidth=0)
        time_axes.plot(fit.time, curve, color=color, label=f"{name}, fitted")
        time_axes.plot(years, counts, "o", color=color, markersize=4, label=f"{name}, pelts")
    top = 1.15 * spread * max(fit.hare.max(), fit.lynx.max())  # a line of the legend above everything
    time_axes.set(xlabel="year", ylabel="thousands", ylim=(0, top), xticks=years[::4])
    time_axes.legend(frameon=False, ncols=4, fontsize=9, loc="upper center")
    time_axes.set_title("Lotka-Volterra equations fitted to Hudson Bay pelts", fontsize=11)
    phase_axes.plot(fit.hare, fit.lynx, color=_GREY)
    phase_axes.plot(hare, lynx, "o", color="black", markersize=3)
    phase_axes.set(xlabel="hares (thousands)", ylabel="lynx (thousands)", xlim=(0, None), ylim=(0, None))
    phase_axes.set_title("the same as a cycle", fontsize=11)
    for axes in (time_axes, phase_axes):
        _tidy(axes)
    figure.savefig(path, dpi=130)
    return path
