"""A call that a loop makes which is not ours: the tool runs out there, its questions are asked in here."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping

from midturn.core.exchange import ToolDefinition
from midturn.core.outcome import Outcome
from midturn.core.source import Source
from midturn.ports import ToolRun


class ForeignCall:
    """One call, from outside and from inside: `run` is there once it has begun, `outcome` is set from outside when the tool is done.

    `responded` is done when the result is durable, or when the call was ended from inside.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.run: asyncio.Future[ToolRun] = loop.create_future()
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        self.responded: asyncio.Future[None] = loop.create_future()
        self.stopped = asyncio.Event()
        """Set when the machine has stopped the call: it is over, or the turn waits for somebody who comes by later."""

    @property
    def event(self) -> str:
        """The identity of the call, once it has begun."""
        return self.run.result().call.event

    def finish(self, outcome: Outcome) -> None:
        """Say what the tool ended in; what comes too late is dropped."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def respond(self) -> None:
        """Note that the call has its response."""
        if not self.responded.done():
            self.responded.set_result(None)

    async def execute(self, run: ToolRun) -> Outcome:
        """Stand in for the tool until it is done out there."""
        self.run.set_result(run)
        try:
            return await asyncio.shield(self.outcome)
        finally:
            self.stopped.set()


class ForeignTool:
    """A tool of a loop that is not ours; `source` says who asks in its calls."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.source = Source.tool(name)
        self._expected: defaultdict[str, deque[ForeignCall]] = defaultdict(deque)

    @property
    def definition(self) -> ToolDefinition:
        """Its name; the model is told the rest by whoever runs the loop."""
        return ToolDefinition(self._name, "", {"type": "object"})

    def inquiry_source(self) -> Source:
        """Return who asks: the tool under its name, unless it is one of ours that is not."""
        return self.source

    def expect(self, id: str, call: ForeignCall, source: Source) -> None:
        """Take note that a call with this id is about to begin."""
        self.source = source
        self._expected[id].append(call)

    async def execute(self, run: ToolRun) -> Outcome:
        """Stand in for the tool (see `ports.Tool`)."""
        return await self._expected[run.call.id].popleft().execute(run)


class ForeignTools(Mapping[str, ForeignTool]):
    """All the tools that there may be out there."""

    def __init__(self) -> None:
        self._by_name: dict[str, ForeignTool] = {}

    def __getitem__(self, name: str) -> ForeignTool:
        return self._by_name.setdefault(name, ForeignTool(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)
