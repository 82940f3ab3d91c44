"""Ana's mail program and Matrix client at real servers: one server per process, new accounts
per scene.
"""

from __future__ import annotations

import asyncio
import atexit
import email
import itertools
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from email import policy
from email.message import EmailMessage
from functools import cache
from typing import Any, Final, cast

import httpx
from imapclient import IMAPClient

from midturn.channels.email import Email
from midturn.channels.matrix import Matrix
from midturn.channels.port import Channel
from support.channels.dovecot import AUTHSERV, PASSWORD, MailServer
from support.channels.limit import Limit
from support.channels.loopback import UnreachableNetwork
from support.channels.phones import Phone, Shown
from support.channels.synapse import Homeserver

_NUMBERS = itertools.count(1)
_BODY: Final = b"BODY[]"
_FILTER: Final = '{"room":{"timeline":{"limit":2000,"types":["m.room.message"]},"state":{"types":[]}},"presence":{"types":[]}}'


class EmailPhone:
    """A mailbox. The last mail of a thread is the current card."""

    kind = "email"

    def __init__(self, house: MailServer) -> None:
        number = next(_NUMBERS)
        self.house = house
        self.account, self.bot = f"ana{number}@ana.test", f"bot{number}@bot.test"
        self._threads: dict[str, EmailMessage] = {}
        self._last = 0
        self._alone = threading.Lock()
        self._line = UnreachableNetwork()
        self._client = self._opened()

    def options(self) -> dict[str, Any]:
        where = {
            "smtp": f"smtp://127.0.0.1:{self.house.smtp}",
            "imap": f"imap://127.0.0.1:{self.house.imap}",
        }
        return {"address": self.bot, "password": PASSWORD, **where, "authserv_id": AUTHSERV}

    def channel(self) -> Channel:
        return Email(**self.options())

    def cards(self) -> list[Shown]:
        self._read()
        return [
            Shown(ref, f"\n{_text(mail)}", (), is_open="[midturn " in str(mail["Subject"]))
            for ref, mail in self._threads.items()
        ]

    def mail(self, ref: str) -> EmailMessage:
        """Return the last mail of a thread."""
        return self._threads[ref]

    async def press(self, ref: str, label: str) -> None:
        """Mails have no buttons: write the label."""
        await self.write(label, ref)

    async def write(self, text: str, ref: str = "") -> None:
        """Reply to a card, or write a new mail."""
        self.house.post(self.reply(text, ref), self.account, signed_by="ana.test", to=self.bot)

    def reply(self, text: str, ref: str = "", *, sender: str = "") -> EmailMessage:
        """Return a reply as a mail program writes it."""
        reply = EmailMessage()
        reply["From"], reply["To"] = sender or f"Ana <{self.account}>", self.bot
        reply["Subject"] = f"Re: {self._threads[ref]['Subject']}" if ref else "Hello"
        quoted = (
            "\n".join(f"> {line}" for line in _text(self._threads[ref]).splitlines()) if ref else ""
        )
        reply.set_content(
            f"{text}\n\nOn Monday, 23 November, midturn wrote:\n{quoted}\n"
            if quoted
            else f"{text}\n"
        )
        return reply

    async def listening(self) -> None:
        """Mails are kept until they are read."""

    def limit(self, most: int) -> Limit:
        self.house.limit = limit = Limit(most)
        return limit

    async def away(self) -> UnreachableNetwork:
        """Stop both servers."""
        self._client.shutdown()
        await asyncio.to_thread(self.house.stop)
        await asyncio.to_thread(self.house.stop_mailboxes)
        await self._line.cut(self.house.smtp, self.house.imap)
        return self._line

    async def back(self) -> None:
        """Start both servers again."""
        await self._line.restore()
        await asyncio.to_thread(self.house.start_mailboxes)
        await asyncio.to_thread(self.house.start)
        self._client = await asyncio.to_thread(self._opened)

    def close(self) -> None:
        """Delete the accounts."""
        self.house.limit = None
        self._client.logout()

    def _opened(self) -> Any:
        client: Any = IMAPClient("127.0.0.1", self.house.imap, ssl=False, timeout=120)
        client.login(self.account, PASSWORD)
        client.select_folder("INBOX", readonly=True)
        return client

    def _read(self) -> None:
        with self._alone:
            self._client.noop()
            found = self._client.search(["UID", f"{self._last + 1}:*"])
            new = sorted(uid for uid in found if uid > self._last)
            mails: Mapping[int, Any] = (
                cast("Mapping[int, Any]", self._client.fetch(new, ["BODY.PEEK[]"])) if new else {}
            )
            for uid in new:
                mail = email.message_from_bytes(mails[uid][_BODY], policy=policy.default)
                self._threads[str(mail["In-Reply-To"] or mail["Message-ID"])] = mail
                self._last = uid


class MatrixPhone:
    """A room with the bot. The last event about a card is the current card."""

    kind = "matrix"

    def __init__(self, server: Homeserver) -> None:
        self.server = server
        self.ana, self.bot = server.account("ana"), server.account("bot")
        self.account = self.ana.user
        self.room = ""
        self._since = ""
        self._alone = threading.Lock()
        self._shown: dict[str, Shown] = {}
        self._newest: dict[str, str] = {}
        self._line = UnreachableNetwork()
        self._http = httpx.Client(
            base_url=f"{server.url}/_matrix/client/v3",
            headers={"Authorization": f"Bearer {self.ana.token}"},
            timeout=30,
        )

    def options(self) -> dict[str, Any]:
        return {"homeserver": self.server.url, "token": self.bot.token}

    def channel(self) -> Channel:
        return Matrix(**self.options())

    def cards(self) -> list[Shown]:
        """Return the cards. Join rooms with an invitation first."""
        with self._alone:
            for _ in range(2):  # the messages of a room are readable only after joining it
                self._look()
            return [*self._shown.values()]

    async def press(self, ref: str, label: str) -> None:
        """Cards have no buttons here: write the label."""
        await self.write(label, ref)

    async def write(self, text: str, ref: str = "") -> None:
        """Write to the room, as a reply to the last event about a card."""
        await self.ana.say(self.room, text, to=self._newest[ref] if ref else "")

    def last(self, ref: str) -> str:
        """Return the last event about a card."""
        return self._newest[ref]

    async def listening(self) -> None:
        """Messages are kept until they are read."""

    def limit(self, most: int) -> Limit:
        """Limit messages in Synapse itself."""
        self.server.limit(self.bot, most)
        return Limit(most)

    async def away(self) -> UnreachableNetwork:
        """Stop the homeserver."""
        await asyncio.to_thread(self.server.stop)
        await self._line.cut(self.server.port)
        return self._line

    async def back(self) -> None:
        """Start the homeserver again."""
        await self._line.restore()
        await asyncio.to_thread(self.server.start)

    def close(self) -> None:
        """Leave the room."""
        self._http.close()

    def _look(self) -> None:
        asked = {
            "timeout": "0",
            "filter": _FILTER,
            **({"since": self._since} if self._since else {}),
        }
        news = self._http.get("/sync", params=asked).raise_for_status().json()
        self._since = str(news["next_batch"])
        rooms: Mapping[str, Any] = news.get("rooms", {})
        for room in rooms.get("invite", {}):
            self._http.post(f"/rooms/{room}/join", json={}).raise_for_status()
            self.room = room
        for joined in rooms.get("join", {}).values():
            for event in joined["timeline"]["events"]:
                self._take(event)

    def _take(self, event: Mapping[str, Any]) -> None:
        content = event["content"]
        if event["sender"] != self.bot.user or content.get("msgtype") != "m.text":
            return
        relates = content.get("m.relates_to", {})
        is_over = relates.get("rel_type") == "m.replace"
        ref = str(
            relates.get("event_id")
            or relates.get("m.in_reply_to", {}).get("event_id")
            or event["event_id"]
        )
        text = content["m.new_content"]["body"] if is_over else content["body"]
        self._newest[ref] = ref if is_over else str(event["event_id"])
        self._shown[ref] = Shown(ref, f"\n{text}", (), is_open=not is_over)


def _text(mail: EmailMessage) -> str:
    part = mail.get_body(("plain",)) if mail.is_multipart() else mail
    return str(cast("EmailMessage", part).get_content())


@cache
def shared_mail_server() -> MailServer:
    """Return the mail server of this process."""
    house = MailServer()
    atexit.register(house.remove)
    return house


@cache
def homeserver() -> Homeserver:
    """Return the homeserver of this process."""
    server = Homeserver()
    atexit.register(server.remove)
    return server


@asynccontextmanager
async def _email() -> AsyncGenerator[Phone]:
    phone = EmailPhone(shared_mail_server())
    try:
        yield phone
    finally:
        phone.close()


@asynccontextmanager
async def _matrix() -> AsyncGenerator[Phone]:
    phone = MatrixPhone(homeserver())
    try:
        yield phone
    finally:
        phone.close()


REAL_PHONES: Mapping[str, Callable[[], AbstractAsyncContextManager[Phone]]] = {
    "email": _email,
    "matrix": _matrix,
}
