"""Stack slots of compiled functions: where they are zeroed, and the references that they hold."""

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

import nbgrad as nb
from nbgrad.backends.numba.internals import llvm
from nbgrad.backends.numba.stack_slots import zero_where_used

I64 = llvm.IntType(64)
PAIR = llvm.LiteralStructType([I64, I64])


class Function:
    """A function of the blocks entry, head, left, right and end; head branches to left and right, end to head."""

    def __init__(self):
        self.ir = llvm.Function(llvm.Module(), llvm.FunctionType(llvm.VoidType(), [llvm.IntType(1)]), "f")
        names = ("entry", "head", "left", "right", "end", "done")
        self.blocks = {name: self.ir.append_basic_block(name) for name in names}
        self.slots = {}

    def slot(self, name):
        """A slot, zeroed in the entry block as Numba does it."""
        builder = llvm.IRBuilder(self.blocks["entry"])
        self.slots[name] = builder.alloca(PAIR, name=name)
        builder.store(PAIR(None), self.slots[name])

    def use(self, block, name):
        llvm.IRBuilder(self.blocks[block]).load(self.slots[name])

    def close(self):
        b = self.blocks
        flag = self.ir.args[0]
        llvm.IRBuilder(b["entry"]).branch(b["head"])
        llvm.IRBuilder(b["head"]).cbranch(flag, b["left"], b["right"])
        llvm.IRBuilder(b["left"]).branch(b["end"])
        llvm.IRBuilder(b["right"]).branch(b["end"])
        llvm.IRBuilder(b["end"]).cbranch(flag, b["head"], b["done"])
        llvm.IRBuilder(b["done"]).ret_void()

    def zeroed(self, name):
        """The block that zeroes a slot, and whether each use there comes later."""
        (found,) = (
            (label, k)
            for label, block in self.blocks.items()
            for k, i in enumerate(block.instructions)
            if isinstance(i, llvm.StoreInstr) and i.operands[1] is self.slots[name]
        )
        label, k = found
        uses = [j for j, i in enumerate(self.blocks[label].instructions) if isinstance(i, llvm.LoadInstr) and
                i.operands[0] is self.slots[name]]  # fmt: skip
        return label, all(j > k for j in uses)


@pytest.mark.parametrize(
    ("users", "block"),
    [
        (["left"], "left"),
        (["left", "left"], "left"),
        (["head", "left", "right", "end"], "head"),
        (["end", "done"], "end"),
        (["left", "right"], "entry"),
        (["left", "end"], "entry"),
        (["entry", "left"], "entry"),
        ([], "entry"),
    ],
)
def test_a_slot_is_zeroed_in_the_block_that_dominates_its_uses(users, block):
    f = Function()
    f.slot("other")
    f.slot("slot")
    for user in users:
        f.use(user, "other")
        f.use(user, "slot")
    f.close()
    zero_where_used(f.ir, set())
    for name in ("slot", "other"):
        assert f.zeroed(name) == (block, True)


def test_slots_of_variables_stay_zeroed_in_the_entry_block():
    """A loop may leave values in them for its next iteration."""
    f = Function()
    f.slot("variable")
    f.slot("temporary")
    f.use("left", "variable")
    f.use("left", "temporary")
    f.close()
    zero_where_used(f.ir, {id(f.slots["variable"])})
    assert f.zeroed("variable") == ("entry", True)
    assert f.zeroed("temporary") == ("left", True)


def many_arrays(x, n):
    """Raises in the middle, where it has arrays, views of them, and arrays of loops that end at once."""
    total = 0.0
    kept = x * 2.0
    for i in range(n):
        y = x * i
        z = y[1:] + kept[:-1]
        if i == 3:
            raise ValueError("three")
        u = np.empty(2)
        u[0], u[1] = z[0], y[0]
        total += z[0] * np.sum(z @ np.outer(z, y)) + np.linalg.norm(u)
    return total + kept @ x


@pytest.mark.parametrize("transform", ["value_and_grad", "hvp", "jvp"])
def test_no_array_is_kept(transform):
    x = np.array([0.3, -1.0, 0.7, 0.2])

    def call(n):
        if transform == "jvp":
            return nb.tangent(many_arrays).jvp((x, n), (np.ones(4), None))
        if transform == "hvp":
            return nb.adjoint(many_arrays).hvp((x, n), (np.ones(4), None))
        return nb.adjoint(many_arrays).value_and_grad(x, n)

    def held():
        stats = rtsys.get_allocation_stats()
        return stats.alloc - stats.free

    _nrt_python.memsys_enable_stats()
    call(3)
    before = held()
    call(3)
    assert held() == before
    for _ in range(5):
        with pytest.raises(ValueError, match="three"):
            call(4)
    assert held() == before
