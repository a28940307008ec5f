"""What nbgrad relies on in Numba's internals: one test for each contract of ``backends/numba/internals.py``.

``make numba-versions`` runs this file with each version of Numba that is supported. What fails there says which
assumption does not hold in that version, and ``internals.py`` is where it is put right.
"""

import operator
import sys
import threading
import weakref

import llvmlite
import numba
import numpy as np
import pytest
from numba import types

from nbgrad.backends.numba import internals as n
from nbgrad.backends.numba.compile import _HELPER_OPTIONS, _OPTIONS, Kernel

FLOATS = types.Array(types.float64, 1, "C")


# Versions, the processor, and locks.


def test_versions_and_the_processor_are_known():
    assert (numba.__version__, llvmlite.__version__) == n.VERSIONS
    name, features = n.host_processor()
    assert name and "+" in features


@pytest.mark.parametrize("lock", [n.COMPILER_LOCK, n.LLVM_LOCK])
def test_locks_are_reentrant_and_know_their_owner(lock):
    if lock is None:
        assert hasattr(llvmlite.binding.ffi, "lib")  # this llvmlite needs no lock
        return
    seen = []
    with lock, lock:
        assert lock._is_owned()
        other = threading.Thread(target=lambda: seen.append((lock._is_owned(), lock.acquire(blocking=False))))
        other.start()
        other.join()
    assert not lock._is_owned() and seen == [(False, False)]


def test_compilations_are_announced_nested_and_under_the_lock():
    inner = numba.njit(lambda x: x + 1)
    outer = numba.njit(lambda x: inner(x) * 2)
    events = []

    def note(what):
        return lambda f: f in (inner, outer) and events.append((what, f is inner, n.COMPILER_LOCK._is_owned()))

    n.on_compilation(note("start"), note("end"))
    assert outer(1) == 4 and outer(1) == 4
    pairs = [("start", False), ("start", True), ("end", True), ("end", False)]
    assert events == [(*pair, True) for pair in pairs]


# Dispatchers.


def test_dispatchers_have_their_functions_options_and_code():
    def f(x):
        return x + 1

    made = numba.njit(f, nogil=True)
    assert isinstance(made, n.Dispatcher) and type(made) is n.CPUDispatcher
    assert made.py_func is f and made.targetoptions["nogil"] is True and made.overloads == {}
    assert weakref.ref(made)() is made and {made: 1}[made] == 1
    made.compile((types.float64,))
    (result,) = made.overloads.values()
    assert list(made.overloads) == [(types.float64,)] and isinstance(result, n.CompileResult)
    assert result.signature.return_type == types.float64 and result.entry_point(1.5) == 2.5 and result.library

    class Other(n.CPUDispatcher):
        def __call__(self, *args):
            return -super().__call__(*args)

    made.__class__ = Other
    assert made(1.5) == -2.5


def test_options_are_known():
    """Those of kernels, which Numba does not document."""
    options = {**_OPTIONS, **_HELPER_OPTIONS, "pipeline_class": n.Compiler}
    given = numba.njit(lambda x: x + 1, forceinline=True, fastmath={"contract"}, **options)
    given.compile((types.float64,))
    text = given.inspect_llvm(given.signatures[0])
    assert "cfunc." not in text and "cpython." not in text and "alwaysinline" in text
    x = np.zeros(3)
    entry = Kernel("fill", lambda: fill, lambda: "", False)._compile((FLOATS, types.int64))
    before = sys.getrefcount(x)
    entry(x, 7)
    after = sys.getrefcount(x)
    assert x.tolist() == [7] * 3 and after == before


def fill(x, value):
    for k in range(x.size):
        x[k] = value


def test_ufuncs_have_a_dispatcher():
    made = numba.vectorize(lambda x: x + 1)
    assert isinstance(made, n.DUFunc)
    inner = n.dispatcher_of(made)
    assert inner.py_func(1) == 2 and isinstance(inner.targetoptions, dict)
    assert made(np.ones(2)).tolist() == [2, 2] and list(made.types) == ["d->d"] and str(made.identity) == "None"


def test_generalized_ufuncs_have_core_dimensions_and_loops():
    def double(x, a, y):
        y[0] = a * x.sum()

    made = numba.guvectorize([(numba.float64[:], numba.float64, numba.float64[:])], "(n),()->()")(double)
    assert isinstance(made, n.GUFunc) and made.__wrapped__ is double and not made.is_dynamic
    assert n.core_dimensions(made) == ((("n",), ()), ((),))
    ((x, a, y),) = n.loops_of_gufunc(made)
    assert x.ndim == 1 and x.dtype == a == numba.float64 and y.ndim == 1
    assert numba.guvectorize("(n),()->()")(double).is_dynamic


def test_stencils_have_a_kernel_options_and_the_type_of_their_result():
    def kernel(a):
        return a[-1] + 0.5 * a[0]

    made = numba.stencil(cval=2.0)(kernel)
    assert isinstance(made, n.StencilFunc) and n.kernel_of_stencil(made) is kernel and made.options == {"cval": 2.0}
    array = numba.types.Array(numba.float32, 1, "A")
    assert n.stencil_result(made, (array,)) == numba.float64
    assert n.stencil_result(numba.stencil(lambda a: a[1]), (array,)) == numba.float32


def test_callbacks_have_their_function_and_jitclasses_a_type():
    def double(x):
        return 2.0 * x

    made = numba.cfunc("float64(float64)")(double)
    assert isinstance(made, n.CFunc) and made.__wrapped__ is double

    @numba.experimental.jitclass([("a", numba.float64)])
    class Point:
        def __init__(self, a):
            self.a = a

    assert isinstance(Point, n.JitClassType)
    first, second = Point(1.0), Point(1.0)
    assert n.address_of_instance(first) not in (0, n.address_of_instance(second))


def test_a_cache_is_asked_and_given_what_was_compiled():
    log = []

    class Cache(n.NullCache):
        def load_overload(self, sig, target_context):
            log.append(("load", sig))

        def save_overload(self, sig, result):
            log.append(("save", sig))
            assert n.packed(result)

    made = numba.njit(lambda x: x + 1)
    n.use_cache(made, Cache())
    assert made(1.0) == 2
    assert log == [("load", (types.float64,)), ("save", (types.float64,))]


def test_what_cannot_be_compiled_raises():
    with pytest.raises(n.NumbaError):
        numba.njit(lambda x: x.nothing)(1)
    assert n.NumbaError is numba.errors.NumbaError


def test_how_an_error_about_arguments_begins():
    with pytest.raises(TypeError) as found:
        numba.njit((types.float64,))(lambda x: x)("a")
    assert str(found.value) == f"{n.NO_MATCH}unicode_type"


def test_signatures_are_normalized():
    for given in [(types.float64, types.int64), types.float64(types.float64, types.int64), "float64(float64, int64)"]:
        assert tuple(n.argument_types(given)) == (types.float64, types.int64)


def test_dispatchers_say_whether_they_compile():
    assert n.can_compile(numba.njit(lambda x: x)) and not n.can_compile(numba.njit((types.float64,))(lambda x: x))


def test_what_a_dispatcher_compiles_with_can_be_replaced():
    calls = []

    class Mine(n.Compiler):
        def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
            assert flags.noalias is False or flags.noalias is None
            flags.noalias = True
            calls.append("pipeline")
            super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    made = numba.njit(fill, parallel=True)
    with_compiler = n.function_compiler(made)
    with_compiler.pipeline_class = Mine
    before = with_compiler.compile
    assert with_compiler.targetoptions["parallel"] is True

    def compile_(*args):
        calls.append(args)
        with_compiler.targetoptions = {"nopython": True}
        return before(*args)

    with_compiler.compile = compile_
    made.compile((FLOATS, types.int64))
    assert calls == [((FLOATS, types.int64), None), "pipeline"]
    assert "noalias" in made.inspect_llvm(made.signatures[0])


def test_the_type_of_a_class_can_be_refused():
    class Mine:
        pass

    @n.register_typeof(Mine)
    def refuse(value, context):
        raise KeyError("mine")

    with pytest.raises(KeyError):
        numba.njit(lambda x: x)(Mine())


def test_an_overload_chooses_a_body_by_types():
    def choose(*args):
        raise AssertionError

    @n.overload(choose, jit_options={"fastmath": {"contract"}, **_OPTIONS, **_HELPER_OPTIONS}, strict=False)
    def body(*args):
        return (lambda x, y: x + y) if args[0] == types.float64 else lambda a, b: a * b

    made = numba.njit(lambda x, y: choose(x, y))
    assert made(2.0, 5.0) == 7 and made(2, 5) == 10
    assert n.overloads_of(choose) == [body] and n.overloads_of(body) == []
    assert n.overloads_of(numba.extending.register_jitable(lambda x: x)) == []
    literal = n.overload(body, jit_options={}, strict=False, prefer_literal=True)(lambda *args: None)
    assert n.prefers_literals(literal) and not n.prefers_literals(body)


# Passes.

PASSES = [n.IRProcessing, n.DeadBranchPrune, n.InlineClosureLikes, n.WithLifting, n.NopythonRewrites,
          n.ReconstructSSA, n.NopythonTypeInference, n.PreLowerStripPhis, n.NativeLowering,
          n.NativeParforLowering]  # fmt: skip


def with_passes(replaced):
    """A compiler in which some passes are replaced, or left out."""

    class Mine(n.Compiler):
        def define_pipelines(self):
            pipelines = super().define_pipelines()
            for pipeline in pipelines:
                passes = [(replaced.get(p, p), why) for p, why in pipeline.passes]
                pipeline.passes = [(p, why) for p, why in passes if p is not None]
                pipeline.finalize()
            return pipelines

    return Mine


def watched(original, ran):
    """A pass of Numba's that also notes which function it is run on."""

    class Watched(original):
        _name = f"test_{original.__name__}"

        def run_pass(self, state):
            ran.append((original, state.func_id.func))
            assert state.func_ir.blocks and state.flags.auto_parallel.enabled in (True, False)
            return super().run_pass(state)

    return n.register_pass(mutates_CFG=True, analysis_only=False)(Watched)


@pytest.mark.parametrize("parallel", [False, True])
def test_each_pass_runs_and_can_be_replaced(parallel):
    ran = []

    def f(x):
        for k in numba.prange(x.size):
            x[k] = 3

    compiler = with_passes({original: watched(original, ran) for original in PASSES})
    x = np.ones(2)
    numba.njit(f, pipeline_class=compiler, parallel=parallel)(x)
    other = n.NativeLowering if parallel else n.NativeParforLowering
    assert {original for original, function in ran if function is f} == set(PASSES) - {other}
    assert x.tolist() == [3, 3]


def test_a_compiler_may_have_code_already():
    results = []

    class Remembering(n.Compiler):
        def compile_extra(self, function):
            assert self.state.flags.summary() and self.state.args == (types.float64,)
            if not results:
                result = super().compile_extra(function)
                results.append(n.packed(result))
            else:
                result = n.unpacked(results[0])
                n.add_to_target(self.state.targetctx, result)
            return result

    def double(x):
        return 2 * x

    first, second = (numba.njit(double, pipeline_class=Remembering) for _ in range(2))
    assert numba.njit(lambda x: first(x) + 1)(2.0) == 5
    assert numba.njit(lambda x: second(x) + 1)(2.0) == 5 and len(results) == 1


def test_code_without_a_wrapper_has_an_address():
    made = numba.njit(fill, **{**_OPTIONS, "no_cpython_wrapper": True})
    made.compile((FLOATS, types.int64))
    assert n.kernel_address(made.overloads[FLOATS, types.int64]) != 0


def test_functions_of_plain_loops_need_fewer_passes():
    left_out = [n.DeadBranchPrune, n.InlineClosureLikes, n.WithLifting, n.NopythonRewrites, n.IRProcessing]
    made = numba.njit(fill, pipeline_class=with_passes(dict.fromkeys(left_out)))
    x = np.ones(2)
    made(x, 3)
    assert x.tolist() == [3, 3]


def test_a_pass_after_type_inference_sees_typed_functions():
    seen = {}

    @n.register_pass(mutates_CFG=False, analysis_only=False)
    class Look(n.FunctionPass):
        _name = "test_look"

        def __init__(self):
            n.FunctionPass.__init__(self)

        def run_pass(self, state):
            seen.update({"x": state.typemap["x"], "types": state.typingctx, "target": state.targetctx})
            seen["context"] = state.targetctx.data_model_manager[FLOATS].get_field_position("data")
            known = n.definitions(state.func_ir)
            assert [v.name for v in known["x"]] == ["x"] and type(known["x"][0]) is n.ir.Arg
            n.rebuild_definitions(state.func_ir)
            assert n.definitions(state.func_ir).keys() == known.keys()
            return False

    class Mine(n.Compiler):
        def define_pipelines(self):
            (pipeline,) = super().define_pipelines()
            pipeline.add_pass_after(Look, n.NopythonTypeInference)
            pipeline.finalize()
            return [pipeline]

    x = np.ones(2)
    numba.njit(fill, pipeline_class=Mine)(x, 3)
    assert seen["x"] == FLOATS and isinstance(seen["context"], int)
    addition = seen["types"].resolve_function_type(operator.add, (types.float32, types.int64), {})
    assert addition.return_type == types.float64
    assert seen["types"].unify_types(types.float32, types.float64) == types.float64


def test_parts_of_passes_can_be_called():
    log = []

    @n.register_pass(mutates_CFG=False, analysis_only=False)
    class Versions(n.ReconstructSSA):
        _name = "test_versions"

        def run_pass(self, state):
            super().run_pass(state)
            self._patch_locals(state)
            return True

    @n.register_pass(mutates_CFG=True, analysis_only=False)
    class Inference(n.NopythonTypeInference):
        _name = "test_inference"

        def run_pass(self, state):
            context, state.typingctx = state.typingctx, Proxy(state.typingctx)
            try:
                return super().run_pass(state)
            finally:
                state.typingctx = context

    class Proxy:
        def __init__(self, context):
            self.context = context

        def __getattr__(self, name):
            return getattr(self.context, name)

        def resolve_function_type(self, function, args, kws):
            log.append(getattr(function, "typing_key", function))
            return self.context.resolve_function_type(function, args, kws)

    @n.register_pass(mutates_CFG=True, analysis_only=False)
    class Strip(n.PreLowerStripPhis):
        _name = "test_strip"

        def run_pass(self, state):
            phis = [s for b in state.func_ir.blocks.values() for s in b.find_exprs("phi")]
            self._strip_phi_nodes(state.func_ir)
            rest = [s for b in state.func_ir.blocks.values() for s in b.find_exprs("phi")]
            log.append((len(phis), len(rest)))
            n.rebuild_definitions(state.func_ir)
            return True

    def f(flag):
        y = 1
        if flag:
            y = 2
        return y + 1

    replaced = {n.ReconstructSSA: Versions, n.NopythonTypeInference: Inference, n.PreLowerStripPhis: Strip}
    made = numba.njit(f, pipeline_class=with_passes(replaced), locals={"y": types.float32})
    assert made(True) == 3 and made.overloads[types.boolean,].signature.return_type == types.float64
    assert operator.add in log and (1, 0) in log


def test_lowering_can_be_overridden_step_by_step():
    called, labels = set(), []
    steps = ["init", "setup_function", "lower_function_body", "pre_block", "lower_inst", "storevar", "loadvar",
             "delvar", "lower_binop", "lower_getitem", "lower_setitem"]  # fmt: skip

    def step(name):
        def call(self, *args, **kwargs):
            called.add(name)
            if name == "pre_block":
                labels.append(args[0])
            if name == "setup_function":
                result = original(self, *args)
                set.add(self.function.attributes, '"no-realign-stack"')
                assert self.builder is None or (self.module and self.context and self.func_ir and self.fndesc.calltypes)
                return result
            return original(self, *args, **kwargs)

        original = getattr(n.Lower, name)
        return call

    @n.register_pass(mutates_CFG=True, analysis_only=False)
    class Mine(n.NativeLowering):
        _name = "test_lowering"
        lowering_class = type("Mine", (n.Lower,), {name: step(name) for name in steps})

    def f(x, k):
        total = 0.0
        for i in range(x.size):
            x[i] = x[i] * k
            total = total + x[i]
        return total

    made = numba.njit(f, pipeline_class=with_passes({n.NativeLowering: Mine}))
    assert made(np.ones(3), 2) == 6 and called == set(steps)
    assert "no-realign-stack" in made.inspect_llvm(made.signatures[0])
    lines = [block.loc.line for block in labels]
    assert lines[0] == min(lines) and len(labels) > 3


def test_functions_can_be_changed_between_linking_and_optimizing():
    linked = []

    def action(functions):
        for function in functions:
            if not function.is_declaration and function.linkage in (n.Linkage.linkonce_odr, n.Linkage.weak_odr):
                function.linkage = n.Linkage.internal
                linked.append(function.name)

    @n.register_pass(mutates_CFG=True, analysis_only=False)
    class Mine(n.NativeParforLowering):
        _name = "test_linking"

        def run_pass(self, state):
            n.before_optimizing(state, action)
            return super().run_pass(state)

    def f(x):
        for i in numba.prange(x.size):
            x[i] += 1

    x = np.ones(50)
    numba.njit(f, parallel=True, pipeline_class=with_passes({n.NativeParforLowering: Mine}))(x)
    assert linked and x.tolist() == [2] * 50
