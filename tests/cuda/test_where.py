"""docs/devices.md says what is computed on the host."""

import gc

from pages import ON_HOST, STRUCTURED

from nbgrad.core.registry import operators
from nbgrad.operators.structured import Structured


def test_the_page_lists_what_is_computed_on_the_host():
    gc.unfreeze()  # conftest.py froze the operators, and what is frozen is not among gc.get_objects()
    every = [
        op for op in gc.get_objects() if issubclass(type(op), Structured) and op.infer.__module__.startswith("nbgrad.")
    ]
    ways = ("device_launcher", "lowering", "expansion", "anywhere")
    found = {op.name for op in every if not any(getattr(op, way) for way in ways)}
    assert found - {"_computed", "_demanded"} == STRUCTURED
    assert operators.keys() >= ON_HOST
