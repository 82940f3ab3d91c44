"""How `midturn acp` waits for answers from elsewhere: it is told of them, by whichever store there is."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn.cli.command_context import StoreAddress
from midturn.stores.file_watcher import FileGrowing
from midturn.stores.opening import open_store
from support.acp_editor import Editor, began, beside, prompted
from support.cli import CommandLine, calls
from support.postgres import Cluster

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home, a workspace, and a tool that may not run unasked: the turn is suspended until somebody allows the call."""
    user = CommandLine(tmp_path)
    user.asker("publish", run="ask")
    return user


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    if shutil.which("pg_ctl") is None:
        pytest.skip("there is no PostgreSQL: apt-get install postgresql")
    server = Cluster("fsync=off")
    yield server
    server.remove()


class Stillness:
    """Once it `began`, whoever waits for a store to stir waits until it ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = False
        self._waiting = asyncio.Semaphore(0)
        self._ended = asyncio.Event()
        stirred = FileGrowing.stirred

        async def wait(store: FileGrowing, since: int) -> int:
            if self.began:
                self._waiting.release()
                await self._ended.wait()
            return await stirred(store, since)

        monkeypatch.setattr(FileGrowing, "stirred", wait)

    def end(self) -> None:
        """Let everybody go on who waits."""
        self._ended.set()

    async def everybody_waits(self) -> None:
        """Return when both wait: who shows what is asked in the editor, and the turn itself."""
        async with asyncio.timeout(60):
            await self._waiting.acquire()
            await self._waiting.acquire()


def test_a_turn_goes_on_when_the_store_has_stirred_and_looks_at_nothing_until_then(
    midturn: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = midturn.script(calls("publish", say="out"))

    async def scene() -> None:
        editor = Editor()  # which never answers
        still = Stillness(monkeypatch)
        async with beside(midturn, editor, model):
            turn = asyncio.create_task(prompted(editor, await began(midturn, editor)))
            await editor.until(lambda: editor.permissions)
            still.began = True
            await still.everybody_waits()
            store = open_store(midturn.store)
            (question,) = await store.pending()
            await store.answer(question.id, approve=True)
            still.end()
            assert await turn == "end_turn"

    asyncio.run(scene())
    assert [event["state"] for event in midturn.events() if event["type"] == "approval"] == ["waiting", "approved"]


def test_a_turn_that_waits_is_cancelled_though_nothing_stirs(midturn: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    model = midturn.script(calls("publish", say="out"))

    async def scene() -> None:
        editor = Editor()
        still = Stillness(monkeypatch)
        async with beside(midturn, editor, model):
            session = await began(midturn, editor)
            turn = asyncio.create_task(prompted(editor, session))
            await editor.until(lambda: editor.permissions)
            still.began = True
            await still.everybody_waits()
            await editor.agent.cancel(session)
            assert await turn == "cancelled"

    asyncio.run(scene())
    assert [event["status"] for event in midturn.events() if event["type"] == "turn_end"] == ["ended_by_user"]


@pytest.mark.real("PostgreSQL")
def test_the_answer_of_another_process_is_heard_over_a_database(midturn: CommandLine, cluster: Cluster) -> None:
    model = midturn.script(calls("publish", say="out"))

    async def scene() -> None:
        editor = Editor()
        async with beside(midturn, editor, model, StoreAddress(cluster.url)):
            turn = asyncio.create_task(prompted(editor, await began(midturn, editor)))
            await editor.until(lambda: editor.permissions)
            (question,) = (await asyncio.to_thread(midturn.ok, "inbox", "--json", "--store", cluster.url)).json
            await asyncio.to_thread(midturn.ok, "answer", "--store", cluster.url, question["id"], "y")
            assert await turn == "end_turn"
        assert editor.said() == "Done."

    asyncio.run(scene())
