"""The connection to one model of one provider, through pydantic-ai."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, assert_never, cast

import httpx2
import msgspec
from msgspec import Struct
from pydantic_ai import exceptions as failed
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as LibraryModel, StreamedResponse, create_async_httpx2_client
from pydantic_ai.profiles import ModelProfile

from midturn.errors import ContextTooLong, ModelError
from midturn.exchange import (
    Finished,
    ModelEvent,
    ModelRequest,
    StopReason,
    TextPart,
    ToolCallPart,
    Usage,
)
from midturn.models.library_messages import LibraryRequest, delta, parts
from midturn.models.profiles import (
    ModelSpec,
    Profile,
    check_parameters,
    suggested_models,
    thinking_ends_with_text,
)
from midturn.models.wrapper import WORTH_ANOTHER_TRY, Failure
from midturn.question.json_value import Json

# --------------------------------------------------------------------------------------------------
# pydantic-ai models, one class for each family of providers, and their profiles


_PLACEHOLDER_KEY = "none"
"""Placeholder, because the clients require a key. `remove_key` removes it from each request."""


def library_model(spec: ModelSpec, http: httpx2.AsyncClient) -> LibraryModel:
    """Build the pydantic-ai model. For servers that accept schemas unchanged, the library's
    schema rewriting is disabled.
    """
    key = spec.key.reveal() if spec.key else _PLACEHOLDER_KEY
    as_written = cast("ModelProfile", {"json_schema_transformer": None})
    match spec.family:
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(
                spec.model,
                provider=AnthropicProvider(api_key=key, base_url=spec.base_url, http_client=http),
            )
        case "openai":
            from pydantic_ai.models.openai import OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            provider = OpenAIProvider(api_key=key, base_url=spec.base_url, http_client=http)
            return OpenAIResponsesModel(spec.model, provider=provider, profile=as_written)
        case "google":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(
                spec.model,
                provider=GoogleProvider(api_key=key, base_url=spec.base_url, http_client=http),
            )
        case "openai-compatible":
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

            server = OpenAICompatibleProvider(
                spec.provider, base_url=spec.base_url or "", api_key=key, http_client=http
            )
            complete = cast(
                "ModelProfile", {**as_written, "openai_chat_streaming_requires_finish_reason": True}
            )
            return OpenAIChatModel(spec.model, provider=server, profile=complete)
        case _ as other:
            assert_never(other)


async def remove_key(request: httpx2.Request) -> None:
    """Remove the placeholder key from a request."""
    for name in ("authorization", "x-api-key", "x-goog-api-key"):
        request.headers.pop(name, None)


def known_profile(spec: ModelSpec, known: Mapping[str, Any]) -> Profile:
    """Return the library's profile for the model, with the configured overrides."""
    supports_schema = bool(known.get("supports_json_schema_output", True))
    schema_with_tools = spec.family != "google" or bool(
        known.get("google_supports_tool_combination", False)
    )
    facts: dict[str, Json] = {
        "native": supports_schema,
        "native_with_tools": schema_with_tools,
        "forced_tool": bool(known.get("supports_forced_tool_choice", True)),
        "images": spec.family != "openai-compatible",
        "context_window": known.get("context_window"),
        "thinking_ends_with_text": thinking_ends_with_text(spec.family, spec.model),
    }
    return msgspec.convert({"family": spec.family, **facts, **spec.overrides}, Profile)


def retirement(spec: ModelSpec) -> str | None:
    """Return a notice if the provider announced that it will shut down this model, or None."""
    if spec.family != "anthropic":
        return None
    from anthropic.resources.messages.messages import DEPRECATED_MODELS

    day = DEPRECATED_MODELS.get(spec.model)
    return (
        None
        if day is None
        else (
            f"{spec.id} will be shut down by its provider on {day}. Choose another model with `-m`."
        )
    )


# --------------------------------------------------------------------------------------------------
# Error messages for provider failures


_TEXTS: Final[dict[Failure, str]] = {
    "key": "{model}: {host} rejected the API key{said}. Check {key}.",
    "quota": (
        "{model}: the account has no quota or credit left{said}. Add credit, or use another model."
    ),
    "busy": "{model} is busy{said}.",
    "server": "{model}: {host} failed{said}.",
    "unknown_model": "{model}: {host} has no model of this name{said}.{near}",
    "too_long": (
        "{model}: the conversation exceeds the model's context window{said}. "
        "Start a new conversation, or use a model with a larger context window."
    ),
    "filtered": (
        "{model}: the provider's content filter blocked the response{said}. Rephrase the message."
    ),
    "unreachable": "Cannot reach {host}{said}. Check the network and the address.",
    "broken": "The connection to {host} broke{said}.",
    "silent": "{host} stopped answering{said}.",
    "garbled": "{host} sent an invalid response{said}.",
    "rejected": "{model}: {host} rejected the request{said}.",
}
_MAX_DETAIL_LENGTH = 300


class Endpoint(Struct, frozen=True):
    """The model, the server's address, and the origin of the API key."""

    model: str
    host: str
    key: str = ""


class FailureReport(Struct, frozen=True, kw_only=True):
    """Details of a failure: the provider's message, HTTP status, seconds to wait, and a model
    suggestion.
    """

    detail: str = ""
    status: int | None = None
    retry_after: float | None = None
    suggestion: str = ""


def explain(failure: Failure, endpoint: Endpoint, report: FailureReport) -> ModelError:
    """Return the error for a failure. Its message contains the problem and advice."""
    text = _TEXTS[failure].format(
        model=endpoint.model,
        host=endpoint.host,
        key=endpoint.key or "the key",
        said=f" ({one_line(report.detail)})" if report.detail else "",
        near=report.suggestion,
    )
    error_class = ContextTooLong if failure == "too_long" else ModelError
    error = error_class(
        text,
        status=report.status,
        retry_after=report.retry_after,
        transient=failure in WORTH_ANOTHER_TRY,
    )
    error.failure = failure
    return error


def one_line(text: str) -> str:
    """Collapse a provider's message into one line, and truncate it."""
    folded = " ".join(text.split())
    return folded if len(folded) <= _MAX_DETAIL_LENGTH else f"{folded[:_MAX_DETAIL_LENGTH]}…"


# --------------------------------------------------------------------------------------------------
# Translate pydantic-ai's exceptions


_FAILURES: Sequence[tuple[type[Exception], Failure]] = (
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


def explained(error: Exception, endpoint: Endpoint, spec: ModelSpec) -> ModelError:
    """Translate an exception from the library. An unknown exception is reported as an invalid
    response.
    """
    detail = _detail(error).replace(spec.key.reveal(), "[key]") if spec.key else _detail(error)
    failure: Failure = next(failure for type_, failure in _FAILURES if isinstance(error, type_))
    status = error.status_code if isinstance(error, failed.ModelHTTPError) else None
    if isinstance(error, failed.ModelConnectionError) and error.phase == "connect":
        failure = "unreachable"
    if status in {408, 409}:
        failure = "busy"
    suggestion = suggested_models(endpoint.model) if failure == "unknown_model" else ""
    retry_after = error.retry_after if isinstance(error, failed.ModelAPIError) else None
    return explain(
        failure,
        endpoint,
        FailureReport(detail=detail, status=status, retry_after=retry_after, suggestion=suggestion),
    )


def _detail(error: Exception) -> str:
    """Return the provider's own message, without the text that the library adds."""
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


_QUEUE_SIZE = 64
"""Maximum number of events that are received but not yet consumed."""
_ABORT_SECONDS = 1.0
"""Maximum number of seconds to wait for the library's task to end after its socket was closed."""
_responses: ContextVar[list[httpx2.Response]] = ContextVar("opened")
_STOPS: Mapping[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "tool_call": "tool_calls",
    "content_filter": "refusal",
}

_SUPPRESSED_WARNINGS: Sequence[tuple[str, type[Warning]]] = (
    (r"Sampling parameters .* These settings will be ignored\.", UserWarning),
    (r"The model '.*' is deprecated and will reach end-of-life", DeprecationWarning),
    ("", failed.UnsupportedSettingWarning),
)
"""Warnings that are suppressed. midturn itself reports that a model will be shut down. Warnings
about ignored settings are not needed, because the same settings are configured for all models.
"""


class ProviderConnection:
    """One model of one provider, with its HTTP client. It can be used only in the event loop of
    its first request.
    """

    def __init__(self, spec: ModelSpec, given: LibraryModel | None = None) -> None:
        self._spec = spec
        self._is_given = given is not None
        self._http = create_async_httpx2_client()
        self._http.event_hooks = {
            "request": [] if spec.key else [remove_key],
            "response": [_note_response],
        }
        self._model = given or library_model(spec, self._http)
        self._place = Endpoint(
            spec.id, httpx2.URL(self._model.base_url or "").host or spec.provider, spec.key_origin
        )
        self.profile = known_profile(spec, self._model.profile)
        self.advice = retirement(spec)

    async def aclose(self) -> None:
        """Close the HTTP client."""
        await self._http.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Send the request and yield the response as it arrives. Closing the generator closes the
        connection immediately.

        Raises:
            ModelError: The request failed. The message contains advice.
        """
        check_parameters(self._spec.id, request.parameters)
        arrived: asyncio.Queue[ModelEvent | ModelError] = asyncio.Queue(_QUEUE_SIZE)
        opened: list[httpx2.Response] = []
        _responses.set(opened)  # before the task is created, because the task copies the context
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

    async def _receive(
        self, request: ModelRequest, arrived: asyncio.Queue[ModelEvent | ModelError]
    ) -> None:
        """Put the events into `arrived`. The last item is `Finished` or an error."""
        converted = LibraryRequest(request, self._spec, self.profile)
        _suppress_warnings()
        try:
            async with model_request_stream(
                self._model,
                converted.messages(),
                model_settings=converted.settings(),
                model_request_parameters=converted.parameters(),
            ) as response:
                async for event in response:
                    piece = delta(event)
                    if piece is not None:
                        await arrived.put(piece)
                await arrived.put(self._finished(response, converted))
        except ModelError as error:
            await arrived.put(error)
        except Exception as error:  # noqa: BLE001 (every exception of the libraries is translated)
            translated = explained(error, self._place, self._spec)
            translated.__cause__ = error
            await arrived.put(translated)

    def _finished(self, response: StreamedResponse, converted: LibraryRequest) -> Finished:
        answer = response.get()
        found = tuple(parts(answer, converted))
        # function models may omit the finish reason
        if answer.state != "complete" or (answer.finish_reason is None and not self._is_given):
            raise explain("broken", self._place, FailureReport(detail="the response ended early"))
        if answer.finish_reason == "content_filter" and not any(
            isinstance(part, TextPart) for part in found
        ):
            raise explain("filtered", self._place, FailureReport())
        used = answer.usage
        usage = Usage(
            used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens
        )
        stop = _STOPS.get(answer.finish_reason or "", "other")
        return Finished(
            found,
            usage,
            "tool_calls" if any(isinstance(part, ToolCallPart) for part in found) else stop,
        )


def _suppress_warnings() -> None:
    """Suppress the libraries' warnings about midturn's own requests. Other warnings are shown as
    usual.

    Called for each request, because pytest resets the warning filters for each test.
    """
    for message, category in _SUPPRESSED_WARNINGS:
        warnings.filterwarnings("ignore", message, category)


async def _note_response(response: httpx2.Response) -> None:
    """Record an open response, so that the connection can close it later."""
    _responses.get().append(response)


async def _abort(task: asyncio.Task[None], opened: Sequence[httpx2.Response]) -> None:
    """Stop receiving. The socket is closed first, because some libraries leave it open if their
    task is cancelled between two reads.
    """
    if not task.done():
        for response in opened:
            with suppress(
                Exception
            ):  # the response is not used, so errors while closing it do not matter
                await response.aclose()
        if opened:
            await asyncio.wait([task], timeout=_ABORT_SECONDS)
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
