"""One call of a tool, over as many rounds as its server asks in: its questions as ours, and what was answered as the server takes it.

No one is invented: what could be shown to no one is `cancel`, and nothing is filled in that a person has not said. What a person says in
place of an answer is for the model: the server hears `decline`, and the model the words.
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
from midturn.turn.step import NoAnswer

AskForm: TypeAlias = Callable[[Form], Awaitable[Mapping[str, Json] | NoAnswer]]
"""Asks a form; without answers it says why."""
MOST: Final = 100
"""Questions and forms of one call. People are asked far fewer; most of so many are such that no one can be shown them."""
_CANCEL = types.ElicitResult(action="cancel")
_DECLINE = types.ElicitResult(action="decline")
_WHY = {
    "no_prompt_backend": "nobody is here to answer it",
    "assistant_routing_denied": "only a person may answer it, and no person was to be asked",
    "invalid_static_answer": "the answer that is configured for it does not fit",
    "backend_error": "whoever was to answer it could not",
}


class TooManyForms(Exception):  # noqa: N818  it says what the server does
    """A server asks more in one call than may be asked; the message says what a model reads of that."""


class Elicitations:
    """The questions of one call. `replies` are the markers of what people said in place of answers, `unasked` says why no one was asked.

    Args:
        ask: Asks a form; None where no one can be asked.
        tool: The name under which a model knows the tool.
        call: The event of the call.
        queued: Hears which calls are ahead of it, where a server takes one at a time.
    """

    def __init__(self, ask: AskForm | None, tool: str, call: str, queued: Callable[[Sequence[str]], object]) -> None:
        self.call = call
        self.queued = queued
        self.replies: list[str] = []
        self.unasked: list[str] = []
        self._ask = ask
        self._tool = tool
        self._count = 0
        self._said: dict[bytes, list[types.ElicitResult]] = {}
        self._taken: dict[bytes, int] = {}

    @property
    def asks_somebody(self) -> bool:
        """Whether anybody can be asked."""
        return self._ask is not None

    def start_over(self) -> None:
        """Begin from the start, because the server has forgotten the call: what it asks again has its answers already, in order."""
        self._taken.clear()

    async def answer(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask a person, and return what they said; what is asked again after a new start has its answer already.

        Raises:
            TooManyForms: It has asked enough.
        """
        key = canonical(params.model_dump(mode="json", by_alias=True, exclude={"meta", "elicitation_id"}, exclude_none=True))
        said, place = self._said.setdefault(key, []), self._taken.get(key, 0)
        if place < len(said):
            self._taken[key] = place + 1
            return said[place]
        result = await self.answer_now(params)
        if result.action != "cancel":
            said.append(result)
            self._taken[key] = len(said)
        return result

    async def answer_now(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask a person, whatever they have said before.

        Raises:
            TooManyForms: It has asked enough.
        """
        self._count += 1
        if self._count > MOST:
            raise TooManyForms(f"{self._tool}: stopped after {MOST} questions in one call. Do not retry this tool call in this turn.")
        try:
            return await (self._address(params) if isinstance(params, types.ElicitRequestURLParams) else self._form(params))
        except QuestionError as error:
            return self._is_shown_to_nobody(f"it cannot be shown: {str(error).rstrip('.')}")

    async def _form(self, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        elicited = form_of(params.requested_schema, params.message)
        match await self._answered(elicited.form):
            case NoAnswer() as none:
                return self._without_answer(none)
            case answers if elicited.declines(answers):
                return _DECLINE
            case answers:
                return types.ElicitResult.model_validate({"action": "accept", "content": elicited.content(answers)})

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
                raise TooManyForms(none.message or f"{self._tool}: it asked too much. Do not retry this tool call in this turn.")
            case reason:
                return self._is_shown_to_nobody(_WHY.get(reason, reason))

    def _is_shown_to_nobody(self, why: str) -> types.ElicitResult:
        self.unasked.append(why)
        return _CANCEL


# ----------------------------------------------------------------------------------------------------------------------
# What is still said to a server of a call that is not waited for any more


_LOG = logging.getLogger(__name__)
_PATIENCE = 2.0  # seconds in which a server can take it


class Farewells:
    """Says it beside everything else, and forgets what comes of it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def say(self, farewell: Coroutine[Any, Any, object]) -> None:
        """Begin to say it."""
        task = asyncio.create_task(_said(farewell))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Wait until everything is said, or has taken too long."""
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _said(farewell: Coroutine[Any, Any, object]) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            await farewell
    except Exception:  # noqa: BLE001  what comes of it is read by no one
        _LOG.debug("an MCP server did not take that a call was left", exc_info=True)


# ----------------------------------------------------------------------------------------------------------------------
# A call that a server of the older protocol takes only as a task: it says at once that it works, and has the result later


_POLL = 1.0  # seconds, where a server does not say how often it likes to be asked
_OFTEN, _SELDOM = 0.1, 10.0


def only_as_task(tool: types.Tool) -> bool:
    """Whether a server refuses to be called without a task."""
    return tool.execution is not None and tool.execution.task_support == "required"


async def call_as_task(
    session: ClientSession, params: types.CallToolRequestParams, goes_on: Callable[[], None], farewells: Farewells
) -> types.CallToolResult:
    """Have a task begun, and return its result. What it asks comes while the result is waited for.

    Args:
        session: Speaks with the server.
        params: The call.
        goes_on: Hears each time that the server says that the task goes on.
        farewells: Cancel the task of a call that is cancelled.
    """
    asked = params.model_copy(update={"task": types.TaskMetadata()}).model_dump(by_alias=True, mode="json", exclude_none=True)
    raw = await session._dispatcher.send_raw_request("tools/call", asked, {})  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  its own methods take no task for a result
    task = types.CreateTaskResult.model_validate(raw, by_name=False).task
    wanted = types.GetTaskPayloadRequest(params=types.GetTaskPayloadRequestParams(task_id=task.task_id))
    result = asyncio.create_task(session.send_request(wanted, types.CallToolResult))
    try:
        while not (await asyncio.wait({result}, timeout=_pause(task)))[0]:
            task = await _state(session, task.task_id)
            goes_on()
        return result.result()
    except asyncio.CancelledError:
        farewells.say(_cancelled(session, task.task_id))
        raise
    finally:
        result.cancel()


async def _state(session: ClientSession, id: str) -> types.Task:
    return await session.send_request(types.GetTaskRequest(params=types.GetTaskRequestParams(task_id=id)), types.GetTaskResult)


async def _cancelled(session: ClientSession, id: str) -> None:
    await session.send_request(types.CancelTaskRequest(params=types.CancelTaskRequestParams(task_id=id)), types.CancelTaskResult)


def _pause(task: types.Task) -> float:
    """Return for how many seconds a server is not asked how its task goes."""
    return min(max((task.poll_interval or _POLL * 1000) / 1000, _OFTEN), _SELDOM)


# ----------------------------------------------------------------------------------------------------------------------
# Whether a result fits the schema that its server gave for it. Both are the server's: nothing is fetched, and no schema takes long


def misfit(schema: object, result: types.CallToolResult) -> str | None:
    """Say what does not fit. A schema that cannot be used here, or not on so much, says nothing of a result."""
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


async def unchecked(name: str, result: types.CallToolResult) -> None:
    """Check nothing: what the SDK does by itself matches patterns for as long as a server likes."""
    del name, result


_ROUNDS = 10  # times that a server may ask in one call
_BACK_OFF = 0.1
_INVALID = -32602
_ADDRESSES_FIRST = -32042


class UnfitResult(Exception):  # noqa: N818  it says what it is
    """A result is not what the server itself has said of its results, or cannot be taken; the message says how."""


class ServerCall:
    """One call, over as many rounds as the server asks in."""

    def __init__(self, session: ClientSession, asked: Elicitations, limit: asyncio.Timeout, silence: float, farewells: Farewells) -> None:
        self._farewells = farewells
        self._session = session
        self._asked = asked
        self._limit = limit
        self._silence = silence
        self._open = 0
        self.is_over = False
        self.asks_too_much: TooManyForms | None = None

    async def make(self, tool: types.Tool, arguments: dict[str, Any]) -> types.CallToolResult:
        """Call, answer, call again."""
        responses: dict[str, types.InputResponse] | None = None
        state: str | None = None
        for last in reversed(range(_ROUNDS)):
            try:
                result = await self._sent(tool, arguments, responses, state)
            except MCPError as error:
                if error.error.code == _ADDRESSES_FIRST and self._asked.asks_somebody:
                    await self._addresses(error)
                elif error.error.code != _INVALID or state is None or not last:
                    raise
                responses, state = None, None  # the server has forgotten: from the start, with the answers that are there
                self._asked.start_over()
                continue
            if not isinstance(result, types.InputRequiredResult):
                return result
            try:
                responses, state = await self._responses(result), result.request_state
            except asyncio.CancelledError:
                self._farewells.say(self._cancelled(tool, arguments, result))
                raise
            if not responses:
                await asyncio.sleep(_BACK_OFF)
        raise TimeoutError(f"it has sent this one call back {_ROUNDS} times, and still wants more")

    async def _sent(
        self, tool: types.Tool, arguments: dict[str, Any], responses: dict[str, types.InputResponse] | None, state: str | None
    ) -> types.CallToolResult | types.InputRequiredResult:
        if only_as_task(tool):
            params = types.CallToolRequestParams(name=tool.name, arguments=arguments)
            result = await call_as_task(self._session, params, self._wind, self._farewells)
        else:
            result = await self._session.call_tool(
                tool.name,
                arguments,
                progress_callback=self._goes_on,
                input_responses=responses,
                request_state=state,
                allow_input_required=True,
            )
        if isinstance(result, types.CallToolResult) and (why := misfit(tool.output_schema, result)):
            raise UnfitResult(why)
        return result

    async def _cancelled(self, tool: types.Tool, arguments: dict[str, Any], asked: types.InputRequiredResult) -> None:
        """Tell a server that waits for answers that there will be none. What it says to that is not read."""
        responses: dict[str, types.InputResponse] = dict.fromkeys(asked.input_requests or {}, _CANCEL)
        await self._sent(tool, arguments, responses, asked.request_state)

    async def asking(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask; the clock stands still meanwhile. What is asked for a call that is over, or ends meanwhile, is shown no more."""
        return await self._watched(self._asked.answer(params))

    async def pushed(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Answer what a server sends by itself: where it is too much, the call ends, and not what speaks with the server."""
        if self.is_over:
            return _CANCEL
        try:
            return await self.asking(params)
        except TooManyForms as error:
            self.asks_too_much = error
            if not self._limit.expired():
                self._limit.reschedule(asyncio.get_running_loop().time())
            return _CANCEL

    async def _watched(self, answering: Coroutine[Any, Any, types.ElicitResult]) -> types.ElicitResult:
        self._open += 1
        self._wind()
        try:
            return await answering
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return _CANCEL  # not this task: the runner of the call has withdrawn the question
        finally:
            self._open -= 1
            self._wind()

    def _wind(self) -> None:
        """Give the server its time again from now on; all of it while anybody is asked."""
        if self.is_over or self.asks_too_much or self._limit.expired():
            return
        self._limit.reschedule(None if self._open else asyncio.get_running_loop().time() + self._silence)

    async def _addresses(self, error: MCPError) -> None:
        """Ask a person to open what the server wants opened before the call.

        Raises:
            MCPError: They do not, or no one could be shown it.
        """
        for wanted in objects(members(error.error.data).get("elicitations")):
            said = await self._watched(self._asked.answer_now(types.ElicitRequestURLParams.model_validate(wanted)))
            if said.action != "accept":
                why = "the user did not open the address" if said.action == "decline" else "nobody could be shown the address"
                raise MCPError(_ADDRESSES_FIRST, f"{why} that it needs opened first")

    async def _responses(self, result: types.InputRequiredResult) -> dict[str, types.InputResponse] | None:
        responses: dict[str, types.InputResponse] = {}
        for key, request in (result.input_requests or {}).items():
            if not isinstance(request, types.ElicitRequest):
                raise MCPError(types.INVALID_REQUEST, f"it wants {request.method}, which is refused here")
            responses[key] = await self.asking(request.params)
        return responses or None

    async def _goes_on(self, progress: float, total: float | None, message: str | None) -> None:
        _LOG.debug("a call of an MCP server goes on: %s of %s %s", progress, total, message or "")
        self._wind()
