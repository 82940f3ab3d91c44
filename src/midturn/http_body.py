"""Bodies of requests: their size, the time they take, and how many unfinished ones there are before anyone is signed in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, cast

from msgspec import Struct
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

_LOG = logging.getLogger(__name__)
_BODY: Final = "midturn.body"


class BodyLimits(Struct, frozen=True, kw_only=True):
    """Limits of bodies: seconds until one is whole, bytes, bytes of a stranger's, and the number of unfinished bodies of strangers.

    A request is a stranger's until its application has called `admit`: somebody is signed in, or a token is right.
    """

    seconds: float = 60.0
    bytes: int = 2 * 1024 * 1024
    stranger_bytes: int = 256 * 1024
    strangers: int = 32


class BodyRefused(Exception):  # noqa: N818  its status says what it is
    """A body is larger than allowed (413), or not whole in time (408); the connection cannot be used again."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message


class Bodies:
    """The unfinished bodies of one application."""

    def __init__(self, limits: BodyLimits) -> None:
        self.limits = limits
        self._strangers: dict[_Body, None] = {}  # the oldest first

    @asynccontextmanager
    async def limited(self, scope: Scope, receive: Receive) -> AsyncGenerator[Receive]:
        """Let an application read the body of a request within the limits. A client that hangs up before it is whole ends the block.

        Raises:
            BodyRefused: A limit is passed. It is raised by the `receive` that the block is given.
        """
        body = _Body(self, receive)
        scope[_BODY] = body
        try:
            yield body.receive
        except ClientDisconnect:
            _LOG.info("a client hung up before its request was whole: %s %s", scope["method"], scope["path"])
        finally:
            self.forget(body)

    def count(self, body: _Body) -> None:
        """Count the unfinished body of a stranger; if there are too many, the oldest one is refused."""
        self._strangers.setdefault(body)
        if len(self._strangers) > self.limits.strangers:
            oldest = next(iter(self._strangers))
            self.forget(oldest)
            oldest.drop()

    def forget(self, body: _Body) -> None:
        """Count a body no more: it is whole or refused, or somebody is signed in."""
        self._strangers.pop(body, None)


def admit(scope: Scope) -> None:
    """Note that a request is no stranger's: its body may have the size that users may send."""
    if (body := cast("_Body | None", scope.get(_BODY))) is not None:
        body.admit()


class _Body:
    """The body of one request, and how much of it has arrived."""

    def __init__(self, bodies: Bodies, receive: Receive) -> None:
        self._bodies = bodies
        self._receive = receive
        self._until = asyncio.get_running_loop().time() + bodies.limits.seconds
        self._waiting: asyncio.Timeout | None = None
        self._read = 0
        self._is_admitted = self._is_whole = self._is_dropped = False

    async def receive(self) -> Message:
        """Return the next message of the server."""
        if self._is_whole:
            return await self._receive()
        if not self._is_admitted:
            self._bodies.count(self)
        try:
            async with asyncio.timeout_at(self._until) as self._waiting:
                message = await self._receive()
        except TimeoutError:
            raise self._too_slow() from None
        finally:
            self._waiting = None
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._is_whole = True
            self._bodies.forget(self)
        self._read += len(message.get("body", b""))
        self._check_size()
        return message

    def admit(self) -> None:
        """Take it for a user's."""
        self._is_admitted = True
        self._bodies.forget(self)

    def drop(self) -> None:
        """Wait no longer for the rest of it."""
        self._is_dropped, self._until = True, 0.0
        if self._waiting is not None:
            self._waiting.reschedule(self._until)

    def _too_slow(self) -> BodyRefused:
        self._bodies.forget(self)
        if self._is_dropped:
            return BodyRefused(408, "too_slow", "Too many other requests are not whole yet. Send it again.")
        return BodyRefused(408, "too_slow", f"The request was not whole after {self._bodies.limits.seconds:.0f} s. Send it again.")

    def _check_size(self) -> None:
        limits = self._bodies.limits
        most = limits.bytes if self._is_admitted else limits.stranger_bytes
        if self._read <= most:
            return
        self._bodies.forget(self)
        size = f"{most // 1024} KiB" if most < 1024 * 1024 else f"{most // 1024 // 1024} MiB"
        before = "" if self._is_admitted else " before you are signed in"
        raise BodyRefused(413, "too_large", f"This is too much: a request holds at most {size}{before}.")


async def whole_body(receive: Receive) -> list[Message]:
    """Return the messages of a whole body; none if the client hung up before.

    Raises:
        BodyRefused: A limit is passed.
    """
    messages: list[Message] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        messages.append(message)
        if not message.get("more_body", False):
            return messages


def again(messages: list[Message], receive: Receive) -> Receive:
    """Return a `receive` that brings messages that were read before, and then those of the server."""
    left = iter(messages)

    async def replayed() -> Message:
        return next(left, None) or await receive()

    return replayed
