"""The connection with one model of one provider."""

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
from midturn.exchange import Finished, ModelEvent, ModelRequest, StopReason, TextPart, ToolCallPart, Usage
from midturn.models.library_messages import LibraryRequest, delta, parts
from midturn.models.profiles import ModelSpec, Profile, check_parameters, suggested_models, thinking_ends_with_text
from midturn.models.wrapper import WORTH_ANOTHER_TRY, Failure
from midturn.question.json_value import Json

# ----------------------------------------------------------------------------------------------------------------------
# The library's model for each family of providers, and what is known about it


_NO_KEY = "none"
"""The clients insist on one; it is not sent."""


def library_model(spec: ModelSpec, http: httpx2.AsyncClient) -> LibraryModel:
    """Build the library's model. Its own schema rewriting is off where a server takes schemas as they are."""
    key = spec.key.reveal() if spec.key else _NO_KEY
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


async def send_no_key(request: httpx2.Request) -> None:
    """Take away the placeholder that the client sends in place of a key."""
    for name in ("authorization", "x-api-key", "x-goog-api-key"):
        request.headers.pop(name, None)


def known_profile(spec: ModelSpec, known: Mapping[str, Any]) -> Profile:
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


def retirement(spec: ModelSpec) -> str | None:
    """Say when the provider will switch this model off, if that is known."""
    if spec.family != "anthropic":
        return None
    from anthropic.resources.messages.messages import DEPRECATED_MODELS

    day = DEPRECATED_MODELS.get(spec.model)
    return None if day is None else f"{spec.id} will be switched off by its provider on {day}. Choose another model with `-m`."


# ----------------------------------------------------------------------------------------------------------------------
# Errors of a provider, in words that say what to do


_TEXTS: Final[dict[Failure, str]] = {
    "key": "{model}: {host} refused the API key{said}. Check {key}.",
    "quota": "{model}: the quota or the credit of the account is used up{said}. Top it up, or use another model.",
    "busy": "{model} is busy{said}.",
    "server": "{model}: {host} failed{said}.",
    "unknown_model": "{model}: {host} knows no such model{said}.{near}",
    "too_long": "{model}: the conversation is longer than the model can read{said}. Start a new one, or use a larger model.",
    "filtered": "{model}: the provider's content filter stopped the answer{said}. Put it in other words.",
    "unreachable": "Cannot reach {host}{said}. Check the network and the address.",
    "broken": "The connection to {host} broke{said}.",
    "silent": "{host} stopped answering{said}.",
    "garbled": "{host} sent something that is not an answer{said}.",
    "rejected": "{model}: {host} rejected the request{said}.",
}
_SHOWN = 300


class Endpoint(Struct, frozen=True):
    """Whom was asked: the model's id, the server's address, and where its key comes from."""

    model: str
    host: str
    key: str = ""


class Report(Struct, frozen=True, kw_only=True):
    """A provider's report of a failure: its message, the HTTP status, how long to wait, and a sentence that suggests a model."""

    detail: str = ""
    status: int | None = None
    retry_after: float | None = None
    suggestion: str = ""


def explain(failure: Failure, place: Endpoint, report: Report) -> ModelError:
    """Return the error: what happened where, and what to do."""
    text = _TEXTS[failure].format(
        model=place.model,
        host=place.host,
        key=place.key or "the key",
        said=f" ({one_line(report.detail)})" if report.detail else "",
        near=report.suggestion,
    )
    kind = ContextTooLong if failure == "too_long" else ModelError
    error = kind(text, status=report.status, retry_after=report.retry_after, transient=failure in WORTH_ANOTHER_TRY)
    error.failure = failure
    return error


def one_line(text: str) -> str:
    """Fold a provider's message into one line of bounded length."""
    folded = " ".join(text.split())
    return folded if len(folded) <= _SHOWN else f"{folded[:_SHOWN]}…"


# ----------------------------------------------------------------------------------------------------------------------
# Exceptions of the library, in our words


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


def explained(error: Exception, place: Endpoint, spec: ModelSpec) -> ModelError:
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


_AHEAD = 64
"""Events that may arrive before they are taken."""
_ABORT_SECONDS = 1.0
"""For a library to notice that its socket is closed."""
_OPENED: ContextVar[list[httpx2.Response]] = ContextVar("opened")
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
        self._http.event_hooks = {"request": [] if spec.key else [send_no_key], "response": [_note_response]}
        self._model = given or library_model(spec, self._http)
        self._place = Endpoint(spec.id, httpx2.URL(self._model.base_url or "").host or spec.provider, spec.key_origin)
        self.profile = known_profile(spec, self._model.profile)
        self.advice = retirement(spec)

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
        asked = LibraryRequest(request, self._spec, self.profile)
        _keep_quiet_about_what_we_say()
        try:
            async with model_request_stream(
                self._model, asked.messages(), model_settings=asked.settings(), model_request_parameters=asked.parameters()
            ) as response:
                async for event in response:
                    piece = delta(event)
                    if piece is not None:
                        await arrived.put(piece)
                await arrived.put(self._finished(response, asked))
        except ModelError as error:
            await arrived.put(error)
        except Exception as error:  # noqa: BLE001 (whatever the libraries raise is said in our words)
            said = explained(error, self._place, self._spec)
            said.__cause__ = error
            await arrived.put(said)

    def _finished(self, response: StreamedResponse, asked: LibraryRequest) -> Finished:
        answer = response.get()
        found = tuple(parts(answer, asked))
        if answer.state != "complete" or (answer.finish_reason is None and not self._is_given):  # models of a program may not say
            raise explain("broken", self._place, Report(detail="the answer stopped before its end"))
        if answer.finish_reason == "content_filter" and not any(isinstance(part, TextPart) for part in found):
            raise explain("filtered", self._place, Report())
        used = answer.usage
        usage = Usage(used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens)
        stop = _STOPS.get(answer.finish_reason or "", "other")
        return Finished(found, usage, "tool_calls" if any(isinstance(part, ToolCallPart) for part in found) else stop)


def _keep_quiet_about_what_we_say() -> None:
    """Keep what the libraries say of our own requests off the terminal; every other warning, theirs or the program's, is shown as usual.

    Set anew for each request: a test brings its own filters.
    """
    for message, category in _SAID_BY_US:
        warnings.filterwarnings("ignore", message, category)


async def _note_response(response: httpx2.Response) -> None:
    """Remember what is open, to close it later."""
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
