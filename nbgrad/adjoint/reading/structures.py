"""Tuples as arguments: their items are arguments of their own in what is generated, and come back as they were. Texts
and None are no arguments there: they tell which branches are lowered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import AttrError

__all__ = ["Fixed", "Form", "Structure", "items_of", "put_together", "structure"]


@dataclass(frozen=True)
class Fixed:
    """A text or None."""

    value: str | None


#: Of an argument: its type and the forms of its items, if it is a tuple; what it is, if that is fixed.
Form = tuple | Fixed | None


def structure(args: tuple) -> Structure | None:
    """The structure of arguments, if any is a tuple, a text or None."""
    return Structure(tuple(map(_form, args))) if any(isinstance(a, tuple | str | None) for a in args) else None


@dataclass(frozen=True)
class Structure:
    """What takes arguments apart, and puts gradients together."""

    forms: tuple[Form, ...]

    def leaves(self, args: tuple) -> list[Any]:
        return [x for form, a in zip(self.forms, args, strict=True) for x in _leaves(form, a)]

    def argnums(self, args: tuple, chosen: int | tuple[int, ...] | None) -> tuple[int, ...]:
        """The places of the floats in the chosen arguments."""
        found: list[list[int]] = []
        at = 0
        for form, a in zip(self.forms, args, strict=True):
            leaves = _leaves(form, a)
            found.append([at + k for k, x in enumerate(leaves) if _is_float(x)])
            at += len(leaves)
        return tuple(k for n in self.chosen(args, chosen) for k in found[n])

    def chosen(self, args: tuple, argnums: int | tuple[int, ...] | None) -> list[int]:
        """Which arguments have gradients."""
        if argnums is None:
            return [
                k for k, (f, a) in enumerate(zip(self.forms, args, strict=True)) if any(map(_is_float, _leaves(f, a)))
            ]
        given = (argnums,) if isinstance(argnums, int) else argnums
        for k in given:
            if not -len(args) <= k < len(args):
                raise AttrError(f"adjoint: argnums={argnums} and {len(args)} arguments")
        return [k % len(args) for k in given]

    def gradients(self, args: tuple, argnums: int | tuple[int, ...] | None, flat: tuple) -> Any:
        """Gradients in the form of the arguments; None for what is no float."""
        rest = iter(flat)
        found = tuple(_rebuilt(self.forms[k], args[k], rest) for k in self.chosen(args, argnums))
        return found[0] if isinstance(argnums, int) else found

    def along(self, args: tuple, argnums: int | tuple[int, ...] | None, given: tuple) -> tuple:
        """Directions, one per argument that is differentiated, as those of the floats in them."""
        chosen = self.chosen(args, argnums)
        if len(given) != len(chosen):
            raise AttrError(f"adjoint: {len(chosen)} directions expected, one per argument, {len(given)} given")
        found = []
        for k, d in zip(chosen, given, strict=True):
            leaves = _leaves(self.forms[k], args[k])
            parts = [None] * len(leaves) if d is None else _leaves(self.forms[k], d)
            found += [part for part, x in zip(parts, leaves, strict=True) if _is_float(x)]
        return tuple(found)


def _form(a: Any) -> Form:
    if isinstance(a, str | None):
        return Fixed(a)
    if not isinstance(a, tuple):
        return None
    inner = tuple(map(_form, a))
    if any(isinstance(form, Fixed) for form in inner):
        raise AttrError(f"adjoint: a tuple of numbers and arrays is expected, got {a!r}; pass texts and None apart")
    return type(a), inner


def _leaves(form: Form, a: Any) -> list[Any]:
    if form is None:
        return [a]
    if isinstance(form, Fixed):
        return []
    if a is None:
        return [x for f in form[1] for x in _leaves(f, None)]
    if not isinstance(a, tuple) or len(a) != len(form[1]):
        raise AttrError(f"adjoint: a tuple of {len(form[1])} expected, like the argument or result, got {a!r}")
    return [x for f, part in zip(form[1], a, strict=True) for x in _leaves(f, part)]


def _rebuilt(form: Form, a: Any, flat: Iterator) -> Any:
    if form is None or isinstance(form, Fixed):
        return next(flat) if _is_float(a) else None
    return _of(form, [_rebuilt(f, part, flat) for f, part in zip(form[1], a, strict=True)])


def _of(form: tuple, items: list) -> Any:
    return form[0](*items) if hasattr(form[0], "_fields") else tuple(items)


def put_together(form: Form, flat: Iterator) -> Any:
    """What has this form, with the items in `flat`."""
    return _of(form, [put_together(f, flat) for f in form[1]]) if isinstance(form, tuple) else next(flat)


def items_of(forms: tuple[Form, ...], given: tuple) -> tuple:
    """The items of what is given in these forms, or one after the other already."""
    nested = any(forms) and len(given) == len(forms)
    if nested and all(isinstance(g, tuple | None) for f, g in zip(forms, given, strict=True) if f):
        return tuple(x for f, g in zip(forms, given, strict=True) for x in _leaves(f, g))
    return given


def _is_float(x: Any) -> bool:
    return isinstance(x, float | np.floating) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")
