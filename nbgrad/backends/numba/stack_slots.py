"""Stack slots: zero each where it is used.

Numba zeroes all stack slots in a function's entry block. LLVM turns the fields of a slot into values, and where a field
is set in the entry block and in another one, it looks for phi nodes in all blocks. In a function of thousands of blocks
and slots this took 20 times as long as the rest of LLVM's pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import pairwise

from .internals import ControlFlowGraph, llvm

__all__ = ["zero_where_used"]


def zero_where_used(function: llvm.Function, variables: Set[int]) -> None:
    """Zero temporary slots before their first use, if the block of that use dominates all other ones.

    The slots of variables, whose ids are `variables`, stay as they are: a loop may leave values in them for its next
    iteration.
    """
    entry = function.entry_basic_block
    zeroed = {
        id(slot): store
        for slot, store in pairwise(entry.instructions)
        if isinstance(slot, llvm.AllocaInstr)
        and isinstance(store, llvm.StoreInstr)
        and store.operands[1] is slot
        and id(slot) not in variables
    }
    initial = {id(store) for store in zeroed.values()}
    uses: dict[int, dict[llvm.Block, int]] = {slot: {} for slot in zeroed}  # the first in each block
    for block in function.blocks:
        for k, instruction in enumerate(block.instructions):
            if id(instruction) not in initial:
                for slot in _slots(instruction):
                    if slot in uses:
                        uses[slot].setdefault(block, k)
    graph = _flow_graph(function)
    order, above = {block: k for k, block in enumerate(graph.topo_order())}, graph.immediate_dominators()
    moved: dict[llvm.Block, dict[int, list[llvm.Instruction]]] = {}
    for slot, indices in uses.items():
        if indices and all(block in order for block in indices):
            first = min(indices, key=order.__getitem__)
            if first is not entry and all(_dominates(first, block, order, above) for block in indices):
                moved.setdefault(first, {}).setdefault(indices[first], []).append(zeroed[slot])
    stores = {id(store) for by_index in moved.values() for several in by_index.values() for store in several}
    entry.instructions[:] = [i for i in entry.instructions if id(i) not in stores]
    for block, by_index in moved.items():
        block.instructions[:] = [
            i for k, instruction in enumerate(block.instructions) for i in (*by_index.get(k, ()), instruction)
        ]


def _slots(instruction: llvm.Instruction) -> Iterator[int]:
    """The ids of the slots that an instruction uses."""
    values = [v for v, _ in instruction.incomings] if isinstance(instruction, llvm.PhiInstr) else instruction.operands
    return (id(value) for value in values if isinstance(value, llvm.AllocaInstr))


def _flow_graph(function: llvm.Function) -> ControlFlowGraph:
    """The control flow graph of the blocks that can be reached."""
    graph = ControlFlowGraph()
    for block in function.blocks:
        graph.add_node(block)
    for block in function.blocks:
        for following in _successors(block):
            graph.add_edge(block, following)
    graph.set_entry_point(function.entry_basic_block)
    graph.process()
    return graph


def _dominates(a: llvm.Block, b: llvm.Block, order: dict[llvm.Block, int], above: dict[llvm.Block, llvm.Block]) -> bool:
    while order[b] > order[a]:
        b = above[b]
    return a is b


def _successors(block: llvm.Block) -> list[llvm.Block]:
    terminator = block.terminator
    if isinstance(terminator, llvm.SwitchInstr):
        return [terminator.default, *(target for _, target in terminator.cases)]
    return [operand for operand in terminator.operands if isinstance(operand, llvm.Block)]
