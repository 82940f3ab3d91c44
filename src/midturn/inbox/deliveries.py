"""Delivery state of notifications. It is stored, so that several servers share the work, failed
notifications are retried, and no notification is lost in a restart.

Each delivery has a key under `notice/` in the key-value part of the store (`StorePort.beside`):

    notice/<service>/<question>           a notification to `notify.urls` or to the browsers of a
                                          server
    notice/<service>/begun                time when the service was first used; questions asked
                                          earlier are not sent to it
    notice/people/<question>/<about>-<n>  a notification to the people assigned to a question, until
                                          its outcome is in the log

A server claims a delivery for `LEASE` seconds before it sends, and stores the outcome before it
releases the claim. If the server dies in between, another server sends the notification again. Each
notification is therefore delivered at least once.
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
"""Seconds after which another server may send a notification that has no stored outcome."""
SEND_TIMEOUT: Final = 45.0
"""Seconds to wait for a service before the attempt counts as failed. Must be less than `LEASE`."""
GRACE_PERIOD: Final = 10.0
"""Seconds that a stopping server waits for the outcome of a notification in progress."""
_KEY_PREFIX: Final = "notice"
T = TypeVar("T")


class Sending(Struct, frozen=True):
    """Outcome of one attempt.

    `accepted` contains fingerprints of the addresses that accepted the notification. `failed`
    describes the other addresses.
    """

    accepted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def error(self) -> str | None:
        """Error text for the log, or None if every address accepted the notification."""
        return f"not accepted by {', '.join(self.failed)}" if self.failed else None


class NoticeDelivery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of a delivery.

    `holder` is the server that may send the notification until the time `until`. `tries` counts the
    attempts, `retry_at` is the time of the next attempt, and `error` is the error of the last
    attempt. `accepted` lists fingerprints of addresses that are skipped in later attempts. If
    `is_over` is true, no further attempt is made.
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


async def run_to_completion(attempt: Coroutine[Any, Any, None]) -> None:
    """Run `attempt`, which sends a notification and records the outcome.

    If the server stops meanwhile, wait up to `GRACE_PERIOD` seconds, because a notification without
    a recorded outcome would be sent again.
    """
    task = asyncio.ensure_future(attempt)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=GRACE_PERIOD)
        task.cancel()
        raise


async def run_all(work: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run coroutines concurrently and wait until all have ended.

    Also wait if one of them fails or if this call is cancelled. Raise the first error. In contrast,
    a cancelled `asyncio.gather` returns while some of its tasks still run.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        raise  # `gather` has already cancelled the tasks
    except BaseException:
        for task in tasks:
            task.cancel()
        raise
    finally:
        await asyncio.gather(*tasks, return_exceptions=True)


class Begun(Struct, frozen=True):
    """Time when a service was first used (RFC 3339). Only later questions are sent to it."""

    at: str


def fingerprint(address: str) -> str:
    """Return a short hash of an address.

    The address may contain a password, which the hash does not reveal.
    """
    return hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()[:8]


class Deliveries:
    """Deliveries of one service in a store. `now` returns the current time in RFC 3339."""

    def __init__(self, port: Port, service: str, now: Callable[[], str]) -> None:
        self._port = port
        self._prefix = f"{_KEY_PREFIX}/{service}/"
        self._now = now
        self._holder = secrets.token_hex(8)

    async def claim(self, name: str) -> tuple[NoticeDelivery, bool]:
        """Return a delivery, and whether this server may now send it or record its outcome.

        Raises:
            Busy: Another process holds the lock of this delivery.
            StoreError: The store cannot be read or written.
        """
        key = f"{self._prefix}{name}"
        async with self._port.store.port.alone(key):
            found = (await self._read_key(key, NoticeDelivery)) or NoticeDelivery()
            now = self._now()
            if (
                found.is_over
                or found.retry_at > now
                or (found.until > now and found.holder != self._holder)
            ):
                return found, found.is_over
            claimed = replace(found, holder=self._holder, until=after(now, LEASE))
            await self._write(key, claimed)
        return claimed, True

    async def settle(self, name: str, delivery: NoticeDelivery) -> None:
        """Store the outcome of an attempt and release the claim."""
        await self._write(f"{self._prefix}{name}", delivery)

    async def remove(self, name: str) -> None:
        """Delete a delivery."""
        await self._port.keep(f"{self._prefix}{name}", None)

    async def names(self) -> Mapping[str, NoticeDelivery]:
        """Return all deliveries by name."""
        kept = await self._port.kept(self._prefix)
        read = {
            name.removeprefix(self._prefix): _read(content, NoticeDelivery)
            for name, content in kept.items()
        }
        return {
            name: delivery
            for name, delivery in read.items()
            if delivery is not None and name != _BEGUN
        }

    async def remove_except(self, before: Collection[str], questions: Collection[str]) -> None:
        """Delete the deliveries in `before` whose question is no longer open.

        Deliveries that were created later are not affected.
        """
        for name in before:
            if name.partition("/")[0] not in questions:
                await self.remove(name)

    async def notified_since(self, earlier: Sequence[str] | None) -> str:
        """Return the time when the service was first used. The first call stores the current time.

        Args:
            earlier: IDs of the questions that an earlier version sent, or None if it sent none. If
                set, all other open questions are sent, regardless of their age.
        """
        key = f"{self._prefix}{_BEGUN}"
        async with self._port.store.port.alone(key):
            if found := await self._read_key(key, Begun):
                return found.at
            for question in earlier or ():
                await self.settle(question, NoticeDelivery(is_over=True))
            begun = Begun(self._now() if earlier is None else "")
            await self._write(key, begun)
        return begun.at

    async def _read_key(self, key: str, kind: type[T]) -> T | None:
        return _read((await self._port.kept(key)).get(key), kind)

    async def _write(self, key: str, value: Struct) -> None:
        await self._port.keep(key, msgspec.json.encode(value))


_BEGUN: Final = "begun"


def _read(content: bytes | None, kind: type[T]) -> T | None:
    """Decode a stored value. Return None if it is missing or was written by another program."""
    try:
        return None if content is None else msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
