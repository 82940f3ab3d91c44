"""MCP servers that an editor sends with a session: what its user has set up there, as our configuration has them.

An editor is the user's own program, like the shell that passes `--cfg`. But it may pass on what a cloned project says. So nothing that
lies in the workspace is started: that is for the workspace's own configuration, which has to be trusted with its scripts. All of them are
confined like servers that are configured here, and each call is asked about unless a policy of the user's own says otherwise.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from acp import schema
from msgspec import Struct

from midturn.config.settings import McpServer

SentServer: TypeAlias = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 40


class SentServers(Struct, frozen=True, kw_only=True):
    """Those that can be used, by the names that their tools begin with, and why others cannot."""

    servers: dict[str, McpServer] = {}
    problems: Sequence[str] = ()


def sent_servers(sent: Iterable[SentServer], workspace: Path) -> SentServers:
    """Read what an editor has sent for a session in a workspace."""
    servers: dict[str, McpServer] = {}
    problems: list[str] = []
    for one in sent:
        name = _OTHER.sub("_", one.name)[:_LONGEST] or "server"
        try:
            server = _server(one, workspace)
        except _Unusable as why:
            problems.append(f"The editor's MCP server `{name}` is not used: {why}.")
            continue
        if servers.setdefault(name, server) is not server:
            problems.append(f"The editor has two MCP servers with the name `{name}`: the first one is used.")
    return SentServers(servers=servers, problems=problems)


class _Unusable(Exception):  # noqa: N818  it says what is the case
    """A server cannot be used; the message says why."""


def _server(sent: SentServer, workspace: Path) -> McpServer:
    match sent:
        case schema.McpServerStdio():
            _check_command((sent.command, *sent.args), workspace)
            return McpServer(command=(sent.command, *sent.args), environment={given.name: given.value for given in sent.env})
        case schema.HttpMcpServer():
            if not sent.url.startswith(("http://", "https://")):
                raise _Unusable("its address is not one of HTTP")
            return McpServer(url=sent.url, headers={header.name: header.value for header in sent.headers})
        case _:
            raise _Unusable(f"midturn speaks with servers over stdio and streamable HTTP, and not over {sent.type}")


def _check_command(command: Sequence[str], workspace: Path) -> None:
    if os.sep in command[0] and not Path(command[0]).is_absolute():
        raise _Unusable(f"`{command[0]}` is no absolute path")
    for inside in _files_inside(command, workspace.resolve()):
        advice = "configure it in `.midturn/config.toml`, and approve that with `midturn trust`"
        raise _Unusable(f"it would run `{inside}`, which is in the workspace; {advice}")


def _files_inside(command: Sequence[str], root: Path) -> Iterator[str]:
    """Yield the words of a command that name a file of the workspace, by a link or behind an option's `=`, too."""
    for word in command:
        for named in filter(None, {word, word.rpartition("=")[2]}):
            place = Path(os.path.normpath(root / named))
            try:
                is_inside = place.is_file() and (place.is_relative_to(root) or place.resolve().is_relative_to(root))
            except (OSError, ValueError):  # no name that a file may have
                continue
            if is_inside:
                yield named
