"""The short form of the fault campaign; ``make faults`` runs the long one."""

import pytest
from faults import campaigns


@pytest.mark.parametrize("name", campaigns())
def test_nothing_comes_out_wrong(name):
    campaign = campaigns()[name]
    outcome = campaign.run(campaign.SHORT, 0)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert outcome.attempts == campaign.SHORT
