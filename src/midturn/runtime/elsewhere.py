"""Answers that come from outside while this process holds the conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from midturn.core.events import Approval, InquiryRequest
from midturn.core.turn.inputs import AnsweredElsewhere, Happened
from midturn.ports import AnswerFeed, Clock, HandedAnswer, Journal

INTERVAL = 0.1  # seconds between two looks, while an answer waits for its question to be asked again


class Elsewhere:
    """Looks for answers that were handed over, and reports them.

    An answer that the turn does not take is kept: a resumed turn may not have asked again yet. It is reported again whenever the turn has
    recorded something, until it is taken; whoever opens the conversation next takes what is left over.
    """

    def __init__(self, feed: AnswerFeed, journal: Journal, report: Callable[[Happened], None]) -> None:
        self._feed = feed
        self._journal = journal
        self._report = report
        self._reported: dict[str, int] = {}

    async def listen(self, clock: Clock) -> None:
        """Report what is handed over, until cancelled."""
        while True:
            handed = await self._feed.collect()
            for answer, inquiry in self._new(handed):
                self._reported[answer.event_id] = len(self._journal.events)
                self._report(AnsweredElsewhere(inquiry, answer.reply, answer.by))
            await (clock.sleep(INTERVAL) if handed else self._feed.changed())

    def _new(self, handed: Sequence[HandedAnswer]) -> list[tuple[HandedAnswer, str]]:
        """Return the answers that the turn has not seen in its present state, each with the id of its question."""
        length = len(self._journal.events) if handed else 0
        waiting = {answer.event_id: answer for answer in handed if self._reported.get(answer.event_id) != length}
        found: list[tuple[HandedAnswer, str]] = []
        for event in reversed(self._journal.events) if waiting else ():
            if isinstance(event, InquiryRequest | Approval) and (answer := waiting.pop(event.event_id, None)):
                found.append((answer, event.id))
            if not waiting:
                break
        return found
