"""A turn whose loop is not ours: it makes the calls, the machine routes, asks and records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from msgspec.structs import replace

from midturn.core.events import ToolCallResponse, TurnEnd
from midturn.core.exchange import ModelEvent, ModelRequest
from midturn.core.json_value import JsonObject
from midturn.core.routing import messages
from midturn.core.source import Source
from midturn.core.stream import open_turn, pending
from midturn.core.turn.inputs import CallBegun, CallLeft, LoopEnded, TurnRequested
from midturn.core.turn.settings import TurnSettings
from midturn.core.turn.turn import Turn
from midturn.errors import CallEnded, MidturnError, Suspended
from midturn.ports import Happening, ToolEnded
from midturn.runtime.driver import Driver, Ending
from midturn.runtime.foreign_call import ForeignCall, ForeignTools
from midturn.runtime.recorder import record_effects
from midturn.runtime.services import Services
from midturn.runtime.surroundings import Surroundings


class Outside:
    """The model of a loop that is not ours: what it says, nobody hears here."""

    name = "outside"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Wait for ever: the loop goes on out there."""
        await asyncio.Event().wait()
        raise AssertionError(f"nobody sets this event, not even for {request.conversation}")
        yield  # makes this an asynchronous generator


class ForeignTurn:
    """The turn of a conversation that is held: the one that was left open, or else a new one, which begins with the first call."""

    def __init__(self, services: Services, settings: TurnSettings, surroundings: Surroundings, tools: ForeignTools) -> None:
        self._tools = tools
        self._services = replace(services, display=self)
        self._settings = settings
        self._surroundings = surroundings
        self._calls: list[ForeignCall] = []
        self._driver: Driver | None = None
        self._task: asyncio.Task[Ending] | None = None

    async def begin(self, text: str, author: str | None = None) -> None:
        """Record what the user said, unless the turn was left open; one that was left open with nothing to do is ended first."""
        journal = self._services.journal
        window = open_turn(journal.events)
        if window:
            stale = Turn.load(window.events, self._settings, self._services.ids)
            if stale.record.open_calls():
                return
            await record_effects(stale.step(LoopEnded()), journal, self._services.clock, self._services.display)
        if text:
            self._running()[0].report(TurnRequested(text, author=author))

    async def call(self, source: Source, name: str, id: str, arguments: JsonObject) -> ForeignCall:
        """Begin a call, or begin one again that was left unfinished; `source` is who asks in it.

        Raises:
            CallEnded: The person has ended the turn.
            StoreError: The disk refused.
        """
        call = ForeignCall()
        self._calls.append(call)
        self._tools[name].expect(id, call, source)
        try:
            while not call.run.done():
                driver, task = self._running()
                driver.report(CallBegun(id, name, arguments))
                await asyncio.wait({call.run, task}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            self.leave(call)
            raise
        return call

    async def finished(self, call: ForeignCall) -> None:
        """Wait until the result of a call is durable."""
        if self._task:
            await asyncio.wait({call.responded, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if not call.responded.done() and not self._task.cancelled():
                self._task.result()

    def leave(self, call: ForeignCall) -> None:
        """Go away from a call that is unfinished: its prompts close, its questions stay open."""
        if call in self._calls:
            self._calls.remove(call)
            call.run.add_done_callback(lambda run: self._left(run.result().call.event))  # at once, where it has begun

    def _left(self, event: str) -> None:
        if self._driver:
            self._driver.report(CallLeft(event))

    async def why_stopped(self, call: ForeignCall) -> MidturnError:
        """Return why a call got no answer: it has its response, or it waits for somebody who comes by later.

        Raises:
            StoreError: The disk refused.
        """
        journal = self._services.journal
        response = next((e for e in reversed(journal.events) if isinstance(e, ToolCallResponse) and e.call == call.event), None)
        if response is not None:
            return CallEnded(response.content, is_error=response.is_error, turn_ended=self._has_ended)
        if self._task:
            await asyncio.wait({self._task})
            self._task.result()
        waiting = pending(journal.events, journal.conversation)
        asked = "".join(f"\n  {question.id}  {question.tool} asks: {question.question.text}" for question in waiting)
        advice = "Answer with `store.answer(id, …)` or `midturn answer`, and make the call again."
        return Suspended(f"Conversation {journal.conversation} waits to be answered:{asked}\n{advice}", waiting)

    async def close(self) -> None:
        """Leave the turn: it is over, unless calls of it are unfinished.

        Raises:
            StoreError: The disk refused.
        """
        if self._driver is None or self._task is None:
            return
        self._driver.report(LoopEnded())
        try:
            await asyncio.wait({self._task})
        except BaseException:
            self._task.cancel()
            await asyncio.wait({self._task})
            raise
        self._task.result()

    def show(self, happening: Happening) -> None:
        """Note which calls have their response (see `ports.Display`)."""
        if isinstance(happening, ToolEnded):
            for call in [call for call in self._calls if call.run.done() and call.event == happening.call.event]:
                self._calls.remove(call)
                call.respond()

    @property
    def _has_ended(self) -> bool:
        events = self._services.journal.events
        return self._driver is not None and bool(events) and isinstance(events[-1], TurnEnd)

    def _running(self) -> tuple[Driver, asyncio.Task[Ending]]:
        """Return the driver that runs now; after a suspension another one goes on with the turn.

        Raises:
            CallEnded: The turn has ended while it was held.
        """
        if self._driver and self._task and not self._task.done():
            return self._driver, self._task
        if self._task:
            self._task.result()
        if self._has_ended:
            raise CallEnded(messages.TURN_ENDED, turn_ended=True)
        window = open_turn(self._services.journal.events)
        turn = Turn.load(window.events if window else (), self._settings, self._services.ids)
        self._driver = Driver(turn, self._services, self._surroundings)
        self._task = asyncio.create_task(self._driver.run(()))
        return self._driver, self._task
