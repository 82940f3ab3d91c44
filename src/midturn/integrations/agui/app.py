"""The ASGI application: routes, access checks, body limits and server-sent events."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from midturn.agent.agent import Agent
from midturn.errors import StoreError
from midturn.http_body import Bodies, BodyLimits, BodyRefused, admit
from midturn.http_server import connection_of
from midturn.integrations.agui import protocol
from midturn.integrations.agui.run_input import (
    MAX_ID_LENGTH,
    MAX_MESSAGES_AT_ONCE,
    InputRejected,
    RunInput,
    parse_run_input,
)
from midturn.integrations.agui.thread_changes import thread_changes
from midturn.integrations.agui.thread_run import RunSettings, ThreadRun, thread_key
from midturn.integrations.agui.turns import AgentTurns, RunningTurns, TurnSource
from midturn.question.json_value import JsonObject
from midturn.question.text import canonical_name, check_text_or_none
from midturn.stores.authorization import MayAnswer
from midturn.stores.store import ConversationStore

_LOG = logging.getLogger(__name__)
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a run request in bytes. Front ends send all messages with each run."""
# seconds between comments in an idle stream, because proxies close idle streams
KEEPALIVE_INTERVAL: Final = 15.0
# maximum duration in seconds of an event stream for a thread; when the front end reconnects, the
# user is authenticated again
MAX_STREAM_SECONDS: Final = 600.0
# seconds between checks for the first message of a thread
NEW_THREAD_POLL_INTERVAL: Final = 1.0
_KEEPALIVE: Final = b": still here\n\n"
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_SECURITY_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
WhoIsIt: TypeAlias = Callable[[Request], "str | Awaitable[str | None] | None"]
"""Returns the name of the user who sent a request, or None for a stranger."""


def app(
    agent: Agent,
    *,
    user: WhoIsIt,
    may_answer: MayAnswer | None = None,
    secrets: bool = False,
    context: bool = False,
    deps: object = None,
    work: bool = True,
    origins: Sequence[str] = (),
) -> ASGIApp:
    """Return an ASGI application that serves an agent over AG-UI, to mount in Starlette, FastAPI or
    Django.

    It has three routes: `POST /` runs the agent, `GET /capabilities` describes it, and
    `GET /threads/<thread>/events` streams the changes of a thread's questions as server-sent
    events.

    Args:
        agent: The agent. Its store must support conversation keys.
        user: Returns the name of the user who sent a request, or None for a stranger. A stranger
            gets status 401. May be a coroutine function. A user reaches only their own threads.
        may_answer: Final check whether a user may answer a question, as in `Agent`.
        secrets: Whether front ends may send secrets. If True, serve the application over TLS or
            only on this machine.
        context: Whether the context that front ends send is added to the user's messages.
        deps: Value of `ctx.deps` in the tools of every turn.
        work: Whether the application continues turns that front ends started, after an answer in
            another interface or after the server was killed. If False, only requests and other
            workers continue turns.
        origins: Origins of other sites whose pages may send requests, such as
            `https://chat.example.org`.
    """
    if may_answer is not None:
        agent = agent.with_store(agent.store.with_authorizer(may_answer))
    return application(
        AgentTurns(agent, deps),
        user=user,
        settings=RunSettings(secrets=secrets, context=context),
        work=work,
        origins=origins,
    )


def application(
    source: TurnSource,
    *,
    user: WhoIsIt,
    settings: RunSettings,
    work: bool = True,
    origins: Sequence[str] = (),
) -> ASGIApp:
    """Return the application for the turns of `source`. See `app` for the other arguments."""
    server = _Server(source, user, settings, work=work, origins=origins)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        server.begin()
        yield
        await server.turns.stop()

    routes = [
        Route("/", server.run, methods=["POST"]),
        Route("/capabilities", server.capabilities, methods=["GET"]),
        Route("/threads/{thread:path}/events", server.thread_events, methods=["GET"]),
    ]
    allowed = [
        Middleware(
            CORSMiddleware,
            allow_origins=[*origins],
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            allow_credentials=True,
        )
    ]
    served = Starlette(routes=routes, lifespan=lifespan, middleware=allowed if origins else [])
    return _BodyGate(served)


class _BodyGate:
    """Limits the bodies of requests."""

    def __init__(self, served: ASGIApp) -> None:
        self._app = served
        self._bodies = Bodies(BodyLimits(bytes=MAX_BODY_BYTES))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        async with self._bodies.limited(scope, receive) as limited:
            await self._app(scope, limited, send)


class _Server:
    """Handles the requests of all routes."""

    def __init__(
        self,
        source: TurnSource,
        user: WhoIsIt,
        settings: RunSettings,
        *,
        work: bool,
        origins: Sequence[str],
    ) -> None:
        self.turns = RunningTurns(source)
        self._store: ConversationStore = source.store
        self._user = user
        self._settings = settings
        self._works = work
        self._origins = frozenset(origin.lower() for origin in origins)

    def begin(self) -> None:
        """Start to continue ready turns. Each request also calls this method, because a mounted
        application does not receive lifespan events.
        """
        if self._works:
            self.turns.work()

    async def run(self, request: Request) -> Response:
        """Run the agent and stream the events of the run."""
        user = await self._admitted(request)
        if isinstance(user, Response):
            return user
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            return _error(
                415, "no_json", "The body must be JSON: `Content-Type: application/json`."
            )
        try:
            given = parse_run_input(await request.body())
            _check_size(given, user)
        except InputRejected as rejected:
            return _error(rejected.status, "not_a_run", str(rejected))
        except BodyRefused as refused:
            response = _error(refused.status, refused.error, refused.message)
            response.headers["Connection"] = "close"
            return response
        run = ThreadRun(self.turns, self._store, given, user, self._settings)
        return _stream(_with_keepalive(_encoded_events(run)))

    async def capabilities(self, request: Request) -> Response:
        """Return the agent's capabilities in the format that AG-UI defines."""
        user = await self._admitted(request)
        if isinstance(user, Response):
            return user
        return JSONResponse(CAPABILITIES, headers=_SECURITY_HEADERS)

    async def thread_events(self, request: Request) -> Response:
        """Stream the changes of a thread's questions, starting with the open questions. A client
        can also follow a thread without messages, because browsers do not retry after an error.
        """
        user = await self._admitted(request)
        if isinstance(user, Response):
            return user
        thread = str(request.path_params["thread"])
        key = thread_key(user, thread)
        if not _is_id(thread) or len(key) > _MAX_KEY_LENGTH:
            return _error(404, "not_found", "This is not the ID of a thread.")
        try:
            await self._store.find(key)
        except StoreError as error:
            _LOG.warning("the store cannot be read: %r", str(error))
            return _error(503, "unavailable", "The store cannot be read.")
        changes = _encoded_changes(self._store, key)
        return _stream(
            _with_keepalive(changes, seconds=MAX_STREAM_SECONDS, first=b"retry: 1000\n\n")
        )

    async def _admitted(self, request: Request) -> str | Response:
        """Return the user, or an error response if the request is refused."""
        self.begin()
        origin = request.headers.get("origin")
        if origin is not None and not self._is_allowed(origin, request.headers.get("host", "")):
            return _error(403, "another_site", "Pages of this site may not send requests.")
        said = self._user(request)
        name = await said if inspect.isawaitable(said) else said
        check_text_or_none("user(request)", name)
        if name is None or not _is_name(name):
            response = _error(401, "unauthorized", "Sign in first.")
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        admit(request.scope)
        if connection := connection_of(request.scope):
            connection.release()
        return name

    def _is_allowed(self, origin: str, host: str) -> bool:
        """Return whether pages of this origin may send requests. Requests from programs have no
        origin and are not checked.
        """
        try:
            own = urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:
            own = False
        return own or "*" in self._origins or origin.lower() in self._origins


# Parts of responses
# --------------------------------------------------------------------------------------------------


CAPABILITIES: Final[JsonObject] = {
    "identity": {"type": "midturn"},
    "transport": {"streaming": True, "websocket": False, "resumable": False},
    "tools": {"supported": True, "clientProvided": False},
    "humanInTheLoop": {
        "supported": True,
        "approvals": True,
        "interventions": True,
        "interrupts": True,
        "approveWithEdits": True,
    },
}
"""Capabilities of every agent. Tools and instructions are not public."""


def _error(status: int, error: str, message: str) -> Response:
    return JSONResponse({"error": error, "message": message}, status, _SECURITY_HEADERS)


def _is_name(name: str) -> bool:
    try:
        canonical_name(name)
    except ValueError as error:
        _LOG.warning("a user was rejected: %s", error)
        return False
    return True


def _is_id(thread: str) -> bool:
    return 0 < len(thread) <= MAX_ID_LENGTH and thread.isprintable()


_MAX_KEY_LENGTH: Final = 1000


def _check_size(given: RunInput, user: str) -> None:
    """Check the parts of a request that are recorded.

    Raises:
        InputRejected: A part is too large.
    """
    if len(thread_key(user, given.thread)) > _MAX_KEY_LENGTH:
        raise InputRejected("is too long for this user.", pointer="/threadId")
    if len(given.new_messages(frozenset())) > MAX_MESSAGES_AT_ONCE:
        given_at_once = len(given.new_messages(frozenset()))
        raise InputRejected(
            f"has {given_at_once} messages of the user at its end; at most {MAX_MESSAGES_AT_ONCE}"
            " can begin a turn.",
            pointer="/messages",
        )


def _stream(content: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(content, media_type="text/event-stream", headers=_HEADERS)


async def _encoded_events(run: ThreadRun) -> AsyncGenerator[bytes]:
    async with aclosing(run.events()) as events:
        async for event in events:
            yield protocol.encode(event)


async def _encoded_changes(store: ConversationStore, key: str) -> AsyncGenerator[bytes]:
    """Yield the changes of a thread's questions as server-sent events, from its first message on.

    Args:
        store: The store.
        key: Key of the thread's conversation.
    """
    try:
        while (conversation := await store.find(key)) is None:  # noqa: ASYNC110
            await asyncio.sleep(NEW_THREAD_POLL_INTERVAL)
    except StoreError:  # the front end reconnects and then gets the error
        return
    async with aclosing(thread_changes(store, conversation)) as changes:
        async for change in changes:
            told = change.to_json()
            kind = str(told.pop("kind")).encode()
            yield b"event: %s\ndata: %s\n\n" % (kind, msgspec.json.encode(told))


async def _with_keepalive(
    content: AsyncGenerator[bytes], *, seconds: float | None = None, first: bytes = b""
) -> AsyncGenerator[bytes]:
    """Yield a stream with comments, so that proxies do not close it while it is idle.

    Args:
        content: The stream. It is read in a task, so that waiting for it can be interrupted.
        seconds: Maximum duration; None for no limit.
        first: Bytes to send before the stream.
    """
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=64)

    async def read() -> None:
        async with aclosing(content):
            async for chunk in content:
                await queue.put(chunk)
        await queue.put(None)

    loop = asyncio.get_running_loop()
    until = None if seconds is None else loop.time() + seconds
    reading = asyncio.create_task(read())
    try:
        if first:
            yield first
        while until is None or loop.time() < until:
            try:
                async with asyncio.timeout(KEEPALIVE_INTERVAL):
                    chunk = await queue.get()
            except TimeoutError:
                yield _KEEPALIVE
                continue
            if chunk is None:
                return
            yield chunk
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
