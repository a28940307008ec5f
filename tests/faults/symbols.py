"""Symbols from texts and pickles that somebody changed: each is refused, or runs to what its shapes say."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import traceback
from functools import cache
from pathlib import Path

import numpy as np

from nbgrad import autograd, nd, symbol
from nbgrad.core.registry import operators
from nbgrad.errors import NBGradError

from . import Outcome
from ._apart import attempts

__all__ = ["LONG", "SHORT", "attempt", "run"]

SHORT, LONG = 300, 100_000

#: No graph with more elements than this is run: it would take its time, rightly.
_MOST = 100_000

_GRAPHS = {
    "mlp": lambda x: nd.dot(nd.tanh(nd.dot(x, x, transpose_b=True) + 0.5), x).sum(axis=1),
    "views": lambda x: x[1] * x[0] + (x[::2, ::-1] ** 2).sum(axis=0) + x[1:3].reshape((-1,))[0:4],
    "shapes": lambda x: nd.transpose(nd.concat(x, x * 2, dim=1)).reshape((4, 6)) + nd.tile(x, (2, 1))[0:4, 0:1],
    "taken": lambda x: nd.take(x, nd.array([0, 2, 1]), axis=0) + nd.pick(x, nd.array([0, 1, 1])).reshape((3, 1)),
    "softmax": lambda x: nd.softmax(x, axis=1) * nd.log_softmax(x, axis=0) + nd.cumsum(x, axis=1),
    "casts": lambda x: (x.astype("float32") * 3).astype("int32").astype("float64") + nd.clip(x, 0.2, 1.2),
    "spread": lambda x: nd.broadcast_to(x[0:1], shape=(5, 4)) + nd.repeat(x[0:1], 5, axis=0) + nd.pad(
        x, mode="constant", pad_width=(1, 1, 0, 0), constant_value=7.0),
    "extremes": lambda x: nd.max(x, axis=1) - nd.norm(x, axis=1) + nd.prod(x, axis=1) + nd.sort(x, axis=1)[:, 0],
    "convolved": lambda x: nd.Convolution(x.reshape((1, 1, 12)), nd.ones((2, 1, 3)), nd.ones((2,)), kernel=(3,),
                                          num_filter=2, pad=(1,)),
    "pooled": lambda x: nd.Pooling(x.reshape((1, 1, 3, 4)), kernel=(2, 2), pool_type="max", stride=(1, 1)),
    "averaged": lambda x: nd.Pooling(x.reshape((1, 1, 3, 4)), kernel=(2, 2), pool_type="avg", stride=(1, 1)),
    "normal": lambda x: nd.LayerNorm(x, nd.ones((4,)), nd.zeros((4,))),
    "batch": lambda x: nd.BatchNorm(x, nd.ones((4,)), nd.zeros((4,)), nd.zeros((4,)), nd.ones((4,)), fix_gamma=False),
    "solved": lambda x: nd.linalg.potrf(nd.dot(x, x, transpose_b=True) + nd.array(np.eye(3), dtype="float64")),
    "split": lambda x: nd.split(x, num_outputs=2, axis=1)[1] * nd.Embedding(
        nd.array([0, 1, 2]), x.astype("float64"), input_dim=3, output_dim=4)[:, 0:2],
}  # fmt: skip


@cache
def texts() -> list[str]:
    """Texts of graphs and of recorded gradients, with most kinds of operators in them."""
    found = []
    for f in _GRAPHS.values():
        x = nd.array(np.random.default_rng(0).uniform(0.3, 2.0, (3, 4)), dtype="float64")
        x.attach_grad()
        with autograd.record():
            y = f(x)
            y = y[0] if isinstance(y, list | tuple) else y
            found.append(autograd.get_symbol(y).tojson())
            with contextlib.suppress(NBGradError):
                (g,) = autograd.grad(y, [x], create_graph=True)
                found.append(autograd.get_symbol(g).tojson())
    return found


_ODD = [None, True, False, -1, 0, 1, 2, 3, 7, 31, 10**6, 1 << 40, 1 << 63, 10**30, 1.5, -0.0, 1e308, "", "0", "nan",
        "x", [], {}, [1], [[1, 2]], ["float64"], {"a": 1}, "float16", "int64", "bool", "float32", [3, 4], [0],
        [2, 0, 2]]  # fmt: skip
_WORDS = ["0", "1", "-1", "2", "7", "True", "None", "(1,)", "(0, 1)", "(3, 4)", "(-1, 5)", "()", "1.5", "inf", "nan",
          "1000000", "9223372036854775807", "99999999999999999999", "clip", "'clip'", "dtype('int32')", "range(0, 3)",
          "range(0, 10000000000)", "slice(0, 2, None)", "{'axis': 1}", "{}", "[1, 2]", "((((1,),),),)", "(" * 200,
          "-" * 50 + "1", "array('float64', (2,), [1.0, 2.0])", "array('float64', (9, 9), [1.0])", "context('gpu', 7)",
          "context('cpu', -1)", "number('int8', 300)", "unwritable('x')", "mul x0 x0", "exp $0; add $-1 1", "exp x7",
          "add x0 1e999", "__import__('os')", "'" + "a" * 5000 + "'"]  # fmt: skip


def _places(value, path=()) -> list[tuple]:
    """The paths of everything inside."""
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        found += _places(part, (*path, key))
    return found


def _at(content, path):
    for key in path:
        content = content[key]
    return content


def _mutate(content: dict, rng: random.Random) -> None:
    nodes, shapes, dtypes = content["nodes"], content["attrs"]["shape"][1], content["attrs"]["dtype"][1]
    what = rng.randrange(12)
    k = rng.randrange(len(nodes))
    if what == 0:
        a, b = rng.randrange(len(shapes)), rng.randrange(len(shapes))
        shapes[a], shapes[b] = shapes[b], shapes[a]
    elif what == 1:
        a = rng.randrange(len(shapes))
        shapes[a] = [rng.choice([0, 1, 2, 3, 4, 5, 12, 1 << 33]) for _ in range(rng.randrange(4))]
    elif what == 2:
        dtypes[rng.randrange(len(dtypes))] = rng.choice(
            ["float16", "float32", "float64", "int32", "int64", "bool", "x"]
        )
    elif what == 3 and nodes[k]["inputs"]:
        nodes[k]["inputs"][rng.randrange(len(nodes[k]["inputs"]))] = [
            rng.randrange(-1, len(nodes)),
            rng.randrange(2),
            0,
        ]
    elif what == 4 and nodes[k]["attrs"]:
        key = rng.choice(sorted(nodes[k]["attrs"]))
        nodes[k]["attrs"][key] = rng.choice(_WORDS)
    elif what == 5 and nodes[k]["attrs"]:
        key = rng.choice(sorted(nodes[k]["attrs"]))
        text = list(nodes[k]["attrs"][key])
        digits = [i for i, c in enumerate(text) if c.isdigit()]
        if digits:
            text[rng.choice(digits)] = rng.choice("0123456789")
        nodes[k]["attrs"][key] = "".join(text)
    elif what == 6:
        nodes[k]["op"] = rng.choice(sorted(operators))
    elif what == 7:
        content["heads"] = [[rng.randrange(len(nodes)), 0, 0] for _ in range(rng.randrange(1, 4))]
    elif what == 8:
        nodes.insert(rng.randrange(len(nodes)), nodes.pop(k))
    elif what == 9:
        nodes[k]["inputs"] = nodes[k]["inputs"] * rng.randrange(3)
    elif what == 10 and nodes[k]["attrs"]:
        nodes[k]["attrs"].pop(rng.choice(sorted(nodes[k]["attrs"])))
    else:
        path = rng.choice(_places(content)[1:])
        parent = _at(content, path[:-1])
        if rng.random() < 0.2:
            del parent[path[-1]]
        else:
            parent[path[-1]] = rng.choice(_ODD)


def _changed_bytes(text: bytes, rng: random.Random) -> bytes:
    data = bytearray(text)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        at = rng.randrange(len(data))
        how = rng.randrange(4)
        if how == 0:
            data[at] = rng.randrange(256)
        elif how == 1:
            del data[at : at + rng.randrange(1, 20)]
        elif how == 2:
            data[at:at] = bytes(rng.choice(b'0123456789[]{}",:-eE. \\') for _ in range(rng.randrange(1, 4)))
        else:
            data[at : at + 1] = rng.choice([b"9", b"0", b"-", b"1e9", b"[[", b'"'])
        if not data:
            return b""
    return bytes(data)


def attempt(rng: random.Random) -> tuple[str, str | None]:
    """One change; what came of it, and what is wrong with that."""
    text = rng.choice(texts())
    if rng.random() < 0.7:
        content = json.loads(text)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            with contextlib.suppress(
                LookupError, TypeError, AttributeError, ValueError
            ):  # an earlier change took its place
                _mutate(content, rng)
        text = json.dumps(content)
    else:
        text = _changed_bytes(text.encode(), rng).decode("utf-8", "surrogateescape")
    pickled = rng.random() < 0.2
    try:
        loaded = pickle.loads(pickle.dumps(_Reduced(text))) if pickled else symbol.load_json(text)
    except NBGradError:
        return "refused", None
    except BaseException as err:
        return "", f"reading raises {_named(err)}: {text[:2000]}"
    return _run(loaded, rng, text)


class _Reduced:
    """Pickled as a symbol with this text is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self):
        return symbol.load_json, (self.text,)


def _run(loaded: symbol.Symbol, rng: random.Random, text: str) -> tuple[str, str | None]:
    try:
        names = loaded.list_arguments()
        shapes, said, _ = loaded.infer_shape()
        dtypes, said_dtypes, _ = loaded.infer_type()
        if None in shapes:
            return "read, an argument of unknown shape", None
        if sum(int(np.prod([max(n, 1) for n in s])) for s in _all_shapes(loaded)) > _MOST:
            return "read, too large to run", None
        given = {
            name: nd.array(
                np.array([rng.choice((0, 1, 2, 0.5, 3)) for _ in range(int(np.prod(s)))]).reshape(s), dtype=d
            )
            for name, s, d in zip(names, shapes, dtypes, strict=True)
        }
        outs = loaded.eval(**given)
    except NBGradError:
        return "read, refused to run", None
    except BaseException as err:
        return "", f"running raises {_named(err)}: {text[:3000]}"
    found = [(y.shape, y.dtype) for y in outs]
    if found != list(zip(said, said_dtypes, strict=True)):
        return "", f"gives {found}, says {said} {said_dtypes}: {text[:3000]}"
    for y in outs:
        y.asnumpy()
    return "ran as it says", None


def _all_shapes(loaded: symbol.Symbol) -> list[tuple]:
    return [a.shape for node in loaded._nodes for a in node.outs if a is not None]


def _named(err: BaseException) -> str:
    where = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(err.__traceback__)][-4:]
    return f"{type(err).__name__} ({err}) at {', '.join(where)}"


def run(count: int, seed: int) -> Outcome:
    return attempts("symbols", count, seed)
