"""Open questions are sent as notifications to an ntfy server on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.clock import now
from midturn.errors import ConfigError
from midturn.inbox.notifications import Notifying, NotifyServices, NotifyWhen
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.store_access import Port
from midturn.question.people import after
from midturn.question.question import Question
from midturn.stores.store import ConversationStore
from support.ntfy import Ntfy
from support.pages import agent_with, asking
from support.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of the library


@pytest.fixture
def ntfy() -> Generator[Ntfy]:
    """A server that receives notifications."""
    server = Ntfy()
    yield server
    server.close()


async def _notified(
    store: ConversationStore, ntfy: Ntfy, notice: NotifyWhen, then: Callable[[], Any]
) -> None:
    """Watch a store until `then` is true."""
    board = OpenQuestionList(Port(store))
    watching = asyncio.create_task(Notifying(board, NotifyServices([ntfy.url]), notice).run())
    try:
        await then()
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await board.stop()


def test_unanswered_question_is_sent_once_without_context(
    store: ConversationStore, ntfy: Ntfy, tmp_path: Path
) -> None:
    agent = agent_with(
        store,
        asking(
            Question.boolean("q", "Deploy to production?", context="The password is in the drawer.")
        ),
    )
    warned: list[str] = []
    notice = NotifyWhen(
        after=0.0,
        address="https://q.example",
        remembered=tmp_path / "sent.json",
        warn=warned.append,
    )

    async def one_is_sent() -> None:
        await asyncio.sleep(0)
        result = await agent.run("Ship it.")
        await until(lambda: ntfy.taken)
        (sent,) = ntfy.taken
        assert sent["title"] == "deploy asks"
        assert (
            sent["message"] == f"Deploy to production?\nhttps://q.example/q/{result.pending[0].id}"
        )
        await asyncio.sleep(1.2)
        assert len(ntfy.taken) == 1

    async def again() -> None:
        """A restarted server does not send it again, but sends what was asked meanwhile."""
        await agent_with(
            store, asking(Question.boolean("q", "And now?", deadline=timedelta(hours=1)))
        ).run("Ship more.")
        await until(lambda: len(ntfy.taken) > 1)
        assert "And now?\nTime to answer: 59 min" in ntfy.taken[1]["message"]

    asyncio.run(_started(store, ntfy, notice, one_is_sent))
    asyncio.run(_notified(store, ntfy, notice, again))
    assert len(ntfy.taken) == 2
    assert warned == []


async def _started(
    store: ConversationStore, ntfy: Ntfy, notice: NotifyWhen, then: Callable[[], Any]
) -> None:
    """Watch from before the first question on."""
    async with _watching(store, ntfy, notice):
        await then()


@asynccontextmanager
async def _watching(
    store: ConversationStore, ntfy: Ntfy, notice: NotifyWhen, clock: Callable[[], str] = now
) -> AsyncGenerator[Notifying]:
    """Watch a store. The watch starts before the block, so that it notices every question
    asked in the block.
    """
    board = OpenQuestionList(Port(store))
    notifying = Notifying(board, NotifyServices([ntfy.url]), notice, clock)
    watching = asyncio.create_task(notifying.run())
    try:
        await until(lambda: notifying._notified_since)
        yield notifying
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await board.stop()


def test_answered_and_old_questions_are_not_sent(store: ConversationStore, ntfy: Ntfy) -> None:
    agent = agent_with(store, asking(Question.boolean("q", "Sure?")))
    asyncio.run(agent.run("It lies there."))
    notice = NotifyWhen(after=600.0, address="https://q.example", warn=lambda _: None)
    ahead = 0.0

    async def answered_in_time() -> None:
        nonlocal ahead
        async with _watching(store, ntfy, notice, lambda: after(now(), ahead)) as notifying:
            result = await agent_with(store, asking(Question.boolean("q", "Sure?"))).run(
                "It is answered."
            )
            await until(lambda: notifying._open)
            await store.answer(result.pending[0].id, value=True)
            await until(lambda: not notifying._open)
            ahead = 3_600.0
            await notifying.look()

    asyncio.run(answered_in_time())
    assert ntfy.taken == []


def test_secret_notice_hides_the_text_and_failures_are_warnings(
    store: ConversationStore, ntfy: Ntfy
) -> None:
    ntfy.status = 500
    warned: list[str] = []
    notice = NotifyWhen(after=0.0, address="https://q.example", warn=warned.append)

    async def failed() -> None:
        await agent_with(
            store, asking(Question.secret("q", "What is the PIN of the card 1234?"))
        ).run("Pay.")
        await until(lambda: warned)

    asyncio.run(_started(store, ntfy, notice, failed))
    assert ntfy.taken[0]["message"].startswith("It asks for a secret.")
    (warning,) = warned
    assert warning.startswith(
        "Could not send a question to ntfy://…: the service did not accept it; the next attempt is"
        " at 2"
    )


class Servers:
    """Several servers with one store and a settable clock."""

    def __init__(self, store: ConversationStore, ntfy: Ntfy, count: int) -> None:
        self.warned: list[str] = []
        self.now = now()
        boards = [OpenQuestionList(Port(store)) for _ in range(count)]
        notice = NotifyWhen(after=0.0, address="https://q.example", warn=self.warned.append)
        self._all = [
            Notifying(board, NotifyServices([ntfy.url]), notice, lambda: self.now)
            for board in boards
        ]

    async def begin(self) -> None:
        """Have all servers read the open questions."""
        for server in self._all:
            await server.begin()

    async def look(self, seconds: float = 0.0) -> None:
        """Advance the clock and have all servers check at the same time."""
        self.now = after(now(), seconds)
        await asyncio.gather(*(server.look() for server in self._all))


def test_several_servers_send_a_question_once(store: ConversationStore, ntfy: Ntfy) -> None:
    async def play() -> None:
        await Servers(store, ntfy, 1).begin()
        await agent_with(store, asking(Question.boolean("q", "Sure?"))).run("Go.")
        servers = Servers(store, ntfy, 2)
        await servers.begin()
        await servers.look(1)
        await servers.look(2)
        third = Servers(store, ntfy, 1)
        await third.begin()
        await third.look(3)

    asyncio.run(play())
    assert len(ntfy.taken) == 1


def test_rejected_notice_is_sent_by_the_next_server(store: ConversationStore, ntfy: Ntfy) -> None:
    async def play() -> None:
        await Servers(store, ntfy, 1).begin()
        await agent_with(store, asking(Question.boolean("q", "Sure?"))).run("Go.")
        ntfy.status = 500
        for seconds, status, sent in ((1, 500, 1), (5, 200, 1), (15, 200, 2), (100, 200, 2)):
            ntfy.status = status
            servers = Servers(store, ntfy, 2)
            await servers.begin()
            await servers.look(seconds)
            assert len(ntfy.taken) == sent, seconds

    asyncio.run(play())


def test_notices_sent_by_earlier_versions_are_not_repeated(
    store: ConversationStore, ntfy: Ntfy, tmp_path: Path
) -> None:
    first, _ = (
        agent_with(store, asking(Question.boolean("q", text))).run_sync("Go.").pending[0]
        for text in ("First?", "Second?")
    )
    (tmp_path / "sent.json").write_text(f'["{first.id}"]')
    notice = NotifyWhen(
        after=0.0,
        address="https://q.example",
        remembered=tmp_path / "sent.json",
        warn=lambda _: None,
    )

    async def sent() -> None:
        await until(lambda: ntfy.taken)
        await asyncio.sleep(1.2)

    asyncio.run(_notified(store, ntfy, notice, sent))
    assert [each["message"].splitlines()[0] for each in ntfy.taken] == ["Second?"]


def test_notices_of_closed_questions_are_deleted(store: ConversationStore, ntfy: Ntfy) -> None:
    async def play() -> None:
        servers = Servers(store, ntfy, 1)
        await servers.begin()
        result = await agent_with(store, asking(Question.boolean("q", "Sure?"))).run("Go.")
        await servers.begin()
        await servers.look(1)
        assert await _deliveries(store) == [
            f"notice/urls/{result.pending[0].id}",
            "notice/urls/begun",
        ]
        await store.answer(result.pending[0].id, value=True)
        await Servers(store, ntfy, 1).begin()
        assert await _deliveries(store) == ["notice/urls/begun"]

    asyncio.run(play())


async def _deliveries(store: ConversationStore) -> list[str]:
    return sorted(await store.port.beside.kept("notice/"))


def test_invalid_address_error_hides_the_password() -> None:
    with pytest.raises(
        ConfigError, match=r"Apprise does not support address 2 \(nonsense://…\)"
    ) as error:
        NotifyServices(["ntfy://127.0.0.1/x", "nonsense://user:hunter2@host"])
    assert "hunter2" not in str(error.value)
    with pytest.raises(mt.ConfigError, match="without a ://"):
        NotifyServices(["hunter2"])
