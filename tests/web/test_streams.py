"""Server-sent events of one conversation, for a page that follows a worker."""

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
from midturn.inbox import open_questions
from midturn.inbox.open_questions import Feed, OpenQuestionList
from midturn.inbox.store_access import Port
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
def stream_of(address: str, **headers: str) -> Generator[Iterator[Message]]:
    """Read a stream as a browser does: an ID is valid until the next one."""

    def messages(lines: Iterator[str]) -> Iterator[Message]:
        last = headers.get("last-event-id", "")
        while block := [*takewhile(bool, lines)]:
            fields = dict(line.split(": ", 1) for line in block)
            last = fields.get("id", last)
            if "event" in fields:
                yield Message(fields["event"], json.loads(fields["data"]), last)

    with httpx2.stream("GET", address, headers=headers, timeout=120) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        yield messages(stream.iter_lines())


def until_the_end(messages: Iterator[Message]) -> list[Message]:
    """Return the messages up to the end of the turn."""
    return [*takewhile(lambda message: message.event != "turn_ended", messages)]


def answered_by_a_worker(store: mt.ConversationStore, waiting: mt.OpenQuestion) -> None:
    """Answer, and continue the turn as a worker does."""
    store.answer_sync(waiting.id, value=True)
    asyncio.run(agent_with(store, asking(CONFIRM)).resume(waiting.conversation))


@pytest.fixture(params=["memory", "files"])
def each_store(request: pytest.FixtureRequest, tmp_path: Any) -> mt.ConversationStore:
    return MemoryStore() if request.param == "memory" else mt.open_store(tmp_path / "conversations")


def test_stream_has_every_recorded_event_and_resumes_after_a_break(
    each_store: mt.ConversationStore,
) -> None:
    waiting = wait_for(agent_with(each_store, asking(CONFIRM)))
    seen = len(each_store.read_sync(waiting.conversation).events)
    with serving(inbox(each_store, user=ada)) as page:
        address = f"{page}/api/events?conversation={waiting.conversation}"
        with stream_of(address) as messages:
            answered_by_a_worker(each_store, waiting)
            whole = until_the_end(messages)
        on_record = [event.to_json() for event in each_store.read_sync(waiting.conversation).events]
        recorded = [message for message in whole if message.event == "recorded"]
        assert [message.data["event"] for message in recorded] == on_record[seen:]
        assert [message.data["position"] for message in recorded] == [
            *range(seen + 1, len(on_record) + 1)
        ]
        assert [message.event for message in whole if message.event != "recorded"] == ["answered"]

        for cut, message in enumerate(
            whole
        ):  # the browser needs only its last ID, at another server, too
            rest = [other.data for other in whole[cut + 1 :]]
            with stream_of(
                f"{address}&after=0", **{"last-event-id": message.id or str(seen)}
            ) as messages:
                again = [other.data for other in until_the_end(messages)]
            assert again[len(again) - len(rest) :] == rest
            assert len(again) - len(rest) <= 2, (
                "at most the last event comes again, with what it meant"
            )
        with stream_of(f"{address}&after={seen}") as messages:
            assert until_the_end(messages) == whole


def test_conversation_stream_with_invalid_parameters_is_refused(store: MemoryStore) -> None:
    waiting = wait_for(agent_with(store, asking(CONFIRM)))
    with browsing(inbox(store, user=ada)) as client:
        assert client.get("/api/events?conversation=17000000000").status_code == 404
        assert client.get("/api/events?conversation=../x").status_code == 404
        assert client.get("/api/events?after=3").status_code == 400
        for wrong in ("-1", "", "many", "1" * 10):
            assert (
                client.get(
                    f"/api/events?conversation={waiting.conversation}&after={wrong}"
                ).status_code
                == 400
            )
    with browsing(inbox(store, user=lambda _: None)) as stranger:
        assert stranger.get(f"/api/events?conversation={waiting.conversation}").status_code == 401


def test_a_stream_ends_with_its_conversation(each_store: mt.ConversationStore) -> None:
    waiting = wait_for(agent_with(each_store, asking(CONFIRM)))
    with serving(inbox(each_store, user=ada)) as page:
        address = f"{page}/api/events?conversation={waiting.conversation}"
        with stream_of(address) as messages:
            each_store.remove_sync(waiting.conversation)
            assert [message.event for message in messages] == ["withdrawn", "turn_ended"]
        assert httpx2.get(address, timeout=120).status_code == 404


@pytest.mark.timeout(60)
def test_a_wake_up_while_a_message_is_sent_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign-out ends a stream at once, even if the stream is sending something just then."""
    monkeypatch.setattr(open_questions, "_IDLE_CHECK_INTERVAL", 3_600.0)

    async def of_questions() -> None:
        feed = Feed()
        messages = feed.follow(0)
        feed.publish("turn_ended", {})
        assert await anext(messages) is not None
        for _ in range(3):
            feed.look()
            assert await anext(messages) is None

    async def of_a_conversation() -> None:
        board = OpenQuestionList(Port(MemoryStore()))
        wake_ups = board.wake_ups()
        await anext(wake_ups)
        for _ in range(3):
            board.feed.look()
            await anext(wake_ups)
        await wake_ups.aclose()

    asyncio.run(of_questions())
    asyncio.run(of_a_conversation())
