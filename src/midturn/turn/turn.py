"""The turn: inputs go in as values, effects come out as values, in order.

Theory of operation
===================

A turn begins with a message of the user and ends with the model's last word about it. `Turn.step` is its only entrance while it runs: it
takes one input (`turn/step.py`) and returns effects (`turn/step.py`). It never waits and never fails half-way, so the state between
two steps is always whole, and the driver may be killed between any two.

**States.** A turn is moving (the model, a tool or an attached person is busy), resting (every call waits for an absent person), or over.
Which of these it is, is not stored: it follows from the calls and the desk. "Over" in memory means that this run is done with it; the
record ends with a `TurnEnd` only where the turn itself has ended. A suspended turn and one left open by a dead model have none, and are
resumed from their events.

**One step.** `_happen` acts on the input. `_settle` then goes on until nothing moves by itself: calls walk past answers that are there
already, prompts open while there is room, and once every call has its response, the model is asked. Settling is a loop and not a
recursion, because a form of answers that are all known would otherwise nest as deep as it is long.

**Ownership.** Each fact has one writer:

- durable facts: `TurnRecord.apply`, a fold over events, called by `TurnState.write` alone
- recorded attempts that a run of a call has had: `Replay`, one for each run
- open decisions, their place and their misfits, by the event of the request: `Desk`
- what becomes of the decisions of one call: `Docket`
- the stage of a call: `Call`; its forms and their answers: `CallForms`; inquiry ids: `Requests`
- which calls there are, whether the model is asked, the end: `Turn`

What people and models say comes in at the `FrontDesk`, and the next prompt goes out there. Nothing calls its maker:
`turn → call → forms → walk, replay`, and all of them use `decision`. What has to be done further up is returned: a `Then` by a docket
to its call, an `Ending` by the front desk to its turn.

**Guarantees.**

1. A step's records are one batch, in front of its other effects. The driver makes the batch durable before it begins the rest.
2. Every request gets exactly one response, on every way out of the turn: see `_finish`, `_end`, `Call._respond`.
3. An input that comes too late is dropped, never an error: a key, a model and another process may all answer in the same moment, and
   the machine cannot make them take turns.
4. From every prefix of the events, `resume` leads to the same results and the same answers, and no question with a durable answer is
   asked again.
5. Nothing here reads a clock, a file or a random number; ids come from the iterator that the machine is given.

**Why `rest` is not part of `step`.** A coroutine that asks several things at once asks them one after the other. A turn that suspended
itself inside the step of the first ask would never hear the second. Only the driver knows that nothing else is coming.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from midturn.errors import AnswerError
from midturn.events import types as ev
from midturn.question.json_value import Json, json_equal
from midturn.question.reply import Deferred, EndedTurn, Unavailable
from midturn.routing import messages
from midturn.turn import step as steps
from midturn.turn.call import Call
from midturn.turn.ending import Ending, TurnLeft, ended_by_user, failed, out_of_time
from midturn.turn.record import CallRecord
from midturn.turn.state import Stage, Ticket, TurnState, why_the_model_is_not_asked

if TYPE_CHECKING:
    from midturn.events.outcome import Success, ToolError
    from midturn.question.reply import Reply
    from midturn.turn.decision import Misfit


_AGENT = "agent"  # key in the metadata of a call that a loop of several agents makes
MISFITS = 3  # replies that do not fit, before the prompter counts as failed


class Turn:
    """The machine of one turn.

    `step` takes one thing that happened and returns what is to be done: the events to record come first, as one batch, and are to be
    durable before anything else of the tuple begins. `resume` folds recorded events into the same machine. `ids` gives `event_id`s.
    """

    def __init__(self, settings: steps.TurnSettings, ids: Iterator[str]) -> None:
        self._state = TurnState(settings, ids)
        self.record = self._state.record
        """What the turn's events add up to."""
        self._calls: dict[str, Call] = {}  # those that this run has begun, and that are not done; shared with the front desk
        self._front = FrontDesk(self._state, self._calls)
        self._model_is_asked = False
        self._over = False
        self._has_children = False

    @classmethod
    def resume(cls, events: Sequence[ev.Event], settings: steps.TurnSettings, ids: Iterator[str]) -> tuple[Turn, tuple[steps.Effect, ...]]:
        """Fold the events of an open turn, and say what is to be done next. A turn that has ended needs nothing."""
        turn = cls.load(events, settings, ids)
        return turn, turn.step(steps.TurnResumed())

    @classmethod
    def load(cls, events: Sequence[ev.Event], settings: steps.TurnSettings, ids: Iterator[str]) -> Turn:
        """Fold the events of a turn, and do nothing yet."""
        turn = cls(settings, ids)
        for event in events:
            turn.record.apply(event)
        turn._over = turn.record.ended is not None
        return turn

    @property
    def is_over(self) -> bool:
        """Whether the turn is suspended, left open, or ended: nothing that happens now changes it."""
        return self._over

    def step(self, happened: steps.Happened) -> tuple[steps.Effect, ...]:
        """Take in one thing that happened; return what is to be done, in order. What comes too late is dropped."""
        if self._over:
            return ()
        self._happen(happened)
        self._settle()
        return self._state.drain()

    @property
    def only_people_can_move_it(self) -> bool:
        """Whether every call of the turn waits for a person who comes by later."""
        if self._over or not self._calls or not (self._state.desk.has_an_inbox or self._has_children):
            return False
        return not any(call.is_moving and not self._is_held_up(call) and not self._waits_inside(call) for call in self._calls.values())

    def _is_held_up(self, call: Call) -> bool:
        """Whether its tool cannot begin before that of another call is done, which waits for a person who comes by later."""
        return any(ahead in self._calls and self._calls[ahead].is_resting_inside for ahead in call.ahead)

    def _waits_inside(self, call: Call) -> bool:
        """Whether its function has made calls of its own, all of which wait for a person who comes by later."""
        inner = [other for other in self._calls.values() if other.outer == call.event]
        return bool(inner) and not any(other.is_moving and not self._waits_inside(other) for other in inner)

    def rest(self) -> tuple[steps.Effect, ...]:
        """Say what is to be done when nothing else is under way: a turn that only people who come by later can move is suspended.

        This is not part of `step`, because a coroutine that asks several things at once asks them one after the other.
        """
        if self.only_people_can_move_it:
            self._suspend()
        return self._state.drain()

    def needs_time(self, happened: steps.Happened) -> bool:
        """Whether what is asked now has a deadline, so that the turn needs to know what time it is."""
        match happened:
            case steps.ToolAwaits() | steps.ToolReturned():
                live = self._calls.get(happened.call)
                return live is not None and live.forms.has_deadline(happened.asking)
            case steps.ModelAnswered(parts):
                return any(self._is_allowed_in_time(call.name) for call in ev.call_requests(parts))
            case steps.CallBegun(name=name):
                return self._is_allowed_in_time(name)
            case steps.Foretold(call):
                return call in self._calls and self._is_allowed_in_time(self._calls[call].record.request.name)
            case steps.TurnResumed():
                return any(self._is_allowed_in_time(call.request.name) for call in self.record.open_calls())
            case _:
                return False

    def _is_allowed_in_time(self, tool: str) -> bool:
        """Whether calls of a tool have to be allowed before a deadline."""
        policy = self._state.settings.tools.get(tool)
        return policy is not None and policy.deadline is not None

    def content_of(self, call: str, outcome: Success | ToolError) -> str:
        """Return what the model would read of a call that runs, if its tool ended so now."""
        live = self._calls.get(call)
        return live.content_of(outcome) if live else ""

    # What happened --------------------------------------------------------------------------------------------------

    def _happen(self, happened: steps.Happened) -> None:  # noqa: C901, PLR0912  one line per input, the usual ones first
        match happened:
            case steps.ToolAwaits():
                if live := self._calls.get(happened.call):
                    live.awaits(happened.ask, happened.asking)
            case steps.ModelAnswered(parts):
                self._answered(parts)
            case (
                steps.ToolDone()
                | steps.ToolQueued()
                | steps.ToolReturned()
                | steps.Foretold()
                | steps.FormDropped()
                | steps.ChildWanted()
                | steps.ChildMoved()
            ):
                if live := self._calls.get(happened.call):
                    self._hear(live, happened)
            case (
                steps.UserReplied()
                | steps.AnsweredElsewhere()
                | steps.AssistantReplied()
                | steps.AssistantFailed()
                | steps.PromptFailed()
                | steps.Noted()
            ):
                match self._front.hear(happened):
                    case None:
                        pass
                    case TurnLeft(why):
                        self._leave_to_others(why)
                    case ending:
                        self._end(ending)
            case steps.TurnRequested():
                self._requested(happened)
            case steps.TurnResumed():
                self._resumed()
            case steps.CallBegun():
                self._begun(happened)
            case steps.CallLeft(call):
                if left := self._calls.pop(call, None):
                    left.abandon()
            case steps.LoopEnded():
                self._loop_ended()
            case steps.ModelFailed(error):
                self._leave(steps.LeaveOpen(error))
            case steps.TurnFailed(error):
                self._end(failed(error, "backend_error"))
            case steps.TimePassed(now):
                self._time_passed(now)
            case steps.TimeRead(now):
                self._state.now = now
            case steps.TimeIsUp(seconds):
                self._end(out_of_time(seconds))
            case steps.Interrupted(parts):
                self._interrupted(parts)
            case _ as other:
                assert_never(other)

    def _hear(self, call: Call, happened: steps.ToldOfCall) -> None:
        match happened:
            case steps.ToolDone(_, outcome):
                call.finished(outcome)
            case steps.ToolReturned(_, asking):
                call.returned(asking)
            case steps.ToolQueued(_, ahead):
                call.ahead = ahead
            case steps.Foretold(_, question, said):
                call.foretold(question, said)
            case steps.FormDropped(_, ask):
                call.dropped(ask)
            case steps.ChildWanted():
                self._has_children = True
                if call.stage is Stage.RUN:
                    call.children.run(happened)
            case steps.ChildMoved(now="ended"):  # the end of a turn inside a tool ends the one around it
                self._end(ended_by_user({call.event}))
            case steps.ChildMoved(_, child, now):
                call.children.hear(child, now)
            case _ as other:
                assert_never(other)

    def _time_passed(self, now: str) -> None:
        """Take the time; what has a deadline before that has no answer."""
        self._state.now = self._state.over = now
        for call in tuple(self._calls.values()):
            call.expire(now)

    def _loop_ended(self) -> None:
        if self.record.open_calls():
            self._suspend()
        else:
            self._finish()

    def _requested(self, request: steps.TurnRequested) -> None:
        write = self._state.write
        write(self._state.settings.start)
        if request.delta is not None:
            write(ev.ConfigDelta(delta=request.delta))
        write(ev.ChatRequest(content=request.content, author=request.author, schema=request.schema))
        self._ask_model()

    def _resumed(self) -> None:
        """Find out what an open turn does next."""
        if not self.record.started:
            self._end(failed("nothing of this turn can be read any more", "superseded"))
            return
        for record in self.record.open_calls():
            self._begin(record)
        if not self._calls and not self.record.waits_for_model:
            self._finish()

    def _answered(self, parts: Sequence[ev.Said]) -> None:
        """Record what the model said; its calls begin, and without calls the turn is over."""
        self._model_is_asked = False
        for part in parts:
            self._state.write(part)
        if not [*ev.call_requests(parts)]:
            self._finish()
            return
        for record in self.record.open_calls():
            self._begin(record)

    def _begun(self, begun: steps.CallBegun) -> None:
        """Begin a call of a loop that is not ours: one that was left unfinished starts again, and replays what was recorded in it."""
        if not self.record.started:
            self._state.write(self._state.settings.start)
        unfinished = (record for record in self.record.open_calls() if record.request.event_id not in self._calls)
        record = next((record for record in unfinished if is_call(record.request, begun)), None)
        if record is None:
            metadata: dict[str, Json] | None = {_AGENT: begun.agent} if begun.agent else None
            request = self._state.write(ev.ToolCallRequest(id=begun.id, name=begun.name, arguments=begun.arguments, metadata=metadata))
            record = self.record.calls[request.event_id]
        self._begin(record)
        if live := self._calls.get(record.request.event_id):
            live.outer = begun.outer

    def _interrupted(self, parts: Sequence[ev.Said]) -> None:
        """Ctrl-C with no prompt open: the questions that are open close, and the turn ends.

        Where one of them is for others to decide, the turn is left open for them instead, as if this process had died.
        """
        if barred := self._state.barred_from_ending(self._state.settings.at_prompt):
            self._leave_to_others(barred)
            return
        for part in parts:
            self._state.write(part)
        self._end(ended_by_user(self.record.asking_calls))

    # What follows ---------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Go on until nothing moves by itself: answers that are there are walked past, prompts open, the model is asked."""
        moved = True
        while moved and not self._over:
            for event, call in tuple(self._calls.items()):  # a copy: a call that is done leaves the map
                call.advance()
                if self._state.over:  # what the time was told of before the call came to it
                    call.expire(self._state.over)
                if call.stage is Stage.DONE:
                    self._calls.pop(event, None)
            moved = self._front.open_prompts()
        if self._over:
            return
        if not self._calls and not self._model_is_asked and self.record.waits_for_model:
            self._ask_model()

    def _begin(self, record: CallRecord) -> None:
        name = record.request.name
        policy = self._state.settings.tools.get(name)
        if policy is None:
            self._state.supersede_questions(record)  # they were asked when there still was such a tool
            content = messages.unknown_tool(name, list(self._state.settings.tools))
            self._state.write(ev.ToolCallResponse(id=record.request.id, content=content, is_error=True, call=record.request.event_id))
            return
        self._calls[record.request.event_id] = call = Call(self._state, record, policy)
        call.begin()

    def _ask_model(self) -> None:
        """Ask the model, unless the turn has had its share."""
        reached = why_the_model_is_not_asked(self.record, self._state.settings)
        if reached:
            limit, error = reached
            self._end(failed(error, "limit_exceeded", {"limit": limit}))
        else:
            self._model_is_asked = True
            self._state.want(steps.CallModel())

    # How it ends ----------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """End a turn that is complete. What is still open belongs to no call: another program has asked it."""
        for attempt in list(self.record.inquiries.values()):
            if attempt.response is None:
                self._state.supersede(attempt.request)
        self._state.write(ev.TurnEnd(status="completed"))
        self._leave(steps.EndTurn("completed"))

    def _end(self, ending: Ending) -> None:
        """Write the last batch, and stop whatever still moves."""
        self._state.end(ending)
        if self._model_is_asked:
            self._model_is_asked = False
            self._state.want(steps.StopModel())
        for call in self._calls.values():
            call.abandon()
        self._leave(steps.EndTurn(ending.status, ending.error))

    def _leave_to_others(self, why: str) -> None:
        """Leave a turn that a person wants to end, and may not."""
        self._state.want(steps.Warn(f"The turn stays open. {why}"))
        if self._model_is_asked:
            self._model_is_asked = False
            self._state.want(steps.StopModel())
        self._suspend()

    def _suspend(self) -> None:
        """Leave the turn to people. Where the log would still read as if it could go on, it says that this run has seen it all."""
        if self.record.is_ready:
            self._state.write(ev.Suspended(through=self.record.last))
        for call in self._calls.values():
            call.children.leave()
        self._leave(steps.SuspendTurn())

    def _leave(self, effect: steps.SuspendTurn | steps.LeaveOpen | steps.EndTurn) -> None:
        self._over = True
        self._state.want(effect)


class FrontDesk:
    """Where people and models say something about open decisions, and where the next prompt goes out.

    Each word goes to the call whose decision it is about. Only the end of the turn is no call's business: it is returned.
    """

    def __init__(self, state: TurnState, calls: Mapping[str, Call]) -> None:
        self._state = state
        self._desk = state.desk
        self._calls = calls

    def hear(self, happened: steps.ToldAtDesk) -> Ending | TurnLeft | None:
        """Act on what was said; return how the turn ends, where a person ends it, or that they leave it."""
        match happened:
            case steps.UserReplied():
                return self._replied(happened)
            case steps.AnsweredElsewhere():
                return self._answered_elsewhere(happened)
            case steps.AssistantReplied() | steps.AssistantFailed():
                self._consulted(happened)
            case steps.PromptFailed(id, error):
                if ticket := self._came_back(id):
                    self._fail(ticket, error)
            case steps.Noted(event_id, note):
                if ticket := self._desk.waiting_for(event_id):
                    call = self._calls[ticket.call]
                    call.follow(ticket.id, call.docket.note(ticket, note))
            case _ as other:
                assert_never(other)
        return None

    def open_prompts(self) -> bool:
        """Open the prompts that there is room for; True as soon as one closed by itself after all (the calls go on from there)."""
        while ticket := self._desk.next_in_line():
            if ticket.seen != self._state.written:  # routed again: an equal question may have been remembered meanwhile
                self._calls[ticket.call].route(ticket.decision)
                again = self._desk.find(ticket.id)
                if again is None or again.place != "line":
                    return True
                ticket = again
            self._show(ticket)
        return False

    def _replied(self, happened: steps.UserReplied) -> Ending | TurnLeft | None:
        """Act on a prompter's reply. One that does not fit is asked for again; the third such reply counts as the prompter's failure.

        What is not for the one who replied to decide is left to others.
        """
        ticket = self._came_back(happened.id)
        if ticket is None:
            return None
        misfit = self._take(ticket, happened.reply, happened.who, happened.digest or ticket.shown)
        if misfit is None or isinstance(misfit, Ending):
            return misfit
        if misfit.is_barred and isinstance(happened.reply, EndedTurn):
            return TurnLeft(misfit.why)
        if misfit.is_barred:
            call = self._calls[ticket.call]
            self._state.warn(call.record.request.name, misfit.why)
            call.route(ticket.decision.unattended())
            return None
        ticket.misfits += 1  # without a bound, a program's prompter that always errs would be asked for ever
        if ticket.misfits < MISFITS:
            self._show(ticket, misfit.why)
        else:
            self._fail(ticket, misfit.why)
        return None

    def _answered_elsewhere(self, happened: steps.AnsweredElsewhere) -> Ending | None:
        """Act on an answer from outside the prompt. Where it does not fit, nothing has happened."""
        ticket = self._desk.waiting_for(happened.event_id)
        if ticket is None:
            return self._ended_elsewhere(happened)
        call = self._calls[ticket.call]
        try:
            answers = call.forms.answers_to(ticket.id, happened.reply)
        except AnswerError:
            return None  # the door that brought it says that it was not accepted
        if answers is not None:
            call.take_all(ticket.id, answers, happened.who)
            return None
        taken = self._take(ticket, happened.reply, happened.who, happened.digest, happened.key)
        return taken if isinstance(taken, Ending) else None

    def _ended_elsewhere(self, happened: steps.AnsweredElsewhere) -> Ending | None:
        """Return how a turn ends that is ended from outside as a whole, named by its first event."""
        record = self._state.record
        if not isinstance(happened.reply, EndedTurn) or happened.event_id != record.start_id:
            return None
        return None if self._state.barred_from_ending(happened.who) else ended_by_user(record.asking_calls, happened.who)

    def _take(self, ticket: Ticket, reply: Reply, who: ev.AnsweredBy, digest: str = "", key: str = "") -> Misfit | Ending | None:
        """Act on a reply to a decision; return why it does not fit, or how it ends the turn. See `Call.decided` for the arguments."""
        call = self._calls[ticket.call]
        match reply:
            case EndedTurn():
                return call.docket.barred_from_ending(ticket, who) or ended_by_user({ticket.call}, who)
            case Unavailable():
                call.route(ticket.decision.unattended())
                return None
            case Deferred():
                call.route(ticket.decision.left_open())
                return None
            case _:
                return call.decided(ticket, reply, who, digest, key)

    def _consulted(self, happened: steps.AssistantReplied | steps.AssistantFailed) -> None:
        """Close a question that a model was asked, unless it was closed meanwhile."""
        ticket = self._desk.find(happened.id)
        if ticket is not None and ticket.place == "model":
            ticket.place = "back"
            call = self._calls[ticket.call]
            call.follow(ticket.id, call.docket.hear(ticket, happened))

    def _fail(self, ticket: Ticket, error: str) -> None:
        """Close a decision whose prompter has failed."""
        call = self._calls[ticket.call]
        call.follow(ticket.id, call.docket.close(ticket.id, ticket.decision.fail(error)))

    def _came_back(self, id: str) -> Ticket | None:
        """Return the decision whose prompt has come back: there is nothing to take off a screen."""
        ticket = self._desk.find(id)
        if ticket is not None:
            ticket.place = "back"
        return ticket

    def _show(self, ticket: Ticket, error: str | None = None) -> None:
        self._desk.show(ticket)
        prompt = ticket.decision.prompt()
        ticket.shown = prompt.digest
        self._state.want(steps.PromptUser(ticket.id, replace(prompt, error=error) if error else prompt))


def agent_of(request: ev.ToolCallRequest) -> str:
    """Return the name of the agent that made a call; empty if it is not recorded."""
    agent = (request.metadata or {}).get(_AGENT, "")
    return agent if isinstance(agent, str) else ""


def is_call(request: ev.ToolCallRequest, begun: steps.CallBegun) -> bool:
    """Say whether a recorded call is the one that another loop makes: of the same agent, tool, id and arguments.

    A recorded call without an agent was written before agents were recorded, and is that of any agent.
    """
    agent = (request.metadata or {}).get(_AGENT, begun.agent)
    same = (request.id, request.name, agent) == (begun.id, begun.name, begun.agent)
    return same and json_equal(request.arguments, begun.arguments)
