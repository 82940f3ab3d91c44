"""The one module that speaks with providers, through `pydantic_ai`'s direct API. Nothing else imports that library."""

from __future__ import annotations

import asyncio
import json
import warnings
from base64 import b64decode
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, assert_never, cast

import httpx2
import msgspec
from pydantic_ai import exceptions as failed, messages as lib
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as LibraryModel, ModelRequestParameters, StreamedResponse, create_async_httpx2_client
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition as LibraryTool

from midturn.core.exchange import (
    Finished,
    ModelEvent,
    ModelRequest,
    Part,
    ReasoningDelta,
    ReasoningPart,
    StopReason,
    StructuredPart,
    TextDelta,
    TextPart,
    ToolCallPart,
    ToolDefinition,
    Usage,
)
from midturn.core.image import checked
from midturn.core.json_text import NotJson, read_json
from midturn.core.json_value import Json, JsonObject
from midturn.errors import ModelError
from midturn.models.failures import Report, WhatWasAsked, explain
from midturn.models.nearest import suggested_models
from midturn.models.parameters import check_parameters, retention
from midturn.models.profiles import How, ModelSpec, Profile, how_to_ask, how_to_shape, thinking_ends_with_text
from midturn.models.received import clean, read_arguments
from midturn.models.retry import Failure
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

ANSWER_TOOL = "give_answer"
_AHEAD = 64  # events that may arrive before they are taken
_UNSEEN = "(You do not see the picture: it cannot be sent to this model.)"
_ABORT_SECONDS = 1.0  # for a library to notice that its socket is closed
_OPENED: ContextVar[list[httpx2.Response]] = ContextVar("opened")
NO_KEY = "none"  # the clients insist on one; it is not sent
_INQUIRY_SECONDS = 60.0  # a side request as a whole; a main request may take as long as something keeps coming
_KEPT_OF_PART = ("id", "provider_name", "provider_details")
_KEPT_OF_RESPONSE = ("provider_name", "canonical_system", "provider_response_id")
_STOPS: Mapping[str, StopReason] = {"stop": "stop", "length": "length", "tool_call": "tool_calls", "content_filter": "refusal"}
_SAID_BY_US: Sequence[tuple[str, type[Warning]]] = (
    (r"Sampling parameters .* These settings will be ignored\.", UserWarning),
    (r"The model '.*' is deprecated and will reach end-of-life", DeprecationWarning),
    ("", failed.UnsupportedSettingWarning),
)
"""Settings that a model ignores (they are configured for every model alike), and its retirement, which we announce ourselves."""


class ProviderConnection:
    """One model of one provider, with its HTTP client. It belongs to the event loop in which it is first used."""

    def __init__(self, spec: ModelSpec, given: LibraryModel | None = None) -> None:
        self._spec = spec
        self._is_given = given is not None
        self._http = create_async_httpx2_client()
        self._http.event_hooks = {"request": [] if spec.key else [_send_no_key], "response": [_note_response]}
        self._model = given or _library_model(spec, self._http)
        self._place = WhatWasAsked(spec.id, httpx2.URL(self._model.base_url or "").host or spec.provider, spec.key_origin)
        self.profile = _profile(spec, self._model.profile)
        self.advice = _retirement(spec)

    async def aclose(self) -> None:
        """Close the HTTP client."""
        await self._http.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Send the request, and yield the answer as it comes. Leaving closes the connection at once.

        Raises:
            ModelError: It failed; the message says what to do.
        """
        check_parameters(self._spec.id, request.parameters)
        arrived: asyncio.Queue[ModelEvent | ModelError] = asyncio.Queue(_AHEAD)
        opened: list[httpx2.Response] = []
        _OPENED.set(opened)  # the task takes a copy of this context along
        task = asyncio.create_task(self._receive(request, arrived))
        try:
            while True:
                event = await arrived.get()
                if isinstance(event, ModelError):
                    raise event
                if isinstance(event, Finished):
                    await task
                yield event
                if isinstance(event, Finished):
                    return
        finally:
            await _abort(task, opened)

    async def _receive(self, request: ModelRequest, arrived: asyncio.Queue[ModelEvent | ModelError]) -> None:
        """Put what comes into `arrived`, up to `Finished` or an error."""
        how = _how(self.profile, request)
        _keep_quiet_about_what_we_say()
        try:
            async with model_request_stream(
                self._model,
                _to_library(request, how, self._spec, self.profile),
                model_settings=_settings(request, how, self._spec),
                model_request_parameters=_parameters(request, how),
            ) as response:
                async for event in response:
                    delta = _delta(event)
                    if delta is not None:
                        await arrived.put(delta)
                await arrived.put(self._finished(response, request, how))
        except ModelError as error:
            await arrived.put(error)
        except Exception as error:  # noqa: BLE001 (whatever the libraries raise is said in our words)
            explained = _explained(error, self._place, self._spec)
            explained.__cause__ = error
            await arrived.put(explained)

    def _finished(self, response: StreamedResponse, request: ModelRequest, how: How | None) -> Finished:
        answer = response.get()
        parts = tuple(_from_library(answer, request, how, self._spec))
        if answer.state != "complete" or (answer.finish_reason is None and not self._is_given):  # models of a program may not say
            raise explain("broken", self._place, Report(detail="the answer stopped before its end"))
        if answer.finish_reason == "content_filter" and not any(isinstance(part, TextPart) for part in parts):
            raise explain("filtered", self._place, Report())
        used = answer.usage
        usage = Usage(used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens)
        stop = _STOPS.get(answer.finish_reason or "", "other")
        return Finished(parts, usage, "tool_calls" if any(isinstance(part, ToolCallPart) for part in parts) else stop)


# --- what the library is given ----------------------------------------------------------------------------------------


def _library_model(spec: ModelSpec, http: httpx2.AsyncClient) -> LibraryModel:
    """Build the library's model. Its own schema rewriting is off where a server takes schemas as they are."""
    key = spec.key.reveal() if spec.key else NO_KEY
    as_written = cast("ModelProfile", {"json_schema_transformer": None})
    match spec.family:
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(spec.model, provider=AnthropicProvider(api_key=key, base_url=spec.base_url, http_client=http))
        case "openai":
            from pydantic_ai.models.openai import OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            provider = OpenAIProvider(api_key=key, base_url=spec.base_url, http_client=http)
            return OpenAIResponsesModel(spec.model, provider=provider, profile=as_written)
        case "google":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(spec.model, provider=GoogleProvider(api_key=key, base_url=spec.base_url, http_client=http))
        case "openai-compatible":
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

            server = OpenAICompatibleProvider(spec.provider, base_url=spec.base_url or "", api_key=key, http_client=http)
            whole = cast("ModelProfile", {**as_written, "openai_chat_streaming_requires_finish_reason": True})
            return OpenAIChatModel(spec.model, provider=server, profile=whole)
        case _ as other:
            assert_never(other)


def _keep_quiet_about_what_we_say() -> None:
    """Keep what the libraries say of our own requests off the terminal; every other warning, theirs or the program's, is shown as ever.

    Set anew for each request: a test brings its own filters.
    """
    for message, category in _SAID_BY_US:
        warnings.filterwarnings("ignore", message, category)


def _retirement(spec: ModelSpec) -> str | None:
    """Say when the provider will switch this model off, if that is known."""
    if spec.family != "anthropic":
        return None
    from anthropic.resources.messages.messages import DEPRECATED_MODELS

    day = DEPRECATED_MODELS.get(spec.model)
    return None if day is None else f"{spec.id} will be switched off by its provider on {day}. Choose another model with `-m`."


async def _note_response(response: httpx2.Response) -> None:
    """Remember what is open, for whoever wants to close it."""
    _OPENED.get().append(response)


async def _abort(task: asyncio.Task[None], opened: Sequence[httpx2.Response]) -> None:
    """Stop receiving. The socket goes first: some libraries leave it open when their task is cancelled between two reads."""
    if not task.done():
        for response in opened:
            with suppress(Exception):  # it is given up: what its end would say does not matter
                await response.aclose()
        if opened:
            await asyncio.wait([task], timeout=_ABORT_SECONDS)
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _send_no_key(request: httpx2.Request) -> None:
    """Take away the placeholder that the client sends in place of a key."""
    for name in ("authorization", "x-api-key", "x-goog-api-key"):
        request.headers.pop(name, None)


def _profile(spec: ModelSpec, known: Mapping[str, Any]) -> Profile:
    """Return what the library knows about the model, corrected by what is configured."""
    native = bool(known.get("supports_json_schema_output", True))
    combines = spec.family != "google" or bool(known.get("google_supports_tool_combination", False))
    facts: dict[str, Json] = {
        "native": native,
        "native_with_tools": combines,
        "forced_tool": bool(known.get("supports_forced_tool_choice", True)),
        "images": spec.family != "openai-compatible",
        "context_window": known.get("context_window"),
        "thinking_ends_with_text": thinking_ends_with_text(spec.family, spec.model),
    }
    return msgspec.convert({"family": spec.family, **facts, **spec.overrides}, Profile)


def _how(profile: Profile, request: ModelRequest) -> How | None:
    """Return how the answer's shape is demanded; None where it is free."""
    if request.inquiry is not None:
        return how_to_ask(profile, request.inquiry)
    return None if request.schema is None else how_to_shape(profile, tools=bool(request.tools))


def _to_library(request: ModelRequest, how: How | None, spec: ModelSpec, profile: Profile) -> list[lib.ModelMessage]:
    messages = transcript(request.events)
    if how is not None and how.shape == "tail" and request.schema is not None:
        messages = with_tail(messages, request.schema)
    if profile.thinking_ends_with_text and request.inquiry is not None and request.parameters.get("thinking"):
        messages = words_in_result(messages)
    system: list[lib.ModelRequestPart] = [lib.SystemPromptPart(request.system)] if request.system else []
    sent = [_message(message, spec, profile) for message in messages]
    if sent and isinstance(sent[0], lib.ModelRequest):
        return [lib.ModelRequest([*system, *sent[0].parts]), *sent[1:]]
    return [lib.ModelRequest(system), *sent] if system else sent


def _message(message: TranscriptMessage, spec: ModelSpec, profile: Profile) -> lib.ModelMessage:
    if isinstance(message, UserMessage):
        return lib.ModelRequest([_user_part(part, profile) for part in message.parts])
    responses = [found for part in message.parts if isinstance(found := _opaque(part, spec).get("response"), dict)]
    kept = _only(responses[0], _KEPT_OF_RESPONSE) if responses else {}
    return lib.ModelResponse([part for each in message.parts for part in _model_part(each, spec)], **kept)


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
    pictures = [seen for image in result.images if (seen := checked(image.data))] if profile.images else []
    text = result.content if len(pictures) == len(result.images) else f"{result.content}\n{_UNSEEN}"
    shown = [lib.BinaryContent(b64decode(picture.data), media_type=picture.media_type) for picture in pictures]
    return [text, *shown] if shown else text


def _model_part(part: ModelWords | ModelCall, spec: ModelSpec) -> Iterator[lib.ModelResponsePart]:
    """Yield the part with what its provider wants back. Another model's reasoning is left out: nobody else can read it."""
    opaque = _opaque(part, spec)
    kept = _only(opaque, _KEPT_OF_PART)
    match part:
        case ModelWords(text, thought=True):
            if opaque:
                yield lib.ThinkingPart(text, **kept, **_only(opaque, ("signature",)))
        case ModelWords(text):
            if text:
                yield lib.TextPart(text, **kept)
        case ModelCall(id, name, arguments):
            yield lib.ToolCallPart(name, dict(arguments), id, **kept)
        case _ as other:
            assert_never(other)


def _opaque(part: ModelWords | ModelCall, spec: ModelSpec) -> Mapping[str, Json]:
    """Return what this very model once sent along with the part."""
    kept = (part.metadata or {}).get("provider")
    return kept if isinstance(kept, dict) and kept.get("model") == spec.id else {}


def _only(opaque: Mapping[str, Json], names: Sequence[str]) -> dict[str, Any]:
    """Pick the fields that the library knows: a stream can come from anywhere."""
    return {name: opaque[name] for name in names if name in opaque}


def _parameters(request: ModelRequest, how: How | None) -> ModelRequestParameters:
    tools = [_tool(tool) for tool in request.tools] if how is None or how.tools else []
    if how is not None and request.schema is not None:
        shape = cast("dict[str, Any]", _plain(request.schema))
        if how.shape == "tool":
            answer = LibraryTool(name=ANSWER_TOOL, description="Give your answer.", parameters_json_schema=shape)
            return ModelRequestParameters(function_tools=[*tools, answer])
        if how.shape == "native":
            return ModelRequestParameters(
                function_tools=tools, output_mode="native", output_object=OutputObjectDefinition(json_schema=shape, name="answer")
            )
    return ModelRequestParameters(function_tools=tools)


def _tool(tool: ToolDefinition) -> LibraryTool:
    schema = cast("dict[str, Any]", _plain(tool.parameters))
    return LibraryTool(name=tool.name, description=tool.description, parameters_json_schema=schema)


def _settings(request: ModelRequest, how: How | None, spec: ModelSpec) -> ModelSettings:
    settings = cast("dict[str, Any]", _plain(request.parameters))
    settings |= {"timeout": request.timeout, "max_retries": 0, "cache": retention(request.cache)}
    if request.inquiry is not None:
        settings["request_timeout"] = _INQUIRY_SECONDS
    if spec.family == "openai" and request.conversation and request.cache != "off":
        settings["openai_prompt_cache_key"] = request.conversation
    choice = request.tool_choice if how is None or how.choice == "main" else ("none" if how.choice == "none" else ANSWER_TOOL)
    if request.tools or choice == ANSWER_TOOL:
        settings["tool_choice"] = choice if choice in {"auto", "none", "required"} else [choice]
    return cast("ModelSettings", settings)


# --- what the library gives -------------------------------------------------------------------------------------------


def _delta(event: lib.ModelResponseStreamEvent) -> ModelEvent | None:
    match event:
        case lib.PartStartEvent(part=lib.TextPart(content=text)) | lib.PartDeltaEvent(delta=lib.TextPartDelta(content_delta=text)):
            return TextDelta(clean(text)) if text else None
        case lib.PartStartEvent(part=lib.ThinkingPart(content=text)):
            return ReasoningDelta(clean(text)) if text else None
        case lib.PartDeltaEvent(delta=lib.ThinkingPartDelta(content_delta=text)):
            return ReasoningDelta(clean(text)) if text else None
        case _:
            return None


def _from_library(answer: lib.ModelResponse, request: ModelRequest, how: How | None, spec: ModelSpec) -> Iterator[Part]:
    """Yield the parts; the first carries what belongs to the response as a whole."""
    whole: dict[str, Json] = {"response": _present({name: getattr(answer, name) for name in _KEPT_OF_RESPONSE})}
    for part in answer.parts:
        metadata: dict[str, Json] = {"provider": {"model": spec.id, **_fields(part), **whole}}
        match part:
            case lib.TextPart(content=text) if text:
                yield _text(clean(text), metadata, request)
            case lib.ThinkingPart(content=text):
                yield ReasoningPart(clean(text), metadata)
            case lib.ToolCallPart() if part.tool_name == ANSWER_TOOL and how is not None and how.shape == "tool":
                yield _given(part, metadata)
            case lib.ToolCallPart():
                yield _call(part, metadata)
            case _:  # what we never ask for: pictures, the provider's own tools
                continue
        whole = {}


def _fields(part: lib.ModelResponsePart) -> dict[str, Json]:
    """Return what the provider wants back with the part."""
    return _present({name: getattr(part, name, None) for name in (*_KEPT_OF_PART, "signature")})


def _present(fields: Mapping[str, Any]) -> dict[str, Json]:
    present = {key: value for key, value in fields.items() if value is not None}
    return cast("dict[str, Json]", json.loads(json.dumps(present, default=str)))


def _text(text: str, metadata: dict[str, Json], request: ModelRequest) -> TextPart | StructuredPart:
    """Return the text, or the value in it where the user wants one. An answer to a question is read where it is checked."""
    if request.schema is not None and request.inquiry is None:
        with suppress(NotJson):
            return StructuredPart(read_json(text), metadata)
    return TextPart(text, metadata)


def _given(part: lib.ToolCallPart, metadata: dict[str, Json]) -> Part:
    arguments = read_arguments(part.args)
    return StructuredPart(arguments.value, metadata) if arguments.problem is None else TextPart(str(arguments.value), metadata)


def _call(part: lib.ToolCallPart, metadata: dict[str, Json]) -> ToolCallPart:
    arguments = read_arguments(part.args)
    return ToolCallPart(part.tool_call_id, part.tool_name, arguments.value, arguments.problem, metadata)


def _plain(value: JsonObject) -> JsonObject:
    """Copy: the library changes what it is given."""
    return cast("JsonObject", msgspec.json.decode(msgspec.json.encode(value)))


# --- what goes wrong --------------------------------------------------------------------------------------------------

_KINDS: Sequence[tuple[type[Exception], Failure]] = (
    (failed.ModelContextWindowExceededError, "too_long"),
    (failed.ModelAuthenticationError, "key"),
    (failed.ModelNotFoundError, "unknown_model"),
    (failed.ModelQuotaExceededError, "quota"),
    (failed.ModelRateLimitError, "busy"),
    (failed.ModelUnavailableError, "busy"),
    (failed.ModelServerError, "server"),
    (failed.ModelTimeoutError, "silent"),
    (failed.ModelRequestTimeout, "silent"),
    (failed.ModelConnectionError, "broken"),
    (failed.ContentFilterError, "filtered"),
    (failed.ModelHTTPError, "rejected"),
    (failed.ModelAPIError, "broken"),
    (failed.UserError, "rejected"),
    (Exception, "garbled"),
)


def _explained(error: Exception, place: WhatWasAsked, spec: ModelSpec) -> ModelError:
    """Say in our words what the library raised; what it has no class for is an answer that could not be read."""
    detail = _detail(error).replace(spec.key.reveal(), "[key]") if spec.key else _detail(error)
    failure: Failure = next(kind for type_, kind in _KINDS if isinstance(error, type_))
    status = error.status_code if isinstance(error, failed.ModelHTTPError) else None
    if isinstance(error, failed.ModelConnectionError) and error.phase == "connect":
        failure = "unreachable"
    if status in {408, 409}:
        failure = "busy"
    suggestion = suggested_models(place.model) if failure == "unknown_model" else ""
    retry_after = error.retry_after if isinstance(error, failed.ModelAPIError) else None
    return explain(failure, place, Report(detail=detail, status=status, retry_after=retry_after, suggestion=suggestion))


def _detail(error: Exception) -> str:
    """Return the provider's own words, without the library's frame around them."""
    body = getattr(error, "body", None)
    for _ in range(2):
        if isinstance(body, dict):
            inner = cast("dict[str, Any]", body)
            body = inner.get("error") or inner.get("message")
    if isinstance(body, str) and body:
        return body
    if isinstance(error, failed.ModelHTTPError):
        return f"status {error.status_code}"
    return str(error) or type(error).__name__
