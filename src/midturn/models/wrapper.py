"""Wrappers around models: usage accounting, observation, logging and retries."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from contextvars import ContextVar
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from midturn.errors import ModelError
from midturn.events.types import Event
from midturn.exchange import (
    DEFAULT_RETRIES,
    BrokeOff,
    Finished,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    Spent,
    TextDelta,
)
from midturn.ports import OBSERVERS, Clock, Model
from midturn.question.json_value import Json


class Wrapper:
    """Base class of models that forward requests to another model. It also forwards the optional
    methods.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        """The wrapped model."""

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self.model.name

    async def prepare(self) -> None:
        """Load the wrapped model's library, if it has one."""
        await self._optionally("prepare")

    async def context_window(self) -> int | None:
        """Return the context window in tokens, or None if it is unknown."""
        return await self._optionally("context_window")

    async def aclose(self) -> None:
        """Close the wrapped model's connection, if it has one."""
        await self._optionally("aclose")

    def asked(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Start a request as a context manager: `async with self.asked(request) as events`. Leaving
        the block closes the request immediately.
        """
        events: Any = self.model.stream(request)
        return aclosing(events) if hasattr(events, "aclose") else nullcontext(events)

    async def _optionally(self, method: str) -> Any:
        found: Callable[[], Awaitable[Any]] | None = getattr(self.model, method, None)
        return None if found is None else await found()


SPENT: ContextVar[list[Spent]] = ContextVar("midturn_spent")
"""Collects the usage of the current task's requests."""


def count(model: str, request: ModelRequest, finished: Finished) -> None:
    """Add the usage of a finished request to `SPENT`."""
    spent = SPENT.get(None)
    if spent is not None:
        spent.append(Spent(model, finished.usage, request.inquiry is not None))


class ObservedModel(Wrapper):
    """A model that reports its requests to the registered observers."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Send the request to the wrapped model."""
        return self._observed(request) if OBSERVERS else self.model.stream(request)

    async def _observed(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        observations = [observer.request_began(self.name, request) for observer in OBSERVERS]
        finished: Finished | None = None
        failure: BaseException | None = None
        try:
            async with self.asked(request) as events:
                async for event in events:
                    finished = event if isinstance(event, Finished) else finished
                    yield event
        except BaseException as error:
            failure = error
            raise
        finally:
            for observation in observations:
                observation.end(finished, failure)


# --------------------------------------------------------------------------------------------------
# Requests and responses as JSON, for the log and for `--dry-run`. They do not contain API keys


LOG = logging.getLogger("midturn.models")
_INTERNAL_FIELDS = frozenset({"timestamp", "event_id", "more", "call"})


class LoggedModel(Wrapper):
    """A model whose requests and responses are written to the log."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the wrapped model's events and log the complete response.

        Raises:
            ModelError: Raised by the wrapped model.
        """
        LOG.debug("request %s", _one_line(request_json(self.name, request)))
        async with self.asked(request) as events:
            try:
                async for event in events:
                    if isinstance(event, Finished):
                        LOG.debug("response %s", _one_line(msgspec.to_builtins(event)))
                    yield event
            except ModelError as error:
                LOG.debug("failure %s", _one_line({"status": error.status, "message": str(error)}))
                raise


def request_json(model: str | None, request: ModelRequest) -> dict[str, Json]:
    """Return a request as JSON: `model`, `system`, `messages`, `tools`, `tool_choice`,
    `parameters`, and `schema` if it is set.
    """
    shown: dict[str, Json] = {
        "model": model,
        "system": request.system,
        "messages": [message_json(event) for event in request.events],
        "tools": [cast("Json", msgspec.to_builtins(tool)) for tool in request.tools],
        "tool_choice": request.tool_choice,
        "parameters": request.parameters,
    }
    return shown if request.schema is None else {**shown, "schema": request.schema}


def message_json(event: Event) -> Json:
    """Return an event as JSON, without the fields that are needed only in the log."""
    return {key: value for key, value in event.to_json().items() if key not in _INTERNAL_FIELDS}


def _one_line(value: Json) -> str:
    return json.dumps(value)


# --------------------------------------------------------------------------------------------------
# Retries


# maximum length of the end of an interrupted response that an error quotes, in characters
_MAX_TAIL_LENGTH = 60
_MIN_WHOLE_SECONDS = 3.0  # minimum wait in seconds that is shown without a decimal
# number of characters of the response kept for the error; more than it shows, because it collapses
# white space
_BUFFER_LENGTH = 4 * _MAX_TAIL_LENGTH


Failure: TypeAlias = Literal[
    "key",
    "quota",
    "busy",
    "server",
    "unknown_model",
    "too_long",
    "filtered",
    "unreachable",
    "broken",
    "silent",
    "garbled",
    "rejected",
]
"""Kinds of provider failures."""
WORTH_ANOTHER_TRY: Final[frozenset[Failure]] = frozenset(
    {"busy", "server", "unreachable", "broken", "silent", "garbled"}
)
_TRANSIENT_STATUSES: Final = frozenset({408, 409, 429})  # timeout, conflict, too many requests
_MIN_SERVER_ERROR: Final = 500


def is_transient(status: int | None) -> bool:
    """Return whether a retry may help: the status is 408, 409, 429 or 5xx, or there is none because
    the connection was lost.
    """
    return status is None or status in _TRANSIENT_STATUSES or status >= _MIN_SERVER_ERROR


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """Retry limits and waiting times in seconds.

    The wait starts at `base` and doubles up to `cap`. It varies randomly by up to ± `jitter`, a
    fraction of the wait. If the server asks for a longer wait, that wait is used, up to `longest`.
    `restarts_cut_responses`: also retry a response that was interrupted after part of its text was
    shown. The caller must then mark the shown text as discarded.
    """

    max_retries: int = DEFAULT_RETRIES
    base: float = 0.5
    cap: float = 30.0
    jitter: float = 0.25
    longest: float = 120.0
    restarts_cut_responses: bool = False

    def wait(self, failures: int, error: ModelError, chance: float) -> float | None:
        """Return the seconds to wait after `failures` failures in a row, or None to stop
        retrying. `chance` is a random number from 0 to 1.
        """
        if not error.transient or failures > self.max_retries:
            return None
        if error.retry_after is not None:
            return None if self.is_too_long(error) else error.retry_after
        spread = 1 + self.jitter * (2 * chance - 1)
        return float(min(self.cap, self.base * 2 ** (failures - 1)) * spread)

    def is_too_long(self, error: ModelError) -> bool:
        """Return whether the server asks for a longer wait than the policy allows."""
        return (
            error.transient and error.retry_after is not None and error.retry_after > self.longest
        )


class Retrying(Struct, frozen=True):
    """A wait before the next attempt, with the error, the number of seconds and the number of the
    retry.

    `was_cut`: part of the failed response was already shown.
    """

    model: str
    error: str
    seconds: float
    retry: int
    max_retries: int
    was_cut: bool = False

    def sentences(self) -> str:
        """Describe the failure and the next attempt."""
        subject = "" if self.error.startswith(self.model) else f"{self.model}: "
        seconds = (
            f"{self.seconds:.0f}" if self.seconds >= _MIN_WHOLE_SECONDS else f"{self.seconds:.1f}"
        )
        cut = "The response broke off and starts again. " if self.was_cut else ""
        return (
            f"{subject}{self.error} {cut}Retrying in {seconds} s (retry {self.retry} of"
            f" {self.max_retries})."
        )


def _chance() -> float:
    """Return a random number from 0 to 1, without importing `random`, which slows down start-up."""
    return int.from_bytes(os.urandom(4)) / 2**32


class RetryingModel(Wrapper):
    """A model that retries failed requests and counts the usage of successful ones.

    If text was already shown, the model retries only if the policy sets `restarts_cut_responses`,
    and yields `BrokeOff` before the new response. `report` is called before each wait. The text of
    side requests is never shown, so they can always be retried.
    """

    def __init__(
        self,
        model: Model,
        clock: Clock,
        *,
        policy: RetryPolicy | None = None,
        report: Callable[[Retrying], None] = lambda _: None,
        chance: Callable[[], float] = _chance,
    ) -> None:
        super().__init__(model)
        self._clock = clock
        self._policy = policy or RetryPolicy()
        self._report = report
        self._chance = chance

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the wrapped model's events.

        Raises:
            ModelError: The failure is permanent, all retries failed, or the response was
                interrupted (the message quotes its end).
        """
        failures = 0
        while True:
            shown = ""
            try:
                async with self.asked(request) as events:
                    async for event in events:
                        if isinstance(event, Finished):
                            count(self.name, request, event)
                            yield event
                            return
                        shown = (
                            (shown + _shown(event))[-_BUFFER_LENGTH:]
                            if request.inquiry is None
                            else ""
                        )
                        yield event
                error = ModelError(
                    f"{self.name} stopped before its response was complete.", transient=True
                )
            except ModelError as failure:
                error = failure
            failures += 1
            seconds = self._policy.wait(failures, error, self._chance())
            if shown and (seconds is None or not self._policy.restarts_cut_responses):
                raise _cut(error, shown) from error
            if seconds is None and self._policy.is_too_long(error):
                raise _too_long(error) from error
            if seconds is None:
                raise error
            if shown:
                yield BrokeOff()
            sentence = f"{str(error).rstrip('.')}."
            self._report(
                Retrying(
                    self.name,
                    sentence,
                    seconds,
                    failures,
                    self._policy.max_retries,
                    was_cut=bool(shown),
                )
            )
            await self._clock.sleep(seconds)


def _shown(event: ModelEvent) -> str:
    return event.text if isinstance(event, (TextDelta, ReasoningDelta)) else ""


def _too_long(error: ModelError) -> ModelError:
    """Return the error for a server that asks for a longer wait than the policy allows. The message
    includes the requested wait.
    """
    text = (
        f"{str(error).rstrip('.')}. The server asks to wait {error.retry_after:.0f} seconds. Try"
        " again after that."
    )
    extended = ModelError(text, status=error.status, retry_after=error.retry_after)
    extended.metadata = error.metadata
    return extended


def _cut(error: ModelError, shown: str) -> ModelError:
    """Return the error for an interrupted response. The message quotes the end of the response."""
    tail = " ".join(shown.split())
    tail = f"…{tail[-_MAX_TAIL_LENGTH:]}" if len(tail) > _MAX_TAIL_LENGTH else tail
    return ModelError(
        f"{str(error).rstrip('.')}. The response broke off after “{tail}”.",
        status=error.status,
        retry_after=error.retry_after,
    )
