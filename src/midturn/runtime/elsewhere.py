"""Answers from outside, while this process holds the conversation: collected, and reported to the machine."""

from __future__ import annotations

from collections.abc import Callable

from midturn.journal import AnswerFeed, Handed, Journal
from midturn.ports import Clock
from midturn.turn.people import under_key
from midturn.turn.step import AnsweredElsewhere, Happened, Noted

INTERVAL = 0.1  # seconds between two looks, while an answer waits for its question to be asked again


class Elsewhere:
    """Looks for answers that were handed over, and reports them.

    An answer that the turn does not take is kept: a resumed turn may not have asked again yet. It is reported again whenever the turn has
    recorded something, or has asked (what it asks again is on record already), until it is taken; the next to open the conversation takes
    what is left over.
    """

    def __init__(self, feed: AnswerFeed, journal: Journal, report: Callable[[Happened], None]) -> None:
        self._feed = feed
        self._journal = journal
        self._report = report
        self._asked = 0
        self._reported: dict[str, tuple[int, int]] = {}

    def asked(self) -> None:
        """Note that a question was asked: an answer that came too early may be the one to this."""
        self._asked += 1

    async def look(self) -> bool:
        """Report what is handed over by now; say whether there is anything."""
        handed = await self._feed.collect()
        state = (len(self._journal.events), self._asked) if handed else (0, 0)
        for answer in handed:
            if self._reported.get(answer.key) != state:
                self._reported[answer.key] = state
                self._report(_happened(answer))
        return bool(handed)

    async def listen(self, clock: Clock) -> None:
        """Report what is handed over, until cancelled."""
        while True:
            handed = await self.look()
            await (clock.sleep(INTERVAL) if handed else self._feed.changed())


def _happened(handed: Handed) -> AnsweredElsewhere | Noted:
    """Return what was handed over as the turn hears of it; the key of a vote or a note is recorded with it."""
    if handed.note is not None:
        return Noted(handed.event_id, under_key(handed.note, handed.key))
    return AnsweredElsewhere(handed.event_id, handed.reply, handed.by, handed.key if handed.name else "", handed.about)
