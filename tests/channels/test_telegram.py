"""Telegram, by its library, against a server of ours that speaks as Telegram's documents say."""

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
from midturn.channels.state import Ledger
from midturn.channels.telegram import Telegram
from midturn.clock import now
from midturn.events.types import InquiryAnswered
from midturn.question.people import Directory, Person
from midturn.stores.store import ConversationStore
from support.channels.telegram import TOKEN, TelegramServer, telegram_server
from support.pages import agent_with, asking
from support.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore")  # a library's own: it will change the type of a wait
ANA, BO, GROUP = 7, 8, -100
GO = mt.Question.boolean("go", "Deploy to @production?")


class Nowhere:
    """Keeps nothing."""

    def get(self, name: str) -> str:
        """Return nothing."""
        del name
        return ""

    async def set(self, name: str, value: str) -> None:
        """Forget it."""


def played(store: ConversationStore, play: Callable[[TelegramServer, ConversationStore], Awaitable[None]]) -> None:
    """Play a scene with Ana paired."""

    async def scene() -> None:
        ledger = Ledger(store.port, now)
        async with asyncio.timeout(60), telegram_server() as server:
            await ledger.paired("telegram", str(ANA), await ledger.code_for("ana", "telegram"))
            await play(server, store)

    asyncio.run(scene())


class Running:
    """The channel, run."""

    def __init__(self, server: TelegramServer, store: ConversationStore, rooms: tuple[str, ...] = ()) -> None:
        self._work = run(store, [(Telegram(TOKEN, api=server.address), ChannelSettings(name="phone", rooms=rooms))])

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._work)

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


async def asked(store: ConversationStore) -> str:
    """Have a tool ask; return the conversation."""
    return (await agent_with(store, asking(GO)).run("Ship it.")).conversation


async def answers(store: ConversationStore, conversation: str) -> list[tuple[Any, str | None, str | None]]:
    """Return each answer on record: what, why, whose."""
    events = (await store.read(conversation)).events
    said = [event for event in events if isinstance(event, InquiryAnswered)]
    return [(one.answer, one.reason, one.answered_by and one.answered_by.user) for one in said]


async def card(server: TelegramServer, chat: int) -> tuple[int, dict[str, Any]]:
    """Wait for a card with buttons."""
    await until(lambda: any(message["reply_markup"]["inline_keyboard"] for message in server.cards(chat).values()))
    return next((number, message) for number, message in server.cards(chat).items() if message["reply_markup"]["inline_keyboard"])


async def noted(store: ConversationStore, number: int) -> None:
    """Wait until the card is known to be sent: a process that dies before that sends it once more, and only its buttons know both."""
    ledger = Ledger(store.port, now)
    while not any(sent.handle.endswith(f":{number}") for sent in (await ledger.cards("phone")).values()):  # noqa: ASYNC110  as above
        await asyncio.sleep(0.005)


def test_a_button_is_an_answer_and_everything_from_outside_stands_in_code(store: ConversationStore) -> None:
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


def test_what_is_written_while_nothing_runs_is_read_later_and_counts_once(store: ConversationStore) -> None:
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


def test_the_account_of_a_person_who_was_removed_answers_nothing_and_gets_no_card(store: ConversationStore) -> None:
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


def test_what_is_no_ones_answer_answers_nothing(store: ConversationStore) -> None:
    async def play(server: TelegramServer, store: ConversationStore) -> None:
        conversation = await asked(store)
        async with Running(server, store):
            number, _ = await card(server, ANA)
            forwarded = {"type": "user", "date": 1_795_000_000, "sender_user": {"id": 9, "is_bot": False, "first_name": "x"}}
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


def test_a_group_that_is_named_is_asked_and_who_presses_is_who_telegram_says(store: ConversationStore) -> None:
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


def test_each_question_is_sent_once_whatever_telegram_says(store: ConversationStore) -> None:
    async def play(server: TelegramServer, store: ConversationStore) -> None:
        server.faults = {"sendMessage": [(429, "Too Many Requests", {"retry_after": 1}), (502, "Bad Gateway", {})]}
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
def test_errors_say_whether_it_is_for_good(fault: tuple[int, str, dict[str, Any]], error: type[Exception]) -> None:
    async def scene() -> None:
        async with telegram_server() as server:
            channel = Telegram(TOKEN, api=server.address)
            await channel.open(Nowhere())
            server.faults = {"sendMessage": [fault]}
            with pytest.raises(error):
                await channel.send(Card(to=str(ANA), heading="x", text="y"))
            await channel.close()

    asyncio.run(scene())


def test_a_token_that_was_taken_back_lets_no_one_in() -> None:
    async def scene() -> None:
        async with telegram_server() as server:
            channel = Telegram("1:other", api=server.address)
            with pytest.raises(ChannelRefused):
                await channel.open(Nowhere())
            assert "other" not in repr(channel)

    asyncio.run(scene())


def test_no_log_has_the_token(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with telegram_server() as server:
            channel = Telegram(TOKEN, api=server.address)
            await channel.open(Nowhere())
            await channel.close()

    with caplog.at_level("DEBUG"):
        asyncio.run(scene())
    said = [record.getMessage() for record in caplog.records if record.name != "aiohttp.access"]  # the server's own
    assert any("getMe" in message for message in said)
    assert not any(TOKEN in message for message in said)


def test_what_does_not_fit_is_a_file_before_the_card() -> None:
    async def scene() -> None:
        async with telegram_server() as server:
            channel = Telegram(TOKEN, api=server.address)
            await channel.open(Nowhere())
            card = Card(to=str(ANA), heading="h", text="t", file=("call.txt", b"x" * 9_000), choices=(Choice("Allow", "a" * 22),))
            await channel.send(card)
            await channel.close()
            assert server.files == [b"x" * 9_000]

    asyncio.run(scene())
