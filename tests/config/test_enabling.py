from __future__ import annotations

from collections.abc import Mapping

import pytest

from midturn.config.settings import Enable, Toggle, offered
from midturn.errors import ConfigError

ON = Toggle(on=True)
OFF = Toggle(on=False)

TOOLS: Mapping[str, Enable] = {
    "deploy": Enable(),
    "ask_user": Enable(allow_toggle="if_named"),
    "describe_tools": Enable(allow_toggle="never"),
    "danger": Enable(state=False, allow_toggle="never"),
    "lint": Enable(state=False),
}


@pytest.mark.parametrize(
    ("toggles", "names"),
    [
        ([], "deploy ask_user describe_tools"),
        ([OFF], "ask_user describe_tools"),
        ([ON], "deploy ask_user describe_tools lint"),
        ([Toggle(on=False, name="ask_user")], "deploy describe_tools"),
        ([OFF, Toggle(on=True, name="lint")], "ask_user describe_tools lint"),
        ([Toggle(on=True, name="lint"), OFF], "ask_user describe_tools"),
        ([Toggle(on=False, name="ask_user"), ON], "deploy describe_tools lint"),
        ([ON, OFF, ON], "deploy ask_user describe_tools lint"),
    ],
)
def test_toggles_apply_in_order_if_the_policy_allows(toggles: list[Toggle], names: str) -> None:
    assert offered(TOOLS, toggles) == tuple(names.split())


def test_toggling_a_locked_tool_is_an_error_even_without_effect() -> None:
    with pytest.raises(ConfigError, match="-t danger: this tool cannot be toggled"):
        offered(TOOLS, [Toggle(on=True, name="danger")])
    with pytest.raises(ConfigError, match="-T danger"):
        offered(TOOLS, [Toggle(on=False, name="danger")])


def test_toggling_an_unknown_tool_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"no such tool\. Did you mean `deploy`"):
        offered(TOOLS, [Toggle(on=False, name="deplyo")])
