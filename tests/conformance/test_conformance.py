"""The conformance tests of the Model Context Protocol, as far as they are about asking people: both sides, both eras."""

from __future__ import annotations

import pytest

from conformance.scenarios import SCENARIOS, Scenario, run
from support.installed import or_skip

pytestmark = [pytest.mark.real("the conformance tests of MCP", may_be_missing=True), pytest.mark.timeout(300)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_scenario_passes(scenario: Scenario) -> None:
    counted = or_skip(lambda: run(scenario))
    assert counted.is_whole, counted.printed
