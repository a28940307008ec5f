"""benchmarks/gpu.py runs, and every workload is right, at tiny sizes."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu.py"


def test_everything_is_measured(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--tiny", "--json", str(tmp_path / "found.json")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["tiny"] and found["ceilings"]["copy"] > 0 and len(found["results"]) >= 10
    for name, row in found["results"].items():
        assert {"nbgrad", "nbgrad.jit"} <= row["seconds"].keys(), (name, done.stderr)
        assert done.stdout.splitlines()[-len(found["results"]) - 1].startswith("ms per call")
