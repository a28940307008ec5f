"""A way out of a vectorised loop for rare arguments, which a scalar function answers.

Exact reduction of a huge angle takes a thousand bits of pi, too much to be done for every element in case one
needs it, and a branch in a loop keeps it scalar. So the test is a function of its own, with versions for vectors
of 2 to 16 numbers that its attribute names: where LLVM vectorises a loop, it calls the one of its width, and that
looks at all its numbers at once. As long as none is rare this costs a call per vector and a comparison.
"""

from __future__ import annotations

from llvmlite import ir

from ..codegen.compile import intrinsic
from .huge_angle import DOUBLE, huge_angle

__all__ = ["cos_beyond", "sin_beyond", "tan_beyond"]

#: The largest magnitudes that are not rare: what is left of them is at most 0.2556*pi.
LIMITS = {"f64": 2.0**48, "f32": 2.0**18}
WIDTHS = (2, 4, 8, 16)


@intrinsic
def sin_beyond(typing, x, y):
    """`y` where `x` is within :data:`LIMITS`, else ``sin(x)``."""

    def build(context, builder, signature, args):
        return _beyond("sin", builder, args)

    return x(x, x), build


@intrinsic
def cos_beyond(typing, x, y):
    """`y` where `x` is within :data:`LIMITS`, else ``cos(x)``."""

    def build(context, builder, signature, args):
        return _beyond("cos", builder, args)

    return x(x, x), build


@intrinsic
def tan_beyond(typing, x, y):
    """`y` where `x` is within :data:`LIMITS`, else ``tan(x)``."""

    def build(context, builder, signature, args):
        return _beyond("tan", builder, args)

    return x(x, x), build


def _beyond(name, builder, args):
    module, kind = builder.module, args[0].type
    scalar = f"nbgrad_{name}_beyond_{kind.intrinsic_name}"
    if scalar not in module.globals:
        widths = ",".join(f"_ZGV_LLVM_N{n}vv_{scalar}({scalar}x{n})" for n in WIDTHS)
        _define_scalar(module, name, scalar, kind, f'"vector-function-abi-variant"="{widths}"')
        for n in WIDTHS:
            _define_vector(module, scalar, kind, n)
    return builder.call(module.globals[scalar], args)


def _define_scalar(module, name, symbol, kind, widths):
    function = _declare(module, symbol, [kind, kind], kind)
    set.add(function.attributes, widths)
    x, y = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    with builder.if_then(_exceeds(builder, x), likely=False):
        if kind == DOUBLE:
            builder.ret(huge_angle(builder, name, x))
        else:
            builder.ret(builder.fptrunc(huge_angle(builder, name, builder.fpext(x, DOUBLE)), kind))
    builder.ret(y)


def _define_vector(module, scalar, kind, width):
    vector, index = ir.VectorType(kind, width), ir.IntType(32)
    function = _declare(module, f"{scalar}x{width}", [vector, vector], vector)
    if module.triple.startswith("x86_64"):  # half of the vector registers survive the call, for the loop's constants
        function.calling_convention = "intel_ocl_bicc"
    x, y = function.args
    start = function.append_basic_block()
    each, end = function.append_basic_block(), function.append_basic_block()
    builder = ir.IRBuilder(start)
    lanes = builder.bitcast(_exceeds(builder, x), ir.IntType(width))
    builder.cbranch(builder.icmp_unsigned("!=", lanes, ir.Constant(lanes.type, 0)), each, end)
    builder.position_at_end(each)
    k, before = builder.phi(index), builder.phi(vector)
    pair = [builder.extract_element(vector, k) for vector in (x, before)]
    one = builder.call(module.globals[scalar], pair)
    after, following = builder.insert_element(before, one, k), builder.add(k, ir.Constant(index, 1))
    builder.cbranch(builder.icmp_unsigned("<", following, ir.Constant(index, width)), each, end)
    for phi, first, then in ((k, ir.Constant(index, 0), following), (before, y, after)):
        phi.add_incoming(first, start)
        phi.add_incoming(then, each)
    builder.position_at_end(end)
    result = builder.phi(vector)
    result.add_incoming(y, start)
    result.add_incoming(after, each)
    builder.ret(result)


def _declare(module, symbol, arguments, result):
    """A function that only calculates, which the vectoriser has to see, and that survives until then."""
    function = ir.Function(module, ir.FunctionType(result, arguments), symbol)
    function.linkage = "weak_odr"
    for attribute in ("noinline", "nounwind", "readnone"):
        function.attributes.add(attribute)
    set.add(function.attributes, "willreturn")  # llvmlite does not know this one
    return function


def _exceeds(builder, x):
    vector = isinstance(x.type, ir.VectorType)
    kind = x.type.element if vector else x.type
    limit = ir.Constant(kind, LIMITS[kind.intrinsic_name])
    name = f"llvm.fabs.v{x.type.count}{kind.intrinsic_name}" if vector else f"llvm.fabs.{kind.intrinsic_name}"
    module = builder.module
    absolute = module.globals.get(name) or ir.Function(module, ir.FunctionType(x.type, [x.type]), name)
    return builder.fcmp_ordered(">", builder.call(absolute, [x]), x.type([limit] * x.type.count) if vector else limit)
