"""Disks that are full, broken, read-only or gone while a kernel is stored or loaded: it is compiled again, no more.

Each system call of the cache fails in turn, with each error that a disk can give, at once or after some bytes; and
where root runs this, a small file system is filled up.
"""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from nbgrad.backends.numba import disk_cache
from nbgrad.backends.numba.trusted_files import Root

from . import Outcome
from .cache import chosen

SHORT, LONG = 300, 20_000
_CALLS = ["open", "write", "read", "fstat", "stat", "mkdir", "replace", "unlink", "listdir", "close", "access"]
_ERRORS = ["ENOSPC", "EIO", "EROFS", "EDQUOT", "EACCES", "EPERM", "ESTALE", "ENOENT", "EMFILE", "EINVAL"]


def run(count: int, seed: int) -> Outcome:
    rng, outcome = random.Random(seed), Outcome()
    for attempt in range(count):
        if attempt == 0:
            _limited(outcome)
        elif attempt == 1:
            _full(outcome)
        else:
            _failing(outcome, rng, f"seed {seed}, attempt {attempt}")
    return outcome


class _Failing:
    """A system call that fails from one call on, some times; writing may write a part before."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name, self.real = name, getattr(os, name)
        self.error = rng.choice(_ERRORS)
        self.after, self.times = rng.randrange(6), rng.choice([1, 1, 2, 100])
        self.partly = name == "write" and rng.random() < 0.5

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.after -= 1
        if self.after >= 0 or self.times <= 0:
            return self.real(*args, **kwargs)
        self.times -= 1
        if self.partly:
            self.partly = False
            return self.real(args[0], args[1][: len(args[1]) // 2])
        if self.name == "close":  # it is closed, whatever it says
            self.real(*args, **kwargs)
        raise OSError(getattr(errno, self.error), os.strerror(getattr(errno, self.error)))


def _failing(outcome: Outcome, rng: random.Random, where: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Root(folder)
        with chosen(root):
            disk_cache.store("ab" * 32, b"old" * 1000)
            root._known = rng.choice([root._known, None])  # it was looked at before, or not
            call = _Failing(rng.choice(_CALLS), rng)
            told = f"{call.name} gives {call.error} after {call.after} ({where})"
            fds = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
            steps: list[Callable] = [
                lambda: disk_cache.load("ab" * 32), lambda: disk_cache.store("ab" * 32, b"old" * 1000),
                lambda: disk_cache.store("cd" * 32, b"new" * 1000), lambda: disk_cache.load("cd" * 32), disk_cache.info,
            ]  # fmt: skip
            rng.shuffle(steps)
            try:
                with mock.patch.object(os, call.name, call):
                    for step in steps:
                        step()
                found = disk_cache.load("ab" * 32), disk_cache.load("cd" * 32)
                disk_cache.store("cd" * 32, b"new" * 1000)
                after = disk_cache.load("cd" * 32)
            except Exception as err:
                outcome.wrong.append(f"{told}: {type(err).__name__}: {err}")
                return
            right = found[0] == b"old" * 1000 and found[1] in (None, b"new" * 1000) and after == b"new" * 1000
            if not right:
                outcome.wrong.append(f"{told}: something else was loaded")
            elif fds and len(os.listdir("/proc/self/fd")) > fds:
                outcome.wrong.append(f"{told}: a file stays open")
            else:
                outcome.counts["stored" if found[1] else "not stored"] += 1


#: Fills a disk, or the room that a process may fill, and uses the cache there.
_FILL = """
import sys
from nbgrad.backends.numba import disk_cache
big = bytes(range(256)) * 400
keys = [f"{k:02x}" * 32 for k in range(64)]
for key in keys:
    disk_cache.store(key, key.encode() + big)
kept = [key for key in keys if disk_cache.load(key) == key.encode() + big]
wrong = [key for key in keys if disk_cache.load(key) not in (None, key.encode() + big)]
assert not wrong and disk_cache.info()[1] == len(kept), (wrong, kept)
disk_cache.clear()
disk_cache.store(keys[0], b"small")
print(len(kept), disk_cache.load(keys[0]))
"""


def _program(outcome: Outcome, what: str, folder: str, before: str, most: int, small: bytes | None) -> None:
    root = Path(__file__).resolve().parents[2]
    env = {k: v for k, v in os.environ.items() if not k.startswith("NBGRAD")}
    env |= {"NBGRAD_CACHE_DIR": folder, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", before + _FILL], env=env, capture_output=True, text=True, timeout=300
    )
    kept, _, last = done.stdout.strip().partition(" ")
    if done.returncode or int(kept) > most or last != str(small):
        outcome.wrong.append(f"{what}: {done.returncode}: {done.stdout} {done.stderr[-500:]}")
    else:
        outcome.counts[what] += 1


def _limited(outcome: Outcome) -> None:
    """Files may not become large."""
    limit = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
    with tempfile.TemporaryDirectory() as folder:
        _program(outcome, "files of a limited size", folder, limit, 0, b"small")


def _full(outcome: Outcome) -> None:
    """A file system of a megabyte; where none can be mounted, one on which nothing can be written."""
    with tempfile.TemporaryDirectory() as folder:
        mounted = hasattr(os, "geteuid") and os.geteuid() == 0 and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", folder], capture_output=True
        ).returncode  # fmt: skip
        if not mounted:
            full = "import os\ndef write(*_):\n    raise OSError(28, 'No space left on device')\nos.write = write\n"
            _program(outcome, "a full disk", folder, full, 0, None)
            return
        try:
            _program(outcome, "a full disk", folder, "", 10, b"small")
        finally:
            subprocess.run(["umount", folder], check=True)
