"""Signals under SciPy's names: convolutions and linear filters of arrays of :mod:`nbgrad.np`, differentiated by all
arguments, also by the coefficients of filters.

>>> import nbgrad as nb
>>> import nbgrad.np as np
>>> from nbgrad.scipy import signal
>>> x = np.array([1.0, 0.0, 0.0, 0.0])
>>> signal.lfilter([0.5], [1.0, -0.5], x)
array([0.5   , 0.25  , 0.125 , 0.0625])
>>> nb.grad(lambda a: signal.lfilter([0.5], [1.0, -a], x)[2])(0.5)
0.5
"""

from __future__ import annotations

from .convolutions import convolve, convolve2d, correlate, correlate2d, fftconvolve, oaconvolve, upfirdn
from .filters import deconvolve, filtfilt, lfilter, lfilter_zi, sosfilt, sosfilt_zi, sosfiltfilt
from .smoothing import detrend, savgol_filter

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "deconvolve", "detrend", "fftconvolve", "filtfilt",
           "lfilter", "lfilter_zi", "oaconvolve", "savgol_filter", "sosfilt", "sosfilt_zi", "sosfiltfilt",
           "upfirdn"]  # fmt: skip
