"""Mail server URLs, and an outbox that reuses its connection.

Connecting, starting TLS and signing in take longer than sending a mail, and servers limit the
number of connections. Therefore consecutive mails share a connection. It is closed after some
seconds without a mail, and reopened if the server closed it. A rejected recipient does not affect
the next mail.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from email.message import EmailMessage
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import aiosmtplib
from msgspec import Struct

from midturn.channels.port import ChannelAway, ChannelRefused
from midturn.errors import ConfigError

_PORTS: Final = {"smtp": 587, "smtps": 465, "imap": 143, "imaps": 993}
TIMEOUT: Final = 30.0
IDLE_TIMEOUT: Final = 20.0  # seconds a connection stays open for the next mail
# seconds without use after which a connection is checked before the next mail
CHECK_AFTER: Final = 1.0
QUIT_TIMEOUT: Final = 2.0
_SERVICE_CLOSING: Final = 421  # the server closes the connection, for example after some mails
_PERMANENT_ERROR: Final = 500


class MailServer(Struct, frozen=True):
    """A server that sends or stores mails.

    Connections without implicit TLS (`smtp`, `imap`) start with STARTTLS. `is_plain` connections
    are not encrypted, and are possible only on the loopback interface.
    """

    host: str
    port: int
    user: str
    implicit_tls: bool
    is_plain: bool

    @classmethod
    def of(cls, url: str, protocol: str, user: str) -> MailServer:
        """Parse the URL of a server, such as `imaps://mail.example.org`.

        Raises:
            ConfigError: The URL is invalid.
        """
        parts = urlsplit(url)
        if parts.scheme not in (protocol, f"{protocol}s") or not parts.hostname or parts.password:
            raise ConfigError(
                f"{url!r} is not the URL of a mail server. Write {protocol}s://HOST or"
                f" {protocol}://USER@HOST:PORT, without a password."
            )
        port, name = parts.port or _PORTS[parts.scheme], unquote(parts.username or "") or user
        secure = parts.scheme.endswith("s")
        return cls(parts.hostname, port, name, secure, not secure and _is_loopback(parts.hostname))


class Outbox:
    """Sends mails from one address, one at a time."""

    def __init__(self, server: MailServer, sender: str, password: str) -> None:
        self._server = server
        self._sender = sender
        self._password = password
        self._client: Any = None
        self._used_at = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Outbox({self._sender!r}, …)"

    async def send(self, mail: EmailMessage) -> None:
        """Send a mail.

        Raises:
            ChannelAway: The server is unreachable, or rejects the mail temporarily.
            ChannelRefused: The server rejects the mail.
        """
        async with self._lock:
            self._cancel_idle_timer()
            try:
                await self._send_once(mail)
            except (aiosmtplib.SMTPRecipientsRefused, aiosmtplib.SMTPResponseException) as error:
                code = _reply_code(error)
                refused = f"The mail server rejected a mail with code {code}."
                raise (ChannelRefused if code >= _PERMANENT_ERROR else ChannelAway)(
                    refused
                ) from None
            except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
                raise ChannelAway(
                    f"The mail server {self._server.host} cannot be reached:"
                    f" {type(error).__name__}."
                ) from error
            finally:
                self._used_at = time.monotonic()
                self._idle_timer = asyncio.get_running_loop().call_later(
                    IDLE_TIMEOUT, self._start_closing
                )

    async def close(self) -> None:
        """Close the connection."""
        async with self._lock:
            self._cancel_idle_timer()
            await self._quit()

    async def _send_once(self, mail: EmailMessage) -> None:
        """Send over the open connection. If the server closed it, open a new connection."""
        if await self._is_connected():
            try:
                await self._send_with(self._client, mail)
            except (
                aiosmtplib.SMTPServerDisconnected,
                aiosmtplib.SMTPRecipientsRefused,
                aiosmtplib.SMTPResponseException,
            ) as error:
                if (
                    not isinstance(error, aiosmtplib.SMTPServerDisconnected)
                    and _reply_code(error) != _SERVICE_CLOSING
                ):
                    raise
            else:
                return
        self._drop()
        self._client = await self._connect()
        await self._send_with(self._client, mail)

    async def _send_with(self, client: Any, mail: EmailMessage) -> None:
        try:
            await client.send_message(mail, sender=self._sender)
        except (aiosmtplib.SMTPRecipientsRefused, aiosmtplib.SMTPResponseException):
            raise  # the connection is still usable
        except BaseException:
            self._drop()
            raise

    async def _is_connected(self) -> bool:
        if self._client is None or not self._client.is_connected:
            return False
        if time.monotonic() - self._used_at < CHECK_AFTER:
            return True
        try:
            await self._client.noop()
        except (aiosmtplib.SMTPException, OSError, TimeoutError):
            return False
        return True

    async def _connect(self) -> Any:
        server = self._server
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            use_tls=server.implicit_tls,
            start_tls=not server.implicit_tls and not server.is_plain,
            username=server.user if self._password and not server.is_plain else None,
            password=self._password if not server.is_plain else None,
            timeout=TIMEOUT,
        )
        await client.connect()
        return client

    def _cancel_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _start_closing(self) -> None:
        self._closing = asyncio.create_task(self.close())

    async def _quit(self) -> None:
        if self._client is not None:
            with suppress(aiosmtplib.SMTPException, OSError, TimeoutError):
                await self._client.quit(timeout=QUIT_TIMEOUT)
        self._drop()

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _reply_code(error: Any) -> int:
    recipients: Any = getattr(error, "recipients", None)
    return int(recipients[0].code if recipients else error.code)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
