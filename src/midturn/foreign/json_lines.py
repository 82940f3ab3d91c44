"""JSON-RPC in lines: requests in both directions at once, each with its answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, cast

from midturn.core.json_value import Json, JsonObject
from midturn.core.loose_json import members, text

Delivered: TypeAlias = Callable[[], Awaitable[None]]
_UNKNOWN, _FAILED = -32601, -32603


class RequestRefused(Exception):  # noqa: N818  it says what is the case
    """The other side answers a request with an error, or is to be answered with one."""

    def __init__(self, message: str, code: int = _FAILED) -> None:
        super().__init__(message)
        self.code = code


class Side(Protocol):
    """Our side of a connection."""

    async def asked(self, method: str, params: JsonObject) -> tuple[JsonObject, Delivered]:
        """Answer a request: with what, and what is to be done once it is sent.

        Raises:
            RequestRefused: There is no answer but an error.
        """
        ...

    def told(self, method: str, params: JsonObject) -> None:
        """Hear a notification."""
        ...


class HungUp(ConnectionError):  # noqa: N818  it says what is the case
    """The other side says nothing any more."""


def unknown(method: str) -> RequestRefused:
    """Return the answer to a request that nobody here knows."""
    return RequestRefused(f"There is no method {method} here.", _UNKNOWN)


class JsonLines:
    """One connection. Each request of the other side is answered in a task of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: Side) -> None:
        self._reader = reader
        self._writer = writer
        self._side = side
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._answering: dict[str, asyncio.Task[None]] = {}
        self._delivering: set[asyncio.Task[None]] = set()
        self._is_over = False

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Ask the other side.

        Raises:
            RequestRefused: It answers with an error.
            HungUp: It went away.
        """
        if self._is_over:
            raise HungUp
        self._number += 1
        future = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        await self._send({"method": method, "id": self._number, "params": params})
        return members(await future)

    async def tell(self, method: str) -> None:
        """Notify the other side."""
        await self._send({"method": method})

    def withdraw(self, id: Json) -> None:
        """Answer a request of the other side no more: it is decided there."""
        task = self._answering.pop(json.dumps(id), None)
        if task:
            task.cancel()

    def is_withdrawn(self) -> bool:
        """Say whether the other side has withdrawn the request that is being answered by whoever asks this."""
        return asyncio.current_task() not in self._answering.values()

    async def listen(self) -> None:
        """Take what comes, until nothing comes any more; what was to be answered is given up then, and what was answered is noted."""
        try:
            while line := await self._reader.readline():
                self._take(line)
        except (ValueError, ConnectionError):  # a line without end, or a stream that breaks
            pass
        finally:
            self._is_over = True
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(HungUp())
            tasks = list(self._answering.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, *self._delivering, return_exceptions=True)

    def _take(self, line: bytes) -> None:
        try:
            message = members(json.loads(line))
        except (ValueError, RecursionError):
            return  # nobody waits for what is not a message
        method, number, params = text(message.get("method")), message.get("id"), members(message.get("params"))
        if method and number is not None:
            self._answering[json.dumps(number)] = asyncio.create_task(self._answer(method, params, number))
        elif method:
            self._side.told(method, params)
        elif isinstance(number, int) and (future := self._waiting.pop(number, None)) and not future.done():
            if "error" in message:
                future.set_exception(RequestRefused(text(members(message["error"]).get("message")) or "it does not say why"))
            else:
                future.set_result(message.get("result"))

    async def _answer(self, method: str, params: JsonObject, id: Json) -> None:
        delivered: Delivered = _nothing
        try:
            result, delivered = await self._side.asked(method, params)
            answer: JsonObject = {"id": id, "result": result}
        except RequestRefused as refused:
            answer = {"id": id, "error": {"code": refused.code, "message": str(refused)}}
        self._answering.pop(json.dumps(id), None)
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._delivering.add(task)
        task.add_done_callback(self._delivering.discard)
        await self._send(answer)
        await delivered()

    async def _send(self, message: JsonObject) -> None:
        try:
            self._writer.write(json.dumps(message).encode() + b"\n")
            await self._writer.drain()
        except (ConnectionError, RuntimeError) as error:
            raise HungUp from error


async def _nothing() -> None:
    """Nothing is to be done once an error is sent."""
