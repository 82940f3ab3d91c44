"""Which of an agent's options a decision is: never one that goes further than what was shown."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from acp import schema

from midturn.integrations.acp.running import choice, kept
from midturn.integrations.hooks.model_messages import Approved, Refused, TurnStopped


def option(id: str, kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"], name: str = "") -> schema.PermissionOption:
    return schema.PermissionOption(option_id=id, name=name or id, kind=kind)


ONCE, NO = option("once", "allow_once"), option("no", "reject_once")
PROJECT, USER = option("project", "allow_always", "Always in project: touch"), option("user", "allow_always", "Always for user: touch")
SHOWN = 'in the words of the agent, "Always in project: touch"'


@pytest.mark.parametrize("options", [[PROJECT, USER, ONCE, NO], [USER, PROJECT, ONCE, NO]])
def test_each_of_several_rules_is_offered_by_itself_and_is_what_is_chosen(options: list[schema.PermissionOption]) -> None:
    assert set(kept(options)) == {SHOWN, 'in the words of the agent, "Always for user: touch"'}
    assert choice(Approved(always=SHOWN), options) == "project"


@pytest.mark.parametrize("options", [[ONCE, NO], [USER, ONCE, NO]])
def test_another_rule_than_the_one_that_was_shown_is_never_kept(options: list[schema.PermissionOption]) -> None:
    assert choice(Approved(always=SHOWN), options) == "once"


@pytest.mark.parametrize(
    ("outcome", "chosen"),
    [(Approved(), "once"), (Approved({"command": "ls"}), "no"), (Refused(), "no"), (TurnStopped(), None), (None, None)],
)
def test_a_decision_is_the_option_that_goes_no_further(outcome: Any, chosen: str | None) -> None:
    assert choice(outcome, [PROJECT, ONCE, NO]) == chosen


def test_what_the_agent_does_not_offer_is_not_chosen() -> None:
    assert kept([NO]) == []
    assert choice(Approved(), [PROJECT, NO]) is None
