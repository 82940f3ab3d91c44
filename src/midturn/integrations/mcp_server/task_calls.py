"""Task methods of the MCP server. Clients use them for calls that continue in the background."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
)
from msgspec import Struct

from midturn.errors import MidturnError
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.external_call import ExternalCall
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.hooks.model_messages import DecidedElsewhere
from midturn.integrations.mcp_server import client
from midturn.integrations.mcp_server.asking import ServedCalls
from midturn.integrations.mcp_server.client import (
    TASKS,
    CallDialog,
    Caller,
    ShownForm,
    is_cancelled,
    parse_task_id,
    task_fields,
)
from midturn.ports import Clock
from midturn.question.json_value import JsonObject

_MAX_ID_SHOWN = 64  # maximum length of an unknown id in an error message, in characters
_LOST = (
    "The question is not in the store any more: somebody removed or damaged it. No answer will"
    " come. This is not a no."
)


class TaskParams(types.RequestParams):
    """Parameters with the id of a task."""

    task_id: str


class UpdateParams(TaskParams):
    """A client's responses to a task's requests, by request key."""

    input_responses: Mapping[str, Any]


class _TaskRequest(Struct, frozen=True, kw_only=True):
    """A request about a task: the client, the task, and its question."""

    caller: Caller
    calls: ExternalCallService
    external_call: ExternalCall
    is_cancelled: bool


class TaskCalls:
    """The methods `tasks/get`, `tasks/update` and `tasks/cancel`. Tasks are kept in the store, so
    they continue after this process exits.
    """

    def __init__(self, asking: ServedCalls, clock: Clock) -> None:
        self._asking = asking
        self._clock = clock
        self._shown: dict[str, float] = {}
        self._answered: set[str] = set()

    async def get(self, context: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        """Return the state of a task. It does not contain the answer, which the model must read
        with `check_answer`.
        """
        asked = await self._find_request(context, params)
        if asked is None:
            return self._lost_task(params.task_id)
        external_call, calls = asked.external_call, asked.calls
        common = {
            **task_fields(external_call, await calls.turn(external_call), self._clock),
            "taskId": params.task_id,
        }
        if asked.is_cancelled:
            return {
                "status": "cancelled",
                **common,
                "statusMessage": client.cancelled_message(external_call.handle),
            }
        if (outcome := await calls.outcome(external_call)) is not None:
            reply = (
                client.withdrawn_result()
                if isinstance(outcome, DecidedElsewhere)
                else client.available_result(external_call.handle)
            )
            return {"status": "completed", **common, "result": reply.wire()}
        question = await calls.open_question(external_call)
        how = f"midturn answer {question.id}" if question else "midturn inbox"
        waiting = {**common, "statusMessage": f"Waiting for the user: {how}"}
        shown = await self._dialog(asked).next()
        if shown is None or shown.key in self._answered:
            return {"status": "working", **waiting}
        self._shown.setdefault(shown.key, self._clock.monotonic())
        request = shown.request.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {"status": "input_required", **waiting, "inputRequests": {shown.key: request}}

    async def update(
        self, context: ServerRequestContext[Any], params: UpdateParams
    ) -> dict[str, Any]:
        """Record a response from the client's dialog. If it cannot come from a person, the question
        stays open.
        """
        asked = await self._find_request(context, params)
        if asked is None or asked.is_cancelled:
            return {}
        dialog = self._dialog(asked)
        shown = await dialog.next()
        if (
            shown is None
            or shown.key not in self._shown
            or shown.key not in params.input_responses
            or shown.key in self._answered
        ):
            return {}
        self._answered.add(shown.key)
        try:
            await self._record(dialog, shown, params.input_responses[shown.key])
        except MidturnError:
            # the response was not recorded, so the client may send it again
            self._answered.discard(shown.key)
            raise
        return {}

    async def cancel(
        self, context: ServerRequestContext[Any], params: TaskParams
    ) -> dict[str, Any]:
        """Record that the client stopped waiting. The question stays open until the client asks
        another question.

        In a shared process, requests from other clients are ignored. They do not know the secret in
        the task id.
        """
        asked = await self._find_request(context, params)
        if (
            asked is None
            or asked.is_cancelled
            or params.task_id != self._asking.own_task(params.task_id)
        ):
            return {}
        if await asked.calls.outcome(asked.external_call) is not None:
            return {}
        self._asking.give_up(asked.external_call)
        await asked.calls.cancel(asked.external_call)
        return {}

    async def _record(self, dialog: CallDialog, shown: ShownForm, response: JsonObject) -> None:
        try:
            said = types.ElicitResult.model_validate(response)
        except ValueError:
            return  # not a form response
        await dialog.take(shown, said, self._clock.monotonic() - self._shown[shown.key])

    def _dialog(self, asked: _TaskRequest) -> CallDialog:
        return self._asking.dialog(asked.caller, asked.calls, asked.external_call)

    async def _find_request(
        self, context: ServerRequestContext[Any], params: TaskParams
    ) -> _TaskRequest | None:
        """Return the task that a request is about. None if this process started the task but the
        store no longer contains it.

        Raises:
            MCPError: The task does not exist or cannot be read now, or the client does not support
                tasks.
        """
        _check_name(context, params.task_id)
        caller = self._asking.returning_caller(context)
        require_tasks(caller)
        handle, number = parse_task_id(params.task_id)
        calls = self._asking.calls(caller)
        external_call = await self._asking.find_call(calls, handle)
        if external_call is not None and number <= external_call.asker.round:
            return _TaskRequest(
                caller=caller,
                calls=calls,
                external_call=external_call,
                is_cancelled=is_cancelled(external_call, number),
            )
        if await self._asking.is_unreadable(calls, handle):
            raise MCPError(INTERNAL_ERROR, model_messages.UNKNOWN)
        if params.task_id not in self._asking.started_tasks:
            raise MCPError(INVALID_PARAMS, f"There is no task {params.task_id[:_MAX_ID_SHOWN]!r}.")
        return None

    def _lost_task(self, id: str) -> dict[str, Any]:
        started_tasks = {
            key: value
            for key, value in self._asking.started_tasks[id].items()
            if key != "resultType"
        }
        return {
            **started_tasks,
            "status": "failed",
            "statusMessage": _LOST,
            "error": {"code": INTERNAL_ERROR, "message": _LOST},
        }


def require_tasks(caller: Caller) -> None:
    """Check that a client supports tasks.

    Raises:
        MCPError: The client does not declare support in this request.
    """
    if not caller.has_tasks:
        needed: JsonObject = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"This client does not declare the capability `{TASKS}`.",
            needed,
        )


def _check_name(context: ServerRequestContext[Any], id: str) -> None:
    """Check that the HTTP header `Mcp-Name`, which proxies read, contains the same task id as the
    request.

    Raises:
        MCPError: The header contains another task id.
    """
    header = context.request.headers.get("mcp-name") if context.request is not None else None
    if header is not None and header != id:
        raise MCPError(
            HEADER_MISMATCH,
            f"The header Mcp-Name is {header!r}, but the request is about task {id!r}.",
        )
