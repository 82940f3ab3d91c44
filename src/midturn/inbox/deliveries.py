"""Deliveries of notices, kept in the store: one server sends a notice, a failed one is tried again, and a restart changes neither.

Each delivery is kept under `notice/<name>` in the key-value part of the store (`StorePort.beside`):

    notice/<service>/<question>             the notice of `notify.urls`, or of the browsers of one server
    notice/<service>/begun                  since when this service is notified: earlier questions are not sent
    notice/people/<question>/<about>-<n>    a notice to the people of a question, until its outcome is in the log

A server claims a delivery for `LEASE` seconds before it sends, and keeps the outcome before it releases the claim. If the server dies in
between, another one sends the notice again: the people may receive it twice, but never not at all.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.inbox.store_access import Port
from midturn.question.people import after
from midturn.turn.notices import RETRY_DELAYS

LEASE: Final = 60.0
"""Seconds after which another server sends a notice whose sender has not kept an outcome."""
SEND_TIMEOUT: Final = 45.0
"""Seconds after which a service that does not answer has failed; less than `LEASE`."""
GRACE_PERIOD: Final = 10.0
"""Seconds for which a server that is stopped waits for the outcome of a notice that it is sending."""
_ROOT: Final = "notice"
T = TypeVar("T")


class Sending(Struct, frozen=True):
    """Outcome of one attempt: fingerprints of the addresses that have accepted the notice, and descriptions of those that have not."""

    accepted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def error(self) -> str | None:
        """The error for the log; None if every address has accepted the notice."""
        return f"not taken by {', '.join(self.failed)}" if self.failed else None


class NoticeDelivery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of a delivery. `tries` counts the attempts, `retry_at` is the time of the next one, `error` is that of the last one.

    `holder` may send it until `until`. `accepted` are the addresses that are not sent the notice again. `is_over`: nothing more is sent.
    """

    holder: str = ""
    until: str = ""
    tries: int = 0
    retry_at: str = ""
    accepted: tuple[str, ...] = ()
    error: str | None = None
    is_over: bool = False

    def after(self, sending: Sending, now: str) -> NoticeDelivery:
        """Return the state after an attempt."""
        is_over = not sending.failed or self.tries >= len(RETRY_DELAYS)
        return NoticeDelivery(
            tries=self.tries + 1,
            retry_at="" if is_over else after(now, RETRY_DELAYS[self.tries]),
            accepted=tuple({*self.accepted, *sending.accepted}),
            error=sending.error,
            is_over=is_over,
        )


async def recorded(attempt: Coroutine[Any, Any, None]) -> None:
    """Run an attempt and the record of its outcome.

    A server that is stopped meanwhile waits up to `GRACE_PERIOD` for it: a notice that was sent and not recorded would be sent again.
    """
    task = asyncio.ensure_future(attempt)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=GRACE_PERIOD)
        task.cancel()
        raise


async def run_all(work: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run several at once and wait until all have ended, also if one fails or this is cancelled. Raises the first error.

    `asyncio.gather` returns with the first that ends when it is cancelled, and leaves the others behind.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        raise  # each has been cancelled
    except BaseException:
        for task in tasks:
            task.cancel()
        raise
    finally:
        await asyncio.gather(*tasks, return_exceptions=True)


class Begun(Struct, frozen=True):
    """Since when a service is notified (RFC 3339)."""

    at: str


def fingerprint(address: str) -> str:
    """Return a short name for an address, which does not contain a password that the address may contain."""
    return hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()[:8]


class Deliveries:
    """The deliveries of one service in a store. `now` returns the time in RFC 3339."""

    def __init__(self, port: Port, service: str, now: Callable[[], str]) -> None:
        self._port = port
        self._prefix = f"{_ROOT}/{service}/"
        self._now = now
        self._holder = secrets.token_hex(8)

    async def claim(self, name: str) -> tuple[NoticeDelivery, bool]:
        """Return a delivery, and whether this server may send it now or record its outcome.

        Raises:
            Busy: Another process holds the lock of this delivery.
            StoreError: The store cannot be read or written.
        """
        key = f"{self._prefix}{name}"
        async with self._port.store.port.alone(key):
            found = (await self._find(key, NoticeDelivery)) or NoticeDelivery()
            now = self._now()
            if found.is_over or found.retry_at > now or (found.until > now and found.holder != self._holder):
                return found, found.is_over
            claimed = replace(found, holder=self._holder, until=after(now, LEASE))
            await self._keep(key, claimed)
        return claimed, True

    async def settle(self, name: str, delivery: NoticeDelivery) -> None:
        """Keep the outcome of an attempt, and release the claim."""
        await self._keep(f"{self._prefix}{name}", delivery)

    async def remove(self, name: str) -> None:
        """Remove a delivery."""
        await self._port.keep(f"{self._prefix}{name}", None)

    async def names(self) -> Mapping[str, NoticeDelivery]:
        """Return all deliveries by name."""
        kept = await self._port.kept(self._prefix)
        read = {name.removeprefix(self._prefix): _read(content, NoticeDelivery) for name, content in kept.items()}
        return {name: delivery for name, delivery in read.items() if delivery is not None and name != _BEGUN}

    async def remove_except(self, before: Collection[str], questions: Collection[str]) -> None:
        """Remove those of the deliveries `before` whose question is not open: one that was open later than `before` was read is kept."""
        for name in before:
            if name.partition("/")[0] not in questions:
                await self.remove(name)

    async def begun(self, earlier: Sequence[str] | None) -> str:
        """Return since when the service is notified; from now on if this is not kept yet.

        Args:
            earlier: Questions that an earlier version has sent; None if it has not sent any. With them, every other question is sent.
        """
        key = f"{self._prefix}{_BEGUN}"
        async with self._port.store.port.alone(key):
            if found := await self._find(key, Begun):
                return found.at
            for question in earlier or ():
                await self.settle(question, NoticeDelivery(is_over=True))
            begun = Begun(self._now() if earlier is None else "")
            await self._keep(key, begun)
        return begun.at

    async def _find(self, key: str, kind: type[T]) -> T | None:
        return _read((await self._port.kept(key)).get(key), kind)

    async def _keep(self, key: str, value: Struct) -> None:
        await self._port.keep(key, msgspec.json.encode(value))


_BEGUN: Final = "begun"


def _read(content: bytes | None, kind: type[T]) -> T | None:
    """Return a value that was kept; None if there is none, or another program has written it."""
    try:
        return None if content is None else msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
