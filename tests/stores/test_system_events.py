"""Reminders, escalations and notifications are written by the server only; no public method
writes them.
"""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from midturn.errors import NotAllowed
from midturn.events.open_question import address
from midturn.events.types import AnsweredBy, Escalated, Event, Notified, Reminded, Vote
from midturn.question.people import Escalation, People
from midturn.stores.batch import event_ids
from midturn.stores.queued_answer import QueuedAnswer
from midturn.stores.store import ConversationStore, record_notice
from support.stored import asking, keep
from support.tapes import Tape

OPS = People(
    ask=["ana"],
    only=True,
    approvals=2,
    remind_after=60,
    escalate=[Escalation(3600, ["lead"])],
    members={"lead": ["bo", "cy"]},
)


def question_for(
    store: ConversationStore, people: People = OPS, *notes: Event
) -> tuple[str, str, Tape]:
    """Create a conversation with a question for certain people; return its ID and the question
    ID.
    """
    from msgspec.structs import replace

    tape, question = asking()
    place = tape.events.index(question)
    tape.events[place] = replace(question, people=people)
    tape.events += [
        replace(note, event_id=event_id) for note, event_id in zip(notes, event_ids(), strict=False)
    ]
    kept = keep(store, tape)
    return kept, address(kept, question.event_id), tape


def record(
    store: ConversationStore, id: str, notice: Reminded | Escalated | Notified
) -> list[Event]:
    """Record a notice; return the notices of the question's conversation."""
    asyncio.run(record_notice(store, id, notice))
    events = store.read_sync(id.partition("-")[0]).events
    return [event for event in events if isinstance(event, Reminded | Escalated | Notified)]


def test_no_public_store_method_writes_a_notice() -> None:
    assert not [name for name in dir(mt.MemoryStore()) if name.startswith("note")]


def test_escalation_adds_the_people_of_the_question(store: ConversationStore) -> None:
    _, id, _ = question_for(store)
    (escalated,) = record(store, id, Escalated(id="", number=1, to=("mallory", "eve")))
    assert isinstance(escalated, Escalated)
    assert escalated.to == ("lead",)
    with pytest.raises(NotAllowed, match="mallory may not answer this: only ana, bo and cy may"):
        store.answer_sync(id, True, user="mallory")
    store.answer_sync(id, True, user="bo")


@pytest.mark.parametrize(
    ("notice", "says"),
    [
        (Escalated(id="", number=2, to=("mallory",)), "no escalation 2"),
        (Escalated(id="", number=0, to=("mallory",)), "no escalation 0"),
        (Reminded(id="", number=6, to=("mallory",)), "no reminder 6"),
        (Notified(id="", about="paid", to=("mallory",)), "Unknown kind of notification: 'paid'"),
    ],
)
def test_notice_not_configured_for_the_question_is_refused(
    store: ConversationStore, notice: Reminded, says: str
) -> None:
    _, id, _ = question_for(store)
    with pytest.raises(NotAllowed, match=says):
        record(store, id, notice)


def test_a_question_without_reminders_has_none(store: ConversationStore) -> None:
    _, id, _ = question_for(store, People(ask=["ana"]))
    with pytest.raises(NotAllowed, match="no reminder 1"):
        record(store, id, Reminded(id="", number=1))


def test_a_vote_is_no_notice(store: ConversationStore) -> None:
    _, id, _ = question_for(store)
    vote = Vote(id="", answered_by=AnsweredBy("user", user="ana"))
    with pytest.raises(TypeError, match="records reminders"):
        record(store, id, vote)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    "note",
    [
        Escalated(id="", number=3, to=("mallory",)),
        Vote(id="", answered_by=AnsweredBy("user", user="bo")),
        Vote(id="", answer=True),
    ],
)
def test_a_forged_note_among_the_queued_answers_is_dropped(
    store: ConversationStore, note: Escalated | Vote
) -> None:
    kept, id, tape = question_for(store)

    async def forged() -> None:
        async with await store.open(kept):
            held = await store.port.look(kept)
            handed = QueuedAnswer(
                event_id=id.rpartition("-")[2],
                at="2026-01-01T00:00:00.000000Z",
                note=note,
                name="forged",
            )
            assert await store.port.queue_answer(held, handed)  # type: ignore[arg-type]  # it is held

    asyncio.run(forged())
    assert store.read_sync(kept).events == tuple(tape.events) or list(
        store.read_sync(kept).events
    ) == list(tape.events)
    with pytest.raises(NotAllowed, match="mallory may not answer this"):
        store.answer_sync(id, True, user="mallory")


def test_forged_escalation_adds_no_one(store: ConversationStore) -> None:
    tape, question = asking()
    del tape
    _, id, _ = question_for(
        store,
        OPS,
        Escalated(id=question.id, number=1, to=("mallory",)),
        Escalated(id=question.id, number=7, to=("eve",)),
    )
    (waiting,) = store.pending_sync()
    assert waiting.whose is not None
    assert waiting.whose.eligible == {"ana", "bo", "cy"}
    for user in ("mallory", "eve"):
        with pytest.raises(NotAllowed, match=f"{user} may not answer this"):
            store.answer_sync(id, True, user=user)
