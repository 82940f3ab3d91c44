"""The errands of agents: opened, waited for, taken up again, delivered, closed.

Theory of operation
===================

An errand is one call of another agent that a person has to decide about: a conversation with one turn and one call. Hooks, MCP and
ACP alike open, follow and close them through this class; a door adds the protocol.

**States.** Waiting (a request or an approval is open), decided (answered, but the agent has not heard), over (its turn has ended: the
agent was told, or another dialog decided). Independently of that, a process waits for it or not: see `record/asker.py`.

**What may happen.**

- `permission`, `questions`: open one, unless the same call was asked about before, by the agent's own id for it.
- `taken_up`, `still_open`: take over what a dead process has asked. `still_open` recognizes the agent by name and directory alone, which
  is enough for a question and not for an answer: it may be another session.
- `outcome`, `wait`: look, or wait, for the decision.
- `tell`, `close`, `give_up`: record what the agent was told, or end the errand. `give_up` returns a decision made in the same moment.
- `cancel`, `stays_open`, `let_go`: the agent waits no more; the question stays open.
- `go_on`: close what the session has left behind.

**Guarantees.**

1. One call is asked about once, whichever process hears of it: `_alone` is a lock by session, tool and arguments, held while the call is
   looked up and opened.
2. Every change is decided inside `StorePort.settle`, on the turn as it is at that moment. A check made before is only a hint, and `_take`
   makes it again.
3. An answer counts only for the call that it was given to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from typing import TypeAlias, cast

from msgspec.structs import replace

from midturn.agent.inquirer import Inquirer
from midturn.agent.inquirer_call import InquirerCall
from midturn.errors import CallEnded, StoreError, StoreLocked, Suspended
from midturn.foreign import words
from midturn.foreign.errand import (
    AnswersGiven,
    Decided,
    DecidedElsewhere,
    Errand,
    answers_of,
    asked,
    asked_by,
    begin,
    close,
    decided,
    errand_of,
    is_over,
    permission,
    reasons_of,
    shows,
    tell,
    waits,
)
from midturn.foreign.room import SESSION, NoRoom, Room
from midturn.foreign.words import is_nameless, tool_name
from midturn.ports import Clock
from midturn.question.form import Form
from midturn.record.asker import Address, Asker
from midturn.record.events import Approval, Event, InquiryRequest
from midturn.record.open_question import OpenQuestion
from midturn.store.batch import stamped
from midturn.store.lock import is_found, lives
from midturn.store.metadata import event_ids
from midturn.store.port import Settled
from midturn.store.store import ConversationStore
from midturn.turn.closed import why_closed
from midturn.turn.pending import pending
from midturn.values.json_value import Json, JsonObject, canonical
from midturn.values.text import stamp

_LOG = logging.getLogger(__name__)
_LOOK_ANYWAY = 1.0  # seconds after which it is seen whether the answer is still needed
_PAUSE = 0.1  # seconds before another try to write
_LOCKED_TRIES = 100
_UNNAMED = "unnamed"
_RECENT = 200  # conversations among which a call is looked for that was made before
Find: TypeAlias = Callable[[str, JsonObject], Awaitable[Errand | None]]
"""Finds what was asked about a tool and its arguments."""


def _always(errand: Errand, turn: Sequence[Event]) -> bool:
    del errand, turn
    return True


class Errands:
    """What one agent asks, in one store.

    Args:
        store: Where it is recorded.
        asker: Who asks.
        clock: What time it is.
        room: How much more may be asked; shared by whatever asks in this process.
    """

    def __init__(self, store: ConversationStore, asker: Asker, clock: Clock, room: Room | None = None) -> None:
        self._store = store
        self._asker = asker
        self._clock = clock
        self._room = room or Room()
        self._ids = event_ids()

    def of(self, *, ends: str = "", defers: bool = False) -> Errands:
        """Return what asks for the same agent in another way: see `Asker.ends` and `Asker.defers`."""
        return Errands(self._store, replace(self._asker, ends=ends, defers=defers), self._clock, self._room)

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
        """Let nobody else look for such a call or ask about it meanwhile: two processes may hear of one call at the same moment."""
        session = self._asker.cwd if is_nameless(self._asker.session) else self._asker.session
        return self._store.port.alone(canonical([session, tool_name(tool), arguments]).decode())

    async def _before(self, id: str, tool: str, arguments: JsonObject, left: Find | None) -> Errand | None:
        return await self._asked_before(id, tool, arguments) or (await left(tool, arguments) if left else None)

    async def _new_permission(self, id: str, tool: str, arguments: JsonObject, always: Sequence[str]) -> Errand:
        asker = replace(self._asker, always=tuple(always))
        errand = Errand(conversation="", call="", id=id, tool=tool, arguments=arguments, asker=asker)
        async with self._room_for(errand):
            return await self._opened(errand, f"{tool}: {_shortened(arguments)}", permission)

    async def _new_questions(self, id: str, tool: str, arguments: JsonObject, form: Form) -> Errand:
        asking = Errand(conversation="", call="", id=id, tool=tool, arguments=arguments, asker=self._asker)
        async with self._room_for(asking):
            errand = await self._opened(asking, form.questions[0].text)
            await self._collect(errand, Form(form.questions))
            return errand

    async def outcome(self, errand: Errand) -> Decided | None:
        """Look once what a person decided."""
        turn = await self.turn(errand)
        outcome = decided(turn)
        if outcome is not None or waits(turn):
            return outcome
        first = asked(turn)
        if is_over(turn):
            answers = answers_of(turn)
            return AnswersGiven(answers, reasons_of(turn, answers)) if answers else DecidedElsewhere()
        if first is None:
            return None
        form = Form.from_json(list(first.form.questions)) if first.form else Form((first.question.asked(first.question_id),))
        return await self._collect(errand, form)

    async def wait(self, errand: Errand, seconds: float = inf, needed: Callable[[], bool] = lambda: True) -> Decided | None:
        """Wait until a person has decided, however long that takes; None after `seconds`, or when nobody needs the answer here any more."""
        began, since = self._clock.monotonic(), 0
        while True:
            since = await self._told(since, min(_LOOK_ANYWAY, seconds - (self._clock.monotonic() - began)))
            outcome = await self.outcome(errand)
            if outcome is not None or self._clock.monotonic() - began >= seconds or not needed():
                return outcome

    async def _told(self, since: int, seconds: float) -> int:
        """Return when something may have happened to a question; see `StorePort.stirred`. At the latest after some seconds."""
        telling = asyncio.ensure_future(self._store.port.stirred(since))
        waiting = {telling, asyncio.ensure_future(self._clock.sleep(seconds))} if since else {telling}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return telling.result() if telling.done() else since
        finally:
            for task in waiting:
                task.cancel()

    async def close(self, errand: Errand, content: str) -> None:
        """End an errand: `content` is what its agent reads. What still waits was decided where we could not see it."""
        await self._write(errand, lambda turn: close(turn, content, self._ids))

    async def give_up(self, errand: Errand, content: str) -> Decided | None:
        """End an errand that nobody has decided about, as `close` does; else return what a person has decided in the same moment."""
        for _ in range(_LOCKED_TRIES):
            gone: list[bool] = []

            def decide(turn: Sequence[Event], gone: list[bool] = gone) -> Sequence[Event]:
                gone[:] = [is_over(turn)]
                return close(turn, content, self._ids) if waits(turn) else ()

            await self._write(errand, decide)
            outcome = await self.outcome(errand)
            if outcome is not None or any(gone):
                return None if isinstance(outcome, DecidedElsewhere) else outcome
            await asyncio.sleep(_PAUSE)
        return None

    async def stays_open(self, errand: Errand) -> None:
        """Record that its agent was told that the question stays open. It is not waited for any more."""
        await self._write(errand, lambda turn: asked_by(turn, replace(errand.asker, left=True), self._ids))

    async def go_on(self, tool: str = "", arguments: JsonObject | None = None) -> None:
        """Close what this session has left behind: it does something else now, perhaps this call.

        What was asked about this very call is left to `taken_up`. Nothing is closed that a process still waits for, that its run has
        ended with, or that our server has asked, whose answers are asked for by their id.
        """
        wanted = (tool_name(tool), canonical(arguments), self._asker.subagent)
        for errand in await self.unfinished():
            asker = errand.asker
            if lives(asker.process) or asker.defers or asker.via != self._asker.via:
                continue
            if (errand.tool, canonical(errand.arguments), asker.subagent) != wanted or not _is_same_call(errand, await self.turn(errand)):
                await self.close(errand, words.ELSEWHERE if asker.ends else words.gone_on(asker.name))

    async def tell(self, errand: Errand, content: str) -> None:
        """Record what its agent was told, before it is done with it."""
        await self._write(errand, lambda turn: tell(turn, content, self._ids))

    async def found(self, conversation: str) -> Errand | None:
        """Find something that was asked earlier, by its conversation, whichever process asked it."""
        try:
            return errand_of(conversation, await self._turn(conversation))
        except StoreError:
            return None

    async def is_unreadable(self, conversation: str) -> bool:
        """Say whether a conversation is there, and cannot be read just now."""
        try:
            await self._turn(conversation)
        except StoreError:
            return conversation in await self._store.port.ids()
        return False

    async def open_question(self, errand: Errand) -> OpenQuestion | None:
        """Return what a person is asked just now."""
        return next(iter(pending(await self.turn(errand), errand.conversation)), None)

    async def answer(self, errand: Errand, answers: Mapping[str, Json], via: str) -> None:
        """Record what a person answered at this agent's own prompt, which showed our question.

        Raises:
            AnswerError: It does not fit.
            AlreadyAnswered: It was answered meanwhile.
            NotOpen: It is closed.
        """
        turn = await self.turn(errand)
        question = next(iter(pending(turn, errand.conversation)), None)
        if question is None:
            asked = [event.event_id for event in turn if isinstance(event, InquiryRequest | Approval)]
            raise why_closed(turn, Address(errand.conversation, asked[-1] if asked else errand.call))
        value: Json = dict(answers) if question.form else next(iter(answers.values()))
        await self._store.answer(question.id, value, via=via)

    async def cancel(self, errand: Errand) -> None:
        """Record that its asker has cancelled the call, and waits no more. The question stays open."""
        asker = replace(errand.asker, cancelled=True)
        await self._write(errand, lambda turn: asked_by(turn, asker, self._ids) if waits(turn) else ())

    async def asked_again(self, errand: Errand) -> Errand:
        """Take up a question whose asker has cancelled its call, and now makes the same call again."""
        now = await self.found(errand.conversation) or errand
        return (await self._take(now) or now) if now.asker.cancelled else now

    async def leave(self, errand: Errand, via: str) -> None:
        """Record that a person did not want to answer, at this agent's own prompt."""
        question = await self.open_question(errand)
        if question:
            await self._store.answer(question.id, reply="", via=via)

    async def unfinished(self) -> list[Errand]:
        """Return what this session has asked and not yet heard about, oldest first."""
        mine = (self._asker.agent, self._asker.session)
        return [errand for errand in await self._all_unfinished() if (errand.asker.agent, errand.asker.session) == mine]

    async def matching(self, tool: str, arguments: JsonObject) -> list[Errand]:
        """Return what this session has asked about such a call and not yet heard, oldest first."""
        name, wanted = tool_name(tool), canonical(arguments)
        return [errand for errand in await self.unfinished() if errand.tool == name and canonical(errand.arguments) == wanted]

    async def shown_in(self, dialog: JsonObject) -> Errand | None:
        """Return what this agent has asked through our server and not yet heard, where a dialog that it is about to open shows just that.

        Its session may go by another name by now.
        """
        unfinished = await self._all_unfinished()
        return next((errand for errand in unfinished if errand.asker.agent == self._asker.agent and shows(dialog, errand)), None)

    async def _asked_before(self, id: str, tool: str, arguments: JsonObject) -> Errand | None:
        """Return what was asked under the id that the agent gives a call; where the process that asked is gone, this one waits now.

        What was closed since then says nothing about a call that comes again: the agent's own dialog had it, or the agent had gone on.
        """
        known = await self._known(id, tool_name(tool), arguments)
        if known is None or is_found(known.asker.process):
            return known
        is_closed = isinstance(decided(await self.turn(known)), DecidedElsewhere)
        return None if is_closed else await self._take(known)

    async def let_go(self, errand: Errand, *, left: bool) -> None:
        """Note that nobody waits here any more: it stays open, and is taken up when the same is asked again. See `Asker.left`."""
        await self._write(errand, lambda turn: asked_by(turn, replace(errand.asker, process=None, left=left), self._ids))

    async def taken_up(self, tool: str, arguments: JsonObject) -> Errand | None:
        """Return what was asked before by a process that is gone: it is the same question, and not asked twice. Now this one waits.

        What somebody has answered meanwhile counts only where this must be the call that it was asked for: see `counts_later`.
        """
        own = [errand for errand in await self.matching(tool, arguments) if errand.asker.subagent == self._asker.subagent]
        left = [errand for errand in own if not is_found(errand.asker.process)]
        fitting = [errand for errand in left if _is_same_call(errand, await self.turn(errand))]
        return await self._take(next(iter(fitting), None), _is_same_call)

    async def still_open(self, tool: str, arguments: JsonObject) -> Errand | None:
        """Take up what waits for a person, and was asked by a process that is gone.

        An agent that has no name for its session is the one that asked if it has the same name and works in the same directory. That is
        enough for a question that somebody has still to answer, and not for an answer: it may be another session.
        """
        wanted, own = canonical(arguments), self._asker
        for conversation, turn in await self._open_turns():
            errand = errand_of(conversation, turn) if waits(turn) else None
            if errand is None or (errand.tool, canonical(errand.arguments)) != (tool_name(tool), wanted):
                continue
            if _is_same(errand.asker, own) and not is_found(errand.asker.process):
                return await self._take(errand)
        return None

    async def _take(self, errand: Errand | None, fits: Callable[[Errand, Sequence[Event]], bool] = _always) -> Errand | None:
        """Have this process wait for what another one has asked; None where it does not fit any more when that is written."""
        if errand is None:
            return None
        before = errand.asker
        asker = replace(self._asker, always=before.always, refused=before.refused, round=before.round + before.cancelled)
        still: list[bool] = []

        def decide(turn: Sequence[Event]) -> Sequence[Event]:
            still[:] = [fits(errand, turn)]
            return asked_by(turn, asker, self._ids) if still[0] else ()

        await self._write(errand, decide)
        return replace(errand, asker=asker) if still[0] else None

    async def turn(self, errand: Errand) -> tuple[Event, ...]:
        """Return the events of an errand."""
        return await self._turn(errand.conversation)

    async def _all_unfinished(self) -> list[Errand]:
        """Return what anybody has asked and not yet heard about, oldest first."""
        found = [errand_of(conversation, turn) for conversation, turn in await self._open_turns() if not is_over(turn)]
        return [errand for errand in found if errand and not await self._has_ended(errand)]

    async def _has_ended(self, errand: Errand) -> bool:
        """Close what has come to its recorded end while no process was there to close it."""
        if not errand.asker.has_ended(stamp(self._clock)) or lives(errand.asker.process):
            return False
        await self.close(errand, errand.asker.in_own_dialog)
        return True

    async def _open_turns(self) -> list[tuple[str, tuple[Event, ...]]]:
        """Return what is open, oldest first. What is gone by now, or cannot be read, is passed over: it keeps nobody from asking."""
        found: list[tuple[str, tuple[Event, ...]]] = []
        for conversation in await self._store.port.ids(which="open"):
            try:
                found.append((conversation, await self._turn(conversation)))
            except StoreError as error:
                _LOG.warning("%s", error)
        return found

    async def _turn(self, conversation: str) -> tuple[Event, ...]:
        return tuple((await self._store.port.look(conversation)).turn.events)

    async def _write(self, errand: Errand, decide: Callable[[Sequence[Event]], Sequence[Event]]) -> None:
        for _ in range(_LOCKED_TRIES):
            settled = await self._store.port.settle(errand.conversation, lambda last: stamped(decide(last.events), self._clock))
            if isinstance(settled, Settled):
                return
            await asyncio.sleep(_PAUSE)
        raise StoreError(f"Another process holds conversation {errand.conversation}; what {errand.asker.name} was told is not recorded.")

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
        errand = await self.found(full.oldest) if full.oldest else None
        if errand and not errand.asker.refused:
            asker = replace(errand.asker, refused=True)
            await self._write(errand, lambda turn: asked_by(turn, asker, self._ids))

    async def _opened(self, asking: Errand, words: str, *asks: Callable[[Errand], Event]) -> Errand:
        """Record an errand, with what is asked of a person at once."""
        async with await self._store.create(f"{self._asker.name}: {words}") as journal:
            call = next(self._ids)
            errand = replace(asking, conversation=journal.conversation, call=call, id=asking.id or call, tool=tool_name(asking.tool))
            events = [*begin(errand, words), *(ask(errand) for ask in asks)]
            named = [event if event.event_id else replace(event, event_id=next(self._ids)) for event in events]
            await journal.append(stamped(named, self._clock))
        await self._store.port.describe(errand.conversation, labels=_labels(self._asker))
        return errand

    async def _known(self, id: str, tool: str, arguments: JsonObject) -> Errand | None:
        """Find a call that was made before, under the id that the agent gives it."""
        if not id:
            return None
        wanted = canonical(arguments)
        for conversation in reversed((await self._store.ids())[-_RECENT:]):
            errand = await self.found(conversation)
            if errand and (errand.id, errand.tool, errand.asker.session) == (id, tool, self._asker.session):
                return errand if canonical(errand.arguments) == wanted else None
        return None

    async def _collect(self, errand: Errand, form: Form) -> Decided | None:
        """Ask what is to be asked next, and return the answers once all are there. The call is left open until its agent has them."""
        inquirer = Inquirer(self._store, errand.conversation, source=errand.asker.source)
        try:
            async with inquirer.call(errand.tool, errand.id, errand.arguments) as call:
                await call.ask_form(form)
                _leave_open(call, form)
        except _Collected as collected:
            return AnswersGiven(collected.answers, reasons_of(await self.turn(errand), collected.answers))
        except StoreLocked:  # somebody answers just now
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


def counts_later(errand: Errand) -> bool:
    """Say whether an answer counts that came when no process waited for it any more.

    It does where nobody else can have decided meanwhile: no dialog of the agent has asked the same, and the agent has either heard that the
    question stays open, or is gone itself. A hook that is killed while its agent goes on leaves the call to the agent.
    """
    asker = errand.asker
    is_gone = asker.serves is not None and not lives(asker.serves)
    return not asker.ends and (asker.left or asker.defers or asker.via != "hook" or is_gone)


def _is_same_call(errand: Errand, turn: Sequence[Event]) -> bool:
    """Say whether a call of the same arguments may go on with what was asked before: a person has still to answer, or the answer counts."""
    return waits(turn) or counts_later(errand)


def _labels(asker: Asker) -> tuple[str, ...]:
    return asker.agent or asker.name, f"{SESSION}{asker.session or _UNNAMED}"


def _is_same(asked: Asker, now: Asker) -> bool:
    """Say whether these may be the same agent's: by its own name for its session, or by where it works."""
    if (asked.name, asked.via, asked.cwd) != (now.name, now.via, now.cwd):
        return False
    return asked.session == now.session or (is_nameless(asked.session) and is_nameless(now.session))


def _shortened(arguments: JsonObject) -> str:
    """Return what names a call in a list: the first text among its arguments."""
    text = next((value for value in arguments.values() if isinstance(value, str)), "")
    return " ".join(text.split())[:80]
