"""Events that could not be read again are refused before they are written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from midturn.errors import StoreError
from midturn.events.codec import decode_event
from midturn.events.types import (
    AnsweredBy,
    Approval,
    ChatRequest,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    OpaqueEvent,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
)
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore

NUMBER = cast("Any", 7)
BEGUN: list[Event] = [TurnStart(event_id="e1"), ChatRequest(event_id="e2", content="Go.")]
CALL = ToolCallRequest(event_id="e3", id="c", name="deploy", arguments={})


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    return FileStore(tmp_path) if request.param == "files" else MemoryStore()


@pytest.mark.parametrize(
    ("event", "place"),
    [
        (InquiryAnswered(event_id="x", id="q", answer="eu", reason=NUMBER), "$.reason"),
        (
            InquiryAnswered(
                event_id="x", id="q", answer="eu", answered_by=AnsweredBy("user", via=NUMBER)
            ),
            "$.answered_by.via",
        ),
        (InquiryCancelled(event_id="x", id="q", reason=NUMBER), "$.reason"),
        (ToolCallRequest(event_id="x", id=NUMBER, name="deploy", arguments={}), "$.id"),
        (ToolCallResponse(event_id="x", id="c", call="e3", content=NUMBER), "$.content"),
        (Approval(event_id=NUMBER, id="a", call="e3", kind="run", state="waiting"), "$.event_id"),
    ],
    ids=lambda given: given if isinstance(given, str) else given.type,
)
def test_an_event_with_a_value_of_another_type_is_not_recorded(
    store: ConversationStore, event: Event, place: str
) -> None:
    async def work() -> str:
        async with await store.create("typed") as journal:
            await journal.append([*BEGUN, CALL])
            with pytest.raises(
                StoreError,
                match=f"kind {event.type} cannot be recorded: .*{place.replace('$', '[$]')}",
            ):
                await journal.append([event])
            await journal.append(
                [ToolCallResponse(event_id="e4", id="c", call="e3", content="Deployed.")]
            )
            return journal.conversation

    events = store.read_sync(asyncio.run(work())).events

    assert [event.type for event in events] == [
        "turn_start",
        "chat_request",
        "tool_call_request",
        "tool_call_response",
    ]


def test_unknown_event_kinds_are_recorded(store: ConversationStore) -> None:
    newer = decode_event(b'{"type":"from_the_future","event_id":"f","what":[1]}', "elsewhere:1")
    assert isinstance(newer, OpaqueEvent)

    async def work() -> str:
        async with await store.create("kept") as journal:
            await journal.append([*BEGUN, newer, CALL])
            return journal.conversation

    events = store.read_sync(asyncio.run(work())).events

    assert [event.type for event in events] == [
        "turn_start",
        "chat_request",
        "from_the_future",
        "tool_call_request",
    ]
