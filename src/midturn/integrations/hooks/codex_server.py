"""Runs Codex without a terminal: midturn is the client of its app server, and the server's
requests become questions in the inbox.
"""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, Protocol, TypeAlias, cast

from midturn import __version__
from midturn.errors import MidturnError
from midturn.events.open_question import AskingAgent
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.claude import questions_of
from midturn.integrations.hooks.external_call import ExternalCall
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.hooks.headless import AgentFailed, Headless, Inbox, PendingMessages
from midturn.integrations.hooks.hook_agent import PutForm, Unaskable
from midturn.integrations.hooks.model_messages import (
    Approved,
    Decided,
    DecidedElsewhere,
    FormCompleted,
    RepliedTo,
    TurnStopped,
)
from midturn.protocol_forms import form_of, opens, web_address_form
from midturn.question.form import Form
from midturn.question.json_value import Json, JsonObject, members, objects, text

# --------------------------------------------------------------------------------------------------
# JSON-RPC with one message per line: both sides send requests, and each request has a response


AfterDelivery: TypeAlias = Callable[[], Awaitable[None]]
_METHOD_NOT_FOUND, _INTERNAL_ERROR = -32601, -32603


class RequestRefused(Exception):  # noqa: N818  named for the event
    """The peer responded with an error. Request handlers raise it to respond with an error."""

    def __init__(self, message: str, code: int = _INTERNAL_ERROR) -> None:
        super().__init__(message)
        self.code = code


class RequestHandler(Protocol):
    """Handles the messages from a connection's peer."""

    async def handle_request(
        self, method: str, params: JsonObject
    ) -> tuple[JsonObject, AfterDelivery]:
        """Return the response to a request, and a callback to run after the response is sent.

        Raises:
            RequestRefused: The response to the request is an error.
        """
        ...

    def handle_notification(self, method: str, params: JsonObject) -> None:
        """Handle a notification."""
        ...


class Disconnected(ConnectionError):  # noqa: N818  named for the event
    """The peer has closed the connection."""


def method_not_found(method: str) -> RequestRefused:
    """Return the error response for an unknown method."""
    return RequestRefused(f"The method {method} is not supported.", _METHOD_NOT_FOUND)


class JsonLines:
    """A JSON-RPC connection. Each incoming request is handled in a separate task."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: RequestHandler
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._side = side
        self._number = 0
        self._responses: dict[int, asyncio.Future[Json]] = {}
        self._answering: dict[str, asyncio.Task[None]] = {}
        self._delivering: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request and return the response.

        Raises:
            RequestRefused: The response is an error.
            Disconnected: The connection was closed.
        """
        if self._is_closed:
            raise Disconnected
        self._number += 1
        future = self._responses[self._number] = asyncio.get_running_loop().create_future()
        await self._send({"method": method, "id": self._number, "params": params})
        return members(await future)

    async def notify(self, method: str) -> None:
        """Send a notification."""
        await self._send({"method": method})

    def withdraw(self, id: Json) -> None:
        """Stop handling a request that the peer withdrew."""
        task = self._answering.pop(json.dumps(id), None)
        if task:
            task.cancel()

    def is_withdrawn(self) -> bool:
        """Return whether the peer withdrew the request that the current task handles."""
        return asyncio.current_task() not in self._answering.values()

    async def listen(self) -> None:
        """Handle incoming messages until the connection closes. Then cancel open requests, and wait
        for the callbacks of the responses that were sent.
        """
        try:
            while line := await self._reader.readline():
                self._receive(line)
        except (ValueError, ConnectionError):  # a line exceeds the size limit, or the stream broke
            pass
        finally:
            self._is_closed = True
            for future in self._responses.values():
                if not future.done():
                    future.set_exception(Disconnected())
            tasks = list(self._answering.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, *self._delivering, return_exceptions=True)

    def _receive(self, line: bytes) -> None:
        try:
            message = members(json.loads(line))
        except (ValueError, RecursionError):
            return  # ignore lines that are not messages
        method, number, params = (
            text(message.get("method")),
            message.get("id"),
            members(message.get("params")),
        )
        if method and number is not None:
            self._answering[json.dumps(number)] = asyncio.create_task(
                self._answer(method, params, number)
            )
        elif method:
            self._side.handle_notification(method, params)
        elif (
            isinstance(number, int)
            and (future := self._responses.pop(number, None))
            and not future.done()
        ):
            if "error" in message:
                future.set_exception(
                    RequestRefused(
                        text(members(message["error"]).get("message")) or "it does not say why"
                    )
                )
            else:
                future.set_result(message.get("result"))

    async def _answer(self, method: str, params: JsonObject, id: Json) -> None:
        delivered: AfterDelivery = _no_operation
        try:
            result, delivered = await self._side.handle_request(method, params)
            answer: JsonObject = {"id": id, "result": result}
        except RequestRefused as refused:
            answer = {"id": id, "error": {"code": refused.code, "message": str(refused)}}
        self._answering.pop(json.dumps(id), None)
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._delivering.add(task)
        task.add_done_callback(self._delivering.discard)
        await self._send(answer)
        await delivered()

    async def _send(self, message: JsonObject) -> None:
        try:
            self._writer.write(json.dumps(message).encode() + b"\n")
            await self._writer.drain()
        except (ConnectionError, RuntimeError) as error:
            raise Disconnected from error


async def _no_operation() -> None:
    """Do nothing. Used as the callback after an error response."""


COMMAND: Final = ("codex", "app-server")
COMPLETED: Final = "completed"
_NAME, _AGENT, _VIA = "Codex", "codex", "hook"
_STANDING_PERMISSION = (
    "run this and identical calls without asking, until this Codex session ends",
)
_ACCEPT_FOR_SESSION = "acceptForSession"
_ELICITATION_TOOL = "mcp_elicitation"
_TOOL_NAMES: Final[Mapping[str, str]] = {
    "item/commandExecution/requestApproval": "Bash",
    "item/fileChange/requestApproval": "apply_patch",
    "item/permissions/requestApproval": "permissions",
}
"""Tool names for permission requests by method. Codex's hooks use the same names."""
_HIDDEN_FIELDS = (
    "itemId",
    "turnId",
    "threadId",
    "startedAtMs",
    "approvalId",
    "environmentId",
    "availableDecisions",
)


class CannotShow(MidturnError):  # noqa: N818  named for the event
    """A request from the server cannot be shown to a person. The message contains the reason."""


class CodexServer(Headless, frozen=True, kw_only=True):
    """Settings to run Codex's app server. `thread` is the id of a session to resume."""

    thread: str = ""

    async def go(self, prompt: str) -> str | None:
        """Run one prompt until Codex is done. Return its status in Codex's terms (`completed`,
        `interrupted`). See `Headless.run`.

        Raises:
            AgentFailed: Codex cannot be started, refuses a request, fails, or exits early. Open
                questions stay open.
        """
        try:
            return await self.run(lambda process: _Session(self, process), prompt, COMPLETED)
        except RequestRefused as error:
            raise AgentFailed(f"{self.command[0]} refused a request: {error}.") from error


class _Session:
    """One session with a server."""

    def __init__(self, run: CodexServer, process: Process) -> None:
        if process.stdin is None or process.stdout is None:
            raise AgentFailed(f"{run.command[0]} was started without standard input and output.")
        self.pending_messages = PendingMessages()
        self._run = run
        self._inbox = Inbox(run, process)
        self._lines = JsonLines(process.stdout, process.stdin, self)
        self._listen_task = asyncio.ensure_future(self._listen())
        self._thread = ""
        self._turn = ""
        self._items: dict[str, JsonObject] = {}
        self._turn_ended: asyncio.Future[JsonObject] | None = None
        self._stop_task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Start or resume a session."""
        client: JsonObject = {"name": "midturn", "title": "midturn", "version": __version__}
        await self._lines.request(
            "initialize", {"clientInfo": client, "capabilities": {"experimentalApi": True}}
        )
        await self._lines.notify("initialized")
        place: JsonObject = {"cwd": str(self._run.cwd.absolute())}
        resumed: JsonObject = {"threadId": self._run.thread, **place}
        response = await (
            self._lines.request("thread/resume", resumed)
            if self._run.thread
            else self._lines.request("thread/start", place)
        )
        self._thread = text(members(response.get("thread")).get("id"))

    async def prompt(self, prompt: str) -> str:
        """Run a turn and return its status."""
        self._turn_ended = asyncio.get_running_loop().create_future()
        given: Json = [{"type": "text", "text": prompt}]
        turn = await self._lines.request("turn/start", {"threadId": self._thread, "input": given})
        self._turn = text(members(turn.get("turn")).get("id"))
        turn_result = await self._turn_ended
        if turn_result.get("status") == "failed":
            raise AgentFailed(
                "Codex failed:"
                f" {text(members(turn_result.get('error')).get('message')) or 'it does not say why'}"
            )
        return text(turn_result.get("status"))

    async def close(self) -> None:
        """Stop listening. Open questions stay open."""
        left = [task for task in (self._listen_task, self._stop_task) if task]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _listen(self) -> None:
        try:
            await self._lines.listen()
        finally:
            if self._turn_ended and not self._turn_ended.done():
                self._turn_ended.set_exception(Disconnected())

    # Messages from the server
    # ----------------------------------------------------------------------------------------------

    def handle_notification(self, method: str, params: JsonObject) -> None:
        """Handle a notification: text from the agent, an item that a later question may refer to,
        a withdrawn request, or the end of the turn.
        """
        match method:
            case "item/agentMessage/delta":
                self._run.say(text(params.get("delta")))
            case "item/started":
                item = members(params.get("item"))
                self._items[text(item.get("id"))] = item
            case "serverRequest/resolved":
                self._lines.withdraw(params.get("requestId"))
            case "turn/completed" if (
                params.get("threadId") == self._thread
                and self._turn_ended
                and not self._turn_ended.done()
            ):
                self._turn_ended.set_result(members(params.get("turn")))
            case _:
                pass

    async def handle_request(
        self, method: str, params: JsonObject
    ) -> tuple[JsonObject, AfterDelivery]:
        """Ask a person the server's question or permission request.

        Raises:
            RequestRefused: The request cannot be shown to a person. The error message contains
                the reason.
        """
        try:
            return await self._ask_person(method, params)
        except MidturnError as error:
            self.pending_messages.keep_unasked(_description(method, params), str(error))
            raise RequestRefused(f"{model_messages.FAILED} ({error})") from error

    async def _ask_person(
        self, method: str, params: JsonObject
    ) -> tuple[JsonObject, AfterDelivery]:
        match method:
            case "item/permissions/requestApproval":
                decision, delivered = await self._ask_permission(method, params)
                granted: Json = params.get("permissions") if decision.startswith("accept") else {}
                return {
                    "permissions": granted,
                    "scope": "session" if decision == _ACCEPT_FOR_SESSION else "turn",
                }, delivered
            case _ if method in _TOOL_NAMES:
                decision, delivered = await self._ask_permission(method, params)
                return {"decision": decision}, delivered
            case "item/tool/requestUserInput":
                return await self._questions(params)
            case "mcpServer/elicitation/request":
                return await self._elicitation(params)
            case _:
                raise method_not_found(method)

    async def _ask_permission(self, method: str, params: JsonObject) -> tuple[str, AfterDelivery]:
        """Ask whether a call may run. The question shows the call and the known details of the
        item that the request refers to.
        """
        tool, item = _TOOL_NAMES[method], self._items.get(text(params.get("itemId")), {})
        changes: JsonObject = {"changes": item["changes"]} if "changes" in item else {}
        call: JsonObject = {
            **{
                name: value
                for name, value in params.items()
                if name not in _HIDDEN_FIELDS and value is not None
            },
            **changes,
        }
        description = ":".join(
            filter(None, (text(params.get("itemId")), text(params.get("approvalId"))))
        )
        calls = self._calls()
        external_call = await calls.permission(
            description, tool, call, _STANDING_PERMISSION, calls.backlog.take_up
        )
        outcome = await self._wait(calls, external_call)
        self.pending_messages.keep(_description(method, params), outcome)
        delivered = _close_later(calls, external_call, outcome)
        match outcome:
            case Approved(arguments=None, always=always):
                return (_ACCEPT_FOR_SESSION if always else "accept"), delivered
            case TurnStopped():
                return "cancel", delivered
            case _:
                return "decline", delivered

    async def _questions(self, params: JsonObject) -> tuple[JsonObject, AfterDelivery]:
        """Ask the model's questions."""
        asked = objects(params.get("questions"))
        if any(each.get("isSecret") is True for each in asked):
            raise CannotShow(
                "Secrets are not supported here, because Codex would record the answer."
            )
        occasion = questions_of({"questions": [*asked]}, gates=True)
        if not isinstance(occasion, PutForm):
            raise CannotShow(
                occasion.why if isinstance(occasion, Unaskable) else "it contains no question"
            )
        outcome, delivered = await self._form(
            "request_user_input", {"questions": [*asked]}, occasion.form, _description("", params)
        )
        names = [text(each.get("id")) for each in asked]
        match outcome:
            case FormCompleted(answers):
                given = [
                    model_messages.labels_of(answers.get(question.id))
                    for question in occasion.form.questions
                ]
            case RepliedTo():
                given = [model_messages.labels_of(model_messages.replied(outcome))] * len(names)
            case _:
                await delivered()
                raise RequestRefused(model_messages.denial(outcome) or model_messages.FAILED)
        return {
            "answers": {
                name: {"answers": answer} for name, answer in zip(names, given, strict=True)
            }
        }, delivered

    async def _elicitation(self, params: JsonObject) -> tuple[JsonObject, AfterDelivery]:
        """Ask a question from an MCP server: a form, or whether to open a web address. A question
        that cannot be shown to a person is cancelled.
        """
        message = (
            f"The MCP server {text(params.get('serverName')) or '(no name)'} asks:"
            f" {text(params.get('message'))}"
        )
        if params.get("mode") == "url":
            return await self._address(message, text(params.get("url")))
        elicited = form_of(params.get("requestedSchema"), message)
        asked: JsonObject = {"message": message, "requested_schema": params.get("requestedSchema")}
        outcome, delivered = await self._form(_ELICITATION_TOOL, asked, elicited.form, message)
        if isinstance(outcome, FormCompleted) and elicited.declines(outcome.answers):
            return {"action": "decline"}, delivered
        if isinstance(outcome, FormCompleted):
            return {"action": "accept", "content": elicited.content(outcome.answers)}, delivered
        return self._unanswered(message, outcome), delivered

    async def _address(self, message: str, url: str) -> tuple[JsonObject, AfterDelivery]:
        outcome, delivered = await self._form(
            _ELICITATION_TOOL,
            {"message": message, "url": url},
            web_address_form(message, url),
            message,
        )
        if isinstance(outcome, FormCompleted):
            return {"action": "accept" if opens(outcome.answers) else "decline"}, delivered
        return self._unanswered(message, outcome), delivered

    def _unanswered(self, asked: str, outcome: Decided) -> JsonObject:
        self.pending_messages.keep(asked, outcome)
        return {"action": "decline" if isinstance(outcome, RepliedTo) else "cancel"}

    # The inbox
    # ----------------------------------------------------------------------------------------------

    async def _form(
        self, tool: str, arguments: JsonObject, form: Form, description: str
    ) -> tuple[Decided, AfterDelivery]:
        calls = self._calls()
        external_call = await calls.questions("", tool, arguments, form, calls.backlog.take_up)
        outcome = await self._wait(calls, external_call)
        if isinstance(outcome, FormCompleted | TurnStopped):
            self.pending_messages.keep(description, outcome)
        if isinstance(outcome, TurnStopped):
            self._stop_task = asyncio.ensure_future(self._stop())
            await asyncio.sleep(
                0
            )  # send the interruption before the answer, so that the server does not continue the turn
        return outcome, _close_later(calls, external_call, outcome)

    async def _wait(self, calls: ExternalCallService, external_call: ExternalCall) -> Decided:
        """Wait for an answer. If Codex withdraws the request, close the question. If this process
        exits, the question stays open.
        """
        try:
            return await calls.wait(external_call) or DecidedElsewhere()
        except asyncio.CancelledError:
            if self._lines.is_withdrawn():
                await asyncio.shield(calls.close(external_call, model_messages.ELSEWHERE))
            raise

    async def _stop(self) -> None:
        with suppress(RequestRefused, Disconnected):
            await self._lines.request(
                "turn/interrupt", {"threadId": self._thread, "turnId": self._turn}
            )

    def _calls(self) -> ExternalCallService:
        return self._inbox.calls(
            AskingAgent(name=_NAME, agent=_AGENT, session=self._thread, via=_VIA)
        )


def _description(method: str, params: JsonObject) -> str:
    """Return a short description of a request, for later messages to the model."""
    questions = [text(asked.get("question")) for asked in objects(params.get("questions"))]
    asked = (
        text(params.get("command"))
        or text(params.get("message"))
        or " ".join(questions)
        or _TOOL_NAMES.get(method, method)
    )
    return f'"{asked}"'


def _close_later(
    calls: ExternalCallService, external_call: ExternalCall, outcome: Decided
) -> AfterDelivery:
    """Return a callback that closes the question. Call it after the server receives the answer."""
    return lambda: calls.close(external_call, model_messages.recorded_content(outcome))
