"""The MCP server, based on the official SDK. It supports both the older and the newer version of
the protocol.
"""

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
from midturn.integrations.hooks.clients import client_of, is_unattended
from midturn.integrations.hooks.external_call import ExternalCall
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.hooks.hook_agent import PutForm
from midturn.integrations.hooks.model_messages import (
    Approved,
    Decided,
    FormCompleted,
    Refused,
    RepliedTo,
    TurnStopped,
)
from midturn.integrations.mcp_server import client
from midturn.integrations.mcp_server.asking import CallAnswer, ServedCalls, ServerWait
from midturn.integrations.mcp_server.client import TASKS
from midturn.integrations.mcp_server.task_calls import TaskCalls, TaskParams, UpdateParams
from midturn.ports import Clock
from midturn.question.json_value import Json, JsonObject, members, text
from midturn.question.text import ASK_USER
from midturn.security.peer_credentials import peer_user_rejection
from midturn.stores.store import ConversationStore
from midturn.tools.ask_user_call import DESCRIPTION, PARAMETERS

# --------------------------------------------------------------------------------------------------
# The server's tools. Each description is complete, because some clients do not pass the server's
# instructions to the model.


ASK: Final = (ASK_USER, "ask_person")
"""The two names of the same tool. The second name exists because some clients hide tools named
`ask_user`.
"""
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
_ANNOTATIONS = types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_ALWAYS_LOAD: dict[str, Any] = {"anthropic/alwaysLoad": True}


def tools() -> list[types.Tool]:
    """Return all tools."""
    asking = [_tool(name, DESCRIPTION + _WAITING, dict(PARAMETERS)) for name in ASK]
    check = {
        "id": {"type": "string", "description": "The id of the question."},
        "ticket": {"type": "integer", "description": "The newest."},
    }
    permit = {
        "tool_name": {"type": "string"},
        "input": {"type": "object"},
        "tool_use_id": {"type": "string"},
    }
    return [
        *asking,
        _tool(CHECK, _CHECK, {"type": "object", "properties": check, "required": ["id", "ticket"]}),
        _tool(
            PERMIT,
            _PERMIT,
            {"type": "object", "properties": permit, "required": ["tool_name", "input"]},
            always=False,
        ),
    ]


def _tool(
    name: str, description: str, schema: dict[str, Any], *, always: bool = True
) -> types.Tool:
    meta: dict[str, Any] = {"_meta": _ALWAYS_LOAD} if always else {}
    return types.Tool(
        name=name, description=description, input_schema=schema, annotations=_ANNOTATIONS, **meta
    )


# --------------------------------------------------------------------------------------------------
# Clients that must use the older protocol version, because the server can close their dialogs only
# in that version


_DISCOVER: Final = "server/discover"
_META: Final = "io.modelcontextprotocol/"
_METHOD_NOT_FOUND = types.ErrorData(code=types.METHOD_NOT_FOUND, message="Method not found")


def would_keep_dialogs(params: object, environment: Mapping[str, str], *, tasks: bool) -> bool:
    """Return whether to refuse the newer protocol version to a client, because the server could not
    close the client's dialogs in that version.

    If `tasks` is true, a client that supports tasks can use the newer version anyway, because only
    that version has tasks.
    """
    meta = members(members(params).get("_meta"))
    client = client_of(text(members(meta.get(f"{_META}clientInfo")).get("name")))
    extensions = members(members(meta.get(f"{_META}clientCapabilities")).get("extensions"))
    runs_on = tasks and TASKS in extensions
    return (
        client.closes_only_pushed and not runs_on and not is_unattended(client, environment, meta)
    )


@asynccontextmanager
async def filter_discovery(
    reading: AsyncIterator[SessionMessage | Exception],
    refuse: Callable[[SessionMessage], Awaitable[None]],
    refuses_discovery: Callable[[object], bool],
) -> AsyncGenerator[MemoryObjectReceiveStream[SessionMessage | Exception]]:
    """Forward a client's messages. Reject a request for the newer protocol version if
    `refuses_discovery` returns true for it.
    """
    outgoing, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_forward, reading, outgoing, refuse, refuses_discovery)
        yield incoming
        group.cancel_scope.cancel()


async def _forward(
    reading: AsyncIterator[SessionMessage | Exception],
    outgoing: MemoryObjectSendStream[SessionMessage | Exception],
    refuse: Callable[[SessionMessage], Awaitable[None]],
    refuses_discovery: Callable[[object], bool],
) -> None:
    async with outgoing:
        async for said in reading:
            asked = None if isinstance(said, Exception) else said.message
            if (
                isinstance(asked, types.JSONRPCRequest)
                and asked.method == _DISCOVER
                and refuses_discovery(asked.params)
            ):
                await refuse(
                    SessionMessage(
                        types.JSONRPCError(jsonrpc="2.0", id=asked.id, error=_METHOD_NOT_FOUND)
                    )
                )
            else:
                await outgoing.send(said)


# --------------------------------------------------------------------------------------------------
# `permission_prompt`: a tool to which an agent delegates its permission requests


_LOG = logging.getLogger(__name__)
# maximum seconds to wait for a decision about a call; the agent's own timeout may be shorter
_MAX_WAIT = 86_000.0


class PermissionTool:
    """The tool `permission_prompt`, which asks whether calls may run."""

    def __init__(self, asking: ServedCalls, wait: float = _MAX_WAIT) -> None:
        self._asking = asking
        self._wait = wait

    async def call(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Ask about one call, or ask the agent's own questions. If an error occurs, the agent
        receives a denial.
        """
        said = model_messages.FAILED
        try:
            calls, asked = await self._ask(context, members(params.arguments))
            said = model_messages.UNKNOWN
            async with self._asking.reporting_progress(context, calls, asked.external_call):
                outcome = await self._asking.wait_unless_cancelled(
                    asked.external_call, calls.wait(asked.external_call, self._wait)
                )
        except MidturnError as error:
            return _result({"behavior": "deny", "message": f"{said} ({error})"})
        except Exception:  # noqa: BLE001  no error may let the call run
            _LOG.exception("a permission request failed")
            return _result({"behavior": "deny", "message": said})
        if outcome is not None:
            await _close(calls, asked.external_call, outcome)
        return _result(asked.decision(outcome))

    async def _ask(
        self, context: ServerRequestContext[Any], arguments: JsonObject
    ) -> tuple[ExternalCallService, _Permission]:
        """Ask about a call, or return the earlier question about the same call. Withdraw the
        questions that this client no longer waits for.
        """
        calls, asked = await self._start(context, arguments)
        await self._asking.withdraw(calls, asked.external_call)
        return calls, asked

    async def _start(
        self, context: ServerRequestContext[Any], arguments: JsonObject
    ) -> tuple[ExternalCallService, _Permission]:
        tool, given = text(arguments.get("tool_name")), members(arguments.get("input"))
        id = self._asking.own_id(text(arguments.get("tool_use_id")))  # noqa: A001  the protocol's name
        calls = self._asking.calls(self._asking.caller(context))
        occasion = questions_of(given, gates=True) if tool == ASKS else None
        if isinstance(occasion, PutForm):
            external_call = await calls.questions(id, tool, occasion.arguments, occasion.form)
            return calls, _Permission(external_call, given, occasion)
        return calls, _Permission(await calls.permission(id, tool or "tool", given), given)


class _Permission(Struct, frozen=True):
    """A question about a call. It is a permission request, or a form if the call contains the
    agent's own questions.
    """

    external_call: ExternalCall
    given: JsonObject
    form: PutForm | None = None

    def decision(self, outcome: Decided | None) -> dict[str, Json]:
        """Return the decision for the agent."""
        if isinstance(outcome, FormCompleted) and self.form is not None:
            answers: Json = answers_by_text(self.form.form, outcome)
            return {"behavior": "allow", "updatedInput": {**self.given, "answers": answers}}
        return _decision(outcome, self.given)


async def _close(calls: ExternalCallService, external_call: ExternalCall, outcome: Decided) -> None:
    """Record that the agent receives the decision. If this fails, the error is only logged, because
    the decision itself is already recorded.
    """
    try:
        await calls.close(external_call, model_messages.recorded_content(outcome))
    except Exception:  # noqa: BLE001  the agent must receive the recorded decision
        _LOG.exception("failed to record the delivery of a decision")


def _result(decision: Mapping[str, Json]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=json.dumps(decision, ensure_ascii=False))]
    )


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
_INSTRUCTIONS = (
    "Ask the user with `ask_user`. If nobody has answered yet, that is not a no: `check_answer`"
    " brings the answer later."
)


def make_server(
    store: ConversationStore, environment: Mapping[str, str], clock: Clock, settings: ServerWait
) -> Server[Any]:
    """Return the MCP server. It can be used with any transport."""
    asking = ServedCalls(store, environment, clock, settings)
    calls: dict[
        str,
        Callable[[ServerRequestContext[Any], types.CallToolRequestParams], Awaitable[CallAnswer]],
    ] = {
        **dict.fromkeys(ASK, asking.ask),
        CHECK: asking.check,
        PERMIT: PermissionTool(asking).call,
    }

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del context, params
        return types.ListToolsResult(tools=tools())

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> CallAnswer:
        call = calls.get(params.name)
        if call is None:
            return client.error_result(
                f"There is no tool `{params.name}`; there are {', '.join(calls)}."
            )
        try:
            return await call(context, params)
        except MCPError:
            raise
        except MidturnError as error:
            return client.error_result(f"{model_messages.FAILED} ({error})")
        except Exception:  # noqa: BLE001  the model must not take an error for an answer
            _LOG.exception("a call to %s failed", params.name)
            return client.error_result(model_messages.FAILED)

    server: Server[Any] = Server(
        "midturn", version=__version__, instructions=_INSTRUCTIONS, on_list_tools=list_tools
    )
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    if settings.tasks:
        _offer_tasks(server, TaskCalls(asking, clock))
    return server


def _offer_tasks(server: Server[Any], tasks: TaskCalls) -> None:
    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", TaskParams, _with_readable_errors(tasks.get))
    server.add_request_handler("tasks/update", UpdateParams, _with_readable_errors(tasks.update))
    server.add_request_handler("tasks/cancel", TaskParams, _with_readable_errors(tasks.cancel))


def _with_readable_errors(handle: _TaskCall[Params]) -> _TaskCall[Params]:
    """Convert midturn's errors to responses with a readable message."""

    async def call(context: ServerRequestContext[Any], params: Params) -> dict[str, Any]:
        try:
            return await handle(context, params)
        except MidturnError as error:
            raise MCPError(INTERNAL_ERROR, f"{model_messages.UNKNOWN} ({error})") from error

    return call


# maximum size of a message, in bytes; calls may contain images
_MAX_MESSAGE_SIZE = 16 * 1024 * 1024


async def serve_http(
    server: Server[Any], listening: Listening, ready: Callable[[str, str], None]
) -> int:
    """Serve clients over streamable HTTP until a signal arrives. Each request must contain the
    token, which only this user can read.
    """
    token = secrets.token_urlsafe(24)
    app = _TokenGuard(
        server.streamable_http_app(host=listening.host), token, any_user=listening.behind_proxy
    )
    listeners = bound(listening)
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    url = f"{listening.scheme}://{host}:{listeners[0].getsockname()[1]}/mcp"
    return await serve(app, listening, listeners, lambda: ready(url, token), lambda: None)


class _TokenGuard:
    """Rejects requests without the token, and requests from other local users. Any process of this
    user may connect.
    """

    def __init__(self, app: ASGIApp, token: str, *, any_user: bool) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()
        self._any_user = any_user
        self._bodies = Bodies(BodyLimits(bytes=_MAX_MESSAGE_SIZE))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or respond with the reason why it is rejected."""
        connection = connection_of(scope) if scope["type"] == "http" else None
        doubt = (
            peer_user_rejection(connection.peer)
            if connection and connection.peer and not self._any_user
            else None
        )
        if doubt and not doubt.forwarded:
            await PlainTextResponse(f"This program may not use the server: {doubt.why}.\n", 403)(
                scope, receive, send
            )
        elif scope["type"] == "http" and not secrets.compare_digest(
            dict(scope["headers"]).get(b"authorization", b""), self._expected
        ):
            await PlainTextResponse("", 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
        else:
            if connection:
                connection.release()
            if scope["type"] == "http":
                await self._answer(scope, receive, send)
            else:
                await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body, within the size and time limits, before the SDK handles the request.
        Otherwise, the SDK would log a client's error as its own error.
        """
        messages: list[Message] = []
        async with self._bodies.limited(scope, receive) as limited:
            admit(scope)
            try:
                messages = await whole_body(limited)
            except BodyRefused as refused:
                await PlainTextResponse(
                    f"{refused.message}\n", refused.status, {"Connection": "close"}
                )(scope, receive, send)
        if messages:
            await self._app(scope, again(messages, receive), send)


async def serve_stdio(server: Server[Any], environment: Mapping[str, str]) -> None:
    """Serve one client on stdin and stdout until the client disconnects. The client's open
    questions stay open.
    """

    def refuses_discovery(params: object) -> bool:
        return would_keep_dialogs(params, environment, tasks=TASKS in server.extensions)

    try:
        async with (
            stdio_server() as (reading, writing),
            filter_discovery(reading, writing.send, refuses_discovery) as incoming,
        ):
            await server.run(incoming, writing, server.create_initialization_options())
    except* BrokenPipeError:
        _LOG.info("the client disconnected")
