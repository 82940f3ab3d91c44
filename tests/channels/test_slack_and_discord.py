"""Questions answered in Slack and Discord, end to end: pairing, buttons, text, strangers, a
restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("discord")
pytest.importorskip("slack_sdk")

import yarl
from discord import gateway, http

import midturn as mt
from midturn.channels.discord import Discord
from midturn.channels.port import Channel, ChannelSettings
from midturn.channels.running import run
from midturn.channels.slack import Slack
from midturn.channels.state import ChannelState
from midturn.clock import now
from midturn.events.types import InquiryAnswered
from midturn.stores.store import ConversationStore
from support.channels.discord import TOKEN, DiscordServer, discord_server
from support.channels.slack import APP_TOKEN, BOT_TOKEN, SlackServer, slack_server
from support.pages import agent_with, asking
from support.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of a library
GO = mt.Question.boolean("go", "Deploy to production?")


class Platform(Protocol):
    """Actions of users on a platform, and their view."""

    kind: str
    room: str

    def channel(self) -> Channel:
        """Return a channel to the platform."""
        ...

    async def listening(self, times: int = 1) -> None:
        """Wait until the channel has connected `times` times."""
        ...

    async def write(self, who: str, text: str, *, about: bool = False) -> None:
        """Write a message, optionally as a reply to the last card."""
        ...

    async def press(self, who: str, label: str, *, room: bool = False) -> None:
        """Press a button of the last card."""
        ...

    @property
    def cards(self) -> list[dict[str, Any]]:
        """The cards, oldest first."""
        ...

    def labels(self) -> list[str]:
        """Return the buttons of the last card."""
        ...

    def limit(self) -> None:
        """Reject the next messages with a rate limit error."""
        ...


class SlackPhone:
    kind = "slack"
    room = "C-ops"

    def __init__(self, server: SlackServer) -> None:
        self.server = server

    def channel(self) -> Channel:
        return Slack(BOT_TOKEN, APP_TOKEN, api=f"{self.server.address}/api/")

    async def listening(self, times: int = 1) -> None:
        await until(lambda: len(self.server.sockets) >= times)

    async def write(self, who: str, text: str, *, about: bool = False) -> None:
        thread = {"thread_ts": self.cards[-1]["ts"]} if about else {}
        await self.server.write(f"U-{who}", text, f"D-{who}", **thread)

    async def press(self, who: str, label: str, *, room: bool = False) -> None:
        del room
        await self.server.press(f"U-{who}", self.cards[-1]["channel"], self.cards[-1]["ts"], label)

    @property
    def cards(self) -> list[dict[str, Any]]:
        return self.server.ours

    def labels(self) -> list[str]:
        blocks: list[dict[str, Any]] = self.cards[-1]["blocks"]
        return [
            one["text"]["text"]
            for block in blocks
            if block["type"] == "actions"
            for one in block["elements"]
        ]

    def limit(self) -> None:
        self.server.faults["chat.postMessage"] = [(429, "ratelimited", {"Retry-After": "0"})] * 3


class DiscordPhone:
    kind = "discord"
    room = "#600"
    ids = {"ana": "77", "eve": "88"}  # noqa: RUF012

    def __init__(self, server: DiscordServer) -> None:
        self.server = server

    def channel(self) -> Channel:
        return Discord(TOKEN)

    async def listening(self, times: int = 1) -> None:
        await self.server.connected(times)

    async def write(self, who: str, text: str, *, about: bool = False) -> None:
        await self.server.write(
            self.ids[who],
            text,
            "500" if who == "ana" else "501",
            about=self.cards[-1]["id"] if about else "",
        )

    async def press(self, who: str, label: str, *, room: bool = False) -> None:
        await self.server.press(
            self.ids[who], self.cards[-1]["id"], label, room="900" if room else ""
        )

    @property
    def cards(self) -> list[dict[str, Any]]:
        return self.server.ours

    def labels(self) -> list[str]:
        return [one["label"] for row in self.cards[-1]["components"] for one in row["components"]]

    def limit(self) -> None:
        body = {"message": "You are being rate limited.", "retry_after": 0.01, "global": False}
        self.server.faults["POST channels"] = [(429, body, {"Retry-After": "1"})] * 3


class Scene:
    """A store with a running channel."""

    def __init__(self, store: ConversationStore, platform: Platform) -> None:
        self.store = store
        self.platform = platform

    async def ask(self, question: mt.Question[Any] = GO) -> mt.OpenQuestion:
        """Ask `question` from a tool."""
        return (await agent_with(self.store, asking(question)).run("Ship it.")).pending[0]

    async def pair(self, person: str) -> None:
        """Send the pairing code to the bot as a user."""
        code = await ChannelState(self.store.port, now).create_code(person, self.platform.kind)
        await self.platform.write(person, code)
        await until_async(self._paired)

    async def _paired(self) -> bool:
        return bool(await ChannelState(self.store.port, now).pairings())

    @asynccontextmanager
    async def running(self, times: int = 1, rooms: tuple[str, ...] = ()) -> AsyncGenerator[None]:
        """Run the channel."""
        settings = ChannelSettings(name="phone", where="shop", rooms=rooms)
        running = asyncio.create_task(run(self.store, [(self.platform.channel(), settings)]))
        try:
            await self.platform.listening(times)
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def answered(
        self, question: mt.OpenQuestion
    ) -> tuple[object, str | None, str | None, str | None]:
        """Wait for the recorded answer: value, reason, responder, interface."""
        await until_async(lambda: self._is_closed(question))
        events = (await self.store.read(question.conversation)).events
        (one,) = [event for event in events if isinstance(event, InquiryAnswered)]
        return (
            one.answer,
            one.reason,
            one.answered_by and one.answered_by.user,
            one.answered_by and one.answered_by.via,
        )

    async def _is_closed(self, question: mt.OpenQuestion) -> bool:
        return question.id not in {one.id for one in await self.store.pending()}


async def until_async(arrived: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(120):
        while not await arrived():  # noqa: ASYNC110  what is waited for has no event to wait on
            await asyncio.sleep(0.005)


@pytest.fixture(params=["slack", "discord"])
def plays(
    request: pytest.FixtureRequest, store: ConversationStore
) -> Callable[[Callable[[Scene], Awaitable[None]]], None]:
    """Return a function that runs a scene on a platform and then checks for invented
    decisions.
    """

    async def on_slack(play: Callable[[Scene], Awaitable[None]]) -> None:
        async with slack_server() as server:
            await play(Scene(store, SlackPhone(server)))

    async def on_discord(play: Callable[[Scene], Awaitable[None]]) -> None:
        async with discord_server() as server:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(http.Route, "BASE", f"{server.address}/api")
                patch.setattr(
                    gateway.DiscordWebSocket,
                    "DEFAULT_GATEWAY",
                    yarl.URL(f"{server.address.replace('http', 'ws', 1)}/gateway"),
                )
                await play(Scene(store, DiscordPhone(server)))

    on = {"slack": on_slack, "discord": on_discord}[request.param]

    def played(play: Callable[[Scene], Awaitable[None]]) -> None:
        asyncio.run(on(play))

    return played


Plays = Callable[[Callable[[Scene], Awaitable[None]]], None]


def test_paired_person_answers_by_button_and_the_card_shows_it(plays: Plays) -> None:
    async def play(scene: Scene) -> None:
        platform = scene.platform
        async with scene.running():
            await scene.pair("ana")
            question = await scene.ask()
            await until(lambda: platform.cards and platform.labels() == ["Yes", "No"])
            await platform.press("ana", "No")
            assert await scene.answered(question) == (False, None, "ana", platform.kind)
            await until(lambda: platform.labels() == [])
            assert len(platform.cards) == 1

    plays(play)


def test_a_no_with_a_reason_is_written_as_a_reply(plays: Plays) -> None:
    async def play(scene: Scene) -> None:
        async with scene.running():
            await scene.pair("ana")
            question = await scene.ask()
            await until(lambda: scene.platform.cards)
            await scene.platform.write("ana", "no, because it is Friday", about=True)
            assert await scene.answered(question) == (
                False,
                "it is Friday",
                "ana",
                scene.platform.kind,
            )

    plays(play)


def test_strangers_and_invalid_replies_do_not_answer(plays: Plays) -> None:
    async def play(scene: Scene) -> None:
        async with scene.running():
            await scene.pair("ana")
            question = await scene.ask()
            await until(lambda: scene.platform.cards and scene.platform.labels())
            await scene.platform.press("eve", "Yes")
            await scene.platform.write("eve", "yes")
            await scene.platform.write("ana", "x" * 1_000_000, about=True)
            await scene.platform.write("ana", "perhaps", about=True)
            await until(lambda: "neither yes nor no" in str(scene.platform.cards[-1]))
            assert await scene.store.pending() == [question]
            await scene.platform.press("ana", "Yes")
            assert (await scene.answered(question))[0] is True

    plays(play)


def test_offline_reply_counts_at_the_next_start_and_the_card_is_sent_once(plays: Plays) -> None:
    async def play(scene: Scene) -> None:
        async with scene.running():
            await scene.pair("ana")
            question = await scene.ask()
            await until(lambda: scene.platform.cards and scene.platform.labels())
            await until_async(lambda: _is_kept(scene))
        await scene.platform.write("ana", "yes", about=True)
        async with scene.running(2):
            assert (await scene.answered(question))[0] is True
            await until(lambda: scene.platform.labels() == [])
        assert len(scene.platform.cards) == 1

    plays(play)


async def _is_kept(scene: Scene) -> bool:
    cards = await ChannelState(scene.store.port, now).cards("phone")
    return all(card.handle for card in cards.values())


def test_concurrent_answers_record_one(plays: Plays) -> None:
    async def play(scene: Scene) -> None:
        async with scene.running():
            await scene.pair("ana")
            question = await scene.ask()
            await until(lambda: scene.platform.cards and scene.platform.labels())
            await asyncio.gather(
                scene.platform.press("ana", "Yes"),
                scene.platform.press("ana", "No"),
                scene.platform.press("ana", "Yes"),
            )
            assert (await scene.answered(question))[2] == "ana"

    plays(play)


def test_only_paired_people_answer_in_a_room(plays: Plays) -> None:
    async def play(scene: Scene) -> None:
        async with scene.running(rooms=(scene.platform.room,)):
            await scene.pair("ana")
            question = await scene.ask()
            await until(lambda: scene.platform.cards and scene.platform.labels())
            await scene.platform.press("eve", "Yes", room=True)
            await scene.platform.press("ana", "No", room=True)
            assert await scene.answered(question) == (False, None, "ana", scene.platform.kind)

    plays(play)


def test_rate_limited_questions_are_sent_once(plays: Plays) -> None:
    async def play(scene: Scene) -> None:
        async with scene.running():
            await scene.pair("ana")
            scene.platform.limit()
            asked = [
                await scene.ask(mt.Question.boolean("go", f"Deploy number {number}?"))
                for number in range(10)
            ]
            await until(lambda: len(scene.platform.cards) == len(asked))
            await until_async(lambda: _is_kept(scene))
        assert [
            sum(f"Deploy number {number}" in str(card) for card in scene.platform.cards)
            for number in range(10)
        ] == [1] * 10

    plays(play)
