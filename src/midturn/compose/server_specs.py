"""MCP servers as they are configured, and as they are started: found, confined, and with an environment of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from midturn.compose.command_tools import own_things
from midturn.config.settings import McpServer, Settings
from midturn.mcp.spec import ServerSpec, no_advice
from midturn.sandbox.box import Box
from midturn.sandbox.marks import VARIABLE, marked
from midturn.tools.environment import child_environment
from midturn.tools.executable import CommandError, find_executable


def server_specs(settings: Settings, root: Path, *, asks: bool) -> tuple[Sequence[ServerSpec], dict[str, str]]:
    """Return how each server is reached, and why some cannot be, by their names."""
    specs: list[ServerSpec] = []
    problems: dict[str, str] = {}
    for name, server in settings.mcp.items():
        try:
            command = _command(server, root)
        except CommandError as error:
            problems[name] = str(error)
            continue
        passed = child_environment(os.environ, server.environment)
        box = Box(server.sandbox, own_things(), key=f"providers.mcp.{name}", command=server.command, network=True)
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
            asks=asks,
            advice=advice,
        )
        specs.append(reached)
    return specs, problems


def _command(server: McpServer, root: Path) -> tuple[str, ...]:
    if not server.command:
        return ()
    program, *arguments = server.command
    return (str(find_executable(program, root, os.environ.get("PATH", os.defpath))), *arguments)
