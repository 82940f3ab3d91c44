"""Fake ntfy server and app, written from ntfy's documentation: topics, streams with `since`,
JSON, files, tokens, limits.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from support.channels.limit import Limit
from support.channels.loopback import Loopback, serve_on_loopback

TOPIC = "ana-questions"
_SHORTEST, _JSON = 4_096, 8_192


class NtfyServer:
    """An ntfy server.

    `access` maps a token to its rights by topic (`*` for all): `rw`, `r` or `w`. If it is empty,
    everything is allowed. `faults` are the errors of the next requests by kind (`publish`,
    `stream`, `file`): status and headers.
    """

    def __init__(self) -> None:
        self.address = ""
        self.served: Loopback
        self.messages: list[dict[str, Any]] = []
        self.files: list[tuple[str, bytes]] = []
        self.access: dict[str, dict[str, str]] | None = None
        self.faults: dict[str, list[tuple[int, dict[str, str]]]] = {}
        self.keepalive = 45.0
        self.takes_files = True
        self.limit: Limit | None = None
        self.streams: list[web.StreamResponse] = []
        self._numbers = itertools.count(1)
        self._news = asyncio.Condition()

    # User actions and view
    # ----------------------------------------------------------------------------------------------

    def shown(self, topic: str = TOPIC) -> list[dict[str, Any]]:
        """Return what an app shows: the newest message of each sequence, in the order of the
        first messages.
        """
        newest: dict[str, dict[str, Any]] = {}
        for message in self.messages:
            if (
                message["topic"] == topic
                and "attachment" not in message
                and "midturn" in message.get("tags", [])
            ):
                newest[message.get("sequence_id", message["id"])] = message
        return list(newest.values())

    def answers(self, topic: str = TOPIC) -> str:
        """Return the topic to which the buttons of a topic post."""
        return str(self.shown(topic)[-1]["actions"][0]["url"]).rpartition("/")[2]

    async def press(self, message: dict[str, Any], label: str) -> int:
        """Press a button: send its request and return the status."""
        action = next(action for action in message["actions"] if action["label"] == label)
        async with aiohttp.ClientSession() as session:
            request = session.request(
                action["method"], action["url"], data=action["body"], headers=action["headers"]
            )
            async with request as response:
                return response.status

    async def write(self, text: str, topic: str = TOPIC, **more: Any) -> dict[str, Any]:
        """Write to a topic. `more` are fields that programs set, such as a title or tags."""
        return await self._post({"topic": topic, "message": text, **more})

    async def drop(self) -> None:
        """Close every stream."""
        for stream in self.streams:
            if stream.task is not None:
                stream.task.cancel()
        self.streams.clear()

    def application(self) -> web.Application:
        """Return the web application of the server."""
        application = web.Application(client_max_size=32_000_000)
        for method in ("POST", "PUT"):
            application.router.add_route(method, "/", self.publish)
            application.router.add_route(method, "/{topic}", self.publish)
        application.router.add_get("/{topics}/json", self.stream)
        return application

    # Requests
    # ----------------------------------------------------------------------------------------------

    async def publish(self, request: web.Request) -> web.Response:
        """Publish a message: JSON at the root, a body at a topic, or a file if a file name is
        given.
        """
        topic, body = request.match_info.get("topic", ""), await request.read()
        kind = "file" if "Filename" in request.headers else "publish"
        if (refused := self._refused(request, kind)) is not None:
            return refused
        if not topic:
            if len(body) > _JSON:
                return _error(413, 41303, "JSON too large")
            told: dict[str, Any] = json.loads(body)
            topic = str(told["topic"])
        elif kind == "file":
            if not self.takes_files:
                return _error(400, 40014, "attachments not allowed")
            name = str(request.headers["Filename"])
            self.files.append((name, body))
            told = {
                "message": request.headers.get("Message", ""),
                "tags": request.headers.get("Tags", "").split(","),
                "attachment": name,
            }
        else:
            told = {"message": body.decode()}
        if not self._may(request, topic, "w"):
            return _error(403, 40301, "forbidden")
        if len(str(told.get("message", "")).encode()) > _SHORTEST:
            told = {
                **told,
                "message": "You received a file: attachment.txt",
                "attachment": "attachment.txt",
            }
        if len(told.get("actions", ())) > 3:
            return _error(400, 40018, "actions invalid")
        return web.json_response(await self._post({**told, "topic": topic}))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Send the messages since an ID or a time. Unless it is a poll, also send new messages
        and keep-alives.
        """
        topics = request.match_info["topics"].split(",")
        if (refused := self._refused(request, "stream")) is not None:
            return refused
        if not all(self._may(request, topic, "r") for topic in topics):
            return _error(403, 40301, "forbidden")
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        poll = request.query.get("poll") == "1"
        if not poll:
            self.streams.append(response)
            await _tell(
                response,
                {
                    "id": "open",
                    "time": int(time.time()),
                    "event": "open",
                    "topic": ",".join(topics),
                },
            )
        place = self._place(request.query.get("since", ""))
        while True:
            for message in self.messages[place:]:
                if message["topic"] in topics:
                    await _tell(response, message)
            place = len(self.messages)
            if poll:
                return response
            if not await self._came(place):
                try:
                    await _tell(
                        response,
                        {
                            "id": "alive",
                            "time": int(time.time()),
                            "event": "keepalive",
                            "topic": ",".join(topics),
                        },
                    )
                except ConnectionResetError:
                    return response

    async def _came(self, place: int) -> bool:
        """Wait for new messages or until a keep-alive is due."""
        async with self._news:
            try:
                async with asyncio.timeout(self.keepalive):
                    await self._news.wait_for(lambda: len(self.messages) > place)
            except TimeoutError:
                return False
        return True

    def _place(self, since: str) -> int:
        if since in ("", "none"):
            return len(self.messages)
        if since[:-1].isdecimal() and since.endswith("s"):
            after = time.time() - int(since[:-1])
            return next(
                (place for place, message in enumerate(self.messages) if message["time"] >= after),
                len(self.messages),
            )
        found = [place for place, message in enumerate(self.messages) if message["id"] == since]
        return found[0] + 1 if found else 0  # an ID that was deleted: everything that is kept

    def _refused(self, request: web.Request, kind: str) -> web.Response | None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.access is not None and token not in self.access:
            return _error(401, 40101, "unauthorized")
        if faults := self.faults.get(kind):
            status, headers = faults.pop(0)
            return _error(status, status * 100 + 1, "a fault", headers)
        if self.limit is None or kind == "stream" or not self.limit.wait():
            return None
        return _error(429, 42901, "limit reached: too many requests, please be nice")

    def _may(self, request: web.Request, topic: str, what: str) -> bool:
        if self.access is None:
            return True
        allowed = self.access[request.headers.get("Authorization", "").removeprefix("Bearer ")]
        return what in allowed.get(topic, allowed.get("*", ""))

    async def _post(self, told: dict[str, Any]) -> dict[str, Any]:
        written = int(time.time())
        made: dict[str, Any] = {
            "id": f"{next(self._numbers):04}{secrets.token_hex(4)}",
            "time": written,
            "event": "message",
        }
        actions = [{"id": secrets.token_hex(5), **action} for action in told.get("actions", ())]
        message: dict[str, Any] = {
            **made,
            "expires": written + 43_200,
            **told,
            **({"actions": actions} if actions else {}),
        }
        self.messages.append(message)
        async with self._news:
            self._news.notify_all()
        return message


async def _tell(response: web.StreamResponse, told: dict[str, Any]) -> None:
    await response.write(json.dumps(told).encode() + b"\n")


def _error(
    status: int, code: int, said: str, headers: dict[str, str] | None = None
) -> web.Response:
    link = "https://ntfy.sh/docs/publish/#limitations"
    return web.json_response(
        {"code": code, "http": status, "error": said, "link": link}, status=status, headers=headers
    )


@asynccontextmanager
async def ntfy_server() -> AsyncGenerator[NtfyServer]:
    """Run the server on loopback."""
    server = NtfyServer()
    async with serve_on_loopback(server.application) as server.served:
        server.address = server.served.address
        yield server
