"""What docs/devices.md says."""

import re
from pathlib import Path

_TEXT = (Path(__file__).resolve().parents[2] / "docs" / "devices.md").read_text(encoding="utf-8")
_HOST = re.search(r"<!-- host -->(.*)<!-- /host -->", _TEXT, re.S).group(1)
_NAMES = set(re.findall(r"`(\w+)`", _HOST))

#: The structured operators that are computed on the host, and the operators that look at numbers there.
STRUCTURED = {name for name in _NAMES if name.startswith("_")}
ON_HOST = _NAMES - STRUCTURED
