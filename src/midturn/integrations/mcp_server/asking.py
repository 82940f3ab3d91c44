"""`ask_user` and `check_answer`: a question is recorded, then every way to an answer races, and the first wins."""

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
from midturn.events.open_question import Asker
from midturn.integrations.hooks.clients import AGENTS
from midturn.integrations.hooks.external_call import QUICKEST, Errand, Room, is_called
from midturn.integrations.hooks.external_calls import Errands, Rules, ask_always
from midturn.integrations.hooks.hook_agent import process_of
from midturn.integrations.hooks.model_messages import Decided, nameless_session
from midturn.integrations.mcp_server import client
from midturn.integrations.mcp_server.client import PROOF, VIA, CallDialog, Caller, DialogShown, created
from midturn.ports import Clock
from midturn.question.json_value import JsonObject, canonical, members
from midturn.question.text import ASK_USER
from midturn.security.authorization import remember
from midturn.stores.lock import mark
from midturn.stores.store import ConversationStore
from midturn.tools.ask_user_call import FormRead, read_arguments

T = TypeVar("T")
CallAnswer: TypeAlias = types.CallToolResult | types.InputRequiredResult | dict[str, Any]
"""A dictionary is a task: the SDK has no type for it."""
_LOG = logging.getLogger(__name__)
_HANDLE = re.compile(r"(?P<conversation>[0-9]{1,20})-[a-z2-7]{12}")
_FORM = "form"  # the name of our one request in a result that requires input
_MOST_ASTRAY = 10  # how often a question is shown again to a client that brings something else than its answer
_MOST_BEGUN = 1_000
_PROGRESS = 10.0  # seconds between two signs of life
_NO_STATE = "Invalid or expired requestState: it is of no question that waits here. Nothing was asked. Call again without it."
_GONE = "The agent has asked something else since."
_CALL_AGAIN = "Go on with what does not depend on it, or ask again with the tool `check_answer` after a while."
_END_TURN = "Do not ask again now: end your turn, and say that you wait for an answer. It is there at the next `check_answer`."


class ServerWait(Struct, frozen=True, kw_only=True):
    """Waiting times of the server.

    Args:
        slice: How many seconds one call blocks.
        woken: A session of this agent (by how `midturn hook` calls it) is woken when an answer comes.
        quickest: See `CallDialog`.
        shared: Several clients talk with this process. None is known to be the one that asked a question, so a dialog shows only what its
            own call has just asked.
        tasks: A client that can leaves a call to run on as a task.
        rules: What configuration says about the calls of agents that ask for permission here.
    """

    slice: float = 45.0
    woken: frozenset[str] = frozenset()
    quickest: float = QUICKEST
    shared: bool = False
    tasks: bool = True
    rules: Rules = ask_always


class ServedCalls:
    """Calls of clients in this process."""

    def __init__(self, store: ConversationStore, environment: Mapping[str, str], clock: Clock, settings: ServerWait) -> None:
        self._store = store
        self._environment = environment
        self._clock = clock
        self._settings = settings
        self._shown: dict[str, float] = {}
        self._left: list[Errand] = []
        self._astray = Counter[str]()
        self._states: dict[str, str] = {}
        self._number = 0
        self._proving = secrets.token_bytes(32)
        self.begun: dict[str, dict[str, Any]] = {}
        """The newest tasks that this process has begun, by their ids: what was said of each."""
        self._room = Room()

    def caller(self, context: ServerRequestContext[Any]) -> Caller:
        """Return who calls."""
        return Caller.of(context, self._environment)

    def returning(self, context: ServerRequestContext[Any]) -> Caller:
        """Return who comes back to a question; where clients share this process, it may be anybody, whose dialog is not for it."""
        caller = self.caller(context)
        return replace(caller, shows_forms=False) if self._settings.shared else caller

    def errands(self, caller: Caller) -> Errands:
        """Return what this client asks."""
        client = caller.client
        here = mark(os.getpid())
        own = process_of(*AGENTS)
        asker = Asker(
            name=client.name,
            agent=client.agent,
            session=caller.session or nameless_session(here),
            via=VIA,
            cwd=os.getcwd(),  # noqa: PTH109  a text
            process=here,
            serves=mark(os.getppid()),
            itself=mark(own) if own else None,
            keeps_dialog=caller.keeps_dialog,
        )
        remember(asker.itself, asker.name)
        return Errands(self._store, asker, self._clock, self._room, self._settings.rules)

    async def ask(self, context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> CallAnswer:
        """Ask what the arguments say."""
        arguments = members(params.arguments)
        try:
            asked = read_arguments(arguments)
        except QuestionError as error:
            return client.wrong(f"Nothing was asked, because the arguments are wrong. Correct them and call it again.\n{error}")
        caller = self.caller(context)
        errands = self.errands(caller)
        left = (
            None if self._settings.shared else errands.backlog.take_up_open
        )  # where clients share this process, it may have been anybody's
        errand = await self._again(errands, params, arguments) or await errands.questions(
            self._id(caller), ASK_USER, arguments, asked.form, left
        )
        await self.withdraw(errands, errand)
        errand = await errands.backlog.take_up_cancelled(errand)
        if self._settings.tasks and caller.has_tasks and await errands.outcome(errand) is None:
            task = created(errand, await errands.turn(errand), self._clock)
            task["taskId"] = self.own_task(task["taskId"])
            self.begun[task["taskId"]] = task
            if len(self.begun) > _MOST_BEGUN:
                self.begun.pop(next(iter(self.begun)))
            return task
        call = _Call(caller=caller, context=context, params=params, errands=errands, errand=errand, asked=asked)
        return await self.unless_given_up(errand, self._raced(call, ticket=1))

    async def check(self, context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> CallAnswer:
        """Look for the answer to an earlier question, and wait a while for it."""
        arguments = members(params.arguments)
        caller = self.returning(context)
        errands = self.errands(caller)
        errand = await self.found(errands, str(arguments.get("id", "")))
        if errand is None:
            return client.wrong("There is no question with this id. Use the `id` that an earlier result gave you, or ask again.")
        ticket = arguments.get("ticket")
        call = _Call(caller=caller, context=context, params=params, errands=errands, errand=errand, asked=read_arguments(errand.arguments))
        return await self._raced(call, ticket=(ticket if isinstance(ticket, int) else 0) + 1)

    async def found(self, errands: Errands, handle: str) -> Errand | None:
        """Find what a client has asked earlier, perhaps through another process, by what it was told then."""
        named = _HANDLE.fullmatch(handle)
        errand = await errands.found(named["conversation"]) if named else None
        if errand is None or (errand.asker.via, errand.tool) != (VIA, ASK_USER):
            return None
        return errand if is_called(errand, await errands.turn(errand), handle) else None

    async def is_unreadable(self, errands: Errands, handle: str) -> bool:
        """Say whether a question may be there, and cannot be read just now."""
        named = _HANDLE.fullmatch(handle)
        return bool(named) and await errands.is_unreadable(named["conversation"])

    def dialog(self, caller: Caller, errands: Errands, errand: Errand) -> CallDialog:
        """Return the client's own dialog about a question."""
        return CallDialog(caller=caller, errands=errands, errand=errand, clock=self._clock, quickest=self._settings.quickest)

    def own_task(self, id: str) -> str:
        """Return what its client alone is told of a task: where clients share this process, more than the handle that its model reads."""
        if not self._settings.shared:
            return id
        plain, _, _ = id.partition(PROOF)
        return f"{plain}{PROOF}{hmac.new(self._proving, plain.encode(), 'sha256').hexdigest()[:32]}"

    def give_up(self, errand: Errand) -> None:
        """Take note that its asker waits no more; what it asks next withdraws the question. Which client asks next may not be known."""
        if not self._settings.shared:
            self._left.append(errand)

    # One call -----------------------------------------------------------------------------------------------------------------

    async def unless_given_up(self, errand: Errand, waiting: Coroutine[Any, Any, T]) -> T:
        """Wait for what becomes of a new call. Where it is cancelled, that is noted before anything else: the same call may be here again.

        Args:
            errand: What the call asks.
            waiting: Waits for the answer.
        """
        racing = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({racing})
        except asyncio.CancelledError:
            self.give_up(errand)
            racing.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.gather(racing, return_exceptions=True)
            raise
        return await racing

    async def _raced(self, call: _Call, ticket: int) -> CallAnswer:
        """Wait for the first answer, in the client's dialog or anywhere else."""
        dialog = self.dialog(call.caller, call.errands, call.errand)
        refused = not call.caller.pushes and await self._take_response(call, dialog)
        outcome = await call.errands.outcome(call.errand)
        if outcome is None and not call.caller.pushes and not refused and (shown := await dialog.next()):
            self._shown[shown.key] = self._clock.monotonic()
            return types.InputRequiredResult(input_requests={_FORM: shown.request}, request_state=self._state_of(call.errand, shown))
        if outcome is None:
            outcome = await self._waited(call, dialog)
        if outcome is None:
            return client.waiting(call.errand.handle, ticket, self._advice(call.caller, ticket)).result()
        answer = client.answered(call.asked, outcome)
        await call.errands.close(call.errand, answer.text)
        return answer.result()

    async def _take_response(self, call: _Call, dialog: CallDialog) -> bool:
        """Record what a client brings with the same call, made again. Say whether showing it the question once more leads to nothing."""
        brought = call.params.input_responses or {}
        response = brought.get(_FORM)
        shown = await dialog.next()
        began = self._shown.pop(shown.key, None) if shown and isinstance(response, types.ElicitResult) else None
        if shown is None or began is None or not isinstance(response, types.ElicitResult):
            self._astray[call.errand.conversation] += bool(brought)
            return self._astray[call.errand.conversation] > _MOST_ASTRAY
        return not await dialog.take(shown, response, self._clock.monotonic() - began)

    async def _waited(self, call: _Call, dialog: CallDialog) -> Decided | None:
        """Wait for a slice; as long as a dialog is open, where the client's clock stands still meanwhile."""
        shown = dialog.push(call.context) if call.caller.pushes else asyncio.sleep(0)
        async with self.signs_of_life(call.context, call.errands, call.errand), _beside(shown) as pushing:
            while True:
                outcome = await call.errands.wait(call.errand, self._settings.slice, lambda: not _has_failed(pushing))
                if outcome is None and _has_failed(pushing):
                    await pushing  # a person has answered, and it could not be written down: that is what there is to say
                if outcome is not None or pushing.done() or not call.caller.client.holds_clock:
                    return outcome

    @asynccontextmanager
    async def signs_of_life(self, context: ServerRequestContext[Any], errands: Errands, errand: Errand) -> AsyncGenerator[None]:
        """Let a client hear from us now and then, while the block waits."""
        async with _beside(self._tell(context, errands, errand)):
            yield

    async def _tell(self, context: ServerRequestContext[Any], errands: Errands, errand: Errand) -> None:
        for number in count(1):
            await self._clock.sleep(_PROGRESS)
            question = await errands.open_question(errand)
            how = f"midturn answer {question.id}" if question else "midturn inbox"
            await context.session.report_progress(number, None, f"Waiting for the user: {how}")

    def _advice(self, caller: Caller, ticket: int) -> str:
        if ticket == 1:
            return _CALL_AGAIN
        if caller.alone and caller.client.agent in self._settings.woken:
            return "Do not ask again now: end your turn, and you will be woken with the answer."
        return _END_TURN

    # Which question -----------------------------------------------------------------------------------------------------------

    def own_id(self, id: str) -> str:
        """Return a client's own id of its call; nothing where clients share this process, since another one may say the same."""
        return "" if self._settings.shared else id

    def _id(self, caller: Caller) -> str:
        """Return the id of a call; where the client gives none, one that no other call has."""
        self._number += 1
        here = mark(os.getpid())
        return self.own_id(caller.call_id) or f"{VIA}-{here.pid}-{here.started}-{self._number}"

    async def _again(self, errands: Errands, params: types.CallToolRequestParams, arguments: JsonObject) -> Errand | None:
        """Find the question of a call that is made again: with our form's answer, or after it was given up."""
        wanted = canonical(arguments)
        if params.request_state:
            names = self._stated(params.request_state).split("/", 1)  # of the question, and of the form that was shown of it
            found = [await self.found(errands, name) for name in names]
            errand = found[0]
            if errand is None or found[-1] != errand or canonical(errand.arguments) != wanted:
                raise MCPError(INVALID_PARAMS, _NO_STATE)
            return self._back(errand)
        left = (errand for errand in self._left if errand.tool == ASK_USER)
        return next((self._back(errand) for errand in left if canonical(errand.arguments) == wanted), None)

    def _back(self, errand: Errand) -> Errand:
        """Take note that its asker waits for it again."""
        self._left = [left for left in self._left if left.conversation != errand.conversation]
        return errand

    def _state_of(self, errand: Errand, shown: DialogShown) -> str:
        """Return what a client brings again with the answer of its form: another one for each form."""
        if not self._settings.shared:
            return f"{errand.handle}/{shown.key}"
        state = secrets.token_urlsafe(16)
        self._states[state] = errand.handle
        return state

    def _stated(self, state: str) -> str:
        return self._states.pop(state, "") if self._settings.shared else state

    async def withdraw(self, errands: Errands, but: Errand) -> None:
        """Close what was given up: its asker has asked something else by now."""
        left, self._left = self._left, []
        for errand in left:
            if errand.conversation != but.conversation:
                await errands.close(errand, _GONE)


class _Call(Struct, frozen=True, kw_only=True):
    """One request of a client, and the question that it is about."""

    caller: Caller
    context: ServerRequestContext[Any]
    params: types.CallToolRequestParams
    errands: Errands
    errand: Errand
    asked: FormRead


def _has_failed(dialog: asyncio.Task[None]) -> bool:
    return dialog.done() and not dialog.cancelled() and isinstance(dialog.exception(), MidturnError)


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncGenerator[asyncio.Task[None]]:
    """Do something while the block runs; it stops with the block."""
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
        except Exception:  # noqa: BLE001  the question waits for its answer all the same
            _LOG.exception("what goes on beside a call failed")
