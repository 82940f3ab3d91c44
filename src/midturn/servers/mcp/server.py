"""The server: the official SDK speaks the protocol, of both eras."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from midturn import __version__
from midturn.errors import MidturnError
from midturn.foreign import words
from midturn.http.listening import Listening, bound
from midturn.http.server import connection_of, serve
from midturn.ports import Clock
from midturn.sandbox.peers import user_doubt
from midturn.servers.mcp import results
from midturn.servers.mcp.asking import AskingSettings, AskUserCalls, CallAnswer
from midturn.servers.mcp.older_version import keeps_dialogs, opened
from midturn.servers.mcp.permitting import Permitting
from midturn.servers.mcp.task import TASKS
from midturn.servers.mcp.task_calls import TaskCalls, TaskParams, UpdateParams
from midturn.servers.mcp.tools import ASK, CHECK, PERMIT, tools
from midturn.store.store import ConversationStore

Params = TypeVar("Params", bound=TaskParams)
_TaskCall: TypeAlias = Callable[[ServerRequestContext[Any], Params], Awaitable[dict[str, Any]]]
_LOG = logging.getLogger(__name__)
_INSTRUCTIONS = "Ask the user with `ask_user`. If nobody has answered yet, that is not a no: `check_answer` brings the answer later."


def make_server(store: ConversationStore, environment: Mapping[str, str], clock: Clock, settings: AskingSettings) -> Server[Any]:
    """Return the server, over whatever transport it is served."""
    asking = AskUserCalls(store, environment, clock, settings)
    calls: dict[str, Callable[[ServerRequestContext[Any], types.CallToolRequestParams], Awaitable[CallAnswer]]] = {
        **dict.fromkeys(ASK, asking.ask),
        CHECK: asking.check,
        PERMIT: Permitting(asking).call,
    }

    async def list_tools(context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        del context, params
        return types.ListToolsResult(tools=tools())

    async def call_tool(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> CallAnswer:
        call = calls.get(params.name)
        if call is None:
            return results.wrong(f"There is no tool `{params.name}`; there are {', '.join(calls)}.")
        try:
            return await call(context, params)
        except MCPError:
            raise
        except MidturnError as error:
            return results.wrong(f"{words.FAILED} ({error})")
        except Exception:  # noqa: BLE001  whatever it is, the model must not take it for an answer
            _LOG.exception("a call of %s failed", params.name)
            return results.wrong(words.FAILED)

    server: Server[Any] = Server("midturn", version=__version__, instructions=_INSTRUCTIONS, on_list_tools=list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    if settings.tasks:
        _offer_tasks(server, TaskCalls(asking, clock))
    return server


def _offer_tasks(server: Server[Any], tasks: TaskCalls) -> None:
    """Let clients leave a call to run on that can."""
    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", TaskParams, _in_words(tasks.get))
    server.add_request_handler("tasks/update", UpdateParams, _in_words(tasks.update))
    server.add_request_handler("tasks/cancel", TaskParams, _in_words(tasks.cancel))


def _in_words(handle: _TaskCall[Params]) -> _TaskCall[Params]:
    """Let a client read what went wrong, where that is ours to say."""

    async def call(context: ServerRequestContext[Any], params: Params) -> dict[str, Any]:
        try:
            return await handle(context, params)
        except MidturnError as error:
            raise MCPError(INTERNAL_ERROR, f"{words.UNKNOWN} ({error})") from error

    return call


async def serve_http(server: Server[Any], listening: Listening, ready: Callable[[str, str], None]) -> int:
    """Serve any number of clients over streamable HTTP until a signal comes; each shows a token that only this user has been told."""
    token = secrets.token_urlsafe(24)
    app = _Guarded(server.streamable_http_app(host=listening.host), token, any_user=listening.behind_proxy)
    listeners = bound(listening)
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    url = f"{listening.scheme}://{host}:{listeners[0].getsockname()[1]}/mcp"
    return await serve(app, listening, listeners, lambda: ready(url, token), lambda: None)


class _Guarded:
    """Lets nobody in without the token, and on this machine no other user with it. Clients are agents: whose process it is says nothing."""

    def __init__(self, app: ASGIApp, token: str, *, any_user: bool) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()
        self._any_user = any_user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        connection = connection_of(scope) if scope["type"] == "http" else None
        doubt = user_doubt(connection.peer) if connection and connection.peer and not self._any_user else None
        if doubt and not doubt.forwarded:
            await PlainTextResponse(f"This server does not answer that program: {doubt.why}.\n", 403)(scope, receive, send)
        elif scope["type"] == "http" and not secrets.compare_digest(dict(scope["headers"]).get(b"authorization", b""), self._expected):
            await PlainTextResponse("", 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
        else:
            if connection:
                connection.release()
            await self._app(scope, receive, send)


async def serve_stdio(server: Server[Any], environment: Mapping[str, str]) -> None:
    """Serve one client on stdin and stdout, until it leaves, or is killed: what it asked stays open."""

    def keeps(params: object) -> bool:
        return keeps_dialogs(params, environment, tasks=TASKS in server.extensions)

    try:
        async with stdio_server() as (reading, writing), opened(reading, writing.send, keeps) as received:
            await server.run(received, writing, server.create_initialization_options())
    except* BrokenPipeError:
        _LOG.info("the client has gone without a word")
