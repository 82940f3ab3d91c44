"""Matrix: a card is a message in a room with one person, or in a named room; a reply to it, or a reaction, is the answer.

What is new comes by sync, from where the store says that it was read to: what was written while no server ran comes first. A message is
sent with its card's token as transaction, so that one that has to be sent again is the same message. What a card says from now on is a
message of its own; only a card that is over is edited. Each message has the token of its text in its content: what a reply is about is
looked up there, in a message that is ours. Rooms that are encrypted are refused.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, cast
from urllib.parse import urlsplit

from aiohttp import ClientError
from nio import AsyncClient, AsyncClientConfig, ErrorResponse  # pyright: ignore[reportMissingTypeStubs]

from midturn.channels.card import plain_text
from midturn.channels.port import Card, ChannelAway, ChannelRefused, Fits, Memory, Reply
from midturn.errors import ConfigError
from midturn.question.text import rfc3339

_SINCE: Final = "since"
_SYNC: Final = 30_000  # milliseconds for which the server holds a request on which nothing comes
_FILTER: Final[Mapping[str, object]] = {
    "room": {"timeline": {"limit": 100, "types": ["m.room.message", "m.reaction"]}},
    "presence": {"types": []},
}
_OURS: Final = "midturn.token"
_ALONE: Final = 2
_FOR_GOOD: Final = frozenset({"M_UNKNOWN_TOKEN", "M_FORBIDDEN", "M_NOT_FOUND", "M_USER_DEACTIVATED", "M_TOO_LARGE"})
_NOT_FOR_US: Final = ("M_NOT_FOUND", "M_FORBIDDEN")
_KEYCAPS: Final = str.maketrans("", "", "\ufe0f\u20e3")


class Matrix:
    """An account of our own at a homeserver, by its access token."""

    kind = "matrix"
    fits = Fits(text=12_000, buttons=0, files=True)

    def __init__(self, homeserver: str, token: str) -> None:
        """Take where and who.

        Raises:
            ConfigError: It is no address.
        """
        where = urlsplit(homeserver)
        if where.scheme != "https" and not (where.scheme == "http" and where.hostname in ("127.0.0.1", "localhost", "::1")):
            raise ConfigError(f"{homeserver!r} is no address of a homeserver: https://HOST.")
        self._homeserver = homeserver
        self._token = token
        self._memory: Memory | None = None
        self._client: Any = None
        self._us = ""

    def __repr__(self) -> str:
        return f"Matrix({self._homeserver!r}, …)"

    async def open(self, memory: Memory) -> None:
        """Find out who we are there."""
        self._memory = memory
        config = AsyncClientConfig(encryption_enabled=False, max_limit_exceeded=0, max_timeouts=0)
        self._client = AsyncClient(self._homeserver, config=config)
        self._client.access_token = self._token
        self._us = str((await self._called(self._client.whoami())).user_id)
        self._client.user_id = self._us

    async def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    # Cards ------------------------------------------------------------------------------------------------------------------

    async def send(self, card: Card) -> str:
        """Send a card; return the id of its event."""
        return await self._send(await self._room(card.to), card)

    async def update(self, handle: str, card: Card) -> None:
        """Say how it is now; of a card that is over, in its place."""
        room = await self._room(card.to)
        if not card.is_over:
            # A notice leaves the token as it is, and the homeserver sends nothing twice for one transaction.
            transaction = f"{card.token}-{_short_hash(plain_text(card))}"
            await self._send(room, card, {"m.in_reply_to": {"event_id": handle}}, transaction=transaction)
            return
        now = _content(card)
        body = f"\n{now['body']}"
        content = {**now, "body": f"* {now['body']}", "m.new_content": now, "m.relates_to": {"rel_type": "m.replace", "event_id": handle}}
        await self._put(room, content, f"over{_short_hash(handle + body)}")  # one for all would end the first card alone

    async def _send(self, room: str, card: Card, about: Mapping[str, object] | None = None, transaction: str = "") -> str:
        if card.file is not None:
            name, content = card.file
            uploaded = (await self._called(self._upload(name, content))).content_uri
            file = {"msgtype": "m.file", "body": name, "url": uploaded, "info": {"mimetype": "text/plain", "size": len(content)}}
            await self._put(room, file, f"file{card.token}")
        content = {**_content(card), **({"m.relates_to": about} if about else {})}
        return await self._put(room, content, transaction or card.token)

    async def _upload(self, name: str, content: bytes) -> Any:
        def again(_limited: int, _timeouts: int) -> io.BytesIO:
            return io.BytesIO(content)

        uploaded, _ = await self._client.upload(again, "text/plain", name, filesize=len(content))
        return uploaded

    async def _put(self, room: str, content: Mapping[str, object], transaction: str) -> str:
        return str((await self._called(self._client.room_send(room, "m.room.message", dict(content), tx_id=transaction or None))).event_id)

    async def _room(self, to: str) -> str:
        """Return a room, or the one where an account is alone with us; make that where there is none."""
        room = to if to.startswith("!") else self._get(f"room/{to}")
        if not room or (room != to and not await self._is_theirs(room, to)):
            room = str((await self._called(self._client.room_create(is_direct=True, invite=[to]))).room_id)
            await self._keep(f"room/{to}", room)
        if (await self._state(room, "m.room.encryption")).get("algorithm"):
            raise ChannelRefused(f"The room {room} is encrypted: this channel reads and writes no encrypted rooms. Make one that is not.")
        return room

    async def _is_theirs(self, room: str, account: str) -> bool:
        """Say whether an account is still in a room, or may still come."""
        return (await self._state(room, "m.room.member", account)).get("membership") in ("join", "invite")

    async def _state(self, room: str, kind: str, key: str = "") -> Mapping[str, Any]:
        """Return what a room says about something; nothing where it says nothing, or nothing to us."""
        found = await self._found(self._client.room_get_state_event(room, kind, key))
        return _mapping(getattr(found, "content", None))

    # Replies ----------------------------------------------------------------------------------------------------------------

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield what was written since it was read last."""
        while True:
            since = self._get(_SINCE)
            news = await self._called(self._client.sync(timeout=_SYNC if since else 0, sync_filter=dict(_FILTER), since=since or None))
            for room in news.rooms.invite:
                with suppress(ChannelRefused):  # it was taken back
                    await self._called(self._client.join(room))
            for room, joined in news.rooms.join.items():
                for event in joined.timeline.events:
                    reply = await self._reply_in(room, event.source)
                    if reply is not None:
                        yield reply
            await self._keep(_SINCE, news.next_batch)

    async def _reply_in(self, room: str, event: Mapping[str, Any]) -> Reply | None:
        try:
            return await self._reply(room, event)
        except ChannelRefused:
            return None  # we were thrown out of the room since: who was there cannot be known any more

    async def _reply(self, room: str, event: Mapping[str, Any]) -> Reply | None:
        content = _mapping(event.get("content"))
        relates = _mapping(content.get("m.relates_to"))
        is_reaction, sender = relates.get("rel_type") == "m.annotation", str(event.get("sender", ""))
        is_text = event.get("type") == "m.room.message" and content.get("msgtype") == "m.text"
        if sender == self._us or relates.get("rel_type") == "m.replace" or not (is_reaction or is_text):
            return None
        about = str((relates if is_reaction else _mapping(relates.get("m.in_reply_to"))).get("event_id") or "")
        words = str(relates.get("key", "")).translate(_KEYCAPS) if is_reaction else _words(str(content.get("body", "")))
        members = await self._called(self._client.joined_members(room))
        place = "" if len(members.members) == _ALONE else room
        if not place and self._get(f"room/{sender}") == "":
            await self._keep(f"room/{sender}", room)
        token = await self._token_of(room, about) if about else ""
        handle = "" if token else about or ("none" if place else "")
        at = rfc3339(datetime.fromtimestamp(int(event["origin_server_ts"]) / 1000, UTC))
        return Reply(account=sender, id=str(event.get("event_id", "")), handle=handle, token=token, text=words, place=place, at=at)

    async def _token_of(self, room: str, event: str) -> str:
        """Return the token in a message of ours; empty where it is none."""
        found = getattr(await self._found(self._client.room_get_event(room, event)), "event", None)
        source = _mapping(getattr(found, "source", None))
        return str(_mapping(source.get("content")).get(_OURS, "")) if source.get("sender") == self._us else ""

    def _get(self, name: str) -> str:
        return self._memory.get(name) if self._memory is not None else ""

    async def _keep(self, name: str, value: str) -> None:
        if self._memory is not None:
            await self._memory.set(name, value)

    async def _found(self, call: Awaitable[Any]) -> Any:
        """Return what is looked up; None where it is not there, or not for us. While the server is away, no one knows."""
        try:
            return await self._called(call)
        except ChannelRefused as refused:
            if any(code in str(refused) for code in _NOT_FOR_US):
                return None
            raise

    async def _called(self, call: Awaitable[Any]) -> Any:
        try:
            answer = await call
        except (ClientError, OSError, TimeoutError) as error:
            raise ChannelAway(f"The homeserver cannot be reached: {type(error).__name__}.") from error
        if not isinstance(answer, ErrorResponse):
            return answer
        code = str(answer.status_code)
        if code in _FOR_GOOD:
            raise ChannelRefused(f"The homeserver refuses: {code}.")
        wait = getattr(answer, "retry_after_ms", None)
        raise ChannelAway(f"The homeserver does not take this now: {code}.", after=wait / 1000 if wait else None)


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _content(card: Card) -> dict[str, object]:
    """Return a message without formats or mentions: clients show its text as it is."""
    return {"msgtype": "m.text", "body": plain_text(card).rstrip(), "m.mentions": {}, **({_OURS: card.token} if card.token else {})}


def _mapping(value: object) -> Mapping[str, Any]:
    """Return an object of an event, in which its sender may have written anything."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _words(text: str) -> str:
    """Return what was written below the quote that some clients put before a reply."""
    lines = text.split("\n")
    while lines and lines[0].startswith("> "):
        lines.pop(0)
    return "\n".join(lines).strip()
