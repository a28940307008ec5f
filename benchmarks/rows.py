"""What scripts that print a row for each of several cases have in common."""

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path


def print_rows(
    about: str,
    cases: Mapping[str, Callable[[float], dict[str, float]]],
    line: Callable[[dict[str, float]], str],
    seconds: float,
) -> None:
    """Measure the cases that the command line names, or all; `cases` give times in so many seconds, `line` is a row."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("name", nargs="*", help="which of them")
    parser.add_argument("--seconds", type=float, default=seconds, help="for each")
    parser.add_argument("--json", metavar="FILE", help="write seconds there")
    given = parser.parse_args()
    found = {}
    for name, measure in cases.items():
        if not given.name or name in given.name:
            found[name] = measure(given.seconds)
            print(f"{name:24}{line(found[name])}", flush=True)
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=2))
