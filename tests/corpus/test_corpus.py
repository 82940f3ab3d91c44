"""Stores written by 0.2.0 are listed, shown, answered, resumed and exported with the same results
as in that version.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any, cast

import msgspec
import psycopg
import pytest

import midturn as mt
from corpus import observe
from corpus.copies import HERE, copied_files
from midturn.events import types as ev
from midturn.stores.opening import open_store
from support.postgres import no_postgres, unused_schema

EXPECTED: Any = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
_EDITED = "production is deployed, 2 of it"
_TOLD = (
    'The user edited the arguments of this call. It ran with: {"env": "production", "size": 2}\n'
)
ANSWERED: Any = json.loads(
    json.dumps(EXPECTED["answered"]).replace(_EDITED, json.dumps(_TOLD + _EDITED)[1:-1])
)
"""Results of answering and resuming in 0.2.0.

Since then, the model is also told the edited arguments that a call ran with.
"""
KINDS = {
    *(
        "turn_start",
        "turn_end",
        "suspended",
        "config_delta",
        "chat_request",
        "chat_response",
        "tool_call_request",
        "tool_call_response",
    ),
    *(
        "child",
        "inquiry_request",
        "inquiry_response",
        "approval",
        "vote",
        "reassigned",
        "reminded",
        "escalated",
        "notified",
    ),
}
"""Every kind of event in 0.2.0."""
IN_A_DATABASE = [
    pytest.mark.real("PostgreSQL"),
    pytest.mark.skipif(bool(no_postgres()), reason=no_postgres()),
]


@pytest.fixture(params=["files", pytest.param("database", marks=IN_A_DATABASE)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> mt.ConversationStore:
    """A copy of each corpus store."""
    if request.param == "files":
        return open_store(copied_files(tmp_path / "files"))
    return open_store(_loaded(unused_schema()))


def _loaded(address: str) -> str:
    """Load the dump into an unused schema and wait until the server considers its old process
    dead.
    """
    url, _, schema = address.partition("&midturn_schema=")
    dump = (HERE / "postgres.sql").read_text(encoding="utf-8").replace("written_by_0_2_0", schema)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(dump.encode())
        connection.execute(
            "select pg_sleep(greatest(0, 5.1 - extract(epoch from now() -"
            " pg_postmaster_start_time())))"
        )
    return address


def test_lists_and_exports_equal_those_of_0_2_0(store: mt.ConversationStore) -> None:
    found = asyncio.run(observe.shown(store))
    found["pending"] = [
        _as_before(now, before)
        for now, before in zip(found["pending"], EXPECTED["shown"]["pending"], strict=True)
    ]
    assert found == EXPECTED["shown"]


def _as_before(now: Any, before: Any) -> Any:
    """Remove keys that a later version added to the JSON of a question or of an object in it."""
    if isinstance(now, dict) and isinstance(before, dict):
        kept = cast("dict[str, Any]", before)
        return {
            key: _as_before(value, kept[key])
            for key, value in cast("dict[str, Any]", now).items()
            if key in kept
        }
    return cast("Any", now)


def test_answers_and_resumes_equal_those_of_0_2_0(store: mt.ConversationStore) -> None:
    assert asyncio.run(observe.answered(store)) == ANSWERED


def test_conversation_with_a_newer_event_does_not_affect_others(tmp_path: Path) -> None:
    """One conversation continues with an event that only a later version supports.

    This version refuses only that conversation.
    """
    folder = copied_files(tmp_path / "files")
    newest = max(found for found in folder.glob("*-*") if "hello-it-takes-long" in found.name)
    newer = {
        "type": "of_a_later_version",
        "timestamp": "2026-11-01T14:00:00.000000Z",
        "event_id": "newer",
        "requires": "9999.9",
    }
    with (newest / "events.jsonl").open("ab") as log:
        log.write(msgspec.json.encode(newer) + b"\n")
    number = newest.name.partition("-")[0]
    found, expected = asyncio.run(observe.answered(open_store(folder))), dict(ANSWERED)
    assert found["results"].pop(number) == ["TooOld"]
    assert found["recorded"].pop(number) == []
    for part in ("results", "recorded"):
        expected[part] = {id: value for id, value in expected[part].items() if id != number}
    assert found == expected


def test_the_corpus_has_every_kind_of_event() -> None:
    found = [
        msgspec.json.decode(line)
        for log in HERE.glob("files/*/events.jsonl")
        for line in log.read_bytes().splitlines()
    ]
    assert {event["type"] for event in found} == KINDS
    states = {(event["kind"], event["state"]) for event in found if event["type"] == "approval"}
    assert states >= {
        ("run", state)
        for state in ("waiting", "approved", "skipped", "edited", "superseded", "expired")
    }
    assert states >= {("deliver", "waiting"), ("review", "waiting"), ("review", "approved")}
    cancelled = {event["reason"] for event in found if event.get("outcome") == "cancelled"}
    assert cancelled >= set(ev.CancelReason.__args__) - {"of a later version"}
    assert {event["status"] for event in found if event["type"] == "turn_end"} == {
        "completed",
        "ended_by_user",
        "failed",
    }


def test_corpus_has_no_names_of_its_machine() -> None:
    files = [
        found
        for found in HERE.rglob("*")
        if found.is_file() and found.suffix not in (".py", ".pyc")
    ]
    texts = {found.name: found.read_text(encoding="utf-8") for found in files}
    kept = "\n".join(text for name, text in texts.items() if name != "README.md")
    readable = kept + "".join(
        bytes.fromhex(found).decode() for found in re.findall(r"'\\x([0-9a-f]+)'", kept)
    )
    assert not re.search(r"/(work|tmp|home|root|Users|var)\b", readable)
    assert observe.TOKEN not in readable
    assert len(kept.encode()) < 1_000_000
