from __future__ import annotations

import pytest

from midturn.errors import ConfigError
from midturn.tools.command import CommandSpec, CommandTool
from midturn.tools.names import register


def named(name: str) -> CommandTool:
    return CommandTool(CommandSpec(name=name, command=("true",)))


def test_tools_are_found_by_name_with_built_in_ones_first() -> None:
    mine, built_in = named("deploy"), named("ask_user")

    assert list(register([mine], [built_in]).items()) == [("ask_user", built_in), ("deploy", mine)]


@pytest.mark.parametrize(
    "name", ["", "a b", "dots.are.not", "x" * 65, "ümlaut", "new\nline", "deploy\n"]
)
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid tool name"):
        register([named(name)])


def test_a_built_in_name_is_reserved_even_if_the_built_in_tool_is_disabled() -> None:
    """Otherwise, another tool could ask as the assistant."""
    with pytest.raises(ConfigError, match="`ask_user` is the name of a built-in tool"):
        register([named("ask_user")])


def test_duplicate_tool_names_are_refused_and_all_problems_listed() -> None:
    with pytest.raises(
        ConfigError, match=r"(?s)Two tools have the name `deploy`.*`fs_read_file` is the name"
    ):
        register([named("deploy"), named("deploy"), named("fs_read_file")])


@pytest.mark.parametrize("name", ["Assistant", "assistant", "ASSISTANT"])
def test_the_heading_of_the_models_own_questions_is_no_tool_name(name: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"`{name}` is not a valid tool name, because `Assistant`"
    ):
        register([named(name)])


def test_a_name_that_contains_the_heading_is_allowed() -> None:
    assert "assistant_notes" in register([named("assistant_notes")])
