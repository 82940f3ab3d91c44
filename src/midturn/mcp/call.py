"""One tool call, including all rounds in which the server asks questions. The server's questions
are converted to forms, and the answers are converted back.

Guarantees: if no person could be asked, the server receives `cancel`. Only answers from a person
are sent to the server. If a person replies with a message instead of an answer, the server receives
`decline` and the model receives the message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from mcp import ClientSession, types
from mcp.shared.exceptions import MCPError

from midturn.errors import QuestionError
from midturn.protocol_forms import form_of, opens, web_address_form
from midturn.question.form import Form
from midturn.question.json_value import Json, canonical, members, objects
from midturn.question.schema import check_schema
from midturn.question.schema_check import TOO_LARGE, validate
from midturn.turn.inputs import NoAnswer

AskForm: TypeAlias = Callable[[Form], Awaitable[Mapping[str, Json] | NoAnswer]]
"""Shows a form to a person. Returns the answers, or the reason why there are no answers."""
MAX_FORMS: Final = 100
"""Maximum number of forms in one call. Only a server in a loop reaches this limit."""
_CANCEL = types.ElicitResult(action="cancel")
_DECLINE = types.ElicitResult(action="decline")
_MODEL_REASONS = {
    "no_prompt_backend": "nobody is here to answer it",
    "assistant_routing_denied": "only a person may answer it, and no person was to be asked",
    "invalid_static_answer": "the answer that is configured for it does not fit",
    "backend_error": "whoever was to answer it could not",
}


class TooManyForms(Exception):  # noqa: N818  named for the fault of the server
    """A server asks more than `MAX_FORMS` forms in one call. The message is written for the
    model.
    """


class Elicitations:
    """The questions that a server asks during one call.

    `replies` contains the messages that people sent instead of answers. `unasked` contains the
    reasons why questions were not shown to a person.

    Args:
        ask: Shows a form to a person. None if no person can be asked.
        tool: Name of the tool for the model.
        call: Event id of the call.
        queued: Called with the calls that must end before this call can start. Only used for
            servers that run one call at a time.
    """

    def __init__(
        self, ask: AskForm | None, tool: str, call: str, queued: Callable[[Sequence[str]], object]
    ) -> None:
        self.call = call
        self.queued = queued
        self.replies: list[str] = []
        self.unasked: list[str] = []
        self._ask = ask
        self._tool = tool
        self._count = 0
        self._send: dict[bytes, list[types.ElicitResult]] = {}
        self._reused_counts: dict[bytes, int] = {}

    @property
    def can_ask(self) -> bool:
        """Whether a person can be asked."""
        return self._ask is not None

    def start_over(self) -> None:
        """Reuse the recorded answers in order, because the server restarts the call and asks the
        same questions again.
        """
        self._reused_counts.clear()

    async def answer(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask a person and return the result. If a question is repeated after `start_over`,
        return the earlier result.

        Raises:
            TooManyForms: The server asks too many forms.
        """
        key = canonical(
            params.model_dump(
                mode="json", by_alias=True, exclude={"meta", "elicitation_id"}, exclude_none=True
            )
        )
        said, place = self._send.setdefault(key, []), self._reused_counts.get(key, 0)
        if place < len(said):
            self._reused_counts[key] = place + 1
            return said[place]
        result = await self.answer_now(params)
        if result.action != "cancel":
            said.append(result)
            self._reused_counts[key] = len(said)
        return result

    async def answer_now(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask a person, even if the same question was answered before.

        Raises:
            TooManyForms: The server asks too many forms.
        """
        self._count += 1
        if self._count > MAX_FORMS:
            raise TooManyForms(
                f"{self._tool}: stopped after {MAX_FORMS} questions in one call. Do not retry this"
                " tool call in this turn."
            )
        try:
            return await (
                self._address(params)
                if isinstance(params, types.ElicitRequestURLParams)
                else self._form(params)
            )
        except QuestionError as error:
            return self._not_shown(f"it cannot be shown: {str(error).rstrip('.')}")

    async def _form(self, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        elicited = form_of(params.requested_schema, params.message)
        match await self._answered(elicited.form):
            case NoAnswer() as none:
                return self._without_answer(none)
            case answers if elicited.declines(answers):
                return _DECLINE
            case answers:
                return types.ElicitResult.model_validate(
                    {"action": "accept", "content": elicited.content(answers)}
                )

    async def _address(self, params: types.ElicitRequestURLParams) -> types.ElicitResult:
        match await self._answered(web_address_form(params.message, params.url)):
            case NoAnswer() as none:
                return self._without_answer(none)
            case answers:
                return types.ElicitResult(action="accept") if opens(answers) else _DECLINE

    async def _answered(self, form: Form) -> Mapping[str, Json] | NoAnswer:
        return NoAnswer("no_prompt_backend") if self._ask is None else await self._ask(form)

    def _without_answer(self, none: NoAnswer) -> types.ElicitResult:
        match none.reason:
            case "reply":
                self.replies.append(none.message)
                return _DECLINE
            case "limit_exceeded":
                raise TooManyForms(
                    none.message
                    or f"{self._tool}: it asked too much. Do not retry this tool call in this turn."
                )
            case reason:
                return self._not_shown(_MODEL_REASONS.get(reason, reason))

    def _not_shown(self, why: str) -> types.ElicitResult:
        self.unasked.append(why)
        return _CANCEL


# --------------------------------------------------------------------------------------------------
# Cancellation messages for calls whose results are no longer needed


_LOG = logging.getLogger(__name__)
_SEND_TIMEOUT = 2.0  # seconds after which an unsent cancellation message is dropped


class CancelNotices:
    """Sends cancellation messages in background tasks, and ignores their results."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def say(self, notice: Coroutine[Any, Any, object]) -> None:
        """Start sending a message in the background."""
        task = asyncio.create_task(_send(notice))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Wait until all messages are sent or have timed out."""
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _send(notice: Coroutine[Any, Any, object]) -> None:
    try:
        async with asyncio.timeout(_SEND_TIMEOUT):
            await notice
    except Exception:  # noqa: BLE001  the call is over, so a failure changes nothing
        _LOG.debug("an MCP server did not accept a cancellation", exc_info=True)


# --------------------------------------------------------------------------------------------------
# Task calls (protocol 2025-11-25): the server accepts the call as a task immediately, and returns
# the result later


# seconds between two polls of a task, if the server does not suggest an interval
_POLL_INTERVAL = 1.0
_MIN_POLL_INTERVAL, _MAX_POLL_INTERVAL = 0.1, 10.0


def only_as_task(tool: types.Tool) -> bool:
    """Return whether the server accepts calls of the tool only as tasks."""
    return tool.execution is not None and tool.execution.task_support == "required"


async def call_as_task(
    session: ClientSession,
    params: types.CallToolRequestParams,
    on_progress: Callable[[], None],
    cancel_notices: CancelNotices,
) -> types.CallToolResult:
    """Run a call as a task and return its result. The server may ask questions while the result is
    pending.

    Args:
        session: Session with the server.
        params: The call.
        on_progress: Called each time the server reports that the task is still running.
        cancel_notices: Sends the cancellation of the task if this call is cancelled.
    """
    asked = params.model_copy(update={"task": types.TaskMetadata()}).model_dump(
        by_alias=True, mode="json", exclude_none=True
    )
    raw = await session._dispatcher.send_raw_request("tools/call", asked, {})  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the public methods cannot return a task
    task = types.CreateTaskResult.model_validate(raw, by_name=False).task
    wanted = types.GetTaskPayloadRequest(
        params=types.GetTaskPayloadRequestParams(task_id=task.task_id)
    )
    result = asyncio.create_task(session.send_request(wanted, types.CallToolResult))
    try:
        while not (await asyncio.wait({result}, timeout=_poll_seconds(task)))[0]:
            task = await _task_state(session, task.task_id)
            on_progress()
        return result.result()
    except asyncio.CancelledError:
        cancel_notices.say(_cancelled(session, task.task_id))
        raise
    finally:
        result.cancel()


async def _task_state(session: ClientSession, id: str) -> types.Task:
    return await session.send_request(
        types.GetTaskRequest(params=types.GetTaskRequestParams(task_id=id)), types.GetTaskResult
    )


async def _cancelled(session: ClientSession, id: str) -> None:
    await session.send_request(
        types.CancelTaskRequest(params=types.CancelTaskRequestParams(task_id=id)),
        types.CancelTaskResult,
    )


def _poll_seconds(task: types.Task) -> float:
    return min(
        max((task.poll_interval or _POLL_INTERVAL * 1000) / 1000, _MIN_POLL_INTERVAL),
        _MAX_POLL_INTERVAL,
    )


# --------------------------------------------------------------------------------------------------
# Validation of a result against the schema that the server declared. Both are untrusted, so
# references are not fetched, and the validation has a time limit.


def schema_error(schema: object, result: types.CallToolResult) -> str | None:
    """Return the reason why a result does not match its schema, or None. A schema that is invalid
    or too large to check is ignored.
    """
    if schema is None or result.is_error:
        return None
    if result.structured_content is None:
        return "it has no structured content, which its own schema asks for"
    wanted = cast("Json", schema)
    if check_schema(wanted):
        return None
    for problem in validate(wanted, cast("Json", result.structured_content)):
        if problem.message != TOO_LARGE:
            return f"its structured content does not fit its own schema: {problem}"
    return None


async def skip_sdk_check(name: str, result: types.CallToolResult) -> None:
    """Do nothing. Replaces the SDK's check of results, which has no time limit for the server's
    regular expressions.
    """
    del name, result


_MAX_ROUNDS = 10  # maximum number of rounds of questions in one call
_RETRY_DELAY = 0.1
_INVALID_PARAMS = -32602
_URL_ELICITATION_REQUIRED = -32042


class InvalidResult(Exception):  # noqa: N818  named for the fault of the server
    """A result does not match the server's schema, or is too large. The message contains the
    reason.
    """


class ServerCall:
    """One tool call, including all rounds in which the server asks questions."""

    def __init__(
        self,
        session: ClientSession,
        asked: Elicitations,
        limit: asyncio.Timeout,
        silence: float,
        cancel_notices: CancelNotices,
    ) -> None:
        self._cancel_notices = cancel_notices
        self._session = session
        self._elicitations = asked
        self._limit = limit
        self._silence = silence
        self._open_questions = 0
        self.is_over = False
        self.too_many_forms: TooManyForms | None = None

    async def make(self, tool: types.Tool, arguments: dict[str, Any]) -> types.CallToolResult:
        """Send the call, answer the server's questions, and send the call again until there is a
        result.
        """
        responses: dict[str, types.InputResponse] | None = None
        state: str | None = None
        for last in reversed(range(_MAX_ROUNDS)):
            try:
                result = await self._send_call(tool, arguments, responses, state)
            except MCPError as error:
                if error.error.code == _URL_ELICITATION_REQUIRED and self._elicitations.can_ask:
                    await self._open_addresses(error)
                elif error.error.code != _INVALID_PARAMS or state is None or not last:
                    raise
                responses, state = (
                    None,
                    None,
                )  # the server lost its state: start over and reuse the answers
                self._elicitations.start_over()
                continue
            if not isinstance(result, types.InputRequiredResult):
                return result
            try:
                responses, state = await self._responses(result), result.request_state
            except asyncio.CancelledError:
                self._cancel_notices.say(self._cancelled(tool, arguments, result))
                raise
            if not responses:
                await asyncio.sleep(_RETRY_DELAY)
        raise TimeoutError(
            f"it has sent this one call back {_MAX_ROUNDS} times, and still wants more"
        )

    async def _send_call(
        self,
        tool: types.Tool,
        arguments: dict[str, Any],
        responses: dict[str, types.InputResponse] | None,
        state: str | None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        if only_as_task(tool):
            params = types.CallToolRequestParams(name=tool.name, arguments=arguments)
            result = await call_as_task(
                self._session, params, self._restart_timeout, self._cancel_notices
            )
        else:
            result = await self._session.call_tool(
                tool.name,
                arguments,
                progress_callback=self._on_progress,
                input_responses=responses,
                request_state=state,
                allow_input_required=True,
            )
        if isinstance(result, types.CallToolResult) and (
            why := schema_error(tool.output_schema, result)
        ):
            raise InvalidResult(why)
        return result

    async def _cancelled(
        self, tool: types.Tool, arguments: dict[str, Any], asked: types.InputRequiredResult
    ) -> None:
        """Send `cancel` to a server that waits for answers, and ignore its response."""
        responses: dict[str, types.InputResponse] = dict.fromkeys(
            asked.input_requests or {}, _CANCEL
        )
        await self._send_call(tool, arguments, responses, asked.request_state)

    async def asking(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask a person. The timeout for the server is suspended until the person answers. If the
        call ends first, the question is withdrawn.
        """
        return await self._watched(self._elicitations.answer(params))

    async def pushed(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Answer a question that the server sent as a request of its own, not as a response to the
        call. Too many questions end the call, not the connection.
        """
        if self.is_over:
            return _CANCEL
        try:
            return await self.asking(params)
        except TooManyForms as error:
            self.too_many_forms = error
            if not self._limit.expired():
                self._limit.reschedule(asyncio.get_running_loop().time())
            return _CANCEL

    async def _watched(
        self, answering: Coroutine[Any, Any, types.ElicitResult]
    ) -> types.ElicitResult:
        self._open_questions += 1
        self._restart_timeout()
        try:
            return await answering
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # this task was not cancelled: the runner of the call withdrew the question
            return _CANCEL
        finally:
            self._open_questions -= 1
            self._restart_timeout()

    def _restart_timeout(self) -> None:
        """Restart the timeout for the server, or suspend it while a question is open."""
        if self.is_over or self.too_many_forms or self._limit.expired():
            return
        self._limit.reschedule(
            None if self._open_questions else asyncio.get_running_loop().time() + self._silence
        )

    async def _open_addresses(self, error: MCPError) -> None:
        """Ask a person to open the web addresses that the server requires before the call.

        Raises:
            MCPError: The person did not open an address, or no person could be asked.
        """
        for wanted in objects(members(error.error.data).get("elicitations")):
            said = await self._watched(
                self._elicitations.answer_now(types.ElicitRequestURLParams.model_validate(wanted))
            )
            if said.action != "accept":
                why = (
                    "the user did not open the address"
                    if said.action == "decline"
                    else "nobody could be shown the address"
                )
                raise MCPError(_URL_ELICITATION_REQUIRED, f"{why} that it needs opened first")

    async def _responses(
        self, result: types.InputRequiredResult
    ) -> dict[str, types.InputResponse] | None:
        responses: dict[str, types.InputResponse] = {}
        for key, request in (result.input_requests or {}).items():
            if not isinstance(request, types.ElicitRequest):
                raise MCPError(
                    types.INVALID_REQUEST, f"it wants {request.method}, which is refused here"
                )
            responses[key] = await self.asking(request.params)
        return responses or None

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        _LOG.debug(
            "a call of an MCP server made progress: %s of %s %s", progress, total, message or ""
        )
        self._restart_timeout()
