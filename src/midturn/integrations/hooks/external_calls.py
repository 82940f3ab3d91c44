"""Service for external calls: opens calls, waits for decisions, delivers the decisions to the
agents, and closes the calls.

Theory of operation
===================

An external call is a call by another agent that needs a person's decision. It is recorded as a
conversation with one turn and one tool call. Hooks, the MCP server and the ACP client use this
class to open, follow and close external calls. They only add the conversion from and to their
protocol.

**States.** Waiting: a question or a permission is open. Decided: a person has answered, but the
answer has not been delivered to the agent yet. Over: the turn has ended, because the agent received
the answer or another dialog decided. In each state, a process may or may not wait for the call; see
`events/open_question.py`.

**Operations.**

- `permission`, `questions`: open a call, unless the same call (by the agent's own call id) was
  opened before.
- `outcome`, `wait`: read the decision, or wait for it.
- `tell`, `close`, `give_up`: record a message to the agent, or end the call. `give_up` returns a
  decision made at the same moment.
- `cancel`, `stays_open`, `let_go`: record that the agent stops waiting. The question stays open.
- `backlog`: the calls of the session whose outcome was not delivered to the agent yet.

**Guarantees.**

1. A person is asked only once about each call, even if several processes receive it. `_exclusive`
   locks a combination of session, tool and arguments. A process holds the lock while it searches
   for the call and opens it.
2. Every change is decided on the current events of the turn while no other process can write
   (`ExternalCallLog`). An earlier check is only a hint and is repeated.
3. An answer applies only to the call for which a person gave it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, TypeAlias, cast

from msgspec.structs import replace

from midturn.errors import CallEnded, StoreLocked, Suspended
from midturn.events.open_question import Address, AskingAgent, OpenQuestion, parse_address
from midturn.events.types import Event
from midturn.integrations.hooks.external_call import (
    RETRY_DELAY,
    ExternalCall,
    ExternalCallLog,
    Quota,
    QuotaExceeded,
    answers_of,
    asked_by,
    check_edit,
    decision_of,
    first_question,
    is_over,
    permission,
    reasons_of,
    tell,
)
from midturn.integrations.hooks.model_messages import (
    Decided,
    DecidedElsewhere,
    FormCompleted,
    is_process_session,
    tool_name,
)
from midturn.integrations.hooks.undelivered_answers import UndeliveredAnswers
from midturn.ports import Clock
from midturn.question.form import Form
from midturn.question.json_value import Json, JsonObject, canonical, members
from midturn.routing.rules import Ruling
from midturn.stores.store import ConversationStore
from midturn.turn.edits import has_unchecked_edit
from midturn.turn.pending import pending
from midturn.turn.view import TurnView, closed_call, why_closed

if TYPE_CHECKING:
    from midturn.agent.inquirer_call import InquirerCall

_POLL_INTERVAL = 1.0  # maximum seconds between two checks whether the agent still needs the answer
_MAX_ATTEMPTS = 100
FindEarlierCall: TypeAlias = Callable[[str, JsonObject], Awaitable[ExternalCall | None]]
"""Finds an earlier call with the same tool and arguments."""


Rules: TypeAlias = Callable[[str, str, JsonObject], Ruling]
"""Evaluates the permission rules for an agent, a tool and the arguments of a call."""


def ask_always(agent: str, tool: str, arguments: JsonObject) -> Ruling:
    """Require a person's permission for every call."""
    del agent, tool, arguments
    return Ruling("ask")


class ExternalCallService:
    """The external calls of one agent in one store.

    Args:
        store: Store to record the calls in.
        asker: The asking agent.
        clock: Clock for deadlines.
        quota: Limits for questions, shared by all services of this process.
        rules: Permission rules from the configuration.
        fixed: Returns whether the rules for an agent and a tool do not depend on the arguments.
    """

    def __init__(
        self,
        store: ConversationStore,
        asker: AskingAgent,
        clock: Clock,
        quota: Quota | None = None,
        rules: Rules = ask_always,
        fixed: Callable[[str, str], bool] | None = None,
    ) -> None:
        self._store = store
        self._asker = asker
        self._clock = clock
        self._quota = quota or Quota()
        self._log = ExternalCallLog(store, clock)
        self.backlog = UndeliveredAnswers(self._log, asker)
        self._rules = rules
        self._fixed = fixed

    def of(self, *, said: str = "", ends: str = "", defers: bool = False) -> ExternalCallService:
        """Return a service for the same agent with other settings. See `AskingAgent.said`,
        `AskingAgent.ends` and `AskingAgent.defers`.
        """
        asker = replace(self._asker, said=said, ends=ends, defers=defers)
        return ExternalCallService(
            self._store, asker, self._clock, self._quota, self._rules, self._fixed
        )

    async def permission(
        self,
        id: str,
        tool: str,
        arguments: JsonObject,
        always: Sequence[str] = (),
        left: FindEarlierCall | None = None,
    ) -> ExternalCall:
        """Ask whether a call may run. If a process already asked about the same call, return the
        earlier call.

        Args:
            id: The agent's own call id.
            tool: Name of the tool.
            arguments: Arguments of the call.
            always: Standing permissions that the agent offers. See `Permit`.
            left: Finds an equal call whose process has ended.
        """
        async with self._exclusive(tool, arguments):
            return await self._find_earlier(
                id, tool, arguments, left
            ) or await self._new_permission(id, tool, arguments, always)

    async def questions(
        self,
        id: str,
        tool: str,
        arguments: JsonObject,
        form: Form,
        left: FindEarlierCall | None = None,
    ) -> ExternalCall:
        """Ask the questions of a form. If the same call already asked these questions, return the
        earlier call. See `permission`.
        """
        async with self._exclusive(tool, arguments):
            return await self._find_earlier(id, tool, arguments, left) or await self._new_questions(
                id, tool, arguments, form
            )

    def _exclusive(self, tool: str, arguments: JsonObject) -> AbstractAsyncContextManager[None]:
        """Lock the call while this process searches for it and opens it, because two processes
        may receive the same call at the same moment.
        """
        session = (
            self._asker.cwd if is_process_session(self._asker.session) else self._asker.session
        )
        return self._store.port.alone(canonical([session, tool_name(tool), arguments]).decode())

    async def _find_earlier(
        self, id: str, tool: str, arguments: JsonObject, left: FindEarlierCall | None
    ) -> ExternalCall | None:
        return await self.backlog.take_up_known(id, tool, arguments) or (
            await left(tool, arguments) if left else None
        )

    async def _new_permission(
        self, id: str, tool: str, arguments: JsonObject, always: Sequence[str]
    ) -> ExternalCall:
        asker = replace(self._asker, always=tuple(always))
        external_call = ExternalCall(
            conversation="", call="", id=id, tool=tool, arguments=arguments, asker=asker
        )
        ruling, about = (
            self._rules(asker.agent, tool, arguments),
            f"{tool}: {_shortened(arguments)}",
        )
        if ruling.run in ("unattended", "skip"):
            return await self._log.open(
                external_call, about, lambda external_call: permission(external_call, ruling)
            )
        fixed = self._rules is ask_always if self._fixed is None else self._fixed(asker.agent, tool)
        async with self._within_quota(external_call):
            return await self._log.open(
                external_call,
                about,
                lambda external_call: permission(external_call, ruling, any_arguments=fixed),
            )

    async def _new_questions(
        self, id: str, tool: str, arguments: JsonObject, form: Form
    ) -> ExternalCall:
        asking = ExternalCall(
            conversation="", call="", id=id, tool=tool, arguments=arguments, asker=self._asker
        )
        async with self._within_quota(asking):
            external_call = await self._log.open(asking, form.questions[0].text)
            await self._collect(external_call, Form(form.questions))
            return external_call

    async def outcome(self, external_call: ExternalCall) -> Decided | None:
        """Return the decision, or None if there is no decision yet. Does not wait."""
        turn = await self.turn(external_call)
        if has_unchecked_edit(turn):
            await self._log.write(
                external_call,
                lambda turn: check_edit(
                    external_call.conversation, turn, self._rule_of(external_call), self._log.ids
                ),
            )
            turn = await self.turn(external_call)
        outcome = decision_of(turn)
        if outcome is not None or TurnView.last(turn).waits:
            return outcome
        first = first_question(turn)
        if is_over(turn):
            answers = answers_of(turn)
            return (
                FormCompleted(answers, reasons_of(turn, answers)) if answers else DecidedElsewhere()
            )
        if first is None:
            return None
        form = (
            Form.from_record(list(first.form.questions))
            if first.form
            else Form((first.question.asked(first.question_id),))
        )
        return await self._collect(external_call, form)

    def _rule_of(self, external_call: ExternalCall) -> Callable[[Json], Ruling]:
        """Return a function that evaluates the rules for this tool with edited arguments."""
        return lambda arguments: self._rules(
            self._asker.agent, external_call.tool, members(arguments)
        )

    async def wait(
        self,
        external_call: ExternalCall,
        seconds: float = inf,
        needed: Callable[[], bool] = lambda: True,
    ) -> Decided | None:
        """Wait for a decision. Return None after `seconds` (by default, there is no time limit), or
        when `needed` returns false.
        """
        began, since = self._clock.monotonic(), 0
        while True:
            since = await self._wait_for_change(
                since, min(_POLL_INTERVAL, seconds - (self._clock.monotonic() - began))
            )
            outcome = await self.outcome(external_call)
            if outcome is not None or self._clock.monotonic() - began >= seconds or not needed():
                return outcome

    async def _wait_for_change(self, since: int, seconds: float) -> int:
        """Wait until the store may have changed, at most `seconds`. See
        `StorePort.wait_for_change`.
        """
        change = asyncio.ensure_future(self._store.port.growing.wait_for_change(since))
        waiting = {change, asyncio.ensure_future(self._clock.sleep(seconds))} if since else {change}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return change.result() if change.done() else since
        finally:
            for task in waiting:
                task.cancel()

    async def close(self, external_call: ExternalCall, content: str) -> None:
        """End a call. `content` is the text for the agent. Open questions are closed as decided
        elsewhere.
        """
        await self._log.write(
            external_call, lambda turn: closed_call(TurnView.last(turn), content, self._log.ids)
        )

    async def give_up(self, external_call: ExternalCall, content: str) -> Decided | None:
        """End a call without a decision, like `close`. If a person decides at the same moment,
        return this decision.
        """
        for _ in range(_MAX_ATTEMPTS):
            gone: list[bool] = []

            def decide(turn: Sequence[Event], gone: list[bool] = gone) -> Sequence[Event]:
                gone[:] = [is_over(turn)]
                return (
                    closed_call(TurnView.last(turn), content, self._log.ids)
                    if TurnView.last(turn).waits
                    else ()
                )

            await self._log.write(external_call, decide)
            outcome = await self.outcome(external_call)
            if outcome is not None or any(gone):
                return None if isinstance(outcome, DecidedElsewhere) else outcome
            await asyncio.sleep(RETRY_DELAY)
        return None

    async def stays_open(self, external_call: ExternalCall) -> None:
        """Record that the agent stopped waiting, and was informed that the question stays open."""
        await self._log.note(external_call, replace(external_call.asker, left=True))

    async def let_go(self, external_call: ExternalCall, *, left: bool) -> None:
        """Record that no process waits for the call. It stays open. If the agent repeats it, a
        process waits for it again. See `AskingAgent.left`.
        """
        await self._log.note(external_call, replace(external_call.asker, process=None, left=left))

    async def cancel(self, external_call: ExternalCall) -> None:
        """Record that the agent cancelled the call. The question stays open."""
        asker = replace(external_call.asker, cancelled=True)
        await self._log.write(
            external_call,
            lambda turn: asked_by(turn, asker, self._log.ids) if TurnView.last(turn).waits else (),
        )

    async def tell(self, external_call: ExternalCall, content: str) -> None:
        """Record a message that was sent to the agent. The call does not end."""
        await self._log.write(external_call, lambda turn: tell(turn, content, self._log.ids))

    async def turn(self, external_call: ExternalCall) -> tuple[Event, ...]:
        """Return the events of a call."""
        return await self._log.turn(external_call.conversation)

    async def find_call(self, conversation: str) -> ExternalCall | None:
        """Return the call of a conversation, even if another process opened it. None if the
        conversation is missing or unreadable.
        """
        return await self._log.find(conversation)

    async def is_unreadable(self, conversation: str) -> bool:
        """Return whether the conversation exists but cannot be read now."""
        return await self._log.is_unreadable(conversation)

    async def open_question(self, external_call: ExternalCall) -> OpenQuestion | None:
        """Return the open question of a call, if any."""
        return next(iter(pending(await self.turn(external_call), external_call.conversation)), None)

    async def answer(
        self, external_call: ExternalCall, answers: Mapping[str, Json], via: str, shown: str
    ) -> None:
        """Record a person's answers from the agent's own prompt. `shown` is the id of the
        question that the prompt showed.

        Raises:
            AnswerError: An answer is invalid.
            AlreadyAnswered: The question was answered in the meantime.
            NotOpen: The question is closed.
        """
        turn = await self.turn(external_call)
        question = next(
            (
                question
                for question in pending(turn, external_call.conversation)
                if question.id == shown
            ),
            None,
        )
        if question is None:
            raise why_closed(
                turn,
                parse_address(shown) or Address(external_call.conversation, external_call.call),
            )
        value: Json = dict(answers) if question.form else next(iter(answers.values()))
        await self._store.answer(question.id, value, via=via)

    async def decline(self, external_call: ExternalCall, via: str, shown: str) -> None:
        """Record that a person declined the question `shown` at the agent's own prompt."""
        question = await self.open_question(external_call)
        if question and question.id == shown:
            await self._store.answer(question.id, reply="", via=via)

    @asynccontextmanager
    async def _within_quota(self, asking: ExternalCall) -> AsyncGenerator[None]:
        """Check the limits before the block asks one more question.

        Raises:
            QuotaExceeded: Too many questions are open.
        """
        call: JsonObject = {"id": asking.id, "tool": asking.tool, "arguments": asking.arguments}
        try:
            async with self._quota.admit(self._store, asking.asker, call, self._clock):
                yield
        except QuotaExceeded as full:
            await self._note_refusal(full)
            raise

    async def _note_refusal(self, full: QuotaExceeded) -> None:
        """Mark the agent's oldest open question, so that a person sees that midturn refused
        further questions from this agent.
        """
        external_call = await self._log.find(full.oldest) if full.oldest else None
        if external_call and not external_call.asker.refused:
            await self._log.note(external_call, replace(external_call.asker, refused=True))

    async def _collect(self, external_call: ExternalCall, form: Form) -> Decided | None:
        """Ask the next question of the form. If all questions are answered, return the answers.
        The call stays open until the answers are delivered.
        """
        from midturn.agent.inquirer import (
            Inquirer,
        )  # imported here, because permission requests do not need it

        inquirer = Inquirer(
            self._store, external_call.conversation, source=external_call.asker.source
        )
        try:
            async with inquirer.call(
                external_call.tool, external_call.id, external_call.arguments
            ) as call:
                await call.ask_form(form)
                _raise_collected(call, form)
        except _AllAnswered as collected:
            return FormCompleted(
                collected.answers, reasons_of(await self.turn(external_call), collected.answers)
            )
        except StoreLocked:  # another process is recording an answer
            return None
        except (Suspended, CallEnded):
            return decision_of(await self.turn(external_call))


class _AllAnswered(Suspended):
    """Raised when all answers are recorded, so that the call stays open until the agent receives
    the answers.
    """

    def __init__(self, answers: dict[str, Json]) -> None:
        super().__init__("All answers are recorded.")
        self.answers = answers


def _raise_collected(call: InquirerCall, form: Form) -> None:
    raise _AllAnswered(
        {
            question.id: cast("Json", call.context.answers.get(question.id))
            for question in form.questions
        }
    )


def _shortened(arguments: JsonObject) -> str:
    """Return a short description of a call for lists: the first string among its arguments."""
    text = next((value for value in arguments.values() if isinstance(value, str)), "")
    return " ".join(text.split())[:80]
