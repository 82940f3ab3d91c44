"""Telegram through its library, against our server, which is written from Telegram's
documentation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("telegram")

import midturn as mt
from midturn.channels.port import Card, ChannelAway, ChannelRefused, ChannelSettings, Choice
from midturn.channels.running import run
from midturn.channels.state import ChannelState
from midturn.channels.telegram import Telegram
from midturn.clock import now
from midturn.events.types import InquiryAnswered
from midturn.question.people import Directory, Person
from midturn.stores.store import ConversationStore
from support.channels.telegram import TOKEN, TelegramServer, telegram_server
from support.pages import agent_with, asking
from support.waiting import until

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # the library's warning about the future type of a timeout
ANA, BO, GROUP = 7, 8, -100
GO = mt.Question.boolean("go", "Deploy to @production?")


class NoMemory:
    """A memory that keeps nothing."""

    def get(self, name: str) -> str:
        del name
        return ""

    async def set(self, name: str, value: str) -> None: ...


def played(
    store: ConversationStore, play: Callable[[TelegramServer, ConversationStore], Awaitable[None]]
) -> None:
    """Run a scene in which Ana is paired."""

    async def scene() -> None:
        ledger = ChannelState(store.port, now)
        async with asyncio.timeout(120), telegram_server() as server:
            await ledger.redeem_code(
                "telegram", str(ANA), await ledger.create_code("ana", "telegram")
            )
            await play(server, store)

    asyncio.run(scene())


class Running:
    """A running channel."""

    def __init__(
        self, server: TelegramServer, store: ConversationStore, rooms: tuple[str, ...] = ()
    ) -> None:
        self._work = run(
            store,
            [(Telegram(TOKEN, api=server.address), ChannelSettings(name="phone", rooms=rooms))],
        )

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._work)

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


async def asked(store: ConversationStore) -> str:
    """Ask from a tool; return the conversation ID."""
    return (await agent_with(store, asking(GO)).run("Ship it.")).conversation


async def answers(
    store: ConversationStore, conversation: str
) -> list[tuple[Any, str | None, str | None]]:
    """Return each recorded answer: value, reason, responder."""
    events = (await store.read(conversation)).events
    said = [event for event in events if isinstance(event, InquiryAnswered)]
    return [(one.answer, one.reason, one.answered_by and one.answered_by.user) for one in said]


async def card(server: TelegramServer, chat: int) -> tuple[int, dict[str, Any]]:
    """Wait for a card with buttons."""
    await until(
        lambda: any(
            message["reply_markup"]["inline_keyboard"] for message in server.cards(chat).values()
        )
    )
    return next(
        (number, message)
        for number, message in server.cards(chat).items()
        if message["reply_markup"]["inline_keyboard"]
    )


async def noted(store: ConversationStore, number: int) -> None:
    """Wait until the card is recorded as sent.

    A process that dies earlier sends it again, and only the buttons of both cards are known.
    """
    ledger = ChannelState(store.port, now)
    while not any(  # noqa: ASYNC110  as above
        sent.handle.endswith(f":{number}") for sent in (await ledger.cards("phone")).values()
    ):
        await asyncio.sleep(0.005)


def test_button_answers_and_external_text_is_formatted_as_code(store: ConversationStore) -> None:
    async def play(server: TelegramServer, store: ConversationStore) -> None:
        conversation = await asked(store)
        async with Running(server, store):
            number, message = await card(server, ANA)
            assert {entity["type"] for entity in message["entities"]} == {"code"}
            covered = sum(entity["length"] for entity in message["entities"])
            assert covered == len(message["text"]) - 2 * (len(message["entities"]) - 1)
            server.press(ANA, ANA, number, "Yes")
            await until(lambda: "Answered by ana" in server.cards(ANA)[number]["text"])
            await until(lambda: server.pressed)
        assert await answers(store, conversation) == [(True, None, "ana")]
        assert server.cards(ANA)[number]["reply_markup"]["inline_keyboard"] == []

    played(store, play)


def test_messages_sent_while_offline_are_read_once(store: ConversationStore) -> None:
    async def play(server: TelegramServer, store: ConversationStore) -> None:
        conversation = await asked(store)
        async with Running(server, store):
            number, _ = await card(server, ANA)
            await noted(store, number)
        server.write(ANA, "no, because it is Friday", about=number)
        async with Running(server, store):
            await until(lambda: "Answered by ana" in server.cards(ANA)[number]["text"])
            await until(lambda: not server.updates)
        assert await answers(store, conversation) == [(False, "it is Friday", "ana")]
        assert len(server.cards(ANA)) == 1

    played(store, play)


def test_account_of_a_removed_person_cannot_answer_and_gets_no_card(
    store: ConversationStore,
) -> None:
    people = {"ana": Person(), "bo": Person()}
    now = [Directory(people)]

    async def play(server: TelegramServer, store: ConversationStore) -> None:
        served = store.with_people(lambda: now[0])
        conversation = await asked(store)
        async with Running(server, served):
            number, _ = await card(server, ANA)
            now[0] = Directory({"bo": Person()})
            server.press(ANA, ANA, number, "Yes")
            server.write(ANA, "yes", about=number)
            await until(lambda: not server.updates)
            other = await asked(store)
            await until(lambda: not server.updates)
            assert await answers(store, conversation) == []
            assert len(server.cards(ANA)) == 1
            now[0] = Directory(people)
            server.write(ANA, "no", about=number)
            await until(lambda: "Answered by ana" in server.cards(ANA)[number]["text"])
        assert await answers(store, conversation) == [(False, None, "ana")]
        assert await answers(store, other) == []

    played(store, play)


def test_messages_of_strangers_do_not_answer(store: ConversationStore) -> None:
    async def play(server: TelegramServer, store: ConversationStore) -> None:
        conversation = await asked(store)
        async with Running(server, store):
            number, _ = await card(server, ANA)
            forwarded = {
                "type": "user",
                "date": 1_795_000_000,
                "sender_user": {"id": 9, "is_bot": False, "first_name": "x"},
            }
            server.write(BO, "yes", about=number)
            server.write(ANA, "yes", about=number, forward_origin=forwarded)
            server.write(ANA, "yes", chat=GROUP)
            server.write(ANA, None, about=number)  # a picture
            server.press(BO, ANA, number, "Yes")
            await until(lambda: not server.updates)
            assert await answers(store, conversation) == []
            server.write(ANA, "yes")
            await until(lambda: "Answered by ana" in server.cards(ANA)[number]["text"])

    played(store, play)


def test_configured_group_is_asked_and_the_presser_is_identified_by_telegram(
    store: ConversationStore,
) -> None:
    async def play(server: TelegramServer, store: ConversationStore) -> None:
        conversation = await asked(store)
        async with Running(server, store, rooms=(str(GROUP),)):
            number, _ = await card(server, GROUP)
            server.press(BO, GROUP, number, "Yes")
            await until(lambda: not server.updates)
            assert await answers(store, conversation) == []
            server.press(ANA, GROUP, number, "No")
            await until(lambda: "Answered by ana" in server.cards(GROUP)[number]["text"])
        assert await answers(store, conversation) == [(False, None, "ana")]

    played(store, play)


def test_question_is_sent_once_despite_errors(store: ConversationStore) -> None:
    async def play(server: TelegramServer, store: ConversationStore) -> None:
        server.faults = {
            "sendMessage": [
                (429, "Too Many Requests", {"retry_after": 1}),
                (502, "Bad Gateway", {}),
            ]
        }
        for _ in range(3):
            await asked(store)
        async with Running(server, store):
            await until(lambda: len(server.cards(ANA)) == 3)
            await asyncio.sleep(0.1)
        assert len(server.cards(ANA)) == 3

    played(store, play)


FAULTS: list[tuple[tuple[int, str, dict[str, Any]], type[Exception]]] = [
    ((429, "Too Many Requests", {"retry_after": 3}), ChannelAway),
    ((403, "Forbidden: bot was blocked by the user", {}), ChannelRefused),
    ((400, "Bad Request: chat not found", {}), ChannelRefused),
    ((502, "Bad Gateway", {}), ChannelAway),
]


@pytest.mark.parametrize(("fault", "error"), FAULTS)
def test_errors_are_permanent_or_temporary(
    fault: tuple[int, str, dict[str, Any]], error: type[Exception]
) -> None:
    async def scene() -> None:
        async with telegram_server() as server:
            channel = Telegram(TOKEN, api=server.address)
            await channel.open(NoMemory())
            server.faults = {"sendMessage": [fault]}
            with pytest.raises(error):
                await channel.send(Card(to=str(ANA), heading="x", text="y"))
            await channel.close()

    asyncio.run(scene())


def test_revoked_token_is_refused() -> None:
    async def scene() -> None:
        async with telegram_server() as server:
            channel = Telegram("1:other", api=server.address)
            with pytest.raises(ChannelRefused):
                await channel.open(NoMemory())
            assert "other" not in repr(channel)

    asyncio.run(scene())


def test_token_is_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with telegram_server() as server:
            channel = Telegram(TOKEN, api=server.address)
            await channel.open(NoMemory())
            await channel.close()

    with caplog.at_level("DEBUG"):
        asyncio.run(scene())
    said = [
        record.getMessage() for record in caplog.records if record.name != "aiohttp.access"
    ]  # not the lines of the server
    assert any("getMe" in message for message in said)
    assert not any(TOKEN in message for message in said)


def test_long_content_is_sent_as_a_file_before_the_card() -> None:
    async def scene() -> None:
        async with telegram_server() as server:
            channel = Telegram(TOKEN, api=server.address)
            await channel.open(NoMemory())
            card = Card(
                to=str(ANA),
                heading="h",
                text="t",
                file=("call.txt", b"x" * 9_000),
                choices=(Choice("Allow", "a" * 22),),
            )
            await channel.send(card)
            await channel.close()
            assert server.files == [b"x" * 9_000]

    asyncio.run(scene())
