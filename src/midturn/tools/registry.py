"""The tools of a conversation, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from midturn.core.names import BUILT_IN_TOOLS
from midturn.errors import ConfigError
from midturn.ports import Tool
from midturn.tools.names import name_problem


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
