"""Conversion of requests and responses between our types and the library's.

Provider data that has to go back is recorded with a part of an answer, and returned to the same model.
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
from midturn.models.profiles import How, ModelSpec, Profile, how_to_ask, how_to_shape, retention
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
_UNSEEN = "(You do not see the picture: it cannot be sent to this model.)"
_INQUIRY_SECONDS = 60.0
"""For a side request as a whole; a main request may take as long as something keeps coming."""


class LibraryRequest:
    """A request for one model, as the library takes it: messages, settings, and what it calls parameters.

    Attributes:
        request: Ours.
        spec: The model.
        how: How the answer's shape is demanded; None where it is free.
    """

    def __init__(self, request: exchange.ModelRequest, spec: ModelSpec, profile: Profile) -> None:
        self.request = request
        self.spec = spec
        self.how = _how(request, profile)
        self._profile = profile

    def messages(self) -> list[lib.ModelMessage]:
        """Return the conversation, with the system prompt at its beginning."""
        system: list[lib.ModelRequestPart] = [lib.SystemPromptPart(self.request.system)] if self.request.system else []
        sent = [self._message(message) for message in self._transcript()]
        if sent and isinstance(sent[0], lib.ModelRequest):
            return [lib.ModelRequest([*system, *sent[0].parts]), *sent[1:]]
        return [lib.ModelRequest(system), *sent] if system else sent

    def parameters(self) -> ModelRequestParameters:
        """Return the tools, and the shape that is demanded."""
        tools = [_tool(tool) for tool in self.request.tools] if self.how is None or self.how.tools else []
        if self.how is not None and self.request.schema is not None:
            shape = cast("dict[str, Any]", _copied(self.request.schema))
            if self.how.shape == "tool":
                answer = LibraryTool(name=ANSWER_TOOL, description="Give your answer.", parameters_json_schema=shape)
                return ModelRequestParameters(function_tools=[*tools, answer])
            if self.how.shape == "native":
                output = OutputObjectDefinition(json_schema=shape, name="answer")
                return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=output)
        return ModelRequestParameters(function_tools=tools)

    def settings(self) -> ModelSettings:
        """Return what the user has set, and what we set for every model."""
        settings = cast("dict[str, Any]", _copied(self.request.parameters))
        settings |= {"timeout": self.request.timeout, "max_retries": 0, "cache": retention(self.request.cache)}
        if self.request.inquiry is not None:
            settings["request_timeout"] = _INQUIRY_SECONDS
        if self.spec.family == "openai" and self.request.conversation and self.request.cache != "off":
            settings["openai_prompt_cache_key"] = self.request.conversation
        choice = self._tool_choice()
        if self.request.tools or choice == ANSWER_TOOL:
            settings["tool_choice"] = choice if choice in {"auto", "none", "required"} else [choice]
        return cast("ModelSettings", settings)

    def _tool_choice(self) -> str:
        if self.how is None or self.how.choice == "main":
            return self.request.tool_choice
        return "none" if self.how.choice == "none" else ANSWER_TOOL

    def _transcript(self) -> list[TranscriptMessage]:
        messages = transcript(self.request.events)
        if self.how is not None and self.how.shape == "tail" and self.request.schema is not None:
            messages = with_tail(messages, self.request.schema)
        if self._profile.thinking_ends_with_text and self.request.inquiry is not None and self.request.parameters.get("thinking"):
            messages = words_in_result(messages)
        return messages

    def _message(self, message: TranscriptMessage) -> lib.ModelMessage:
        if isinstance(message, UserMessage):
            return lib.ModelRequest([_user_part(part, self._profile) for part in message.parts])
        responses = [found for part in message.parts if isinstance(found := sent_along(part, self.spec).get("response"), dict)]
        whole = given_back(responses[0], OF_RESPONSE) if responses else {}
        return lib.ModelResponse([part for each in message.parts for part in _model_part(each, self.spec)], **whole)


def _how(request: exchange.ModelRequest, profile: Profile) -> How | None:
    if request.inquiry is not None:
        return how_to_ask(profile, request.inquiry)
    return None if request.schema is None else how_to_shape(profile, tools=bool(request.tools))


def _user_part(part: UserWords | CallResult, profile: Profile) -> lib.ModelRequestPart:
    """Return the part. OpenAI's wires know no failed result: there the text says it, and is sent as it is."""
    match part:
        case UserWords(text):
            return lib.UserPromptPart(text)
        case CallResult(id, name, _, is_error):
            failed_outcome = is_error and profile.family in {"anthropic", "google"}
            return lib.ToolReturnPart(name, _content(part, profile), id, outcome="failed" if failed_outcome else "success")
        case _ as other:
            assert_never(other)


def _content(result: CallResult, profile: Profile) -> str | list[str | lib.BinaryContent]:
    """Return the text of a result, and pictures where the model takes them; each is looked at again, for a stream comes from anywhere."""
    pictures = [seen for image in result.images if (seen := exchange.checked_image(image.data))] if profile.images else []
    text = result.content if len(pictures) == len(result.images) else f"{result.content}\n{_UNSEEN}"
    shown = [lib.BinaryContent(b64decode(picture.data), media_type=picture.media_type) for picture in pictures]
    return [text, *shown] if shown else text


def _model_part(part: ModelWords | ModelCall, spec: ModelSpec) -> Iterator[lib.ModelResponsePart]:
    """Yield the part with what its provider wants back. Another model's reasoning is left out: no other model can read it."""
    recorded = sent_along(part, spec)
    fields = given_back(recorded, OF_PART)
    match part:
        case ModelWords(text, thought=True):
            if recorded:
                yield lib.ThinkingPart(text, **fields, **given_back(recorded, ("signature",)))
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
    """Return a copy: the library changes what it is given."""
    return cast("JsonObject", msgspec.json.decode(msgspec.json.encode(value)))


# ----------------------------------------------------------------------------------------------------------------------
# Repair of a model's output for the record: text that is Unicode, arguments that are JSON


class Arguments(Struct, frozen=True):
    """The arguments of a call: an object, or the model's own text where that is not an object; `problem` then says why."""

    value: JsonObject | str
    problem: str | None = None


def clean(text: str) -> str:
    """Join surrogates that came in two pieces, and replace those that stay alone: they are not text, and cannot be written."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def read_arguments(sent: str | JsonObject | None) -> Arguments:
    """Return what a model sent as arguments of a call; nothing at all stands for none."""
    if sent is None or (isinstance(sent, str) and not sent.strip()):
        return Arguments({})
    try:
        value = read_json(sent) if isinstance(sent, str) else sent
    except NotJson as error:
        return Arguments(clean(str(sent)), str(error))
    problem = json_problem(value, DEPTH_LIMIT)
    if isinstance(value, dict) and problem is None:
        return Arguments(cast("JsonObject", value))
    text = clean(sent) if isinstance(sent, str) else json.dumps(sent, default=str)
    return Arguments(text, "it is not an object" if problem is None else str(problem))


# ----------------------------------------------------------------------------------------------------------------------
# The library's response in our types


def delta(event: lib.ModelResponseStreamEvent) -> exchange.ModelEvent | None:
    """Return the piece of text or reasoning that has come, if that is what has come."""
    match event:
        case lib.PartStartEvent(part=lib.TextPart(content=text)) | lib.PartDeltaEvent(delta=lib.TextPartDelta(content_delta=text)):
            return exchange.TextDelta(clean(text)) if text else None
        case lib.PartStartEvent(part=lib.ThinkingPart(content=text)):
            return exchange.ReasoningDelta(clean(text)) if text else None
        case lib.PartDeltaEvent(delta=lib.ThinkingPartDelta(content_delta=text)):
            return exchange.ReasoningDelta(clean(text)) if text else None
        case _:
            return None


def parts(answer: lib.ModelResponse, asked: LibraryRequest) -> Iterator[exchange.Part]:
    """Yield the parts of an answer; the first carries what belongs to the response as a whole."""
    whole: dict[str, Json] = {"response": came_with(answer, OF_RESPONSE)}
    for part in answer.parts:
        fields = came_with(part, (*OF_PART, "signature"))
        metadata: dict[str, Json] = {"provider": {"model": asked.spec.id, **fields, **whole}}
        match part:
            case lib.TextPart(content=text) if text:
                yield _text(clean(text), metadata, asked.request)
            case lib.ThinkingPart(content=text):
                yield exchange.ReasoningPart(clean(text), metadata)
            case lib.ToolCallPart() if part.tool_name == ANSWER_TOOL and asked.how is not None and asked.how.shape == "tool":
                yield _given_answer(part, metadata)
            case lib.ToolCallPart():
                yield _call(part, metadata)
            case _:  # what we never ask for: pictures, the provider's own tools
                continue
        whole = {}


def _text(text: str, metadata: dict[str, Json], request: exchange.ModelRequest) -> exchange.TextPart | exchange.StructuredPart:
    """Return the text, or the value in it where the user wants one. An answer to a question is read where it is checked."""
    if request.schema is not None and request.inquiry is None:
        with suppress(NotJson):
            return exchange.StructuredPart(read_json(text), metadata)
    return exchange.TextPart(text, metadata)


def _given_answer(part: lib.ToolCallPart, metadata: dict[str, Json]) -> exchange.Part:
    arguments = read_arguments(part.args)
    return (
        exchange.StructuredPart(arguments.value, metadata)
        if arguments.problem is None
        else exchange.TextPart(str(arguments.value), metadata)
    )


def _call(part: lib.ToolCallPart, metadata: dict[str, Json]) -> exchange.ToolCallPart:
    arguments = read_arguments(part.args)
    return exchange.ToolCallPart(part.tool_call_id, part.tool_name, arguments.value, arguments.problem, metadata)


OF_PART = ("id", "provider_name", "provider_details")
OF_RESPONSE = ("provider_name", "canonical_system", "provider_response_id")


def came_with(given: object, names: Sequence[str]) -> dict[str, Json]:
    """Return those fields of a part or a response that are there, as they are sent_along."""
    present = {name: value for name in names if (value := getattr(given, name, None)) is not None}
    return cast("dict[str, Json]", json.loads(json.dumps(present, default=str)))


def sent_along(part: ModelWords | ModelCall, spec: ModelSpec) -> Mapping[str, Json]:
    """Return what this very model once sent along with the part."""
    kept = (part.metadata or {}).get("provider")
    return kept if isinstance(kept, dict) and kept.get("model") == spec.id else {}


def given_back(kept: Mapping[str, Json], names: Sequence[str]) -> dict[str, Any]:
    """Pick the fields that the library knows: a stream can come from anywhere."""
    return {name: kept[name] for name in names if name in kept}
