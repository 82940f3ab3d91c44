"""Requests and answers as lines of JSON, at the end of a connection."""

from __future__ import annotations

import asyncio
import socket

from midturn.integrations.hooks.codex_server import Delivered, JsonLines
from midturn.question.json_value import JsonObject


class Slow:
    """A side whose note that an answer was sent takes a while."""

    def __init__(self) -> None:
        self.may_note = asyncio.Event()
        self.has_noted = False

    async def asked(self, method: str, params: JsonObject) -> tuple[JsonObject, Delivered]:
        """Answer with what was sent."""
        del method
        return params, self._note

    def told(self, method: str, params: JsonObject) -> None:
        """Hear nothing."""

    async def _note(self) -> None:
        await self.may_note.wait()
        self.has_noted = True


def test_what_was_answered_is_noted_although_the_other_side_leaves_at_once() -> None:
    async def work() -> None:
        ours, theirs = socket.socketpair()
        slow = Slow()
        from_them, to_them = await asyncio.open_connection(sock=ours)
        lines = JsonLines(from_them, to_them, slow)
        reader, writer = await asyncio.open_connection(sock=theirs)
        listening = asyncio.ensure_future(lines.listen())
        writer.write(b'{"id": 1, "method": "ask", "params": {"sure": true}}\n')
        assert await reader.readline() == b'{"id": 1, "result": {"sure": true}}\n'
        listening.cancel()  # who has run the other side leaves
        asyncio.get_running_loop().call_soon(slow.may_note.set)
        await asyncio.gather(listening, return_exceptions=True)
        for end in (writer, to_them):
            end.close()
            await end.wait_closed()

        assert slow.has_noted

    asyncio.run(asyncio.wait_for(work(), 60))
