"""Different versions of midturn on one store: an older version keeps events it does not
understand and does not modify their conversations.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace

import midturn as mt
from midturn import TooOld
from midturn.events.codec import encode_event
from midturn.events.types import InquiryRequest, OpaqueEvent
from midturn.stores import batch, claims, store as store_module
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.metadata import Metadata
from midturn.stores.opening import FileStore
from midturn.stores.postgres.conversations import PostgresStore
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.stored import append, asking, finished, hold, keep, release, reopen

NEWER = "9.9"


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    return FileStore(tmp_path / "conversations") if request.param == "disk" else MemoryStore()


def unknown_event(kind: str = "promise") -> OpaqueEvent:
    """Return an event of an unknown kind, as written by a newer version."""
    line = json.dumps(
        {
            "type": kind,
            "timestamp": "2031-01-01T00:00:00.000000Z",
            "event_id": "future",
            "more": 0,
            "requires": NEWER,
            "to": 1,
        }
    )
    return OpaqueEvent(kind=kind, raw=Raw(line.encode()), event_id="future", requires=NEWER)


def conversation_requiring(store: ConversationStore, requires: str) -> tuple[str, str]:
    """Create a conversation whose question requires a version; return its ID and the question
    ID.
    """
    tape, request = asking()
    tape.events[:] = [
        replace(event, requires=requires) if event is request else event for event in tape.events
    ]
    conversation = keep(store, tape)
    return conversation, f"{conversation}-{request.event_id}"


def test_the_first_request_with_a_deadline_raises_the_required_version(
    store: ConversationStore,
) -> None:
    @mt.tool
    async def deploy(ctx: mt.ToolContext) -> str:
        return str(await ctx.ask(mt.Question.boolean("sure", "Sure?", deadline=timedelta(hours=1))))

    model = mt.ScriptedModel([{"calls": [{"name": "deploy"}]}])
    waiting = mt.Agent(model, tools=[deploy], store=store).run_sync("Ship it.").pending[0]

    events = store.read_sync(waiting.conversation).events
    assert [event.requires for event in events if isinstance(event, InquiryRequest)] == ["0.2"]
    assert {event.requires for event in events if not isinstance(event, InquiryRequest)} == {""}
    store.answer_sync(waiting.id, True)


def test_a_question_without_people_and_deadline_requires_nothing(store: ConversationStore) -> None:
    conversation = keep(store, asking()[0])

    assert {event.requires for event in store.read_sync(conversation).events} == {""}


@pytest.mark.parametrize("requires", [NEWER, "0.4", "1", "of the future"])
def test_an_older_version_refuses_by_name_and_changes_nothing(
    store: ConversationStore, requires: str
) -> None:
    conversation, question = conversation_requiring(store, requires)
    before = drive(store.port.lines(conversation))

    with pytest.raises(
        TooOld, match=rf"Conversation {conversation} needs midturn {requires} or later"
    ):
        reopen(store, conversation)
    with pytest.raises(TooOld, match=requires) as refused:
        store.answer_sync(question, True)
    assert refused.value.to_json() == {
        "error": "TooOld",
        "message": str(refused.value),
        "conversation": conversation,
        "requires": requires,
    }
    with pytest.raises(TooOld, match=requires):
        store.answer_sync(question, cancel=True)

    assert drive(store.port.lines(conversation)) == before
    assert [asked.id for asked in store.pending_sync()] == [question]


@pytest.mark.parametrize("requires", ["", "0", "0.1", "0.2", "0.3", mt.__version__])
def test_conversation_for_this_version_continues(store: ConversationStore, requires: str) -> None:
    _, question = conversation_requiring(store, requires)

    store.answer_sync(question, True)

    assert store.pending_sync() == []


def test_older_worker_skips_it_and_claims_others(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    conversation, question = conversation_requiring(store, NEWER)
    other, easy = conversation_requiring(store, "")
    store.answer_sync(easy, True)
    with monkeypatch.context() as newer:
        newer.setattr(batch, "__version__", NEWER)
        store.answer_sync(question, True)

    claimed = drive(store.claim(10))

    assert [journal.conversation for journal in claimed] == [other]
    assert f"Conversation {conversation} needs midturn {NEWER} or later" in caplog.text
    for journal in claimed:
        release(journal)
    assert len(caplog.records) == 1
    monkeypatch.setattr(batch, "__version__", NEWER)
    release(reopen(store, conversation))  # the conversation is not locked


def test_an_older_worker_says_once_which_version_is_needed(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left = [conversation_requiring(store, NEWER) for _ in range(3)]
    with monkeypatch.context() as newer:
        newer.setattr(batch, "__version__", NEWER)
        for _, question in left:
            store.answer_sync(question, True)

    for _ in range(3):
        assert drive(store.claim(10)) == []

    said = [record.message for record in caplog.records]
    assert len(said) == 1
    assert any(
        said[0].startswith(f"Conversation {conversation} needs midturn {NEWER} or later")
        for conversation, _ in left
    )


def test_newer_event_kind_is_kept_and_its_requirement_checked(store: ConversationStore) -> None:
    tape, request = asking()
    journal = hold(store, tape)
    append(journal, [unknown_event()])
    release(journal)
    before = drive(store.port.lines(journal.conversation))

    assert before[-1].rstrip(b"\n") == bytes(unknown_event().raw)
    with pytest.raises(TooOld, match=NEWER):
        store.answer_sync(f"{journal.conversation}-{request.event_id}", True)
    assert drive(store.port.lines(journal.conversation)) == before
    assert store.read_sync(journal.conversation).events[-1].to_json()["to"] == 1


def test_newer_event_kind_without_requirement_is_ignored(store: ConversationStore) -> None:
    tape, request = asking()
    journal = hold(store, tape)
    line = json.dumps(
        {
            "type": "sigh",
            "timestamp": "2031-01-01T00:00:00.000000Z",
            "event_id": "future",
            "more": 0,
        }
    )
    append(journal, [OpaqueEvent(kind="sigh", raw=Raw(line.encode()), event_id="future")])
    release(journal)

    store.answer_sync(f"{journal.conversation}-{request.event_id}", True)

    assert [event.type for event in store.read_sync(journal.conversation).events][-2:] == [
        "sigh",
        "inquiry_response",
    ]


def test_a_finished_conversation_without_requirement_is_open_to_all(
    store: ConversationStore,
) -> None:
    conversation = keep(store, finished())

    release(reopen(store, conversation))


def test_a_permission_with_people_or_a_deadline_requires_it_too(store: ConversationStore) -> None:
    @mt.tool(run="ask", deadline=timedelta(hours=1))
    async def deploy() -> str:
        return "ok"

    model = mt.ScriptedModel([{"calls": [{"name": "deploy"}]}])
    waiting = mt.Agent(model, tools=[deploy], store=store).run_sync("Ship it.").pending[0]

    events = store.read_sync(waiting.conversation).events
    assert [event.requires for event in events if event.type == "approval"] == ["0.2"]


def _no_pause(tries: int) -> float:
    del tries
    return 0.0


def test_older_worker_skips_conversations_of_newer_versions(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it claimed the turn again and again, newer workers could not claim it."""
    monkeypatch.setattr(claims, "pause_after", _no_pause)
    conversation, question = conversation_requiring(store, NEWER)
    left: list[list[str]] = []
    original = store.port.claim

    async def claim(limit: int = 1, without: Collection[str] = ()) -> object:
        left.append(list(without))
        return await original(limit, without)

    monkeypatch.setattr(store.port, "claim", claim)
    with monkeypatch.context() as newer:
        newer.setattr(batch, "__version__", NEWER)
        store.answer_sync(question, True)

    assert [drive(store.claim(10)) for _ in range(3)] == [[]] * 3
    assert left == [[], [conversation], [conversation]]

    monkeypatch.setattr(batch, "__version__", NEWER)
    (journal,) = drive(ConversationStore(store.port).claim(10))
    assert journal.conversation == conversation
    release(journal)


def test_older_worker_checks_again_after_a_while(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "pause_after", _no_pause)
    monkeypatch.setattr(store_module, "_IGNORED_SECONDS", 0.0)
    conversation, question = conversation_requiring(store, NEWER)
    with monkeypatch.context() as newer:
        newer.setattr(batch, "__version__", NEWER)
        store.answer_sync(question, True)
    assert drive(store.claim(10)) == []

    monkeypatch.setattr(batch, "__version__", NEWER)
    (journal,) = drive(store.claim(10))
    assert journal.conversation == conversation
    release(journal)


@pytest.mark.real("PostgreSQL")
def test_newer_worker_claims_skipped_turns_over_postgres(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = PostgresStore(url), PostgresStore(url)
    tape, request = asking()
    lines = [
        encode_event(replace(event, requires=NEWER) if event is request else event)
        for event in tape.events
    ]
    conversation = older.run_sync("add", older.port.add(lines, Metadata()))
    monkeypatch.setattr(batch, "__version__", NEWER)
    newer.answer_sync(f"{conversation}-{request.event_id}", True)

    with monkeypatch.context() as before:
        before.setattr(batch, "__version__", "0.1")
        assert [older.run_sync("claim", older.claim(10)) for _ in range(2)] == [[]] * 2
        with pytest.raises(TooOld, match=NEWER):
            older.run_sync("open", older.open(conversation))
    (journal,) = newer.run_sync("claim", newer.claim(10))

    assert journal.conversation == conversation
    newer.run_sync("leave", journal.__aexit__(None, None, None))
    assert newer.check_sync() == older.check_sync() == []
