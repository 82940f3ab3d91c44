"""The ASGI application: routes, access checks and body limits."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from email.utils import formatdate
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from a2a.auth.user import User
from a2a.server.context import ServerCallContext
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types.a2a_pb2 import AgentCard
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from midturn.agent.agent import Agent
from midturn.errors import ConfigError
from midturn.http_body import Bodies, BodyLimits, BodyRefused, admit, again, whole_body
from midturn.http_server import connection_of
from midturn.integrations.a2a.calls import PERSON
from midturn.integrations.a2a.card import CARD_CACHE, CARD_PATH, REST_PATH, RPC_PATHS, agent_card
from midturn.integrations.a2a.handler import TaskHandler
from midturn.integrations.a2a.push_sender import PushSender
from midturn.integrations.a2a.questions import OutOfBand
from midturn.integrations.a2a.tasks import TaskReader
from midturn.integrations.a2a.turns import AgentTurns, RunningTurns, TurnSource
from midturn.integrations.a2a.webhooks import PushSettings, Webhooks
from midturn.question.json_value import JsonObject
from midturn.question.text import canonical_name, check_text_or_none
from midturn.stores.authorization import MayAnswer
from midturn.stores.port import StorePort

_LOG = logging.getLogger(__name__)
MAX_BODY_BYTES: Final = 2 * 1024 * 1024
"""Maximum size of a request in bytes."""
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_PRINCIPAL: Final = "midturn.a2a.principal"
_PERSON: Final = "midturn.a2a.person"
WhoIsIt: TypeAlias = Callable[[Request], "str | Awaitable[str | None] | None"]
"""Returns the name of the principal who sent a request, or None if the sender is unknown."""
PersonOf: TypeAlias = Callable[[str], "str | None"]
"""Returns the person for whom a principal answers, or None if it answers on its own behalf."""


def app(
    agent: Agent,
    *,
    user: WhoIsIt,
    card: AgentCard | JsonObject,
    people: PersonOf | None = None,
    may_answer: MayAnswer | None = None,
    out_of_band: OutOfBand = "auth_required",
    deps: object = None,
    work: bool = True,
    push: PushSettings | None = None,
) -> ASGIApp:
    """Return an ASGI application that serves an agent over A2A, to mount in Starlette, FastAPI or
    Django.

    It serves the agent card at `/.well-known/agent-card.json`, JSON-RPC at `/rpc` and `/`, and the
    HTTP binding at `/v1`. It supports clients that use version 1.0 of the protocol, or version 0.3
    over JSON-RPC.

    Args:
        agent: The agent. Its store must support conversation keys.
        user: Returns the name of the principal who sent a request, or None if the sender is
            unknown. Unknown senders can read only the card, and get status 401 for all other
            requests. May be a coroutine function. A principal can access only its own tasks.
        card: The agent card, or a dictionary with the members of its JSON: `name`, `description`,
            `url` (the address of the application), and optionally `version`, `skills`, `provider`
            and so on.
        people: Returns the person for whom a principal answers, or None if it answers on its own
            behalf. Without it, every client is a program: it may answer only questions that are
            not reserved for people. Approvals, exclusive questions and questions that are assigned
            to certain people are answered in midturn's own interfaces.
        may_answer: Final check whether a user may answer a question, as in `Agent`.
        out_of_band: State of a task that waits only for people. Use `input_required` for clients
            that do not display the message of a task in the state `auth_required`.
        deps: Value of `ctx.deps` in the tools of every turn.
        work: Whether the application continues turns that clients began if a question is answered
            in another interface, or if the server was killed. If False, only requests and other
            workers continue these turns.
        push: Settings of push notifications; None if clients cannot register webhooks.

    Raises:
        ConfigError: The card is not valid.
    """
    if may_answer is not None:
        agent = agent.with_store(agent.store.with_authorizer(may_answer))
    return application(
        AgentTurns(agent, deps),
        user=user,
        card=agent_card(card, has_push=push is not None),
        people=people,
        out_of_band=out_of_band,
        work=work,
        push=push,
    )


def application(
    source: TurnSource,
    *,
    user: WhoIsIt,
    card: AgentCard,
    people: PersonOf | None = None,
    out_of_band: OutOfBand = "auth_required",
    work: bool = True,
    push: PushSettings | None = None,
) -> ASGIApp:
    """Return an application that runs turns with `source`. For the other arguments, see `app`."""
    if out_of_band not in ("auth_required", "input_required"):
        raise ConfigError(
            f"`out_of_band` must be 'auth_required' or 'input_required', not {out_of_band!r:.80}."
        )
    turns = RunningTurns(source)
    reader = TaskReader(source.store, out_of_band)
    webhooks = None if push is None else Webhooks(source.store.port, push)
    background = _Background(turns if work else None, source.store.port, reader, webhooks)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        background.start()
        yield
        await background.stop()
        await turns.stop()

    handler = TaskHandler(turns, reader, webhooks)
    served = Starlette(routes=[*_routes(handler, card)], lifespan=lifespan)
    return _Gate(served, user, people, background)


class _Background:
    """The background tasks of the application: they continue turns and send notifications."""

    def __init__(
        self,
        turns: RunningTurns | None,
        port: StorePort,
        reader: TaskReader,
        webhooks: Webhooks | None,
    ) -> None:
        self._turns = turns
        self._sender = None if webhooks is None else PushSender(port, reader, webhooks)
        self._sending: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Start the background tasks that are not running."""
        if self._turns is not None:
            self._turns.work()
        is_running = self._sending is not None and not self._sending.done()
        if self._sender is not None and not is_running and not self._is_stopped:
            self._sending = asyncio.create_task(self._sender.run())

    async def stop(self) -> None:
        """Stop sending. The next server sends the remaining notifications."""
        self._is_stopped = True
        if self._sending is not None:
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await self._sending


def _routes(handler: TaskHandler, card: AgentCard) -> Iterator[BaseRoute]:
    builder = _ContextBuilder()
    changed = formatdate(usegmt=True)
    for route in create_agent_card_routes(card, cache_control=CARD_CACHE):
        yield Route(route.path, _dated(route.endpoint, changed), methods=["GET"])
    for path in RPC_PATHS:
        yield from create_jsonrpc_routes(
            handler, path, context_builder=builder, enable_v0_3_compat=True
        )
    rest = create_rest_routes(handler, context_builder=builder, path_prefix=REST_PATH)
    yield from (route for route in rest if isinstance(route, Route))  # without tenants


def _dated(
    endpoint: Callable[[Request], Awaitable[Response]], changed: str
) -> Callable[[Request], Awaitable[Response]]:
    """Return the card's endpoint with a `Last-Modified` header: the time at which serving began."""

    async def dated(request: Request) -> Response:
        response = await endpoint(request)
        response.headers["Last-Modified"] = changed
        return response

    return dated


# Access
# --------------------------------------------------------------------------------------------------


class _Principal(User):
    """The sender of a request."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        """Always true, because requests from unknown senders were already refused."""
        return True

    @property
    def user_name(self) -> str:
        """Name of the principal."""
        return self._name


class _ContextBuilder(DefaultServerCallContextBuilder):
    """Adds the principal to the SDK's call context."""

    def build(self, request: Request) -> ServerCallContext:
        """Return the call context of a request."""
        context = super().build(request)
        context.state[PERSON] = request.scope[_PERSON]
        return context

    def build_user(self, request: Request) -> User:
        """Return the principal who sent a request."""
        return _Principal(str(request.scope[_PRINCIPAL]))


class _Gate:
    """Accepts requests from known principals and limits the size of bodies. The card is public."""

    def __init__(
        self,
        served: ASGIApp,
        user: WhoIsIt,
        people: PersonOf | None,
        background: _Background,
    ) -> None:
        self._app = served
        self._user = user
        self._people = people
        self._background = background
        self._bodies = Bodies(BodyLimits(bytes=MAX_BODY_BYTES))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._background.start()  # a mounted application receives no lifespan events
        async with self._bodies.limited(scope, receive) as limited:
            try:
                response = await self._admit(scope, Request(scope))
                if response is not None:
                    await response(scope, limited, send)
                    return
                body = await whole_body(limited)
            except BodyRefused as refused:
                response = _error(refused.status, refused.error, refused.message)
                response.headers["Connection"] = "close"
                await response(scope, limited, send)
                return
            await self._app(scope, again(body, limited), send)

    async def _admit(self, scope: Scope, request: Request) -> Response | None:
        """Add the principal to a request. Return a response if the request is refused."""
        origin = request.headers.get("origin")
        if origin is not None and not _is_own(origin, request.headers.get("host", "")):
            return _error(403, "another_site", "Pages of this site may not send requests.")
        if _is_card(scope):
            return None
        said = self._user(request)
        name = await said if inspect.isawaitable(said) else said
        check_text_or_none("user(request)", name)
        if name is None or not _is_name(name):
            response = _error(401, "unauthorized", "Sign in first.")
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        person = None if self._people is None else self._people(name)
        check_text_or_none("people(principal)", person)
        scope[_PRINCIPAL], scope[_PERSON] = name, person
        admit(scope)
        if connection := connection_of(scope):
            connection.release()
        return None


def _is_card(scope: Scope) -> bool:
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return scope["method"] in ("GET", "HEAD") and path.removeprefix(root) == (CARD_PATH)


def _is_own(origin: str, host: str) -> bool:
    """Return whether an origin is this server. Only browsers send the header `Origin`."""
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _is_name(name: str) -> bool:
    try:
        canonical_name(name)
    except ValueError as error:
        _LOG.warning("a principal was rejected: %s", error)
        return False
    return True


def _error(status: int, error: str, message: str) -> Response:
    return JSONResponse({"error": error, "message": message}, status, _HEADERS)
