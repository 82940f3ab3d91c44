"""What a person has in hand: the same few verbs on every platform whose server is ours, for what is tried on all of them."""

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
from support.channels.loopback import CutLine
from support.channels.ntfy import TOPIC, NtfyServer, ntfy_server
from support.channels.slack import APP_TOKEN, BOT_TOKEN, SlackServer, slack_server
from support.channels.telegram import TOKEN as TELEGRAM_TOKEN, TelegramServer, telegram_server
from support.waiting import until

T = TypeVar("T")
AT: Mapping[str, str] = {"telegram": "7", "slack": "U-ana", "discord": "77", "ntfy": TOPIC}
"""Ana's account on each platform whose server is ours."""
OURS: Sequence[str] = tuple(AT)
REAL: Sequence[str] = ("email", "matrix")
"""Those whose servers are real ones: they need parts that are not Python."""


class Shown(Struct, frozen=True):
    """A card as it stands on a screen now: what names it there, its text, its buttons, and whether it can be answered."""

    ref: str
    text: str
    buttons: tuple[str, ...]
    is_open: bool


class Phone(Protocol):
    """Ana's, on one platform. `account` is how that names her."""

    kind: str
    account: str

    def options(self) -> dict[str, Any]:
        """Return what makes the channel, by key."""
        ...

    def channel(self) -> Channel:
        """Return a channel to it."""
        ...

    def cards(self) -> list[Shown]:
        """Return the cards, in the order in which they came."""
        ...

    async def press(self, ref: str, label: str) -> None:
        """Press a button of a card."""
        ...

    async def write(self, text: str, ref: str = "") -> None:
        """Write something, as a reply to a card where the platform has replies."""
        ...

    async def listening(self) -> None:
        """Wait until the channel listens: some platforms tell of a button to who listens right then, and to no one later."""
        ...

    def limit(self, most: int) -> Limit:
        """Let the platform take so many messages in a second from now on."""
        ...

    async def away(self) -> CutLine:
        """Take the network away; return what cuts off whoever tries to reach the platform."""
        ...

    async def back(self) -> None:
        """Give the network back."""
        ...


class _OnLoopback:
    """What is there and away with a server of ours."""

    server: Any

    async def away(self) -> CutLine:
        """Take the network away."""
        await self.server.served.leave()
        return self.server.served.line

    async def back(self) -> None:
        """Give it back."""
        await self.server.served.begin()


class OnTelegram(_OnLoopback):
    """A chat with the bot."""

    kind = "telegram"
    account = AT["telegram"]

    def __init__(self, server: TelegramServer) -> None:
        self.server = server

    def options(self) -> dict[str, Any]:
        """Return what makes the channel."""
        return {"token": TELEGRAM_TOKEN, "api": self.server.address}

    def channel(self) -> Channel:
        """Return a channel to it."""
        return mt.channels.Telegram(**self.options())

    def cards(self) -> list[Shown]:
        """Return the cards."""
        shown = self.server.cards(int(self.account)).items()
        return [_with_buttons(str(number), str(one["text"]), _labels(one)) for number, one in shown]

    async def press(self, ref: str, label: str) -> None:
        """Press a button."""
        self.server.press(int(self.account), int(self.account), int(ref), label)

    async def write(self, text: str, ref: str = "") -> None:
        """Write something."""
        self.server.write(int(self.account), text, about=int(ref) if ref else None)

    async def listening(self) -> None:
        """What comes meanwhile is kept."""

    def limit(self, most: int) -> Limit:
        """Limit messages."""
        self.server.limit = limit = Limit(most)
        return limit


class OnSlack(_OnLoopback):
    """A direct message of the app."""

    kind = "slack"
    account = AT["slack"]

    def __init__(self, server: SlackServer) -> None:
        self.server = server

    def options(self) -> dict[str, Any]:
        """Return what makes the channel."""
        return {"token": BOT_TOKEN, "app_token": APP_TOKEN, "api": f"{self.server.address}/api/"}

    def channel(self) -> Channel:
        """Return a channel to it."""
        return mt.channels.Slack(**self.options())

    def cards(self) -> list[Shown]:
        """Return the cards."""
        return [_with_buttons(str(one["ts"]), _plain(one["blocks"]), _actions(one["blocks"])) for one in self.server.ours]

    async def press(self, ref: str, label: str) -> None:
        """Press a button."""
        await self.server.press(self.account, "D-ana", ref, label)

    async def write(self, text: str, ref: str = "") -> None:
        """Write something."""
        await self.server.write(self.account, text, "D-ana", **({"thread_ts": ref} if ref else {}))

    async def listening(self) -> None:
        """Wait for its connection."""
        await until(lambda: bool(self.server.sockets))

    def limit(self, most: int) -> Limit:
        """Limit messages."""
        self.server.limit = limit = Limit(most)
        return limit


class OnDiscord(_OnLoopback):
    """A direct message of the bot."""

    kind = "discord"
    account = AT["discord"]

    def __init__(self, server: DiscordServer) -> None:
        self.server = server

    def options(self) -> dict[str, Any]:
        """Return what makes the channel."""
        return {"token": DISCORD_TOKEN}

    def channel(self) -> Channel:
        """Return a channel to it."""
        return mt.channels.Discord(**self.options())

    def cards(self) -> list[Shown]:
        """Return the cards."""
        return [_with_buttons(str(one["id"]), _unescaped(str(one["content"])), _components(one)) for one in self.server.ours]

    async def press(self, ref: str, label: str) -> None:
        """Press a button."""
        await self.server.press(self.account, ref, label)

    async def write(self, text: str, ref: str = "") -> None:
        """Write something."""
        await self.server.write(self.account, text, about=ref)

    async def listening(self) -> None:
        """Wait for its connection."""
        await self.server.connected()

    def limit(self, most: int) -> Limit:
        """Limit messages."""
        self.server.limit = limit = Limit(most)
        return limit


class OnNtfy(_OnLoopback):
    """A topic in an app."""

    kind = "ntfy"
    account = AT["ntfy"]

    def __init__(self, server: NtfyServer) -> None:
        self.server = server

    def options(self) -> dict[str, Any]:
        """Return what makes the channel."""
        return {"topic": TOPIC, "server": self.server.address}

    def channel(self) -> Channel:
        """Return a channel to it."""
        return mt.channels.Ntfy(**self.options())

    def cards(self) -> list[Shown]:
        """Return the cards."""
        return [
            _with_buttons(
                str(one.get("sequence_id", one["id"])), str(one["message"]), tuple(action["label"] for action in one.get("actions", ()))
            )
            for one in self.server.shown()
        ]

    async def press(self, ref: str, label: str) -> None:
        """Press a button."""
        message = next(one for one in self.server.shown() if one.get("sequence_id", one["id"]) == ref)
        await self.server.press(message, label)

    async def write(self, text: str, ref: str = "") -> None:
        """Write something: a topic knows no replies."""
        del ref
        await self.server.write(text)

    async def listening(self) -> None:
        """What comes meanwhile is kept."""

    def limit(self, most: int) -> Limit:
        """Limit messages."""
        self.server.limit = limit = Limit(most)
        return limit


def on(kind: str) -> AbstractAsyncContextManager[Phone]:
    """Return a phone on a platform that is served meanwhile."""
    if kind in REAL:
        from support.channels.real_phones import REAL_PHONES  # what these need is not everywhere

        return REAL_PHONES[kind]()
    return {"telegram": _telegram, "slack": _slack, "discord": _discord, "ntfy": _ntfy}[kind]()


def missing(kind: str) -> str:
    """Say why this machine has no such platform; empty where it has."""
    from support.channels.dovecot import no_dovecot
    from support.channels.synapse import no_synapse

    return {"email": no_dovecot, "matrix": no_synapse}[kind]() if kind in REAL else ""


def kinds() -> list[Any]:
    """Return every kind, as parameters of a test: real servers are real parts."""
    real = [pytest.param(kind, marks=pytest.mark.real("channels")) for kind in REAL]
    return [*OURS, *real]


async def act(phone: Phone, card: Shown, does: str) -> None:
    """Press the button with this label; where the card has none of it, write that."""
    await (phone.press(card.ref, does) if does in card.buttons else phone.write(does, card.ref))


class ThreadedPhone:
    """A phone on a platform that is served by a thread, for what runs no loop of its own; `do` has it do something there."""

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
        self._thread.join(30)
        self._loop.close()

    def do(self, act: Coroutine[Any, Any, T]) -> T:
        """Do something there; return what comes of it."""
        return asyncio.run_coroutine_threadsafe(act, self._loop).result(60)


async def _ended() -> None:
    """End what libraries have left running, as `asyncio.run` does."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def aim_discord(address: str) -> None:
    """Have Discord's library speak to a server of ours, in this process."""
    from discord import gateway, http

    http.Route.BASE = f"{address}/api"
    gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(f"{address.replace('http', 'ws', 1)}/gateway")


@asynccontextmanager
async def _telegram() -> AsyncGenerator[Phone]:
    async with telegram_server() as server:
        yield OnTelegram(server)


@asynccontextmanager
async def _slack() -> AsyncGenerator[Phone]:
    async with slack_server() as server:
        server.now = time.time
        yield OnSlack(server)


@asynccontextmanager
async def _discord() -> AsyncGenerator[Phone]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it imports `audioop`
        from discord import gateway, http

    async with discord_server() as server:
        server.now = time.time
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(http.Route, "BASE", http.Route.BASE)
            patch.setattr(gateway.DiscordWebSocket, "DEFAULT_GATEWAY", gateway.DiscordWebSocket.DEFAULT_GATEWAY)
            aim_discord(server.address)
            yield OnDiscord(server)


@asynccontextmanager
async def _ntfy() -> AsyncGenerator[Phone]:
    async with ntfy_server() as server:
        yield OnNtfy(server)


def _with_buttons(ref: str, text: str, buttons: tuple[str, ...]) -> Shown:
    return Shown(ref, text, buttons, is_open=bool(buttons) or not re.search(r"(?m)^(Answered by|It is)", text))


def _labels(message: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(button["text"] for row in message["reply_markup"]["inline_keyboard"] for button in row)


def _actions(blocks: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(one["text"]["text"] for block in blocks if block["type"] == "actions" for one in block["elements"])


def _plain(blocks: Sequence[Mapping[str, Any]]) -> str:
    parts = [part for block in blocks if block["type"] == "rich_text" for part in block["elements"]]
    texts = ("".join(one["text"] for one in part["elements"]) for part in parts)
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts)


def _components(message: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(one["label"] for row in message["components"] for one in row["components"])


def _unescaped(text: str) -> str:
    """Return a text as Discord shows it."""
    return re.sub(r"\\(.)", r"\1", text)
