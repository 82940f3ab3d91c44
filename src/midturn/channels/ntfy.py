"""ntfy: cards go to a topic, and a pressed button posts its token to another one, of which only the card knows.

ntfy knows topics and no people: all who see a topic may press what stands in it. So a topic is the account, and what comes from it has no
name on record. What is asked of certain people alone, or of several, is not sent. A message is changed by its sequence (server 2.16 and
newer; an older one shows one more message). What came while no one listened is told from the last message on that was read.
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

_SERVER: Final = "https://ntfy.sh"
_SECONDS: Final = 20.0
_SILENT: Final = 120.0  # seconds without a sign of life; a server gives one every 45 seconds
_MESSAGE: Final = 4_096  # bytes of a message
_WRITTEN: Final = 6_000  # bytes of a message as JSON, of the 8,192 that a server takes with its buttons
_LINE: Final = 65_536  # bytes that a message of a stream has at most
_ACTIONS: Final = 3
_ANSWERS: Final = "answers"
_SINCE: Final = "since"
_OURS: Final = "midturn"
_OF_PROGRAMS: Final = ("title", "tags", "attachment", "actions", "click", "icon")
_QUIET, _USUAL = 1, 4
_SERVERS_OWN, _TOO_MANY, _REFUSED = 500, 429, 400


class Ntfy:
    """A topic on a server of ntfy. `token` is an access token where the server wants one, `answer_token` one that may only write.

    `answers` is the topic to which buttons post, a random one that is kept if none is named. `files` says whether the server takes files.
    """

    kind = "ntfy"

    def __init__(
        self,
        topic: str,
        *,
        server: str = _SERVER,
        token: str = "",
        answers: str = "",
        answer_token: str = "",
        files: bool = True,
    ) -> None:
        """Take where it is.

        Raises:
            ConfigError: The server's address is none, or a secret would travel in the clear.
        """
        self._server = _address(server)
        self._topic = _name(topic)
        self._answers = _name(answers) if answers else ""
        self._token, self._answer_token = token, answer_token
        self._memory: Memory | None = None
        self._session: Any = None
        self.fits = Fits(
            text=3_200 if files else 1_700,
            buttons=_ACTIONS,
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
        """Ask whether we may read the topic. What is there before the first time is none of ours."""
        self._memory = memory
        self._answers = self._answers or memory.get(_ANSWERS)
        if not self._answers:
            self._answers = f"mt{secrets.token_urlsafe(20)}"
            await memory.set(_ANSWERS, self._answers)
        timeout = aiohttp.ClientTimeout(total=None, connect=_SECONDS, sock_read=_SILENT)
        self._session = self._session or aiohttp.ClientSession(timeout=timeout, headers=_may(self._token), read_bufsize=_LINE)
        async for _ in self._told({"poll": "1", "since": "1s"}):
            pass

    async def close(self) -> None:
        """Disconnect."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # Cards ------------------------------------------------------------------------------------------------------------------

    async def send(self, card: Card) -> str:
        """Send a card; what does not fit comes before it, as a file."""
        return await self._published(card, {})

    async def update(self, handle: str, card: Card) -> None:
        """Change a card."""
        await self._published(card, {"sequence_id": handle})

    async def _published(self, card: Card, which: Mapping[str, str]) -> str:
        text, files = written(card)
        if files and not self.fits.files:
            raise ChannelRefused("it does not fit into a message, and this channel has `files = false`")
        for name, content in files:
            await self._file(name, content)
        message: dict[str, Any] = {"topic": self._topic, "message": text, "tags": [_OURS], **which}
        message |= {"title": card.heading} if card.heading else {}
        message["priority"] = _QUIET if card.is_over else _USUAL
        if card.choices and not card.is_over:
            message["actions"] = [self._action(choice.label, choice.token) for choice in card.choices]
        content = json.dumps(message, ensure_ascii=False).encode()
        return str((await self._sent("POST", "/", content, {}))["id"])

    def _action(self, label: str, token: str) -> dict[str, Any]:
        url = f"{self._server}/{self._answers}"
        return {
            "action": "http",
            "label": label,
            "url": url,
            "method": "POST",
            "headers": _may(self._answer_token),
            "body": token,
            "clear": False,
        }

    async def _file(self, name: str, content: bytes) -> None:
        headers = {"Filename": name, "Tags": _OURS, "Message": name, "Priority": str(_QUIET)}
        await self._sent("PUT", f"/{self._topic}", content, headers)

    async def _sent(self, method: str, path: str, content: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        try:
            request = self._connected.request(method, f"{self._server}{path}", data=content, headers=headers, allow_redirects=False)
            async with request as response:
                await _checked(response)
                return cast("dict[str, Any]", await response.json(content_type=None))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise ChannelAway(f"ntfy cannot be reached: {type(error).__name__}.") from None

    # Replies ----------------------------------------------------------------------------------------------------------------

    async def replies(self) -> AsyncGenerator[Reply]:
        """Yield what came since the last message that was read, then what comes."""
        async for told in self._told({"since": self._kept.get(_SINCE) or "all"}):
            reply = self._reply(told)
            if reply is not None:
                yield reply
            await self._kept.set(_SINCE, str(told["id"]))
        raise ChannelAway("ntfy has ended the connection.")

    async def _told(self, asked: Mapping[str, str]) -> AsyncGenerator[dict[str, Any]]:
        """Yield the messages of both topics: those that are there, and unless `poll` is asked for, those that come."""
        url = f"{self._server}/{self._topic},{self._answers}/json"
        try:
            async with self._connected.get(url, params=asked, allow_redirects=False) as response:
                await _checked(response)
                async for line in _lines(response.content.iter_any()):
                    told = _message(line)
                    if told is not None:
                        yield told
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise ChannelAway(f"ntfy cannot be reached: {type(error).__name__}.") from None

    def _reply(self, told: Mapping[str, Any]) -> Reply | None:
        """Return what was pressed or written; nothing of what we or other programs have sent, which people do not write into an app."""
        text = told.get("message")
        if not isinstance(text, str) or any(told.get(part) for part in _OF_PROGRAMS):
            return None
        at = _time(told.get("time"))
        if told.get("topic") == self._answers:
            return Reply(account=self._topic, token=text.strip(), at=at)
        return Reply(account=self._topic, id=str(told["id"]), text=text, at=at) if told.get("topic") == self._topic else None

    @property
    def _kept(self) -> Memory:
        if self._memory is None:
            raise ChannelAway("ntfy is not connected.")
        return self._memory

    @property
    def _connected(self) -> Any:
        if self._session is None:
            raise ChannelAway("ntfy is not connected.")
        return self._session


def written(card: Card) -> tuple[str, list[tuple[str, bytes]]]:
    """Return the text of a card, and its files: what does not fit into the message."""
    files = [] if card.file is None else [card.file]
    exact = "\n".join(card.lines)
    text = _text(card, exact, files)
    if len(text.encode()) > _MESSAGE or len(json.dumps(text, ensure_ascii=False).encode()) > _WRITTEN:
        everything = _text(card, exact, [])
        files = [*files, ("question.txt", everything.encode())]
        text = "The whole is in question.txt, above."
    return text, files


def _text(card: Card, exact: str, files: list[tuple[str, bytes]]) -> str:
    above = f"The whole is in {files[0][0]}, above." if files else ""
    parts = (card.text, exact, above, "" if card.is_over else card.hint, card.left, card.notice)
    return "\n\n".join(part for part in parts if part) or "…"


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the lines of a stream. What is longer than a message can be is passed over: it would be told again after each new beginning."""
    line, is_long = b"", False
    async for chunk in chunks:
        for number, part in enumerate(chunk.split(b"\n")):
            if number and not is_long:
                yield line
            line, is_long = (b"", False) if number else (line, is_long)
            is_long = is_long or len(line) + len(part) > _LINE
            line = b"" if is_long else line + part
    if line:
        yield line


def _message(line: bytes) -> dict[str, Any] | None:
    """Return a message of a stream; None for a sign of life, and for what is none."""
    told = _told_as(line)
    return told if told.get("event") == "message" and isinstance(told.get("id"), str) else None


def _told_as(line: str | bytes) -> dict[str, Any]:
    try:
        told: Any = json.loads(line)
    except ValueError:
        return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}


async def _checked(response: Any) -> None:
    """Say in our words what the server refuses.

    Raises:
        ChannelAway: It wants us to wait, or is broken.
        ChannelRefused: It does not let us, or takes no such message.
    """
    status = response.status
    if status == _TOO_MANY or status >= _SERVERS_OWN:
        wait = response.headers.get("Retry-After", "")
        raise ChannelAway(f"ntfy: status {status}.", after=float(wait) if wait.isdecimal() else None)
    if status >= _REFUSED or status != 200:  # noqa: PLR2004
        said = (await response.content.read(_LINE)).decode("utf-8", "replace")
        raise ChannelRefused(f"ntfy: status {status}: {_error(said)}.")


def _error(said: str) -> str:
    return str(_told_as(said).get("error") or "no reason was given")


def _time(seconds: object) -> str:
    try:
        return rfc3339(datetime.fromtimestamp(float(cast("Any", seconds)), UTC))
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def _may(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _address(server: str) -> str:
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.path not in ("", "/"):
        raise ConfigError(f"`server` of a channel of the kind `ntfy` is an address such as {_SERVER}, and not {server!r}.")
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ConfigError("`server` of a channel of the kind `ntfy` begins with https://: others would read cards and press their buttons.")
    return f"{parts.scheme}://{parts.netloc}"


def _name(topic: str) -> str:
    if not topic or len(topic) > 64 or not topic.isascii() or not topic.replace("-", "").replace("_", "").isalnum():  # noqa: PLR2004
        raise ConfigError(f"A topic of ntfy has up to 64 letters, digits, - and _, and {topic!r} is none.")
    return topic
