"""Fake model provider on the loopback interface, with configurable failures. It keeps the
requests that it received.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from msgspec import Struct

from support.providers.answers import Answer, Fails, Says
from support.providers.wires import failure, stream, wire_of

SILENCE = 30.0  # seconds without data; clients time out earlier
_LOOK = 0.01
GARBAGE = b"data: {this is not JSON\n\n"


class Received(Struct):
    """One request with its raw bytes. `left` is set when the client closed the connection
    before the end of the answer.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    left: bool = False

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


class Loopback:
    """Answers each request with the next of `answers`, and repeats the last. Accepts any path
    of the four wires.
    """

    def __init__(self, *answers: Answer, models: tuple[str, ...] = ()) -> None:
        self.received: list[Received] = []
        self._answers = list(answers)
        self._models = models
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loopback", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        """The server's address without a path."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                request = await _read(reader)
                self.received.append(request)
                await self._answer(request, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(
        self, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        wire = wire_of(request.path)
        if request.method == "GET" and request.path.endswith("/models"):
            listed = json.dumps(
                {
                    "object": "list",
                    "data": [{"id": name, "object": "model"} for name in self._models],
                }
            ).encode()
            await _send(writer, 200, listed)
        elif wire is None:
            await _send(writer, 404, b'{"error": {"message": "no such path"}}')
        else:
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            if isinstance(answer, Fails):
                await _send(
                    writer, answer.status, failure(wire, answer), retry_after=answer.retry_after
                )
            else:
                await self._stream(answer, stream(wire, answer), (request, reader, writer))

    async def _stream(
        self,
        says: Says,
        chunks: list[bytes],
        to: tuple[Received, asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        request, reader, writer = to
        gone = asyncio.create_task(_gone(reader, request))
        try:
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding:"
                b" chunked\r\n\r\n"
            )
            first = chunks if says.after == "goes_on" else chunks[: _first_words(chunks, says)]
            while len(self.received) < says.waits_for:  # noqa: ASYNC110  (requests come in other tasks, and set no event)
                await asyncio.sleep(_LOOK)
            for chunk in first:
                await _chunk(writer, chunk)
            if says.after == "silence":
                await asyncio.wait([gone], timeout=SILENCE)
            if says.after == "garbage":
                await _chunk(writer, GARBAGE)
            if says.after == "cut":
                raise ConnectionResetError
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)


def _first_words(chunks: list[bytes], says: Says) -> int:
    """Return the number of chunks up to the first words, or 2 if there are none."""
    first = (says.text or says.reasoning).split(" ")[0].encode()
    return next((place + 1 for place, chunk in enumerate(chunks) if first and first in chunk), 2)


async def _gone(reader: asyncio.StreamReader, request: Received) -> None:
    """Set `left` when the client closes the connection."""
    request.left = not await reader.read(1)


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {
        name.lower(): value
        for name, _, value in (line.partition(": ") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body)


async def _send(
    writer: asyncio.StreamWriter, status: int, body: bytes, retry_after: str | None = None
) -> None:
    wait = f"retry-after: {retry_after}\r\n" if retry_after else ""
    writer.write(
        f"HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length:"
        f" {len(body)}\r\n{wait}\r\n".encode()
        + body
    )
    await writer.drain()


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()
    await asyncio.sleep(0)
