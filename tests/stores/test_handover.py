"""Answers to conversations that somebody else holds."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
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
from midturn.stores.locked import HeldConversation
from midturn.stores.memory_conversations import MemoryFeed
from midturn.stores.opening import FileStore, open_store
from midturn.stores.port import HeldBy
from midturn.stores.queued_answer import FileFeed, HandedOver, HandoverFolder, Submission
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from midturn.turn.view import TurnView
from support.agents import ship
from support.loops import in_a_loop
from support.processes import Forked, kill, line, output
from support.stored import asking, handed, hold, keep, path_of, release, reopen
from support.tapes import CONFIRM

FIRST = HandedOver(event_id="e4", at="2026-11-21T10:00:00Z", submission=Submission(value=True, user="u1", via="web"))
SECOND = HandedOver(event_id="e4", at="2026-11-21T10:00:01Z", submission=Submission(value=False, user="u2"))
OTHER = HandedOver(event_id="../e5", at="2026-11-21T09:00:00Z", submission=Submission(reply=""))


def e4(conversation: str) -> str:
    """Return the address of what `asking` asks."""
    return address(conversation, "e4")


def recorded(store: ConversationStore, id: str) -> list[Any]:
    return [event.answer for event in store.read_sync(id).events if isinstance(event, InquiryAnswered)]


async def collecting(journal: HeldConversation, question: InquiryRequest) -> None:
    """Hold a conversation as a running turn does: record what is handed over."""
    while True:
        for given in await journal.answers.collect():
            assert isinstance(given.reply, Answered)
            answer = InquiryAnswered(id=question.id, answer=True, answered_by=given.by)
            await journal.append([answer])
        await asyncio.sleep(0.01)


async def something_in(journal: HeldConversation) -> None:
    """Wait until something is handed over."""
    for _ in range(500):
        if await journal.answers.collect():
            return
        await asyncio.sleep(0.01)


async def beside(task: Any, other: Any) -> Any:
    """Run `task` while `other` goes on."""
    running = asyncio.ensure_future(other)
    try:
        return await task
    finally:
        running.cancel()


# The box ----------------------------------------------------------------------------------------------------------------


class FileBox:
    """The answers of a conversation on disk."""

    def __init__(self, folder: Folder) -> None:
        self.answers = HandoverFolder(folder)
        self.feed = FileFeed(self.answers)


class MemoryBox:
    """The answers of a conversation in memory."""

    def __init__(self) -> None:
        self.answers = self.feed = MemoryFeed()


@pytest.fixture(params=["disk", "memory"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> FileBox | MemoryBox:
    return FileBox(Folder.at(tmp_path)) if request.param == "disk" else MemoryBox()


def test_what_is_put_in_is_what_comes_out_oldest_first(box: FileBox | MemoryBox) -> None:
    assert box.answers.put(FIRST)
    assert box.answers.put(OTHER)

    assert drive(box.feed.collect()) == (OTHER, FIRST)

    drive(box.feed.refuse("e4"))
    drive(box.feed.refuse("e4"))
    assert drive(box.feed.collect()) == (OTHER,)


def test_the_first_wins(box: FileBox | MemoryBox) -> None:
    assert box.answers.put(FIRST)
    assert not box.answers.put(SECOND)

    assert drive(box.feed.collect()) == (FIRST,)


def test_an_empty_box_costs_nothing(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as folder:
        box = HandoverFolder(folder)
        assert box.collect() == ()
        box.remove("e4")

    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_say_whether_somebody_answered_is_not_taken_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Folder.at(tmp_path) as folder:
        box = HandoverFolder(folder)
        box.put(FIRST)

        def fail(*_: object, **__: object) -> None:
            raise OSError(errno.EIO, "it cannot be read")

        with monkeypatch.context() as broken:
            broken.setattr(os, "stat", fail)
            with pytest.raises(StoreError):
                box.collect()
        assert box.collect() == (FIRST,)


def test_an_id_from_a_stream_is_no_path(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as folder:
        HandoverFolder(folder).put(OTHER)

    (name,) = (tmp_path / "answers").iterdir()
    assert len(name.name) == 64 + len(".json")
    assert [each.name for each in tmp_path.iterdir()] == ["answers"]


@pytest.mark.parametrize("content", ['{"event_id": 4', "", "[" * 9_999, '{"event_id":"e4","at":"","submission":{}}'])
def test_a_file_that_is_no_answer_is_put_aside(tmp_path: Path, content: str) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "e4.json").write_text(content)
    (tmp_path / "answers" / ".e5.tmp").write_text("half a")
    with Folder.at(tmp_path) as folder:
        box = HandoverFolder(folder)
        assert box.collect() == ()
        box.put(FIRST)
        assert box.collect() == (FIRST,)

    assert (tmp_path / "answers" / "e4.json.unreadable").read_text() == content


def test_a_link_among_the_answers_is_put_aside_unread(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "e5.json").write_text('{"event_id":"e5","at":"","submission":{"value":true}}')
    (tmp_path / "answers" / "e5.json").symlink_to(tmp_path / "e5.json")

    with Folder.at(tmp_path) as folder:
        assert HandoverFolder(folder).collect() == ()


# The store --------------------------------------------------------------------------------------------------------------


def test_the_holder_records_what_is_handed_over(store: ConversationStore) -> None:
    tape, question = asking()
    journal = hold(store, tape)

    receipt = asyncio.run(beside(store.answer(e4(journal.conversation), True, user="u1"), collecting(journal, question)))

    assert receipt == Receipt(journal.conversation, e4(journal.conversation), held=True)
    assert recorded(store, journal.conversation) == [True]
    assert journal.events[-1].to_json()["answered_by"] == {"by": "user", "via": "api", "user": "u1"}


def test_a_busy_holder_has_it_later_and_the_second_comes_too_late_at_once(store: ConversationStore) -> None:
    tape, _ = asking()
    journal = hold(store, tape)

    receipt = asyncio.run(store.answer(e4(journal.conversation), True, user="u1"))
    assert receipt.held
    with pytest.raises(AlreadyAnswered, match=r"by u1 \(api\)"):
        asyncio.run(store.answer(e4(journal.conversation), False, user="u2"))
    assert recorded(store, journal.conversation) == []

    release(journal)
    assert recorded(store, journal.conversation) == [True]
    assert store.ready_sync() == [journal.conversation]


def test_whoever_answers_while_the_holder_closes_records_it(store: ConversationStore) -> None:
    tape, _ = asking()
    journal = hold(store, tape)

    async def closing() -> None:
        await something_in(journal)
        await journal.__aexit__(None, None, None)

    async def both() -> Receipt:
        receipt, _ = await asyncio.gather(store.answer(e4(journal.conversation), True), closing())
        return receipt

    assert asyncio.run(both()) == Receipt(journal.conversation, e4(journal.conversation))
    assert recorded(store, journal.conversation) == [True]


def test_an_answer_at_the_terminal_of_the_holder_that_comes_first_stands(store: ConversationStore) -> None:
    """The one from outside was handed over already: it is told who was faster."""
    tape, question = asking()
    journal = hold(store, tape)

    async def at_the_terminal() -> None:
        await something_in(journal)
        await journal.append([InquiryAnswered(id=question.id, answer=False, answered_by=AnsweredBy("user", via="terminal"))])

    async def both() -> None:
        await asyncio.gather(store.answer(e4(journal.conversation), True), at_the_terminal())

    with pytest.raises(AlreadyAnswered, match=r"by a person \(terminal\)"):
        asyncio.run(both())
    assert recorded(store, journal.conversation) == [False]
    assert handed(journal) == ()


def test_a_holder_may_refuse(store: ConversationStore) -> None:
    tape, _ = asking()
    journal = hold(store, tape)

    async def refuse() -> None:
        await something_in(journal)
        await journal.answers.refuse("e4")

    async def both() -> None:
        await asyncio.gather(store.answer(e4(journal.conversation), True), refuse())

    with pytest.raises(AnswerError, match="did not accept the answer; the question is still open"):
        asyncio.run(both())


def test_what_does_not_fit_is_not_handed_over(store: ConversationStore) -> None:
    journal = hold(store, asking()[0])

    with pytest.raises(AnswerError):
        asyncio.run(store.answer(e4(journal.conversation), "perhaps"))
    with pytest.raises(NotOpen):
        asyncio.run(store.answer(address(journal.conversation, "zz"), True))

    assert handed(journal) == ()


@pytest.mark.parametrize("bytes_of_it", [3_000_000, 20_000_000])
def test_what_is_too_large_to_be_recorded_is_not_handed_over(store: ConversationStore, bytes_of_it: int) -> None:
    """Its holder could not record it, nor could whoever goes on after it."""
    journal = hold(store, asking()[0])

    with pytest.raises(AnswerError, match=r"too large.*Pass large content as a file"):
        asyncio.run(store.answer(e4(journal.conversation), True, reason="x" * bytes_of_it))

    assert handed(journal) == ()


def test_a_secret_is_not_handed_over(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    tape, question = asking()
    tape.events[-1] = replace(question, question=replace(CONFIRM, answer_type=SecretType()))
    journal = hold(store, tape)

    with pytest.raises(AnswerError, match="A secret is not taken here"):
        asyncio.run(store.answer(e4(journal.conversation), "hunter2"))

    assert not (path_of(store, journal.conversation) / "answers").exists()
    assert all(b"hunter2" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


HOLDER = """
import sys
from midturn.stores.opening import open_store
from midturn.stores.sync_forms import drive
journal = drive(open_store(sys.argv[1]).open(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


def test_what_was_handed_to_a_holder_that_is_killed_is_recorded_by_the_next(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    conversation = keep(store, asking()[0])
    holder = Forked(HOLDER, tmp_path, conversation)
    assert line(holder) == "held"

    receipt = asyncio.run(store.answer(e4(conversation), True, user="u1"))
    assert receipt.held
    kill(holder)

    assert store.ready_sync() == [conversation]
    journal = reopen(store, conversation)
    assert recorded(store, conversation) == [True]
    assert handed(journal) == ()
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
def test_of_many_who_answer_at_once_exactly_one_is_first(tmp_path: Path, *, is_held: bool) -> None:
    store = open_store(tmp_path)
    journal = hold(store, asking()[0])
    if not is_held:
        release(journal)
    answerers = [Forked(ANSWERER, tmp_path, number, e4(journal.conversation)) for number in range(5)]

    for answerer in answerers:
        answerer.stdin.close()
    printed = [output(answerer).strip() for answerer in answerers]
    release(journal)

    winner = printed.index(e4(journal.conversation))
    assert [line for number, line in enumerate(printed) if number != winner] == [f"second to {winner} (api)"] * 4
    assert recorded(store, journal.conversation) == [winner == 1]


def test_answers_that_arrive_together_wait_for_each_other(store: ConversationStore) -> None:
    tape, first = asking()
    questions = [first, *(tape.ask(tape.call(f"call_{number}")) for number in range(2, 9))]
    kept = keep(store, tape)

    async def together() -> list[Receipt]:
        return await asyncio.gather(*(store.answer(address(kept, question.event_id), True) for question in questions))

    assert [receipt.held for receipt in asyncio.run(together())] == [False] * 8
    assert recorded(store, kept) == [True] * 8


@in_a_loop
async def test_an_answer_that_is_recorded_during_a_look_is_seen_on_one_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was handed over, or on record; else whoever gave it would be told that it was not accepted."""
    store = FileStore(tmp_path)
    model = mt.ScriptedModel([{"calls": [{"name": "ship", "arguments": {}}]}, {"text": "Done."}])
    asked = (await mt.Agent(model, tools=[ship], store=store).run("Ship it.")).pending[0]
    event = asked.request.event_id
    held = await store.open(asked.conversation)
    looked = await store.port.look(asked.conversation)
    assert isinstance(looked, HeldBy)
    at = "2026-11-21T10:00:00.000000Z"
    assert await store.port.hand_over(looked, HandedOver(event_id=event, at=at, submission=Submission(value=True)))
    collect, is_recorded = HandoverFolder.collect, False

    def while_the_holder_records(answers: HandoverFolder) -> tuple[HandedOver, ...]:
        nonlocal is_recorded
        if not is_recorded:
            is_recorded = True
            drive(held.take_over())
        return collect(answers)

    monkeypatch.setattr(HandoverFolder, "collect", while_the_holder_records)
    turn = (await store.port.look(asked.conversation)).turn
    assert any(handed.event_id == event for handed in turn.handed) or TurnView.last(turn.events).decision(event)
    await held.__aexit__(None, None, None)
