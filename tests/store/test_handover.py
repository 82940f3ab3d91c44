"""Answers to conversations that somebody else holds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from midturn.core.events import AnsweredBy, InquiryAnswered, InquiryRequest
from midturn.core.question.answer_type import SecretType
from midturn.core.reply import Answered
from midturn.errors import AlreadyAnswered, AnswerError, NotOpen
from midturn.store.answering import Receipt
from midturn.store.folder import Folder
from midturn.store.handover import Answers, FileAnswers
from midturn.store.memory_conversation import MemoryAnswers
from midturn.store.store import ConversationJournal, ConversationStore, open_store
from midturn.store.submission import HandedOver, Submission
from support.processes import kill, line, output, python
from support.stored import asking, hold, keep
from support.tapes import CONFIRM

FIRST = HandedOver(event_id="e4", at="2026-11-21T10:00:00Z", submission=Submission(value=True, user="u1", via="web"))
SECOND = HandedOver(event_id="e4", at="2026-11-21T10:00:01Z", submission=Submission(value=False, user="u2"))
OTHER = HandedOver(event_id="../e5", at="2026-11-21T09:00:00Z", submission=Submission(reply=""))


def recorded(store: ConversationStore, id: str) -> list[Any]:
    return [event.answer for event in store.read(id).events if isinstance(event, InquiryAnswered)]


async def collecting(journal: ConversationJournal, question: InquiryRequest) -> None:
    """Hold a conversation as a running turn does: record what is handed over."""
    while True:
        for handed in journal.answers.collect():
            assert isinstance(handed.reply, Answered)
            answer = InquiryAnswered(id=question.id, answer=True, answered_by=handed.by)
            await journal.append([answer])
            journal.answers.remove(handed.event_id)
        await asyncio.sleep(0.01)


async def something_in(journal: ConversationJournal) -> None:
    """Wait until something is handed over."""
    for _ in range(500):
        if journal.answers.collect():
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


@pytest.fixture(params=["disk", "memory"])
def answers(request: pytest.FixtureRequest, tmp_path: Path) -> Answers:
    return FileAnswers(Folder.at(tmp_path)) if request.param == "disk" else MemoryAnswers()


def test_what_is_put_in_is_what_comes_out_oldest_first(answers: Answers) -> None:
    answers.put(FIRST)
    answers.put(OTHER)

    assert answers.collect() == (OTHER, FIRST)
    assert answers.waits("e4")

    answers.remove("e4")
    answers.remove("e4")
    assert answers.collect() == (OTHER,)
    assert not answers.waits("e4")


def test_the_first_wins_and_the_second_is_told_who_it_was(answers: Answers) -> None:
    answers.put(FIRST)

    with pytest.raises(AlreadyAnswered, match=r"e4 was answered before, by u1 \(web\)"):
        answers.put(SECOND)

    assert answers.collect() == (FIRST,)


def test_an_empty_box_costs_nothing(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as folder:
        box = FileAnswers(folder)
        assert box.collect() == ()
        assert not box.waits("e4")
        box.remove("e4")

    assert list(tmp_path.iterdir()) == []


def test_an_id_from_a_stream_is_no_path(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as folder:
        FileAnswers(folder).put(OTHER)

    (name,) = (tmp_path / "answers").iterdir()
    assert len(name.name) == 64 + len(".json")
    assert [each.name for each in tmp_path.iterdir()] == ["answers"]


@pytest.mark.parametrize("content", ['{"event_id": 4', "", "[" * 9_999, '{"event_id":"e4","at":"","submission":{}}'])
def test_a_file_that_is_no_answer_is_put_aside(tmp_path: Path, content: str) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "e4.json").write_text(content)
    (tmp_path / "answers" / ".e5.tmp").write_text("half a")
    with Folder.at(tmp_path) as folder:
        box = FileAnswers(folder)
        assert box.collect() == ()
        box.put(FIRST)
        assert box.collect() == (FIRST,)

    assert (tmp_path / "answers" / "e4.json.unreadable").read_text() == content


def test_a_link_among_the_answers_is_put_aside_unread(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "e5.json").write_text('{"event_id":"e5","at":"","submission":{"value":true}}')
    (tmp_path / "answers" / "e5.json").symlink_to(tmp_path / "e5.json")

    with Folder.at(tmp_path) as folder:
        assert FileAnswers(folder).collect() == ()


# The store --------------------------------------------------------------------------------------------------------------


def test_the_holder_records_what_is_handed_over(store: ConversationStore) -> None:
    tape, question = asking()
    journal = hold(store, tape)

    receipt = asyncio.run(beside(store.answer("e4", True, user="u1"), collecting(journal, question)))

    assert receipt == Receipt(journal.conversation, "e4")
    assert recorded(store, journal.conversation) == [True]
    assert journal.events[-1].to_json()["answered_by"] == {"by": "user", "via": "api", "user": "u1"}


def test_a_busy_holder_has_it_later_and_the_second_comes_too_late_at_once(store: ConversationStore) -> None:
    tape, _ = asking()
    journal = hold(store, tape)

    receipt = asyncio.run(store.answer("e4", True, user="u1"))
    assert receipt.held_by
    with pytest.raises(AlreadyAnswered, match=r"by u1 \(api\)"):
        asyncio.run(store.answer("e4", False, user="u2"))
    assert recorded(store, journal.conversation) == []

    journal.close()
    assert recorded(store, journal.conversation) == [True]
    assert store.ready() == [journal.conversation]


def test_whoever_answers_while_the_holder_closes_records_it(store: ConversationStore) -> None:
    tape, _ = asking()
    journal = hold(store, tape)

    async def closing() -> None:
        await asyncio.sleep(0.1)
        journal.close()

    async def both() -> Receipt:
        receipt, _ = await asyncio.gather(store.answer("e4", True), closing())
        return receipt

    assert asyncio.run(both()) == Receipt(journal.conversation, "e4")
    assert recorded(store, journal.conversation) == [True]


def test_an_answer_at_the_terminal_of_the_holder_that_comes_first_stands(store: ConversationStore) -> None:
    """The one from outside was handed over already: it is told who was faster."""
    tape, question = asking()
    journal = hold(store, tape)

    async def at_the_terminal() -> None:
        await something_in(journal)
        await journal.append([InquiryAnswered(id=question.id, answer=False, answered_by=AnsweredBy("user", via="terminal"))])

    async def both() -> None:
        await asyncio.gather(store.answer("e4", True), at_the_terminal())

    with pytest.raises(AlreadyAnswered, match=r"by a person \(terminal\)"):
        asyncio.run(both())
    assert recorded(store, journal.conversation) == [False]
    assert journal.answers.collect() == ()


def test_a_holder_may_refuse(store: ConversationStore) -> None:
    tape, _ = asking()
    journal = hold(store, tape)

    async def refuse() -> None:
        await something_in(journal)
        journal.answers.remove("e4")

    async def both() -> None:
        await asyncio.gather(store.answer("e4", True), refuse())

    with pytest.raises(AnswerError, match="did not accept the answer; the question is still open"):
        asyncio.run(both())


def test_what_does_not_fit_is_not_handed_over(store: ConversationStore) -> None:
    journal = hold(store, asking()[0])

    with pytest.raises(AnswerError):
        asyncio.run(store.answer("e4", "perhaps"))
    with pytest.raises(NotOpen):
        asyncio.run(store.answer("zz", True))

    assert journal.answers.collect() == ()


def test_a_secret_is_not_handed_over(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    tape, question = asking()
    tape.events[-1] = replace(question, question=replace(CONFIRM, answer_type=SecretType()))
    journal = hold(store, tape)

    with pytest.raises(AnswerError, match="A secret is only given at the terminal"):
        asyncio.run(store.answer("e4", "hunter2"))

    assert not (store.path(journal.conversation) / "answers").exists()
    assert all(b"hunter2" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


HOLDER = """
import sys
from midturn.store.store import open_store
journal = open_store(sys.argv[1]).open(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


def test_what_was_handed_to_a_holder_that_is_killed_is_recorded_by_the_next(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    conversation = keep(store, asking()[0])
    holder = python(HOLDER, tmp_path, conversation)
    assert line(holder) == "held"

    receipt = asyncio.run(store.answer("e4", True, user="u1"))
    assert receipt.held_by == holder.pid
    kill(holder)

    assert store.ready() == [conversation]
    journal = store.open(conversation)
    assert recorded(store, conversation) == [True]
    assert journal.answers.collect() == ()
    journal.close()


ANSWERER = """
import asyncio, sys
from midturn.errors import AlreadyAnswered
from midturn.store.store import open_store
sys.stdin.read()
try:
    print(asyncio.run(open_store(sys.argv[1]).answer("e4", sys.argv[2] == "1", user=sys.argv[2])).event_id)
except AlreadyAnswered as error:
    print(f"second to {error.by}")
"""


@pytest.mark.parametrize("is_held", [False, True])
def test_of_many_who_answer_at_once_exactly_one_is_first(tmp_path: Path, *, is_held: bool) -> None:
    store = open_store(tmp_path)
    journal = hold(store, asking()[0])
    if not is_held:
        journal.close()
    answerers = [python(ANSWERER, tmp_path, number) for number in range(5)]

    for answerer in answerers:
        assert answerer.stdin
        answerer.stdin.close()
        answerer.stdin = None
    printed = [output(answerer).strip() for answerer in answerers]
    journal.close()

    winner = printed.index("e4")
    assert [line for number, line in enumerate(printed) if number != winner] == [f"second to {winner} (api)"] * 4
    assert recorded(store, journal.conversation) == [winner == 1]
