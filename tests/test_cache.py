"""Compiled kernels on disk: found again by the next process, never trusted blindly, never in the way."""

import math
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from nbgrad.backends.numba import code_store as machine_code
from nbgrad.backends.numba import disk_cache
from nbgrad.backends.numba.compile import generate, inline, kernel
from nbgrad.backends.numba.trusted_files import Root
from nbgrad.core import config
from nbgrad.vmath import error, exponential

ROOT = Path(__file__).resolve().parent.parent

WORK = """
from nbgrad import autograd, nd
x = nd.array([1.0, 2.0])
x.attach_grad()
with autograd.record():
    y = nd.exp(x) * x.sum() + nd.dot(x, x)
y.backward()
print(x.grad.asnumpy().tolist())
"""


def run(directory, code=WORK, **env):
    """Standard output, and how many kernels a new process loaded and compiled."""
    full = {k: v for k, v in os.environ.items() if not k.startswith("NBGRAD")}
    full |= {"NBGRAD_CACHE_DIR": str(directory), "NBGRAD_LOG": "compile", "PYTHONPATH": str(ROOT), **env}
    done = subprocess.run([sys.executable, "-c", code], env=full, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.count("nbgrad: loaded"), done.stderr.count("nbgrad: compiled"), done.stderr


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A directory filled by one process."""
    directory = tmp_path_factory.mktemp("kernels")
    out, loaded, compiled, _ = run(directory, PYTHONHASHSEED="1")
    assert loaded == 0 and compiled > 5
    return directory, out, compiled


def chosen(patch, directory):
    """Let kernels be kept there."""
    root = Root(str(directory))
    patch.setattr(disk_cache, "_chosen", (root, (root,)))


def stored(directory):
    return sorted(directory.glob("??/*.kernel"))


def test_the_next_process_loads(warm):
    directory, out, compiled = warm
    assert len(stored(directory)) == compiled
    assert not list(directory.rglob("*.tmp"))
    for seed in ("0", "2"):
        assert run(directory, PYTHONHASHSEED=seed)[:3] == (out, compiled, 0)


def test_generated_adjoints_are_loaded(tmp_path):
    code = (
        "import numpy as np, nbgrad as nb\nfrom nbgrad.demo.loops import csr_product\n"
        "args = np.ones(2), np.array([0, 1]), np.array([0, 2]), np.ones(2), np.zeros(1)\n"
        "pull = nb.adjoint(csr_product).vjp(*args)\nprint(pull(np.full(1, 2.0)))\n"
    )
    out, loaded, compiled, _ = run(tmp_path, code)
    assert (loaded, compiled) == (0, 2)  # the function and its adjoint
    assert run(tmp_path, code)[:3] == (out, 2, 0)
    stored(tmp_path)[0].write_bytes(b"damaged")
    assert run(tmp_path, code)[:3] == (out, 1, 1)


def test_only_matrix_products_need_numbas_runtime(warm):
    """Others are entered in half the time, and are loaded without starting it."""
    with_runtime = [path for path in stored(warm[0]) if b"NRT_" in path.read_bytes()]
    assert len(with_runtime) == 1


def test_damaged_files_are_compiled_again(warm, tmp_path):
    directory, out, compiled = warm
    files = stored(directory)
    for path in files:
        (tmp_path / path.parent.name).mkdir(exist_ok=True)
        (tmp_path / path.parent.name / path.name).write_bytes(path.read_bytes())
    copies = stored(tmp_path)
    whole = [path.read_bytes() for path in copies]
    head = len(disk_cache._MAGIC) + 32
    copies[0].write_bytes(b"")
    copies[1].write_bytes(whole[1][: len(whole[1]) // 2])
    copies[2].write_bytes(b"#!/bin/sh\necho something else\n" * 100)
    copies[3].write_bytes(whole[3][:-1] + bytes([whole[3][-1] ^ 1]))
    for k, payload in ((4, b"no pickle"), (5, pickle.dumps({"not": "a kernel"}))):
        key = copies[k].stem
        with pytest.MonkeyPatch.context() as patch:
            chosen(patch, tmp_path)
            disk_cache.store(key, payload)
            assert disk_cache.load(key) == payload
        assert whole[k][:head] != copies[k].read_bytes()[:head]
    found = run(tmp_path)
    assert found[:3] == (out, compiled - 6, 6)
    assert run(tmp_path)[:3] == (out, compiled, 0)


def test_two_processes_at_once(tmp_path):
    env = os.environ | {"NBGRAD_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    code = "from nbgrad import nd\nprint((nd.ones(3) * 2 + nd.ones((2, 1))).sum().asscalar())"
    both = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [p.communicate(timeout=120)[0] for p in both] == ["18.0\n"] * 2
    assert [p.returncode for p in both] == [0, 0]
    assert not list(tmp_path.rglob("*.tmp"))
    _, loaded, compiled, _ = run(tmp_path, code)
    assert compiled == 0 and loaded == len(stored(tmp_path)) > 0


# Which directory.


@pytest.fixture
def fresh(monkeypatch):
    """The cache as it is before its directory is chosen."""
    monkeypatch.setattr(disk_cache, "_chosen", None)
    return monkeypatch


def test_an_unusable_directory_falls_back_to_the_users(fresh, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    fresh.setattr(config, "CACHE_DIR", str(file / "below"))
    fresh.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert disk_cache.directory() == tmp_path / "user" / "nbgrad"
    disk_cache.store("ab" * 32, b"code")
    assert disk_cache.load("ab" * 32) == b"code" and disk_cache.info()[1:] == (1, len(disk_cache._MAGIC) + 32 + 64 + 4)
    assert disk_cache.clear() == 1 and disk_cache.load("ab" * 32) is None


def test_then_to_a_temporary_one(fresh, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    fresh.setattr(config, "CACHE_DIR", str(file))
    fresh.setenv("XDG_CACHE_HOME", str(file))
    fresh.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    assert disk_cache.directory().parent == tmp_path and disk_cache.directory().name.startswith("nbgrad-")


def test_then_to_memory_with_one_warning(fresh):
    fresh.setattr(disk_cache, "_writable", lambda root: False)
    fresh.setattr(disk_cache, "_user_cache", lambda: None)
    fresh.setattr("tempfile.gettempdir", lambda: (_ for _ in ()).throw(FileNotFoundError("no temporary directory")))
    fresh.setattr(config, "CACHE_DIR", None)
    with pytest.warns(RuntimeWarning, match="NBGRAD_CACHE_DIR") as caught:
        for _ in range(3):
            assert disk_cache.directory() is None and disk_cache.load("ab" * 32) is None
            disk_cache.store("ab" * 32, b"code")
    assert len(caught) == 1 and disk_cache.info() == (None, 0, 0) and disk_cache.clear() == 0
    out = np.zeros(3)
    made = generate("memory_only", "def memory_only(out, s):\n    for i in range(out.size):\n        out[i] = s\n", {})
    made(out, 2.5)
    assert out.tolist() == [2.5] * 3


def test_a_directory_that_cannot_be_written_is_still_read(fresh, tmp_path):
    given, other = tmp_path / "given", tmp_path / "other"
    fresh.setattr(config, "CACHE_DIR", str(given))
    fresh.setattr(disk_cache, "_user_cache", lambda: str(other))
    disk_cache.store("cd" * 32, b"shipped")
    fresh.setattr(disk_cache, "_chosen", None)
    writable = disk_cache._writable
    fresh.setattr(disk_cache, "_writable", lambda root: root.path != str(given) and writable(root))
    assert disk_cache.directory() == other and disk_cache.load("cd" * 32) == b"shipped"
    disk_cache.store("ef" * 32, b"new")
    assert disk_cache.load("ef" * 32) == b"new" and not stored(given)[1:]


def test_of_several_directories_the_first_is_written_and_all_are_read(fresh, tmp_path):
    paths = [tmp_path / name for name in ("first", "second", "third")]
    for k, path in enumerate(paths[1:]):
        fresh.setattr(config, "CACHE_DIR", str(path))
        fresh.setattr(disk_cache, "_chosen", None)
        disk_cache.store(f"{k}{k}" * 32, b"from %d" % k)
    before = [stored(path) for path in paths[1:]]
    fresh.setattr(config, "CACHE_DIR", os.pathsep.join(map(str, paths)))
    fresh.setattr(disk_cache, "_chosen", None)
    assert disk_cache.directory() == paths[0] and disk_cache.sources() == paths
    assert [disk_cache.load(f"{k}{k}" * 32) for k in range(2)] == [b"from 0", b"from 1"]
    disk_cache.store("ef" * 32, b"new")
    assert len(stored(paths[0])) == 1 and [stored(path) for path in paths[1:]] == before
    assert disk_cache.clear() == 1 and disk_cache.load("11" * 32) == b"from 1"  # which is not ours to delete


def test_storing_never_fails(fresh, tmp_path):
    chosen(fresh, tmp_path)
    (tmp_path / "ab").write_text("a file where a folder should be")
    disk_cache.store("ab" * 32, b"code")
    assert disk_cache.load("ab" * 32) is None
    fresh.setattr("os.replace", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    disk_cache.store("cd" * 32, b"code")
    assert disk_cache.load("cd" * 32) is None and not list(tmp_path.rglob("*.tmp"))


def test_a_directory_that_is_deleted_is_made_again(fresh, tmp_path):
    chosen(fresh, tmp_path / "cache")
    disk_cache.store("ab" * 32, b"code")
    shutil.rmtree(tmp_path / "cache")
    assert disk_cache.load("ab" * 32) is None and disk_cache.info()[1:] == (0, 0)
    disk_cache.store("ab" * 32, b"code")
    assert disk_cache.load("ab" * 32) == b"code"


def test_a_file_under_another_name_is_no_kernel(fresh, tmp_path):
    chosen(fresh, tmp_path)
    for key in ("ab" * 32, "ac" * 32):
        disk_cache.store(key, key.encode())
    first, second = stored(tmp_path)
    second.write_bytes(first.read_bytes())
    assert disk_cache.load("ab" * 32) == b"ab" * 32 and disk_cache.load("ac" * 32) is None


def test_what_killed_processes_left_is_deleted_and_what_others_write_is_not(fresh, tmp_path):
    chosen(fresh, tmp_path)
    disk_cache.store("ab" * 32, b"code")
    left, writing = (tmp_path / "ab" / f"{'ab' * 8}.{k}.0123abcd.tmp" for k in (1, 2))
    for path in (left, writing):
        path.write_bytes(b"half")
    os.utime(left, (1e9, 1e9))
    disk_cache.store("ab" * 32, b"code")
    assert not left.exists() and writing.exists()


def test_clear_deletes_our_files_alone(fresh, tmp_path):
    chosen(fresh, tmp_path)
    disk_cache.store("ab" * 32, b"code")
    others = [
        tmp_path / "ab" / "notes.txt",
        tmp_path / "ab" / "x.kernel",
        tmp_path / "precious" / f"{'ab' * 32}.kernel",
    ]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    link = tmp_path / "ab" / f"{'cd' * 32}.kernel"
    link.symlink_to(others[0])
    assert disk_cache.info()[1] == 1 and disk_cache.clear() == 1
    assert all(path.read_text() == "mine" for path in [*others, link])


# The key.


def function(source, name, **space):
    namespace = {"np": np, **space}
    exec(source, namespace)
    return namespace[name]


def keys(body="x + 1", constant=3, options=False, words='{"a", "b", "c"}'):
    """The fingerprints of a kernel that calls a helper that calls a helper."""
    deep = inline(function(f"def deep(x):\n    return {body}\n", "deep"))
    near = inline(function("def near(x):\n    return deep(x) * K\n", "near", deep=deep, K=constant))
    source = (
        f"def k(out):\n    if 'a' in {words}:\n        for i in range(out.size):\n            out[i] = near(out[i])\n"
    )
    made = kernel(function(source, "k", near=near), reorder=options)
    written = generate("k", "def k(out):\n    out[0] = near(out[0])\n", {"near": near}, reorder=options)
    return made._fingerprint(), written._fingerprint()


def test_the_key_follows_every_helper_and_constant():
    base = keys()
    assert keys() == base
    for changed in (keys(body="x + 2"), keys(constant=4), keys(body="x + np.float32(1)")):
        assert changed[0] != base[0] and changed[1] != base[1]


def test_the_key_follows_source_options_signature_and_versions(monkeypatch, fresh, tmp_path):
    chosen(fresh, tmp_path)

    def compiled(source, dtype="float64", **options):
        before = len(stored(tmp_path))
        generate("keyed", source, {"np": np}, **options).bind(np.dtype(dtype))
        return len(stored(tmp_path)) - before

    source = "def keyed(out):\n    out[0] = 1\n"
    assert compiled(source) == 1 and compiled(source) == 0
    assert compiled(source.replace("1", "2")) == 1
    assert compiled(source, reorder=True) == 1
    assert compiled(source, "float32") == 1
    monkeypatch.setattr(machine_code, "_environment", "another version")
    assert compiled(source) == 1 and compiled(source) == 0


def test_the_environment_is_in_the_key(monkeypatch):
    monkeypatch.setattr(machine_code, "_environment", "")
    before = machine_code._environment_fingerprint()
    of_numba, of_llvmlite = machine_code.VERSIONS
    for target, name, other in (
        (config, "__version__", "0.0.0"),
        (machine_code, "VERSIONS", ("0.0.0", of_llvmlite)),
        (machine_code, "VERSIONS", (of_numba, "0.0.0")),
        (machine_code, "host_processor", lambda: ("another", "")),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(machine_code, "_environment", "")
            patch.setattr(target, name, other)
            assert machine_code._environment_fingerprint() != before


def test_sets_in_code_do_not_depend_on_the_hash_seed():
    code = (
        "import sys; sys.path.insert(0, 'tests')\nimport hashlib, test_cache\n"
        "print(hashlib.sha256(repr(test_cache.keys()).encode()).hexdigest())"
    )

    def digest(seed):
        env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
        return subprocess.check_output([sys.executable, "-c", code], env=env, cwd=ROOT)

    assert len({digest(seed) for seed in ("0", "1", "7")}) == 1


def test_two_generated_kernels_of_one_name_do_not_mix():
    outs = []
    for value in (1, 2, 3):
        out = np.zeros(1)
        generate("twin", f"def twin(out):\n    out[0] = {value}\n", {})(out)
        outs.append(out[0])
    assert outs == [1, 2, 3]


def test_the_values_of_a_closure_are_in_the_key():
    def outer(c):
        def inner(out):
            out[0] = c

        return kernel(inner)

    assert outer(1)._fingerprint() == outer(1)._fingerprint() != outer(2)._fingerprint()
    out = np.zeros(1)
    for c in (1, 2, 1):
        outer(c)(out)
        assert out[0] == c


def test_helpers_can_be_called_from_python():
    assert exponential.clamp(3.0, 0.0, 2.0) == 2.0
    assert abs(exponential.exp(0.5) - math.exp(0.5)) < 1e-15
    assert abs(error.erf(0.5) - math.erf(0.5)) < 1e-15
