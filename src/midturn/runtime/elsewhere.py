"""Answers that come from outside while this process holds the conversation."""

from __future__ import annotations

from collections.abc import Callable

from midturn.core.turn.inputs import AnsweredElsewhere, Happened
from midturn.journal import AnswerFeed, Journal
from midturn.ports import Clock

INTERVAL = 0.1  # seconds between two looks, while an answer waits for its question to be asked again


class Elsewhere:
    """Looks for answers that were handed over, and reports them.

    An answer that the turn does not take is kept: a resumed turn may not have asked again yet. It is reported again whenever the turn has
    recorded something, or has asked (what it asks again is on record already), until it is taken; whoever opens the conversation next takes
    what is left over.
    """

    def __init__(self, feed: AnswerFeed, journal: Journal, report: Callable[[Happened], None]) -> None:
        self._feed = feed
        self._journal = journal
        self._report = report
        self._asked = 0
        self._reported: dict[str, tuple[int, int]] = {}

    def asked(self) -> None:
        """Note that somebody is asked: an answer that came too early may be the one to this."""
        self._asked += 1

    async def listen(self, clock: Clock) -> None:
        """Report what is handed over, until cancelled."""
        while True:
            handed = await self._feed.collect()
            state = (len(self._journal.events), self._asked) if handed else (0, 0)
            for answer in handed:
                if self._reported.get(answer.event_id) != state:
                    self._reported[answer.event_id] = state
                    self._report(AnsweredElsewhere(answer.event_id, answer.reply, answer.by))
            await (clock.sleep(INTERVAL) if handed else self._feed.changed())
