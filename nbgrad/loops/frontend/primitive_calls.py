"""Calls of compiled array primitives that have derivative rules of their own.

Each call allocates its results. For the reverse sweep the adjoint saves copies of the array arguments that may be
overwritten before then and, in loops, the results, in lists. The reverse sweep calls the vjp, then restores the results
of the previous call. Where the shapes of the results are known before a loop or branch, the results are copied into
arrays allocated once and stored like values that statements of the function wrote: such adjoints are in the subset.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.numba.internals import NumbaError
from ...core.source_text import constant_source
from ..custom_rules import Forms, Kind, Rule
from ..ir.reverse_ir import flatten_items, loops_over
from ..ir.statements import (
    Assign,
    Call,
    Check,
    Function,
    Loop,
    Store,
    Swap,
    comma_separated,
    walk,
    writes,
)
from ..ir.terms import Compare, Constant, Prefix, Term, Variable, reads
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
    low.shared.hoisted.update(s.lengths)  # never rebound to other arrays
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


def primal_call(s: Call, f: Function) -> list[str]:
    """Code for the call in the primal function."""
    arguments = _contiguous_arguments(s, f)
    if not s.value_name:
        return _call_lines(s, arguments)
    lines = [f"{s.value_name} = {s.function}({', '.join(arguments)})"]
    for k, name in enumerate(s.results):
        result = f"{s.value_name}[{k}]" if s.returns_tuple else s.value_name
        if name not in s.copy_indices:
            lines.append(f"{name} = {result}")
            continue
        message = f"{f.name}: {s.rule.name} gives an array of another shape than its infer says"
        lines += [f"if {result}.shape != {name}.shape:", f"    raise ValueError({constant_source(message)})"]
        index = ", ".join(s.copy_indices[name])
        lines += flatten_items([loops_over(name, s.copy_indices[name], f"{name}[{index}] = {result}[{index}]")])
    return lines


def _call_lines(s: Call, arguments: list[str]) -> list[str]:
    return [f"{comma_separated(s.results, s.returns_tuple)} = {s.function}({', '.join(arguments)})", *_length_lines(s)]


def _contiguous_arguments(s: Call, f: Function) -> list[str]:
    """Code for the arguments; arrays are made contiguous."""
    arguments = []
    for t in s.operands:
        strided = isinstance(t, Prefix) or (f.ranks.get(_array(t)) and _array(t) in f.parameters)
        arguments.append(f"np.ascontiguousarray({t})" if strided else f"{t}")
    return arguments


def _length_lines(s: Call) -> list[str]:
    return [f"{n} = {name}.shape[{d}]" for name, sizes in s.lengths.items() for d, n in enumerate(sizes)]


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

    def initial_tapes(self) -> list[str]:
        lists = [*self.copies.values(), *self.results.values()] if self.loops else []
        scalars = [r for r in self.call.results if r not in self.call.lengths]
        return [
            *(f"{n} = {ZEROS[self.f.kinds[n]]}" for n in scalars),
            *(f"{n} = 0" for n in self.call.sizes),
            *(f"{n} = []" for n in lists),
        ]

    def saved_arguments(self) -> list[str]:
        """Code for the arguments, the same in both sweeps."""
        saved = {t: f"{copy}[-1]" if self.loops else copy for t, copy in self.copies.items()}
        plain = _contiguous_arguments(self.call, self.f)
        return [saved.get(t, p) for t, p in zip(self.call.operands, plain, strict=True)]

    def forward_call(self, bars: dict[str, str], measured: str) -> list[str]:
        """The call in the forward sweep and its saves. `measured`: the variable that counts their bytes, or ""."""
        lines = [f"{k}.append({t}.copy())" if self.loops else f"{k} = {t}.copy()" for t, k in self.copies.items()]
        lines += _call_lines(self.call, self.saved_arguments())
        lines += [f"{tape}.append({r})" for r, tape in self.results.items()]
        if self.rerecorded:
            lines += [zero_cotangent(r, bars, self.f) for r in self.call.results if r in bars]
        if measured and self.loops:
            sizes = [*(f"{k}[-1].nbytes" for k in self.copies.values()),
                     *(f"{n}.nbytes" if self.f.ranks.get(n) else "8" for n in self.results)]  # fmt: skip
            lines.append(f"{measured} += {' + '.join(sizes)}")
        return lines

    def restore_results(self, bars: dict[str, str]) -> list[str]:
        """Restore the results of the previous call, and allocate their cotangents."""
        lines = [f"{kept}.pop()" for kept in self.copies.values()] if self.loops else []
        for r, tape in self.results.items():
            lines += [f"{tape}.pop()", f"if len({tape}) > 0:", f"    {r} = {tape}[-1]"]
        lines += _length_lines(self.call) if self.loops else []
        return [*lines, *(zero_cotangent(r, bars, self.f) for r in self.results if r in bars)]


def zero_cotangent(name: str, bars: dict[str, str], f: Function) -> str:
    return f"{bars[name]} = np.zeros_like({name})" if f.ranks.get(name) else f"{bars[name]} = 0.0"


def _may_change(name: str, s: Call, f: Function, plan: Plan) -> bool:
    """Whether an array may have changed by the time the reverse sweep reaches `s`."""
    order = plan.dependence_tests.program_order
    outer: Loop | Call = plan.enclosing[s][0] if plan.enclosing[s] else s
    writers = [t for t in walk(f.body) if isinstance(t, Store | Swap) and name in writes(t)]
    return any(order[t] > order[outer] for t in writers)


def _result_cotangents(s: Call, bars: dict[str, str], f: Function) -> list[str]:
    """Code for the cotangents of the results."""
    return [bars.get(r) or (f"np.zeros_like({r})" if f.ranks.get(r) else f"{r} * 0") for r in s.results]


def _vjp_call(s: Call, f: Function, heads: list[str], arguments: list[str]) -> tuple[str, list[str | None]]:
    """Code for a call of the vjp, and the subscript that selects each argument's cotangent in what it returns.

    A subscript is "" if the vjp returns a single cotangent, None if the argument has none.
    """
    forms = s.rule.result_types(kinds_of(s, f))
    results = [f"({comma_separated(names, True)})" if s.returns_tuple else names[0] for names in (heads, s.results)]
    vjp_call = f"{s.vjp}({', '.join([*results, *arguments])})"
    return vjp_call, [
        None if p is None else f"[{k}]" * forms.vjp_returns_tuple for k, p in enumerate(forms.cotangent_ranks)
    ]


def _shadow(term: Term, names: dict[str, str]) -> str:
    """Code for the cotangent or tangent of an argument."""
    shadow = names[_array(term)]
    return str(Prefix(shadow, term.operands)) if isinstance(term, Prefix) else shadow


def reverse_call(
    s: Call, f: Function, saved: CallTape | None, bars: dict[str, str], fresh: Callable[[str], str]
) -> list[str]:
    """Code that accumulates into the cotangents of the arguments of a call."""
    restored = [] if saved is None else saved.restore_results(bars)
    if not any(r in bars for r in s.results) or not reads(*s.operands) & set(bars):
        return restored
    vjp_call, parts = _vjp_call(
        s, f, _result_cotangents(s, bars, f), _contiguous_arguments(s, f) if saved is None else saved.saved_arguments()
    )
    found = fresh("found")
    lines = [f"{found} = {vjp_call}"]
    for k, (t, part) in enumerate(zip(s.operands, parts, strict=True)):
        if part is None or _array(t) not in bars:
            continue
        bar = _shadow(t, bars)
        if f.ranks.get(_array(t)):
            message = f"{f.name}: {s.rule.vjp} gives for argument {k} an array of another shape than it has"
            lines += [f"if {found}{part}.shape != {bar}.shape:", f"    raise ValueError({constant_source(message)})"]
        lines.append(f"{bar} += {found}{part}")
    return [*lines, *restored]


def tangent_call(s: Call, dots: dict[str, str], f: Function, fresh: Callable[[str], str]) -> list[str]:
    """Code for the tangents of the results: a call of the jvp, or of the vjp for each element."""
    lines = primal_call(s, f)
    active = [r for r in s.results if r in dots]
    lines += [zero_cotangent(r, dots, f) for r in active if not s.value_name]
    if active and s.jvp:
        found, arguments = fresh("found"), _contiguous_arguments(s, f)
        ranks = s.rule.result_types(kinds_of(s, f)).cotangent_ranks
        tangents = [
            f"np.zeros_like({argument})" * bool(rank) or "0.0" if _array(t) not in dots
            else f"np.ascontiguousarray({_shadow(t, dots)})" if rank else _shadow(t, dots)
            for t, argument, rank in zip(s.operands, arguments, ranks, strict=True)
            if rank is not None
        ]  # fmt: skip
        result = f"({comma_separated(s.results, True)})" if s.returns_tuple else s.results[0]
        lines.append(f"{found} = {s.jvp}({', '.join([*tangents, result, *arguments])})")
        for k, r in enumerate(s.results):
            if r in dots:
                chosen = f"{found}[{k}]" if s.returns_tuple else found
                lines.append(f"{dots[r]}[...] = {chosen}" if f.ranks.get(r) else f"{dots[r]} = {chosen}")
        return lines
    for r in active:
        one, at, found = fresh("one"), fresh("at"), fresh("found")
        vjp_call, parts = _vjp_call(s, f, _result_cotangents(s, {r: one}, f), _contiguous_arguments(s, f))
        products = []
        for t, part in zip(s.operands, parts, strict=True):
            if part is not None and _array(t) in dots:
                product = f"{found}{part} * {_shadow(t, dots)}"
                products.append(f"np.sum({product})" if f.ranks.get(_array(t)) else product)
        if not products:
            continue
        total = " + ".join(products)
        if f.ranks.get(r):
            lines += [
                f"for {at} in np.ndindex({r}.shape):",
                f"    {one} = np.zeros_like({r})",
                f"    {one}[{at}] = 1.0",
                f"    {found} = {vjp_call}",
                f"    {dots[r]}[{at}] = {total}",
            ]
        else:
            lines += [f"{one} = 1.0", f"{found} = {vjp_call}", f"{dots[r]} = {total}"]
    return lines
