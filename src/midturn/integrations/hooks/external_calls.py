"""The errands of agents: opened, waited for, taken up again, delivered, closed.

Theory of operation
===================

An errand is one call of another agent that a person has to decide about: a conversation with one turn and one call. Hooks, MCP and
ACP alike open, follow and close them through this class; a door adds the protocol.

**States.** Waiting (a request or an approval is open), decided (answered, but the agent has not heard), over (its turn has ended: the
agent was told, or another dialog decided). Independently of that, a process waits for it or not: see `events/open_question.py`.

**What may happen.**

- `permission`, `questions`: open one, unless the same call was asked about before, by the agent's own id for it.
- `outcome`, `wait`: look, or wait, for the decision.
- `tell`, `close`, `give_up`: record what the agent was told, or end the errand. `give_up` returns a decision made in the same moment.
- `cancel`, `stays_open`, `let_go`: the agent waits no more; the question stays open.
- `backlog`: what the session has left behind, taken up again or closed.

**Guarantees.**

1. One call is asked about once, whichever process hears of it: `_alone` is a lock by session, tool and arguments, held while the call is
   looked up and opened.
2. Every change is decided on the turn as it is while nothing else writes (`ErrandLog`). A check made before is only a hint, and is made
   again.
3. An answer counts only for the call that it was given to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, TypeAlias, cast

from msgspec.structs import replace

from midturn.errors import CallEnded, StoreLocked, Suspended
from midturn.events.open_question import Address, Asker, OpenQuestion, parse_address
from midturn.events.types import Event
from midturn.integrations.hooks.external_call import (
    PAUSE,
    Errand,
    ErrandLog,
    NoRoom,
    Room,
    answers_of,
    asked,
    asked_by,
    check_edit,
    decided,
    is_over,
    permission,
    reasons_of,
    tell,
)
from midturn.integrations.hooks.model_messages import Decided, DecidedElsewhere, FormCompleted, is_nameless, tool_name
from midturn.integrations.hooks.undelivered_answers import Backlog
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

_LOOK_ANYWAY = 1.0  # seconds after which it is seen whether the answer is still needed
_TRIES = 100
Find: TypeAlias = Callable[[str, JsonObject], Awaitable[Errand | None]]
"""Finds what was asked about a tool and its arguments."""


Rules: TypeAlias = Callable[[str, str, JsonObject], Ruling]
"""Say whether a call may run, by its agent, tool and arguments."""


def ask_always(agent: str, tool: str, arguments: JsonObject) -> Ruling:
    """Have every call asked about."""
    del agent, tool, arguments
    return Ruling("ask")


class Errands:
    """The calls of one agent that ask, in one store.

    Args:
        store: Where it is recorded.
        asker: Who asks.
        clock: What time it is.
        room: How much more may be asked; shared by whatever asks in this process.
        rules: What configuration says about a call of an agent.
        fixed: Whether the rules for a tool of an agent depend on no arguments.
    """

    def __init__(
        self,
        store: ConversationStore,
        asker: Asker,
        clock: Clock,
        room: Room | None = None,
        rules: Rules = ask_always,
        fixed: Callable[[str, str], bool] | None = None,
    ) -> None:
        self._store = store
        self._asker = asker
        self._clock = clock
        self._room = room or Room()
        self._log = ErrandLog(store, clock)
        self.backlog = Backlog(self._log, asker)
        self._rules = rules
        self._fixed = fixed

    def of(self, *, said: str = "", ends: str = "", defers: bool = False) -> Errands:
        """Return what asks for the same agent in another way: see `Asker.said`, `Asker.ends` and `Asker.defers`."""
        asker = replace(self._asker, said=said, ends=ends, defers=defers)
        return Errands(self._store, asker, self._clock, self._room, self._rules, self._fixed)

    async def permission(self, id: str, tool: str, arguments: JsonObject, always: Sequence[str] = (), left: Find | None = None) -> Errand:
        """Ask whether a call may run; a call that was asked about before is not asked about again, whichever process asked.

        Args:
            id: The agent's own id for the call.
            tool: What it calls.
            arguments: What with.
            always: See `Permit`.
            left: Finds what a process has asked that is gone.
        """
        async with self._alone(tool, arguments):
            return await self._before(id, tool, arguments, left) or await self._new_permission(id, tool, arguments, always)

    async def questions(self, id: str, tool: str, arguments: JsonObject, form: Form, left: Find | None = None) -> Errand:
        """Ask the questions of a form; a call that has asked them before does not ask them again. See `permission`."""
        async with self._alone(tool, arguments):
            return await self._before(id, tool, arguments, left) or await self._new_questions(id, tool, arguments, form)

    def _alone(self, tool: str, arguments: JsonObject) -> AbstractAsyncContextManager[None]:
        """Let no other process look for such a call or ask about it meanwhile: two processes may hear of one call at the same moment."""
        session = self._asker.cwd if is_nameless(self._asker.session) else self._asker.session
        return self._store.port.alone(canonical([session, tool_name(tool), arguments]).decode())

    async def _before(self, id: str, tool: str, arguments: JsonObject, left: Find | None) -> Errand | None:
        return await self.backlog.take_up_known(id, tool, arguments) or (await left(tool, arguments) if left else None)

    async def _new_permission(self, id: str, tool: str, arguments: JsonObject, always: Sequence[str]) -> Errand:
        asker = replace(self._asker, always=tuple(always))
        errand = Errand(conversation="", call="", id=id, tool=tool, arguments=arguments, asker=asker)
        ruling, about = self._rules(asker.agent, tool, arguments), f"{tool}: {_shortened(arguments)}"
        if ruling.run in ("unattended", "skip"):
            return await self._log.open(errand, about, lambda errand: permission(errand, ruling))
        fixed = self._rules is ask_always if self._fixed is None else self._fixed(asker.agent, tool)
        async with self._room_for(errand):
            return await self._log.open(errand, about, lambda errand: permission(errand, ruling, any_arguments=fixed))

    async def _new_questions(self, id: str, tool: str, arguments: JsonObject, form: Form) -> Errand:
        asking = Errand(conversation="", call="", id=id, tool=tool, arguments=arguments, asker=self._asker)
        async with self._room_for(asking):
            errand = await self._log.open(asking, form.questions[0].text)
            await self._collect(errand, Form(form.questions))
            return errand

    async def outcome(self, errand: Errand) -> Decided | None:
        """Look once what a person decided."""
        turn = await self.turn(errand)
        if has_unchecked_edit(turn):
            await self._log.write(errand, lambda turn: check_edit(errand.conversation, turn, self._rule_of(errand), self._log.ids))
            turn = await self.turn(errand)
        outcome = decided(turn)
        if outcome is not None or TurnView.last(turn).waits:
            return outcome
        first = asked(turn)
        if is_over(turn):
            answers = answers_of(turn)
            return FormCompleted(answers, reasons_of(turn, answers)) if answers else DecidedElsewhere()
        if first is None:
            return None
        form = Form.from_record(list(first.form.questions)) if first.form else Form((first.question.asked(first.question_id),))
        return await self._collect(errand, form)

    def _rule_of(self, errand: Errand) -> Callable[[Json], Ruling]:
        """Return the rules for a call with other arguments."""
        return lambda arguments: self._rules(self._asker.agent, errand.tool, members(arguments))

    async def wait(self, errand: Errand, seconds: float = inf, needed: Callable[[], bool] = lambda: True) -> Decided | None:
        """Wait until a person has decided, however long that takes; None after `seconds`, or when the answer is needed no more."""
        began, since = self._clock.monotonic(), 0
        while True:
            since = await self._told(since, min(_LOOK_ANYWAY, seconds - (self._clock.monotonic() - began)))
            outcome = await self.outcome(errand)
            if outcome is not None or self._clock.monotonic() - began >= seconds or not needed():
                return outcome

    async def _told(self, since: int, seconds: float) -> int:
        """Return when something may have happened to a question; see `StorePort.stirred`. At the latest after some seconds."""
        telling = asyncio.ensure_future(self._store.port.growing.stirred(since))
        waiting = {telling, asyncio.ensure_future(self._clock.sleep(seconds))} if since else {telling}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return telling.result() if telling.done() else since
        finally:
            for task in waiting:
                task.cancel()

    async def close(self, errand: Errand, content: str) -> None:
        """End an errand: `content` is what its agent reads. What still waits was decided where we could not see it."""
        await self._log.write(errand, lambda turn: closed_call(TurnView.last(turn), content, self._log.ids))

    async def give_up(self, errand: Errand, content: str) -> Decided | None:
        """End an errand that was not decided, as `close` does; else return what a person has decided in the same moment."""
        for _ in range(_TRIES):
            gone: list[bool] = []

            def decide(turn: Sequence[Event], gone: list[bool] = gone) -> Sequence[Event]:
                gone[:] = [is_over(turn)]
                return closed_call(TurnView.last(turn), content, self._log.ids) if TurnView.last(turn).waits else ()

            await self._log.write(errand, decide)
            outcome = await self.outcome(errand)
            if outcome is not None or any(gone):
                return None if isinstance(outcome, DecidedElsewhere) else outcome
            await asyncio.sleep(PAUSE)
        return None

    async def stays_open(self, errand: Errand) -> None:
        """Record that its agent was told that the question stays open. It is not waited for any more."""
        await self._log.note(errand, replace(errand.asker, left=True))

    async def let_go(self, errand: Errand, *, left: bool) -> None:
        """Note that nothing waits here any more: it stays open, and is taken up when the same is asked again. See `Asker.left`."""
        await self._log.note(errand, replace(errand.asker, process=None, left=left))

    async def cancel(self, errand: Errand) -> None:
        """Record that its asker has cancelled the call, and waits no more. The question stays open."""
        asker = replace(errand.asker, cancelled=True)
        await self._log.write(errand, lambda turn: asked_by(turn, asker, self._log.ids) if TurnView.last(turn).waits else ())

    async def tell(self, errand: Errand, content: str) -> None:
        """Record what its agent was told, before it is done with it."""
        await self._log.write(errand, lambda turn: tell(turn, content, self._log.ids))

    async def turn(self, errand: Errand) -> tuple[Event, ...]:
        """Return the events of an errand."""
        return await self._log.turn(errand.conversation)

    async def found(self, conversation: str) -> Errand | None:
        """Find something that was asked earlier, by its conversation, whichever process asked it."""
        return await self._log.find(conversation)

    async def is_unreadable(self, conversation: str) -> bool:
        """Say whether a conversation is there, and cannot be read just now."""
        return await self._log.is_unreadable(conversation)

    async def open_question(self, errand: Errand) -> OpenQuestion | None:
        """Return what a person is asked just now."""
        return next(iter(pending(await self.turn(errand), errand.conversation)), None)

    async def answer(self, errand: Errand, answers: Mapping[str, Json], via: str, shown: str) -> None:
        """Record what a person answered at this agent's own prompt, which showed the question with the ID `shown`.

        Raises:
            AnswerError: It does not fit.
            AlreadyAnswered: It was answered meanwhile.
            NotOpen: It is closed.
        """
        turn = await self.turn(errand)
        question = next((question for question in pending(turn, errand.conversation) if question.id == shown), None)
        if question is None:
            raise why_closed(turn, parse_address(shown) or Address(errand.conversation, errand.call))
        value: Json = dict(answers) if question.form else next(iter(answers.values()))
        await self._store.answer(question.id, value, via=via)

    async def leave(self, errand: Errand, via: str, shown: str) -> None:
        """Record that a person did not want to answer the question `shown`, at this agent's own prompt."""
        question = await self.open_question(errand)
        if question and question.id == shown:
            await self._store.answer(question.id, reply="", via=via)

    @asynccontextmanager
    async def _room_for(self, asking: Errand) -> AsyncGenerator[None]:
        """Let the block ask one more question.

        Raises:
            NoRoom: Too much waits already.
        """
        call: JsonObject = {"id": asking.id, "tool": asking.tool, "arguments": asking.arguments}
        try:
            async with self._room.taken(self._store, asking.asker, call, self._clock):
                yield
        except NoRoom as full:
            await self._note_refusal(full)
            raise

    async def _note_refusal(self, full: NoRoom) -> None:
        """Show at the question that waits longest that there were more."""
        errand = await self._log.find(full.oldest) if full.oldest else None
        if errand and not errand.asker.refused:
            await self._log.note(errand, replace(errand.asker, refused=True))

    async def _collect(self, errand: Errand, form: Form) -> Decided | None:
        """Ask what is to be asked next, and return the answers once all are there. The call is left open until its agent has them."""
        from midturn.agent.inquirer import Inquirer  # what asks for a permission goes without the machine of turns

        inquirer = Inquirer(self._store, errand.conversation, source=errand.asker.source)
        try:
            async with inquirer.call(errand.tool, errand.id, errand.arguments) as call:
                await call.ask_form(form)
                _leave_open(call, form)
        except _Collected as collected:
            return FormCompleted(collected.answers, reasons_of(await self.turn(errand), collected.answers))
        except StoreLocked:  # it is being answered just now
            return None
        except (Suspended, CallEnded):
            return decided(await self.turn(errand))


class _Collected(Suspended):
    """Every answer is there. The call stays open: it is over when its agent has read them."""

    def __init__(self, answers: dict[str, Json]) -> None:
        super().__init__("Every answer is there.")
        self.answers = answers


def _leave_open(call: InquirerCall, form: Form) -> None:
    raise _Collected({question.id: cast("Json", call.context.answers.get(question.id)) for question in form.questions})


def _shortened(arguments: JsonObject) -> str:
    """Return what names a call in a list: the first text among its arguments."""
    text = next((value for value in arguments.values() if isinstance(value, str)), "")
    return " ".join(text.split())[:80]
