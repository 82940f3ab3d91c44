"""Streams of tasks."""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from support.a2a import Json, Peer, RpcError, call, require_sdk, scripted, serving, state

require_sdk()


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    return await ctx.ask(mt.Question.text("where", "Where to?"))


def _kinds(updates: list[Json]) -> list[str]:
    return [kind for update in updates for kind in update]


def test_stream_of_a_message_ends_at_a_question_and_keeps_the_order() -> None:
    async def scene() -> None:
        script = ({"text": "Let me ask.", **call("deploy")}, {"text": "Done."})
        async with serving(scripted(*script, tools=[deploy])) as client:
            peer = Peer(client)
            updates = await peer.stream("SendStreamingMessage", message=peer.message("Deploy it."))
            assert _kinds(updates)[0] == "task"
            assert all(len(update) == 1 for update in updates)
            task = updates[0]["task"]
            last: Json = updates[-1].get("statusUpdate") or updates[-1]["task"]
            assert last["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            answer = peer.message("prod", taskId=task["id"])
            more = await peer.stream("SendStreamingMessage", message=answer)
            assert more[0]["task"]["status"]["state"] == "TASK_STATE_WORKING"
            assert _kinds(more)[1:] == ["artifactUpdate", "statusUpdate"]
            assert more[1]["artifactUpdate"]["artifact"]["parts"] == [{"text": "Done."}]
            assert more[1]["artifactUpdate"]["append"] is True
            assert more[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"

    asyncio.run(scene())


def test_streamed_parts_are_those_of_the_task() -> None:
    async def scene() -> None:
        script = ({"text": "One.", **call("deploy")}, {"text": "Two."})
        async with serving(scripted(*script, tools=[deploy])) as client:
            peer = Peer(client)
            updates = await peer.stream("SendStreamingMessage", message=peer.message("Go."))
            task = updates[0]["task"]
            updates += await peer.stream(
                "SendStreamingMessage", message=peer.message("prod", taskId=task["id"])
            )
            parts: list[Json] = []
            for update in updates:
                if "task" in update:
                    whole = update["task"].get("artifacts", [{"parts": []}])[0]["parts"]
                    parts = [*whole]
                elif "artifactUpdate" in update:
                    parts += update["artifactUpdate"]["artifact"]["parts"]
            assert parts == (await peer.get(task))["artifacts"][0]["parts"]

    asyncio.run(scene())


def test_subscription_goes_on_through_a_question() -> None:
    async def scene() -> None:
        script = (call("deploy"), {"text": "Done."})
        async with serving(scripted(*script, tools=[deploy])) as client:
            peer = Peer(client)
            task = await peer.send("Deploy it.")
            subscribed = asyncio.create_task(peer.stream("SubscribeToTask", id=task["id"]))
            await asyncio.sleep(0.1)
            assert state(await peer.answer(task, "prod")) == "completed"
            updates = await asyncio.wait_for(subscribed, 20)
            assert updates[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
            with pytest.raises(RpcError) as refused:
                await peer.stream("SubscribeToTask", id=task["id"])
            assert refused.value.code == -32004

    asyncio.run(scene())


def test_structured_answer_is_a_data_part() -> None:
    async def scene() -> None:
        schema = {
            "type": "object",
            "properties": {"total": {"type": "integer"}},
            "required": ["total"],
        }
        agent = scripted({"text": '{"total": 3}'}, schema=schema)
        async with serving(agent) as client:
            task = await Peer(client).send("Count.")
            assert state(task) == "completed"
            (artifact,) = task["artifacts"]
            assert artifact["parts"][-1]["data"] == {"total": 3}

    asyncio.run(scene())


def test_failed_turn_is_a_failed_task() -> None:
    async def scene() -> None:
        script = [call("echo")] * 10

        @mt.tool
        async def echo() -> str:
            """Echo."""
            return "x"

        agent = scripted(*script, tools=[echo], limits={"cycles": 2})
        async with serving(agent) as client:
            task = await Peer(client).send("Go.")
            assert state(task) == "failed"
            assert task["status"]["message"]["parts"]

    asyncio.run(scene())
