"""Convolution and pooling over three spatial dimensions, on flat buffers.

Letters: N samples, C channels, F filters, (D, H, W) input, (KD, KH, KW) taps, (OD, OH, OW) output; s, d, p
(stride, dilate, pad) with the dimension's letter. Images are (N, C, D, H, W), weights
(F, C/groups, KD, KH, KW). One- and two-dimensional problems have leading sizes 1. No size is 0 but N.

Convolution is bilinear in x and w. In one dimension and one group, with i over outputs and k over taps::

    conv_forward      y[n,f,i] = Σ_c Σ_k w[f,c,k] x[n,c, i·s + k·d − p]
    conv_data_grad    x[n,c,j] = Σ_f Σ_(i,k: i·s+k·d−p = j) w[f,c,k] g[n,f,i]
    conv_weight_grad  w[f,c,k] = Σ_n Σ_i g[n,f,i] x[n,c, i·s + k·d − p]

so that <y(x,w), g> = <x, data_grad(g,w)> = <w, weight_grad(x,g)>: each is the adjoint of the others, and
the derivatives of any of the three are the other two. All are matrix products with a matrix of *columns*,
one row for each of the K = C/groups·KD·KH·KW weights of a filter, of what it meets at each of L outputs::

    conv_forward      y (F, L) = w (F, K) · columns (K, L)
    conv_data_grad    columns (K, L) = wᵀ (K, F) · g (F, L)
    conv_weight_grad  w (F, K) = g (F, L) · columnsᵀ (L, K)

The work is cut into blocks of about 512 outputs, some rows of a large image or several small images. Samples
are first *staged* as (C, TD, TH, sw, TQ): zero-padded to what the windows touch, and with the columns of an
image sorted by their remainder modulo sw, so that what a weight meets along an output row is contiguous
whatever the stride. The columns exist eight rows at a time, which stay in the first-level cache while all
filters use them. Rows start on cache lines: vector loads that straddle two halve the speed. These products
are plain loops and not BLAS, since they are skinny, would be packed once more, and need no other threads.

Pooling takes B = N·C planes and windows that start at i·s − p and are clipped to the input, which they may
leave at either end. `max_pool` keeps the flat position of each maximum: the first of equals, and the first
NaN if there is one. Then ``y = gather(x, index)``, whose adjoint is `scatter_add`. A window with no cell in
the input gives −inf and position −1, which `gather` reads as 0 and `scatter_add` leaves out. `avg_pool`
divides the sum of a window by its cells in the input; with `include_pad`, by its cells in the input and the
pad (p cells at both ends); with `total`, by 1. No cell counts as one.
"""

from __future__ import annotations

import numpy as np

from ..backends.numba.compile import helper, inline, kernel

__all__ = [
    "avg_pool",
    "avg_pool_adjoint",
    "conv_data_grad",
    "conv_forward",
    "conv_weight_grad",
    "gather",
    "max_pool",
    "samples_in_block",
    "scatter_add",
    "workspace_size",
]

#: Outputs in a block: long enough for the loops over it to run at full speed, short enough for the caches.
_BLOCK = 512
#: Rows of columns that exist at a time: as many as :func:`_combine` takes at once.
_TAPS = 8
#: Elements that rows are rounded up to: a cache line of float32, two of float64.
_LINE = 16


def _plan(N, C, F, taps, outs, strides, dilates, groups):
    """(samples, output rows and outputs of a row in a block, (TD, TH, TQ), row length, and where in `work`
    the columns, a corner for some weights and the staged samples begin, and where it ends)."""
    KD, KH, KW = taps
    OD, OH, OW = outs
    sd, sh, sw = strides
    dd, dh, dw = dilates
    extents = (OD - 1) * sd + (KD - 1) * dd + 1, (OH - 1) * sh + (KH - 1) * dh + 1, OW + (KW - 1) * dw // sw
    P = OD * OH * OW
    B = max(1, min(N, _BLOCK // P))
    parts = max(1, (P + _BLOCK // 2) // _BLOCK)
    rows = B * ((OD * OH + parts - 1) // parts)
    wide = OW if rows > 1 or OW < 2 * _BLOCK else _BLOCK
    ld = (rows * wide + _LINE - 1) // _LINE * _LINE
    columns = (F // groups + _TAPS - 1) // _TAPS * _TAPS * ld
    corner = columns + _TAPS * ld
    staged = corner + (F // groups + _TAPS) * _TAPS
    end = staged + B * C * extents[0] * extents[1] * sw * extents[2]
    return B, rows, wide, extents, ld, columns, corner, staged, end


_blocks = inline(_plan)


def workspace_size(N, C, D, H, W, F, KD, KH, KW, OD, OH, OW, sd, sh, sw, dd, dh, dw, pd, ph, pw, groups):
    """Elements that `work` must have for any of the three convolutions of these sizes."""
    return _plan(N, C, F, (KD, KH, KW), (OD, OH, OW), (sd, sh, sw), (dd, dh, dw), groups)[-1] + _LINE


def samples_in_block(N, C, D, H, W, F, KD, KH, KW, OD, OH, OW, *others):
    """How many samples each of the three takes at a time."""
    return max(1, min(N, _BLOCK // (OD * OH * OW)))


@inline
def _aligned(work):
    """The first element on a cache line."""
    return -(np.int64(work.ctypes.data) // work.itemsize) % _LINE


@inline
def _copy(dst, i, src, j, n):
    i, j = np.uintp(i), np.uintp(j)
    for t in range(np.uintp(n)):
        dst[i + t] = src[j + t]


@inline
def _add(dst, i, src, j, n):
    i, j = np.uintp(i), np.uintp(j)
    for t in range(np.uintp(n)):
        dst[i + t] += src[j + t]


@inline
def _fill(dst, i, n, value):
    i = np.uintp(i)
    for t in range(np.uintp(n)):
        dst[i + t] = value


@inline
def _reach(start, s, n, most):
    """(first, number) of the t < most with start + t·s in [0, n)."""
    first = max(0, (s - 1 - start) // s)
    return first, max(0, min(most, (n - start + s - 1) // s) - first)


@helper
def _stage(x, x0, work, z, planes, size, extents, sw, pads, back):
    """x, from x0 on -> work, from z on, or back."""
    D, H, W = size
    TD, TH, TQ = extents
    pd, ph, pw = pads
    for c in range(planes):
        for d in range(min(D, TD - pd)):
            for h in range(min(H, TH - ph)):
                for phase in range(sw):
                    first, n = _reach(phase - pw, sw, W, TQ)
                    i = np.uintp(x0 + ((c * D + d) * H + h) * W + first * sw + phase - pw)
                    j = np.uintp(z + (((c * TD + d + pd) * TH + h + ph) * sw + phase) * TQ + first)
                    step = np.uintp(sw)
                    if back:
                        for t in range(np.uintp(n)):
                            x[i + t * step] = work[j + t]
                    else:
                        for t in range(np.uintp(n)):
                            work[j + t] = x[i + t * step]


@helper
def _columns(work, z, j, C, k0, k1, taps, outs, extents, strides, dilates, part, ld, back):
    """Rows k0 to k1 of the columns, at j on, from samples staged at z on (or, `back`, added to them), for the
    `part` of output rows r0 to r1, n outputs of each from w0 on. Weights are counted through all groups."""
    KD, KH, KW = taps
    OD, OH, _ = outs
    TD, TH, TQ = extents
    sd, sh, sw = strides
    dd, dh, dw = dilates
    r0, r1, w0, n = part
    line = sw * TQ
    for k in range(k0, k1):
        rest, kw = divmod(k, KW)
        rest, kh = divmod(rest, KH)
        c, kd = divmod(rest, KD)
        tap = z + ((c * TD + kd * dd) * TH + kh * dh) * line + (kw * dw) % sw * TQ + (kw * dw) // sw + w0
        o = j
        r = r0
        while r < r1:
            plane, oh = divmod(r, OH)
            b, od = divmod(plane, OD)
            i = tap + ((b * C * TD + od * sd) * TH + oh * sh) * line
            for _ in range(min(OH - oh, r1 - r)):
                if back:
                    _add(work, i, work, o, n)
                else:
                    _copy(work, o, work, i, n)
                i += sh * line
                o += n
                r += 1
        if not back:
            _fill(work, o, j + ld - o, 0)
        j += ld


@helper
def _pack(y, i, work, j, B, F, G, P, run, ld, back):
    """(B, G, run) at i on, filters P and samples F·P apart -> (G, ld) at j on, with
    zeros at the ends of rows and in rows to the next eighth; or back."""
    for f in range(G):
        for n in range(B):
            if back:
                _copy(y, i + (n * F + f) * P, work, j + f * ld + n * run, run)
            else:
                _copy(work, j + f * ld + n * run, y, i + (n * F + f) * P, run)
        if not back:
            _fill(work, j + f * ld + B * run, ld - B * run, 0)
    if not back:
        _fill(work, j + G * ld, -G % _TAPS * ld, 0)


@helper
def _weights(w, i, rstep, kstep, work, e, R, K):
    """w (R, K), entries rstep and kstep apart from i on, as (K/8, R, 8) at e on, the rest 0."""
    for k in range(0, K, 8):
        for r in range(R):
            for t in range(8):
                work[np.uintp(e)] = w[np.uintp(i + r * rstep + (k + t) * kstep)] if k + t < K else 0
                e += 1


@helper
def _combine(work, e, c, y, R, K, ld):
    """R rows at y on += w (R, K), laid out by `_weights` at e on, times K rows at c on, followed by rows of 0
    to the next eighth. Eight rows at a time: nine loads and a store for eight products."""
    n, w = np.uintp(ld), np.uintp(e)
    for k in range(0, K, 8):
        c0 = np.uintp(c + k * ld)
        c1, c2, c3, c4 = c0 + n, c0 + np.uintp(2) * n, c0 + np.uintp(3) * n, c0 + np.uintp(4) * n
        c5, c6, c7 = c4 + n, c4 + np.uintp(2) * n, c4 + np.uintp(3) * n
        for r in range(R):
            w0, w1, w2, w3 = work[w], work[w + np.uintp(1)], work[w + np.uintp(2)], work[w + np.uintp(3)]
            w += np.uintp(4)
            w4, w5, w6, w7 = work[w], work[w + np.uintp(1)], work[w + np.uintp(2)], work[w + np.uintp(3)]
            w += np.uintp(4)
            o = np.uintp(y + r * ld)
            for t in range(n):
                s = work[o + t] + w0 * work[c0 + t] + w1 * work[c1 + t] + w2 * work[c2 + t] + w3 * work[c3 + t]
                s = s + w4 * work[c4 + t] + w5 * work[c5 + t] + w6 * work[c6 + t] + w7 * work[c7 + t]
                work[o + t] = s


@helper(reorder=True)
def _inner(work, i, j, o, G, K, n):
    """(G, K) at o on, rows _TAPS apart = (G, n) at i on · (K, n)ᵀ at j on.

    Four rows of each at a time: 16 sums for 8 loads, held in registers. At the ends, rows are taken twice.
    """
    for f in range(0, G, 4):
        y0, y1 = np.uintp(i + f * n), np.uintp(i + min(f + 1, G - 1) * n)
        y2, y3 = np.uintp(i + min(f + 2, G - 1) * n), np.uintp(i + min(f + 3, G - 1) * n)
        for k in range(0, K, 4):
            k1, k2, k3 = min(k + 1, K - 1), min(k + 2, K - 1), min(k + 3, K - 1)
            c0, c1, c2, c3 = (
                np.uintp(j + k * n),
                np.uintp(j + k1 * n),
                np.uintp(j + k2 * n),
                np.uintp(j + k3 * n),
            )
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = work.dtype.type(0)
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = work.dtype.type(0)
            for t in range(np.uintp(n)):
                a, b, c, d = work[y0 + t], work[y1 + t], work[y2 + t], work[y3 + t]
                v = work[c0 + t]
                s00, s10, s20, s30 = s00 + a * v, s10 + b * v, s20 + c * v, s30 + d * v
                v = work[c1 + t]
                s01, s11, s21, s31 = s01 + a * v, s11 + b * v, s21 + c * v, s31 + d * v
                v = work[c2 + t]
                s02, s12, s22, s32 = s02 + a * v, s12 + b * v, s22 + c * v, s32 + d * v
                v = work[c3 + t]
                s03, s13, s23, s33 = s03 + a * v, s13 + b * v, s23 + c * v, s33 + d * v
            sums = (s00, s01, s02, s03), (s10, s11, s12, s13), (s20, s21, s22, s23), (s30, s31, s32, s33)
            for r, (t0, t1, t2, t3) in enumerate(sums):
                row = o + min(f + r, G - 1) * _TAPS
                work[np.uintp(row + k)], work[np.uintp(row + k1)] = t0, t1
                work[np.uintp(row + k2)], work[np.uintp(row + k3)] = t2, t3


@kernel
def conv_forward(x, w, out, work, N, C, D, H, W, F, KD, KH, KW, OD, OH, OW, sd, sh, sw, dd, dh, dw, pd, ph, pw, groups):
    """out (N, F, OD, OH, OW) of x (N, C, D, H, W) and w (F, C/groups, KD, KH, KW)."""
    taps, outs, strides, dilates = (KD, KH, KW), (OD, OH, OW), (sd, sh, sw), (dd, dh, dw)
    B, rows, wide, extents, ld, c, e, z, end = _blocks(N, C, F, taps, outs, strides, dilates, groups)
    y = _aligned(work)
    c, e, z, end = c + y, e + y, z + y, end + y
    S, P, G, K = D * H * W, OD * OH * OW, F // groups, C // groups * KD * KH * KW
    _fill(work, z, end - z, 0)
    for n in range(0, N, B):
        b = min(B, N - n)
        _stage(x, n * C * S, work, z, b * C, (D, H, W), extents, sw, (pd, ph, pw), False)
        for r0 in range(0, b * OD * OH, rows):
            r1 = min(r0 + rows, b * OD * OH)
            for w0 in range(0, OW, wide):
                part = r0, r1, w0, min(wide, OW - w0)
                run = (r1 - r0) * part[3] // b
                for q in range(groups):
                    at = (n * F + q * G) * P + r0 * OW % P + w0
                    _fill(work, y, G * ld, 0)
                    for k in range(0, K, _TAPS):
                        m = min(_TAPS, K - k)
                        i = q * K + k
                        _columns(work, z, c, C, i, i + m, taps, outs, extents, strides, dilates, part, ld, False)
                        _fill(work, c + m * ld, (_TAPS - m) * ld, 0)
                        _weights(w, q * G * K + k, K, 1, work, e, G, m)
                        _combine(work, e, c, y, G, m, ld)
                    _pack(out, at, work, y, b, F, G, P, run, ld, True)


@kernel
def conv_data_grad(
    g, w, out, work, N, C, D, H, W, F, KD, KH, KW, OD, OH, OW, sd, sh, sw, dd, dh, dw, pd, ph, pw, groups
):
    """out (N, C, D, H, W) of g (N, F, OD, OH, OW) and w (F, C/groups, KD, KH, KW)."""
    taps, outs, strides, dilates = (KD, KH, KW), (OD, OH, OW), (sd, sh, sw), (dd, dh, dw)
    B, rows, wide, extents, ld, c, e, z, end = _blocks(N, C, F, taps, outs, strides, dilates, groups)
    y = _aligned(work)
    c, e, z, end = c + y, e + y, z + y, end + y
    S, P, G, K = D * H * W, OD * OH * OW, F // groups, C // groups * KD * KH * KW
    if D + pd > extents[0] or H + ph > extents[1] or W + pw > sw * extents[2]:
        _fill(out, 0, N * C * S, 0)  # some cells are under no window
    for n in range(0, N, B):
        b = min(B, N - n)
        _fill(work, z, end - z, 0)
        for r0 in range(0, b * OD * OH, rows):
            r1 = min(r0 + rows, b * OD * OH)
            for w0 in range(0, OW, wide):
                part = r0, r1, w0, min(wide, OW - w0)
                run = (r1 - r0) * part[3] // b
                for q in range(groups):
                    at = (n * F + q * G) * P + r0 * OW % P + w0
                    _pack(g, at, work, y, b, F, G, P, run, ld, False)
                    for k in range(0, K, _TAPS):
                        m = min(_TAPS, K - k)
                        i = q * K + k
                        _fill(work, c, m * ld, 0)
                        _weights(w, q * G * K + k, 1, K, work, e, m, G)
                        _combine(work, e, y, c, m, G, ld)
                        _columns(work, z, c, C, i, i + m, taps, outs, extents, strides, dilates, part, ld, True)
        _stage(out, n * C * S, work, z, b * C, (D, H, W), extents, sw, (pd, ph, pw), True)


@kernel
def conv_weight_grad(
    x, g, out, work, N, C, D, H, W, F, KD, KH, KW, OD, OH, OW, sd, sh, sw, dd, dh, dw, pd, ph, pw, groups
):
    """out (F, C/groups, KD, KH, KW) of x (N, C, D, H, W) and g (N, F, OD, OH, OW)."""
    taps, outs, strides, dilates = (KD, KH, KW), (OD, OH, OW), (sd, sh, sw), (dd, dh, dw)
    B, rows, wide, extents, ld, c, e, z, end = _blocks(N, C, F, taps, outs, strides, dilates, groups)
    y = _aligned(work)
    c, e, z, end = c + y, e + y, z + y, end + y
    S, P, G, K = D * H * W, OD * OH * OW, F // groups, C // groups * KD * KH * KW
    _fill(out, 0, F * K, 0)
    _fill(work, z, end - z, 0)
    for n in range(0, N, B):
        b = min(B, N - n)
        _stage(x, n * C * S, work, z, b * C, (D, H, W), extents, sw, (pd, ph, pw), False)
        for r0 in range(0, b * OD * OH, rows):
            r1 = min(r0 + rows, b * OD * OH)
            for w0 in range(0, OW, wide):
                part = r0, r1, w0, min(wide, OW - w0)
                run = (r1 - r0) * part[3] // b
                for q in range(groups):
                    at = (n * F + q * G) * P + r0 * OW % P + w0
                    _pack(g, at, work, y, b, F, G, P, run, ld, False)
                    for k in range(0, K, _TAPS):
                        m = min(_TAPS, K - k)
                        i = q * K + k
                        _columns(work, z, c, C, i, i + m, taps, outs, extents, strides, dilates, part, ld, False)
                        _inner(work, y, c, e, G, m, ld)
                        for f in range(G):
                            _add(out, (q * G + f) * K + k, work, e + f * _TAPS, m)


@inline
def _window(o, s, p, k, n):
    """The cells of window o in an input of n, as [low, high); low >= high if there is none."""
    start = o * s - p
    return max(0, start), min(n, start + k)


@inline
def _cells(o, s, p, k, n, include_pad):
    """What window o counts for in an average's divisor."""
    low, high = _window(o, s, p, k, n)
    if include_pad:
        low, high = o * s - p, min(n + p, o * s - p + k)
    return max(1, high - low)


@kernel
def max_pool(x, out, index, begin, end, D, H, W, KD, KH, KW, OD, OH, OW, sd, sh, sw, pd, ph, pw):
    """out (B, OD, OH, OW), the maxima of x (B, D, H, W), and in `index` (int64) their flat positions in x; of the B
    planes those from `begin` to `end`."""
    o = np.uintp(begin * OD * OH * OW)
    for b in range(begin, end):
        for od in range(OD):
            d0, d1 = _window(od, sd, pd, KD, D)
            for oh in range(OH):
                h0, h1 = _window(oh, sh, ph, KH, H)
                for ow in range(OW):
                    w0, w1 = _window(ow, sw, pw, KW, W)
                    if d0 < d1 and h0 < h1 and w0 < w1:
                        at = np.uintp(((b * D + d0) * H + h0) * W + w0)
                        best = x[at]
                        for d in range(d0, d1):
                            for h in range(h0, h1):
                                i = np.uintp(((b * D + d) * H + h) * W + w0)
                                for _ in range(w1 - w0):
                                    v = x[i]
                                    take = (not v <= best) & (best == best)
                                    best = v if take else best
                                    at = i if take else at
                                    i += np.uintp(1)
                        out[o] = best
                        index[o] = at
                    else:
                        out[o] = -np.inf
                        index[o] = -1
                    o += np.uintp(1)


@kernel
def gather(x, index, out, n):
    """out[i] = x[index[i]], and 0 where the index is negative."""
    for i in range(np.uintp(n)):
        at = index[i]
        out[i] = x[np.uintp(at)] if at >= 0 else 0


@kernel
def scatter_add(g, index, out, n):
    """out[index[i]] += g[i] from zero, without the negative indices: the adjoint of `gather`."""
    _fill(out, 0, out.size, 0)
    for i in range(np.uintp(n)):
        at = index[i]
        if at >= 0:
            out[np.uintp(at)] += g[i]


@kernel
def avg_pool(x, out, B, D, H, W, KD, KH, KW, OD, OH, OW, sd, sh, sw, pd, ph, pw, include_pad, total):
    """out (B, OD, OH, OW), the averages (`total`: sums) over windows of x (B, D, H, W)."""
    _fill(out, 0, B * OD * OH * OW, 0)
    step = np.uintp(sw)
    for b in range(B):
        for od in range(OD):
            d0, d1 = _window(od, sd, pd, KD, D)
            nd = _cells(od, sd, pd, KD, D, include_pad)
            for oh in range(OH):
                h0, h1 = _window(oh, sh, ph, KH, H)
                nh = _cells(oh, sh, ph, KH, H, include_pad)
                o = ((b * OD + od) * OH + oh) * OW
                for d in range(d0, d1):
                    for h in range(h0, h1):
                        for kw in range(KW):
                            first, n = _reach(kw - pw, sw, W, OW)
                            i = np.uintp(((b * D + d) * H + h) * W + first * sw + kw - pw)
                            j = np.uintp(o + first)
                            for t in range(np.uintp(n)):
                                out[j + t] += x[i + t * step]
                if not total:
                    for ow in range(OW):
                        out[np.uintp(o + ow)] /= nd * nh * _cells(ow, sw, pw, KW, W, include_pad)


@kernel
def avg_pool_adjoint(g, out, B, D, H, W, KD, KH, KW, OD, OH, OW, sd, sh, sw, pd, ph, pw, include_pad, total):
    """out (B, D, H, W) of g (B, OD, OH, OW): every cell's share of the windows it is in."""
    _fill(out, 0, B * D * H * W, 0)
    o = np.uintp(0)
    for b in range(B):
        for od in range(OD):
            d0, d1 = _window(od, sd, pd, KD, D)
            nd = _cells(od, sd, pd, KD, D, include_pad)
            for oh in range(OH):
                h0, h1 = _window(oh, sh, ph, KH, H)
                nh = _cells(oh, sh, ph, KH, H, include_pad)
                for ow in range(OW):
                    w0, w1 = _window(ow, sw, pw, KW, W)
                    cells = 1 if total else nd * nh * _cells(ow, sw, pw, KW, W, include_pad)
                    share = g[o] / cells
                    for d in range(d0, d1):
                        for h in range(h0, h1):
                            i = np.uintp(((b * D + d) * H + h) * W + w0)
                            for _ in range(w1 - w0):
                                out[i] += share
                                i += np.uintp(1)
                    o += np.uintp(1)
