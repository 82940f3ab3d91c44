"""What every model around another model shares; what its requests come to, for whoever runs it; and the one that observers see."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from midturn.core.exchange import Finished, ModelEvent, ModelRequest, Usage
from midturn.ports import OBSERVERS, Model


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


class Spent(Struct, frozen=True):
    """What one request came to; `is_inquiry` where the model answered a question."""

    model: str
    usage: Usage
    is_inquiry: bool


SPENT: ContextVar[list[Spent]] = ContextVar("midturn_spent")
"""Where the requests of the present task are counted."""


def count(model: str, request: ModelRequest, finished: Finished) -> None:
    """Note what a request came to, for whoever counts them."""
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
