"""The SDK's own client in Python, with both bindings."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

import midturn as mt
from support.a2a import EXTENSION, call, require_sdk, scripted, served

require_sdk()

from a2a.client import Client, ClientConfig, create_client  # noqa: E402
from a2a.types.a2a_pb2 import (  # noqa: E402
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotFoundError, UnsupportedOperationError  # noqa: E402
from google.protobuf.json_format import MessageToDict, ParseDict  # noqa: E402
from google.protobuf.struct_pb2 import Value  # noqa: E402


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    return await ctx.ask(mt.Question.select("where", "Where to?", ["prod", "staging"]))


def message(id: str, *parts: Part, task: str = "") -> SendMessageRequest:
    given = Message(message_id=id, role=Role.ROLE_USER, parts=list(parts), task_id=task)
    return SendMessageRequest(message=given)


async def sent(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    return [response async for response in client.send_message(request)]


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("streaming", [True, False])
def test_sdk_client(binding: str, *, streaming: bool) -> None:
    async def scene() -> None:
        script = (call("deploy"), {"text": "Done."}, call("deploy"), {"text": "x"})
        app = served(scripted(*script, tools=[deploy]))
        headers = {"x-user": "ada", "A2A-Extensions": EXTENSION}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), headers=headers
        ) as http:
            config = ClientConfig(
                streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding]
            )
            client = await create_client("http://agent", config)
            first = await sent(client, message("m1", Part(text="Go.")))
            status = first[-1].task.status if first[-1].HasField("task") else None
            status = status or first[-1].status_update.status
            assert status.state == TaskState.TASK_STATE_INPUT_REQUIRED
            id = first[0].task.id
            (question,) = [
                MessageToDict(part.data) for part in status.message.parts if part.HasField("data")
            ]
            answers: Any = {question["id"]: {"answer": "prod"}}
            data = ParseDict({"midturn": "answers", "answers": answers}, Value())
            await sent(client, message("m2", Part(data=data), task=id))
            task = await client.get_task(GetTaskRequest(id=id))
            assert task.status.state == TaskState.TASK_STATE_COMPLETED
            assert [part.text for part in task.artifacts[0].parts] == ["Done."]
            with pytest.raises(UnsupportedOperationError):
                await sent(client, message("m3", Part(text="More."), task=id))
            with pytest.raises(TaskNotFoundError):
                await client.get_task(GetTaskRequest(id="17-none"))
            if streaming:
                with pytest.raises(UnsupportedOperationError):
                    async for _ in client.subscribe(SubscribeToTaskRequest(id=id)):
                        pass
            second = await sent(client, message("m4", Part(text="Again.")))
            canceled = await client.cancel_task(CancelTaskRequest(id=second[0].task.id))
            assert canceled.status.state == TaskState.TASK_STATE_CANCELED
            listed = await client.list_tasks(ListTasksRequest())
            assert [each.id for each in listed.tasks] == [canceled.id, id]

    asyncio.run(scene())
