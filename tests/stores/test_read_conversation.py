"""Reading a conversation keeps all readable events and takes no lock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from midturn.errors import StoreError
from midturn.events.types import ChatRequest, OpaqueEvent, TurnEnd, TurnStart
from midturn.question.json_value import DEFAULT_LIMITS
from midturn.stores.conversation import Conversation
from midturn.stores.folder import Folder
from midturn.stores.log_tail import EventReader
from midturn.stores.opening import open_store
from midturn.stores.sync_forms import drive
from support.stored import append, asking, create, finished, hold, keep, path_of, release, reopen

TURN = [
    b'{"type":"turn_start","timestamp":"2026-11-21T10:00:00Z","event_id":"a"}',
    b'{"type":"chat_request","timestamp":"2026-11-21T10:00:00Z","event_id":"b","content":"Hi"}',
    b'{"type":"turn_end","timestamp":"2026-11-21T10:00:00Z","event_id":"c","status":"completed"}',
]


def conversation(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "17952645082-hello"
    path.mkdir()
    (path / "events.jsonl").write_bytes(content)
    return path


def test_conversation_has_every_recorded_event(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    tape, question = asking()
    journal = hold(store, tape, "Ship it\nnow")

    read = Conversation.open(path_of(store, journal.conversation))

    assert read.id == journal.conversation
    assert read.path == path_of(store, journal.conversation)
    assert read.events == tuple(tape.events)
    assert read.title == "Ship it"
    assert read.metadata.created_at
    assert [window.open for window in read.turns] == [True]
    assert read.pairs() == [(question, None)]
    assert [each.id for each in read.pending()] == [f"{journal.conversation}-{question.event_id}"]
    assert read.pending()[0].conversation == journal.conversation
    assert [event.type for event in read.provider_view()] == [
        "chat_request",
        "tool_call_request",
        "tool_call_response",
    ]
    assert read.problems == ()


def test_a_broken_line_is_reported_with_its_number_and_the_rest_loads(tmp_path: Path) -> None:
    path = conversation(
        tmp_path, b"\n".join([TURN[0], b'{"type":"chat_req', TURN[1], TURN[2], b""])
    )

    read = Conversation.open(path)

    assert [type(event) for event in read.events] == [TurnStart, OpaqueEvent, ChatRequest, TurnEnd]
    assert len(read.problems) == 1
    assert read.problems[0].startswith(f"{path}/events.jsonl:2: ")


def test_editor_artifacts_are_ignored(tmp_path: Path) -> None:
    """A byte order mark, carriage returns and blank lines. Line numbers count all lines."""
    path = conversation(
        tmp_path,
        b"\xef\xbb\xbf"
        + TURN[0]
        + b"\r\n\r\n"
        + TURN[1]
        + b"\r\n  \n"
        + b"oops\r\n"
        + TURN[2]
        + b"\r\n",
    )

    read = Conversation.open(path)

    assert [event.type for event in read.events] == ["turn_start", "chat_request", "", "turn_end"]
    assert len(read.problems) == 1
    assert read.problems[0].startswith(f"{path}/events.jsonl:5: ")


def test_torn_end_is_skipped_and_reported_but_not_changed(tmp_path: Path) -> None:
    content = b"\n".join(TURN) + b"\n" + TURN[0]
    path = conversation(tmp_path, content)

    read = Conversation.open(path)

    assert len(read.events) == 3
    assert "the last 71 bytes are not a whole batch" in read.problems[0]
    assert (path / "events.jsonl").read_bytes() == content
    assert [each.name for each in path.iterdir()] == ["events.jsonl"]


def test_unknown_kinds_and_keys_survive_a_writer_byte_for_byte(tmp_path: Path) -> None:
    strange = [
        (
            b'{"type":"hologram", '
            b' "b":1,"a":[1.0,1e3],"timestamp":"2040-01-01T00:00:00Z","event_id":"x"}'
        ),
        b'{"type":"chat_request","event_id":"y","timestamp":"t","content":"Hi","mood":{"z":1,"a":2}}',
    ]
    path = conversation(tmp_path, b"\n".join([*TURN, *strange, b""]))
    store = open_store(tmp_path)

    journal = reopen(store, "17952645082")
    append(journal, finished().events)
    release(journal)

    assert (path / "events.jsonl").read_bytes().startswith(b"\n".join([*TURN, *strange, b""]))
    assert drive(store.port.lines("17952645082"))[:5] == [*TURN, *strange]
    assert store.read_sync("17952645082").events[3].type == "hologram"


def test_a_line_over_the_limit_is_kept_and_reported(tmp_path: Path) -> None:
    long = json.dumps({"type": "chat_request", "content": "x" * DEFAULT_LIMITS.event_line}).encode()
    path = conversation(tmp_path, b"\n".join([*TURN, long, b""]))

    read = Conversation.open(path)

    assert len(read.events) == 4
    assert "the limit is 16,777,216" in read.problems[0]


def test_conversation_without_a_log_is_empty(tmp_path: Path) -> None:
    read = Conversation.open(conversation(tmp_path, b""))

    assert (read.events, read.turns, read.pending(), read.pairs(), read.problems) == (
        (),
        (),
        [],
        [],
        (),
    )


def test_a_directory_without_a_conversation_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=rf"Cannot read {tmp_path}/events\.jsonl: No such file"):
        Conversation.open(tmp_path)
    with pytest.raises(StoreError, match=rf"Cannot open {tmp_path}/nothing: No such file"):
        Conversation.open(tmp_path / "nothing")


def test_last_turn_equals_that_of_a_full_read(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    journal = create(store)
    append(journal, *(finished(f"t{number}.").events for number in range(300)), asking()[0].events)

    with Folder.at(path_of(store, journal.conversation)) as folder, EventReader(folder) as reader:
        assert reader.last_turn() == store.read_sync(journal.conversation).turns[-1].events
        assert reader.unfinished_turn() == reader.last_turn()


def test_ended_turn_is_not_read_for_questions(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    journal = hold(store, finished())

    with Folder.at(path_of(store, journal.conversation)) as folder, EventReader(folder) as reader:
        assert reader.unfinished_turn() == ()
        assert len(reader.last_turn()) == 4


def test_events_without_an_id_are_numbered_by_their_line_however_they_are_read(
    tmp_path: Path,
) -> None:
    legacy = [
        b'{"type":"turn_start"}',
        b'{"type":"chat_request","content":"a"}',
        b"",
        b'{"type":"turn_start"}',
        b'{"type":"note"}',
        b"",
    ]
    path = conversation(tmp_path, b"\n".join(legacy))

    with Folder.at(path) as folder, EventReader(folder) as reader:
        assert [event.event_id for event in reader.last_turn()] == ["line:4", "line:5"]
    assert [event.event_id for event in Conversation.open(path).events] == [
        "line:1",
        "line:2",
        "line:4",
        "line:5",
    ]


def test_a_reader_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    journal = hold(store, asking()[0])

    assert len(store.read_sync(journal.conversation).events) == 4
    assert len(store.pending_sync()) == 1


def test_damaged_metadata_loses_only_the_title(tmp_path: Path) -> None:
    path = conversation(tmp_path, b"\n".join([*TURN, b""]))
    (path / "metadata.json").write_bytes(b'{"title": 7}')

    read = Conversation.open(path)

    assert len(read.events) == 3
    assert read.title == "Hi"
    assert read.problems[0].startswith(f"{path}/metadata.json: Expected `str")


def test_a_legacy_conversation_is_read_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "17727484633"
    path.mkdir()
    events = [
        {"type": "turn_start", "timestamp": "2026-03-05 22:07:43.3"},
        {"type": "chat_request", "timestamp": "2026-03-05 22:07:43.3", "content": "Hi"},
        {
            "type": "tool_call_request",
            "timestamp": "2026-03-05 22:07:44.0",
            "id": "c",
            "name": "t",
            "arguments": {"a": "aGk="},
        },
    ]
    (path / "events.json").write_text(json.dumps(events))
    (path / "metadata.json").write_text(
        '{"title": "Old", "last_activated_at": "2026-03-05 22:07:43.369023", "else": 1}'
    )

    read = Conversation.open(path)

    assert read.id == "17727484633"
    assert [event.type for event in read.events] == [
        "turn_start",
        "chat_request",
        "tool_call_request",
    ]
    assert read.events[2].to_json()["arguments"] == {"a": "hi"}
    assert read.title == "Old"
    assert read.metadata.others == {"else": 1}


def test_one_unreadable_conversation_does_not_hide_the_questions_of_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path)
    (tmp_path / "17-broken").mkdir()
    (tmp_path / "17-broken" / "events.jsonl").mkdir()
    (tmp_path / "18-empty").mkdir()
    kept = keep(store, asking()[0])

    assert [question.conversation for question in store.pending_sync()] == [kept]
    assert "17-broken" in caplog.text
