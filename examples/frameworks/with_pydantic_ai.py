"""An agent of pydantic-ai with a tool that asks and a tool that needs approval.

No one answers, so each run ends at a question. The messages between two runs are JSON.
"""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import midturn as mt
from midturn.integrations.pydantic_ai import run


def scripted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """A fake model: two calls, then a message with their results."""
    read = [
        str(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    if read:
        return ModelResponse(parts=[TextPart(" ".join(read))])
    return ModelResponse(
        parts=[ToolCallPart("deploy", {"env": "staging"}), ToolCallPart("drop", {"table": "old"})]
    )


agent = Agent(FunctionModel(scripted), output_type=[str, DeferredToolRequests])


@agent.tool_plain
async def deploy(env: str) -> str:
    """Deploy the service."""
    region = await mt.ask(mt.Question.select("region", f"Where does {env} go?", ["eu-1", "us-2"]))
    return f"{env} is live in {region}."


@agent.tool_plain(requires_approval=True)
def drop(table: str) -> str:
    """Drop a table."""
    return f"{table} is gone."


async def main() -> None:
    """Run until the turn is over. Each run could be in another process, on another day."""
    store = mt.MemoryStore()
    conversation, saved = await store.new("Ship it."), b"[]"
    answers = {"region": "us-2", "__run__": True}
    while True:
        history = ModelMessagesTypeAdapter.validate_json(saved)
        result = await run(
            agent, mt.Inquirer(store, conversation), "Ship it.", message_history=history
        )
        if isinstance(result.output, str):
            print(result.output)
            return
        saved = result.all_messages_json()
        for question in await store.pending(conversation):
            print(f"{question.tool}: {question.question.text}")
            await store.answer(question.id, answers[question.question_id], user="u42")


if __name__ == "__main__":
    asyncio.run(main())
