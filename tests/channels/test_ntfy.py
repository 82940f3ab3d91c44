"""ntfy over HTTP, against our server, which is written from ntfy's documentation. The topic is
the account; there are no user names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("aiohttp")

import midturn as mt
from midturn.channels.ntfy import Ntfy
from midturn.channels.port import Card, ChannelAway, ChannelRefused, Choice
from midturn.channels.state import ChannelState
from midturn.clock import now
from midturn.errors import ConfigError
from midturn.stores.store import ConversationStore
from support.channels.ntfy import TOPIC, NtfyServer, ntfy_server
from support.channels.questions import answered, answers, ask, pair, running
from support.pages import agent_with
from support.waiting import until

GO = mt.Question.boolean("go", "Deploy to production?")
Play = Callable[[NtfyServer, ConversationStore], Awaitable[None]]


class MemoryInProcess:
    """Memory of a channel in this process."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def get(self, name: str) -> str:
        return self.values.get(name, "")

    async def set(self, name: str, value: str) -> None:
        self.values[name] = value


def played(store: ConversationStore, play: Play) -> None:
    """Run a scene in which the topic is Ana's."""

    async def scene() -> None:
        async with asyncio.timeout(120), ntfy_server() as server:
            await pair(store, "ntfy", "ana", TOPIC)
            await play(server, store)

    asyncio.run(scene())


def at(server: NtfyServer, **more: Any) -> Ntfy:
    """Return a channel to the server."""
    return Ntfy(TOPIC, server=server.address, **more)


async def card(
    server: NtfyServer, holds: Callable[[dict[str, Any]], bool] = lambda _: True
) -> dict[str, Any]:
    """Wait for a card with buttons."""
    await until(lambda: any("actions" in message and holds(message) for message in server.shown()))
    return next(message for message in server.shown() if "actions" in message and holds(message))


async def said(server: NtfyServer, text: str) -> None:
    """Wait until the newest card contains a text."""
    await until(lambda: bool(server.shown()) and text in server.shown()[-1]["message"])


async def all_cards_sent(store: ConversationStore) -> None:
    """Wait until all cards are recorded as sent."""
    while not all(  # noqa: ASYNC110  another task keeps it
        sent.there for sent in (await ChannelState(store.port, now).cards("real")).values()
    ):
        await asyncio.sleep(0.005)


def test_button_answers_without_a_user_name(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        question = await ask(store, GO)
        async with running(store, at(server)):
            message = await card(server)
            assert (message["title"], message["message"].split("\n")[0]) == (
                "deploy asks · shop",
                "Deploy to production?",
            )
            assert [action["label"] for action in message["actions"]] == ["Yes", "No"]
            assert {action["url"] for action in message["actions"]} != {f"{server.address}/{TOPIC}"}
            assert await server.press(message, "Yes") == 200
            assert await answered(store, question) == (True, None, None, "ntfy")
            await said(server, "Answered by")
        over = server.shown()[-1]
        assert ("actions" in over, over["sequence_id"], over["priority"]) == (
            False,
            message["id"],
            1,
        )

    played(store, play)


def test_offline_presses_are_read_once(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        question = await ask(store, GO)
        async with running(store, at(server)):
            message = await card(server)
            await all_cards_sent(store)
        for label in ("No", "Yes", "No"):
            await server.press(message, label)
        async with running(store, at(server)):
            await said(server, "Answered by")
        async with running(store, at(server)):
            await until(lambda: len(server.streams) == 3)
        assert await answers(store, question) == [(False, None, None, "ntfy")]
        assert len(server.shown()) == 1

    played(store, play)


def test_text_needs_confirmation_and_messages_of_programs_are_ignored(
    store: ConversationStore,
) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        question = await ask(store, mt.Question.text("why", "Why?"))
        async with running(store, at(server)):
            await said(server, "Why?")
            await all_cards_sent(store)
            await server.write("Disk full", title="Alert")
            await server.write("Disk full", tags=["warning"])
            await server.write("It is time.")
            message = await card(server)
            assert "You wrote: It is time." in message["message"]
            assert await answers(store, question) == []
            await server.press(message, "Send it")
            assert await answered(store, question) == ("It is time.", None, None, "ntfy")

    played(store, play)


def test_code_in_the_topic_pairs_it(store: ConversationStore) -> None:
    async def scene() -> None:
        async with asyncio.timeout(120), ntfy_server() as server:
            question = await ask(store, GO)
            ledger = ChannelState(store.port, now)
            await server.write(await ledger.create_code("ana", "ntfy"))
            async with running(store, at(server)):
                await server.press(await card(server), "No")
                assert await answered(store, question) == (False, None, None, "ntfy")
            assert [(pairing.person, pairing.account) for pairing in await ledger.pairings()] == [
                ("ana", TOPIC)
            ]

    asyncio.run(scene())


def test_questions_for_certain_people_are_not_sent(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        await ask(
            store,
            mt.Question.boolean("only", "Only Ana?", people=mt.People(ask=["ana"], only=True)),
        )
        await ask(
            store,
            mt.Question.boolean(
                "two", "Two of us?", people=mt.People(ask=["ana", "bo"], approvals=2)
            ),
        )
        await ask(store, mt.Question.boolean("human", "A human?", exclusive=True))
        await ask(store, mt.Question.secret("token", "Token?"))
        hers = await ask(
            store, mt.Question.boolean("hers", "For Ana?", people=mt.People(ask=["ana"]))
        )
        await ask(store, mt.Question.boolean("his", "For Bo?", people=mt.People(ask=["bo"])))
        async with running(store, at(server)):
            message = await card(server)
            await server.press(message, "Yes")
            assert await answered(store, hers) == (True, None, None, "ntfy")
        assert len(server.shown()) == 1

    played(store, play)


def test_topics_of_two_people_are_separate_channels(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        await pair(store, "ntfy", "bo", "bos-questions")
        await ask(store, GO)
        async with running(store, at(server)):
            await card(server)
            await all_cards_sent(store)
        assert server.shown("bos-questions") == []
        assert len(server.shown()) == 1

    played(store, play)


def test_card_is_sent_once_despite_errors(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        server.faults = {
            "publish": [
                (429, {"Retry-After": "0"}),
                (503, {"Retry-After": "0"}),
                (507, {"Retry-After": "0"}),
            ]
        }
        for _ in range(3):
            await ask(store, GO)
        async with running(store, at(server)):
            await until(lambda: len(server.shown()) == 3)
            await all_cards_sent(store)
        assert len(server.messages) == 3

    played(store, play)


def test_interrupted_stream_continues_at_its_position(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        server.keepalive = 0.02
        question = await ask(store, GO)
        async with running(store, at(server)):
            message = await card(server)
            await until(lambda: bool(server.streams))
            await server.drop()
            await server.press(message, "Yes")
            assert await answered(store, question) == (True, None, None, "ntfy")

    played(store, play)


def test_token_reads_the_topic_and_buttons_use_a_write_only_token(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        server.access = {"tk_ours": {"*": "rw"}, "tk_press": {"answers": "w"}}
        question = await ask(store, GO)
        channel = at(server, token="tk_ours", answers="answers", answer_token="tk_press")
        assert "tk_" not in repr(channel)
        async with running(store, channel):
            message = await card(server)
            assert "tk_ours" not in str(message)
            assert await server.press(message, "Yes") == 200
            assert await answered(store, question) == (True, None, None, "ntfy")

    played(store, play)


@mt.tool(run="ask")
async def write(content: str) -> str:
    """Write a file."""
    return content


@pytest.mark.parametrize("takes_files", [True, False])
def test_long_content_is_a_file_or_has_no_yes(
    store: ConversationStore, *, takes_files: bool
) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        server.takes_files = takes_files
        await agent_with(store, write, arguments={"content": "line\n" * 800}).run("Write.")
        async with running(store, at(server, files=takes_files)):
            message = await card(server)
        labels = [action["label"] for action in message["actions"]]
        assert labels == (["Allow", "Deny"] if takes_files else ["Deny"])
        assert [content.count(b"line") for _, content in server.files] == (
            [800] if takes_files else []
        )

    played(store, play)


def test_multibyte_and_escaped_characters_arrive_completely() -> None:
    async def scene() -> None:
        async with ntfy_server() as server:
            channel = at(server)
            await channel.open(MemoryInProcess())
            for text in ("\N{OCTOPUS}" * 2_000, '"' * 3_500):
                await channel.send(
                    Card(to=TOPIC, heading="h", text=text, choices=(Choice("Yes", "a" * 22),))
                )
            await channel.close()
            assert [len(content.decode()) for _, content in server.files] == [2_000, 3_500]
            assert ["actions" in message for message in server.shown()] == [True, True]

    asyncio.run(scene())


FAULTS: list[tuple[int, dict[str, str], type[Exception], float | None]] = [
    (429, {"Retry-After": "7"}, ChannelAway, 7.0),
    (429, {}, ChannelAway, None),
    (500, {}, ChannelAway, None),
    (401, {}, ChannelRefused, None),
    (403, {}, ChannelRefused, None),
    (302, {"Location": "http://127.0.0.1:1/"}, ChannelRefused, None),
]


@pytest.mark.parametrize(("status", "headers", "error", "after"), FAULTS)
@pytest.mark.parametrize("what", ["publish", "stream"])
def test_errors_are_permanent_or_temporary(
    what: str, status: int, headers: dict[str, str], error: type[Exception], after: float | None
) -> None:
    async def scene() -> None:
        async with ntfy_server() as server:
            channel = at(server, token="tk_ours")
            await channel.open(MemoryInProcess())
            server.faults = {what: [(status, headers)]}
            with pytest.raises(error) as caught:
                await (
                    channel.send(Card(to=TOPIC, heading="x", text="y"))
                    if what == "publish"
                    else anext(channel.replies())
                )
            assert getattr(caught.value, "after", None) == after
            assert "tk_ours" not in str(caught.value)
            await channel.close()

    asyncio.run(scene())


def test_missing_server_is_temporary_and_revoked_token_is_refused() -> None:
    async def scene() -> None:
        async with ntfy_server() as server:
            server.access = {"tk_ours": {"*": "rw"}}
            refused = at(server, token="tk_revoked")
            with pytest.raises(ChannelRefused, match="unauthorized"):
                await refused.open(MemoryInProcess())
            await refused.close()
        away = at(server)
        with pytest.raises(ChannelAway):
            await away.open(MemoryInProcess())
        await away.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    "server",
    [
        "ntfy.sh",
        "ftp://ntfy.sh",
        "http://ntfy.sh",
        "https://user:pw@ntfy.sh",
        "https://ntfy.sh/topic",
    ],
)
def test_invalid_or_unencrypted_address_is_refused(server: str) -> None:
    with pytest.raises(ConfigError):
        Ntfy(TOPIC, server=server)


@pytest.mark.parametrize("topic", ["", "a/b", "a,b", "x" * 65, "ä"])
def test_invalid_topic_is_refused(topic: str) -> None:
    with pytest.raises(ConfigError):
        Ntfy(topic)
