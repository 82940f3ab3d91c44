"""`midturn acp` waits for answers of other processes by notifications of the store, with every
kind of store.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn.cli.command_context import StoreAddress
from midturn.stores.file_watcher import FileChangeFeed
from midturn.stores.opening import open_store
from support.acp_editor import Editor, in_process_editor, open_session, send_prompt
from support.cli import CommandLine, calls
from support.postgres import Cluster

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home directory, a workspace, and a tool that needs approval, so the turn is
    suspended.
    """
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


class HeldNotifications:
    """Holds back all store notifications from `began` until `end`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = False
        self._waiting = asyncio.Semaphore(0)
        self._ended = asyncio.Event()
        wait_for_change = FileChangeFeed.wait_for_change

        async def wait(store: FileChangeFeed, since: int) -> int:
            if self.began:
                self._waiting.release()
                await self._ended.wait()
            return await wait_for_change(store, since)

        monkeypatch.setattr(FileChangeFeed, "wait_for_change", wait)

    def end(self) -> None:
        """Release all waiters."""
        self._ended.set()

    async def wait_for_both_waiters(self) -> None:
        """Wait until both the editor's dialog and the turn wait for the store."""
        async with asyncio.timeout(120):
            await self._waiting.acquire()
            await self._waiting.acquire()


def test_turn_continues_after_a_notification_and_does_not_poll(
    midturn: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = midturn.script(calls("publish", say="out"))

    async def scene() -> None:
        editor = Editor()  # an editor that never answers
        still = HeldNotifications(monkeypatch)
        async with in_process_editor(midturn, editor, model):
            turn = asyncio.create_task(send_prompt(editor, await open_session(midturn, editor)))
            await editor.until(lambda: editor.permissions)
            still.began = True
            await still.wait_for_both_waiters()
            store = open_store(midturn.store)
            (question,) = await store.pending()
            await store.answer(question.id, approve=True)
            still.end()
            assert await turn == "end_turn"

    asyncio.run(scene())
    assert [event["state"] for event in midturn.events() if event["type"] == "approval"] == [
        "waiting",
        "approved",
    ]


def test_waiting_turn_is_cancelled_without_a_notification(
    midturn: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = midturn.script(calls("publish", say="out"))

    async def scene() -> None:
        editor = Editor()
        still = HeldNotifications(monkeypatch)
        async with in_process_editor(midturn, editor, model):
            session = await open_session(midturn, editor)
            turn = asyncio.create_task(send_prompt(editor, session))
            await editor.until(lambda: editor.permissions)
            still.began = True
            await still.wait_for_both_waiters()
            await editor.agent.cancel(session)
            assert await turn == "cancelled"

    asyncio.run(scene())
    assert [event["status"] for event in midturn.events() if event["type"] == "turn_end"] == [
        "ended_by_user"
    ]


@pytest.mark.real("PostgreSQL")
def test_answer_of_another_process_is_notified_over_postgres(
    midturn: CommandLine, cluster: Cluster
) -> None:
    model = midturn.script(calls("publish", say="out"))

    async def scene() -> None:
        editor = Editor()
        async with in_process_editor(midturn, editor, model, StoreAddress(cluster.url)):
            turn = asyncio.create_task(send_prompt(editor, await open_session(midturn, editor)))
            await editor.until(lambda: editor.permissions)
            (question,) = (
                await asyncio.to_thread(midturn.ok, "inbox", "--json", "--store", cluster.url)
            ).json
            await asyncio.to_thread(
                midturn.ok, "answer", "--store", cluster.url, question["id"], "y"
            )
            assert await turn == "end_turn"
        assert editor.said() == "Done."

    asyncio.run(scene())
