"""Accounts of people who were removed from the configuration, and the account names that are
recorded, on every platform.
"""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from midturn.events.types import InquiryAnswered
from midturn.question.people import Directory, Person
from midturn.stores.store import ConversationStore
from support.channels.phones import Shown, act, kinds, missing, on
from support.channels.questions import answered, answers, ask, pair, running

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
]  # warnings of the libraries
EVERYONE = Directory({"ana": Person(), "bo": Person()})
WITHOUT_ANA = Directory({"bo": Person()})
GO = mt.Question.boolean("go", "Go ahead?")


@pytest.mark.parametrize("kind", kinds())
def test_account_of_a_removed_person_cannot_answer(store: ConversationStore, kind: str) -> None:
    if reason := missing(kind):
        pytest.skip(reason)
    now = [EVERYONE]
    served = store.with_people(lambda: now[0])

    async def play() -> None:
        async with asyncio.timeout(120), on(kind) as phone:
            await pair(store, kind, "ana", phone.account)
            first = await ask(store, GO)
            async with running(served, phone.channel()):
                await phone.listening()
                while not (cards := phone.cards()):  # noqa: ASYNC110  a platform has no event
                    await asyncio.sleep(0.005)
                card: Shown = cards[0]
                now[0] = WITHOUT_ANA
                await act(phone, card, "Yes")
                await ask(store, mt.Question.boolean("go", "Anybody else?"))
                await asyncio.sleep(
                    2.5 if kind == "email" else 0.5
                )  # a wrong effect would be visible by now
                assert await answers(store, first) == []
                assert len(phone.cards()) == 1
                now[0] = EVERYONE
                second = await ask(store, mt.Question.boolean("go", "And now?"))
                while not (shown := [one for one in phone.cards() if "And now" in one.text]):  # noqa: ASYNC110  as above
                    await asyncio.sleep(0.005)
                await act(phone, shown[0], "Yes")
                who = None if kind == "ntfy" else "ana"
                assert await answered(store, second) == (True, None, who, kind)
            events = (await store.read(second.conversation)).events
            answer = next(event for event in events if isinstance(event, InquiryAnswered))
            assert answer.answered_by is not None
            assert answer.answered_by.login == (None if kind == "ntfy" else phone.account)

    asyncio.run(play())
