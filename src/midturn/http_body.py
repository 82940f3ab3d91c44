"""Limits on request bodies: their size, the time to receive them, and the number of incomplete
bodies of unauthenticated requests.
"""

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
    """Limits on request bodies.

    A request is unauthenticated until the application calls `admit`, after it has found a signed-in
    user or a valid token.

    Args:
        seconds: Time in which the whole body must arrive.
        bytes: Maximum size in bytes.
        stranger_bytes: Maximum size in bytes of an unauthenticated request.
        strangers: Maximum number of incomplete bodies of unauthenticated requests.
    """

    seconds: float = 60.0
    bytes: int = 2 * 1024 * 1024
    stranger_bytes: int = 256 * 1024
    strangers: int = 32


class BodyRefused(Exception):  # noqa: N818  a response with a status, not a fault
    """The body is too large (413) or did not arrive in time (408). The connection cannot be
    reused.
    """

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message


class Bodies:
    """The incomplete bodies of one application."""

    def __init__(self, limits: BodyLimits) -> None:
        self.limits = limits
        self._strangers: dict[_Body, None] = {}  # oldest first

    @asynccontextmanager
    async def limited(self, scope: Scope, receive: Receive) -> AsyncGenerator[Receive]:
        """Let an application read a request body within the limits. If the client disconnects
        before the body is complete, the block ends.

        Raises:
            BodyRefused: A limit is exceeded. Raised by the `receive` function that is yielded to
                the block.
        """
        body = _Body(self, receive)
        scope[_BODY] = body
        try:
            yield body.receive
        except ClientDisconnect:
            _LOG.info(
                "client disconnected before the end of its request: %s %s",
                scope["method"],
                scope["path"],
            )
        finally:
            self.forget(body)

    def count(self, body: _Body) -> None:
        """Count an incomplete unauthenticated body. If there are too many, the oldest is
        refused.
        """
        self._strangers.setdefault(body)
        if len(self._strangers) > self.limits.strangers:
            oldest = next(iter(self._strangers))
            self.forget(oldest)
            oldest.drop()

    def forget(self, body: _Body) -> None:
        """Stop counting a body, because it is complete, refused or authenticated."""
        self._strangers.pop(body, None)


def admit(scope: Scope) -> None:
    """Mark a request as authenticated. The larger size limit applies to its body."""
    if (body := cast("_Body | None", scope.get(_BODY))) is not None:
        body.admit()


class _Body:
    """The body of one request and its progress."""

    def __init__(self, bodies: Bodies, receive: Receive) -> None:
        self._bodies = bodies
        self._receive = receive
        self._until = asyncio.get_running_loop().time() + bodies.limits.seconds
        self._waiting: asyncio.Timeout | None = None
        self._read = 0
        self._is_admitted = self._is_whole = self._is_dropped = False

    async def receive(self) -> Message:
        """Return the server's next message, after checking the limits."""
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
        """Mark the request as authenticated."""
        self._is_admitted = True
        self._bodies.forget(self)

    def drop(self) -> None:
        """Stop waiting for the rest of the body."""
        self._is_dropped, self._until = True, 0.0
        if self._waiting is not None:
            self._waiting.reschedule(self._until)

    def _too_slow(self) -> BodyRefused:
        self._bodies.forget(self)
        if self._is_dropped:
            return BodyRefused(
                408,
                "too_slow",
                "The server has too many incomplete requests. Send the request again.",
            )
        return BodyRefused(
            408,
            "too_slow",
            f"The request was incomplete after {self._bodies.limits.seconds:.0f} s. Send it again.",
        )

    def _check_size(self) -> None:
        limits = self._bodies.limits
        max_bytes = limits.bytes if self._is_admitted else limits.stranger_bytes
        if self._read <= max_bytes:
            return
        self._bodies.forget(self)
        size = (
            f"{max_bytes // 1024} KiB"
            if max_bytes < 1024 * 1024
            else f"{max_bytes // 1024 // 1024} MiB"
        )
        condition = "" if self._is_admitted else " before you sign in"
        raise BodyRefused(
            413, "too_large", f"The request is too large: the limit is {size}{condition}."
        )


async def whole_body(receive: Receive) -> list[Message]:
    """Read a whole body and return its messages.

    Raises:
        BodyRefused: A limit is exceeded.
        ClientDisconnect: The client disconnected before the end.
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
    """Return a `receive` that replays messages already read, and then continues with the server's
    `receive`.
    """
    left = iter(messages)

    async def replayed() -> Message:
        return next(left, None) or await receive()

    return replayed
