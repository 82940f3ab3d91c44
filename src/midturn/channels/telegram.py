"""Telegram, as a bot that asks for what is new: no address of ours, and no web hook.

Updates are asked for in a loop of ours, and the next request confirms those before: the library's own `Updater` would confirm an update
before its answer is on record. What Telegram could read as a mention, a link or a command stands in code, where it reads nothing. A
forwarded message is no one's answer, and an edited one is not even asked for. What came while nothing ran is kept there for a day.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable
from datetime import UTC, timedelta
from typing import Any, Final, TypeVar

import telegram
from telegram.request import HTTPXRequest

from midturn.channels.port import Card, ChannelAway, ChannelRefused, Fits, Memory, Reply
from midturn.question.text import rfc3339

_API: Final = "https://api.telegram.org/bot"
_POLL: Final = 25  # seconds for which Telegram waits for something new before it answers
_SECONDS: Final = 20.0
_OFFSET: Final = "offset"
_WANTED: Final = ["message", "callback_query"]
T = TypeVar("T")


class Telegram:
    """A bot, by its token from @BotFather. A room is the id of a group, such as `-1001234567890`."""

    kind = "telegram"
    fits = Fits(text=3_800, buttons=20, files=True, label=60)

    def __init__(self, token: str, *, api: str = _API) -> None:
        """Take the token; `api` is where Telegram is."""
        for name in ("httpx", "telegram.Bot"):
            logging.getLogger(name).addFilter(_Redacted(token))
        polls = HTTPXRequest(read_timeout=_POLL + _SECONDS, connect_timeout=_SECONDS)
        self._bot: Any = telegram.Bot(token, base_url=api, request=HTTPXRequest(read_timeout=_SECONDS), get_updates_request=polls)
        self._memory: Memory | None = None

    def __repr__(self) -> str:
        return "Telegram(…)"

    async def open(self, memory: Memory) -> None:
        """Find out who we are there."""
        self._memory = memory
        await self._called(self._bot.initialize())

    async def close(self) -> None:
        """Disconnect."""
        await self._bot.shutdown()

    async def send(self, card: Card) -> str:
        """Send a card; what does not fit comes before it, as a file."""
        await self._send_file(card)
        text, entities = self._written(card)
        sent = await self._called(
            self._bot.send_message(card.to, text, entities=entities, reply_markup=self._buttons(card), disable_web_page_preview=True)
        )
        return f"{sent.chat_id}:{sent.message_id}"

    async def update(self, handle: str, card: Card) -> None:
        """Change a card."""
        chat, _, number = handle.partition(":")
        await self._send_file(card)
        text, entities = self._written(card)
        await self._called(
            self._bot.edit_message_text(
                text, chat, int(number), entities=entities, reply_markup=self._buttons(card), disable_web_page_preview=True
            )
        )

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield what comes. To ask for the next one notes that the one before is done, and the next poll says so to Telegram."""
        offset = int(self._kept.get(_OFFSET) or 0)
        while True:
            updates = await self._called(self._bot.get_updates(offset=offset, timeout=_POLL, allowed_updates=_WANTED))
            for update in updates:
                reply = _reply(update)
                if reply is not None:
                    yield reply
                offset = int(update.update_id) + 1
                await self._kept.set(_OFFSET, str(offset))
                if update.callback_query is not None:
                    await self._acknowledge(update.callback_query)

    @property
    def _kept(self) -> Memory:
        if self._memory is None:
            raise ChannelAway("it is not connected")
        return self._memory

    async def _acknowledge(self, pressed: Any) -> None:
        """Let the button look pressed; where that comes too late, nothing is lost."""
        try:
            await self._called(pressed.answer())
        except (ChannelAway, ChannelRefused):
            return

    async def _send_file(self, card: Card) -> None:
        if card.file is not None:
            name, content = card.file
            await self._called(self._bot.send_document(card.to, content, filename=name))

    def _buttons(self, card: Card) -> Any:
        if card.is_over or not card.choices:
            return None
        make = telegram.InlineKeyboardButton
        rows = [[make(choice.label, callback_data=choice.token)] for choice in card.choices]
        short = len(card.choices) <= 2  # noqa: PLR2004  yes and no stand side by side
        return telegram.InlineKeyboardMarkup([[button for row in rows for button in row]] if short else rows)

    def _written(self, card: Card) -> tuple[str, list[Any]]:
        """Return the text of a message, and which parts of it are code: all that came from outside."""
        parts = [("code", card.heading), ("code", card.text), ("pre", "\n".join(card.lines)), ("code", card.notice), ("", card.left)]
        parts.append(("code", "" if card.is_over else card.hint))
        text, entities = "", list[Any]()
        for kind, part in parts:
            if not part:
                continue
            text += "\n\n" if text else ""
            if kind:
                entities.append(telegram.MessageEntity(kind, _units(text), _units(part)))
            text += part
        return text or "…", entities

    async def _called(self, call: Awaitable[T]) -> T:
        """Wait for the library, and say what went wrong in our words.

        Raises:
            ChannelAway: Telegram is away, or wants us to wait.
            ChannelRefused: It refuses.
        """
        try:
            return await call
        except telegram.error.RetryAfter as wait:
            after = wait.retry_after
            seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
            raise ChannelAway("Telegram wants us to wait", after=seconds) from None
        except telegram.error.InvalidToken:  # its message has the token
            raise ChannelRefused("Telegram refuses the token") from None
        except telegram.error.Forbidden as refused:
            raise ChannelRefused(f"Telegram refuses: {refused}") from None
        except telegram.error.BadRequest as refused:
            if "not modified" in str(refused):  # the same was there already
                return None  # type: ignore[return-value]  # an edit gives nothing that is looked at
            raise ChannelRefused(f"Telegram refuses: {refused}") from None
        except telegram.error.TelegramError as away:
            raise ChannelAway(f"Telegram is away: {away}") from None


class _Redacted(logging.Filter):
    """Keeps a token out of what the library and its client say of an address: it stands in each."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def filter(self, record: logging.LogRecord) -> bool:
        """Let a record through without the token."""
        if self._token in record.getMessage():
            record.msg, record.args = record.getMessage().replace(self._token, "…"), ()
        return True


def _reply(update: Any) -> Reply | None:
    """Return what a person did; None where it is nothing of theirs."""
    pressed, message = update.callback_query, update.message
    if pressed is not None:
        about = pressed.message
        if about is None or not pressed.data:
            return None
        place = "" if about.chat.type == "private" else str(about.chat.id)
        handle = f"{about.chat.id}:{about.message_id}"
        return Reply(account=str(pressed.from_user.id), handle=handle, token=pressed.data, place=place)
    if message is None or message.from_user is None or message.forward_origin is not None or message.sender_chat is not None:
        return None
    place = "" if message.chat.type == "private" else str(message.chat.id)
    answered = message.reply_to_message
    handle = f"{message.chat.id}:{answered.message_id}" if answered is not None else ""
    at = rfc3339(message.date.astimezone(UTC))
    return Reply(account=str(message.from_user.id), id=str(update.update_id), handle=handle, text=message.text or "", place=place, at=at)


def _units(text: str) -> int:
    """Count as Telegram does: in units of UTF-16."""
    return len(text.encode("utf-16-le")) // 2
