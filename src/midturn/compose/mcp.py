"""The MCP servers of a configuration, connected for a run."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from midturn.compose.tools import own_things
from midturn.config.settings import McpServer, Settings
from midturn.core.names import BUILT_IN_TOOLS
from midturn.errors import ConfigError
from midturn.ports import Tool
from midturn.sandbox.box import Box
from midturn.sandbox.marks import VARIABLE
from midturn.tools.environment import child_environment
from midturn.tools.executable import CommandError, find_executable

_MISSING = 'MCP servers are configured, and the extra `mcp` is not installed: install it with `pip install "midturn[mcp]"`.'


class Connected:
    """Servers and their tools. `warnings` says what could not be reached; leave them with `close`."""

    def __init__(self, settings: Settings, root: Path, *, asks: bool) -> None:
        """Connect to every server; without one, nothing is loaded.

        Args:
            settings: The configuration.
            root: Where servers run.
            asks: Somebody can be asked what a server asks.

        Raises:
            ConfigError: The library for it is not installed.
        """
        self._closing = ExitStack()
        self.warnings: list[str] = []
        self.tools: Sequence[Tool] = ()
        if not settings.mcp:
            return
        if importlib.util.find_spec("mcp") is None:
            raise ConfigError(_MISSING)
        from midturn.mcp.servers import McpServers
        from midturn.mcp.spec import ServerSpec

        specs: list[ServerSpec] = []
        for name, server in settings.mcp.items():
            try:
                command = _command(server, root)
            except CommandError as error:
                self.warnings.append(f"The MCP server `{name}` cannot be used, and its tools are absent: {error}")
                continue
            passed = child_environment(os.environ, server.environment)
            box = Box(server.sandbox, own_things(), command=server.command, network=True)
            command, variables = box.launched(command, root, passed.get("PATH", os.defpath))
            environment = {**passed, **variables, VARIABLE: name}
            specs.append(
                ServerSpec(
                    name=name,
                    command=command,
                    url=server.url,
                    headers=server.headers,
                    environment=environment,
                    cwd=str(root),
                    asks=asks,
                )
            )
        names = {tool.name: tool.rename for tool in settings.tools.values() if tool.source == "mcp" and tool.rename}
        silence = {name: tool.timeout for name, tool in settings.tools.items() if tool.timeout is not None}
        servers = self._closing.enter_context(McpServers(specs, names, silence))
        self.tools = [tool for tool in servers.tools if tool.definition.name not in BUILT_IN_TOOLS]
        self.warnings += servers.warnings

    def close(self) -> None:
        """Leave all servers."""
        self._closing.close()


def _command(server: McpServer, root: Path) -> tuple[str, ...]:
    if not server.command:
        return ()
    program, *arguments = server.command
    return (str(find_executable(program, root, os.environ.get("PATH", os.defpath))), *arguments)
