"""The tools that a configuration offers, and their construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from midturn.config.settings import Settings, ToolSettings
from midturn.errors import ConfigError
from midturn.plugins import Registry
from midturn.ports import Tool
from midturn.record.exchange import ToolDefinition
from midturn.routing.policy import offered
from midturn.tools.ask_user import AskUserTool
from midturn.tools.describe_tools import DescribeTools, Redescribed, Wording
from midturn.tools.fs.described import file_tools
from midturn.tools.names import name_problem
from midturn.values.text import ASK_USER, BUILT_IN_TOOLS, DESCRIBE_TOOLS, NAME


class Toolbox(Struct, frozen=True):
    """The tools that a model is offered, in their order, by the name that it calls, and what configuration says about each."""

    tools: Mapping[str, Tool]
    settings: Mapping[str, ToolSettings]


def toolbox(settings: Settings, workspace_id: str = "", others: Sequence[Tool] = ()) -> Toolbox:
    """Return the tools that are enabled; `others` come from elsewhere, such as MCP servers.

    Raises:
        ConfigError: A `-t` or `-T` names a tool that is not there, or a locked one; or a name is not for tools.
    """
    foreign = {tool.definition.name: tool for tool in others}
    known = known_tools(settings, others)
    names = offered({name: tool.enable for name, tool in known.items()}, settings.toggles)
    if problems := [problem for name in names if (problem := name_problem(name))]:
        raise ConfigError("\n".join(problems))
    tools = {name: _made(known[name], foreign.get(name), workspace_id) for name in names if name != DESCRIBE_TOOLS}
    if DESCRIBE_TOOLS in names:
        tools[DESCRIBE_TOOLS] = _reworded(DescribeTools(tools.values()), known[DESCRIBE_TOOLS])
    return Toolbox(tools, {name: known[name] for name in tools})


def known_tools(settings: Settings, others: Sequence[Tool] = ()) -> dict[str, ToolSettings]:
    """Return what the configuration itself declares or has built in, enabled or not, and `others` as it says about them."""
    declared = {name: tool for name, tool in settings.tools.items() if tool.source in ("builtin", "local", "plugin")}
    return declared | {tool.definition.name: settings.tool(tool.definition.name) for tool in others}


def definition_of(tool: ToolSettings, others: Sequence[Tool] = ()) -> ToolDefinition:
    """Return what a model is told about a tool that the configuration knows, or that is one of `others`."""
    foreign = next((other for other in others if other.definition.name == tool.name), None)
    return (_reworded(DescribeTools(()), tool) if tool.name == DESCRIBE_TOOLS else _made(tool, foreign, "")).definition


def _made(settings: ToolSettings, foreign: Tool | None, workspace_id: str) -> Tool:
    return _reworded(foreign, settings) if foreign else _built(settings, workspace_id)


def _built(tool: ToolSettings, workspace_id: str) -> Tool:
    if tool.source == "builtin":
        return _reworded(_built_in(tool.name), tool)
    if tool.source == "plugin":
        return _reworded(_of_a_package(tool), tool)
    from midturn.compose.command_tools import command_tool  # where no command is configured, nothing is started or confined

    return command_tool(tool, workspace_id)


def _is_tool(found: object, _name: str) -> bool:
    return isinstance(getattr(found, "definition", None), ToolDefinition) and callable(getattr(found, "execute", None))


TOOLS: Final[Registry[Tool]] = Registry(
    kind="tool",
    built_in=tuple(BUILT_IN_TOOLS),
    fits=_is_tool,
    ought="a tool: a function under `@midturn.tool`, or an object with `definition` and `execute`",
    names=NAME,
)
"""What packages add to the tools that a configuration may name."""


def _of_a_package(tool: ToolSettings) -> Tool:
    where = f"`conversation.tools.{tool.name}.plugin`"
    try:
        made = TOOLS.load(tool.plugin)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    if made.definition.name != tool.name:
        raise ConfigError(f"{where}: {TOOLS.added[tool.plugin]} calls this tool `{made.definition.name}`; name the table so.")
    return made


def _built_in(name: str) -> Tool:
    return AskUserTool() if name == ASK_USER else _file_tools()[name]


@cache
def _file_tools() -> Mapping[str, Tool]:
    """Read once what models are told of the file tools: a configuration looks every one of them up."""
    return file_tools()


def _reworded(tool: Tool, settings: ToolSettings) -> Tool:
    """Return a tool of others, or a built-in one, as configuration describes it."""
    if settings.summary is None and settings.description is None and not settings.parameters:
        return tool

    return Redescribed(tool, Wording(summary=settings.summary, description=settings.description, parameters=settings.parameters))


def workspace_id(root: Path) -> str:
    """Return what tools are told of the workspace: its directory's name."""
    return root.name
