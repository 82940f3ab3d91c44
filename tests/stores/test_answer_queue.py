"""The answer queue: answers to conversations that another process has locked."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from msgspec.structs import replace

import midturn as mt
from midturn.errors import AlreadyAnswered, AnswerError, NotOpen, StoreError
from midturn.events.open_question import address
from midturn.events.types import AnsweredBy, InquiryAnswered, InquiryRequest
from midturn.question.answer_type import SecretType
from midturn.question.reply import Answered
from midturn.stores.answer_service import Receipt
from midturn.stores.folder import Folder
from midturn.stores.locked import LockedConversation
from midturn.stores.memory_conversations import MemoryFeed
from midturn.stores.opening import FileStore, open_store
from midturn.stores.port import LockedBy
from midturn.stores.queued_answer import (
    AnswerQueueFolder,
    FileAnswerQueue,
    QueuedAnswer,
    SubmittedAnswer,
)
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from midturn.turn.view import TurnView
from support.agents import ship
from support.loops import in_a_loop
from support.processes import Forked, kill, line, output
from support.stored import asking, hold, keep, path_of, queued_answers, release, reopen
from support.tapes import CONFIRM

FIRST = QueuedAnswer(
    event_id="e4",
    at="2026-11-21T10:00:00Z",
    submission=SubmittedAnswer(value=True, user="u1", via="web"),
)
SECOND = QueuedAnswer(
    event_id="e4", at="2026-11-21T10:00:01Z", submission=SubmittedAnswer(value=False, user="u2")
)
OTHER = QueuedAnswer(
    event_id="../e5", at="2026-11-21T09:00:00Z", submission=SubmittedAnswer(reply="")
)


def question_id(conversation: str) -> str:
    """Return the ID of the question from `asking`."""
    return address(conversation, "e4")


def recorded(store: ConversationStore, id: str) -> list[Any]:
    return [
        event.answer for event in store.read_sync(id).events if isinstance(event, InquiryAnswered)
    ]


async def recording_answers(journal: LockedConversation, question: InquiryRequest) -> None:
    """Hold a conversation as a running turn does, recording queued answers."""
    while True:
        for given in await journal.answers.collect():
            assert isinstance(given.reply, Answered)
            answer = InquiryAnswered(id=question.id, answer=True, answered_by=given.by)
            await journal.append([answer])
        await asyncio.sleep(0.01)


async def answer_queued(journal: LockedConversation) -> None:
    """Wait until an answer is queued."""
    for _ in range(500):
        if await journal.answers.collect():
            return
        await asyncio.sleep(0.01)


async def run_with(task: Any, other: Any) -> Any:
    """Run `task` while `other` runs."""
    running = asyncio.ensure_future(other)
    try:
        return await task
    finally:
        running.cancel()


# The queue --------------------------------------------------------------------------------------
# ------------------------


class FileQueue:
    """The answer queue of a conversation on disk."""

    def __init__(self, folder: Folder) -> None:
        self.answers = AnswerQueueFolder(folder)
        self.feed = FileAnswerQueue(self.answers)


class MemoryQueue:
    """The answer queue of a conversation in memory."""

    def __init__(self) -> None:
        self.answers = self.feed = MemoryFeed()


@pytest.fixture(params=["disk", "memory"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> FileQueue | MemoryQueue:
    return FileQueue(Folder.at(tmp_path)) if request.param == "disk" else MemoryQueue()


def test_queue_returns_answers_oldest_first(box: FileQueue | MemoryQueue) -> None:
    assert box.answers.put(FIRST)
    assert box.answers.put(OTHER)

    assert drive(box.feed.collect()) == (OTHER, FIRST)

    drive(box.feed.refuse("e4"))
    drive(box.feed.refuse("e4"))
    assert drive(box.feed.collect()) == (OTHER,)


def test_first_queued_answer_wins(box: FileQueue | MemoryQueue) -> None:
    assert box.answers.put(FIRST)
    assert not box.answers.put(SECOND)

    assert drive(box.feed.collect()) == (FIRST,)


def test_empty_queue_costs_nothing(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as folder:
        box = AnswerQueueFolder(folder)
        assert box.collect() == ()
        box.remove("e4")

    assert list(tmp_path.iterdir()) == []


def test_read_error_of_the_queue_is_not_an_empty_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Folder.at(tmp_path) as folder:
        box = AnswerQueueFolder(folder)
        box.put(FIRST)

        def fail(*_: object, **__: object) -> None:
            raise OSError(errno.EIO, "it cannot be read")

        with monkeypatch.context() as broken:
            broken.setattr(os, "stat", fail)
            with pytest.raises(StoreError):
                box.collect()
        assert box.collect() == (FIRST,)


def test_event_id_is_not_used_as_a_path(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as folder:
        AnswerQueueFolder(folder).put(OTHER)

    (name,) = (tmp_path / "answers").iterdir()
    assert len(name.name) == 64 + len(".json")
    assert [each.name for each in tmp_path.iterdir()] == ["answers"]


@pytest.mark.parametrize(
    "content", ['{"event_id": 4', "", "[" * 9_999, '{"event_id":"e4","at":"","submission":{}}']
)
def test_invalid_file_in_the_queue_is_moved_aside(tmp_path: Path, content: str) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "e4.json").write_text(content)
    (tmp_path / "answers" / ".e5.tmp").write_text("half a")
    with Folder.at(tmp_path) as folder:
        box = AnswerQueueFolder(folder)
        assert box.collect() == ()
        box.put(FIRST)
        assert box.collect() == (FIRST,)

    assert (tmp_path / "answers" / "e4.json.unreadable").read_text() == content


def test_link_in_the_queue_is_moved_aside_unread(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "e5.json").write_text('{"event_id":"e5","at":"","submission":{"value":true}}')
    (tmp_path / "answers" / "e5.json").symlink_to(tmp_path / "e5.json")

    with Folder.at(tmp_path) as folder:
        assert AnswerQueueFolder(folder).collect() == ()


# The store
# --------------------------------------------------------------------------------------------------


def test_lock_holder_records_queued_answers(store: ConversationStore) -> None:
    tape, question = asking()
    journal = hold(store, tape)

    receipt = asyncio.run(
        run_with(
            store.answer(question_id(journal.conversation), True, user="u1"),
            recording_answers(journal, question),
        )
    )

    assert receipt == Receipt(journal.conversation, question_id(journal.conversation), held=True)
    assert recorded(store, journal.conversation) == [True]
    assert journal.events[-1].to_json()["answered_by"] == {"by": "user", "via": "api", "user": "u1"}


def test_second_answer_to_a_busy_holder_is_late_at_once(store: ConversationStore) -> None:
    tape, _ = asking()
    journal = hold(store, tape)

    receipt = asyncio.run(store.answer(question_id(journal.conversation), True, user="u1"))
    assert receipt.held
    with pytest.raises(AlreadyAnswered, match=r"by u1 \(api\)"):
        asyncio.run(store.answer(question_id(journal.conversation), False, user="u2"))
    assert recorded(store, journal.conversation) == []

    release(journal)
    assert recorded(store, journal.conversation) == [True]
    assert store.ready_sync() == [journal.conversation]


def test_answer_during_release_is_recorded(store: ConversationStore) -> None:
    tape, _ = asking()
    journal = hold(store, tape)

    async def closing() -> None:
        await answer_queued(journal)
        await journal.__aexit__(None, None, None)

    async def both() -> Receipt:
        receipt, _ = await asyncio.gather(
            store.answer(question_id(journal.conversation), True), closing()
        )
        return receipt

    receipt = asyncio.run(
        both()
    )  # the process that releases the lock records the answer, or the sender does
    assert (receipt.conversation, receipt.id) == (
        journal.conversation,
        question_id(journal.conversation),
    )
    assert recorded(store, journal.conversation) == [True]


def test_earlier_answer_of_the_lock_holder_wins(store: ConversationStore) -> None:
    """The answer from outside was already queued; its responder is told who was first."""
    tape, question = asking()
    journal = hold(store, tape)

    async def at_the_terminal() -> None:
        await answer_queued(journal)
        await journal.append(
            [
                InquiryAnswered(
                    id=question.id, answer=False, answered_by=AnsweredBy("user", via="terminal")
                )
            ]
        )

    async def both() -> None:
        await asyncio.gather(
            store.answer(question_id(journal.conversation), True), at_the_terminal()
        )

    with pytest.raises(AlreadyAnswered, match=r"by a person \(terminal\)"):
        asyncio.run(both())
    assert recorded(store, journal.conversation) == [False]
    assert queued_answers(journal) == ()


def test_lock_holder_may_refuse_an_answer(store: ConversationStore) -> None:
    tape, _ = asking()
    journal = hold(store, tape)

    async def refuse() -> None:
        await answer_queued(journal)
        await journal.answers.refuse("e4")

    async def both() -> None:
        await asyncio.gather(store.answer(question_id(journal.conversation), True), refuse())

    with pytest.raises(AnswerError, match="did not accept the answer; the question is still open"):
        asyncio.run(both())


def test_invalid_answer_is_not_queued(store: ConversationStore) -> None:
    journal = hold(store, asking()[0])

    with pytest.raises(AnswerError):
        asyncio.run(store.answer(question_id(journal.conversation), "perhaps"))
    with pytest.raises(NotOpen):
        asyncio.run(store.answer(address(journal.conversation, "zz"), True))

    assert queued_answers(journal) == ()


@pytest.mark.parametrize("bytes_of_it", [3_000_000, 20_000_000])
def test_too_large_answer_is_not_queued(store: ConversationStore, bytes_of_it: int) -> None:
    """The lock holder could not record it, and neither could a later one."""
    journal = hold(store, asking()[0])

    with pytest.raises(AnswerError, match=r"too large.*Pass large content as a file"):
        asyncio.run(store.answer(question_id(journal.conversation), True, reason="x" * bytes_of_it))

    assert queued_answers(journal) == ()


def test_secret_is_not_queued(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    tape, question = asking()
    tape.events[-1] = replace(question, question=replace(CONFIRM, answer_type=SecretType()))
    journal = hold(store, tape)

    with pytest.raises(AnswerError, match="A secret is not accepted here"):
        asyncio.run(store.answer(question_id(journal.conversation), "hunter2"))

    assert not (path_of(store, journal.conversation) / "answers").exists()
    assert all(
        b"hunter2" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    )


HOLDER = """
import sys
from midturn.stores.opening import open_store
from midturn.stores.sync_forms import drive
journal = drive(open_store(sys.argv[1]).open(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


def test_answer_queued_for_a_killed_holder_is_recorded_by_the_next(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    conversation = keep(store, asking()[0])
    holder = Forked(HOLDER, tmp_path, conversation)
    assert line(holder) == "held"

    receipt = asyncio.run(store.answer(question_id(conversation), True, user="u1"))
    assert receipt.held
    kill(holder)

    assert store.ready_sync() == [conversation]
    journal = reopen(store, conversation)
    assert recorded(store, conversation) == [True]
    assert queued_answers(journal) == ()
    release(journal)


ANSWERER = """
import asyncio, sys
from midturn.errors import AlreadyAnswered
from midturn.stores.opening import open_store
sys.stdin.read()
try:
    print(asyncio.run(open_store(sys.argv[1]).answer(sys.argv[3], sys.argv[2] == "1", user=sys.argv[2])).id)
except AlreadyAnswered as error:
    print(f"second to {error.by}")
"""


@pytest.mark.parametrize("is_held", [False, True])
def test_one_of_many_concurrent_answers_is_first(tmp_path: Path, *, is_held: bool) -> None:
    store = open_store(tmp_path)
    journal = hold(store, asking()[0])
    if not is_held:
        release(journal)
    answerers = [
        Forked(ANSWERER, tmp_path, number, question_id(journal.conversation)) for number in range(5)
    ]

    for answerer in answerers:
        answerer.stdin.close()
    printed = [output(answerer).strip() for answerer in answerers]
    release(journal)

    winner = printed.index(question_id(journal.conversation))
    assert [line for number, line in enumerate(printed) if number != winner] == [
        f"second to {winner} (api)"
    ] * 4
    assert recorded(store, journal.conversation) == [winner == 1]


def test_concurrent_answers_are_serialised(store: ConversationStore) -> None:
    tape, first = asking()
    questions = [first, *(tape.ask(tape.call(f"call_{number}")) for number in range(2, 9))]
    kept = keep(store, tape)

    async def answer_concurrently() -> list[Receipt]:
        return await asyncio.gather(
            *(store.answer(address(kept, question.event_id), True) for question in questions)
        )

    assert [receipt.held for receipt in asyncio.run(answer_concurrently())] == [False] * 8
    assert recorded(store, kept) == [True] * 8


@in_a_loop
async def test_answer_recorded_during_a_lookup_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found either in the queue or in the log.

    Otherwise the responder would be told that it was not accepted.
    """
    store = FileStore(tmp_path)
    model = mt.ScriptedModel([{"calls": [{"name": "ship", "arguments": {}}]}, {"text": "Done."}])
    asked = (await mt.Agent(model, tools=[ship], store=store).run("Ship it.")).pending[0]
    event = asked.request.event_id
    held = await store.open(asked.conversation)
    looked = await store.port.look(asked.conversation)
    assert isinstance(looked, LockedBy)
    at = "2026-11-21T10:00:00.000000Z"
    assert await store.port.queue_answer(
        looked, QueuedAnswer(event_id=event, at=at, submission=SubmittedAnswer(value=True))
    )
    collect, is_recorded = AnswerQueueFolder.collect, False

    def while_the_holder_records(answers: AnswerQueueFolder) -> tuple[QueuedAnswer, ...]:
        nonlocal is_recorded
        if not is_recorded:
            is_recorded = True
            # the loop is busy with the lookup
            holder = Thread(target=lambda: drive(held.drain_answer_queue()))
            holder.start()
            holder.join()
        return collect(answers)

    monkeypatch.setattr(AnswerQueueFolder, "collect", while_the_holder_records)
    turn = (await store.port.look(asked.conversation)).turn
    assert any(queued_answers.event_id == event for queued_answers in turn.handed) or TurnView.last(
        turn.events
    ).decision(event)
    await held.__aexit__(None, None, None)
