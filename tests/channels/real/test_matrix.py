"""Matrix with Synapse: rooms, replies, reactions, edits, messages sent while no server ran."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

import midturn as mt
from midturn.channels.matrix import Matrix
from midturn.channels.port import Card, ChannelRefused
from midturn.channels.state import ChannelState
from midturn.clock import now
from midturn.errors import ConfigError
from midturn.stores.store import ConversationStore
from support.channels.questions import answered, answers, ask, pair, running
from support.channels.synapse import Homeserver, no_synapse

pytestmark = [
    pytest.mark.real("channels"),
    pytest.mark.skipif(bool(no_synapse()), reason=no_synapse()),
]
GO = mt.Question.boolean("go", "Deploy to production?")


@pytest.fixture(scope="module")
def server() -> Iterator[Homeserver]:
    """One homeserver for all tests, since it takes seconds to start."""
    homeserver = Homeserver()
    yield homeserver
    homeserver.remove()


class NoMemory:
    """A memory that keeps nothing."""

    def get(self, name: str) -> str:
        del name
        return ""

    async def set(self, name: str, value: str) -> None: ...


def played(play: Callable[[], Awaitable[None]]) -> None:
    """Run a scene, with a limit of one minute."""

    async def scene() -> None:
        async with asyncio.timeout(120):
            await play()

    asyncio.run(scene())


def test_reply_answers_as_the_paired_person(store: ConversationStore, server: Homeserver) -> None:
    async def play() -> None:
        ana, bot, mallory = server.account("ana"), server.account("bot"), server.account("mallory")
        await pair(store, "matrix", "ana", ana.user)
        question = await ask(store, GO)
        async with running(store, Matrix(server.url, bot.token)):
            room = await ana.invited()
            card = await ana.message(room, "Deploy to production?")
            strange = await mallory.room_with(bot.user)
            await mallory.say(strange, "yes", to=card["event_id"])
            await ana.say(room, "yes", edits=card["event_id"])
            await mallory.say(strange, "yes", **{"m.relates_to": "nothing that one expects"})
            await mallory.send(
                strange,
                "m.reaction",
                {"m.relates_to": {"rel_type": "m.annotation", "event_id": 7, "key": {"a": 1}}},
            )
            await ana.say(room, "> <@bot> Deploy?\n\nno, because it is Friday", to=card["event_id"])
            assert await answered(store, question) == (False, "it is Friday", "ana", "matrix")
            await ana.message(room, "* Answered by ana (matrix).")
        assert len(await answers(store, question)) == 1

    played(play)


def test_reactions_answer_and_offline_messages_are_read(
    store: ConversationStore, server: Homeserver
) -> None:
    async def play() -> None:
        ana, bot = server.account("ana"), server.account("bot")
        await pair(store, "matrix", "ana", ana.user)
        question = await ask(store, GO)
        async with running(store, Matrix(server.url, bot.token)):
            room = await ana.invited()
            card = await ana.message(room, "Deploy to production?")
        await ana.react(room, card["event_id"], "\U0001f44d\ufe0f")
        async with running(store, Matrix(server.url, bot.token)):
            assert await answered(store, question) == (True, None, "ana", "matrix")
            await ana.message(room, "* Answered by")
        sent = [
            event
            for event in await ana.seen(room)
            if "Deploy to production?" in str(event["content"]) and event["sender"] == bot.user
        ]
        assert len(sent) == 2  # the card and its edit

    played(play)


def test_code_pairs_and_rooms_accept_only_paired_people(
    store: ConversationStore, server: Homeserver
) -> None:
    async def play() -> None:
        ana, bot, bo = server.account("ana"), server.account("bot"), server.account("bo")
        ops = await ana.room_with(bot.user, bo.user)
        await bo.join(ops)
        await bot.join(ops)
        question = await ask(store, GO)
        async with running(store, Matrix(server.url, bot.token), rooms=(ops,)):
            card = await ana.message(ops, "Deploy to production?")
            alone = await ana.room_with(bot.user)
            await ana.say(alone, await ChannelState(store.port, now).create_code("ana", "matrix"))
            async with asyncio.timeout(120):
                while not await ChannelState(store.port, now).pairings():  # noqa: ASYNC110  a server of another process has no event
                    await asyncio.sleep(0.02)
            await bo.say(ops, "no", to=card["event_id"])
            await ana.say(ops, "no")  # it does not say to whom
            await ana.say(ops, "yes", to=card["event_id"])
            assert await answered(store, question) == (True, None, "ana", "matrix")

    played(play)


def test_repeated_message_is_deduplicated_and_files_are_complete(server: Homeserver) -> None:
    async def play() -> None:
        ana, bot = server.account("ana"), server.account("bot")
        room = await bot.room_with(ana.user)
        await ana.join(room)
        channel = Matrix(server.url, bot.token)
        await channel.open(NoMemory())
        card = Card(
            to=room,
            token="t" * 22,
            heading="a",
            text="Write?",
            file=("call.txt", b"+ line\n" * 5_000),
        )
        assert await channel.send(card) == await channel.send(card)
        await channel.close()
        assert [
            event["content"]["body"][:8]
            for event in await ana.seen(room)
            if event["type"] == "m.room.message"
        ] == [
            "call.txt",
            "a\n\nWrite",
        ]

    played(play)


def test_encrypted_room_and_revoked_token_are_refused(server: Homeserver) -> None:
    async def play() -> None:
        ana, bot = server.account("ana"), server.account("bot")
        room = await bot.room_with(ana.user, encrypted=True)
        channel = Matrix(server.url, bot.token)
        await channel.open(NoMemory())
        with pytest.raises(ChannelRefused, match="is encrypted"):
            await channel.send(Card(to=room, token="t", heading="", text="Go?"))
        await bot.call("POST", "/logout")
        with pytest.raises(ChannelRefused, match="M_UNKNOWN_TOKEN"):
            await channel.send(Card(to="@new:bot.test", token="t", heading="", text="Go?"))
        await channel.close()

    played(play)


def test_left_rooms_and_withdrawn_invitations_are_harmless(
    store: ConversationStore, server: Homeserver
) -> None:
    async def play() -> None:
        ana, bot, mallory = server.account("ana"), server.account("bot"), server.account("mallory")
        await pair(store, "matrix", "ana", ana.user)
        gone, noisy = await mallory.room_with(bot.user), await mallory.room_with(bot.user)
        await mallory.call("POST", f"/rooms/{gone}/kick", {"user_id": bot.user})
        await bot.join(noisy)
        await mallory.say(noisy, "yes")
        await mallory.call("POST", f"/rooms/{noisy}/kick", {"user_id": bot.user})
        first = await ask(store, GO)
        async with running(store, Matrix(server.url, bot.token)):
            room = await ana.invited()
            card = await ana.message(room, "Deploy to production?")
            await ana.say(room, "yes", to=card["event_id"])
            assert await answered(store, first) == (True, None, "ana", "matrix")
            await ana.message(room, "* Answered by")
        await ana.call("POST", f"/rooms/{room}/leave", {})
        second = await ask(store, GO)
        async with running(store, Matrix(server.url, bot.token)):
            anew = await ana.invited()
            card = await ana.message(anew, "Deploy to production?")
            await ana.react(anew, card["event_id"], "\U0001f44e")
            assert await answered(store, second) == (False, None, "ana", "matrix")

    played(play)


def test_restarted_homeserver_is_used_again(store: ConversationStore, server: Homeserver) -> None:
    async def play() -> None:
        ana, bot = server.account("ana"), server.account("bot")
        await pair(store, "matrix", "ana", ana.user)
        question = await ask(store, GO)
        async with running(store, Matrix(server.url, bot.token)):
            room = await ana.invited()
            card = await ana.message(room, "Deploy to production?")
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            await ana.say(room, "yes", to=card["event_id"])
            assert await answered(store, question) == (True, None, "ana", "matrix")

    played(play)


def test_insecure_address_is_reported() -> None:
    with pytest.raises(ConfigError, match="not the URL of a homeserver"):
        Matrix("http://matrix.example.org", "x")
