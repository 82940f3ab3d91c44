"""Answers that come from another process while this one holds the conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from midturn.core.events import Approval, InquiryRequest
from midturn.core.turn.inputs import AnsweredElsewhere, Happened
from midturn.ports import AnswerFeed, Clock, HandedAnswer, Journal

INTERVAL = 0.1  # seconds between two looks


class Elsewhere:
    """Looks for answers that were handed over, and reports each once; `taken` removes it when it has been acted on."""

    def __init__(self, feed: AnswerFeed, journal: Journal, report: Callable[[Happened], None]) -> None:
        self._feed = feed
        self._journal = journal
        self._report = report
        self._reported: dict[str, str] = {}

    async def listen(self, clock: Clock) -> None:
        """Report what is handed over, until cancelled."""
        while True:
            for handed, inquiry in self._new():
                self._reported[inquiry] = handed.event_id
                self._report(AnsweredElsewhere(inquiry, handed.reply, handed.by))
            await clock.sleep(INTERVAL)

    def taken(self, id: str) -> None:
        """Remove the answer to this inquiry or approval."""
        event = self._reported.pop(id, None)
        if event is not None:
            self._feed.remove(event)

    def _new(self) -> Iterator[tuple[HandedAnswer, str]]:
        handed = {answer.event_id: answer for answer in self._feed.collect() if answer.event_id not in self._reported.values()}
        if not handed:
            return
        for event in reversed(self._journal.events):
            answer = handed.pop(event.event_id, None)
            if answer and isinstance(event, InquiryRequest | Approval):
                yield answer, event.id
            if not handed:
                return
