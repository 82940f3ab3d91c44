"""What bad input gets, on each platform: no answer that its person did not give, one line in the log, nothing sent twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

import midturn as mt
from midturn.errors import AlreadyAnswered
from midturn.stores.store import ConversationStore
from support.channels.asked import answered, answers, ask, pair, running
from support.channels.mischief import MISCHIEF, card, kept
from support.channels.phones import OURS, REAL, OnNtfy, Phone, act, kinds, missing, on
from support.waiting import until

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]  # warnings: the libraries' own
GO = mt.Question.boolean("go", "Deploy to production?")


def _each() -> list[object]:
    """Return each mischief of each platform."""
    marks = {kind: [pytest.mark.real("channels")] if kind in REAL else [] for kind in MISCHIEF}
    return [pytest.param(kind, name, id=f"{kind}, {name}", marks=marks[kind]) for kind, acts in MISCHIEF.items() for name in acts]


def played(kind: str, store: ConversationStore, play: Callable[[Phone], Awaitable[None]]) -> None:
    """Play a scene in which Ana is paired."""
    if reason := missing(kind):
        pytest.skip(reason)

    async def scene() -> None:
        async with on(kind) as phone, asyncio.timeout(120):
            await pair(store, kind, "ana", phone.account)
            await play(phone)

    asyncio.run(scene())


def _who(kind: str) -> str | None:
    return None if kind == "ntfy" else "ana"


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING and record.name.startswith("midturn")]


@pytest.mark.parametrize(("kind", "mischief"), _each())
def test_what_is_no_answer_answers_nothing(store: ConversationStore, kind: str, mischief: str, caplog: pytest.LogCaptureFixture) -> None:
    async def play(phone: Phone) -> None:
        question = await ask(store, GO)
        async with running(store, phone.channel()):
            await phone.listening()
            await MISCHIEF[kind][mischief](phone, (await card(phone)).ref)
            await act(phone, await card(phone), "No")
            assert await answered(store, question) == (False, None, _who(kind), kind)
        assert len(await answers(store, question)) == 1
        assert len(phone.cards()) == 1

    played(kind, store, play)
    assert len(_warnings(caplog)) <= 1


@pytest.mark.parametrize("kind", kinds())
def test_a_button_that_is_pressed_twice_and_one_of_yesterday_answer_nothing_of_today(store: ConversationStore, kind: str) -> None:
    async def play(phone: Phone) -> None:
        first = await ask(store, GO)
        async with running(store, phone.channel()):
            await phone.listening()
            shown = await card(phone)
            yes = kept(phone, shown.ref, "Yes")
            await yes()
            await yes()
            assert await answered(store, first) == (True, None, _who(kind), kind)
            await _over(phone, shown.ref)
            second = await ask(store, GO)
            today = await card(phone)
            assert today.ref != shown.ref
            await yes()
            await act(phone, today, "No")
            assert await answered(store, second) == (False, None, _who(kind), kind)
        assert [len(await answers(store, one)) for one in (first, second)] == [1, 1]

    played(kind, store, play)


@pytest.mark.parametrize("kind", kinds())
def test_two_people_at_once_leave_one_answer_and_the_card_says_whose(store: ConversationStore, kind: str) -> None:
    async def play(phone: Phone) -> None:
        question = await ask(store, GO)
        async with running(store, phone.channel()):
            await phone.listening()
            shown = await card(phone)
            by_bo = asyncio.create_task(store.answer(question.id, value=False, user="bo", via="page"))
            await act(phone, shown, "Yes")
            with suppress(AlreadyAnswered):
                await by_bo
            (said,) = await answers(store, question)
            await _over(phone, shown.ref)
            (there,) = [one for one in phone.cards() if one.ref == shown.ref]
            assert "Answered by" in there.text
            assert (said[2] or "Answered") in there.text
        assert len(await answers(store, question)) == 1

    played(kind, store, play)


async def _over(phone: Phone, ref: str) -> None:
    await until(lambda: not any(one.is_open for one in phone.cards() if one.ref == ref), seconds=40)


@pytest.mark.parametrize("kind", OURS)
def test_a_token_that_was_taken_back_is_one_line_and_each_card_is_sent_once_with_another(
    store: ConversationStore, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(phone: Phone) -> None:
        for _ in range(3):
            await ask(store, GO)
        if isinstance(phone, OnNtfy):
            phone.server.access = {"": {"*": "rw"}}  # without a token one may, with this one not
        revoked = type(phone.channel())(**{**phone.options(), "token": "1:revoked"})
        async with running(store, revoked):
            await until(lambda: _warnings(caplog))
        assert phone.cards() == []
        async with running(store, phone.channel()):
            await card(phone, 3)
        assert len(phone.cards()) == 3

    played(kind, store, play)
    (line,) = _warnings(caplog)
    assert "cannot be used for now" in line
    assert "1:revoked" not in caplog.text
