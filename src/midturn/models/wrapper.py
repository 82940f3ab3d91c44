"""Wrappers around models: accounting, observation, logging and retries."""

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
from midturn.exchange import DEFAULT_RETRIES, BrokeOff, Finished, ModelEvent, ModelRequest, ReasoningDelta, Spent, TextDelta
from midturn.ports import OBSERVERS, Clock, Model
from midturn.question.json_value import Json


class Wrapper:
    """A model that asks `model`, and passes on what it can do beyond the protocol."""

    def __init__(self, model: Model) -> None:
        self.model = model
        """The model that is asked."""

    @property
    def name(self) -> str:
        """The name of the model that is asked."""
        return self.model.name

    async def prepare(self) -> None:
        """Load what the model needs, if it is one that loads something."""
        await self._optionally("prepare")

    async def context_window(self) -> int | None:
        """Return how many tokens the model reads at most; None where it does not say."""
        return await self._optionally("context_window")

    async def aclose(self) -> None:
        """Close the model's connection, if it has one."""
        await self._optionally("aclose")

    def asked(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask the model: `async with self.asked(request) as events`. Leaving closes its request at once."""
        events: Any = self.model.stream(request)
        return aclosing(events) if hasattr(events, "aclose") else nullcontext(events)

    async def _optionally(self, method: str) -> Any:
        found: Callable[[], Awaitable[Any]] | None = getattr(self.model, method, None)
        return None if found is None else await found()


SPENT: ContextVar[list[Spent]] = ContextVar("midturn_spent")
"""Collects the usage of the present task's requests."""


def count(model: str, request: ModelRequest, finished: Finished) -> None:
    """Note the usage of a request, for its counters."""
    spent = SPENT.get(None)
    if spent is not None:
        spent.append(Spent(model, finished.usage, request.inquiry is not None))


class ObservedModel(Wrapper):
    """A model whose requests observers see, while there are any."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask the model."""
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


# ----------------------------------------------------------------------------------------------------------------------
# Requests and responses for reading: in the log, and by `--dry-run`. No key is part of a request


LOG = logging.getLogger("midturn.models")
_OURS_ALONE = frozenset({"timestamp", "event_id", "more", "call"})


class LoggedModel(Wrapper):
    """A model whose requests and responses are written to the log."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield what the model yields, and note it when it is complete.

        Raises:
            ModelError: As the model does.
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
    """Return a request as it is shown: `model`, `system`, `messages`, `tools`, `tool_choice`, `parameters`; `schema` where there is one."""
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
    """Return an event without what only the stream needs."""
    return {key: value for key, value in event.to_json().items() if key not in _OURS_ALONE}


def _one_line(value: Json) -> str:
    return json.dumps(value)


# ----------------------------------------------------------------------------------------------------------------------
# Retries: when to ask a model again, and when not


_TAIL = 60  # characters of a cut answer that the error repeats
_WHOLE_SECONDS = 3.0  # a shorter wait is said with a decimal
_KEPT = 4 * _TAIL  # white space may be folded away


Failure: TypeAlias = Literal[
    "key", "quota", "busy", "server", "unknown_model", "too_long", "filtered", "unreachable", "broken", "silent", "garbled", "rejected"
]
"""Failures of a provider."""
WORTH_ANOTHER_TRY: Final[frozenset[Failure]] = frozenset({"busy", "server", "unreachable", "broken", "silent", "garbled"})
_MAY_PASS: Final = frozenset({408, 409, 429})  # a request that took too long, a conflict, too many requests
_SERVER_ERRORS: Final = 500


def is_transient(status: int | None) -> bool:
    """Say whether trying again may help: 408, 409, 429, 5xx, and a connection that broke (no status at all)."""
    return status is None or status in _MAY_PASS or status >= _SERVER_ERRORS


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """Waits in seconds: `base`, doubled each time up to `cap`, give or take `jitter`; up to `longest` where the server names one.

    `begins_anew`: an answer that broke off is asked for again, too; the caller can mark what was shown of it, or has shown none.
    """

    max_retries: int = DEFAULT_RETRIES
    base: float = 0.5
    cap: float = 30.0
    jitter: float = 0.25
    longest: float = 120.0
    begins_anew: bool = False

    def wait(self, failures: int, error: ModelError, chance: float) -> float | None:
        """Return how long to wait after that many failures in a row, or None to give up; `chance` in 0…1 is the jitter's dice."""
        if not error.transient or failures > self.max_retries:
            return None
        if error.retry_after is not None:
            return None if self.is_too_long(error) else error.retry_after
        spread = 1 + self.jitter * (2 * chance - 1)
        return float(min(self.cap, self.base * 2 ** (failures - 1)) * spread)

    def is_too_long(self, error: ModelError) -> bool:
        """Whether the server asks to wait longer than anybody would."""
        return error.transient and error.retry_after is not None and error.retry_after > self.longest


class Retrying(Struct, frozen=True):
    """A wait before the next attempt: what failed (a sentence), for how many seconds, and which retry of how many comes then.

    `was_cut`: some of the answer was there already.
    """

    model: str
    error: str
    seconds: float
    retry: int
    max_retries: int
    was_cut: bool = False

    def sentences(self) -> str:
        """Say which model failed and how, and when it is asked again."""
        who = "" if self.error.startswith(self.model) else f"{self.model}: "
        seconds = f"{self.seconds:.0f}" if self.seconds >= _WHOLE_SECONDS else f"{self.seconds:.1f}"
        cut = "The answer broke off, and begins anew. " if self.was_cut else ""
        return f"{who}{self.error} {cut}Trying again in {seconds} s (retry {self.retry} of {self.max_retries})."


def _chance() -> float:
    """Return any number from 0 up to 1. The length of a pause needs no generator, and loading one takes a moment."""
    return int.from_bytes(os.urandom(4)) / 2**32


class RetryingModel(Wrapper):
    """A model that is asked again when it fails; what it comes to in the end is counted.

    After text was shown it is, too, where the policy `begins_anew`: `BrokeOff` says so. `report` hears of each wait before it begins.
    A side request shows nothing, so it may be repeated at any time.
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
        """Yield what the model yields.

        Raises:
            ModelError: It failed for good, too often, or in the middle of its answer (the message then says where it was cut).
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
                        shown = (shown + _shown(event))[-_KEPT:] if request.inquiry is None else ""
                        yield event
                error = ModelError(f"{self.name} stopped before its answer was complete.", transient=True)
            except ModelError as failure:
                error = failure
            failures += 1
            seconds = self._policy.wait(failures, error, self._chance())
            if shown and (seconds is None or not self._policy.begins_anew):
                raise _cut(error, shown) from error
            if seconds is None and self._policy.is_too_long(error):
                raise _too_long(error) from error
            if seconds is None:
                raise error
            if shown:
                yield BrokeOff()
            sentence = f"{str(error).rstrip('.')}."
            self._report(Retrying(self.name, sentence, seconds, failures, self._policy.max_retries, was_cut=bool(shown)))
            await self._clock.sleep(seconds)


def _shown(event: ModelEvent) -> str:
    return event.text if isinstance(event, (TextDelta, ReasoningDelta)) else ""


def _too_long(error: ModelError) -> ModelError:
    """Return the error of a server that asks for more patience than we have: it says for how much."""
    text = f"{str(error).rstrip('.')}. It asks to wait {error.retry_after:.0f} seconds: try again then."
    told = ModelError(text, status=error.status, retry_after=error.retry_after)
    told.metadata = error.metadata
    return told


def _cut(error: ModelError, shown: str) -> ModelError:
    """Return the error for an answer that was cut: it says after which words, and that it was not tried again."""
    tail = " ".join(shown.split())
    tail = f"…{tail[-_TAIL:]}" if len(tail) > _TAIL else tail
    return ModelError(f"{str(error).rstrip('.')}. The answer was cut after “{tail}”.", status=error.status, retry_after=error.retry_after)
