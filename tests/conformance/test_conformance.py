"""The MCP conformance tests about questions to users: client and server, both eras of the
protocol.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.scenarios import (
    NOT_RUN,
    OLD,
    PUSHED,
    RETURNED,
    SCENARIOS,
    TASKS,
    Scenario,
    offered,
    run,
)
from support.installed import or_skip

pytestmark = [
    pytest.mark.real("the conformance tests of MCP", may_be_missing=True),
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_scenario_passes(scenario: Scenario, tmp_path: Path) -> None:
    counted = or_skip(lambda: run(scenario, tmp_path))
    assert counted.is_whole(scenario.out), counted.printed


def test_every_elicitation_scenario_is_run_or_excluded_with_a_reason() -> None:
    eras = {"extension": TASKS, **{era: era for era in (OLD, PUSHED, RETURNED)}}
    asked = {
        (name, eras[era])
        for name, found in or_skip(offered).items()
        for era in found
        if name not in NOT_RUN
    }
    assert asked == {(scenario.name, scenario.era) for scenario in SCENARIOS}
    assert set(NOT_RUN) <= set(offered())
