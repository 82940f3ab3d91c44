"""Discord through its library, against our server, which is written from Discord's
documentation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("discord")

import yarl
from discord import gateway, http

from midturn.channels.discord import Discord, escaped, written
from midturn.channels.port import Card, ChannelAway, ChannelRefused, Choice, Reply
from support.channels.discord import TOKEN, DiscordServer, discord_server
from support.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of the library
CARD = Card(
    to="77",
    heading="deploy asks · shop",
    text="Deploy to @everyone & *production* at https://x.example <@77>?",
    lines=('deploy {"target": "<@!88> @everyone"}',),
    choices=(Choice("Allow", "a" * 22), Choice("Deny", "d" * 22)),
    hint='Or reply to this message: "no, because …".',
)


class MemoryInProcess:
    """Memory of a channel in this process."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def get(self, name: str) -> str:
        return self.kept.get(name, "")

    async def set(self, name: str, value: str) -> None:
        self.kept[name] = value


class ChannelReader:
    """A channel and its replies. `next` confirms the previous reply."""

    def __init__(self, channel: Discord, replies: AsyncGenerator[Reply]) -> None:
        self.channel = channel
        self._replies = replies

    async def next(self) -> Reply:
        """Confirm the previous reply and wait for the next."""
        return await asyncio.wait_for(anext(self._replies), 120)


@asynccontextmanager
async def _listening(memory: MemoryInProcess | None = None) -> AsyncGenerator[ChannelReader]:
    channel = Discord(TOKEN)
    await channel.open(memory or MemoryInProcess())
    try:
        async with aclosing(channel.replies()) as replies:
            yield ChannelReader(channel, replies)
    finally:
        await channel.close()


def _plays(play: Callable[[DiscordServer], Awaitable[None]]) -> None:
    async def played() -> None:
        async with discord_server() as server:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(http.Route, "BASE", f"{server.address}/api")
                patch.setattr(
                    gateway.DiscordWebSocket,
                    "DEFAULT_GATEWAY",
                    yarl.URL(f"{server.address.replace('http', 'ws', 1)}/gateway"),
                )
                await play(server)

    asyncio.run(played())


def test_card_has_buttons_and_escaped_text() -> None:
    async def play(server: DiscordServer) -> None:
        async with _listening() as line:
            handle = await line.channel.send(CARD)
            (sent,) = server.ours
            assert handle == f"500:{sent['id']}"
            assert (
                "Deploy to \\@everyone \\& \\*production\\* at https\\:\\/\\/x\\.example"
                " \\<\\@77\\>\\?" in sent["content"]
            )
            assert '```\ndeploy {"target": "<@!88> @everyone"}\n```' in sent["content"]
            assert server.sent_as[0]["allowed_mentions"]["parse"] == []
            assert [
                (one["label"], one["custom_id"])
                for row in sent["components"]
                for one in row["components"]
            ] == [
                ("Allow", "a" * 22),
                ("Deny", "d" * 22),
            ]

    _plays(play)


@pytest.mark.parametrize("exact", ["x" * 1_500 + "\n" + "y" * 900, "a ``` b", "`tick"])
def test_text_with_a_fence_or_too_long_is_sent_as_a_file(exact: str) -> None:
    async def play(server: DiscordServer) -> None:
        async with _listening() as line:
            await line.channel.send(
                Card(
                    to="77",
                    heading="h",
                    text="t",
                    lines=tuple(exact.split("\n")),
                    choices=CARD.choices,
                )
            )
            (sent,) = server.ours
            assert server.files[sent["id"]] == [("shown.txt", exact.encode())]
            assert "shown\\.txt" in sent["content"]

    _plays(play)


def test_long_cards_are_split_without_loss() -> None:
    content, files = written(
        Card(to="77", heading="*" * 600, text="*" * 990, hint="*" * 100, lines=("x",))
    )
    assert len(content) <= 2_000
    assert files[-1][1].count(b"*") == 1_690
    assert escaped("_`~|#1. a") == "\\_\\`\\~\\|\\#1\\. a"


def test_closed_card_has_no_buttons_and_a_reason() -> None:
    async def play(server: DiscordServer) -> None:
        async with _listening() as line:
            handle = await line.channel.send(CARD)
            await line.channel.update(
                handle,
                Card(to="77", heading="", text=CARD.text, notice="Answered by bo.", is_over=True),
            )
            (sent,) = server.ours
            assert sent["components"] == []
            assert "Answered by bo\\." in sent["content"]
            with pytest.raises(ChannelRefused, match="Unknown Message"):
                await line.channel.update("500:12345", CARD)

    _plays(play)


def test_button_press_has_user_place_and_time_and_is_acknowledged_after_recording() -> None:
    async def play(server: DiscordServer) -> None:
        async with _listening() as line:
            handle = await line.channel.send(CARD)
            waiting = asyncio.create_task(line.next())
            await server.connected()
            await server.press("77", handle.partition(":")[2], "Deny")
            reply = await waiting
            assert (reply.account, reply.handle, reply.token, reply.place) == (
                "77",
                handle,
                "d" * 22,
                "",
            )
            assert reply.at.startswith("2027-01-15T08:00:00")
            assert server.acknowledged == []
            waiting = asyncio.create_task(line.next())
            await until(lambda: server.acknowledged)
            await server.write("77", "no, because", about=handle.partition(":")[2])
            told = await waiting
            assert (told.text, told.handle, told.place) == ("no, because", handle, "")
            waiting = asyncio.create_task(line.next())
            await server.press("88", handle.partition(":")[2], "Allow", room="900")
            assert (await waiting).place == "#500"

    _plays(play)


def test_broken_connection_during_acknowledgement_is_harmless() -> None:
    async def play(server: DiscordServer) -> None:
        async with _listening() as line:
            handle = await line.channel.send(CARD)
            waiting = asyncio.create_task(line.next())
            await server.connected()
            server.cuts_callbacks = True
            await server.press("77", handle.partition(":")[2], "Deny")
            await waiting
            waiting = asyncio.create_task(line.next())
            await until(lambda: server.acknowledged)
            await server.write("77", "after it")
            assert (await waiting).text == "after it"

    _plays(play)


@pytest.mark.parametrize(
    "more",
    [
        {
            "author": {
                "id": "9",
                "username": "other",
                "discriminator": "0",
                "avatar": None,
                "bot": True,
            }
        },
        {"webhook_id": "4"},
        {"type": 6},
        {"content": "", "message_reference": {"type": 1, "message_id": "5", "channel_id": "500"}},
        {
            "content": "",
            "attachments": [
                {"id": "5", "filename": "a.png", "size": 1, "url": "", "proxy_url": ""}
            ],
        },
    ],
)
def test_bot_messages_forwards_and_pictures_are_ignored(more: dict[str, Any]) -> None:
    async def play(server: DiscordServer) -> None:
        async with _listening() as line:
            waiting = asyncio.create_task(line.next())
            await server.connected()
            await server.write("77", "yes", **more)
            await server.write("77", "after it")
            assert (await waiting).text == "after it"

    _plays(play)


def test_edits_are_ignored_and_rooms_are_named() -> None:
    async def play(server: DiscordServer) -> None:
        async with _listening() as line:
            waiting = asyncio.create_task(line.next())
            await server.connected()
            message = await server.write("88", "yes", "600", room="900")
            assert (await waiting).place == "#600"
            waiting = asyncio.create_task(line.next())
            await server._dispatch(
                "MESSAGE_UPDATE",
                {**message, "content": "no", "edited_timestamp": "2027-01-15T08:00:09+00:00"},
            )
            await server.write("77", "after it")
            assert (await waiting).text == "after it"

    _plays(play)


def test_resumed_session_delivers_missed_events_once() -> None:
    async def play(server: DiscordServer) -> None:
        async with _listening() as line:
            await line.channel.send(CARD)
            waiting = asyncio.create_task(line.next())
            await server.connected()
            await server.write("77", "before")
            assert (await waiting).text == "before"
            waiting = asyncio.create_task(line.next())
            await server.drop()
            await server.write("77", "meanwhile")
            assert (await waiting).text == "meanwhile"
            assert (server.identified, server.resumed) == (1, 1)
            waiting = asyncio.create_task(line.next())
            await server.write("77", "after it")
            assert (await waiting).text == "after it"

    _plays(play)


def test_offline_messages_are_read_once() -> None:
    async def play(server: DiscordServer) -> None:
        memory = MemoryInProcess()
        async with _listening(memory) as line:
            handle = await line.channel.send(CARD)
        for number in range(3):
            await server.write("77", f"{number}", about=handle.partition(":")[2])
        async with _listening(memory) as line:
            assert [(await line.next()).text for _ in range(3)] == ["0", "1", "2"]
        async with _listening(memory) as line:
            again = await line.next()
            assert (again.text, again.handle, again.place) == (
                "2",
                handle,
                "",
            ), "it was not confirmed"

    _plays(play)


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [(403, "Missing Access", ChannelRefused), (400, "Invalid", ChannelRefused)],
)
def test_discord_refusals_are_permanent(
    status: int, message: str, error: type[ChannelRefused]
) -> None:
    async def play(server: DiscordServer) -> None:
        async with _listening() as line:
            server.faults["POST channels"] = [(status, {"message": message, "code": 50001}, {})]
            with pytest.raises(error, match=message):
                await line.channel.send(CARD)
            assert server.ours == []

    _plays(play)


def test_rate_limit_delays_the_card_and_it_is_sent_once() -> None:
    async def play(server: DiscordServer) -> None:
        async with _listening() as line:
            limited = {
                "message": "You are being rate limited.",
                "retry_after": 0.05,
                "global": False,
            }
            server.faults["POST channels"] = [
                (429, limited, {"Retry-After": "1", "X-RateLimit-Reset-After": "0.05"})
            ]
            await line.channel.send(CARD)
            assert len(server.ours) == 1

    _plays(play)


def test_revoked_token_is_refused_and_never_shown() -> None:
    async def play(server: DiscordServer) -> None:
        channel = Discord("another-token")
        with pytest.raises(ChannelRefused) as raised:
            await channel.open(MemoryInProcess())
        assert "another-token" not in f"{raised.value!r}{channel!r}"
        async with _listening() as line:
            server.close_with = 4004
            with pytest.raises(ChannelRefused, match="4004"):
                await line.next()

    _plays(play)


def test_unreachable_server_is_a_temporary_error() -> None:
    async def play(server: DiscordServer) -> None:
        del server
        http.Route.BASE = "http://127.0.0.1:9/api"
        with pytest.raises(ChannelAway):
            await Discord(TOKEN).open(MemoryInProcess())

    _plays(play)


def test_events_arrive_immediately_and_close_leaves_no_task() -> None:
    async def scene() -> None:
        channel = Discord(TOKEN)
        client = channel._make_client()
        client.loop = asyncio.get_running_loop()
        client.dispatch("ready")
        client.dispatch("disconnect")
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert channel._events is not None
        assert (channel._events.get_nowait(), channel._events.empty()) == (None, True)

    asyncio.run(scene())
