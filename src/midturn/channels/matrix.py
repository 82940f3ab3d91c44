"""Matrix channel: a card is a message in a room, and a reply or reaction to it is the answer.

New events arrive by sync, starting at the position in the store. Replies that were written while no
server was running are therefore read first. The transaction ID of a message is the token of its
card, so that a message that is sent again is not duplicated. Each new version of a card is a new
message; only the final version replaces the old message. Each message contains the token of its
version, so the card of a reply is found from the message that the reply refers to. Encrypted rooms
are not supported.
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
from nio import (  # pyright: ignore[reportMissingTypeStubs]
    AsyncClient,
    AsyncClientConfig,
    ErrorResponse,
)

from midturn.channels.card import plain_text
from midturn.channels.port import Card, ChannelAway, ChannelRefused, Fits, Memory, Reply
from midturn.errors import ConfigError
from midturn.question.text import rfc3339

_SINCE_KEY: Final = "since"
SYNC_TIMEOUT: Final = (
    30_000  # milliseconds that the server holds a request open if there are no events
)
_FILTER: Final[Mapping[str, object]] = {
    "room": {"timeline": {"limit": 100, "types": ["m.room.message", "m.reaction"]}},
    "presence": {"types": []},
}
_TOKEN_FIELD: Final = "midturn.token"  # noqa: S105  name of a field
_PRIVATE_MEMBERS: Final = 2
_PERMANENT_ERRORS: Final = frozenset(
    {"M_UNKNOWN_TOKEN", "M_FORBIDDEN", "M_NOT_FOUND", "M_USER_DEACTIVATED", "M_TOO_LARGE"}
)
_NOT_VISIBLE_ERRORS: Final = ("M_NOT_FOUND", "M_FORBIDDEN")
_KEYCAPS: Final = str.maketrans("", "", "\ufe0f\u20e3")


class Matrix:
    """An account for midturn on a homeserver, with its access token."""

    kind = "matrix"
    fits = Fits(text=12_000, buttons=0, files=True)

    def __init__(self, homeserver: str, token: str) -> None:
        """Configure the account.

        Raises:
            ConfigError: The URL is invalid.
        """
        where = urlsplit(homeserver)
        if where.scheme != "https" and not (
            where.scheme == "http" and where.hostname in ("127.0.0.1", "localhost", "::1")
        ):
            raise ConfigError(f"{homeserver!r} is not the URL of a homeserver. Write https://HOST.")
        self._homeserver = homeserver
        self._token = token
        self._memory: Memory | None = None
        self._client: Any = None
        self._user_id = ""

    def __repr__(self) -> str:
        return f"Matrix({self._homeserver!r}, …)"

    async def open(self, memory: Memory) -> None:
        """Check the token and get the ID of the account."""
        self._memory = memory
        config = AsyncClientConfig(encryption_enabled=False, max_limit_exceeded=0, max_timeouts=0)
        self._client = AsyncClient(self._homeserver, config=config)
        self._client.access_token = self._token
        self._user_id = str((await self._call(self._client.whoami())).user_id)
        self._client.user_id = self._user_id

    async def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    # Cards
    # ----------------------------------------------------------------------------------------------

    async def send(self, card: Card) -> str:
        """Send a card and return the ID of its event."""
        return await self._send(await self._room(card.to), card)

    async def update(self, handle: str, card: Card) -> None:
        """Send the new version of a card. The final version replaces the message."""
        room = await self._room(card.to)
        if not card.is_over:
            # A notice does not change the token, and the homeserver drops a second message with
            # the same transaction ID.
            transaction = f"{card.token}-{_short_hash(plain_text(card))}"
            await self._send(
                room, card, {"m.in_reply_to": {"event_id": handle}}, transaction=transaction
            )
            return
        now = _content(card)
        body = f"\n{now['body']}"
        content = {
            **now,
            "body": f"* {now['body']}",
            "m.new_content": now,
            "m.relates_to": {"rel_type": "m.replace", "event_id": handle},
        }
        # with a constant ID, only the first card would be closed
        await self._put(room, content, f"over{_short_hash(handle + body)}")

    async def _send(
        self,
        room: str,
        card: Card,
        about: Mapping[str, object] | None = None,
        transaction: str = "",
    ) -> str:
        if card.file is not None:
            name, content = card.file
            uploaded = (await self._call(self._upload(name, content))).content_uri
            file = {
                "msgtype": "m.file",
                "body": name,
                "url": uploaded,
                "info": {"mimetype": "text/plain", "size": len(content)},
            }
            await self._put(room, file, f"file{card.token}")
        content = {**_content(card), **({"m.relates_to": about} if about else {})}
        return await self._put(room, content, transaction or card.token)

    async def _upload(self, name: str, content: bytes) -> Any:
        def again(_limited: int, _timeouts: int) -> io.BytesIO:
            return io.BytesIO(content)

        uploaded, _ = await self._client.upload(again, "text/plain", name, filesize=len(content))
        return uploaded

    async def _put(self, room: str, content: Mapping[str, object], transaction: str) -> str:
        return str(
            (
                await self._call(
                    self._client.room_send(
                        room, "m.room.message", dict(content), tx_id=transaction or None
                    )
                )
            ).event_id
        )

    async def _room(self, to: str) -> str:
        """Return the room `to`, or the private room with the account `to`. Create the private room
        if there is none.
        """
        room = to if to.startswith("!") else self._load(f"room/{to}")
        if not room or (room != to and not await self._is_member(room, to)):
            room = str(
                (await self._call(self._client.room_create(is_direct=True, invite=[to]))).room_id
            )
            await self._save(f"room/{to}", room)
        if (await self._state(room, "m.room.encryption")).get("algorithm"):
            raise ChannelRefused(
                f"The room {room} is encrypted, which this channel does not support. Use a room"
                " without encryption."
            )
        return room

    async def _is_member(self, room: str, account: str) -> bool:
        """Return whether an account is in a room or invited to it."""
        return (await self._state(room, "m.room.member", account)).get("membership") in (
            "join",
            "invite",
        )

    async def _state(self, room: str, kind: str, key: str = "") -> Mapping[str, Any]:
        """Return a state event of a room, or an empty mapping if it does not exist or is
        not visible.
        """
        found = await self._lookup(self._client.room_get_state_event(room, kind, key))
        return _mapping(getattr(found, "content", None))

    # Replies
    # ----------------------------------------------------------------------------------------------

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield the replies after the last read position."""
        while True:
            since = self._load(_SINCE_KEY)
            news = await self._call(
                self._client.sync(
                    timeout=SYNC_TIMEOUT if since else 0,
                    sync_filter=dict(_FILTER),
                    since=since or None,
                )
            )
            for room in news.rooms.invite:
                with suppress(ChannelRefused):  # the invitation was withdrawn
                    await self._call(self._client.join(room))
            for room, joined in news.rooms.join.items():
                for event in joined.timeline.events:
                    reply = await self._reply_in(room, event.source)
                    if reply is not None:
                        yield reply
            await self._save(_SINCE_KEY, news.next_batch)

    async def _reply_in(self, room: str, event: Mapping[str, Any]) -> Reply | None:
        try:
            return await self._reply(room, event)
        except ChannelRefused:
            return None  # the account was removed from the room, so its members are unknown

    async def _reply(self, room: str, event: Mapping[str, Any]) -> Reply | None:
        content = _mapping(event.get("content"))
        relates = _mapping(content.get("m.relates_to"))
        is_reaction, sender = (
            relates.get("rel_type") == "m.annotation",
            str(event.get("sender", "")),
        )
        is_text = event.get("type") == "m.room.message" and content.get("msgtype") == "m.text"
        if (
            sender == self._user_id
            or relates.get("rel_type") == "m.replace"
            or not (is_reaction or is_text)
        ):
            return None
        about = str(
            (relates if is_reaction else _mapping(relates.get("m.in_reply_to"))).get("event_id")
            or ""
        )
        words = (
            str(relates.get("key", "")).translate(_KEYCAPS)
            if is_reaction
            else _without_quote(str(content.get("body", "")))
        )
        members = await self._call(self._client.joined_members(room))
        place = "" if len(members.members) == _PRIVATE_MEMBERS else room
        if not place and self._load(f"room/{sender}") == "":
            await self._save(f"room/{sender}", room)
        token = await self._token_of(room, about) if about else ""
        handle = "" if token else about or ("none" if place else "")
        at = rfc3339(datetime.fromtimestamp(int(event["origin_server_ts"]) / 1000, UTC))
        return Reply(
            account=sender,
            id=str(event.get("event_id", "")),
            handle=handle,
            token=token,
            text=words,
            place=place,
            at=at,
        )

    async def _token_of(self, room: str, event: str) -> str:
        """Return the token in a message from this account, or an empty string for others."""
        found = getattr(await self._lookup(self._client.room_get_event(room, event)), "event", None)
        source = _mapping(getattr(found, "source", None))
        return (
            str(_mapping(source.get("content")).get(_TOKEN_FIELD, ""))
            if source.get("sender") == self._user_id
            else ""
        )

    def _load(self, name: str) -> str:
        return self._memory.get(name) if self._memory is not None else ""

    async def _save(self, name: str, value: str) -> None:
        if self._memory is not None:
            await self._memory.set(name, value)

    async def _lookup(self, call: Awaitable[Any]) -> Any:
        """Return the result of a lookup, or None if the object does not exist or is not visible."""
        try:
            return await self._call(call)
        except ChannelRefused as refused:
            if any(code in str(refused) for code in _NOT_VISIBLE_ERRORS):
                return None
            raise

    async def _call(self, call: Awaitable[Any]) -> Any:
        try:
            answer = await call
        except (ClientError, OSError, TimeoutError) as error:
            raise ChannelAway(
                f"The homeserver cannot be reached: {type(error).__name__}."
            ) from error
        if not isinstance(answer, ErrorResponse):
            return answer
        code = str(answer.status_code)
        if code in _PERMANENT_ERRORS:
            raise ChannelRefused(f"The homeserver rejected the request: {code}.")
        wait = getattr(answer, "retry_after_ms", None)
        raise ChannelAway(
            f"The homeserver cannot accept the request now: {code}.",
            after=wait / 1000 if wait else None,
        )


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _content(card: Card) -> dict[str, object]:
    """Return the content of a message without formatting or mentions, so that clients show the text
    unchanged.
    """
    return {
        "msgtype": "m.text",
        "body": plain_text(card).rstrip(),
        "m.mentions": {},
        **({_TOKEN_FIELD: card.token} if card.token else {}),
    }


def _mapping(value: object) -> Mapping[str, Any]:
    """Return a value of an event as a mapping. The sender may have written any other value."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _without_quote(text: str) -> str:
    """Return the text below the quote that some clients add to a reply."""
    lines = text.split("\n")
    while lines and lines[0].startswith("> "):
        lines.pop(0)
    return "\n".join(lines).strip()
