"""Codex, run with no one at its terminal: we are the client of its app server, and what it asks waits in the inbox."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, Protocol, TypeAlias, cast

from midturn import __version__
from midturn.errors import MidturnError
from midturn.events.open_question import Asker
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.claude import questions_of
from midturn.integrations.hooks.external_call import Errand
from midturn.integrations.hooks.external_calls import Errands
from midturn.integrations.hooks.headless import AgentFailed, Headless, Inbox, Unsaid
from midturn.integrations.hooks.hook_agent import PutForm, Unaskable
from midturn.integrations.hooks.model_messages import Approved, Decided, DecidedElsewhere, FormCompleted, RepliedTo, TurnStopped
from midturn.protocol_forms import form_of, opens, web_address_form
from midturn.question.form import Form
from midturn.question.json_value import Json, JsonObject, members, objects, text

# ----------------------------------------------------------------------------------------------------------------------
# JSON-RPC in lines: requests in both directions at once, each with its answer


Delivered: TypeAlias = Callable[[], Awaitable[None]]
_UNKNOWN, _FAILED = -32601, -32603


class RequestRefused(Exception):  # noqa: N818  it says what is the case
    """The other side answers a request with an error, or is to be answered with one."""

    def __init__(self, message: str, code: int = _FAILED) -> None:
        super().__init__(message)
        self.code = code


class Side(Protocol):
    """Our side of a connection."""

    async def asked(self, method: str, params: JsonObject) -> tuple[JsonObject, Delivered]:
        """Answer a request: with what, and what is to be done once it is sent.

        Raises:
            RequestRefused: There is no answer but an error.
        """
        ...

    def told(self, method: str, params: JsonObject) -> None:
        """Hear a notification."""
        ...


class HungUp(ConnectionError):  # noqa: N818  it says what is the case
    """The other side says nothing any more."""


def unknown(method: str) -> RequestRefused:
    """Return the answer to a request that is unknown here."""
    return RequestRefused(f"There is no method {method} here.", _UNKNOWN)


class JsonLines:
    """One connection. Each request of the other side is answered in a task of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: Side) -> None:
        self._reader = reader
        self._writer = writer
        self._side = side
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._answering: dict[str, asyncio.Task[None]] = {}
        self._delivering: set[asyncio.Task[None]] = set()
        self._is_over = False

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Ask the other side.

        Raises:
            RequestRefused: It answers with an error.
            HungUp: It went away.
        """
        if self._is_over:
            raise HungUp
        self._number += 1
        future = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        await self._send({"method": method, "id": self._number, "params": params})
        return members(await future)

    async def tell(self, method: str) -> None:
        """Notify the other side."""
        await self._send({"method": method})

    def withdraw(self, id: Json) -> None:
        """Answer a request of the other side no more: it is decided there."""
        task = self._answering.pop(json.dumps(id), None)
        if task:
            task.cancel()

    def is_withdrawn(self) -> bool:
        """Say whether the other side has withdrawn the request that the caller is answering."""
        return asyncio.current_task() not in self._answering.values()

    async def listen(self) -> None:
        """Take what comes, until nothing comes any more; what was to be answered is given up then, and what was answered is noted."""
        try:
            while line := await self._reader.readline():
                self._take(line)
        except (ValueError, ConnectionError):  # a line without end, or a stream that breaks
            pass
        finally:
            self._is_over = True
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(HungUp())
            tasks = list(self._answering.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, *self._delivering, return_exceptions=True)

    def _take(self, line: bytes) -> None:
        try:
            message = members(json.loads(line))
        except (ValueError, RecursionError):
            return  # no one waits for what is not a message
        method, number, params = text(message.get("method")), message.get("id"), members(message.get("params"))
        if method and number is not None:
            self._answering[json.dumps(number)] = asyncio.create_task(self._answer(method, params, number))
        elif method:
            self._side.told(method, params)
        elif isinstance(number, int) and (future := self._waiting.pop(number, None)) and not future.done():
            if "error" in message:
                future.set_exception(RequestRefused(text(members(message["error"]).get("message")) or "it does not say why"))
            else:
                future.set_result(message.get("result"))

    async def _answer(self, method: str, params: JsonObject, id: Json) -> None:
        delivered: Delivered = _nothing
        try:
            result, delivered = await self._side.asked(method, params)
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
            raise HungUp from error


async def _nothing() -> None:
    """Nothing is to be done once an error is sent."""


COMMAND: Final = ("codex", "app-server")
COMPLETED: Final = "completed"
_NAME, _AGENT, _VIA = "Codex", "codex", "hook"
_ALWAYS = ("run this, and the same again, without asking, until this session of Codex ends",)
_KEPT = "acceptForSession"
_ELICITS = "mcp_elicitation"
_CALLS: Final[Mapping[str, str]] = {
    "item/commandExecution/requestApproval": "Bash",
    "item/fileChange/requestApproval": "apply_patch",
    "item/permissions/requestApproval": "permissions",
}
"""Names of what it asks permission for, by the name that its hooks have for it."""
_IDS = ("itemId", "turnId", "threadId", "startedAtMs", "approvalId", "environmentId", "availableDecisions")


class Unshown(MidturnError):  # noqa: N818  it says what is the case
    """What the server asks can be shown to no one; the message says why."""


class CodexServer(Headless, frozen=True, kw_only=True):
    """Codex's app server, as it is run; `thread` is a session of Codex to go on with."""

    thread: str = ""

    async def go(self, prompt: str) -> str | None:
        """Run one prompt to its end; return how it ended, as Codex says it (`completed`, `interrupted`). See `Headless.run`.

        Raises:
            AgentFailed: It cannot be started, refuses, fails, or ends in the middle. What it asked stays open.
        """
        try:
            return await self.run(lambda process: _Talk(self, process), prompt, COMPLETED)
        except RequestRefused as error:
            raise AgentFailed(f"{self.command[0]} refuses: {error}.") from error


class _Talk:
    """One conversation with a server."""

    def __init__(self, run: CodexServer, process: Process) -> None:
        if process.stdin is None or process.stdout is None:
            raise AgentFailed(f"{run.command[0]} has no streams to speak over.")
        self.unsaid = Unsaid()
        self._run = run
        self._inbox = Inbox(run, process)
        self._lines = JsonLines(process.stdout, process.stdin, self)
        self._listening = asyncio.ensure_future(self._listen())
        self._thread = ""
        self._turn = ""
        self._items: dict[str, JsonObject] = {}
        self._over: asyncio.Future[JsonObject] | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Begin a session, or go on with one."""
        client: JsonObject = {"name": "midturn", "title": "midturn", "version": __version__}
        await self._lines.request("initialize", {"clientInfo": client, "capabilities": {"experimentalApi": True}})
        await self._lines.tell("initialized")
        place: JsonObject = {"cwd": str(self._run.cwd.absolute())}
        going_on: JsonObject = {"threadId": self._run.thread, **place}
        began = await (self._lines.request("thread/resume", going_on) if self._run.thread else self._lines.request("thread/start", place))
        self._thread = text(members(began.get("thread")).get("id"))

    async def prompt(self, prompt: str) -> str:
        """Have a turn; return how it ended."""
        self._over = asyncio.get_running_loop().create_future()
        given: Json = [{"type": "text", "text": prompt}]
        turn = await self._lines.request("turn/start", {"threadId": self._thread, "input": given})
        self._turn = text(members(turn.get("turn")).get("id"))
        over = await self._over
        if over.get("status") == "failed":
            raise AgentFailed(f"Codex failed: {text(members(over.get('error')).get('message')) or 'it does not say why'}")
        return text(over.get("status"))

    async def close(self) -> None:
        """Listen no more; what waits for an answer stays open."""
        left = [task for task in (self._listening, self._stopping) if task]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _listen(self) -> None:
        try:
            await self._lines.listen()
        finally:
            if self._over and not self._over.done():
                self._over.set_exception(HungUp())

    # What the server says -----------------------------------------------------------------------------------------------------

    def told(self, method: str, params: JsonObject) -> None:
        """Hear what happens: words, items that a question may be about, what was decided elsewhere, the end."""
        match method:
            case "item/agentMessage/delta":
                self._run.say(text(params.get("delta")))
            case "item/started":
                item = members(params.get("item"))
                self._items[text(item.get("id"))] = item
            case "serverRequest/resolved":
                self._lines.withdraw(params.get("requestId"))
            case "turn/completed" if params.get("threadId") == self._thread and self._over and not self._over.done():
                self._over.set_result(members(params.get("turn")))
            case _:
                pass

    async def asked(self, method: str, params: JsonObject) -> tuple[JsonObject, Delivered]:
        """Ask a person what the server asks.

        Raises:
            RequestRefused: It can be shown to no one; the server hears why.
        """
        try:
            return await self._put(method, params)
        except MidturnError as error:
            self.unsaid.keep_unasked(_named(method, params), str(error))
            raise RequestRefused(f"{model_messages.FAILED} ({error})") from error

    async def _put(self, method: str, params: JsonObject) -> tuple[JsonObject, Delivered]:
        match method:
            case "item/permissions/requestApproval":
                decision, delivered = await self._permitted(method, params)
                granted: Json = params.get("permissions") if decision.startswith("accept") else {}
                return {"permissions": granted, "scope": "session" if decision == _KEPT else "turn"}, delivered
            case _ if method in _CALLS:
                decision, delivered = await self._permitted(method, params)
                return {"decision": decision}, delivered
            case "item/tool/requestUserInput":
                return await self._questions(params)
            case "mcpServer/elicitation/request":
                return await self._elicitation(params)
            case _:
                raise unknown(method)

    async def _permitted(self, method: str, params: JsonObject) -> tuple[str, Delivered]:
        """Ask whether a call may run: the call is shown, with what is known of the item that it is."""
        tool, item = _CALLS[method], self._items.get(text(params.get("itemId")), {})
        changes: JsonObject = {"changes": item["changes"]} if "changes" in item else {}
        call: JsonObject = {**{name: value for name, value in params.items() if name not in _IDS and value is not None}, **changes}
        named = ":".join(filter(None, (text(params.get("itemId")), text(params.get("approvalId")))))
        errands = self._errands()
        errand = await errands.permission(named, tool, call, _ALWAYS, errands.backlog.take_up)
        outcome = await self._waited(errands, errand)
        self.unsaid.keep(_named(method, params), outcome)
        delivered = _closing(errands, errand, outcome)
        match outcome:
            case Approved(arguments=None, always=always):
                return (_KEPT if always else "accept"), delivered
            case TurnStopped():
                return "cancel", delivered
            case _:
                return "decline", delivered

    async def _questions(self, params: JsonObject) -> tuple[JsonObject, Delivered]:
        """Ask its model's questions."""
        asked = objects(params.get("questions"))
        if any(one.get("isSecret") is True for one in asked):
            raise Unshown("A secret is not asked for here: nothing may write it down.")
        occasion = questions_of({"questions": [*asked]}, gates=True)
        if not isinstance(occasion, PutForm):
            raise Unshown(occasion.why if isinstance(occasion, Unaskable) else "there is nothing in it")
        outcome, delivered = await self._form("request_user_input", {"questions": [*asked]}, occasion.form, _named("", params))
        names = [text(one.get("id")) for one in asked]
        match outcome:
            case FormCompleted(answers):
                given = [model_messages.labels_of(answers.get(question.id)) for question in occasion.form.questions]
            case RepliedTo():
                given = [model_messages.labels_of(model_messages.replied(outcome))] * len(names)
            case _:
                await delivered()
                raise RequestRefused(model_messages.denial(outcome) or model_messages.FAILED)
        return {"answers": {name: {"answers": answer} for name, answer in zip(names, given, strict=True)}}, delivered

    async def _elicitation(self, params: JsonObject) -> tuple[JsonObject, Delivered]:
        """Ask what a server of it asks: a form, or whether an address is opened. What could be shown to no one is cancelled."""
        message = f"The MCP server {text(params.get('serverName')) or '(no name)'} asks: {text(params.get('message'))}"
        if params.get("mode") == "url":
            return await self._address(message, text(params.get("url")))
        elicited = form_of(params.get("requestedSchema"), message)
        asked: JsonObject = {"message": message, "requested_schema": params.get("requestedSchema")}
        outcome, delivered = await self._form(_ELICITS, asked, elicited.form, message)
        if isinstance(outcome, FormCompleted) and elicited.declines(outcome.answers):
            return {"action": "decline"}, delivered
        if isinstance(outcome, FormCompleted):
            return {"action": "accept", "content": elicited.content(outcome.answers)}, delivered
        return self._unanswered(message, outcome), delivered

    async def _address(self, message: str, url: str) -> tuple[JsonObject, Delivered]:
        outcome, delivered = await self._form(_ELICITS, {"message": message, "url": url}, web_address_form(message, url), message)
        if isinstance(outcome, FormCompleted):
            return {"action": "accept" if opens(outcome.answers) else "decline"}, delivered
        return self._unanswered(message, outcome), delivered

    def _unanswered(self, asked: str, outcome: Decided) -> JsonObject:
        self.unsaid.keep(asked, outcome)
        return {"action": "decline" if isinstance(outcome, RepliedTo) else "cancel"}

    # The inbox ----------------------------------------------------------------------------------------------------------------

    async def _form(self, tool: str, arguments: JsonObject, form: Form, named: str) -> tuple[Decided, Delivered]:
        errands = self._errands()
        errand = await errands.questions("", tool, arguments, form, errands.backlog.take_up)
        outcome = await self._waited(errands, errand)
        if isinstance(outcome, FormCompleted | TurnStopped):
            self.unsaid.keep(named, outcome)
        if isinstance(outcome, TurnStopped):
            self._stopping = asyncio.ensure_future(self._stop())
            await asyncio.sleep(0)  # it is sent before the answer, with which the server would go on
        return outcome, _closing(errands, errand, outcome)

    async def _waited(self, errands: Errands, errand: Errand) -> Decided:
        """Wait for an answer here; what is decided there closes the question. If it is us who leave, it stays open."""
        try:
            return await errands.wait(errand) or DecidedElsewhere()
        except asyncio.CancelledError:
            if self._lines.is_withdrawn():
                await asyncio.shield(errands.close(errand, model_messages.ELSEWHERE))
            raise

    async def _stop(self) -> None:
        with suppress(RequestRefused, HungUp):
            await self._lines.request("turn/interrupt", {"threadId": self._thread, "turnId": self._turn})

    def _errands(self) -> Errands:
        return self._inbox.errands(Asker(name=_NAME, agent=_AGENT, session=self._thread, via=_VIA))


def _named(method: str, params: JsonObject) -> str:
    """Return how its model is told again of something that was asked."""
    questions = [text(asked.get("question")) for asked in objects(params.get("questions"))]
    asked = text(params.get("command")) or text(params.get("message")) or " ".join(questions) or _CALLS.get(method, method)
    return f'"{asked}"'


def _closing(errands: Errands, errand: Errand, outcome: Decided) -> Delivered:
    """Return what closes a question once the server has its answer."""
    return lambda: errands.close(errand, model_messages.decided(outcome))
