"""Lists a principal's tasks in pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task, TaskState
from a2a.utils.errors import InvalidParamsError

from midturn.integrations.a2a.contexts import Contexts
from midturn.integrations.a2a.questions import Client
from midturn.integrations.a2a.tasks import STATES, TaskReader, TaskTurn

DEFAULT_PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 100


class TaskLister:
    """Lists tasks, the newest first.

    Args:
        contexts: The contexts.
        reader: Reads the state of tasks.
    """

    def __init__(self, contexts: Contexts, reader: TaskReader) -> None:
        self._contexts = contexts
        self._reader = reader

    async def page(
        self, request: ListTasksRequest, client: Client, history: int | None
    ) -> ListTasksResponse:
        """Return a page of tasks. Its cursor is the ID of the last task on the page.

        Raises:
            InvalidParamsError: The page size or the cursor is not valid.
            StoreError: The store cannot be read.
        """
        size = request.page_size if request.HasField("page_size") else DEFAULT_PAGE_SIZE
        if not 1 <= size <= MAX_PAGE_SIZE:
            raise InvalidParamsError(f"pageSize must be between 1 and {MAX_PAGE_SIZE}.")
        found = await self._matching(request, client)
        start = _start(found, request.page_token)
        turns = found[start : start + size]
        tasks = [
            await self._task(turn, client, history, has_artifacts=request.include_artifacts)
            for turn in turns
        ]
        has_more = start + size < len(found)
        return ListTasksResponse(
            tasks=[task for task in tasks if task is not None],
            next_page_token=turns[-1].id if has_more and turns else "",
            page_size=size,
            total_size=len(found),
        )

    async def _task(
        self, turn: TaskTurn, client: Client, history: int | None, *, has_artifacts: bool
    ) -> Task | None:
        snapshot = await self._reader.snapshot(turn.id, client)
        if snapshot is None:  # the conversation was removed after it was listed
            return None
        return snapshot.task(client, history=history, has_artifacts=has_artifacts)

    async def _matching(self, request: ListTasksRequest, client: Client) -> list[TaskTurn]:
        after = (
            request.status_timestamp_after.ToDatetime(UTC)
            if request.HasField("status_timestamp_after")
            else None
        )
        found: list[TaskTurn] = []
        async for turn in self._contexts.newest_tasks(client.name):
            if request.context_id and turn.context != request.context_id:
                continue
            if after is not None and not _changed_since(turn, after):
                continue
            if await self._has_state(turn, request.status, client):
                found.append(turn)
        return found

    async def _has_state(self, turn: TaskTurn, wanted: TaskState, client: Client) -> bool:
        if wanted == TaskState.TASK_STATE_UNSPECIFIED:
            return True
        snapshot = await self._reader.snapshot(turn.id, client)
        return snapshot is not None and STATES[snapshot.state] == wanted


def _changed_since(turn: TaskTurn, time: datetime) -> bool:
    return turn.changed_at is not None and turn.changed_at >= time


def _start(found: Sequence[TaskTurn], cursor: str) -> int:
    """Return the index of the first task after a cursor.

    Raises:
        InvalidParamsError: The cursor is not the ID of a listed task.
    """
    if not cursor:
        return 0
    for place, turn in enumerate(found):
        if turn.id == cursor:
            return place + 1
    raise InvalidParamsError("pageToken is not valid. Start again without it.")
