"""Files of arrays that somebody changed: each is refused, or read, and asks for no more memory than it has."""

from __future__ import annotations

import os
import random
import struct
import tempfile
import traceback
import tracemalloc
from functools import cache
from pathlib import Path

import numpy as np

from nbgrad import nd
from nbgrad.errors import NBGradError

from . import Outcome
from ._apart import attempts

__all__ = ["LONG", "SHORT", "attempt", "run"]

SHORT, LONG = 500, 100_000

_DTYPES = ["float16", "float64", "int8", "uint8", "int32", "int64"]


@cache
def files() -> list[bytes]:
    """Files of every kind: named or not, of all dtypes, with empty arrays, and in older formats."""
    rng = np.random.default_rng(0)
    contents: list = [
        nd.array(rng.normal(size=(2, 3))),
        [nd.array(rng.integers(0, 9, (2, 2)), dtype=d) for d in _DTYPES],
        {"w": nd.ones((3, 1)), "ü b": nd.zeros((2,), dtype="bool")},
        {"scalar": nd.array(np.float64(3.0), dtype="float64"), "none": nd.zeros((0, 4))},
        [],
        {f"layer{k}.weight": nd.ones((k + 1, 2)) for k in range(5)},
    ]  # fmt: skip
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for content in contents:
            path = os.path.join(folder, "file")
            nd.save(path, content)
            found.append(Path(path).read_bytes())
    values = np.arange(3, dtype="<f4").tobytes()
    first = struct.pack("<QQQIIiii", 0x112, 0, 1, 1, 3, 1, 0, 0) + values + struct.pack("<Q", 0)
    second = struct.pack("<QQQIIqiii", 0x112, 0, 1, 0xF993FAC8, 1, 3, 1, 0, 0) + values + struct.pack("<Q", 0)
    return [*found, first, second]


_NUMBERS = [0, 1, 2, 3, 31, 32, 33, 255, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
            0xF993FAC8, 0xF993FAC9, 0xF993FACA, 0x112]  # fmt: skip


def _changed(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) or 1)
    how = rng.randrange(7)
    if how == 0 and data:
        data[at] ^= 1 << rng.randrange(8)
    elif how == 1 and data:
        data[at] = rng.randrange(256)
    elif how == 2:
        del data[at:]
    elif how == 3:
        del data[at : at + rng.randrange(1, 16)]
    elif how == 4:
        data[at:at] = rng.randbytes(rng.randrange(1, 16))
    elif how == 5:
        data[at // 4 * 4 : at // 4 * 4 + 4] = struct.pack("<I", rng.choice(_NUMBERS) & 0xFFFFFFFF)
    else:
        data[at // 4 * 4 : at // 4 * 4 + 8] = struct.pack("<Q", rng.choice(_NUMBERS))


def attempt(rng: random.Random) -> tuple[str, str | None]:
    data = bytearray(rng.choice(files()))
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        _changed(data, rng)
    if not tracemalloc.is_tracing():
        tracemalloc.start(1)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        loaded = _load(bytes(data), rng)
        arrays = list(loaded.values()) if isinstance(loaded, dict) else loaded
        what, problem = "read", None
        for x in arrays:
            if x.asnumpy().shape != x.shape or x.asnumpy().dtype != x.dtype:
                problem = f"an array is not what it says: {x.shape} {x.dtype}"
    except NBGradError:
        what, problem = "refused", None
    except BaseException as err:
        at = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(err.__traceback__)][-3:]
        what, problem = "", f"{type(err).__name__} ({err}) at {', '.join(at)}"
    used = tracemalloc.get_traced_memory()[1] - before
    if used > 8 * len(data) + 100_000:  # objects have their own size
        problem = f"{used} bytes are asked for, for a file of {len(data)}"
    return what, problem and f"{problem}: {bytes(data).hex()[:600]}"


def _load(data: bytes, rng: random.Random):
    if rng.random() < 0.9:
        return nd.load_frombuffer(data)
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return nd.load(file.name)


def run(count: int, seed: int) -> Outcome:
    return attempts("arrays", count, seed)
