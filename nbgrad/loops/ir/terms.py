"""Expressions of lowered functions: typed, immutable and unique.

Equal terms are one object, so they are compared by identity and can be keys. Arrays appear in them by name, since a
name of a lowered function is one array throughout. A term knows what a function or constant of a module *is*: how that
is spelled decides nothing. ``str`` gives the text of a term, with as few parentheses as Python's grammar needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar
from weakref import WeakValueDictionary

from ...core.fork_safety import lock
from ...core.source_text import constant_source

__all__ = ["FALSE", "MINUS_ONE", "ONE", "TRUE", "ZERO", "Binary", "Call", "Compare", "Constant", "Copy", "DType",
           "Element", "Global", "Item", "Length", "Logical", "Prefix", "Property", "Select", "Shape", "Subscript",
           "Term", "Tuple", "Unary", "Variable", "elements_in", "integer", "named", "reads", "substitute", "subterms",
           "variables"]  # fmt: skip

_terms: WeakValueDictionary[tuple, Term] = WeakValueDictionary()
_interning = lock("expressions")
_T = TypeVar("_T", bound="Term")


class Term:
    """An expression.

    Attributes
    ----------
    operands : tuple of Term
        The terms that it is made of.
    """

    __slots__ = ("__weakref__", "named", "operands", "reads", "text")

    #: The attributes that make a term, in the order of its constructor.
    fields: ClassVar[tuple[str, ...]] = ()
    operands: tuple[Term, ...]
    #: The variables and arrays whose values it reads. The length of an array is none of its values.
    reads: frozenset[str]
    #: The variables and arrays in it: those that it reads, and those whose length, shape or dtype it asks for.
    named: frozenset[str]
    #: Its text, once it was printed.
    text: str

    @classmethod
    def _unique(
        cls: type[_T],
        key: tuple,
        operands: tuple[Term, ...],
        reads: tuple[str, ...] = (),
        asks: tuple[str, ...] = (),
        **fields: Any,
    ) -> _T:
        whole = (cls, key, operands)
        with _interning:
            term = _terms.get(whole)
            if term is None:
                term = object.__new__(cls)
                term.operands = operands
                term.reads = frozenset(reads).union(*[t.reads for t in operands])
                term.named = frozenset(reads + asks).union(*[t.named for t in operands])
                for name, value in fields.items():
                    setattr(term, name, value)
                _terms[whole] = term
        return term  # type: ignore[return-value]

    def __reduce__(self) -> tuple:
        return type(self), tuple([getattr(self, name) for name in self.fields])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join([repr(getattr(self, name)) for name in self.fields])})"

    def __str__(self) -> str:
        try:
            return self.text
        except AttributeError:
            self.text = _written(self)
            return self.text

    def rebuilt(self, operands: tuple[Term, ...]) -> Term:
        """The same term of other operands."""
        assert not operands
        return self


class Variable(Term):
    """A scalar, or a whole array."""

    __slots__ = ("name",)
    __match_args__ = fields = ("name",)
    name: str

    def __new__(cls, name: str) -> Variable:
        return cls._unique((name,), (), (name,), name=name)


class Constant(Term):
    """A bool, an int or a float. ``0.0`` and ``-0.0`` are two terms, and so are ``1``, ``1.0`` and ``True``."""

    __slots__ = ("value",)
    __match_args__ = fields = ("value",)
    value: float

    def __new__(cls, value: float) -> Constant:
        return cls._unique((type(value), constant_source(value)), (), value=value)


class Global(Term):
    """A function, dtype or constant of a module, or what a generated file imports: how it is spelled, what it is."""

    __slots__ = ("text", "value")
    __match_args__ = fields = ("text", "value")
    text: str
    value: Any

    def __new__(cls, text: str, value: Any) -> Global:
        return cls._unique((text, id(value)), (), text=text, value=value)


class Element(Term):
    """``array[i, j]``, with an index for each axis."""

    __slots__ = ("array", "index")
    __match_args__ = fields = ("array", "index")
    array: str
    index: tuple[Term, ...]

    def __new__(cls, array: str, index: tuple[Term, ...]) -> Element:
        return cls._unique((array,), index, (array,), array=array, index=index)

    def rebuilt(self, operands: tuple[Term, ...]) -> Element:
        return Element(self.array, operands)


class Length(Term):
    """``array.shape[axis]``; ``array.size`` for the axis None."""

    __slots__ = ("array", "axis")
    __match_args__ = fields = ("array", "axis")
    array: str
    axis: int | None

    def __new__(cls, array: str, axis: int | None) -> Length:
        return cls._unique((array, axis), (), asks=(array,), array=array, axis=axis)


class Shape(Term):
    """``array.shape``."""

    __slots__ = ("array",)
    __match_args__ = fields = ("array",)
    array: str

    def __new__(cls, array: str) -> Shape:
        return cls._unique((array,), (), asks=(array,), array=array)


class DType(Term):
    """``array.dtype``."""

    __slots__ = ("array",)
    __match_args__ = fields = ("array",)
    array: str

    def __new__(cls, array: str) -> DType:
        return cls._unique((array,), (), asks=(array,), array=array)


class Prefix(Term):
    """``array[:n, :m]``, with a size for each axis: the argument of a call."""

    __slots__ = ("array",)
    __match_args__ = fields = ("array", "operands")
    array: str

    def __new__(cls, array: str, sizes: tuple[Term, ...]) -> Prefix:
        return cls._unique((array,), sizes, (array,), array=array)

    def rebuilt(self, operands: tuple[Term, ...]) -> Prefix:
        return Prefix(self.array, operands)


class Unary(Term):
    """``-a``, ``+a``, ``~a`` or ``not a``."""

    __slots__ = ("op", "operand")
    __match_args__ = fields = ("op", "operand")
    op: str
    operand: Term

    def __new__(cls, op: str, operand: Term) -> Unary:
        return cls._unique((op,), (operand,), op=op, operand=operand)

    def rebuilt(self, operands: tuple[Term, ...]) -> Unary:
        return Unary(self.op, *operands)


class Binary(Term):
    """``a + b``, and the like: arithmetic, and operations on bits."""

    __slots__ = ("left", "op", "right")
    __match_args__ = fields = ("op", "left", "right")
    op: str
    left: Term
    right: Term

    def __new__(cls, op: str, left: Term, right: Term) -> Binary:
        return cls._unique((op,), (left, right), op=op, left=left, right=right)

    def rebuilt(self, operands: tuple[Term, ...]) -> Binary:
        return Binary(self.op, *operands)


class Compare(Term):
    """``a < b``, ``a < b <= c``: one operator less than operands."""

    __slots__ = ("ops",)
    __match_args__ = fields = ("ops", "operands")
    ops: tuple[str, ...]

    def __new__(cls, ops: tuple[str, ...], operands: tuple[Term, ...]) -> Compare:
        return cls._unique(ops, operands, ops=ops)

    def rebuilt(self, operands: tuple[Term, ...]) -> Compare:
        return Compare(self.ops, operands)


class Logical(Term):
    """``a and b and c``, or ``or``: operands are evaluated as far as they are needed."""

    __slots__ = ("op",)
    __match_args__ = fields = ("op", "operands")
    op: str

    def __new__(cls, op: str, operands: tuple[Term, ...]) -> Logical:
        return cls._unique((op,), operands, op=op)

    def rebuilt(self, operands: tuple[Term, ...]) -> Logical:
        return Logical(self.op, operands)


class Select(Term):
    """``body if test else orelse``: one of them is evaluated."""

    __slots__ = ("body", "orelse", "test")
    __match_args__ = fields = ("test", "body", "orelse")
    test: Term
    body: Term
    orelse: Term

    def __new__(cls, test: Term, body: Term, orelse: Term) -> Select:
        return cls._unique((), (test, body, orelse), test=test, body=body, orelse=orelse)

    def rebuilt(self, operands: tuple[Term, ...]) -> Select:
        return Select(*operands)


class Call(Term):
    """``function(a, b)``."""

    __slots__ = ("function",)
    __match_args__ = fields = ("function", "operands")
    function: Global

    def __new__(cls, function: Global, operands: tuple[Term, ...]) -> Call:
        return cls._unique((function,), operands, function=function)

    def rebuilt(self, operands: tuple[Term, ...]) -> Call:
        return Call(self.function, operands)


class Tuple(Term):
    """``(a, b)``: a shape, as an argument."""

    __slots__ = ()
    __match_args__ = fields = ("operands",)

    def __new__(cls, operands: tuple[Term, ...]) -> Tuple:
        return cls._unique((), operands)

    def rebuilt(self, operands: tuple[Term, ...]) -> Tuple:
        return Tuple(operands)


class Item(Term):
    """``whole[number]``, where `whole` is a tuple that a function returned."""

    __slots__ = ("number", "whole")
    __match_args__ = fields = ("whole", "number")
    whole: Term
    number: int

    def __new__(cls, whole: Term, number: int) -> Item:
        return cls._unique((number,), (whole,), whole=whole, number=number)

    def rebuilt(self, operands: tuple[Term, ...]) -> Item:
        return Item(operands[0], self.number)


class Subscript(Term):
    """``whole[i, j]``, an element of an array that has no name."""

    __slots__ = ("whole",)
    __match_args__ = fields = ("whole", "index")
    whole: Term

    def __new__(cls, whole: Term, index: tuple[Term, ...]) -> Subscript:
        return cls._unique((), (whole, *index), whole=whole)

    @property
    def index(self) -> tuple[Term, ...]:
        return self.operands[1:]

    def rebuilt(self, operands: tuple[Term, ...]) -> Subscript:
        return Subscript(operands[0], operands[1:])


class Copy(Term):
    """``array.copy()``."""

    __slots__ = ()
    __match_args__ = fields = ("array",)

    def __new__(cls, array: Term) -> Copy:
        return cls._unique((), (array,))

    @property
    def array(self) -> Term:
        return self.operands[0]

    def rebuilt(self, operands: tuple[Term, ...]) -> Copy:
        return Copy(*operands)


class Property(Term):
    """``array.nbytes``, or another property of a value that does not depend on its elements."""

    __slots__ = ("array", "name")
    __match_args__ = fields = ("array", "name")
    array: Term
    name: str

    def __new__(cls, array: Term, name: str) -> Property:
        return cls._unique((array, name), (), asks=tuple(array.named), array=array, name=name)


ZERO, ONE, TRUE, FALSE = Constant(0), Constant(1), Constant(True), Constant(False)


def integer(n: int) -> Term:
    """The term of a whole number, as Python parses it: ``-1`` is the negative of ``1``."""
    return Constant(n) if n >= 0 else Unary("-", Constant(-n))


def subterms(*roots: Term) -> Iterator[Term]:
    """All terms in `roots`, each as often as it occurs, what is around before what is inside."""
    stack = [*reversed(roots)]
    while stack:
        term = stack.pop()
        yield term
        stack += reversed(term.operands)


def reads(*terms: Term | None) -> set[str]:
    """The variables and arrays whose values the terms read; reading the length of an array does not count."""
    return set().union(*[t.reads for t in terms if t is not None])


def named(*terms: Term | None) -> set[str]:
    """The variables and arrays in the terms, those of which only a length is read included."""
    return set().union(*[t.named for t in terms if t is not None])


MINUS_ONE = integer(-1)


def variables(names: Iterable[str]) -> tuple[Term, ...]:
    return tuple([Variable(n) for n in names])


def elements_in(term: Term, array: str) -> list[tuple[Term, ...]]:
    """The indices at which `term` reads elements of `array`."""
    if array not in term.reads:
        return []
    return [t.index for t in subterms(term) if isinstance(t, Element) and t.array == array]


def substitute(term: Term, terms: Mapping[Term, Term]) -> Term:
    """`term` with other terms in the place of some, the outermost first."""
    done = dict(terms)  # each term once, however often it is in others

    def substituted(t: Term) -> Term:
        found = done.get(t)
        if found is None:
            operands = tuple([substituted(o) for o in t.operands])
            found = done[t] = t if operands == t.operands else t.rebuilt(operands)
        return found

    return substituted(term) if terms else term


# Printing, with the precedences of Python's grammar (the rules of :func:`ast.unparse`).

# How tightly operators bind, from the loosest.
_TEST, _OR, _AND, _NOT, _COMPARE, _BITOR, _BITXOR, _BITAND, _SHIFT, _SUM, _PRODUCT, _SIGN, _POWER, _AWAIT, _ATOM = (
    range(15)
)
_BINARY = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT, "@": _PRODUCT,
           "**": _POWER, "<<": _SHIFT, ">>": _SHIFT, "|": _BITOR, "^": _BITXOR, "&": _BITAND}  # fmt: skip


def _within(term: Term, around: int) -> str:
    """Its text as an operand of what binds as tightly as `around`."""
    return f"({term!s})" if _binds(term) < around else str(term)


def _binds(term: Term) -> int:
    match term:
        case Select():
            return _TEST
        case Logical(op):
            return _OR if op == "or" else _AND
        case Compare():
            return _COMPARE
        case Binary(op):
            return _BINARY[op]
        case Unary(op):
            return _NOT if op == "not" else _SIGN
    return _ATOM


def _written(term: Term) -> str:
    match term:
        case Variable(name):
            return name
        case Constant(value):
            return constant_source(value)
        case Global(text):
            return text
        case Element(array, index):
            return f"{array}[{', '.join(map(str, index))}]"
        case Length(array, axis):
            return f"{array}.size" if axis is None else f"{array}.shape[{axis}]"
        case Shape(array):
            return f"{array}.shape"
        case DType(array):
            return f"{array}.dtype"
        case Prefix(array, sizes):
            return f"{array}[{', '.join([f':{size}' for size in sizes])}]"
        case Item(whole, number):
            return f"{_within(whole, _ATOM)}[{number}]"
        case Subscript(whole, index):
            return f"{_within(whole, _ATOM)}[{', '.join(map(str, index))}]"
        case Copy(array):
            return f"{_within(array, _ATOM)}.copy()"
        case Property(array, name):
            return f"{_within(array, _ATOM)}.{name}"
        case Tuple(items):
            return f"({', '.join(map(str, items))}{',' * (len(items) == 1)})"
        case Unary(op, operand):
            return f"{op}{' ' * (op == 'not')}{_within(operand, _binds(term))}"
        case Binary("**", left, right):
            return f"{_within(left, _AWAIT)} ** {_within(right, _POWER)}"
        case Binary(op, left, right):
            return f"{_within(left, _BINARY[op])} {op} {_within(right, _BINARY[op] + 1)}"
        case Compare(ops, operands):
            first, *others = [_within(t, _COMPARE + 1) for t in operands]
            return " ".join([first, *(f"{op} {t}" for op, t in zip(ops, others, strict=True))])
        case Logical(op, operands):  # each operand is taken to bind tighter than the one before it
            return f" {op} ".join([_within(t, min(_binds(term) + k, _ATOM)) for k, t in enumerate(operands, 1)])
        case Select(test, body, orelse):
            return f"{_within(body, _TEST + 1)} if {_within(test, _TEST + 1)} else {orelse}"
        case Call(function, operands):
            return f"{function}({', '.join(map(str, operands))})"
    raise TypeError(f"{type(term).__name__} has no text")
