"""The run of another framework, watched: the framework's own events, and the questions and calls of midturn between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, Self, TypeVar, cast

from midturn.agent.inquirer import Inquirer
from midturn.agent.turn_stream import Asked, QuestionAnswered, ToolFinished, ToolStarted

Item = TypeVar("Item")
Result = TypeVar("Result")
_END = object()


class FrameworkStream(Generic[Item, Result]):
    """Events of the run of a framework, as they happen, with `Asked`, `QuestionAnswered`, `ToolStarted` and `ToolFinished` of midturn.

    The adapters' `stream` makes one. Iterating raises what their `run` or `invoke` would raise.
    """

    def __init__(self, events: asyncio.Queue[Any], task: asyncio.Task[Result]) -> None:
        """Read the events of a task from a queue."""
        self._events = events
        self._task = task
        self._is_over = False
        task.add_done_callback(lambda _: events.put_nowait(_END))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item | Asked | QuestionAnswered | ToolStarted | ToolFinished:
        if self._is_over:
            raise StopAsyncIteration
        event: object = await self._events.get()
        if event is not _END:
            return cast("Item", event)
        self._is_over = True
        await self._task
        raise StopAsyncIteration

    @property
    def result(self) -> Result:
        """The result of the run, as the adapter's `run` or `invoke` returns it.

        Raises:
            RuntimeError: The run is not over.
        """
        if not self._task.done():
            raise RuntimeError("The run is not over. Read `result` after the last event.")
        return self._task.result()

    async def stop(self) -> None:
        """Stop the run, if it still runs: the turn stays open."""
        self._is_over = self._is_over or not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def framework_stream(
    inquirer: Inquirer, run: Callable[[Callable[[Item], None]], Awaitable[Result]]
) -> AsyncGenerator[FrameworkStream[Item, Result]]:
    """Run a framework in a task of its own, and watch it.

    Args:
        inquirer: Who asks in the run.
        run: Runs the framework to its end; it is given a function that takes each of its events.
    """
    events: asyncio.Queue[Any] = asyncio.Queue()

    async def running() -> Result:
        return await run(events.put_nowait)

    with inquirer.watch(events.put_nowait):
        stream = FrameworkStream[Item, Result](events, asyncio.create_task(running()))
        try:
            yield stream
        finally:
            await stream.stop()
