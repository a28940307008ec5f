"""Convolution and pooling on devices.

A convolution is a matrix product: the cells under each window, by tap, are brought into a matrix of *columns*, for as
many samples at once as some memory holds. Its adjoints are the other two products. Adding columns back to the cells
they came from, and averaging backwards, a thread has a cell and looks for all windows it is under, so that no two
threads write one element and results are the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.launch import Kind
from ..backends.cuda.kernels import cuda, device
from ..backends.cuda.product import product

__all__ = ["avg_pool", "avg_pool_adjoint", "convolve", "gather", "max_pool", "scatter_add"]

#: Elements of columns that are there at once.
_COLUMNS = 1 << 26


@device
def _columns(x, out, K, C, D, H, W, KD, KH, KW, OD, OH, OW, sd, sh, sw, dd, dh, dw, pd, ph, pw):
    """out (n, K, OD*OH*OW) of x (n, C, D, H, W), where K counts channels and taps."""
    P = OD * OH * OW
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        p = i % P
        q = (i // P) % K
        c = q // (KD * KH * KW)
        d = (p // (OH * OW)) * sd - pd + (q // (KH * KW)) % KD * dd
        h = (p // OW) % OH * sh - ph + (q // KW) % KH * dh
        w = p % OW * sw - pw + q % KW * dw
        n = i // (P * K)
        inside = 0 <= d < D and 0 <= h < H and 0 <= w < W
        out[i] = x[(((n * C + c) * D + d) * H + h) * W + w] if inside else 0


@device
def _cells(g, out, K, C, D, H, W, KD, KH, KW, OD, OH, OW, sd, sh, sw, dd, dh, dw, pd, ph, pw):
    """The adjoint of :func:`_columns`: out (n, C, D, H, W) of g (n, K, OD*OH*OW)."""
    taps = KD * KH * KW
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        w = i % W + pw
        h = (i // W) % H + ph
        d = (i // (W * H)) % D + pd
        c = (i // (W * H * D)) % C
        n = i // (W * H * D * C)
        total = out[i]
        total -= total
        for kd in range(KD):
            od = d - kd * dd
            if od < 0 or od % sd or od // sd >= OD:
                continue
            for kh in range(KH):
                oh = h - kh * dh
                if oh < 0 or oh % sh or oh // sh >= OH:
                    continue
                for kw in range(KW):
                    ow = w - kw * dw
                    if ow < 0 or ow % sw or ow // sw >= OW:
                        continue
                    q = c * taps + (kd * KH + kh) * KW + kw
                    total += g[((n * K + q) * OD + od // sd) * OH * OW + oh // sh * OW + ow // sw]
        out[i] = total


def convolve(name: str, first: Any, second: Any, out: Any, kind: Kind, samples: int, sizes: tuple[int, ...]) -> None:
    """``"conv_forward"``, ``"conv_data_grad"`` or ``"conv_weight_grad"``, with the arguments of the CPU's kernels."""
    C, D, H, W, F, KD, KH, KW, OD, OH, OW, *steps, groups = sizes
    K, P, S = C * KD * KH * KW, OD * OH * OW, C * D * H * W
    per_group = K // groups
    at_once = max(1, min(samples, _COLUMNS // max(K * P, 1)))
    shape = (K, C, D, H, W, KD, KH, KW, OD, OH, OW, *steps)
    G = F // groups
    for start in range(0, samples, at_once):
        n = min(at_once, samples - start)
        columns = kind.empty(n * K * P, kind.storage)
        stacks = n * groups
        if name == "conv_data_grad":
            head = first[start * F * P : (start + n) * F * P]
            product(second, head, columns, stacks, (per_group, G, P), (True, False), (groups, stacks))
            target = out[start * S : (start + n) * S]
            target.fill(0)
            _cells(target.size, [columns, target], *shape)
            continue
        _columns(columns.size, [first[start * S : (start + n) * S], columns], *shape)
        if name == "conv_forward":
            target = out[start * F * P : (start + n) * F * P]
            product(second, columns, target, stacks, (G, per_group, P), repeated=(groups, stacks))
            continue
        head = second[start * F * P : (start + n) * F * P]
        parts = kind.empty(n * out.size, kind.storage)
        product(head, columns, parts, stacks, (G, P, per_group), (False, True))
        _add_up(out.size, [parts, out], n, int(start > 0))


@device
def _add_up(parts, out, count, add):
    """out = the sum of `count` parts, or that is added."""
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        total = parts[i]
        for k in range(1, count):
            total += parts[k * out.size + i]
        out[i] = out[i] + total if add else total


@device
def _device_max_pool(x, out, index, planes, D, H, W, KD, KH, KW, OD, OH, OW, sd, sh, sw, pd, ph, pw):
    for o in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        w = o % OW * sw - pw
        h = (o // OW) % OH * sh - ph
        d = (o // (OW * OH)) % OD * sd - pd
        b = o // (OW * OH * OD)
        where = -1
        best = x[0]
        for i in range(max(d, 0), min(d + KD, D)):
            for j in range(max(h, 0), min(h + KH, H)):
                for k in range(max(w, 0), min(w + KW, W)):
                    at = ((b * D + i) * H + j) * W + k
                    v = x[at]
                    if where < 0 or (best == best and not v <= best):
                        best = v
                        where = at
        out[o] = best if where >= 0 else -np.inf
        index[o] = where


@device
def _device_gather(x, index, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        at = index[i]
        out[i] = x[at] if at >= 0 else 0


@device
def _device_scatter(g, index, out, planes, length, plane):
    """A thread adds a plane's elements, in order: windows of one plane alone have cells of it."""
    for b in range(cuda.grid(1), planes, cuda.gridsize(1)):
        for i in range(b * plane, (b + 1) * plane):
            out[i] = 0
        for i in range(b * length, (b + 1) * length):
            at = index[i]
            if at >= 0:
                out[at] += g[i]


@device
def _device_avg_pool(x, out, planes, D, H, W, KD, KH, KW, OD, OH, OW, sd, sh, sw, pd, ph, pw, include_pad, whole):
    for o in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        w = o % OW * sw - pw
        h = (o // OW) % OH * sh - ph
        d = (o // (OW * OH)) % OD * sd - pd
        b = o // (OW * OH * OD)
        total = out[o]
        total -= total
        for i in range(max(d, 0), min(d + KD, D)):
            for j in range(max(h, 0), min(h + KH, H)):
                for k in range(max(w, 0), min(w + KW, W)):
                    total += x[((b * D + i) * H + j) * W + k]
        if include_pad:
            cells = max(1, min(D + pd, d + KD) - d) * max(1, min(H + ph, h + KH) - h) * max(1, min(W + pw, w + KW) - w)
        else:
            cells = max(1, min(D, d + KD) - max(d, 0)) * max(1, min(H, h + KH) - max(h, 0))
            cells *= max(1, min(W, w + KW) - max(w, 0))
        out[o] = total if whole else total / cells


@device
def _device_avg_adjoint(g, out, planes, D, H, W, KD, KH, KW, OD, OH, OW, sd, sh, sw, pd, ph, pw, include_pad, whole):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        x = i % W + pw
        y = (i // W) % H + ph
        z = (i // (W * H)) % D + pd
        b = i // (W * H * D)
        total = out[i]
        total -= total
        for od in range(max(0, (z - KD) // sd + 1), min(OD, z // sd + 1)):
            d = od * sd - pd
            for oh in range(max(0, (y - KH) // sh + 1), min(OH, y // sh + 1)):
                h = oh * sh - ph
                for ow in range(max(0, (x - KW) // sw + 1), min(OW, x // sw + 1)):
                    w = ow * sw - pw
                    v = g[((b * OD + od) * OH + oh) * OW + ow]
                    if include_pad:
                        cells = max(1, min(D + pd, d + KD) - d) * max(1, min(H + ph, h + KH) - h)
                        cells *= max(1, min(W + pw, w + KW) - w)
                    else:
                        cells = max(1, min(D, d + KD) - max(d, 0)) * max(1, min(H, h + KH) - max(h, 0))
                        cells *= max(1, min(W, w + KW) - max(w, 0))
                    total += v if whole else v / cells
        out[i] = total


def max_pool(outs: int, sizes: tuple) -> Callable:
    """The launcher for maxima; `sizes` begin with the number of planes."""
    return _device_max_pool.run(outs, *sizes)


def avg_pool(outs: int, sizes: tuple) -> Callable:
    return _device_avg_pool.run(outs, *sizes)


def avg_pool_adjoint(cells: int, sizes: tuple) -> Callable:
    return _device_avg_adjoint.run(cells, *sizes)


def gather(n: int) -> Callable:
    return _device_gather.run(n)


def scatter_add(planes: int, n: int, cells: int) -> Callable:
    """`n` elements go to `cells` places, both `planes` times."""
    return _device_scatter.run(planes, planes, n, cells)
