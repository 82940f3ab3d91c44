"""Agents that run inside tools of each other, whose models keep nothing in mind: what they say next, their events say."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import midturn as mt
from midturn.events.types import ToolCallResponse
from midturn.exchange import ModelRequest, TextPart, ToolCallPart
from midturn.stores.store import ConversationStore

SURE = mt.Question.boolean("sure", "Sure?")


async def over(store: ConversationStore, conversation: str) -> None:
    """Return when the turn of a conversation is over."""
    async with asyncio.timeout(30):
        while conversation in await store.open_turns():  # noqa: ASYNC110  a watch begins with what is open by then
            await asyncio.sleep(0.01)


class Asked:
    """A model that makes its calls, and then repeats what it was told; it counts how often it is asked."""

    def __init__(self, *calls: ToolCallPart) -> None:
        self._calls = calls
        self.times = 0
        self.model = mt.FunctionModel(self._say)

    async def _say(self, request: ModelRequest) -> Sequence[ToolCallPart] | TextPart:
        self.times += 1
        told = [event.content for event in request.events if isinstance(event, ToolCallResponse)]
        return TextPart(" ".join(told)) if told else self._calls


class Company:
    """A boss whose tool has workers run: `names` each ask a person once. `deep` puts a foreman between."""

    def __init__(self, store: ConversationStore | None, *names: str, deep: bool = False) -> None:
        self.ran: list[str] = []
        self.worker = Asked(ToolCallPart("call_1", "work", {}))
        self.foreman = Asked(ToolCallPart("call_1", "oversee", {}))
        self.boss = Asked(ToolCallPart("call_1", "manage", {}))
        self.results: list[mt.RunResult[None]] = []
        self._names = names

        @mt.tool
        async def work(ctx: mt.ToolContext) -> str:
            """Ask, and work."""
            sure = await ctx.ask(SURE)
            self.ran.append(ctx.idempotency_key)
            return "worked" if sure else "did nothing"

        @mt.tool
        async def oversee() -> str:
            """Have the workers work."""
            results = await asyncio.gather(*(mt.Agent(self.worker.model, tools=[work]).run(name) for name in self._names))
            self.results += results
            return " ".join(f"{name} {result.text}" for name, result in zip(self._names, results, strict=True))

        @mt.tool
        async def manage() -> str:
            """Have the foreman oversee, or oversee oneself."""
            if not deep:
                return await oversee.function()
            result = await mt.Agent(self.foreman.model, tools=[oversee]).run("See to it.")
            return f"foreman: {result.text}"

        self.tools = [manage]
        self.agent = mt.Agent(self.boss.model, tools=self.tools, store=store)
