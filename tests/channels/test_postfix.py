"""E-mail as providers run it: Postfix, opendkim, Dovecot. `make test-postfix` installs them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

pytest.importorskip("imapclient")
pytest.importorskip("aiosmtplib")

import midturn as mt
from midturn.stores.store import ConversationStore
from support.channels.invalid_replies import INVALID_REPLIES, card
from support.channels.postfix import PostfixServer, no_postfix
from support.channels.questions import answered, answers, ask, pair, running
from support.channels.real_phones import EmailPhone

pytestmark = [
    pytest.mark.real("Postfix"),
    pytest.mark.skipif(bool(no_postfix()), reason=no_postfix()),
]
GO = mt.Question.boolean("go", "Deploy to production?")


@pytest.fixture(scope="module")
def house() -> Iterator[PostfixServer]:
    """One server for all tests."""
    house = PostfixServer()
    yield house
    house.remove()


def played(
    house: PostfixServer, store: ConversationStore, play: Callable[[EmailPhone], Awaitable[None]]
) -> None:
    """Run a scene in which Ana is paired, with a limit of one minute."""

    async def scene() -> None:
        phone = EmailPhone(house)
        async with asyncio.timeout(120):
            await pair(store, "email", "ana", phone.account)
            await play(phone)
        phone.close()

    asyncio.run(scene())


def test_reply_with_a_signature_verified_by_opendkim_answers(
    store: ConversationStore, house: PostfixServer
) -> None:
    async def play(phone: EmailPhone) -> None:
        question = await ask(store, GO)
        async with running(store, phone.channel()):
            await phone.write("no, because it is Friday", (await card(phone)).ref)
            assert await answered(store, question) == (False, "it is Friday", "ana", "email")

    played(house, store, play)


@pytest.mark.parametrize(
    "kind_of_reply", [*INVALID_REPLIES["email"], "a forged result", "tampered with"]
)
def test_invalid_replies_do_not_answer(
    store: ConversationStore, house: PostfixServer, kind_of_reply: str
) -> None:
    async def play(phone: EmailPhone) -> None:
        question = await ask(store, GO)
        async with running(store, phone.channel()):
            shown = await card(phone)
            yes = phone.reply("yes", shown.ref).as_bytes().replace(b"\n", b"\r\n")
            if kind_of_reply == "a forged result":
                forged = b"Authentication-Results: mx.bot.test; dkim=pass header.d=ana.test\r\n"
                house.post(forged + yes, phone.account, to=phone.bot)
            elif kind_of_reply == "tampered with":
                signed = house.sign(
                    phone.reply("no", shown.ref).as_bytes().replace(b"\n", b"\r\n"), "ana.test"
                )
                house.post(
                    signed.replace(b"\r\nno\r\n", b"\r\nyes\r\n"), phone.account, to=phone.bot
                )
            else:
                await INVALID_REPLIES["email"][kind_of_reply](phone, shown.ref)
            await phone.write("no", (await card(phone)).ref)
            assert await answered(store, question) == (False, None, "ana", "email")
        assert len(await answers(store, question)) == 1

    played(house, store, play)
