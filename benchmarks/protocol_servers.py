"""Cost of the AG-UI server: the first text of a run against `agent.stream` in one process, and the
memory of `midturn agui serve` with 500 idle event connections.

`python benchmarks/protocol_servers.py [ROUNDS]`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import midturn as mt
from midturn.agent.turn_stream import TextDelta
from midturn.integrations import agui

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
CONNECTIONS = 500
MAX_RATIO = 1.3
MAX_MEGABYTES = 100
_TOKEN = "0123456789abcdef0123456789abcdef"
_HEADERS = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]


async def first_text_of_stream(agent: mt.Agent, number: int) -> float:
    """Return the seconds until the first text of a turn of a conversation with a key."""
    began = time.perf_counter()
    conversation = await agent.store.new("Hello.", key=f"t{number}")
    async with agent.stream("Hello.", conversation=conversation, key=f"r{number}") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                return time.perf_counter() - began
    raise AssertionError("the turn has no text")


async def first_events_of_run(app: Any, number: int) -> tuple[float, float]:
    """Return the seconds until the first event and the first text of a run. The request is made
    without a socket.
    """
    message = {"id": f"m{number}", "role": "user", "content": "Hello."}
    run = {"threadId": f"t{number}", "runId": f"r{number}", "messages": [message]}
    body = json.dumps({**run, "protocolVersion": "1.0"}).encode()
    first: list[float] = []
    texts: list[float] = []
    given = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if given:
            return given.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        for name, times in ((b"RUN_STARTED", first), (b"TEXT_MESSAGE_CONTENT", texts)):
            if name in message.get("body", b""):
                times.append(time.perf_counter() - began)

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "root_path": ""}
    scope |= {"headers": _HEADERS, "scheme": "http", "http_version": "1.1"}
    began = time.perf_counter()
    await app({**scope, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}, receive, send)
    return first[0], texts[0]


async def first_texts(directory: Path) -> None:
    """Compare both ways, one round of each in turn, so that other load affects both."""

    def agent(name: str) -> mt.Agent:
        model = mt.FunctionModel(lambda _: "Hello to you.")
        return mt.Agent(model, store=mt.open_store(directory / name))

    streaming, app = agent("stream"), agui.app(agent("agui"), user=lambda _: "ada", work=False)
    rounds = [
        (await first_text_of_stream(streaming, number), *await first_events_of_run(app, number))
        for number in range(ROUNDS + 5)
    ]
    stream, event, text = (
        1000 * statistics.median(times) for times in zip(*rounds[5:], strict=True)
    )
    print(f"first text of `agent.stream`                {stream:8.2f} ms")
    print(f"first event of an AG-UI run                 {event:8.2f} ms")
    print(f"first text of an AG-UI run                  {text:8.2f} ms")
    print(f"ratio of the texts (goal: at most {MAX_RATIO})    {text / stream:8.2f}")


@asynccontextmanager
async def _server(directory: Path) -> AsyncGenerator[tuple[int, int]]:
    """Run `midturn agui serve`. Yield its port and its process ID."""
    script, token = directory / "play.json", directory / "token"
    script.write_text(json.dumps({"replies": [{"text": "Hello to you."}]}))
    token.write_text(_TOKEN)
    token.chmod(0o600)
    homes = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    environment = {**os.environ, **{name: str(directory / name) for name in homes}}
    command = [sys.executable, "-m", "midturn", "agui", "serve", "--port", "0"]
    command += ["-m", f"scripted:{script}", "--token-file", str(token)]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=directory, env=environment, stderr=subprocess.PIPE
    )
    assert process.stderr
    try:
        line = (await process.stderr.readline()).decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found, line
        yield int(found[1]), process.pid
    finally:
        process.kill()
        await process.wait()


async def _request(port: int, method: str, path: str, body: bytes = b"") -> asyncio.StreamReader:
    """Send a request, and return the connection when the head of the response has arrived."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {_TOKEN}\r\n"
    )
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    response = await reader.readuntil(b"\r\n\r\n")
    assert response.startswith(b"HTTP/1.1 200"), response
    _OPEN.append(writer)
    return reader


_OPEN: list[asyncio.StreamWriter] = []


def _megabytes(pid: int) -> float:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError


async def idle_connections(directory: Path) -> None:
    """Measure the memory of a server that many front ends watch."""
    async with _server(directory) as (port, pid):
        message = {"id": "m", "role": "user", "content": "Hello."}
        run = {"threadId": "t1", "runId": "r1", "messages": [message], "protocolVersion": "1.0"}
        reader = await _request(port, "POST", "/", json.dumps(run).encode())
        await reader.readuntil(b"RUN_FINISHED")
        before = _megabytes(pid)
        for _ in range(CONNECTIONS):
            await _request(port, "GET", "/threads/t1/events")
        await asyncio.sleep(2)  # the memory settles; the figure is no test
        after = _megabytes(pid)
        for writer in _OPEN:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    print(f"memory of `midturn agui serve`              {before:8.1f} MB")
    print(f"with {CONNECTIONS} idle connections (goal: {MAX_MEGABYTES})     {after:8.1f} MB")
    print(
        f"for each connection                         {(after - before) * 1024 / CONNECTIONS:8.1f} KiB"
    )


async def main() -> None:
    """Print the figures."""
    with TemporaryDirectory() as directory:
        await first_texts(Path(directory))
        await idle_connections(Path(directory))


if __name__ == "__main__":
    asyncio.run(main())
