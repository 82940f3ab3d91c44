"""People are notified of their questions once per occasion, with any number of servers, and
the log records what was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import midturn as mt
from midturn.events.types import Escalated, Event, Notified, Reminded
from midturn.inbox.deliveries import LEASE, Deliveries
from midturn.inbox.notifications import NotifyWhen, Reminding
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.store_access import Port
from midturn.question.people import Directory, Person
from midturn.question.text import rfc3339
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore, record_notice
from support.ntfy import Ntfy, check_two_notifying_servers
from support.pages import agent_with, asking

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of the library

OPS = mt.People(
    ask=["ops"],
    only=True,
    remind_after=timedelta(minutes=30),
    escalate=[mt.Escalation(timedelta(hours=2), ["lead"])],
    members={"ops": ["ana", "bo"]},
)
MINUTE = 1 / 60  # in hours


@pytest.fixture
def ntfy() -> Generator[Ntfy]:
    """A server that receives notifications."""
    server = Ntfy()
    yield server
    server.close()


def _directory(*urls: str) -> Directory:
    return Directory(
        people={"ana": Person(notify=urls), "bo": Person(), "lead": Person(notify=urls)},
        groups={"ops": ("ana", "bo")},
    )


class Scene:
    """One open question, servers that send notices about it, and a settable clock."""

    def __init__(self, store: ConversationStore, directory: Directory) -> None:
        self.store = store
        self.warnings: list[str] = []
        self.now = ""
        self._directory = directory
        self.question: mt.OpenQuestion

    async def ask(self, people: mt.People = OPS) -> None:
        result = await agent_with(
            self.store, asking(mt.Question.boolean("go", "Deploy?", people=people))
        ).run("Ship it.")
        (self.question,) = result.pending

    def waited(self, hours: float) -> None:
        """Set the clock to this time after the question."""
        self.now = rfc3339(datetime.fromisoformat(self.question.asked_at) + timedelta(hours=hours))

    async def look(self, hours: float, servers: int = 2) -> None:
        """Start servers at this time, let all of them check once, and stop them."""
        self.waited(hours)
        boards = [OpenQuestionList(Port(self.store)) for _ in range(servers)]
        notice = NotifyWhen(after=60.0, address="https://q.example", warn=self.warnings.append)
        started = [Reminding(board, self._directory, notice, lambda: self.now) for board in boards]
        for server in started:
            await server.begin()
        await asyncio.gather(*(server.look() for server in started))
        for board in boards:
            await board.stop()

    async def notes(self) -> list[Reminded | Escalated | Notified]:
        """Return the recorded notices."""
        events: list[Event] = list((await self.store.read(self.question.conversation)).events)
        return [event for event in events if isinstance(event, Reminded | Escalated | Notified)]


def _played(
    store: ConversationStore, directory: Directory, *hours: float
) -> list[Reminded | Escalated | Notified]:
    async def play() -> list[Reminded | Escalated | Notified]:
        scene = Scene(store, directory)
        await scene.ask()
        for waited in hours:
            await scene.look(waited)
        return await scene.notes()

    return asyncio.run(play())


def test_two_servers_send_each_notice_once(store: ConversationStore, ntfy: Ntfy) -> None:
    noted = _played(store, _directory(ntfy.url), 0.001, 0.1, 0.1, 0.6, 0.6, 1.1)
    assert [note.number for note in noted if isinstance(note, Reminded)] == [1, 2]
    told = [
        (note.about, note.number, note.to, note.error)
        for note in noted
        if isinstance(note, Notified)
    ]
    assert told == [
        ("asked", 0, ("ops",), None),
        ("reminded", 1, ("ops",), None),
        ("reminded", 2, ("ops",), None),
    ]
    assert len(ntfy.taken) == 3


def test_one_escalation_and_at_most_five_reminders(store: ConversationStore, ntfy: Ntfy) -> None:
    noted = _played(
        store, _directory(ntfy.url), 0.1, 2.1, 2.1, *(3 + number / 2 for number in range(8))
    )
    assert [note.to for note in noted if isinstance(note, Escalated)] == [("lead",)]
    numbers = [note.number for note in noted if isinstance(note, Reminded)]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 5


def test_escalation_target_may_answer(store: ConversationStore) -> None:
    _played(store, _directory(), 2.1)
    (question,) = store.pending_sync()
    assert question.whose is not None
    assert question.whose.ask == ("ops", "lead")
    assert question.whose.eligible == {"ana", "bo", "lead"}
    store.answer_sync(question.id, True, user="lead")


def test_without_an_address_no_notice_is_recorded(store: ConversationStore) -> None:
    noted = _played(store, _directory(), 0.1, 0.6, 0.6)
    assert [
        (note.type, note.about, note.error) for note in noted if isinstance(note, Notified)
    ] == [
        ("notified", "asked", "no address"),
        ("notified", "reminded", "no address"),
    ]
    assert not any(isinstance(note, Reminded) for note in noted)
    (question,) = store.pending_sync()
    assert question.whose is not None
    assert question.whose.not_told == "ops could not be notified: no address"


def test_a_failed_notice_is_recorded_as_failed_and_sent_again_later(
    store: ConversationStore, ntfy: Ntfy
) -> None:
    """The servers stop after each check. The next ones read from the store what was tried and
    when to retry.
    """

    async def play() -> None:
        scene = Scene(store, _directory(ntfy.url))
        await scene.ask()
        ntfy.status = 500
        await scene.look(2 * MINUTE)
        await scene.look(2 * MINUTE + 5 / 3600)  # the first retry is due after ten seconds
        assert len(ntfy.taken) == 1
        (failed,) = await scene.notes()
        assert isinstance(failed, Notified)
        assert (failed.about, failed.error) == ("asked", "not accepted by ntfy://…")
        assert failed.retry_at > scene.now
        (question,) = await store.pending()
        assert (
            question.to_json()["people"]["not_told"]  # type: ignore[index,call-overload]
            == "ops could not be notified: not accepted by ntfy://…"
        )
        ntfy.status = 200
        await scene.look(2 * MINUTE + 15 / 3600)
        await scene.look(4 * MINUTE)
        assert len(ntfy.taken) == 2
        assert [note.error for note in await scene.notes() if isinstance(note, Notified)] == [
            "not accepted by ntfy://…",
            None,
        ]
        (question,) = await store.pending()
        assert question.whose is not None
        assert not question.whose.not_told

    asyncio.run(play())


def test_failing_notice_is_tried_five_times(store: ConversationStore, ntfy: Ntfy) -> None:
    async def play() -> None:
        scene = Scene(store, _directory(ntfy.url))
        await scene.ask(mt.People(ask=["ops"], members={"ops": ["ana"]}))
        ntfy.status = 500
        for minutes in (2, 2.5, 3.8, 9.5, 25, 45, 90, 900):
            await scene.look(minutes * MINUTE)
        assert len(ntfy.taken) == 5
        noted = [note for note in await scene.notes() if isinstance(note, Notified)]
        assert [bool(note.retry_at) for note in noted] == [True] * 4 + [False]
        assert (
            scene.warnings[-1]
            == "Could not send a question to ntfy://…: the service did not accept it; it will not"
            " be retried."
        )

    asyncio.run(play())


def test_a_reminder_replaces_the_first_notice_that_failed(
    store: ConversationStore, ntfy: Ntfy
) -> None:
    async def play() -> None:
        scene = Scene(store, _directory(ntfy.url))
        await scene.ask()
        ntfy.status = 500
        await scene.look(29.9 * MINUTE)
        ntfy.status = 200
        for minutes in (30.01, 31, 32, 33):
            await scene.look(minutes * MINUTE)
        assert [each["message"].splitlines()[1][:7] for each in ntfy.taken] == [
            "It is a",
            "It is s",
        ]

    asyncio.run(play())


def test_only_the_address_that_failed_is_sent_the_notice_again(
    store: ConversationStore, ntfy: Ntfy
) -> None:
    other = Ntfy("others")
    other.status = 500

    async def play() -> None:
        scene = Scene(store, _directory(ntfy.url, other.url))
        await scene.ask()
        await scene.look(0.1)
        other.status = 200
        await scene.look(0.2)
        await scene.look(0.3)

    try:
        asyncio.run(play())
        assert (len(ntfy.taken), len(other.taken)) == (1, 2)
    finally:
        other.close()


@pytest.mark.parametrize("is_sent", [False, True])
def test_another_server_takes_over_notice_of_a_dead_server(
    store: ConversationStore, ntfy: Ntfy, *, is_sent: bool
) -> None:
    async def play() -> None:
        scene = Scene(store, _directory(ntfy.url))
        await scene.ask()
        scene.waited(0.1)
        dead = Deliveries(Port(store), "people", lambda: scene.now)
        name = f"{scene.question.id}/asked-0"
        delivery, is_ours = await dead.claim(name)
        assert is_ours
        if is_sent:  # and it died before the result was recorded
            await dead.settle(name, type(delivery)(tries=1, is_over=True))
        else:
            await scene.look(0.1 + (LEASE - 5) / 3600)
            assert ntfy.taken == []
        await scene.look(0.1 + (LEASE + 5) / 3600)
        assert len(ntfy.taken) == (0 if is_sent else 1)
        assert [
            (note.about, note.error) for note in await scene.notes() if isinstance(note, Notified)
        ] == [("asked", None)]

    asyncio.run(play())


def test_each_reassignment_is_notified(store: ConversationStore, ntfy: Ntfy) -> None:
    async def play() -> None:
        scene = Scene(store, _directory(ntfy.url))
        await scene.ask()
        await scene.look(0.1)
        for to in ("bo", "ana"):
            await store.reassign(scene.question.id, [to], user="bo")
            await scene.look(0.11)
            await scene.look(0.12)
        told = [
            (note.about, note.number, note.to, note.error)
            for note in await scene.notes()
            if isinstance(note, Notified)
        ]
        assert told == [
            ("asked", 0, ("ops",), None),
            ("reassigned", 1, ("bo",), "no address"),
            ("reassigned", 2, ("ana",), None),
        ]

    asyncio.run(play())


def _nothing_more(
    noted: Callable[[str], list[Event]], store: ConversationStore, ntfy: Ntfy
) -> None:
    """Check that this version sends nothing that an earlier version has recorded."""

    async def play() -> None:
        scene = Scene(store, _directory(ntfy.url))
        await scene.ask()
        for note in noted(scene.question.id):
            await record_notice(store, scene.question.id, note)  # type: ignore[arg-type]  # notes only
        await scene.look(2.1)
        await scene.look(2.2)

    asyncio.run(play())
    assert [each["message"].splitlines()[1] for each in ntfy.taken] == []


def test_notices_of_earlier_versions_are_not_sent_again(
    store: ConversationStore, ntfy: Ntfy
) -> None:
    def noted(_: str) -> list[Event]:
        asked = Notified(id="", about="asked", to=("ops",))
        reminded = [
            Reminded(id="", number=4, to=("ops",)),
            Notified(id="", about="reminded", to=("ops",)),
        ]
        return [
            asked,
            Escalated(id="", number=1, to=("lead",)),
            Notified(id="", about="escalated", to=("lead",)),
            *reminded,
        ]

    _nothing_more(noted, store, ntfy)


def test_two_processes_send_each_notice_once(tmp_path: Path) -> None:
    store, ntfy = FileStore(tmp_path / "conversations"), Ntfy()
    try:
        check_two_notifying_servers(store, str(tmp_path / "conversations"), tmp_path, ntfy)
    finally:
        ntfy.close()
