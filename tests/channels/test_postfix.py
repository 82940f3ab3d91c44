"""E-mail as providers have it: Postfix, opendkim, Dovecot. `make test-postfix` installs them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

pytest.importorskip("imapclient")
pytest.importorskip("aiosmtplib")

import midturn as mt
from midturn.stores.store import ConversationStore
from support.channels.asked import answered, answers, ask, pair, running
from support.channels.mischief import MISCHIEF, card
from support.channels.postfix import PostfixHouse, no_postfix
from support.channels.real_phones import OnEmail

pytestmark = [pytest.mark.real("Postfix"), pytest.mark.skipif(bool(no_postfix()), reason=no_postfix())]
GO = mt.Question.boolean("go", "Deploy to production?")


@pytest.fixture(scope="module")
def house() -> Iterator[PostfixHouse]:
    """One server for all."""
    house = PostfixHouse()
    yield house
    house.remove()


def played(house: PostfixHouse, store: ConversationStore, play: Callable[[OnEmail], Awaitable[None]]) -> None:
    """Play a scene in which Ana is paired, within a minute."""

    async def scene() -> None:
        phone = OnEmail(house)
        async with asyncio.timeout(60):
            await pair(store, "email", "ana", phone.account)
            await play(phone)
        phone.close()

    asyncio.run(scene())


def test_a_reply_whose_signature_opendkim_has_checked_is_the_answer(store: ConversationStore, house: PostfixHouse) -> None:
    async def play(phone: OnEmail) -> None:
        question = await ask(store, GO)
        async with running(store, phone.channel()):
            await phone.write("no, because it is Friday", (await card(phone)).ref)
            assert await answered(store, question) == (False, "it is Friday", "ana", "email")

    played(house, store, play)


@pytest.mark.parametrize("mischief", [*MISCHIEF["email"], "a forged result", "tampered with"])
def test_what_is_no_answer_answers_nothing(store: ConversationStore, house: PostfixHouse, mischief: str) -> None:
    async def play(phone: OnEmail) -> None:
        question = await ask(store, GO)
        async with running(store, phone.channel()):
            shown = await card(phone)
            yes = phone.reply("yes", shown.ref).as_bytes().replace(b"\n", b"\r\n")
            if mischief == "a forged result":
                forged = b"Authentication-Results: mx.bot.test; dkim=pass header.d=ana.test\r\n"
                house.post(forged + yes, phone.account, to=phone.bot)
            elif mischief == "tampered with":
                signed = house.sign(phone.reply("no", shown.ref).as_bytes().replace(b"\n", b"\r\n"), "ana.test")
                house.post(signed.replace(b"\r\nno\r\n", b"\r\nyes\r\n"), phone.account, to=phone.bot)
            else:
                await MISCHIEF["email"][mischief](phone, shown.ref)
            await phone.write("no", (await card(phone)).ref)
            assert await answered(store, question) == (False, None, "ana", "email")
        assert len(await answers(store, question)) == 1

    played(house, store, play)
