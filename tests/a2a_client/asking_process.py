"""A process that calls a remote agent, and that a test kills: `asking_process.py URL STORE`."""

from __future__ import annotations

import asyncio
import sys

import midturn as mt
from midturn.integrations import a2a


async def main(url: str, store: str) -> None:
    """Call the remote agent."""
    remote = a2a.tool(url, name="remote", description="Deploys.")
    model = mt.ScriptedModel(
        [
            {"calls": [{"name": "remote", "arguments": {"message": "Deploy it."}}]},
            {"text": "Done."},
        ]
    )
    await mt.Agent(model, tools=[remote], store=mt.open_store(store)).run("Go.")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
