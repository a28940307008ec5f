"""Calls of compiled array primitives that have derivative rules of their own.

Each call allocates its results. For the reverse sweep the adjoint saves copies of the array arguments that may be
overwritten before then and, in loops, the results, in lists. The reverse sweep calls the vjp, then restores the results
of the previous call. Where the shapes of the results are known before a loop or branch, the results are copied into
arrays allocated once and stored like values that statements of the function wrote: such adjoints are in the subset.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.numba.internals import NumbaError
from ..custom_rules import Forms, Kind, Rule
from ..ir.effects import AddTo, Bind, NewStack, Pop, Push
from ..ir.names import called
from ..ir.reverse_ir import FLOAT_ZERO, Branch, ForIndices, Item, Step, loops_over
from ..ir.statements import (
    Assign,
    Call,
    Check,
    Function,
    Loop,
    Store,
    Swap,
    walk,
    writes,
)
from ..ir.terms import (
    MINUS_ONE,
    ZERO,
    Binary,
    Compare,
    Constant,
    Copy,
    Element,
    Global,
    Length,
    Prefix,
    Property,
    Shape,
    Subscript,
    Term,
    Tuple,
    Variable,
    reads,
    variables,
)
from ..ir.terms import Call as CallTerm
from ..ir.terms import Item as TupleItem
from ..ir.type_inference import DTYPES, ZEROS, kinds_of
from .array_expressions import ArrayExpr, Elementwise, Leaf, Scalar, Static, copy_of_values
from .static_values import GeneratorArgument
from .syntax import unparse

if TYPE_CHECKING:
    from ..analysis.reverse_plan import Plan
    from .calls import Calls

__all__ = ["CallTape", "lower_primitive_call", "primal_call", "reverse_call", "tangent_call"]


# Lowering.


def lower_primitive_call(
    low: Calls, node: ast.Call, rule: Rule, args: list[ArrayExpr], hint: str
) -> list[ArrayExpr] | ArrayExpr:
    """The lowered results of a call; a list if it returns a tuple. `hint`: the preferred name of an array result."""
    arguments = [_argument(low, node, tree) for tree in args]
    forms = _result_types(low, node, rule, arguments)
    names = {n: low.names.imported(n, function, function) for n, function in rule.helpers.items()}
    s = Call(rule, names[rule.name], names.get(rule.vjp, ""), [], {}, arguments, forms.rule_returns_tuple,
             line=low.line, jvp=names.get(rule.jvp, ""))  # fmt: skip
    low.line = ""
    inferred = _inferred_lengths(low, rule, arguments, len(forms.results))
    once = low.runs_once and low.at_function_level and not rule.draws
    if not once and _sizes_known(low, forms, inferred):
        trees = _copied_results(low, node, s, arguments, forms, inferred)
        return trees if forms.rule_returns_tuple else trees[0]
    for rank, kind in forms.results:
        name = hint if hint and rank and not forms.rule_returns_tuple else low.names.fresh(f"{rule.name}_result")
        low.lowered_function.ranks[name], low.lowered_function.kinds[name] = rank, kind
        s.results.append(name)
        if rank:
            sizes = s.lengths[name] = [low.names.fresh(f"{name}_{n}") for n in _AXES.get(rank, range(rank))]
            for n in sizes:
                low.lowered_function.ranks[n], low.lowered_function.kinds[n] = 0, "int"
                low.shared.length_upper_bounds[n] = Variable(n)
    low.out.append(s)
    low.shared.primitive_results.update(s.lengths)
    for name, inferred_sizes in zip(s.results, inferred, strict=True):
        if name in s.lengths:
            low.shared.sizes[name] = _checked_lengths(low, rule, s.lengths[name], inferred_sizes)
            if not (
                low.runs_once and low.at_function_level
            ):  # arrays like it are allocated at the top, before the call
                low.shared.dtypes[name] = _dtype(low, arguments)
    trees = _trees(low, s)
    return trees if forms.rule_returns_tuple else trees[0]


def _trees(low: Calls, s: Call) -> list[ArrayExpr]:
    return [Leaf(low.whole_view(n), True) if low.lowered_function.ranks[n] else Scalar(Variable(n)) for n in s.results]


def _dtype(low: Calls, arguments: list[Term]) -> Term:
    """The dtype of an array of floats computed from these arguments."""
    arrays = [
        n
        for n in map(_array, arguments)
        if low.lowered_function.ranks.get(n) and low.lowered_function.kinds[n] == "float"
    ]
    return low.dtype_of_floats(arrays)


def _sizes_known(low: Calls, forms: Forms, inferred: list[list[Term | None]]) -> bool:
    """Whether the sizes of all results are known before the outermost statement that is being lowered."""
    for (rank, _), sizes in zip(forms.results, inferred, strict=True):
        if rank and len(sizes) != rank:
            return False
        if not all(n is not None and low.known_before_block(low.with_known_integers(n)) for n in sizes):
            return False
    return True


def _copied_results(
    low: Calls, node: ast.Call, s: Call, arguments: list[Term], forms: Forms, inferred: list[list[Term | None]]
) -> list[ArrayExpr]:
    """Lower a call whose results are copied into arrays allocated at the top, and into scalars."""
    s.value_name = low.names.fresh(f"{s.rule.name}_found")
    low.lowered_function.ranks[s.value_name] = 0
    dtypes: dict[str, Term] = {**DTYPES}
    if s.rule.preserves_float32(tuple([_kind(low, t, "float") for t in arguments])):
        dtypes["float"] = _dtype(low, arguments)
    for (rank, kind), sizes in zip(forms.results, inferred, strict=True):
        name = low.names.fresh(f"{s.rule.name}_result")
        s.results.append(name)
        zero = ZEROS[kind]
        if not rank:
            low.lowered_function.ranks[name], low.lowered_function.kinds[name] = 0, kind
            low.out.append(Assign(name, zero))
            continue
        low.allocate(name, node, [n for n in sizes if n is not None], kind, dtypes[kind])
        Elementwise(low, node).store(low.whole_view(name), Scalar(zero))
        s.copy_indices[name] = [low.names.fresh("k") for _ in range(rank)]
        low.lowered_function.ranks |= dict.fromkeys(s.copy_indices[name], 0)
    low.out.append(s)
    low.shared.primitive_results.update(s.copy_indices)
    return _trees(low, s)


_AXES: dict[int, tuple[str, ...]] = {1: ("size",), 2: ("rows", "columns")}


def _argument(low: Calls, node: ast.Call, tree: ArrayExpr) -> Term:
    """The name of a whole array, a scalar, or the name of a random generator."""
    if isinstance(tree, Static) and isinstance(tree.value, GeneratorArgument):
        return Variable(tree.value.name)
    if isinstance(tree, Scalar):
        return low.name_or_constant(tree.term)
    if not tree.rank:
        raise low.source.refuse(node, f"a tuple in {unparse(node)}", "pass arrays and numbers one by one")
    view = low.view_of(tree, node)
    if not low.is_whole(view) or low.storage_of(view.name) != view.name:
        view = low.view_of(copy_of_values(Leaf(view)), node)
    in_part = view.name in low.shared.over_allocated
    return Prefix(view.name, tuple(low.shape(view))) if in_part else Variable(view.name)


def _result_types(low: Calls, node: ast.Call, rule: Rule, arguments: list[Term]) -> Forms:
    """The result and cotangent types of a call; scalars of unknown kind are tried as floats, then as integers."""
    error: Exception | None = None
    for guess in ("float", "int"):
        kinds = tuple([_kind(low, t, guess) for t in arguments])
        try:
            forms = rule.result_types(kinds)
        except NumbaError as err:
            error = error or err
            continue
        if forms.type_error:
            raise low.source.refuse(
                node, f"the call {unparse(node)}: {forms.type_error}", "fix it, or leave its vjp out"
            )
        return forms
    reason = str(error).strip().splitlines()[0]
    raise low.source.refuse(
        node, f"the call {unparse(node)}, which Numba does not compile for such arguments ({reason})",
        "pass others",
    )  # fmt: skip


def _kind(low: Calls, term: Term, guess: str) -> Kind:
    name = _array(term)
    if low.lowered_function.kinds.get(name) == "generator":
        return 0, "generator"
    rank = low.lowered_function.ranks.get(name, 0)
    return rank, low.kind_of_tree(Leaf(low.whole_view(name)) if rank else Scalar(term)) or guess


def _inferred_lengths(low: Calls, rule: Rule, arguments: list[Term], count: int) -> list[list[Term | None]]:
    """The lengths of the `count` results according to the primitive's `infer`; None where unknown.

    `infer` runs on stand-in arrays whose lengths are sentinels, one per axis of an argument;
    in the result they are mapped back to these lengths.
    """
    unknown: list[list[Term | None]] = [[] for _ in range(count)]
    if rule.infer is None:
        return unknown
    lengths: dict[int, Term] = {}
    stand_ins: list[Any] = []
    for name in map(_array, arguments):
        sizes = low.size(name) if low.lowered_function.ranks.get(name) else []
        shape = range(_FIRST_SENTINEL + len(lengths), _FIRST_SENTINEL + len(lengths) + len(sizes))
        lengths |= dict(zip(shape, sizes, strict=True))
        stand_ins.append(np.broadcast_to(0.5, tuple(shape)) if sizes else 0.5)
    inferred = rule.infer(*stand_ins)
    pair = isinstance(inferred, tuple) and len(inferred) == 2 and isinstance(inferred[0], tuple)  # a shape and a dtype
    per_result = []
    for result in [inferred] if pair or not isinstance(inferred, tuple | list) else inferred:
        shape = result[0] if isinstance(result, tuple) else np.shape(result)
        per_result.append([lengths.get(n, Constant(int(n)) if n < _FIRST_SENTINEL else None) for n in shape])
    return per_result if len(per_result) == count else unknown


#: The first sentinel length; smaller lengths are constants.
_FIRST_SENTINEL = 1_000_003


def _checked_lengths(low: Calls, rule: Rule, names: list[str], known: list[Term | None]) -> list[Term]:
    """The lengths of a result: the inferred ones, checked at run time, and otherwise those measured after the call."""
    sizes: list[Term] = []
    for d, name in enumerate(names):
        n = known[d] if d < len(known) else None
        if n is not None:
            message = f"{low.lowered_function.name}: {rule.name} gives an array of another shape than its infer says"
            low.out.append(Check(Compare(("!=",), (Variable(name), n)), message))
        sizes.append(Variable(name) if n is None else n)
    return sizes


# Code generation.


def _array(term: Term) -> str:
    """The name of the array or scalar that an argument is, "" for a constant."""
    return term.array if isinstance(term, Prefix) else term.name if isinstance(term, Variable) else ""


def primal_call(s: Call, f: Function) -> list[Item]:
    """The call in the primal function."""
    arguments = _contiguous_arguments(s, f)
    if not s.value_name:
        return _bound_call(s, arguments)
    value = Variable(s.value_name)
    items: list[Item] = [Bind((s.value_name,), _called(s.function, s, arguments))]
    for k, name in enumerate(s.results):
        result = TupleItem(value, k) if s.returns_tuple else value
        if name not in s.copy_indices:
            items.append(Bind((name,), result))
            continue
        message = f"{f.name}: {s.rule.name} gives an array of another shape than its infer says"
        items.append(Check(Compare(("!=",), (Property(result, "shape"), Shape(name))), message))
        index = variables(s.copy_indices[name])
        copy = Step(Element(name, index), "=", Subscript(result, index))
        items.append(loops_over(name, s.copy_indices[name], copy))
    return items


def _called(function: str, s: Call, arguments: list[Term]) -> Term:
    """A call of the primitive of `s`, or of its vjp."""
    return CallTerm(Global(function, s.rule), tuple(arguments))


def _bound_call(s: Call, arguments: list[Term]) -> list[Item]:
    return [Bind(tuple(s.results), _called(s.function, s, arguments), s.returns_tuple), *_bound_lengths(s)]


def _contiguous_arguments(s: Call, f: Function) -> list[Term]:
    """The arguments; arrays are made contiguous."""
    arguments = []
    for t in s.operands:
        strided = isinstance(t, Prefix) or (f.ranks.get(_array(t)) and _array(t) in f.parameters)
        arguments.append(called(np.ascontiguousarray, t) if strided else t)
    return arguments


def _bound_lengths(s: Call) -> list[Item]:
    return [Bind((n,), Length(name, d)) for name, sizes in s.lengths.items() for d, n in enumerate(sizes)]


def _top(stack: str) -> Term:
    """What was pushed last."""
    return Element(stack, (MINUS_ONE,))


def _total(terms: list[Term]) -> Term:
    return reduce(lambda a, b: Binary("+", a, b), terms)


class CallTape:
    """What a call saves for the reverse sweep: `copies` of arrays that may change, and in loops `results`, in lists.

    Where iterations of a loop are rerun from checkpoints (`rerecorded`), each rerun records anew.
    """

    def __init__(self, s: Call, f: Function, plan: Plan, fresh: Callable[[str], str]) -> None:
        self.call = s
        self.f = f
        self.loops = plan.enclosing[s]
        self.rerecorded = self.loops != plan.dependence_tests.enclosing[s]
        self.name = fresh(f"{s.rule.name}_kept")
        arrays = {t: name for t in s.operands if f.ranks.get(name := _array(t))}
        active = any(r in plan.active for r in s.results)
        self.copies = {
            t: fresh(f"{name}_given") for t, name in arrays.items() if active and _may_change(name, s, f, plan)
        }
        self.results = {r: fresh(f"{r}_tape") for r in s.results} if self.loops else {}

    def initial_tapes(self) -> list[Item]:
        lists = [*self.copies.values(), *self.results.values()] if self.loops else []
        scalars = [r for r in self.call.results if r not in self.call.lengths]
        return [
            *(Bind((n,), ZEROS[self.f.kinds[n]]) for n in scalars),
            *(Bind((n,), ZERO) for n in self.call.sizes),
            *map(NewStack, lists),
        ]

    def saved_arguments(self) -> list[Term]:
        """The arguments, the same in both sweeps."""
        saved = {t: _top(copy) if self.loops else Variable(copy) for t, copy in self.copies.items()}
        plain = _contiguous_arguments(self.call, self.f)
        return [saved.get(t, p) for t, p in zip(self.call.operands, plain, strict=True)]

    def forward_call(self, bars: dict[str, str], measured: str) -> list[Item]:
        """The call in the forward sweep and its saves. `measured`: the variable that counts their bytes, or ""."""
        items: list[Item] = [Push(k, Copy(t)) if self.loops else Bind((k,), Copy(t)) for t, k in self.copies.items()]
        items += _bound_call(self.call, self.saved_arguments())
        items += [Push(tape, Variable(r)) for r, tape in self.results.items()]
        if self.rerecorded:
            items += [zero_cotangent(r, bars, self.f) for r in self.call.results if r in bars]
        if measured and self.loops:
            sizes: list[Term] = [Property(_top(k), "nbytes") for k in self.copies.values()]
            sizes += [Property(Variable(n), "nbytes") if self.f.ranks.get(n) else Constant(8) for n in self.results]
            items.append(Step(Variable(measured), "+=", _total(sizes)))
        return items

    def restore_results(self, bars: dict[str, str]) -> list[Item]:
        """Restore the results of the previous call, and allocate their cotangents."""
        items: list[Item] = [Pop(kept) for kept in self.copies.values()] if self.loops else []
        for r, tape in self.results.items():
            left = Compare((">",), (called(len, Variable(tape)), ZERO))
            items += [Pop(tape), Branch(left, body=[Bind((r,), _top(tape))])]
        items += _bound_lengths(self.call) if self.loops else []
        return [*items, *(zero_cotangent(r, bars, self.f) for r in self.results if r in bars)]


def zero_cotangent(name: str, bars: dict[str, str], f: Function) -> Item:
    return Bind((bars[name],), called(np.zeros_like, Variable(name)) if f.ranks.get(name) else FLOAT_ZERO)


def _may_change(name: str, s: Call, f: Function, plan: Plan) -> bool:
    """Whether an array may have changed by the time the reverse sweep reaches `s`."""
    order = plan.dependence_tests.program_order
    outer: Loop | Call = plan.enclosing[s][0] if plan.enclosing[s] else s
    writers = [t for t in walk(f.body) if isinstance(t, Store | Swap) and name in writes(t)]
    return any(order[t] > order[outer] for t in writers)


def _result_cotangent(r: str, bars: dict[str, str], f: Function) -> Term:
    if r in bars:
        return Variable(bars[r])
    return called(np.zeros_like, Variable(r)) if f.ranks.get(r) else Binary("*", Variable(r), ZERO)


def _vjp_call(
    s: Call, f: Function, bars: dict[str, str], arguments: list[Term], found: str
) -> tuple[Item, list[Term | None]]:
    """A call of the vjp, whose value is bound to `found`, and the cotangent of each argument in it (None: it has
    none); `bars` are the names of the cotangents of results."""
    forms = s.rule.result_types(kinds_of(s, f))
    heads = [_result_cotangent(r, bars, f) for r in s.results]
    results = [Tuple(tuple(t)) if s.returns_tuple else t[0] for t in (heads, variables(s.results))]
    value = Variable(found)
    return Bind((found,), _called(s.vjp, s, [*results, *arguments])), [
        None if p is None else TupleItem(value, k) if forms.vjp_returns_tuple else value
        for k, p in enumerate(forms.cotangent_ranks)
    ]


def _jvp_call(s: Call, f: Function, dots: dict[str, str], found: str) -> list[Item]:
    """A call of the jvp, whose value is bound to `found`, and the tangents of the results from it."""
    ranks = s.rule.result_types(kinds_of(s, f)).cotangent_ranks
    arguments, results, value = _contiguous_arguments(s, f), variables(s.results), Variable(found)
    tangents: list[Term] = []
    for t, argument, rank in zip(s.operands, arguments, ranks, strict=True):
        if rank is None:
            continue
        if _array(t) in dots:
            tangents.append(called(np.ascontiguousarray, _shadow(t, dots)) if rank else _shadow(t, dots))
        else:
            tangents.append(called(np.zeros_like, argument) if rank else FLOAT_ZERO)
    result = Tuple(tuple(results)) if s.returns_tuple else results[0]
    items: list[Item] = [Bind((found,), _called(s.jvp, s, [*tangents, result, *arguments]))]
    for k, r in enumerate(s.results):
        if r in dots:
            items.append(Bind((dots[r],), TupleItem(value, k) if s.returns_tuple else value))
    return items


def _shadow(term: Term, names: dict[str, str]) -> Variable | Prefix:
    """The cotangent or tangent of an argument."""
    shadow = names[_array(term)]
    return Prefix(shadow, term.operands) if isinstance(term, Prefix) else Variable(shadow)


def reverse_call(
    s: Call, f: Function, saved: CallTape | None, bars: dict[str, str], fresh: Callable[[str], str]
) -> list[Item]:
    """Accumulate into the cotangents of the arguments of a call."""
    restored = [] if saved is None else saved.restore_results(bars)
    if not any(r in bars for r in s.results) or not reads(*s.operands) & set(bars):
        return restored
    arguments = _contiguous_arguments(s, f) if saved is None else saved.saved_arguments()
    vjp_call, parts = _vjp_call(s, f, bars, arguments, fresh("found"))
    items = [vjp_call]
    for k, (t, part) in enumerate(zip(s.operands, parts, strict=True)):
        if part is None or _array(t) not in bars:
            continue
        bar = _shadow(t, bars)
        if f.ranks.get(_array(t)):
            message = f"{f.name}: {s.rule.vjp} gives for argument {k} an array of another shape than it has"
            items.append(Check(Compare(("!=",), (Property(part, "shape"), Property(bar, "shape"))), message))
        items.append(AddTo(bar, part))
    return [*items, *restored]


def tangent_call(s: Call, dots: dict[str, str], f: Function, fresh: Callable[[str], str]) -> list[Item]:
    """The tangents of the results: a call of the jvp, or of the vjp for each element."""
    items = primal_call(s, f)
    active = [r for r in s.results if r in dots]
    if active and s.jvp:
        return [*items, *_jvp_call(s, f, dots, fresh("found"))]
    items += [zero_cotangent(r, dots, f) for r in active if not s.value_name]
    for r in active:
        one, at, found = fresh("one"), fresh("at"), fresh("found")
        vjp_call, parts = _vjp_call(s, f, {r: one}, _contiguous_arguments(s, f), found)
        products: list[Term] = []
        for t, part in zip(s.operands, parts, strict=True):
            if part is not None and _array(t) in dots:
                product = Binary("*", part, _shadow(t, dots))
                products.append(called(np.sum, product) if f.ranks.get(_array(t)) else product)
        if not products:
            continue
        if f.ranks.get(r):
            index = (Variable(at),)
            inside: list[Item] = [
                Bind((one,), called(np.zeros_like, Variable(r))),
                Step(Element(one, index), "=", Constant(1.0)),
                vjp_call,
                Step(Element(dots[r], index), "=", _total(products)),
            ]
            items.append(ForIndices(at, r, body=inside))
        else:
            items += [Bind((one,), Constant(1.0)), vjp_call, Bind((dots[r],), _total(products))]
    return items
