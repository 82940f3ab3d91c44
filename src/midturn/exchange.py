"""The exchange with a model: requests, what comes back as it comes, what that costs, and the pictures that models take."""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias, assert_never

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from midturn.events.types import ChatResponse, Event, Image, InquiryAnswered, InquiryCancelled, ToolCallRequest, answered_by_model
from midturn.question.json_value import Json, JsonObject
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.text import check_text

Family: TypeAlias = Literal["anthropic", "openai", "google", "openai-compatible"]
"""The protocol of a provider."""

DEFAULT_CACHE: Final = "short"
DEFAULT_TIMEOUT: Final = 120.0
"""Seconds without a byte from the model."""

DEFAULT_RETRIES: Final = 4
"""Retries of a failed request."""


class ToolDefinition(Struct, frozen=True):
    """A tool as a model sees it; `parameters` is the JSON Schema of its arguments.

    Args:
        name: Its name, as the model calls it.
        description: What the model is told of it.
    """

    name: str
    description: str
    parameters: JsonObject


class InquiryAsked(Struct, frozen=True):
    """Subject of a side request: the tool and its question.

    `shares_cache` is set where the main model answers with its cache on: then nothing that the provider counts into its cache key may
    differ from the main request. `trial` is 1, or 2 after a wrong answer.

    Args:
        tool: The tool that asks.
        question_id: The id of its question.
        question: The question, as it is recorded.
    """

    tool: str
    question_id: str
    question: PersistedQuestion
    shares_cache: bool = False
    trial: int = 1


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One request: `events` is the provider view of the stream; `inquiry` is set on a side request only.

    `recorded` is the whole stream, for models that keep their position in it (the scripted one); adapters never send it.

    Args:
        system: The system prompt.
        tools: What the model may call.
        tool_choice: `auto`, or what a model is made to do.
        schema: The JSON Schema of the answer, where one is wanted in a shape.
        parameters: Settings of the request, such as `temperature`.
        cache: How long the provider shall keep what it has read: `short`, `long` or `off`.
        timeout: Seconds without a byte from the model.
        conversation: The id of the conversation.
    """

    system: str = ""
    events: Sequence[Event] = ()
    recorded: Sequence[Event] = ()
    tools: Sequence[ToolDefinition] = ()
    tool_choice: str = "auto"
    schema: JsonObject | None = None
    parameters: JsonObject = {}
    cache: str = DEFAULT_CACHE
    timeout: float = DEFAULT_TIMEOUT
    conversation: str = ""
    inquiry: InquiryAsked | None = None


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens; `input_tokens` includes what was read from and written to a cache.

    Args:
        output_tokens: What the model wrote.
        cache_read_tokens: What the provider had kept, and read from there.
        cache_write_tokens: What it has kept now.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total(self) -> int:
        """All tokens, in and out."""
        return self.input_tokens + self.output_tokens

    def to_json(self) -> dict[str, Json]:
        """Return the counts by name, and their `total`."""
        counts: dict[str, Json] = {name: getattr(self, name) for name in self.__struct_fields__}
        return {**counts, "total": self.total}

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


class Spent(Struct, frozen=True):
    """Usage of one request; `is_inquiry` where the model answered a question. `model` is empty where the record does not name it."""

    model: str
    usage: Usage
    is_inquiry: bool = False

    @property
    def metadata(self) -> dict[str, Json]:
        """Metadata of an event with it: nothing where no tokens were counted."""
        return {"usage": {**to_builtins(self.usage), "model": self.model}} if self.usage != Usage() else {}


_SAID: Final = frozenset({ChatResponse, ToolCallRequest})
_ANSWERS: Final = frozenset({InquiryAnswered, InquiryCancelled})


def spent_in(events: Iterable[Event]) -> Iterator[Spent]:
    """Yield what is on record of each request that a model answered. A question that a model failed to answer has cost as much, too."""
    response: Spent | None = None
    for event in events:
        if type(event) in _SAID:
            recorded = _recorded(event)
            response = Spent(recorded.model, recorded.usage + (response.usage if response else Usage()))
            continue
        if response:
            yield response
            response = None
        if type(event) in _ANSWERS and (event.metadata or answered_by_model(event)):
            recorded = _recorded(event)
            if recorded.usage != Usage() or answered_by_model(event):
                yield recorded
    if response:
        yield response


def _recorded(event: Event) -> Spent:
    """Read what an event carries; numbers that make no sense count as nothing."""
    said = (event.metadata or {}).get("usage", {})
    model = said.get("model", "") if isinstance(said, dict) else ""
    try:
        return Spent(str(model), convert(said, Usage), type(event) in _ANSWERS)
    except ValidationError:
        return Spent("", Usage(), type(event) in _ANSWERS)


class TextDelta(Struct, frozen=True):
    """The next piece of the answer. `metadata` belongs to the part that is recorded if the response is cut here.

    Args:
        text: The piece.
    """

    text: str
    metadata: dict[str, Json] | None = None


class ReasoningDelta(Struct, frozen=True):
    """The next piece of the model's reasoning; `metadata` as of `TextDelta`.

    Args:
        text: The piece.
    """

    text: str
    metadata: dict[str, Json] | None = None


class TextPart(Struct, frozen=True):
    """One finished text of an answer; `metadata` is the provider's own and travels back.

    Args:
        text: The whole text.
    """

    text: str
    metadata: dict[str, Json] | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be recorded.

        Raises:
            TypeError: The text is something else.
        """
        check_text("text", self.text)


class ReasoningPart(Struct, frozen=True):
    """One finished piece of reasoning; signatures stand in `metadata`.

    Args:
        text: The whole text.
    """

    text: str
    metadata: dict[str, Json] | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be recorded.

        Raises:
            TypeError: The text is something else.
        """
        check_text("text", self.text)


class StructuredPart(Struct, frozen=True):
    """The answer in the shape that the request's schema asked for.

    Args:
        value: The answer.
        metadata: The provider's own; it travels back.
    """

    value: Json
    metadata: dict[str, Json] | None = None


class ToolCallPart(Struct, frozen=True):
    """A complete call. `arguments` is an object, or the model's own text where that was not a JSON object; `problem` then says why.

    Args:
        id: What the provider calls it.
        name: The name of the tool.
        metadata: The provider's own; it travels back.
    """

    id: str
    name: str
    arguments: Json
    problem: str | None = None
    metadata: dict[str, Json] | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be recorded.

        Raises:
            TypeError: The id or the name is no text.
        """
        check_text("id", self.id)
        check_text("name", self.name)


Part: TypeAlias = TextPart | ReasoningPart | StructuredPart | ToolCallPart


def recorded(part: Part) -> ChatResponse | ToolCallRequest:
    """Return a part of a model's answer as its event."""
    match part:
        case TextPart(text, metadata):
            return ChatResponse(message=text, metadata=metadata)
        case ReasoningPart(text, metadata):
            return ChatResponse(reasoning=text, metadata=metadata)
        case StructuredPart(value, metadata):
            return ChatResponse(structured=value, metadata=metadata)
        case ToolCallPart(id, name, arguments, _, metadata):
            return ToolCallRequest(id=id, name=name, arguments=arguments, metadata=metadata)
        case _ as other:
            assert_never(other)


StopReason: TypeAlias = Literal["stop", "tool_calls", "length", "refusal", "other"]


class Finished(Struct, frozen=True):
    """The end of a response: its parts in order, as they are recorded, and what it cost.

    Args:
        parts: Texts, reasoning and calls, in order.
        usage: The tokens.
        stop_reason: Why it ended: `stop`, `tool_calls`, `length`, `refusal` or `other`.
    """

    parts: tuple[Part, ...]
    usage: Usage = Usage()
    stop_reason: StopReason = "stop"

    def counted(self, model: str) -> tuple[Part, ...]:
        """Return the parts, the last of them with what the response cost in `metadata.usage`.

        Args:
            model: The name of the model that answered.
        """
        if not self.parts or self.usage == Usage():
            return self.parts
        *before, last = self.parts
        return (*before, replace(last, metadata={**(last.metadata or {}), **Spent(model, self.usage).metadata}))


class BrokeOff(Struct, frozen=True):
    """The answer broke off and is asked for again: the pieces before this are not part of what comes."""


ModelEvent: TypeAlias = TextDelta | ReasoningDelta | BrokeOff | Finished


# Images that models take ----------------------------------------------------------------------------------------------


LARGEST_IMAGE: Final = 1_500_000
"""Bytes of a picture that is passed on: every provider takes it, and in base64 it can be recorded."""

_BEGINNINGS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def media_type_of(content: bytes) -> str | None:
    """Return the media type of a picture that models take; None for everything else."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for beginning, media_type in _BEGINNINGS.items() if content.startswith(beginning)), None)


def checked_image(data: str) -> Image | None:
    """Return a picture from outside as what it is; None where it is not a picture, or too large."""
    if len(data) * 3 // 4 > LARGEST_IMAGE:
        return None
    try:
        media_type = media_type_of(binascii.a2b_base64(data, strict_mode=True))
    except (binascii.Error, ValueError):
        return None
    return Image(media_type, data) if media_type else None
