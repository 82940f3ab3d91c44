"""The entry points of pydantic-ai: streams, `iter`, and programs without asyncio. Each has a
question.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, ToolApproved
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import DeferredToolResults

import midturn as mt
from midturn.integrations.pydantic_ai import Asking, run, run_sync, stream
from midturn.stores.store import ConversationStore

PERSON = {"deploy.confirm": True}


async def streaming(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Any]:
    """Make one call, and repeat its result."""
    read = [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    if read:
        yield "It says: "
        yield str(read[-1])
    else:
        yield {0: DeltaToolCall("deploy", '{"env": "eu"}', tool_call_id="c1")}


def at_once(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """The same without a stream."""
    read = [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    if read:
        return ModelResponse(parts=[TextPart(f"It says: {read[-1]}")])
    return ModelResponse(parts=[ToolCallPart("deploy", {"env": "eu"}, tool_call_id="c1")])


def shop() -> Agent[None, Any]:
    """Return an agent that deploys once."""
    agent: Agent[None, Any] = Agent(
        FunctionModel(at_once, stream_function=streaming), output_type=[str, DeferredToolRequests]
    )

    @agent.tool_plain
    async def deploy(env: str) -> str:
        """Deploy."""
        if not await mt.ask(mt.Question.boolean("confirm", f"Deploy to {env}?")):
            raise mt.Rejected("Not deployed.")
        return f"{env} is live"

    return agent


def test_a_stream_has_the_events_of_pydantic_ai_and_the_questions(store: ConversationStore) -> None:
    async def scene() -> None:
        inquirer = mt.Inquirer(store, await store.new(), mt.ScriptedPrompter({**PERSON}))
        async with stream(shop(), inquirer, "Go.") as events:
            seen = [type(event).__name__ async for event in events]
        ours = [
            name
            for name in seen
            if name in ("ToolStarted", "Asked", "QuestionAnswered", "ToolFinished")
        ]
        assert ours == ["ToolStarted", "Asked", "QuestionAnswered", "ToolFinished"]
        assert (
            seen.index("FunctionToolCallEvent")
            < seen.index("Asked")
            < seen.index("FunctionToolResultEvent")
        )
        assert seen[-1] == "AgentRunResultEvent"
        assert events.result.output == "It says: eu is live"

    asyncio.run(scene())


def test_waiting_stream_ends_with_requests_and_continues_from_the_messages(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        conversation = await store.new()
        async with stream(shop(), mt.Inquirer(store, conversation), "Go.") as events:
            (asked,) = [event.question async for event in events if isinstance(event, mt.Asked)]
        assert isinstance(events.result.output, DeferredToolRequests)
        await store.answer(asked, True)
        async with stream(
            shop(), mt.Inquirer(store, conversation), message_history=events.result.all_messages()
        ) as events:
            async for _ in events:
                pass
        assert events.result.output == "It says: eu is live"
        assert await store.open_turns(conversation) == set()

    asyncio.run(scene())


def test_leaving_a_stream_early_leaves_the_turn_open(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new()
        inquirer = mt.Inquirer(store, conversation, mt.ScriptedPrompter({**PERSON}))
        async with stream(shop(), inquirer, "Go.") as events:
            async for event in events:
                if isinstance(event, mt.Asked):
                    break
        assert await store.open_turns(conversation) == {conversation}
        assert (await run(shop(), inquirer, "Go.")).output == "It says: eu is live"

    asyncio.run(scene())


def test_ending_the_turn_ends_a_stream(store: ConversationStore) -> None:
    async def scene() -> None:
        inquirer = mt.Inquirer(
            store, await store.new(), mt.ScriptedPrompter({"deploy.confirm": mt.EndedTurn()})
        )
        async with stream(shop(), inquirer, "Go.") as events:
            with pytest.raises(mt.CallEnded) as raised:
                [event async for event in events]
        assert raised.value.turn_ended

    asyncio.run(scene())


def test_program_that_iterates_itself_continues_with_the_recorded_answer(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        conversation, agent, messages = await store.new(), shop(), list[ModelMessage]()

        async def nodes(text: str | None, results: DeferredToolResults | None = None) -> Any:
            inquirer = mt.Inquirer(store, conversation)
            async with inquirer.turn(text or ""):
                async with agent.iter(
                    text,
                    message_history=[*messages],
                    deferred_tool_results=results,
                    capabilities=[Asking(inquirer)],
                ) as run:
                    async for _ in run:
                        pass
                assert run.result is not None
                messages[:] = run.result.all_messages()
                return run.result.output

        with pytest.raises(mt.Suspended) as waiting:
            await nodes("Go.")
        await store.answer(waiting.value.pending[0], True)
        assert (
            await nodes(None, DeferredToolResults(approvals={"c1": ToolApproved()}))
            == "It says: eu is live"
        )

    asyncio.run(scene())


def in_thread(work: Callable[[], Any]) -> Any:
    """Run `work` in its own thread, as a web server runs a request; return its result."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_program_without_asyncio_continues_in_other_threads(store: ConversationStore) -> None:
    conversation = store.new_sync()
    saved = in_thread(
        lambda: run_sync(shop(), mt.Inquirer(store, conversation), "Go.").all_messages_json()
    )
    (question,) = store.pending_sync(conversation)
    store.answer_sync(question, True)
    history = ModelMessagesTypeAdapter.validate_json(saved)
    assert (
        in_thread(
            lambda: (
                run_sync(shop(), mt.Inquirer(store, conversation), message_history=history).output
            )
        )
        == "It says: eu is live"
    )


def test_a_second_run_in_the_same_thread_has_the_same_loop(store: ConversationStore) -> None:
    loops = set[asyncio.AbstractEventLoop]()

    def twice() -> list[str]:
        agent = shop()

        @agent.instructions
        async def note() -> str:
            loops.add(asyncio.get_running_loop())
            return "Ship."

        people = [
            mt.Inquirer(store, store.new_sync(), mt.ScriptedPrompter({**PERSON})) for _ in range(2)
        ]
        return [run_sync(agent, inquirer, "Go.").output for inquirer in people]

    assert in_thread(twice) == ["It says: eu is live"] * 2
    (loop,) = loops
    assert loop.is_closed()  # together with its thread


def test_program_with_a_running_loop_gets_a_hint(store: ConversationStore) -> None:
    async def scene() -> None:
        with pytest.raises(RuntimeError, match=r"Use `await run\(…\)`"):
            run_sync(shop(), mt.Inquirer(store, await store.new()), "Go.")

    asyncio.run(scene())
