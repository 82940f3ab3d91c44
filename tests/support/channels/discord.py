"""Fake Discord server, written from Discord's documentation: REST, gateway with RESUME, rate
limits, errors.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from support.channels.limit import Limit
from support.channels.loopback import Loopback, serve_on_loopback
from support.waiting import until

TOKEN = "bot-token"
_BOT = {"id": "1", "username": "midturn", "discriminator": "0", "avatar": None, "bot": True}
_EPOCH = 1_420_070_400_000  # origin of snowflake IDs: 2015-01-01T00:00:00Z
BEGAN = 1_800_000_000.0  # fixed start of the server clock: 2027-01-15T08:00:00Z


class DiscordServer:
    """A few channels. `faults` are the errors of the next requests of a kind: status, body,
    headers.
    """

    def __init__(self) -> None:
        self.address = ""
        self.served: Loopback
        self.now: Callable[[], float] = lambda: BEGAN
        self.messages: dict[str, dict[str, Any]] = {}
        self.files: dict[str, list[tuple[str, bytes]]] = {}
        self.sent_as: list[dict[str, Any]] = []
        self.faults: dict[str, list[tuple[int, Any, dict[str, str]]]] = {}
        self.acknowledged: list[str] = []
        self.limit: Limit | None = None
        self.cuts_callbacks = False
        self.sockets: list[web.WebSocketResponse] = []
        self.identified = 0
        self.resumed = 0
        self.close_with: int | None = None
        self._events: list[dict[str, Any]] = []
        self._numbers = itertools.count(1)

    # User actions
    # ----------------------------------------------------------------------------------------------

    async def write(
        self,
        user: str,
        text: str,
        place: str = "500",
        *,
        room: str = "",
        about: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        message = self._message(
            place, {"id": user, "username": f"u{user}", "discriminator": "0", "avatar": None}, text
        )
        if room:
            message["guild_id"] = room
        if about:
            message |= {
                "type": 19,
                "message_reference": {"type": 0, "message_id": about, "channel_id": place},
            }
        message |= more
        self.messages[message["id"]] = message
        await self._dispatch("MESSAGE_CREATE", message)
        return message

    async def press(self, user: str, message: str, label: str, *, room: str = "") -> None:
        await self.pressing(user, message, label, room=room)()

    def pressing(
        self, user: str, message: str, label: str, *, room: str = ""
    ) -> Callable[[], Awaitable[None]]:
        """Return a function that presses the button as it is now, even if the card changes
        later.
        """
        shown = self.messages[message]
        buttons = [one for row in shown["components"] for one in row["components"]]
        custom_id = next(one["custom_id"] for one in buttons if one["label"] == label)
        who = {"id": user, "username": f"u{user}", "discriminator": "0", "avatar": None}
        pressed: dict[str, Any] = {
            "id": self._id(),
            "application_id": "1",
            "type": 3,
            "data": {"custom_id": custom_id, "component_type": 2},
            "channel_id": shown["channel_id"],
            "channel": {"id": shown["channel_id"], "type": 1},
            "token": "interaction-token",
            "version": 1,
            "message": shown,
            "entitlements": [],
            "authorizing_integration_owners": {},
            "attachment_size_limit": 0,
        }
        member: dict[str, Any] = {
            "member": {
                "user": who,
                "roles": [],
                "joined_at": None,
                "deaf": False,
                "mute": False,
                "permissions": "0",
                "flags": 0,
            }
        }
        pressed |= {"guild_id": room, **member} if room else {"user": who}
        return lambda: self._dispatch("INTERACTION_CREATE", {**pressed, "id": self._id()})

    async def edit(self, user: str, text: str, *, about: str) -> None:
        message = self._message(
            "500", {"id": user, "username": f"u{user}", "discriminator": "0", "avatar": None}, text
        )
        reply = {
            "type": 19,
            "message_reference": {"type": 0, "message_id": about, "channel_id": "500"},
        }
        await self._dispatch(
            "MESSAGE_UPDATE", {**message, **reply, "edited_timestamp": message["timestamp"]}
        )

    @property
    def ours(self) -> list[dict[str, Any]]:
        """Messages written by the bot."""
        return [one for one in self.messages.values() if one["author"]["id"] == "1"]

    async def drop(self, code: int = 1001) -> None:
        """Close every connection."""
        for socket in self.sockets:
            await socket.close(code=code)

    async def connected(self, times: int = 1) -> None:
        await until(lambda: self.identified + self.resumed >= times)

    def application(self) -> web.Application:
        """Return the web application of the server."""
        app = web.Application()
        app.add_routes(
            [
                web.route("*", "/api/{path:.*}", self.rest),
                web.get("/gateway", self.gateway),
                web.get("/gateway/", self.gateway),
            ]
        )
        return app

    # Protocol
    # ----------------------------------------------------------------------------------------------

    async def _dispatch(self, name: str, data: dict[str, Any]) -> None:
        event = {"op": 0, "t": name, "s": len(self._events) + 2, "d": data}
        self._events.append(event)
        for socket in self.sockets:
            with suppress(ConnectionError):  # the client is gone and did not close the connection
                if not socket.closed:
                    await socket.send_json(event)

    async def gateway(self, request: web.Request) -> web.WebSocketResponse:
        """Handle a gateway connection."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": 41_250}})
        async for message in socket:
            told = json.loads(message.data)
            if told["op"] == 1:
                await socket.send_json({"op": 11})
            elif self.close_with is not None or (
                told["op"] in (2, 6) and told["d"]["token"] != TOKEN
            ):
                await socket.close(code=self.close_with or 4004)
            elif told["op"] == 2:
                await self._identify(socket)
            elif told["op"] == 6:
                await self._resume(socket, told["d"]["seq"])
        return socket

    async def _identify(self, socket: web.WebSocketResponse) -> None:
        self.identified += 1
        self._events.clear()
        application = {"id": "1", "flags": 0}
        ready: dict[str, Any] = {
            "v": 10,
            "user": _BOT,
            "session_id": "session",
            "resume_gateway_url": self._gateway,
            "guilds": [],
            "application": application,
        }
        await socket.send_json({"op": 0, "t": "READY", "s": 1, "d": ready})
        self.sockets.append(socket)

    async def _resume(self, socket: web.WebSocketResponse, seen: int) -> None:
        self.resumed += 1
        for event in self._events:
            if event["s"] > seen:
                await socket.send_json(event)
        await socket.send_json({"op": 0, "t": "RESUMED", "s": len(self._events) + 1, "d": {}})
        self.sockets.append(socket)

    @property
    def _gateway(self) -> str:
        return f"{self.address.replace('http', 'ws', 1)}/gateway"

    async def rest(self, request: web.Request) -> web.StreamResponse:  # noqa: C901, PLR0911, PLR0912  a line for each
        """Handle a REST request."""
        path = request.match_info["path"]
        kind = f"{request.method} {path.partition('/')[0]}"
        if faults := self.faults.get(kind):
            status, body, headers = faults.pop(0)
            return _json(body, status=status, headers={"Via": "1.1 google", **headers})
        if request.headers.get("Authorization") != f"Bot {TOKEN}" and not path.startswith(
            "interactions/"
        ):
            return _json({"message": "401: Unauthorized", "code": 0}, status=401)
        match request.method, path.split("/"):
            case "GET", ["users", "@me"]:
                return _json(_BOT)
            case "GET", ["oauth2", "applications", "@me"]:
                about = {
                    "id": "1",
                    "name": "midturn",
                    "description": "",
                    "icon": None,
                    "bot_public": False,
                    "bot_require_code_grant": False,
                }
                return _json({**about, "owner": _BOT, "verify_key": "", "flags": 0})
            case "GET", ["gateway", *_]:
                return _json({"url": self._gateway, "shards": 1, "session_start_limit": {}})
            case "POST", ["users", "@me", "channels"]:
                user = str((await request.json())["recipient_id"])
                who = {"id": user, "username": f"u{user}", "discriminator": "0", "avatar": None}
                return _json({"id": "500", "type": 1, "recipients": [who], "last_message_id": None})
            case "POST", ["channels", _, "messages"] if self.limit is not None and (
                wait := self.limit.wait()
            ):
                limited = {
                    "message": "You are being rate limited.",
                    "retry_after": wait,
                    "global": True,
                }
                return _json(
                    limited,
                    status=429,
                    headers={"Via": "1.1 google", "Retry-After": "1", "X-RateLimit-Global": "true"},
                )
            case "POST", ["channels", place, "messages"]:
                return await self._written(request, place, self._message(place, _BOT, ""))
            case "PATCH", ["channels", place, "messages", message]:
                if message not in self.messages:
                    return _json({"message": "Unknown Message", "code": 10008}, status=404)
                return await self._written(request, place, self.messages[message])
            case "GET", ["channels", place, "messages"]:
                after = int(request.query.get("after", 0))
                of = [
                    one
                    for one in self.messages.values()
                    if one["channel_id"] == place and int(one["id"]) > after
                ]
                return _json(
                    sorted(of, key=lambda one: -int(one["id"]))[
                        -int(request.query.get("limit", 50)) :
                    ]
                )
            case "POST", ["interactions", _, _, "callback"]:
                self.acknowledged.append(path)
                if self.cuts_callbacks and request.transport is not None:
                    request.transport.abort()
                return (
                    _json({"interaction": {"id": "1", "type": 3}})
                    if request.query
                    else web.Response(status=204)
                )
            case _:
                return _json({"message": "404: Not Found", "code": 0}, status=404)

    async def _written(
        self, request: web.Request, place: str, message: dict[str, Any]
    ) -> web.Response:
        given, files = await _given(request)
        self.sent_as.append(given)
        rows: list[dict[str, Any]] = given.get("components") or []
        buttons: list[dict[str, str]] = [one for row in rows for one in row["components"]]
        is_too_long = len(given.get("content") or "") > 2_000
        if (
            is_too_long
            or any(len(one["label"]) > 80 or len(one["custom_id"]) > 100 for one in buttons)
            or len(buttons) > 25
        ):
            return _json({"message": "Invalid Form Body", "code": 50035}, status=400)
        message |= {"content": given.get("content"), "components": given.get("components") or []}
        self.messages[message["id"]] = message
        self.files.setdefault(message["id"], []).extend(files)
        return _json({**message, "channel_id": place})

    def _message(self, place: str, author: dict[str, Any], text: str) -> dict[str, Any]:
        empty: dict[str, Any] = {
            name: []
            for name in ("mentions", "mention_roles", "attachments", "embeds", "components")
        }
        flags = {"tts": False, "mention_everyone": False, "pinned": False, "type": 0, "flags": 0}
        at = {
            "timestamp": datetime.fromtimestamp(self.now(), UTC).isoformat(),
            "edited_timestamp": None,
        }
        return {
            "id": self._id(),
            "channel_id": place,
            "author": author,
            "content": text,
            **empty,
            **flags,
            **at,
        }

    def _id(self) -> str:
        return str(((int(1_000 * self.now()) - _EPOCH) << 22) + next(self._numbers))


def _json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Answer without a charset in the content type, as Discord does. Its library compares the
    header.
    """
    return web.Response(
        body=json.dumps(body).encode(),
        status=status,
        headers={"Content-Type": "application/json", **(headers or {})},
    )


async def _given(request: web.Request) -> tuple[dict[str, Any], list[tuple[str, bytes]]]:
    if request.content_type == "application/json":
        return await request.json(), []
    form = await request.post()
    given, files = (
        form["payload_json"],
        [one for name, one in form.items() if name.startswith("files")],
    )
    assert isinstance(given, str)
    return json.loads(given), [
        (one.filename, one.file.read()) for one in files if isinstance(one, web.FileField)
    ]


@asynccontextmanager
async def discord_server() -> AsyncGenerator[DiscordServer]:
    """Run the server on loopback."""
    server = DiscordServer()
    async with serve_on_loopback(server.application, server.drop) as server.served:
        server.address = server.served.address
        yield server
