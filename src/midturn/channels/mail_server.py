"""Where mails are sent and read, and an outbox whose connection is kept for a while.

Greeting a server, beginning encryption and signing in take longer than a mail does, and servers count connections: many mails in a row go
over one. It is given up when nothing was sent for some seconds, and made anew where the server has closed it meanwhile. What one recipient
is refused says nothing about the next mail.
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
_SECONDS: Final = 30.0
_KEPT: Final = 20.0  # seconds for which a connection is kept for the next mail
_FRESH: Final = 1.0  # seconds after which it is looked whether a kept connection is still there
_QUIT: Final = 2.0
_CLOSING: Final = 421  # what a server says that closes a connection, such as after so many mails
_FOR_GOOD: Final = 500


class MailServer(Struct, frozen=True):
    """Where mails are sent or read. Without encryption from the first byte (`smtps`, `imaps`) it is begun at once (STARTTLS).

    `is_plain`: without any, on this machine alone.
    """

    host: str
    port: int
    user: str
    from_the_start: bool
    is_plain: bool

    @classmethod
    def of(cls, url: str, protocol: str, user: str) -> MailServer:
        """Read the address of a server, such as `imaps://mail.example.org`.

        Raises:
            ConfigError: It is none.
        """
        parts = urlsplit(url)
        if parts.scheme not in (protocol, f"{protocol}s") or not parts.hostname or parts.password:
            raise ConfigError(
                f"{url!r} is no address of a mail server: {protocol}s://HOST or {protocol}://USER@HOST:PORT, without a password."
            )
        port, name = parts.port or _PORTS[parts.scheme], unquote(parts.username or "") or user
        secure = parts.scheme.endswith("s")
        return cls(parts.hostname, port, name, secure, not secure and _is_here(parts.hostname))


class Outbox:
    """Sends mails from one address, one after the other."""

    def __init__(self, server: MailServer, sender: str, password: str) -> None:
        self._server = server
        self._sender = sender
        self._password = password
        self._client: Any = None
        self._used = 0.0
        self._rest: asyncio.TimerHandle | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._alone = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Outbox({self._sender!r}, …)"

    async def send(self, mail: EmailMessage) -> None:
        """Send a mail.

        Raises:
            ChannelAway: The server is away, or takes it later.
            ChannelRefused: It does not take it.
        """
        async with self._alone:
            self._stay()
            try:
                await self._sent(mail)
            except (aiosmtplib.SMTPRecipientsRefused, aiosmtplib.SMTPResponseException) as error:
                code = _code(error)
                refused = f"The mail server does not take a mail: {code}."
                raise (ChannelRefused if code >= _FOR_GOOD else ChannelAway)(refused) from None
            except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
                raise ChannelAway(f"The mail server {self._server.host} cannot be reached: {type(error).__name__}.") from error
            finally:
                self._used = time.monotonic()
                self._rest = asyncio.get_running_loop().call_later(_KEPT, self._begin_to_leave)

    async def close(self) -> None:
        """Take leave of the server."""
        async with self._alone:
            self._stay()
            await self._leave()

    async def _sent(self, mail: EmailMessage) -> None:
        """Send over the connection that there is; where the server has closed that one, over another."""
        if await self._is_there():
            try:
                await self._over(self._client, mail)
            except (aiosmtplib.SMTPServerDisconnected, aiosmtplib.SMTPRecipientsRefused, aiosmtplib.SMTPResponseException) as error:
                if not isinstance(error, aiosmtplib.SMTPServerDisconnected) and _code(error) != _CLOSING:
                    raise
            else:
                return
        self._drop()
        self._client = await self._connected()
        await self._over(self._client, mail)

    async def _over(self, client: Any, mail: EmailMessage) -> None:
        try:
            await client.send_message(mail, sender=self._sender)
        except (aiosmtplib.SMTPRecipientsRefused, aiosmtplib.SMTPResponseException):
            raise  # the connection is as good as before
        except BaseException:
            self._drop()
            raise

    async def _is_there(self) -> bool:
        if self._client is None or not self._client.is_connected:
            return False
        if time.monotonic() - self._used < _FRESH:
            return True
        try:
            await self._client.noop()
        except (aiosmtplib.SMTPException, OSError, TimeoutError):
            return False
        return True

    async def _connected(self) -> Any:
        server = self._server
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            use_tls=server.from_the_start,
            start_tls=not server.from_the_start and not server.is_plain,
            username=server.user if self._password and not server.is_plain else None,
            password=self._password if not server.is_plain else None,
            timeout=_SECONDS,
        )
        await client.connect()
        return client

    def _stay(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _begin_to_leave(self) -> None:
        self._leaving = asyncio.create_task(self.close())

    async def _leave(self) -> None:
        if self._client is not None:
            with suppress(aiosmtplib.SMTPException, OSError, TimeoutError):
                await self._client.quit(timeout=_QUIT)
        self._drop()

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _code(error: Any) -> int:
    """Return what the server said."""
    recipients: Any = getattr(error, "recipients", None)
    return int(recipients[0].code if recipients else error.code)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
