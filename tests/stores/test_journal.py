"""`Journal`: the log of one conversation, locked for writing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from midturn.errors import StoreError
from midturn.events.codec import decode_visible
from midturn.events.provider_view import provider_view
from midturn.events.types import (
    AnsweredBy,
    ChatRequest,
    ChatResponse,
    InquiryAnswered,
    ToolCallResponse,
    TurnEnd,
    TurnStart,
)
from midturn.question.json_value import Limits
from midturn.stores.conversation import PASTS
from midturn.stores.file_conversations import FileConversations
from midturn.stores.opening import open_store
from midturn.stores.sync_forms import drive
from support.stored import append, asking, create, finished, hold, keep, release, reopen
from support.tapes import Tape


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]


def test_events_of_a_batch_say_how_many_follow(tmp_path: Path) -> None:
    journal = drive(FileConversations(tmp_path).create("Ship it"))

    append(
        journal,
        [TurnStart(), ChatRequest(content="a"), ChatResponse(message="b")],
        [TurnEnd(status="completed")],
    )

    assert [line.get("more") for line in lines(journal.path)] == [2, 1, None, None]
    assert [event.more for event in journal.events] == [2, 1, 0, 0]


def test_empty_batch_writes_nothing(tmp_path: Path) -> None:
    journal = drive(FileConversations(tmp_path).create("Ship it"))

    append(journal, [])

    assert journal.syncs == 0


@pytest.mark.parametrize("history", [0, 1, 200])
def test_a_turn_with_one_question_costs_six_syncs_and_three_kilobytes_at_every_length(
    tmp_path: Path, history: int
) -> None:
    """The first batch of a conversation needs one more sync, of the directory."""
    journal = drive(FileConversations(tmp_path).create("Ship it"))
    append(journal, *([*finished().events] for _ in range(history)))
    syncs, size = journal.syncs, (journal.path / "events.jsonl").stat().st_size

    tape, question = asking()
    start, user, call, ask = tape.events
    answer = InquiryAnswered(
        id=question.id, answer=True, answered_by=AnsweredBy("user", via="terminal")
    )
    result = ToolCallResponse(id="call_1", call=call.event_id, content="Deployed.")
    append(
        journal,
        [start, user],
        [call],
        [ask],
        [answer],
        [result],
        [ChatResponse(message="Done."), TurnEnd(status="completed")],
    )

    assert journal.syncs - syncs == (6 if history else 7)
    assert (journal.path / "events.jsonl").stat().st_size - size <= 3_000


def test_reading_and_listing_never_sync_or_write(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    journal = hold(store, asking()[0])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    store.read_sync(journal.conversation)
    store.pending_sync()
    store.ready_sync()

    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_reopened_journal_continues_at_the_end(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, finished("a"))

    journal = reopen(store, kept)
    append(journal, finished("b").events)
    release(journal)

    assert [event.event_id for event in store.read_sync(kept).events] == [
        f"{turn}{number}" for turn in "ab" for number in range(1, 5)
    ]
    assert [event.event_id for event in journal.events] == [
        event.event_id for event in store.read_sync(kept).events
    ]


def test_a_line_that_is_too_long_is_refused_with_its_batch(tmp_path: Path) -> None:
    journal = drive(FileConversations(tmp_path, limits=Limits(event_line=1_000)).create("Ship it"))

    with pytest.raises(
        StoreError,
        match=r"chat_request has 2,0\d\d bytes; a line may have 1,000 \(`limits.event_line`\)",
    ):
        append(journal, [TurnStart(), ChatRequest(content="x" * 2_000)])

    assert list(journal.events) == []
    assert (journal.path / "events.jsonl").read_bytes() == b""


def test_a_batch_that_is_too_large_is_refused(tmp_path: Path) -> None:
    journal = drive(FileConversations(tmp_path).create("Ship it"))

    with pytest.raises(
        StoreError,
        match=r"3 events have 3,000,\d\d\d bytes together; 2,097,152 may be recorded at once",
    ):
        append(journal, [ChatRequest(content="x" * 1_000_000)] * 3)

    assert list(journal.events) == []


def test_lone_surrogates_are_recorded_as_replacements(tmp_path: Path) -> None:
    journal = drive(FileConversations(tmp_path).create("Ship it"))

    append(journal, [ChatRequest(content="half \ud800 a character")])

    assert lines(journal.path)[0]["content"] == "half \ufffd a character"


def test_closed_journal_refuses_appends(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    journal = create(store)
    release(journal)
    release(journal)

    with pytest.raises(StoreError, match="is closed"):
        asyncio.run(journal.append([TurnStart()]))

    release(reopen(store, journal.conversation))


def test_conversation_directory_can_move_while_locked(tmp_path: Path) -> None:
    """A renamed workspace: the lock is on the directory, not on its name."""
    journal = drive(FileConversations(tmp_path / "before").create("Ship it"))
    (tmp_path / "before").rename(tmp_path / "after")

    append(journal, Tape().events, finished().events)
    journal.close()

    assert len(open_store(tmp_path / "after").read_sync(journal.conversation).events) == 4


def test_reopening_reads_only_changed_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FileConversations(tmp_path)
    journal = drive(files.create("ship it"))
    seen: list[int] = []

    def counting(data: bytes) -> object:
        seen.append(data.count(b"\n"))
        return decode_visible(data)

    monkeypatch.setattr("midturn.events.provider_view.decode_visible", counting)
    for turn in range(4):
        said = [
            TurnStart(event_id=f"a{turn}"),
            ChatRequest(event_id=f"b{turn}", content="Go"),
            TurnEnd(event_id=f"c{turn}", status="completed"),
        ]
        drive(journal.append(said))
        journal.close()
        # as a program does that opens its store for each request
        journal = drive(FileConversations(tmp_path).open(journal.conversation))
        assert [event.event_id for event in provider_view(journal.events)] == [
            f"b{number}" for number in range(turn + 1)
        ]
    assert seen == [3, 3, 3]

    path = journal.path / "events.jsonl"
    journal.close()
    path.write_bytes(path.read_bytes().replace(b'"b0"', b'"B0"'))  # an edit by another program
    journal = drive(files.open(journal.conversation))
    assert provider_view(journal.events)[0].event_id == "B0"
    journal.close()

    assert PASTS.of(str(journal.path))
    drive(files.remove(journal.conversation))
    assert not PASTS.of(str(journal.path))  # removed events are not kept in memory either
