"""Connection to a remote agent: its card, its tasks, and limits on what it may send."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal, TypeAlias

import httpx
from a2a.client import A2AClientError, Client, ClientConfig, create_client
from a2a.extensions.common import HTTP_EXTENSION_HEADER
from a2a.types.a2a_pb2 import (
    GetTaskRequest,
    Message,
    Part,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotFoundError, UnsupportedOperationError
from msgspec import Struct

from midturn.integrations.a2a.questions import EXTENSION
from midturn.integrations.a2a.wire import data_of
from midturn.integrations.remote_http import RemoteError, limited_client
from midturn.question.json_value import canonical

RemoteState: TypeAlias = Literal[
    "working", "input_required", "auth_required", "completed", "failed", "canceled", "rejected"
]
_STATES: Final[Mapping[TaskState, RemoteState]] = {
    TaskState.TASK_STATE_INPUT_REQUIRED: "input_required",
    TaskState.TASK_STATE_AUTH_REQUIRED: "auth_required",
    TaskState.TASK_STATE_COMPLETED: "completed",
    TaskState.TASK_STATE_FAILED: "failed",
    TaskState.TASK_STATE_CANCELED: "canceled",
    TaskState.TASK_STATE_REJECTED: "rejected",
}


class MessageRefused(RemoteError):  # noqa: N818  a response from the remote agent
    """The remote agent does not accept a message for this task now, or the task has ended."""


class RemoteTask(Struct, frozen=True, kw_only=True):
    """The state of a remote task.

    Args:
        id: ID of the task; empty if the remote agent answered without a task.
        context: ID of the context.
        state: The state.
        parts: The parts of the status message.
        answer: The text of the artifacts, or of the message if there is no task.
    """

    id: str
    context: str
    state: RemoteState
    parts: Sequence[Part] = ()
    answer: str = ""

    @property
    def status_text(self) -> str:
        """The text of the status message."""
        return text_of(self.parts)


class RemoteAgent:
    """A remote agent. Create it with `connected`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, message: Message) -> RemoteTask:
        """Send a message. Return the task without waiting for it.

        Raises:
            MessageRefused: The remote agent does not accept a message for this task now, or the
                task has ended.
            RemoteError: The remote agent cannot be reached, or rejects the request for another
                reason.
        """
        request = SendMessageRequest(message=message)
        request.configuration.return_immediately = True
        try:
            async for response in self._client.send_message(request):
                return _received(response)
        except (UnsupportedOperationError, TaskNotFoundError) as error:
            raise MessageRefused(f"The remote agent refuses the message: {error}") from None
        except (A2AError, httpx.HTTPError, ValueError) as error:
            raise RemoteError(f"The message cannot be sent to the remote agent: {error}") from None
        raise RemoteError("The remote agent has sent no response.")

    async def get(self, task: str) -> RemoteTask:
        """Return the state of a task.

        Raises:
            RemoteError: The remote agent cannot be reached, or has no such task.
        """
        try:
            return _task(await self._client.get_task(GetTaskRequest(id=task)))
        except (A2AError, httpx.HTTPError, ValueError) as error:
            raise RemoteError(f"The remote agent does not return its task: {error}") from None


@asynccontextmanager
async def connected(
    url: str, headers: Mapping[str, str], *, seconds: float
) -> AsyncGenerator[RemoteAgent]:
    """Connect to a remote agent: read its card and select an interface.

    Args:
        url: Address of the agent.
        headers: Headers of each request, such as `Authorization`.
        seconds: Maximum time between two parts of a response in seconds.

    Raises:
        RemoteError: The card cannot be read, or lists no supported interface.
    """
    http = limited_client({**headers, HTTP_EXTENSION_HEADER: EXTENSION}, seconds=seconds)
    async with http:
        config = ClientConfig(
            streaming=False,
            httpx_client=http,
            supported_protocol_bindings=["JSONRPC", "HTTP+JSON"],
        )
        http.event_hooks["request"] = [_only_host(url)]
        try:
            client = await create_client(url.rstrip("/"), config)
        except (A2AError, httpx.HTTPError, ValueError) as error:
            raise RemoteError(f"The agent at {url} cannot be reached: {error}") from None
        yield RemoteAgent(client)


def _only_host(url: str) -> Callable[[httpx.Request], Awaitable[None]]:
    """Return a hook that refuses requests to another scheme, host or port. Otherwise, a card could
    cause the headers to be sent to any address.
    """
    allowed = httpx.URL(url)

    async def check(request: httpx.Request) -> None:
        own = (allowed.scheme, allowed.host, allowed.port)
        if (request.url.scheme, request.url.host, request.url.port) != own:
            raise A2AClientError(
                f"the card names the address {request.url.copy_with(query=None)}, which is not on"
                f" the host of {allowed.copy_with(query=None)}"
            )

    return check


# Reading responses from a remote agent
# --------------------------------------------------------------------------------------------------


def _received(response: StreamResponse) -> RemoteTask:
    """Return the task in a response.

    Raises:
        RemoteError: The response contains neither a task nor a message.
    """
    match response.WhichOneof("payload"):
        case "task":
            return _task(response.task)
        case "message":
            message = response.message
            return RemoteTask(
                id="",
                context=message.context_id,
                state="completed",
                answer=text_of(message.parts),
            )
        case _:
            raise RemoteError("The remote agent has sent neither a task nor a message.")


def _task(task: Task) -> RemoteTask:
    return RemoteTask(
        id=task.id,
        context=task.context_id,
        state=_STATES.get(task.status.state, "working"),
        parts=[*task.status.message.parts],
        answer="\n\n".join(filter(None, (text_of(artifact.parts) for artifact in task.artifacts))),
    )


def text_of(parts: Sequence[Part]) -> str:
    """Return the text of the parts, with JSON parts as text. Other parts are left out."""
    found: list[str] = []
    for part in parts:
        match part.WhichOneof("content"):
            case "text":
                found.append(part.text)
            case "data":
                found.append(canonical(data_of(part)).decode())
            case _:
                pass
    return "\n\n".join(filter(None, found))
