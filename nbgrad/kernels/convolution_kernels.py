"""Convolution and pooling over three spatial dimensions, on flat buffers.

Letters: N samples, C channels, F filters, (D, H, W) input, (KD, KH, KW) taps, (OD, OH, OW) output; s, d, p
(stride, dilate, pad) with the dimension's letter. Images are (N, C, D, H, W), weights (F, C/groups, KD, KH, KW). One-
and two-dimensional problems have leading sizes 1.

Convolution is bilinear in x and w (written for one dimension and one group; i runs over outputs, k over taps)::

    conv_forward      y[n,f,i] = Σ_c Σ_k w[f,c,k] x[n,c, i·s + k·d − p]
    conv_data_grad    x[n,c,j] = Σ_f Σ_(i,k: i·s+k·d−p = j) w[f,c,k] g[n,f,i]
    conv_weight_grad  w[f,c,k] = Σ_n Σ_i g[n,f,i] x[n,c, i·s + k·d − p]

so that <y(x,w), g> = <x, data_grad(g,w)> = <w, weight_grad(x,g)>: each is the adjoint of the others, and the derivatives
of any of the three are the other two. They are all run as matrix products on blocks of columns:

    stage     (C, D, H, W) -> (C, TD, TH, sw, TQ): zero-padded to what the windows touch, and split by column modulo
              sw, so that what one tap sees of an output row is contiguous whatever the stride;
    columns   (K, L), K = C/groups·KD·KH·KW: row k is what tap k sees at L outputs;
    products  y (F, L) = w (F, K) · columns;   columns = wᵀ · g (F, L);   w += g · columnsᵀ.

A block is several small samples, or some rows of a large one, sized to stay in the cache; `workspace_size` says how much
of `work` that takes: one block and the staged samples. An unpadded 1×1 convolution at stride 1 uses x itself as columns.

Pooling takes B = N·C planes and windows that start at i·s − p and are clipped to the input, which they may leave at either
end. `max_pool` keeps the flat position of each maximum: the first of equals, and the first NaN if there is one. Then
``y = gather(x, index)``, whose adjoint is `scatter_add`. A window with no cell in the input gives −inf and position
−1, which `gather` reads as 0 and `scatter_add` leaves out. `avg_pool` divides the sum of a window by its cells in the
input; with `include_pad`, by its cells in the input and the pad, p cells at both ends; with `total`, by 1.
"""

from __future__ import annotations

import numpy as np

from ..codegen.compile import inline, kernel

__all__ = [
    "avg_pool",
    "avg_pool_adjoint",
    "conv_data_grad",
    "conv_forward",
    "conv_weight_grad",
    "gather",
    "max_pool",
    "scatter_add",
    "workspace_size",
]

#: Elements in a block of columns: small enough for the second-level cache, large enough for BLAS.
_BLOCK = 1 << 17


def _plan(N, C, D, H, W, F, taps, outs, strides, dilates, groups):
    """How to cut the work: (samples a block, output rows a block, most outputs in a block, staged extents (TD, TH, TQ)).

    0 samples a block means that no columns are needed.
    """
    KD, KH, KW = taps
    OD, OH, OW = outs
    sd, sh, sw = strides
    K = C // groups * KD * KH * KW
    TD = (OD - 1) * sd + (KD - 1) * dilates[0] + 1
    TH = (OH - 1) * sh + (KH - 1) * dilates[1] + 1
    TQ = OW + (KW - 1) * dilates[2] // sw
    P = OD * OH * OW
    if KD * KH * KW * sd * sh * sw == 1 and P == D * H * W and P >= 32:
        return 0, OD * OH, P, (TD, TH, TQ)
    B = max(1, min(N, 256 // max(1, P), _BLOCK // max(1, K * P, C * TD * TH * sw * TQ)))
    rows = B * OD * OH if B > 1 else max(1, min(OD * OH, _BLOCK // max(1, K * OW)))
    return B, rows, rows * OW, (TD, TH, TQ)


_blocks = inline(_plan)


def workspace_size(N, C, D, H, W, F, KD, KH, KW, OD, OH, OW, sd, sh, sw, dd, dh, dw, pd, ph, pw, groups):
    """Elements that `work` must have for any of the three convolutions of these sizes."""
    taps, outs, strides = (KD, KH, KW), (OD, OH, OW), (sd, sh, sw)
    B, _, L, (TD, TH, TQ) = _plan(N, C, D, H, W, F, taps, outs, strides, (dd, dh, dw), groups)
    K, G = C // groups * KD * KH * KW, F // groups
    return G * K + (B * C * TD * TH * sw * TQ + K * L + G * L if B else 0)


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
def _fill(dst, n, value):
    for t in range(np.uintp(n)):
        dst[t] = value


@inline
def _reach(start, s, n, most):
    """(first, number) of the t < most with start + t·s in [0, n)."""
    first = max(0, (s - 1 - start) // s)
    return first, max(0, min(most, (n - start + s - 1) // s) - first)


@inline
def _stage(x, x0, work, planes, size, extents, sw, pads, back):
    """x, from x0 on -> work, or back."""
    D, H, W = size
    TD, TH, TQ = extents
    pd, ph, pw = pads
    for c in range(planes):
        for d in range(min(D, TD - pd)):
            for h in range(min(H, TH - ph)):
                for phase in range(sw):
                    first, n = _reach(phase - pw, sw, W, TQ)
                    i = np.uintp(x0 + ((c * D + d) * H + h) * W + first * sw + phase - pw)
                    j = np.uintp((((c * TD + d + pd) * TH + h + ph) * sw + phase) * TQ + first)
                    step = np.uintp(sw)
                    if back:
                        for t in range(np.uintp(n)):
                            x[i + t * step] = work[j + t]
                    else:
                        for t in range(np.uintp(n)):
                            work[j + t] = x[i + t * step]


@inline
def _columns(work, j, C, c0, c1, taps, outs, extents, strides, dilates, r0, r1, back):
    """Columns at j on, from the staged samples (or, `back`, added to them): output rows r0 to r1, channels c0 to c1."""
    KD, KH, KW = taps
    OD, OH, OW = outs
    TD, TH, TQ = extents
    sd, sh, sw = strides
    dd, dh, dw = dilates
    line = sw * TQ
    for c in range(c0, c1):
        for kd in range(KD):
            for kh in range(KH):
                for kw in range(KW):
                    tap = ((c * TD + kd * dd) * TH + kh * dh) * line + (kw * dw) % sw * TQ + (kw * dw) // sw
                    r = r0
                    while r < r1:
                        plane, oh = divmod(r, OH)
                        n, od = divmod(plane, OD)
                        i = tap + ((n * C * TD + od * sd) * TH + oh * sh) * line
                        for _ in range(min(OH - oh, r1 - r)):
                            if back:
                                _add(work, i, work, j, OW)
                            else:
                                _copy(work, j, work, i, OW)
                            i += sh * line
                            j += OW
                            r += 1


@inline
def _pack(y, y0, work, j, B, F, G, P, run, back):
    """(B, G, run) at y0 on, filters P and samples F·P apart -> (G, B, run) at j on, or back."""
    for f in range(G):
        for n in range(B):
            i = y0 + (n * F + f) * P
            if back:
                _copy(y, i, work, j, run)
            else:
                _copy(work, j, y, i, run)
            j += run


@inline(reorder=True)
def _rows_by_rows(y, i, cols, j, out, o, G, K, n):
    """out (G, K) = y (G, n) · cols (K, n)ᵀ, from i, j, o on.

    Four rows of each at a time: 16 sums for 8 loads, held in registers. At the ends, rows are taken twice.
    """
    for f in range(0, G, 4):
        y0, y1 = np.uintp(i + f * n), np.uintp(i + min(f + 1, G - 1) * n)
        y2, y3 = np.uintp(i + min(f + 2, G - 1) * n), np.uintp(i + min(f + 3, G - 1) * n)
        for k in range(0, K, 4):
            k1, k2, k3 = min(k + 1, K - 1), min(k + 2, K - 1), min(k + 3, K - 1)
            c0, c1, c2, c3 = np.uintp(j + k * n), np.uintp(j + k1 * n), np.uintp(j + k2 * n), np.uintp(j + k3 * n)
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = out.dtype.type(0)
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = out.dtype.type(0)
            for t in range(np.uintp(n)):
                a, b, c, d = y[y0 + t], y[y1 + t], y[y2 + t], y[y3 + t]
                v = cols[c0 + t]
                s00, s10, s20, s30 = s00 + a * v, s10 + b * v, s20 + c * v, s30 + d * v
                v = cols[c1 + t]
                s01, s11, s21, s31 = s01 + a * v, s11 + b * v, s21 + c * v, s31 + d * v
                v = cols[c2 + t]
                s02, s12, s22, s32 = s02 + a * v, s12 + b * v, s22 + c * v, s32 + d * v
                v = cols[c3 + t]
                s03, s13, s23, s33 = s03 + a * v, s13 + b * v, s23 + c * v, s33 + d * v
            sums = (s00, s01, s02, s03), (s10, s11, s12, s13), (s20, s21, s22, s23), (s30, s31, s32, s33)
            for r, (t0, t1, t2, t3) in enumerate(sums):
                row = o + min(f + r, G - 1) * K
                out[np.uintp(row + k)], out[np.uintp(row + k1)] = t0, t1
                out[np.uintp(row + k2)], out[np.uintp(row + k3)] = t2, t3


@kernel
def conv_forward(
    x, w, out, work, N, C, D, H, W, F, KD, KH, KW, OD, OH, OW, sd, sh, sw, dd, dh, dw, pd, ph, pw, groups
):
    """out (N, F, OD, OH, OW) of x (N, C, D, H, W) and w (F, C/groups, KD, KH, KW)."""
    taps, outs, strides, dilates = (KD, KH, KW), (OD, OH, OW), (sd, sh, sw), (dd, dh, dw)
    B, rows, L, extents = _blocks(N, C, D, H, W, F, taps, outs, strides, dilates, groups)
    A, G, S, P = C // groups, F // groups, D * H * W, OD * OH * OW
    K = A * KD * KH * KW
    staged = B * C * extents[0] * extents[1] * sw * extents[2]
    _fill(work, staged, 0)
    for n in range(0, N, max(1, B)):
        b = min(max(1, B), N - n)
        if B:
            _stage(x, n * C * S, work, b * C, (D, H, W), extents, sw, (pd, ph, pw), False)
        for r0 in range(0, b * OD * OH, rows):
            r1 = min(r0 + rows, b * OD * OH)
            m = (r1 - r0) * OW
            for g in range(groups):
                cols, c = x, (n * C + g * A) * S
                if B:
                    cols, c = work, staged
                    _columns(
                        work, c, C, g * A, g * A + A, taps, outs, extents, strides, dilates, r0, r1, False
                    )
                y, i = out, (n * F + g * G) * P
                if m != P:
                    y, i = work, staged + K * L
                a = w[g * G * K : (g + 1) * G * K].reshape((G, K))
                np.dot(a, cols[c : c + K * m].reshape((K, m)), y[i : i + G * m].reshape((G, m)))
                if m != P:
                    _pack(out, (n * F + g * G) * P + r0 * OW % P, work, i, b, F, G, P, m // b, True)


@kernel
def conv_data_grad(
    g, w, out, work, N, C, D, H, W, F, KD, KH, KW, OD, OH, OW, sd, sh, sw, dd, dh, dw, pd, ph, pw, groups
):
    """out (N, C, D, H, W) of g (N, F, OD, OH, OW) and w (F, C/groups, KD, KH, KW)."""
    taps, outs, strides, dilates = (KD, KH, KW), (OD, OH, OW), (sd, sh, sw), (dd, dh, dw)
    B, rows, L, extents = _blocks(N, C, D, H, W, F, taps, outs, strides, dilates, groups)
    A, G, S, P = C // groups, F // groups, D * H * W, OD * OH * OW
    K = A * KD * KH * KW
    staged = B * C * extents[0] * extents[1] * sw * extents[2]
    if D + pd > extents[0] or H + ph > extents[1] or W + pw > sw * extents[2]:
        _fill(out, N * C * S, 0)  # some cells are under no window
    for n in range(0, N, max(1, B)):
        b = min(max(1, B), N - n)
        _fill(work, staged, 0)
        for r0 in range(0, b * OD * OH, rows):
            r1 = min(r0 + rows, b * OD * OH)
            m = (r1 - r0) * OW
            for q in range(groups):
                cols, c = out, (n * C + q * A) * S
                if B:
                    cols, c = work, staged
                y, i = g, (n * F + q * G) * P
                if m != P:
                    y, i = work, staged + K * L
                    _pack(g, (n * F + q * G) * P + r0 * OW % P, work, i, b, F, G, P, m // b, False)
                a = w[q * G * K : (q + 1) * G * K].reshape((G, K))
                np.dot(a.T, y[i : i + G * m].reshape((G, m)), cols[c : c + K * m].reshape((K, m)))
                if B:
                    _columns(
                        work, c, C, q * A, q * A + A, taps, outs, extents, strides, dilates, r0, r1, True
                    )
        if B:
            _stage(out, n * C * S, work, b * C, (D, H, W), extents, sw, (pd, ph, pw), True)


@kernel
def conv_weight_grad(
    x, g, out, work, N, C, D, H, W, F, KD, KH, KW, OD, OH, OW, sd, sh, sw, dd, dh, dw, pd, ph, pw, groups
):
    """out (F, C/groups, KD, KH, KW) of x (N, C, D, H, W) and g (N, F, OD, OH, OW)."""
    taps, outs, strides, dilates = (KD, KH, KW), (OD, OH, OW), (sd, sh, sw), (dd, dh, dw)
    B, rows, L, extents = _blocks(N, C, D, H, W, F, taps, outs, strides, dilates, groups)
    A, G, S, P = C // groups, F // groups, D * H * W, OD * OH * OW
    K = A * KD * KH * KW
    staged = B * C * extents[0] * extents[1] * sw * extents[2]
    part = staged + (K + G) * L if B else 0
    _fill(out, F * K, 0)
    _fill(work, staged, 0)
    for n in range(0, N, max(1, B)):
        b = min(max(1, B), N - n)
        if B:
            _stage(x, n * C * S, work, b * C, (D, H, W), extents, sw, (pd, ph, pw), False)
        for r0 in range(0, b * OD * OH, rows):
            r1 = min(r0 + rows, b * OD * OH)
            m = (r1 - r0) * OW
            for q in range(groups):
                cols, c = x, (n * C + q * A) * S
                if B:
                    cols, c = work, staged
                    _columns(
                        work, c, C, q * A, q * A + A, taps, outs, extents, strides, dilates, r0, r1, False
                    )
                y, i = g, (n * F + q * G) * P
                if m != P:
                    y, i = work, staged + K * L
                    _pack(g, (n * F + q * G) * P + r0 * OW % P, work, i, b, F, G, P, m // b, False)
                _rows_by_rows(y, i, cols, c, work, part, G, K, m)
                _add(out, q * G * K, work, part, G * K)


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
def max_pool(x, out, index, B, D, H, W, KD, KH, KW, OD, OH, OW, sd, sh, sw, pd, ph, pw):
    """out (B, OD, OH, OW), the maxima of x (B, D, H, W), and in `index` (int64) their flat positions in x."""
    o = np.uintp(0)
    for b in range(B):
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
    _fill(out, out.size, 0)
    for i in range(np.uintp(n)):
        at = index[i]
        if at >= 0:
            out[np.uintp(at)] += g[i]


@kernel
def avg_pool(x, out, B, D, H, W, KD, KH, KW, OD, OH, OW, sd, sh, sw, pd, ph, pw, include_pad, total):
    """out (B, OD, OH, OW), the averages (`total`: sums) over windows of x (B, D, H, W)."""
    _fill(out, B * OD * OH * OW, 0)
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
    _fill(out, B * D * H * W, 0)
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
