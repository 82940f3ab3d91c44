"""Runs channels. A lease in the store ensures that each channel runs on only one server at a time.

While a channel runs, it reconciles cards when the store changes (`card_reconciler.py`) and handles
replies (`replies.py`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Final

from midturn.channels.card_reconciler import CardReconciler, answered_text
from midturn.channels.port import Channel, ChannelAway, ChannelRefused, ChannelSettings
from midturn.channels.replies import Replies
from midturn.channels.state import ChannelState
from midturn.clock import Outage, now
from midturn.errors import ConfigError, StoreError
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.store_access import Port
from midturn.stores.store import ConversationStore
from midturn.stores.watching import StoreChange
from midturn.turn.view import describe

_LOG = logging.getLogger("midturn.channels")
LEASE_RENEWAL_INTERVAL: Final = 10.0  # seconds between two renewals of the lease
# seconds before each retry, if the platform does not report how long to wait
RETRY_DELAYS: Final = (1.0, 2.0, 5.0, 15.0, 60.0)
_SENDING, _RECEIVING = "sending", "hearing"
# number of lease renewals without an error after which an outage ends; a failing attempt may take a
# minute
RECOVERY_INTERVALS: Final = 12


class _Availability:
    """Records whether a platform accepts messages and delivers replies.

    If both directions fail, this is one outage. The outage ends when both directions work again.
    """

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._closed: set[str] = set()

    def mark_lost(self, way: str, message: str, *arguments: object) -> None:
        """Record that one direction does not work. An outage starts if both worked before."""
        self._closed.add(way)
        self._outage.noticed(message, *arguments)

    def mark_available(self, way: str) -> None:
        """Record that one direction works. The outage ends if both work now."""
        self._closed.discard(way)
        if not self._closed:
            self._outage.over()


class ChannelRun:
    """Runs one channel for one store."""

    def __init__(
        self, board: OpenQuestionList, channel: Channel, settings: ChannelSettings
    ) -> None:
        """Prepare to run `channel` for the store of `board`."""
        self._board = board
        self._channel = channel
        self._name = settings.name
        self._state = ChannelState(board.port.store.port, now)
        self._holder = secrets.token_hex(8)
        self._cards = CardReconciler(board, channel, settings, self._state)
        self._replies = Replies(self._cards)
        self._availability = _Availability(
            Outage(_LOG, f"channel {settings.name} is available again")
        )

    async def run(self) -> None:
        """Send cards and handle replies until cancelled.

        Wait while another server runs the channel.
        """
        while True:
            _raise_lost_cancellation()
            await self._take_lease()
            try:
                await self._run()
            except* (ChannelAway, ChannelRefused, StoreError) as broken:
                error = broken.exceptions[0]
                self._availability.mark_lost(
                    _RECEIVING, "channel %s is unavailable: %s", self._name, error
                )
                await asyncio.sleep(getattr(error, "after", None) or RETRY_DELAYS[-2])
            finally:
                with suppress(StoreError):
                    await asyncio.shield(self._state.release_lease(self._name, self._holder))

    async def _take_lease(self) -> None:
        while not await self._state.acquire_lease(self._name, self._holder):  # noqa: ASYNC110  releasing a lease sends no notification
            await asyncio.sleep(LEASE_RENEWAL_INTERVAL)

    async def _run(self) -> None:
        self._board.listeners.append(self._on_change)
        try:
            await self._channel.open(await self._state.memory(self._name))
            await self._cards.load()
            await self._replies.load()
            await self._board.fresh()
            await self._cards.mark_all()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._renew())
                tasks.create_task(self._listen())
                tasks.create_task(self._send())
        finally:
            self._board.listeners.remove(self._on_change)
            await self._channel.close()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE_RENEWAL_INTERVAL)
            if not await self._state.acquire_lease(self._name, self._holder):
                raise ChannelAway("another server runs this channel", after=LEASE_RENEWAL_INTERVAL)

    def _on_change(self, change: StoreChange) -> None:
        if change.kind in ("answered", "withdrawn") and (by := describe(change.answered_by)):
            self._cards.outcomes[change.id] = answered_text(by)
        if change.id:
            self._cards.queue.mark(change.id)

    async def _send(self) -> None:
        """Reconcile the questions that are due, one at a time, as fast as the platform accepts
        messages.
        """
        tries, unsent = 0, set[str]()
        while True:
            _raise_lost_cancellation()
            await self._cards.queue.wait()
            for question in self._cards.queue.take():
                try:
                    await self._cards.reconcile(question)
                    tries = 0 if question in unsent else tries
                    unsent.discard(question)
                    # a question that needed no message does not prove that messages can be sent
                    if not unsent:
                        self._availability.mark_available(_SENDING)
                except ChannelAway as away:
                    unsent.add(question)
                    self._availability.mark_lost(
                        _SENDING, "channel %s cannot send messages: %s", self._name, away
                    )
                    pause = (
                        away.after
                        if away.after is not None
                        else RETRY_DELAYS[min(tries, len(RETRY_DELAYS) - 1)]
                    )
                    tries += 1
                    self._cards.queue.mark(question, pause)
                    await asyncio.sleep(min(pause, RETRY_DELAYS[-1]))

    async def _listen(self) -> None:
        tries = 0
        while True:
            pause, heard = 0.0, asyncio.create_task(self._confirm_recovery())
            try:
                async with aclosing(self._channel.replies()) as replies:
                    async for reply in replies:
                        _raise_lost_cancellation()
                        tries = 0
                        self._availability.mark_available(_RECEIVING)
                        await self._replies.handle(reply)
            except ChannelAway as away:
                self._availability.mark_lost(
                    _RECEIVING, "channel %s cannot receive replies: %s", self._name, away
                )
                pause = (
                    away.after
                    if away.after is not None
                    else RETRY_DELAYS[min(tries, len(RETRY_DELAYS) - 1)]
                )
            finally:
                heard.cancel()
            await asyncio.sleep(pause)
            tries += 1

    async def _confirm_recovery(self) -> None:
        """Record that replies can be received, after some time without an error.

        Time during which the machine was suspended does not count.
        """
        for _ in range(RECOVERY_INTERVALS):
            await asyncio.sleep(LEASE_RENEWAL_INTERVAL)
        self._availability.mark_available(_RECEIVING)


def _raise_lost_cancellation() -> None:
    """Raise a cancellation that was lost. In Python 3.11, `asyncio.wait_for` in a platform's
    library can lose one.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def run(
    store: ConversationStore, channels: Sequence[Channel | tuple[Channel, ChannelSettings]]
) -> None:
    """Run channels on a store until cancelled.

    Args:
        store: The store whose questions are sent and answered.
        channels: Channels, with or without settings. Default name: the kind of the channel.

    Raises:
        ConfigError: Two channels have the same name.
    """
    named = [
        each if isinstance(each, tuple) else (each, ChannelSettings(name=each.kind))
        for each in channels
    ]
    names = [settings.name for _, settings in named]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(
            f"Two channels are named {min(twice)!r}. Give each its own name: (channel,"
            ' ChannelSettings(name="…")).'
        )
    board = OpenQuestionList(Port(store))
    try:
        async with asyncio.TaskGroup() as tasks:
            for channel, settings in named:
                tasks.create_task(ChannelRun(board, channel, settings).run())
    finally:
        await board.stop()


async def pairing_code(store: ConversationStore, person: str, kind: str) -> str:
    """Return a one-time code that pairs an account with a person.

    Args:
        store: The store of the channel.
        person: Name of the person.
        kind: Kind of the channel. The first account of this kind that sends the code within five
            minutes is paired.
    """
    return await ChannelState(store.port, now).create_code(person, kind)
