"""Convert requests and responses between midturn's types and pydantic-ai's.

Some providers need data from an earlier response in the next request. This data is stored with each
part of the response, and is sent only to the same model.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, assert_never, cast

import msgspec
from msgspec import Struct
from pydantic_ai import messages as lib
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition as LibraryTool

from midturn import exchange
from midturn.models.profiles import (
    AskStrategy,
    ModelSpec,
    Profile,
    how_to_ask,
    how_to_shape,
    retention,
)
from midturn.models.transcript import (
    CallResult,
    ModelCall,
    ModelWords,
    TranscriptMessage,
    UserMessage,
    UserWords,
    transcript,
    with_tail,
    words_in_result,
)
from midturn.question.answer import DEPTH_LIMIT
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, JsonObject, json_problem

ANSWER_TOOL = "give_answer"
_IMAGE_OMITTED = "(You do not see the picture: it cannot be sent to this model.)"
_INQUIRY_TIMEOUT = 60.0
"""Total timeout of a side request, in seconds. A main request has no total timeout as long as data
keeps arriving.
"""


class LibraryRequest:
    """A request in pydantic-ai's format: messages, settings and request parameters.

    Attributes:
        request: The request.
        spec: The model.
        how: Strategy that enforces the response format, or None if any format is allowed.
    """

    def __init__(self, request: exchange.ModelRequest, spec: ModelSpec, profile: Profile) -> None:
        self.request = request
        self.spec = spec
        self.how = _how(request, profile)
        self._profile = profile

    def messages(self) -> list[lib.ModelMessage]:
        """Return the conversation, starting with the system prompt."""
        system: list[lib.ModelRequestPart] = (
            [lib.SystemPromptPart(self.request.system)] if self.request.system else []
        )
        sent = [self._message(message) for message in self._transcript()]
        if sent and isinstance(sent[0], lib.ModelRequest):
            return [lib.ModelRequest([*system, *sent[0].parts]), *sent[1:]]
        return [lib.ModelRequest(system), *sent] if system else sent

    def parameters(self) -> ModelRequestParameters:
        """Return the tools and the required response format."""
        tools = (
            [_tool(tool) for tool in self.request.tools]
            if self.how is None or self.how.tools
            else []
        )
        if self.how is not None and self.request.schema is not None:
            shape = cast("dict[str, Any]", _copied(self.request.schema))
            if self.how.shape == "tool":
                answer = LibraryTool(
                    name=ANSWER_TOOL, description="Give your answer.", parameters_json_schema=shape
                )
                return ModelRequestParameters(function_tools=[*tools, answer])
            if self.how.shape == "native":
                output = OutputObjectDefinition(json_schema=shape, name="answer")
                return ModelRequestParameters(
                    function_tools=tools, output_mode="native", output_object=output
                )
        return ModelRequestParameters(function_tools=tools)

    def settings(self) -> ModelSettings:
        """Return the user's settings combined with midturn's own settings."""
        settings = cast("dict[str, Any]", _copied(self.request.parameters))
        settings |= {
            "timeout": self.request.timeout,
            "max_retries": 0,
            "cache": retention(self.request.cache),
        }
        if self.request.inquiry is not None:
            settings["request_timeout"] = _INQUIRY_TIMEOUT
        if (
            self.spec.family == "openai"
            and self.request.conversation
            and self.request.cache != "off"
        ):
            settings["openai_prompt_cache_key"] = self.request.conversation
        tool_choice = self._tool_choice()
        if self.request.tools or tool_choice == ANSWER_TOOL:
            settings["tool_choice"] = (
                tool_choice if tool_choice in {"auto", "none", "required"} else [tool_choice]
            )
        return cast("ModelSettings", settings)

    def _tool_choice(self) -> str:
        if self.how is None or self.how.choice == "main":
            return self.request.tool_choice
        return "none" if self.how.choice == "none" else ANSWER_TOOL

    def _transcript(self) -> list[TranscriptMessage]:
        messages = transcript(self.request.events)
        if self.how is not None and self.how.shape == "tail" and self.request.schema is not None:
            messages = with_tail(messages, self.request.schema)
        if (
            self._profile.thinking_ends_with_text
            and self.request.inquiry is not None
            and self.request.parameters.get("thinking")
        ):
            messages = words_in_result(messages)
        return messages

    def _message(self, message: TranscriptMessage) -> lib.ModelMessage:
        if isinstance(message, UserMessage):
            return lib.ModelRequest([_user_part(part, self._profile) for part in message.parts])
        responses = [
            found
            for part in message.parts
            if isinstance(found := recorded_fields(part, self.spec).get("response"), dict)
        ]
        whole = known_fields(responses[0], RESPONSE_FIELDS) if responses else {}
        return lib.ModelResponse(
            [part for each in message.parts for part in _model_part(each, self.spec)], **whole
        )


def _how(request: exchange.ModelRequest, profile: Profile) -> AskStrategy | None:
    if request.inquiry is not None:
        return how_to_ask(profile, request.inquiry)
    return None if request.schema is None else how_to_shape(profile, tools=bool(request.tools))


def _user_part(part: UserWords | CallResult, profile: Profile) -> lib.ModelRequestPart:
    """Convert a user part. OpenAI's APIs cannot mark a result as failed, so for these APIs only the
    text says that the call failed.
    """
    match part:
        case UserWords(text):
            return lib.UserPromptPart(text)
        case CallResult(id, name, _, is_error):
            failed_outcome = is_error and profile.family in {"anthropic", "google"}
            return lib.ToolReturnPart(
                name, _content(part, profile), id, outcome="failed" if failed_outcome else "success"
            )
        case _ as other:
            assert_never(other)


def _content(result: CallResult, profile: Profile) -> str | list[str | lib.BinaryContent]:
    """Return a result's text, with its images if the model accepts them. Images are checked again,
    because recorded events are untrusted input.
    """
    pictures = (
        [checked for image in result.images if (checked := exchange.checked_image(image.data))]
        if profile.images
        else []
    )
    text = (
        result.content
        if len(pictures) == len(result.images)
        else f"{result.content}\n{_IMAGE_OMITTED}"
    )
    attachments = [
        lib.BinaryContent(b64decode(picture.data), media_type=picture.media_type)
        for picture in pictures
    ]
    return [text, *attachments] if attachments else text


def _model_part(part: ModelWords | ModelCall, spec: ModelSpec) -> Iterator[lib.ModelResponsePart]:
    """Convert a model part, together with the provider's data. Reasoning from a different model is
    skipped, because this model cannot read it.
    """
    recorded = recorded_fields(part, spec)
    fields = known_fields(recorded, PART_FIELDS)
    match part:
        case ModelWords(text, thought=True):
            if recorded:
                yield lib.ThinkingPart(text, **fields, **known_fields(recorded, ("signature",)))
        case ModelWords(text):
            if text:
                yield lib.TextPart(text, **fields)
        case ModelCall(id, name, arguments):
            yield lib.ToolCallPart(name, dict(arguments), id, **fields)
        case _ as other:
            assert_never(other)


def _tool(tool: exchange.ToolDefinition) -> LibraryTool:
    schema = cast("dict[str, Any]", _copied(tool.parameters))
    return LibraryTool(name=tool.name, description=tool.description, parameters_json_schema=schema)


def _copied(value: JsonObject) -> JsonObject:
    """Return a deep copy, because the library modifies its arguments."""
    return cast("JsonObject", msgspec.json.decode(msgspec.json.encode(value)))


# --------------------------------------------------------------------------------------------------
# Repair model output before it is recorded: invalid Unicode, and arguments that are not JSON


class Arguments(Struct, frozen=True):
    """The arguments of a call. If they are not a JSON object, `value` is the model's text and
    `problem` is the reason.
    """

    value: JsonObject | str
    problem: str | None = None


def clean(text: str) -> str:
    """Join split surrogate pairs and replace single surrogates, which cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def read_arguments(raw: str | JsonObject | None) -> Arguments:
    """Parse the arguments of a call. Missing or blank text means no arguments."""
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return Arguments({})
    try:
        value = read_json(raw) if isinstance(raw, str) else raw
    except NotJson as error:
        return Arguments(clean(str(raw)), str(error))
    problem = json_problem(value, DEPTH_LIMIT)
    if isinstance(value, dict) and problem is None:
        return Arguments(cast("JsonObject", value))
    text = clean(raw) if isinstance(raw, str) else json.dumps(raw, default=str)
    return Arguments(text, "it is not an object" if problem is None else str(problem))


# --------------------------------------------------------------------------------------------------
# Convert the library's response


def delta(event: lib.ModelResponseStreamEvent) -> exchange.ModelEvent | None:
    """Return the text or reasoning of a stream event, or None if the event contains neither."""
    match event:
        case (
            lib.PartStartEvent(part=lib.TextPart(content=text))
            | lib.PartDeltaEvent(delta=lib.TextPartDelta(content_delta=text))
        ):
            return exchange.TextDelta(clean(text)) if text else None
        case lib.PartStartEvent(part=lib.ThinkingPart(content=text)):
            return exchange.ReasoningDelta(clean(text)) if text else None
        case lib.PartDeltaEvent(delta=lib.ThinkingPartDelta(content_delta=text)):
            return exchange.ReasoningDelta(clean(text)) if text else None
        case _:
            return None


def parts(answer: lib.ModelResponse, converted: LibraryRequest) -> Iterator[exchange.Part]:
    """Yield the parts of a response. The first part also contains the provider data for the whole
    response.
    """
    whole: dict[str, Json] = {"response": provider_fields(answer, RESPONSE_FIELDS)}
    for part in answer.parts:
        fields = provider_fields(part, (*PART_FIELDS, "signature"))
        metadata: dict[str, Json] = {"provider": {"model": converted.spec.id, **fields, **whole}}
        match part:
            case lib.TextPart(content=text) if text:
                yield _text(clean(text), metadata, converted.request)
            case lib.ThinkingPart(content=text):
                yield exchange.ReasoningPart(clean(text), metadata)
            case lib.ToolCallPart() if (
                part.tool_name == ANSWER_TOOL
                and converted.how is not None
                and converted.how.shape == "tool"
            ):
                yield _answer_part(part, metadata)
            case lib.ToolCallPart():
                yield _call(part, metadata)
            case _:  # images and the provider's own tools are never requested
                continue
        whole = {}


def _text(
    text: str, metadata: dict[str, Json], request: exchange.ModelRequest
) -> exchange.TextPart | exchange.StructuredPart:
    """Return the text of a response, or its JSON value if a schema was requested. Answers to
    questions are parsed later, when they are checked.
    """
    if request.schema is not None and request.inquiry is None:
        with suppress(NotJson):
            return exchange.StructuredPart(read_json(text), metadata)
    return exchange.TextPart(text, metadata)


def _answer_part(part: lib.ToolCallPart, metadata: dict[str, Json]) -> exchange.Part:
    arguments = read_arguments(part.args)
    return (
        exchange.StructuredPart(arguments.value, metadata)
        if arguments.problem is None
        else exchange.TextPart(str(arguments.value), metadata)
    )


def _call(part: lib.ToolCallPart, metadata: dict[str, Json]) -> exchange.ToolCallPart:
    arguments = read_arguments(part.args)
    return exchange.ToolCallPart(
        part.tool_call_id, part.tool_name, arguments.value, arguments.problem, metadata
    )


PART_FIELDS = ("id", "provider_name", "provider_details")
RESPONSE_FIELDS = ("provider_name", "canonical_system", "provider_response_id")


def provider_fields(source: object, names: Sequence[str]) -> dict[str, Json]:
    """Return the named fields of a part or a response as JSON. Fields without a value are left
    out.
    """
    present = {name: value for name in names if (value := getattr(source, name, None)) is not None}
    return cast("dict[str, Json]", json.loads(json.dumps(present, default=str)))


def recorded_fields(part: ModelWords | ModelCall, spec: ModelSpec) -> Mapping[str, Json]:
    """Return the provider data recorded with a part, if the part came from this model."""
    recorded = (part.metadata or {}).get("provider")
    return recorded if isinstance(recorded, dict) and recorded.get("model") == spec.id else {}


def known_fields(recorded: Mapping[str, Json], names: Sequence[str]) -> dict[str, Any]:
    """Return the named fields. Ignore all other fields, because recorded events are untrusted
    input.
    """
    return {name: recorded[name] for name in names if name in recorded}
