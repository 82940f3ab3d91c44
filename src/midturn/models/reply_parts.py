"""From an entry of a script to what a model yields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from midturn.core.events import ToolCallRequest
from midturn.core.exchange import (
    Finished,
    ModelRequest,
    Part,
    ReasoningDelta,
    ReasoningPart,
    StopReason,
    StructuredPart,
    TextDelta,
    TextPart,
    ToolCallPart,
)
from midturn.core.json_value import Json
from midturn.errors import ModelError
from midturn.models.retry import is_transient
from midturn.models.script import ScriptedCall, ScriptedFailure, ScriptedReply


def deltas(reply: ScriptedReply, metadata: dict[str, Json]) -> Iterator[ReasoningDelta | TextDelta]:
    """Cut the reply into pieces of `chunk` characters."""
    for kind, text in ((ReasoningDelta, reply.reasoning), (TextDelta, reply.text)):
        size = reply.chunk or max(len(text or ""), 1)
        yield from (kind((text or "")[at : at + size], metadata) for at in range(0, len(text or ""), size))


def finished(reply: ScriptedReply, request: ModelRequest, metadata: dict[str, Json] | None = None) -> Finished:
    """Return the reply as it is recorded; every part carries `metadata`.

    Raises:
        ModelError: The reply is an error.
    """
    if reply.error:
        raise failure(reply.error)
    parts = tuple(_parts(reply, request, metadata))
    return Finished(parts, reply.usage.counted(), stop_reason(parts))


def failure(error: ScriptedFailure, metadata: Mapping[str, Json] | None = None) -> ModelError:
    """Return the error that the script imitates; `metadata` is recorded with it."""
    message = error.message or f"the model failed with status {error.status}"
    raised = ModelError(message, status=error.status, retry_after=error.retry_after, transient=is_transient(error.status))
    raised.metadata = metadata
    return raised


def stop_reason(parts: Sequence[Part]) -> StopReason:
    """Say why an answer of these parts ended."""
    return "tool_calls" if any(isinstance(part, ToolCallPart) for part in parts) else "stop"


def _parts(reply: ScriptedReply, request: ModelRequest, metadata: dict[str, Json] | None) -> Iterator[Part]:
    if reply.reasoning is not None:
        yield ReasoningPart(reply.reasoning, metadata)
    if reply.text is not None:
        yield _text_part(reply, request, metadata)
    ids = _call_ids(reply.calls, request)
    yield from (_call_part(call, call_id, metadata) for call, call_id in zip(reply.calls, ids, strict=True))


def _text_part(reply: ScriptedReply, request: ModelRequest, metadata: dict[str, Json] | None) -> TextPart | StructuredPart:
    """Return the text, or the value in it where an answer of a certain shape is wanted."""
    text = reply.text or ""
    if request.schema is None or reply.calls:
        return TextPart(text, metadata)
    from midturn.core.json_text import NotJson, read_json  # few answers are wanted in a shape

    try:
        return StructuredPart(read_json(text), metadata)
    except NotJson:
        return TextPart(text, metadata)


def _call_part(call: ScriptedCall, id: str, metadata: dict[str, Json] | None) -> ToolCallPart:
    problem = "the arguments are not a JSON object" if isinstance(call.arguments, str) else None
    return ToolCallPart(id, call.name, call.arguments, problem, metadata)


def _call_ids(calls: Sequence[ScriptedCall], request: ModelRequest) -> Iterator[str]:
    """Give each call its id: the script's, or the first `call_<n>` that the conversation does not have yet."""
    used = {event.id for event in (*request.events, *request.recorded) if isinstance(event, ToolCallRequest)}
    used |= {call.id for call in calls if call.id}
    number = 0
    for call in calls:
        call_id = call.id
        while call_id is None:
            number += 1
            call_id = None if f"call_{number}" in used else f"call_{number}"
        yield call_id
