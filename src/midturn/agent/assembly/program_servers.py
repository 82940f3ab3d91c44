"""The MCP servers of an agent in a program. They stay connected while a run or an `async with
agent` block uses them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import ConfigError
from midturn.mcp.spec import ALL_TOOLS, McpServer, ServerSpec, registered_name
from midturn.ports import Tool
from midturn.question.text import BUILT_IN_TOOLS, did_you_mean
from midturn.routing.policy import RunPolicy

if TYPE_CHECKING:
    from midturn.agent.assembly.described_servers import DescribedServer
    from midturn.mcp.tool import McpServers

_LOG = logging.getLogger("midturn.agent")


class ServerTool(Struct, frozen=True, kw_only=True):
    """A tool of a server, with the fingerprint of the server. `run` determines whether a person is
    asked before the tool runs.
    """

    tool: Tool
    run: RunPolicy
    definition: str
    is_local: bool


class ServerUse:
    """A lease on the servers. They stay connected until all leases are released."""

    def __init__(self) -> None:
        self.is_over = False


class ProgramServers:
    """The servers of an agent. They are started for the first run, and disconnected when no run and
    no `async with agent` block uses them.
    """

    def __init__(self, given: Iterable[McpServer], taken: Iterable[str]) -> None:
        """Check the descriptions without starting the servers.

        Args:
            given: The servers.
            taken: Names of the agent's own tools.

        Raises:
            ConfigError: A description is invalid, or the extra `midturn[mcp]` is not installed.
            TypeError: An item is not an `McpServer`.
        """
        self._described = _described(given)
        self._taken = {*taken, *BUILT_IN_TOOLS}
        self._leases: set[ServerUse] = set()
        self._lock = Lock()
        self._servers: McpServers | None = None
        self.tools: Mapping[str, ServerTool] = {}
        """The tools by name, while the servers are connected."""
        self.expected: Sequence[str] = ()
        """Tool names in `routes` and `detached` that are not the agent's own tools. Each must be
        the name of a connected server's tool.
        """

    @property
    def names(self) -> list[str]:
        """The names of the servers."""
        return [server.given.name for server in self._described]

    def may_have(self, tool: str) -> bool:
        """Return whether a server may have a tool with this name. The exact names are known only
        while the servers are connected.
        """
        renamed = {name for server in self._described for name in server.given.rename.values()}
        return tool in renamed or any(tool.startswith(f"{name}_") for name in self.names)

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[None]:
        """Keep the servers connected while the block runs.

        Raises:
            ConfigError: A server cannot be reached, or lacks a tool that `run`, `rename`,
                `routes` or `detached` names.
        """
        if not self._described:
            yield
            return
        lease = ServerUse()
        try:
            await asyncio.to_thread(self._connect, lease)
            yield
        finally:
            await asyncio.shield(asyncio.to_thread(self.give_back, lease))

    def keep(self) -> ServerUse:
        """Keep the servers connected, from the next run on, until the lease is released."""
        lease = ServerUse()
        with self._lock:
            self._leases.add(lease)
        return lease

    def give_back(self, lease: ServerUse) -> None:
        """Release a lease. After the last lease is released, the servers are disconnected."""
        lease.is_over = True  # a `_connect` that still waits for the lock then does nothing
        with self._lock:
            self._leases.discard(lease)
            if not self._leases:
                self._leave()

    def _connect(self, lease: ServerUse) -> None:
        with self._lock:
            if lease.is_over:
                return
            if self._servers is None:
                try:
                    self._start()
                except BaseException:
                    self._leave()
                    raise
            self._leases.add(lease)

    def _leave(self) -> None:
        servers, self._servers, self.tools = self._servers, None, {}
        if servers is not None:
            servers.close()

    def _start(self) -> None:
        from midturn.agent.assembly.command_tools import server_specs
        from midturn.agent.assembly.mcp import names_taken
        from midturn.mcp.tool import McpServers

        specs: list[ServerSpec] = []
        problems: dict[str, str] = {}
        names: dict[str, str] = {}
        for server in self._described:
            given = server.given
            found, wrong = server_specs(
                {given.name: server.settings}, Path(given.cwd).resolve(), asks=True
            )
            specs += [replace(spec, silence=server.silence) for spec in found]
            problems |= wrong
            names |= {
                registered_name(given.name, tool): name for tool, name in given.rename.items()
            }
        if not problems:
            self._servers = McpServers(specs, names, reserved=self._taken)
            problems = self._servers.problems
        if problems or self._servers is None:
            raise ConfigError(
                "\n".join(
                    f"The MCP server `{name}` cannot be used: {why}"
                    for name, why in problems.items()
                )
            )
        for name, absent in self._servers.left_out.items():
            _LOG.warning(
                "%s. Give them other names: `McpServer(name=%r, rename={…})`.",
                names_taken(name, absent),
                name,
            )
        tools = [
            tool for server in self._described for tool in self._tools_of(server, self._servers)
        ]
        self.tools = {one.tool.definition.name: one for one in tools}
        self._check_expected()

    def _tools_of(self, server: DescribedServer, servers: McpServers) -> Iterable[ServerTool]:
        """Return the tools of one server.

        Raises:
            ConfigError: `run` or `rename` names a tool that the server does not have.
        """
        given, found = server.given, servers.connected_tools(server.given.name)
        there = [tool.name_at_server for tool in found]
        absent = servers.left_out.get(given.name, ())
        for key, named in (
            ("run", () if isinstance(given.run, str) else given.run),
            ("rename", given.rename),
        ):
            for name in named:
                if (
                    name not in (*there, ALL_TOOLS)
                    and given.rename.get(name, registered_name(given.name, name)) not in absent
                ):
                    known = ", ".join(f"`{one}`" for one in there) or "none"
                    raise ConfigError(
                        f"McpServer(name={given.name!r}): `{key}` names the tool {name!r}, which"
                        f" the server does not have.{did_you_mean(name, there)} Its tools are:"
                        f" {known}."
                    )
        for tool in found:
            yield ServerTool(
                tool=tool,
                run=server.run_of(tool.name_at_server),
                definition=server.settings.definition,
                is_local=server.settings.is_local,
            )

    def _check_expected(self) -> None:
        for name in self.expected:
            if name not in self.tools:
                known = ", ".join(f"`{one}`" for one in self.tools) or "none"
                raise ConfigError(
                    f"`routes` or `detached` names the tool `{name}`, but no MCP server has"
                    f" it.{did_you_mean(name, self.tools)} The tools of the servers are: {known}."
                )


def _described(given: Iterable[McpServer]) -> Sequence[DescribedServer]:
    """Check the descriptions. Without servers, the configuration module is not loaded."""
    if given in ((), []):
        return ()
    from midturn.agent.assembly.described_servers import described_servers

    return described_servers(given)
