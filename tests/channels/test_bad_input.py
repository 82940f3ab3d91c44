"""Invalid input on each platform: no answer that its person did not give, one log line,
nothing sent twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

import midturn as mt
from midturn.errors import AlreadyAnswered
from midturn.stores.store import ConversationStore
from support.channels.invalid_replies import INVALID_REPLIES, card, prepared_press
from support.channels.phones import OURS, REAL, NtfyPhone, Phone, act, kinds, missing, on
from support.channels.questions import answered, answers, ask, pair, running
from support.waiting import until

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
]  # warnings of the libraries
GO = mt.Question.boolean("go", "Deploy to production?")


def _each() -> list[object]:
    """Return each invalid reply of each platform."""
    marks = {
        kind: [pytest.mark.real("channels")] if kind in REAL else [] for kind in INVALID_REPLIES
    }
    return [
        pytest.param(kind, name, id=f"{kind}, {name}", marks=marks[kind])
        for kind, acts in INVALID_REPLIES.items()
        for name in acts
    ]


def played(kind: str, store: ConversationStore, play: Callable[[Phone], Awaitable[None]]) -> None:
    """Run a scene in which Ana is paired."""
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
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.name.startswith("midturn")
    ]


@pytest.mark.parametrize(("kind", "kind_of_reply"), _each())
def test_invalid_replies_do_not_answer(
    store: ConversationStore, kind: str, kind_of_reply: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(phone: Phone) -> None:
        question = await ask(store, GO)
        async with running(store, phone.channel()):
            await phone.listening()
            await INVALID_REPLIES[kind][kind_of_reply](phone, (await card(phone)).ref)
            await act(phone, await card(phone), "No")
            assert await answered(store, question) == (False, None, _who(kind), kind)
        assert len(await answers(store, question)) == 1
        assert len(phone.cards()) == 1

    played(kind, store, play)
    assert len(_warnings(caplog)) <= 1


@pytest.mark.parametrize("kind", kinds())
def test_repeated_and_old_button_presses_do_not_answer(store: ConversationStore, kind: str) -> None:
    async def play(phone: Phone) -> None:
        first = await ask(store, GO)
        async with running(store, phone.channel()):
            await phone.listening()
            shown = await card(phone)
            yes = prepared_press(phone, shown.ref, "Yes")
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
def test_concurrent_answers_record_one_and_the_card_names_its_person(
    store: ConversationStore, kind: str
) -> None:
    async def play(phone: Phone) -> None:
        question = await ask(store, GO)
        async with running(store, phone.channel()):
            await phone.listening()
            shown = await card(phone)
            by_bo = asyncio.create_task(
                store.answer(question.id, value=False, user="bo", via="page")
            )
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
    await until(
        lambda: not any(one.is_open for one in phone.cards() if one.ref == ref), seconds=120
    )


@pytest.mark.parametrize("kind", OURS)
def test_revoked_token_logs_one_line_and_cards_are_sent_once_with_a_new_one(
    store: ConversationStore, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(phone: Phone) -> None:
        for _ in range(3):
            await ask(store, GO)
        if isinstance(phone, NtfyPhone):
            phone.server.access = {
                "": {"*": "rw"}
            }  # without a token everything is allowed; with this one nothing is
        revoked = type(phone.channel())(**{**phone.options(), "token": "1:revoked"})
        async with running(store, revoked):
            await until(lambda: _warnings(caplog))
        assert phone.cards() == []
        async with running(store, phone.channel()):
            await card(phone, 3)
        assert len(phone.cards()) == 3

    played(kind, store, play)
    (line,) = _warnings(caplog)
    assert "is unavailable" in line
    assert "1:revoked" not in caplog.text
