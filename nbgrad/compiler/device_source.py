"""Statements as CUDA kernels: one kernel per statement, whose sizes and positions are arguments.

So the source depends on the form of a statement alone (ranks after neighbouring axes were joined, dtypes, the
expression), and operators called with ever new shapes do not compile ever new kernels.

A *map* has a thread per element. A *reduction* has a thread per result where results are many, else a block of
threads, or several, each with a part of the elements: which elements a thread adds up, and in which order partial sums
are combined, follows from the sizes, so the result is the same in every run. Additions at places that are read from an
array are made in the order of the array, by the one thread that has all elements that can meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..codegen import convert
from ..codegen.loops import load, store
from ..cuda import driver
from ..dtypes import DType
from ..expr import Expr, literal, order
from ..shapes import size
from .statements import Access, Statement

__all__ = ["Kernel", "combining", "written"]

_HELPERS = {name: getattr(convert, name) for name in convert.__all__}
_FIRST = {"sum": "0", "max": "-np.inf", "min": "np.inf"}
#: NaN wins: what is compared with one is not greater.
_COMBINE = {
    "sum": "{0} = {0} + {1}",
    "max": "{0} = {0} if {0} >= {1} or {0} != {0} else {1}",
    "min": "{0} = {0} if {0} <= {1} or {0} != {0} else {1}",
}


class Kernel(NamedTuple):
    """A kernel's source and what it is to be called with.

    Attributes
    ----------
    source : str
        Arguments: the result, the arrays that are read, the integers.
    helpers : dict
    reads : list of Value
    integers : list of int
    points, rows : int
        Threads, or blocks, that have something to do.
    splits : int
        How many partial results there are for each result; more than 1: another kernel combines them.
    """

    source: str
    helpers: dict[str, Any]
    reads: list
    integers: list[int]
    points: int
    rows: int = 0
    splits: int = 1


#: Reductions of fewer elements than this, or with more results than that, have a thread per result.
_FEW, _MANY = 32, 4096
#: Elements per block of threads that work on one result together.
_CHUNK = 1 << 15


class _Writer:
    def __init__(self, s: Statement) -> None:
        self.s = s
        self.name = s.how
        self.integers: list[int] = []
        self.names: list[str] = []
        self.known: dict[int, str] = {}
        self.arrays: list = []
        self.helpers: dict[str, Any] = dict(_HELPERS)
        self.lines: list[str] = []
        self.depth = 1
        self.index: dict[int, str] = {}  # axis -> its variable
        dtype = s.value.attrs[1] if s.value.op == "map" else s.value.dtype
        self.compute = dtype.compute if dtype.is_float else "int64"

    def line(self, code: str) -> None:
        self.lines.append("    " * self.depth + code)

    def number(self, n: int) -> str:
        """An argument of this value; 0 and 1, which are everywhere, are written."""
        if n in (0, 1):
            return str(n)
        self.names.append(f"n{len(self.names)}")
        self.integers.append(n)
        return self.names[-1]

    def groups(self, axes: Sequence[int]) -> list[tuple[list[int], int]]:
        """Axes that every read walks alike, together: (axes, extent), those of extent 1 left out."""
        s = self.s
        accesses = [*s.reads, *([s.target] if s.target is not None else [])]
        steps = [dict(a.coefficients) for a in accesses]
        guarded = {g.axis for g in s.guards}
        found: list[tuple[list[int], int]] = []
        for k in axes:
            n = s.axes[k].extent
            if n == 1 and k not in guarded:
                continue
            if found and k not in guarded and found[-1][0][-1] not in guarded:
                before = found[-1][0][-1]
                if all(c.get(before, 0) == c.get(k, 0) * n for c in steps):
                    found[-1] = ([*found[-1][0], k], found[-1][1] * n)
                    continue
            found.append(([k], n))
        return found

    def split(self, whole: str, groups: list[tuple[list[int], int]], letter: str) -> None:
        """Statements that find the indices of `groups`, of which `whole` counts all points."""
        rest = whole
        for j, (axes, n) in reversed(list(enumerate(groups))):
            name = f"{letter}{j}"
            if j == 0:
                self.line(f"{name} = {rest}")
            else:
                extent = self.number(n)
                self.line(f"{name} = {rest} % {extent}")
                self.line(f"{letter}_ = {rest} // {extent}")
                rest = f"{letter}_"
            self.index[axes[-1]] = name

    def position(self, access: Access, values: dict[str, str]) -> str:
        terms = []
        for k, c in access.coefficients:
            if c and k in self.index:
                terms.append(self.index[k] if c == 1 else f"{self.index[k]} * {self.number(c)}")
        for k, c in access.through:
            terms.append(f"{values[f'r{k}']} * {self.number(c)}")
        if access.offset or not terms:
            terms.append(self.number(access.offset))
        return " + ".join(terms)

    def element(self) -> str:
        """Code for what the statement computes at a point."""
        s = self.s
        values: dict[str, str] = {}
        for k, guard in enumerate(s.guards):
            i = self.index.get(guard.axis, "0")
            self.line(f"g{k} = {i} >= {self.number(guard.start)} and {i} < {self.number(guard.stop)}")
            values[f"g{k}"] = f"g{k}"
        for k in self._needed():
            access = s.reads[k]
            dtype = access.value.dtype
            array = self._array(access.value)
            at = self.position(access, values)
            if s.guards:  # what is outside is not used, and must not be read
                at = f"min(max({at}, 0), {array}.size - 1)"
            code = load(dtype, f"{array}[{at}]")
            calculated = dtype.compute if dtype.is_float else "int64"
            place = any(k == j for a in [*s.reads, s.target] if a is not None for j, _ in a.through)
            if calculated != self.compute and not place:
                code = f"np.{self.compute}({code})"
            self.line(f"r{k} = {code}")
            values[f"r{k}"] = f"r{k}"
        return self._expression(s.expr, values)

    def _needed(self) -> list[int]:
        """The reads in an order in which places are known before they are used."""
        s = self.s
        through = [k for a in [*s.reads, s.target] if a is not None for k, _ in a.through]
        names = {node.name for node in order([s.expr]) if node.name is not None}
        rest = [k for k in range(len(s.reads)) if f"r{k}" in names and k not in through]
        return [*dict.fromkeys(through), *rest]

    def _array(self, value) -> str:
        if value not in self.arrays:
            self.arrays.append(value)
        return f"a{self.arrays.index(value)}"

    def _expression(self, expr: Expr, values: dict[str, str]) -> str:
        cast = f"np.{self.compute}"
        code: dict[Expr, str] = {}
        for node in order([expr]):
            if node.name is not None:
                code[node] = values[node.name]
            elif node.fn is None:
                assert node.value is not None
                code[node] = literal(node.value, cast)
            else:
                template = node.fn.integer if self.compute == "int64" else node.fn.template
                self.helpers.update(node.fn.helpers)
                name = f"x{len(code)}"
                self.line(f"{name} = " + template.format(*(code[a] for a in node.args)))
                code[node] = name
        return code[expr]

    def kernel(self, extra: Sequence[int] = (), **options) -> Kernel:
        arguments = ["out", *(f"a{k}" for k in range(len(self.arrays))), *self.leading, *self.names]
        source = "\n".join([f"def {self.name}({', '.join(arguments)}):", *self.lines]) + "\n"
        used = {k: v for k, v in self.helpers.items() if f"{k}(" in source or f"{k}." in source}
        return Kernel(source, used, self.arrays, [*extra, *self.integers], **options)

    leading: Sequence[str] = ()

    # The forms.

    def map(self) -> Kernel:
        s = self.s
        points = size(s.value.shape)
        self.line("for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):")
        self.depth += 1
        self.split("i", self.groups(range(len(s.axes))), "i")
        code = self.element()
        self.line(f"out[i] = {store(s.value.dtype, code, self.compute)}")
        return self.kernel(points=points)

    def embed(self) -> Kernel:
        """Elements go to their places; zeros are there."""
        s = self.s
        points = size([a.extent for a in s.axes])
        self.leading = ["points"]
        self.line("for i in range(cuda.grid(1), points, cuda.gridsize(1)):")
        self.depth += 1
        self.split("i", self.groups(range(len(s.axes))), "i")
        code = self.element()
        assert s.target is not None
        self.line(f"out[{self.position(s.target, {})}] = {store(s.value.dtype, code, self.compute)}")
        return self.kernel([points], points=points)

    def scatter(self) -> Kernel:
        """A thread adds all that can meet, in order."""
        s = self.s
        assert s.target is not None
        places = {k for j, _ in s.target.through for k, _ in s.reads[j].coefficients if s.axes[k].extent != 1}
        others = [k for k in range(len(s.axes)) if k not in places]
        points, inner = size([s.axes[k].extent for k in others]), size([s.axes[k].extent for k in places])
        self.leading = ["points", "inner"]
        self.line("for i in range(cuda.grid(1), points, cuda.gridsize(1)):")
        self.depth += 1
        self.split("i", self.groups(others), "i")
        self.line("for j in range(inner):")
        self.depth += 1
        self.split("j", self.groups(sorted(places)), "j")
        code = self.element()
        at = self.position(s.target, {f"r{j}": f"r{j}" for j, _ in s.target.through})
        self.line(f"at = {at}")
        total = f"{load(s.value.dtype, 'out[at]')} + {code}"
        self.line(f"out[at] = {store(s.value.dtype, total, self.compute)}")
        return self.kernel([points, inner], points=points)

    def reduce(self) -> Kernel:
        s = self.s
        outs = size(s.value.shape)
        inner = size([s.axes[k].extent for k in range(len(s.axes)) if k not in s.kept])
        kept = self.groups(s.kept)
        gone = self.groups([k for k in range(len(s.axes)) if k not in s.kept])
        if inner <= _FEW or outs >= _MANY:
            return self._by_thread(outs, inner, kept, gone)
        return self._by_block(outs, inner, kept, gone)

    def _by_thread(self, outs: int, inner: int, kept: list, gone: list) -> Kernel:
        s = self.s
        self.leading = ["inner"]
        self.line("for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):")
        self.depth += 1
        self.split("i", kept, "i")
        self.line(f"total = {_first(s.how, s.value.dtype)}")
        self.line("for j in range(inner):")
        self.depth += 1
        self.split("j", gone, "j")
        self._combine("total", self.element())
        self.depth -= 1
        self.line(f"out[i] = {_stored(s.value.dtype, 'total')}")
        return self.kernel([inner], points=outs)

    def _by_block(self, outs: int, inner: int, kept: list, gone: list) -> Kernel:
        s = self.s
        splits = max(1, min(-(-inner // _CHUNK), 1024 // outs if outs < 1024 else 1))
        chunk = -(-inner // splits)
        self.leading = ["rows", "inner", "splits", "chunk"]
        self._block_head(s.how, s.value.dtype)
        self.line("o = q // splits")
        self.line("begin = (q - o * splits) * chunk")
        self.split("o", kept, "i")
        self.line(f"total = {_first(s.how, s.value.dtype)}")
        self.line("for j in range(begin + t, min(begin + chunk, inner), cuda.blockDim.x):")
        self.depth += 1
        self.split("j", gone, "j")
        self._combine("total", self.element())
        self.depth -= 1
        self._block_tail(s.how, "total" if splits > 1 else _stored(s.value.dtype, "total"))
        rows = outs * splits
        return self.kernel([rows, inner, splits, chunk], points=0, rows=rows, splits=splits)

    def _combine(self, total: str, code: str) -> None:
        if not code.isidentifier():
            self.line(f"value = {code}")
            code = "value"
        self.line(
            _COMBINE[self.s.how].format(
                total, f"{_accumulator(self.s.value.dtype)}({code})" if self.s.how == "sum" else code
            )
        )

    def _block_head(self, how: str, dtype: DType) -> None:
        self.line(f"parts = cuda.shared.array({driver.block()}, {_accumulator(dtype)})")
        self.line("t = cuda.threadIdx.x")
        self.line("for q in range(cuda.blockIdx.x, rows, cuda.gridDim.x):")
        self.depth += 1

    def _block_tail(self, how: str, result: str) -> None:
        """The threads of a block put their totals together, two and two."""
        self.line("parts[t] = total")
        self.line("cuda.syncthreads()")
        self.line("half = cuda.blockDim.x // 2")
        self.line("while half > 0:")
        self.line("    if t < half:")
        self.line("        mine = parts[t]")
        self.line("        other = parts[t + half]")
        self.line("        " + _COMBINE[how].format("mine", "other"))
        self.line("        parts[t] = mine")
        self.line("    cuda.syncthreads()")
        self.line("    half = half // 2")
        self.line("if t == 0:")
        self.line("    total = parts[0]")
        self.line(f"    out[q] = {result}")
        self.line("cuda.syncthreads()")


def _accumulator(dtype: DType) -> str:
    """What reductions calculate in: sums of floats in float64, whatever they are sums of."""
    return "np.float64" if dtype.is_float else "np.int64"


def _first(how: str, dtype: DType) -> str:
    if dtype.is_float or how == "sum":
        return f"{_accumulator(dtype)}({_FIRST[how]})"
    return f"np.int64({-(2**63) + 1 if how == 'max' else 2**63 - 1})"


def _stored(dtype: DType, total: str) -> str:
    """A total as an element of an array of this dtype."""
    if dtype.is_float:
        return store(dtype, f"np.{dtype.compute}({total})", dtype.compute)
    return store(dtype, total, "int64")


def written(s: Statement) -> Kernel:
    """The kernel of a statement, other than a matrix product as a whole."""
    writer = _Writer(s)
    if s.how in ("sum", "max", "min"):
        return writer.reduce()
    return getattr(writer, s.how)()


def combining(how: str, dtype: DType, outs: int, splits: int) -> Kernel:
    """The kernel that combines partial results: `splits` neighbours for each result."""
    lines = [
        f"def combine_{how}(out, a0, splits):",
        "    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):",
        f"        total = {_first(how, dtype)}",
        "        for j in range(splits):",
        "            value = a0[i * splits + j]",
        "            " + _COMBINE[how].format("total", "value"),
        f"        out[i] = {_stored(dtype, 'total')}",
    ]
    return Kernel("\n".join(lines) + "\n", dict(_HELPERS), [], [splits], outs)
