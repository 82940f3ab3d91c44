"""Requests to models, their responses, token usage, and images for models."""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias, assert_never

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from midturn.events.types import (
    ChatResponse,
    Event,
    Image,
    InquiryAnswered,
    InquiryCancelled,
    ToolCallRequest,
    answered_by_model,
)
from midturn.question.json_value import Json, JsonObject
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.text import check_text

Family: TypeAlias = Literal["anthropic", "openai", "google", "openai-compatible"]
"""The API protocol of a provider."""

DEFAULT_CACHE: Final = "short"
DEFAULT_TIMEOUT: Final = 120.0
"""Maximum seconds between two bytes from the model."""

DEFAULT_RETRIES: Final = 4
"""Number of retries of a failed request."""


class ToolDefinition(Struct, frozen=True):
    """Description of a tool for a model.

    Args:
        name: Name with which the model calls the tool.
        description: Description for the model.
        parameters: JSON Schema of the arguments.
    """

    name: str
    description: str
    parameters: JsonObject


class InquiryAsked(Struct, frozen=True):
    """Subject of a side request: a model answers a tool's question.

    `shares_cache` is set if the main model answers and its prompt cache is enabled. In this case,
    everything that the provider includes in its cache key must be the same as in the main request.
    `trial` is 1, or 2 after an invalid answer.

    Args:
        tool: Name of the tool that asks.
        question_id: ID of the question.
        question: The question as recorded.
    """

    tool: str
    question_id: str
    question: PersistedQuestion
    shares_cache: bool = False
    trial: int = 1


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One request to a model.

    Args:
        system: The system prompt.
        events: The events of the conversation to send, prepared for the provider.
        recorded: All recorded events, for scripted models, which track their position in them.
            Adapters never send these events.
        tools: Tools that the model may call.
        tool_choice: `auto`, `none`, `required`, or the name of a tool.
        schema: JSON Schema of the response, if structured output is wanted.
        parameters: Request settings, such as `temperature`.
        cache: Time for which the provider should cache the prompt: `off`, `short`, `long` or a
            duration.
        timeout: Maximum seconds between two bytes from the model.
        conversation: The conversation ID.
        inquiry: The question to answer; set on side requests only.
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
    """Token counts for a response.

    Args:
        input_tokens: Tokens of the prompt, including those read from and written to the provider's
            cache.
        output_tokens: Tokens that the model generated.
        cache_read_tokens: Prompt tokens read from the provider's cache.
        cache_write_tokens: Prompt tokens written to the provider's cache.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total(self) -> int:
        """Input and output tokens together."""
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
    """Token usage of one request. `is_inquiry` is set if the model answered a question. `model`
    is empty if it was not recorded.
    """

    model: str
    usage: Usage
    is_inquiry: bool = False

    @property
    def metadata(self) -> dict[str, Json]:
        """Event metadata with the usage, or an empty dict if no tokens were counted."""
        return (
            {"usage": {**to_builtins(self.usage), "model": self.model}}
            if self.usage != Usage()
            else {}
        )


_RESPONSES: Final = frozenset({ChatResponse, ToolCallRequest})
_INQUIRY_RESPONSES: Final = frozenset({InquiryAnswered, InquiryCancelled})


def spent_in(events: Iterable[Event]) -> Iterator[Spent]:
    """Yield the recorded usage of each model request. Failed attempts to answer a question are
    included.
    """
    response: Spent | None = None
    for event in events:
        if type(event) in _RESPONSES:
            usage = _recorded_usage(event)
            response = Spent(usage.model, usage.usage + (response.usage if response else Usage()))
            continue
        if response:
            yield response
            response = None
        if type(event) in _INQUIRY_RESPONSES and (event.metadata or answered_by_model(event)):
            usage = _recorded_usage(event)
            if usage.usage != Usage() or answered_by_model(event):
                yield usage
    if response:
        yield response


def _recorded_usage(event: Event) -> Spent:
    """Return the usage in the metadata of an event, or zero tokens if it is invalid."""
    usage = (event.metadata or {}).get("usage", {})
    model = usage.get("model", "") if isinstance(usage, dict) else ""
    try:
        return Spent(str(model), convert(usage, Usage), type(event) in _INQUIRY_RESPONSES)
    except ValidationError:
        return Spent("", Usage(), type(event) in _INQUIRY_RESPONSES)


class TextDelta(Struct, frozen=True):
    """The next piece of the response text.

    Args:
        text: The piece.
        metadata: Provider metadata to record with the text if the response is interrupted here.
    """

    text: str
    metadata: dict[str, Json] | None = None


class ReasoningDelta(Struct, frozen=True):
    """The next piece of the model's reasoning.

    Args:
        text: The piece.
        metadata: Provider metadata to record with the reasoning if the response is interrupted
            here.
    """

    text: str
    metadata: dict[str, Json] | None = None


class TextPart(Struct, frozen=True):
    """Complete text from a response.

    Args:
        text: The whole text.
        metadata: Provider metadata, sent back with later requests.
    """

    text: str
    metadata: dict[str, Json] | None = None

    def __post_init__(self) -> None:
        """Check that the text can be recorded.

        Raises:
            TypeError: `text` is not a string.
        """
        check_text("text", self.text)


class ReasoningPart(Struct, frozen=True):
    """A complete piece of reasoning.

    Args:
        text: The whole text.
        metadata: Provider metadata such as signatures, sent back with later requests.
    """

    text: str
    metadata: dict[str, Json] | None = None

    def __post_init__(self) -> None:
        """Check that the text can be recorded.

        Raises:
            TypeError: `text` is not a string.
        """
        check_text("text", self.text)


class StructuredPart(Struct, frozen=True):
    """Structured output that follows the request's schema.

    Args:
        value: The output.
        metadata: Provider metadata, sent back with later requests.
    """

    value: Json
    metadata: dict[str, Json] | None = None


class ToolCallPart(Struct, frozen=True):
    """A complete tool call.

    Args:
        id: Call ID from the provider.
        name: Name of the tool.
        arguments: JSON object, or the model's text if it is not a JSON object.
        problem: Reason why the text is not a JSON object; None if it is one.
        metadata: Provider metadata, sent back with later requests.
    """

    id: str
    name: str
    arguments: Json
    problem: str | None = None
    metadata: dict[str, Json] | None = None

    def __post_init__(self) -> None:
        """Check that the call can be recorded.

        Raises:
            TypeError: The ID or the name is not a string.
        """
        check_text("id", self.id)
        check_text("name", self.name)


Part: TypeAlias = TextPart | ReasoningPart | StructuredPart | ToolCallPart


def recorded(part: Part) -> ChatResponse | ToolCallRequest:
    """Return the event that records a part of a response."""
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
    """End of a response.

    Args:
        parts: Texts, reasoning and tool calls, in the order in which they are recorded.
        usage: Token counts.
        stop_reason: Reason why the model stopped: `stop`, `tool_calls`, `length`, `refusal` or
            `other`.
    """

    parts: tuple[Part, ...]
    usage: Usage = Usage()
    stop_reason: StopReason = "stop"

    def counted(self, model: str) -> tuple[Part, ...]:
        """Return the parts, with the token counts in `metadata.usage` of the last one.

        Args:
            model: Name of the model that responded.
        """
        if not self.parts or self.usage == Usage():
            return self.parts
        *before, last = self.parts
        return (
            *before,
            replace(last, metadata={**(last.metadata or {}), **Spent(model, self.usage).metadata}),
        )


class BrokeOff(Struct, frozen=True):
    """The response was interrupted and is requested again. Discard the pieces received so far."""


ModelEvent: TypeAlias = TextDelta | ReasoningDelta | BrokeOff | Finished


# Images
# --------------------------------------------------------------------------------------------------


LARGEST_IMAGE: Final = 1_500_000
"""Maximum size in bytes of an image sent to a model. All providers accept it, and it can be
recorded as base64.
"""

_MAGIC_BYTES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def media_type_of(content: bytes) -> str | None:
    """Return the media type of an image that models accept, or None for other content."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next(
        (media_type for magic, media_type in _MAGIC_BYTES.items() if content.startswith(magic)),
        None,
    )


def checked_image(data: str) -> Image | None:
    """Convert untrusted base64 data to an image. Return None if the data is not an image, or is too
    large.
    """
    if len(data) * 3 // 4 > LARGEST_IMAGE:
        return None
    try:
        media_type = media_type_of(binascii.a2b_base64(data, strict_mode=True))
    except (binascii.Error, ValueError):
        return None
    return Image(media_type, data) if media_type else None
