"""Symbols: recorded graphs detached from the tape, to be inspected, saved to a file, and run again.

:func:`nbgrad.autograd.get_symbol` creates one from a recorded array. It holds neither arrays nor the tape, only the
graph: operators, their attributes, and the recorded shapes and dtypes.

Examples
--------
>>> from nbgrad import autograd, nd, symbol
>>> x, w = nd.array([1.0, 2.0]), nd.array([3.0, 4.0])
>>> x.attach_grad(), w.attach_grad()
(None, None)
>>> with autograd.record():
...     y = nd.exp(x * w) + 1
>>> s = symbol.load_json(autograd.get_symbol(y).tojson())
>>> s, s.list_outputs()
(<Symbol node_2>, ['node_2_output'])
>>> (out,) = s.eval(**dict(zip(s.list_arguments(), [x, w])))
>>> (out == y).tolist()
[1.0, 1.0]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from ..arrays.ndarray import NDArray
from ..core.config import __version__
from ..core.context import Context, usable
from ..core.dtypes import as_dtype
from ..core.shapes import as_shape
from ..errors import AttrError, DTypeError, NBGradError, RangeError, SymbolError
from ..operators.cast import cast
from . import draw as drawing
from .from_tape import Node, build
from .parsing import read
from .steps import Aval

__all__ = ["Symbol", "load", "load_json"]


class Symbol:
    """Results of a graph of operators: usually one, several for a group.

    Created by :func:`nbgrad.autograd.get_symbol`, :func:`load` and :func:`load_json`. Arguments are the input
    variables of the graph: ``var0``, ``var1`` ... for marked arrays, whose names are fixed as long as they live,
    and ``null0`` ... for other operands. Operators are numbered in order (``node_0`` ...).

    Notes
    -----
    A graph has the shapes it was recorded with. Arguments of other shapes work if every operator between them and
    the result supports them (elementwise ones and reductions do, reshapes and slices do not).
    """

    __slots__ = ("__weakref__", "_heads", "_nodes")

    def __init__(self, nodes: Sequence[Node], heads: Sequence[tuple[int, int]]) -> None:
        self._nodes = nodes  # in topological order; several symbols may share it
        self._heads = tuple(heads)

    def _order(self) -> list[int]:
        """Indices of the nodes that the heads depend on, inputs first."""
        seen = {k for k, _ in self._heads}
        worklist = list(seen)
        while worklist:
            for k, _ in self._nodes[worklist.pop()].inputs:
                if k not in seen:
                    seen.add(k)
                    worklist.append(k)
        return sorted(seen)

    def _output_name(self, k: int, index: int) -> str:
        node = self._nodes[k]
        if node.step is None:
            return node.name
        return f"{node.name}_output{index if len(node.outs) > 1 else ''}"

    # Inspection.

    @property
    def name(self) -> str | None:
        """The name of the variable or operator; None for a group."""
        return self._nodes[self._heads[0][0]].name if len(self._heads) == 1 else None

    def __repr__(self) -> str:
        if len(self._heads) == 1:
            return f"<Symbol {self.name}>"
        names = [self._output_name(*head) for head in self._heads[:10]]
        more = ", ..." if len(self._heads) > 10 else ""
        return f"<Symbol group [{', '.join(names)}{more}]>"

    def __len__(self) -> int:
        return len(self._heads)

    def __iter__(self) -> Iterator[Symbol]:
        for head in self._heads:
            yield Symbol(self._nodes, [head])

    def __getitem__(self, key: int | str) -> Symbol:
        """One result, by index or by name (``'node_0_output'``)."""
        if isinstance(key, str):
            for head in self._heads:
                if self._output_name(*head) == key:
                    return Symbol(self._nodes, [head])
            names = self.list_outputs()
            some = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
            raise AttrError(f"Symbol: no output is called {key!r}; there are {some}")
        if not hasattr(key, "__index__"):
            raise DTypeError(f"Symbol: an output's number or name is needed, got {key!r}")
        if not -len(self) <= key < len(self):
            raise RangeError(f"Symbol: output {key} of a symbol with {len(self)}")
        return Symbol(self._nodes, [self._heads[key]])

    def list_arguments(self) -> list[str]:
        """Names of the variables, in the order of first use."""
        return [self._nodes[k].name for k in self._order() if self._nodes[k].step is None]

    #: All variables are arguments: there are no auxiliary states.
    list_inputs = list_arguments

    def list_auxiliary_states(self) -> list[str]:
        """Always empty."""
        return []

    def list_outputs(self) -> list[str]:
        """Names of the results: ``node_4_output``; ``node_4_output1`` for an operator with several."""
        return [self._output_name(*head) for head in self._heads]

    def get_internals(self) -> Symbol:
        """The group of all variables' values and all operators' results."""
        return Symbol(self._nodes, [(k, n) for k in self._order() for n in range(len(self._nodes[k].outs))])

    def get_children(self) -> Symbol | None:
        """The group of the inputs of the operator (of the group's operators); None for a variable."""
        entries = [entry for k in dict.fromkeys(k for k, _ in self._heads) for entry in self._nodes[k].inputs]
        return Symbol(self._nodes, entries) if entries else None

    children = property(get_children, doc="See :meth:`get_children`.")

    def list_attr(self) -> dict[str, str]:
        """Attributes of the operator as strings."""
        return self._nodes[self._heads[0][0]].attrs() if len(self._heads) == 1 else {}

    def attr(self, key: str) -> str | None:
        """An attribute of the operator as a string, or None.

        Examples
        --------
        >>> from nbgrad import autograd, nd
        >>> x = nd.ones(2)
        >>> x.attach_grad()
        >>> with autograd.record():
        ...     y = x * 2
        >>> autograd.get_symbol(y).attr("scalar")
        '2.0'
        """
        return self.list_attr().get(key)

    def debug_str(self) -> str:
        """The graph as text, a paragraph per operator."""
        lines = ["Symbol Outputs:"]
        lines += [f"\toutput[{n}]={self._nodes[k].name}({i})" for n, (k, i) in enumerate(self._heads)]
        for k in self._order():
            node = self._nodes[k]
            if node.step is None:
                lines.append(f"Variable:{node.name} ({node.outs[0]})")
                continue
            lines += ["-" * 20, f"Op:{node.op}, Name={node.name}", "Inputs:"]
            lines += [f"\targ[{n}]={self._nodes[p].name}({i})" for n, (p, i) in enumerate(node.inputs)]
            if attrs := node.attrs():
                lines += ["Attrs:", *[f"\t{key}={value}" for key, value in sorted(attrs.items())]]
        return "\n".join(lines) + "\n"

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        return drawing.dot(self._nodes, self._order(), self._heads)

    def to_mermaid(self) -> str:
        """The graph in Mermaid's language, which many Markdown viewers draw."""
        return drawing.mermaid(self._nodes, self._order(), self._heads)

    def draw(self, path: str) -> None:
        """Draw the graph into a file with Graphviz, in the format of its suffix (``.svg``, ``.png``, ``.pdf``).

        Raises
        ------
        NBGradError
            If Graphviz's program ``dot`` is not installed, or fails.
        """
        drawing.draw(self.to_dot(), path)

    # Serialization.

    def tojson(self) -> str:
        """The symbol as a JSON string, which :func:`load_json` reads.

        Your own functions, and attributes that cannot be written as text, are only named: they cannot be run from it.
        """
        order = self._order()
        number = {k: n for n, k in enumerate(order)}
        nodes = [self._nodes[k] for k in order]
        outs = [a for node in nodes for a in node.outs]
        lines = [
            {
                "op": node.op,
                "name": node.name,
                "attrs": node.attrs(),
                "inputs": [[number[k], n, 0] for k, n in node.inputs],
            }
            for node in nodes
        ]
        rest = {
            "arg_nodes": [n for n, node in enumerate(nodes) if node.step is None],
            "node_row_ptr": list(accumulate((len(node.outs) for node in nodes), initial=0)),
            "heads": [[number[k], n, 0] for k, n in self._heads],
            "attrs": {
                "nbgrad_version": ["str", __version__],
                "shape": ["list_shape", [a and list(a.shape) for a in outs]],
                "dtype": ["list_str", [a and a.dtype.name for a in outs]],
            },
        }
        parts = ['"nodes": [\n' + ",\n".join(map(json.dumps, lines)) + "\n]"]  # a line per node
        parts += [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in rest.items()]
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def save(self, fname: str) -> None:
        """Write :meth:`tojson` to a file, for :func:`load`."""
        with open(fname, "w", encoding="utf-8") as file:
            file.write(self.tojson())

    def __reduce__(self):
        return load_json, (self.tojson(),)

    # Shapes and values.

    def _arguments(self, given: dict, method: str) -> dict[str, int]:
        """Names of the variables -> node indices, after checking that `given` has no other names."""
        known = {self._nodes[k].name: k for k in self._order() if self._nodes[k].step is None}
        if wrong := [name for name in given if name not in known]:
            raise AttrError(f"Symbol.{method}: no argument is called {', '.join(wrong)}; they are {', '.join(known)}")
        return known

    def _infer(self, known: dict[int, Aval | None]) -> list[Aval]:
        """Avals of the heads, given those of the variables (`known`, by node index)."""
        avals: dict[tuple[int, int], Aval | None] = {}
        for k in self._order():
            node = self._nodes[k]
            if node.step is None:
                avals[k, 0] = known[k]
                continue
            before: Any = [self._nodes[p].outs[n] for p, n in node.inputs]
            inputs: Any = [avals[entry] for entry in node.inputs]
            try:
                outs = node.outs if inputs == before else node.step.infer(inputs, before, node.outs)
            except NBGradError as err:
                err.add_note(f"in {node.name} ({node.op}) of a Symbol")
                raise
            avals.update({(k, n): a for n, a in enumerate(outs)})
        return [avals[head] for head in self._heads]  # type: ignore[misc]

    def infer_shape(self, **shapes) -> tuple[list, list, list]:
        """Shapes of arguments and results.

        Parameters
        ----------
        **shapes : tuple of int
            Shapes of arguments by name. Default: the recorded ones.

        Returns
        -------
        arg_shapes, out_shapes, aux_shapes : list of tuple of int
            In the order of :meth:`list_arguments` and :meth:`list_outputs`; the last is empty.

        Raises
        ------
        AttrError
            For a name that no argument has.
        ShapeError
            If the graph does not support these shapes.

        Examples
        --------
        >>> from nbgrad import autograd, nd
        >>> x = nd.ones((2, 3))
        >>> x.attach_grad()
        >>> with autograd.record():
        ...     y = (x * x).sum(axis=1)
        >>> s = autograd.get_symbol(y)
        >>> s.infer_shape()
        ([(2, 3)], [(2,)], [])
        >>> s.infer_shape(**{s.list_arguments()[0]: (5, 4)})
        ([(5, 4)], [(5,)], [])
        """
        names = self._arguments(shapes, "infer_shape")
        known = {k: self._nodes[k].outs[0] for k in names.values()}
        for name, shape in shapes.items():
            old = known[names[name]]
            dtype = as_dtype(None) if old is None else old.dtype
            known[names[name]] = Aval(as_shape(shape, f"Symbol.infer_shape: {name}"), dtype)
        return [a and a.shape for a in known.values()], [a and a.shape for a in self._infer(known)], []

    def infer_type(self, **dtypes) -> tuple[list, list, list]:
        """Dtypes of arguments and results, as NumPy's classes; otherwise as :meth:`infer_shape`.

        Parameters
        ----------
        **dtypes : str or type
            Dtypes of arguments by name. Default: the recorded ones.
        """
        names = self._arguments(dtypes, "infer_type")
        known = {k: self._nodes[k].outs[0] for k in names.values()}
        for name, dtype in dtypes.items():
            old = known[names[name]]
            known[names[name]] = Aval(() if old is None else old.shape, as_dtype(dtype))
        return [a and a.dtype.type for a in known.values()], [a and a.dtype.type for a in self._infer(known)], []

    def eval(self, ctx: Context | None = None, **arrays: NDArray) -> list[NDArray]:
        """Run the graph: the same operators as recorded; the same values give the same results.

        Parameters
        ----------
        ctx : Context, optional
            Where to run; default: where the arrays are.
        **arrays : NDArray
            All arguments, by name.

        Returns
        -------
        list of NDArray
            One per result. While recording, they are recorded like any others.

        Raises
        ------
        AttrError
            If arguments are missing or unknown.
        DTypeError
            If a value is not an NDArray.
        ShapeError
            If the graph does not support these shapes.

        Examples
        --------
        >>> from nbgrad import autograd, nd
        >>> x = nd.array([1.0, 2.0])
        >>> x.attach_grad()
        >>> with autograd.record():
        ...     y = x * x
        >>> s = autograd.get_symbol(y)
        >>> s.eval(**{s.list_arguments()[0]: nd.array([3.0, 4.0])})[0].tolist()
        [9.0, 16.0]
        """
        names = self._arguments(arrays, "eval")
        for name, x in arrays.items():
            if not isinstance(x, NDArray):
                raise DTypeError(f"Symbol.eval: argument {name} must be an NDArray, got {x!r}")
        if missing := [f"{name} ({self._nodes[k].outs[0]})" for name, k in names.items() if name not in arrays]:
            raise AttrError(
                f"Symbol.eval: {len(missing)} argument(s) missing: {', '.join(missing)}; give each by name, "
                f"eval({missing[0].split()[0]}=...)"
            )
        if ctx is not None:
            usable(ctx)
            arrays = {n: x if x.ctx == ctx else cast(x, x._kind.on(ctx)) for n, x in arrays.items()}
        values: dict[tuple[int, int], NDArray] = {(k, 0): arrays[name] for name, k in names.items()}
        order = self._order()
        last = {entry: k for k in order for entry in self._nodes[k].inputs}
        for head in self._heads:
            last.pop(head, None)
        for k in order:
            node = self._nodes[k]
            if node.step is None:
                continue
            before: Any = [self._nodes[p].outs[n] for p, n in node.inputs]
            try:
                results = node.step.run([values[entry] for entry in node.inputs], before, node.outs)
            except NBGradError as err:
                err.add_note(f"in {node.name} ({node.op}) of a Symbol")
                raise
            except Exception as err:
                what = f"{type(err).__name__}: {err}"
                raise SymbolError(f"Symbol.eval: node {node.name!r} ({node.op}) failed: {what}", node.name) from err
            values.update({(k, n): x for n, x in enumerate(results)})
            for entry in node.inputs:  # release values that are dead
                if last.get(entry) == k:
                    values.pop(entry, None)
        return [values[head] for head in self._heads]


def trace(x: NDArray) -> Symbol:
    """The recorded history of `x`; see :func:`nbgrad.autograd.get_symbol`.

    Notes
    -----
    Unmarked operands become arguments, too, including those that operators create themselves: index arrays, masks,
    the head gradient of a recorded gradient. Unmarked operands that share memory and shape are merged into one
    argument, unless a derivative reads them: mark or copy those that should be separate.
    """
    if not isinstance(x, NDArray):
        raise DTypeError(f"get_symbol: an NDArray is needed, got {x!r}")
    nodes, head = build(x._node)
    return Symbol(nodes, [head])


# Deserialization.


def load_json(text: str) -> Symbol:
    """Read the symbol that :meth:`Symbol.tojson` wrote.

    Raises
    ------
    SymbolError
        If it is not such a text, or inconsistent; `node` is the name of the offending node.

    Notes
    -----
    Nothing in the text is executed or trusted: shape and dtype of every result are inferred by the operator's own rules
    and compared with the text. So text from untrusted sources may be run; its memory and time are bounded by its shapes
    only.
    """
    return Symbol(*read(text))


def load(fname: str) -> Symbol:
    """Read the symbol that :meth:`Symbol.save` wrote to a file."""
    with open(fname, encoding="utf-8") as file:
        return load_json(file.read())
