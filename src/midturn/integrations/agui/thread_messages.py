"""The messages of a thread, computed from the recorded events of its conversation.

The log is the only record. Every run computes the same messages with the same IDs:

- A user message has the ID that the front end gave it. The ID is recorded in the metadata of the
  `chat_request` event. In imported history, the ID is found by the position and text of the
  message.
- A text from the assistant has the ID `text-<n>`, where `n` counts the texts in the conversation.
  Texts are streamed, so the ID is needed before the text is recorded.
- Each call is a separate message. Its ID and its `toolCallId` are the event ID of the call, because
  providers reuse their call IDs.
- The result of a call has the ID `result-<call>`. It follows its call, as it does in front ends.

Reasoning is streamed, but the messages do not contain it. Front ends store it themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile
from typing import cast

import msgspec

from midturn.events.types import (
    ChatRequest,
    ChatResponse,
    Event,
    Image,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.integrations.agui.protocol import AguiMessage
from midturn.integrations.agui.run_input import InputMessage
from midturn.question.json_value import Json, members

SEPARATOR = "\n\n"
"""Separator between the user messages that start a turn together."""


# Metadata that is recorded with a user message
# --------------------------------------------------------------------------------------------------


def request_metadata(run: str, messages: Sequence[InputMessage]) -> dict[str, Json]:
    """Return the metadata of the `chat_request` that begins a turn.

    Args:
        run: ID of the run.
        messages: The user messages, none of which has empty text.
    """
    ids: list[Json] = [message.id for message in messages]
    lengths: list[Json] = [len(message.text) for message in messages]
    return {"agui": {"run": run, "messages": ids, "lengths": lengths}}


def is_agui_turn(events: Iterable[Event]) -> bool:
    """Return whether a front end started the turn."""
    return any(
        isinstance(event, ChatRequest) and "agui" in (event.metadata or {}) for event in events
    )


def _recorded_messages(event: ChatRequest) -> list[tuple[str, str]]:
    """Return the front end's messages in a request as pairs of ID and text. Empty if the request
    does not come from a front end.
    """
    given = members((event.metadata or {}).get("agui"))
    ids, lengths = given.get("messages"), given.get("lengths")
    if not isinstance(ids, list) or not isinstance(lengths, list):
        return []
    found: list[tuple[str, str]] = []
    start = 0
    for id, length in zip(ids, lengths, strict=False):  # noqa: A001  the name in the protocol
        if not isinstance(id, str) or not isinstance(length, int):
            return []
        found.append((id, event.content[start : start + length]))
        start += length + len(SEPARATOR)
    return found


# Messages
# --------------------------------------------------------------------------------------------------


class ThreadMessages:
    """The messages of a thread. Add the recorded events with `take`, in order."""

    def __init__(self, given: Sequence[InputMessage] = (), *, with_images: bool = True) -> None:
        """Create the messages of a thread without events.

        Args:
            given: The messages from the front end, which contain the IDs of imported history.
            with_images: Whether results may contain images. If False, images are replaced by text.
        """
        self.messages: list[AguiMessage] = []
        self.ids: set[str] = set()
        self.calls: set[str] = set()
        """IDs of the calls."""
        self.texts = 0
        """Number of texts from the assistant."""
        self.has_dropped_images = False
        texts = (message for message in given if message.role in ("user", "assistant"))
        self._given = [*dropwhile(lambda message: message.role != "user", texts)]
        self._places = {message.id: place for place, message in enumerate(self._given)}
        self._place = 0
        self._requests = 0
        self._with_images = with_images

    @property
    def next_text_id(self) -> str:
        """ID of the assistant's next text, unless it is part of imported history."""
        return f"text-{self.texts + 1}"

    def take(self, event: Event) -> AguiMessage | None:
        """Add the messages of an event. Return the added message if it comes from the assistant or
        from a tool, otherwise None.
        """
        match event:
            case ChatRequest():
                for message in self._requested(event):
                    self._add(message)
                return None
            case ChatResponse(message=str(text)) if text:
                own_id = self.next_text_id
                self.texts += 1
                return self._add(
                    {
                        "id": self._known_id("assistant", text, own_id),
                        "role": "assistant",
                        "content": text,
                    }
                )
            case ToolCallRequest():
                self.calls.add(event.event_id)
                return self._add(_call(event))
            case ToolCallResponse(call=call) if call in self.calls:
                return self._add(
                    {
                        "id": f"result-{call}",
                        "role": "tool",
                        "toolCallId": call,
                        "content": self._content(event.content, event.images),
                    },
                    after=call,
                )
            case _:
                return None

    def _add(self, message: AguiMessage, after: str | None = None) -> AguiMessage:
        """Add a message at the end, or after the message whose ID is `after`."""
        place = len(self.messages)
        while after is not None and place > 0 and self.messages[place - 1]["id"] != after:
            place -= 1
        self.messages.insert(place, message)
        id = cast("str", message["id"])  # noqa: A001  the name in the protocol
        self.ids.add(id)
        given = self._places.get(id)
        if given is not None:
            self._place = given + 1
        return message

    def _requested(self, event: ChatRequest) -> Iterator[AguiMessage]:
        self._requests += 1
        recorded = _recorded_messages(event) or [
            (self._known_id("user", event.content, f"request-{self._requests}"), event.content)
        ]
        for id, text in recorded:  # noqa: A001  the name in the protocol
            yield {"id": id, "role": "user", "content": text}

    def _known_id(self, role: str, text: str, own_id: str) -> str:
        """Return the ID that the front end gave to a message, if its message at the same position
        has the same role and text. Otherwise, return `own_id`.
        """
        if self._place >= len(self._given):
            return own_id
        given = self._given[self._place]
        is_same = (given.role, given.text) == (role, text) and given.id not in self.ids
        return given.id if is_same else own_id

    def _content(self, text: str, images: Sequence[Image]) -> Json:
        if not images:
            return text
        if not self._with_images:
            self.has_dropped_images = True
            sizes = "\n".join(
                f"[image {image.media_type}, {image.size:,} bytes]" for image in images
            )
            return f"{text}\n{sizes}" if text else sizes
        parts: list[Json] = [{"type": "text", "text": text}] if text else []
        for image in images:
            source: Json = {"type": "data", "value": image.data, "mimeType": image.media_type}
            parts.append({"type": "image", "source": source})
        return parts


def _call(event: ToolCallRequest) -> AguiMessage:
    function: Json = {"name": event.name, "arguments": arguments_text(event)}
    return {
        "id": event.event_id,
        "role": "assistant",
        "toolCalls": [{"id": event.event_id, "type": "function", "function": function}],
    }


def arguments_text(event: ToolCallRequest) -> str:
    """Return the arguments of a call as JSON text."""
    if isinstance(event.arguments, str):  # the model's text was not a JSON object
        return event.arguments
    return msgspec.json.encode(event.arguments).decode()


# Messages from a front end
# --------------------------------------------------------------------------------------------------


def own_messages(given: Sequence[InputMessage]) -> list[AguiMessage]:
    """Return the system and developer messages from the front end. They are not recorded, so a
    snapshot without them would remove them.
    """
    return [
        {**message.given, "id": message.id}
        for message in given
        if message.role in ("system", "developer")
    ]


def displaced(given: Sequence[str], messages: Sequence[AguiMessage]) -> bool:
    """Return whether a front end's messages would be in the wrong order after a snapshot. Front
    ends keep the order of the messages that they already have, and append the new messages.

    Args:
        given: IDs of the messages that the front end has.
        messages: The messages of the snapshot.
    """
    ids = [cast("str", message["id"]) for message in messages]
    known = set(ids)
    held = [id for id in given if id in known]  # noqa: A001  the name in the protocol
    has = set(held)
    return held + [id for id in ids if id not in has] != ids  # noqa: A001  as above
