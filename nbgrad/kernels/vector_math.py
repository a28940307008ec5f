"""Scalar functions written so that loops over them are vectorised, which calls to a C library never are."""

from __future__ import annotations

import numpy as np

from ..codegen.compile import inline

__all__ = ["exp_below"]


@inline
def _exp64(v):
    shifted = v * 1.4426950408889634 + 6755399441055744.0  # 1.5*2^52: the nearest integer in the last bits
    k = shifted - 6755399441055744.0
    r = v - k * 0.6931471803691238 - k * 1.9082149292705877e-10  # log(2) in two parts
    p = 1.6059043836821613e-10  # Taylor's series: the rest is below 4e-18 for |r| <= log(2)/2
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 1.984126984126984e-04
    p = p * r + 1.388888888888889e-03
    p = p * r + 8.333333333333333e-03
    p = p * r + 4.1666666666666664e-02
    p = p * r + 1.6666666666666666e-01
    p = p * r + 0.5
    p = p * (r * r) + r + 1.0
    bits = (np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)
    scale = np.int64(bits).view(np.float64)
    return p * scale if v >= -708.3964185322641 else (v * 0.0 if v != v else 0.0)


@inline
def _exp32(v):
    shifted = v * np.float32(1.4426950408889634) + np.float32(12582912.0)  # 1.5*2^23
    k = shifted - np.float32(12582912.0)
    r = v - k * np.float32(0.693359375) + k * np.float32(2.12194440e-4)
    p = np.float32(1.984126984126984e-04)
    p = p * r + np.float32(1.388888888888889e-03)
    p = p * r + np.float32(8.333333333333333e-03)
    p = p * r + np.float32(4.1666666666666664e-02)
    p = p * r + np.float32(1.6666666666666666e-01)
    p = p * r + np.float32(0.5)
    p = p * (r * r) + r + np.float32(1.0)
    bits = (np.float32(shifted).view(np.int32) + np.int32(127)) << np.int32(23)
    scale = np.int32(bits).view(np.float32)
    zero = np.float32(0.0)
    return p * scale if v > np.float32(-87.33654) else (v * zero if v != v else zero)


@inline
def exp_below(v):
    """exp(v) for v <= 0 (and NaN), float32 or float64; results below the smallest normal number are 0.

    Less than an ulp off.
    """
    one = type(v)(1)
    if one + type(v)(1e-10) == one:  # decided when compiled
        return type(v)(_exp32(np.float32(v)))
    return type(v)(_exp64(np.float64(v)))
