"""Handles the protocol's requests, which the SDK reads from JSON-RPC and HTTP.

Every request is answered from the log. The SDK's own task store and executor are not used. They
would keep a second record, which could differ from the log after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, TypeVar

from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from msgspec import Struct

from midturn.errors import (
    ConfigError,
    NotAllowed,
    NotOpen,
    StoreLocked,
    TurnOpen,
)
from midturn.integrations.a2a.answers import AnswerRecorder
from midturn.integrations.a2a.calls import client_of, reported
from midturn.integrations.a2a.contexts import Contexts, known_message
from midturn.integrations.a2a.following import TaskFollower
from midturn.integrations.a2a.listing import TaskLister
from midturn.integrations.a2a.messages import GivenMessage, read_message
from midturn.integrations.a2a.push_requests import PushRequestHandler
from midturn.integrations.a2a.questions import VIA, Client
from midturn.integrations.a2a.tasks import TaskReader, TaskSnapshot, request_metadata
from midturn.integrations.a2a.turns import RunningTurns
from midturn.integrations.a2a.webhooks import Webhooks
from midturn.question.text import single_line

_MAX_WAIT_SECONDS: Final = 600.0  # maximum wait of a send request for its task
_CANCEL_SECONDS: Final = 30.0  # maximum wait until a cancelled turn has ended
_MAX_LOCK_SECONDS: Final = 30.0  # maximum wait for a lock that another program holds
_LOCK_RETRY_DELAY: Final = 0.1

Update = TypeVar("Update", bound=Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent)


class _Accepted(Struct, frozen=True, kw_only=True):
    """A message that was accepted.

    Args:
        task: ID of the task.
        problems: The reasons why answers in the message were not recorded, by address.
    """

    task: str
    problems: dict[str, str] = {}


class TaskHandler(PushRequestHandler):
    """Answers requests from the log.

    Args:
        turns: The turns that run in this application.
        reader: Reads the state of tasks.
        webhooks: The webhooks of tasks; None if push notifications are off.
    """

    def __init__(self, turns: RunningTurns, reader: TaskReader, webhooks: Webhooks | None) -> None:
        super().__init__(reader, webhooks)
        self._turns = turns
        self._store = turns.source.store
        self._follower = TaskFollower(turns, self._reader)
        self._contexts = Contexts(self._store)
        self._answers = AnswerRecorder(self._store)
        self._lister = TaskLister(self._contexts, self._reader)

    # Messages
    # ----------------------------------------------------------------------------------------------

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        """Begin or continue a task. Wait until it has ended or waits for an answer, unless the
        client asked for an immediate response.
        """
        client = client_of(params, context)
        with reported():
            accepted = await self._accept(params, client)
            if params.configuration.return_immediately:
                snapshot = await self._resumed(accepted.task, client)
            else:
                snapshot = await self._follower.until_paused(
                    accepted.task, client, seconds=_MAX_WAIT_SECONDS
                )
            history = _history_length(params.configuration)
            task = _found(snapshot).task(client, problems=accepted.problems, history=history)
        return self._shown(task, client)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Begin or continue a task. Yield the task, and then its changes until it has ended or
        waits for an answer.
        """
        client = client_of(params, context)
        with reported():
            accepted = await self._accept(params, client)
            updates = self._follower.updates(
                accepted.task,
                client,
                problems=accepted.problems,
                history=_history_length(params.configuration),
                ends_when_paused=True,
            )
            async with aclosing(updates):
                async for update in updates:
                    yield self._shown(update, client)

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Yield a task, and then its changes until it ends."""
        client = client_of(params, context)
        with reported():
            snapshot = _found(await self._reader.snapshot(params.id, client))
            if snapshot.is_over:
                raise UnsupportedOperationError("The task has ended. Get it instead.")
            updates = self._follower.updates(
                params.id, client, problems={}, history=None, ends_when_paused=False
            )
            async with aclosing(updates):
                async for update in updates:
                    yield self._shown(update, client)

    async def _accept(self, params: SendMessageRequest, client: Client) -> _Accepted:
        """Process a message: begin a task, or record the answers to a task."""
        configuration = params.configuration
        webhook = (
            configuration.task_push_notification_config
            if configuration.HasField("task_push_notification_config")
            else None
        )
        if webhook is not None:
            self._required().check(webhook)
        message = read_message(params.message)
        if message.answers is not None and not message.task:
            raise InvalidParamsError("Answers need the `taskId` of the task that asks.")
        continues = self._continue if message.task else self._begin
        accepted = await continues(message, client)
        if webhook is not None:
            await self._required().add(webhook, accepted.task, client)
        return accepted

    async def _continue(self, message: GivenMessage, client: Client) -> _Accepted:
        """Record the answers in a message to a task."""
        snapshot = _found(await self._reader.snapshot(message.task, client))
        if message.context and message.context != snapshot.turn.context:
            raise InvalidParamsError("`contextId` is not the context of this task.")
        if message.id == snapshot.turn.message:
            return _Accepted(task=snapshot.turn.id)
        if snapshot.is_over and await self._answers.is_known(snapshot.turn.id, message.id):
            return _Accepted(task=snapshot.turn.id)
        if snapshot.is_over:
            raise UnsupportedOperationError(
                f"The task is {snapshot.state}. Send a message without `taskId` to begin the next"
                f" task of this context.{await self._why_closed(message)}"
            )
        if not snapshot.asked:
            raise UnsupportedOperationError(
                f"The task is working and asks nothing.{await self._why_closed(message)}"
            )
        problems = await self._answers.record(snapshot.turn.id, message, snapshot.asked, client)
        return _Accepted(task=snapshot.turn.id, problems=problems)

    async def _why_closed(self, message: GivenMessage) -> str:
        """Return the reasons why the answered questions are closed, to append to an error."""
        reasons = [
            await self._answers.why_not_open(message.task, address)
            for address in message.answers or {}
        ]
        return "".join(f" {reason}" for reason in reasons)

    async def _begin(self, message: GivenMessage, client: Client) -> _Accepted:
        """Begin a task, unless the same message has already begun one."""
        conversation = await self._contexts.open(
            message.context, client.name, title=single_line(message.text), message=message.id
        )
        context = message.context or conversation
        started_at = asyncio.get_running_loop().time()
        while True:
            tasks = await self._contexts.tasks(conversation)
            known = known_message(tasks, message.id, client.name)
            if known is not None:
                return _Accepted(task=known.id)
            if tasks and tasks[-1].is_open:
                raise UnsupportedOperationError(
                    f"The task {tasks[-1].id} of this context is open. Send its `taskId` to answer"
                    " it."
                )
            try:
                await self._turns.start(
                    conversation,
                    message.text,
                    key=message.id,
                    metadata=request_metadata(client.name, context, message.id),
                    author=client.name,
                )
            except (StoreLocked, TurnOpen):  # another request came first, or the lock is held
                if asyncio.get_running_loop().time() - started_at > _MAX_LOCK_SECONDS:
                    raise UnsupportedOperationError(
                        "Another program is writing this context. Try again later."
                    ) from None
                await asyncio.sleep(_LOCK_RETRY_DELAY)
            except ConfigError as error:
                raise InvalidParamsError("The message cannot begin a task.") from error

    async def _resumed(self, task: str, client: Client) -> TaskSnapshot | None:
        """Return the state of a task. Resume its turn if it can continue and no process runs it."""
        snapshot = await self._reader.snapshot(task, client)
        if snapshot is not None and snapshot.can_continue:
            await self._turns.resume(snapshot.turn.conversation)
        return snapshot

    def _shown(self, update: Update, client: Client) -> Update:
        """Remember which question an update shows to a plain client."""
        if not client.has_extension and not isinstance(update, TaskArtifactUpdateEvent):
            task = update.id if isinstance(update, Task) else update.task_id
            self._answers.note_shown(task, update.status.message.message_id)
        return update

    # Tasks
    # ----------------------------------------------------------------------------------------------

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """Return a task. If its turn can continue and no process runs it, resume it."""
        client = client_of(params, context)
        with reported():
            snapshot = _found(await self._resumed(params.id, client))
            return self._shown(snapshot.task(client, history=_history_length(params)), client)

    async def on_list_tasks(
        self, params: ListTasksRequest, context: ServerCallContext
    ) -> ListTasksResponse:
        """Return a page of the principal's tasks, newest first."""
        client = client_of(params, context)
        with reported():
            return await self._lister.page(params, client, _history_length(params))

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """Cancel a task by ending its turn."""
        client = client_of(params, context)
        with reported():
            snapshot = _found(await self._reader.snapshot(params.id, client))
            if snapshot.is_over:
                raise TaskNotCancelableError(f"The task is already {snapshot.state}.")
            await self._end(snapshot, client)
            ended = await self._until_over(params.id, client)
            if ended.is_over and ended.state != "canceled":
                raise TaskNotCancelableError(f"The task is already {ended.state}.")
            return ended.task(client)

    async def _end(self, snapshot: TaskSnapshot, client: Client) -> None:
        try:
            await self._store.end(
                snapshot.turn.conversation,
                user=client.who.user,
                via=VIA,
                answered_by="agent" if client.who.by == "agent" else "user",
            )
        except NotAllowed as error:
            raise TaskNotCancelableError(str(error)) from None
        except NotOpen:  # it has ended in the meantime
            pass

    async def _until_over(self, task: str, client: Client) -> TaskSnapshot:
        """Wait until a task has ended, or until the time limit expires. Return its state."""
        snapshot = _found(await self._reader.snapshot(task, client))
        try:
            async with (
                asyncio.timeout(_CANCEL_SECONDS),
                aclosing(self._follower.snapshots(task, client)) as snapshots,
            ):
                async for snapshot in snapshots:
                    if snapshot.is_over:
                        break
        except TimeoutError:
            pass
        return snapshot


def _found(snapshot: TaskSnapshot | None) -> TaskSnapshot:
    if snapshot is None:
        raise TaskNotFoundError("There is no such task.")
    return snapshot


def _history_length(request: Any) -> int | None:
    """Return the maximum number of messages to include; None if the request sets no limit."""
    return request.history_length if request.HasField("history_length") else None
