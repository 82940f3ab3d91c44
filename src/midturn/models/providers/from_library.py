"""What the library gives: its answer in our types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from pydantic_ai import messages as lib

from midturn.core.exchange import (
    ModelEvent,
    ModelRequest,
    Part,
    ReasoningDelta,
    ReasoningPart,
    StructuredPart,
    TextDelta,
    TextPart,
    ToolCallPart,
)
from midturn.core.json_text import NotJson, read_json
from midturn.core.json_value import Json
from midturn.models.providers import kept
from midturn.models.providers.to_library import ANSWER_TOOL, LibraryRequest
from midturn.models.received import clean, read_arguments


def delta(event: lib.ModelResponseStreamEvent) -> ModelEvent | None:
    """Return the piece of text or reasoning that has come, if that is what has come."""
    match event:
        case lib.PartStartEvent(part=lib.TextPart(content=text)) | lib.PartDeltaEvent(delta=lib.TextPartDelta(content_delta=text)):
            return TextDelta(clean(text)) if text else None
        case lib.PartStartEvent(part=lib.ThinkingPart(content=text)):
            return ReasoningDelta(clean(text)) if text else None
        case lib.PartDeltaEvent(delta=lib.ThinkingPartDelta(content_delta=text)):
            return ReasoningDelta(clean(text)) if text else None
        case _:
            return None


def parts(answer: lib.ModelResponse, asked: LibraryRequest) -> Iterator[Part]:
    """Yield the parts of an answer; the first carries what belongs to the response as a whole."""
    whole: dict[str, Json] = {"response": kept.came_with(answer, kept.OF_RESPONSE)}
    for part in answer.parts:
        fields = kept.came_with(part, (*kept.OF_PART, "signature"))
        metadata: dict[str, Json] = {"provider": {"model": asked.spec.id, **fields, **whole}}
        match part:
            case lib.TextPart(content=text) if text:
                yield _text(clean(text), metadata, asked.request)
            case lib.ThinkingPart(content=text):
                yield ReasoningPart(clean(text), metadata)
            case lib.ToolCallPart() if part.tool_name == ANSWER_TOOL and asked.how is not None and asked.how.shape == "tool":
                yield _given_answer(part, metadata)
            case lib.ToolCallPart():
                yield _call(part, metadata)
            case _:  # what we never ask for: pictures, the provider's own tools
                continue
        whole = {}


def _text(text: str, metadata: dict[str, Json], request: ModelRequest) -> TextPart | StructuredPart:
    """Return the text, or the value in it where the user wants one. An answer to a question is read where it is checked."""
    if request.schema is not None and request.inquiry is None:
        with suppress(NotJson):
            return StructuredPart(read_json(text), metadata)
    return TextPart(text, metadata)


def _given_answer(part: lib.ToolCallPart, metadata: dict[str, Json]) -> Part:
    arguments = read_arguments(part.args)
    return StructuredPart(arguments.value, metadata) if arguments.problem is None else TextPart(str(arguments.value), metadata)


def _call(part: lib.ToolCallPart, metadata: dict[str, Json]) -> ToolCallPart:
    arguments = read_arguments(part.args)
    return ToolCallPart(part.tool_call_id, part.tool_name, arguments.value, arguments.problem, metadata)
