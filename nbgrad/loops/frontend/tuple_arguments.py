"""Arguments that are tuples, lists and dictionaries: flatten them for generated functions, nest gradients like them.

Each item is an argument of the generated function. Strings, None and functions are not passed to it: they
decide which branches are lowered, and which functions are called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...core.source_text import constant_source
from ...errors import AttrError, DTypeError
from .instance_types import InstanceType, as_direction, is_instance, number_parameters, type_of_instance
from .number_types import is_number_type
from .record_types import RecordType, is_record_argument, record_type

__all__ = [
    "Form",
    "Keys",
    "StaticArgument",
    "Structure",
    "argnum_indices",
    "fields_of",
    "flatten_by_forms",
    "has_bools",
    "is_container",
    "is_static",
    "is_zero_tangent",
    "items_of",
    "structure",
    "unflatten",
]


@dataclass(frozen=True)
class StaticArgument:
    """An argument that is a constant of the generated function: a string, None, a function, or a bool or integer that
    decides what is generated."""

    value: str | bool | int | Callable | None
    type: type = field(init=False)  # True and 1 are equal

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", type(self.value))


#: Each number in a list is an argument of the generated function: of more than these an array is asked for.
_MANY = 64


class Keys(tuple[str, ...]):
    """The keys of a dictionary, in its order, in place of its type."""


#: The form of an argument: of a tuple, list or structured array, its type and the forms of its items; of a dictionary,
#: its keys and these; of a static one, its value; else None.
Form = tuple | StaticArgument | None


def is_static(a: Any, bools: bool = False) -> bool:
    """Whether an argument is a string, None, a function, a type of numbers, or a bool where `bools` are static."""
    if is_instance(a):
        return False
    function = callable(a) and not isinstance(a, type)
    return isinstance(a, str | None) or function or is_number_type(a) or (bools and isinstance(a, bool))


def is_container(a: Any) -> bool:
    """Whether an argument is a tuple, list or dictionary, whose items are arguments of the generated function."""
    return isinstance(a, tuple | list | dict)


def items_of(a: tuple | list | dict) -> list:
    """The items of a container, in its order."""
    return list(a.values()) if isinstance(a, dict) else list(a)


def has_bools(args: Iterable) -> bool:
    """Whether there is a bool among the arguments, in tuples and the like too."""
    return any(isinstance(a, bool) or (is_container(a) and has_bools(items_of(a))) for a in args)


def structure(
    name: str, names: Sequence[str], args: tuple, bools: bool = False, integers: Collection[str] = ()
) -> Structure | None:
    """The structure of the arguments of the function `name` with parameters `names`; None if no argument is a
    container or static. `bools`: bools are static, and so are the `integers`."""
    nested = any(is_container(a) or is_static(a, bools) or is_record_argument(a) or is_instance(a) for a in args)
    if len(names) != len(args) or not (nested or integers):
        return None
    pairs = zip(names, args, strict=True)
    return Structure(
        tuple([StaticArgument(a) if n in integers else _form(a, bools) for n, a in pairs]), name, tuple(names)
    )


def argnum_indices(name: str, argnums: int | tuple[int, ...], names: Sequence[str]) -> list[int]:
    """The indices of the parameters in `argnums`, checked and non-negative."""
    indices: list[int] = []
    for k in _several(argnums):
        if not -len(names) <= k < len(names):
            raise AttrError(f"{name}: argnums={argnums} and {len(names)} arguments ({', '.join(names)})")
        if k % len(names) in indices:
            raise AttrError(f"{name}: argnums={argnums} has {names[k]} twice; give each argument once")
        indices.append(k % len(names))
    return indices


def is_zero_tangent(direction: Any) -> bool:
    """Whether a tangent is None or zero, as it must be for what is not a float."""
    return direction is None or (not (is_container(direction) or isinstance(direction, str)) and not np.any(direction))


@dataclass(frozen=True)
class Structure:
    """The forms of the arguments of a call: flattens arguments and directions, and nests gradients."""

    forms: tuple[Form, ...]
    name: str
    names: tuple[str, ...]

    def leaves(self, args: tuple) -> list[Any]:
        """The arguments of the generated function."""
        return [x for form, a in zip(self.forms, args, strict=True) for x in _leaves(form, a)]

    def argnums(self, args: tuple, argnums: int | tuple[int, ...] | None) -> tuple[int, ...]:
        """The indices, among the leaves, of the floats in the arguments `argnums`."""
        floats: list[list[int]] = []
        start = 0
        for form, a in zip(self.forms, args, strict=True):
            leaves = _floats(form, a)
            floats.append([start + k for k, is_float in enumerate(leaves) if is_float])
            start += len(leaves)
        selected = range(len(args)) if argnums is None else argnum_indices(self.name, argnums, self.names)
        for n in selected:
            if argnums is not None and not floats[n]:
                raise DTypeError(
                    f"{self.name}: argnums={argnums} asks for the gradient by {self.names[n]}, which has no floats in "
                    f"this call ({args[n]!r}); pass floats or arrays of floats, or leave it out of argnums"
                )
        return tuple(k for n in selected for k in floats[n])

    def _chosen(self, argnums: int | tuple[int, ...] | None) -> list[int]:
        """The indices of the arguments that are differentiated."""
        count = len(self.forms)
        return [*range(count)] if argnums is None else [k % count for k in _several(argnums)]

    def gradients(self, args: tuple, argnums: int | tuple[int, ...] | None, flat: tuple) -> Any:
        """Gradients in the form of the arguments; None for what is not a float."""
        values = iter(flat)
        nested = tuple(_nest_floats(self.forms[k], args[k], values) for k in self._chosen(argnums))
        return nested[0] if isinstance(argnums, int) else nested

    def flatten_directions(self, args: tuple, argnums: int | tuple[int, ...] | None, directions: tuple) -> tuple:
        """Directions of the floats, from one direction per argument that is differentiated."""
        selected = self._chosen(argnums)
        if len(directions) != len(selected):
            names = ", ".join(self.names[k] for k in selected)
            raise AttrError(
                f"{self.name}: {len(selected)} directions expected ({names}), {len(directions)} given; one per "
                f"{'parameter' if argnums is None else 'argnum'}, None for zeros and for what is not a float"
            )
        tangents = []
        for k, d in zip(selected, directions, strict=True):
            form = self.forms[k]
            if isinstance(form, tuple) and isinstance(form[0], InstanceType):
                d = as_direction(form[0], d)
            leaves = _floats(form, args[k])
            zero = not is_record_argument(d) and is_zero_tangent(d)
            parts = [None] * len(leaves) if zero and self.forms[k] else _leaves(self.forms[k], d)
            static = isinstance(self.forms[k], StaticArgument)
            wrong = d if static and (is_record_argument(d) or not is_zero_tangent(d)) else None
            for part, is_float in zip(parts, leaves, strict=True):
                if is_float:
                    tangents.append(part)
                elif not is_zero_tangent(part):
                    wrong = part
            if wrong is not None:
                raise DTypeError(
                    f"{self.name}: {self.names[k]} is or contains something that is not a float, and {wrong!r} was "
                    "given as its direction; only floats have derivatives: pass None or 0 there"
                )
        return tuple(tangents)

    @cached_property
    def holds_numbers(self) -> bool:
        """Whether all arguments are numbers, arrays of them, and tuples of these, or constants."""
        return all(isinstance(form, StaticArgument) or _holds_numbers(form) for form in self.forms)

    @cached_property
    def constants(self) -> tuple[int, ...]:
        """The indices of the arguments that are constants."""
        return tuple([k for k, form in enumerate(self.forms) if isinstance(form, StaticArgument)])

    def written_leaves(self, names: Sequence[str]) -> list[str]:
        """The code of the leaves, where the arguments, which hold numbers, have these names."""
        return [x for form, name in zip(self.forms, names, strict=True) for x in _written_leaves(form, name)]

    def written_gradients(
        self, args: tuple, argnums: int | tuple[int, ...] | None, flat: Sequence[str]
    ) -> tuple[str, dict[str, type]]:
        """The code of :meth:`gradients` for arguments of the types of these, and the named tuples in it."""
        values, classes = iter(flat), dict[str, type]()
        nested = [_written_floats(self.forms[k], args[k], values, classes) for k in self._chosen(argnums)]
        return (nested[0] if isinstance(argnums, int) else f"({''.join(f'{x}, ' for x in nested)})"), classes

    @cached_property
    def has_records(self) -> bool:
        """Whether there are structured arrays among the arguments."""
        return any(map(_has_records, self.forms))

    def check_sharing(self, args: tuple, f: Any) -> None:
        """Refuse memory that the function `f` modifies and cannot, or has in another argument, too; but for arrays of
        numbers, which are looked at where they are passed on."""
        flat = iter(f.parameters)
        parts = [
            (name, part, not mine.isdisjoint(f.modified_parameters))
            for form, a, name in zip(self.forms, args, self.names, strict=True)
            for part, mine in _memory(form, a, flat)
        ]
        for k, (name, part, written) in enumerate(parts):
            if written and part.dtype.names and not part.flags.writeable:
                raise AttrError(f"{self.name}: {name} is read-only, and is written; pass {name}.copy()")
            for other, shared, _ in (*parts[:k], *parts[k + 1 :]) if written else ():
                if shared is part and part.dtype.names:
                    what = "array" if isinstance(part, np.ndarray) else "record"
                    raise AttrError(f"{self.name}: the {what} {name} is passed twice, and is written; pass a copy")
                if (part.dtype.names or shared.dtype.names) and np.may_share_memory(part, shared):
                    raise AttrError(
                        f"{self.name}: {name} shares memory with another argument, {other}, and is written; pass a copy"
                    )
        self._check_instances(args, f)

    def _check_instances(self, args: tuple, f: Any) -> None:
        """Refuse an instance that is passed twice if the function `f` sets a number of it."""
        flat, seen = iter(f.parameters), dict[int, set[str]]()
        for form, a, name in zip(self.forms, args, self.names, strict=True):
            for address, numbers in number_parameters(form, a, flat):
                if address in seen and not (numbers | seen[address]).isdisjoint(f.modified_parameters):
                    raise AttrError(
                        f"{self.name}: the instance in {name} is passed twice, and its fields are set; pass another one"
                    )
                seen[address] = seen.get(address, set()) | numbers

    def write_back(self, args: tuple, flat: Sequence, f: Any) -> None:
        """Copy the fields that the function `f` modified back into the arguments."""
        values = iter(zip(f.parameters, flat, strict=True))
        for form, a in zip(self.forms, args, strict=True):
            _write_back(form, a, values, set(f.modified_parameters))


def _memory(form: Form, a: Any, flat: Iterator[str]) -> Iterator[tuple[np.ndarray | np.void, set[str]]]:
    """The arrays and records of an argument in this form, each with the parameters that are made of it."""
    if isinstance(form, tuple) and not isinstance(form[0], RecordType):
        for inner, part in zip(form[1], items_of(a), strict=True):
            yield from _memory(inner, part, flat)
        return
    mine = [next(flat) for _ in _floats(form, a)]
    if isinstance(a, np.ndarray | np.void):
        yield a, set(mine)
    elif isinstance(form, tuple):  # the arrays of an instance
        yield from ((x, {n}) for x, n in zip(_leaves(form, a), mine, strict=True) if isinstance(x, np.ndarray))


def _has_records(form: Form) -> bool:
    return isinstance(form, tuple) and (isinstance(form[0], RecordType) or any(map(_has_records, form[1])))


def _several(argnums: int | tuple[int, ...]) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else argnums


def _form(a: Any, bools: bool) -> Form:
    """The form of an argument."""
    if is_static(a, bools):
        return StaticArgument(a)
    if is_record_argument(a) or is_instance(a):
        return _record_form(type_of_instance(a) if is_instance(a) else record_type(a))
    if not is_container(a):
        return None
    if isinstance(a, dict) and (wrong := next((k for k in a if not isinstance(k, str)), None)) is not None:
        raise DTypeError(f"adjoint: a dictionary with the key {wrong!r} was given; its keys must be strings")
    if isinstance(a, list) and len(a) > _MANY and all(isinstance(x, int | float) for x in a):
        raise DTypeError(f"adjoint: a list of {len(a)} numbers was given; pass np.array(...) of so many")
    kind = Keys(a) if isinstance(a, dict) else list if isinstance(a, list) else type(a)
    return kind, tuple([_form(part, bools) for part in items_of(a)])


def _record_form(record: RecordType) -> Form:
    inner = map(record.inner, record._fields)
    return record, tuple([None if t is None else _record_form(t) for t in inner])


def _floats(form: Form, a: Any) -> list[bool]:
    """Which leaves of an argument are floats."""
    if isinstance(form, tuple) and isinstance(record := form[0], RecordType):
        parts = zip(record._fields, form[1], strict=True)
        return [x for n, f in parts for x in ([record.is_float(n)] if f is None else _floats(f, None))]
    if isinstance(form, tuple):
        return [x for f, part in zip(form[1], items_of(a), strict=True) for x in _floats(f, part)]
    return [_is_float(x) for x in _leaves(form, a)]


def _write_back(form: Form, a: Any, values: Iterator, modified: set[str]) -> None:
    """Copy the leaves of the argument `a` back that are `modified`."""
    if form is None:
        next(values)
    elif isinstance(form, tuple) and isinstance(record := form[0], RecordType):
        for name, inner in zip(record._fields, form[1], strict=True):
            if inner is None:
                parameter, value = next(values)
                if parameter in modified and value.flags.writeable:
                    record.put(a, name, value)
            else:
                _write_back(inner, record.part(a, name), values, modified)
    elif isinstance(form, tuple):
        for inner, part in zip(form[1], items_of(a), strict=True):
            _write_back(inner, part, values, modified)


def _leaves(form: Form, a: Any) -> list[Any]:
    """The items of a value in this form, flattened; None is read as a tuple of None."""
    if form is None:
        return [a]
    if isinstance(form, StaticArgument):
        return []
    if a is None:
        return [x for f in form[1] for x in _leaves(f, None)]
    if isinstance(record := form[0], RecordType):
        parts = zip(record._fields, form[1], strict=True)
        return [x for n, f in parts for x in _leaves(f, record.field(a, n))]
    if isinstance(keys := form[0], Keys):
        if not isinstance(a, dict) or set(a) != set(keys):
            raise AttrError(
                f"adjoint: a dictionary with the keys {', '.join(keys)} expected, like the argument, got {a!r}"
            )
        return [x for k, f in zip(keys, form[1], strict=True) for x in _leaves(f, a[k])]
    if not isinstance(a, tuple | list) or len(a) != len(form[1]):
        kind = "list" if keys is list else "tuple"
        raise AttrError(f"adjoint: a {kind} of {len(form[1])} expected, like the argument or result, got {a!r}")
    return [x for f, part in zip(form[1], a, strict=True) for x in _leaves(f, part)]


def _nest_floats(form: Form, a: Any, flat: Iterator) -> Any:
    """A value in the form of the argument `a`, its floats taken from `flat`; None for other leaves."""
    if form is None or isinstance(form, StaticArgument):
        return next(flat) if _is_float(a) else None
    if isinstance(record := form[0], InstanceType):
        parts: list[Any] = []
        for name, inner in zip(record._fields, form[1], strict=True):
            part = next(flat) if inner is None and record.is_float(name) else None
            parts.append(part if inner is None else _nest_floats(inner, record.part(a, name), flat))
        return record.gradient(parts)
    if isinstance(record := form[0], RecordType):
        gradient = record.zeros(a) if record.has_floats else None
        for name, inner in zip(record._fields, form[1], strict=True):
            if inner is None and record.is_float(name):
                record.put(gradient, name, next(flat))
            elif inner is not None and (part := _nest_floats(inner, a[name], flat)) is not None:
                record.put(gradient, name, part)
        return gradient
    return _of(form, [_nest_floats(f, part, flat) for f, part in zip(form[1], items_of(a), strict=True)])


def _holds_numbers(form: Form) -> bool:
    return form is None or (
        isinstance(form, tuple) and not isinstance(form[0], RecordType) and all(map(_holds_numbers, form[1]))
    )


def _written_leaves(form: Form, name: str) -> list[str]:
    if not isinstance(form, tuple):
        return [name] if form is None else []
    labels = map(constant_source, form[0]) if isinstance(form[0], Keys) else range(len(form[1]))
    return [x for k, inner in zip(labels, form[1], strict=True) for x in _written_leaves(inner, f"{name}[{k}]")]


def _written_floats(form: Form, a: Any, flat: Iterator[str], classes: dict[str, type]) -> str:
    """The code of :func:`_nest_floats`; named tuples go to `classes`."""
    if not isinstance(form, tuple):
        return next(flat) if form is None and _is_float(a) else "None"
    kind, forms = form
    parts = [_written_floats(f, part, flat, classes) for f, part in zip(forms, items_of(a), strict=True)]
    if isinstance(kind, Keys):
        return f"{{{', '.join(f'{constant_source(k)}: {x}' for k, x in zip(kind, parts, strict=True))}}}"
    items = "".join(f"{x}, " for x in parts)
    if not hasattr(kind, "_fields"):
        return f"[{items}]" if kind is list else f"({items})"
    name = next((n for n, known in classes.items() if known is kind), f"T{len(classes)}")
    classes[name] = kind
    return f"{name}({items})"


def _of(form: tuple, items: list) -> Any:
    """A container in this form of `items`."""
    kind = form[0]
    if isinstance(kind, Keys):
        return dict(zip(kind, items, strict=True))
    return kind(*items) if hasattr(kind, "_fields") else list(items) if kind is list else tuple(items)


def unflatten(form: Form, flat: Iterator) -> Any:
    """Nest the items of `flat` in this form."""
    return _of(form, [unflatten(f, flat) for f in form[1]]) if isinstance(form, tuple) else next(flat)


def flatten_by_forms(forms: tuple[Form, ...], values: tuple) -> tuple:
    """Flatten values in these forms; values that are flat already are returned as they are."""
    nested = any(forms) and len(values) == len(forms)
    if nested and all(isinstance(g, tuple | None) for f, g in zip(forms, values, strict=True) if f):
        return tuple(x for f, g in zip(forms, values, strict=True) for x in _leaves(f, g))
    return values


def _is_float(x: Any) -> bool:
    return isinstance(x, float | np.floating) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")


def fields_of(tuple_class: type) -> tuple[str, ...]:
    """The names of the items of a named tuple, or of a slice, which is a tuple of its ends and its step here."""
    return ("start", "stop", "step") if tuple_class is slice else getattr(tuple_class, "_fields", ())
