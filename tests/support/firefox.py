"""Firefox without a screen, driven by WebDriver BiDi, and a push service for it on this machine: it takes its texts from there."""

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

MISSING: Final = "" if shutil.which("firefox-esr") else "there is no Firefox: make test-firefox"
_SECONDS = 60.0
_HOST = "127.0.0.1"


class PushService:
    """The side of a push service that browsers see: a WebSocket, over which they subscribe and are sent what others bring for them."""

    def __init__(self) -> None:
        self.acknowledged: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self.port = free_port()
        self._channels: dict[str, str] = {}
        self._browser: web.WebSocketResponse | None = None

    async def deliver(self, endpoint: str, body: bytes) -> None:
        """Send the subscriber of an endpoint what was brought for it, and wait until it says that it has it."""
        assert self._browser is not None
        data = urlsafe_b64encode(body).rstrip(b"=").decode()
        told = {"channelID": self._channels[endpoint], "version": uuid4().hex, "data": data, "headers": {"encoding": "aes128gcm"}}
        await self._browser.send_json({"messageType": "notification", **told})
        await asyncio.wait_for(self.acknowledged.get(), _SECONDS)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Serve it."""
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
            if message.data != "{}":  # which asks whether we are there
                await self._heard(browser, json.loads(message.data))
        return browser

    async def _heard(self, browser: web.WebSocketResponse, said: Mapping[str, Any]) -> None:
        match said["messageType"]:
            case "hello":
                await browser.send_json({"messageType": "hello", "uaid": uuid4().hex, "status": 200, "use_webpush": True, "broadcasts": {}})
            case "register":
                endpoint = f"https://push.example.test/{uuid4().hex}"
                self._channels[endpoint] = said["channelID"]
                answer = {"channelID": said["channelID"], "status": 200, "pushEndpoint": endpoint}
                await browser.send_json({"messageType": "register", **answer})
            case "unregister":
                await browser.send_json({"messageType": "unregister", "channelID": said["channelID"], "status": 200})
            case "ack":
                await self.acknowledged.put(said)
            case _:  # whether all is well with other things of the browser
                pass


class Firefox:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._tab = ""

    async def begin(self) -> None:
        """Find the tab."""
        await self._told("session.new", {"capabilities": {}})
        tree = await self._told("browsingContext.getTree", {})
        self._tab = tree["contexts"][0]["context"]

    async def open(self, address: str) -> None:
        """Go to a page, and wait for it."""
        await self._told("browsingContext.navigate", {"context": self._tab, "url": address, "wait": "complete"})

    async def evaluate(self, script: str) -> Any:
        """Return what a script comes to, as JSON; a press is a person's."""
        given = {"expression": f"(async () => JSON.stringify(await ({script}) ?? null))()", "awaitPromise": True, "userActivation": True}
        said = await self._told("script.evaluate", {"target": {"context": self._tab}, **given})
        assert said["type"] == "success", said
        return json.loads(said["result"]["value"])

    async def until(self, script: str) -> Any:
        """Return what a script comes to, once that is something."""
        async with asyncio.timeout(_SECONDS):
            while not (found := await self.evaluate(script)):  # noqa: ASYNC110  what is waited for happens in another process
                await asyncio.sleep(0.05)
            return found

    async def _told(self, method: str, given: Mapping[str, Any]) -> Any:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": given})
        while True:
            said = await asyncio.wait_for(self._socket.receive_json(), _SECONDS)
            if said.get("id") == number:
                assert said["type"] == "success", said
                return said["result"]


@asynccontextmanager
async def firefox(directory: Path, push: PushService) -> AsyncGenerator[Firefox]:
    """Run Firefox with a new profile; it asks nothing of the world."""
    preferences = {
        "dom.push.serverURL": f"ws://{_HOST}:{push.port}/",
        "dom.push.testing.allowInsecureServerURL": True,
        "dom.push.connection.enabled": True,
        "remote.prefs.recommended": False,  # else a browser that is driven speaks with no push service
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
    command = ["firefox-esr", "--headless", "--no-remote", "--profile", str(directory), "--remote-debugging-port", str(port), "about:blank"]
    environment = {**os.environ, "HOME": str(directory), "MOZ_CRASHREPORTER_DISABLE": "1"}
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=null, stderr=null)
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
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in preferences.items()]
    (directory / "user.js").write_text("\n".join(lines))


@asynccontextmanager
async def _connected(session: aiohttp.ClientSession, port: int) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
    async with asyncio.timeout(_SECONDS):
        while True:
            with suppress(aiohttp.ClientError):
                socket = await session.ws_connect(f"ws://{_HOST}:{port}/session", max_msg_size=0)
                break
            await asyncio.sleep(0.1)
    async with socket:
        yield socket
