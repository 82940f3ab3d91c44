"""Commands that a configuration declares as tools, each in its sandbox."""

from __future__ import annotations

from pathlib import Path

from midturn.config.places import tools_cache
from midturn.config.settings import ToolSettings
from midturn.files.user_directories import own_directories
from midturn.ports import Tool
from midturn.sandbox.box import Box, Own
from midturn.tools.command import CommandTool
from midturn.tools.command_spec import DEFAULT_SECONDS, CommandSpec, arguments_schema


def command_tool(tool: ToolSettings, workspace_id: str) -> Tool:
    """Return the tool that runs a command."""
    spec = CommandSpec(
        name=tool.name,
        command=tool.command,
        shell=tool.shell,
        protocol=tool.protocol,
        summary=tool.summary or "",
        description=tool.description or "",
        parameters=arguments_schema(tool.parameters, tool.required),
        environment=tool.environment,
        cwd=tool.cwd or "",
        timeout=tool.timeout or DEFAULT_SECONDS,
    )
    return CommandTool(spec, workspace_id, Box(tool.sandbox, own_things(), key=f"conversation.tools.{tool.name}", command=tool.command))


def own_things() -> Own:
    """Return what of the user's own is kept from tools, and where these may keep things."""
    return Own(home=Path.home(), private=own_directories(), cache=tools_cache())
