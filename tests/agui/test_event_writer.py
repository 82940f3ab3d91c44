"""The stream of a turn as AG-UI events: each text is written once, with the ID of its record."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import midturn as mt
from midturn.agent.turn_stream import ModelRetried, Streamed
from midturn.events.types import (
    ChatRequest,
    ChatResponse,
    Event,
    Image,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.integrations.agui import protocol
from midturn.integrations.agui.event_writer import EventWriter
from midturn.integrations.agui.thread_messages import ThreadMessages
from support.agui import Event as AguiEvent, check_events


def recorded(*events: Event) -> list[Streamed]:
    return [mt.Recorded(event, place) for place, event in enumerate(events, 1)]


def written(items: Sequence[Streamed], thread: ThreadMessages | None = None) -> list[AguiEvent]:
    """Return the events of a run. They are checked as a whole run."""
    writer = EventWriter(thread or ThreadMessages())
    found = [event for item in items for event in writer.write(item)]
    found += writer.close()
    check_events([protocol.run_started("t", "r"), *found, protocol.run_finished("t", "r")])
    return found


def texts(events: Sequence[AguiEvent]) -> dict[str, str]:
    """Return the streamed texts and reasoning by ID."""
    found: dict[str, str] = {}
    for event in events:
        if event["type"] in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"):
            found[event["messageId"]] = found.get(event["messageId"], "") + event["delta"]
    return found


SAID = ChatResponse(event_id="a", message="Hello you.")
THOUGHT = ChatResponse(event_id="b", reasoning="Hm.")
CALL = ToolCallRequest(event_id="c", id="p", name="paint", arguments={"n": 1})
RESULT = ToolCallResponse(
    id="p", call="c", content="A dot.", images=(Image("image/png", "iVBORw0KGgo="),)
)


def test_streamed_text_has_the_id_of_its_record() -> None:
    items = [mt.TextDelta("Hello "), mt.TextDelta("you."), *recorded(SAID)]
    thread = ThreadMessages()
    assert texts(written(items, thread)) == {"text-1": "Hello you."}
    assert thread.messages == [{"id": "text-1", "role": "assistant", "content": "Hello you."}]


def test_text_without_deltas_is_written_from_its_record() -> None:
    assert texts(written(recorded(SAID, SAID))) == {"text-1": "Hello you.", "text-2": "Hello you."}


def test_rest_of_a_text_is_written_when_it_is_recorded() -> None:
    assert texts(written([mt.TextDelta("Hello"), *recorded(SAID)])) == {"text-1": "Hello you."}


def test_reasoning_is_written_once() -> None:
    streamed = written(
        [mt.ReasoningDelta("Hm."), mt.TextDelta("Hello you."), *recorded(THOUGHT, SAID)]
    )
    assert texts(streamed) == {"reasoning-0-1": "Hm.", "text-1": "Hello you."}
    assert texts(written(recorded(THOUGHT, SAID))) == texts(streamed)


def test_retried_text_gets_another_id() -> None:
    """The snapshot at the end of the run removes the first attempt."""
    retried = ModelRetried("overloaded", 1.0)
    items = [mt.TextDelta("Hel"), retried, mt.TextDelta("Hello you."), *recorded(SAID)]
    found = written(items)
    assert texts(found)["text-2"] == "Hello you."


@pytest.mark.parametrize("with_images", [True, False])
def test_image_in_a_result(*, with_images: bool) -> None:
    thread = ThreadMessages(with_images=with_images)
    *_, result = written(recorded(CALL, RESULT), thread)
    source = {"type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png"}
    parts = [{"type": "text", "text": "A dot."}, {"type": "image", "source": source}]
    flat = "A dot.\n[image image/png, 9 bytes]"
    assert result["content"] == (parts if with_images else flat)
    assert result["messageId"] == "result-c"
    assert thread.has_dropped_images is not with_images
    assert thread.messages[1]["content"] == result["content"]


def test_message_of_another_program_has_an_id_of_its_own() -> None:
    thread = ThreadMessages()
    written(recorded(ChatRequest(content="Hi."), SAID, ChatRequest(content="More.")), thread)
    assert [message["id"] for message in thread.messages] == ["request-1", "text-1", "request-2"]
