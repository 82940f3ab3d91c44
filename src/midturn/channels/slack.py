"""Slack channel over Socket Mode: an outgoing connection that delivers buttons and messages.

All text is in `rich_text` elements, in which Slack does not interpret mentions, links or
formatting. The text of notifications is escaped. Slack delivers an envelope again until it is
acknowledged, and an envelope is acknowledged only after its reply is recorded. Messages that were
written while the channel was not connected are read from the history. The channel stores its read
position for each conversation and thread with an open card. A button that is pressed while the
channel is not connected has no effect, and Slack informs the person.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import aiohttp
from slack_sdk.errors import SlackApiError, SlackRequestError
from slack_sdk.web.async_client import AsyncWebClient

from midturn.channels.port import Card, ChannelAway, ChannelRefused, Fits, Memory, Reply
from midturn.question.text import rfc3339

_API: Final = "https://slack.com/api/"
TIMEOUT: Final = 30.0
HEARTBEAT_INTERVAL: Final = 10.0
_POSITIONS_KEY: Final = "read"
PAGE_SIZE: Final = 200
MAX_THREADS: Final = 200
MAX_SEEN: Final = 2_000
_TEMPORARY_ERRORS: Final = frozenset(
    {
        "ratelimited",
        "rate_limited",
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
    }
)
_SERVER_ERROR, _TOO_MANY = 500, 429
_MARKUP: Final = re.compile(r"<(?P<to>[^<>|]*)(?:\|(?P<label>[^<>]*))?>")


class Slack:
    """A Slack workspace, with a bot token (`token`, `xoxb-…`) and the token of an app with
    Socket Mode (`app_token`, `xapp-…`).
    """

    kind = "slack"
    fits = Fits(text=3_000, buttons=20, files=True, label=75)

    def __init__(self, token: str, app_token: str, *, api: str = _API) -> None:
        """Configure the tokens. `api` is the URL of Slack's API."""
        self._web: Any = AsyncWebClient(
            token=token, base_url=api, timeout=int(TIMEOUT), retry_handlers=[]
        )
        self._app_token = app_token
        self._memory: Memory | None = None
        # time of the last read message, by conversation or `conversation:thread`
        self._positions: dict[str, str] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._session: Any = None

    def __repr__(self) -> str:
        return "Slack(…)"

    async def open(self, memory: Memory) -> None:
        """Check the tokens."""
        self._memory = memory
        self._positions = json.loads(memory.get(_POSITIONS_KEY) or "{}")
        self._session = self._session or aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(connect=TIMEOUT)
        )
        self._web.session = self._session
        await _call(self._web.auth_test())

    async def close(self) -> None:
        """Disconnect."""
        if self._session is not None:
            await self._session.close()
            self._session = self._web.session = None

    # Cards
    # ----------------------------------------------------------------------------------------------

    async def send(self, card: Card) -> str:
        """Send a card. Content that does not fit into the message is sent before it, as a file."""
        place = await self._conversation(card.to)
        await self._send_file(place, card)
        sent = await _call(
            self._web.chat_postMessage(
                channel=place, **_render(card), unfurl_links=False, unfurl_media=False
            )
        )
        await self._save_position(place, str(sent["ts"]))
        await self._save_position(f"{place}:{sent['ts']}", str(sent["ts"]))
        return f"{place}:{sent['ts']}"

    async def update(self, handle: str, card: Card) -> None:
        """Change a card."""
        place, _, ts = handle.partition(":")
        await self._send_file(place, card)
        await _call(self._web.chat_update(channel=place, ts=ts, **_render(card)))
        if card.is_over and self._positions.pop(handle, None):
            await self._store_positions()

    async def _conversation(self, to: str) -> str:
        """Return the ID of the conversation with an account or room."""
        if not to.startswith(("U", "W")):
            return to
        opened = await _call(self._web.conversations_open(users=[to]))
        return str(opened["channel"]["id"])

    async def _send_file(self, place: str, card: Card) -> None:
        if card.file is None:
            return
        name, content = card.file
        message_data = await _call(
            self._web.files_getUploadURLExternal(filename=name, length=len(content))
        )
        await self._upload(str(message_data["upload_url"]), content)
        file = {"id": message_data["file_id"], "title": name}
        await _call(
            self._web.files_completeUploadExternal(files=[cast("Any", file)], channel_id=place)
        )

    async def _upload(self, where: str, content: bytes) -> None:
        try:
            async with self._session.post(where, data=content) as response:
                if response.status != 200:  # noqa: PLR2004
                    raise ChannelAway(f"Slack rejected a file with status {response.status}.")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ChannelAway(f"Slack cannot be reached: {type(error).__name__}.") from None

    # Replies
    # ----------------------------------------------------------------------------------------------

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield missed replies from the history, then new replies."""
        while True:
            socket = await self._connect()
            try:
                # read after connecting, so that no message is missed in between
                async for reply in self._missed_replies():
                    yield reply
                async for envelope in _envelopes(socket):
                    reply, key = _reply(envelope), _envelope_key(envelope)
                    if reply is not None and key not in self._seen:
                        yield reply
                        await self._save_reply_position(reply, envelope)
                    self._remember(key)
                    await socket.send_json({"envelope_id": envelope["envelope_id"]})
            except ConnectionError as error:
                raise ChannelAway(f"The connection to Slack was lost: {error}.") from None
            finally:
                await socket.close()

    async def _connect(self) -> Any:
        opened = await _call(self._web.apps_connections_open(app_token=self._app_token))
        try:
            return await self._session.ws_connect(opened["url"], heartbeat=HEARTBEAT_INTERVAL)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ChannelAway(
                f"Slack's Socket Mode cannot be reached: {type(error).__name__}."
            ) from error

    async def _missed_replies(self) -> AsyncGenerator[Reply]:
        for name, oldest in [*self._positions.items()]:
            place, _, thread = name.partition(":")
            for message in await self._history(place, thread, oldest):
                reply = _text_reply({**message, "channel": place})
                if reply is not None:
                    yield reply
                self._remember(f"{place}:{message['ts']}")
                await self._save_position(name, str(message["ts"]))

    async def _history(self, place: str, thread: str, oldest: str) -> list[dict[str, Any]]:
        """Return the messages after a time, oldest first. If the conversation was deleted, return
        an empty list.
        """
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page: dict[str, Any] = {
                "channel": place,
                "oldest": oldest,
                "limit": PAGE_SIZE,
                "cursor": cursor,
            }
            try:
                got = await _call(
                    self._web.conversations_replies(ts=thread, **page)
                    if thread
                    else self._web.conversations_history(**page)
                )
            except ChannelRefused:
                self._positions.pop(f"{place}:{thread}" if thread else place, None)
                return []
            found += [one for one in got["messages"] if str(one["ts"]) > oldest]
            following: Mapping[str, str] = got.get("response_metadata") or {}
            cursor = following.get("next_cursor", "")
            if not cursor:
                return sorted(found, key=lambda one: str(one["ts"]))

    async def _save_reply_position(self, reply: Reply, envelope: Mapping[str, Any]) -> None:
        """Store the read position, if the reply is a message."""
        event = envelope["payload"].get("event")
        if event:
            name = reply.handle if reply.handle in self._positions else str(event["channel"])
            if name in self._positions:  # a conversation without a stored position has no card
                await self._save_position(name, str(event["ts"]))

    async def _save_position(self, name: str, ts: str) -> None:
        if ts > self._positions.get(name, ""):
            self._positions.pop(name, None)
            self._positions[name] = ts
            threads = [one for one in self._positions if ":" in one]
            for old in threads[: max(0, len(threads) - MAX_THREADS)]:
                del self._positions[old]
            await self._store_positions()

    async def _store_positions(self) -> None:
        if self._memory is not None:
            await self._memory.set(_POSITIONS_KEY, json.dumps(self._positions))

    def _remember(self, key: str) -> None:
        self._seen[key] = None
        while len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)


async def _envelopes(socket: Any) -> AsyncGenerator[dict[str, Any]]:
    """Yield envelopes until Slack asks for a new connection.

    Raises:
        ConnectionError: The connection was lost.
        ChannelRefused: Socket Mode was turned off for the app.
    """
    async for message in socket:
        if message.type != aiohttp.WSMsgType.TEXT:
            break
        message_data = json.loads(message.data)
        if message_data.get("type") == "disconnect":
            if message_data.get("reason") == "link_disabled":
                raise ChannelRefused(
                    "Socket Mode is off for the Slack app. Turn it on in the settings of the app."
                )
            return
        if "envelope_id" in message_data:
            yield message_data
    raise ConnectionError("it was closed")


def _envelope_key(envelope: Mapping[str, Any]) -> str:
    """Return a key that is the same on every delivery. For messages it is also the same in the
    history.
    """
    event = envelope["payload"].get("event")
    return f"{event.get('channel')}:{event.get('ts')}" if event else str(envelope["envelope_id"])


def _reply(envelope: Mapping[str, Any]) -> Reply | None:
    payload = envelope["payload"]
    match envelope.get("type"):
        case "interactive" if payload.get("type") == "block_actions":
            return _button_reply(payload)
        case "events_api" if payload.get("event", {}).get("type") == "message":
            return _text_reply(payload["event"])
        case _:
            return None


def _button_reply(payload: Mapping[str, Any]) -> Reply | None:
    action: Mapping[str, Any] = payload["actions"][0]
    channel: Mapping[str, Any] = payload.get("channel") or {}
    message: Mapping[str, Any] = payload.get("message") or {}
    place = str(channel.get("id", ""))
    if action.get("type") != "button" or not place or "ts" not in message:
        return None
    return Reply(
        account=str(payload["user"]["id"]),
        handle=f"{place}:{message['ts']}",
        token=str(action.get("value", "")),
        place=_room(place),
        at=_time(str(action.get("action_ts", ""))),
    )


def _text_reply(event: Mapping[str, Any]) -> Reply | None:
    """Return a typed reply.

    Return None for edited or deleted messages, messages from apps, and messages without text.
    """
    if (
        event.get("subtype") not in (None, "thread_broadcast")
        or event.get("bot_id")
        or not event.get("user")
        or not event.get("text")
    ):
        return None
    place, thread = str(event["channel"]), str(event.get("thread_ts") or "")
    is_in_thread = thread not in ("", str(event["ts"]))
    return Reply(
        account=str(event["user"]),
        id=f"{place}:{event['ts']}",
        handle=f"{place}:{thread}" if is_in_thread else "",
        text=_unescaped(str(event["text"])),
        place=_room(place),
        at=_time(str(event["ts"])),
    )


def _room(place: str) -> str:
    """Return the room, or an empty string for a direct message."""
    return "" if place.startswith("D") else place


def _time(ts: str) -> str:
    try:
        return rfc3339(datetime.fromtimestamp(float(ts), UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def _unescaped(text: str) -> str:
    """Return text as it was typed: links as plain text, and `&`, `<` and `>` unescaped."""
    bare = _MARKUP.sub(
        lambda found: found["label"] if found["label"] is not None else found["to"], text
    )
    return bare.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def escaped(text: str) -> str:
    """Escape text so that Slack does not interpret mentions or links in it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# Rendering
# --------------------------------------------------------------------------------------------------


def _render(card: Card) -> dict[str, Any]:
    """Return the blocks of a card and its text for notifications."""
    parts = [_section(card.heading, bold=True), _section(card.text)]
    parts += [_preformatted(card.lines)] if card.lines else []
    parts += (
        [_section(f"The full content is in the file {card.file[0]} above.")] if card.file else []
    )
    parts += [
        _section(text)
        for text in (card.hint if not card.is_over else "", card.left, card.notice)
        if text
    ]
    blocks: list[dict[str, Any]] = [
        {"type": "rich_text", "elements": [part for part in parts if part]}
    ]
    if card.choices and not card.is_over:
        blocks.append(
            {
                "type": "actions",
                "elements": [
                    _button(number, one.label, one.token) for number, one in enumerate(card.choices)
                ],
            }
        )
    line = " · ".join(filter(None, (card.notice if card.is_over else card.heading, card.text)))
    return {"blocks": blocks, "text": escaped(line), "parse": "none", "link_names": False}


def _section(text: str, *, bold: bool = False) -> dict[str, Any]:
    if not text:
        return {}
    style = {"style": {"bold": True}} if bold else {}
    return {
        "type": "rich_text_section",
        "elements": [{"type": "text", "text": f"{text}\n", **style}],
    }


def _preformatted(lines: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "rich_text_preformatted",
        "elements": [{"type": "text", "text": "\n".join(lines) or " "}],
    }


def _button(number: int, label: str, token: str) -> dict[str, Any]:
    return {
        "type": "button",
        "action_id": f"choice-{number}",
        "text": {"type": "plain_text", "text": label, "emoji": False},
        "value": token,
    }


def _error(data: Any) -> str:
    return (
        str(cast("Mapping[str, Any]", data).get("error") or "") if isinstance(data, Mapping) else ""
    )


async def _call(calling: Awaitable[Any]) -> Any:
    """Await a call of Slack's API.

    Raises:
        ChannelAway: Slack is unreachable or is limiting the request rate.
        ChannelRefused: Slack rejects the call.
    """
    try:
        return (await calling).data
    except SlackApiError as error:
        response: Any = error.response
        status, headers = (
            response.status_code,
            {str(name).lower(): str(value) for name, value in dict(response.headers or {}).items()},
        )
        code = str(_error(response.data) or status)
        if status == _TOO_MANY or status >= _SERVER_ERROR or code in _TEMPORARY_ERRORS:
            wait = headers.get("retry-after", "")
            raise ChannelAway(
                f"Slack responded with {code}.", after=float(wait) if wait.isdecimal() else None
            ) from None
        raise ChannelRefused(f"Slack responded with {code}.") from None
    except (
        SlackRequestError,
        aiohttp.ClientError,
        OSError,
        TimeoutError,
        json.JSONDecodeError,
    ) as error:
        raise ChannelAway(f"Slack cannot be reached: {type(error).__name__}.") from None
