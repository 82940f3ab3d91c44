"""Runs turns in background tasks of the application.

A turn does not depend on the request that started it. `work` continues turns that A2A clients began
and that no process is running. This happens after an answer in another interface, or after the
server was killed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol, TypeAlias

from midturn.agent.agent import Agent
from midturn.agent.turn_stream import Streamed
from midturn.errors import MidturnError, NotOpen, StoreError, StoreLocked
from midturn.inbox.ready_search import continue_ready_turns, stop_tasks
from midturn.integrations.a2a.tasks import is_a2a_turn
from midturn.ports import Recorded
from midturn.question.json_value import JsonObject
from midturn.stores.store import ConversationStore

_LOG = logging.getLogger(__name__)
_RETRY_DELAY: Final = 1.0  # seconds before the first retry of a turn that failed; doubles each time
_MAX_RETRY_DELAY: Final = 300.0


OpenedStream: TypeAlias = AbstractAsyncContextManager[AsyncIterator[Streamed]]
"""Context manager for the stream of a turn. Entering it locks the conversation."""


class TurnSource(Protocol):
    """Starts and resumes turns."""

    @property
    def store(self) -> ConversationStore:
        """The store of the conversations, with its authorization rules."""
        ...

    def start(
        self, conversation: str, text: str, *, key: str, metadata: JsonObject, author: str
    ) -> OpenedStream:
        """Start a turn. Entering the result raises the same errors as `Agent.stream`."""
        ...

    def resume(self, conversation: str) -> OpenedStream:
        """Resume the open turn. Entering the result raises the same errors as
        `Agent.stream_resume`.
        """
        ...


class AgentTurns:
    """Runs the turns of an agent."""

    def __init__(self, agent: Agent, deps: object) -> None:
        self._agent = agent
        self._deps = deps

    @property
    def store(self) -> ConversationStore:
        """The agent's store."""
        return self._agent.store

    def start(
        self, conversation: str, text: str, *, key: str, metadata: JsonObject, author: str
    ) -> OpenedStream:
        """Start a turn."""
        return self._agent.stream(
            text,
            conversation=conversation,
            key=key,
            metadata=metadata,
            author=author,
            deps=self._deps,
            events=True,
        )

    def resume(self, conversation: str) -> OpenedStream:
        """Resume the open turn."""
        return self._agent.stream_resume(conversation, deps=self._deps, events=True)


class RunningTurns:
    """The turns that run in this application."""

    def __init__(self, source: TurnSource) -> None:
        self.source = source
        self._running: dict[str, asyncio.Task[None]] = {}
        self._retries: dict[str, tuple[float, float]] = {}
        self._working: asyncio.Task[None] | None = None
        self._is_stopped = False

    def running(self, conversation: str) -> asyncio.Task[None] | None:
        """Return the background task that runs a conversation's turn, or None if there is none."""
        return self._running.get(conversation)

    async def start(
        self, conversation: str, text: str, *, key: str, metadata: JsonObject, author: str
    ) -> None:
        """Start a turn in a background task. Return when its first events are recorded.

        Raises:
            StoreLocked: This process or another process is writing the conversation.
            MidturnError: The turn cannot start.
        """
        opened = self.source.start(conversation, text, key=key, metadata=metadata, author=author)
        await self._run(conversation, opened)

    async def resume(self, conversation: str) -> None:
        """Resume a turn in a background task, unless it is already running in this process or has
        just failed.

        Raises:
            StoreError: The store cannot be read or written.
        """
        retry_at, delay = self._retries.get(conversation, (0.0, _RETRY_DELAY))
        if conversation in self._running or retry_at > time.monotonic() or self._is_stopped:
            return
        self._retries[conversation] = (time.monotonic() + delay, min(delay * 2, _MAX_RETRY_DELAY))
        try:
            await self._run(conversation, self.source.resume(conversation))
        except (StoreLocked, NotOpen):  # another process came first
            self._retries.pop(conversation, None)
        except StoreError:
            raise
        except MidturnError as error:
            _LOG.warning("cannot continue conversation %s: %r", conversation, str(error))

    async def _run(self, conversation: str, opened: OpenedStream) -> None:
        if conversation in self._running:
            raise StoreLocked("Another request is already running this conversation's turn.")
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(
            self._drive(conversation, opened, started), name=f"conversation {conversation}"
        )
        self._running[conversation] = task
        task.add_done_callback(lambda _: self._running.pop(conversation, None))
        await asyncio.shield(started)

    async def _drive(
        self, conversation: str, opened: OpenedStream, started: asyncio.Future[None]
    ) -> None:
        """Run a turn until it ends or waits. Errors before its first event are raised in the
        caller, and later errors are logged.
        """
        has_recorded = False
        try:
            async with opened as stream:
                async for item in stream:
                    if not isinstance(item, Recorded):
                        continue
                    if not started.done():
                        started.set_result(None)
                    has_recorded = True
            if has_recorded:  # otherwise, a run that recorded nothing would be repeated at once
                self._retries.pop(conversation, None)
        except Exception as error:  # noqa: BLE001  the program's own code may raise anything; the turn stays open
            if not started.done():
                started.set_exception(error)
                started.exception()  # mark the error as retrieved: the request may be gone
                return
            _LOG.warning("the turn of conversation %s stopped: %r", conversation, error)
        finally:
            if not started.done():
                started.set_result(None)

    # Continuing turns in the background
    # ----------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Start the background search for ready turns, unless it is already running."""
        if not self._is_stopped and (self._working is None or self._working.done()):
            self._working = asyncio.create_task(
                continue_ready_turns(self.source.store, self._continue, _LOG)
            )

    async def stop(self) -> None:
        """Wait a few seconds for the running turns, and then cancel the rest. Cancelled turns stay
        open in the store.
        """
        self._is_stopped = True
        await stop_tasks(self._working, [*self._running.values()])

    async def _continue(self, conversation: str) -> None:
        """Continue a ready turn if an A2A client began it."""
        if conversation in self._running:
            return
        if is_a2a_turn((await self.source.store.port.look(conversation)).turn.events):
            await self.resume(conversation)
