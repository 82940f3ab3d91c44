"""Recorded events in the stream of a turn, in one order with the deltas."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import midturn as mt
from midturn.events.types import ChatRequest, ChatResponse, Event
from midturn.stores.store import ConversationStore
from support.agents import careful


@mt.tool(run="ask")
async def pay(n: int) -> str:
    """Pay."""
    return f"paid {n}"


@mt.tool
async def wonder(ctx: mt.ToolContext) -> str:
    """Ask."""
    return await ctx.ask(mt.Question.text("what", "What?"))


def asking_agent(store: ConversationStore) -> mt.Agent:
    """Return an agent that pays and asks, with a text before and after."""
    calls = [{"name": "pay", "arguments": {"n": 1}}, {"name": "wonder"}]
    script = [{"text": "I pay and ask.", "chunk": 7, "calls": calls}, {"text": "Done."}]
    return mt.Agent(mt.ScriptedModel(script * 2), tools=[pay, wonder], store=store)


def shown(seen: Sequence[mt.Streamed]) -> list[str]:
    """Return the kinds of the events; for recorded events, their types on disk."""
    return [
        event.event.type if isinstance(event, mt.Recorded) else type(event).__name__
        for event in seen
    ]


def recorded(seen: Sequence[mt.Streamed]) -> list[tuple[int, Event]]:
    return [(event.position, event.event) for event in seen if isinstance(event, mt.Recorded)]


async def log(store: ConversationStore, conversation: str) -> list[tuple[int, Event]]:
    """Return the recorded events with their positions."""
    return [*enumerate((await store.read(conversation)).events, 1)]


def without_batches(events: Sequence[tuple[int, Event]]) -> list[tuple[int, str]]:
    """Return positions and ids. Only the log has the size of each batch (`more`)."""
    return [(position, event.event_id) for position, event in events]


def test_recorded_events_are_in_one_order_with_the_deltas(store: ConversationStore) -> None:
    async def scene() -> None:
        script = [
            {"text": "I will ask.", "chunk": 6, "calls": [{"name": "careful"}]},
            {"text": "Done."},
        ]
        agent = mt.Agent(mt.ScriptedModel(script), tools=[careful], store=store)
        prompter = mt.ScriptedPrompter({"careful.confirm": True})
        async with agent.stream("Ask", prompter=prompter, events=True) as events:
            seen = [event async for event in events]
        assert shown(seen) == [
            "turn_start",
            "chat_request",
            "TextDelta",
            "TextDelta",
            "chat_response",
            "tool_call_request",
            "ToolStarted",
            "inquiry_request",
            "Asked",
            "inquiry_response",
            "QuestionAnswered",
            "tool_call_response",
            "ToolFinished",
            "TextDelta",
            "chat_response",
            "turn_end",
            "TurnEnded",
        ]
        assert without_batches(recorded(seen)) == without_batches(
            await log(store, events.conversation)
        )

    asyncio.run(scene())


def test_stream_without_events_has_none(store: ConversationStore) -> None:
    async def scene() -> None:
        async with asking_agent(store).stream("Go.") as events:
            seen = [event async for event in events]
        assert recorded(seen) == []

    asyncio.run(scene())


def test_call_of_an_approval_is_recorded_before_the_approval_is_asked(
    store: ConversationStore,
) -> None:
    """The call has not run, so that there is no `ToolStarted`."""

    async def scene() -> None:
        async with asking_agent(store).stream("Go.", events=True) as events:
            seen = [event async for event in events]
        kinds = shown(seen)
        assert kinds.index("tool_call_request") < kinds.index("approval") < kinds.index("Asked")
        assert kinds.count("Asked") == 2

    asyncio.run(scene())


def test_program_that_follows_the_positions_prints_each_text_once(store: ConversationStore) -> None:
    """Text is printed from the deltas, or from recorded events that no stream of this program
    contained.
    """

    async def scene() -> None:
        printed, position = list[str](), 0
        agent = asking_agent(store)
        async with agent.stream("Go.", events=True) as events:
            async for event in events:
                if isinstance(event, mt.TextDelta):
                    printed.append(event.text)
                elif isinstance(event, mt.Recorded):
                    position = event.position
        first, second = await store.pending(events.conversation)
        await store.answer(first, approve=True)
        await store.answer(second, "tea")
        await asking_agent(store).resume(events.conversation)  # another process ends the turn
        async for change in store.watch(events.conversation, events=True, after=position):
            match change:
                case mt.StoreChange(event=ChatResponse(message=str(message))):
                    printed.append(message)
                case mt.StoreChange(kind="turn_ended"):
                    break
                case _:
                    pass
        assert "".join(printed) == "I pay and ask.Done."

    asyncio.run(scene())


def test_resumed_stream_begins_with_the_events_since_a_position(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = asking_agent(store)
        async with agent.stream("Go.", events=True) as events:
            before = [event async for event in events]
        conversation, (position, _) = events.conversation, recorded(before)[-1]
        first, second = await store.pending(conversation)
        await store.answer(first, approve=False, user="ada")
        await store.answer(second, reply="Not now.", user="ben")
        async with agent.stream_resume(conversation, after=position) as events:
            seen = [event async for event in events]
        assert shown(seen) == [
            "approval",
            "QuestionAnswered",
            "tool_call_response",
            "ToolFinished",
            "inquiry_response",
            "QuestionAnswered",
            "tool_call_response",
            "ToolFinished",
            "TextDelta",
            "chat_response",
            "turn_end",
            "TurnEnded",
        ]
        answered = [event for event in seen if isinstance(event, mt.QuestionAnswered)]
        assert [event.id for event in answered] == [first.id, second.id]
        assert without_batches([*recorded(before), *recorded(seen)]) == without_batches(
            await log(store, conversation)
        )

    asyncio.run(scene())


def test_events_of_earlier_turns_can_be_included(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = asking_agent(store)
        waiting = await agent.run("Go.")
        first, second = waiting.pending
        await store.answer(first, approve=True)
        await store.answer(second, "tea")
        await agent.resume(waiting.conversation)
        again = await asking_agent(store).run("Again.", conversation=waiting.conversation)
        async with asking_agent(store).stream_resume(again.conversation, after=0) as events:
            seen = [event async for event in events]
        everything = await log(store, again.conversation)
        assert without_batches(recorded(seen)) == without_batches(everything)
        kinds = shown(seen)
        assert kinds.count("Asked") == 4
        assert kinds.count("QuestionAnswered") == 2
        assert kinds.count("ToolFinished") == 2
        asked = [
            event.event.content
            for event in seen
            if isinstance(event, mt.Recorded) and isinstance(event.event, ChatRequest)
        ]
        assert asked == ["Go.", "Again."]

    asyncio.run(scene())


def test_edited_arguments_are_those_of_the_finished_call(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = asking_agent(store)
        waiting = await agent.run("Go.")
        await store.answer(waiting.pending[0], arguments={"n": 2})
        await agent.resume(waiting.conversation)
        async with agent.stream_resume(waiting.conversation, after=0) as events:
            seen = [event async for event in events]
        finished = [event for event in seen if isinstance(event, mt.ToolFinished)]
        assert [event.call.arguments for event in finished] == [{"n": 2}]

    asyncio.run(scene())


def test_reply_given_while_a_resumed_turn_streams_is_streamed(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = asking_agent(store)
        waiting = await agent.run("Go.")
        position = len((await store.read(waiting.conversation)).events)
        prompter = mt.InboxPrompter()
        seen = list[mt.Streamed]()
        async with agent.stream_resume(
            waiting.conversation, prompter=prompter, after=position
        ) as events:
            first, second = waiting.pending
            assert (await store.answer(first, approve=False)).held
            assert (await store.answer(second, reply="Not now.")).held
            seen = [event async for event in events]
        kinds = shown(seen)
        assert [kinds.count(kind) for kind in ("QuestionAnswered", "ToolFinished")] == [2, 2]
        assert kinds.index("inquiry_response") < kinds.index("TextDelta")
        assert without_batches(recorded(seen)) == without_batches(
            (await log(store, waiting.conversation))[position:]
        )

    asyncio.run(scene())


@pytest.mark.parametrize("after", [-1, 1_000])
def test_position_outside_of_the_conversation_is_refused(
    store: ConversationStore, after: int
) -> None:
    async def scene() -> None:
        agent = asking_agent(store)
        waiting = await agent.run("Go.")
        with pytest.raises(ValueError, match="`after` must be a position"):
            async with agent.stream_resume(waiting.conversation, after=after):
                pass
        async with await store.open(waiting.conversation):
            pass  # the lock was released

    asyncio.run(scene())


def test_synchronous_streams_have_recorded_events(store: ConversationStore) -> None:
    agent = asking_agent(store)
    with agent.stream_sync("Go.", events=True) as events:
        before = [*events]
        conversation = events.conversation
    position = recorded(before)[-1][0]
    question = store.pending_sync(conversation)[0]
    store.answer_sync(question, approve=True)

    with agent.stream_resume_sync(conversation, after=position) as events:
        seen = [*events]

    assert shown(seen)[:2] == ["approval", "QuestionAnswered"]
    assert "ToolStarted" in shown(seen)
