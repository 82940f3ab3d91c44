"""Latency of channels on the loopback interface, and the delivery of 1,000 questions under rate
limits.

Measures the time from a question to its card, and from a button press to the next event of the
turn. Telegram, Slack, Discord and ntfy run against fake servers written from the published
protocols, with the real client libraries. Mail uses Dovecot and Matrix uses Synapse, if they are
installed (`make test-channels`). Usage: `channels.py [KIND…] [--questions N]`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import midturn as mt
from midturn.events.types import InquiryAnswered
from midturn.stores.store import ConversationStore
from support.channels.phones import OURS, REAL, Phone, act, missing, on
from support.channels.questions import ask, pair, running

# questions in sequence; messages per second, which is Telegram's limit for a bot
TIMES, LIMIT = 60, 30
GO = mt.Question.boolean("go", "Deploy to production?")


async def both_ways(phone: Phone, store: ConversationStore) -> tuple[list[float], list[float]]:
    """Return the milliseconds from each question to its card, and from each button press to the
    turn's next event.
    """
    asked: list[float] = []
    tapped: list[float] = []
    async with running(store, phone.channel()):
        await asyncio.sleep(0.5)
        for number in range(TIMES):
            question = await ask(store, GO)
            began = time.perf_counter()
            while len(cards := phone.cards()) <= number or not cards[-1].is_open:
                await asyncio.sleep(0.0005)
            asked.append(1_000 * (time.perf_counter() - began))
            began = time.perf_counter()
            await act(phone, cards[-1], "Yes")
            while not await _is_answered(store, question):
                await asyncio.sleep(0.001)
            tapped.append(1_000 * (time.perf_counter() - began))
    return asked, tapped


async def _is_answered(store: ConversationStore, question: mt.OpenQuestion) -> bool:
    return any(
        isinstance(event, InquiryAnswered)
        for event in (await store.read(question.conversation)).events
    )


async def flooded(
    phone: Phone, store: ConversationStore, questions: int
) -> tuple[float, float, int, int]:
    """Ask many questions at once; return the seconds to ask and to send them, the number of
    rate-limit responses, and the number of cards.
    """
    limit = phone.limit(LIMIT)
    async with running(store, phone.channel()):
        began = time.perf_counter()
        for _ in range(questions):
            await ask(store, GO)
        asked = time.perf_counter() - began
        while len(phone.cards()) < questions:
            await asyncio.sleep(0.05)
        took = time.perf_counter() - began
        await asyncio.sleep(2)  # time in which a duplicate would be sent
    return asked, took, limit.refused, len(phone.cards())


def _at(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def _folder() -> TemporaryDirectory[str]:
    """Create a store directory.

    A thread may still be writing when the channel is stopped, so errors of the removal are
    ignored.
    """
    return TemporaryDirectory(ignore_cleanup_errors=True)


async def main() -> None:
    logging.disable(logging.WARNING)
    words = sys.argv[1:]
    questions = int(words.pop(words.index("--questions") + 1)) if "--questions" in words else 1_000
    kinds = [word for word in words if word in (*OURS, *REAL)] or [*OURS, *REAL]
    for kind in kinds:
        if reason := missing(kind):
            print(f"{kind}: not measured, {reason}")
            continue
        with _folder() as folder:
            store = mt.open_store(Path(folder) / "store")
            async with on(kind) as phone:
                await pair(store, kind, "ana", phone.account)
                asked, tapped = await both_ways(phone, store)
        for what, times in (("from ask to card", asked), ("from tap to the next event", tapped)):
            print(f"{kind}: {what}: p50 {_at(times, 0.5):.0f} ms, p99 {_at(times, 0.99):.0f} ms")
        with _folder() as folder:
            store = mt.open_store(Path(folder) / "store")
            async with on(kind) as phone:
                await pair(store, kind, "ana", phone.account)
                seconds, took, refused, cards = await flooded(phone, store, questions)
        said = (
            f"{questions} questions within {seconds:.0f} s, {LIMIT} messages a second at most:"
            f" {cards} cards after {took:.0f} s"
        )
        print(f"{kind}: {said}; told to wait {refused} times")
        assert cards == questions, "one is missing, or was sent twice"


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
