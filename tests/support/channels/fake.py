"""A platform without a wire: what was sent is a list, what comes back is put into a queue."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable

from midturn.channels.port import Card, ChannelAway, ChannelRefused, Choice, Fits, Memory, Reply
from support.waiting import until


class Platform:
    """What a service keeps while our processes come and go: cards by handle, and updates that no one has confirmed."""

    def __init__(self) -> None:
        self.cards: dict[str, Card] = {}
        self.sent: list[str] = []
        self.unconfirmed: list[Reply] = []
        self.confirmed = 0
        self.is_away = False
        self.is_revoked = False
        self.blocked_by: set[str] = set()
        self.refused = 0
        self.is_forgetful = False  # the next card is taken, and its handle never comes back
        self.news = asyncio.Event()
        self._numbers = itertools.count(1)

    def post(self, card: Card) -> str:
        """Take a card."""
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
        """Refuse what comes while it is away, or the bot revoked."""
        self.refused += self.is_away or self.is_revoked
        if self.is_revoked:
            raise ChannelRefused("the token was taken back")
        if self.is_away:
            raise ChannelAway("it is away", after=0.01)

    def tell(self, reply: Reply) -> None:
        """Have something come."""
        self.unconfirmed.append(reply)
        self.news.set()

    def open_cards(self, to: str) -> dict[str, Card]:
        """Return the cards of an account that can be answered."""
        return {handle: card for handle, card in self.cards.items() if card.to == to and not card.is_over}

    async def card(self, to: str, holds: Callable[[Card], bool] = lambda _: True) -> tuple[str, Card]:
        """Wait for a card that can be answered."""
        found: dict[str, Card] = {}

        def is_there() -> bool:
            found.clear()
            found.update({handle: card for handle, card in self.open_cards(to).items() if holds(card)})
            return bool(found)

        await until(is_there)
        return next(iter(found.items()))

    async def over(self, handle: str) -> Card:
        """Wait until a card is over."""
        await until(lambda: self.cards[handle].is_over)
        return self.cards[handle]

    def press(self, account: str, handle: str, label: str, *, at: str = "") -> None:
        """Press a button."""
        self.tell(Reply(account=account, handle=handle, token=button(self.cards[handle], label).token, at=at))

    def write(self, account: str, text: str, handle: str = "", *, at: str = "") -> None:
        """Write something, as a reply to a message or by itself."""
        self.tell(Reply(account=account, handle=handle, text=text, at=at))


def button(card: Card, label: str) -> Choice:
    """Return a button of a card."""
    return next(choice for choice in card.choices if choice.label == label)


class FakeChannel:
    """Speaks to a `Platform`."""

    kind = "fake"

    def __init__(self, platform: Platform, fits: Fits | None = None) -> None:
        self._platform = platform
        self.fits = fits or Fits(text=4_000, buttons=8)

    async def open(self, memory: Memory) -> None:
        """Connect."""
        del memory
        if self._platform.is_revoked:
            self._platform.check()

    async def send(self, card: Card) -> str:
        """Send a card."""
        await asyncio.sleep(0)
        return self._platform.post(card)

    async def update(self, handle: str, card: Card) -> None:
        """Change a card."""
        self._platform.check()
        self._platform.cards[handle] = card

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield what comes; the next step confirms."""
        while True:
            while self._platform.unconfirmed:
                yield self._platform.unconfirmed[0]
                self._platform.unconfirmed.pop(0)
                self._platform.confirmed += 1
            self._platform.news.clear()
            await self._platform.news.wait()

    async def close(self) -> None:
        """Disconnect."""
