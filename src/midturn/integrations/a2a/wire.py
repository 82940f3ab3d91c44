"""Parts and messages of the protocol as the SDK defines them, from and to JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

from a2a.types.a2a_pb2 import (
    Message,
    Part,
    Role,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError as ProtobufParseError
from google.protobuf.struct_pb2 import Struct as ProtobufStruct, Value

from midturn.question.json_value import Json, JsonObject, members

TaskUpdate: TypeAlias = TaskStatusUpdateEvent | TaskArtifactUpdateEvent
MAX_WHOLE: Final = 2**53
"""Largest integer that is converted: doubles represent all integers up to 2**53 exactly."""


def text_part(text: str) -> Part:
    """Return a part with text."""
    return Part(text=text)


def data_part(value: Json) -> Part | None:
    """Return a part with JSON. None if the protocol cannot carry the value, because it is nested
    too deeply.
    """
    try:
        return Part(data=ParseDict(cast("Any", value), Value()), media_type="application/json")
    except (ProtobufParseError, RecursionError):
        return None


def data_of(part: Part) -> Json:
    """Return the JSON of a part. The protocol has only doubles, so numbers without a fraction are
    made whole.
    """
    return whole(cast("Json", MessageToDict(part.data)))


def metadata_of(part: Part) -> JsonObject:
    """Return the metadata of a part."""
    return members(whole(cast("Json", MessageToDict(part.metadata))))


def metadata(value: JsonObject) -> ProtobufStruct:
    """Return an object as metadata."""
    return ParseDict(cast("Any", value), ProtobufStruct())


def whole(value: Json) -> Json:
    """Return a value with every number that has no fraction as an integer."""
    match value:
        case float() if value.is_integer() and abs(value) <= MAX_WHOLE:
            return int(value)
        case Mapping():
            return {key: whole(each) for key, each in cast("JsonObject", value).items()}
        case list() | tuple():
            return [whole(each) for each in value]
        case _:
            return value


def message_of(
    message_id: str,
    parts: Iterable[Part],
    *,
    task: str = "",
    context: str = "",
    is_user: bool = False,
    extensions: Iterable[str] = (),
) -> Message:
    """Return a message.

    Args:
        message_id: ID of the message.
        parts: The parts.
        task: ID of the task.
        context: ID of the context.
        is_user: Whether the client sends it.
        extensions: URIs of the extensions that its parts use.
    """
    return Message(
        message_id=message_id,
        role=Role.ROLE_USER if is_user else Role.ROLE_AGENT,
        parts=list(parts),
        task_id=task,
        context_id=context,
        extensions=list(extensions),
    )
