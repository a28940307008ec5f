"""Images under SciPy's names: filters and interpolation of arrays of :mod:`nbgrad.np`, differentiated by all arguments,
also by the widths of Gaussians and by coordinates.

>>> import nbgrad as nb
>>> import nbgrad.np as np
>>> from nbgrad.scipy import ndimage
>>> x = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
>>> ndimage.uniform_filter1d(x, 3)
array([0.        , 0.33333333, 0.33333333, 0.33333333, 0.        ])
>>> round(float(nb.grad(lambda s: ndimage.gaussian_filter1d(x, s)[2])(1.0)), 6)
-0.398915
"""

from __future__ import annotations

from .filters import (
    convolve,
    convolve1d,
    correlate,
    correlate1d,
    gaussian_filter,
    gaussian_filter1d,
    gaussian_gradient_magnitude,
    gaussian_laplace,
    laplace,
    prewitt,
    sobel,
    uniform_filter,
    uniform_filter1d,
)
from .interpolation import affine_transform, map_coordinates, shift, zoom
from .measurements import center_of_mass, mean, sum_labels
from .ranks import maximum_filter, median_filter, minimum_filter

__all__ = ["affine_transform", "center_of_mass", "convolve", "convolve1d", "correlate", "correlate1d",
           "gaussian_filter", "gaussian_filter1d", "gaussian_gradient_magnitude", "gaussian_laplace", "laplace",
           "map_coordinates", "maximum_filter", "mean", "median_filter", "minimum_filter", "prewitt", "shift",
           "sobel", "sum_labels", "uniform_filter", "uniform_filter1d", "zoom"]  # fmt: skip
