"""A week without network, on each platform: open questions are sent once, closed questions are
not, and one line is logged.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from time import perf_counter
from typing import TypeVar

import pytest

import midturn as mt
from midturn.channels.state import ChannelState
from midturn.clock import now
from midturn.stores.store import ConversationStore
from support.channels.invalid_replies import prepared_press
from support.channels.limit import Limit
from support.channels.phones import REAL, Phone, act, kinds, missing, on
from support.channels.questions import Answer, answers, ask, pair, running
from support.clocks import PatchedTime

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
]  # warnings of the libraries
T = TypeVar("T")
HOUR, WEEK = 3_600, 7 * 24
MANY, AT_ONCE = 12, 5
"""Questions that are asked meanwhile and stay open, and the platform's limit of messages per
second.
"""


def _question(text: str, days: int = 0) -> mt.Question[bool]:
    return mt.Question.boolean("go", text, deadline=timedelta(days=days) if days else None)


@asynccontextmanager
async def _without_network(
    phone: Phone, time: PatchedTime, step: int
) -> AsyncGenerator[Callable[[int], Awaitable[None]]]:
    """Run without network. Yield a function that advances the clock by a number of steps; the
    channel retries in each.
    """
    line = await phone.away()

    async def pass_time(steps: int) -> None:
        for _ in range(steps):
            tries = line.tries
            time.move(step)
            for looks in count(1):
                await asyncio.sleep(0.005)
                if line.tries != tries:
                    break
                if looks % 50 == 0:  # the step ended a try; the next one is a minute later
                    time.move(61.0)

    try:
        yield pass_time
    finally:
        await phone.back()


class _ClockAdvancer:
    """Waits and advances the clock meanwhile, by the platform's retry time or by a minute if
    nothing happens.
    """

    def __init__(self, time: PatchedTime) -> None:
        self._time = time
        self.limit = Limit(1)

    async def until(self, arrived: Callable[[], Awaitable[T]]) -> T:
        """Wait for a condition; return its value."""
        told, long, since = self.limit.refused, 0.5, perf_counter()
        while not (found := await arrived()):
            await asyncio.sleep(0.005)
            if told != self.limit.refused:
                told, since = self.limit.refused, perf_counter()
                self._time.move(1.1)
            elif (
                perf_counter() - since > long
            ):  # the interval grows, so that a slow operation can finish
                long, since = 2 * long, perf_counter()
                self._time.move(61.0)
        return found

    async def answer(
        self,
        phone: Phone,
        text: str,
        does: str,
        question: mt.OpenQuestion,
        store: ConversationStore,
    ) -> list[Answer]:
        """Press a button, again if it has no effect; return the recorded answers."""

        async def pressed() -> list[Answer]:
            nonlocal again
            if perf_counter() > again:
                again = perf_counter() + 3
                await act(phone, next(card for card in phone.cards() if text in card.text), does)
            return await answers(store, question)

        again = 0.0
        return await self.until(pressed)


async def _noted(store: ConversationStore, many: int) -> bool:
    """Return whether that many cards are recorded as sent."""
    return (
        sum(
            bool(card.handle)
            for card in (await ChannelState(store.port, now).cards("real")).values()
        )
        == many
    )


async def _are_shown(phone: Phone, still_open: int, over: int) -> bool:
    """Return whether that many open and closed cards are shown."""
    shown = [card.is_open for card in phone.cards()]
    return (shown.count(True), shown.count(False)) == (still_open, over)


def _without_repeated_requests(lines: list[str]) -> list[str]:
    """Remove lines about requests that were interrupted by the test's own clock step on a slow
    machine. They were repeated.
    """
    kept: list[str] = []
    for line in lines:
        if re.search(r" is available again, after \d{2,3} s", line):
            kept.pop()
        else:
            kept.append(line)
    return kept[:-1] if len(kept) > 1 and kept[-1].endswith("TimeoutError.") else kept


@pytest.mark.parametrize("kind", kinds())
def test_open_cards_are_sent_once_after_a_week_without_network(
    store: ConversationStore,
    kind: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if reason := missing(kind):
        pytest.skip(reason)
    time = PatchedTime(monkeypatch)
    passing = _ClockAdvancer(time)
    step = 6 if kind in REAL else 1

    async def play(phone: Phone) -> None:
        await pair(store, kind, "ana", phone.account)
        before = await ask(store, _question("Open all week?"))
        elsewhere = await ask(store, _question("Answered elsewhere?"))
        expired = await ask(store, _question("Over by Tuesday?", days=2))
        async with running(store, phone.channel()):
            await phone.listening()
            while not await _noted(store, 3):  # noqa: ASYNC110  no time passes yet: what is sent slowly is sent
                await asyncio.sleep(0.005)
            cards = {
                text: card
                for card in phone.cards()
                for text in ("Open all", "elsewhere", "Tuesday")
                if text in card.text
            }
            late = [
                prepared_press(phone, cards[text].ref, "Yes") for text in ("elsewhere", "Tuesday")
            ]
            async with _without_network(phone, time, step * HOUR) as pass_time:
                closed = [
                    await ask(store, _question("Asked and answered?")),
                    await ask(store, _question("Asked and over?", days=1)),
                ]
                asked = [
                    await ask(store, _question(f"Asked number {number}?")) for number in range(MANY)
                ]
                await pass_time(WEEK // step // 2)
                await store.answer(elsewhere.id, value=False, user="bo", via="page")
                await store.answer(closed[0].id, value=False, user="bo", via="page")
                await pass_time(WEEK // step // 2)
            passing.limit = limit = phone.limit(AT_ONCE)
            for tap in late:  # from a week ago: the channel is not back yet
                await tap()
            await passing.until(lambda: _are_shown(phone, 1 + MANY, 2))
            await passing.until(lambda: _noted(store, 1 + MANY))
            assert limit.refused <= MANY
            limit.most = 1_000
            for tap in late:
                await tap()
            for text in ("elsewhere", "Tuesday"):
                await phone.write("yes", cards[text].ref)
            shown = [card.text for card in phone.cards()]
            texts = (
                "Open all week?",
                *(f"Asked number {number}?" for number in range(MANY)),
                "Answered elsewhere?",
                "Over by Tuesday?",
            )
            assert [sum(text in one for one in shown) for text in texts] == [1] * len(texts)
            assert len(shown) == len(texts)
            over = [card.text for card in phone.cards() if not card.is_open]
            assert "Answered by bo (page)" in next(text for text in over if "elsewhere" in text)
            assert "deadline has passed" in next(text for text in over if "Tuesday" in text)
            assert await passing.answer(phone, "Open all week?", "No", before, store) == [
                (False, None, None if kind == "ntfy" else "ana", kind)
            ]
        by_bo = [(False, None, "bo", "page")]
        assert [await answers(store, one) for one in (elsewhere, expired, *closed, *asked)] == [
            by_bo,
            [],
            by_bo,
            [],
            *([[]] * MANY),
        ]

    async def scene() -> None:
        async with on(kind) as phone:
            await play(phone)

    asyncio.run(scene())
    ours = [
        record for record in caplog.records if record.name != "aiohttp.server"
    ]  # that line is from the platform
    warned = [record.getMessage() for record in ours if record.levelno >= logging.WARNING]
    told = [
        bool(re.search(r" is available again, after [56]\d{5} s", line))
        for line in _without_repeated_requests(warned)
    ]
    assert told in ([False], [False, True]), "\n".join(warned)
