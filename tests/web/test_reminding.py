"""People are told of their questions: once at each moment, however many servers run."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import midturn as mt
from midturn.question.people import Directory, Person
from midturn.record.events import Escalated, Notified, Reminded
from midturn.store.opening import FileStore
from midturn.store.store import ConversationStore
from midturn.values.text import rfc3339
from midturn.web.board import Board
from midturn.web.notifying import NotifyWhen, Reminding
from midturn.web.port import Port
from support.ntfy import Ntfy, told_by_two_servers
from support.pages import agent_with, asking

OPS = mt.People(
    ask=["ops"],
    only=True,
    remind_after=timedelta(minutes=30),
    escalate=[mt.Escalation(timedelta(hours=2), ["lead"])],
    members={"ops": ["ana", "bo"]},
)
DIRECTORY = Directory(people={"ana": Person(), "bo": Person(), "lead": Person()}, groups={"ops": ("ana", "bo")})


class Time:
    """A clock that stands where a test puts it."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self) -> str:
        """Return the time."""
        return self.text


async def _told(store: ConversationStore, *hours: float) -> list[object]:
    """Have two servers look at a question that has waited for so many hours, one time after the other; return what is noted."""
    result = await agent_with(store, asking(mt.Question.boolean("go", "Deploy?", people=OPS))).run("Ship it.")
    (question,) = result.pending
    clock, boards = Time(), [Board(Port(store)), Board(Port(store))]
    notice = NotifyWhen(after=60.0, address="https://q.example", warn=lambda _: None)
    for waited in hours:
        clock.text = rfc3339(datetime.fromisoformat(question.asked_at) + timedelta(hours=waited))
        servers = [Reminding(board, DIRECTORY, notice, clock) for board in boards]
        for server in servers:
            await server.begin()
        await asyncio.gather(*(server.look() for server in servers))
    for board in boards:
        await board.stop()
    events = (await store.read(result.conversation)).events
    return [event for event in events if isinstance(event, Reminded | Escalated | Notified)]


def test_two_servers_tell_each_moment_once(store: ConversationStore) -> None:
    noted = asyncio.run(_told(store, 0.001, 0.1, 0.1, 0.6, 0.6, 1.1))
    assert [(type(note).__name__, getattr(note, "number", None)) for note in noted if not isinstance(note, Notified)] == [
        ("Reminded", 1),
        ("Reminded", 2),
    ]
    assert [note.about for note in noted if isinstance(note, Notified)] == ["asked", "reminded", "reminded"]


def test_it_is_escalated_once_and_reminded_of_five_times_at_most(store: ConversationStore) -> None:
    noted = asyncio.run(_told(store, 0.1, 2.1, 2.1, *(3 + number / 2 for number in range(8))))
    assert [note.to for note in noted if isinstance(note, Escalated)] == [("lead",)]
    numbers = [note.number for note in noted if isinstance(note, Reminded)]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 5


def test_who_a_question_was_escalated_to_may_answer_it(store: ConversationStore) -> None:
    asyncio.run(_told(store, 2.1))
    (question,) = store.pending_sync()
    assert question.whose is not None
    assert question.whose.ask == ("ops", "lead")
    assert question.whose.eligible == {"ana", "bo", "lead"}
    store.answer_sync(question.id, True, user="lead")


def test_two_processes_tell_each_moment_once(tmp_path: Path) -> None:
    store, ntfy = FileStore(tmp_path / "conversations"), Ntfy()
    try:
        told_by_two_servers(store, str(tmp_path / "conversations"), tmp_path, ntfy)
    finally:
        ntfy.close()
