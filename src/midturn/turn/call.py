"""One tool call: permission, questions, result, delivery.

A call waits for one approval (permission or delivery), or for one decision of each form run. The
`DecisionQueue` closes a decision and returns the next action, and `Call.follow` performs it. The
recorded state of a call is its `CallRecord`. Replay restores all other state.

The table `STAGES` in `turn/state_table.py` lists the stages of a call. The rows C1 to C25 there
describe this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from msgspec import UnsetType
from msgspec.structs import replace

from midturn.events.outcome import Success, ToolError
from midturn.events.types import (
    AnsweredBy,
    CallValue,
    Child,
    Image,
    Proposal,
    ToolCallResponse,
)
from midturn.question.json_value import Json, SecretValue, json_equal
from midturn.question.people import earliest
from midturn.question.question import Question
from midturn.question.reply import Answered, Reply, Submitted
from midturn.routing import messages
from midturn.routing.policy import ToolPolicy
from midturn.routing.rules import Ruling
from midturn.turn import decision as decisions, inputs as steps
from midturn.turn.answer_map import answers_to_form
from midturn.turn.approvals import DeliveryDecision, ReviewDecision, control_problem
from midturn.turn.call_record import CallRecord
from midturn.turn.decision import DecisionContext
from midturn.turn.edits import read_edits
from midturn.turn.form_run import AskResult, FormRun, FormRunContext
from midturn.turn.permission import PermissionDecision, Preview, recorded_preview
from midturn.turn.question import QuestionDecision
from midturn.turn.queue import DecisionQueue, FormScreen, OpenDecision
from midturn.turn.replay import Replay
from midturn.turn.requests import deadlines_of
from midturn.turn.result import result_for_model, with_reasons
from midturn.turn.state_table import STAGES, Move, Stage
from midturn.turn.step_output import StepOutput

UNATTENDED: Final = Ruling("unattended")
SWITCHED_OFF: Final = Ruling("skip")
"""The rule result for a tool that never needs permission (`UNATTENDED`), and for a disabled tool
(`SWITCHED_OFF`). Neither is recorded.
"""


class Call:
    """A tool call in the running process.

    Args:
        output: Receives the events and effects of the current step.
        queue: The open decisions of the turn.
        record: The recorded state of the call.
        policy: The policy of the tool.
        replay: Tracks which recorded questions this run of the call has matched. Default: a new
            `Replay`.
    """

    def __init__(
        self,
        output: StepOutput,
        queue: DecisionQueue,
        record: CallRecord,
        policy: ToolPolicy,
        replay: Replay | None = None,
    ) -> None:
        self.record = record
        self.event = record.request.event_id
        """The `event_id` of the request, which identifies the call."""
        self.stage = Stage.PERMIT
        self.children = ChildTurns(output, record)
        self.answers: dict[str, Json | SecretValue] = {}
        """The answers for the next run of the tool, by question id."""
        self.unanswered: dict[str, str] = {}
        """Why answers are missing, by question id, for the next run of the tool. Only for tools
        that handle missing answers.
        """
        self.ahead: tuple[str, ...] = ()
        """The `event_id`s of the calls whose tools must finish before this call's tool starts."""
        self.outer = ""
        """The `event_id` of the outer call, if another program's agent loop makes this call inside
        the function of an outer call. Empty otherwise.
        """
        self._output = output
        self._queue = queue
        self._context = DecisionContext(output.settings, output.record, record, policy)
        self._replay = replay or Replay(record)
        self._form_context = FormRunContext(output, queue, self._context, self._replay)
        self._runs: list[FormRun] = []
        self._run_count = 0
        self._approval_id: str | None = None
        """The id of the approval that the call waits for."""
        self._edit_to_check: PermissionDecision | None = None
        """The permission whose last edit is being checked by a Python rule function."""

    @property
    def waiting(self) -> list[str]:
        """The ids of the decisions that the call waits for: one approval, or one decision for
        each form run.
        """
        if self._approval_id:
            return [self._approval_id]
        return [run.decision.id for run in self._runs if run.decision]

    @property
    def is_moving(self) -> bool:
        """Whether the call can continue without an absent person: its tool is running, or a model
        or an attached person was asked.
        """
        if self.children.are_moving:
            return True
        waiting = self.waiting
        if not waiting:
            return not self.children.are_resting
        return not all(map(self._queue.is_in_inbox, waiting))

    @property
    def is_resting_inside(self) -> bool:
        """Whether the tool was started and now waits for an absent person."""
        return self.stage is Stage.RUN and not self.is_moving

    # Stages
    # ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin the call, or begin it again in a resumed turn. Decisions that are already recorded
        are not requested again.
        """
        name, policy = self.record.request.name, self._context.policy
        edited = self._edited_while_it_waited()
        ruling = policy.ruling(self.record.arguments if edited is None else edited.arguments)
        waiting = self.record.waiting("deliver")
        if ruling == SWITCHED_OFF:
            self._respond(messages.switched_off(name))
        elif not isinstance(self.record.arguments, dict):
            self._respond(messages.broken_arguments(name, "they could not be read"))
        elif policy.is_program and (problem := control_problem(self.record.arguments)):
            self._respond(messages.control_character(name, problem))
        elif waiting:
            self._move(Move.FINISH)
            self._deliver(
                waiting.id,
                decisions.Respond(waiting.content or "", bool(waiting.is_error), waiting.images),
            )
        elif self.record.is_past_deadline:
            self._respond(messages.not_allowed_in_time(name))
        elif edited is not None:
            self._ask_permission(ruling)
        elif ruling == UNATTENDED or (
            ruling.run != "skip" and PermissionDecision.was_given(self.record)
        ):
            self._run()
        else:
            self._ask_permission(ruling)

    def awaits(self, ask: int, asking: steps.FormWanted) -> None:
        """Begin a form run for a coroutine of the running tool."""
        if self._moves(Move.ASK):
            self._begin_form(ask, asking)

    def returned(self, asking: steps.FormWanted) -> None:
        """Begin a form run for a form that the tool returned. This run of the tool is over."""
        if self._moves(Move.RETURN):
            self._begin_form(None, asking)

    def dropped(self, ask: int) -> None:
        """End the form run of a coroutine that stopped waiting for its answers."""
        for run in [run for run in self._runs if run.ask == ask]:
            self._end_form(run)
            if run.decision is not None:
                self._queue.withdraw(run.decision.id)
                open_requests = [thread.last.request for thread in self.record.open_threads]
                for request in [
                    request for request in open_requests if request.event_id == run.decision.id
                ]:
                    self._output.supersede(request)

    def finished(self, outcome: Success | ToolError) -> None:
        """Process the tool's result, and deliver it according to the policy."""
        if not self._moves(Move.FINISH):
            return
        name = self.record.request.name
        content, is_error = result_for_model(self.record, outcome, self._replay)
        images = () if isinstance(outcome, ToolError) else outcome.images
        if isinstance(outcome, Success) and outcome.warning is not None:
            self._output.warn(name, outcome.warning)
        match self._context.policy.result:
            case "unattended":
                self._respond(content, is_error=is_error, images=images)
            case "skip":
                self._respond(messages.withheld(name))
            case "ask" | "edit":
                self._output.supersede_questions(self.record)
                self._withdraw_all()
                self._deliver(
                    self._queue.approval_id(self.record.request.id, "deliver"),
                    decisions.Respond(content, is_error, images),
                )
            case _ as other:
                assert_never(other)

    def abandon(self) -> None:
        """Stop the tool and close all prompts, because the turn ends or this process stops working
        on the call.
        """
        if self.stage is Stage.DONE:
            return
        was_running = self.stage is Stage.RUN
        self._move(Move.END)
        self._withdraw_all()
        if was_running:
            self._output.want(steps.StopTool(self.event))

    def keep(self, number: int, name: str, value: Json) -> None:
        """Record a value for later runs of the tool, unless the same value is already recorded."""
        if self.stage is not Stage.RUN:
            return
        known = self.record.values
        if name not in known or not json_equal(known[name], value):
            self._output.write(CallValue(call=self.event, name=name, value=value))
        self._output.want(steps.ConfirmValue(self.event, number))

    def content_of(self, outcome: Success | ToolError) -> str:
        """Return the text that the model would read if the tool ended now with this outcome."""
        return result_for_model(self.record, outcome, self._replay)[0]

    def has_deadline(self, asking: steps.FormWanted) -> bool:
        """Return whether a form has a deadline, set by its author or by the configuration."""
        return bool(deadlines_of(asking, self._context.policy))

    # Permission
    # ----------------------------------------------------------------------------------------------

    def previewed(self, question: Question[bool] | None, ruling: Ruling | None = None) -> None:
        """Ask for permission and preview the tool's first question, or check an edit.

        Args:
            question: The question. None if approving the call would not answer a question.
            ruling: The result of the tool's own rule function, if it has one.
        """
        if (checking := self._edit_to_check) is not None:
            self._edit_to_check = None
            edit = checking.edits.unchecked
            if edit is not None and self.stage is Stage.PERMIT:
                self._judge(checking, edit, ruling or self._context.policy.ruling(edit.arguments))
            return
        if (
            self.stage is Stage.PERMIT
            and self._approval_id is not None
            and self._queue.find(self._approval_id) is None
        ):
            preview = Preview(question.id, question.persisted()) if question is not None else None
            self.route(
                self._permission(
                    self._approval_id,
                    preview,
                    ruling or self._context.policy.ruling(self.record.arguments),
                )
            )

    def _edited_while_it_waited(self) -> PermissionDecision | None:
        """Return the open permission if a person edited the call. The edited call is then checked
        instead of the model's call.
        """
        waiting = self.record.waiting("run")
        # no permission is open, or it has no notes
        if waiting is None or not self._output.record.notes.get(waiting.id):
            return None
        permission = self._permission(waiting.id, None, Ruling("ask"))
        return permission if permission.edits.any else None

    def _ask_permission(self, ruling: Ruling) -> None:
        waiting = self.record.waiting("run")
        self._approval_id = (
            waiting.id if waiting else self._queue.approval_id(self.record.request.id, "run")
        )
        if (
            waiting is not None
            and read_edits(self._output.record.notes.get(waiting.id, ())).unchecked is not None
        ):
            self._check_edit(self._permission(waiting.id, None, ruling))
            return
        may_be_asked = ruling.run not in ("unattended", "skip")
        if (
            may_be_asked
            and waiting is None
            and self.record.request.name in self._output.settings.previewing
        ):
            self._output.previewing.add(self._approval_id)
            self._output.want(steps.PreviewQuestion(self.record.call))
        else:
            self.route(self._permission(self._approval_id, recorded_preview(waiting), ruling))

    def _permission(self, id: str, preview: Preview | None, ruling: Ruling) -> PermissionDecision:
        attached = self._output.settings.attached
        requires_person = self.record.undecided(id) is not None and not attached
        until = earliest(self._output.now, [self._context.policy.deadline])
        return PermissionDecision(
            self._context, id, attached, requires_person, preview, ruling, until
        )

    def _check_edit(self, permission: PermissionDecision) -> None:
        """Evaluate the rules for the last edit.

        If this process does not have the rules, the process that runs the turn evaluates them.
        """
        edit = permission.edits.unchecked
        ruling = None if edit is None else self._context.ruling_on_edit(edit.arguments)
        if edit is not None and ruling is not None:
            self._judge(permission, edit, ruling)
        elif edit is not None and self._output.settings.knows_rules:
            self._edit_to_check = permission
            self._output.want(
                steps.PreviewQuestion(replace(self.record.call, arguments=edit.arguments))
            )
        else:
            self.route(permission)

    def _judge(self, permission: PermissionDecision, edit: Proposal, ruling: Ruling) -> None:
        self.follow(permission.id, self._queue.judge(permission, edit, ruling))

    # Forms
    # ----------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Advance all form runs until they need decisions, the tool runs, or the call is done.

        This is a loop, because recursion could exceed the recursion limit: a replayed form can have
        many recorded answers.
        """
        moved = bool(self._runs)
        while moved:
            moved = False
            for run in tuple(self._runs):  # a call that is done has no form runs
                if (found := run.advance()) is None:
                    continue
                match found:
                    case AskResult():
                        self._finish_form(run, found)
                    case decisions.Respond(content, is_error, images):
                        self._respond(content, is_error=is_error, images=images)
                    case decision:
                        self.route(decision, run.screen)
                moved = True
                break

    def expire(self, now: str) -> None:
        """Close the decisions whose deadline has passed. The tool receives `NoAnswer`, or the call
        ends.
        """
        for waiting in self.waiting:
            run, each = self.form_run(waiting), self._queue.find(waiting)
            decision = each.decision if each else None
            deadline = (
                decision.deadline
                if isinstance(decision, PermissionDecision)
                else run.deadline
                if run
                else ""
            )
            if (
                deadline
                and deadline <= now
                and isinstance(decision, QuestionDecision | ReviewDecision | PermissionDecision)
            ):
                self.follow(waiting, self._queue.close(waiting, decision.expire()))
                self.advance()

    def form_run(self, decision: str) -> FormRun | None:
        """Return the form run that waits for a decision, or None if the decision is an approval of
        the call.
        """
        for run in self._runs:
            if run.decision is not None and run.decision.id == decision:
                return run
        return None

    def answers_to_form(self, decision: str, reply: Reply) -> dict[str, Answered] | None:
        """Return the answers to the whole form that waits for a decision, by question id. None if
        the reply is not a map of answers.

        Raises:
            AnswerError: The map is invalid for the form.
        """
        run = self.form_run(decision)
        return answers_to_form(run.walker, reply) if run else None

    def take_all(self, decision: str, answers: Mapping[str, Answered], who: AnsweredBy) -> None:
        """Answer the questions in the form that waits for a decision, one by one.

        Questions without an answer stay open. A map with all answers also completes the review.
        """
        run = self._run_waiting_for(decision)
        while each := self._queue.find(run.decision.id if run.decision else ""):
            question = each.decision
            reply = (
                answers.get(question.request.question_id)
                if isinstance(question, QuestionDecision)
                else Submitted()
            )
            # the sender wrote all the answers, so no review is needed
            digest = question.digest if isinstance(reply, Submitted) else ""
            taken = self._queue.take(each, reply, who, digest) if reply else None
            if taken is None or isinstance(taken, decisions.InvalidReply):
                return
            self.follow(each.id, taken)
            self.advance()

    def _begin_form(self, ask: int | None, asking: steps.FormWanted) -> None:
        self._run_count += 1
        self._runs.append(FormRun(self._form_context, self._run_count, ask, asking))

    def _run_waiting_for(self, decision: str) -> FormRun:
        run = self.form_run(decision)
        if run is None:
            raise AssertionError(f"no form waits for {decision!r}")
        return run

    def _end_form(self, run: FormRun) -> None:
        """Remove a form run, and release its screen for another form."""
        self._runs.remove(run)
        if run.screen is not None:
            self._queue.release(run.screen)

    def _finish_form(self, run: FormRun, result: AskResult) -> None:
        """Pass the answers to the waiting coroutine, or to the next run of the tool."""
        self._end_form(run)
        self.answers.update(result.answers)
        if result.unanswered:
            self.unanswered = {**self.unanswered, **result.unanswered}
        elif self.unanswered and result.is_complete:
            self.unanswered = {
                key: why for key, why in self.unanswered.items() if key not in result.given
            }
        if result.ask is None:
            self._run()
        else:
            self._output.want(
                steps.GiveAnswers(self.event, result.ask, result.given, result.at_once)
            )

    # Decisions
    # ----------------------------------------------------------------------------------------------

    def route(self, decision: decisions.Decision, screen: FormScreen | None = None) -> None:
        """Route a decision. If routing closes the decision, follow the next action."""
        self.follow(decision.id, self._queue.route(decision, screen))

    def take(
        self, each: OpenDecision, reply: decisions.DecisionReply, who: AnsweredBy, digest: str = ""
    ) -> decisions.InvalidReply | None:
        """Process a reply and perform the next action. Return an `InvalidReply` if the reply is
        invalid. See `DecisionQueue.take`.
        """
        taken = self._queue.take(each, reply, who, digest)
        if isinstance(taken, decisions.InvalidReply):
            return taken
        self.follow(each.id, taken)
        return None

    def follow(self, decision: str, action: decisions.NextAction | None) -> None:  # noqa: C901, PLR0912  one case per action
        """Perform the next action after a decision. If `action` is None, the decision is still open
        and nothing happens.
        """
        match action:
            case None:
                pass
            case decisions.UseAnswer() | decisions.StepBack() | decisions.SubmitForm():
                self._run_waiting_for(decision).accept(action)
            case decisions.LeaveForm(replied):
                run = self._run_waiting_for(decision)
                if result := run.report_reply(replied.text):
                    self._finish_form(run, result)
                else:
                    run.accept(action)
            case decisions.FailQuestion(message=message):
                run = self._run_waiting_for(decision)
                if result := run.fail(action):
                    self._finish_form(run, result)
                else:
                    self._respond(with_reasons(message, self._replay))
            case decisions.Escalate(default=default):
                run = self._run_waiting_for(decision)
                review = run.escalate(action)
                if isinstance(default, UnsetType):
                    self.route(review, run.screen)
                else:
                    self.follow(review.id, self._queue.close(review.id, review.by_default(default)))
            case decisions.CheckEdit(permission):
                if isinstance(
                    permission, PermissionDecision
                ):  # only a permission has arguments to edit
                    self._check_edit(permission)
            case decisions.StartTool():
                self._run()
            case decisions.Respond(content, is_error, images):
                self._respond(content, is_error=is_error, images=images)
            case _ as other:
                assert_never(other)

    # Effects
    # ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Run the tool with all answers so far."""
        self._approval_id = None
        self.children.forget()
        self.ahead = ()
        self._move(Move.RUN)
        self._output.want(steps.RunTool(self.record.call, dict(self.answers), self.unanswered))

    def _deliver(self, id: str, response: decisions.Respond) -> None:
        self._approval_id = id
        attached = self._output.settings.attached
        requires_person = self.record.undecided(id) is not None and not attached
        self.route(
            DeliveryDecision(
                self._context,
                id,
                attached,
                requires_person,
                response.content,
                response.is_error,
                response.images,
            )
        )

    def _respond(
        self, content: str, *, is_error: bool = True, images: tuple[Image, ...] = ()
    ) -> None:
        """Record the call's response, and close all its open questions."""
        self._output.supersede_questions(
            self.record
        )  # first, because these requests cannot be closed after the response
        request = self.record.request
        self._output.write(
            ToolCallResponse(
                id=request.id, content=content, is_error=is_error, call=self.event, images=images
            )
        )
        self.abandon()

    def _withdraw_all(self) -> None:
        for run in tuple(self._runs):
            self._end_form(run)
            if run.decision is not None:
                self._queue.withdraw(run.decision.id)
        if self._approval_id is not None:
            self._queue.withdraw(self._approval_id)
        self._approval_id = None

    def _moves(self, move: Move) -> bool:
        """Change the stage and return True if the current stage allows the move. Otherwise the
        input came too late, and the caller drops it.
        """
        then = STAGES[self.stage].get(move)
        self.stage = then or self.stage
        return then is not None

    def _move(self, move: Move) -> None:
        self.stage = STAGES[self.stage][move]


class ChildTurns:
    """Turns that the tool of a call started with other agents, with the states that they reported
    to this process.
    """

    def __init__(self, output: StepOutput, record: CallRecord) -> None:
        self._output = output
        self._record = record
        self._state_of: dict[str, str] = {}

    @property
    def are_moving(self) -> bool:
        """Whether any of these turns can continue without an absent person."""
        return "moving" in self._state_of.values()

    @property
    def are_resting(self) -> bool:
        """Whether any of these turns waits for an absent person."""
        return "resting" in self._state_of.values()

    def forget(self) -> None:
        """Clear all states, because the tool runs again and requests the turns again."""
        self._state_of = {}

    def start(self, wanted: steps.ChildTurnRequested) -> None:
        """Start a turn with another agent, or continue the recorded one."""
        known = self._record.child_like(wanted.child)
        child = (
            known if known and known.event_id != wanted.lost else self._output.write(wanted.child)
        )
        self._state_of[child.event_id] = "moving"
        self._output.want(steps.RunChild(wanted.number, child))

    def set_state(self, child: str, state: str) -> None:
        """Store the state that a turn reported."""
        self._state_of[child] = state

    def leave(self) -> None:
        """Record which nested turns wait for people and which are over.

        Called when this turn is suspended.
        """
        for child, known in tuple(self._record.children.items()):
            state = "waiting" if self._state_of.get(child) == "resting" else "done"
            if state == "waiting" or known.state != state:
                event = self._record.request.event_id
                self._output.write(
                    Child(call=event, conversation=known.began.conversation, of=child, state=state)
                )
