"""Fake platform in memory. Sent cards are kept in a list, and replies are read from a queue."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable

from midturn.channels.port import Card, ChannelAway, ChannelRefused, Choice, Fits, Memory, Reply
from support.waiting import until


class Platform:
    """State of the service across restarts of the client: cards by handle, and unconfirmed
    updates.
    """

    def __init__(self) -> None:
        self.cards: dict[str, Card] = {}
        self.sent: list[str] = []
        self.unconfirmed: list[Reply] = []
        self.confirmed = 0
        self.is_away = False
        self.is_revoked = False
        self.blocked_by: set[str] = set()
        self.refused = 0
        # the next card is accepted, but the connection fails before its handle is returned
        self.is_forgetful = False
        self.news = asyncio.Event()
        self._numbers = itertools.count(1)

    def post(self, card: Card) -> str:
        """Accept a card."""
        self.check()
        if card.to in self.blocked_by:
            self.refused += 1
            raise ChannelRefused("they have blocked the bot")
        handle = str(next(self._numbers))
        self.cards[handle] = card
        self.sent.append(handle)
        if self.is_forgetful:
            self.is_forgetful = False
            raise ChannelAway("the connection broke", after=0.01)
        return handle

    def check(self) -> None:
        """Raise the error of a request while the service is unreachable or the bot's token is
        revoked.
        """
        self.refused += self.is_away or self.is_revoked
        if self.is_revoked:
            raise ChannelRefused("the token was taken back")
        if self.is_away:
            raise ChannelAway("it is away", after=0.01)

    def tell(self, reply: Reply) -> None:
        """Deliver a reply."""
        self.unconfirmed.append(reply)
        self.news.set()

    def open_cards(self, to: str) -> dict[str, Card]:
        """Return the open cards of an account."""
        return {
            handle: card
            for handle, card in self.cards.items()
            if card.to == to and not card.is_over
        }

    async def card(
        self, to: str, holds: Callable[[Card], bool] = lambda _: True
    ) -> tuple[str, Card]:
        """Wait for an open card."""
        found: dict[str, Card] = {}

        def is_there() -> bool:
            found.clear()
            found.update(
                {handle: card for handle, card in self.open_cards(to).items() if holds(card)}
            )
            return bool(found)

        await until(is_there)
        return next(iter(found.items()))

    async def over(self, handle: str) -> Card:
        """Wait until a card is closed."""
        await until(lambda: self.cards[handle].is_over)
        return self.cards[handle]

    def press(self, account: str, handle: str, label: str, *, at: str = "") -> None:
        """Press a button."""
        self.tell(
            Reply(
                account=account, handle=handle, token=button(self.cards[handle], label).token, at=at
            )
        )

    def write(self, account: str, text: str, handle: str = "", *, at: str = "") -> None:
        """Write a message, optionally as a reply to another message."""
        self.tell(Reply(account=account, handle=handle, text=text, at=at))


def button(card: Card, label: str) -> Choice:
    """Return the button of a card with this label."""
    return next(choice for choice in card.choices if choice.label == label)


class FakeChannel:
    """A channel that is connected to a `Platform`."""

    kind = "fake"

    def __init__(self, platform: Platform, fits: Fits | None = None) -> None:
        self._platform = platform
        self.fits = fits or Fits(text=4_000, buttons=8)

    async def open(self, memory: Memory) -> None:
        del memory
        if self._platform.is_revoked:
            self._platform.check()

    async def send(self, card: Card) -> str:
        await asyncio.sleep(0)
        return self._platform.post(card)

    async def update(self, handle: str, card: Card) -> None:
        self._platform.check()
        self._platform.cards[handle] = card

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield replies. The next step of the iteration confirms the last one."""
        while True:
            while self._platform.unconfirmed:
                yield self._platform.unconfirmed[0]
                self._platform.unconfirmed.pop(0)
                self._platform.confirmed += 1
            self._platform.news.clear()
            await self._platform.news.wait()

    async def close(self) -> None: ...
