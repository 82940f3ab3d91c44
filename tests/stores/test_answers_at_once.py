"""Two workers answer the two questions of a turn at the same time, in many rounds.

`MIDTURN_ROUNDS=200` runs the long version.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import midturn as mt
from midturn.events.types import InquiryAnswered, ToolCallResponse

ROUNDS = int(os.environ.get("MIDTURN_ROUNDS", "12"))


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    """Deploy."""
    return f"{env}: {await ctx.ask(mt.Question.boolean('confirm', f'Deploy to {env}?'))}"


def agent(directory: Path) -> mt.Agent:
    """Return a worker's own agent on its own instance of the store."""
    calls = [{"name": "deploy", "arguments": {"env": env}} for env in ("a", "b")]
    return mt.Agent(
        mt.ScriptedModel([{"calls": calls}, {"text": "Done."}]),
        tools=[deploy],
        store=mt.open_store(directory),
    )


async def answer_and_resume(worker: mt.Agent, question: mt.OpenQuestion) -> None:
    """Answer and resume the turn unless another handler does, as a web service would."""
    receipt = await worker.store.answer(question.id, value=True, user=question.id)
    if receipt.held:
        return
    with suppress(mt.StoreLocked, mt.NotOpen):  # the other handler was first
        await worker.resume(receipt.conversation)


async def played(directory: Path) -> None:
    workers = [agent(directory), agent(directory)]
    result = await workers[0].run("Ship it.")
    await asyncio.gather(
        *(
            answer_and_resume(worker, question)
            for worker, question in zip(workers, result.pending, strict=True)
        )
    )
    read = await workers[0].store.read(result.conversation)
    if read.turns[-1].open:
        await workers[0].resume(result.conversation)
        read = await workers[0].store.read(result.conversation)
    assert sum(isinstance(event, InquiryAnswered) for event in read.events) == 2
    assert sorted(
        event.content for event in read.events if isinstance(event, ToolCallResponse)
    ) == ["a: True", "b: True"]


def test_no_answer_is_refused_lost_or_taken_twice(tmp_path: Path) -> None:
    async def scene() -> None:
        for _ in range(ROUNDS):
            await played(tmp_path / "conversations")

    asyncio.run(scene())
