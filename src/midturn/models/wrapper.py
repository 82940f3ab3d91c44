"""What every model around another model shares."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from midturn.core.exchange import ModelEvent, ModelRequest
from midturn.ports import Model


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

    async def passed_on(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Yield what the model yields; leaving closes its request at once."""
        events = self.model.stream(request)
        try:
            async for event in events:
                yield event
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()

    async def _optionally(self, method: str) -> Any:
        found: Callable[[], Awaitable[Any]] | None = getattr(self.model, method, None)
        return None if found is None else await found()
