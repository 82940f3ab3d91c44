"""Sends the states of tasks to webhooks. Only one server per store sends notifications at a time.

The sender compares each webhook with the log of its task. If the task has ended or waits for an
answer, and this state was not sent yet, the sender sends the task. It then records that the state
was sent. If the server is killed between these two steps, the task is sent again after a restart.
No notification is lost. A task that is working is not sent.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import httpx
from a2a.types.a2a_pb2 import StreamResponse
from google.protobuf.json_format import MessageToJson
from msgspec.structs import replace

from midturn.clock import now
from midturn.errors import StoreError
from midturn.integrations.a2a.following import fingerprint_of
from midturn.integrations.a2a.tasks import TaskReader, TaskSnapshot
from midturn.integrations.a2a.webhooks import Webhook, Webhooks, WebhookTarget
from midturn.question.people import after
from midturn.question.text import sha256
from midturn.security.public_address import is_public
from midturn.stores.lease import acquire_lease, release_lease
from midturn.stores.port import ChangeCursor, StorePort

_LOG = logging.getLogger(__name__)
LEASE: Final = "a2a-push-lease"
LEASE_RENEWAL_INTERVAL: Final = 10.0  # seconds between two renewals of the lease
TIMEOUT: Final = 15.0
"""Time limit of one notification in seconds."""
RETRY_DELAYS: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)
"""Seconds before each further attempt. The last delay repeats."""
MAX_ATTEMPTS: Final = 20
"""Number of failed attempts after which a webhook is removed. This takes about seven hours."""
_GONE: Final = frozenset({404, 410})
_ACCEPTED: Final = range(200, 300)
_POLL_INTERVAL: Final = 0.5  # seconds, while a task is working or a notification is being sent
_IDLE_POLL_INTERVAL: Final = 5.0
_COMPARE_ALL_INTERVAL: Final = 30.0
"""Seconds between two comparisons of all tasks. They are needed because a question in a nested
conversation does not change the log of the task's own conversation.
"""
_MAX_AT_ONCE: Final = 20
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host."""


class PushSender:
    """Sends notifications while this server holds the lease.

    Args:
        port: The store.
        reader: Reads the current state of tasks from the store.
        webhooks: The webhooks in the store.
        resolve: Returns the IP addresses of a host.
    """

    def __init__(
        self,
        port: StorePort,
        reader: TaskReader,
        webhooks: Webhooks,
        resolve: Resolve | None = None,
    ) -> None:
        self._port = port
        self._reader = reader
        self._webhooks = webhooks
        self._resolve = resolve or resolved
        self._holder = secrets.token_hex(8)
        self._cursor: ChangeCursor | None = None
        self._compare_all_at = 0.0
        self._unsettled: set[str] = set()
        self._settled: dict[str, str] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._unreadable: set[str] = set()
        self._tls = ssl.create_default_context()
        self.is_sending = False
        """Whether this server holds the lease."""
        self._slots = asyncio.Semaphore(_MAX_AT_ONCE)

    async def run(self) -> None:
        """Send notifications until cancelled. Wait while another server sends them."""
        while True:
            try:
                self.is_sending = await acquire_lease(self._port, LEASE, self._holder, now)
                if self.is_sending:
                    await self._run()
            except StoreError as error:
                _LOG.warning("push notifications are paused: %s", error)
            finally:
                await self._stop()
            await asyncio.sleep(LEASE_RENEWAL_INTERVAL)

    async def _stop(self) -> None:
        for task in self._sending.values():
            task.cancel()
        await asyncio.gather(*self._sending.values(), return_exceptions=True)
        self._sending.clear()
        self._settled.clear()
        self._cursor = None
        self.is_sending = False
        with suppress(StoreError):
            await asyncio.shield(release_lease(self._port, LEASE, self._holder))

    async def _run(self) -> None:
        """Send notifications until this server loses the lease."""
        renewing = asyncio.create_task(self._renew())
        since = 0
        try:
            while not renewing.done():
                since = await self._changed(since)
                await self._look()
            await renewing
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError, StoreError):
                await renewing

    async def _renew(self) -> None:
        while await acquire_lease(self._port, LEASE, self._holder, now):  # noqa: ASYNC110  the other server sends no notification
            await asyncio.sleep(LEASE_RENEWAL_INTERVAL)

    async def _changed(self, since: int) -> int:
        """Wait until a task may have changed, or until the next poll."""
        is_busy = self._unsettled or self._sending
        seconds = _POLL_INTERVAL if is_busy else _IDLE_POLL_INTERVAL
        try:
            async with asyncio.timeout(seconds):
                return await self._port.growing.wait_for_change(since)
        except TimeoutError:
            return since

    async def _look(self) -> None:
        """Compare the webhooks with their tasks, and begin to send new states."""
        webhooks = await self._webhooks.all()
        if not webhooks:
            self._settled.clear()
            self._unsettled.clear()
            return
        self._cursor = await self._port.growing.lengths(self._cursor)
        changed = self._cursor.lengths
        if (time := asyncio.get_running_loop().time()) > self._compare_all_at:
            self._compare_all_at = time + _COMPARE_ALL_INTERVAL
            self._settled.clear()
        self._settled = {
            name: sealed
            for name, sealed in self._settled.items()
            if name in webhooks and webhooks[name].task.partition("-")[0] not in changed
        }
        self._unsettled.clear()
        for name, webhook in webhooks.items():
            if name in self._sending or self._settled.get(name) == webhook.sealed:
                continue
            await self._compare(name, webhook)

    async def _compare(self, name: str, webhook: Webhook) -> None:
        """Compare a webhook with its task. If the state was not sent yet, begin to send it."""
        if webhook.retry_at > (time := now()):
            if webhook.retry_at < after(time, _IDLE_POLL_INTERVAL):
                self._unsettled.add(name)
            return
        target = self._webhooks.target(name, webhook)
        if target is None:
            if name not in self._unreadable:
                self._unreadable.add(name)
                _LOG.warning("a webhook of task %s has another key, and is ignored", webhook.task)
            self._settled[name] = webhook.sealed
            return
        snapshot = await self._reader.snapshot(webhook.task, webhook.client)
        if snapshot is None:  # the conversation was removed
            await self._webhooks.replace(name, webhook, None)
            return
        if not snapshot.is_paused:
            self._unsettled.add(name)
            return
        if webhook.sent == _shown(snapshot):
            self._settled[name] = webhook.sealed
            return
        sending = asyncio.create_task(self._send(name, webhook, target, snapshot))
        self._sending[name] = sending
        sending.add_done_callback(lambda _: self._sending.pop(name, None))

    async def _send(
        self, name: str, webhook: Webhook, target: WebhookTarget, snapshot: TaskSnapshot
    ) -> None:
        """Send a task to its webhook, and store the result."""
        async with self._slots:
            problem, is_gone = await self._post(target, snapshot, webhook)
        failures = webhook.failures + 1
        host = urlsplit(target.url).hostname
        if not problem:
            is_last = snapshot.is_over
            new = replace(webhook, sent=_shown(snapshot), failures=0, retry_at="")
            result = None if is_last else new
        elif is_gone or failures >= MAX_ATTEMPTS:
            _LOG.warning("the webhook at %s is removed: %s", host, problem)
            result = None
        else:
            delay = RETRY_DELAYS[min(failures, len(RETRY_DELAYS)) - 1]
            if failures == 1:
                _LOG.warning("the webhook at %s cannot be reached: %s", host, problem)
            result = replace(webhook, failures=failures, retry_at=after(now(), delay))
        try:
            await self._webhooks.replace(name, webhook, result)
        except StoreError as error:
            _LOG.warning("the state of the webhook at %s is not stored: %s", host, error)

    async def _post(
        self, target: WebhookTarget, snapshot: TaskSnapshot, webhook: Webhook
    ) -> tuple[str, bool]:
        """Send one notification. Return the error message (empty if the notification was accepted),
        and whether the webhook no longer exists.
        """
        task = snapshot.task(webhook.client, history=0)
        content = MessageToJson(StreamResponse(task=task), indent=None).encode()
        try:
            async with asyncio.timeout(TIMEOUT):
                status = await self._delivered(target, content)
        except TimeoutError:
            return f"no response within {TIMEOUT:.0f} s", False
        except (httpx.HTTPError, OSError, ValueError) as error:
            return type(error).__name__ if isinstance(error, httpx.HTTPError) else str(error), False
        return "" if status in _ACCEPTED else f"status {status}", status in _GONE

    async def _delivered(self, target: WebhookTarget, content: bytes) -> int:
        """Send a request to the first of the host's allowed addresses that accepts a connection.
        Connect directly to the checked address, without another lookup. Return the response status.

        Raises:
            OSError: The host has no allowed address.
            httpx.HTTPError: The request failed.
        """
        url = httpx.URL(target.url)
        port = url.port or (443 if url.scheme == "https" else 80)
        found = await self._resolve(url.host, port)
        is_any = self._webhooks.settings.private_addresses
        allowed = [address for address in found if is_any or is_public(address)]
        if not allowed:
            raise OSError("the host has no public address")
        headers = {
            **target.headers(),
            "Host": url.netloc.decode("ascii"),
            "Content-Type": "application/json",
        }
        for place, address in enumerate(allowed):
            try:
                async with (
                    httpx.AsyncClient(
                        follow_redirects=False, trust_env=False, verify=self._tls
                    ) as client,
                    client.stream(
                        "POST",
                        url.copy_with(host=address),
                        content=content,
                        headers=headers,
                        timeout=TIMEOUT,
                        extensions={"sni_hostname": url.host},
                    ) as response,
                ):
                    return response.status_code
            except httpx.ConnectError:
                if place == len(allowed) - 1:
                    raise
        raise OSError("the host has no address")


async def resolved(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host.

    Raises:
        OSError: The host cannot be resolved.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _shown(snapshot: TaskSnapshot) -> str:
    """Return a short fingerprint of the state that a notification contains."""
    return sha256(repr(fingerprint_of(snapshot)).encode())[:32]
