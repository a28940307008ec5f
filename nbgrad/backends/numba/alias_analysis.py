"""Which arrays of a function share no memory, said to LLVM.

Numba does not say. So LLVM puts comparisons of addresses before each loop in vector registers, which take as long as a
short loop itself, and gives up where there are too many arrays. For generated code it is certain: arrays that are
written are arguments of their own (:func:`...loops.arguments.apart`), or made in the function.

An array is followed to its *roots*: an argument, a call that makes an array, or a place where several ways meet. Two
roots share no memory if they begin at other arguments and calls, or if they meet at one place and change places only
(``u, new = new, u`` in a loop).
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from llvmlite import ir as llvm
from numba.core import ir, types
from numba.core.compiler_machinery import register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.typed_passes import NativeLowering

from .direct_calls import ORIGINAL
from .lowering import Elements
from .ssa import WithoutPhis

__all__ = ["ApartLowering", "FindRoots"]

#: What makes an array of its own.
_MAKING = {np.empty, np.zeros, np.ones, np.empty_like, np.zeros_like, np.ones_like, "array.copy"}
_NUMBER = (types.Number, types.Boolean)
_GET = ("getitem", "static_getitem")


class Roots:
    """Where the arrays of a function come from.

    Attributes
    ----------
    meeting : dict of int to list of str
        The roots where several ways meet, by the label of the block.
    """

    def __init__(self, func_ir: ir.FunctionIR, typemap: dict[str, types.Type]) -> None:
        self.typemap = typemap
        self.values: dict[str, Any] = {}
        self.begin: dict[str, frozenset[str] | None] = {}
        places: dict[str, int] = {}
        for label, block in func_ir.blocks.items():
            for s in block.find_insts(ir.Assign):
                name = s.target.name
                if isinstance(typemap.get(name), types.Array):
                    self.values[name] = None if name in self.values else s.value
                    places[name] = label
        self.meeting: dict[int, list[str]] = {}
        for name, value in self.values.items():
            if _is(value, "phi"):
                self.meeting.setdefault(places[name], []).append(name)
        self.exchanged = {frozenset(p) for names in self.meeting.values() for p in combinations(names, 2)}
        while wrong := {p for p in self.exchanged if not self._stay_apart(*p)}:
            self.exchanged -= wrong

    def root(self, name: str) -> str:
        value: Any = self.values.get(name)
        if _is(value, "cast"):
            value = value.value
        return self.root(value.name) if isinstance(value, ir.Var) else name

    def origins(self, root: str) -> frozenset[str] | None:
        """The arguments and calls at which it begins; None if they are not known."""
        if root not in self.begin:
            self.begin[root] = self._origins(root)
        return self.begin[root]

    def _origins(self, root: str) -> frozenset[str] | None:
        found: set[str] = set()
        seen: set[str] = set()
        stack = [root]
        while stack:
            name = self.root(stack.pop())
            if name in seen:
                continue
            seen.add(name)
            value: Any = self.values.get(name)
            if _is(value, "phi"):
                stack += [v.name for v in value.incoming_values if isinstance(v, ir.Var)]
            elif isinstance(value, ir.Arg) or (_is(value, "call") and self._makes(value.func.name)):
                found.add(name)
            else:
                return None
        return frozenset(found)

    def _makes(self, function: str) -> bool:
        """Whether a function makes an array; any other one may give the same array twice."""
        key: Any = getattr(self.typemap[function], "typing_key", None)
        return ORIGINAL.get(key, key) in _MAKING or (isinstance(key, Dispatcher) and key.py_func.__name__ == "grown")

    def apart(self, a: str, b: str) -> bool:
        """Whether two roots share no memory."""
        one, other = self.origins(a), self.origins(b)
        if one is None or other is None:
            return False
        return not one & other or frozenset((a, b)) in self.exchanged

    def _stay_apart(self, a: str, b: str) -> bool:
        """Whether they are apart, whichever way is taken, if those in `exchanged` are."""
        ways = [dict(zip(v.incoming_blocks, v.incoming_values, strict=True)) for v in (self.values[a], self.values[b])]
        return ways[0].keys() == ways[1].keys() and all(
            isinstance(v, ir.Var)
            and isinstance(w := ways[1][block], ir.Var)
            and self.root(v.name) != self.root(w.name)
            and self.apart(self.root(v.name), self.root(w.name))
            for block, v in ways[0].items()
        )


def _is(value: Any, op: str) -> bool:
    return isinstance(value, ir.Expr) and value.op == op


@register_pass(mutates_CFG=True, analysis_only=False)
class FindRoots(WithoutPhis):
    """The pass that undoes phi nodes: they tell where arrays meet."""

    _name = "nbgrad_find_roots"

    def run_pass(self, state):
        state.func_ir.roots = Roots(state.func_ir, state.typemap)
        return super().run_pass(state)


class _Lower(Elements):
    """Numba's translation, with ``alias.scope`` and ``noalias`` for elements that are read and written.

    Vector registers have 256 bits at most, as LLVM chooses itself for most processors that have larger ones: of a short
    loop, less is left that does not fill one.
    """

    def setup_function(self, fndesc):
        super().setup_function(fndesc)
        set.add(self.function.attributes, '"prefer-vector-width"="256"')

    def lower_function_body(self):
        self.roots: Roots = self.func_ir.roots
        self.labels = {id(block): label for label, block in self.func_ir.blocks.items()}
        self.scopes: dict[str, llvm.MDValue] = {}
        used = {n for block in self.func_ir.blocks.values() for s in block.body if (n := self._array_of(s))}
        self.used = sorted({self.roots.root(n) for n in used})
        self.others: dict[str, list[str]] = {
            n: [m for m in self.used if m != n and self.roots.apart(n, m)] for n in self.used
        }
        return super().lower_function_body()

    def _array_of(self, s: ir.Stmt) -> str:
        """The array of which a statement reads or writes one element, or ""."""
        if isinstance(s, ir.SetItem | ir.StaticSetItem):
            array, element = s.target.name, s.value.name
        elif isinstance(s, ir.Assign) and isinstance(s.value, ir.Expr) and s.value.op in _GET:
            array, element = s.value.value.name, s.target.name
        else:
            return ""
        single = isinstance(self.typeof(array), types.Array) and isinstance(self.typeof(element), _NUMBER)
        return array if single else ""

    def pre_block(self, block):
        """Say where roots begin anew: what is said of them holds until then."""
        super().pre_block(block)
        for name in self.roots.meeting.get(self.labels[id(block)], ()):
            if self.others.get(name):
                kind = llvm.FunctionType(llvm.VoidType(), [llvm.MetaDataType()])
                begin = self.module.globals.get("llvm.experimental.noalias.scope.decl") or llvm.Function(
                    self.module, kind, "llvm.experimental.noalias.scope.decl"
                )
                self.builder.call(begin, [self._list([name])])

    def lower_inst(self, inst):
        array, block = self._array_of(inst), self.builder.block
        count = len(block.instructions)
        super().lower_inst(inst)
        name = self.roots.root(array) if array else ""
        if not self.others.get(name) or self.builder.block is not block:
            return
        kind, place = (llvm.LoadInstr, 0) if isinstance(inst, ir.Assign) else (llvm.StoreInstr, 1)
        made = [i for i in block.instructions[count:] if isinstance(i, kind) and _in_array(i.operands[place])]
        if made:
            made[-1].set_metadata("alias.scope", self._list([name]))
            made[-1].set_metadata("noalias", self._list(self.others[name]))

    def _list(self, names: list[str]) -> llvm.MDValue:
        return self.module.add_metadata([self._scope(n) for n in names])

    def _scope(self, name: str) -> llvm.MDValue:
        if name not in self.scopes:
            add, text = self.module.add_metadata, llvm.MetaDataString
            domain = add([text(self.module, self.fndesc.mangled_name)])
            self.scopes[name] = add([text(self.module, f"{self.fndesc.mangled_name} {name}"), domain])
        return self.scopes[name]


def _in_array(pointer) -> bool:
    """Whether it does not point to a variable."""
    while isinstance(pointer, llvm.GEPInstr | llvm.CastInstr):
        pointer = pointer.operands[0]
    return not isinstance(pointer, llvm.AllocaInstr)


@register_pass(mutates_CFG=True, analysis_only=False)
class ApartLowering(NativeLowering):
    """Numba's pass, with that."""

    _name = "nbgrad_apart"
    lowering_class = _Lower
