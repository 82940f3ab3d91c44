"""Collects answers that other processes queue while this process has the conversation locked, and
reports them to the state machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from midturn.journal import AnswerQueue, Journal, QueuedReply
from midturn.ports import Clock
from midturn.turn.inputs import AnsweredElsewhere, Happened, Noted
from midturn.turn.votes import under_key

POLL_INTERVAL: Final = 0.1
"""Seconds between polls while a queued answer waits until its question is asked again."""


class ExternalAnswers:
    """Reports queued answers to the state machine.

    An answer that the turn does not accept stays in the queue, because a resumed turn may not have
    asked the question again yet. It is reported again after each event or question of the turn,
    until the turn accepts it. The next process that opens the conversation records the remaining
    answers.
    """

    def __init__(
        self, queue: AnswerQueue, journal: Journal, report: Callable[[Happened], None]
    ) -> None:
        self._queue = queue
        self._journal = journal
        self._report = report
        self._asked = 0
        self._reported: dict[str, tuple[int, int]] = {}
        """The number of events and questions at the time when each answer was last reported."""

    def note_asked(self) -> None:
        """Count a question, because an answer that came too early may belong to it."""
        self._asked += 1

    async def poll(self) -> bool:
        """Report the queued answers. Return whether there are any."""
        queued = await self._queue.collect()
        state = (len(self._journal.events), self._asked) if queued else (0, 0)
        for answer in queued:
            if self._reported.get(answer.key) != state:
                self._reported[answer.key] = state
                self._report(_as_input(answer))
        return bool(queued)

    async def listen(self, clock: Clock) -> None:
        """Report queued answers until cancelled."""
        while True:
            has_answers = await self.poll()
            await (clock.sleep(POLL_INTERVAL) if has_answers else self._queue.changed())


def _as_input(queued: QueuedReply) -> AnsweredElsewhere | Noted:
    """Return a queued answer as an input. The key of a vote or a note is recorded with it."""
    if queued.note is not None:
        return Noted(queued.event_id, under_key(queued.note, queued.key))
    return AnsweredElsewhere(
        queued.event_id, queued.reply, queued.by, queued.key if queued.name else "", queued.digest
    )
