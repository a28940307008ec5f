"""Run campaigns and print a table: ``python -m faults [name ...] [--count N] [--seed S]``."""

import argparse
import gc
import sys
import time

from . import campaigns


def main() -> int:
    every = campaigns()
    parser = argparse.ArgumentParser(prog="python -m faults", description="Run the fault campaign.")
    parser.add_argument("names", nargs="*", choices=[[], *every], metavar="name", help=f"of {', '.join(every)}")
    parser.add_argument("--count", type=int, help="attempts of each, instead of the campaign's own number")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    gc.freeze()  # what is imported is no garbage: a sixth of the time
    wrong = 0
    print(f"| {'campaign':<12} | attempts | wrong | seconds | what came of them")
    print(f"|{'-' * 14}|{'-' * 10}|{'-' * 7}|{'-' * 9}|{'-' * 20}")
    for name in options.names or every:
        start = time.perf_counter()
        outcome = every[name].run(options.count or every[name].LONG, options.seed)
        seconds = time.perf_counter() - start
        what = ", ".join(f"{k} {n:,}" for k, n in sorted(outcome.counts.items()))
        print(f"| {name:<12} | {outcome.attempts:>8,} | {len(outcome.wrong):>5} | {seconds:>7.1f} | {what}", flush=True)
        for line in outcome.wrong:
            print(f"  wrong: {line}", flush=True)
        wrong += len(outcome.wrong)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
