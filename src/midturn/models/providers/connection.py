"""The connection with one model of one provider."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar

import httpx2
from pydantic_ai import exceptions as failed
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as LibraryModel, StreamedResponse, create_async_httpx2_client

from midturn.core.exchange import Finished, ModelEvent, ModelRequest, StopReason, TextPart, ToolCallPart, Usage
from midturn.errors import ModelError
from midturn.models.failures import Report, WhatWasAsked, explain
from midturn.models.parameters import check_parameters
from midturn.models.profiles import ModelSpec
from midturn.models.providers.failing import explained
from midturn.models.providers.from_library import delta, parts
from midturn.models.providers.library_models import known_profile, library_model, retirement, send_no_key
from midturn.models.providers.to_library import LibraryRequest

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
        self._place = WhatWasAsked(spec.id, httpx2.URL(self._model.base_url or "").host or spec.provider, spec.key_origin)
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
