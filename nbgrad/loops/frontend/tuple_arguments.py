"""Tuples as arguments: their items are arguments of their own in what is generated, and come back as they were. Texts
and None are no arguments there: they tell which branches are lowered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import AttrError, DTypeError

__all__ = ["Fixed", "Form", "Structure", "items_of", "nothing", "places", "put_together", "structure"]


@dataclass(frozen=True)
class Fixed:
    """A text or None."""

    value: str | None


#: Of an argument: its type and the forms of its items, if it is a tuple; what it is, if that is fixed.
Form = tuple | Fixed | None


def structure(name: str, names: Sequence[str], args: tuple) -> Structure | None:
    """The structure of the arguments of the function `name`, if any is a tuple, a text or None; `names` are those of
    its parameters."""
    if len(names) != len(args) or not any(isinstance(a, tuple | str | None) for a in args):
        return None
    return Structure(tuple(map(_form, args)), name, tuple(names))


def places(name: str, argnums: int | tuple[int, ...], names: Sequence[str]) -> list[int]:
    """The places of parameters that are meant."""
    found: list[int] = []
    for k in _several(argnums):
        if not -len(names) <= k < len(names):
            raise AttrError(f"{name}: argnums={argnums} and {len(names)} arguments ({', '.join(names)})")
        if k % len(names) in found:
            raise AttrError(f"{name}: argnums={argnums} has {names[k]} twice; give each argument once")
        found.append(k % len(names))
    return found


def nothing(direction: Any) -> bool:
    """Whether a tangent is none, as that of what is no float has to be."""
    return direction is None or (not isinstance(direction, tuple | list | str) and not np.any(direction))


@dataclass(frozen=True)
class Structure:
    """What takes arguments apart, and puts gradients together."""

    forms: tuple[Form, ...]
    name: str
    names: tuple[str, ...]

    def leaves(self, args: tuple) -> list[Any]:
        return [x for form, a in zip(self.forms, args, strict=True) for x in _leaves(form, a)]

    def argnums(self, args: tuple, argnums: int | tuple[int, ...] | None) -> tuple[int, ...]:
        """The places of the floats in the chosen arguments."""
        found: list[list[int]] = []
        at = 0
        for form, a in zip(self.forms, args, strict=True):
            leaves = _leaves(form, a)
            found.append([at + k for k, x in enumerate(leaves) if _is_float(x)])
            at += len(leaves)
        chosen = range(len(args)) if argnums is None else places(self.name, argnums, self.names)
        for n in chosen:
            if argnums is not None and not found[n]:
                raise DTypeError(
                    f"{self.name}: argnums={argnums} asks for the gradient by {self.names[n]}, which has no floats in "
                    f"this call ({args[n]!r}); pass floats or arrays of floats, or leave it out of argnums"
                )
        return tuple(k for n in chosen for k in found[n])

    def _chosen(self, argnums: int | tuple[int, ...] | None) -> list[int]:
        """Which arguments have gradients."""
        count = len(self.forms)
        return [*range(count)] if argnums is None else [k % count for k in _several(argnums)]

    def gradients(self, args: tuple, argnums: int | tuple[int, ...] | None, flat: tuple) -> Any:
        """Gradients in the form of the arguments; None for what is no float."""
        rest = iter(flat)
        found = tuple(_rebuilt(self.forms[k], args[k], rest) for k in self._chosen(argnums))
        return found[0] if isinstance(argnums, int) else found

    def along(self, args: tuple, argnums: int | tuple[int, ...] | None, given: tuple) -> tuple:
        """Directions, one per argument that is differentiated, as those of the floats in them."""
        chosen = self._chosen(argnums)
        if len(given) != len(chosen):
            names = ", ".join(self.names[k] for k in chosen)
            raise AttrError(
                f"{self.name}: {len(chosen)} directions expected ({names}), {len(given)} given; one per "
                f"{'parameter' if argnums is None else 'argnum'}, None for zeros and for what is no float"
            )
        found = []
        for k, d in zip(chosen, given, strict=True):
            leaves = _leaves(self.forms[k], args[k])
            parts = [None] * len(leaves) if nothing(d) and self.forms[k] else _leaves(self.forms[k], d)
            wrong = d if isinstance(self.forms[k], Fixed) and not nothing(d) else None
            for part, x in zip(parts, leaves, strict=True):
                if _is_float(x):
                    found.append(part)
                elif not nothing(part):
                    wrong = part
            if wrong is not None:
                raise DTypeError(
                    f"{self.name}: {self.names[k]} is or has what is no float, and {wrong!r} was given as its "
                    "direction; only floats have derivatives: give None or 0 there"
                )
        return tuple(found)


def _several(argnums: int | tuple[int, ...]) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else argnums


def _form(a: Any) -> Form:
    if isinstance(a, str | None):
        return Fixed(a)
    if not isinstance(a, tuple):
        return None
    inner = tuple(map(_form, a))
    if any(isinstance(form, Fixed) for form in inner):
        raise AttrError(f"adjoint: a tuple of numbers and arrays is expected, got {a!r}; pass strings and None apart")
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
