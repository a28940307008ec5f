"""Files of arrays: what comes back, MXNet's bytes, and what no input may do."""

import os
import random
import struct

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import NBGradError, autograd, nd

DTYPES = ["float16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool"]
SHAPES = [(), (0,), (2, 0, 3), (1,), (3,), (2, 3), (2, 1, 2, 2)]


def same(x, y):
    assert (x.shape, x.dtype, x.context) == (y.shape, y.dtype, y.context)
    np.testing.assert_array_equal(x.asnumpy(), y.asnumpy())


def some(shape=(2, 3), dtype="float32", ctx=None):
    values = np.random.default_rng(3).normal(size=shape) * 50
    return nd.array(np.abs(values).astype(dtype) if dtype == "uint8" else np.asarray(values).astype(dtype), ctx=ctx)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_round_trip(tmp_path, dtype, shape):
    x, y = some(shape, dtype), some((4,), dtype, nb.cpu(1))
    path = tmp_path / "arrays"
    nd.save(path, [x, y])
    for found in (nd.load(path), nd.load(str(path)), nd.load_frombuffer(path.read_bytes())):
        assert type(found) is list
        same(found[0], x)
        same(found[1], y)
        found[0][...] = 0


def test_containers(tmp_path):
    path, x, y = str(tmp_path / "arrays"), some(), some(())
    nd.save(path, x)
    found = nd.load(path)
    assert type(found) is list
    same(*found, x)
    nd.save(path, {"w": x, "": y, "größe/λ": x})
    found = nd.load(path)
    assert list(found) == ["w", "", "größe/λ"]
    same(found["größe/λ"], x)
    for nothing in ([], (), {}):
        nd.save(path, nothing)
        assert nd.load(path) == []
    nd.save(path, (a for a in (x, y)))
    assert len(nd.load(path)) == 2


def test_special_values(tmp_path):
    path = tmp_path / "arrays"
    for dtype in ("float16", "float32", "float64"):
        x = np.array([np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max], dtype)
        nd.save(path, nd.array(x))
        assert nd.load(path)[0].asnumpy().tobytes() == x.tobytes()


def test_marks_are_dropped(tmp_path):
    x = some()
    x.attach_grad()
    with autograd.record():
        nd.save(tmp_path / "x", [x, x * 2])
        found = nd.load(tmp_path / "x")
    assert [f.grad for f in found] == [None, None]
    assert [f._node for f in found] == [None, None]


# The bytes.


def mxnet_array(magic, shape, code, elements, storage=0, device=(1, 0)):
    head = struct.pack("<Ii", magic, storage) if magic != 0xF993FAC8 else struct.pack("<I", magic)
    return head + struct.pack(f"<i{len(shape)}q", len(shape), *shape) + struct.pack("<iii", *device, code) + elements


def mxnet_file(arrays, names=(), reserved=0):
    out = struct.pack("<QQQ", 0x112, reserved, len(arrays)) + b"".join(arrays) + struct.pack("<Q", len(names))
    return out + b"".join(struct.pack("<Q", len(n)) + n for n in names)


ONE = mxnet_array(0xF993FAC9, (2,), 0, struct.pack("<2f", 1, 2))


def test_bytes_are_mxnets(tmp_path):
    path = tmp_path / "arrays"
    nd.save(path, {"ab": nd.array([1, 2])})
    assert path.read_bytes() == mxnet_file([ONE], [b"ab"])
    nd.save(path, [nd.array([1, 2], dtype="int8"), nd.array(3, dtype="float64"), nd.zeros((0, 2), dtype="bool")])
    assert path.read_bytes() == mxnet_file(
        [  # with a 0-d or zero-size array among them, all are of version 3
            mxnet_array(0xF993FACA, (2,), 5, b"\1\2"),
            mxnet_array(0xF993FACA, (), 1, struct.pack("<d", 3)),
            mxnet_array(0xF993FACA, (0, 2), 7, b""),
        ]
    )


def test_older_versions_are_read():
    first = struct.pack("<III", 2, 1, 2) + struct.pack("<iii", 1, 0, 0) + struct.pack("<2f", 1, 2)
    second = mxnet_array(0xF993FAC8, (1, 2), 0, struct.pack("<2f", 1, 2))
    for x in nd.load_frombuffer(mxnet_file([first, second])):
        same(x, nd.array([[1, 2]]))


def test_devices():
    arrays = [mxnet_array(0xF993FAC9, (1,), 3, b"\7", device=d) for d in ((1, 3), (2, 0), (3, 1), (1, -1), (77, 5))]
    with nb.cpu(9):
        found = nd.load_frombuffer(mxnet_file(arrays))
    assert [x.context for x in found] == [nb.cpu(3), nb.cpu(9), nb.cpu(9), nb.cpu(9), nb.cpu(9)]


def test_bools_are_zero_and_one():
    (x,) = nd.load_frombuffer(mxnet_file([mxnet_array(0xF993FAC9, (4,), 7, b"\0\1\2\xff")]))
    assert x._buf.view("u1").tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, "u1")])
def test_buffers(make):
    assert nd.load_frombuffer(make(mxnet_file([ONE])))[0].tolist() == [1, 2]


# Bad input.

BAD = {
    "nothing": (b"", "cut off"),
    "text": (b"hello, this is no file of arrays", "0x112"),
    "numpy": (b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}", "0x112"),
    "many arrays": (struct.pack("<QQQ", 0x112, 0, 2**63), "damaged"),
    "long name": (mxnet_file([ONE], [b"a"])[:-9] + struct.pack("<Q", 2**64 - 1) + b"a", "cut off"),
    "more names": (mxnet_file([ONE], [b"a", b"b"]), "1 arrays have 2 names"),
    "one name twice": (mxnet_file([ONE, ONE], [b"a", b"a"]), "two arrays are called 'a'"),
    "more bytes": (mxnet_file([ONE]) + b"\0", "1 bytes follow"),
    "huge": (mxnet_file([mxnet_array(0xF993FAC9, (2**40,), 0, b"")]), "cut off"),
    "overflow": (mxnet_file([mxnet_array(0xF993FACA, (2**62, 4, 2**61), 0, b"")]), "has shape"),
    "huge and empty": (mxnet_file([mxnet_array(0xF993FACA, (2**62, 2**62, 0), 0, b"")]), "has shape"),
    "negative": (mxnet_file([mxnet_array(0xF993FACA, (-2, -1), 0, b"12345678")]), "has shape"),
    "axes": (mxnet_file([mxnet_array(0xF993FACA, (1,) * 33, 3, b"1")]), "33 axes"),
    "no shape": (mxnet_file([struct.pack("<Iii", 0xF993FACA, 0, -1)]), "-1 axes"),
    "no value": (mxnet_file([struct.pack("<Iii", 0xF993FAC9, 0, 0)]), "no value"),
    "row_sparse": (mxnet_file([mxnet_array(0xF993FAC9, (2,), 0, b"12345678", storage=1)]), "row_sparse"),
    "csr": (mxnet_file([mxnet_array(0xF993FAC9, (2,), 0, b"12345678", storage=2)]), "csr"),
    "storage": (mxnet_file([mxnet_array(0xF993FAC9, (2,), 0, b"12345678", storage=-2)]), "storage type -2"),
    "undefined": (mxnet_file([mxnet_array(0xF993FAC9, (), 0, b"", storage=-1)]), "no value"),
    "bfloat16": (mxnet_file([mxnet_array(0xF993FAC9, (2,), 12, b"1234")]), "dtype number 12"),
}


@pytest.mark.parametrize("data", list(BAD))
def test_bad_files(tmp_path, data):
    content, says = BAD[data]
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(NBGradError, match=says) as caught:
        nd.load_frombuffer(content)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(NBGradError, match=f"load: .*bad: .*{says}"):
        nd.load(path)


def sample(tmp_path):
    data = {f"{k}é": some(shape, dtype) for k, (shape, dtype) in enumerate(zip(SHAPES, DTYPES[:7], strict=True))}
    nd.save(tmp_path / "all", data)
    return (tmp_path / "all").read_bytes()


def test_every_prefix_is_refused(tmp_path):
    whole = sample(tmp_path)
    for n in range(len(whole)):
        with pytest.raises(NBGradError):
            nd.load_frombuffer(whole[:n])


def test_damaged_bytes_give_arrays_or_an_error(tmp_path):
    whole, draw = sample(tmp_path), random.Random(5)
    refused = 0
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 1, 2, 8))):
            data[draw.randrange(len(data))] = draw.choice((0, 1, 255, 128, 127, draw.randrange(256)))
        try:
            found = nd.load_frombuffer(data)
        except NBGradError:
            refused += 1
        else:
            arrays = found.values() if isinstance(found, dict) else found
            assert sum(x._buf.nbytes for x in arrays) <= len(data)
            assert all(x.asnumpy().shape == x.shape for x in arrays)
    assert 300 < refused < 3000


@pytest.mark.parametrize("data", [3, "text", None, np.ones(2), [1, 2], [np.ones(2)], {1: nd.ones(1)}, {"a": [1]}])
def test_other_data_is_refused(tmp_path, data):
    with pytest.raises(ValueError, match="save: "):
        nd.save(tmp_path / "x", data)
    assert os.listdir(tmp_path) == []


def test_other_buffers_are_refused():
    for given in ("text", 3, None, [1], np.ones((4, 4))[:, 1]):
        with pytest.raises(TypeError, match="load_frombuffer: "):
            nd.load_frombuffer(given)


# Writing.


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "arrays"
    nd.save(path, nd.array([1, 2]))
    old = path.read_bytes()

    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        nd.save(path, nd.ones(1000))
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["arrays"]


def test_links_and_permissions_stay(tmp_path):
    path, link = tmp_path / "arrays", tmp_path / "link"
    nd.save(path, nd.ones(1))
    path.chmod(0o640)
    link.symlink_to(path)
    nd.save(link, nd.ones(2))
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert nd.load(path)[0].shape == (2,)


def test_missing_places(tmp_path):
    with pytest.raises(FileNotFoundError):
        nd.load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        nd.save(tmp_path / "no" / "folder", nd.ones(1))
    with pytest.raises(TypeError):
        nd.save(3.5, nd.ones(1))
    nd.save(os.devnull, nd.ones(1))
    assert not os.path.isfile(os.devnull)
