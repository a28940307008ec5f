"""Calls of primitives that take or give arrays and have rules of their own, which Numba compiled.

A call makes its results anew. In the adjoint it keeps for the sweep back what may have changed until then: copies of
arrays among its arguments, and, in loops, its results, in lists. There it calls the vjp, and puts back the results of
the call before. Where the sizes of results are known before a loop or branch, they are copied into arrays that are made
once, and all is stored as if statements of the function had written them: such adjoints are in the subset.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core.errors import NumbaError

from ...core.source_text import constant
from ..custom_rules import Forms, Kind, Rule
from ..ir.reverse_ir import elements, flat
from ..ir.statements import (
    Assign,
    Call,
    Check,
    Function,
    Loop,
    Put,
    Store,
    Swap,
    listed,
    parse,
    reads,
    unparse,
    walk,
    writes,
)
from ..ir.type_inference import ZEROS, kinds_of
from .array_expressions import Elementwise, Leaf, Scalar, Tree, copied

if TYPE_CHECKING:
    from ..analysis.activity import Plan
    from .calls import Calls

__all__ = ["Kept", "call", "called", "pulled", "pushed"]


# Lowering.


def call(low: Calls, node: ast.Call, rule: Rule, args: list[Tree], hint: str) -> list[Tree] | Tree:
    """The results of a call; a list if it gives a tuple. `hint`: what an array may be called."""
    given = [_argument(low, node, tree) for tree in args]
    forms = _forms(low, node, rule, given)
    function, vjp = (low.names.imported(n, rule.helpers[n], rule.helpers[n]) for n in (rule.name, rule.vjp))
    s = Call(rule, function, vjp, [], {}, given, forms.several, line=low.line)
    low.line = ""
    inferred = _inferred(low, s, len(forms.results))
    if not (low.straight and low.in_top) and _known(low, forms, inferred):
        trees = _filled(low, node, s, forms, inferred)
        return trees if forms.several else trees[0]
    for rank, kind in forms.results:
        name = hint if hint and rank and not forms.several else low.names.fresh(f"{rule.name}_result")
        low.made.ranks[name], low.made.kinds[name] = rank, kind
        s.results.append(name)
        if rank:
            sizes = s.lengths[name] = [low.names.fresh(f"{name}_{n}") for n in _AXES.get(rank, range(rank))]
            for n in sizes:
                low.made.ranks[n], low.made.kinds[n] = 0, "int"
                low.shared.most[n] = ast.Name(n, ast.Load())
    low.out.append(s)
    low.shared.hoisted.update(s.lengths)  # they do not change places
    low.shared.ruled.update(s.lengths)
    for name, known in zip(s.results, inferred, strict=True):
        if name in s.lengths:
            low.shared.sizes[name] = _sizes(low, rule, s.lengths[name], known)
            if not (low.straight and low.in_top):  # arrays like it are made at the top, before it is
                low.shared.dtypes[name] = _dtype(low, given)
    trees = _trees(low, s)
    return trees if forms.several else trees[0]


def _trees(low: Calls, s: Call) -> list[Tree]:
    return [Leaf(low.all_of(n), True) if low.made.ranks[n] else Scalar(ast.Name(n, ast.Load())) for n in s.results]


def _dtype(low: Calls, given: list[ast.expr]) -> str:
    """Code for the dtype of an array of floats made of these arguments."""
    arrays = [n for n in map(_array, given) if low.made.ranks.get(n) and low.made.kinds[n] == "float"]
    return low.dtype_of_floats(arrays)


def _known(low: Calls, forms: Forms, inferred: list[list[ast.expr | None]]) -> bool:
    """Whether the sizes of all results are known before the statement at the top that is being lowered."""
    for (rank, _), sizes in zip(forms.results, inferred, strict=True):
        if rank and len(sizes) != rank:
            return False
        if not all(n is not None and low.settled(Put(low.shared.known).visit(parse(unparse(n)))) for n in sizes):
            return False
    return True


def _filled(low: Calls, node: ast.Call, s: Call, forms: Forms, inferred: list[list[ast.expr | None]]) -> list[Tree]:
    """A call whose results are copied into arrays that are made at the top, and into numbers."""
    s.found = low.names.fresh(f"{s.rule.name}_found")
    low.made.ranks[s.found] = 0
    dtypes = {"float": _dtype(low, s.given), "int": "np.int64", "bool": "np.bool_"}
    if not s.rule.narrows(tuple([_kind(low, n, "float") for n in s.given])):
        dtypes["float"] = "np.float64"
    for (rank, kind), sizes in zip(forms.results, inferred, strict=True):
        name = low.names.fresh(f"{s.rule.name}_result")
        s.results.append(name)
        zero = parse(ZEROS[kind])
        if not rank:
            low.made.ranks[name], low.made.kinds[name] = 0, kind
            low.out.append(Assign(name, zero))
            continue
        low.allocate(name, node, sizes, kind, dtypes[kind])
        Elementwise(low, node).store(low.all_of(name), Scalar(zero))
        s.places[name] = [low.names.fresh("k") for _ in range(rank)]
        low.made.ranks |= dict.fromkeys(s.places[name], 0)
    low.out.append(s)
    low.shared.ruled.update(s.places)
    return _trees(low, s)


_AXES: dict[int, tuple[str, ...]] = {1: ("size",), 2: ("rows", "columns")}


def _argument(low: Calls, node: ast.Call, tree: Tree) -> ast.expr:
    """The name of a whole array, or of a number."""
    if isinstance(tree, Scalar):
        return low.simple(tree.node)
    if not tree.rank:
        raise low.source.refuse(node, f"a tuple in {unparse(node)}", "pass arrays and numbers one by one")
    view = low.view_of(tree, node)
    if not low.is_whole(view) or low.root(view.name) != view.name:
        view = low.view_of(copied(Leaf(view)), node)
    used = ", ".join(f":{unparse(n)}" for n in low.shape(view))
    return parse(f"{view.name}[{used}]" if view.name in low.shared.roomy else view.name)


def _array(node: ast.expr) -> str:
    """The array, or number, that an argument is."""
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.id if isinstance(node, ast.Name) else ""


def _forms(low: Calls, node: ast.Call, rule: Rule, given: list[ast.expr]) -> Forms:
    """What comes out, as far as kinds are known: numbers of which nothing is known are floats, or else integers."""
    error: Exception | None = None
    for guess in ("float", "int"):
        kinds = tuple([_kind(low, n, guess) for n in given])
        try:
            forms = rule.forms(kinds)
        except NumbaError as err:
            error = error or err
            continue
        if forms.wrong:
            raise low.source.refuse(node, f"the call {unparse(node)}: {forms.wrong}", "mend it, or leave its vjp out")
        return forms
    text = str(error).strip().splitlines()[0]
    raise low.source.refuse(
        node, f"the call {unparse(node)}, which Numba does not compile for such arguments ({text})",
        "pass others",
    )  # fmt: skip


def _kind(low: Calls, node: ast.expr, guess: str) -> Kind:
    name = _array(node)
    rank = low.made.ranks.get(name, 0)
    return rank, low.look(Leaf(low.all_of(name)) if rank else Scalar(node)) or guess


def _inferred(low: Calls, s: Call, count: int) -> list[list[ast.expr | None]]:
    """The lengths of the `count` results that the primitive's `infer` tells, as code."""
    unknown: list[list[ast.expr | None]] = [[] for _ in range(count)]
    if s.rule.infer is None:
        return unknown
    lengths: dict[int, ast.expr] = {}
    stand_ins: list[Any] = []
    for node in s.given:
        sizes = low.size(_array(node)) if low.made.ranks.get(_array(node)) else []
        shape = range(_FIRST + len(lengths), _FIRST + len(lengths) + len(sizes))
        lengths |= dict(zip(shape, sizes, strict=True))
        stand_ins.append(np.broadcast_to(0.5, tuple(shape)) if sizes else 0.5)
    found = s.rule.infer(*stand_ins)
    pair = isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], tuple)  # a shape and a dtype
    made = []
    for one in [found] if pair or not isinstance(found, tuple | list) else found:
        shape = one[0] if isinstance(one, tuple) else np.shape(one)
        made.append([lengths.get(n, ast.Constant(n) if n < _FIRST else None) for n in shape])
    return made if len(made) == count else unknown


#: Lengths that stand for those of arguments.
_FIRST = 1_000_003


def _sizes(low: Calls, rule: Rule, names: list[str], known: list) -> list[ast.expr]:
    """The lengths of a result: those that are known, which are checked, or what is measured."""
    made: list[ast.expr] = []
    for d, name in enumerate(names):
        n = known[d] if d < len(known) else None
        if n is not None:
            message = f"{low.made.name}: {rule.name} gives an array of another shape than its infer says"
            low.out.append(Check(parse(f"{name} != {unparse(n)}"), message))
        made.append(ast.Name(name, ast.Load()) if n is None else n)
    return made


# Writing.


def called(s: Call, f: Function) -> list[str]:
    """Code for the call in the function as it is."""
    given = _given(s, f)
    if not s.found:
        return _calling(s, given)
    lines = [f"{s.found} = {s.function}({', '.join(given)})"]
    for k, name in enumerate(s.results):
        found = f"{s.found}[{k}]" if s.several else s.found
        if name not in s.places:
            lines.append(f"{name} = {found}")
            continue
        message = f"{f.name}: {s.rule.name} gives an array of another shape than its infer says"
        lines += [f"if {found}.shape != {name}.shape:", f"    raise ValueError({constant(message)})"]
        lines += flat([elements(name, s.places[name], f"{name}[", "=", f"{found}[")])
    return lines


def _calling(s: Call, given: list[str]) -> list[str]:
    return [f"{listed(s.results, s.several)} = {s.function}({', '.join(given)})", *_measured(s)]


def _given(s: Call, f: Function) -> list[str]:
    """Code for the arguments; arrays have their elements side by side."""
    made = []
    for n in s.given:
        loose = isinstance(n, ast.Subscript) or (f.ranks.get(_array(n)) and _array(n) in f.parameters)
        made.append(f"np.ascontiguousarray({unparse(n)})" if loose else unparse(n))
    return made


def _measured(s: Call) -> list[str]:
    return [f"{n} = {name}.shape[{d}]" for name, sizes in s.lengths.items() for d, n in enumerate(sizes)]


class Kept:
    """What a call keeps for the sweep back: `copies`, by the arrays that may change, and `results`; in loops lists.

    Where turns of a loop run again from checkpoints (`again`), it is recorded anew for each turn.
    """

    def __init__(self, s: Call, f: Function, plan: Plan, fresh: Callable[[str], str]) -> None:
        self.call = s
        self.f = f
        self.loops = plan.enclosing[s]
        self.again = self.loops != plan.independence.enclosing[s]
        self.name = fresh(f"{s.rule.name}_kept")
        given = {unparse(n): name for n in s.given if f.ranks.get(name := _array(n))}
        active = any(r in plan.active for r in s.results)
        self.copies = {
            text: fresh(f"{name}_given") for text, name in given.items() if active and _changes(name, s, f, plan)
        }
        self.results = {r: fresh(f"{r}_tape") for r in s.results} if self.loops else {}

    def begin(self) -> list[str]:
        lists = [*self.copies.values(), *self.results.values()] if self.loops else []
        numbers = [r for r in self.call.results if r not in self.call.lengths]
        return [
            *(f"{n} = {ZEROS[self.f.kinds[n]]}" for n in numbers),
            *(f"{n} = 0" for n in self.call.sizes),
            *(f"{n} = []" for n in lists),
        ]

    def given(self) -> list[str]:
        """The arguments, in both sweeps."""
        kept = {text: f"{copy}[-1]" if self.loops else copy for text, copy in self.copies.items()}
        plain = _given(self.call, self.f)
        return [kept.get(unparse(n), p) for n, p in zip(self.call.given, plain, strict=True)]

    def there(self, bars: dict[str, str], measured: str) -> list[str]:
        """The call, with what is kept; `measured`: what the bytes of that are added to, if they are measured."""
        lines = [f"{k}.append({n}.copy())" if self.loops else f"{k} = {n}.copy()" for n, k in self.copies.items()]
        lines += _calling(self.call, self.given())
        lines += [f"{tape}.append({r})" for r, tape in self.results.items()]
        if self.again:
            lines += [zero(r, bars, self.f) for r in self.call.results if r in bars]
        if measured and self.loops:
            sizes = [*(f"{k}[-1].nbytes" for k in self.copies.values()),
                     *(f"{n}.nbytes" if self.f.ranks.get(n) else "8" for n in self.results)]  # fmt: skip
            lines.append(f"{measured} += {' + '.join(sizes)}")
        return lines

    def back(self, bars: dict[str, str]) -> list[str]:
        """What goes back to the call before: its results, and room for their cotangents."""
        lines = [f"{kept}.pop()" for kept in self.copies.values()] if self.loops else []
        for r, tape in self.results.items():
            lines += [f"{tape}.pop()", f"if len({tape}) > 0:", f"    {r} = {tape}[-1]"]
        lines += _measured(self.call) if self.loops else []
        return [*lines, *(zero(r, bars, self.f) for r in self.results if r in bars)]


def zero(name: str, bars: dict[str, str], f: Function) -> str:
    return f"{bars[name]} = np.zeros_like({name})" if f.ranks.get(name) else f"{bars[name]} = 0.0"


def _changes(name: str, s: Call, f: Function, plan: Plan) -> bool:
    """Whether an array may have other elements when the sweep back comes to `s`."""
    place = plan.independence.place
    outer: Loop | Call = plan.enclosing[s][0] if plan.enclosing[s] else s
    writers = [t for t in walk(f.body) if isinstance(t, Store | Swap) and name in writes(t)]
    return any(place[t] > place[outer] for t in writers)


def _heads(s: Call, bars: dict[str, str], f: Function) -> list[str]:
    """The cotangents of the results."""
    return [bars.get(r) or (f"np.zeros_like({r})" if f.ranks.get(r) else f"{r} * 0") for r in s.results]


def _pulling(s: Call, f: Function, heads: list[str], given: list[str]) -> tuple[str, list[str | None]]:
    """Code for a call of the vjp, and, of what it gives as `found`, for each argument's cotangent."""
    forms = s.rule.forms(kinds_of(s, f))
    first = [f"({listed(names, True)})" if s.several else names[0] for names in (heads, s.results)]
    made = f"{s.vjp}({', '.join([*first, *given])})"
    return made, [None if p is None else f"[{k}]" * forms.several_parts for k, p in enumerate(forms.parts)]


def _beside(node: ast.expr, names: dict[str, str]) -> str:
    """Code for the cotangent, or the tangent, of an argument."""
    return names[_array(node)] + unparse(node)[len(_array(node)) :]


def pulled(s: Call, f: Function, kept: Kept | None, bars: dict[str, str], fresh: Callable[[str], str]) -> list[str]:
    """Code that adds to the cotangents of the arguments of a call."""
    back = [] if kept is None else kept.back(bars)
    if not any(r in bars for r in s.results) or not reads(*s.given) & set(bars):
        return back
    made, parts = _pulling(s, f, _heads(s, bars, f), _given(s, f) if kept is None else kept.given())
    found = fresh("found")
    lines = [f"{found} = {made}"]
    for k, (n, part) in enumerate(zip(s.given, parts, strict=True)):
        if part is None or _array(n) not in bars:
            continue
        bar = _beside(n, bars)
        if f.ranks.get(_array(n)):
            message = f"{f.name}: {s.rule.vjp} gives for argument {k} an array of another shape than it has"
            lines += [f"if {found}{part}.shape != {bar}.shape:", f"    raise ValueError({constant(message)})"]
        lines.append(f"{bar} += {found}{part}")
    return [*lines, *back]


def pushed(s: Call, dots: dict[str, str], f: Function, fresh: Callable[[str], str]) -> list[str]:
    """Code for the tangents of the results: a call of the vjp for each of their elements."""
    lines = called(s, f)
    active = [r for r in s.results if r in dots]
    lines += [zero(r, dots, f) for r in active if not s.found]
    for r in active:
        one, at, found = fresh("one"), fresh("at"), fresh("found")
        made, parts = _pulling(s, f, _heads(s, {r: one}, f), _given(s, f))
        terms = []
        for n, part in zip(s.given, parts, strict=True):
            if part is not None and _array(n) in dots:
                product = f"{found}{part} * {_beside(n, dots)}"
                terms.append(f"np.sum({product})" if f.ranks.get(_array(n)) else product)
        if not terms:
            continue
        total = " + ".join(terms)
        if f.ranks.get(r):
            lines += [
                f"for {at} in np.ndindex({r}.shape):",
                f"    {one} = np.zeros_like({r})",
                f"    {one}[{at}] = 1.0",
                f"    {found} = {made}",
                f"    {dots[r]}[{at}] = {total}",
            ]
        else:
            lines += [f"{one} = 1.0", f"{found} = {made}", f"{dots[r]} = {total}"]
    return lines
