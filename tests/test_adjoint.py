"""Adjoints of functions with loops."""

import pytest
from loop_programs import agrees, examples

EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name):
    agrees(*EXAMPLES[name])
