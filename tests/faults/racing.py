"""Processes that store and load the same kernels at once, and are killed at any moment.

Of eight, some are killed (SIGKILL). What the others load is always whole and right, and after them the cache holds
whole files, and of half-written ones no more than were killed.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nbgrad.backends.numba import disk_cache
from nbgrad.backends.numba.trusted_files import Root

from . import Outcome
from .cache import chosen

SHORT, LONG = 1, 100
ROOT = Path(__file__).resolve().parents[2]
_PROCESSES, _KEYS = 8, 12
#: Takes a seed and seconds. The payload of a key is made of the key, so that anybody can tell whether it is right.
_WORK = """
import random, sys, time
from nbgrad.backends.numba import disk_cache
from faults.racing import keys, payload
rng, end = random.Random(int(sys.argv[1])), time.monotonic() + float(sys.argv[2])
print("begun", flush=True)
while time.monotonic() < end:
    key = rng.choice(keys())
    if rng.random() < 0.5:
        disk_cache.store(key, payload(key))
    elif disk_cache.load(key) not in (None, payload(key)):
        sys.exit(f"{key} was wrong")
    if rng.random() < 0.002:
        disk_cache.clear()
"""


def keys() -> list[str]:
    return [hashlib.sha256(b"%d" % k).hexdigest() for k in range(_KEYS)]


def payload(key: str) -> bytes:
    return key.encode() * (1 + int(key[:4], 16) % 3000)


def run(count: int, seed: int) -> Outcome:
    outcome = Outcome()
    for attempt in range(count):
        _race(outcome, random.Random(seed * 1_000_003 + attempt), f"seed {seed}, attempt {attempt}")
    return outcome


def _race(outcome: Outcome, rng: random.Random, where: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith("NBGRAD")}
        env |= {"NBGRAD_CACHE_DIR": folder, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
        running = [
            subprocess.Popen(
                [sys.executable, "-c", _WORK, str(rng.randrange(1 << 30)), "1.0"],
                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for _ in range(_PROCESSES)
        ]  # fmt: skip
        for process in running:
            process.stdout.readline()
        killed = rng.sample(running, rng.randint(1, _PROCESSES - 1))
        for process in killed:
            time.sleep(rng.random() * 0.1)
            process.kill()
        wrong = []
        for process in running:
            _, said = process.communicate(timeout=300)
            if process.returncode and process not in killed:
                wrong.append(said.strip().split("\n")[-1])
        root = Root(folder)
        with chosen(root):
            left = list(Path(folder).rglob("*.tmp"))
            if len(left) > len(killed):
                wrong.append(f"{len(left)} temporary files of {len(killed)} killed processes")
            for path in Path(folder).rglob("*.kernel"):
                if disk_cache.load(path.stem) != payload(path.stem):
                    wrong.append(f"{path.name} is not whole")
            for path in left:
                os.utime(path, (1e9, 1e9))
            for key in keys():
                disk_cache.store(key, payload(key))
            if not all(disk_cache.load(key) == payload(key) for key in keys()):
                wrong.append("what was stored afterwards is not there")
            disk_cache.clear()
            if rest := [path.name for path in Path(folder).rglob("*") if path.is_file()]:
                wrong.append(f"{', '.join(rest)} is left for good")
        if wrong:
            outcome.wrong.append(f"{'; '.join(wrong)} ({where})")
        else:
            outcome.counts["whole and right"] += 1
