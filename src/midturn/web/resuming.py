"""Goes on with turns of which a question was answered, here in the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from midturn.errors import MidturnError, NotOpen, StoreLocked
from midturn.web.port import Port

Resume: TypeAlias = Callable[[str], Awaitable[object]]
_LOG = logging.getLogger(__name__)
_AT_ONCE = 16
_EVERY = 1.0  # seconds between two looks for what others have answered


class Resuming:
    """Runs what is ready, and no turn twice in the state in which it was left: a model that is down is not asked without end."""

    def __init__(self, port: Port, resume: Resume) -> None:
        """Go on with a turn by `resume(conversation)`."""
        self._port = port
        self._resume = resume
        self._running: dict[str, asyncio.Task[None]] = {}
        self._left: dict[str, int] = {}
        self._nudged = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._stopped = False

    def nudge(self) -> None:
        """Look for turns that are ready now."""
        self._nudged.set()
        self.begin()

    def begin(self) -> None:
        """Look from now on, also for what others have answered."""
        if not self._stopped and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look_on())

    async def stop(self) -> None:
        """Leave every turn where it is: open, to be resumed."""
        self._stopped = True
        tasks = [task for task in (self._looking, *self._running.values()) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_on(self) -> None:
        while True:
            self._nudged.clear()
            try:
                await self._begin_ready()
            except MidturnError as error:
                _LOG.warning("what can go on cannot be found out: %r", str(error))
            try:
                await asyncio.wait_for(self._nudged.wait(), _EVERY)
            except TimeoutError:
                continue

    async def _begin_ready(self) -> None:
        for conversation in await self._port.ready():
            if len(self._running) >= _AT_ONCE:
                return
            if conversation in self._running or self._left.get(conversation) == await self._length(conversation):
                continue
            task = asyncio.create_task(self._go_on(conversation))
            self._running[conversation] = task
            task.add_done_callback(lambda _, done=conversation: self._running.pop(done, None))

    async def _go_on(self, conversation: str) -> None:
        try:
            await self._resume(conversation)
        except (StoreLocked, NotOpen):  # somebody else goes on with it, or has gone on
            return
        except MidturnError as error:
            _LOG.warning("the turn of conversation %s could not go on: %r", conversation, str(error))
        except Exception:  # noqa: BLE001  a tool or a model is anybody's code: the others go on
            _LOG.exception("the turn of conversation %s could not go on", conversation)
        self._left[conversation] = await self._length(conversation)

    async def _length(self, conversation: str) -> int:
        return len(await self._port.last_turn(conversation))
