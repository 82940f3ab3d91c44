"""An MCP server that asks with the high-level library, which the newest protocol does not
support. It counts its calls in the file `calls`.
"""

from __future__ import annotations

from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("shop")


class Sure(BaseModel):
    """What is asked."""

    sure: bool


def count() -> None:
    with Path("calls").open("a") as calls:
        calls.write("x")


@server.tool()
async def buy(ctx: Context) -> str:
    """Buy it."""
    count()
    result = await ctx.elicit("Buy it?", schema=Sure)
    return result.action


server.run()
