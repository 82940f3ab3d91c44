"""ntfy channel: cards are published to a topic, and buttons post their tokens to a second, secret
topic.

ntfy has topics but no user identities: everyone who can read a topic can press the buttons of its
messages. Therefore the topic is the account, and its answers are recorded without a name. Questions
that only named people, or several people, may answer are not sent. Messages are updated by their
sequence ID (server 2.16 and newer; older servers show an additional message). Replies are read from
the last read message on.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast
from urllib.parse import urlsplit

import aiohttp

from midturn.channels.port import Card, ChannelAway, ChannelRefused, Fits, Memory, Reply
from midturn.errors import ConfigError
from midturn.question.text import rfc3339

DEFAULT_SERVER: Final = "https://ntfy.sh"
CONNECT_TIMEOUT: Final = 20.0
# maximum seconds without data; a server sends a keepalive every 45 seconds
SILENCE_TIMEOUT: Final = 120.0
MAX_MESSAGE_BYTES: Final = 4_096  # maximum size of a message, in bytes
# maximum size of a message's text as JSON, in bytes; a request with buttons may have 8,192
MAX_JSON_BYTES: Final = 6_000
MAX_LINE_BYTES: Final = 65_536  # maximum size of a line in the stream, in bytes
MAX_ACTIONS: Final = 3
_ANSWERS_KEY: Final = "answers"
_SINCE_KEY: Final = "since"
_OWN_TAG: Final = "midturn"
_PROGRAM_FIELDS: Final = ("title", "tags", "attachment", "actions", "click", "icon")
_MIN_PRIORITY, _HIGH_PRIORITY = 1, 4
_SERVER_ERROR, _TOO_MANY, _CLIENT_ERROR = 500, 429, 400


class Ntfy:
    """A topic on an ntfy server.

    Args:
        topic: Name of the topic.
        server: URL of the server.
        token: Access token, if the server needs one.
        answers: Topic to which the buttons post. Default: a random name that is stored.
        answer_token: Access token that the buttons contain. Give it write access only.
        files: Whether the server accepts files.
    """

    kind = "ntfy"

    def __init__(
        self,
        topic: str,
        *,
        server: str = DEFAULT_SERVER,
        token: str = "",
        answers: str = "",
        answer_token: str = "",
        files: bool = True,
    ) -> None:
        """Configure the topic.

        Raises:
            ConfigError: The URL or a topic is invalid, or the URL is not encrypted.
        """
        self._server = _checked_server(server)
        self._topic = _checked_topic(topic)
        self._answers = _checked_topic(answers) if answers else ""
        self._token, self._answer_token = token, answer_token
        self._memory: Memory | None = None
        self._session: Any = None
        self.fits = Fits(
            text=3_200 if files else 1_700,
            buttons=MAX_ACTIONS,
            files=files,
            label=40,
            has_names=False,
            confirms=True,
            only=(self._topic,),
            how="write to this topic",
        )

    def __repr__(self) -> str:
        return "Ntfy(…)"

    async def open(self, memory: Memory) -> None:
        """Check that the topic can be read. Messages from before the first start are ignored."""
        self._memory = memory
        self._answers = self._answers or memory.get(_ANSWERS_KEY)
        if not self._answers:
            self._answers = f"mt{secrets.token_urlsafe(20)}"
            await memory.set(_ANSWERS_KEY, self._answers)
        timeout = aiohttp.ClientTimeout(
            total=None, connect=CONNECT_TIMEOUT, sock_read=SILENCE_TIMEOUT
        )
        self._session = self._session or aiohttp.ClientSession(
            timeout=timeout, headers=_auth_headers(self._token), read_bufsize=MAX_LINE_BYTES
        )
        async for _ in self._messages({"poll": "1", "since": "1s"}):
            pass

    async def close(self) -> None:
        """Disconnect."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # Cards
    # ----------------------------------------------------------------------------------------------

    async def send(self, card: Card) -> str:
        """Send a card. Content that does not fit is sent before it, as a file."""
        return await self._publish(card, {})

    async def update(self, handle: str, card: Card) -> None:
        """Change a card."""
        await self._publish(card, {"sequence_id": handle})

    async def _publish(self, card: Card, which: Mapping[str, str]) -> str:
        text, files = written(card)
        if files and not self.fits.files:
            raise ChannelRefused(
                "The card does not fit into a message, and this channel has `files = false`."
            )
        for name, content in files:
            await self._send_file(name, content)
        message: dict[str, Any] = {
            "topic": self._topic,
            "message": text,
            "tags": [_OWN_TAG],
            **which,
        }
        message |= {"title": card.heading} if card.heading else {}
        message["priority"] = _MIN_PRIORITY if card.is_over else _HIGH_PRIORITY
        if card.choices and not card.is_over:
            message["actions"] = [
                self._action(choice.label, choice.token) for choice in card.choices
            ]
        content = json.dumps(message, ensure_ascii=False).encode()
        return str((await self._request("POST", "/", content, {}))["id"])

    def _action(self, label: str, token: str) -> dict[str, Any]:
        url = f"{self._server}/{self._answers}"
        return {
            "action": "http",
            "label": label,
            "url": url,
            "method": "POST",
            "headers": _auth_headers(self._answer_token),
            "body": token,
            "clear": False,
        }

    async def _send_file(self, name: str, content: bytes) -> None:
        headers = {
            "Filename": name,
            "Tags": _OWN_TAG,
            "Message": name,
            "Priority": str(_MIN_PRIORITY),
        }
        await self._request("PUT", f"/{self._topic}", content, headers)

    async def _request(
        self, method: str, path: str, content: bytes, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        try:
            request = self._open_session.request(
                method,
                f"{self._server}{path}",
                data=content,
                headers=headers,
                allow_redirects=False,
            )
            async with request as response:
                await _check_status(response)
                return cast("dict[str, Any]", await response.json(content_type=None))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise ChannelAway(f"ntfy cannot be reached: {type(error).__name__}.") from None

    # Replies
    # ----------------------------------------------------------------------------------------------

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield the replies after the last read message, then new replies."""
        async for message in self._messages({"since": self._store.get(_SINCE_KEY) or "all"}):
            reply = self._reply(message)
            if reply is not None:
                yield reply
            await self._store.set(_SINCE_KEY, str(message["id"]))
        raise ChannelAway("ntfy closed the connection.")

    async def _messages(self, asked: Mapping[str, str]) -> AsyncGenerator[dict[str, Any]]:
        """Yield the stored messages of both topics and, without `poll`, also new messages."""
        url = f"{self._server}/{self._topic},{self._answers}/json"
        try:
            async with self._open_session.get(url, params=asked, allow_redirects=False) as response:
                await _check_status(response)
                async for line in _lines(response.content.iter_any()):
                    message = _parse_message(line)
                    if message is not None:
                        yield message
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise ChannelAway(f"ntfy cannot be reached: {type(error).__name__}.") from None

    def _reply(self, message: Mapping[str, Any]) -> Reply | None:
        """Return the reply in a message.

        Return None for messages from midturn and other programs. They have fields, such as a title,
        that a message written in the app does not have.
        """
        text = message.get("message")
        if not isinstance(text, str) or any(message.get(part) for part in _PROGRAM_FIELDS):
            return None
        at = _time(message.get("time"))
        if message.get("topic") == self._answers:
            return Reply(account=self._topic, token=text.strip(), at=at)
        return (
            Reply(account=self._topic, id=str(message["id"]), text=text, at=at)
            if message.get("topic") == self._topic
            else None
        )

    @property
    def _store(self) -> Memory:
        if self._memory is None:
            raise ChannelAway("ntfy is not connected.")
        return self._memory

    @property
    def _open_session(self) -> Any:
        if self._session is None:
            raise ChannelAway("ntfy is not connected.")
        return self._session


def written(card: Card) -> tuple[str, list[tuple[str, bytes]]]:
    """Return the text of a card, and files with the content that does not fit into the message."""
    files = [] if card.file is None else [card.file]
    exact = "\n".join(card.lines)
    text = _text(card, exact, files)
    if (
        len(text.encode()) > MAX_MESSAGE_BYTES
        or len(json.dumps(text, ensure_ascii=False).encode()) > MAX_JSON_BYTES
    ):
        everything = _text(card, exact, [])
        files = [*files, ("question.txt", everything.encode())]
        text = "The full content is in question.txt above."
    return text, files


def _text(card: Card, exact: str, files: list[tuple[str, bytes]]) -> str:
    above = f"The full content is in {files[0][0]} above." if files else ""
    parts = (card.text, exact, above, "" if card.is_over else card.hint, card.left, card.notice)
    return "\n\n".join(part for part in parts if part) or "…"


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the lines of a stream.

    Longer lines than a message can have are skipped, because the server would send them again after
    each reconnect.
    """
    line, is_long = b"", False
    async for chunk in chunks:
        for number, part in enumerate(chunk.split(b"\n")):
            if number and not is_long:
                yield line
            line, is_long = (b"", False) if number else (line, is_long)
            is_long = is_long or len(line) + len(part) > MAX_LINE_BYTES
            line = b"" if is_long else line + part
    if line:
        yield line


def _parse_message(line: bytes) -> dict[str, Any] | None:
    """Return a message of the stream, or None for keepalives and invalid lines."""
    message = _json_object(line)
    return (
        message
        if message.get("event") == "message" and isinstance(message.get("id"), str)
        else None
    )


def _json_object(line: str | bytes) -> dict[str, Any]:
    try:
        message: Any = json.loads(line)
    except ValueError:
        return {}
    return cast("dict[str, Any]", message) if isinstance(message, dict) else {}


async def _check_status(response: Any) -> None:
    """Raise an error for a status other than 200.

    Raises:
        ChannelAway: The server has an error or is limiting the request rate.
        ChannelRefused: The server rejects the credentials or the message.
    """
    status = response.status
    if status == _TOO_MANY or status >= _SERVER_ERROR:
        wait = response.headers.get("Retry-After", "")
        raise ChannelAway(
            f"ntfy responded with status {status}.", after=float(wait) if wait.isdecimal() else None
        )
    if status >= _CLIENT_ERROR or status != 200:  # noqa: PLR2004
        said = (await response.content.read(MAX_LINE_BYTES)).decode("utf-8", "replace")
        raise ChannelRefused(f"ntfy responded with status {status}: {_error(said)}.")


def _error(said: str) -> str:
    return str(_json_object(said).get("error") or "no reason given")


def _time(seconds: object) -> str:
    try:
        return rfc3339(datetime.fromtimestamp(float(cast("Any", seconds)), UTC))
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def _auth_headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _checked_server(server: str) -> str:
    parts = urlsplit(server)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.username
        or parts.query
        or parts.path not in ("", "/")
    ):
        raise ConfigError(
            f"Invalid `server` {server!r} for a channel of kind `ntfy`. Write a URL such as"
            f" {DEFAULT_SERVER}."
        )
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ConfigError(
            "`server` for a channel of kind `ntfy` must start with https://. Without encryption,"
            " others could read cards and press their buttons."
        )
    return f"{parts.scheme}://{parts.netloc}"


def _checked_topic(topic: str) -> str:
    if (
        not topic
        or len(topic) > 64  # noqa: PLR2004
        or not topic.isascii()
        or not topic.replace("-", "").replace("_", "").isalnum()
    ):
        raise ConfigError(f"Invalid ntfy topic {topic!r}. Use 1 to 64 letters, digits, - and _.")
    return topic
