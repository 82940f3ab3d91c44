"""A user of each platform, with the same few methods, for tests that run on every platform."""

from __future__ import annotations

import asyncio
import re
import threading
import time
import warnings
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, Self, TypeVar

import pytest
import yarl
from msgspec import Struct

import midturn as mt
from midturn.channels.port import Channel
from support.channels.discord import TOKEN as DISCORD_TOKEN, DiscordServer, discord_server
from support.channels.limit import Limit
from support.channels.loopback import UnreachableNetwork
from support.channels.ntfy import TOPIC, NtfyServer, ntfy_server
from support.channels.slack import APP_TOKEN, BOT_TOKEN, SlackServer, slack_server
from support.channels.telegram import TOKEN as TELEGRAM_TOKEN, TelegramServer, telegram_server
from support.waiting import until

T = TypeVar("T")
AT: Mapping[str, str] = {"telegram": "7", "slack": "U-ana", "discord": "77", "ntfy": TOPIC}
"""Ana's account on each platform with a fake server."""
OURS: Sequence[str] = tuple(AT)
REAL: Sequence[str] = ("email", "matrix")
"""Platforms with a real server, which is not written in Python."""


class Shown(Struct, frozen=True):
    """A card as the screen shows it now: its reference, text and buttons, and whether it is
    open.
    """

    ref: str
    text: str
    buttons: tuple[str, ...]
    is_open: bool


class Phone(Protocol):
    """Ana's account and client on one platform. `account` is her name there."""

    kind: str
    account: str

    def options(self) -> dict[str, Any]:
        """Return the configuration of the channel."""
        ...

    def channel(self) -> Channel:
        """Return a channel to the platform."""
        ...

    def cards(self) -> list[Shown]:
        """Return the cards in the order in which they arrived."""
        ...

    async def press(self, ref: str, label: str) -> None:
        """Press a button of a card."""
        ...

    async def write(self, text: str, ref: str = "") -> None:
        """Write a message, as a reply to a card where the platform has replies."""
        ...

    async def listening(self) -> None:
        """Wait until the channel listens. Some platforms deliver a button press only to a
        connected client.
        """
        ...

    def limit(self, most: int) -> Limit:
        """Limit the messages per second from now on."""
        ...

    async def away(self) -> UnreachableNetwork:
        """Make the platform unreachable."""
        ...

    async def back(self) -> None:
        """Make the platform reachable again."""
        ...


class _LoopbackPhone:
    """Network failures of a fake server."""

    server: Any

    async def away(self) -> UnreachableNetwork:
        await self.server.served.leave()
        return self.server.served.line

    async def back(self) -> None:
        await self.server.served.begin()


class TelegramPhone(_LoopbackPhone):
    """A Telegram chat with the bot."""

    kind = "telegram"
    account = AT["telegram"]

    def __init__(self, server: TelegramServer) -> None:
        self.server = server

    def options(self) -> dict[str, Any]:
        return {"token": TELEGRAM_TOKEN, "api": self.server.address}

    def channel(self) -> Channel:
        return mt.channels.Telegram(**self.options())

    def cards(self) -> list[Shown]:
        shown = self.server.cards(int(self.account)).items()
        return [_with_buttons(str(number), str(one["text"]), _labels(one)) for number, one in shown]

    async def press(self, ref: str, label: str) -> None:
        self.server.press(int(self.account), int(self.account), int(ref), label)

    async def write(self, text: str, ref: str = "") -> None:
        self.server.write(int(self.account), text, about=int(ref) if ref else None)

    async def listening(self) -> None:
        """Updates are kept until they are read."""

    def limit(self, most: int) -> Limit:
        self.server.limit = limit = Limit(most)
        return limit


class SlackPhone(_LoopbackPhone):
    """A Slack direct message of the app."""

    kind = "slack"
    account = AT["slack"]

    def __init__(self, server: SlackServer) -> None:
        self.server = server

    def options(self) -> dict[str, Any]:
        return {"token": BOT_TOKEN, "app_token": APP_TOKEN, "api": f"{self.server.address}/api/"}

    def channel(self) -> Channel:
        return mt.channels.Slack(**self.options())

    def cards(self) -> list[Shown]:
        return [
            _with_buttons(str(one["ts"]), _plain(one["blocks"]), _actions(one["blocks"]))
            for one in self.server.ours
        ]

    async def press(self, ref: str, label: str) -> None:
        await self.server.press(self.account, "D-ana", ref, label)

    async def write(self, text: str, ref: str = "") -> None:
        await self.server.write(self.account, text, "D-ana", **({"thread_ts": ref} if ref else {}))

    async def listening(self) -> None:
        """Wait for the channel's connection."""
        await until(lambda: bool(self.server.sockets))

    def limit(self, most: int) -> Limit:
        self.server.limit = limit = Limit(most)
        return limit


class DiscordPhone(_LoopbackPhone):
    """A Discord direct message of the bot."""

    kind = "discord"
    account = AT["discord"]

    def __init__(self, server: DiscordServer) -> None:
        self.server = server

    def options(self) -> dict[str, Any]:
        return {"token": DISCORD_TOKEN}

    def channel(self) -> Channel:
        return mt.channels.Discord(**self.options())

    def cards(self) -> list[Shown]:
        return [
            _with_buttons(str(one["id"]), _unescaped(str(one["content"])), _components(one))
            for one in self.server.ours
        ]

    async def press(self, ref: str, label: str) -> None:
        await self.server.press(self.account, ref, label)

    async def write(self, text: str, ref: str = "") -> None:
        await self.server.write(self.account, text, about=ref)

    async def listening(self) -> None:
        """Wait for the channel's connection."""
        await self.server.connected()

    def limit(self, most: int) -> Limit:
        self.server.limit = limit = Limit(most)
        return limit


class NtfyPhone(_LoopbackPhone):
    """An ntfy topic in an app."""

    kind = "ntfy"
    account = AT["ntfy"]

    def __init__(self, server: NtfyServer) -> None:
        self.server = server

    def options(self) -> dict[str, Any]:
        return {"topic": TOPIC, "server": self.server.address}

    def channel(self) -> Channel:
        return mt.channels.Ntfy(**self.options())

    def cards(self) -> list[Shown]:
        return [
            _with_buttons(
                str(one.get("sequence_id", one["id"])),
                str(one["message"]),
                tuple(action["label"] for action in one.get("actions", ())),
            )
            for one in self.server.shown()
        ]

    async def press(self, ref: str, label: str) -> None:
        message = next(
            one for one in self.server.shown() if one.get("sequence_id", one["id"]) == ref
        )
        await self.server.press(message, label)

    async def write(self, text: str, ref: str = "") -> None:
        """Write a message. A topic has no replies."""
        del ref
        await self.server.write(text)

    async def listening(self) -> None:
        """Updates are kept until they are read."""

    def limit(self, most: int) -> Limit:
        self.server.limit = limit = Limit(most)
        return limit


def on(kind: str) -> AbstractAsyncContextManager[Phone]:
    """Return a phone on the platform, which runs until the context ends."""
    if kind in REAL:
        from support.channels.real_phones import REAL_PHONES  # needs optional packages

        return REAL_PHONES[kind]()
    return {"telegram": _telegram, "slack": _slack, "discord": _discord, "ntfy": _ntfy}[kind]()


def missing(kind: str) -> str:
    """Return why this machine cannot run the platform, or an empty string if it can."""
    from support.channels.dovecot import no_dovecot
    from support.channels.synapse import no_synapse

    return {"email": no_dovecot, "matrix": no_synapse}[kind]() if kind in REAL else ""


def kinds() -> list[Any]:
    """Return every platform as test parameters. Real servers are marked as real parts."""
    real = [pytest.param(kind, marks=pytest.mark.real("channels")) for kind in REAL]
    return [*OURS, *real]


async def act(phone: Phone, card: Shown, does: str) -> None:
    """Press the button with this label; write the label if the card has no such button."""
    await (phone.press(card.ref, does) if does in card.buttons else phone.write(does, card.ref))


class ThreadedPhone:
    """A phone on a platform that a thread serves, for tests without an event loop. `do` runs
    actions there.
    """

    def __init__(self, kind: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._served = on(kind)

    def __enter__(self) -> Self:
        self._thread.start()
        self.phone = self.do(self._served.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self.do(self._served.__aexit__(None, None, None))
        self.do(_ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(120)
        self._loop.close()

    def do(self, act: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread and return its result."""
        return asyncio.run_coroutine_threadsafe(act, self._loop).result(60)


async def _ended() -> None:
    """Cancel the tasks that libraries have left running, as `asyncio.run` does."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def aim_discord(address: str) -> None:
    """Make Discord's library use our server in this process."""
    from discord import gateway, http

    http.Route.BASE = f"{address}/api"
    gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(
        f"{address.replace('http', 'ws', 1)}/gateway"
    )


@asynccontextmanager
async def _telegram() -> AsyncGenerator[Phone]:
    async with telegram_server() as server:
        yield TelegramPhone(server)


@asynccontextmanager
async def _slack() -> AsyncGenerator[Phone]:
    async with slack_server() as server:
        server.now = time.time
        yield SlackPhone(server)


@asynccontextmanager
async def _discord() -> AsyncGenerator[Phone]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the library imports `audioop`
        from discord import gateway, http

    async with discord_server() as server:
        server.now = time.time
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(http.Route, "BASE", http.Route.BASE)
            patch.setattr(
                gateway.DiscordWebSocket,
                "DEFAULT_GATEWAY",
                gateway.DiscordWebSocket.DEFAULT_GATEWAY,
            )
            aim_discord(server.address)
            yield DiscordPhone(server)


@asynccontextmanager
async def _ntfy() -> AsyncGenerator[Phone]:
    async with ntfy_server() as server:
        yield NtfyPhone(server)


def _with_buttons(ref: str, text: str, buttons: tuple[str, ...]) -> Shown:
    return Shown(
        ref,
        text,
        buttons,
        is_open=bool(buttons) or not re.search(r"(?m)^(Answered by|Closed: )", text),
    )


def _labels(message: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        button["text"] for row in message["reply_markup"]["inline_keyboard"] for button in row
    )


def _actions(blocks: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(
        one["text"]["text"]
        for block in blocks
        if block["type"] == "actions"
        for one in block["elements"]
    )


def _plain(blocks: Sequence[Mapping[str, Any]]) -> str:
    parts = [part for block in blocks if block["type"] == "rich_text" for part in block["elements"]]
    texts = ("".join(one["text"] for one in part["elements"]) for part in parts)
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts)


def _components(message: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(one["label"] for row in message["components"] for one in row["components"])


def _unescaped(text: str) -> str:
    """Return the text as Discord shows it, without escapes."""
    return re.sub(r"\\(.)", r"\1", text)
