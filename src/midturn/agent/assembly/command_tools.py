"""Builds the command tools and MCP servers that a configuration declares, with their sandboxes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from midturn.config.places import tools_cache
from midturn.config.settings import McpServerSettings, ToolSettings
from midturn.mcp.spec import ServerSpec, no_advice
from midturn.ports import Tool
from midturn.security.private_files import own_directories
from midturn.security.process_ancestry import VARIABLE, marked
from midturn.security.tool_sandbox import ToolSandbox, UserPaths
from midturn.tools import command as commands


def command_tool(tool: ToolSettings, workspace_id: str) -> Tool:
    """Return the tool that runs a command."""
    spec = commands.CommandSpec(
        name=tool.name,
        command=tool.command,
        shell=tool.shell,
        protocol=tool.protocol,
        summary=tool.summary or "",
        description=tool.description or "",
        parameters=tool.arguments_schema,
        environment=tool.environment,
        cwd=tool.cwd or "",
        timeout=tool.timeout or commands.DEFAULT_SECONDS,
    )
    return commands.CommandTool(
        spec,
        workspace_id,
        ToolSandbox(
            tool.sandbox, own_things(), key=f"conversation.tools.{tool.name}", command=tool.command
        ),
    )


def own_things() -> UserPaths:
    """Return the user's home directory, the directories that tools may not access, and the cache
    directory of the tools.
    """
    return UserPaths(home=Path.home(), private=own_directories(), cache=tools_cache())


# --------------------------------------------------------------------------------------------------
# Configured MCP servers: their programs, sandboxes and environments


def server_specs(
    servers: Mapping[str, McpServerSettings], root: Path, *, asks: bool
) -> tuple[Sequence[ServerSpec], dict[str, str]]:
    """Return the specification of each server that can be started. Also return the error of each
    server that cannot be started, by name.
    """
    specs: list[ServerSpec] = []
    problems: dict[str, str] = {}
    for name, server in servers.items():
        try:
            command = _command(server, root)
        except commands.CommandError as error:
            problems[name] = str(error)
            continue
        passed = commands.child_environment(os.environ, server.environment)
        box = ToolSandbox(
            server.sandbox,
            own_things(),
            key=f"providers.mcp.{name}",
            command=server.command,
            network=True,
        )
        path = passed.get("PATH", os.defpath)
        advice = partial(box.advice, command[0], root=root, path=path) if command else no_advice
        command, variables = box.launched(command, root, path)
        environment = {**passed, **variables, VARIABLE: name}
        command = marked(command) if command else command
        reached = ServerSpec(
            name=name,
            command=command,
            url=server.url,
            headers=server.headers,
            environment=environment,
            cwd=str(root),
            protocol=server.protocol,
            asks=asks,
            advice=advice,
        )
        specs.append(reached)
    return specs, problems


def _command(server: McpServerSettings, root: Path) -> tuple[str, ...]:
    if not server.command:
        return ()
    program, *arguments = server.command
    return (
        str(commands.find_executable(program, root, os.environ.get("PATH", os.defpath))),
        *arguments,
    )
