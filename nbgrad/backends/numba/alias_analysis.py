"""Alias analysis: tell LLVM which arrays of a generated function do not alias (``alias.scope``, ``noalias``).

Numba gives no such metadata, so LLVM guards each vectorised loop by address comparisons, which take as long as a short
loop itself, and gives up where there are too many arrays. For generated code the answer is known: arrays that are
written are arguments that do not overlap (:func:`...loops.arguments.check_no_aliasing`), or allocated in the function.

Each array is traced to its *root*: an argument, an allocation, or a phi node. Two roots do not alias if they originate
from disjoint sets of arguments and allocations, or if they are phi nodes of one block that are only swapped
(``u, new = new, u`` in a loop).
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numba import types

from .direct_calls import REPLACED_FUNCTION
from .internals import Dispatcher, NativeLowering, ir, llvm, register_pass
from .lowering import ElementLowering
from .ssa import SsaDestruction

__all__ = ["AliasRootAnalysis", "NoAliasLowering"]

#: Functions that allocate an array.
_ALLOCATORS = {np.empty, np.zeros, np.ones, np.empty_like, np.zeros_like, np.ones_like, "array.copy"}
_SCALAR_TYPES = (types.Number, types.Boolean)
_GET = ("getitem", "static_getitem")


class AliasRoots:
    """The roots of the arrays of a function.

    Attributes
    ----------
    phi_roots : dict of int to list of str
        The phi nodes of arrays, by the label of their block.
    """

    def __init__(self, func_ir: ir.FunctionIR, typemap: dict[str, types.Type]) -> None:
        self.typemap = typemap
        self.values: dict[str, Any] = {}
        self.begin: dict[str, frozenset[str] | None] = {}
        labels: dict[str, int] = {}
        for label, block in func_ir.blocks.items():
            for s in block.find_insts(ir.Assign):
                name = s.target.name
                if isinstance(typemap.get(name), types.Array):
                    self.values[name] = None if name in self.values else s.value
                    labels[name] = label
        self.phi_roots: dict[int, list[str]] = {}
        for name, value in self.values.items():
            if _is(value, "phi"):
                self.phi_roots.setdefault(labels[name], []).append(name)
        self.swapped_pairs = {frozenset(p) for names in self.phi_roots.values() for p in combinations(names, 2)}
        while aliasing := {p for p in self.swapped_pairs if not self._incoming_no_alias(*p)}:
            self.swapped_pairs -= aliasing

    def root(self, name: str) -> str:
        """Follow copies and casts to the argument, allocation or phi node that an array is."""
        value: Any = self.values.get(name)
        if _is(value, "cast"):
            value = value.value
        return self.root(value.name) if isinstance(value, ir.Var) else name

    def origins(self, root: str) -> frozenset[str] | None:
        """The arguments and allocations that may reach a root; None if unknown."""
        if root not in self.begin:
            self.begin[root] = self._origins(root)
        return self.begin[root]

    def _origins(self, root: str) -> frozenset[str] | None:
        origins: set[str] = set()
        seen: set[str] = set()
        worklist = [root]
        while worklist:
            name = self.root(worklist.pop())
            if name in seen:
                continue
            seen.add(name)
            value: Any = self.values.get(name)
            if _is(value, "phi"):
                worklist += [v.name for v in value.incoming_values if isinstance(v, ir.Var)]
            elif isinstance(value, ir.Arg) or (_is(value, "call") and self._allocates(value.func.name)):
                origins.add(name)
            else:
                return None
        return frozenset(origins)

    def _allocates(self, function: str) -> bool:
        """Whether a function allocates its result; any other function may return the same array twice."""
        key: Any = getattr(self.typemap[function], "typing_key", None)
        return REPLACED_FUNCTION.get(key, key) in _ALLOCATORS or (
            isinstance(key, Dispatcher) and key.py_func.__name__ == "grown"
        )

    def no_alias(self, a: str, b: str) -> bool:
        """Whether two roots do not alias."""
        one, other = self.origins(a), self.origins(b)
        if one is None or other is None:
            return False
        return not one & other or frozenset((a, b)) in self.swapped_pairs

    def _incoming_no_alias(self, a: str, b: str) -> bool:
        """Whether two phi nodes do not alias on any incoming edge, assuming that the pairs in `swapped_pairs` do
        not."""
        incoming = [
            dict(zip(v.incoming_blocks, v.incoming_values, strict=True)) for v in (self.values[a], self.values[b])
        ]
        return incoming[0].keys() == incoming[1].keys() and all(
            isinstance(v, ir.Var)
            and isinstance(w := incoming[1][block], ir.Var)
            and self.root(v.name) != self.root(w.name)
            and self.no_alias(self.root(v.name), self.root(w.name))
            for block, v in incoming[0].items()
        )


def _is(value: Any, op: str) -> bool:
    return isinstance(value, ir.Expr) and value.op == op


@register_pass(mutates_CFG=True, analysis_only=False)
class AliasRootAnalysis(SsaDestruction):
    """Find the roots of arrays, just before phi nodes are removed."""

    _name = "nbgrad_find_roots"

    def run_pass(self, state):
        state.func_ir.roots = AliasRoots(state.func_ir, state.typemap)
        return super().run_pass(state)


class _Lower(ElementLowering):
    """Lowering with ``alias.scope`` and ``noalias`` on loads and stores of elements.

    Vectors have at most 256 bits, LLVM's own choice on most processors that have wider ones: short loops then leave
    fewer elements to the scalar remainder.
    """

    def setup_function(self, fndesc):
        super().setup_function(fndesc)
        set.add(self.function.attributes, '"prefer-vector-width"="256"')

    def lower_function_body(self):
        self.roots: AliasRoots = self.func_ir.roots
        self.labels = {id(block): label for label, block in self.func_ir.blocks.items()}
        self.scopes: dict[str, llvm.MDValue] = {}
        used = {n for block in self.func_ir.blocks.values() for s in block.body if (n := self._array_of(s))}
        self.used = sorted({self.roots.root(n) for n in used})
        self.others: dict[str, list[str]] = {
            n: [m for m in self.used if m != n and self.roots.no_alias(n, m)] for n in self.used
        }
        return super().lower_function_body()

    def _array_of(self, s: ir.Stmt) -> str:
        """The array whose single element a statement reads or writes, or ""."""
        if isinstance(s, ir.SetItem | ir.StaticSetItem):
            array, element = s.target.name, s.value.name
        elif isinstance(s, ir.Assign) and isinstance(s.value, ir.Expr) and s.value.op in _GET:
            array, element = s.value.value.name, s.target.name
        else:
            return ""
        single = isinstance(self.typeof(array), types.Array) and isinstance(self.typeof(element), _SCALAR_TYPES)
        return array if single else ""

    def pre_block(self, block):
        """Declare the scopes of a block's phi nodes: their metadata holds for one execution of the block."""
        super().pre_block(block)
        for name in self.roots.phi_roots.get(self.labels[id(block)], ()):
            if self.others.get(name):
                kind = llvm.FunctionType(llvm.VoidType(), [llvm.MetaDataType()])
                declare = self.module.globals.get("llvm.experimental.noalias.scope.decl") or llvm.Function(
                    self.module, kind, "llvm.experimental.noalias.scope.decl"
                )
                self.builder.call(declare, [self._list([name])])

    def lower_inst(self, inst):
        array, block = self._array_of(inst), self.builder.block
        count = len(block.instructions)
        super().lower_inst(inst)
        name = self.roots.root(array) if array else ""
        if not self.others.get(name) or self.builder.block is not block:
            return
        kind, operand = (llvm.LoadInstr, 0) if isinstance(inst, ir.Assign) else (llvm.StoreInstr, 1)
        accesses = [i for i in block.instructions[count:] if isinstance(i, kind) and _in_array(i.operands[operand])]
        if accesses:
            accesses[-1].set_metadata("alias.scope", self._list([name]))
            accesses[-1].set_metadata("noalias", self._list(self.others[name]))

    def _list(self, names: list[str]) -> llvm.MDValue:
        return self.module.add_metadata([self._scope(n) for n in names])

    def _scope(self, name: str) -> llvm.MDValue:
        if name not in self.scopes:
            add, string = self.module.add_metadata, llvm.MetaDataString
            domain = add([string(self.module, self.fndesc.mangled_name)])
            self.scopes[name] = add([string(self.module, f"{self.fndesc.mangled_name} {name}"), domain])
        return self.scopes[name]


def _in_array(pointer) -> bool:
    """Whether a pointer is into an array, not to a stack variable."""
    while isinstance(pointer, llvm.GEPInstr | llvm.CastInstr):
        pointer = pointer.operands[0]
    return not isinstance(pointer, llvm.AllocaInstr)


@register_pass(mutates_CFG=True, analysis_only=False)
class NoAliasLowering(NativeLowering):
    """Numba's lowering pass, with alias metadata."""

    _name = "nbgrad_apart"
    lowering_class = _Lower
