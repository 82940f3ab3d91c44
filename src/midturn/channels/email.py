"""E-mail channel: each card is a mail, and the first line of a reply is the answer.

Mails cannot be changed, so each new version of a card is a new mail in the same thread. The token
in the subject identifies the version that a reply belongs to. If a mail has more lines, a first
line of "yes" or "no" does not count. `channels/mail_parsing.py` checks the other conditions for a
reply. The most important one is that the receiving server authenticated the sender. The time of a
reply is its arrival (INTERNALDATE), because the sender can write any `Date`.

Mails are read over IMAP when they arrive (IDLE), and the mailbox is not modified. The read position
is in the store, so that replies that arrived while no server was running are read later. If a mail
has to be sent again, it has the same `Message-ID`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any, Final, TypeVar

from imapclient import IMAPClient, exceptions  # pyright: ignore[reportMissingTypeStubs]
from msgspec.structs import replace

from midturn.channels.card import plain_text
from midturn.channels.mail_parsing import Mail, read_mail, subject_tag
from midturn.channels.mail_server import MailServer, Outbox
from midturn.channels.port import Card, ChannelAway, ChannelRefused, Fits, Memory, Reply
from midturn.errors import ConfigError
from midturn.question.text import rfc3339

_LOG = logging.getLogger("midturn.channels")
_POSITION_KEY: Final = "read"
# used for a mail without a token, so that it never matches a card, even if only one card is open
_NO_CARD: Final = "none"
TIMEOUT: Final = 30.0
# seconds without a notification after which the mailbox is read: some servers do not announce every
# mail, and some routers drop idle connections
IDLE_TIMEOUT: Final = 25.0
# seconds between checks for new mails, if the server does not support IDLE
POLL_INTERVAL: Final = 15.0
# how many days of mail are read when a mailbox is used for the first time
INITIAL_DAYS: Final = 7
MAX_MAIL_BYTES: Final = 200_000  # maximum number of bytes that are read from a mail
MAX_SUBJECT_CHARS: Final = 80
T = TypeVar("T")


class Email:
    """A mailbox for midturn (`address`), with its servers for sending (`smtp`) and reading
    (`imap`).

    The receiving server writes its own name into `Authentication-Results`. `authserv_id` is that
    name, such as `mx.google.com`.
    """

    kind = "email"
    fits = Fits(text=60_000, buttons=0, files=True, confirms=True)

    def __init__(
        self, address: str, password: str, *, smtp: str, imap: str, authserv_id: str
    ) -> None:
        """Configure the mailbox.

        Raises:
            ConfigError: An address or URL is invalid.
        """
        if not re.fullmatch(r"[^\s@<>]+@[^\s@<>]+", address) or not authserv_id.strip():
            raise ConfigError(
                "A channel of kind `email` needs a valid `address`, and `authserv_id`: the name"
                " that its server writes into Authentication-Results."
            )
        self._address = address
        self._password = password
        self._outbox = Outbox(MailServer.of(smtp, "smtp", address), address, password)
        self._imap = MailServer.of(imap, "imap", address)
        self._authserv_id = authserv_id.strip()
        self._memory: Memory | None = None
        self._mailbox: _Mailbox | None = None

    def __repr__(self) -> str:
        return f"Email({self._address!r}, …)"

    async def open(self, memory: Memory) -> None:
        """Check that the IMAP server accepts the credentials."""
        self._memory = memory
        mailbox = await self._connect()
        await mailbox.close()

    async def close(self) -> None:
        """Disconnect from both servers."""
        await self._outbox.close()
        if self._mailbox is not None:
            await self._mailbox.close()
            self._mailbox = None

    # Cards
    # ----------------------------------------------------------------------------------------------

    async def send(self, card: Card) -> str:
        """Send a mail and return its `Message-ID`."""
        mail = self._render(card)
        await self._outbox.send(mail)
        return str(mail["Message-ID"])

    async def update(self, handle: str, card: Card) -> None:
        """Send a mail with the new version in the same thread."""
        mail = self._render(card)
        # a notice does not change the token, and mailboxes drop a second mail with the same ID
        if card.token:
            text = hashlib.sha256(plain_text(card).encode()).hexdigest()[:16]
            mail.replace_header(
                "Message-ID", f"<midturn.{card.token}.{text}@{self._address.rpartition('@')[2]}>"
            )
        mail["In-Reply-To"] = mail["References"] = handle
        await self._outbox.send(mail)

    def _render(self, card: Card) -> EmailMessage:
        mail = EmailMessage()
        asked = " ".join(card.text.split())
        subject = asked if len(asked) <= MAX_SUBJECT_CHARS else f"{asked[:MAX_SUBJECT_CHARS]}…"
        tag = "" if card.is_over or not card.token else f" {subject_tag(card.token)}"
        mail["Subject"] = f"{subject}{tag}"
        mail["From"] = f"midturn <{self._address}>"
        mail["To"] = card.to
        mail["Date"] = formatdate(localtime=False)
        if card.token:
            mail["Message-ID"] = f"<midturn.{card.token}@{self._address.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail["X-Auto-Response-Suppress"] = "All"
        mail.set_content(plain_text(card), cte="base64")
        if card.file is not None:
            name, content = card.file
            mail.add_attachment(
                content,
                maintype="text",
                subtype="plain",
                filename=name,
                cte="base64",
                params={"charset": "utf-8"},
            )
        return mail

    # Replies
    # ----------------------------------------------------------------------------------------------

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield the unread replies in the mailbox, then new replies."""
        self._mailbox = mailbox = await self._connect()
        try:
            while True:
                await mailbox.watch()  # before the search, so that no mail is missed in between
                for uid in await mailbox.new(self._position):
                    arrived = await mailbox.mail(uid)
                    if arrived is not None:
                        reply = self._reply(*arrived)
                        if reply is not None:
                            yield replace(reply, id=f"{mailbox.validity}:{uid}")
                    await self._save_position(f"{mailbox.validity}:{uid}")
                await mailbox.wait()
        finally:
            await mailbox.close()

    def _reply(self, content: bytes, at: datetime) -> Reply | None:
        mail = read_mail(content, self._authserv_id)
        if mail.ignored_because:
            _LOG.info("a mail was ignored: %s", mail.ignored_because)
            return None
        if not mail.sender:
            _LOG.info("a mail was ignored: it has no sender")
            return None
        return _reply(mail, rfc3339(at))

    @property
    def _position(self) -> str:
        return self._memory.get(_POSITION_KEY) if self._memory is not None else ""

    async def _save_position(self, read: str) -> None:
        if self._memory is not None:
            await self._memory.set(_POSITION_KEY, read)

    async def _connect(self) -> _Mailbox:
        mailbox = _Mailbox(self._imap)
        try:
            await mailbox.open(self._password)
        except BaseException:
            await mailbox.close()
            raise
        return mailbox


class _Mailbox:
    """An IMAP mailbox. The library blocks, so each call runs in a thread.

    One connection reads and another connection waits for new mails (IDLE). With a single
    connection, mails that arrive between reading and waiting would not be reported.
    """

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._client: Any = None
        self._idle_client: Any = None
        self._clients: list[Any] = []
        self._is_closed = False
        self.validity = 0

    async def open(self, password: str) -> None:
        self._client = await self._call(lambda: self._open_client(password))
        if self._client.has_capability("IDLE"):
            self._idle_client = await self._call(lambda: self._open_client(password))

    def _open_client(self, password: str) -> Any:
        server = self._server
        secure = ssl.create_default_context()
        client: Any = IMAPClient(
            server.host,
            server.port,
            ssl=server.implicit_tls,
            ssl_context=secure if server.implicit_tls else None,
            timeout=TIMEOUT,
        )
        self._clients.append(client)
        try:
            if not server.implicit_tls and not server.is_plain:
                client.starttls(secure)
            client.normalise_times = False  # keep time zones
            client.login(server.user, password)
            self.validity = int(client.select_folder("INBOX", readonly=True)[b"UIDVALIDITY"])
        except exceptions.LoginError as error:
            client.shutdown()
            if "[UNAVAILABLE]" in str(error):  # the server could not check the password
                raise
            raise ChannelRefused(
                f"The mail server {server.host} rejected the login of {server.user}."
            ) from None
        except BaseException:
            client.shutdown()
            raise
        if self._is_closed:
            client.shutdown()
        return client

    async def new(self, read: str) -> list[int]:
        """Return the ids of the mails after the last read mail.

        For a mailbox that was not read before, return the mails of the last `INITIAL_DAYS` days.
        """
        # a search finds only mails that the server has announced on the same connection
        await self._call(self._client.noop)
        validity, _, last = read.partition(":")
        if validity == str(self.validity):
            found = await self._call(lambda: self._client.search(["UID", f"{int(last) + 1}:*"]))
            # if there are no new mails, `*` matches the last old mail
            return sorted(uid for uid in found if uid > int(last))
        since = (datetime.now(UTC) - timedelta(days=INITIAL_DAYS)).date()
        return sorted(await self._call(lambda: self._client.search(["SINCE", since])))

    async def mail(self, uid: int) -> tuple[bytes, datetime] | None:
        """Return the content of a mail, up to the maximum size, and its arrival time.

        Return None if the mail was deleted.
        """
        section = f"BODY.PEEK[]<0.{MAX_MAIL_BYTES}>"
        fetched: dict[int, dict[bytes, Any]] = await self._call(
            lambda: self._client.fetch([uid], [section, "INTERNALDATE"])
        )
        found = fetched.get(uid, {})
        content = next((value for name, value in found.items() if name.startswith(b"BODY[]")), None)
        return (content, found[b"INTERNALDATE"]) if content is not None else None

    async def watch(self) -> None:
        """Start waiting for new mails."""
        if self._idle_client is not None:
            await self._call(self._idle_client.idle)

    async def wait(self) -> None:
        """Wait until a mail arrives, or until a timeout."""
        if self._idle_client is None:
            await asyncio.sleep(POLL_INTERVAL)
            return
        await self._call(lambda: self._idle_client.idle_check(timeout=IDLE_TIMEOUT))
        await self._call(self._idle_client.idle_done)

    async def close(self) -> None:
        """Disconnect. Blocked threads end when their connection is closed."""
        self._is_closed = True  # a thread that is connecting now will close its connection itself
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.socket().shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                client.shutdown()

    async def _call(self, call: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(call)
        except (exceptions.IMAPClientError, OSError, TimeoutError) as error:
            raise ChannelAway(
                f"The mail server {self._server.host} cannot be reached: {type(error).__name__}."
            ) from error


def _reply(mail: Mail, at: str) -> Reply:
    """Return the reply in a mail. The text of a mail without a token can only be a pairing code."""
    words = mail.text if mail.token or mail.text else mail.subject
    handle = "" if mail.token else _NO_CARD
    more = mail.more if mail.token else ""
    reply = Reply(
        account=mail.sender,
        handle=handle,
        token=mail.token,
        text=words,
        more=more,
        at=at,
        problem=mail.problem,
    )
    return replace(reply, spoken_for=mail.is_authenticated)
