"""The tools `ask_user` and `check_answer`. A question is recorded and then shown in all
interfaces. The first answer wins.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import re
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, TypeAlias, TypeVar

import anyio
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS
from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import MidturnError, QuestionError
from midturn.events.open_question import AskingAgent
from midturn.integrations.hooks.clients import AGENTS
from midturn.integrations.hooks.external_call import (
    MIN_RESPONSE_TIME,
    ExternalCall,
    Quota,
    has_handle,
)
from midturn.integrations.hooks.external_calls import ExternalCallService, Rules, ask_always
from midturn.integrations.hooks.hook_agent import find_ancestor
from midturn.integrations.hooks.model_messages import Decided, session_of_process
from midturn.integrations.mcp_server import client
from midturn.integrations.mcp_server.client import (
    PROOF,
    VIA,
    CallDialog,
    Caller,
    ShownForm,
    task_result,
)
from midturn.ports import Clock
from midturn.question.json_value import JsonObject, canonical, members
from midturn.question.text import ASK_USER
from midturn.security.authorization import mark_agent
from midturn.stores.lock import mark
from midturn.stores.store import ConversationStore
from midturn.tools.ask_user_call import FormRead, read_arguments

T = TypeVar("T")
CallAnswer: TypeAlias = types.CallToolResult | types.InputRequiredResult | dict[str, Any]
"""Result of a tool call. A task is a dictionary, because the SDK has no type for tasks."""
_LOG = logging.getLogger(__name__)
_HANDLE = re.compile(r"(?P<conversation>[0-9]{1,20})-[a-z2-7]{12}")
_REQUEST_KEY = "form"  # key of the form's request in a result that requires input
# maximum number of times that a question is shown again after an unrelated response from the client
_MAX_UNEXPECTED_RESPONSES = 10
_MAX_STARTED_TASKS = 1_000
_PROGRESS_INTERVAL = 10.0  # seconds between two progress reports to the client
_NO_STATE = (
    "Invalid or expired requestState: no question that waits here has it. Nothing was asked. Call"
    " again without it."
)
_SUPERSEDED = "The agent has asked something else since."
_CALL_AGAIN = (
    "Go on with what does not depend on it, or ask again with the tool `check_answer` after a"
    " while."
)
_END_TURN = (
    "Do not ask again now: end your turn, and say that you wait for an answer. It is there at the"
    " next `check_answer`."
)


class ServerWait(Struct, frozen=True, kw_only=True):
    """Settings of the server.

    Args:
        slice: Maximum time in seconds that one call blocks.
        woken: Names of agents in `midturn hook` whose sessions are notified when an answer arrives.
        quickest: Minimum response time in seconds in a client's dialog. See `CallDialog`.
        shared: Whether several clients use this process. In that case, the server cannot know which
            client asked an earlier question, so a call shows only its own questions in a dialog.
        tasks: Whether a call can continue as a task, if the client supports tasks.
        rules: Permission rules from the configuration.
    """

    slice: float = 45.0
    woken: frozenset[str] = frozenset()
    quickest: float = MIN_RESPONSE_TIME
    shared: bool = False
    tasks: bool = True
    rules: Rules = ask_always


class ServedCalls:
    """Handles the clients' tool calls in this process."""

    def __init__(
        self,
        store: ConversationStore,
        environment: Mapping[str, str],
        clock: Clock,
        settings: ServerWait,
    ) -> None:
        self._store = store
        self._environment = environment
        self._clock = clock
        self._settings = settings
        self._shown: dict[str, float] = {}
        self._given_up: list[ExternalCall] = []
        self._unexpected_responses = Counter[str]()
        self._states: dict[str, str] = {}
        self._number = 0
        self._proof_key = secrets.token_bytes(32)
        self.started_tasks: dict[str, dict[str, Any]] = {}
        """The most recent tasks that this process started, with their first results, by task id."""
        self._quota = Quota()

    def caller(self, context: ServerRequestContext[Any]) -> Caller:
        """Return the client that sent a request."""
        return Caller.of(context, self._environment)

    def returning_caller(self, context: ServerRequestContext[Any]) -> Caller:
        """Return the client that sent a request about an earlier question. If several clients share
        this process, no dialog is shown for it.
        """
        caller = self.caller(context)
        return replace(caller, shows_forms=False) if self._settings.shared else caller

    def calls(self, caller: Caller) -> ExternalCallService:
        """Return the service for the calls of this client."""
        client = caller.client
        here = mark(os.getpid())
        own = find_ancestor(*AGENTS)
        asker = AskingAgent(
            name=client.name,
            agent=client.agent,
            session=caller.session or session_of_process(here),
            via=VIA,
            cwd=os.getcwd(),  # noqa: PTH109  a string is needed
            process=here,
            serves=mark(os.getppid()),
            itself=mark(own) if own else None,
            keeps_dialog=caller.keeps_dialog,
        )
        mark_agent(asker.itself, asker.name)
        return ExternalCallService(
            self._store, asker, self._clock, self._quota, self._settings.rules
        )

    async def ask(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> CallAnswer:
        """Handle a call to `ask_user`."""
        arguments = members(params.arguments)
        try:
            asked = read_arguments(arguments)
        except QuestionError as error:
            return client.error_result(
                "Nothing was asked, because the arguments are wrong. Correct them and call it"
                f" again.\n{error}"
            )
        caller = self.caller(context)
        calls = self.calls(caller)
        left = (
            None if self._settings.shared else calls.backlog.take_up_open
        )  # in a shared process, an earlier question may belong to another client
        external_call = await self._find_repeated(
            calls, params, arguments
        ) or await calls.questions(self._call_id(caller), ASK_USER, arguments, asked.form, left)
        await self.withdraw(calls, external_call)
        external_call = await calls.backlog.take_up_cancelled(external_call)
        if self._settings.tasks and caller.has_tasks and await calls.outcome(external_call) is None:
            task = task_result(external_call, await calls.turn(external_call), self._clock)
            task["taskId"] = self.own_task(task["taskId"])
            self.started_tasks[task["taskId"]] = task
            if len(self.started_tasks) > _MAX_STARTED_TASKS:
                self.started_tasks.pop(next(iter(self.started_tasks)))
            return task
        call = _Call(
            caller=caller,
            context=context,
            params=params,
            calls=calls,
            external_call=external_call,
            asked=asked,
        )
        return await self.wait_unless_cancelled(
            external_call, self._wait_for_first_answer(call, ticket=1)
        )

    async def check(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> CallAnswer:
        """Handle a call to `check_answer`: wait some time for the answer to an earlier question."""
        arguments = members(params.arguments)
        caller = self.returning_caller(context)
        calls = self.calls(caller)
        external_call = await self.find_call(calls, str(arguments.get("id", "")))
        if external_call is None:
            return client.error_result(
                "There is no question with this id. Use the `id` that an earlier result gave you,"
                " or ask again."
            )
        ticket = arguments.get("ticket")
        call = _Call(
            caller=caller,
            context=context,
            params=params,
            calls=calls,
            external_call=external_call,
            asked=read_arguments(external_call.arguments),
        )
        return await self._wait_for_first_answer(
            call, ticket=(ticket if isinstance(ticket, int) else 0) + 1
        )

    async def find_call(self, calls: ExternalCallService, handle: str) -> ExternalCall | None:
        """Return the call with a handle that a client received earlier, possibly from another
        process.
        """
        match = _HANDLE.fullmatch(handle)
        external_call = await calls.find_call(match["conversation"]) if match else None
        if external_call is None or (external_call.asker.via, external_call.tool) != (
            VIA,
            ASK_USER,
        ):
            return None
        return (
            external_call
            if has_handle(external_call, await calls.turn(external_call), handle)
            else None
        )

    async def is_unreadable(self, calls: ExternalCallService, handle: str) -> bool:
        """Return whether the question may exist but cannot be read now."""
        match = _HANDLE.fullmatch(handle)
        return bool(match) and await calls.is_unreadable(match["conversation"])

    def dialog(
        self, caller: Caller, calls: ExternalCallService, external_call: ExternalCall
    ) -> CallDialog:
        """Return the client's own dialog for a question."""
        return CallDialog(
            caller=caller,
            calls=calls,
            external_call=external_call,
            clock=self._clock,
            quickest=self._settings.quickest,
        )

    def own_task(self, id: str) -> str:
        """Return the task id to send to the client that started the task. In a shared process, a
        secret is appended, so that other clients cannot cancel the task.
        """
        if not self._settings.shared:
            return id
        plain, _, _ = id.partition(PROOF)
        return (
            f"{plain}{PROOF}{hmac.new(self._proof_key, plain.encode(), 'sha256').hexdigest()[:32]}"
        )

    def give_up(self, external_call: ExternalCall) -> None:
        """Remember that the client stopped waiting. Its next question withdraws this question,
        unless several clients share this process.
        """
        if not self._settings.shared:
            self._given_up.append(external_call)

    # One call
    # ----------------------------------------------------------------------------------------------

    async def wait_unless_cancelled(
        self, external_call: ExternalCall, waiting: Coroutine[Any, Any, T]
    ) -> T:
        """Wait for the result of a new call. If the call is cancelled, record the cancellation
        immediately, because the client may repeat the call.

        Args:
            external_call: The call.
            waiting: Waits for the answer.
        """
        answer_task = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({answer_task})
        except asyncio.CancelledError:
            self.give_up(external_call)
            answer_task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.gather(answer_task, return_exceptions=True)
            raise
        return await answer_task

    async def _wait_for_first_answer(self, call: _Call, ticket: int) -> CallAnswer:
        """Wait for the first answer from the client's dialog or another interface."""
        dialog = self.dialog(call.caller, call.calls, call.external_call)
        refused = not call.caller.pushes and await self._take_response(call, dialog)
        outcome = await call.calls.outcome(call.external_call)
        if (
            outcome is None
            and not call.caller.pushes
            and not refused
            and (shown := await dialog.next())
        ):
            self._shown[shown.key] = self._clock.monotonic()
            return types.InputRequiredResult(
                input_requests={_REQUEST_KEY: shown.request},
                request_state=self._request_state(call.external_call, shown),
            )
        if outcome is None:
            outcome = await self._wait(call, dialog)
        if outcome is None:
            return client.waiting_result(
                call.external_call.handle, ticket, self._advice(call.caller, ticket)
            ).result()
        answer = client.answer_result(call.asked, outcome)
        await call.calls.close(call.external_call, answer.text)
        return answer.result()

    async def _take_response(self, call: _Call, dialog: CallDialog) -> bool:
        """Record the response in a repeated call. Return True if the question must not be shown to
        this client again.
        """
        responses = call.params.input_responses or {}
        response = responses.get(_REQUEST_KEY)
        shown = await dialog.next()
        began = (
            self._shown.pop(shown.key, None)
            if shown and isinstance(response, types.ElicitResult)
            else None
        )
        if shown is None or began is None or not isinstance(response, types.ElicitResult):
            self._unexpected_responses[call.external_call.conversation] += bool(responses)
            return (
                self._unexpected_responses[call.external_call.conversation]
                > _MAX_UNEXPECTED_RESPONSES
            )
        return not await dialog.take(shown, response, self._clock.monotonic() - began)

    async def _wait(self, call: _Call, dialog: CallDialog) -> Decided | None:
        """Wait for at most the time that one call may block. If the client suspends its timeout
        while a dialog is open, also wait until the dialog closes.
        """
        shown = dialog.push(call.context) if call.caller.pushes else asyncio.sleep(0)
        async with (
            self.reporting_progress(call.context, call.calls, call.external_call),
            _background(shown) as pushing,
        ):
            while True:
                outcome = await call.calls.wait(
                    call.external_call, self._settings.slice, lambda: not _has_failed(pushing)
                )
                if outcome is None and _has_failed(pushing):
                    # raises the error: a person has answered, but the answer could not be recorded
                    await pushing
                if outcome is not None or pushing.done() or not call.caller.client.holds_clock:
                    return outcome

    @asynccontextmanager
    async def reporting_progress(
        self,
        context: ServerRequestContext[Any],
        calls: ExternalCallService,
        external_call: ExternalCall,
    ) -> AsyncGenerator[None]:
        """Report progress to the client regularly while the block runs."""
        async with _background(self._report_progress(context, calls, external_call)):
            yield

    async def _report_progress(
        self,
        context: ServerRequestContext[Any],
        calls: ExternalCallService,
        external_call: ExternalCall,
    ) -> None:
        for number in count(1):
            await self._clock.sleep(_PROGRESS_INTERVAL)
            question = await calls.open_question(external_call)
            how = f"midturn answer {question.id}" if question else "midturn inbox"
            await context.session.report_progress(number, None, f"Waiting for the user: {how}")

    def _advice(self, caller: Caller, ticket: int) -> str:
        if ticket == 1:
            return _CALL_AGAIN
        if caller.alone and caller.client.agent in self._settings.woken:
            return "Do not ask again now: end your turn, and you will be woken with the answer."
        return _END_TURN

    # Identity of a question
    # ----------------------------------------------------------------------------------------------

    def own_id(self, id: str) -> str:
        """Return the client's own call id. Empty in a shared process, because several clients may
        use the same id.
        """
        return "" if self._settings.shared else id

    def _call_id(self, caller: Caller) -> str:
        """Return the client's call id, or a new unique id if the client sends none."""
        self._number += 1
        here = mark(os.getpid())
        return self.own_id(caller.call_id) or f"{VIA}-{here.pid}-{here.started}-{self._number}"

    async def _find_repeated(
        self, calls: ExternalCallService, params: types.CallToolRequestParams, arguments: JsonObject
    ) -> ExternalCall | None:
        """Return the earlier question of a repeated call. A client repeats a call to send a form
        response, or after a cancellation.
        """
        wanted = canonical(arguments)
        if params.request_state:
            names = self._resolve_state(params.request_state).split(
                "/", 1
            )  # handle of the question, and id of the form that was shown
            found = [await self.find_call(calls, name) for name in names]
            external_call = found[0]
            if (
                external_call is None
                or found[-1] != external_call
                or canonical(external_call.arguments) != wanted
            ):
                raise MCPError(INVALID_PARAMS, _NO_STATE)
            return self._resume_waiting(external_call)
        left = (external_call for external_call in self._given_up if external_call.tool == ASK_USER)
        return next(
            (
                self._resume_waiting(external_call)
                for external_call in left
                if canonical(external_call.arguments) == wanted
            ),
            None,
        )

    def _resume_waiting(self, external_call: ExternalCall) -> ExternalCall:
        """Remember that the client waits for the question again."""
        self._given_up = [
            left for left in self._given_up if left.conversation != external_call.conversation
        ]
        return external_call

    def _request_state(self, external_call: ExternalCall, shown: ShownForm) -> str:
        """Return the state that a client sends back with its form response. Each form has a
        different state.
        """
        if not self._settings.shared:
            return f"{external_call.handle}/{shown.key}"
        state = secrets.token_urlsafe(16)
        self._states[state] = external_call.handle
        return state

    def _resolve_state(self, state: str) -> str:
        return self._states.pop(state, "") if self._settings.shared else state

    async def withdraw(self, calls: ExternalCallService, current: ExternalCall) -> None:
        """Close the questions that the client stopped waiting for, because it now asks another
        question.
        """
        left, self._given_up = self._given_up, []
        for external_call in left:
            if external_call.conversation != current.conversation:
                await calls.close(external_call, _SUPERSEDED)


class _Call(Struct, frozen=True, kw_only=True):
    """One request from a client, with its question."""

    caller: Caller
    context: ServerRequestContext[Any]
    params: types.CallToolRequestParams
    calls: ExternalCallService
    external_call: ExternalCall
    asked: FormRead


def _has_failed(dialog: asyncio.Task[None]) -> bool:
    return dialog.done() and not dialog.cancelled() and isinstance(dialog.exception(), MidturnError)


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncGenerator[asyncio.Task[None]]:
    """Run a coroutine while the block runs, and cancel it at the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            if (current := asyncio.current_task()) and current.cancelling():
                raise
        except Exception:  # noqa: BLE001  the question is still open
            _LOG.exception("a background task of a call failed")
