"""A person on the phone, who presses buttons of cards and writes other answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

from midturn.channels.port import ChannelSettings
from midturn.channels.running import run
from midturn.stores.store import ConversationStore
from support.channels.phones import Shown, ThreadedPhone, act
from support.channels.questions import pair
from support.hooks import until
from support.stories.people import StepwisePerson, asked_in

YES, NO = ("Yes", "Allow", "Deliver", "Send"), ("No", "Deny", "Withhold")


class PhonePerson(StepwisePerson):
    """Answers on cards."""

    def __init__(self, store: ConversationStore, on: ThreadedPhone) -> None:
        super().__init__(store)
        self.on = on

    def answer(self, question: str, value: Any, reason: str | None = None) -> None:
        asked = asked_in(self.find(question), question)
        self._say(lambda card: str(asked["text"]) in card.text, *_said(value, reason))

    def allow(self, kind: str) -> None:
        self.find(kind)
        self._say(self._asks, YES, "yes")

    def refuse(self, kind: str, reason: str) -> None:
        self.find(kind)
        self._say(self._asks, () if reason else NO, f"no, because {reason}" if reason else "no")

    def _asks(self, card: Shown) -> bool:
        """Return whether a card takes yes or no: by its buttons, or by its text on a platform
        without buttons.
        """
        return card.is_open and (
            bool({*card.buttons} & {*YES, *NO}) or 'Reply "yes" or "no"' in card.text
        )

    def _say(self, asks: Callable[[Shown], bool], labels: tuple[str, ...], words: str) -> None:
        """Press the button with one of these labels, or write the words; return when the card
        has changed.
        """
        card = self._wait(lambda card: asks(card) and "\nAnswered" not in card.text)
        self.on.do(
            act(
                self.on.phone,
                card,
                next((label for label in card.buttons if label in labels), words),
            )
        )
        changed = self._wait(lambda now: now.ref == card.ref and now != card)
        if "Send this answer?" in changed.text:
            self.on.do(act(self.on.phone, changed, "Send it"))
            self._wait(lambda now: now.ref == card.ref and now != changed)

    def _wait(self, fits: Callable[[Shown], bool]) -> Shown:
        return until(lambda: [card for card in self.on.phone.cards() if fits(card)], bool)[-1]


@contextmanager
def with_phone(kind: str, store: ConversationStore) -> Generator[PhonePerson]:
    """Run a channel on a store; return a person with a paired account."""
    with ThreadedPhone(kind) as on:
        on.do(pair(store, kind, "ana", on.phone.account))
        running = on.do(_claim(on, store))
        try:
            yield PhonePerson(store, on)
        finally:
            on.do(_ended(running))


async def _claim(on: ThreadedPhone, store: ConversationStore) -> asyncio.Task[None]:
    running = asyncio.create_task(run(store, [(on.phone.channel(), ChannelSettings(name="phone"))]))
    await on.phone.listening()
    return running


async def _ended(running: asyncio.Task[None]) -> None:
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


def _said(value: Any, reason: str | None) -> tuple[tuple[str, ...], str]:
    """Return the buttons of an answer, and its written form."""
    if isinstance(value, bool):
        words = "yes" if value else "no"
        return (
            () if reason else YES if value else NO
        ), f"{words}, because {reason}" if reason else words
    return (str(value),), value if isinstance(value, str) else json.dumps(value)
