"""A model whose requests are counted, for whoever runs it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextvars import ContextVar

from msgspec import Struct

from midturn.core.exchange import Finished, ModelEvent, ModelRequest, Usage
from midturn.models.wrapper import Wrapper
from midturn.ports import OBSERVERS


class Spent(Struct, frozen=True):
    """What one request came to; `is_inquiry` where the model answered a question."""

    model: str
    usage: Usage
    is_inquiry: bool


SPENT: ContextVar[list[Spent]] = ContextVar("midturn_spent")
"""Where the requests of the present task are counted."""


class CountedModel(Wrapper):
    """A model that notes what each request came to."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask the model."""
        observations = [observer.request_began(self.name, request) for observer in OBSERVERS]
        finished: Finished | None = None
        failure: BaseException | None = None
        try:
            async for event in self.passed_on(request):
                if isinstance(event, Finished):
                    finished = event
                    spent = SPENT.get(None)
                    if spent is not None:
                        spent.append(Spent(self.name, event.usage, request.inquiry is not None))
                yield event
        except BaseException as error:
            failure = error
            raise
        finally:
            for observation in observations:
                observation.end(finished, failure)
