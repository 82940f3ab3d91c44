"""Connects the configured MCP servers for a run."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from midturn.config.settings import Settings
from midturn.errors import ConfigError
from midturn.extras import install_command
from midturn.ports import Tool
from midturn.question.text import BUILT_IN_TOOLS

_SHOWN = 5


def missing() -> str:
    """Return the error message for a missing extra `mcp`."""
    return f"MCP servers need the extra `mcp`, which is not installed: {install_command('mcp')}"


def check_installed() -> None:
    """Check that the library for MCP servers is installed.

    Raises:
        ConfigError: The extra `midturn[mcp]` is not installed.
    """
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError(missing())


class Connected:
    """The connected servers and their tools. `close` disconnects them."""

    def __init__(self, settings: Settings, root: Path, *, asks: bool) -> None:
        """Connect to every server. Without servers, the MCP client is not imported.

        Args:
            settings: The configuration.
            root: Working directory of the servers.
            asks: Whether questions from servers can be answered.

        Raises:
            ConfigError: The extra `midturn[mcp]` is not installed.
        """
        self._closing = ExitStack()
        self.problems: dict[str, str] = {}
        """Why servers cannot be used, by server name."""
        self.by_server: Mapping[str, Sequence[Tool]] = {}
        """The tools of each usable server."""
        self._left_out: Mapping[str, Sequence[str]] = {}
        if not settings.mcp:
            return

        check_installed()
        from midturn.agent.assembly.command_tools import server_specs
        from midturn.mcp.tool import McpServers

        specs, self.problems = server_specs(settings.mcp, root, asks=asks)
        names = {
            tool.name: tool.rename
            for tool in settings.tools.values()
            if tool.source == "mcp" and tool.rename
        }
        silence = {
            tool.rename or name: tool.timeout
            for name, tool in settings.tools.items()
            if tool.timeout is not None
        }
        servers = self._closing.enter_context(
            McpServers(specs, names, silence, _reserved(settings))
        )
        self.problems |= servers.problems
        self._left_out = servers.left_out
        self.by_server = {
            name: tools for name, tools in servers.tools.items() if name not in servers.problems
        }

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools of all servers."""
        return [tool for tools in self.by_server.values() for tool in tools]

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings for the user."""
        unusable = [
            f"The MCP server `{name}` cannot be used, so its tools are not available: {why}"
            for name, why in self.problems.items()
        ]
        return [*unusable, *(names_taken(name, tools) for name, tools in self._left_out.items())]

    def close(self) -> None:
        """Disconnect from all servers."""
        self._closing.close()


def _reserved(settings: Settings) -> set[str]:
    """Return the names that tools of MCP servers must not have. Otherwise, the rules for a command
    tool could apply to a server's tool with the same name.
    """
    return {
        name
        for name, tool in settings.tools.items()
        if tool.source in ("builtin", "local", "plugin")
    } | set(BUILT_IN_TOOLS)


def names_taken(server: str, tools: Sequence[str]) -> str:
    """Return the warning about tools of a server that are left out because other tools already use
    their names.
    """
    shown = ", ".join(f"`{name}`" for name in sorted(set(tools))[:_SHOWN])
    more = ", …" if len(set(tools)) > _SHOWN else ""
    return (
        f"The MCP server `{server}` has tools that are left out, because their names are used by"
        f" other tools: {shown}{more}"
    )


class Servers:
    """Keeps MCP servers connected across the turns of a process, while their configuration does not
    change.
    """

    def __init__(self) -> None:
        self._connected: Connected | None = None
        self._alike: tuple[object, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect from all servers."""
        if self._connected:
            self._connected.close()
        self._connected = None

    def connected(self, settings: Settings, root: Path, *, asks: bool) -> Connected:
        """Return the connected servers. Connect all servers again if the configuration changed or a
        server could not be used.
        """
        renamed = {tool.name: (tool.rename, tool.timeout) for tool in settings.tools.values()}
        alike = (settings.mcp, renamed, root, asks)
        if self._connected is None or self._connected.problems or alike != self._alike:
            self.close()
            self._connected, self._alike = Connected(settings, root, asks=asks), alike
        return self._connected


def can_ask(settings: Settings, *, attached: bool) -> bool:
    """Return whether anyone can answer the questions of a server, now or later."""
    return attached or settings.any_tool.policy.detached.tool != "deny"
