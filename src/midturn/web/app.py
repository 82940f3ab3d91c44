"""The ASGI application: routes, access checks, server-sent events and error responses."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import zip_longest
from typing import TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from midturn.agent.agent import Agent
from midturn.errors import NoConversation, StoreError
from midturn.http_body import BodyRefused
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.resuming import Resuming
from midturn.inbox.store_access import Port
from midturn.stores.authorization import MayAnswer
from midturn.stores.store import ConversationStore
from midturn.stores.watching import StoreChange, Watch, happened_and_recorded
from midturn.web import api, request_checks
from midturn.web.app_state import AppState, is_server_stopping
from midturn.web.conversation_cache import ConversationCache
from midturn.web.installed import manifest, press, subscribe, worker
from midturn.web.openapi import openapi
from midturn.web.pages import conversation, conversations, export, question, several, stats, waiting
from midturn.web.sign_in import devices, enter, leave, stranger
from midturn.web.templating import STATIC, page, version

# --------------------------------------------------------------------------------------------------
# Server-sent events


_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_KEEPALIVE = b": still here\n\n"
# seconds between comments in an idle stream, because proxies and phones close idle streams
KEEPALIVE_INTERVAL = 15.0
# maximum duration of a stream in seconds; the sign-in is checked again when the browser reconnects
MAX_STREAM_SECONDS = 600.0


async def events(request: Request, visitor: request_checks.Visitor, site: AppState) -> Response:
    """Stream changes as server-sent events.

    The stream starts now, or after the last event that the browser received. Without
    `conversation`, it contains changes to questions. With `conversation`, it contains the recorded
    events of that conversation.
    """
    conversation = request.query_params.get("conversation")
    found = await (
        _all_questions(request, site)
        if conversation is None
        else _one_conversation(request, site, conversation)
    )

    async def stream() -> AsyncGenerator[bytes]:
        yield b"retry: 1000\n\n"
        begun = said = time.monotonic()
        async with site.streams.opened(site.board.feed), aclosing(found) as messages:
            async for message in messages:
                now = time.monotonic()
                if (
                    now - begun >= MAX_STREAM_SECONDS
                    or not site.access.still(visitor)
                    or is_server_stopping()
                ):
                    return
                if message is not None or now - said >= KEEPALIVE_INTERVAL:
                    yield _KEEPALIVE if message is None else message
                    said = now

    return StreamingResponse(stream(), media_type="text/event-stream", headers=_HEADERS)


async def _all_questions(request: Request, site: AppState) -> AsyncGenerator[bytes | None]:
    """Yield changes to questions.

    If the browser was disconnected for too long, so that changes are missing, start with all open
    questions.
    """
    if "after" in request.query_params:
        raise HTTPException(
            400, "`after` is a position in a conversation. Add the parameter `conversation`."
        )
    await site.board.fresh()
    feed = site.board.feed
    seen = request.headers.get("last-event-id")
    place = feed.last if seen is None else feed.place(seen)

    async def messages() -> AsyncGenerator[bytes | None]:
        if place is None:
            for question in (await site.board.waiting()).questions:
                yield feed.wire("asked", question.to_json())
        async for change in feed.follow(feed.last if place is None else place):
            yield None if change is None else change.wire

    return messages()


async def _one_conversation(
    request: Request, site: AppState, conversation: str
) -> AsyncGenerator[bytes | None]:
    """Yield the changes of one conversation: events recorded by any process, and its questions.

    The ID of a message is the position of its event. It is valid on every server, and as the
    parameter `after`.
    """
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    if given is not None and not re.fullmatch("[0-9]{1,9}", given):
        raise HTTPException(400, "`after` must be the number of events already received.")
    port = site.board.port
    watch = Watch(
        port,
        port,
        conversation,
        happened_and_recorded,
        after=_LAST_POSITION if given is None else int(given),
    )
    await port.wait_for_change(0)  # start watching before reading, so that no change is missed
    try:
        missed = await watch.begin()
    except NoConversation:
        raise HTTPException(404, "There is no conversation with this ID.") from None

    async def messages() -> AsyncGenerator[bytes | None]:
        for message in _encode_messages(missed):
            yield message
        with suppress(StoreError):  # the browser reconnects and receives the error then
            async with aclosing(site.board.wake_ups()) as wake_ups:
                async for has_changed in wake_ups:
                    found = await watch.look() if has_changed else []
                    for message in _encode_messages(found) or [None]:
                        yield message
                    # the conversation was removed or replaced; the browser reconnects
                    if found and not found[0].position:
                        return

    return messages()


_LAST_POSITION = 999_999_999  # a number larger than every position in a conversation


def _encode_messages(changes: Sequence[StoreChange]) -> list[bytes]:
    """Encode changes as server-sent events.

    Only the last message about a recorded event has an ID. If the connection is lost before that
    message, the browser receives all messages about the event again.
    """
    messages: list[bytes] = []
    position = 0
    for change, later in zip_longest(changes, changes[1:]):
        told = change.to_json()
        position = change.position or position
        is_last = later is None or later.kind == "recorded"
        number = b"id: %d\n" % position if position and is_last else b""
        messages.append(
            b"%sevent: %s\ndata: %s\n\n"
            % (number, str(told.pop("kind")).encode(), msgspec.json.encode(told))
        )
    return messages


MIN_COMPRESSED_BYTES = 4_096  # smaller responses are not compressed
_LOG = logging.getLogger(__name__)
_Page: TypeAlias = Callable[[Request, request_checks.Visitor, AppState], Awaitable[Response]]
_FILES = {
    "style.css": "text/css; charset=utf-8",
    "script.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "icon-192.png": "image/png",
    "icon-512.png": "image/png",
}


def inbox(
    agent_or_store: Agent | ConversationStore,
    *,
    user: request_checks.WhoIsIt,
    may_answer: MayAnswer | None = None,
    resume: bool = True,
) -> ASGIApp:
    """Return the web page as an ASGI application, to mount in Starlette, FastAPI or Django.

    Args:
        agent_or_store: The agent or store whose questions are shown.
        user: Returns the name of the person who sent a request, or None for a stranger, who gets
            status 401. May be a coroutine function.
        may_answer: Final check whether a person may answer a question, as in `Agent`.
        resume: Whether the page resumes the agent's turns. If False, turns are resumed by callers
            of `agent.resume` or by a worker.
    """
    store = agent_or_store.store if isinstance(agent_or_store, Agent) else agent_or_store
    guarded = store if may_answer is None else store.with_authorizer(may_answer)
    port = Port(guarded)
    resumer = (
        Resuming(port, agent_or_store.resume)
        if resume and isinstance(agent_or_store, Agent)
        else None
    )
    return application(
        AppState(
            board=OpenQuestionList(port),
            library=ConversationCache(port),
            access=request_checks.ProgramAccess(user),
            resumer=resumer,
        ),
        names=None,
    )


def application(
    site: AppState, names: request_checks.HostNames | None, peers: request_checks.Peers = "any"
) -> ASGIApp:
    """Return the application.

    `names` are the host names that the application accepts, and `peers` the connections that it
    accepts. See `request_checks.RequestGate`.
    """

    def resume_answered(change: StoreChange) -> None:
        if site.resumer and change.kind == "answered":
            site.resumer.nudge()

    site.board.listeners.append(resume_answered)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        if site.resumer:
            site.resumer.begin()
        beside = None if site.notifying is None else asyncio.create_task(site.notifying(site.board))
        yield
        if beside:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)
        await site.board.stop()
        if site.resumer:
            await site.resumer.stop()

    routes = [
        Route("/", _for_visitors(site, waiting), methods=["GET"]),
        Route("/api/questions", _for_visitors(site, api.questions), methods=["GET"]),
        Route("/api/questions/{id}", _for_visitors(site, api.question), methods=["GET"]),
        Route("/api/questions/{id}/answer", _for_visitors(site, api.answer), methods=["POST"]),
        Route("/api/events", _for_visitors(site, events), methods=["GET"]),
        Route("/api/openapi.json", _for_visitors(site, openapi), methods=["GET"]),
        Route("/api/conversations", _for_visitors(site, api.conversations), methods=["GET"]),
        Route("/api/conversations/{id}", _for_visitors(site, api.conversation), methods=["GET"]),
        Route("/c", _for_visitors(site, conversations), methods=["GET"]),
        Route("/c/{id}", _for_visitors(site, conversation), methods=["GET"]),
        Route("/c/{id}/export/{form}", _for_visitors(site, export), methods=["GET"]),
        Route("/stats", _for_visitors(site, stats), methods=["GET"]),
        Route("/q/{id}", _for_visitors(site, question), methods=["GET", "POST"]),
        Route("/q/{id}/alike", _for_visitors(site, several), methods=["GET", "POST"]),
        Route("/static/{version}/{name}", _static, methods=["GET"]),
        *_sign_in_routes(site),
        *_push_routes(site),
    ]
    handlers = {BodyRefused: _body_refused, HTTPException: _problem, StoreError: _unavailable}
    packed = [Middleware(GZipMiddleware, minimum_size=MIN_COMPRESSED_BYTES, compresslevel=4)]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=packed,
        exception_handlers=handlers,  # type: ignore[arg-type]  # each handler gets only its own error type
    )
    return request_checks.RequestGate(app, names, peers)


def _for_visitors(site: AppState, show: _Page) -> Callable[[Request], Awaitable[Response]]:
    async def shown(request: Request) -> Response:
        visitor = await request_checks.admitted(request, site.access)
        if site.resumer:
            site.resumer.begin()  # also here: a mounted application gets no lifespan events
        return (
            await stranger(request, site) if visitor is None else await show(request, visitor, site)
        )

    return shown


def _sign_in_routes(site: AppState) -> list[Route]:
    access = site.access
    if not isinstance(access, request_checks.CookieAccess):
        return []

    async def entering(request: Request) -> Response:
        return await enter(request, access)

    return [
        Route("/enter", entering, methods=["GET", "POST"]),
        Route("/leave", _for_visitors(site, leave), methods=["POST"]),
        Route("/devices", _for_visitors(site, devices), methods=["GET"]),
    ]


def _push_routes(site: AppState) -> list[Route]:
    if site.push is None:
        return []
    return [
        Route("/manifest.webmanifest", manifest, methods=["GET"]),
        Route("/worker.js", worker, methods=["GET"]),
        Route("/api/push", _for_visitors(site, subscribe), methods=["POST"]),
        Route("/api/push/press", _for_visitors(site, press), methods=["POST"]),
    ]


async def _static(request: Request) -> Response:
    """Return a static file. Browsers may cache it forever, because its URL contains a hash of all
    static files.
    """
    name = request.path_params["name"]
    if name not in _FILES or request.path_params["version"] != version():
        raise HTTPException(404)
    return FileResponse(
        str(STATIC / name),
        media_type=_FILES[name],
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )


_ERROR_CODES = {
    400: "not_readable",
    404: "not_found",
    405: "not_allowed",
    415: "no_json",
    503: "unavailable",
}


async def _body_refused(request: Request, refused: BodyRefused) -> Response:
    return request_checks.body_refused(request.scope, refused)


async def _unavailable(request: Request, error: StoreError) -> Response:
    """Return status 503 if the store cannot be read, because the page must not look like an empty
    inbox.
    """
    _LOG.info("the store cannot be read: %r", str(error))  # the response also contains the message
    return await _problem(request, HTTPException(503, str(error)))


async def _problem(request: Request, error: HTTPException) -> Response:
    if request_checks.is_for_programs(request.scope):
        return api.problem(
            error.status_code, _ERROR_CODES.get(error.status_code, "refused"), error.detail
        )
    if "text/html" in request.headers.get("accept", ""):
        return page(
            request, "message.html", {"title": "Not found", "text": error.detail}, error.status_code
        )
    return PlainTextResponse(f"{error.detail}\n", error.status_code, headers=error.headers)
