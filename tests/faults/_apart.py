"""Attempts in another process, which may die: the one that it died of is named, and the next one goes on.

``python -m faults._apart campaign start stop seed progress`` makes the attempts ``start`` to ``stop`` of a campaign, a
module with ``attempt(rng) -> (what came of it, None or what is wrong)``, and prints what came of them.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from . import Outcome

_HERE = Path(__file__).resolve().parent.parent
#: Seconds after which one attempt hangs.
_PATIENCE = 120


def environment(**more: str) -> dict[str, str]:
    """That of this process, where children find the packages that this one has."""
    path = os.pathsep.join([str(_HERE), str(_HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **more}


def attempts(campaign: str, count: int, seed: int) -> Outcome:
    outcome = Outcome()
    start = 0
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder, "progress")
        while start < count:
            progress.write_text(json.dumps([start, {}, []]))
            how = _some(campaign, start, count, seed, progress)
            done, counts, wrong = json.loads(progress.read_text())
            outcome.counts += Counter(counts)
            outcome.wrong += wrong
            if how:
                done = int(Path(folder, "progress.now").read_text() or done)
                outcome.wrong.append(f"{campaign}, seed {seed}, attempt {done}: {how}")
                done += 1
            start = done
    return outcome


def _some(campaign: str, start: int, stop: int, seed: int, progress: Path) -> str | None:
    """Make attempts until one ends the process; how it ended, if not well."""
    now = progress.with_suffix(".now")
    now.write_text(str(start))
    command = [sys.executable, "-m", "faults._apart", campaign, str(start), str(stop), str(seed), str(progress)]
    errors = progress.with_suffix(".errors")
    with open(errors, "wb") as file:
        child = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=file)
        seen, since = now.read_text(), time.monotonic()
        while child.poll() is None:
            time.sleep(0.05)
            if (at := now.read_text()) != seen:
                seen, since = at, time.monotonic()
            elif time.monotonic() - since > _PATIENCE:
                child.kill()
                child.wait()
                return f"it hangs for {_PATIENCE} s"
    return None if child.returncode == 0 else f"the process ended with {child.returncode}: {_tail(errors)}"


def _tail(errors: Path) -> str:
    return errors.read_text(errors="replace")[-400:]


def main(campaign: str, start: str, stop: str, seed: str, progress: str) -> None:
    made = importlib.import_module(f"faults.{campaign}")
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    now = os.open(f"{progress}.now", os.O_WRONLY | os.O_CREAT)
    for k in range(int(start), int(stop)):
        os.pwrite(now, f"{k:012d}".encode(), 0)
        # What is written is there when the process dies: so much at a time that it costs nothing.
        if k % 1000 == 0:
            Path(progress).write_text(json.dumps([k, counts, wrong]))
        what, problem = made.attempt(random.Random(f"{seed}/{k}"))
        if problem is None:
            counts[what] += 1
        else:
            wrong.append(f"{campaign}, seed {seed}, attempt {k}: {problem}")
    Path(progress).write_text(json.dumps([int(stop), counts, wrong]))


if __name__ == "__main__":
    main(*sys.argv[1:])
