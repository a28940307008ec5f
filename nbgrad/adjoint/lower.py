"""The lowering itself: statements with jumps, calls and tuples become those of :mod:`.ir`."""

from __future__ import annotations

import ast
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .algebra import FUNCTIONS, PASSIVE
from .arrays import Arrays
from .ir import Assign, Block, Check, Function, If, Loop, Statement, Store, Swap, parse, unparse, walk
from .jumps import ends, jumps, raised
from .names import FUNCTION_NAMES, Names, all_names
from .slices import Slices
from .subset import ALLOCATE, RANGES, REDUCE, Source, source_of

__all__ = ["lower"]


def lower(source: Source, ranks: dict[str, int], kinds: dict[str, str]) -> Function:
    """The function in `source` for arguments of these ranks and kinds."""
    where = f"{source.file}, line {source.first + 1}"
    parameters = [a.arg for a in (*source.node.args.posonlyargs, *source.node.args.args)]
    made = Function(source.name, parameters, [], None, dict(ranks), dict(kinds), {}, where)
    lowering = Lowering(source, made, {p: p for p in parameters})
    body = lowering.function()
    made.body = body
    made.results = lowering.results
    swapped = {n for s in walk(made.body) if isinstance(s, Swap) for n in (s.first, s.second)}
    if swapped & lowering.hoisted:
        raise source.refuse(source.node, "an array made in a loop that changes places", "make it before the loop")
    if swapped & set(made.results or []) & set(parameters):
        raise source.refuse(
            source.node, "an array parameter that changes places and is returned", "return a copy of it"
        )
    return made


class _Done(ast.expr):
    """An expression that is lowered already."""

    def __init__(self, made: ast.expr) -> None:
        super().__init__()
        self.made = made


class Lowering:
    """Lowers one function; calls of others are lowered into it by a Lowering of their own.

    `rename` gives the names of its local variables in the result: those of an inlined function are made apart.
    """

    def __init__(self, source: Source, made: Function, rename: dict[str, str], outer: Lowering | None = None) -> None:
        self.source = source
        self.made = made
        self.rename = rename
        self.inlined = outer is not None
        self.names: Names = outer.names if outer else Names(all_names(source.node))
        self.root: Lowering = outer.root if outer else self
        self.top: Block | None = None  # the outermost block
        self.straight: bool = outer is None or (outer.straight and outer.out is outer.top)  # it runs once
        self.current: ast.stmt | None = None  # its statement that is being lowered
        self.shapes: dict[str, dict[int, str]] = outer.shapes if outer else {}  # of arrays made like others
        self.dtypes: dict[str, str] = outer.dtypes if outer else {}  # code for the dtypes of local arrays
        self.hoisted: set[str] = outer.hoisted if outer else set()  # arrays made inside of loops, once for all turns
        self.bound: list[str] = list(outer.bound) if outer else []  # loop variables in scope
        self.within: tuple = (*outer.within, source.node.name) if outer else (source.node.name,)
        self.results: list[str] | None = None
        self.returned = ""
        self.stops: list[str] = []  # the flag of each enclosing loop, "" until wanted
        self.out: Block = []
        self.line = ""
        self.locals = {
            n.id for n in ast.walk(source.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        } | set(rename)

    # Statements.

    def function(self) -> Block:
        body = self.source.node.body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        if any(isinstance(s, ast.For | ast.While) and jumps(s, ast.Return) for b in body for s in ast.walk(b)):
            self.returned = self.names.fresh("returned")
        lowered = self.block(body)
        return [Assign(self.returned, ast.Constant(False)), *lowered] if self.returned else lowered

    def block(self, statements: list[ast.stmt]) -> Block:
        """Lower `statements`; what follows a jump goes into the branch that does not jump."""
        saved, self.out = self.out, []
        self.top = self.out if self.top is None else self.top
        for k, s in enumerate(statements):
            self.current = s if self.out is self.top else self.current
            rest = statements[k + 1 :]
            self.line = self.source.lines[s.lineno - 1].strip()
            if isinstance(s, ast.Continue | ast.Break | ast.Return):
                self.jump(s)
                break
            if isinstance(s, ast.If) and jumps(s):
                if ends(s.body):
                    self.branch(s, s.body, [*s.orelse, *rest])
                elif ends(s.orelse):
                    self.branch(s, [*s.body, *rest], s.orelse)
                elif not rest:
                    self.branch(s, s.body, s.orelse)
                else:
                    raise self.source.refuse(
                        s, "a jump inside a branch that may also run on", "make the branch end with the jump (if/else)"
                    )
                break
            self.statement(s)
            if self.returned and isinstance(s, ast.For | ast.While) and jumps(s, ast.Return) and rest:
                self.emit(If(parse(f"not {self.returned}"), self.block(rest), []))
                break
        made, self.out = self.out, saved
        return made

    def emit(self, s: Statement) -> None:
        s.line, self.line = self.line, ""
        self.out.append(s)

    def jump(self, s: ast.stmt) -> None:
        if isinstance(s, ast.Return):
            self.give_back(s)
            if self.stops:
                self.emit(Assign(self.returned, ast.Constant(True)))
                self.stops[:] = [flag or self.returned for flag in self.stops]
                if self.stops[-1] != self.returned:
                    self.emit(Assign(self.stops[-1], ast.Constant(True)))
        elif isinstance(s, ast.Break):
            self.stops[-1] = self.stops[-1] or self.names.fresh("stop")
            if self.stops[-1] == self.returned:
                raise self.source.refuse(
                    s, "break in a loop with a return before it", "use a flag instead of the return"
                )
            self.emit(Assign(self.stops[-1], ast.Constant(True)))

    def give_back(self, s: ast.Return) -> None:
        if s.value is None or (isinstance(s.value, ast.Constant) and s.value.value is None):
            names: list[str] | None = None
        else:
            parts = s.value.elts if isinstance(s.value, ast.Tuple) else [s.value]
            names = []
            for k, part in enumerate(parts):
                named = isinstance(part, ast.Name) and part.id in self.locals
                if named and self.results is None and not self.inlined and not self.returned:
                    names.append(self.local(part))  # type: ignore[arg-type]
                    continue
                if isinstance(part, ast.Name) and self.made.ranks.get(self.local(part)):
                    names.append(self.local(part))
                    continue
                name = self.results[k] if self.results and k < len(self.results) else self.names.fresh("result")
                if name != (self.local(part) if isinstance(part, ast.Name) else ""):
                    self.emit(Assign(name, self.value(part)))
                names.append(name)
        if names is not None and len(set(names)) < len(names):
            raise self.source.refuse(s, "one variable returned twice", "return it once")
        if self.results is not None and names != self.results:
            raise self.source.refuse(
                s, "returns of different form", "return the same arrays, and as many numbers, everywhere"
            )
        self.results = names

    def branch(self, s: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        test = self.value(s.test)
        line, self.line = self.line, ""
        made = If(test, self.block(body), self.block(orelse), line=line)
        self.out.append(made)

    def statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Pass():
                pass
            case ast.AnnAssign() if s.value is not None:
                self.assign(s, s.target, s.value)
            case ast.Assign():
                if len(s.targets) > 1:
                    raise self.source.refuse(s, "several targets", "write one assignment per line")
                self.assign(s, s.targets[0], s.value)
            case ast.AugAssign():
                target = parse(unparse(s.target))
                ast.copy_location(target, s.target)
                self.assign(s, s.target, ast.BinOp(target, s.op, s.value))
            case ast.For() | ast.While():
                self.loop(s)
            case ast.If() if raised(s):
                self.emit(Check(self.value(s.test), raised(s)))
            case ast.If():
                self.branch(s, s.body, s.orelse)
            case ast.Expr(value=ast.Call() as call):
                self.inline(call)

    def assign(self, s: ast.stmt, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Subscript):
            self.store(s, target, value)
        elif isinstance(target, ast.Tuple):
            self.unpack(s, target, value)
        elif isinstance(target, ast.Name):
            if Arrays(self).again(target, value):
                return
            name = self.local(target)
            if name in self.bound:
                raise self.source.refuse(s, f"the loop variable {target.id} is changed", "use another variable")
            if not Arrays(self).make(name, target, value):
                if Slices(self).first(value) is not None:
                    raise self.source.refuse(
                        s, "a new array from an expression", "make it with np.empty, and assign to y[:]"
                    )
                if self.made.ranks.get(name):
                    raise self.source.refuse(s, f"{target.id} becomes a number and was an array", "use another name")
                self.made.ranks.setdefault(name, 0)
                alone = isinstance(value, ast.Call) and self.callee(value) is not None
                self.emit(Assign(name, self.call(value, True) if alone else self.value(value)))  # type: ignore[arg-type]
        else:
            raise self.source.refuse(s, "an assignment to this", "assign to a name or to elements of an array")

    def unpack(self, s: ast.stmt, target: ast.Tuple, value: ast.expr) -> None:
        names = target.elts
        if isinstance(value, ast.Attribute) and value.attr == "shape":
            value = ast.Tuple([parse(f"{unparse(value)}[{k}]") for k in range(len(names))], ast.Load())
        if isinstance(value, ast.Call) and self.callee(value) is not None:
            results = self.inline(value)
            value = ast.Tuple([ast.Name(f"={r}", ast.Load()) for r in results or []], ast.Load())
        if not isinstance(value, ast.Tuple) or len(value.elts) != len(names):
            raise self.source.refuse(s, "this unpacking", "assign the values one by one")
        if all(isinstance(v, ast.Name) and self.made.ranks.get(self.local(v)) for v in value.elts):
            self.swap(s, names, value.elts)
            return
        parts = [self.value(v) for v in value.elts]
        texts = [self.names.fresh("held") for _ in parts] if len(parts) > 1 else []
        written = {unparse(n) for n in names}
        if not any(isinstance(n, ast.Name) and n.id in written for p in parts for n in ast.walk(p)) and all(
            isinstance(n, ast.Name) for n in names
        ):
            texts = []
        for text, part in zip(texts, parts, strict=False):
            self.made.ranks[text] = 0
            self.emit(Assign(text, part))
        for k, n in enumerate(names):
            self.assign(s, n, ast.Name(f"={texts[k]}", ast.Load()) if texts else _Done(parts[k]))

    def swap(self, s: ast.stmt, targets: list[ast.expr], values: list[ast.expr]) -> None:
        a, b = [self.local(t) if isinstance(t, ast.Name) else "" for t in targets], [self.local(v) for v in values]  # type: ignore[arg-type]
        if len(a) != 2 or a != b[::-1] or a[0] == a[1]:
            raise self.source.refuse(s, "arrays given other names", "write a, b = b, a, or copy elements")
        if self.made.ranks[a[0]] != self.made.ranks[a[1]] or self.made.kinds[a[0]] != self.made.kinds[a[1]]:
            raise self.source.refuse(s, "a swap of arrays of different kinds", "use arrays of one rank and dtype")
        if self.inlined:
            raise self.source.refuse(s, "a swap in a function that is called", "swap in the caller")
        message = f"{self.made.name}: {a[0]} and {a[1]} change places and have different shapes"
        self.emit(Check(parse(f"{a[0]}.shape != {a[1]}.shape"), message))
        self.emit(Swap(*a))

    def store(self, s: ast.stmt, target: ast.Subscript, value: ast.expr) -> None:
        element = self.element(target)
        if element is None:
            Slices(self).store(s, target, value)
            return
        self.emit(Store(element.value.id, element.slice, self.value(value)))  # type: ignore[attr-defined]

    def loop(self, s: ast.For | ast.While) -> None:
        line, index, test = self.line, "", None
        bounds: list[ast.expr] = [ast.Constant(0), ast.Constant(0), ast.Constant(1)]
        if isinstance(s, ast.For):
            assert isinstance(s.iter, ast.Call) and isinstance(s.target, ast.Name)
            given: list = [self.value(a) for a in s.iter.args]
            bounds = [ast.Constant(0), given[0], ast.Constant(1)] if len(given) == 1 else [*given, ast.Constant(1)][:3]
            index = self.local(s.target)
            if index in self.bound:
                raise self.source.refuse(
                    s, f"the loop variable {s.target.id} is that of a loop around", "use another one"
                )
            self.made.ranks[index], self.made.kinds[index] = 0, "int"
            self.bound.append(index)
        else:
            before = len(self.out)
            test = self.value(s.test)
            if len(self.out) > before:
                raise self.source.refuse(
                    s, "a call in the test of while", "calculate it before the loop and at its end"
                )
        self.line = ""
        self.stops.append("")
        body = self.block(s.body)
        stop = self.stops.pop()
        if index:
            self.bound.remove(index)
        start, end, step = bounds
        made = Loop(index, start, end, step, test, body, stop, line=line)
        if stop or not index:
            made.count = self.names.fresh("turns")
            self.made.ranks[made.count] = 0
            body.insert(0, Assign(made.count, parse(f"{made.count} + 1")))
            self.out.append(Assign(made.count, ast.Constant(0)))
        if stop and stop != self.returned:
            self.made.ranks[stop] = 0
            self.out.append(Assign(stop, ast.Constant(False)))
        self.out.append(made)

    # Expressions.

    def local(self, node: ast.Name) -> str:
        """What a variable is called in the result."""
        if node.id.startswith("="):
            return node.id[1:]
        if node.id not in self.rename:
            self.rename[node.id] = self.names.fresh(node.id) if self.inlined else node.id
        return self.rename[node.id]

    def value(self, node: ast.expr) -> ast.expr:
        """A number: `node` with names of the result."""
        match node:
            case _Done():
                return node.made
            case ast.Constant():
                if isinstance(node.value, bool | int | float):
                    return ast.Constant(node.value)
            case ast.Name():
                return self.name(node)
            case ast.BinOp():
                return ast.BinOp(self.value(node.left), node.op, self.value(node.right))
            case ast.UnaryOp():
                return ast.UnaryOp(node.op, self.value(node.operand))
            case ast.BoolOp():
                return ast.BoolOp(node.op, [self.value(node.values[0]), *(self.perhaps(v) for v in node.values[1:])])
            case ast.Compare():
                return ast.Compare(self.value(node.left), node.ops, [self.value(c) for c in node.comparators])
            case ast.IfExp():
                return ast.IfExp(self.value(node.test), self.perhaps(node.body), self.perhaps(node.orelse))
            case ast.Subscript():
                found = self.element(node)
                if found is not None:
                    return found
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
        raise self.source.refuse(
            node, f"{unparse(node)} where a number is expected", "use numbers and elements of arrays"
        )

    def perhaps(self, node: ast.expr) -> ast.expr:
        """A number that is not calculated every time."""
        before = len(self.out)
        made = self.value(node)
        if len(self.out) > before:
            raise self.source.refuse(node, "a call or sum that may not be reached", "write if and else as statements")
        return made

    def name(self, node: ast.Name) -> ast.expr:
        if node.id.startswith("=") or node.id in self.locals:
            name = self.local(node)
            if self.made.ranks.get(name):
                raise self.source.refuse(
                    node, f"the whole array {node.id} in arithmetic", "assign to a slice: y[:] = ..."
                )
            if self.made.kinds.get(name) == "int" and name not in self.bound and name in self.loop_variables:
                raise self.source.refuse(
                    node, f"the loop variable {node.id} is read after its loop", "copy it in the loop"
                )
            return ast.Name(name, ast.Load())
        value = self.source.outside.get(node.id)
        if isinstance(value, bool | int | float | np.number):
            return self.constant(node.id, value)
        raise self.source.refuse(node, f"{node.id} is not a variable or a number", "pass it as an argument")

    @property
    def loop_variables(self) -> set[str]:
        loops = (n for n in ast.walk(self.source.node) if isinstance(n, ast.For))
        return {self.local(n.target) for n in loops if isinstance(n.target, ast.Name)}

    def constant(self, name: str, value: object) -> ast.expr:
        """A constant from outside, under its own name where that is free."""
        if self.made.constants.get(name, value) != value or (
            self.inlined and name in self.names.taken - set(self.made.constants)
        ):
            name = self.names.fresh(name)
        self.names.taken.add(name)
        self.made.constants[name] = value
        self.made.ranks.setdefault(name, 0)
        return ast.Name(name, ast.Load())

    def attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id in self.locals and node.attr in ("size", "ndim", "shape"):
            return ast.Attribute(ast.Name(self.local(node.value), ast.Load()), node.attr, ast.Load())
        value = self.source.resolve(node)
        if isinstance(value, bool | int | float | np.number):
            text = FUNCTION_NAMES.get(value) if isinstance(value, float) else None
            owner = self.source.resolve(node.value)
            if owner in (math, np):
                return parse(text or f"{'math' if owner is math else 'np'}.{node.attr}")
            return self.constant(node.attr, value)
        raise self.source.refuse(node, f"the attribute {unparse(node)}", "pass it as an argument")

    def element(self, node: ast.Subscript) -> ast.Subscript | None:
        """``a[i, j]`` with all indices numbers, or ``a.shape[k]``; None for slices."""
        if (
            isinstance(node.value, ast.Attribute)
            and node.value.attr == "shape"
            and isinstance(node.value.value, ast.Name)
        ):
            owner = ast.Attribute(ast.Name(self.local(node.value.value), ast.Load()), "shape", ast.Load())
            return ast.Subscript(owner, self.value(node.slice), ast.Load())
        if not isinstance(node.value, ast.Name):
            raise self.source.refuse(
                node, f"the subscript {unparse(node)}", "index a named array with all indices at once"
            )
        name = self.local(node.value)
        rank = self.made.ranks.get(name, 0)
        if not rank:
            raise self.source.refuse(
                node, f"{node.value.id} is not an array among arguments and locals", "pass it as an argument"
            )
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) > rank:
            raise self.source.refuse(node, f"{len(parts)} indices of an array with {rank} axes", "drop some")
        if len(parts) < rank or any(isinstance(p, ast.Slice) for p in parts):
            return None
        made = [self.value(p) for p in parts]
        return ast.Subscript(
            ast.Name(name, ast.Load()), ast.Tuple(made, ast.Load()) if rank > 1 else made[0], ast.Load()
        )

    # Calls.

    def callee(self, node: ast.Call) -> Callable | None:
        called = self.source.resolve(node.func)
        try:
            if called in FUNCTIONS or called in PASSIVE or called in REDUCE or called in ALLOCATE or called in RANGES:
                return None
        except TypeError:
            return None
        plain = getattr(called, "py_func", called)
        return plain if isinstance(plain, types.FunctionType) else None

    def call(self, node: ast.Call, alone: bool = False) -> ast.expr:
        """A call, `alone` or in an expression: in one, what it writes would be seen too early."""
        if self.callee(node) is not None:
            before = len(self.out)
            results = self.inline(node)
            given = {self.local(a) for a in node.args if isinstance(a, ast.Name)}
            if any(isinstance(s, Store) and s.array in given for s in walk(self.out[before:])) and not alone:
                raise self.source.refuse(
                    node, "a function that writes arrays, called in an expression", "assign its result to a name first"
                )
            if not results or len(results) != 1 or self.made.ranks.get(results[0]):
                raise self.source.refuse(
                    node, "a call that gives no number", "let it return one number, or unpack its tuple"
                )
            return ast.Name(results[0], ast.Load())
        called = self.source.resolve(node.func)
        if called is np.where and len(node.args) == 3:
            return ast.IfExp(*[self.value(a) for a in node.args])
        if called is len and isinstance(node.args[0], ast.Name):
            return ast.Call(ast.Name("len", ast.Load()), [ast.Name(self.local(node.args[0]), ast.Load())], [])
        if called in REDUCE or called is None:
            return Slices(self).reduce(node, called)
        if called in ALLOCATE or node.keywords:
            raise self.source.refuse(node, f"the call {unparse(node)} here", "assign the array to a name of its own")
        name = FUNCTION_NAMES.get(called, "")
        if not name:
            fn: Any = FUNCTIONS[called]
            name = fn.template.partition("(")[0]
            self.made.helpers[name], self.root.source.outside[name] = fn.helpers[name], called
        return ast.Call(parse(name), [self.value(a) for a in node.args], [])

    def inline(self, node: ast.Call) -> list[str] | None:
        """Lower a call of another such function into this one; the names of its results."""
        callee = self.callee(node)
        assert callee is not None
        source = source_of(callee)
        if source.name in self.within:
            raise self.source.refuse(node, "a function that calls itself", "write a loop")
        arguments = source.node.args
        parameters = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        if node.keywords or len(node.args) != len(parameters):
            raise self.source.refuse(node, "a call with keywords or defaults", "pass all arguments by position")
        rename: dict[str, str] = {}
        arrays: list[str] = []
        for p, a in zip(parameters, node.args, strict=True):
            if isinstance(a, ast.Name) and self.made.ranks.get(self.local(a)):
                rename[p] = self.local(a)
                arrays.append(rename[p])
            else:
                rename[p] = self.names.fresh(p)
                self.made.ranks[rename[p]] = 0
                self.emit(Assign(rename[p], self.value(a)))
        if len(set(arrays)) < len(arrays):
            raise self.source.refuse(node, "one array for two parameters", "copy one of them")
        inner = Lowering(source, self.made, rename, self)
        inner.line = self.line
        self.out += inner.function()
        self.line = ""
        return inner.results
