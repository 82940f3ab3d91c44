"""State shared by all pages of one application, and a cache for repeated API requests.

With the cache, a repeated request gets the response of the first one.
"""

from __future__ import annotations

import asyncio
import signal
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response

from midturn.events.open_question import OpenQuestion
from midturn.inbox.open_questions import Feed, OpenQuestionList
from midturn.inbox.resuming import SecretCache
from midturn.question.json_value import Json, canonical
from midturn.question.reply import Answered
from midturn.web.body import problem
from midturn.web.conversation_cache import ConversationCache
from midturn.web.request_checks import Access, Visitor

if TYPE_CHECKING:
    from midturn.web.push import Push  # needs an extra


Name: TypeAlias = tuple[str, str, str]
"""Key of a cached answer: user, question ID and Idempotency-Key."""
MAX_CACHED: Final = 1_000
_OK: Final = 200


class IdempotencyCache:
    """Caches the responses of recent answers by Idempotency-Key.

    A repeated request with the same key gets the first response.
    """

    def __init__(self) -> None:
        self._cached: OrderedDict[Name, tuple[bytes, asyncio.Task[Response]]] = OrderedDict()

    async def once(
        self,
        name: tuple[str, str, str],
        body: Mapping[str, Json],
        work: Callable[[], Coroutine[Any, Any, Response]],
    ) -> Response:
        """Run `work` once per name and return its response.

        A request with the same name and a different body is rejected.
        """
        written = canonical(body)
        kept, task = self._cached.get(name, (b"", None))
        if task is not None and kept != written:
            return problem(
                422,
                "key_reused",
                "This Idempotency-Key was already used with a different answer. Nothing was"
                " recorded.",
                problems=[],
            )
        if task is None:
            task = asyncio.create_task(work())
            self._cached[name] = written, task
            while len(self._cached) > MAX_CACHED:
                self._cached.popitem(last=False)
        response = await asyncio.shield(task)
        if response.status_code != _OK:  # a failed answer may be sent again
            self._cached.pop(name, None)
        return Response(response.body, response.status_code, media_type=response.media_type)


def is_server_stopping() -> bool:
    """Return whether the server has received the signal to stop.

    uvicorn waits for open responses before it notifies the application, so the signal handlers
    are checked here.
    """
    handlers = (signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))
    return any(
        getattr(getattr(handler, "__self__", None), "should_exit", False) is True
        for handler in handlers
    )


_STOP_CHECK_INTERVAL = 0.5  # seconds between checks whether the server is stopping


class OpenStreams:
    """The open event streams.

    While streams are open, one task checks whether the server is stopping. If so, it wakes all
    streams.
    """

    def __init__(self) -> None:
        self._count = 0
        self._check: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def opened(self, feed: Feed) -> AsyncGenerator[None]:
        """Count a stream of `feed` while it is open."""
        self._count += 1
        if self._check is None:
            self._check = asyncio.create_task(self._wake_at_stop(feed))
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._check.cancel()
                self._check = None

    async def _wake_at_stop(self, feed: Feed) -> None:
        while not is_server_stopping():  # noqa: ASYNC110  uvicorn tells nobody
            await asyncio.sleep(_STOP_CHECK_INTERVAL)
        feed.look()


class Resumer(Protocol):
    """Resumes turns whose questions were answered."""

    def begin(self) -> None:
        """Start checking for turns to resume."""
        ...

    def nudge(self) -> None:
        """Check for turns to resume now."""
        ...

    async def give(
        self, question: OpenQuestion, answers: Mapping[str, Answered], user: str | None
    ) -> None:
        """Resume a turn and pass the typed answers to it, including secrets."""
        ...

    def waits_for(self, question: OpenQuestion) -> bool:
        """Return whether a turn in this process is waiting for this question and can receive a
        secret.
        """
        ...

    async def stop(self) -> None:
        """Stop resuming turns. A running step may finish; its turn stays open."""
        ...


class AppState(Struct, frozen=True, kw_only=True):
    """State shared by all pages of one application.

    Args:
        resumer: Resumes turns. None if other processes resume them.
        signs_in: Whether midturn signs users in. False if the surrounding program signs them in.
        secrets: True accepts secrets over any connection, and False over none. None accepts them
            over private connections only.
        notifying: Sends notifications while the application runs.
        push: Sends web push notifications. None if they are not available.
        elsewhere: The place where a secret can be entered if this page does not accept it. `{id}`
            is replaced by the question ID.
        root: The workspace, where tools store diffs that are too long for a question.
    """

    board: OpenQuestionList
    library: ConversationCache
    access: Access
    resumer: Resumer | None = None
    title: str = "midturn"
    signs_in: bool = False
    secrets: bool | None = None
    notifying: Callable[[OpenQuestionList], Coroutine[Any, Any, None]] | None = None
    push: Push | None = None
    elsewhere: str = "Answer it where the turn runs, in its program or at its terminal."
    root: Path | None = None
    vault: SecretCache = field(default_factory=SecretCache)
    repeats: IdempotencyCache = field(default_factory=IdempotencyCache)
    streams: OpenStreams = field(default_factory=OpenStreams)


Handler = Callable[[Request, Visitor], Awaitable[Response]]
