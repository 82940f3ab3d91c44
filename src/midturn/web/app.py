"""The ASGI application: routes, and who is let through to them."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
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
from midturn.inbox.open_questions import Board
from midturn.inbox.resuming import Resuming
from midturn.inbox.store_access import Port
from midturn.stores.authorization import MayAnswer
from midturn.stores.store import ConversationStore
from midturn.stores.watching import StoreChange, Watch, happened_and_recorded
from midturn.web import api, gate
from midturn.web.app_state import Site
from midturn.web.conversation_cache import Library
from midturn.web.installed import manifest, press, subscribe, worker
from midturn.web.openapi import openapi
from midturn.web.pages import conversation, conversations, export, question, several, stats, waiting
from midturn.web.sign_in import devices, enter, leave, stranger
from midturn.web.templating import STATIC, page, version

# ----------------------------------------------------------------------------------------------------------------------
# What happens, as it happens: server-sent events


_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_STILL_HERE = b": still here\n\n"
_QUIET = 15.0  # seconds after which something is sent, so that proxies and telephones keep the line
_LONGEST = 600.0  # seconds after which one comes back: the program around us may have signed its user out


async def events(request: Request, visitor: gate.Visitor, site: Site) -> Response:
    """Stream what changes from now on, or from where the browser was cut off: of all questions, or each event of one conversation."""
    conversation = request.query_params.get("conversation")
    found = await (_of_all(request, site) if conversation is None else _of_one(request, site, conversation))

    async def stream() -> AsyncGenerator[bytes]:
        yield b"retry: 1000\n\n"
        begun = said = time.monotonic()
        async with aclosing(found) as messages:
            async for message in messages:
                now = time.monotonic()
                if now - begun >= _LONGEST or not site.access.still(visitor) or server_ends():
                    return
                if message is not None or now - said >= _QUIET:
                    yield _STILL_HERE if message is None else message
                    said = now

    return StreamingResponse(stream(), media_type="text/event-stream", headers=_HEADERS)


async def _of_all(request: Request, site: Site) -> AsyncGenerator[bytes | None]:
    """Say what happens to questions; where too much has passed since the browser was cut off, begin with what is open."""
    if "after" in request.query_params:
        raise HTTPException(400, "`after` is a position in one conversation: name it with `conversation`, too.")
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


async def _of_one(request: Request, site: Site, conversation: str) -> AsyncGenerator[bytes | None]:
    """Say what any process records in one conversation, and what that means for its questions.

    The positions of events are the ids of messages: they are good for any run of any server, and as `after`.
    """
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    if given is not None and not re.fullmatch("[0-9]{1,9}", given):
        raise HTTPException(400, "`after` must be the number of events that were seen.")
    port = site.board.port
    watch = Watch(port, port, conversation, happened_and_recorded, after=_END if given is None else int(given))
    await port.stirred(0)  # it listens from now on
    try:
        missed = await watch.begin()
    except NoConversation:
        raise HTTPException(404, "There is no conversation with this id.") from None

    async def messages() -> AsyncGenerator[bytes | None]:
        for message in _wired(missed):
            yield message
        with suppress(StoreError):  # the browser comes back, and is told why then
            async with aclosing(site.board.stirrings()) as stirrings:
                async for has_stirred in stirrings:
                    found = await watch.look() if has_stirred else []
                    for message in _wired(found) or [None]:
                        yield message
                    if found and not found[0].position:  # it was removed, or is not what it was: who comes back is told
                        return

    return messages()


_END = 999_999_999  # a position behind every event


def _wired(changes: Sequence[StoreChange]) -> list[bytes]:
    """Write changes as server-sent events. A message has an id where nothing that belongs to its event comes after it.

    So what a browser did not get before it was cut off comes again.
    """
    messages: list[bytes] = []
    position = 0
    for change, later in zip_longest(changes, changes[1:]):
        told = change.to_json()
        position = change.position or position
        is_last = later is None or later.kind == "recorded"
        number = b"id: %d\n" % position if position and is_last else b""
        messages.append(b"%sevent: %s\ndata: %s\n\n" % (number, str(told.pop("kind")).encode(), msgspec.json.encode(told)))
    return messages


def server_ends() -> bool:
    """Say whether the server around us has been told to end: uvicorn waits for its open responses first, and tells an application later."""
    handlers = (signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))
    return any(getattr(getattr(handler, "__self__", None), "should_exit", False) is True for handler in handlers)


_PACKED_FROM = 4_096  # bytes of a response; less is sent as it is
_LOG = logging.getLogger(__name__)
_Page: TypeAlias = Callable[[Request, gate.Visitor, Site], Awaitable[Response]]
_FILES = {
    "style.css": "text/css; charset=utf-8",
    "script.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "icon-192.png": "image/png",
    "icon-512.png": "image/png",
}


def inbox(
    agent_or_store: Agent | ConversationStore, *, user: gate.WhoIsIt, may_answer: MayAnswer | None = None, resume: bool = True
) -> ASGIApp:
    """Return the inbox as an application, to be mounted in Starlette, FastAPI or Django.

    Args:
        agent_or_store: Whose open questions are shown. With an agent, a turn goes on here when its question was answered.
        user: Says who a visitor is, from the request (`starlette.requests.Request`); recorded with their answers. None is a stranger: they
            get status 401. It may be a coroutine function.
        may_answer: Has the last word on who answers what, as in `Agent`.
        resume: Whether turns of an agent go on here; False leaves them to callers of `agent.resume`, or to a worker.
    """
    store = agent_or_store.store if isinstance(agent_or_store, Agent) else agent_or_store
    guarded = store if may_answer is None else store.guarded(may_answer)
    port = Port(guarded)
    resumer = Resuming(port, agent_or_store.resume) if resume and isinstance(agent_or_store, Agent) else None
    return application(Site(board=Board(port), library=Library(port), access=gate.ProgramAccess(user), resumer=resumer), names=None)


def application(site: Site, names: gate.Names | None, peers: gate.Peers = "any") -> ASGIApp:
    """Return the application of a site; `names` are those under which it may be asked for, `peers` whose connections it takes."""

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
        *_sign_in(site),
        *_installed(site),
    ]
    handlers = {BodyRefused: _body_refused, HTTPException: _problem, StoreError: _unavailable}
    packed = [Middleware(GZipMiddleware, minimum_size=_PACKED_FROM, compresslevel=4)]
    app = Starlette(routes=routes, lifespan=lifespan, middleware=packed, exception_handlers=handlers)  # type: ignore[arg-type]  # of exactly these errors
    return gate.RequestGate(app, names, peers)


def _for_visitors(site: Site, show: _Page) -> Callable[[Request], Awaitable[Response]]:
    async def shown(request: Request) -> Response:
        visitor = await gate.admitted(request, site.access)
        if site.resumer:
            site.resumer.begin()  # here, too: an application that is mounted hears of no start
        return await stranger(request, site) if visitor is None else await show(request, visitor, site)

    return shown


def _sign_in(site: Site) -> list[Route]:
    access = site.access
    if not isinstance(access, gate.CookieAccess):
        return []

    async def entering(request: Request) -> Response:
        return await enter(request, access)

    return [
        Route("/enter", entering, methods=["GET", "POST"]),
        Route("/leave", _for_visitors(site, leave), methods=["POST"]),
        Route("/devices", _for_visitors(site, devices), methods=["GET"]),
    ]


def _installed(site: Site) -> list[Route]:
    if site.push is None:
        return []
    return [
        Route("/manifest.webmanifest", manifest, methods=["GET"]),
        Route("/worker.js", worker, methods=["GET"]),
        Route("/api/push", _for_visitors(site, subscribe), methods=["POST"]),
        Route("/api/push/press", _for_visitors(site, press), methods=["POST"]),
    ]


async def _static(request: Request) -> Response:
    """Return one of our files; its address changes with it, so it may be kept."""
    name = request.path_params["name"]
    if name not in _FILES or request.path_params["version"] != version():
        raise HTTPException(404)
    return FileResponse(str(STATIC / name), media_type=_FILES[name], headers={"Cache-Control": "public, max-age=31536000, immutable"})


_WORDS = {400: "not_readable", 404: "not_found", 405: "not_allowed", 415: "no_json", 503: "unavailable"}


async def _body_refused(request: Request, refused: BodyRefused) -> Response:
    return gate.body_refused(request.scope, refused)


async def _unavailable(request: Request, error: StoreError) -> Response:
    """Say that the store cannot be read now: that is not the same as an empty one."""
    _LOG.info("a page cannot be shown: %r", str(error))  # its visitor is told
    return await _problem(request, HTTPException(503, str(error)))


async def _problem(request: Request, error: HTTPException) -> Response:
    if gate.is_for_programs(request.scope):
        return api.problem(error.status_code, _WORDS.get(error.status_code, "refused"), error.detail)
    if "text/html" in request.headers.get("accept", ""):
        return page(request, "message.html", {"title": "Not here", "text": error.detail}, error.status_code)
    return PlainTextResponse(f"{error.detail}\n", error.status_code, headers=error.headers)
