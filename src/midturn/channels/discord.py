"""Discord: a gateway to which we connect, buttons as components, and replies to a message.

A text from outside has a backslash before each sign that Discord could read, and no one is mentioned. What is shown exactly stands in a
block of code, or, where it would end the block or is too long, in a file. Discord sends a pressed button once: it is acknowledged when its
answer is on record, and where that takes more than three seconds, the person is told to press again, and the first press counts. What was
written while no one listened is in the history of the conversations with a card.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from io import BytesIO
from typing import Any, Final, TypeAlias, TypeVar

import aiohttp
import discord

from midturn.channels.port import Card, ChannelAway, ChannelRefused, Fits, Memory, Reply
from midturn.question.text import rfc3339

_News: TypeAlias = discord.Message | discord.Interaction[Any] | ChannelAway | None

_READ: Final = "read"
_LONGEST: Final = 2_000
_ROW: Final = 5
_FENCE: Final = "```"
_NOT_ALLOWED: Final = frozenset({4004, 4010, 4011, 4012, 4013, 4014})
_SERVERS_OWN, _TOO_MANY = 500, 429
_RESUMING: Final = 60.0  # seconds without a connection until Discord is away: until then the library resumes its session
_OF_EACH_TRY: Final = ("Attempting a reconnect", "We are being rate limited", "Global rate limit", "PyNaCl is not", "davey is not")
_IS_OURS: Final = ContextVar("ours", default=False)
T = TypeVar("T")


class Discord:
    """A bot, by its token. It needs no privileged intent: what people write to it alone, or in reply to it, it is told."""

    kind = "discord"
    fits = Fits(text=1_700, buttons=25, files=True, label=80)

    def __init__(self, token: str) -> None:
        """Take the token."""
        for name in ("discord.client", "discord.http"):
            logging.getLogger(name).addFilter(_UNSAID)
        self._token = token
        self._memory: Memory | None = None
        self._read: dict[str, str] = {}  # by account's conversation or `#room`: the id of the message that was read last
        self._client: discord.Client | None = None
        self._news: asyncio.Queue[_News] = asyncio.Queue()
        self._gone: asyncio.TimerHandle | None = None
        self._entering = asyncio.Lock()

    def __repr__(self) -> str:
        return "Discord(…)"

    async def open(self, memory: Memory) -> None:
        """Sign in."""
        self._memory = memory
        self._read = json.loads(memory.get(_READ) or "{}")
        await self.close()
        await self._entered()

    async def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        self._there()
        if client is not None:
            await client.close()

    # Cards ------------------------------------------------------------------------------------------------------------------

    async def send(self, card: Card) -> str:
        """Send a card."""
        client = await self._entered()
        place = int(card.to[1:]) if card.to.startswith("#") else await self._alone_with(client, card.to)
        content, files, view = self._written(card)
        sending = client.get_partial_messageable(place).send(content, files=files, view=view, suppress_embeds=True)
        sent = await self._called(sending)
        view.stop()
        await self._keep(card.to if card.to.startswith("#") else str(place), str(sent.id))
        return f"{place}:{sent.id}"

    async def update(self, handle: str, card: Card) -> None:
        """Change a card."""
        client = await self._entered()
        place, _, number = handle.partition(":")
        content, files, view = self._written(card)
        message = client.get_partial_messageable(int(place)).get_partial_message(int(number))
        attached: dict[str, Any] = {"attachments": files} if files else {}
        await self._called(message.edit(content=content, view=None if card.is_over else view, **attached))
        view.stop()

    async def _alone_with(self, client: discord.Client, account: str) -> int:
        """Return the conversation with an account alone; the name of a room begins with `#`."""
        return (await self._called(client.create_dm(discord.Object(int(account))))).id

    def _written(self, card: Card) -> tuple[str, list[discord.File], discord.ui.View]:
        content, files = written(card)
        view = discord.ui.View(timeout=None)
        for number, one in enumerate(() if card.is_over else card.choices):
            view.add_item(discord.ui.Button(label=one.label, custom_id=one.token, row=number // _ROW))
        return content, [discord.File(BytesIO(data), name) for name, data in files], view

    # Replies ----------------------------------------------------------------------------------------------------------------

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield what comes; first, and where a session could not be resumed, what is in the histories."""
        client = await self._entered()
        connected = asyncio.create_task(_quietly(client.connect()))
        try:
            while True:
                news = await self._next(connected)
                if news is None:
                    async for reply in self._written_meanwhile(client):
                        yield reply
                elif isinstance(news, discord.Interaction):
                    if (reply := self._pressed(news)) is not None:
                        yield reply
                        await self._acknowledge(news)
                elif (reply := self._message(news)) is not None:
                    yield reply
                    await self._keep_known(news)
        finally:
            connected.cancel()
            await asyncio.gather(connected, return_exceptions=True)
            await self.close()

    async def _next(self, connected: asyncio.Task[None]) -> discord.Message | discord.Interaction[Any] | None:
        coming = asyncio.create_task(self._news.get())
        await asyncio.wait({coming, connected}, return_when=asyncio.FIRST_COMPLETED)
        if coming.done():
            if isinstance(news := coming.result(), ChannelAway):
                raise news
            return news
        coming.cancel()
        await self._called(connected)
        raise ChannelAway("Discord's connection has ended.")

    async def _written_meanwhile(self, client: discord.Client) -> AsyncGenerator[Reply]:
        for name, last in [*self._read.items()]:
            place = client.get_partial_messageable(int(name.removeprefix("#")))
            history = place.history(after=discord.Object(int(last)), oldest_first=True, limit=None)
            try:
                found = await self._called(_all(history))
            except ChannelRefused:
                del self._read[name]  # it is gone
                continue
            for message in found:
                if (reply := self._message(message, name)) is not None:
                    yield reply
                await self._keep(name, str(message.id))

    async def _acknowledge(self, pressed: discord.Interaction[Any]) -> None:
        """Say that a button has done its work; after three seconds no one listens."""
        with suppress(ChannelAway, ChannelRefused):
            await self._called(pressed.response.defer())

    def _message(self, message: discord.Message, name: str = "") -> Reply | None:
        """Return what a person wrote; nothing of what was sent by a bot or forwarded, and nothing where there is only a picture."""
        kinds = (discord.MessageType.default, discord.MessageType.reply)
        place, name = str(message.channel.id), name or self._name(message)
        if message.author.bot or message.webhook_id or message.type not in kinds or not message.content:
            return None
        if int(self._read.get(name, "0")) >= message.id:
            return None  # the history had it
        about = message.reference
        is_reply = about is not None and about.type is discord.MessageReferenceType.reply and about.message_id
        return Reply(
            account=str(message.author.id),
            id=str(message.id),
            handle=f"{place}:{about.message_id}" if is_reply and about else "",
            text=message.content,
            place=name if name.startswith("#") else "",
            at=_time(message.created_at),
        )

    def _name(self, message: discord.Message) -> str:
        alone = isinstance(message.channel, discord.DMChannel)
        return f"{'' if alone else '#'}{message.channel.id}"

    def _pressed(self, pressed: discord.Interaction[Any]) -> Reply | None:
        data: Any = pressed.data or {}
        if pressed.type is not discord.InteractionType.component or pressed.message is None:
            return None
        place = str(pressed.channel_id)
        return Reply(
            account=str(pressed.user.id),
            handle=f"{place}:{pressed.message.id}",
            token=str(data.get("custom_id", "")),
            place="" if pressed.guild_id is None else f"#{place}",
            at=_time(pressed.created_at),
        )

    # The connection ---------------------------------------------------------------------------------------------------------

    async def _entered(self) -> discord.Client:
        """Return the client, signed in."""
        async with self._entering:
            if self._client is None:
                client = self._made()
                try:
                    await self._called(client.login(self._token))
                except (ChannelAway, ChannelRefused):
                    await client.close()
                    raise
                self._client = client
            return self._client

    def _made(self) -> discord.Client:
        news = self._news = asyncio.Queue[Any]()

        channel = self

        class Listening(discord.Client):
            def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:  # a task for each `on_…` may be left when it closes
                super().dispatch(event, *args, **kwargs)
                match event:
                    case "ready":
                        channel._there()
                        news.put_nowait(None)
                    case "resumed":
                        channel._there()
                    case "disconnect":
                        channel._lost()
                    case "message" | "interaction":
                        news.put_nowait(args[0])
                    case _:
                        pass

        intents = discord.Intents(guilds=True, guild_messages=True, dm_messages=True)
        with _unsaid():
            return Listening(intents=intents, max_messages=None, allowed_mentions=discord.AllowedMentions.none())

    def _lost(self) -> None:
        """Give the library some time to resume the session: it would try for ever, and tell no one."""
        if self._gone is None:
            away = ChannelAway("Discord cannot be reached.")
            self._gone = asyncio.get_running_loop().call_later(_RESUMING, self._news.put_nowait, away)

    def _there(self) -> None:
        if self._gone is not None:
            self._gone.cancel()
            self._gone = None

    async def _keep_known(self, message: discord.Message) -> None:
        if (name := self._name(message)) in self._read:  # in others there is no card
            await self._keep(name, str(message.id))

    async def _keep(self, place: str, last: str) -> None:
        if int(last) > int(self._read.get(place, "0")):
            self._read[place] = last
            if self._memory is not None:
                await self._memory.set(_READ, json.dumps(self._read))

    async def _called(self, calling: Awaitable[T]) -> T:
        """Wait for something that Discord does.

        Raises:
            ChannelAway: Not now.
            ChannelRefused: Never.
        """
        try:
            return await _quietly(calling)
        except discord.HTTPException as error:
            if error.status >= _SERVERS_OWN or error.status == _TOO_MANY:
                raise ChannelAway(f"Discord: status {error.status}.") from None
            raise ChannelRefused(f"Discord: {error.text or error.status}.") from None
        except discord.ConnectionClosed as error:
            if error.code in _NOT_ALLOWED:
                raise ChannelRefused(f"Discord has ended the connection: {error.code}.") from None
            raise ChannelAway(f"Discord has ended the connection: {error.code}.") from None
        except (discord.LoginFailure, discord.PrivilegedIntentsRequired) as error:
            raise ChannelRefused(f"Discord: {error}.") from None
        except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ChannelAway(f"Discord cannot be reached: {type(error).__name__}.") from None


async def _quietly(calling: Awaitable[T]) -> T:
    with _unsaid():
        return await calling


@contextmanager
def _unsaid() -> Generator[None]:
    """Keep what the library says of itself and of each try to ourselves: that Discord is away is said once, above."""
    before = _IS_OURS.set(True)
    try:
        yield
    finally:
        _IS_OURS.reset(before)


class _Unsaid(logging.Filter):
    """Passes over what the library says where it works for us; a program may have a bot of its own."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let a record through unless it is one of those."""
        return not (_IS_OURS.get() and str(record.msg).startswith(_OF_EACH_TRY))


_UNSAID: Final = _Unsaid()


async def _all(found: AsyncIterator[T]) -> list[T]:
    return [one async for one in found]


def _time(moment: datetime) -> str:
    return rfc3339(moment)


# What a card looks like there ---------------------------------------------------------------------------------------------------


def escaped(text: str) -> str:
    """Return text in which Discord reads nothing: no mention, link, emoji or format."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def written(card: Card) -> tuple[str, list[tuple[str, bytes]]]:
    """Return the text of a card, and its files: what does not fit into the message."""
    files = [] if card.file is None else [card.file]
    exact = "\n".join(card.lines)
    if _FENCE not in exact and not exact.startswith("`") and not exact.endswith("`"):
        content = _content(card, f"{_FENCE}\n{exact}\n{_FENCE}" if exact else "", files)
        if len(content) <= _LONGEST:
            return content, files
    files = [*files, ("shown.txt", exact.encode())] if exact else files
    content = _content(card, "", files)
    if len(content) <= _LONGEST:
        return content, files
    everything = f"{card.heading}\n{card.text}\n{exact}\n{card.hint}\n{card.left}\n{card.notice}"
    return "The whole is in the file question\\.txt below\\.", [*files[:1], ("question.txt", everything.encode())]


def _content(card: Card, block: str, files: list[tuple[str, bytes]]) -> str:
    heading = f"**{escaped(card.heading)}**" if card.heading else ""
    below = f"The whole is in the file {escaped(files[0][0])} below\\." if files else ""
    said = [heading, escaped(card.text), block, below, "" if card.is_over else escaped(card.hint), escaped(card.left), escaped(card.notice)]
    return "\n".join(part for part in said if part)
