"""Server-sent events: what is recorded in one conversation, for a page that follows what a worker does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import httpx2
import msgspec
import pytest

import midturn as mt
from midturn.question.question import Question
from midturn.stores.memory_conversations import MemoryStore
from midturn.web import inbox
from support.pages import ada, agent_with, asking, browsing, wait_for
from support.serving import serving

CONFIRM = Question.boolean("q", "Sure?")


class Message(msgspec.Struct):
    """One message of a stream."""

    event: str
    data: Any
    id: str = ""


@contextmanager
def heard(address: str, **headers: str) -> Generator[Iterator[Message]]:
    """Listen as a browser does: an id stays until the next one."""

    def messages(lines: Iterator[str]) -> Iterator[Message]:
        last = headers.get("last-event-id", "")
        while block := [*takewhile(bool, lines)]:
            fields = dict(line.split(": ", 1) for line in block)
            last = fields.get("id", last)
            if "event" in fields:
                yield Message(fields["event"], json.loads(fields["data"]), last)

    with httpx2.stream("GET", address, headers=headers, timeout=60) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        yield messages(stream.iter_lines())


def until_the_end(messages: Iterator[Message]) -> list[Message]:
    """Return what is heard until the turn is over."""
    return [*takewhile(lambda message: message.event != "turn_ended", messages)]


def answered_by_a_worker(store: mt.ConversationStore, waiting: mt.OpenQuestion) -> None:
    """Answer, and go on with the turn as a worker does."""
    store.answer_sync(waiting.id, value=True)
    asyncio.run(agent_with(store, asking(CONFIRM)).resume(waiting.conversation))


@pytest.fixture(params=["memory", "files"])
def kept(request: pytest.FixtureRequest, tmp_path: Any) -> mt.ConversationStore:
    return MemoryStore() if request.param == "memory" else mt.open_store(tmp_path / "conversations")


def test_a_page_hears_each_event_that_a_worker_records_and_goes_on_where_it_was_cut_off(kept: mt.ConversationStore) -> None:
    waiting = wait_for(agent_with(kept, asking(CONFIRM)))
    seen = len(kept.read_sync(waiting.conversation).events)
    with serving(inbox(kept, user=ada)) as page:
        address = f"{page}/api/events?conversation={waiting.conversation}"
        with heard(address) as messages:
            answered_by_a_worker(kept, waiting)
            whole = until_the_end(messages)
        on_record = [event.to_json() for event in kept.read_sync(waiting.conversation).events]
        recorded = [message for message in whole if message.event == "recorded"]
        assert [message.data["event"] for message in recorded] == on_record[seen:]
        assert [message.data["position"] for message in recorded] == [*range(seen + 1, len(on_record) + 1)]
        assert [message.event for message in whole if message.event != "recorded"] == ["answered"]

        for cut, message in enumerate(whole):  # the id that a browser has is all that it needs, of another server, too
            rest = [other.data for other in whole[cut + 1 :]]
            with heard(f"{address}&after=0", **{"last-event-id": message.id or str(seen)}) as messages:
                again = [other.data for other in until_the_end(messages)]
            assert again[len(again) - len(rest) :] == rest
            assert len(again) - len(rest) <= 2, "at most the last event comes again, with what it meant"
        with heard(f"{address}&after={seen}") as messages:
            assert until_the_end(messages) == whole


def test_a_stream_of_one_conversation_is_refused_where_it_could_not_be_right(store: MemoryStore) -> None:
    waiting = wait_for(agent_with(store, asking(CONFIRM)))
    with browsing(inbox(store, user=ada)) as client:
        assert client.get("/api/events?conversation=17000000000").status_code == 404
        assert client.get("/api/events?conversation=../x").status_code == 404
        assert client.get("/api/events?after=3").status_code == 400
        for wrong in ("-1", "", "many", "1" * 10):
            assert client.get(f"/api/events?conversation={waiting.conversation}&after={wrong}").status_code == 400
    with browsing(inbox(store, user=lambda _: None)) as stranger:
        assert stranger.get(f"/api/events?conversation={waiting.conversation}").status_code == 401


def test_a_stream_ends_with_its_conversation(kept: mt.ConversationStore) -> None:
    waiting = wait_for(agent_with(kept, asking(CONFIRM)))
    with serving(inbox(kept, user=ada)) as page:
        address = f"{page}/api/events?conversation={waiting.conversation}"
        with heard(address) as messages:
            kept.remove_sync(waiting.conversation)
            assert [message.event for message in messages] == ["withdrawn", "turn_ended"]
        assert httpx2.get(address).status_code == 404
