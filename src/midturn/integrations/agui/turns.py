"""Runs turns as asyncio tasks of the application.

A turn does not depend on the request that started it: if the connection is lost, the turn goes on,
and later requests find its events in the log. `work` also continues turns that front ends
started and no request runs, after an answer in another interface or after the server was killed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from midturn.agent.agent import Agent
from midturn.agent.given_secrets import GivenSecrets
from midturn.agent.result import HistoryMessage
from midturn.agent.turn_stream import Streamed
from midturn.errors import MidturnError, NotOpen, StoreLocked
from midturn.inbox.ready_search import continue_ready_turns, stop_tasks
from midturn.integrations.agui.thread_messages import is_agui_turn
from midturn.question.json_value import JsonObject
from midturn.stores.store import ConversationStore

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_RETRY_DELAY: Final = 1.0  # seconds before the first retry of a turn that failed; doubles each time
_MAX_RETRY_DELAY: Final = 300.0


# Starting and resuming turns
# --------------------------------------------------------------------------------------------------


OpenedStream: TypeAlias = AbstractAsyncContextManager[AsyncIterator[Streamed]]
"""The stream of a turn, with its recorded events. It locks the conversation when it is entered."""


class TurnSource(Protocol):
    """Starts and resumes turns."""

    @property
    def store(self) -> ConversationStore:
        """The store of the conversations, with its authorization rules."""
        ...

    def start(
        self,
        conversation: str,
        text: str,
        *,
        key: str,
        metadata: JsonObject,
        author: str,
        history: Sequence[HistoryMessage],
    ) -> OpenedStream:
        """Start a turn. Raises the same errors as `Agent.stream`."""
        ...

    def resume(
        self, conversation: str, *, after: int | None, secrets: GivenSecrets, user: str | None
    ) -> OpenedStream:
        """Resume the open turn. Raises the same errors as `Agent.stream_resume`."""
        ...


class AgentTurns:
    """Runs the turns of an agent."""

    def __init__(self, agent: Agent, deps: object) -> None:
        self._agent = agent
        self._deps = deps

    @property
    def store(self) -> ConversationStore:
        """The store of the agent."""
        return self._agent.store

    def start(
        self,
        conversation: str,
        text: str,
        *,
        key: str,
        metadata: JsonObject,
        author: str,
        history: Sequence[HistoryMessage],
    ) -> OpenedStream:
        """Start a turn."""
        return self._agent.stream(
            text,
            conversation=conversation,
            key=key,
            metadata=metadata,
            author=author,
            history=history,
            deps=self._deps,
            events=True,
        )

    def resume(
        self, conversation: str, *, after: int | None, secrets: GivenSecrets, user: str | None
    ) -> OpenedStream:
        """Resume the open turn."""
        return self._agent.stream_resume(
            conversation,
            after=after,
            secrets=secrets or None,
            user=user,
            deps=self._deps,
            events=True,
        )


# Running turns
# --------------------------------------------------------------------------------------------------


class RunningTurn:
    """A turn that runs in a task of the application. Iterate over it to get its stream."""

    def __init__(self, conversation: str, opened: OpenedStream) -> None:
        self._conversation = conversation
        self._opened = opened
        self._items: asyncio.Queue[Streamed | None] = asyncio.Queue()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_read = True
        self.task = asyncio.create_task(self._run(), name=f"conversation {conversation}")

    async def started(self) -> None:
        """Wait until the conversation is locked and the turn runs.

        Raises:
            StoreLocked: Another process or another run holds the lock of the conversation.
            MidturnError: The turn cannot run.
        """
        await asyncio.shield(self._started)

    def detach(self) -> None:
        """Stop reading the stream. The turn goes on."""
        self._is_read = False
        self._items = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[Streamed]:
        """Yield the stream of the turn, and then raise the error of the turn, if there is one."""
        while (item := await self._items.get()) is not None:
            yield item
        await asyncio.shield(self.task)

    async def _run(self) -> None:
        try:
            async with self._opened as stream:
                self._started.set_result(None)
                async for item in stream:
                    if self._is_read:
                        self._items.put_nowait(item)
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(
                    error if isinstance(error, Exception) else asyncio.CancelledError()
                )
                # marks the error as seen, because the request may have ended
                self._started.exception()
                return
            if not self._is_read and isinstance(error, Exception):
                _LOG.warning("the turn of conversation %s stopped: %r", self._conversation, error)
                return
            raise
        finally:
            self._items.put_nowait(None)


class RunningTurns:
    """The turns that run in this application."""

    def __init__(self, source: TurnSource) -> None:
        self.source = source
        self._running: dict[str, RunningTurn] = {}
        self._reserved: dict[str, int] = {}
        self._working: asyncio.Task[None] | None = None
        self._retries: dict[str, tuple[float, float]] = {}
        self._is_stopped = False
        self._tasks: set[asyncio.Task[Any]] = set()

    def in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in a task that ends before the application stops."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def reserve(self, conversation: str) -> None:
        """Reserve a conversation for a request that runs its turn."""
        self._reserved[conversation] = self._reserved.get(conversation, 0) + 1

    def release(self, conversation: str) -> None:
        """End a reservation."""
        count = self._reserved.pop(conversation) - 1
        if count:
            self._reserved[conversation] = count

    def running(self, conversation: str) -> RunningTurn | None:
        """Return the turn of a conversation that this application runs, or None."""
        return self._running.get(conversation)

    async def run(self, conversation: str, opened: OpenedStream) -> RunningTurn:
        """Run a turn in a task.

        Raises:
            StoreLocked: This or another process holds the lock of the conversation.
            MidturnError: The turn cannot run.
        """
        if conversation in self._running:
            raise StoreLocked("Another request is already running this conversation's turn.")
        running = self._running[conversation] = RunningTurn(conversation, opened)
        running.task.add_done_callback(lambda _: self._ended(conversation, running))
        try:
            await running.started()
        except asyncio.CancelledError:  # the client disconnected
            running.detach()
            raise
        return running

    def _ended(self, conversation: str, running: RunningTurn) -> None:
        self._running.pop(conversation, None)
        if not running.task.cancelled():
            # marks the error as seen: the reader of the stream has raised it, or the client has
            # disconnected
            running.task.exception()

    # Continuing turns in the background
    # ----------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Start continuing ready turns in the background, unless this is already running."""
        if not self._is_stopped and (self._working is None or self._working.done()):
            self._working = asyncio.create_task(
                continue_ready_turns(self.source.store, self._continue, _LOG)
            )

    async def stop(self) -> None:
        """Wait a moment for the running turns, then cancel them. They stay open in the store."""
        self._is_stopped = True
        running = [each.task for each in self._running.values()]
        await stop_tasks(self._working, [*running, *self._tasks])

    async def _continue(self, conversation: str) -> None:
        """Continue a ready turn, if a front end started it and no request runs it."""
        retry_at, delay = self._retries.get(conversation, (0.0, _RETRY_DELAY))
        if conversation in self._running or conversation in self._reserved:
            return
        if retry_at > time.monotonic():
            return
        turn = (await self.source.store.port.look(conversation)).turn.events
        if not is_agui_turn(turn):
            return
        opened = self.source.resume(conversation, after=None, secrets={}, user=None)
        self._retries[conversation] = (time.monotonic() + delay, min(delay * 2, _MAX_RETRY_DELAY))
        try:
            running = await self.run(conversation, opened)
        except (StoreLocked, NotOpen):  # another process continues the turn
            return
        except MidturnError as error:
            _LOG.warning("cannot continue conversation %s: %r", conversation, str(error))
            return
        running.detach()
        running.task.add_done_callback(lambda task: self._forget_retries(conversation, task))

    def _forget_retries(self, conversation: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._retries.pop(conversation, None)
