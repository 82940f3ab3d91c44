"""Fake Telegram server, written from the Bot API documentation: updates with offsets,
messages, buttons, limits, errors.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from support.channels.limit import Limit
from support.channels.loopback import Loopback, serve_on_loopback

TOKEN = "123456:the-bot"
BOT = {"id": 1, "is_bot": True, "first_name": "midturn", "username": "midturn_bot"}


class TelegramServer:
    """One bot. `faults` are the errors of the next calls of a method: status, description,
    parameters.
    """

    def __init__(self) -> None:
        self.address = ""
        self.served: Loopback
        self.messages: dict[tuple[int, int], dict[str, Any]] = {}
        self.files: list[bytes] = []
        self.updates: list[dict[str, Any]] = []
        self.faults: dict[str, list[tuple[int, str, dict[str, Any]]]] = {}
        self.pressed: list[str] = []
        self.limit: Limit | None = None
        self._numbers = itertools.count(1)
        self._news = asyncio.Event()

    # User actions
    # ----------------------------------------------------------------------------------------------

    def write(
        self,
        user: int,
        text: str | None,
        *,
        chat: int | None = None,
        about: int | None = None,
        **more: Any,
    ) -> None:
        """Write a message as a user, in the chat with the bot or in a group."""
        chat = chat or user
        message = {
            **self._message(chat, user),
            **({"text": text} if text is not None else {}),
            **more,
        }
        if about is not None:
            message["reply_to_message"] = self._message(chat, 1) | {"message_id": about}
        self._tell({"message": message})

    def edit(self, user: int, text: str, *, about: int) -> None:
        """Edit a message as a user. A bot gets edits only if it asks for them."""
        message = {**self._message(user, user), "text": text, "edit_date": int(time.time())}
        message["reply_to_message"] = self._message(user, 1) | {"message_id": about}
        self._tell({"edited_message": message})

    def press(self, user: int, chat: int, number: int, label: str) -> None:
        """Press a button as a user."""
        self._press(user, chat, number, self._data(chat, number, label))

    def pressing(
        self, user: int, chat: int, number: int, label: str
    ) -> Callable[[], Awaitable[None]]:
        """Return a function that presses the button as it is now, even if the card changes
        later.
        """
        data = self._data(chat, number, label)

        async def press() -> None:
            self._press(user, chat, number, data)

        return press

    def _data(self, chat: int, number: int, label: str) -> str:
        rows = self.messages[chat, number]["reply_markup"]["inline_keyboard"]
        return str(
            next(
                button["callback_data"] for row in rows for button in row if button["text"] == label
            )
        )

    def _press(self, user: int, chat: int, number: int, data: str) -> None:
        about = self._message(chat, 1) | {"message_id": number}
        query = {
            "id": str(next(self._numbers)),
            "from": _user(user),
            "chat_instance": "1",
            "message": about,
            "data": data,
        }
        self._tell({"callback_query": query})

    def cards(self, chat: int) -> dict[int, dict[str, Any]]:
        """Return the messages of the bot in a chat, by number."""
        return {
            number: message for (where, number), message in self.messages.items() if where == chat
        }

    def _tell(self, update: dict[str, Any]) -> None:
        self.updates.append({"update_id": next(self._numbers), **update})
        self._news.set()

    def _message(self, chat: int, user: int) -> dict[str, Any]:
        kind = "private" if chat > 0 else "group"
        number = next(self._numbers)
        return {
            "message_id": number,
            "date": int(time.time()),
            "chat": {"id": chat, "type": kind, "title": "x"},
            "from": _user(user),
        }

    def application(self) -> web.Application:
        """Return the web application of the server."""
        application = web.Application()
        application.router.add_route("*", "/bot{token}/{method}", self.handle)
        return application

    # Bot API
    # ----------------------------------------------------------------------------------------------

    async def handle(self, request: web.Request) -> web.Response:
        """Handle a call of the Bot API."""
        token, method = request.match_info["token"], request.match_info["method"]
        fields: dict[str, Any] = dict(await request.post())
        if token != TOKEN:
            return _refused(401, "Unauthorized", {})
        if faults := self.faults.get(method):
            return _refused(*faults.pop(0))
        if method == "getUpdates":
            return _done(await self._updates(int(fields.get("offset", 0))))
        done = {
            "getMe": self._me,
            "sendMessage": self._sent,
            "sendDocument": self._filed,
            "editMessageText": self._edited,
        }
        return done.get(method, self._pressed)(fields)

    def _me(self, fields: dict[str, Any]) -> web.Response:
        del fields
        return _done(BOT)

    def _filed(self, fields: dict[str, Any]) -> web.Response:
        document = next(value for value in fields.values() if not isinstance(value, str))
        self.files.append(document.file.read())
        return _done(self._message(int(fields["chat_id"]), 1))

    def _pressed(self, fields: dict[str, Any]) -> web.Response:
        self.pressed.append(str(fields["callback_query_id"]))
        return _done(True)

    async def _updates(self, offset: int) -> list[dict[str, Any]]:
        self.updates = [update for update in self.updates if update["update_id"] >= offset]
        if not self.updates:
            self._news.clear()
            try:
                async with asyncio.timeout(1):
                    await self._news.wait()
            except TimeoutError:
                return []
        return self.updates

    def _sent(self, fields: dict[str, Any]) -> web.Response:
        chat, text = int(fields["chat_id"]), str(fields["text"])
        if self.limit is not None and self.limit.wait():
            return _refused(429, "Too Many Requests: retry after 1", {"retry_after": 1})
        if len(text) > 4096:
            return _refused(400, "Bad Request: message is too long", {})
        if any(
            len(button["callback_data"].encode()) > 64
            for row in _keyboard(fields)
            for button in row
        ):
            return _refused(400, "Bad Request: BUTTON_DATA_INVALID", {})
        message = self._message(chat, 1) | {"text": text}
        self.messages[chat, int(message["message_id"])] = {**message, **_written(fields)}
        return _done(message)

    def _edited(self, fields: dict[str, Any]) -> web.Response:
        place = int(fields["chat_id"]), int(fields["message_id"])
        before: dict[str, Any] | None = self.messages.get(place)
        if before is None:
            return _refused(400, "Bad Request: message to edit not found", {})
        after: dict[str, Any] = {**before, "text": fields["text"], **_written(fields)}
        if after == before:
            return _refused(400, "Bad Request: message is not modified", {})
        self.messages[place] = after
        return _done(before)


def _user(number: int) -> dict[str, Any]:
    return {"id": number, "is_bot": False, "first_name": f"user {number}"}


def _keyboard(fields: dict[str, Any]) -> list[list[dict[str, Any]]]:
    return json.loads(fields["reply_markup"])["inline_keyboard"] if "reply_markup" in fields else []


def _written(fields: dict[str, Any]) -> dict[str, Any]:
    entities = json.loads(fields.get("entities", "[]"))
    return {"entities": entities, "reply_markup": {"inline_keyboard": _keyboard(fields)}}


def _done(result: object) -> web.Response:
    return web.json_response({"ok": True, "result": result})


def _refused(status: int, said: str, parameters: dict[str, Any]) -> web.Response:
    return web.json_response(
        {"ok": False, "error_code": status, "description": said, "parameters": parameters},
        status=status,
    )


@asynccontextmanager
async def telegram_server() -> AsyncGenerator[TelegramServer]:
    """Run the server on loopback."""
    server = TelegramServer()
    async with serve_on_loopback(server.application) as server.served:
        server.address = f"{server.served.address}/bot"
        yield server
