"""Event streams of other frameworks. Each stream contains the framework's own events, interleaved
with midturn's questions and calls.
"""

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
    """Events of a framework's run, interleaved with midturn's `Asked`, `QuestionAnswered`,
    `ToolStarted` and `ToolFinished`.

    Created by the `stream` function of an adapter. Iteration raises the errors of the adapter's
    `run` or `invoke`.
    """

    def __init__(self, events: asyncio.Queue[Any], task: asyncio.Task[Result]) -> None:
        """Create a stream of the events that `task` puts into a queue."""
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
        """Result of the run, as the adapter's `run` or `invoke` returns it.

        Raises:
            RuntimeError: The run is not finished.
        """
        if not self._task.done():
            raise RuntimeError("The run is not finished. Read `result` after the last event.")
        return self._task.result()

    async def stop(self) -> None:
        """Stop the run if it is not finished. The turn stays open."""
        self._is_over = self._is_over or not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def framework_stream(
    inquirer: Inquirer, run: Callable[[Callable[[Item], None]], Awaitable[Result]]
) -> AsyncGenerator[FrameworkStream[Item, Result]]:
    """Run a framework in a separate task and stream its events.

    Args:
        inquirer: The inquirer of the run.
        run: Runs the framework to completion. Its argument is a function that it must call with
            each event.
    """
    events: asyncio.Queue[Any] = asyncio.Queue()

    async def run_framework() -> Result:
        return await run(events.put_nowait)

    with inquirer.watch(events.put_nowait):
        stream = FrameworkStream[Item, Result](events, asyncio.create_task(run_framework()))
        try:
            yield stream
        finally:
            await stream.stop()
