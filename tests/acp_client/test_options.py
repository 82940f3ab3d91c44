"""Which of an agent's options is chosen for a decision: never one that permits more than was
shown.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest
from acp import schema

from midturn.integrations.acp.running import choice, standing_permissions
from midturn.integrations.hooks.model_messages import Approved, Refused, TurnStopped


def option(
    id: str,
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"],
    name: str = "",
) -> schema.PermissionOption:
    return schema.PermissionOption(option_id=id, name=name or id, kind=kind)


ONCE, NO = option("once", "allow_once"), option("no", "reject_once")
PROJECT, USER = (
    option("project", "allow_always", "Always in project: touch"),
    option("user", "allow_always", "Always for user: touch"),
)
SHOWN = 'in the words of the agent, "Always in project: touch"'


@pytest.mark.parametrize("options", [[PROJECT, USER, ONCE, NO], [USER, PROJECT, ONCE, NO]])
def test_each_offered_rule_can_be_chosen(options: list[schema.PermissionOption]) -> None:
    assert set(standing_permissions(options)) == {
        SHOWN,
        'in the words of the agent, "Always for user: touch"',
    }
    assert choice(Approved(always=SHOWN), options) == "project"


@pytest.mark.parametrize("options", [[ONCE, NO], [USER, ONCE, NO]])
def test_only_the_shown_rule_is_stored(options: list[schema.PermissionOption]) -> None:
    assert choice(Approved(always=SHOWN), options) == "once"


@pytest.mark.parametrize(
    ("outcome", "chosen"),
    [
        (Approved(), "once"),
        (Approved({"command": "ls"}), "no"),
        (Refused(), "no"),
        (TurnStopped(), None),
        (None, None),
    ],
)
def test_decision_selects_the_narrowest_option(outcome: Any, chosen: str | None) -> None:
    assert choice(outcome, [PROJECT, ONCE, NO]) == chosen


def test_only_offered_options_are_chosen() -> None:
    assert standing_permissions([NO]) == []
    assert choice(Approved(), [PROJECT, NO]) is None
