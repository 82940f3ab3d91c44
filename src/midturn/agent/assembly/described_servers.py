"""Checks the MCP servers that a program describes, by the same rules as the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from midturn.agent.assembly.mcp import check_installed
from midturn.config.check import Checker
from midturn.config.resolve import Resolving, mcp_servers
from midturn.config.settings import McpServerSettings
from midturn.config.tree import Origin
from midturn.errors import ConfigError
from midturn.mcp.spec import ALL_TOOLS, McpServer
from midturn.question.json_value import is_number
from midturn.question.text import did_you_mean, seconds_of
from midturn.routing.policy import RunPolicy
from midturn.tools.names import RUN_POLICIES, name_problem


class DescribedServer(Struct, frozen=True, kw_only=True):
    """A program's description of a server, and the equivalent settings of the configuration."""

    given: McpServer
    settings: McpServerSettings
    silence: float

    def run_of(self, tool: str) -> RunPolicy:
        """Return the policy for running a tool. `tool` is the name that the server uses."""
        run = self.given.run
        return run if isinstance(run, str) else run.get(tool, run.get(ALL_TOOLS, "ask"))


def described_servers(given: Iterable[McpServer]) -> list[DescribedServer]:
    """Check the descriptions of servers without starting them.

    Raises:
        ConfigError: A description is invalid, or the extra `midturn[mcp]` is not installed.
        TypeError: An item is not an `McpServer`.
    """
    if isinstance(given, McpServer) or not isinstance(cast("object", given), Iterable):
        raise TypeError(
            '`mcp` takes a list of servers: `mcp=[midturn.McpServer(name="shop",'
            ' command=["shop-server"])]`.'
        )
    servers = list(given)
    for server in servers:
        if not isinstance(cast("object", server), McpServer):
            raise TypeError(
                "`mcp` takes a list of `midturn.McpServer`, but one item is a"
                f" `{type(server).__name__}`."
            )
    if not servers:
        return []
    check_installed()
    names = [server.name for server in servers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"Two MCP servers have the name `{twice[0]}`; rename one.")
    return [_checked(server) for server in servers]


def _checked(server: McpServer) -> DescribedServer:
    where = f"McpServer(name={server.name!r})"
    checker = Checker(Origin(where))
    tree = checker.read({"providers": {"mcp": {server.name: _table(server)}}})
    problems = checker.problems
    found = mcp_servers(
        Resolving(tree, frozenset(checker.wrong), problems, (tree,), Path(server.cwd))
    )
    if problems:
        raise ConfigError("\n".join(problems))
    _check_run(where, server)
    for tool, name in server.rename.items():
        if problem := name_problem(name):
            raise ConfigError(f"{where}: rename[{tool!r}]: {problem}")
    return DescribedServer(
        given=server, settings=found[server.name], silence=_silence(where, server.timeout)
    )


def _table(server: McpServer) -> dict[str, Any]:
    """Return a description as a table with the keys of the configuration."""
    environment = server.environment
    table: dict[str, Any] = {
        "command": server.command if isinstance(server.command, str) else list(server.command),
        "url": server.url,
        "headers": dict(server.headers),
        "environment": dict(environment) if isinstance(environment, Mapping) else environment,
        "sandbox": dict(server.sandbox) if isinstance(server.sandbox, Mapping) else server.sandbox,
        "protocol": server.protocol,
    }
    if not server.command:
        del table["command"]
    return {key: value for key, value in table.items() if value is not None and value != ()}


def _check_run(where: str, server: McpServer) -> None:
    runs: Iterable[object] = (
        server.run.values() if isinstance(server.run, Mapping) else (server.run,)
    )
    for run in runs:
        if run not in RUN_POLICIES:
            known = ", ".join(map(repr, RUN_POLICIES))
            raise ConfigError(
                f"{where}: run={run!r} is not one of {known}.{did_you_mean(str(run), RUN_POLICIES)}"
            )


def _silence(where: str, timeout: float | str) -> float:
    seconds = seconds_of(timeout) if isinstance(timeout, str) else timeout
    if not is_number(seconds) or not 0 < seconds < float("inf"):
        raise ConfigError(
            f'{where}: timeout must be seconds (a number above 0) or a duration such as "90s" or'
            f' "2m", not {timeout!r}.'
        )
    return float(seconds)
