"""A client of `midturn mcp` in a separate process: it asks one question and waits.

Arguments: the command of midturn as JSON, the protocol version, the question as JSON, and the
client's name.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from mcp import Client, StdioServerParameters, types


async def main(command: list[str], era: str, asked: dict[str, Any], name: str) -> None:
    server = StdioServerParameters(
        command=command[0], args=[*command[1:], "mcp", "--slice", "40"], env=dict(os.environ)
    )
    info = types.Implementation(name=name, version="1")
    meta: Any = {"claudecode/toolUseId": "toolu_1"} if name == "claude-code" else None
    async with Client(server, mode=era, client_info=info) as client:
        await client.call_tool("ask_user", asked, meta=meta)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]))
