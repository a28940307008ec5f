"""MXNet's codes for new shapes."""

from __future__ import annotations

from ..core.shapes import Shape, size
from ..errors import ShapeError

__all__ = ["resolve"]


def resolve(shape: Shape, codes: tuple[int, ...], reverse: bool = False) -> Shape:
    """The shape that `codes` make of `shape`.

    0 copies a length; -1 is what is left; -2 copies all remaining lengths; -3 multiplies two; -4 splits one
    into the two codes that follow (one of them may be -1). `reverse` matches from the right.

    Raises
    ------
    ShapeError
        For codes that do not fit.
    """
    if all(n > 0 for n in codes) or (codes == () and size(shape) == 1):
        if size(codes) != size(shape):
            raise ShapeError(f"Cannot reshape array of size {size(shape)} into shape {codes}")
        return codes
    if reverse:
        found = _match(shape[::-1], _reversed(codes))
        return _infer(shape, found[::-1], codes)
    return _infer(shape, _match(shape, codes), codes)


def _reversed(codes: tuple[int, ...]) -> tuple[int, ...]:
    """Codes from the right, with the two lengths after a -4 kept behind it."""
    out: list[int] = []
    k = 0
    while k < len(codes):
        if codes[k] == -4:
            out[:0] = [-4, *reversed(codes[k + 1 : k + 3])]
            k += 3
        else:
            out.insert(0, codes[k])
            k += 1
    return tuple(out)


def _match(shape: Shape, codes: tuple[int, ...]) -> list[int]:
    out: list[int] = []
    at = 0  # next length of `shape` not used yet
    k = 0

    def take() -> int:
        nonlocal at
        if at >= len(shape):
            raise ShapeError(f"reshape: codes {codes} ask for more axes than shape {shape} has")
        at += 1
        return shape[at - 1]

    while k < len(codes):
        code = codes[k]
        k += 1
        if code >= 1 or code == -1:
            out.append(code)
            at += 1
        elif code == 0:
            out.append(take())
        elif code == -2:
            out += shape[at:]
            at = len(shape)
        elif code == -3:
            out.append(take() * take())
        elif code == -4:
            n = take()
            if len(codes) < k + 2:
                raise ShapeError(f"reshape: code -4 needs two lengths after it, got {codes}")
            a, b = codes[k : k + 2]
            k += 2
            a, b = (n // b if a == -1 and b > 0 else a), (n // a if b == -1 and a > 0 else b)
            if a < 0 or b < 0 or a * b != n:
                raise ShapeError(f"reshape: cannot split length {n} into {codes[k - 2 : k]}")
            out += [a, b]
        else:
            raise ShapeError(f"reshape: unknown code {code} in {codes}")
    return out


def _infer(shape: Shape, found: list[int], codes: tuple[int, ...]) -> Shape:
    if found.count(-1) > 1:
        raise ShapeError(f"reshape: only one length can be -1, got {codes}")
    if -1 in found:
        known = size([n for n in found if n != -1])
        if known == 0 or size(shape) % known:
            raise ShapeError(f"Cannot reshape array of size {size(shape)} into shape {codes}")
        found[found.index(-1)] = size(shape) // known
    if size(found) != size(shape):
        raise ShapeError(f"Cannot reshape array of size {size(shape)} into shape {codes}")
    return tuple(found)
