"""Agents that run inside each other's tools. Their models are stateless: the events determine the
next reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import midturn as mt
from midturn.events.types import ToolCallResponse
from midturn.exchange import ModelRequest, TextPart, ToolCallPart
from midturn.stores.store import ConversationStore

SURE = mt.Question.boolean("sure", "Sure?")


async def wait_for_turn_end(store: ConversationStore, conversation: str) -> None:
    """Wait until the turn of a conversation has ended."""
    async with asyncio.timeout(120):
        while conversation in await store.open_turns():  # noqa: ASYNC110  a watch reports only later changes
            await asyncio.sleep(0.01)


class RepeatingModel:
    """A model that makes its calls and then repeats their results. It counts its requests in
    `times`.
    """

    def __init__(self, *calls: ToolCallPart) -> None:
        self._calls = calls
        self.times = 0
        self.model = mt.FunctionModel(self._say)

    async def _say(self, request: ModelRequest) -> Sequence[ToolCallPart] | TextPart:
        self.times += 1
        told = [event.content for event in request.events if isinstance(event, ToolCallResponse)]
        return TextPart(" ".join(told)) if told else self._calls


class NestedAgents:
    """An agent (boss) whose tool runs worker agents, one for each of `names`; each worker asks a
    person once. With `deep`, a foreman agent runs the workers.
    """

    def __init__(self, store: ConversationStore | None, *names: str, deep: bool = False) -> None:
        self.ran: list[str] = []
        self.worker = RepeatingModel(ToolCallPart("call_1", "work", {}))
        self.foreman = RepeatingModel(ToolCallPart("call_1", "oversee", {}))
        self.boss = RepeatingModel(ToolCallPart("call_1", "manage", {}))
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
            results = await asyncio.gather(
                *(mt.Agent(self.worker.model, tools=[work]).run(name) for name in self._names)
            )
            self.results += results
            return " ".join(
                f"{name} {result.text}" for name, result in zip(self._names, results, strict=True)
            )

        @mt.tool
        async def manage() -> str:
            """Have the foreman oversee, or oversee oneself."""
            if not deep:
                return await oversee.function()
            result = await mt.Agent(self.foreman.model, tools=[oversee]).run("See to it.")
            return f"foreman: {result.text}"

        self.tools = [manage]
        self.agent = mt.Agent(self.boss.model, tools=self.tools, store=store)
