"""Fake Slack server, written from Slack's documentation: Web API, Socket Mode, rate limits,
errors.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web

from support.channels.limit import Limit
from support.channels.loopback import Loopback, serve_on_loopback
from support.waiting import until

BOT_TOKEN, APP_TOKEN = "xoxb-bot", "xapp-app"
BEGAN = 1_800_000_000.0  # fixed start of the server clock: 2027-01-15T08:00:00Z


class SlackServer:
    """A workspace. `faults` are the errors of the next calls of a method: status, error,
    headers.
    """

    def __init__(self) -> None:
        self.address = ""
        self.now: Callable[[], float] = lambda: BEGAN
        self.served: Loopback
        self.messages: dict[tuple[str, str], dict[str, Any]] = {}
        self.updates: list[dict[str, Any]] = []
        self.files: list[tuple[str, bytes]] = []
        self.faults: dict[str, list[tuple[int, str, dict[str, str]]]] = {}
        self.acknowledged: list[str] = []
        self.calls: list[str] = []
        self.sockets: list[web.WebSocketResponse] = []
        self.limit: Limit | None = None
        self.cuts_uploads = False
        self.unacknowledged: dict[str, dict[str, Any]] = {}
        self._sent: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count(1)
        self._uploads: dict[str, tuple[str, bytes]] = {}

    # User actions
    # ----------------------------------------------------------------------------------------------

    async def write(
        self, user: str, text: str, place: str = "D-ana", **more: Any
    ) -> dict[str, Any]:
        """Write a message as a user. It goes to the socket, if one is open, and to the
        history.
        """
        event = {
            "type": "message",
            "user": user,
            "text": text,
            "channel": place,
            "ts": self._ts(),
            **more,
        }
        self.messages[place, event["ts"]] = event
        await self._send(
            "events_api", {"type": "event_callback", "event_id": f"Ev{event['ts']}", "event": event}
        )
        return event

    async def press(self, user: str, place: str, ts: str, label: str) -> str:
        """Press a button as a user; return the ID of the envelope."""
        return await self.pressing(user, place, ts, label)()

    def pressing(self, user: str, place: str, ts: str, label: str) -> Callable[[], Awaitable[str]]:
        """Return a function that presses the button as it is now, even if the card changes
        later.
        """
        actions = next(
            block for block in self.messages[place, ts]["blocks"] if block["type"] == "actions"
        )
        button = next(one for one in actions["elements"] if one["text"]["text"] == label)
        action = {"type": "button", "action_id": button["action_id"], "value": button["value"]}
        pressed = {
            "type": "block_actions",
            "user": {"id": user},
            "channel": {"id": place},
            "message": {"ts": ts},
        }
        return lambda: self._send(
            "interactive", {**pressed, "actions": [{**action, "action_ts": self._ts()}]}
        )

    async def sent(self, number: int = 1) -> dict[str, Any]:
        """Wait for `number` messages of the bot; return the last."""
        await until(lambda: len(self.ours) >= number)
        return self.ours[-1]

    @property
    def ours(self) -> list[dict[str, Any]]:
        """Messages written by the bot."""
        return [one for one in self.messages.values() if one.get("bot_id")]

    async def drop(self) -> None:
        """Close every connection."""
        for socket in self.sockets:
            await socket.close()

    async def refresh(self, reason: str = "refresh_requested") -> None:
        """Ask the client to open a new connection, as Slack does about once an hour."""
        for socket in self.sockets:
            if not socket.closed:
                await socket.send_json({"type": "disconnect", "reason": reason})

    async def again(self, envelope: str) -> None:
        """Send an envelope again."""
        for socket in self.sockets:
            if not socket.closed:
                await socket.send_json(self._sent[envelope])

    def application(self) -> web.Application:
        """Return the web application of the server."""
        app = web.Application()
        app.add_routes(
            [
                web.route("*", "/api/{method}", self.call),
                web.post("/upload/{id}", self.upload),
                web.get("/socket", self.socket),
            ]
        )
        return app

    # Protocol
    # ----------------------------------------------------------------------------------------------

    async def _send(self, kind: str, payload: dict[str, Any]) -> str:
        id = f"envelope-{next(self._numbers)}"
        envelope = {
            "envelope_id": id,
            "type": kind,
            "payload": payload,
            "accepts_response_payload": False,
        }
        self._sent[id] = envelope
        self.unacknowledged[id] = envelope
        for socket in self.sockets:
            with suppress(ConnectionError):  # the client is gone and did not close the connection
                if not socket.closed:
                    await socket.send_json(envelope)
        return id

    async def call(self, request: web.Request) -> web.Response:
        """Handle a call of the Web API."""
        method = request.match_info["method"]
        self.calls.append(method)
        if faults := self.faults.get(method):
            status, error, headers = faults.pop(0)
            return web.json_response({"ok": False, "error": error}, status=status, headers=headers)
        token = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if request.headers.get("Authorization") != f"Bearer {token}":
            return web.json_response({"ok": False, "error": "invalid_auth"})
        if method == "chat.postMessage" and self.limit is not None and self.limit.wait():
            return web.json_response(
                {"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": "1"}
            )
        given = await _given(request)
        answer = getattr(self, f"_{method.replace('.', '_')}")(given)
        return web.json_response(
            {"ok": True, **answer} if isinstance(answer, dict) else {"ok": False, "error": answer}
        )

    def _auth_test(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"user_id": "U-bot", "team_id": "T1"}

    def _conversations_open(self, given: Mapping[str, Any]) -> dict[str, Any] | str:
        return {"channel": {"id": f"D-{given['users'].removeprefix('U-')}"}}

    def _chat_postMessage(self, given: Mapping[str, Any]) -> dict[str, Any] | str:  # noqa: N802  Slack's name
        problem = _problem(given)
        if problem:
            return problem
        ts = self._ts()
        self.messages[given["channel"], ts] = {**given, "ts": ts, "bot_id": "B1"}
        return {"channel": given["channel"], "ts": ts}

    def _chat_update(self, given: Mapping[str, Any]) -> dict[str, Any] | str:
        if (given["channel"], given["ts"]) not in self.messages:
            return "message_not_found"
        if problem := _problem(given):
            return problem
        self.messages[given["channel"], given["ts"]] = {**given, "bot_id": "B1"}
        self.updates.append(dict(given))
        return {"ts": given["ts"]}

    def _files_getUploadURLExternal(self, given: Mapping[str, Any]) -> dict[str, Any]:  # noqa: N802
        id = f"F{next(self._numbers)}"
        self._uploads[id] = (str(given["filename"]), b"")
        return {"upload_url": f"{self.address}/upload/{id}", "file_id": id}

    def _files_completeUploadExternal(self, given: Mapping[str, Any]) -> dict[str, Any]:  # noqa: N802
        self.files += [self._uploads[one["id"]] for one in given["files"]]
        return {"files": []}

    def _apps_connections_open(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"url": f"{self.address.replace('http', 'ws', 1)}/socket"}

    def _conversations_history(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return self._page(
            given, [one for one in self._of(given) if one.get("thread_ts", one["ts"]) == one["ts"]]
        )

    def _conversations_replies(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return self._page(
            given,
            [one for one in self._of(given) if given["ts"] in (one["ts"], one.get("thread_ts"))],
        )

    def _of(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            one
            for (place, ts), one in self.messages.items()
            if place == given["channel"] and ts > given.get("oldest", "")
        ]

    def _page(self, given: Mapping[str, Any], found: list[dict[str, Any]]) -> dict[str, Any]:
        """Return two messages per page, newest first."""
        newest = sorted(found, key=lambda one: one["ts"], reverse=True)
        at = int(given.get("cursor") or 0)
        following = str(at + 2) if at + 2 < len(newest) else ""
        return {"messages": newest[at : at + 2], "response_metadata": {"next_cursor": following}}

    async def upload(self, request: web.Request) -> web.Response:
        """Handle an upload."""
        content = await request.read()
        if self.cuts_uploads and request.transport is not None:
            request.transport.abort()
        id = request.match_info["id"]
        self._uploads[id] = (self._uploads[id][0], content)
        return web.Response()

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        """Handle a Socket Mode connection."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets.append(socket)
        await socket.send_json({"type": "hello", "num_connections": 1})
        for envelope in [*self.unacknowledged.values()]:
            await socket.send_json({**envelope, "retry_attempt": 1, "retry_reason": "timeout"})
        async for message in socket:
            id = json.loads(message.data)["envelope_id"]
            self.acknowledged.append(id)
            self.unacknowledged.pop(id, None)
        return socket

    def _ts(self) -> str:
        return f"{int(self.now())}.{next(self._numbers):06}"


async def _given(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        return await request.json()
    form = dict(await request.post())
    query: dict[str, Any] = {**request.query, **form}
    return {
        name: json.loads(value) if name in ("blocks", "files") else value
        for name, value in query.items()
    }


def _problem(given: Mapping[str, Any]) -> str:
    """Return which published limit a message exceeds."""
    blocks: list[dict[str, Any]] = given.get("blocks") or []
    if len(blocks) > 50 or len(str(given.get("text", ""))) > 40_000:
        return "msg_too_long"
    for block in blocks:
        elements: list[dict[str, Any]] = block["elements"] if block["type"] == "actions" else []
        for one in elements:
            if (
                len(one["text"]["text"]) > 75
                or len(one["value"]) > 2_000
                or len(one["action_id"]) > 255
            ):
                return "invalid_blocks"
    return (
        "invalid_blocks"
        if any(block["type"] == "actions" and len(block["elements"]) > 25 for block in blocks)
        else ""
    )


@asynccontextmanager
async def slack_server() -> AsyncGenerator[SlackServer]:
    """Run a workspace on loopback."""
    server = SlackServer()
    async with serve_on_loopback(server.application, server.drop) as server.served:
        server.address = server.served.address
        yield server
