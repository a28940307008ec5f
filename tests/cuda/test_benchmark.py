"""benchmarks/gpu.py runs, and every workload is right, at tiny sizes."""

import json
import runpy
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu.py"


def test_everything_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--tiny", "--json", str(tmp_path / "found.json")])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    runpy.run_path(str(SCRIPT), run_name="__main__")
    done = capsys.readouterr()
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["tiny"] and found["ceilings"]["copy"] > 0 and len(found["results"]) >= 10
    for name, row in found["results"].items():
        assert {"nbgrad", "nbgrad.jit"} <= row["seconds"].keys(), (name, done.err)
        assert done.out.splitlines()[-len(found["results"]) - 1].startswith("ms per call")
