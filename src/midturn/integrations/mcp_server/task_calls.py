"""Requests of a client about a call that it has left running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY
from msgspec import Struct

from midturn.errors import MidturnError
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.external_call import Errand
from midturn.integrations.hooks.external_calls import Errands
from midturn.integrations.hooks.model_messages import DecidedElsewhere
from midturn.integrations.mcp_server import client
from midturn.integrations.mcp_server.asking import ServedCalls
from midturn.integrations.mcp_server.client import TASKS, CallDialog, Caller, DialogShown, described, is_cancelled, named
from midturn.ports import Clock
from midturn.question.json_value import JsonObject

_SHOWN = 64  # characters of an id that is none
_LOST = "The question is not in the store any more: somebody removed or damaged it. No answer will come. This is not a no."


class TaskParams(types.RequestParams):
    """Names the task."""

    task_id: str


class UpdateParams(TaskParams):
    """A client's input for a task, by the keys that it was shown."""

    input_responses: Mapping[str, Any]


class _TaskRequest(Struct, frozen=True, kw_only=True):
    """A request about a task: its client, the task, and the question behind it."""

    caller: Caller
    errands: Errands
    errand: Errand
    is_cancelled: bool


class TaskCalls:
    """`tasks/get`, `tasks/update` and `tasks/cancel`: tasks are in the store, and outlive this process."""

    def __init__(self, asking: ServedCalls, clock: Clock) -> None:
        self._asking = asking
        self._clock = clock
        self._shown: dict[str, float] = {}
        self._returned: set[str] = set()

    async def get(self, context: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        """Say how it stands. The answer itself is read with `check_answer`: a task's result is nothing that a model may take for a yes."""
        asked = await self._asked(context, params)
        if asked is None:
            return self._lost(params.task_id)
        errand, errands = asked.errand, asked.errands
        common = {**described(errand, await errands.turn(errand), self._clock), "taskId": params.task_id}
        if asked.is_cancelled:
            return {"status": "cancelled", **common, "statusMessage": client.cancelled(errand.handle)}
        if (outcome := await errands.outcome(errand)) is not None:
            reply = client.withdrawn() if isinstance(outcome, DecidedElsewhere) else client.there(errand.handle)
            return {"status": "completed", **common, "result": reply.wire()}
        question = await errands.open_question(errand)
        how = f"midturn answer {question.id}" if question else "midturn inbox"
        waiting = {**common, "statusMessage": f"Waiting for the user: {how}"}
        shown = await self._dialog(asked).next()
        if shown is None or shown.key in self._returned:
            return {"status": "working", **waiting}
        self._shown.setdefault(shown.key, self._clock.monotonic())
        request = shown.request.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {"status": "input_required", **waiting, "inputRequests": {shown.key: request}}

    async def update(self, context: ServerRequestContext[Any], params: UpdateParams) -> dict[str, Any]:
        """Record what a person said in the client's dialog; what no person can have said leaves the question open."""
        asked = await self._asked(context, params)
        if asked is None or asked.is_cancelled:
            return {}
        dialog = self._dialog(asked)
        shown = await dialog.next()
        if shown is None or shown.key not in self._shown or shown.key not in params.input_responses or shown.key in self._returned:
            return {}
        self._returned.add(shown.key)
        try:
            await self._take(dialog, shown, params.input_responses[shown.key])
        except MidturnError:
            self._returned.discard(shown.key)  # it was said, and could not be written down: it may be sent again
            raise
        return {}

    async def cancel(self, context: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        """Take note that no one waits for it there. The question stays open until its asker asks something else.

        Where clients share this process, one that knows the handle alone is another one: nothing becomes of what it says.
        """
        asked = await self._asked(context, params)
        if asked is None or asked.is_cancelled or params.task_id != self._asking.own_task(params.task_id):
            return {}
        if await asked.errands.outcome(asked.errand) is not None:
            return {}
        self._asking.give_up(asked.errand)
        await asked.errands.cancel(asked.errand)
        return {}

    async def _take(self, dialog: CallDialog, shown: DialogShown, response: JsonObject) -> None:
        try:
            said = types.ElicitResult.model_validate(response)
        except ValueError:
            return  # it is no response to a form
        await dialog.take(shown, said, self._clock.monotonic() - self._shown[shown.key])

    def _dialog(self, asked: _TaskRequest) -> CallDialog:
        return self._asking.dialog(asked.caller, asked.errands, asked.errand)

    async def _asked(self, context: ServerRequestContext[Any], params: TaskParams) -> _TaskRequest | None:
        """Find what a request is about; None where this process has begun it, and it is not in the store any more.

        Raises:
            MCPError: There is no such task, or it cannot be read just now, or the client may not ask.
        """
        _check_name(context, params.task_id)
        caller = self._asking.returning(context)
        require_tasks(caller)
        handle, round = named(params.task_id)  # noqa: A001  what it is called everywhere
        errands = self._asking.errands(caller)
        errand = await self._asking.found(errands, handle)
        if errand is not None and round <= errand.asker.round:
            return _TaskRequest(caller=caller, errands=errands, errand=errand, is_cancelled=is_cancelled(errand, round))
        if await self._asking.is_unreadable(errands, handle):
            raise MCPError(INTERNAL_ERROR, model_messages.UNKNOWN)
        if params.task_id not in self._asking.begun:
            raise MCPError(INVALID_PARAMS, f"There is no task {params.task_id[:_SHOWN]!r}.")
        return None

    def _lost(self, id: str) -> dict[str, Any]:
        begun = {key: value for key, value in self._asking.begun[id].items() if key != "resultType"}
        return {**begun, "status": "failed", "statusMessage": _LOST, "error": {"code": INTERNAL_ERROR, "message": _LOST}}


def require_tasks(caller: Caller) -> None:
    """Make sure that a client can leave calls to run on.

    Raises:
        MCPError: It does not say so on this request.
    """
    if not caller.has_tasks:
        needed: JsonObject = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This client does not say that it can leave calls to run on.", needed)


def _check_name(context: ServerRequestContext[Any], id: str) -> None:
    """Make sure that what a proxy reads in a header of HTTP is what the request is about.

    Raises:
        MCPError: The header names another task.
    """
    named = context.request.headers.get("mcp-name") if context.request is not None else None
    if named is not None and named != id:
        raise MCPError(HEADER_MISMATCH, f"The header Mcp-Name is {named!r}, and the task is {id!r}.")
