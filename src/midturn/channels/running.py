"""Runs a channel, on one server at a time: sees to cards when something has happened (`deck.py`), and takes replies (`replies.py`)."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Final

from midturn.channels.card_reconciler import Deck, answered_by
from midturn.channels.port import Channel, ChannelAway, ChannelRefused, ChannelSettings
from midturn.channels.replies import Replies
from midturn.channels.state import Ledger
from midturn.clock import Outage, now
from midturn.errors import ConfigError, StoreError
from midturn.inbox.open_questions import Board
from midturn.inbox.store_access import Port
from midturn.stores.store import ConversationStore
from midturn.stores.watching import StoreChange
from midturn.turn.view import describe

_LOG = logging.getLogger("midturn.channels")
_RENEW: Final = 10.0  # seconds between two renewals of the lease
_AGAIN: Final = (1.0, 2.0, 5.0, 15.0, 60.0)  # seconds until the next try, where the platform does not say
_SENDING, _HEARING = "sending", "hearing"
_HEARD: Final = 12  # times `_RENEW` of listening after which a platform is there again: some tries take more than a minute to fail


class _Reach:
    """Whether a platform takes what is sent, and is heard. What ends both is one outage, and over when both ways are open again."""

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._closed: set[str] = set()

    def lost(self, way: str, message: str, *arguments: object) -> None:
        """Note that one way is closed; say so where neither was."""
        self._closed.add(way)
        self._outage.noticed(message, *arguments)

    def open(self, way: str) -> None:
        """Note that one way is open; say so where that was the last."""
        self._closed.discard(way)
        if not self._closed:
            self._outage.over()


class ChannelRun:
    """One channel on one store."""

    def __init__(self, board: Board, channel: Channel, settings: ChannelSettings) -> None:
        """Run `channel` for the store of `board`."""
        self._board = board
        self._channel = channel
        self._name = settings.name
        self._ledger = Ledger(board.port.store.port, now)
        self._holder = secrets.token_hex(8)
        self._deck = Deck(board, channel, settings, self._ledger)
        self._replies = Replies(self._deck)
        self._reach = _Reach(Outage(_LOG, f"the channel {settings.name} is back"))

    async def run(self) -> None:
        """Send and take until cancelled. Where another server runs the channel, wait for it to end."""
        while True:
            _heed_cancellation()
            await self._take_lease()
            try:
                await self._run()
            except* (ChannelAway, ChannelRefused, StoreError) as broken:
                error = broken.exceptions[0]
                self._reach.lost(_HEARING, "the channel %s cannot be used for now: %s", self._name, error)
                await asyncio.sleep(getattr(error, "after", None) or _AGAIN[-2])
            finally:
                with suppress(StoreError):
                    await asyncio.shield(self._ledger.release(self._name, self._holder))

    async def _take_lease(self) -> None:
        while not await self._ledger.leased(self._name, self._holder):  # noqa: ASYNC110  another process tells of nothing
            await asyncio.sleep(_RENEW)

    async def _run(self) -> None:
        self._board.listeners.append(self._hear)
        try:
            await self._channel.open(await self._ledger.memory(self._name))
            await self._deck.load()
            await self._replies.load()
            await self._board.fresh()
            await self._deck.see_to_all()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._renew())
                tasks.create_task(self._listen())
                tasks.create_task(self._send())
        finally:
            self._board.listeners.remove(self._hear)
            await self._channel.close()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW)
            if not await self._ledger.leased(self._name, self._holder):
                raise ChannelAway("another server runs it", after=_RENEW)

    def _hear(self, change: StoreChange) -> None:
        if change.kind in ("answered", "withdrawn") and (by := describe(change.answered_by)):
            self._deck.over[change.id] = answered_by(by)
        if change.id:
            self._deck.due.mark(change.id)

    async def _send(self) -> None:
        """See to what is due, one question after the other, as fast as the platform takes it."""
        tries, unsent = 0, set[str]()
        while True:
            _heed_cancellation()
            await self._deck.due.wait()
            for question in self._deck.due.take():
                try:
                    await self._deck.see_to(question)
                    tries = 0 if question in unsent else tries
                    unsent.discard(question)
                    if not unsent:  # what needed nothing proves nothing: while another waits, it is not known to be back
                        self._reach.open(_SENDING)
                except ChannelAway as away:
                    unsent.add(question)
                    self._reach.lost(_SENDING, "the channel %s does not take messages for now: %s", self._name, away)
                    pause = away.after if away.after is not None else _AGAIN[min(tries, len(_AGAIN) - 1)]
                    tries += 1
                    self._deck.due.mark(question, pause)
                    await asyncio.sleep(min(pause, _AGAIN[-1]))

    async def _listen(self) -> None:
        tries = 0
        while True:
            pause, heard = 0.0, asyncio.create_task(self._open_when_heard())
            try:
                async with aclosing(self._channel.replies()) as replies:
                    async for reply in replies:
                        _heed_cancellation()
                        tries = 0
                        self._reach.open(_HEARING)
                        await self._replies.take(reply)
            except ChannelAway as away:
                self._reach.lost(_HEARING, "the channel %s cannot be heard for now: %s", self._name, away)
                pause = away.after if away.after is not None else _AGAIN[min(tries, len(_AGAIN) - 1)]
            finally:
                heard.cancel()
            await asyncio.sleep(pause)
            tries += 1

    async def _open_when_heard(self) -> None:
        """Note that the platform is heard when it was listened to for a while; a machine that slept meanwhile did not listen."""
        for _ in range(_HEARD):
            await asyncio.sleep(_RENEW)
        self._reach.open(_HEARING)


def _heed_cancellation() -> None:
    """Raise a cancellation that got lost: `asyncio.wait_for`, which platforms' libraries call, may lose one (Python 3.11)."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def run(store: ConversationStore, channels: Sequence[Channel | tuple[Channel, ChannelSettings]]) -> None:
    """Run channels on a store until cancelled.

    Args:
        store: Whose questions are sent, and where the answers go.
        channels: What is run; with how, or as it is, under the name of its kind.

    Raises:
        ConfigError: Two have one name, under which the store keeps what each has sent.
    """
    named = [each if isinstance(each, tuple) else (each, ChannelSettings(name=each.kind)) for each in channels]
    names = [settings.name for _, settings in named]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f'Two channels are named {min(twice)!r}: give each a name: (channel, ChannelSettings(name="…")).')
    board = Board(Port(store))
    try:
        async with asyncio.TaskGroup() as tasks:
            for channel, settings in named:
                tasks.create_task(ChannelRun(board, channel, settings).run())
    finally:
        await board.stop()


async def pairing_code(store: ConversationStore, person: str, kind: str) -> str:
    """Return a code, good once, for five minutes: the account that sends it to a channel of this kind is the person's from then on."""
    return await Ledger(store.port, now).code_for(person, kind)
