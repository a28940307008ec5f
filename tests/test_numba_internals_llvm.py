"""The same for Numba's IR, for LLVM code, and for compiled code in other processes."""

import ast
import ctypes
import operator
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from llvmlite import binding
from numba import types
from numba.core.compiler import run_frontend

from nbgrad.backends.numba import internals as n
from nbgrad.backends.numba.intrinsics import Emitter, call_external, call_llvm_intrinsic, intrinsic, llvm, on_gpu

FLOATS = types.Array(types.float64, 1, "C")

# Numba's IR.


def test_statements_are_found_by_their_classes():
    def f(x, k):
        z = y = x[k, 1] + OUTSIDE
        x[k, 0] = -y * z
        if k > 2:
            return x.shape
        return FREE

    FREE = 3
    code = run_frontend(f)
    statements = [s for label in sorted(code.blocks) for s in code.blocks[label].body]
    values = [s.value for s in statements if isinstance(s, n.ir.Assign)]
    assert {type(v) for v in values} == {n.ir.Arg, n.ir.Var, n.ir.Const, n.ir.Global, n.ir.FreeVar, n.ir.Expr}
    expressions = {v.op: v for v in values if isinstance(v, n.ir.Expr)}
    assert {"build_tuple", "binop", "unary", "getattr", "cast"} <= expressions.keys()
    assert (
        expressions["binop"].fn in (operator.add, operator.mul, operator.gt) and expressions["unary"].fn is operator.neg
    )
    assert [item.name for item in expressions["build_tuple"].items] and expressions["getattr"].attr == "shape"
    assert expressions["binop"].static_lhs is n.ir.UNDEFINED is expressions["binop"].static_rhs
    assert sum(isinstance(s, n.ir.SetItem | n.ir.StaticSetItem) for s in statements) == 1
    (branch,) = [s for s in statements if isinstance(s, n.ir.Branch)]
    assert {branch.truebr, branch.falsebr} <= code.blocks.keys() and branch.list_vars() == [branch.cond]
    assert all(isinstance(s, n.ir.Stmt) and isinstance(s, n.ir.Inst) for s in statements)
    assert n.definitions(code)["x"][0].index == 0


OUTSIDE = 2.0


def test_variables_are_replaced_in_statements_and_values():
    code = run_frontend(lambda a, b: a + b)
    block = next(iter(code.blocks.values()))
    (total,) = [s for s in block.find_insts(n.ir.Assign) if getattr(s.value, "op", "") == "binop"]
    c = block.scope.redefine("a", loc=total.loc)
    assert c.name != "a"
    replaced = n.ir_utils.replace_vars_inner(total.value, {"a": c})
    assert {v.name for v in replaced.list_vars()} == {c.name, "b"}
    n.ir_utils.replace_vars_stmt(block.terminator, {block.terminator.value.name: c})
    assert block.terminator.value.name == c.name
    phi = n.ir.Expr.phi(loc=total.loc)
    assert phi.op == "phi" and phi.incoming_values == [] and phi.incoming_blocks == []
    assert n.ir.Assign(phi, c, total.loc).target is c


def test_the_graph_of_blocks_has_dominators_and_frontiers():
    def f(k):
        if k:
            y = 1
        else:
            y = 2
        return y

    blocks = run_frontend(f).blocks
    graph = n.compute_cfg_from_blocks(blocks)
    first, one, other, last = sorted(blocks)
    assert graph.dominators()[last] == {first, last} and graph.immediate_dominators()[last] == first
    assert graph.immediate_dominators()[first] == first
    frontier = graph.dominance_frontier()
    assert set(frontier[one]) == set(frontier[other]) == {last} and not frontier[first]
    assert {label for label, _ in graph.predecessors(last)} == {one, other}


def test_graphs_of_other_nodes_are_ordered_and_have_dominators():
    graph = n.ControlFlowGraph()
    for node in "abcdx":
        graph.add_node(node)
    for edge in ("ab", "ac", "bd", "cd", "db", "xd"):
        graph.add_edge(*edge)
    graph.set_entry_point("a")
    graph.process()
    order = list(graph.topo_order())
    assert order[0] == "a" and set(order) == set("abcd")  # nothing leads to x
    assert graph.immediate_dominators() == {"a": "a", "b": "a", "c": "a", "d": "a"}


# LLVM code.


def lowered(typed, code):
    """An intrinsic of Numba from types and instructions."""

    def definition(context, *kinds):
        signature = typed(*kinds)
        return signature, lambda context, builder, signature, args: code(context, builder, signature, args)

    return n.intrinsic(lambda context, a, b: definition(context, a, b))


def test_intrinsics_have_a_definition_and_may_be_given_a_class():
    made = lowered(lambda a, b: a(a, b), lambda context, builder, signature, args: builder.fadd(*args))
    assert isinstance(made, n.Intrinsic) and callable(n.definition_of(made))

    class Other(type(made)):
        def __call__(self, a, b):
            return "Python"

    made.__class__ = Other
    assert made(1, 2) == "Python" and numba.njit(lambda a, b: made(a, b))(1.0, 2.0) == 3
    assert made in {made: 1}


def test_the_larger_of_two_numbers():
    def code(context, builder, signature, args):
        return n.do_minmax(context, builder, signature.args, args, operator.gt)

    greater = lowered(lambda a, b: types.float64(a, b), code)
    f = numba.njit(lambda a, b: greater(a, b))
    assert f(1, 2.5) == 2.5 and f(np.float32(3), 2) == 3 and f(2.0, np.nan) == max(2.0, np.nan)


def test_elements_are_loaded_and_stored():
    def code(context, builder, signature, args):
        (kind, index), (value, position) = signature.args, args
        array = context.make_array(kind)(context, builder, value)
        sizes, strides = (n.cgutils.unpack_tuple(builder, part, 1) for part in (array.shape, array.strides))
        where = n.fix_integer_index(context, builder, index, position, sizes[0])
        pointer = n.cgutils.get_item_pointer2(context, builder, array.data, sizes, strides, kind.layout, [where])
        element = n.load_item(context, builder, kind, pointer)
        n.store_item(context, builder, kind, context.get_constant(kind.dtype, 1), pointer)
        return element

    swapped = lowered(lambda a, k: a.dtype(a, k), code)
    f = numba.njit(lambda x, k: swapped(x, k))
    for x in [np.arange(2.0, 8.0), np.arange(2.0, 14.0)[::2], np.array([False, False])]:
        expected = x[-1]
        assert f(x, -1) == expected and x[-1] == 1


@pytest.mark.parametrize("like", [False, True])
def test_arrays_are_allocated(like):
    def code(context, builder, signature, args):
        if like:
            array = n.emit_empty_like(context, builder, signature.return_type(signature.args[0]), args[:1])
        else:
            array = n.emit_empty(context, builder, signature.return_type, signature.args[0], args[0])
        n.cgutils.memset(builder, array.data, builder.mul(array.itemsize, array.nitems), 0)
        return array._getvalue()

    made = lowered(lambda a, b: a(a, b) if like else types.Array(types.float32, 2, "C")(a, b), code)
    f = numba.njit(lambda a, b: made(a, b))
    given = np.ones((3, 4), np.float32) if like else (3, 4)
    assert np.array_equal(f(given, 0), np.zeros((3, 4))) and f(given, 0).dtype == np.float32
    if not like:
        with pytest.raises(ValueError, match="negative dimensions"):
            f((-1, 2), 0)


def test_arguments_of_new_arrays_are_understood():
    assert n.parse_shape(types.UniTuple(types.int64, 3)) == 3 and n.parse_shape(types.intp) == 1
    assert n.parse_shape(types.unicode_type) is None
    assert n.parse_dtype(types.DType(types.float32)) == types.float32
    assert n.parse_dtype(types.NumberClass(types.int8)) == types.int8 and n.parse_dtype(types.int8) is None


def test_functions_are_called_as_numba_calls_them():
    """What ``direct_calls.py`` does: a function of its own, whose errors are handed on."""

    def code(context, builder, signature, args):
        convention, module = context.call_conv, builder.module
        kind = convention.get_function_type(signature.return_type, signature.args)
        function = n.llvm.Function(module, kind, "nbgrad_test")
        convention.decorate_function(function, ["a0", "a1"], signature.args)
        body = n.llvm.IRBuilder(function.append_basic_block("entry"))
        packer = context.get_arg_packer(signature.args)
        a, b = packer.from_arguments(body, convention.get_arguments(function))
        with n.cgutils.if_unlikely(body, body.fcmp_ordered("<", a, b)):
            convention.return_user_exc(body, KeyError, ("less",))
        convention.return_value(body, body.fsub(a, b))
        status, result = convention.call_function(builder, function, signature.return_type, signature.args, args)
        with n.cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    made = lowered(lambda a, b: a(a, b), code)
    f = numba.njit(lambda a, b: made(a, b))
    assert f(3.0, 1.0) == 2
    with pytest.raises(KeyError, match="less"):
        f(1.0, 3.0)


def test_dtypes_of_types():
    for name in ("float64", "float32", "int8", "uint64"):
        assert n.as_dtype(getattr(types, name)) == np.dtype(name)
    assert n.as_dtype(types.boolean) == np.bool_


@pytest.mark.parametrize("kind", ["Module", "Function"])
def test_pass_managers_are_freed(kind, monkeypatch):
    n.free_pass_managers()
    freed, dispose = [], f"LLVMPY_DisposeNew{kind}PassManger"
    original = getattr(binding.ffi.lib, dispose)
    recorded = SimpleNamespace(**{dispose: lambda manager: (freed.append(kind), original(manager))})
    manager = getattr(binding.newpassmanagers, f"{kind}PassManager")()
    with monkeypatch.context() as patch:
        patch.setattr(binding.newpassmanagers, "ffi", SimpleNamespace(lib=recorded))
        manager.close()
    assert freed == [kind]


# Intrinsics of nbgrad.


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64))
def callback(text, words):
    return len(text) + words[0] * words[1]


n.add_symbol("nbgrad_test_callback", ctypes.cast(callback, ctypes.c_void_p).value)


@intrinsic(lambda text, pair: types.int64, literal=True)
def call_back(emit, text, pair):
    words = emit.stored(*[emit.cast(v, t, types.int64) for v, t in zip(emit.unpack(pair, 2), emit.types[1])])
    result = emit.external("nbgrad_test_callback", llvm.IntType(64), emit.string(emit.types[0].literal_value), words)
    with emit.builder.if_then(emit.builder.icmp_signed("<", result, result.type(0))):
        emit.raise_error(ArithmeticError)
    return result


@intrinsic(lambda flag, x: types.UniTuple(types.float64, 2), python=lambda flag, x: "Python")
def pair(emit, flag, x):
    assert emit.result.count == 2 and not on_gpu(emit.builder)
    one = emit.builder.select(emit.is_true(emit.types[0], flag), x, emit.constant(emit.types[1], 1.0))
    root = emit.llvm_intrinsic("sqrt", one)
    assert root.type == emit.value_type(types.float64)
    assert call_llvm_intrinsic(emit.builder, "maxnum", [one, root], ("nsz",)).type == root.type
    return emit.pack(emit.result, [root, call_external(emit.builder, "exp2", root.type, [one])])


@intrinsic(lambda x: types.void if isinstance(x, types.Array) else None)
def double_each(emit, x):
    kind = emit.types[0]
    array = emit.array(kind, x)
    assert emit.element_size(kind.dtype) == 8 and emit.element_type(kind.dtype) == array.data.type.pointee
    view = emit.array(FLOATS, emit.array_on(FLOATS, array.data, array.nitems))
    for k in range(2):
        place = emit.builder.gep(view.data, [llvm.IntType(64)(k)])
        emit.builder.store(emit.builder.fmul(emit.builder.load(place), emit.constant(kind.dtype, 2.0)), place)


def test_what_an_emitter_emits():
    @numba.njit
    def f(x, k):
        double_each(x)
        return call_back("abc", (k, x[0])), pair(k > 1, x[1]), pair(0, x[1])

    x = np.array([1.0, 2.0])
    assert f(x, 5) == (3 + 5 * 2, (2.0, 2.0**4.0), (1.0, 2.0)) and x.tolist() == [2, 4]
    with pytest.raises(ArithmeticError):
        f(np.array([1.0, 2.0]), -50)
    assert pair(True, 1.0) == "Python"
    with pytest.raises(NotImplementedError):
        double_each(x)
    with pytest.raises(n.NumbaError):
        numba.njit(lambda x: double_each(x))(1)
    public = {name for name, value in vars(Emitter).items() if callable(value) and not name.startswith("_")}
    assert public <= spelled("emit")


def test_views_do_not_own_their_memory():
    own = n.intrinsic(lambda context, x: (FLOATS(FLOATS), view))
    x = np.arange(4.0)
    assert numba.njit(lambda x: own(x)[1:3].sum())(x) == 3


def view(context, builder, signature, args):
    given = context.make_array(FLOATS)(context, builder, args[0])
    made = context.make_array(FLOATS)(context, builder)
    n.populate_array(made, given.data, given.shape, given.strides, given.itemsize, None)
    return made._getvalue()


# Optimization.


def test_code_can_be_optimized_again_without_vectorised_loops():
    def chosen(m, x, y):
        for i in range(x.size):
            if m[i] > 0:
                y[i] += x[i]

    seen = []

    def compiler(answer):
        class Asking(n.Compiler):
            def define_pipelines(self):
                n.vectorize_unless(self.state, lambda code: seen.append(code) or answer)
                return super().define_pipelines()

        return Asking

    m, x = np.arange(40) % 2, np.ones(40)
    kinds = types.Array(types.int64, 1, "C"), FLOATS, FLOATS
    for answer in (False, True):
        made = numba.njit(chosen, pipeline_class=compiler(answer))
        made.compile(kinds)
        y = np.zeros(40)
        made(m, x, y)
        assert y.tolist() == m.tolist()
        assert not (answer and "@llvm.masked." in made.inspect_llvm(kinds))
    assert any("@llvm.masked.load." in code for code in seen)
    assert (binding.llvm_version_info[0] >= 22) == n.MOVES_MASKED_LOADS


def test_llvm_code_of_ours_is_packed_and_unpacked():
    def emit(context, module):
        integer = n.llvm.IntType(64)
        function = n.llvm.Function(module, n.llvm.FunctionType(integer, [integer]), "test_thrice")
        builder = n.llvm.IRBuilder(function.append_basic_block())
        builder.ret(builder.mul(function.args[0], integer(3)))

    thrice = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    library = n.native_library("test_thrice", emit)
    again = n.unpacked_library(n.packed_library(library))
    for code in (library, again):
        assert thrice(code.get_pointer_to_function("test_thrice"))(5) == 15


# Compiled code in other processes.


class NoCache(n.NullCache):
    def load_overload(self, sig, target_context):
        return None


def code_of(function, *kinds, **options):
    made = function if isinstance(function, n.Dispatcher) else numba.njit(function, **options)
    n.use_cache(made, NoCache())
    made.compile(kinds)
    return made.overloads[kinds]


def test_functions_have_numbers_that_can_be_set():
    result = code_of(lambda x: x + 1, types.float64)
    number = max(n.function_numbers(result))
    n.number_functions_from(number + 1000)  # none twice
    assert max(n.function_numbers(code_of(lambda x: x + 1, types.float64))) >= number + 1000


def test_code_that_runs_in_this_process_alone_is_known():
    large = np.ones(2_000_000)
    assert n.dynamic_globals(code_of(lambda k: large[k], types.int64))
    assert n.dynamic_globals(code_of(lambda k: k + 1, types.int64)) == []
    plain = code_of(lambda k: k + 1, types.int64)
    assert not plain.lifted and not plain.objectmode


def test_code_can_be_called_by_a_symbol():
    half = numba.njit(lambda x: x / 2)
    result = code_of(half, types.float64)
    n.add_symbol("nbgrad_test_half", n.kernel_address(result))
    mark = "numba.dynamic.globals.test_half"
    n.replace_in_target(half.targetctx, result, n.call_by_symbol(result, "nbgrad_test_half", mark))
    quarter = numba.njit(lambda x: half(half(x)))
    caller = code_of(quarter, types.float64)
    assert quarter(8.0) == 2.0
    assert n.dynamic_globals(caller) == [mark]
    assert "nbgrad_test_half" not in [f.name for f in caller.library.get_defined_functions()]
    outer = numba.njit(lambda x: quarter(x) + 1)
    assert outer(8.0) == 3.0 and mark in n.dynamic_globals(code_of(outer, types.float64))


@numba.njit
def even(k):
    return True if k == 0 else odd(k - 1)


@numba.njit
def odd(k):
    return False if k == 0 else even(k - 1)


def test_code_that_is_linked_when_it_runs_is_known():
    assert n.links_at_runtime(code_of(even, types.int64))
    assert not n.links_at_runtime(code_of(lambda k: k + 1, types.int64))


LOAD = """
import sys, numpy as np
from nbgrad.backends.numba.internals import unpacked
result = unpacked(sys.stdin.buffer.read())
print(result.entry_point(np.arange(4.0), 3), result.signature)
"""


@pytest.mark.parametrize("allocates", [False, True])
def test_code_is_stored_and_loaded_in_another_process(allocates):
    def plain(x, k):
        return x[k] * 2

    def allocating(x, k):
        return (x * 2)[k]

    result = code_of(allocating if allocates else plain, FLOATS, types.int64)
    payload = n.packed(result)
    assert isinstance(payload, bytes) and isinstance(n.unpacked(payload), n.CompileResult)
    out = subprocess.run(
        [sys.executable, "-c", LOAD], input=payload, capture_output=True, check=True, cwd=Path(__file__).parent
    )
    assert out.stdout.decode().split()[0] == "6.0"
    with pytest.raises((AttributeError, TypeError, ValueError, pickle.PicklingError, OSError)):
        n.packed(numba.njit(lambda x: x)._compiler)


# The list.


def spelled(name):
    """The attributes of a name that these files spell."""
    files = [Path(__file__).with_name(f"test_numba_internals{end}.py") for end in ("", "_llvm")]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    return {node.attr for node in attributes if node.value.id == name}


def test_each_entry_has_a_test():
    assert set(n.__all__) <= spelled("n")
