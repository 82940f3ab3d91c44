"""Random turns whose tool asks questions from several tasks at once, some of them identical."""

from __future__ import annotations

import asyncio
import random

import midturn as mt
from midturn.events.types import InquiryAnswered, InquiryRequest, ToolCallResponse
from midturn.stores.store import ConversationStore

WORDS = [mt.Question.text(id, f"{id}?") for id in "abc"]
ASKED: list[mt.Question[object]] = [*WORDS, mt.Question.boolean("sure", "Sure?", optional=True)]


def agent_with(tool: mt.Tool, store: ConversationStore) -> mt.Agent:
    """Return an agent that calls a tool once, as a new process would create it."""
    model = mt.ScriptedModel([{"calls": [{"name": tool.definition.name}]}, {"text": "Done."}])
    return mt.Agent(model, tools=[tool], store=store)


async def play_concurrent_questions(seed: int, store: ConversationStore) -> list[object]:
    """Play a random turn; return the answers that each task received and the recorded events."""
    decide = random.Random(seed)
    tasks = [
        [decide.choice(ASKED) for _ in range(decide.randint(1, 4))]
        for _ in range(decide.randint(1, 3))
    ]
    first = [decide.choice(ASKED) for _ in range(decide.randint(0, 2))]
    told: list[list[object]] = []

    async def ask(
        ctx: mt.ToolContext, questions: list[mt.Question[object]], heard: list[object]
    ) -> None:
        for question in questions:
            answer = await ctx.ask(question)
            heard.append(answer)

    @mt.tool
    async def curious(ctx: mt.ToolContext) -> str:
        """Ask."""
        told[:] = [[await ctx.ask(question) for question in first], *([] for _ in tasks)]
        await asyncio.gather(
            *(ask(ctx, questions, heard) for questions, heard in zip(tasks, told[1:], strict=True))
        )
        return str(told)

    seen: list[object] = []
    answers = 0
    result = await agent_with(curious, store).run("Go")
    while result.pending:
        seen.append([list(heard) for heard in told])
        for question in decide.sample(result.pending, decide.randint(1, len(result.pending))):
            answers += 1
            said = (
                decide.choice((True, False, None))
                if question.question.optional
                else f"answer {answers}"
            )
            await store.answer(
                question.id, said, reason=decide.choice((None, f"because of {answers}"))
            )
        result = await agent_with(curious, store).resume(result.conversation)
    for event in (await store.read(result.conversation)).events:
        match event:
            case InquiryRequest(id=id):
                seen.append(id)
            case InquiryAnswered(id=id, answer=answer):
                seen.append((id, answer))
            case ToolCallResponse(content=content):
                seen.append(content)
            case _:
                pass
    return seen
