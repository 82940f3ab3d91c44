"""The state machine of a turn. Inputs and effects are values.

Theory of operation
===================

A turn begins with a user message and ends with the model's last reply to it. `Turn.step` takes one
input and returns the effects (both are defined in `turn/inputs.py`). It never waits and never fails
halfway, so the state between two steps is always consistent, and the process can be killed between
any two steps.

**States.** A turn is moving (the model, a tool or an attached person is busy), resting (every call
waits for an absent person), or over. This state is not stored, but computed from the calls and the
decision queue. "Over" means that this run of the turn is done. The log contains a `TurnEnd` only if
the turn itself has ended. A turn that was suspended, or left open because the model was
unavailable, has no `TurnEnd` and can be resumed from its events. All transitions are listed in
`turn/state_table.py`.

**One step.** `_apply` processes the input. `_settle` then continues until the turn waits for
another input: calls use recorded answers, prompts are opened up to the maximum number, and the
model is asked once every call has its response. `_settle` is a loop, because with recursion a form
with many recorded answers would exceed the recursion limit.

**Ownership.** Each part of the state has one writer:

- recorded state: `TurnRecord.apply`, called by `StepOutput.write` for new events
- the recorded questions that a run of a call has matched: `Replay`, one for each run
- the open decisions and their states: `DecisionQueue`
- the position in a form and its answers: `FormRun`
- the stage of a call and its list of form runs: `Call`
- the list of calls, the model requests, and the end of the turn: `Turn`

Imports go in one direction: `turn → call → form_run → queue → decisions → record`. A lower layer
returns instructions to its caller: the queue returns a next action to the call, or a `TurnEnding`
to the turn.

**Guarantees.**

1. The events of a step are one batch and come before all other effects. The driver makes the batch
   durable before it performs the other effects.
2. Every request gets exactly one response, however the turn ends: see `_finish`, `_end`,
   `Call._respond`.
3. An input that comes too late is dropped without an error, because a person, a model and another
   process can answer at the same moment.
4. From every prefix of the events, `resume` leads to the same results and the same answers, and no
   question with a durable answer is asked again.
5. The machine does not read a clock, a file or random numbers. Ids come from an iterator that the
   caller passes in.

**Why `rest` is not part of `step`.** A tool that asks several questions concurrently sends them as
separate inputs. If the turn suspended itself in the step of the first question, it would never
receive the second. Only the driver knows that no further input is coming.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, assert_never

from midturn.errors import AnswerError
from midturn.events import types as ev
from midturn.question.json_value import Json, json_equal
from midturn.routing import messages
from midturn.turn import inputs as steps
from midturn.turn.call import Call
from midturn.turn.call_record import CallRecord
from midturn.turn.ending import TurnEnding, TurnLeft, ended_by_user, failed, out_of_time
from midturn.turn.limits import reached_model_limit
from midturn.turn.queue import CallAction, DecisionQueue
from midturn.turn.settings import TurnSettings
from midturn.turn.state_table import Stage
from midturn.turn.step_output import StepOutput

if TYPE_CHECKING:
    from midturn.events.outcome import Success, ToolError


_AGENT = "agent"
"""Metadata key for the agent that made a call, in an agent loop that runs several agents."""


class Turn:
    """The state machine of one turn.

    `step` takes one input and returns the effects: the events to record come first, as one batch,
    and must be durable before the other effects are performed. `resume` continues from recorded
    events.

    Args:
        settings: The settings of the turn.
        ids: Ids for new events.
    """

    def __init__(self, settings: TurnSettings, ids: Iterator[str]) -> None:
        self._output = StepOutput(settings, ids)
        self._queue = DecisionQueue(self._output)
        self._calls: dict[str, Call] = {}
        """The calls that this run began and that are not done, by the `event_id` of their requests.
        """
        self.record = self._output.record
        """The recorded state of the turn."""
        self._model_requested = False
        self._is_over = False
        self._has_children = False

    @classmethod
    def resume(
        cls, events: Sequence[ev.Event], settings: TurnSettings, ids: Iterator[str]
    ) -> tuple[Turn, tuple[steps.Effect, ...]]:
        """Load an open turn and return the effects that continue it. For a turn that has ended, no
        effects are returned.
        """
        turn = cls.load(events, settings, ids)
        return turn, turn.step(steps.TurnResumed())

    @classmethod
    def load(cls, events: Sequence[ev.Event], settings: TurnSettings, ids: Iterator[str]) -> Turn:
        """Load a turn from its events without continuing it."""
        turn = cls(settings, ids)
        for event in events:
            turn.record.apply(event)
        turn._is_over = turn.record.ended is not None
        return turn

    @property
    def is_over(self) -> bool:
        """Whether this run is done: the turn is suspended, left open or ended, and ignores further
        inputs.
        """
        return self._is_over

    def step(self, happened: steps.Happened) -> tuple[steps.Effect, ...]:
        """Process one input and return the effects, in order. An input that comes too late is
        dropped.
        """
        if self._is_over:
            return ()
        self._apply(happened)
        self._settle()
        return self._output.drain()

    def rest(self) -> tuple[steps.Effect, ...]:
        """Suspend the turn if only answers from absent people can continue it. Return the effects.

        Call this method when no other input is coming.
        """
        if self.only_people_can_move_it:
            self._suspend()
        return self._output.drain()

    @property
    def only_people_can_move_it(self) -> bool:
        """Whether every call of the turn waits for an absent person."""
        if self._is_over or not self._calls or not (self._queue.has_inbox or self._has_children):
            return False
        return not any(
            call.is_moving and not self._is_held_up(call) and not self._waits_inside(call)
            for call in self._calls.values()
        )

    def _is_held_up(self, call: Call) -> bool:
        """Return whether the tool of a call must wait for the tool of another call, which in turn
        waits for an absent person.
        """
        return any(
            ahead in self._calls and self._calls[ahead].is_resting_inside for ahead in call.ahead
        )

    def _waits_inside(self, call: Call) -> bool:
        """Return whether the function of a call made nested calls, all of which wait for an absent
        person.
        """
        inner = [other for other in self._calls.values() if other.outer == call.event]
        return bool(inner) and not any(
            other.is_moving and not self._waits_inside(other) for other in inner
        )

    def needs_time(self, happened: steps.Happened) -> bool:
        """Return whether processing an input can set a deadline, so that the current time must be
        reported first.
        """
        match happened:
            case steps.ToolAwaits() | steps.ToolReturned():
                call = self._calls.get(happened.call)
                return call is not None and call.has_deadline(happened.asking)
            case steps.ModelAnswered(parts):
                return any(
                    self._has_permission_deadline(call.name) for call in ev.call_requests(parts)
                )
            case steps.CallBegun(name=name):
                return self._has_permission_deadline(name)
            case steps.QuestionPreviewed(call):
                return call in self._calls and self._has_permission_deadline(
                    self._calls[call].record.request.name
                )
            case steps.TurnResumed():
                return any(
                    self._has_permission_deadline(call.request.name)
                    for call in self.record.open_calls()
                )
            case _:
                return False

    def _has_permission_deadline(self, tool: str) -> bool:
        policy = self._output.settings.tools.get(tool)
        return policy is not None and policy.deadline is not None

    def content_of(self, call: str, outcome: Success | ToolError) -> str:
        """Return the text that the model would read if the tool of a running call ended now. Empty
        if there is no such call.
        """
        live = self._calls.get(call)
        return live.content_of(outcome) if live else ""

    # Inputs
    # ----------------------------------------------------------------------------------------------

    def _apply(self, happened: steps.Happened) -> None:  # noqa: C901, PLR0912  one case per input, the frequent ones first
        match happened:
            case steps.ToolAwaits():
                if call := self._calls.get(happened.call):
                    call.awaits(happened.ask, happened.asking)
            case steps.ModelAnswered(parts):
                self._model_answered(parts)
            case (
                steps.ToolDone()
                | steps.ToolQueued()
                | steps.ToolReturned()
                | steps.QuestionPreviewed()
                | steps.FormDropped()
                | steps.ChildTurnRequested()
                | steps.ChildTurnChanged()
                | steps.ValueKept()
            ):
                if call := self._calls.get(happened.call):
                    self._apply_to_call(call, happened)
            case (
                steps.UserReplied()
                | steps.AnsweredElsewhere()
                | steps.AssistantReplied()
                | steps.AssistantFailed()
                | steps.PromptFailed()
                | steps.Noted()
            ):
                self._apply_to_decision(happened)
            case steps.TurnRequested():
                self._requested(happened)
            case steps.TurnResumed():
                self._resumed()
            case steps.CallBegun():
                self._call_begun(happened)
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
                self._output.now = now
            case steps.TimeIsUp(seconds):
                self._end(out_of_time(seconds))
            case steps.Interrupted(parts):
                self._interrupted(parts)
            case _ as other:
                assert_never(other)

    def _apply_to_call(self, call: Call, happened: steps.AboutCall) -> None:
        match happened:
            case steps.ToolDone(_, outcome):
                call.finished(outcome)
            case steps.ToolReturned(_, asking):
                call.returned(asking)
            case steps.ToolQueued(_, ahead):
                call.ahead = ahead
            case steps.QuestionPreviewed(_, question, ruling):
                call.previewed(question, ruling)
            case steps.FormDropped(_, ask):
                call.dropped(ask)
            case steps.ChildTurnRequested():
                self._has_children = True
                if call.stage is Stage.RUN:
                    call.children.start(happened)
            case steps.ChildTurnChanged(
                now="ended"
            ):  # a person who ends a nested turn also ends the outer turn
                self._end(ended_by_user({call.event}))
            case steps.ChildTurnChanged(_, child, now):
                call.children.set_state(child, now)
            case steps.ValueKept(_, number, name, value):
                call.keep(number, name, value)
            case _ as other:
                assert_never(other)

    def _apply_to_decision(self, happened: steps.AboutDecision) -> None:
        if isinstance(happened, steps.AnsweredElsewhere) and self._answered_as_map(happened):
            return
        match self._queue.receive(happened):
            case None:
                pass
            case CallAction(call, decision, action):
                self._calls[call].follow(decision, action)
            case TurnLeft(why):
                self._leave_to_others(why)
            case ending:
                self._end(ending)

    def _answered_as_map(self, happened: steps.AnsweredElsewhere) -> bool:
        """Process a map of answers to a whole form. Return False if the answer is no such map."""
        each = self._queue.waiting_for(happened.event_id)
        if each is None:
            return False
        call = self._calls[each.call]
        try:
            answers = call.answers_to_form(each.id, happened.reply)
        except AnswerError:
            return True  # the interface that received the answer reports the error
        if answers is None:
            return False
        call.take_all(each.id, answers, happened.who)
        return True

    def _time_passed(self, now: str) -> None:
        """Store the current time, and expire every decision whose deadline has passed."""
        self._output.now = self._output.deadlines_until = now
        for call in tuple(self._calls.values()):
            call.expire(now)

    def _requested(self, request: steps.TurnRequested) -> None:
        write = self._output.write
        write(self._output.settings.start)
        if request.delta is not None:
            write(ev.ConfigDelta(delta=request.delta))
        write(
            ev.ChatRequest(
                content=request.content,
                author=request.author,
                schema=request.schema,
                metadata=request.metadata,
            )
        )
        self._ask_model()

    def _resumed(self) -> None:
        """Continue an open turn: begin its open calls again."""
        if not self.record.started:
            self._end(failed("the events of this turn are unreadable", "superseded"))
            return
        for record in self.record.open_calls():
            self._begin(record)
        if not self._calls and not self.record.waits_for_model:
            self._finish()

    def _model_answered(self, parts: Sequence[ev.Said]) -> None:
        """Record the model's response and begin its calls. Without calls the turn is over."""
        self._model_requested = False
        for part in parts:
            self._output.write(part)
        if not [*ev.call_requests(parts)]:
            self._finish()
            return
        for record in self.record.open_calls():
            self._begin(record)

    def _call_begun(self, begun: steps.CallBegun) -> None:
        """Begin a call that another program's agent loop makes. If the same call was left
        unfinished, it begins again and is replayed.
        """
        if not self.record.started:
            self._output.write(self._output.settings.start)
        unfinished = (
            record
            for record in self.record.open_calls()
            if record.request.event_id not in self._calls
        )
        record = next((record for record in unfinished if is_call(record.request, begun)), None)
        if record is None:
            metadata: dict[str, Json] | None = {_AGENT: begun.agent} if begun.agent else None
            request = self._output.write(
                ev.ToolCallRequest(
                    id=begun.id, name=begun.name, arguments=begun.arguments, metadata=metadata
                )
            )
            record = self.record.calls[request.event_id]
        self._begin(record)
        if call := self._calls.get(record.request.event_id):
            call.outer = begun.outer

    def _loop_ended(self) -> None:
        if self.record.open_calls():
            self._suspend()
        else:
            self._finish()

    def _interrupted(self, parts: Sequence[ev.Said]) -> None:
        """Ctrl-C without an open prompt: close the open questions and end the turn.

        If other people have to decide one of these questions, the turn is left open for them, as if
        this process had died.
        """
        if barred := self._output.barred_from_ending(self._output.settings.at_prompt):
            self._leave_to_others(barred)
            return
        for part in parts:
            self._output.write(part)
        self._end(ended_by_user(self.record.asking_calls))

    # Settling
    # ----------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Continue until the turn waits for another input: use recorded answers, open prompts, and
        ask the model.
        """
        moved = True
        while moved and not self._is_over:
            for event, call in tuple(self._calls.items()):  # a copy: done calls are removed
                call.advance()
                if (
                    self._output.deadlines_until
                ):  # the time may have been reported before the call requested its decisions
                    call.expire(self._output.deadlines_until)
                if call.stage is Stage.DONE:
                    self._calls.pop(event, None)
            moved = self._open_prompts()
        if self._is_over:
            return
        if not self._calls and not self._model_requested and self.record.waits_for_model:
            self._ask_model()

    def _open_prompts(self) -> bool:
        """Open as many prompts as are allowed. Return True if a decision was closed instead, so
        that its call can continue.
        """
        while each := self._queue.next_in_line():
            if (
                each.routed_at != self._output.written
            ):  # an answer to the same question may have been remembered in the meantime
                self._calls[each.call].route(each.decision, each.screen)
                again = self._queue.find(each.id)
                if again is None or again.place != "line":
                    return True
                each = again
            self._queue.show(each)
        return False

    def _begin(self, record: CallRecord) -> None:
        name = record.request.name
        policy = self._output.settings.tools.get(name)
        if policy is None:
            self._output.supersede_questions(
                record
            )  # the tool existed when these questions were asked
            content = messages.unknown_tool(name, list(self._output.settings.tools))
            self._output.write(
                ev.ToolCallResponse(
                    id=record.request.id,
                    content=content,
                    is_error=True,
                    call=record.request.event_id,
                )
            )
            return
        self._calls[record.request.event_id] = call = Call(
            self._output, self._queue, record, policy
        )
        call.begin()

    def _ask_model(self) -> None:
        """Ask the model, or end the turn if a limit is reached."""
        reached = reached_model_limit(self.record, self._output.settings)
        if reached:
            limit, error = reached
            self._end(failed(error, "limit_exceeded", {"limit": limit}))
        else:
            self._model_requested = True
            self._output.want(steps.CallModel())

    # Ends
    # ----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """End a turn that is complete.

        Requests that are still open do not belong to a call: another program wrote them.
        """
        for request in self.record.open_requests:
            self._output.supersede(request)
        self._output.write(ev.TurnEnd(status="completed"))
        self._leave(steps.EndTurn("completed"))

    def _end(self, ending: TurnEnding) -> None:
        """Write the closing batch, and stop the model, all tools and all prompts."""
        self._output.end(ending)
        self._stop_model()
        for call in self._calls.values():
            call.abandon()
        self._leave(steps.EndTurn(ending.status, ending.error))

    def _leave_to_others(self, why: str) -> None:
        """Leave the turn open, because a person wants to end it but other people must decide some
        of its questions.
        """
        self._output.want(steps.Warn(f"The turn stays open. {why}"))
        self._stop_model()
        self._suspend()

    def _suspend(self) -> None:
        """Suspend the turn until absent people answer. If the turn would count as ready, record
        that this run processed every answer.
        """
        if self.record.is_ready:
            self._output.write(ev.Suspended(through=self.record.last))
        for call in self._calls.values():
            call.children.leave()
        self._leave(steps.SuspendTurn())

    def _stop_model(self) -> None:
        if self._model_requested:
            self._model_requested = False
            self._output.want(steps.StopModel())

    def _leave(self, effect: steps.SuspendTurn | steps.LeaveOpen | steps.EndTurn) -> None:
        self._is_over = True
        self._output.want(effect)


def agent_of(request: ev.ToolCallRequest) -> str:
    """Return the name of the agent that made a call. Empty if it is not recorded."""
    agent = (request.metadata or {}).get(_AGENT, "")
    return agent if isinstance(agent, str) else ""


def is_call(request: ev.ToolCallRequest, begun: steps.CallBegun) -> bool:
    """Return whether a recorded call has the same agent, tool, id and arguments as a call of an
    agent loop.

    A recorded call without an agent was written by an older version, and matches any agent.
    """
    agent = (request.metadata or {}).get(_AGENT, begun.agent)
    same = (request.id, request.name, agent) == (begun.id, begun.name, begun.agent)
    return same and json_equal(request.arguments, begun.arguments)
