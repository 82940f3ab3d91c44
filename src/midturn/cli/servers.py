"""The MCP servers of a command: connected, with a word about those that cannot be used."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from midturn.cli.output import note
from midturn.cli.shown import block, line
from midturn.compose.mcp import Connected, Servers, asks_somebody
from midturn.config.settings import Settings


def connect(servers: Servers, settings: Settings, root: Path, *, attached: bool) -> Connected:
    """Return the connected servers; `attached`: a person is there to be asked."""
    found = servers.connected(settings, root, asks=asks_somebody(settings, attached=attached))
    for warning in found.warnings:
        note(line("midturn: {}", block(warning)))
    return found


@contextmanager
def connected(settings: Settings, root: Path, *, attached: bool) -> Generator[Connected]:
    """Connect for as long as the block runs."""
    with Servers() as servers:
        yield connect(servers, settings, root, attached=attached)
