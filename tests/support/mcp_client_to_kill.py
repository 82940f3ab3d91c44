"""A client of `midturn mcp` that is a process of its own: it asks one question, and waits. Run it with `python`, and kill it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from mcp import Client, StdioServerParameters, types


async def main(era: str, asked: dict[str, Any], name: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "midturn", "mcp", "--slice", "40"], env=dict(os.environ))
    info = types.Implementation(name=name, version="1")
    meta: Any = {"claudecode/toolUseId": "toolu_1"} if name == "claude-code" else None
    async with Client(server, mode=era, client_info=info) as client:
        await client.call_tool("ask_user", asked, meta=meta)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), (*sys.argv[3:], "claude-code")[0]))
