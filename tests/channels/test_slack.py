"""Slack through its library, against our server, which is written from Slack's documentation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("slack_sdk")

from midturn.channels.port import Card, ChannelAway, ChannelRefused, Choice, Reply
from midturn.channels.slack import Slack
from support.channels.slack import APP_TOKEN, BOT_TOKEN, SlackServer, slack_server
from support.waiting import until

CARD = Card(
    to="U-ana",
    heading="deploy asks · shop",
    text="Deploy to <!channel> & *production*?",
    lines=('deploy {"target": "<@U-bo>"}',),
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
    """A channel and its replies. `next` reads the next reply, which confirms the previous one."""

    def __init__(self, channel: Slack, replies: AsyncGenerator[Reply]) -> None:
        self.channel = channel
        self._replies = replies

    async def next(self) -> Reply:
        """Confirm the previous reply and wait for the next."""
        return await asyncio.wait_for(anext(self._replies), 120)


@asynccontextmanager
async def _listening(
    server: SlackServer, memory: MemoryInProcess | None = None
) -> AsyncGenerator[ChannelReader]:
    channel = Slack(BOT_TOKEN, APP_TOKEN, api=f"{server.address}/api/")
    await channel.open(memory or MemoryInProcess())
    try:
        async with aclosing(channel.replies()) as replies:
            yield ChannelReader(channel, replies)
    finally:
        await channel.close()


def _plays(play: Callable[[SlackServer], Awaitable[None]]) -> None:
    async def played() -> None:
        async with slack_server() as server:
            await play(server)

    asyncio.run(played())


def _texts(block: dict[str, Any]) -> list[str]:
    return [one["text"] for part in block["elements"] for one in part["elements"]]


def test_card_has_buttons_and_no_mentions_or_formatting() -> None:
    async def play(server: SlackServer) -> None:
        async with _listening(server) as line:
            handle = await line.channel.send(CARD)
            (sent,) = server.ours
            assert handle == f"D-ana:{sent['ts']}"
            body, actions = sent["blocks"]
            assert {part["type"] for part in body["elements"]} == {
                "rich_text_section",
                "rich_text_preformatted",
            }
            assert {one["type"] for part in body["elements"] for one in part["elements"]} == {
                "text"
            }
            assert 'deploy {"target": "<@U-bo>"}' in _texts(body)
            assert sent["text"].endswith("Deploy to &lt;!channel&gt; &amp; *production*?")
            assert str(sent["parse"]) == "none"
            assert [(one["text"]["text"], one["value"]) for one in actions["elements"]] == [
                ("Allow", "a" * 22),
                ("Deny", "d" * 22),
            ]

    _plays(play)


def test_long_content_is_sent_first_as_a_file() -> None:
    async def play(server: SlackServer) -> None:
        async with _listening(server) as line:
            await line.channel.send(
                Card(
                    to="U-ana",
                    heading="h",
                    text="t",
                    file=("call.txt", b"x" * 9_000),
                    choices=CARD.choices,
                )
            )
            assert server.files == [("call.txt", b"x" * 9_000)]
            assert server.calls.index("files.completeUploadExternal") < server.calls.index(
                "chat.postMessage"
            )

    _plays(play)


def test_broken_connection_during_an_upload_is_a_temporary_error() -> None:
    async def play(server: SlackServer) -> None:
        async with _listening(server) as line:
            server.cuts_uploads = True
            with pytest.raises(ChannelAway, match="cannot be reached"):
                await line.channel.send(
                    Card(to="U-ana", heading="h", text="t", file=("call.txt", b"x"))
                )

    _plays(play)


def test_closed_card_has_no_buttons_and_a_reason() -> None:
    async def play(server: SlackServer) -> None:
        async with _listening(server) as line:
            handle = await line.channel.send(CARD)
            await line.channel.update(
                handle,
                Card(
                    to="U-ana", heading="", text=CARD.text, notice="Answered by bo.", is_over=True
                ),
            )
            (sent,) = server.ours
            assert [block["type"] for block in sent["blocks"]] == ["rich_text"]
            assert "Answered by bo.\n" in _texts(sent["blocks"][0])

    _plays(play)


def test_button_press_has_user_place_and_time_and_is_acknowledged_after_recording() -> None:
    async def play(server: SlackServer) -> None:
        async with _listening(server) as line:
            handle = await line.channel.send(CARD)
            waiting = asyncio.create_task(line.next())
            await until(lambda: server.sockets)
            envelope = await server.press("U-ana", "D-ana", handle.partition(":")[2], "Deny")
            reply = await waiting
            assert (reply.account, reply.handle, reply.token, reply.place) == (
                "U-ana",
                handle,
                "d" * 22,
                "",
            )
            assert reply.at.startswith("2027-01-15T08:00:00")
            assert server.acknowledged == []
            await server.again(envelope)
            await server.write(
                "U-ana",
                "no, because of &lt;this&gt; &amp; <https://x.example|that>",
                thread_ts=handle.partition(":")[2],
            )
            told = await line.next()
            assert (told.text, told.handle) == ("no, because of <this> & that", handle)
            assert set(server.acknowledged) == {envelope}
            assert len(server.acknowledged) == 2

    _plays(play)


@pytest.mark.parametrize(
    "more",
    [
        {"subtype": "message_changed"},
        {"subtype": "message_deleted"},
        {"subtype": "bot_message", "bot_id": "B9"},
        {"bot_id": "B9"},
        {"subtype": "file_share", "files": [{"id": "F1"}]},
        {"text": "", "files": [{"id": "F1"}]},
    ],
)
def test_edits_deletions_pictures_and_app_messages_are_ignored(more: Any) -> None:
    async def play(server: SlackServer) -> None:
        async with _listening(server) as line:
            waiting = asyncio.create_task(line.next())
            await until(lambda: server.sockets)
            await server.write("U-ana", **{"text": "yes", **more})
            await server.write("U-ana", "after it")
            assert (await waiting).text == "after it"
            assert len(server.acknowledged) == 1

    _plays(play)


def test_room_message_names_its_room() -> None:
    async def play(server: SlackServer) -> None:
        async with _listening(server) as line:
            waiting = asyncio.create_task(line.next())
            await until(lambda: server.sockets)
            await server.write("U-bo", "yes", "C-ops")
            assert (await waiting).place == "C-ops"

    _plays(play)


def test_offline_messages_are_read_once_with_their_original_time() -> None:
    async def play(server: SlackServer) -> None:
        memory = MemoryInProcess()
        async with _listening(server, memory) as line:
            handle = await line.channel.send(CARD)
        thread = handle.partition(":")[2]
        server.unacknowledged.clear()
        await server.write("U-ana", "one")
        for number in range(4):
            await server.write("U-ana", f"in the thread {number}", thread_ts=thread)
        server.unacknowledged.clear()  # Slack does not keep it that long
        async with _listening(server, memory) as line:
            texts = [(await line.next()).text for _ in range(5)]
            assert sorted(texts) == [
                "in the thread 0",
                "in the thread 1",
                "in the thread 2",
                "in the thread 3",
                "one",
            ]
            waiting = asyncio.create_task(line.next())
            await until(lambda: server.sockets)
            await server.write("U-ana", "now")
            assert (await waiting).text == "now"
        async with _listening(server, memory) as line:
            waiting = asyncio.create_task(line.next())
            await until(lambda: len(server.sockets) == 2)
            await server.write("U-ana", "later")
            assert (await waiting).text == "now", "it was not confirmed"
            assert (await line.next()).text == "later"

    _plays(play)


def test_connection_is_refreshed_when_slack_requests_it() -> None:
    async def play(server: SlackServer) -> None:
        async with _listening(server) as line:
            waiting = asyncio.create_task(line.next())
            await until(lambda: server.sockets)
            await server.refresh()
            await until(lambda: len(server.sockets) == 2)
            await server.write("U-ana", "yes")
            assert (await waiting).text == "yes"

    _plays(play)


def test_broken_connection_is_logged_and_unacknowledged_events_repeat() -> None:
    async def play(server: SlackServer) -> None:
        async with _listening(server) as line:
            waiting = asyncio.create_task(line.next())
            await until(lambda: server.sockets)
            await server.write("U-ana", "yes")
            assert (await waiting).text == "yes"
            await server.drop()
        async with _listening(server) as line:
            assert (await line.next()).text == "yes"
            waiting = asyncio.create_task(line.next())
            await until(lambda: server.acknowledged)
            await server.drop()
            with pytest.raises(ChannelAway, match="closed"):
                await waiting

    _plays(play)


FAULTS: list[Any] = [
    ((429, "ratelimited", {"Retry-After": "7"}), ChannelAway, 7.0),
    ((503, "service_unavailable", {}), ChannelAway, None),
    ((200, "internal_error", {}), ChannelAway, None),
    ((200, "token_revoked", {}), ChannelRefused, None),
    ((200, "channel_not_found", {}), ChannelRefused, None),
    ((200, "is_archived", {}), ChannelRefused, None),
]


@pytest.mark.parametrize(("fault", "error", "after"), FAULTS)
def test_errors_are_temporary_or_permanent(
    fault: Any, error: type[ChannelAway | ChannelRefused], after: float | None
) -> None:
    async def play(server: SlackServer) -> None:
        async with _listening(server) as line:
            server.faults["chat.postMessage"] = [fault]
            with pytest.raises(error) as raised:
                await line.channel.send(CARD)
            assert getattr(raised.value, "after", None) == after
            assert server.ours == []
            await line.channel.send(CARD)
            assert len(server.ours) == 1

    _plays(play)


def test_revoked_token_is_refused_and_never_shown() -> None:
    async def play(server: SlackServer) -> None:
        channel = Slack("xoxb-another", APP_TOKEN, api=f"{server.address}/api/")
        with pytest.raises(ChannelRefused, match="invalid_auth") as raised:
            await channel.open(MemoryInProcess())
        assert "xoxb" not in f"{raised.value!r}{channel!r}"
        await channel.close()

    _plays(play)


def test_disabled_socket_mode_is_refused_and_unreachable_servers_are_temporary() -> None:
    async def play(server: SlackServer) -> None:
        async with _listening(server) as line:
            waiting = asyncio.create_task(line.next())
            await until(lambda: server.sockets)
            await server.refresh("link_disabled")
            with pytest.raises(ChannelRefused, match="Socket Mode"):
                await waiting
        channel = Slack(BOT_TOKEN, APP_TOKEN, api="http://127.0.0.1:9/api/")
        with pytest.raises(ChannelAway):
            await channel.open(MemoryInProcess())
        await channel.close()

    _plays(play)
