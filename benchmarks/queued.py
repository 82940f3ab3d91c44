"""The agent of `machines.py` under procrastinate: each answer that makes a turn ready defers a
job, and the job resumes the turn.

Run as a program, it is a worker. procrastinate is installed in its own environment, which
`machines.py` creates.
"""

# procrastinate is not installed in the project's environment:
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedFunctionDecorator=false, reportFunctionMemberAccess=false

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

import procrastinate

import midturn as mt
from machines import agent

AT_ONCE = 16
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=os.environ["BENCH_QUEUE"])
)


@app.task(name="go_on")
async def go_on(conversation: str) -> None:
    """Resume a turn, unless another worker does or it has ended."""
    with suppress(mt.NotOpen, mt.StoreLocked):
        await agent.resume(conversation)


async def main(what: str) -> None:
    """Create the tables, defer a job for each line of stdin, or work until stopped."""
    async with app.open_async():
        match what:
            case "schema":
                await app.schema_manager.apply_schema_async()
            case "defer":
                while line := await asyncio.to_thread(sys.stdin.readline):
                    await go_on.defer_async(conversation=line.strip())
            case _:
                await app.run_worker_async(concurrency=AT_ONCE, wait=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
