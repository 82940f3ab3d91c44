"""Requests and responses as JSON lines when the connection ends."""

from __future__ import annotations

import asyncio
import socket

from midturn.integrations.hooks.codex_server import AfterDelivery, JsonLines
from midturn.question.json_value import JsonObject


class Slow:
    """A handler that is slow to record that its answer was sent."""

    def __init__(self) -> None:
        self.may_note = asyncio.Event()
        self.has_noted = False

    async def handle_request(
        self, method: str, params: JsonObject
    ) -> tuple[JsonObject, AfterDelivery]:
        """Return the request as the response."""
        del method
        return params, self._note

    def handle_notification(self, method: str, params: JsonObject) -> None: ...

    async def _note(self) -> None:
        await self.may_note.wait()
        self.has_noted = True


def test_answer_is_recorded_even_if_the_client_disconnects() -> None:
    async def work() -> None:
        ours, theirs = socket.socketpair()
        slow = Slow()
        from_them, to_them = await asyncio.open_connection(sock=ours)
        lines = JsonLines(from_them, to_them, slow)
        reader, writer = await asyncio.open_connection(sock=theirs)
        listening = asyncio.ensure_future(lines.listen())
        writer.write(b'{"id": 1, "method": "ask", "params": {"sure": true}}\n')
        assert await reader.readline() == b'{"id": 1, "result": {"sure": true}}\n'
        listening.cancel()  # the other side closes the connection
        asyncio.get_running_loop().call_soon(slow.may_note.set)
        await asyncio.gather(listening, return_exceptions=True)
        for end in (writer, to_them):
            end.close()
            await end.wait_closed()

        assert slow.has_noted

    asyncio.run(asyncio.wait_for(work(), 120))
