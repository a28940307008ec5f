"""A way out of a vectorised loop for rare arguments, which a scalar function answers.

Exact reduction of a huge angle takes a thousand bits of pi, and the remainder of numbers that are far apart a long
division: too much to be done for every element in case one needs it, and a branch in a loop keeps it scalar. So the
test is a function of its own, with versions for vectors
of 2 to 16 numbers that its attribute names: where LLVM vectorises a loop, it calls the one of its width, and that
looks at all its numbers at once. As long as none is rare this costs a call per vector and a comparison.
"""

from __future__ import annotations

from ..backends.numba.intrinsics import intrinsic, llvm, on_gpu
from .bits import libdevice, rounded
from .huge_angle import DOUBLE, huge_angle

__all__ = ["cos_beyond", "floor_beyond", "remainder_beyond", "sin_beyond", "tan_beyond"]

#: The largest magnitudes that are not rare: what is left of them is at most 0.2556*pi.
LIMITS = {"f64": 2.0**48, "f32": 2.0**18}
#: The largest quotients that are not: below, those that are rounded are off by 1 at most.
QUOTIENTS = {"f64": 2.0**52, "f32": 2.0**23}
#: Likewise; up to these the floor of a quotient, rounded twice as NumPy does, is the exact one.
FLOORS = {"f64": 2.0**50, "f32": 2.0**21}
WIDTHS = (2, 4, 8, 16)


@intrinsic()
def sin_beyond(emit, x, y):
    """`y` where `x` is within :data:`LIMITS`, else ``sin(x)``."""
    return _beyond("sin", emit.builder, [x, y], LIMITS, _angle("sin"))


@intrinsic()
def cos_beyond(emit, x, y):
    """`y` where `x` is within :data:`LIMITS`, else ``cos(x)``."""
    return _beyond("cos", emit.builder, [x, y], LIMITS, _angle("cos"))


@intrinsic()
def tan_beyond(emit, x, y):
    """`y` where `x` is within :data:`LIMITS`, else ``tan(x)``."""
    return _beyond("tan", emit.builder, [x, y], LIMITS, _angle("tan"))


@intrinsic()
def remainder_beyond(emit, quotient, a, b, y):
    """`y` where `quotient` is within :data:`QUOTIENTS`, else what C's fmod makes of `a` and `b`."""
    answer = lambda builder, quotient, a, b: _fmod(builder, a, b)  # noqa: E731
    return _beyond("remainder", emit.builder, [quotient, a, b, y], QUOTIENTS, answer)


@intrinsic()
def floor_beyond(emit, quotient, a, b, y):
    """`y` where `quotient` is within :data:`FLOORS`, else what NumPy makes of ``a // b``."""
    return _beyond("floor", emit.builder, [quotient, a, b, y], FLOORS, _floor_quotient)


def _fmod(builder, a, b):
    return libdevice(builder, "fmod", [a, b]) if on_gpu(builder) else builder.frem(a, b)


def _floor_quotient(builder, quotient, a, b):
    """NumPy's ``npy_divmod``, for a quotient that is not near zero."""
    kind = a.type
    zero, half, one = (llvm.Constant(kind, x) for x in (0.0, 0.5, 1.0))
    rest = _fmod(builder, a, b)
    whole = builder.fdiv(builder.fsub(a, rest), b)
    negative = [builder.fcmp_ordered("<", x, zero) for x in (rest, b)]
    wraps = builder.and_(builder.fcmp_ordered("!=", rest, zero), builder.xor(*negative))
    whole = builder.select(wraps, builder.fsub(whole, one), whole)
    below = rounded("floor", builder, [whole])
    nearer = builder.fcmp_ordered(">", builder.fsub(whole, below), half)
    below = builder.select(nearer, builder.fadd(below, one), below)
    return builder.select(builder.fcmp_ordered("==", b, zero), quotient, below)


def _angle(name):
    def answer(builder, x):
        if on_gpu(builder):
            return libdevice(builder, name, [x])
        if x.type == DOUBLE:
            return huge_angle(builder, name, x)
        return builder.fptrunc(huge_angle(builder, name, builder.fpext(x, DOUBLE)), x.type)

    return answer


def _beyond(name, builder, args, limits, answer):
    """The last of `args` where the first is within its limit, else ``answer(builder, *args[:-1])``."""
    module, kind = builder.module, args[0].type
    if on_gpu(builder):  # threads, not vectors
        *known, y = args
        magnitude = libdevice(builder, "fabs", known[:1])
        exceeds = builder.fcmp_ordered(">", magnitude, llvm.Constant(kind, limits[kind.intrinsic_name]))
        return builder.select(exceeds, answer(builder, *known), y)
    scalar = f"nbgrad_{name}_beyond_{kind.intrinsic_name}"
    if scalar not in module.globals:
        limit, count = llvm.Constant(kind, limits[kind.intrinsic_name]), len(args)
        widths = ",".join(f"_ZGV_LLVM_N{n}{'v' * count}_{scalar}({scalar}x{n})" for n in WIDTHS)
        _define_scalar(module, scalar, limit, count, answer, f'"vector-function-abi-variant"="{widths}"')
        for n in WIDTHS:
            _define_vector(module, scalar, limit, count, n)
    return builder.call(module.globals[scalar], args)


def _define_scalar(module, symbol, limit, count, answer, widths):
    function = _declare(module, symbol, [limit.type] * count, limit.type)
    set.add(function.attributes, widths)
    *known, y = function.args
    builder = llvm.IRBuilder(function.append_basic_block())
    with builder.if_then(_exceeds(builder, known[0], limit), likely=False):
        builder.ret(answer(builder, *known))
    builder.ret(y)


def _define_vector(module, scalar, limit, count, width):
    vector, index = llvm.VectorType(limit.type, width), llvm.IntType(32)
    function = _declare(module, f"{scalar}x{width}", [vector] * count, vector)
    if module.triple.startswith("x86_64") and 8 * width * (8 if limit.type == DOUBLE else 4) > 128:
        # Half of the vector registers survive the call, for the loop's constants. Not so with vectors of 16 bytes:
        # before a call without longer ones, LLVM clears the upper halves of all registers (vzeroupper), whatever the
        # function promises to keep.
        function.calling_convention = "intel_ocl_bicc"
    *known, y = function.args
    start = function.append_basic_block()
    each, end = function.append_basic_block(), function.append_basic_block()
    builder = llvm.IRBuilder(start)
    lanes = builder.bitcast(_exceeds(builder, known[0], vector([limit] * width)), llvm.IntType(width))
    builder.cbranch(builder.icmp_unsigned("!=", lanes, llvm.Constant(lanes.type, 0)), each, end)
    builder.position_at_end(each)
    k, before = builder.phi(index), builder.phi(vector)
    lane = [builder.extract_element(vector, k) for vector in (*known, before)]
    one = builder.call(module.globals[scalar], lane)
    after, following = builder.insert_element(before, one, k), builder.add(k, llvm.Constant(index, 1))
    builder.cbranch(builder.icmp_unsigned("<", following, llvm.Constant(index, width)), each, end)
    for phi, first, then in ((k, llvm.Constant(index, 0), following), (before, y, after)):
        phi.add_incoming(first, start)
        phi.add_incoming(then, each)
    builder.position_at_end(end)
    result = builder.phi(vector)
    result.add_incoming(y, start)
    result.add_incoming(after, each)
    builder.ret(result)


def _declare(module, symbol, arguments, result):
    """A function that only calculates, which the vectoriser has to see, and that survives until then."""
    function = llvm.Function(module, llvm.FunctionType(result, arguments), symbol)
    function.linkage = "weak_odr"
    for attribute in ("noinline", "nounwind", "readnone"):
        function.attributes.add(attribute)
    set.add(function.attributes, "willreturn")  # llvmlite does not know this one
    return function


def _exceeds(builder, x, limit):
    name = f"llvm.fabs.v{x.type.count}" if isinstance(x.type, llvm.VectorType) else "llvm.fabs."
    name += limit.type.element.intrinsic_name if isinstance(x.type, llvm.VectorType) else x.type.intrinsic_name
    module = builder.module
    absolute = module.globals.get(name) or llvm.Function(module, llvm.FunctionType(x.type, [x.type]), name)
    return builder.fcmp_ordered(">", builder.call(absolute, [x]), limit)
