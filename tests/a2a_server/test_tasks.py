"""Tasks over JSON-RPC: asked and answered as text, contexts, repeated messages, cancel, list."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import midturn as mt
from midturn.errors import StoreLocked
from support.a2a import (
    Peer,
    RpcError,
    answer_text,
    call,
    require_sdk,
    scripted,
    serving,
    state,
    texts,
)

require_sdk()


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    where = await ctx.ask(mt.Question.select("where", "Where to?", ["prod", "staging"]))
    return f"deployed to {where}"


@mt.tool
async def confirm(ctx: mt.ToolContext) -> str:
    """Ask two yes-or-no questions."""
    first = await ctx.ask(mt.Question.boolean("first", "First?"))
    second = await ctx.ask(mt.Question.boolean("second", "Second?"))
    return f"{first} {second}"


def test_question_is_asked_and_answered_as_text() -> None:
    async def scene() -> None:
        script = ({"text": "Let me ask.", **call("deploy")}, {"text": "Done."})
        agent = scripted(*script, tools=[deploy])
        async with serving(agent) as client:
            peer = Peer(client)
            asked = await peer.send("Deploy it.")
            assert state(asked) == "input_required"
            assert texts(asked) == [
                "Where to?\n\n1. prod\n2. staging\n\nAnswer with a number or a name."
            ]
            again = await peer.answer(asked, "the moon")
            assert state(again) == "input_required"
            assert "the moon" in texts(again)[0]
            assert texts(again)[-1] == texts(asked)[-1]
            ended = await peer.answer(asked, "2")
            assert state(ended) == "completed"
            assert answer_text(ended) == ["Let me ask.", "Done."]
            assert ended["id"] == asked["id"]
            assert [each["role"] for each in ended["history"]] == [
                "ROLE_USER",
                "ROLE_AGENT",
                "ROLE_AGENT",
            ]
            (conversation,) = await agent.store.ids()
            events: Any = (await agent.store.read(conversation)).events
            given = next(each for each in events if each.type == "inquiry_response").answered_by
            assert (given.by, given.via, given.user) == ("agent", "a2a", "ada")
            assert "deployed to staging" in str(events)

    asyncio.run(scene())


def test_message_to_an_ended_task_is_refused_and_the_next_task_is_in_the_same_context() -> None:
    async def scene() -> None:
        async with serving(scripted({"text": "One."}, {"text": "Two."})) as client:
            peer = Peer(client)
            first = await peer.send("First.")
            with pytest.raises(RpcError) as refused:
                await peer.answer(first, "More.")
            assert refused.value.code == -32004
            second = await peer.send("Second.", contextId=first["contextId"])
            assert second["contextId"] == first["contextId"]
            assert second["id"] != first["id"]
            assert answer_text(second) == ["Two."]
            assert answer_text(await peer.get(first)) == ["One."]

    asyncio.run(scene())


def test_repeated_message_returns_the_same_task() -> None:
    async def scene() -> None:
        async with serving(scripted({"text": "One."}, {"text": "Two."})) as client:
            peer = Peer(client)
            message = peer.message("First.")
            first, again = await asyncio.gather(
                peer.send_message(message), peer.send_message(message)
            )
            assert first["id"] == again["id"]
            assert (await peer.send_message(message))["id"] == first["id"]
            within = peer.message("Second.", contextId=first["contextId"])
            second = await peer.send_message(within)
            assert (await peer.send_message(within))["id"] == second["id"]
            assert second["id"] != first["id"]

    asyncio.run(scene())


def test_repeated_answer_does_not_answer_the_next_question() -> None:
    async def scene() -> None:
        async with serving(scripted(call("confirm"), {"text": "Done."}, tools=[confirm])) as client:
            peer = Peer(client)
            asked = await peer.send("Ask.")
            answer = peer.message("yes", taskId=asked["id"])
            next_asked = await peer.send_message(answer)
            assert texts(next_asked) == ["Second? (yes or no)"]
            again = await peer.send_message(answer)
            assert state(again) == "input_required"
            assert texts(again)[-1] == "Second? (yes or no)"
            assert state(await peer.answer(asked, "no")) == "completed"

    asyncio.run(scene())


def test_context_id_of_the_client_is_kept() -> None:
    async def scene() -> None:
        script = [{"text": str(number)} for number in range(3)]
        async with serving(scripted(*script)) as client:
            peer = Peer(client)
            first = await peer.send("First.", contextId="session-1")
            second = await peer.send("Second.", contextId="session-1")
            assert (first["contextId"], second["contextId"]) == ("session-1", "session-1")
            conversation = first["id"].partition("-")[0]
            assert second["id"].startswith(f"{conversation}-")
            other = await Peer(client, "bob").send("Third.", contextId="session-1")
            assert not other["id"].startswith(f"{conversation}-")

    asyncio.run(scene())


def test_task_of_another_principal_is_not_found() -> None:
    async def scene() -> None:
        async with serving(scripted(call("deploy"), {"text": "x"}, tools=[deploy])) as client:
            task = await Peer(client).send("Deploy it.")
            bob = Peer(client, "bob")
            for method in ("GetTask", "CancelTask"):
                with pytest.raises(RpcError) as refused:
                    await bob.call(method, id=task["id"])
                assert refused.value.code == -32001
            with pytest.raises(RpcError) as refused:
                await bob.stream("SubscribeToTask", id=task["id"])
            assert refused.value.code == -32001
            with pytest.raises(RpcError) as refused:
                await bob.answer(task, "prod")
            assert refused.value.code == -32001
            assert (await bob.call("ListTasks"))["tasks"] == []
            theirs = await bob.send("Hello.", contextId=task["contextId"])
            assert theirs["id"].partition("-")[0] != task["id"].partition("-")[0]

    asyncio.run(scene())


def test_cancel_ends_the_task() -> None:
    async def scene() -> None:
        agent = scripted(call("deploy"), {"text": "x"}, tools=[deploy])
        async with serving(agent) as client:
            peer = Peer(client)
            task = await peer.send("Deploy it.")
            canceled = await peer.call("CancelTask", id=task["id"])
            assert state(canceled) == "canceled"
            assert await agent.store.pending() == []
            with pytest.raises(RpcError) as refused:
                await peer.call("CancelTask", id=task["id"])
            assert refused.value.code == -32002

    asyncio.run(scene())


def test_running_task_is_canceled() -> None:
    started = asyncio.Event

    async def scene() -> None:
        begun = started()

        @mt.tool
        async def wait() -> str:
            """Wait."""
            begun.set()
            await asyncio.sleep(60)
            return "waited"

        async with serving(scripted(call("wait"), {"text": "x"}, tools=[wait])) as client:
            peer = Peer(client)
            task = await peer.send("Wait.", configuration={"returnImmediately": True})
            assert state(task) == "working"
            await begun.wait()
            assert state(await peer.call("CancelTask", id=task["id"])) == "canceled"

    asyncio.run(scene())


def test_tasks_are_listed_newest_first_with_a_cursor() -> None:
    async def scene() -> None:
        script = [{"text": str(number)} for number in range(5)]
        agent = scripted(*script)
        await agent.run("Not over A2A.")
        async with serving(agent) as client:
            peer = Peer(client)
            first = await peer.send("1")
            second = await peer.send("2", contextId=first["contextId"])
            third = await peer.send("3")
            page = await peer.call("ListTasks", pageSize=2)
            assert [task["id"] for task in page["tasks"]] == [third["id"], second["id"]]
            assert page["totalSize"] == 3
            assert "artifacts" not in page["tasks"][0]
            rest = await peer.call("ListTasks", pageSize=2, pageToken=page["nextPageToken"])
            assert [task["id"] for task in rest["tasks"]] == [first["id"]]
            assert rest["nextPageToken"] == ""
            within = await peer.call("ListTasks", contextId=first["contextId"])
            assert [task["id"] for task in within["tasks"]] == [second["id"], first["id"]]
            open_tasks = await peer.call("ListTasks", status="TASK_STATE_INPUT_REQUIRED")
            assert open_tasks["tasks"] == []
            for wrong in ({"pageSize": 0}, {"pageSize": 101}, {"pageToken": "x"}):
                with pytest.raises(RpcError) as refused:
                    await peer.call("ListTasks", **wrong)
                assert refused.value.code == -32602

    asyncio.run(scene())


def test_history_is_cut_from_the_old_end() -> None:
    async def scene() -> None:
        async with serving(scripted({"text": "Hello."})) as client:
            peer = Peer(client)
            task = await peer.send("Hi.", configuration={"historyLength": 1})
            assert [each["parts"] for each in task["history"]] == [[{"text": "Hello."}]]
            assert "history" not in await peer.get(task, historyLength=0)
            whole = await peer.get(task)
            assert [each["parts"][0]["text"] for each in whole["history"]] == ["Hi.", "Hello."]
            assert whole["history"][0]["messageId"] == "m1"

    asyncio.run(scene())


def test_message_to_a_context_with_an_open_task_is_refused() -> None:
    async def scene() -> None:
        async with serving(scripted(call("deploy"), {"text": "x"}, tools=[deploy])) as client:
            peer = Peer(client)
            task = await peer.send("Deploy it.")
            with pytest.raises(RpcError, match=task["id"]) as refused:
                await peer.send("prod", contextId=task["contextId"])
            assert refused.value.code == -32004
            with pytest.raises(RpcError) as other:
                await peer.send("prod", contextId="another", taskId=task["id"])
            assert other.value.code == -32602

    asyncio.run(scene())


def test_answers_of_two_requests_at_once_are_recorded_once(store_address: str) -> None:
    async def scene() -> None:
        store = mt.open_store(store_address)
        agent = scripted(call("confirm"), {"text": "Done."}, tools=[confirm], store=store)
        async with serving(agent) as client:
            peer = Peer(client)
            asked = await peer.send("Ask.")
            both = await asyncio.gather(
                peer.answer(asked, "yes"), peer.answer(asked, "no"), return_exceptions=True
            )
            assert len(both) == 2
            (conversation,) = await agent.store.ids()
            events: Any = (await agent.store.read(conversation)).events
            given = [each for each in events if each.type == "inquiry_response"]
            assert len({each.id for each in given}) == len(given)

    asyncio.run(scene())


async def _unlocked(agent: mt.Agent, conversation: str) -> Any:
    """Lock a conversation. A server holds it for a moment after the end of its turn."""
    while True:
        try:
            return await agent.store.open(conversation)
        except StoreLocked:
            await asyncio.sleep(0.01)


def test_another_server_continues_the_tasks_in_a_store(store_address: str) -> None:
    async def scene() -> None:
        script = (call("deploy"), {"text": "Done."})
        agent = scripted(*script, tools=[deploy], store=mt.open_store(store_address))
        async with serving(agent) as client:
            peer = Peer(client)
            asked = await peer.send("Deploy it.", contextId="session")
        again = scripted(*script, tools=[deploy], store=mt.open_store(store_address))
        async with serving(again) as client:  # another server
            peer = Peer(client, prefix="n")
            assert (await peer.call("ListTasks"))["tasks"][0]["id"] == asked["id"]
            assert state(await peer.answer(asked, "prod", contextId="session")) == "completed"
            conversation = asked["id"].partition("-")[0]
            async with asyncio.timeout(20), await _unlocked(again, conversation):
                pass
            await again.store.remove(conversation)
            assert (await peer.call("ListTasks"))["tasks"] == []
            kept = await again.store.port.beside.kept("a2a-answered/")
            assert kept == {}

    asyncio.run(scene())
