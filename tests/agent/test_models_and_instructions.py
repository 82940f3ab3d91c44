"""Agents with pydantic-ai models, message histories and instructions made from `deps`, and the
results of such runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

import midturn as mt

TALK = {"input_tokens": 100, "output_tokens": 10}


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    """Deploy."""
    return (
        f"{env} is live."
        if await ctx.ask(mt.Question.boolean("confirm", "Sure?"))
        else "Nothing is."
    )


async def talk(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    """A pydantic-ai function model."""
    assert [tool.name for tool in info.function_tools] == ["deploy"]
    returned = [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    if returned:
        yield f"I hear: {returned[-1]}"
    else:
        yield {0: DeltaToolCall("deploy", '{"env": "staging"}', tool_call_id="call_1")}


def test_any_model_of_pydantic_ai_is_a_model() -> None:
    agent = mt.Agent(
        FunctionModel(stream_function=talk),
        tools=[deploy],
        prompter=mt.ScriptedPrompter({"deploy.confirm": True}),
    )
    result = agent.run_sync("Ship it.").raise_if_failed()

    assert result.text == "I hear: staging is live."
    assert (result.usage.requests, list(result.usage.by_model)) == (2, ["function/function::talk"])


def test_instructions_use_the_deps_of_each_run() -> None:
    @dataclass
    class Shop:
        name: str

    heard: list[str] = []

    async def listen(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        assert not info.function_tools
        first = messages[0]
        assert isinstance(first, ModelRequest)
        heard.extend(str(part.content) for part in first.parts if part.part_kind == "system-prompt")
        yield "Hello."

    def instructions(shop: Shop) -> str:
        return f"You work for {shop.name}."

    agent = mt.Agent[Shop](FunctionModel(stream_function=listen), instructions=instructions)
    for name in ("Ada", "Bob"):
        agent.run_sync("Hello.", deps=Shop(name)).raise_if_failed()

    assert heard == ["You work for Ada.", "You work for Bob."]


def test_invalid_instructions_are_refused() -> None:
    async def instructions(_: object) -> str:
        return ""

    with pytest.raises(TypeError, match=r"`instructions` must be a string, or a function"):
        mt.Agent(mt.ScriptedModel([]), instructions=instructions)  # type: ignore[arg-type]  # that is the point


def test_a_conversation_begins_with_earlier_messages() -> None:
    heard: list[str] = []

    async def listen(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        assert not info.function_tools
        heard.extend(
            str(getattr(part, "content", "")) for message in messages for part in message.parts
        )
        yield "You said hello."

    agent = mt.Agent(FunctionModel(stream_function=listen))
    history: list[mt.HistoryMessage] = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello, Ada."},
    ]
    result = agent.run_sync("What did I say?", history=history).raise_if_failed()

    assert heard == ["Hello.", "Hello, Ada.", "What did I say?"]
    assert len(agent.store.read_sync(result.conversation).turns) == 2
    with pytest.raises(mt.ConfigError, match="already has events"):
        agent.run_sync("Again.", conversation=result.conversation, history=history)
    with pytest.raises(
        mt.ConfigError, match=r"history\[0\]: the first message must have the role `user`"
    ):
        agent.run_sync("Again.", history=history[1:])


def test_usage_counts_every_model_and_separates_inquiries() -> None:
    answer = {
        "tool": "*",
        "question": "*",
        "answers": [{"reason": "Fine.", "answer": True, "usage": {"input_tokens": 7}}],
    }
    model = mt.ScriptedModel(
        [
            {"calls": [{"name": "deploy", "arguments": {"env": "a"}}], "usage": TALK},
            {"text": "Done.", "usage": TALK},
        ],
        [answer],
    )
    usage = (
        mt.Agent(model, tools=[deploy], routes={"deploy.*": "assistant"})
        .run_sync("Ship it.")
        .raise_if_failed()
        .usage
    )

    assert (usage.total, usage.requests, usage.inquiries.total) == (227, 3, 7)
    assert usage.by_model[model.name].total == 227
    assert usage.to_json()["requests"] == 3


def test_usage_covers_the_whole_turn_over_several_processes(tmp_path: Path) -> None:
    def agent() -> mt.Agent[None]:
        call = {"name": "deploy", "arguments": {"env": "a"}}
        model = mt.ScriptedModel(
            [
                {"text": "I will.", "calls": [call], "usage": TALK},
                {"text": "Done.", "usage": {"input_tokens": 1}},
            ]
        )
        return mt.Agent(model, tools=[deploy], store=mt.open_store(tmp_path))

    waiting = agent().run_sync("Ship it.")
    assert waiting.usage == waiting.run_usage
    (question,) = waiting.pending
    another = agent()
    another.store.answer_sync(question, True)
    done = another.resume_sync(waiting.conversation).raise_if_failed()

    assert (
        done.usage.total,
        done.usage.requests,
        done.run_usage.total,
        done.run_usage.requests,
    ) == (waiting.usage.total + 1, 2, 1, 1)
    assert [one.total for one in done.usage.by_model.values()] == [done.usage.total]
    assert done.to_json()["run_usage"] == done.run_usage.to_json()


def test_sync_stream_continues_after_a_question() -> None:
    agent = mt.Agent(
        mt.ScriptedModel(
            [{"calls": [{"name": "deploy", "arguments": {"env": "a"}}]}, {"text": "Done."}]
        ),
        tools=[deploy],
    )
    with agent.stream_sync("Ship it.") as events:
        first = [type(event).__name__ for event in events]
    (question,) = agent.store.pending_sync()
    agent.store.answer_sync(question.id, value=True)
    with agent.stream_resume_sync(events.conversation) as events:
        second = list(events)

    assert first == ["ToolStarted", "Asked", "TurnEnded"]
    assert isinstance(second[-1], mt.TurnEnded)
    assert second[-1].result.text == "Done."


def test_leaving_a_stream_early_leaves_the_turn_open() -> None:
    agent = mt.Agent(
        mt.ScriptedModel(
            [{"calls": [{"name": "deploy", "arguments": {"env": "a"}}]}, {"text": "Done."}]
        ),
        tools=[deploy],
    )
    with agent.stream_sync("Ship it.", prompter=mt.InboxPrompter()) as events:
        next(events)
    assert (
        agent.resume_sync(
            events.conversation, prompter=mt.ScriptedPrompter({"deploy.confirm": True})
        ).text
        == "Done."
    )


def test_sync_forms_in_a_loop_name_the_async_ones() -> None:
    agent = mt.Agent(mt.ScriptedModel([]))

    async def scene() -> None:
        with (
            pytest.raises(RuntimeError, match=r"async with agent\.stream"),
            agent.stream_sync("Hello."),
        ):
            pass
        with (
            pytest.raises(RuntimeError, match=r"async with agent\.stream_resume"),
            agent.stream_resume_sync("1"),
        ):
            pass
        with pytest.raises(RuntimeError, match=r"await agent\.work"):
            agent.work_sync()

    asyncio.run(scene())


def test_a_result_has_the_type_of_its_schema() -> None:
    @dataclass
    class Region:
        name: str

    result = (
        mt.Agent(mt.ScriptedModel([{"text": '{"name": "eu-1"}'}]))
        .run_sync("Where?", schema=Region)
        .raise_if_failed()
    )

    region: Region | None = result.structured  # pyright proves it
    assert region == Region("eu-1")
