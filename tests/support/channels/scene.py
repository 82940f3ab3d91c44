"""A store, a platform in memory and people with accounts there, for tests above the channel
port.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import midturn as mt
from midturn.channels.port import ChannelSettings, Fits
from midturn.channels.running import run
from midturn.channels.state import ChannelState
from midturn.clock import now
from midturn.events.types import InquiryAnswered
from midturn.stores.store import ConversationStore
from support.channels.fake import FakeChannel, Platform
from support.pages import agent_with, asking, asking_form

SETTINGS = ChannelSettings(name="phone", where="shop")
GO = mt.Question.boolean("go", "Deploy to production?")


class Scene:
    """A store, a platform, and people with accounts there."""

    def __init__(self, store: ConversationStore) -> None:
        self.store = store
        self.platform = Platform()

    async def pair(self, person: str, account: str) -> None:
        """Pair an account through its code, as a person does."""
        ledger = ChannelState(self.store.port, now)
        code = await ledger.create_code(person, "fake")
        assert await ledger.redeem_code("fake", account, code)

    async def ask(self, question: mt.Question[Any] | mt.Form) -> mt.OpenQuestion:
        """Ask `question` from a tool; return the open question."""
        tool = asking_form(question) if isinstance(question, mt.Form) else asking(question)
        return (await agent_with(self.store, tool).run("Ship it.")).pending[0]

    @asynccontextmanager
    async def running(
        self,
        settings: ChannelSettings = SETTINGS,
        fits: Fits | None = None,
        *,
        channel: FakeChannel | None = None,
    ) -> AsyncGenerator[None]:
        running = asyncio.create_task(
            run(self.store, [(channel or FakeChannel(self.platform, fits), settings)])
        )
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def noted(self, handle: str) -> None:
        """Wait until a card is recorded as sent. A process that dies earlier sends it again."""
        ledger = ChannelState(self.store.port, now)
        while handle not in {sent.handle for sent in (await ledger.cards("phone")).values()}:  # noqa: ASYNC110  another task keeps it
            await asyncio.sleep(0.005)

    async def answers(
        self, conversation: str
    ) -> list[tuple[object, str | None, str | None, str | None]]:
        """Return each recorded answer: value, reason, responder, interface."""
        events = (await self.store.read(conversation)).events
        said = [event for event in events if isinstance(event, InquiryAnswered)]
        return [
            (
                one.answer,
                one.reason,
                one.answered_by and one.answered_by.user,
                one.answered_by and one.answered_by.via,
            )
            for one in said
        ]

    async def answered(
        self, question: mt.OpenQuestion, number: int = 1
    ) -> tuple[object, str | None, str | None, str | None]:
        """Wait for an answer."""
        while len(found := await self.answers(question.conversation)) < number:  # noqa: ASYNC110  another task records it
            await asyncio.sleep(0.01)
        return found[-1]


def played(store: ConversationStore, play: Callable[[Scene], Awaitable[None]]) -> None:
    """Run a scene, with a limit of one minute."""

    async def scene() -> None:
        async with asyncio.timeout(120):
            await play(Scene(store))

    asyncio.run(scene())
