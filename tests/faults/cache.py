"""Damaged files in the kernel cache: each is compiled again or right, and none is taken under another's name.

Most attempts are made on the files alone, where a load must give what was stored or nothing; every thousandth
damages a whole cache of a program that runs then, and must print what it printed before.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nbgrad.backends.numba import disk_cache
from nbgrad.backends.numba.trusted_files import Root

from . import Outcome

SHORT, LONG = 400, 20_000
ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = """
import numpy as np
from nbgrad.backends.numba.compile import generate
for k in range(6):
    out = np.zeros(3)
    generate(f"k{k}", f"def k{k}(out):\\n    for i in range(out.size):\\n        out[i] = i * {k} + 0.5\\n", {})(out)
    print(out.tolist())
"""


def run(count: int, seed: int) -> Outcome:
    rng, outcome = random.Random(seed), Outcome()
    with tempfile.TemporaryDirectory() as folder:
        files = _Files(Path(folder) / "files", rng)
        program = _Program(Path(folder) / "program", rng) if count >= 100 else None
        for attempt in range(count):
            if program is not None and attempt % 1000 == 99:
                program.attempt(outcome, f"seed {seed}, attempt {attempt}")
            else:
                files.attempt(outcome, f"seed {seed}, attempt {attempt}")
    return outcome


class _Files:
    """A cache of random payloads; at each attempt one file is damaged, looked for, stored again and looked for."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.rng = rng
        self.root = Root(str(folder))
        self.payloads = {rng.randbytes(32).hex(): rng.randbytes(rng.choice([1, 100, 20_000])) for _ in range(40)}
        with chosen(self.root):
            for key, payload in self.payloads.items():
                disk_cache.store(key, payload)
        self.paths = {key: folder / key[:2] / f"{key}.kernel" for key in self.payloads}

    def attempt(self, outcome: Outcome, where: str) -> None:
        key, other = self.rng.sample(list(self.paths), 2)
        path = self.paths[key]
        whole = path.read_bytes()
        what, same = damage(path, self.paths[other], self.rng)
        told = f"{what} ({where})"
        with chosen(self.root):
            try:
                found = disk_cache.load(key)
                disk_cache.store(key, self.payloads[key])
                after = disk_cache.load(key)
                disk_cache.info()
            except Exception as err:
                outcome.wrong.append(f"{told}: {type(err).__name__}: {err}")
            else:
                if found != (self.payloads[key] if same else None):
                    outcome.wrong.append(f"{told}: it was {'not ' if same else ''}taken")
                elif after != self.payloads[key] and not path.is_dir():
                    outcome.wrong.append(f"{told}: it was not replaced")
                else:
                    outcome.counts["refused" if found is None else "right"] += 1
        _restore(path, whole)


class _Program:
    """A program that loads kernels, as a process of its own."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.printed = self.start()

    def start(self) -> str:
        env = {k: v for k, v in os.environ.items() if not k.startswith("NBGRAD")}
        env |= {"NBGRAD_CACHE_DIR": str(self.folder), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", _PROGRAM], env=env, capture_output=True, text=True, timeout=300
        )
        return done.stdout if not done.returncode else f"exit code {done.returncode}: {done.stderr}"

    def attempt(self, outcome: Outcome, where: str) -> None:
        paths = sorted(self.folder.glob("??/*.kernel"))
        wholes = {path: path.read_bytes() for path in paths}
        what = []
        for path in paths:
            what.append(damage(path, self.rng.choice([p for p in paths if p != path]), self.rng)[0])
        printed = self.start()
        if printed == self.printed:
            outcome.counts["a program printed the same"] += 1
        else:
            outcome.wrong.append(f"{', '.join(what)} ({where}): a program printed {printed}")
        for path, whole in wholes.items():
            _restore(path, whole)


def damage(path: Path, other: Path, rng: random.Random) -> tuple[str, bool]:
    """Do something to a file; what, and whether it is as good as it was."""
    whole = path.read_bytes() if path.is_file() else b""
    what = rng.choice(_WAYS)
    if what == "truncated":
        path.write_bytes(whole[: rng.randrange(max(len(whole), 1))])
    elif what == "bits":
        changed = bytearray(whole)
        for _ in range(rng.choice([1, 1, 1, 5, 100])):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        return what, bytes(changed) == whole
    elif what == "longer":
        path.write_bytes(whole + rng.randbytes(rng.randint(1, 100)))
    elif what == "garbage":
        path.write_bytes(rng.randbytes(rng.choice([0, 1, 48, 1000, 100_000])))
    elif what == "swapped":
        path.write_bytes(other.read_bytes() if other.is_file() else b"")
    elif what == "an older file":
        path.write_bytes(whole.replace(b"nbgrad kernel 2", b"nbgrad kernel 1"))
    elif what == "mixed":
        rest = other.read_bytes() if other.is_file() else b""
        cut = rng.randrange(1, max(len(whole), 2))
        path.write_bytes(whole[:cut] + rest[cut:])
        return what, path.read_bytes() == whole
    elif what == "mode":
        mode = rng.choice([0o000, 0o200, 0o400, 0o604, 0o620, 0o602, 0o666, 0o777])
        path.chmod(mode)
        return what, not mode & 0o022 and (os.geteuid() == 0 or bool(mode & 0o400))
    else:
        path.unlink()
        if what == "a link":
            path.symlink_to(other)
        elif what == "a link to itself":
            path.symlink_to(path)
        elif what == "another link":
            path.symlink_to(rng.choice(["/dev/zero", "/dev/stdin", "/nowhere", "/etc/passwd", "/"]))
        elif what == "a FIFO":
            os.mkfifo(path)
        elif what == "a directory":
            path.mkdir()
            (path / "file").write_text("")
        elif what == "huge":
            with path.open("wb") as file:
                file.truncate(1 << 42)
    return what, False


_WAYS = [
    *["truncated", "bits", "bits", "longer", "garbage", "swapped", "swapped", "an older file", "mixed", "mode"],
    *["gone", "a link", "a link to itself", "another link", "a FIFO", "a directory", "huge"],
]


def _restore(path: Path, whole: bytes) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.write_bytes(whole)
    path.chmod(0o600)


class chosen:
    """A scope in which kernels are kept in one directory."""

    def __init__(self, root: Root) -> None:
        self.root = root

    def __enter__(self) -> None:
        self.before = disk_cache._chosen
        disk_cache._chosen = self.root, (self.root,)

    def __exit__(self, *_) -> None:
        disk_cache._chosen = self.before
