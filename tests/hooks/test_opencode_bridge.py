"""The bridge to opencode: server restarts, and answers that are recorded with their real
result.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from midturn.clock import SYSTEM
from midturn.events.open_question import AskingAgent, OpenQuestion, ProcessMark
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.hooks.opencode import Bridge, OpencodeUnavailable
from midturn.question.json_value import Json, JsonObject
from midturn.stores.lock import mark
from midturn.stores.opening import FileStore

pytestmark = pytest.mark.timeout(600)
HERE = mark(os.getpid())


class Server:
    """A fake opencode server with a list of open requests. `slow` delays posts until it is
    set.
    """

    def __init__(self) -> None:
        self.permissions: list[JsonObject] = [permission("per_1")]
        self.is_there = True
        self.posted: list[tuple[str, JsonObject]] = []
        self.looks = 0
        self.slow = asyncio.Event()
        self.slow.set()

    async def get(self, path: str) -> Json:
        """Return the open requests."""
        if not self.is_there:
            raise OpencodeUnavailable("Nothing is there.")
        if path != "/permission":
            return []
        self.looks += 1
        return [*self.permissions]

    async def post(self, path: str, body: JsonObject) -> bool:
        """Take an answer."""
        self.permissions.clear()
        self.posted.append((path, body))
        await self.slow.wait()
        return True


def permission(id: str, command: str = "touch made") -> JsonObject:
    return {
        "id": id,
        "sessionID": "ses_1",
        "permission": "bash",
        "patterns": [command],
        "metadata": {"command": command},
    }


class Scene:
    """A running bridge."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = FileStore(folder / "store")
        self.server = Server()
        self.told: list[str] = []

    def calls(self, session: str) -> ExternalCallService:
        """Return the calls of a session."""
        asker = AskingAgent(
            name="opencode",
            agent="opencode",
            session=session,
            via="hook",
            process=HERE,
            serves=HERE,
        )
        return ExternalCallService(self.store, asker, SYSTEM)

    @asynccontextmanager
    async def carried(self) -> AsyncGenerator[None]:
        """Run the bridge."""
        running = asyncio.create_task(
            Bridge(self.server, self.calls, SYSTEM, self.told.append).run()
        )
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def asked(self, fits: Callable[[list[OpenQuestion]], Any] = len) -> list[OpenQuestion]:
        """Wait until the open questions match."""
        async with asyncio.timeout(120):
            while True:
                found = await self.store.pending()
                if fits(found):
                    return found
                await asyncio.sleep(0.02)

    async def until(self, fits: Callable[[], Any]) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(120):
            while True:
                if fits():
                    return
                await asyncio.sleep(0.02)


def find_ancestor(question: OpenQuestion) -> ProcessMark | None:
    assert question.asker
    return question.asker.process


def test_answer_is_recorded_if_the_request_disappears_during_delivery(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def work() -> None:
        scene.server.slow.clear()
        async with scene.carried():
            (question,) = await scene.asked()
            await scene.store.answer(question.id, approve=True, via="inbox")
            await scene.until(lambda: scene.server.posted)
            seen = scene.server.looks
            await scene.until(
                lambda: scene.server.looks > seen + 2
            )  # not listed any more, but the answer is still being sent
            scene.server.slow.set()
            await scene.until(lambda: ended(scene))

    asyncio.run(work())
    assert scene.server.posted == [("/permission/per_1/reply", {"reply": "once"})]


def ended(scene: Scene) -> bool:
    return '"turn_end"' in "".join(file.read_text() for file in scene.folder.rglob("events.jsonl"))


def test_repeated_request_after_a_server_restart_is_the_same_question(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def work() -> None:
        async with scene.carried():
            (first,) = await scene.asked()
            scene.server.is_there = False
            await scene.asked(lambda found: find_ancestor(found[0]) is None)
            scene.server.permissions = [permission("per_2")]
            scene.server.is_there = True
            (again,) = await scene.asked(lambda found: find_ancestor(found[0]))
            assert again.id == first.id
            await scene.store.answer(again.id, approve=False, via="inbox")
            await scene.until(lambda: scene.server.posted)

    asyncio.run(work())
    assert scene.server.posted[0][0] == "/permission/per_2/reply"
    assert scene.told == [
        "Nothing is there. Waiting for the server; its questions stay open.",
        "The opencode server is available again.",
    ]
