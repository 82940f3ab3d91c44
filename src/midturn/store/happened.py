"""What happened to the questions of a conversation, read from its events one batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from midturn.core.events import Event
from midturn.core.stream import OpenQuestion, open_turn
from midturn.core.stream.window import starts_turn
from midturn.core.turn.closed import answer_to
from midturn.core.turn.pending import pending
from midturn.store.store_change import StoreChange


def happened(conversation: str, events: Sequence[Event], seen: int, known: Mapping[str, OpenQuestion]) -> Iterator[StoreChange]:
    """Yield what each batch after the first `seen` events changed.

    Args:
        conversation: The id of the conversation.
        events: All of its events.
        seen: How many of them were seen.
        known: The open questions that were told of, by id.
    """
    seen, told = min(seen, len(events)), set(known)
    start = _start(events, seen)
    before, running = _waiting(conversation, events[start:seen]), _running(events[start:seen])
    for end in _ends(events, seen):
        start = _start(events, end)
        now, runs = _waiting(conversation, events[start:end]), _running(events[start:end])
        for question in before.values():
            if question.id not in now and question.id in told:
                told.remove(question.id)
                yield closed(question, events[:end])
        for question in now.values():
            if question.id not in before and question.id not in told:
                told.add(question.id)
                yield asked(question)
        if running and runs != running:
            yield StoreChange(kind="turn_ended", conversation=conversation)
        before, running = now, runs
    # An open turn that its user has edited is not what it was.
    yield from (asked(question) for question in before.values() if question.id not in told)
    yield from (closed(question, events) for id, question in known.items() if id in told and id not in before)  # noqa: A001


def asked(question: OpenQuestion) -> StoreChange:
    """Say that a question is open."""
    return StoreChange(kind="asked", conversation=question.conversation, id=question.id, question=question)


def closed(question: OpenQuestion, events: Sequence[Event]) -> StoreChange:
    """Say how a question was closed; `events` are empty where nobody can know."""
    answer = answer_to(events, question.request.event_id)
    if answer is None:
        return StoreChange(kind="withdrawn", conversation=question.conversation, id=question.id)
    return StoreChange(kind="answered", conversation=question.conversation, id=question.id, answered_by=answer.answered_by)


def _waiting(conversation: str, events: Sequence[Event]) -> dict[str, OpenQuestion]:
    return {question.id: question for question in pending(events, conversation)}


def _running(events: Sequence[Event]) -> str:
    """Return what names the open turn; nothing where there is none."""
    window = open_turn(events)
    return window.events[0].event_id if window else ""


def _start(events: Sequence[Event], end: int) -> int:
    return next((place for place in range(end - 1, -1, -1) if starts_turn(events[place])), 0)


def _ends(events: Sequence[Event], seen: int) -> Iterator[int]:
    """Yield the ends of the batches after the first `seen` events: what is recorded at once happens at once."""
    return (place + 1 for place in range(seen, len(events)) if not events[place].more)
