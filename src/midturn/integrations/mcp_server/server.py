"""The server: the official SDK speaks the protocol, of both eras."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR
from msgspec import Struct
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midturn import __version__
from midturn.errors import MidturnError
from midturn.http import Listening, bound
from midturn.http_body import Bodies, BodyLimits, BodyRefused, admit, again, whole_body
from midturn.http_server import connection_of, serve
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.claude import ASKS, answers_by_text, questions_of
from midturn.integrations.hooks.clients import client_of, is_alone
from midturn.integrations.hooks.external_call import Errand
from midturn.integrations.hooks.external_calls import Errands
from midturn.integrations.hooks.hook_agent import PutForm
from midturn.integrations.hooks.model_messages import Approved, Decided, FormCompleted, Refused, RepliedTo, TurnStopped
from midturn.integrations.mcp_server import client
from midturn.integrations.mcp_server.asking import CallAnswer, ServedCalls, ServerWait
from midturn.integrations.mcp_server.client import TASKS
from midturn.integrations.mcp_server.task_calls import TaskCalls, TaskParams, UpdateParams
from midturn.ports import Clock
from midturn.question.json_value import Json, JsonObject, members, text
from midturn.question.text import ASK_USER
from midturn.security.peer_credentials import user_doubt
from midturn.stores.store import ConversationStore
from midturn.tools.ask_user_call import DESCRIPTION, PARAMETERS

# ----------------------------------------------------------------------------------------------------------------------
# The tools that a client sees. Their descriptions stand alone: not every client passes a server's instructions on


ASK: Final = (ASK_USER, "ask_person")
"""One tool under two names: a client hides every tool that is called `ask_user`, and a model takes either."""
CHECK: Final = "check_answer"
PERMIT: Final = "permission_prompt"

_WAITING = """

The user may be away: they are asked where they are, and may answer at a terminal, on a page or in an inbox. If nobody has answered after \
a while, the result says so, with an `id` and a `ticket`. That is not a no. Call `check_answer` with both then, or end your turn if it \
says so."""
_CHECK = """\
Find out whether the user has answered by now. Use it only with an `id` and a `ticket` that an earlier result gave you; every result gives \
a new ticket. If nobody has answered, it says so: that is not a no."""
_PERMIT = """\
Ask the user whether a call of a tool may run. Agents call it by themselves; a model has no use for it."""
_HINTS = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_ALWAYS: dict[str, Any] = {"anthropic/alwaysLoad": True}


def tools() -> list[types.Tool]:
    """Return all tools."""
    asking = [_tool(name, DESCRIPTION + _WAITING, dict(PARAMETERS)) for name in ASK]
    check = {
        "id": {"type": "string", "description": "The id of the question."},
        "ticket": {"type": "integer", "description": "The newest."},
    }
    permit = {"tool_name": {"type": "string"}, "input": {"type": "object"}, "tool_use_id": {"type": "string"}}
    return [
        *asking,
        _tool(CHECK, _CHECK, {"type": "object", "properties": check, "required": ["id", "ticket"]}),
        _tool(PERMIT, _PERMIT, {"type": "object", "properties": permit, "required": ["tool_name", "input"]}, always=False),
    ]


def _tool(name: str, description: str, schema: dict[str, Any], *, always: bool = True) -> types.Tool:
    meta: dict[str, Any] = {"_meta": _ALWAYS} if always else {}
    return types.Tool(name=name, description=description, input_schema=schema, annotations=_HINTS, **meta)


# ----------------------------------------------------------------------------------------------------------------------
# Clients with which the older version of the protocol is spoken, because a dialog of theirs can be closed from here only in that one


_DISCOVER: Final = "server/discover"
_META: Final = "io.modelcontextprotocol/"
_UNKNOWN = types.ErrorData(code=types.METHOD_NOT_FOUND, message="Method not found")


def keeps_dialogs(params: object, environment: Mapping[str, str], *, tasks: bool) -> bool:
    """Say whether a client that asks for the newer version would keep its dialogs open in that one.

    A client that may leave calls to run on (`tasks`) is spoken with in the newer version all the same, which alone has that.
    """
    meta = members(members(params).get("_meta"))
    client = client_of(text(members(meta.get(f"{_META}clientInfo")).get("name")))
    extensions = members(members(meta.get(f"{_META}clientCapabilities")).get("extensions"))
    runs_on = tasks and TASKS in extensions
    return client.closes_only_pushed and not runs_on and not is_alone(client, environment, meta)


@asynccontextmanager
async def opened(
    reading: AsyncIterator[SessionMessage | Exception],
    refuse: Callable[[SessionMessage], Awaitable[None]],
    keeps: Callable[[object], bool],
) -> AsyncGenerator[MemoryObjectReceiveStream[SessionMessage | Exception]]:
    """Hand on what a client says, but for its question for the newer version where `keeps` says so of what comes with it."""
    handing, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_hand_on, reading, handing, refuse, keeps)
        yield received
        group.cancel_scope.cancel()


async def _hand_on(
    reading: AsyncIterator[SessionMessage | Exception],
    handing: MemoryObjectSendStream[SessionMessage | Exception],
    refuse: Callable[[SessionMessage], Awaitable[None]],
    keeps: Callable[[object], bool],
) -> None:
    async with handing:
        async for said in reading:
            asked = None if isinstance(said, Exception) else said.message
            if isinstance(asked, types.JSONRPCRequest) and asked.method == _DISCOVER and keeps(asked.params):
                await refuse(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=asked.id, error=_UNKNOWN)))
            else:
                await handing.send(said)


# ----------------------------------------------------------------------------------------------------------------------
# `permission_prompt`: an agent delegates its permissions to a tool


_LOG = logging.getLogger(__name__)
_WAIT = 86_000.0  # seconds; an agent's own limit may be sooner, and is no answer


class Permitting:
    """Asks whether calls may run."""

    def __init__(self, asking: ServedCalls, wait: float = _WAIT) -> None:
        self._asking = asking
        self._wait = wait

    async def call(self, context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        """Ask about one call; a question of the agent's own is answered, too. Whatever goes wrong, the agent gets a decision."""
        said = model_messages.FAILED
        try:
            errands, asked = await self._asked(context, members(params.arguments))
            said = model_messages.UNKNOWN
            async with self._asking.signs_of_life(context, errands, asked.errand):
                outcome = await self._asking.unless_given_up(asked.errand, errands.wait(asked.errand, self._wait))
        except MidturnError as error:
            return _result({"behavior": "deny", "message": f"{said} ({error})"})
        except Exception:  # noqa: BLE001  whatever it is, the call must not run
            _LOG.exception("a permission could not be asked for")
            return _result({"behavior": "deny", "message": said})
        if outcome is not None:
            await _close(errands, asked.errand, outcome)
        return _result(asked.decision(outcome))

    async def _asked(self, context: ServerRequestContext[Any], arguments: JsonObject) -> tuple[Errands, _Permission]:
        """Ask, unless this client has asked about the very call before; a call that it has given up is not asked about any more."""
        errands, asked = await self._begun(context, arguments)
        await self._asking.withdraw(errands, asked.errand)
        return errands, asked

    async def _begun(self, context: ServerRequestContext[Any], arguments: JsonObject) -> tuple[Errands, _Permission]:
        tool, given = text(arguments.get("tool_name")), members(arguments.get("input"))
        id = self._asking.own_id(text(arguments.get("tool_use_id")))  # noqa: A001  what it is called there
        errands = self._asking.errands(self._asking.caller(context))
        occasion = questions_of(given, gates=True) if tool == ASKS else None
        if isinstance(occasion, PutForm):
            errand = await errands.questions(id, tool, occasion.arguments, occasion.form)
            return errands, _Permission(errand, given, occasion)
        return errands, _Permission(await errands.permission(id, tool or "tool", given), given)


class _Permission(Struct, frozen=True):
    """A question about a call with these arguments: a permission, or the agent's own question that the call is."""

    errand: Errand
    given: JsonObject
    form: PutForm | None = None

    def decision(self, outcome: Decided | None) -> dict[str, Json]:
        """Return what the agent is to do."""
        if isinstance(outcome, FormCompleted) and self.form is not None:
            answers: Json = answers_by_text(self.form.form, outcome)
            return {"behavior": "allow", "updatedInput": {**self.given, "answers": answers}}
        return _decision(outcome, self.given)


async def _close(errands: Errands, errand: Errand, outcome: Decided) -> None:
    """Record that the agent has its decision. It has it also where that cannot be written down."""
    try:
        await errands.close(errand, model_messages.decided(outcome))
    except Exception:  # noqa: BLE001  it is on record what a person decided, and that is what the agent is told
        _LOG.exception("it could not be recorded that an agent has its decision")


def _result(decision: Mapping[str, Json]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=json.dumps(decision, ensure_ascii=False))])


def _decision(outcome: Decided | None, given: Json) -> dict[str, Json]:
    match outcome:
        case Approved(arguments=changed):
            return {"behavior": "allow", "updatedInput": given if changed is None else changed}
        case Refused():
            return {"behavior": "deny", "message": model_messages.refused(outcome)}
        case RepliedTo():
            return {"behavior": "deny", "message": model_messages.replied(outcome)}
        case TurnStopped():
            return {"behavior": "deny", "message": model_messages.ENDED}
        case _:
            return {"behavior": "deny", "message": model_messages.NOBODY}


Params = TypeVar("Params", bound=TaskParams)
_TaskCall: TypeAlias = Callable[[ServerRequestContext[Any], Params], Awaitable[dict[str, Any]]]
_INSTRUCTIONS = "Ask the user with `ask_user`. If nobody has answered yet, that is not a no: `check_answer` brings the answer later."


def make_server(store: ConversationStore, environment: Mapping[str, str], clock: Clock, settings: ServerWait) -> Server[Any]:
    """Return the server, over whatever transport it is served."""
    asking = ServedCalls(store, environment, clock, settings)
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
            return client.wrong(f"There is no tool `{params.name}`; there are {', '.join(calls)}.")
        try:
            return await call(context, params)
        except MCPError:
            raise
        except MidturnError as error:
            return client.wrong(f"{model_messages.FAILED} ({error})")
        except Exception:  # noqa: BLE001  whatever it is, the model must not take it for an answer
            _LOG.exception("a call of %s failed", params.name)
            return client.wrong(model_messages.FAILED)

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
            raise MCPError(INTERNAL_ERROR, f"{model_messages.UNKNOWN} ({error})") from error

    return call


_MOST_BYTES = 16 * 1024 * 1024  # of a message: a call may hold pictures


async def serve_http(server: Server[Any], listening: Listening, ready: Callable[[str, str], None]) -> int:
    """Serve any number of clients over streamable HTTP until a signal comes; each shows a token that only this user has been told."""
    token = secrets.token_urlsafe(24)
    app = _Guarded(server.streamable_http_app(host=listening.host), token, any_user=listening.behind_proxy)
    listeners = bound(listening)
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    url = f"{listening.scheme}://{host}:{listeners[0].getsockname()[1]}/mcp"
    return await serve(app, listening, listeners, lambda: ready(url, token), lambda: None)


class _Guarded:
    """Lets no one in without the token, and on this machine no other user with it. Clients are agents: whose process it is says nothing."""

    def __init__(self, app: ASGIApp, token: str, *, any_user: bool) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()
        self._any_user = any_user
        self._bodies = Bodies(BodyLimits(bytes=_MOST_BYTES))

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
            if scope["type"] == "http":
                await self._answer(scope, receive, send)
            else:
                await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body, within its limits, before the library sees the request: it logs every error as its own."""
        messages: list[Message] = []
        async with self._bodies.limited(scope, receive) as limited:
            admit(scope)
            try:
                messages = await whole_body(limited)
            except BodyRefused as refused:
                await PlainTextResponse(f"{refused.message}\n", refused.status, {"Connection": "close"})(scope, receive, send)
        if messages:
            await self._app(scope, again(messages, receive), send)


async def serve_stdio(server: Server[Any], environment: Mapping[str, str]) -> None:
    """Serve one client on stdin and stdout, until it leaves, or is killed: what it asked stays open."""

    def keeps(params: object) -> bool:
        return keeps_dialogs(params, environment, tasks=TASKS in server.extensions)

    try:
        async with stdio_server() as (reading, writing), opened(reading, writing.send, keeps) as received:
            await server.run(received, writing, server.create_initialization_options())
    except* BrokenPipeError:
        _LOG.info("the client has gone without a word")
