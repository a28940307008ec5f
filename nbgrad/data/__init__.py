"""Two small data sets that come with the package; README.md beside them gives their sources and licences."""

import gzip
from importlib import resources

import numpy as np
import numpy.typing as npt

__all__ = ["load_digits", "load_lynx_hare"]


def load_digits() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
    """Images of handwritten digits: the UCI test set of 1797.

    Returns
    -------
    images : numpy.ndarray of float32, shape (1797, 8, 8)
        Ink from 0 (none) to 1 (full), in steps of 1/16.
    labels : numpy.ndarray of int32, shape (1797,)
        The digit shown, 0 to 9.

    Examples
    --------
    >>> images, labels = load_digits()
    >>> images.shape, labels.shape
    ((1797, 8, 8), (1797,))
    >>> labels[:10].tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> for row in images[0]:
    ...     print("".join(".-+*#"[int(4 * ink)] for ink in row))
    ..-*+...
    ..**+*-.
    ..*..++.
    .-*..++.
    .-+..++.
    .-+..*-.
    ..*-+*..
    ..-*+...
    """
    with (
        resources.files(__name__).joinpath("digits.csv.gz").open("rb") as packed,
        gzip.open(packed, "rt", encoding="ascii") as lines,
    ):
        table = np.loadtxt(lines, delimiter=",", dtype=np.int32)
    images = table[:, :64].reshape(-1, 8, 8).astype(np.float32) / np.float32(16)
    return images, table[:, 64].copy()


def load_lynx_hare() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Pelts of predator and prey, lynx and snowshoe hare, collected in Canada from 1900 to 1920.

    Returns
    -------
    year : numpy.ndarray of int64, shape (21,)
        The year.
    lynx, hare : numpy.ndarray of float64, shape (21,)
        Thousands of pelts in that year.

    Examples
    --------
    >>> year, lynx, hare = load_lynx_hare()
    >>> int(year[0]), float(lynx[0]), float(hare[0])
    (1900, 4.0, 30.0)
    >>> int(year[hare.argmax()]), int(year[lynx.argmax()])  # the lynx follow the hares
    (1903, 1904)
    """
    with resources.files(__name__).joinpath("lynx_hare.csv").open("r", encoding="utf-8") as lines:
        year, lynx, hare = np.loadtxt(lines, delimiter=",", skiprows=2, unpack=True)
    return year.astype(np.int64), lynx.copy(), hare.copy()
