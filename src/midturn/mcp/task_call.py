"""A call that a server of the older protocol takes only as a task: it says at once that it works, and has the result later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcp import ClientSession, types

from midturn.mcp.farewell import Farewells

_POLL = 1.0  # seconds, where a server does not say how often it likes to be asked
_OFTEN, _SELDOM = 0.1, 10.0


def only_as_task(tool: types.Tool) -> bool:
    """Whether a server refuses to be called without a task."""
    return tool.execution is not None and tool.execution.task_support == "required"


async def call_as_task(
    session: ClientSession, params: types.CallToolRequestParams, goes_on: Callable[[], None], farewells: Farewells
) -> types.CallToolResult:
    """Have a task begun, and return its result. What it asks comes while the result is waited for.

    Args:
        session: Speaks with the server.
        params: The call.
        goes_on: Hears each time that the server says that the task goes on.
        farewells: Cancel the task of a call that is cancelled.
    """
    asked = params.model_copy(update={"task": types.TaskMetadata()}).model_dump(by_alias=True, mode="json", exclude_none=True)
    raw = await session._dispatcher.send_raw_request("tools/call", asked, {})  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  its own methods take no task for a result
    task = types.CreateTaskResult.model_validate(raw, by_name=False).task
    wanted = types.GetTaskPayloadRequest(params=types.GetTaskPayloadRequestParams(task_id=task.task_id))
    result = asyncio.create_task(session.send_request(wanted, types.CallToolResult))
    try:
        while not (await asyncio.wait({result}, timeout=_pause(task)))[0]:
            task = await _state(session, task.task_id)
            goes_on()
        return result.result()
    except asyncio.CancelledError:
        farewells.say(_cancelled(session, task.task_id))
        raise
    finally:
        result.cancel()


async def _state(session: ClientSession, id: str) -> types.Task:
    return await session.send_request(types.GetTaskRequest(params=types.GetTaskRequestParams(task_id=id)), types.GetTaskResult)


async def _cancelled(session: ClientSession, id: str) -> None:
    await session.send_request(types.CancelTaskRequest(params=types.CancelTaskRequestParams(task_id=id)), types.CancelTaskResult)


def _pause(task: types.Task) -> float:
    """Return for how many seconds a server is not asked how its task goes."""
    return min(max((task.poll_interval or _POLL * 1000) / 1000, _OFTEN), _SELDOM)
