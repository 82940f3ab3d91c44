"""Questions that wait are sent to where people are: to a server that speaks the language of ntfy, on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.errors import ConfigError
from midturn.question.question import Question
from midturn.store.store import ConversationStore
from midturn.web.board import Board
from midturn.web.notifying import Notifying, NotifyServices, NotifyWhen
from midturn.web.port import Port
from support.ntfy import Ntfy
from support.pages import agent_with, asking
from support.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own


@pytest.fixture
def ntfy() -> Generator[Ntfy]:
    """Return a server that takes notifications."""
    server = Ntfy()
    yield server
    server.close()


async def _notified(store: ConversationStore, ntfy: Ntfy, notice: NotifyWhen, then: Callable[[], Any]) -> None:
    """Watch a store until `then` has come about."""
    board = Board(Port(store))
    watching = asyncio.create_task(Notifying(board, NotifyServices([ntfy.url]), notice).run())
    try:
        await then()
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await board.stop()


def test_a_question_that_nobody_answers_is_sent_once_without_its_context(store: ConversationStore, ntfy: Ntfy, tmp_path: Path) -> None:
    agent = agent_with(store, asking(Question.boolean("q", "Deploy to production?", context="The password is in the drawer.")))
    warned: list[str] = []
    notice = NotifyWhen(after=0.0, address="https://q.example", remembered=tmp_path / "sent.json", warn=warned.append)

    async def one_is_sent() -> None:
        await asyncio.sleep(0)
        result = await agent.run("Ship it.")
        await until(lambda: ntfy.taken)
        (sent,) = ntfy.taken
        assert sent["title"] == "deploy asks"
        assert sent["message"] == f"Deploy to production?\nhttps://q.example/q/{result.pending[0].id}"
        await asyncio.sleep(1.2)
        assert len(ntfy.taken) == 1

    async def again() -> None:
        """A server that is started again does not send it twice, and sends what came meanwhile."""
        await agent_with(store, asking(Question.boolean("q", "And now?", deadline=timedelta(hours=1)))).run("Ship more.")
        await until(lambda: len(ntfy.taken) > 1)
        assert "And now?\nTo be answered: 59 min" in ntfy.taken[1]["message"]

    asyncio.run(_started(store, ntfy, notice, one_is_sent))
    asyncio.run(_notified(store, ntfy, notice, again))
    assert len(ntfy.taken) == 2
    assert warned == []


async def _started(store: ConversationStore, ntfy: Ntfy, notice: NotifyWhen, then: Callable[[], Any]) -> None:
    """Watch from before the first question on."""
    board = Board(Port(store))
    await board.fresh()
    watching = asyncio.create_task(Notifying(board, NotifyServices([ntfy.url]), notice).run())
    await asyncio.sleep(0.3)
    try:
        await then()
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await board.stop()


def test_what_is_answered_in_time_and_what_lay_there_before_is_not_sent(store: ConversationStore, ntfy: Ntfy) -> None:
    agent = agent_with(store, asking(Question.boolean("q", "Sure?")))
    asyncio.run(agent.run("It lies there."))
    notice = NotifyWhen(after=1.0, address="https://q.example", warn=lambda _: None)

    async def answered_at_once() -> None:
        await asyncio.sleep(0.3)
        result = await agent_with(store, asking(Question.boolean("q", "Sure?"))).run("It is answered.")
        await store.answer(result.pending[0].id, value=True)
        await asyncio.sleep(1.8)

    asyncio.run(_notified(store, ntfy, notice, answered_at_once))
    assert ntfy.taken == []


def test_a_secret_is_called_a_secret_and_a_service_that_fails_is_a_warning(store: ConversationStore, ntfy: Ntfy) -> None:
    ntfy.status = 500
    warned: list[str] = []
    notice = NotifyWhen(after=0.0, address="https://q.example", warn=warned.append)

    async def failed() -> None:
        await agent_with(store, asking(Question.secret("q", "What is the PIN of the card 1234?"))).run("Pay.")
        await until(lambda: warned)

    asyncio.run(_started(store, ntfy, notice, failed))
    assert ntfy.taken[0]["message"].startswith("It asks for a secret.")
    assert warned == ["A question could not be sent to ntfy://…: the service did not take it."]


def test_what_is_not_an_address_is_an_error_that_shows_no_password() -> None:
    with pytest.raises(ConfigError, match=r"the address 2 \(nonsense://…\) is not one that Apprise knows") as error:
        NotifyServices(["ntfy://127.0.0.1/x", "nonsense://user:hunter2@host"])
    assert "hunter2" not in str(error.value)
    with pytest.raises(mt.ConfigError, match="without a ://"):
        NotifyServices(["hunter2"])
