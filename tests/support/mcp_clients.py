"""Clients of `midturn mcp`: honest ones, and such that say what no person has said."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters, types
from mcp.client.context import ClientRequestContext

from support.cli import CommandLine

LEGACY, MODERN = "legacy", "2026-07-28"
ERAS = (LEGACY, MODERN)


class Person:
    """Whoever sits at a client's dialog: what is shown there, and what they say to it, after a while."""

    def __init__(self, action: Any = "accept", content: Mapping[str, Any] | None = None, *, after: float = 0.5) -> None:
        self.action = action
        self.content = dict(content) if content is not None else None
        self.after = after
        self.shown: list[types.ElicitRequestParams] = []

    async def __call__(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Show a form, and say something."""
        del context
        self.shown.append(params)
        await asyncio.sleep(self.after)
        return types.ElicitResult(action=self.action, content=self.content)


@asynccontextmanager
async def connected(
    midturn: CommandLine, *options: str, name: str = "claude-code", person: Person | None = None, era: str = LEGACY, **environment: str
) -> AsyncGenerator[Client]:
    """Start the server, and connect a client that calls itself `name`; without a person it cannot show forms."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "midturn", "mcp", *options],
        env={**midturn.environment, **environment},
        cwd=str(midturn.root),
    )
    info = types.Implementation(name=name, version="1")
    async with Client(server, mode=era, client_info=info, elicitation_callback=person) as client:
        yield client


async def in_thread(work: Any, *arguments: Any) -> Any:
    """Run something that blocks while the client goes on."""
    return await asyncio.to_thread(work, *arguments)
