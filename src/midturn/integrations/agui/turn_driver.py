"""Runs the open turn of a thread's conversation, or follows it if another process runs it.

A turn runs under the lock of its conversation. The AG-UI run that gets the lock runs the turn, and
its events include deltas. The other AG-UI runs follow the recorded events, which may come from a
request, a worker, or another program.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final

from midturn.agent.result import RunResult
from midturn.agent.turn_stream import TurnEnded
from midturn.clock import SYSTEM, stamp
from midturn.errors import (
    AlreadyAnswered,
    AnswerError,
    NotAllowed,
    NotOpen,
    StoreLocked,
)
from midturn.integrations.agui import protocol
from midturn.integrations.agui.entries import EntryResults
from midturn.integrations.agui.event_writer import EventWriter
from midturn.integrations.agui.protocol import AguiEvent
from midturn.integrations.agui.turns import OpenedStream, RunningTurns
from midturn.ports import Recorded
from midturn.stores.nested_conversations import can_continue
from midturn.stores.port import LockedBy
from midturn.stores.store import ConversationStore
from midturn.turn.view import TurnView

_POLL_INTERVAL: Final = 0.5  # seconds; releasing a lock sends no notification, so poll
RETRY_DELAY: Final = 0.05  # seconds to wait after another run locked the conversation first
# seconds without new events after which a turn that another process runs counts as waiting for
# answers
_QUIET_SECONDS: Final = 0.5


class TurnDriver:
    """Runs or follows the turns of one conversation for one AG-UI run.

    Args:
        turns: The turns that run in this application.
        store: The store, with its authorization rules.
        conversation: ID of the conversation.
        writer: Writes the events of the run.
        position: Number of recorded events that the writer has already processed.
        user: The user of the front end.
        entries: Results of the entries, including the secrets for the turn.
    """

    def __init__(
        self,
        turns: RunningTurns,
        store: ConversationStore,
        conversation: str,
        writer: EventWriter,
        position: int,
        user: str,
        entries: EntryResults,
    ) -> None:
        self._turns = turns
        self._store = store
        self._conversation = conversation
        self._writer = writer
        self._user = user
        self._entries = entries
        self.position = position
        """Number of recorded events that the writer has already processed."""
        self.result: RunResult[object] | None = None
        """Result of the last turn that this object ran."""

    async def continue_turn(self) -> AsyncIterator[AguiEvent]:
        """Resume the open turn if it can continue, or follow it if another request or process runs
        it. Return when the turn ends or waits for people.
        """
        growing = self._store.port.growing
        since, changed_at = await growing.wait_for_change(0), time.monotonic()
        while True:
            position = self.position
            async for event in self.catch_up():
                yield event
            if self.position != position:
                changed_at = time.monotonic()
            held = await self._store.port.look(self._conversation)
            turn = held.turn
            if not TurnView.last(turn.events).is_open:
                return
            running = self._turns.running(self._conversation)
            if running is not None:
                await asyncio.wait({running.task}, timeout=_POLL_INTERVAL)
                continue
            if isinstance(held, LockedBy):
                waits = await self._store.pending(self._conversation)
                if waits and not turn.handed and time.monotonic() - changed_at >= _QUIET_SECONDS:
                    return
            elif not self._entries.secrets and not await can_continue(
                self._store.port, turn, stamp(SYSTEM)
            ):
                return
            else:
                async for event in self._resume():
                    yield event
                if self.position == position and not self._entries.secrets:
                    return  # the run did not record anything, and another run would not either
                continue
            try:
                async with asyncio.timeout(_POLL_INTERVAL):
                    since = await growing.wait_for_change(since)
            except TimeoutError:
                pass

    async def _resume(self) -> AsyncIterator[AguiEvent]:
        """Resume the open turn once. Report the secrets that the turn refuses."""
        secrets, self._entries.secrets = self._entries.secrets, {}
        opened = self._turns.source.resume(
            self._conversation, after=self.position, secrets=secrets, user=self._user
        )
        try:
            async for event in self.follow(opened):
                yield event
        except StoreLocked:
            self._entries.secrets = secrets
            await asyncio.sleep(RETRY_DELAY)
        except (AnswerError, NotAllowed, AlreadyAnswered, NotOpen) as error:
            for id in secrets:  # noqa: A001  the name in the protocol
                self._entries.refuse(id, error)
                yield protocol.custom("not_taken", self._entries.not_taken[-1])

    async def follow(
        self, opened: OpenedStream, *, has_history: bool = False
    ) -> AsyncIterator[AguiEvent]:
        """Run a turn in a task of the application, and yield its events. If `has_history` is set,
        do not send the imported history, because the front end already has it.
        """
        running = await self._turns.run(self._conversation, opened)
        try:
            async for item in running:
                if isinstance(item, TurnEnded):
                    self.result = item.result
                    continue
                if isinstance(item, Recorded):
                    if item.position <= self.position:
                        continue
                    if has_history:
                        await self._take_history(item.position - 1)
                        has_history = False
                    async for event in self.catch_up(item.position - 1):
                        yield event
                    self.position = item.position
                for event in self._writer.write(item):
                    yield event
        finally:
            running.detach()

    async def _take_history(self, until: int) -> None:
        for event in (await self._store.read(self._conversation)).events[self.position : until]:
            self._writer.thread.take(event)
        self.position = until

    async def catch_up(self, until: int | None = None) -> AsyncIterator[AguiEvent]:
        """Yield events that other requests and processes recorded."""
        if until is not None and until <= self.position:
            return
        events = (await self._store.read(self._conversation)).events
        for event in events[self.position : until]:
            self.position += 1
            for written in self._writer.write(Recorded(event, self.position)):
                yield written
