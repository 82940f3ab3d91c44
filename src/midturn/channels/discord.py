"""Discord channel: a gateway connection, buttons as components, and replies to messages.

In text that midturn did not write, every punctuation character is escaped with a backslash, and
mentions are disabled. Content that must be shown exactly is in a code block, or in a file if it is
too long or would end the block. Discord delivers a button press once, and expects a response within
three seconds. A press is acknowledged after its answer is recorded. If that takes longer, Discord
tells the person to press again, and the first press counts. Messages that were written while the
channel was not connected are read from the history of each conversation that has a card.
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

_GatewayEvent: TypeAlias = discord.Message | discord.Interaction[Any] | ChannelAway | None

_POSITIONS_KEY: Final = "read"
MAX_MESSAGE_CHARS: Final = 2_000
BUTTONS_PER_ROW: Final = 5
_FENCE: Final = "```"
_REJECTED_CLOSE_CODES: Final = frozenset({4004, 4010, 4011, 4012, 4013, 4014})
_SERVER_ERROR, _TOO_MANY = 500, 429
# seconds that the library has to resume a session before the channel counts as unavailable
RESUME_TIMEOUT: Final = 60.0
_MUTED_MESSAGES: Final = (
    "Attempting a reconnect",
    "We are being rate limited",
    "Global rate limit",
    "PyNaCl is not",
    "davey is not",
)
_IS_MUTED: Final = ContextVar("muted", default=False)
T = TypeVar("T")


class Discord:
    """A Discord bot.

    It needs no privileged intents, because it reads only direct messages and replies to its own
    messages.
    """

    kind = "discord"
    fits = Fits(text=1_700, buttons=25, files=True, label=80)

    def __init__(self, token: str) -> None:
        """Configure the bot with its token."""
        for name in ("discord.client", "discord.http"):
            logging.getLogger(name).addFilter(_MUTE_FILTER)
        self._token = token
        self._memory: Memory | None = None
        self._positions: dict[
            str, str
        ] = {}  # ID of the last read message, by conversation or `#room`
        self._client: discord.Client | None = None
        self._events: asyncio.Queue[_GatewayEvent] = asyncio.Queue()
        self._outage_timer: asyncio.TimerHandle | None = None
        self._login_lock = asyncio.Lock()

    def __repr__(self) -> str:
        return "Discord(…)"

    async def open(self, memory: Memory) -> None:
        """Sign in."""
        self._memory = memory
        self._positions = json.loads(memory.get(_POSITIONS_KEY) or "{}")
        await self.close()
        await self._signed_in_client()

    async def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        self._on_connected()
        if client is not None:
            await client.close()

    # Cards
    # ----------------------------------------------------------------------------------------------

    async def send(self, card: Card) -> str:
        """Send a card."""
        client = await self._signed_in_client()
        place = (
            int(card.to[1:])
            if card.to.startswith("#")
            else await self._direct_channel(client, card.to)
        )
        content, files, view = self._render(card)
        sending = client.get_partial_messageable(place).send(
            content, files=files, view=view, suppress_embeds=True
        )
        sent = await self._call(sending)
        view.stop()
        await self._save_position(card.to if card.to.startswith("#") else str(place), str(sent.id))
        return f"{place}:{sent.id}"

    async def update(self, handle: str, card: Card) -> None:
        """Change a card."""
        client = await self._signed_in_client()
        place, _, number = handle.partition(":")
        content, files, view = self._render(card)
        message = client.get_partial_messageable(int(place)).get_partial_message(int(number))
        attached: dict[str, Any] = {"attachments": files} if files else {}
        await self._call(
            message.edit(content=content, view=None if card.is_over else view, **attached)
        )
        view.stop()

    async def _direct_channel(self, client: discord.Client, account: str) -> int:
        return (await self._call(client.create_dm(discord.Object(int(account))))).id

    def _render(self, card: Card) -> tuple[str, list[discord.File], discord.ui.View]:
        content, files = written(card)
        view = discord.ui.View(timeout=None)
        for number, one in enumerate(() if card.is_over else card.choices):
            view.add_item(
                discord.ui.Button(
                    label=one.label, custom_id=one.token, row=number // BUTTONS_PER_ROW
                )
            )
        return content, [discord.File(BytesIO(data), name) for name, data in files], view

    # Replies
    # ----------------------------------------------------------------------------------------------

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield replies.

        At the start and after a lost session, replies that were missed are read from the history
        first.
        """
        client = await self._signed_in_client()
        connected = asyncio.create_task(_with_muted_logs(client.connect()))
        try:
            while True:
                event = await self._next(connected)
                if event is None:
                    async for reply in self._missed_replies(client):
                        yield reply
                elif isinstance(event, discord.Interaction):
                    if (reply := self._button_reply(event)) is not None:
                        yield reply
                        await self._acknowledge(event)
                elif (reply := self._text_reply(event)) is not None:
                    yield reply
                    await self._save_known_position(event)
        finally:
            connected.cancel()
            await asyncio.gather(connected, return_exceptions=True)
            await self.close()

    async def _next(
        self, connected: asyncio.Task[None]
    ) -> discord.Message | discord.Interaction[Any] | None:
        coming = asyncio.create_task(self._events.get())
        await asyncio.wait({coming, connected}, return_when=asyncio.FIRST_COMPLETED)
        if coming.done():
            if isinstance(event := coming.result(), ChannelAway):
                raise event
            return event
        coming.cancel()
        await self._call(connected)
        raise ChannelAway("The connection to Discord ended.")

    async def _missed_replies(self, client: discord.Client) -> AsyncGenerator[Reply]:
        for name, last in [*self._positions.items()]:
            place = client.get_partial_messageable(int(name.removeprefix("#")))
            history = place.history(after=discord.Object(int(last)), oldest_first=True, limit=None)
            try:
                found = await self._call(_collect(history))
            except ChannelRefused:
                del self._positions[name]  # the conversation was deleted
                continue
            for message in found:
                if (reply := self._text_reply(message, name)) is not None:
                    yield reply
                await self._save_position(name, str(message.id))

    async def _acknowledge(self, pressed: discord.Interaction[Any]) -> None:
        """Acknowledge a button press. Discord ignores acknowledgements after three seconds."""
        with suppress(ChannelAway, ChannelRefused):
            await self._call(pressed.response.defer())

    def _text_reply(self, message: discord.Message, name: str = "") -> Reply | None:
        """Return a typed reply.

        Return None for messages from bots, forwarded messages, and messages without text.
        """
        kinds = (discord.MessageType.default, discord.MessageType.reply)
        place, name = str(message.channel.id), name or self._channel_key(message)
        if (
            message.author.bot
            or message.webhook_id
            or message.type not in kinds
            or not message.content
        ):
            return None
        if int(self._positions.get(name, "0")) >= message.id:
            return None  # this message was already read from the history
        about = message.reference
        is_reply = (
            about is not None
            and about.type is discord.MessageReferenceType.reply
            and about.message_id
        )
        return Reply(
            account=str(message.author.id),
            id=str(message.id),
            handle=f"{place}:{about.message_id}" if is_reply and about else "",
            text=message.content,
            place=name if name.startswith("#") else "",
            at=_time(message.created_at),
        )

    def _channel_key(self, message: discord.Message) -> str:
        alone = isinstance(message.channel, discord.DMChannel)
        return f"{'' if alone else '#'}{message.channel.id}"

    def _button_reply(self, pressed: discord.Interaction[Any]) -> Reply | None:
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

    # The connection
    # ----------------------------------------------------------------------------------------------

    async def _signed_in_client(self) -> discord.Client:
        async with self._login_lock:
            if self._client is None:
                client = self._make_client()
                try:
                    await self._call(client.login(self._token))
                except (ChannelAway, ChannelRefused):
                    await client.close()
                    raise
                self._client = client
            return self._client

    def _make_client(self) -> discord.Client:
        events = self._events = asyncio.Queue[Any]()

        channel = self

        class GatewayClient(discord.Client):
            # overridden, because the task of an `on_…` handler could outlive the client
            def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
                super().dispatch(event, *args, **kwargs)
                match event:
                    case "ready":
                        channel._on_connected()
                        events.put_nowait(None)
                    case "resumed":
                        channel._on_connected()
                    case "disconnect":
                        channel._on_disconnected()
                    case "message" | "interaction":
                        events.put_nowait(args[0])
                    case _:
                        pass

        intents = discord.Intents(guilds=True, guild_messages=True, dm_messages=True)
        with _muted_logs():
            return GatewayClient(
                intents=intents, max_messages=None, allowed_mentions=discord.AllowedMentions.none()
            )

    def _on_disconnected(self) -> None:
        """Start a timer for the attempts of the library to resume the session.

        The library itself retries forever without an error.
        """
        if self._outage_timer is None:
            away = ChannelAway("Discord cannot be reached.")
            self._outage_timer = asyncio.get_running_loop().call_later(
                RESUME_TIMEOUT, self._events.put_nowait, away
            )

    def _on_connected(self) -> None:
        if self._outage_timer is not None:
            self._outage_timer.cancel()
            self._outage_timer = None

    async def _save_known_position(self, message: discord.Message) -> None:
        # a conversation without a stored position has no card
        if (name := self._channel_key(message)) in self._positions:
            await self._save_position(name, str(message.id))

    async def _save_position(self, place: str, last: str) -> None:
        if int(last) > int(self._positions.get(place, "0")):
            self._positions[place] = last
            if self._memory is not None:
                await self._memory.set(_POSITIONS_KEY, json.dumps(self._positions))

    async def _call(self, calling: Awaitable[T]) -> T:
        """Await a call of the library and translate its errors.

        Raises:
            ChannelAway: Discord is unreachable or is limiting the request rate.
            ChannelRefused: Discord rejects the call.
        """
        try:
            return await _with_muted_logs(calling)
        except discord.HTTPException as error:
            if error.status >= _SERVER_ERROR or error.status == _TOO_MANY:
                raise ChannelAway(f"Discord: status {error.status}.") from None
            raise ChannelRefused(f"Discord: {error.text or error.status}.") from None
        except discord.ConnectionClosed as error:
            if error.code in _REJECTED_CLOSE_CODES:
                raise ChannelRefused(f"Discord closed the connection: {error.code}.") from None
            raise ChannelAway(f"Discord closed the connection: {error.code}.") from None
        except (discord.LoginFailure, discord.PrivilegedIntentsRequired) as error:
            raise ChannelRefused(f"Discord: {error}.") from None
        except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ChannelAway(f"Discord cannot be reached: {type(error).__name__}.") from None


async def _with_muted_logs(calling: Awaitable[T]) -> T:
    with _muted_logs():
        return await calling


@contextmanager
def _muted_logs() -> Generator[None]:
    """Mute the log lines that the library writes for each reconnection attempt. The channel logs an
    outage once.
    """
    before = _IS_MUTED.set(True)
    try:
        yield
    finally:
        _IS_MUTED.reset(before)


class _MuteFilter(logging.Filter):
    """Drops log lines that the library writes for this channel. Lines for the program's other bots
    are kept.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return not (_IS_MUTED.get() and str(record.msg).startswith(_MUTED_MESSAGES))


_MUTE_FILTER: Final = _MuteFilter()


async def _collect(found: AsyncIterator[T]) -> list[T]:
    return [one async for one in found]


def _time(moment: datetime) -> str:
    return rfc3339(moment)


# Rendering
# --------------------------------------------------------------------------------------------------


def escaped(text: str) -> str:
    """Return text without any Discord formatting, mention, link or emoji."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def written(card: Card) -> tuple[str, list[tuple[str, bytes]]]:
    """Return the text of a card, and files with the content that does not fit into the message."""
    files = [] if card.file is None else [card.file]
    exact = "\n".join(card.lines)
    if _FENCE not in exact and not exact.startswith("`") and not exact.endswith("`"):
        content = _content(card, f"{_FENCE}\n{exact}\n{_FENCE}" if exact else "", files)
        if len(content) <= MAX_MESSAGE_CHARS:
            return content, files
    files = [*files, ("shown.txt", exact.encode())] if exact else files
    content = _content(card, "", files)
    if len(content) <= MAX_MESSAGE_CHARS:
        return content, files
    everything = f"{card.heading}\n{card.text}\n{exact}\n{card.hint}\n{card.left}\n{card.notice}"
    return "See the attached file question\\.txt\\.", [
        *files[:1],
        ("question.txt", everything.encode()),
    ]


def _content(card: Card, block: str, files: list[tuple[str, bytes]]) -> str:
    heading = f"**{escaped(card.heading)}**" if card.heading else ""
    below = f"The full content is in the attached file {escaped(files[0][0])}\\." if files else ""
    parts = [
        heading,
        escaped(card.text),
        block,
        below,
        "" if card.is_over else escaped(card.hint),
        escaped(card.left),
        escaped(card.notice),
    ]
    return "\n".join(part for part in parts if part)
