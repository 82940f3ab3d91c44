"""Follows a task by reading its log, even if another process runs its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

from a2a.types.a2a_pb2 import Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent

from midturn.integrations.a2a.questions import Client
from midturn.integrations.a2a.tasks import TaskReader, TaskSnapshot
from midturn.integrations.a2a.turns import RunningTurns
from midturn.integrations.a2a.wire import TaskUpdate

_POLL_INTERVAL: Final = 0.5  # seconds; released locks are detected only by polling
_PAUSED_POLL_INTERVAL: Final = 5.0  # seconds; longer, because a new answer ends the wait at once


class TaskFollower:
    """Waits until tasks change.

    Args:
        turns: The turns that run in this application.
        reader: Reads the state of tasks.
    """

    def __init__(self, turns: RunningTurns, reader: TaskReader) -> None:
        self._turns = turns
        self._reader = reader

    async def snapshots(self, task: str, client: Client) -> AsyncGenerator[TaskSnapshot]:
        """Yield the state of a task immediately, and then after each possible change. If the turn
        can continue and no process runs it, resume it. Stop if the task is removed.

        Raises:
            StoreError: The store cannot be read or written.
        """
        growing = self._turns.source.store.port.growing
        since = await growing.wait_for_change(0)
        while (snapshot := await self._reader.snapshot(task, client)) is not None:
            yield snapshot
            if snapshot.can_continue:
                await self._turns.resume(snapshot.turn.conversation)
            seconds = _PAUSED_POLL_INTERVAL if snapshot.is_paused else _POLL_INTERVAL
            since = await self._changed(snapshot.turn.conversation, since, seconds)

    async def _changed(self, conversation: str, since: int, seconds: float) -> int:
        """Wait until the log may have changed, until the turn has stopped in this process, or until
        `seconds` have passed.
        """
        change = asyncio.ensure_future(self._turns.source.store.port.growing.wait_for_change(since))
        running = self._turns.running(conversation)
        waiting: list[asyncio.Future[Any]] = [change] if running is None else [change, running]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return change.result() if change.done() else since
        finally:
            change.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(change, return_exceptions=True)

    async def until_paused(
        self, task: str, client: Client, *, seconds: float
    ) -> TaskSnapshot | None:
        """Wait until a task has ended or waits for an answer, or until the time limit expires.
        Return its state, or None if the task was removed.

        Raises:
            StoreError: The store cannot be read or written.
        """
        snapshot = None
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(seconds),
                aclosing(self.snapshots(task, client)) as snapshots,
            ):
                async for snapshot in snapshots:
                    if snapshot.is_paused:
                        break
        return snapshot

    async def updates(
        self,
        task: str,
        client: Client,
        *,
        problems: Mapping[str, str],
        history: int | None,
        ends_when_paused: bool,
    ) -> AsyncGenerator[Task | TaskUpdate]:
        """Yield the task, and then its changes until it ends.

        Args:
            task: ID of the task.
            client: The client.
            problems: The reasons why answers in this request were not recorded, by address.
            history: Maximum number of messages of the task; None for all.
            ends_when_paused: Whether to stop when the task waits for an answer.

        Raises:
            StoreError: The store cannot be read or written.
        """
        writer = _UpdateWriter(client, problems)
        first = True
        async with aclosing(self.snapshots(task, client)) as snapshots:
            async for snapshot in snapshots:
                if first:
                    yield writer.first(snapshot, history)
                    first = False
                for update in writer.changes(snapshot):
                    yield update
                if snapshot.is_over or (ends_when_paused and snapshot.is_paused):
                    return


class _UpdateWriter:
    """Computes the updates between two states of a task."""

    def __init__(self, client: Client, problems: Mapping[str, str]) -> None:
        self._client = client
        self._problems = problems
        self._parts = 0
        self._shown: tuple[str, tuple[str, ...]] | None = None

    def first(self, snapshot: TaskSnapshot, history: int | None) -> Task:
        """Return the whole task, which is the first update."""
        self._parts = len(snapshot.answer_parts)
        self._shown = fingerprint_of(snapshot)
        return snapshot.task(self._client, problems=self._problems, history=history)

    def changes(self, snapshot: TaskSnapshot) -> Iterator[TaskUpdate]:
        """Yield the changes since the last state: new parts of the answer, and then the status."""
        parts = snapshot.answer_parts
        if new := parts[self._parts :]:
            yield TaskArtifactUpdateEvent(
                task_id=snapshot.turn.id,
                context_id=snapshot.turn.context,
                artifact=snapshot.artifact(new),
                append=self._parts > 0,
                last_chunk=snapshot.is_over,
            )
            self._parts = len(parts)
        shown = fingerprint_of(snapshot)
        if shown == self._shown:
            return
        self._shown = shown
        yield TaskStatusUpdateEvent(
            task_id=snapshot.turn.id,
            context_id=snapshot.turn.context,
            status=snapshot.status(self._problems, has_extension=self._client.has_extension),
        )


def fingerprint_of(snapshot: TaskSnapshot) -> tuple[str, tuple[str, ...]]:
    """Return the parts of a status that a client can see: the state and the open questions."""
    asked = () if snapshot.state == "working" else snapshot.asked
    return snapshot.state, tuple(
        f"{each.question.id} {each.question.digest} {each.is_answerable}" for each in asked
    )
