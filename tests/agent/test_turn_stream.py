"""Streaming the events of a running turn."""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from midturn.events.types import Approval, InquiryAnswered
from midturn.stores.store import ConversationStore
from support.agents import calling, careful, tool_results


def test_stream_has_every_event(store: ConversationStore) -> None:
    async def scene() -> list[mt.Streamed]:
        agent = mt.Agent(
            mt.ScriptedModel(
                [
                    {"text": "I will ask.", "chunk": 6, "calls": [{"name": "careful"}]},
                    {"text": "Done."},
                ]
            ),
            tools=[careful],
            store=store,
        )
        async with agent.stream(
            "Ask", prompter=mt.ScriptedPrompter({"careful.confirm": True}), author="ada"
        ) as events:
            assert (await store.read(events.conversation)).title == "Ask"
            return [event async for event in events]

    seen = asyncio.run(scene())

    assert [type(event).__name__ for event in seen] == [
        "TextDelta",
        "TextDelta",
        "ToolStarted",
        "Asked",
        "QuestionAnswered",
        "ToolFinished",
        "TextDelta",
        "TurnEnded",
    ]
    match seen:
        case [
            mt.TextDelta("I will"),
            mt.TextDelta(" ask."),
            mt.ToolStarted(call),
            mt.Asked(question),
            answered,
            finished,
            _,
            ended,
        ]:
            assert call.name == question.tool == "careful"
            assert isinstance(answered, mt.QuestionAnswered)
            assert answered.id == question.id
            assert isinstance(answered.response, InquiryAnswered)
            assert answered.response.answer is True
            assert finished == mt.ToolFinished(call, "went ahead", is_error=False)
            assert isinstance(ended, mt.TurnEnded)
            assert (ended.result.status, ended.result.text) == ("completed", "I will ask.\n\nDone.")
        case _:
            pytest.fail(repr(seen))


def test_every_question_is_streamed() -> None:
    """A remembered answer is available at once; the question is streamed nevertheless."""
    again = mt.ScriptedModel(
        [{"calls": [{"name": "careful"}]}, {"calls": [{"name": "careful"}]}, {"text": "Done."}]
    )

    async def scene() -> list[mt.Streamed]:
        person = mt.ScriptedPrompter({"careful.confirm": mt.Answered(value=True, remember=True)})
        async with mt.Agent(again, tools=[careful], prompter=person).stream("Ask") as events:
            return [event async for event in events]

    seen = asyncio.run(scene())
    asked = [event.question.id for event in seen if isinstance(event, mt.Asked)]
    answered = [event for event in seen if isinstance(event, mt.QuestionAnswered)]
    assert len(asked) == 2
    assert [event.id for event in answered] == asked
    by = [
        event.response.answered_by
        for event in answered
        if isinstance(event.response, InquiryAnswered)
    ]
    assert [who.by for who in by if who] == ["user", "cached"]


def test_waiting_permission_is_streamed(store: ConversationStore) -> None:
    @mt.tool(run="ask")
    async def risky() -> str:
        """Do something risky."""
        return "done"

    async def scene() -> None:
        agent = mt.Agent(calling("risky"), tools=[risky], store=store)
        async with agent.stream("Go") as events:
            seen = [event async for event in events]
        asked, ended = seen
        assert isinstance(asked, mt.Asked)
        assert asked.question.kind == "run"
        assert isinstance(ended, mt.TurnEnded)
        assert [question.id for question in ended.result.pending] == [asked.question.id]

        person = mt.InboxPrompter()
        again = mt.Agent(calling("risky"), tools=[risky], store=mt.MemoryStore())
        async with again.stream("Go", prompter=person) as events:
            async for event in events:
                assert not isinstance(getattr(event, "response", None), Approval)

    asyncio.run(scene())


def test_leaving_early_stops_the_run_and_leaves_the_turn_open(store: ConversationStore) -> None:
    stopped: list[str] = []

    @mt.tool
    async def endless() -> str:
        """Never end."""
        try:
            await asyncio.sleep(30)
        finally:
            stopped.append("stopped")
        return "never"

    async def scene() -> None:
        agent = mt.Agent(calling("endless"), tools=[endless], store=store)
        async with agent.stream("Go") as events:
            async for event in events:
                if isinstance(event, mt.ToolStarted):
                    break
        assert stopped == ["stopped"]
        assert (await store.read(events.conversation)).turns[-1].open
        assert [event async for event in events] == []
        store.open(events.conversation).close()  # the lock is released

    asyncio.run(scene())


def test_iterating_raises_the_errors_of_a_run() -> None:
    async def scene() -> None:
        agent = mt.Agent(
            mt.ScriptedModel([{"text": "half", "error": {"status": 401, "message": "no key"}}])
        )
        async with agent.stream("Go") as events:
            delta = await anext(events)
            with pytest.raises(mt.ModelError, match="no key") as raised:
                await anext(events)
            assert raised.value.conversation == events.conversation
        assert isinstance(delta, mt.TextDelta)
        assert delta.text == "half"

    asyncio.run(scene())


def test_an_error_in_the_block_is_raised_and_the_turn_left_open(store: ConversationStore) -> None:
    async def breaks(agent: mt.Agent) -> None:
        async with agent.stream("Go") as events:
            async for event in events:
                if isinstance(event, mt.Asked):
                    raise ZeroDivisionError

    async def scene() -> None:
        agent = mt.Agent(calling("careful"), tools=[careful], store=store)
        with pytest.raises(ZeroDivisionError):
            await breaks(agent)
        (question,) = await store.pending()
        await store.answer(question.id, True)
        assert (await agent.resume(question.conversation)).status == "completed"
        assert tool_results(store, question.conversation) == ["went ahead"]

    asyncio.run(scene())


@mt.tool(run="ask")
async def pay(n: int) -> str:
    """Pay."""
    return f"paid {n}"


@mt.tool
async def wonder(ctx: mt.ToolContext) -> str:
    """Ask."""
    return await ctx.ask(mt.Question.text("what", "What?"))


def asking_agent(store: ConversationStore) -> mt.Agent:
    """Return an agent that pays and asks."""
    calls = [{"name": "pay", "arguments": {"n": 1}}, {"name": "wonder"}]
    return mt.Agent(
        mt.ScriptedModel([{"calls": calls}, {"text": "Done."}]), tools=[pay, wonder], store=store
    )


def test_stream_of_a_resumed_turn_begins_with_calls_ended_by_people(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        agent = asking_agent(store)
        first, second = (waiting := await agent.run("Go.")).pending
        await store.answer(first, approve=False)
        await store.answer(second, reply="Not now.")
        async with agent.stream_resume(waiting.conversation) as events:
            seen = [event async for event in events]
        assert [type(event).__name__ for event in seen] == [
            "QuestionAnswered",
            "ToolFinished",
            "QuestionAnswered",
            "ToolFinished",
            "TextDelta",
            "TurnEnded",
        ]
        closed = [event.id for event in seen if isinstance(event, mt.QuestionAnswered)]
        assert closed == [first.id, second.id]
        finished = [event for event in seen if isinstance(event, mt.ToolFinished)]
        assert [(event.call.name, event.content, event.is_error) for event in finished] == [
            ("pay", "pay was skipped by the user.", True),
            ("wonder", '{"cancelled": true, "answered": {}, "reply": "Not now."}', False),
        ]

    asyncio.run(scene())


def test_stream_of_an_ended_turn_has_its_calls(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = asking_agent(store)
        waiting = await agent.run("Go.")
        await store.answer(waiting.pending[1], cancel=True)
        async with agent.stream_resume(waiting.conversation) as events:
            seen = [event async for event in events]
        assert sorted(event.call.name for event in seen if isinstance(event, mt.ToolFinished)) == [
            "pay",
            "wonder",
        ]

    asyncio.run(scene())


def test_stream_of_a_reply_message_has_the_ended_call(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = asking_agent(store)
        waiting = await agent.run("Go.", prompter=None, author="ana")
        await store.answer(waiting.pending[0], approve=True)
        async with agent.stream(
            "Later.", conversation=waiting.conversation, author="ana", on_open="reply"
        ) as events:
            seen = [event async for event in events]
        finished = [event.call.name for event in seen if isinstance(event, mt.ToolFinished)]
        assert finished == ["wonder", "pay"]  # pay runs in this stream

    asyncio.run(scene())
