"""Headless Firefox, driven by WebDriver BiDi, with a local push service that delivers its
notifications.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import aiohttp
from aiohttp import web

from support.serving import free_port

MISSING: Final = (
    "" if shutil.which("firefox-esr") else "there is no Firefox: tools/task test-firefox"
)
_SECONDS = 120.0
_HOST = "127.0.0.1"


class PushService:
    """The browser's side of a push service: a WebSocket over which browsers subscribe and receive
    messages.
    """

    def __init__(self) -> None:
        self.acknowledged: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self.port = free_port()
        self._channels: dict[str, str] = {}
        self._browser: web.WebSocketResponse | None = None

    async def deliver(self, endpoint: str, body: bytes) -> None:
        """Send a message to the subscriber of an endpoint and wait for its acknowledgement."""
        assert self._browser is not None
        data = urlsafe_b64encode(body).rstrip(b"=").decode()
        told = {
            "channelID": self._channels[endpoint],
            "version": uuid4().hex,
            "data": data,
            "headers": {"encoding": "aes128gcm"},
        }
        await self._browser.send_json({"messageType": "notification", **told})
        await asyncio.wait_for(self.acknowledged.get(), _SECONDS)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        app = web.Application()
        app.router.add_get("/", self._connected)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, _HOST, self.port).start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def _connected(self, request: web.Request) -> web.WebSocketResponse:
        self._browser = browser = web.WebSocketResponse(protocols=["push-notification"])
        await browser.prepare(request)
        async for message in browser:
            if message.data != "{}":  # a keep-alive message
                await self._receive(browser, json.loads(message.data))
        return browser

    async def _receive(self, browser: web.WebSocketResponse, said: Mapping[str, Any]) -> None:
        match said["messageType"]:
            case "hello":
                await browser.send_json(
                    {
                        "messageType": "hello",
                        "uaid": uuid4().hex,
                        "status": 200,
                        "use_webpush": True,
                        "broadcasts": {},
                    }
                )
            case "register":
                endpoint = f"https://push.example.test/{uuid4().hex}"
                self._channels[endpoint] = said["channelID"]
                answer = {"channelID": said["channelID"], "status": 200, "pushEndpoint": endpoint}
                await browser.send_json({"messageType": "register", **answer})
            case "unregister":
                await browser.send_json(
                    {"messageType": "unregister", "channelID": said["channelID"], "status": 200}
                )
            case "ack":
                await self.acknowledged.put(said)
            case _:  # requests about other services of the browser
                pass


class Firefox:
    """One tab of Firefox."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._tab = ""

    async def begin(self) -> None:
        """Start the session and find the tab."""
        await self._command("session.new", {"capabilities": {}})
        tree = await self._command("browsingContext.getTree", {})
        self._tab = tree["contexts"][0]["context"]

    async def open(self, address: str) -> None:
        """Open a page and wait until it is loaded."""
        await self._command(
            "browsingContext.navigate", {"context": self._tab, "url": address, "wait": "complete"}
        )

    async def evaluate(self, script: str) -> Any:
        """Return the result of a script as JSON. Scripts count as user activation."""
        given = {
            "expression": f"(async () => JSON.stringify(await ({script}) ?? null))()",
            "awaitPromise": True,
            "userActivation": True,
        }
        said = await self._command("script.evaluate", {"target": {"context": self._tab}, **given})
        assert said["type"] == "success", said
        return json.loads(said["result"]["value"])

    async def until(self, script: str) -> Any:
        """Evaluate a script until its result is true; return the result."""
        async with asyncio.timeout(_SECONDS):
            while not (found := await self.evaluate(script)):  # noqa: ASYNC110  the awaited change happens in another process
                await asyncio.sleep(0.05)
            return found

    async def _command(self, method: str, given: Mapping[str, Any]) -> Any:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": given})
        while True:
            said = await asyncio.wait_for(self._socket.receive_json(), _SECONDS)
            if said.get("id") == number:
                assert said["type"] == "success", said
                return said["result"]


@asynccontextmanager
async def firefox(directory: Path, push: PushService) -> AsyncGenerator[Firefox]:
    """Run Firefox with a new profile that makes no requests to the internet."""
    preferences = {
        "dom.push.serverURL": f"ws://{_HOST}:{push.port}/",
        "dom.push.testing.allowInsecureServerURL": True,
        "dom.push.connection.enabled": True,
        # otherwise a driven browser does not connect to push services
        "remote.prefs.recommended": False,
        "alerts.useSystemBackend": False,  # there is no desktop
        "permissions.default.desktop-notification": 1,
        "network.captive-portal-service.enabled": False,
        "network.connectivity-service.enabled": False,
        "datareporting.policy.dataSubmissionEnabled": False,
        "browser.shell.checkDefaultBrowser": False,
        "app.normandy.enabled": False,
        "extensions.update.enabled": False,
        "services.settings.server": f"http://{_HOST}:1",
    }
    _write_profile(directory, preferences)
    port = free_port()
    command = [
        "firefox-esr",
        "--headless",
        "--no-remote",
        "--profile",
        str(directory),
        "--remote-debugging-port",
        str(port),
        "about:blank",
    ]
    environment = {**os.environ, "HOME": str(directory), "MOZ_CRASHREPORTER_DISABLE": "1"}
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=null, stderr=null
    )
    try:
        async with aiohttp.ClientSession() as session, _connected(session, port) as socket:
            browser = Firefox(socket)
            await browser.begin()
            yield browser
    finally:
        process.kill()
        await process.wait()


def _write_profile(directory: Path, preferences: Mapping[str, object]) -> None:
    directory.mkdir()
    lines = [
        f"user_pref({json.dumps(name)}, {json.dumps(value)});"
        for name, value in preferences.items()
    ]
    (directory / "user.js").write_text("\n".join(lines))


@asynccontextmanager
async def _connected(
    session: aiohttp.ClientSession, port: int
) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
    async with asyncio.timeout(_SECONDS):
        while True:
            with suppress(aiohttp.ClientError):
                socket = await session.ws_connect(f"ws://{_HOST}:{port}/session", max_msg_size=0)
                break
            await asyncio.sleep(0.1)
    async with socket:
        yield socket
