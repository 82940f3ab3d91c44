"""An agent whose tools wait or kill their process, for tests of stopped and killed workers.

Every call writes a line to the file `TOOL_CALL_LOG`: its process, its idempotency key and its
kind. A tool that waits continues when a file of that name with the suffix `.go` exists. A
database session that is silent for two seconds counts as hung.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import midturn as mt
from midturn.events.types import ChatRequest
from midturn.exchange import ModelRequest, TextPart, ToolCallPart
from midturn.stores.postgres import database

if "TOOL_CALL_LOG" in os.environ:  # set in workers, not in the tests
    database.HUNG, database.PING, database.ORPHANED = "2s", 0.2, 0.2

SAID = Path(os.environ.get("TOOL_CALL_LOG", os.devnull))
GO = SAID.with_suffix(".go")


def _say(ctx: mt.ToolContext, what: str) -> None:
    descriptor = os.open(SAID, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{os.getpid()} {ctx.idempotency_key} {what}\n".encode())
    os.close(descriptor)


@mt.tool
async def ship(kind: str, ctx: mt.ToolContext) -> str:
    """Ship something, once somebody is sure."""
    await ctx.ask(mt.Question.boolean("sure", "Sure?"))
    _say(ctx, f"{kind} began")
    if kind == "poison":
        os._exit(1)
    while kind == "slow" and not GO.exists():  # noqa: ASYNC110  another process lets it go on
        await asyncio.sleep(0.02)
    _say(ctx, f"{kind} ended")
    return "shipped"


def _reply(request: ModelRequest) -> TextPart | ToolCallPart:
    if request.events[-1].type == "tool_call_response":
        return TextPart("Done.")
    kind = next(event.content for event in request.events if isinstance(event, ChatRequest))
    return ToolCallPart("call_1", "ship", {"kind": kind})


agent = mt.Agent(mt.FunctionModel(_reply), tools=[ship])
