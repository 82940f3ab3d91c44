"""The queue of open decisions. It routes and shows decisions, processes replies and votes, and
closes decisions.

Theory of operation
===================

A decision is an immutable value (`turn/decision.py`). From the time it is routed until it is
closed, the queue contains an `OpenDecision` with its state:

    line     an attached person will be asked when another prompt may be opened
    screen   the person is being asked (`PromptUser`)
    back     the prompt has returned, and its reply is being processed
    inbox    a person decides later: nobody is attached, or other people must decide
    model    a model is asked in a side request

Decisions are shown in the order in which they were added. Forms are not interleaved: once the first
question of a form is shown, no other decision is shown on the same screen until the form is done or
waits in the inbox, not even while a model answers one of its questions.

The queue has no access to calls and forms. Each method that closes a decision returns the next
action of the call. A reply to a closed decision is dropped.

The rows D1 to D24 of the state table (`turn/state_table.py`) describe this module.
"""

from __future__ import annotations

from itertools import count
from typing import Final, Literal, TypeAlias, assert_never

from msgspec import UNSET, Struct
from msgspec.structs import replace

from midturn.errors import NotAllowed
from midturn.events.types import AnsweredBy, Approval, InquiryAnswered, Note, Proposal, Vote
from midturn.question.answer_type import SecretType
from midturn.question.people import People
from midturn.question.reply import Answered, Deferred, EndedTurn, Reply, Unavailable
from midturn.routing.rules import Ruling
from midturn.turn import decision as decisions, inputs as steps
from midturn.turn.ending import TurnEnding, TurnLeft, ended_by_user
from midturn.turn.memory import answer_key
from midturn.turn.permission import PermissionDecision
from midturn.turn.question import QuestionDecision
from midturn.turn.step_output import StepOutput
from midturn.turn.votes import Poll, under_key

AGENT: Final = "agent"
"""Value of `AnsweredBy.by` if a program answered on its own behalf."""
MAX_INVALID_REPLIES: Final = 3
"""Number of invalid replies to one decision after which the prompter counts as failed. Without a
limit, a faulty prompter would be called forever.
"""

Place: TypeAlias = Literal["line", "screen", "back", "inbox", "model"]
_WITH_A_PERSON = ("screen", "back")


class FormScreen:
    """Whether a form of several questions occupies one of the `prompts_at_once` screens.

    `is_kept` is changed only by the queue.
    """

    __slots__ = ("is_kept",)

    def __init__(self) -> None:
        self.is_kept = False


class OpenDecision:
    """An entry of the queue: a decision and its state."""

    __slots__ = ("call", "decision", "digest", "invalid_replies", "place", "routed_at", "screen")

    def __init__(
        self, decision: decisions.Decision, screen: FormScreen | None, place: Place, routed_at: int
    ) -> None:
        self.decision = decision
        self.call = decision.context.call.request.event_id
        """The `event_id` of the call that the decision belongs to."""
        self.screen = screen
        """The screen of its form, or None if its form has one question."""
        self.place: Place = place
        self.routed_at = routed_at
        """`StepOutput.written` at the time when the decision was routed."""
        self.invalid_replies = 0
        self.digest = ""
        """Digest of the subject that the prompt shows."""

    @property
    def id(self) -> str:
        """The id of the decision."""
        return self.decision.id


class CallAction(Struct, frozen=True):
    """The next action of a call after one of its decisions was closed."""

    call: str
    decision: str
    action: decisions.NextAction


class DecisionQueue:
    """Open decisions, in the order in which they were added. At most `settings.prompts_at_once`
    prompts are open.
    """

    def __init__(self, output: StepOutput) -> None:
        self._output = output
        self._open: dict[str, OpenDecision] = {}
        self._screens_kept = 0

    # Lookups
    # ----------------------------------------------------------------------------------------------

    def find(self, id: str) -> OpenDecision | None:
        """Return the open decision with this id, or None."""
        return self._open.get(id)

    def waiting_for(self, event_id: str) -> OpenDecision | None:
        """Return the open decision that belongs to an event: a request, or a `waiting` approval."""
        return self.find(event_id) or next(
            (each for each in self._open.values() if each.decision.event == event_id), None
        )

    @property
    def has_inbox(self) -> bool:
        """Whether any decision waits in the inbox."""
        return any(each.place == "inbox" for each in self._open.values())

    def is_in_inbox(self, id: str) -> bool:
        """Whether this decision waits in the inbox."""
        found = self._open.get(id)
        return found is not None and found.place == "inbox"

    def approval_id(self, tool_call_id: str, kind: str) -> str:
        """Return the first unused id for an approval.

        Several calls can have the same `tool_call_id`, and an open approval may not be recorded
        yet.
        """
        output, stem = self._output, f"{tool_call_id}.__{kind}__"
        ids = (f"{stem}.{number}" for number in count(1))
        return next(
            free
            for free in ids
            if not (free in output.previewing or output.record.is_taken(free) or self.find(free))
        )

    # Routing and displaying decisions
    # ----------------------------------------------------------------------------------------------

    def route(
        self, decision: decisions.Decision, screen: FormScreen | None = None
    ) -> decisions.NextAction | None:
        """Route a decision. Return the next action if routing closes the decision, or None if the
        decision stays open.
        """
        route, tool = decision.route(), decision.context.tool
        if route.warning is not None:
            about = (
                answer_key(tool, decision.request.question_id)
                if isinstance(decision, QuestionDecision)
                else tool
            )
            self._output.warn(about, route.warning)
        match route:
            case decisions.AskPerson(whom, record):
                if record is not None:
                    self._output.write(record)
                if whom == "inbox" and screen is not None:
                    self.release(screen)
                self._put(decision, screen, "line" if whom == "person" else "inbox")
            case decisions.AskModel(request):
                self._put(decision, screen, "model")
                self._output.want(steps.ConsultAssistant(request, tool))
            case decisions.Resolution():
                return self.close(decision.id, route)
            case _ as other:
                assert_never(other)
        return None

    def next_in_line(self) -> OpenDecision | None:
        """Return the decision to show next. None if no other prompt may be opened."""
        if not self._open:
            return None
        shown, first = self._screens_kept, None
        for each in self._open.values():
            is_kept = each.screen is not None and each.screen.is_kept
            if each.place == "line" and is_kept:
                return each
            if each.place in _WITH_A_PERSON and not is_kept:
                shown += 1
            elif first is None and each.place == "line":
                first = each
        return first if shown < self._output.settings.prompts_at_once else None

    def show(self, each: OpenDecision, error: str | None = None) -> None:
        """Show a decision to the attached person. `error` is the reason why the last reply was
        invalid.
        """
        each.place = "screen"
        if each.screen is not None and not each.screen.is_kept:
            each.screen.is_kept = True
            self._screens_kept += 1
        prompt = each.decision.prompt()
        each.digest = prompt.digest
        self._output.want(
            steps.PromptUser(each.id, replace(prompt, error=error) if error else prompt)
        )

    def release(self, screen: FormScreen) -> None:
        """Release the screen that a form occupies."""
        if screen.is_kept:
            screen.is_kept = False
            self._screens_kept -= 1

    # Replies
    # ----------------------------------------------------------------------------------------------

    def receive(self, happened: steps.AboutDecision) -> CallAction | TurnEnding | TurnLeft | None:
        """Process a reply to a decision from a person, a prompter or a model.

        Returns:
            The next action of the call if a decision was closed, a `TurnEnding` or `TurnLeft` if a
            person ends the turn, otherwise None.
        """
        match happened:
            case steps.UserReplied():
                return self._user_replied(happened)
            case steps.AnsweredElsewhere():
                return self._answered_elsewhere(happened)
            case steps.AssistantReplied() | steps.AssistantFailed():
                return self._assistant_returned(happened)
            case steps.PromptFailed(id, error):
                returned = self._prompt_returned(id)
                return None if returned is None else self._fail(returned, error)
            case steps.Noted(event_id, note):
                waiting = self.waiting_for(event_id)
                return None if waiting is None else self._note(waiting, note)
            case _ as other:
                assert_never(other)

    def _user_replied(
        self, happened: steps.UserReplied
    ) -> CallAction | TurnEnding | TurnLeft | None:
        """Process a reply from a prompt. After an invalid reply, the prompt is shown again. If the
        person may not decide, the decision is routed again as if nobody were attached.
        """
        each = self._prompt_returned(happened.id)
        if each is None:
            return None
        result = self._reply(each, happened.reply, happened.who, happened.digest or each.digest)
        if not isinstance(result, decisions.InvalidReply):
            return result
        if result.is_barred and isinstance(happened.reply, EndedTurn):
            return TurnLeft(result.why)
        if result.is_barred:
            self._output.warn(each.decision.context.tool, result.why)
            return self._action(each, self.route(each.decision.unattended(), each.screen))
        each.invalid_replies += 1
        if each.invalid_replies < MAX_INVALID_REPLIES:
            self.show(each, result.why)
            return None
        return self._fail(each, result.why)

    def _answered_elsewhere(
        self, happened: steps.AnsweredElsewhere
    ) -> CallAction | TurnEnding | None:
        """Process an answer that did not come from the prompt. An invalid answer is ignored,
        because the interface that received it reports the error.
        """
        each = self.waiting_for(happened.event_id)
        if each is None:
            return self._ended_elsewhere(happened)
        result = self._reply(each, happened.reply, happened.who, happened.digest, happened.key)
        return None if isinstance(result, decisions.InvalidReply) else result

    def _ended_elsewhere(self, happened: steps.AnsweredElsewhere) -> TurnEnding | None:
        """Return the ending if the reply ends the whole turn. Such a reply refers to the first
        event of the turn.
        """
        record = self._output.record
        if not isinstance(happened.reply, EndedTurn) or happened.event_id != record.start_id:
            return None
        return (
            None
            if self._output.barred_from_ending(happened.who)
            else ended_by_user(record.asking_calls, happened.who)
        )

    def _reply(
        self, each: OpenDecision, reply: Reply, who: AnsweredBy, digest: str, key: str = ""
    ) -> CallAction | TurnEnding | decisions.InvalidReply | None:
        """Process a reply to an open decision. See `take` for the arguments."""
        match reply:
            case EndedTurn():
                return self.barred_from_ending(each, who) or ended_by_user({each.call}, who)
            case Unavailable():
                return self._action(each, self.route(each.decision.unattended(), each.screen))
            case Deferred():
                return self._action(each, self.route(each.decision.left_open(), each.screen))
            case _:
                taken = self.take(each, reply, who, digest, key)
                return (
                    taken
                    if isinstance(taken, decisions.InvalidReply)
                    else self._action(each, taken)
                )

    def take(
        self,
        each: OpenDecision,
        reply: decisions.DecisionReply,
        who: AnsweredBy,
        digest: str = "",
        key: str = "",
    ) -> decisions.NextAction | decisions.InvalidReply | None:
        """Process a reply: close the decision, or record a vote or an edit. An invalid reply has no
        effect.

        Args:
            each: The open decision.
            reply: The reply.
            who: The person or program that replied.
            digest: Digest of the subject that `who` saw (see `OpenQuestion.digest`).
            key: Key of a queued vote. It is recorded with the vote.
        """
        decision = each.decision
        if who.by == AGENT and (why := not_for_agents(decision, reply)):
            return decisions.InvalidReply.barring(why)
        taken = decision.take(reply, who)
        if not isinstance(taken, decisions.InvalidReply) and (
            invalid := decisions.unconfirmed(decision, reply, digest)
        ):
            return invalid
        match taken:
            case decisions.InvalidReply():
                return taken
            case decisions.ProposalRecorded():
                self.withdraw(each.id)
                return self._propose(decision, taken, key)
            case decisions.VoteRecorded(vote):
                self.withdraw(each.id)
                self._write_vote(vote, key)
                return self.route(decision, each.screen)
            case decisions.Resolution():
                return self.close(each.id, taken, key)
            case _ as other:
                assert_never(other)

    def barred_from_ending(
        self, each: OpenDecision, who: AnsweredBy
    ) -> decisions.InvalidReply | None:
        """Return the reason why a person may not end the turn, or None. A person may end the turn
        only if that person may decide all open questions of the turn.
        """
        poll = each.decision.poll
        why = poll.barred(who) if poll is not None else ""
        why = why or self._output.barred_from_ending(who)
        return decisions.InvalidReply.barring(why) if why else None

    def _assistant_returned(
        self, happened: steps.AssistantReplied | steps.AssistantFailed
    ) -> CallAction | None:
        """Close a question that a model was asked, unless it is already closed. Models never decide
        approvals.
        """
        each = self.find(happened.id)
        if each is None or each.place != "model":
            return None
        each.place = "back"
        if not isinstance(each.decision, QuestionDecision):
            return None
        if isinstance(happened, steps.AssistantReplied):
            resolution = each.decision.model_said(happened)
        else:
            resolution = each.decision.model_failed(happened)
        return self._action(each, self.close(each.id, resolution))

    def _note(self, each: OpenDecision, note: Note) -> CallAction | None:
        """Record a note and route the decision again, because its people or its subject may have
        changed.

        A note that is not allowed is dropped. The store already reported the error to the author,
        unless the author bypassed the store's check.
        """
        decision = each.decision
        poll = decision.poll or Poll(decision.request_id, People())
        try:
            accepted = poll.accepted(note)
        except NotAllowed:
            return None
        self._output.write(accepted)
        if each.place == "model":
            return None
        self.withdraw(each.id)
        return self._action(each, self.route(decision, each.screen))

    def _fail(self, each: OpenDecision, error: str) -> CallAction | None:
        """Close a decision whose prompter failed."""
        return self._action(each, self.close(each.id, each.decision.fail(error)))

    def _prompt_returned(self, id: str) -> OpenDecision | None:
        """Return the decision whose prompt returned, and mark it as no longer on screen."""
        each = self.find(id)
        if each is not None:
            each.place = "back"
        return each

    def _action(self, each: OpenDecision, action: decisions.NextAction | None) -> CallAction | None:
        return None if action is None else CallAction(each.call, each.id, action)

    # Edits
    # ----------------------------------------------------------------------------------------------

    def judge(
        self, permission: PermissionDecision, edit: Proposal, ruling: Ruling
    ) -> decisions.NextAction | None:
        """Record an edit. `ruling` is the result of the rules for the new arguments."""
        who, poll = edit.answered_by or AnsweredBy("user"), permission.poll
        barred = poll.barred(who) if poll is not None else ""
        taken = (
            decisions.InvalidReply.barring(barred)
            if barred
            else permission.judge(edit.arguments, who, ruling)
        )
        match taken:
            case decisions.InvalidReply():
                self._output.write(permission.refuse_edit(edit, taken.why))
                self._output.warn(permission.context.tool, f"an edit was refused: {taken.why}")
                return self.route(permission)
            case decisions.ProposalRecorded():
                return self._propose(permission, taken, "")
            case decisions.VoteRecorded(vote):
                self._write_vote(vote, "")
                return self.route(permission)
            case decisions.Resolution():
                return self.close(permission.id, taken)
            case _ as other:
                assert_never(other)

    def _propose(
        self, decision: decisions.Decision, proposed: decisions.ProposalRecorded, key: str
    ) -> decisions.NextAction | None:
        """Record an edit that is not decided yet. Next, other people are asked, or the rules are
        evaluated for the edited call.
        """
        proposal = proposed.proposal
        self._output.write(under_key(proposal, key) if key else proposal)
        if proposed.vote is not None:
            self._write_vote(proposed.vote, key)
        if proposal.state == "unchecked":
            return decisions.CheckEdit(decision)
        people = proposal.people.ask if proposal.people else ()
        self._output.warn(
            decision.context.tool,
            f"the edited call needs approval from {', '.join(people) or 'other people'}",
        )
        return self.route(decision)

    # Closing
    # ----------------------------------------------------------------------------------------------

    def close(
        self, id: str, resolution: decisions.Resolution, key: str = ""
    ) -> decisions.NextAction:
        """Remove a decision and write its events. `key` is the key of a queued vote."""
        # Write the last vote first: the response lists its votes, and they can be counted only
        # while the decision is open.
        votes = () if resolution.vote is None else self._votes(id, resolution.vote, key)
        self.withdraw(id)
        for record in resolution.records:
            is_by_vote = votes and isinstance(record, InquiryAnswered | Approval)
            self._output.write(replace(record, votes=votes) if is_by_vote else record)
        return resolution.action

    def withdraw(self, id: str) -> None:
        """Remove a decision. Also close its prompt, or stop its request to a model."""
        each = self._open.pop(id, None)
        if each is None:
            return
        if each.place == "screen":
            self._output.want(steps.ClosePrompt(id))
        elif each.place == "model":
            self._output.want(steps.StopAssistant(id))

    def _put(self, decision: decisions.Decision, screen: FormScreen | None, place: Place) -> None:
        self._open[decision.id] = OpenDecision(decision, screen, place, self._output.written)

    def _votes(self, id: str, last: Vote, key: str) -> tuple[str, ...]:
        """Write the last vote that is needed, and return the ids of all votes on the decision."""
        each = self.find(id)
        poll = each.decision.poll if each is not None else None
        before = poll.votes if poll is not None and last.answer and last.arguments is UNSET else ()
        return (*(vote.event_id for vote in before), self._write_vote(last, key).event_id)

    def _write_vote(self, vote: Vote, key: str) -> Vote:
        """Write a vote.

        A queued vote is written with its key, so that its sender can find it in the log.
        """
        return self._output.write(under_key(vote, key) if key else vote)


def not_for_agents(decision: decisions.Decision, reply: decisions.DecisionReply) -> str:
    """Return the reason why a program may not make this decision, or an empty string if it may.

    Programs may answer only ordinary questions.
    """
    if not isinstance(decision, QuestionDecision):
        return "A person has to decide this: programs may not answer approvals."
    if decision.poll is not None:
        return "Only people may decide this, not a program."
    is_secret = isinstance(decision.question.answer_type, SecretType)
    if (
        decision.policy.exclusive
        or decision.question.exclusive
        or decision.is_asked_again
        or is_secret
    ):
        return "A person has to answer this: the question is exclusive."
    if isinstance(reply, Answered) and (reply.remember or reply.scope):
        return "Answers from programs are not remembered."
    return ""
