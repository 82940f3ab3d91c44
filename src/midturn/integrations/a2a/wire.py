"""Converts the SDK's parts and messages from and to JSON."""

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
"""Largest number that is converted to an integer. Doubles represent all integers up to 2**53
exactly.
"""


def text_part(text: str) -> Part:
    """Return a part that contains text."""
    return Part(text=text)


def data_part(value: Json) -> Part | None:
    """Return a part that contains JSON. None if the value is nested too deeply for the protocol."""
    try:
        return Part(data=ParseDict(cast("Any", value), Value()), media_type="application/json")
    except (ProtobufParseError, RecursionError):
        return None


def data_of(part: Part) -> Json:
    """Return the JSON of a part. The protocol transmits all numbers as doubles, so numbers without
    a fraction are converted to integers.
    """
    return whole(cast("Json", MessageToDict(part.data)))


def metadata_of(part: Part) -> JsonObject:
    """Return the metadata of a part."""
    return members(whole(cast("Json", MessageToDict(part.metadata))))


def metadata(value: JsonObject) -> ProtobufStruct:
    """Convert a JSON object to the SDK's metadata."""
    return ParseDict(cast("Any", value), ProtobufStruct())


def whole(value: Json) -> Json:
    """Return a JSON value in which numbers without a fraction are integers."""
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
    """Create a message in the wire format.

    Args:
        message_id: ID of the message.
        parts: The parts.
        task: ID of the task.
        context: ID of the context.
        is_user: Whether the client sends the message. Otherwise, the agent sends it.
        extensions: URIs of the extensions that the parts use.
    """
    return Message(
        message_id=message_id,
        role=Role.ROLE_USER if is_user else Role.ROLE_AGENT,
        parts=list(parts),
        task_id=task,
        context_id=context,
        extensions=list(extensions),
    )
