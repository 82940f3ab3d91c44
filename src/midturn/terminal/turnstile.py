"""One prompt at a time on the one terminal of a process, first come first served, whichever loop or thread it comes from."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import asynccontextmanager


class Turnstile:
    """A lock that several event loops share."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[Future[None]] = deque()
        self._inside: Future[None] | None = None

    @asynccontextmanager
    async def pass_through(self) -> AsyncGenerator[None]:
        """Wait for everybody who came before, and keep those who come later waiting while the block runs."""
        ticket: Future[None] = Future()
        with self._guard:
            self._waiting.append(ticket)
            self._admit()
        try:
            await asyncio.wrap_future(ticket)
            yield
        finally:
            with self._guard:
                self._leave(ticket)

    def _leave(self, ticket: Future[None]) -> None:
        if ticket is self._inside:
            self._inside = None
            self._admit()
        elif ticket in self._waiting:
            self._waiting.remove(ticket)

    def _admit(self) -> None:
        """Let the first in who still waits, if nobody is inside."""
        while self._waiting and self._inside is None:
            ticket = self._waiting.popleft()
            if ticket.set_running_or_notify_cancel():
                self._inside = ticket
                ticket.set_result(None)


TERMINAL = Turnstile()
