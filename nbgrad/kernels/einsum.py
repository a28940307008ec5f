"""Sums of products by index letters: ``einsum``, ``tensordot``, ``khatri_rao``.

The maths. ``"ij,jk->ik"`` names the axes of the operands and of the result; letters that are not in the result are
summed over. Any such expression is done two operands at a time: letters of one operand alone that nobody needs any
more are summed first; then, with the letters in four groups, batch b (in both, needed), k (in both, summed),
left m and right n (in one)::

    out[b, m, n] = Σ_k A[b, m, k] B[b, k, n]

is a stack of matrix products, and without k a broadcast product. A letter repeated in one operand is a diagonal: the
two axes seen as one, read with the step n + 1. All of it is transposes, views, sums and products, so every derivative
is made of the same operators.

In which order pairs are taken can change the cost by orders of magnitude; NumPy's ``einsum_path`` chooses, and its
answer is kept per expression and shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce

import numpy as np

from ..arrays.ndarray import NDArray
from ..core.dtypes import int64
from ..core.shapes import distinct_axes, size
from ..errors import AttrError, ShapeError
from ..operators.cast import cast, unify
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import composite
from .binary import multiply
from .linear import matmul
from .reduce import sum_
from .shape import reshape, transpose
from .slices import slice_

__all__ = ["einsum", "khatri_rao", "tensordot"]

Labels = tuple[str, ...]  # a letter per axis; the axes of "..." are called "...0" (the last), "...1", and so on


def _letters(text: str, subscripts: str) -> list[str]:
    """The letters of one operand, with "..." as one of them."""
    if text.count("...") > 1 or "." in text.replace("...", "", 1):
        raise AttrError(f"einsum: one '...' per operand, and no other dots, in {subscripts!r}")
    before, dots, after = text.partition("...")
    found = [*before, *([dots] if dots else []), *after]
    for letter in found:
        if letter != "..." and not (letter.isascii() and letter.isalpha()):
            raise AttrError(f"einsum: {letter!r} is no letter, in {subscripts!r}")
    return found


def _expand(letters: Sequence[str], dots: int) -> Labels:
    out: list[str] = []
    for letter in letters:
        out += [f"...{k}" for k in reversed(range(dots))] if letter == "..." else [letter]
    return tuple(out)


@lru_cache(maxsize=512)
def _parse(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[Labels, ...], Labels, dict[str, int]]:
    """Labels of the operands and of the result, and the length of each label; checked."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise AttrError(f"einsum: {subscripts!r} has {len(terms)} operand(s), but {len(shapes)} array(s) are given")
    operands: list[Labels] = []
    most = 0
    for k, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        letters = _letters(term, subscripts)
        dots = len(shape) - len(letters) + 1 if "..." in letters else 0
        if dots < 0 or ("..." not in letters and len(letters) != len(shape)):
            raise ShapeError(f"einsum: operand {k} has shape {shape}, which does not fit {term!r} in {subscripts!r}")
        most = max(most, dots)
        operands.append(_expand(letters, dots))
    every = [label for labels in operands for label in labels]
    if arrow:
        result = _expand(_letters(right, subscripts), most)
        if len(set(result)) < len(result):
            raise AttrError(f"einsum: a letter is repeated in the result of {subscripts!r}")
        missing = [label for label in result if label not in every]
        if missing:
            raise AttrError(f"einsum: {missing[0]!r} is in the result of {subscripts!r} but in no operand")
    else:
        once = sorted(label for label in set(every) if every.count(label) == 1 and not label.startswith("..."))
        result = _expand(["...", *once], most)
    lengths: dict[str, int] = {}
    for k, (labels, shape) in enumerate(zip(operands, shapes, strict=True)):
        for label, n in zip(labels, shape, strict=True):
            known = lengths.setdefault(label, n)
            if known == 1:
                lengths[label] = n
            elif n not in (1, known):
                raise ShapeError(
                    f"einsum: {label[:3]!r} in {subscripts!r} has length {known} in one operand and {n} in operand {k} "
                    f"of shape {shape}"
                )
    return tuple(operands), result, lengths


@lru_cache(maxsize=512)
def _path(terms: tuple[Labels, ...], result: Labels, lengths: tuple[tuple[str, int], ...], optimize) -> list[tuple]:
    """Which operands to contract at each step, by place; results go to the end."""
    if len(terms) < 3 or optimize is False:
        return [tuple(range(len(terms)))]
    numbers = {label: k for k, (label, _) in enumerate(lengths)}
    sizes = dict(lengths)
    arguments: list = []
    for labels in terms:
        arguments.append(np.broadcast_to(np.float32(0), [sizes[label] for label in labels]))
        arguments.append([numbers[label] for label in labels])
    found, _ = np.einsum_path(*arguments, [numbers[label] for label in result], optimize=optimize)
    return found[1:]


class _Term:
    """An array and the labels of its axes."""

    __slots__ = ("array", "labels")

    def __init__(self, array: NDArray, labels: Labels) -> None:
        self.array = array
        self.labels = labels

    def ordered(self, labels: Sequence[str]) -> NDArray:
        """The array with its axes in this order."""
        if tuple(labels) == self.labels:
            return self.array
        return transpose(self.array, axes=tuple(map(self.labels.index, labels)))

    def without(self, labels: Sequence[str]) -> _Term:
        """Summed over these."""
        if not labels:
            return self
        axes = tuple(map(self.labels.index, labels))
        array = _summed(self.array, axes)
        return _Term(array, tuple(label for label in self.labels if label not in labels))


def _summed(x: NDArray, axes: tuple[int, ...]) -> NDArray:
    rest = tuple(n for k, n in enumerate(x.shape) if k not in axes)
    return reshape(sum_(x, axis=axes), rest)  # a full sum may have the shape (1,)


def _diagonal(term: _Term, subscripts: str) -> _Term:
    """Every letter once."""
    for label in dict.fromkeys(term.labels):
        while term.labels.count(label) > 1:
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            x = term.array
            n, m = x.shape[first], x.shape[second]
            if n != m:
                raise ShapeError(f"einsum: a diagonal {label!r} of lengths {n} and {m} in {subscripts!r}")
            rest = [k for k in range(x.ndim) if k not in (first, second)]
            x = transpose(x, axes=(*rest, first, second))
            x = reshape(x, (*x.shape[:-2], n * n))
            step = (*(1 for _ in rest), n + 1)
            x = slice_(x, begin=(0,) * x.ndim, step=step, shape=(*x.shape[:-1], n))
            term = _Term(x, (*(term.labels[k] for k in rest), label))
    return term


def _narrowed(term: _Term, lengths: dict[str, int]) -> _Term:
    """Without axes of length 1 that broadcast: another operand has the letter at its full length."""
    kept = [k for k, label in enumerate(term.labels) if term.array.shape[k] == lengths[label]]
    if len(kept) == len(term.labels):
        return term
    array = reshape(term.array, tuple(term.array.shape[k] for k in kept))
    return _Term(array, tuple(term.labels[k] for k in kept))


def _pair(a: _Term, b: _Term, needed: set[str]) -> _Term:
    """The product of two terms, summed over what is not needed any more."""
    a = a.without([label for label in a.labels if label not in b.labels and label not in needed])
    b = b.without([label for label in b.labels if label not in a.labels and label not in needed])
    both = [label for label in a.labels if label in b.labels]
    batch = [label for label in both if label in needed]
    inner = [label for label in both if label not in needed]
    left = [label for label in a.labels if label not in both]
    right = [label for label in b.labels if label not in both]
    lengths = dict(zip((*a.labels, *b.labels), (*a.array.shape, *b.array.shape), strict=True))

    def shape(labels: Sequence[str]) -> tuple[int, ...]:
        return tuple(lengths[label] for label in labels)

    labels = (*batch, *left, *right)
    if not inner or not (left or right):
        x = a.ordered([*batch, *left, *inner])
        y = b.ordered([*batch, *right, *inner])
        x = reshape(x, shape([*batch, *left]) + (1,) * len(right) + shape(inner)) if right else x
        y = reshape(y, shape(batch) + (1,) * len(left) + shape([*right, *inner])) if left else y
        product = multiply(x, y)
        if inner:
            product = _summed(product, tuple(range(len(labels), product.ndim)))
        return _Term(product, labels)
    n, m, k, count = size(shape(right)), size(shape(left)), size(shape(inner)), size(shape(batch))
    # An operand stored with the inner axes first is multiplied as it is.
    turned_a = a.labels == (*batch, *inner, *left)
    turned_b = b.labels == (*batch, *right, *inner)
    x = a.array if turned_a else a.ordered([*batch, *left, *inner])
    y = b.array if turned_b else b.ordered([*batch, *inner, *right])
    x = reshape(x, (count, k, m) if turned_a else (count, m, k))
    y = reshape(y, (count, n, k) if turned_b else (count, k, n))
    return _Term(reshape(matmul(x, y, transpose_a=turned_a, transpose_b=turned_b), shape(labels)), labels)


def _numbers_of(arrays: Sequence, op: str) -> list[NDArray]:
    """Arrays of one dtype; bools become int64."""
    found = unify([as_array(x, op, f"{k}") for k, x in enumerate(arrays)], op)
    return [cast(x, x._kind.of(int64)) if x._kind.dtype.name == "bool" else x for x in found]


def _one_dimension(x: NDArray) -> NDArray:
    return x if x.shape else reshape(x, x._kind.conventions.scalar)


def _rows(*rows: tuple) -> list[list]:
    return [[*shapes, {"subscripts": text}] for text, *shapes in rows]


@composite("einsum", method=False, samples=sample_table(
    lambda *operands, subscripts: np.atleast_1d(np.einsum(subscripts, *operands)),
    *_rows(
        ("ij,jk->ik", (2, 3), (3, 2)), ("ij->ji", (2, 3)), ("ii", (3, 3)), ("ii->i", (3, 3)), ("ij->", (2, 2)),
        ("bij,bjk->bik", (2, 2, 2), (2, 2, 1)), ("ji,kj", (3, 2), (2, 3)), ("i,j->ij", (2,), (3,)),
        ("...ij,...j->...i", (2, 2, 3), (3,)), ("i...,i...", (2, 3), (2, 1)), ("ij,ij->i", (2, 3), (2, 3)),
        ("iij,jkk->ik", (2, 2, 2), (2, 2, 2)), ("ij,jk,kl->il", (2, 2), (2, 3), (3, 1)),
        ("i,i,ij->j", (3,), (3,), (3, 2)),
        ("a,b", (2,), (2,)), (",i->i", (), (2,)), ("ij,jk", (0, 2), (2, 0)), ("iji->j", (2, 3, 2)),
    ), ulp=4,
))  # fmt: skip
def einsum(*operands, subscripts=None, optimize=True):
    """Sums of products, the axes named by letters.

    Called as ``einsum(subscripts, *operands)``.

    Parameters
    ----------
    *operands : NDArray
    subscripts : str
        Before the operands, or by name. A term per operand, separated by commas, one letter per axis; then, after
        ``->``, the result's letters. Letters that are not in the result are summed over; a letter that is repeated in
        one term takes the diagonal. ``...`` stands for any number of axes, which broadcast. Without ``->`` the result
        has ``...`` and then, in alphabetical order, the letters that occur once.
    optimize : bool or str or list
        How to choose the order of three or more operands: False, from left to right; True, ``'greedy'``, ``'optimal'``
        or a path, as ``numpy.einsum_path`` takes it.

    Returns
    -------
    NDArray
        Shape (1,) instead of () where all is summed. Dtype: the operands', promoted.

    Raises
    ------
    AttrError
        If `subscripts` cannot be read, or has another number of terms than there are operands.
    ShapeError
        If an operand does not fit its term, or a letter has two lengths.

    Notes
    -----
    Gradient with respect to an operand: the einsum of g and the other operands.

    Two operands at a time, as matrix products wherever possible; differentiable to any order with respect to all
    operands.

    Examples
    --------
    >>> from nbgrad import nd
    >>> a = nd.array([[1, 2], [3, 4]])
    >>> nd.einsum("ii", a).tolist(), nd.einsum("ij->ji", a).tolist(), nd.einsum("ij,j->i", a, nd.ones(2)).tolist()
    ([5.0], [[1.0, 3.0], [2.0, 4.0]], [3.0, 7.0])
    """
    if subscripts is None and operands:
        subscripts, operands = operands[0], operands[1:]
    if not isinstance(subscripts, str):
        raise AttrError(f"einsum: subscripts must be text such as 'ij,jk->ik', got {subscripts!r}")
    if not operands:
        raise AttrError(f"einsum: no operands for {subscripts!r}")
    arrays = _numbers_of(operands, "einsum")
    labels, result, lengths = _parse(subscripts, tuple([x.shape for x in arrays]))
    terms = [_Term(x, names) for x, names in zip(arrays, labels, strict=True)]
    terms = [_narrowed(_diagonal(term, subscripts), lengths) for term in terms]
    chosen = list(map(tuple, optimize[1:])) if isinstance(optimize, list) else optimize
    known = tuple(lengths.items())
    try:
        path = chosen if isinstance(chosen, list) else _path(tuple([t.labels for t in terms]), result, known, chosen)
    except (TypeError, KeyError, ValueError):
        raise AttrError(f"einsum: optimize must be a bool, 'greedy', 'optimal' or a path, got {optimize!r}") from None
    for places in path:
        if any(k >= len(terms) for k in places):
            raise AttrError(f"einsum: the path {optimize!r} does not fit {len(arrays)} operands")
        group = [terms[k] for k in sorted(places)]
        terms = [term for k, term in enumerate(terms) if k not in places]
        for k in range(1, len(group)):
            rest = {label for term in (*terms, *group[k + 1 :]) for label in term.labels} | set(result)
            group[k] = _pair(group[k - 1], group[k], rest)
        terms.append(group[-1])
    if len(terms) > 1:
        raise AttrError(f"einsum: the path {optimize!r} leaves {len(terms)} operands")
    last = terms[0].without([label for label in terms[0].labels if label not in result])
    out = last.ordered(result)
    return _one_dimension(out if out is not arrays[0] else reshape(out, out.shape))


def _axes_of(axes, a: NDArray, b: NDArray) -> tuple[list[int], list[int]]:
    if isinstance(axes, int | np.integer) and not isinstance(axes, bool):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise AttrError(f"tensordot: axes must be from 0 to {min(a.ndim, b.ndim)} for these operands, got {axes}")
        return list(range(a.ndim - axes, a.ndim)), list(range(axes))
    try:
        first, second = axes
    except (TypeError, ValueError):
        raise AttrError(f"tensordot: axes must be a number or two sequences of axes, got {axes!r}") from None
    found = []
    for given, x in ((first, a), (second, b)):
        found.append(distinct_axes(given, x.ndim, "tensordot"))
    if len(found[0]) != len(found[1]):
        raise AttrError(f"tensordot: {len(found[0])} axes of a and {len(found[1])} of b; they go in pairs")
    return found[0], found[1]


@composite("tensordot", method=False, samples=sample_table(
    lambda a, b, axes=2: np.atleast_1d(np.tensordot(a, b, axes)),
    [(2, 3, 2), (3, 2, 2)], [(2, 3), (3, 2), {"axes": 1}], [(2,), (3,), {"axes": 0}], [(2, 3), (2, 3)],
    [(2, 3, 1), (3, 1, 2), {"axes": ((1, 0), (0, 2))}], [(2, 3), (2, 3), {"axes": (1, -1)}],
    [(2, 0), (0, 2), {"axes": 1}], ulp=4,
))  # fmt: skip
def tensordot(a, b, axes=2):
    """Product of two arrays summed over pairs of axes.

    Parameters
    ----------
    a, b : NDArray
    axes : int or pair
        The last so many axes of `a` with the first of `b`; or the axes of `a` (an int or a sequence) and those of `b`.

    Returns
    -------
    NDArray
        The other axes of `a`, then those of `b`; shape (1,) if there are none.

    Raises
    ------
    AttrError, IndexError
        If there are no such axes.
    ShapeError
        If their lengths differ.

    Notes
    -----
    Gradient: products of g with the other operand over its other axes.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.tensordot(nd.ones((2, 3)), nd.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    a, b = _numbers_of([a, b], "tensordot")
    first, second = _axes_of(axes, a, b)
    lengths = [a.shape[k] for k in first]
    if lengths != [b.shape[k] for k in second]:
        raise ShapeError(
            f"tensordot: axes {first} of a {a.shape} and axes {second} of b {b.shape} have different lengths"
        )
    rest_a = [k for k in range(a.ndim) if k not in first]
    rest_b = [k for k in range(b.ndim) if k not in second]
    left, right = tuple(a.shape[k] for k in rest_a), tuple(b.shape[k] for k in rest_b)
    x = reshape(transpose(a, axes=(*rest_a, *first)), (1, size(left), size(lengths)))
    y = reshape(transpose(b, axes=(*second, *rest_b)), (1, size(lengths), size(right)))
    return _one_dimension(reshape(matmul(x, y), left + right))


def _columns(*matrices: np.ndarray) -> np.ndarray:
    return reduce(lambda a, b: (a[:, None] * b[None]).reshape(len(a) * len(b), a.shape[1]), matrices)


@composite("khatri_rao", method=False, samples=sample_table(
    _columns, [(2, 3), (2, 3)], [(2, 2), (3, 2), (1, 2)], [(3, 2)], [(2, 0), (3, 0)], ulp=2
), gradient="the einsum of g and the other matrices")  # fmt: skip
def khatri_rao(*args):
    """Column by column, the Kronecker product of matrices with equally many columns.

    Parameters
    ----------
    *args : NDArray
        Shapes (n_1, k), (n_2, k), ...

    Returns
    -------
    NDArray
        Shape (n_1*n_2*..., k); row ``i*n_2 + j`` is the product of row i of the first and row j of the second.

    Raises
    ------
    ShapeError
        If they are not matrices, or their columns differ.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.khatri_rao(nd.array([[1, 2], [3, 4]]), nd.array([[5, 6]])).tolist()
    [[5.0, 12.0], [15.0, 24.0]]
    """
    if not args:
        raise AttrError("khatri_rao: at least one matrix is needed")
    matrices = _numbers_of(args, "khatri_rao")
    if any(x.ndim != 2 or x.shape[1] != matrices[0].shape[-1] for x in matrices):
        shapes = ", ".join(str(x.shape) for x in matrices)
        raise ShapeError(f"khatri_rao: matrices with equally many columns are needed, got shapes {shapes}")
    out = reshape(matrices[0], matrices[0].shape)
    for x in matrices[1:]:
        rows, k = out.shape
        out = reshape(multiply(reshape(out, (rows, 1, k)), reshape(x, (1, *x.shape))), (rows * x.shape[0], k))
    return out
