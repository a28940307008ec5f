"""Lowering: Numba IR to LLVM IR, with a fast path for array elements and scalar operations.

For each ``a[i, j]`` Numba copies the whole array structure and looks up an implementation, as it does for each
``x + y``; and all variables are on the stack until LLVM promotes them to registers. Here only the fields that an access
needs are read, implementations are cached, and values are passed on directly. Lowering and LLVM's first passes take
half the time.
"""

from __future__ import annotations

from numba import types

from .internals import (
    Lower,
    cgutils,
    compute_cfg_from_blocks,
    definitions,
    fix_integer_index,
    ir,
    load_item,
    store_item,
)
from .ssa import definitions_and_uses
from .stack_slots import zero_where_used
from .value_range import LowerBounds

__all__ = ["ElementLowering"]


class ElementLowering(Lower):
    """Lower elements of numeric arrays and scalar operations directly.

    A variable with one definition, which dominates all its uses, is a value rather than a load from the stack."""

    def init(self):
        super().init()
        self._operations = {}
        self._values = {}
        self._arrays = {}
        self._references = {}
        self._bounds = LowerBounds(definitions(self.func_ir))
        self._tapes: frozenset[str] = getattr(self.func_ir.func_id.func, "tapes", frozenset())
        before = compute_cfg_from_blocks(self.blocks).dominators()
        sets, uses = definitions_and_uses(self.blocks)
        self._once = {
            name
            for name, where in sets.items()
            if len(where) == 1
            and all(where[0][0] in before[label] and where[0] < (label, k) for label, k in uses.get(name, ()))
        }  # blocks are lowered in the order of their labels

    def lower_normal_function(self, fndesc):
        super().lower_normal_function(fndesc)
        zero_where_used(self.function, {id(slot) for slot in (*self.varmap.values(), *self._references.values())})

    def pre_block(self, block):
        super().pre_block(block)
        self._raises = isinstance(block.terminator, ir.StaticRaise)

    def lower_inst(self, inst):
        super().lower_inst(inst)
        if isinstance(inst, ir.Branch) and self._grows(self.blocks[inst.truebr]):
            self.builder.block.terminator.set_weights([1, 1000])  # or else registers are spilled in every iteration

    @staticmethod
    def _grows(block):
        """Whether a block grows an array, which is rare."""
        values = (s.value for s in block.body if isinstance(s, ir.Assign))
        return any(isinstance(v, ir.Global) and v.name == "grown" for v in values)

    def storevar(self, value, name, argidx=None):
        if not self._is_value(name):
            super().storevar(value, name, argidx)
        if name in self._once:
            self._values[name] = value
            if isinstance(array := self.typeof(name), types.Array):
                position = self.context.data_model_manager[array].get_field_position
                extract = self.builder.extract_value
                each = [[extract(value, (position(f), d)) for d in range(array.ndim)] for f in ("shape", "strides")]
                self._arrays[name] = extract(value, position("data")), *each
                self._release(name)  # the one of the iteration before
                self.builder.store(extract(value, position("meminfo")), self._reference(name))

    def loadvar(self, name):
        value = self._values.get(name)
        return super().loadvar(name) if value is None else value

    def delvar(self, name):
        if not self._is_value(name):
            super().delvar(name)
        elif isinstance(self.typeof(name), types.Array):
            self._release(name)
            if not self._raises:
                slot = self._reference(name)
                self.builder.store(slot.type.pointee(None), slot)
        # Other slots would be zeroed, which tells LLVM that their values are dead.

    def _is_value(self, name):
        """Whether a variable needs no stack slot: it has one definition, and references to release only as an array."""
        kind = self.typeof(name)
        plain = not self.context.data_model_manager[kind].contains_nrt_meminfo()
        return name in self._once and (plain or isinstance(kind, types.Array))

    def _reference(self, name):
        """The stack slot of the reference that an array holds; null before it is set, and after it is released.

        Where a function raises, it releases all arrays that it has. With a slot for the whole structure, whose ten
        fields are loaded and zeroed in each such place, LLVM's first passes took half as long again."""
        if name not in self._references:
            self._references[name] = cgutils.alloca_once(self.builder, cgutils.voidptr_t, name=name)
        return self._references[name]

    def _release(self, name):
        self.decref(types.MemInfoPointer(types.voidptr), self.builder.load(self._reference(name)))

    def lower_expr(self, resty, expr):
        if expr.op == "getattr" and expr.attr == "shape" and expr.value.name in self._arrays:
            return self.context.make_tuple(self.builder, resty, self._arrays[expr.value.name][1])
        return super().lower_expr(resty, expr)

    def lower_binop(self, resty, expr, op):
        signature = self.fndesc.calltypes[expr]
        static = expr.static_lhs is not ir.UNDEFINED or expr.static_rhs is not ir.UNDEFINED
        if static or not all(isinstance(kind, types.Number) for kind in signature.args):
            return super().lower_binop(resty, expr, op)
        key = op, signature.args
        if key not in self._operations:
            function = self.context.typing_context.resolve_value_type(op)
            resolved = function.get_call_type(self.context.typing_context, signature.args, {})
            self._operations[key] = self.context.get_function(function, resolved)
        sides = [self._cast_var(v, kind) for v, kind in zip((expr.lhs, expr.rhs), signature.args, strict=True)]
        result = self._operations[key](self.builder, sides)
        return self.context.cast(self.builder, result, signature.return_type, resty)

    def lower_getitem(self, resty, expr, value, index, signature):
        if not self._is_element(value.name, signature):
            return super().lower_getitem(resty, expr, value, index, signature)
        element = load_item(self.context, self.builder, signature.args[0], self._element(value, index, signature))
        return self.context.cast(self.builder, element, signature.return_type, resty)

    def lower_setitem(self, target_var, index_var, value_var, signature):
        if not self._is_element(target_var.name, signature):
            return super().lower_setitem(target_var, index_var, value_var, signature)
        array, _, kind = signature.args
        value = self.context.cast(self.builder, self._cast_var(value_var, kind), kind, array.dtype)
        return store_item(self.context, self.builder, array, value, self._element(target_var, index_var, signature))

    def _is_element(self, name, signature):
        """Whether an access is to a single numeric element, without bounds checks."""
        array, index = signature.args[:2]
        parts = index.types if isinstance(index, types.BaseTuple) else (index,)
        return (
            isinstance(array, types.Array)
            and self.typeof(name) == array
            and isinstance(array.dtype, types.Number | types.Boolean)
            and len(parts) == array.ndim
            and all(isinstance(part, types.Integer) for part in parts)
            and all(isinstance(kind, types.Number | types.Boolean) for kind in signature.args[2:])
            and not self.context.enable_boundscheck
        )

    def _element(self, var, index, signature):
        """The address of an element."""
        context, builder = self.context, self.builder
        array, kind = signature.args[:2]
        packed = self._cast_var(index, kind)
        several = isinstance(kind, types.BaseTuple)
        kinds = kind.types if several else (kind,)
        values = cgutils.unpack_tuple(builder, packed, len(kinds)) if several else [packed]
        data, shape, strides = self._parts(var.name, array)
        tape = var.name.split(".")[0] in self._tapes  # without its SSA version
        bounds = [0] * len(kinds) if tape else self._bounds.items(index.name, len(kinds))
        indices = [
            context.cast(builder, value, kind, types.intp)
            if lower >= 0
            else fix_integer_index(context, builder, kind, value, size)
            for kind, value, size, lower in zip(kinds, values, shape, bounds, strict=True)
        ]
        return cgutils.get_item_pointer2(context, builder, data, shape, strides, array.layout, indices)

    def _parts(self, name, array):
        """An array's data pointer, its shape, and its strides if they are needed."""
        if name in self._arrays:
            return self._arrays[name]
        builder = self.builder
        struct = cgutils.create_struct_proxy(array)(self.context, builder, ref=self.getvar(name))

        def each(field):
            start = struct._get_ptr_by_name(field)
            return [builder.load(cgutils.gep_inbounds(builder, start, 0, d)) for d in range(array.ndim)]

        return struct.data, each("shape"), each("strides") if array.layout == "A" else ()
