"""Agents with a scripted model, and the results of their tool calls."""

from __future__ import annotations

from collections.abc import Mapping

import midturn as mt
from midturn.events.types import ToolCallResponse
from midturn.question.json_value import Json
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive

CONFIRM = mt.Question.boolean("confirm", "Sure?")


def calling(*names: str, arguments: Mapping[str, Json] = {}) -> mt.ScriptedModel:
    """Return a model that calls these tools at once, and then ends the turn."""
    return mt.ScriptedModel(
        [{"calls": [{"name": name, "arguments": arguments} for name in names]}, {"text": "Done."}]
    )


def tool_results(store: ConversationStore, conversation: str) -> list[str]:
    """Return the results of the tool calls in a conversation, in order."""
    return [
        event.content
        for event in drive(store.read(conversation)).events
        if isinstance(event, ToolCallResponse)
    ]


@mt.tool
async def careful(ctx: mt.ToolContext) -> str:
    """Ask first."""
    return "went ahead" if await ctx.ask(CONFIRM) else "left it"


@mt.tool
async def ship(ctx: mt.ToolContext) -> str:
    """Ship it."""
    return str(await ctx.ask(mt.Question.boolean("sure", "Sure?")))


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy the service."""
    return str(await ctx.ask(mt.Question.boolean("sure", "Sure?")))
