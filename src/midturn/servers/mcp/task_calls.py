"""What a client asks about a call that it has left to run on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import HEADER_MISMATCH, INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY

from midturn.core.json_value import JsonObject
from midturn.foreign.errand import Errand
from midturn.foreign.errands import Errands
from midturn.ports import Clock
from midturn.servers.mcp import results
from midturn.servers.mcp.asking import AskUserCalls
from midturn.servers.mcp.caller import Caller
from midturn.servers.mcp.dialog import CallDialog, DialogShown
from midturn.servers.mcp.task import TASKS, described


class TaskParams(types.RequestParams):
    """Which task."""

    task_id: str


class UpdateParams(TaskParams):
    """What a client brings for it, by the keys of what it was shown."""

    input_responses: Mapping[str, Any]


class TaskCalls:
    """`tasks/get`, `tasks/update` and `tasks/cancel`: tasks are in the store, and outlive this process."""

    def __init__(self, asking: AskUserCalls, clock: Clock) -> None:
        self._asking = asking
        self._clock = clock
        self._shown: dict[str, float] = {}
        self._returned: set[str] = set()

    async def get(self, context: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        """Say how it stands. The answer itself is read with `check_answer`: a task's result is nothing that a model may take for a yes."""
        caller, errands, errand = await self._found(context, params)
        turn = await errands.turn(errand)
        common = described(errand, turn, self._clock)
        if await errands.outcome(errand) is not None:
            return {"status": "completed", **common, "result": results.there(errand.conversation).wire()}
        question = await errands.open_question(errand)
        how = f"midturn answer {question.id}" if question else "midturn inbox"
        waiting = {**common, "statusMessage": f"Waiting for the user: {how}"}
        shown = await self._dialog(caller, errands, errand).next()
        if shown is None or shown.key in self._returned:
            return {"status": "working", **waiting}
        self._shown.setdefault(shown.key, self._clock.monotonic())
        request = shown.request.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {"status": "input_required", **waiting, "inputRequests": {shown.key: request}}

    async def update(self, context: ServerRequestContext[Any], params: UpdateParams) -> dict[str, Any]:
        """Record what a person said in the client's dialog; what nobody can have said leaves the question open."""
        caller, errands, errand = await self._found(context, params)
        dialog = self._dialog(caller, errands, errand)
        shown = await dialog.next()
        if shown is not None and shown.key in self._shown and shown.key in params.input_responses:
            self._returned.add(shown.key)
            await self._take(dialog, shown, params.input_responses[shown.key])
        return {}

    async def cancel(self, context: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        """Take note that nobody waits for it there. The question stays open until its asker asks something else."""
        _, _, errand = await self._found(context, params)
        self._asking.give_up(errand)
        return {}

    async def _take(self, dialog: CallDialog, shown: DialogShown, response: JsonObject) -> None:
        try:
            said = types.ElicitResult.model_validate(response)
        except ValueError:
            return  # it is no response to a form
        await dialog.take(shown, said, self._clock.monotonic() - self._shown[shown.key])

    def _dialog(self, caller: Caller, errands: Errands, errand: Errand) -> CallDialog:
        return self._asking.dialog(caller, errands, errand)

    async def _found(self, context: ServerRequestContext[Any], params: TaskParams) -> tuple[Caller, Errands, Errand]:
        _check_name(context, params.task_id)
        caller = self._asking.returning(context)
        if not caller.has_tasks:
            needed: JsonObject = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This client does not say that it can leave calls to run on.", needed)
        errands = self._asking.errands(caller)
        errand = await self._asking.found(errands, params.task_id)
        if errand is None:
            raise MCPError(INVALID_PARAMS, f"There is no task {params.task_id}.")
        return caller, errands, errand


def _check_name(context: ServerRequestContext[Any], id: str) -> None:
    """Make sure that what a proxy reads in a header of HTTP is what the request is about.

    Raises:
        MCPError: The header names another task.
    """
    named = context.request.headers.get("mcp-name") if context.request is not None else None
    if named is not None and named != id:
        raise MCPError(HEADER_MISMATCH, f"The header Mcp-Name is {named!r}, and the task is {id!r}.")
