"""Names of tools: the rules for them, and the tools of a conversation by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, get_args

from midturn.errors import ConfigError
from midturn.question.people import LONGEST, SHORTEST
from midturn.routing.policy import RunPolicy
from midturn.values.text import BUILT_IN_TOOLS, NAME, did_you_mean

if TYPE_CHECKING:
    from midturn.ports import Tool


RESERVED_NAME = "Assistant"
"""The header of the questions that the model itself asks: no tool may look like it, in whatever case."""


@lru_cache
def name_problem(name: str) -> str | None:
    """Say what is wrong with a tool's name, if anything."""
    if not re.fullmatch(NAME, name):
        return f"`{name}` is not a name for a tool; allowed are 1 to 64 of the characters A-Z a-z 0-9 _ and -."
    if name.casefold() == RESERVED_NAME.casefold():
        return f"`{name}` is not a name for a tool: questions that the model asks are headed `{RESERVED_NAME}`; give yours another name."
    return None


def register(tools: Iterable[Tool], builtins: Iterable[Tool] = ()) -> Mapping[str, Tool]:
    """Map names to tools, the built-in ones first.

    Raises:
        ConfigError: A name cannot be used, is taken twice, or belongs to a built-in tool; every such name is listed.
    """
    registered: dict[str, Tool] = {tool.definition.name: tool for tool in builtins}
    problems: list[str] = []
    for tool in tools:
        name = tool.definition.name
        if problem := name_problem(name):
            problems.append(problem)
        elif name in BUILT_IN_TOOLS:
            problems.append(f"`{name}` is the name of a built-in tool; give yours another.")
        elif name in registered:
            problems.append(f"Two tools have the name `{name}`; rename one.")
        registered[name] = tool
    if problems:
        raise ConfigError("\n".join(problems))
    return registered


# ----------------------------------------------------------------------------------------------------------------------
# Permission modes given by a program: a typo must not let a tool run unasked


RUN_POLICIES: tuple[RunPolicy, ...] = get_args(RunPolicy)


def check_run(tool: str, run: object) -> None:
    """Let a policy pass, or a rule of the program.

    Raises:
        ConfigError: There is no such policy.
    """
    if not callable(run) and run not in RUN_POLICIES:
        known = ", ".join(map(repr, RUN_POLICIES))
        raise ConfigError(f"Tool `{tool}`: run={run!r} is not one of {known}.{did_you_mean(str(run), RUN_POLICIES)}")


def check_deadline(tool: str, deadline: object) -> None:
    """Let the time pass that a permission may take.

    Raises:
        ConfigError: It is none, too short, or too long.
    """
    if deadline is None:
        return
    if not isinstance(deadline, timedelta) or not SHORTEST <= deadline.total_seconds() <= LONGEST:
        raise ConfigError(f"Tool `{tool}`: deadline={deadline!r} is not a timedelta from a second to 365 days.")
