"""Telegram channel: a bot that polls for updates, without a public address or a web hook.

The channel has its own polling loop, because each poll confirms the previous updates. The library's
`Updater` would confirm an update before its answer is recorded. Text that Telegram could interpret
as a mention, link or command is sent as code. Forwarded messages are ignored, and edited messages
are not requested. Telegram stores updates for a day.
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
POLL_TIMEOUT: Final = 25  # seconds that Telegram holds a poll open if there are no updates
TIMEOUT: Final = 20.0
_OFFSET_KEY: Final = "offset"
_UPDATE_TYPES: Final = ["message", "callback_query"]
T = TypeVar("T")


class Telegram:
    """A Telegram bot, with its token from @BotFather.

    A room is the ID of a group, such as `-1001234567890`.
    """

    kind = "telegram"
    fits = Fits(text=3_800, buttons=20, files=True, label=60)

    def __init__(self, token: str, *, api: str = _API) -> None:
        """Configure the token. `api` is the URL of Telegram's API."""
        for name in ("httpx", "telegram.Bot"):
            logging.getLogger(name).addFilter(_TokenFilter(token))
        polls = HTTPXRequest(read_timeout=POLL_TIMEOUT + TIMEOUT, connect_timeout=TIMEOUT)
        self._bot: Any = telegram.Bot(
            token,
            base_url=api,
            request=HTTPXRequest(read_timeout=TIMEOUT),
            get_updates_request=polls,
        )
        self._memory: Memory | None = None

    def __repr__(self) -> str:
        return "Telegram(…)"

    async def open(self, memory: Memory) -> None:
        """Check the token."""
        self._memory = memory
        await self._call(self._bot.initialize())

    async def close(self) -> None:
        """Disconnect."""
        await self._bot.shutdown()

    async def send(self, card: Card) -> str:
        """Send a card. Content that does not fit is sent before it, as a file."""
        await self._send_file(card)
        text, entities = self._render(card)
        sent = await self._call(
            self._bot.send_message(
                card.to,
                text,
                entities=entities,
                reply_markup=self._buttons(card),
                disable_web_page_preview=True,
            )
        )
        return f"{sent.chat_id}:{sent.message_id}"

    async def update(self, handle: str, card: Card) -> None:
        """Change a card."""
        chat, _, number = handle.partition(":")
        await self._send_file(card)
        text, entities = self._render(card)
        await self._call(
            self._bot.edit_message_text(
                text,
                chat,
                int(number),
                entities=entities,
                reply_markup=self._buttons(card),
                disable_web_page_preview=True,
            )
        )

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield replies. A handled reply is confirmed to Telegram by the next poll."""
        offset = int(self._store.get(_OFFSET_KEY) or 0)
        while True:
            updates = await self._call(
                self._bot.get_updates(
                    offset=offset, timeout=POLL_TIMEOUT, allowed_updates=_UPDATE_TYPES
                )
            )
            for update in updates:
                reply = _reply(update)
                if reply is not None:
                    yield reply
                offset = int(update.update_id) + 1
                await self._store.set(_OFFSET_KEY, str(offset))
                if update.callback_query is not None:
                    await self._acknowledge(update.callback_query)

    @property
    def _store(self) -> Memory:
        if self._memory is None:
            raise ChannelAway("Telegram is not connected.")
        return self._memory

    async def _acknowledge(self, pressed: Any) -> None:
        """Stop the loading animation of a button. Errors are ignored."""
        try:
            await self._call(pressed.answer())
        except (ChannelAway, ChannelRefused):
            return

    async def _send_file(self, card: Card) -> None:
        if card.file is not None:
            name, content = card.file
            await self._call(self._bot.send_document(card.to, content, filename=name))

    def _buttons(self, card: Card) -> Any:
        if card.is_over or not card.choices:
            return None
        make = telegram.InlineKeyboardButton
        rows = [[make(choice.label, callback_data=choice.token)] for choice in card.choices]
        short = len(card.choices) <= 2  # noqa: PLR2004  yes and no are in one row
        return telegram.InlineKeyboardMarkup(
            [[button for row in rows for button in row]] if short else rows
        )

    def _render(self, card: Card) -> tuple[str, list[Any]]:
        """Return the text of a message, and the entities that mark its parts as code."""
        parts = [
            ("code", card.heading),
            ("code", card.text),
            ("pre", "\n".join(card.lines)),
            ("code", card.notice),
            ("", card.left),
        ]
        parts.append(("code", "" if card.is_over else card.hint))
        text, entities = "", list[Any]()
        for kind, part in parts:
            if not part:
                continue
            text += "\n\n" if text else ""
            if kind:
                entities.append(
                    telegram.MessageEntity(kind, _utf16_length(text), _utf16_length(part))
                )
            text += part
        return text or "…", entities

    async def _call(self, call: Awaitable[T]) -> T:
        """Await a call of the library and translate its errors.

        Raises:
            ChannelAway: Telegram is unreachable or is limiting the request rate.
            ChannelRefused: Telegram rejects the call.
        """
        try:
            return await call
        except telegram.error.RetryAfter as wait:
            after = wait.retry_after
            seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
            raise ChannelAway("Telegram is limiting the request rate.", after=seconds) from None
        except telegram.error.InvalidToken:  # the message of this error contains the token
            raise ChannelRefused("Telegram rejected the token.") from None
        except telegram.error.Forbidden as refused:
            raise ChannelRefused(f"Telegram rejected the request: {refused}") from None
        except telegram.error.BadRequest as refused:
            if "not modified" in str(refused):  # the message is already up to date
                return None  # type: ignore[return-value]  # the result of an edit is not used
            raise ChannelRefused(f"Telegram rejected the request: {refused}") from None
        except telegram.error.TelegramError as away:
            raise ChannelAway(f"Telegram cannot be reached: {away}") from None


class _TokenFilter(logging.Filter):
    """Removes the bot token from log lines of the library and its HTTP client. Every URL contains
    the token.
    """

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def filter(self, record: logging.LogRecord) -> bool:
        if self._token in record.getMessage():
            record.msg, record.args = record.getMessage().replace(self._token, "…"), ()
        return True


def _reply(update: Any) -> Reply | None:
    """Return the reply in an update, or None if no person wrote it."""
    pressed, message = update.callback_query, update.message
    if pressed is not None:
        about = pressed.message
        if about is None or not pressed.data:
            return None
        place = "" if about.chat.type == "private" else str(about.chat.id)
        handle = f"{about.chat.id}:{about.message_id}"
        return Reply(
            account=str(pressed.from_user.id), handle=handle, token=pressed.data, place=place
        )
    if (
        message is None
        or message.from_user is None
        or message.forward_origin is not None
        or message.sender_chat is not None
    ):
        return None
    place = "" if message.chat.type == "private" else str(message.chat.id)
    answered = message.reply_to_message
    handle = f"{message.chat.id}:{answered.message_id}" if answered is not None else ""
    at = rfc3339(message.date.astimezone(UTC))
    return Reply(
        account=str(message.from_user.id),
        id=str(update.update_id),
        handle=handle,
        text=message.text or "",
        place=place,
        at=at,
    )


def _utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units, as Telegram counts."""
    return len(text.encode("utf-16-le")) // 2
