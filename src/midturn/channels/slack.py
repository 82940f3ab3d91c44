"""Slack, by Socket Mode: a connection that goes out, over which buttons and messages come back.

Every text stands in `rich_text`, where nothing is read as a mention, a link or a format; the line for notifications is escaped. An envelope
is acknowledged when its reply is on record, and comes again until then. What was written while no one listened is in the history: of each
conversation and thread with an open card the channel keeps how far it has read. A button that is pressed meanwhile is lost, and Slack says
so to who presses it.
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
_SECONDS: Final = 30.0
_HEARTBEAT: Final = 10.0
_READ: Final = "read"
_PAGE: Final = 200
_MOST_THREADS: Final = 200
_MOST_SEEN: Final = 2_000
_PASSING: Final = frozenset({"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"})
_SERVERS_OWN, _TOO_MANY = 500, 429
_MARKUP: Final = re.compile(r"<(?P<to>[^<>|]*)(?:\|(?P<label>[^<>]*))?>")


class Slack:
    """A workspace, as a bot (`token`, `xoxb-…`) of an app with Socket Mode (`app_token`, `xapp-…`)."""

    kind = "slack"
    fits = Fits(text=3_000, buttons=20, files=True, label=75)

    def __init__(self, token: str, app_token: str, *, api: str = _API) -> None:
        """Take the tokens; `api` is where Slack is."""
        self._web: Any = AsyncWebClient(token=token, base_url=api, timeout=int(_SECONDS), retry_handlers=[])
        self._app_token = app_token
        self._memory: Memory | None = None
        self._read: dict[str, str] = {}  # by conversation, or conversation and thread: the time of what was read last
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._session: Any = None

    def __repr__(self) -> str:
        return "Slack(…)"

    async def open(self, memory: Memory) -> None:
        """Find out who we are there."""
        self._memory = memory
        self._read = json.loads(memory.get(_READ) or "{}")
        self._session = self._session or aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(connect=_SECONDS))
        self._web.session = self._session
        await _called(self._web.auth_test())

    async def close(self) -> None:
        """Disconnect."""
        if self._session is not None:
            await self._session.close()
            self._session = self._web.session = None

    # Cards ------------------------------------------------------------------------------------------------------------------

    async def send(self, card: Card) -> str:
        """Send a card: what does not fit into the message comes first, as a file."""
        place = await self._place(card.to)
        await self._send_file(place, card)
        sent = await _called(self._web.chat_postMessage(channel=place, **_written(card), unfurl_links=False, unfurl_media=False))
        await self._keep(place, str(sent["ts"]))
        await self._keep(f"{place}:{sent['ts']}", str(sent["ts"]))
        return f"{place}:{sent['ts']}"

    async def update(self, handle: str, card: Card) -> None:
        """Change a card."""
        place, _, ts = handle.partition(":")
        await self._send_file(place, card)
        await _called(self._web.chat_update(channel=place, ts=ts, **_written(card)))
        if card.is_over and self._read.pop(handle, None):
            await self._write()

    async def _place(self, to: str) -> str:
        """Return the conversation of an account or a room."""
        if not to.startswith(("U", "W")):
            return to
        opened = await _called(self._web.conversations_open(users=[to]))
        return str(opened["channel"]["id"])

    async def _send_file(self, place: str, card: Card) -> None:
        if card.file is None:
            return
        name, content = card.file
        told = await _called(self._web.files_getUploadURLExternal(filename=name, length=len(content)))
        await self._upload(str(told["upload_url"]), content)
        file = {"id": told["file_id"], "title": name}
        await _called(self._web.files_completeUploadExternal(files=[cast("Any", file)], channel_id=place))

    async def _upload(self, where: str, content: bytes) -> None:
        try:
            async with self._session.post(where, data=content) as response:
                if response.status != 200:  # noqa: PLR2004
                    raise ChannelAway(f"Slack did not take a file: status {response.status}.")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ChannelAway(f"Slack cannot be reached: {type(error).__name__}.") from None

    # Replies ----------------------------------------------------------------------------------------------------------------

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield what is in the histories, then what comes."""
        while True:
            socket = await self._connect()
            try:
                async for reply in self._written_meanwhile():  # the line is open by now: between the two nothing is missed
                    yield reply
                async for envelope in _envelopes(socket):
                    reply, key = _reply(envelope), _key(envelope)
                    if reply is not None and key not in self._seen:
                        yield reply
                        await self._advance(reply, envelope)
                    self._remember(key)
                    await socket.send_json({"envelope_id": envelope["envelope_id"]})
            except ConnectionError as error:
                raise ChannelAway(f"Slack's connection broke: {error}.") from None
            finally:
                await socket.close()

    async def _connect(self) -> Any:
        opened = await _called(self._web.apps_connections_open(app_token=self._app_token))
        try:
            return await self._session.ws_connect(opened["url"], heartbeat=_HEARTBEAT)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ChannelAway(f"Slack's socket cannot be reached: {type(error).__name__}.") from error

    async def _written_meanwhile(self) -> AsyncGenerator[Reply]:
        for name, oldest in [*self._read.items()]:
            place, _, thread = name.partition(":")
            for message in await self._history(place, thread, oldest):
                reply = _message({**message, "channel": place})
                if reply is not None:
                    yield reply
                self._remember(f"{place}:{message['ts']}")
                await self._keep(name, str(message["ts"]))

    async def _history(self, place: str, thread: str, oldest: str) -> list[dict[str, Any]]:
        """Return what was written after a time, the oldest first; nothing of a conversation that is gone."""
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page: dict[str, Any] = {"channel": place, "oldest": oldest, "limit": _PAGE, "cursor": cursor}
            try:
                got = await _called(
                    self._web.conversations_replies(ts=thread, **page) if thread else self._web.conversations_history(**page)
                )
            except ChannelRefused:
                self._read.pop(f"{place}:{thread}" if thread else place, None)
                return []
            found += [one for one in got["messages"] if str(one["ts"]) > oldest]
            following: Mapping[str, str] = got.get("response_metadata") or {}
            cursor = following.get("next_cursor", "")
            if not cursor:
                return sorted(found, key=lambda one: str(one["ts"]))

    async def _advance(self, reply: Reply, envelope: Mapping[str, Any]) -> None:
        """Keep how far was read, where that is a message's time."""
        event = envelope["payload"].get("event")
        if event:
            name = reply.handle if reply.handle in self._read else str(event["channel"])
            if name in self._read:  # in others there is no card
                await self._keep(name, str(event["ts"]))

    async def _keep(self, name: str, ts: str) -> None:
        if ts > self._read.get(name, ""):
            self._read.pop(name, None)
            self._read[name] = ts
            threads = [one for one in self._read if ":" in one]
            for old in threads[: max(0, len(threads) - _MOST_THREADS)]:
                del self._read[old]
            await self._write()

    async def _write(self) -> None:
        if self._memory is not None:
            await self._memory.set(_READ, json.dumps(self._read))

    def _remember(self, key: str) -> None:
        self._seen[key] = None
        while len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)


async def _envelopes(socket: Any) -> AsyncGenerator[dict[str, Any]]:
    """Yield what Slack sends, until it wants a new connection.

    Raises:
        ConnectionError: It broke.
        ChannelRefused: The app has no Socket Mode any more.
    """
    async for message in socket:
        if message.type != aiohttp.WSMsgType.TEXT:
            break
        told = json.loads(message.data)
        if told.get("type") == "disconnect":
            if told.get("reason") == "link_disabled":
                raise ChannelRefused("Socket Mode of the Slack app is off.")
            return
        if "envelope_id" in told:
            yield told
    raise ConnectionError("it was closed")


def _key(envelope: Mapping[str, Any]) -> str:
    """Return what names an envelope each time that it comes: of a message where and when it was written, which the history says, too."""
    event = envelope["payload"].get("event")
    return f"{event.get('channel')}:{event.get('ts')}" if event else str(envelope["envelope_id"])


def _reply(envelope: Mapping[str, Any]) -> Reply | None:
    payload = envelope["payload"]
    match envelope.get("type"):
        case "interactive" if payload.get("type") == "block_actions":
            return _pressed(payload)
        case "events_api" if payload.get("event", {}).get("type") == "message":
            return _message(payload["event"])
        case _:
            return None


def _pressed(payload: Mapping[str, Any]) -> Reply | None:
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


def _message(event: Mapping[str, Any]) -> Reply | None:
    """Return what a person wrote; nothing of what was edited, deleted, or sent by an app, and nothing where there is only a picture."""
    if event.get("subtype") not in (None, "thread_broadcast") or event.get("bot_id") or not event.get("user") or not event.get("text"):
        return None
    place, thread = str(event["channel"]), str(event.get("thread_ts") or "")
    is_in_thread = thread not in ("", str(event["ts"]))
    return Reply(
        account=str(event["user"]),
        id=f"{place}:{event['ts']}",
        handle=f"{place}:{thread}" if is_in_thread else "",
        text=_plain(str(event["text"])),
        place=_room(place),
        at=_time(str(event["ts"])),
    )


def _room(place: str) -> str:
    """Return the room, where it is one: with one person alone it is none."""
    return "" if place.startswith("D") else place


def _time(ts: str) -> str:
    try:
        return rfc3339(datetime.fromtimestamp(float(ts), UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def _plain(text: str) -> str:
    """Return what was typed: links as they were written, and the three signs that Slack escapes."""
    bare = _MARKUP.sub(lambda found: found["label"] if found["label"] is not None else found["to"], text)
    return bare.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def escaped(text: str) -> str:
    """Return text in which Slack reads no mention and no link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# What a card looks like there ---------------------------------------------------------------------------------------------------


def _written(card: Card) -> dict[str, Any]:
    """Return the blocks of a card, and its line for notifications."""
    parts = [_section(card.heading, bold=True), _section(card.text)]
    parts += [_preformatted(card.lines)] if card.lines else []
    parts += [_section(f"The whole is in {card.file[0]}, above.")] if card.file else []
    parts += [_section(text) for text in (card.hint if not card.is_over else "", card.left, card.notice) if text]
    blocks: list[dict[str, Any]] = [{"type": "rich_text", "elements": [part for part in parts if part]}]
    if card.choices and not card.is_over:
        blocks.append({"type": "actions", "elements": [_button(number, one.label, one.token) for number, one in enumerate(card.choices)]})
    line = " · ".join(filter(None, (card.notice if card.is_over else card.heading, card.text)))
    return {"blocks": blocks, "text": escaped(line), "parse": "none", "link_names": False}


def _section(text: str, *, bold: bool = False) -> dict[str, Any]:
    if not text:
        return {}
    style = {"style": {"bold": True}} if bold else {}
    return {"type": "rich_text_section", "elements": [{"type": "text", "text": f"{text}\n", **style}]}


def _preformatted(lines: Sequence[str]) -> dict[str, Any]:
    return {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "\n".join(lines) or " "}]}


def _button(number: int, label: str, token: str) -> dict[str, Any]:
    return {
        "type": "button",
        "action_id": f"choice-{number}",
        "text": {"type": "plain_text", "text": label, "emoji": False},
        "value": token,
    }


def _error(data: Any) -> str:
    return str(cast("Mapping[str, Any]", data).get("error") or "") if isinstance(data, Mapping) else ""


async def _called(calling: Awaitable[Any]) -> Any:
    """Wait for a call of Slack's API.

    Raises:
        ChannelAway: Not now.
        ChannelRefused: Never.
    """
    try:
        return (await calling).data
    except SlackApiError as error:
        response: Any = error.response
        status, headers = response.status_code, {str(name).lower(): str(value) for name, value in dict(response.headers or {}).items()}
        said = str(_error(response.data) or status)
        if status == _TOO_MANY or status >= _SERVERS_OWN or said in _PASSING:
            wait = headers.get("retry-after", "")
            raise ChannelAway(f"Slack: {said}.", after=float(wait) if wait.isdecimal() else None) from None
        raise ChannelRefused(f"Slack: {said}.") from None
    except (SlackRequestError, aiohttp.ClientError, OSError, TimeoutError, json.JSONDecodeError) as error:
        raise ChannelAway(f"Slack cannot be reached: {type(error).__name__}.") from None
