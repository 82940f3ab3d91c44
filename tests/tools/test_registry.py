from __future__ import annotations

import pytest

from midturn.errors import ConfigError
from midturn.tools.command import CommandSpec, CommandTool
from midturn.tools.names import register


def named(name: str) -> CommandTool:
    return CommandTool(CommandSpec(name=name, command=("true",)))


def test_tools_are_found_by_name_built_in_ones_first() -> None:
    mine, built_in = named("deploy"), named("ask_user")

    assert list(register([mine], [built_in]).items()) == [("ask_user", built_in), ("deploy", mine)]


@pytest.mark.parametrize("name", ["", "a b", "dots.are.not", "x" * 65, "ümlaut", "new\nline", "deploy\n"])
def test_what_is_not_a_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a name for a tool"):
        register([named(name)])


def test_a_built_in_name_is_reserved_even_when_the_built_in_tool_is_off() -> None:
    """Provenance would lie: only the assistant's own tool may ask in its name."""
    with pytest.raises(ConfigError, match="`ask_user` is the name of a built-in tool"):
        register([named("ask_user")])


def test_two_tools_of_one_name_are_refused_and_all_problems_listed() -> None:
    with pytest.raises(ConfigError, match=r"(?s)Two tools have the name `deploy`.*`fs_read_file` is the name"):
        register([named("deploy"), named("deploy"), named("fs_read_file")])


@pytest.mark.parametrize("name", ["Assistant", "assistant", "ASSISTANT"])
def test_no_tool_has_the_name_that_heads_the_models_own_questions(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"`{name}` is not a name for a tool: questions that the model asks are headed `Assistant`"):
        register([named(name)])


def test_a_name_that_only_contains_it_is_free() -> None:
    assert "assistant_notes" in register([named("assistant_notes")])
