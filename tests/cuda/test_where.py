"""docs/devices.md says which operators are computed on the host."""

import gc
import re
from pathlib import Path

from nbgrad.structured import Structured

PAGE = Path(__file__).resolve().parents[2] / "docs" / "devices.md"


def test_the_page_lists_what_is_computed_on_the_host():
    text = re.search(r"<!-- host -->(.*)<!-- /host -->", PAGE.read_text(encoding="utf-8"), re.S).group(1)
    listed = set(re.findall(r"`(_\w+)`", text))
    every = [
        op for op in gc.get_objects() if issubclass(type(op), Structured) and op.infer.__module__.startswith("nbgrad.")
    ]
    ways = ("device_launcher", "lowering", "expansion", "anywhere")
    found = {op.name for op in every if not any(getattr(op, way) for way in ways)}
    traced_only = {"_calculated", "_demanded", "_checked_index", "_drawn"}
    assert found - traced_only == listed
