"""Parsing: from JSON text to the nodes of a Symbol.

Nothing in a text is trusted: types, numbers and sizes are checked, and shape and dtype of every result are inferred
again by the operator's own rules and compared with the text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from ..core.dtypes import as_dtype
from ..core.shapes import size
from ..errors import NBGradError, SymbolError
from .from_tape import Node
from .operand_checks import MAX_AXES, MAX_BYTES, is_int
from .steps import Aval, from_text

__all__ = ["read"]

#: A limit far above recorded graphs: larger ones are refused at the cost of reading the text.
MAX_NODES = 1 << 22
_MAX_TEXT = 1 << 30
_NODE_KEYS = {"op", "name", "attrs", "inputs"}
_KEYS = {"nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"}
_EXTRA_KEYS = {"nbgrad_version", "shape", "dtype"}


def _refuse(what: str, node: str | None = None) -> NoReturn:
    where = "" if node is None else f" (node {node!r})"
    raise SymbolError(f"load_json: not a Symbol written by tojson{where}: {what}", node)


def _short(value) -> str:
    text = value if isinstance(value, str) else repr(value) if not isinstance(value, dict | list) else _sketch(value)
    text = text if len(text) <= 200 else text[:197] + "..."
    return text.encode(errors="backslashreplace").decode()


def _sketch(value: dict | list) -> str:
    """A short description of a container, which may be long and deep."""
    return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"


def _constant(word: str) -> NoReturn:
    _refuse(f"{word} is no number of JSON")


def _integer(digits: str) -> int:
    if len(digits) > 20:
        _refuse(f"the integer {digits[:20]}... is too large")
    return int(digits)


def _pairs(pairs: list[tuple[str, Any]]) -> dict:
    content = dict(pairs)
    if len(content) != len(pairs):
        keys = [key for key, _ in pairs]
        _refuse(f"the key {next(k for k in keys if keys.count(k) > 1)!r} is there twice")
    return content


def read(text: str) -> tuple[list[Node], list[tuple[int, int]]]:
    """Parse a text into nodes and heads.

    Raises
    ------
    SymbolError
        If it is not the text of a symbol, or inconsistent; `node` is the name of the offending node.
    """
    if not isinstance(text, str):
        raise SymbolError(f"load_json: a text is needed, got {type(text).__name__}")
    if len(text) > _MAX_TEXT:
        raise SymbolError(f"load_json: not JSON that could be read: {len(text)} characters")
    try:
        content = json.loads(text, parse_constant=_constant, parse_int=_integer, object_pairs_hook=_pairs)
    except NBGradError:
        raise
    except (ValueError, RecursionError, MemoryError) as err:
        raise SymbolError(f"load_json: not JSON: {err}") from None
    return _graph(content)


def _keys(given, known: set[str], needed: set[str], what: str, node: str | None = None) -> dict:
    if type(given) is not dict:
        _refuse(f"{what} must be an object, got {_short(given)}", node)
    if missing := needed - set(given):
        _refuse(f"{what} has no {', '.join(sorted(missing))}", node)
    if more := set(given) - known:
        _refuse(f"{what} has {', '.join(map(repr, sorted(more)[:5]))}, which nobody knows", node)
    return given


def _list(given, what: str, node: str | None = None) -> list:
    if type(given) is not list:
        _refuse(f"{what} must be a list, got {_short(given)}", node)
    return given


def _tagged(extra: dict, key: str, tag: str) -> Any:
    pair = _list(extra[key], f"attrs.{key}")
    if len(pair) != 2 or pair[0] != tag:
        _refuse(f"attrs.{key} must be [{tag!r}, ...], got {_short(pair)}")
    return pair[1]


def _graph(content) -> tuple[list[Node], list[tuple[int, int]]]:
    _keys(content, _KEYS, _KEYS - {"arg_nodes"}, "the text")
    extra = _keys(content["attrs"], _EXTRA_KEYS, {"shape", "dtype"}, "attrs")
    if "nbgrad_version" in extra and type(_tagged(extra, "nbgrad_version", "str")) is not str:
        _refuse(f"the version must be a text, got {_short(extra['nbgrad_version'][1])}")
    raw = _list(content["nodes"], "nodes")
    rows = _list(content["node_row_ptr"], "node_row_ptr")
    shapes = _list(_tagged(extra, "shape", "list_shape"), "the shapes")
    dtypes = _list(_tagged(extra, "dtype", "list_str"), "the dtypes")
    if len(raw) > MAX_NODES or len(shapes) > MAX_NODES:
        _refuse(f"{len(raw)} nodes with {len(shapes)} results are more than {MAX_NODES}")
    fits = all(is_int(n, 0) for n in rows) and rows == sorted(rows) and rows[:1] == [0]
    if not fits or len(rows) != len(raw) + 1 or rows[-1] != len(shapes) or len(shapes) != len(dtypes):
        _refuse("node_row_ptr, shapes and dtypes do not fit the nodes")
    nodes: list[Node] = []
    names: set[str] = set()
    for given, start, stop in zip(raw, rows[:-1], rows[1:], strict=True):
        node = _node(given, list(zip(shapes[start:stop], dtypes[start:stop], strict=True)), nodes)
        if node.name in names:
            _refuse("two nodes have this name", node.name)
        names.add(node.name)
        nodes.append(node)
    if "arg_nodes" in content and content["arg_nodes"] != [k for k, node in enumerate(nodes) if node.step is None]:
        _refuse("arg_nodes does not name the variables")
    heads = [_entry(head, nodes, "a head") for head in _list(content["heads"], "heads")]
    if not heads:
        _refuse("there is no head")
    return nodes, heads


def _entry(given, nodes: list[Node], what: str, node: str | None = None) -> tuple[int, int]:
    if type(given) is not list or len(given) not in (2, 3) or not all(is_int(n, 0) for n in given) or any(given[2:]):
        _refuse(f"{what} must be [node, result, 0], got {_short(given)}", node)
    k, n = given[:2]
    if k >= len(nodes) or n >= len(nodes[k].outs):
        _refuse(f"there is no result {n} of node {k} here; nodes come after their inputs", node)
    return k, n


def _aval(shape, dtype, name: str) -> Aval | None:
    if shape is None and dtype is None:
        return None
    if type(shape) is not list or len(shape) > MAX_AXES or not all(is_int(n, 0) for n in shape):
        _refuse(f"a shape must be a list of at most {MAX_AXES} lengths, got {_short(shape)}", name)
    if type(dtype) is not str:
        _refuse(f"a dtype must be a word, got {_short(dtype)}", name)
    try:
        aval = Aval(tuple(shape), as_dtype(dtype))
    except NBGradError as err:
        _refuse(str(err), name)
    _check_size(aval, name)
    return aval


def _check_size(a: Aval, name: str) -> None:
    # If a length is 0, the product of the others still counts: strides are computed from it.
    if len(a.shape) > MAX_AXES or size([n for n in a.shape if n]) * a.dtype.np.itemsize > MAX_BYTES:
        _refuse(f"no array has shape {_short(a.shape)}", name)


def _is_text(word: str) -> bool:
    """Whether a string is not empty and has no lone surrogates."""
    try:
        return bool(word.encode())
    except UnicodeEncodeError:
        return False


def _node(given, results: list[tuple], nodes: list[Node]) -> Node:
    name = given.get("name") if type(given) is dict else None
    if type(name) is not str or not _is_text(name):
        _refuse(f"every node needs a name, got {_short(given)}")
    _keys(given, _NODE_KEYS, _NODE_KEYS - {"attrs"}, "it", name)
    op, attrs = given["op"], given.get("attrs", {})
    if type(op) is not str or not _is_text(op):
        _refuse(f"op must be a word, got {_short(op)}", name)
    if type(attrs) is not dict or not all(type(v) is str and _is_text(f"{k}{v} ") for k, v in attrs.items()):
        _refuse(f"attrs must be an object of strings, got {_short(attrs)}", name)
    inputs = tuple([_entry(e, nodes, "an input", name) for e in _list(given["inputs"], "inputs", name)])
    outs = tuple([_aval(shape, dtype, name) for shape, dtype in results])
    if op == "null":
        if inputs or attrs or len(outs) != 1:
            _refuse("a variable has one value, and neither inputs nor attributes", name)
        return Node(name, None, (), outs)
    step = named_errors(lambda: from_text(op, attrs), name, op)
    before = [nodes[k].outs[n] for k, n in inputs]
    if step.runs:
        _check(step, before, outs, name, op)
    return Node(name, step, inputs, outs)


def named_errors(call: Callable[[], Any], name: str, op: str) -> Any:
    """Run ``call()``; errors that bad text can cause become a SymbolError that names the node."""
    try:
        return call()
    except (NBGradError, ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
            ValueError) as err:  # fmt: skip
        what = str(err) if isinstance(err, NBGradError) else f"{type(err).__name__}: {err}"
        raise SymbolError(f"load_json: node {name!r} ({op}) cannot be read: {what}", name) from None


def _check(step, before: list[Aval | None], outs: tuple[Aval | None, ...], name: str, op: str) -> None:
    if None in before or None in outs:
        _refuse(f"operator {op!r} has an input or a result without a shape", name)
    inferred: list[Aval] = named_errors(lambda: step.check(before), name, op)
    for a in inferred:
        if not all(is_int(n, 0) for n in a.shape):
            _refuse(f"operator {op!r} gives a result of shape {_short(a.shape)}", name)
        _check_size(a, name)
    if tuple(inferred) != outs:
        of, gives, said = (_short(", ".join(map(str, some))) for some in (before, inferred, outs))
        _refuse(f"operator {op!r} of {of} gives {gives}, the text says {said}", name)
