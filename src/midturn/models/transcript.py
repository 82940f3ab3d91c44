"""Converts events to messages that alternate between user and model, as every provider requires."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from midturn.events.types import (
    ChatRequest,
    ChatResponse,
    Event,
    Image,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.question.json_value import Json, JsonObject

TAIL: Final = (
    "Reply with nothing but one JSON object that is valid under the following JSON Schema: no other"
    " text, no code fence, no tool call."
)


class UserWords(Struct, frozen=True):
    """Text from the user."""

    text: str


class CallResult(Struct, frozen=True):
    """Result of a tool call."""

    id: str
    name: str
    content: str
    is_error: bool
    images: tuple[Image, ...] = ()


class ModelWords(Struct, frozen=True):
    """Text from the model, or its reasoning if `thought` is true."""

    text: str
    thought: bool = False
    metadata: dict[str, Json] | None = None


class ModelCall(Struct, frozen=True):
    """A tool call by the model."""

    id: str
    name: str
    arguments: JsonObject
    metadata: dict[str, Json] | None = None


UserPart: TypeAlias = UserWords | CallResult
ModelPart: TypeAlias = ModelWords | ModelCall


class UserMessage(Struct, frozen=True):
    """Tool results and user text, in order."""

    parts: tuple[UserPart, ...]


class ModelMessage(Struct, frozen=True):
    """One response from the model."""

    parts: tuple[ModelPart, ...]


TranscriptMessage: TypeAlias = UserMessage | ModelMessage


def transcript(events: Iterable[Event]) -> list[TranscriptMessage]:
    """Group visible events into messages that alternate between the user and the model.

    Call ids are made unique, even if a provider used the same id twice.
    """
    parts = list(_Parts().of(events))
    messages: list[TranscriptMessage] = []
    for by_user, group in groupby(parts, lambda part: isinstance(part, UserWords | CallResult)):
        if by_user:
            messages.append(
                UserMessage(
                    tuple(part for part in group if isinstance(part, UserWords | CallResult))
                )
            )
        else:
            messages.append(
                ModelMessage(
                    tuple(part for part in group if isinstance(part, ModelWords | ModelCall))
                )
            )
    return messages


def with_tail(messages: Sequence[TranscriptMessage], schema: JsonObject) -> list[TranscriptMessage]:
    """Append the instruction to follow a JSON Schema to the last user message."""
    demand = f"{TAIL}\n{msgspec.json.encode(schema).decode()}"
    *before, last = messages or [UserMessage(())]
    if isinstance(last, ModelMessage):
        return [*before, last, UserMessage((UserWords(demand),))]
    if last.parts and isinstance(last.parts[-1], UserWords):
        return [
            *before,
            UserMessage((*last.parts[:-1], UserWords(f"{last.parts[-1].text}\n\n{demand}"))),
        ]
    return [*before, UserMessage((*last.parts, UserWords(demand)))]


def words_in_result(messages: Sequence[TranscriptMessage]) -> list[TranscriptMessage]:
    """Move the user's last text into the tool result before it. Used for models whose thinking
    ends at user text.
    """
    if not messages or not isinstance(messages[-1], UserMessage):
        return list(messages)
    results = [part for part in messages[-1].parts if isinstance(part, CallResult)]
    words = [part for part in messages[-1].parts if isinstance(part, UserWords)]
    if not results or not words:
        return list(messages)
    content = "\n\n".join([results[-1].content, *(part.text for part in words)])
    return [
        *messages[:-1],
        UserMessage((*results[:-1], msgspec.structs.replace(results[-1], content=content))),
    ]


class _Parts:
    """Converts events to parts, with unique call ids."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._calls: dict[str, tuple[str, str]] = {}

    def of(self, events: Iterable[Event]) -> Iterator[UserPart | ModelPart]:
        for event in events:
            match event:
                case ChatRequest(content=text):
                    yield UserWords(text)
                case ChatResponse():
                    yield _model_words(event)
                case ToolCallRequest():
                    yield self._call(event)
                case ToolCallResponse(id=id, content=content, is_error=is_error, images=images):
                    wire_id, name = (
                        self._calls.get(event.call)
                        or self._calls.get(f"id:{id}")
                        or (id, "unknown")
                    )
                    yield CallResult(wire_id, name, content, is_error, images)
                case _:
                    continue

    def _call(self, event: ToolCallRequest) -> ModelCall:
        wire_id, number = event.id, 1
        while wire_id in self._used:
            number += 1
            wire_id = f"{event.id}_{number}"
        self._used.add(wire_id)
        self._calls[event.event_id or f"id:{event.id}"] = self._calls[f"id:{event.id}"] = (
            wire_id,
            event.name,
        )
        return ModelCall(wire_id, event.name, _as_object(event.arguments), event.metadata)


def _model_words(event: ChatResponse) -> ModelWords:
    if event.reasoning is not None:
        return ModelWords(event.reasoning, thought=True, metadata=event.metadata)
    if event.structured is not UNSET:
        return ModelWords(msgspec.json.encode(event.structured).decode(), metadata=event.metadata)
    return ModelWords(event.message or "", metadata=event.metadata)


def _as_object(arguments: Json) -> JsonObject:
    """Return the arguments as an object, because providers require one. Text that is not a JSON
    object is wrapped in an object.
    """
    return arguments if isinstance(arguments, dict) else {"invalid_arguments": arguments}
