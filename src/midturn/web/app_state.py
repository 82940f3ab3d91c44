"""State that all pages of an application share, and a cache that gives a repeated API request the
response to the first one.
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
    """Caches responses to recent answers by Idempotency-Key. A repeated request with the same key
    gets the response to the first one.
    """

    def __init__(self) -> None:
        self._cached: OrderedDict[Name, tuple[bytes, asyncio.Task[Response]]] = OrderedDict()

    async def once(
        self,
        name: tuple[str, str, str],
        body: Mapping[str, Json],
        work: Callable[[], Coroutine[Any, Any, Response]],
    ) -> Response:
        """Run `work` once per name, and return its response. A request with the same name and a
        different body is rejected.
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
        if response.status_code != _OK:  # a failed answer can be sent again
            self._cached.pop(name, None)
        return Response(response.body, response.status_code, media_type=response.media_type)


def is_server_stopping() -> bool:
    """Return whether the server received a signal to stop.

    uvicorn waits for open responses before it notifies the application, so this function checks
    uvicorn's signal handlers.
    """
    handlers = (signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))
    return any(
        getattr(getattr(handler, "__self__", None), "should_exit", False) is True
        for handler in handlers
    )


_STOP_CHECK_INTERVAL = 0.5  # seconds between checks whether the server is stopping


class OpenStreams:
    """The open event streams.

    While streams are open, a task checks whether the server is stopping. If so, it wakes all
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
        while not is_server_stopping():  # noqa: ASYNC110  uvicorn sends no notification
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
        """Resume a turn and pass the submitted answers to it, including secrets."""
        ...

    def waits_for(self, question: OpenQuestion) -> bool:
        """Return whether a turn in this process is waiting for this question and can receive a
        secret.
        """
        ...

    async def stop(self) -> None:
        """Stop resuming turns. A running step can finish; its turn stays open."""
        ...


class AppState(Struct, frozen=True, kw_only=True):
    """State that all pages of an application share.

    Args:
        resumer: Resumes turns. None if other processes resume them.
        signs_in: Whether midturn signs users in. False if the surrounding program does.
        secrets: Connections over which secrets are accepted: True for all, False for none, and None
            for private connections only.
        notifying: Sends notifications while the application runs.
        push: Sends web push notifications. None if they are not available.
        elsewhere: Where to enter a secret if this page does not accept it. `{id}` is replaced with
            the question ID.
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
    elsewhere: str = "Answer it in the program or terminal that runs the turn."
    root: Path | None = None
    vault: SecretCache = field(default_factory=SecretCache)
    repeats: IdempotencyCache = field(default_factory=IdempotencyCache)
    streams: OpenStreams = field(default_factory=OpenStreams)


Handler = Callable[[Request, Visitor], Awaitable[Response]]
