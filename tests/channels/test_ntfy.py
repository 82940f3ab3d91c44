"""ntfy, over the wire, against a server of ours that speaks as ntfy's documents say: a topic is the account, and no one has a name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("aiohttp")

import midturn as mt
from midturn.channels.ntfy import Ntfy
from midturn.channels.port import Card, ChannelAway, ChannelRefused, Choice
from midturn.channels.state import Ledger
from midturn.clock import now
from midturn.errors import ConfigError
from midturn.stores.store import ConversationStore
from support.channels.asked import answered, answers, ask, pair, running
from support.channels.ntfy import TOPIC, NtfyServer, ntfy_server
from support.pages import agent_with
from support.waiting import until

GO = mt.Question.boolean("go", "Deploy to production?")
Play = Callable[[NtfyServer, ConversationStore], Awaitable[None]]


class Kept:
    """Keeps what a channel keeps, in memory."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def get(self, name: str) -> str:
        """Return it."""
        return self.values.get(name, "")

    async def set(self, name: str, value: str) -> None:
        """Keep it."""
        self.values[name] = value


def played(store: ConversationStore, play: Play) -> None:
    """Play a scene in which the topic is Ana's."""

    async def scene() -> None:
        async with asyncio.timeout(60), ntfy_server() as server:
            await pair(store, "ntfy", "ana", TOPIC)
            await play(server, store)

    asyncio.run(scene())


def at(server: NtfyServer, **more: Any) -> Ntfy:
    """Return a channel on the server."""
    return Ntfy(TOPIC, server=server.address, **more)


async def card(server: NtfyServer, holds: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
    """Wait for a card with buttons."""
    await until(lambda: any("actions" in message and holds(message) for message in server.shown()))
    return next(message for message in server.shown() if "actions" in message and holds(message))


async def said(server: NtfyServer, text: str) -> None:
    """Wait until the newest card says something."""
    await until(lambda: bool(server.shown()) and text in server.shown()[-1]["message"])


async def in_place(store: ConversationStore) -> None:
    """Wait until each card is known to be there."""
    while not all(sent.there for sent in (await Ledger(store.port, now).cards("real")).values()):  # noqa: ASYNC110  another task keeps it
        await asyncio.sleep(0.005)


def test_a_button_is_an_answer_of_no_name(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        question = await ask(store, GO)
        async with running(store, at(server)):
            message = await card(server)
            assert (message["title"], message["message"].split("\n")[0]) == ("deploy asks · shop", "Deploy to production?")
            assert [action["label"] for action in message["actions"]] == ["Yes", "No"]
            assert {action["url"] for action in message["actions"]} != {f"{server.address}/{TOPIC}"}
            assert await server.press(message, "Yes") == 200
            assert await answered(store, question) == (True, None, None, "ntfy")
            await said(server, "Answered by")
        over = server.shown()[-1]
        assert ("actions" in over, over["sequence_id"], over["priority"]) == (False, message["id"], 1)

    played(store, play)


def test_what_is_pressed_while_nothing_runs_is_read_later_and_counts_once(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        question = await ask(store, GO)
        async with running(store, at(server)):
            message = await card(server)
            await in_place(store)
        for label in ("No", "Yes", "No"):
            await server.press(message, label)
        async with running(store, at(server)):
            await said(server, "Answered by")
        async with running(store, at(server)):
            await until(lambda: len(server.streams) == 3)
        assert await answers(store, question) == [(False, None, None, "ntfy")]
        assert len(server.shown()) == 1

    played(store, play)


def test_words_are_shown_once_more_and_those_of_programs_are_none(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        question = await ask(store, mt.Question.text("why", "Why?"))
        async with running(store, at(server)):
            await said(server, "Why?")
            await in_place(store)
            await server.write("Disk full", title="Alert")
            await server.write("Disk full", tags=["warning"])
            await server.write("It is time.")
            message = await card(server)
            assert "You wrote: It is time." in message["message"]
            assert await answers(store, question) == []
            await server.press(message, "Send it")
            assert await answered(store, question) == ("It is time.", None, None, "ntfy")

    played(store, play)


def test_a_code_that_is_written_into_the_topic_pairs_it(store: ConversationStore) -> None:
    async def scene() -> None:
        async with asyncio.timeout(60), ntfy_server() as server:
            question = await ask(store, GO)
            ledger = Ledger(store.port, now)
            await server.write(await ledger.code_for("ana", "ntfy"))
            async with running(store, at(server)):
                await server.press(await card(server), "No")
                assert await answered(store, question) == (False, None, None, "ntfy")
            assert [(pairing.person, pairing.account) for pairing in await ledger.pairings()] == [("ana", TOPIC)]

    asyncio.run(scene())


def test_what_only_certain_people_decide_is_not_sent(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        await ask(store, mt.Question.boolean("only", "Only Ana?", people=mt.People(ask=["ana"], only=True)))
        await ask(store, mt.Question.boolean("two", "Two of us?", people=mt.People(ask=["ana", "bo"], approvals=2)))
        await ask(store, mt.Question.boolean("human", "A human?", exclusive=True))
        await ask(store, mt.Question.secret("token", "Token?"))
        hers = await ask(store, mt.Question.boolean("hers", "For Ana?", people=mt.People(ask=["ana"])))
        await ask(store, mt.Question.boolean("his", "For Bo?", people=mt.People(ask=["bo"])))
        async with running(store, at(server)):
            message = await card(server)
            await server.press(message, "Yes")
            assert await answered(store, hers) == (True, None, None, "ntfy")
        assert len(server.shown()) == 1

    played(store, play)


def test_topics_of_two_people_are_two_channels(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        await pair(store, "ntfy", "bo", "bos-questions")
        await ask(store, GO)
        async with running(store, at(server)):
            await card(server)
            await in_place(store)
        assert server.shown("bos-questions") == []
        assert len(server.shown()) == 1

    played(store, play)


def test_each_card_is_sent_once_whatever_the_server_says(store: ConversationStore) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        server.faults = {"publish": [(429, {"Retry-After": "0"}), (503, {"Retry-After": "0"}), (507, {"Retry-After": "0"})]}
        for _ in range(3):
            await ask(store, GO)
        async with running(store, at(server)):
            await until(lambda: len(server.shown()) == 3)
            await in_place(store)
        assert len(server.messages) == 3

    played(store, play)


def test_a_stream_that_ends_goes_on_where_it_was(store: ConversationStore) -> None:
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


def test_a_token_opens_the_topic_and_buttons_carry_one_that_may_only_write(store: ConversationStore) -> None:
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
def test_what_does_not_fit_is_a_file_or_there_is_no_yes(store: ConversationStore, *, takes_files: bool) -> None:
    async def play(server: NtfyServer, store: ConversationStore) -> None:
        server.takes_files = takes_files
        await agent_with(store, write, arguments={"content": "line\n" * 800}).run("Write.")
        async with running(store, at(server, files=takes_files)):
            message = await card(server)
        labels = [action["label"] for action in message["actions"]]
        assert labels == (["Allow", "Deny"] if takes_files else ["Deny"])
        assert [content.count(b"line") for _, content in server.files] == ([800] if takes_files else [])

    played(store, play)


def test_texts_of_signs_that_take_four_bytes_and_of_signs_that_are_escaped_arrive_whole() -> None:
    async def scene() -> None:
        async with ntfy_server() as server:
            channel = at(server)
            await channel.open(Kept())
            for text in ("\N{OCTOPUS}" * 2_000, '"' * 3_500):
                await channel.send(Card(to=TOPIC, heading="h", text=text, choices=(Choice("Yes", "a" * 22),)))
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
def test_errors_say_whether_it_is_for_good(
    what: str, status: int, headers: dict[str, str], error: type[Exception], after: float | None
) -> None:
    async def scene() -> None:
        async with ntfy_server() as server:
            channel = at(server, token="tk_ours")
            await channel.open(Kept())
            server.faults = {what: [(status, headers)]}
            with pytest.raises(error) as caught:
                await (channel.send(Card(to=TOPIC, heading="x", text="y")) if what == "publish" else anext(channel.replies()))
            assert getattr(caught.value, "after", None) == after
            assert "tk_ours" not in str(caught.value)
            await channel.close()

    asyncio.run(scene())


def test_a_server_that_is_not_there_is_away_and_a_revoked_token_lets_no_one_in() -> None:
    async def scene() -> None:
        async with ntfy_server() as server:
            server.access = {"tk_ours": {"*": "rw"}}
            refused = at(server, token="tk_revoked")
            with pytest.raises(ChannelRefused, match="unauthorized"):
                await refused.open(Kept())
            await refused.close()
        away = at(server)
        with pytest.raises(ChannelAway):
            await away.open(Kept())
        await away.close()

    asyncio.run(scene())


@pytest.mark.parametrize("server", ["ntfy.sh", "ftp://ntfy.sh", "http://ntfy.sh", "https://user:pw@ntfy.sh", "https://ntfy.sh/topic"])
def test_an_address_that_is_none_or_in_the_clear_is_refused(server: str) -> None:
    with pytest.raises(ConfigError):
        Ntfy(TOPIC, server=server)


@pytest.mark.parametrize("topic", ["", "a/b", "a,b", "x" * 65, "ä"])
def test_a_topic_that_is_none_is_refused(topic: str) -> None:
    with pytest.raises(ConfigError):
        Ntfy(topic)
