"""Threads: which messages begin a turn, and what a front end is shown of the log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import midturn as mt
from midturn.events.types import ChatRequest, user_requests
from midturn.stores.store import ConversationStore
from support.agui import FrontEnd, call, cancelled, resolved, scripted, serving


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    return f"deployed to {await ctx.ask(mt.Question.text('where', 'Where to?'))}"


async def requests_in(store: ConversationStore) -> list[ChatRequest]:
    """Return the messages of the user on record."""
    (conversation,) = await store.ids()
    return [*user_requests((await store.read(conversation)).events)]


def ids(messages: list[dict[str, Any]]) -> list[str]:
    return [message["id"] for message in messages]


def test_front_end_that_keeps_everything_sees_no_difference(store: ConversationStore) -> None:
    """The streamed messages have the ids of the snapshot at the end."""

    async def scene() -> None:
        script = (
            {"text": "Hello.", "chunk": 2},
            {"text": "Ask.", **call("deploy")},
            {"text": "Ok."},
        )
        async with serving(scripted(*script, tools=[deploy], store=store)) as client:
            front_end = FrontEnd(client)
            first = await front_end.say("Hi.")
            assert first.events[1]["messageId"] == first.messages[1]["id"] == "text-1"
            second = await front_end.say("Deploy.")
            assert second.types.count("MESSAGES_SNAPSHOT") == 1
            call_id = second.interrupt["toolCallId"]
            assert ids(second.messages) == ["user-0", "text-1", "user-2", "text-2", call_id]
            third = await front_end.answer(second.interrupt, "prod")
            assert third.types.count("MESSAGES_SNAPSHOT") == 1
            assert ids(third.messages)[-2:] == [f"result-{call_id}", "text-3"]

    asyncio.run(scene())


def test_reloaded_front_end_gets_everything_in_order(store: ConversationStore) -> None:
    async def scene() -> None:
        script = ({"text": "One."}, {"text": "Two."})
        async with serving(scripted(*script, store=store)) as client:
            await FrontEnd(client).say("First.")
            reloaded = FrontEnd(client)
            shown = await reloaded.run(runId="reload")
            texts = [message["content"] for message in shown.messages]
            assert texts == ["First.", "One."]
            newest_only = FrontEnd(client)
            newest_only.messages = [{"id": "n", "role": "user", "content": "Second."}]
            said = await newest_only.run(runId="next")
            assert said.types[:3] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT"]
            assert said.events[1]["messages"] == []  # so that the order of the next one counts
            assert ids(said.events[2]["messages"]) == ["user-0", "text-1", "n"]
            assert [each.content for each in await requests_in(store)] == ["First.", "Second."]

    asyncio.run(scene())


def test_history_of_a_new_thread_is_imported(store: ConversationStore) -> None:
    async def scene() -> None:
        async with serving(scripted({"text": "Fine."}, store=store)) as client:
            front_end = FrontEnd(client)
            front_end.messages = [
                {"id": "sys", "role": "system", "content": "Be nice."},
                {"id": "greeting", "role": "assistant", "content": "Welcome."},
                {"id": "a", "role": "user", "content": "Hi."},
                {"id": "b", "role": "assistant", "content": "Hello."},
            ]
            said = await front_end.say("How are you?")
            assert said.text == "Fine."
            assert ids(said.messages) == ["sys", "a", "b", "user-4", "text-2"]
            assert [each.content for each in await requests_in(store)] == ["Hi.", "How are you?"]
            assert said.custom("history") == []

    asyncio.run(scene())


def test_other_history_is_not_taken_over(store: ConversationStore) -> None:
    async def scene() -> None:
        async with serving(scripted({"text": "One."}, {"text": "Two."}, store=store)) as client:
            front_end = FrontEnd(client)
            await front_end.say("First.")
            front_end.messages[0] = {"id": "edited", "role": "user", "content": "Other."}
            said = await front_end.say("Second.")
            assert said.custom("history") == [{"why": "not_recorded", "messages": ["edited"]}]
            assert said.messages[0] == {"id": "user-0", "role": "user", "content": "First."}

    asyncio.run(scene())


def test_several_new_messages_begin_one_turn_and_keep_their_ids(store: ConversationStore) -> None:
    async def scene() -> None:
        async with serving(scripted({"text": "Ok."}, store=store)) as client:
            front_end = FrontEnd(client)
            front_end.messages = [{"id": "a", "role": "user", "content": "One."}]
            said = await front_end.say("Two.")
            assert ids(said.messages) == ["a", "user-1", "text-1"]
            (request,) = await requests_in(store)
            assert request.content == "One.\n\nTwo."
            assert request.author == "ada"

    asyncio.run(scene())


def test_message_with_a_known_id_begins_no_turn(store: ConversationStore) -> None:
    async def scene() -> None:
        async with serving(scripted({"text": "Ok."}, store=store)) as client:
            front_end = FrontEnd(client)
            await front_end.say("One.")
            front_end.messages = front_end.messages[:1]
            again = await front_end.run(runId="other")
            assert again.outcome == "success"
            assert len(await requests_in(store)) == 1

    asyncio.run(scene())


def test_run_sent_twice_begins_one_turn(store: ConversationStore) -> None:
    async def scene() -> None:
        script = (call("deploy"), {"text": "Ok."})
        async with serving(scripted(*script, tools=[deploy], store=store)) as client:
            front_end = FrontEnd(client)
            front_end.messages = [{"id": "m", "role": "user", "content": "Go."}]
            body = front_end.body()
            front_ends = [FrontEnd(client), FrontEnd(client)]
            runs = await asyncio.gather(*(each.run(**body) for each in front_ends))
            assert runs[0].interrupt["id"] == runs[1].interrupt["id"]
            assert len(await requests_in(store)) == 1
            third = await front_end.run(**body)
            assert third.interrupt["id"] == runs[0].interrupt["id"]
            ended = await front_end.answer(third.interrupt, "prod")
            assert ended.outcome == "success"
            again = await front_end.run(**body)
            assert again.outcome == "success"
            assert again.text == ""  # the snapshot has it
            assert again.messages[-1]["content"] == "Ok."

    asyncio.run(scene())


def test_message_while_a_question_is_open_is_not_taken(store: ConversationStore) -> None:
    async def scene() -> None:
        script = (call("deploy"), {"text": "Ok."})
        async with serving(scripted(*script, tools=[deploy], store=store)) as client:
            front_end = FrontEnd(client)
            await front_end.say("Go.")
            said = await front_end.say("Hurry up.")
            assert [each["why"] for each in said.not_taken] == ["turn_open"]
            assert said.outcome == "interrupt"
            assert len(await requests_in(store)) == 1

    asyncio.run(scene())


def test_message_with_the_answer_begins_the_next_turn(store: ConversationStore) -> None:
    async def scene() -> None:
        script = (call("deploy"), {"text": "Ok."}, {"text": "Next."})
        async with serving(scripted(*script, tools=[deploy], store=store)) as client:
            front_end = FrontEnd(client)
            asked = await front_end.say("Go.")
            said = await front_end.say("And now?", resume=[resolved(asked.interrupt, "prod")])
            assert said.text == "Ok.Next."
            assert said.results == ["deployed to prod"]
            roles = [message["role"] for message in said.messages]
            assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]

    asyncio.run(scene())


def test_thread_without_messages_is_empty() -> None:
    async def scene() -> None:
        store = mt.MemoryStore()
        async with serving(scripted(store=store)) as client:
            front_end = FrontEnd(client)
            run = await front_end.run()
            assert run.types == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
            assert run.messages == []
            stale = await front_end.resume(cancelled("1-nothing"))
            assert [each["why"] for each in stale.not_taken] == ["unknown"]
            assert await store.ids() == []

    asyncio.run(scene())


def test_result_follows_its_call() -> None:
    """Front ends put it there, and keep their order when a snapshot comes."""

    @mt.tool
    async def count(n: int) -> str:
        """Count."""
        return f"{n}"

    async def scene() -> None:
        calls = [{"name": "count", "arguments": {"n": n}} for n in (1, 2)]
        async with serving(scripted({"calls": calls}, {"text": "Ok."}, tools=[count])) as client:
            said = await FrontEnd(client).say("Count.")
            roles = [message["role"] for message in said.messages]
            assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
            assert said.messages[2]["toolCallId"] == said.messages[1]["toolCalls"][0]["id"]

    asyncio.run(scene())


# Users
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "thread"), [("bob", "t1"), ("ada:t", "1"), ("ada:", "t1"), ("ad", "a:t1")]
)
def test_thread_of_another_user_is_another_thread(user: str, thread: str) -> None:
    async def scene() -> None:
        store = mt.MemoryStore()
        script = (call("deploy"), {"text": "Ok."})
        async with serving(scripted(*script, tools=[deploy], store=store)) as client:
            asked = await FrontEnd(client, thread="t1", user="ada").say("Go.")
            other = FrontEnd(client, thread=thread, user=user)
            seen = await other.run()
            assert seen.messages == []
            refused = await other.answer(asked.interrupt, "prod")
            ((id, why, message),) = (tuple(each.values()) for each in refused.not_taken)
            assert (id, why) == (asked.interrupt["id"], "unknown")
            assert message == f"This thread has no question '{id}'."
            assert len(await store.pending()) == 1

    asyncio.run(scene())


# What the server does not use
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("takes_context", [False, True])
def test_tools_and_context_of_the_front_end(*, takes_context: bool) -> None:
    async def scene() -> None:
        store = mt.MemoryStore()
        agent = scripted({"text": "Ok."}, store=store)
        async with serving(agent, context=takes_context) as client:
            front_end = FrontEnd(client)
            context = [{"description": "Page", "value": "Orders"}]
            said = await front_end.say(
                "Hi.", tools=[{"name": "paint", "description": ""}], context=context
            )
            (ignored,) = said.custom("ignored")
            assert ignored == {"tools": ["paint"], **({} if takes_context else {"context": 1})}
            (request,) = await requests_in(store)
            assert request.content == ("Hi.\n\nPage: Orders" if takes_context else "Hi.")
            assert said.messages[0] == {"id": "user-0", "role": "user", "content": "Hi."}

    asyncio.run(scene())


def test_image_of_the_user_is_ignored_with_a_warning() -> None:
    async def scene() -> None:
        async with serving(scripted({"text": "Ok."})) as client:
            front_end = FrontEnd(client)
            image = {"type": "image", "source": {"type": "data", "value": "", "mimeType": "a/b"}}
            content = [{"type": "text", "text": "Look."}, image]
            front_end.messages = [{"id": "m", "role": "user", "content": content}]
            said = await front_end.run()
            assert said.custom("ignored") == [{"parts": ["image"]}]
            assert said.text == "Ok."

    asyncio.run(scene())


# Ends of turns
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", ""])
def test_usage_and_outcome_of_a_turn(version: str) -> None:
    async def scene() -> None:
        step = {"text": "Ok.", "usage": {"input_tokens": 7, "output_tokens": 2}}
        async with serving(scripted(step)) as client:
            said = await FrontEnd(client, version=version).say("Hi.")
            assert said.end.get("outcome") == ({"type": "success"} if version else None)
            assert said.events[0]["protocolVersion"] == "1.0"
            (usage,) = said.end["usage"]
            assert (usage["inputTokens"], usage["outputTokens"], usage["totalTokens"]) == (7, 2, 9)

    asyncio.run(scene())


def test_structured_answer_is_the_result() -> None:
    async def scene() -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        agent = scripted({"text": '{"n": 3}'}, schema=schema)
        async with serving(agent) as client:
            said = await FrontEnd(client).say("Count.")
            assert said.end["result"] == {"n": 3}
            again = await FrontEnd(client).run(runId="later")
            assert again.end["result"] == {"n": 3}

    asyncio.run(scene())


def test_failed_turn_is_an_error(store: ConversationStore) -> None:
    async def scene() -> None:
        async with serving(scripted(store=store)) as client:  # the script has no entry
            front_end = FrontEnd(client)
            said = await front_end.say("Hi.")
            assert (said.end["type"], said.end["code"]) == ("RUN_ERROR", "failed")
            front_end.messages = [{"id": "user-0", "role": "user", "content": "Hi."}]
            again = await front_end.run(runId="later")
            assert (again.end["type"], again.end["code"]) == ("RUN_ERROR", "failed")

    asyncio.run(scene())
