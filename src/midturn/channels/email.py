"""E-mail: a card is a mail, and the first line of a reply to it is the answer. A yes or a no beside other lines decides nothing.

Mails cannot be changed, so what a card says from now on is a mail of its own in the same thread. Each has a token in its subject, which
binds the reply to that text. What else a reply has to bring stands in `channels/mail.py`: above all, that our own server says that it comes
from there. The time of a reply is that of its arrival there (INTERNALDATE), not the `Date` that its sender wrote.

Mails are read over IMAP, as they come (IDLE), and left as they are in the mailbox. How far they have been read is kept with the store, so
that what came while no server ran is read at the next start. A mail is sent with the same `Message-ID` when it has to be sent again.
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
from midturn.channels.mail import Mail, marked, read_mail
from midturn.channels.mail_server import MailServer, Outbox
from midturn.channels.port import Card, ChannelAway, ChannelRefused, Fits, Memory, Reply
from midturn.errors import ConfigError
from midturn.question.text import rfc3339

_LOG = logging.getLogger("midturn.channels")
_READ: Final = "read"
_NO_CARD: Final = "none"  # a mail without a token is about no card, also where only one is open
_SECONDS: Final = 30.0
_IDLE: Final = 25.0  # seconds after which to look anyway: some servers overlook a mail, some routers forget a silent connection
_LOOK: Final = 15.0  # seconds between two looks, where the server does not tell
_DAYS: Final = 7  # of a mailbox that is read for the first time
_BYTES: Final = 200_000  # of a mail, at most
_SUBJECT: Final = 80
T = TypeVar("T")


class Email:
    """A mailbox of our own (`address`), sent from over `smtp` and read over `imap`.

    `authserv_id` is the name that the receiving server writes into `Authentication-Results`, such as `mx.google.com`.
    """

    kind = "email"
    fits = Fits(text=60_000, buttons=0, files=True, confirms=True)

    def __init__(self, address: str, password: str, *, smtp: str, imap: str, authserv_id: str) -> None:
        """Take where and who.

        Raises:
            ConfigError: An address is none.
        """
        if not re.fullmatch(r"[^\s@<>]+@[^\s@<>]+", address) or not authserv_id.strip():
            raise ConfigError(
                "E-mail needs an `address`, and as `authserv_id` the name that its server writes into Authentication-Results."
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
        """Look whether the mailbox lets us in."""
        self._memory = memory
        mailbox = await self._connected()
        await mailbox.close()

    async def close(self) -> None:
        """Disconnect."""
        await self._outbox.close()
        if self._mailbox is not None:
            await self._mailbox.close()
            self._mailbox = None

    # Cards ------------------------------------------------------------------------------------------------------------------

    async def send(self, card: Card) -> str:
        """Send a mail; return its `Message-ID`."""
        mail = self._written(card)
        await self._outbox.send(mail)
        return str(mail["Message-ID"])

    async def update(self, handle: str, card: Card) -> None:
        """Send a mail in the same thread, which says how it is now."""
        mail = self._written(card)
        if card.token:  # a notice leaves the token as it is, and mailboxes drop a second mail with the same name
            text = hashlib.sha256(plain_text(card).encode()).hexdigest()[:16]
            mail.replace_header("Message-ID", f"<midturn.{card.token}.{text}@{self._address.rpartition('@')[2]}>")
        mail["In-Reply-To"] = mail["References"] = handle
        await self._outbox.send(mail)

    def _written(self, card: Card) -> EmailMessage:
        mail = EmailMessage()
        asked = " ".join(card.text.split())
        subject = asked if len(asked) <= _SUBJECT else f"{asked[:_SUBJECT]}…"
        over = "" if card.is_over or not card.token else f" {marked(card.token)}"
        mail["Subject"] = f"{subject}{over}"
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
            mail.add_attachment(content, maintype="text", subtype="plain", filename=name, cte="base64", params={"charset": "utf-8"})
        return mail

    # Replies ----------------------------------------------------------------------------------------------------------------

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield what lies in the mailbox, then what comes."""
        self._mailbox = mailbox = await self._connected()
        try:
            while True:
                await mailbox.watch()  # first: what comes after this is told, what came before is found
                for uid in await mailbox.new(self._kept):
                    arrived = await mailbox.mail(uid)
                    if arrived is not None:
                        reply = self._reply(*arrived)
                        if reply is not None:
                            yield replace(reply, id=f"{mailbox.validity}:{uid}")
                    await self._keep(f"{mailbox.validity}:{uid}")
                await mailbox.wait()
        finally:
            await mailbox.close()

    def _reply(self, content: bytes, at: datetime) -> Reply | None:
        mail = read_mail(content, self._authserv_id)
        if mail.no_answer:
            _LOG.info("a mail is no answer: %s", mail.no_answer)
            return None
        if not mail.sender:
            _LOG.info("a mail is no answer: it does not say who sent it")
            return None
        return _reply(mail, rfc3339(at))

    @property
    def _kept(self) -> str:
        return self._memory.get(_READ) if self._memory is not None else ""

    async def _keep(self, read: str) -> None:
        if self._memory is not None:
            await self._memory.set(_READ, read)

    async def _connected(self) -> _Mailbox:
        mailbox = _Mailbox(self._imap)
        try:
            await mailbox.open(self._password)
        except BaseException:
            await mailbox.close()
            raise
        return mailbox


class _Mailbox:
    """What lies in a mailbox. Its library waits, so each call is made in a thread.

    One connection reads and another is told (IDLE): on a single one, what comes between the two is told to no one.
    """

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._client: Any = None
        self._watch: Any = None
        self._all: list[Any] = []
        self._is_closed = False
        self.validity = 0

    async def open(self, password: str) -> None:
        self._client = await self._called(lambda: self._opened(password))
        if self._client.has_capability("IDLE"):
            self._watch = await self._called(lambda: self._opened(password))

    def _opened(self, password: str) -> Any:
        server = self._server
        secure = ssl.create_default_context()
        client: Any = IMAPClient(
            server.host, server.port, ssl=server.from_the_start, ssl_context=secure if server.from_the_start else None, timeout=_SECONDS
        )
        self._all.append(client)
        try:
            if not server.from_the_start and not server.is_plain:
                client.starttls(secure)
            client.normalise_times = False  # times keep their zone
            client.login(server.user, password)
            self.validity = int(client.select_folder("INBOX", readonly=True)[b"UIDVALIDITY"])
        except exceptions.LoginError as error:
            client.shutdown()
            if "[UNAVAILABLE]" in str(error):  # it does not know now whether it does
                raise
            raise ChannelRefused(f"The mail server {server.host} does not let {server.user} in.") from None
        except BaseException:
            client.shutdown()
            raise
        if self._is_closed:
            client.shutdown()
        return client

    async def new(self, read: str) -> list[int]:
        """Return the mails that came after the one that was read last; of a mailbox that is new to us, those of the last days."""
        await self._called(self._client.noop)  # a search finds what its connection has been told of, and no newer mail
        validity, _, last = read.partition(":")
        if validity == str(self.validity):
            found = await self._called(lambda: self._client.search(["UID", f"{int(last) + 1}:*"]))
            return sorted(uid for uid in found if uid > int(last))  # with nothing new, `*` is the last one
        since = (datetime.now(UTC) - timedelta(days=_DAYS)).date()
        return sorted(await self._called(lambda: self._client.search(["SINCE", since])))

    async def mail(self, uid: int) -> tuple[bytes, datetime] | None:
        """Return a mail, or its beginning, and when it came; None where it is gone."""
        section = f"BODY.PEEK[]<0.{_BYTES}>"
        fetched: dict[int, dict[bytes, Any]] = await self._called(lambda: self._client.fetch([uid], [section, "INTERNALDATE"]))
        found = fetched.get(uid, {})
        content = next((value for name, value in found.items() if name.startswith(b"BODY[]")), None)
        return (content, found[b"INTERNALDATE"]) if content is not None else None

    async def watch(self) -> None:
        """Be told from now on."""
        if self._watch is not None:
            await self._called(self._watch.idle)

    async def wait(self) -> None:
        """Return when something came, or after some time."""
        if self._watch is None:
            await asyncio.sleep(_LOOK)
            return
        await self._called(lambda: self._watch.idle_check(timeout=_IDLE))
        await self._called(self._watch.idle_done)

    async def close(self) -> None:
        """Disconnect. What waits in a thread ends with the connection."""
        self._is_closed = True  # a thread may be connecting right now: it ends that by itself
        for client in self._all:
            with contextlib.suppress(OSError):
                client.socket().shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                client.shutdown()

    async def _called(self, call: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(call)
        except (exceptions.IMAPClientError, OSError, TimeoutError) as error:
            raise ChannelAway(f"The mail server {self._server.host} cannot be reached: {type(error).__name__}.") from error


def _reply(mail: Mail, at: str) -> Reply:
    """Return what a mail brings. Where it has no token, its words can be a code and nothing else."""
    words = mail.text if mail.token or mail.text else mail.subject
    handle = "" if mail.token else _NO_CARD
    more = mail.more if mail.token else ""
    reply = Reply(account=mail.sender, handle=handle, token=mail.token, text=words, more=more, at=at, problem=mail.problem)
    return replace(reply, spoken_for=mail.vouched_for)
