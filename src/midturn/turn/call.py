"""One tool call: permission, questions, result, delivery. Its stages are the table in `turn/state.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from midturn.errors import NotAllowed
from midturn.events.outcome import Success, ToolError
from midturn.events.types import AnsweredBy, Approval, Child, Image, InquiryAnswered, Note, Proposal, ToolCallResponse, Vote
from midturn.question.answer_type import SecretType
from midturn.question.people import People, earliest
from midturn.question.question import Question
from midturn.question.reply import Answered, Submitted
from midturn.routing import messages
from midturn.routing.policy import ToolPolicy
from midturn.routing.rules import Ruling
from midturn.turn import decision as decisions, step as steps
from midturn.turn.approval import Delivery, ReviewStep, control_problem
from midturn.turn.edits import read_edits
from midturn.turn.forms import Answers, CallForms
from midturn.turn.inquiry import Inquiry
from midturn.turn.memory import answer_key
from midturn.turn.people import Poll, under_key
from midturn.turn.permission import Foretelling, Permission, foretold_by
from midturn.turn.record import CallRecord
from midturn.turn.state import STAGES, DeskPlace, Move, Stage, Ticket, TurnState
from midturn.turn.walk import Replay, for_model, with_reasons

UNATTENDED, SWITCHED_OFF = Ruling("unattended"), Ruling("skip")
"""What is said of every call of a tool, and recorded of none."""


class Call:
    """A call in the running process. What is durable about it stands in its record; the rest is found again by replaying.

    It waits for its permission or its delivery, or each of its forms waits for one decision. What its `docket` says of a decision that
    has closed, the call does (`follow`); nothing calls back.
    """

    def __init__(self, state: TurnState, record: CallRecord, policy: ToolPolicy, replay: Replay | None = None) -> None:
        self.record = record
        self.stage = Stage.PERMIT
        self.children = Children(state, record)
        self._state = state
        self._view = decisions.View(state.settings, state.record, record, policy)
        self._replay = replay or Replay(record)
        self.forms = CallForms(state, self._view, self._replay)
        self.docket = Docket(state, record, self.forms)
        self.ahead: tuple[str, ...] = ()
        """The calls that its tool waits for before it begins."""
        self.outer = ""
        """The call in whose function it is made, if there is one: of a loop that is not ours."""
        self._approval: str | None = None
        self._checking: Permission | None = None
        """The permission whose last edit is being checked."""

    @property
    def event(self) -> str:
        """The identity of the call."""
        return self.record.request.event_id

    @property
    def waiting(self) -> list[str]:
        """The ids of the decisions that the call waits for: its approval, or one for each of its forms."""
        return [self._approval] if self._approval else self.forms.waiting

    @property
    def is_moving(self) -> bool:
        """Whether something happens without a person who comes by later: the tool works, a model or an attached person is asked."""
        waiting = self.waiting
        if self.children.are_moving:
            return True
        if not waiting:
            return not self.children.are_resting
        return not all(map(self._state.desk.is_in_inbox, waiting))

    @property
    def is_resting_inside(self) -> bool:
        """Whether its tool has begun, and waits for a person who comes by later."""
        return self.stage is Stage.RUN and not self.is_moving

    # Its stages -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the call, or start it again in a resumed turn: what was decided about it is not asked again."""
        name, policy = self.record.request.name, self._view.policy
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
            self._deliver(waiting.id, decisions.Respond(waiting.content or "", bool(waiting.is_error), waiting.images))
        elif self.record.is_past_deadline:
            self._respond(messages.not_allowed_in_time(name))
        elif edited is not None:
            self._permit(ruling)
        elif ruling == UNATTENDED or (ruling.run != "skip" and Permission.was_given(self.record)):
            self._run()
        else:
            self._permit(ruling)

    def _edited_while_it_waited(self) -> Permission | None:
        """Return the permission that waits, if its call was edited: the edit is never forgotten for the call as the model made it."""
        waiting = self.record.waiting("run")
        if waiting is None or not self._state.record.notes.get(waiting.id):  # as usual
            return None
        permission = self._permission(waiting.id, None, Ruling("ask"))
        return permission if permission.edits.any else None

    def _permit(self, ruling: Ruling) -> None:
        """Have it decided whether the call may run."""
        waiting = self.record.waiting("run")
        self._approval = waiting.id if waiting else self._state.approval_id(self.record.request.id, "run")
        if waiting is not None and read_edits(self._state.record.notes.get(waiting.id, ())).unchecked is not None:
            self._check_edit(self._permission(waiting.id, None, ruling))
            return
        may_be_asked = ruling.run not in ("unattended", "skip")
        if may_be_asked and waiting is None and self.record.request.name in self._state.settings.foretelling:
            self._state.foretelling.add(self._approval)
            self._state.want(steps.Foretell(self.record.call))
        else:
            self._ask_to_run(self._approval, foretold_by(waiting), ruling)

    def foretold(self, question: Question[bool] | None, said: Ruling | None = None) -> None:
        """Ask whether the call may run, in the words of what its tool would ask first; `said` is what the tool's own rule says."""
        if (checking := self._checking) is not None:
            self._checking = None
            edit = checking.edits.unchecked
            if edit is not None and self.stage is Stage.PERMIT:
                self._judge(checking, edit, said or self._view.policy.ruling(edit.arguments))
            return
        if self.stage is Stage.PERMIT and self._approval is not None and self._state.desk.find(self._approval) is None:
            first = Foretelling(question.id, question.persisted()) if question is not None else None
            self._ask_to_run(self._approval, first, said or self._view.policy.ruling(self.record.arguments))

    def _ask_to_run(self, id: str, first: Foretelling | None, ruling: Ruling) -> None:
        """Ask whether the call may run, in the words of what its tool would ask first where that is known."""
        self.route(self._permission(id, first, ruling))

    def _permission(self, id: str, first: Foretelling | None, ruling: Ruling) -> Permission:
        attached = self._state.settings.attached
        is_a_persons = self.record.undecided(id) is not None and not attached
        until = earliest(self._state.now, [self._view.policy.deadline])
        return Permission(self._view, id, attached, is_a_persons, first, ruling, until)

    def _check_edit(self, permission: Permission) -> None:
        """Read the rules for the last edit. A process that does not know them leaves that to the process that runs the turn."""
        edit = permission.edits.unchecked
        ruling = None if edit is None else self._view.ruling_on_edit(edit.arguments)
        if edit is not None and ruling is not None:
            self._judge(permission, edit, ruling)
        elif edit is not None and self._state.settings.knows_rules:
            self._checking = permission
            self._state.want(steps.Foretell(replace(self.record.call, arguments=edit.arguments)))
        else:
            self.route(permission)

    def _judge(self, permission: Permission, edit: Proposal, ruling: Ruling) -> None:
        """Do what the last edit leads to, given what the rules say about it."""
        self.follow(permission.id, self.docket.judge(permission, edit, ruling))

    def returned(self, asking: steps.FormWanted) -> None:
        """Take what the tool returned to have it answered; its run is over."""
        if self._moves(Move.RETURN):
            self.forms.add(None, asking)

    def awaits(self, ask: int, asking: steps.FormWanted) -> None:
        """Take what a coroutine of the running tool waits for."""
        if self._moves(Move.ASK):
            self.forms.add(ask, asking)

    def dropped(self, ask: int) -> None:
        """Forget an ask that its coroutine gave up."""
        for waiting in self.forms.drop(ask):
            self._state.take_down(waiting)
            for request in [chain.last.request for chain in self.record.open_chains if chain.last.request.event_id == waiting]:
                self._state.supersede(request)

    def expire(self, now: str) -> None:
        """Close what no one has answered in time; its tool hears of that, or the call ends."""
        for waiting in self.waiting:
            walk, ticket = self.forms.walk(waiting), self._state.desk.find(waiting)
            decision = ticket.decision if ticket else None
            deadline = decision.deadline if isinstance(decision, Permission) else walk.deadline if walk else ""
            if deadline and deadline <= now and isinstance(decision, Inquiry | ReviewStep | Permission):
                self.follow(waiting, self.docket.close(waiting, decision.expire()))
                self.advance()

    def content_of(self, outcome: Success | ToolError) -> str:
        """Return what the model would read if the tool ended so now."""
        return for_model(self.record, outcome, self._replay)[0]

    def finished(self, outcome: Success | ToolError) -> None:
        """Take the tool's result, and see whether it may be delivered."""
        if not self._moves(Move.FINISH):
            return
        content, is_error = for_model(self.record, outcome, self._replay)
        images = () if isinstance(outcome, ToolError) else outcome.images
        if isinstance(outcome, Success) and outcome.warning is not None:
            self._state.warn(self.record.request.name, outcome.warning)
        match self._view.policy.result:
            case "unattended":
                self._respond(content, is_error=is_error, images=images)
            case "skip":
                self._respond(messages.withheld(self.record.request.name))
            case "ask" | "edit":
                self._state.supersede_questions(self.record)
                self._take_all_down()
                self._deliver(self._state.approval_id(self.record.request.id, "deliver"), decisions.Respond(content, is_error, images))
            case _ as other:
                assert_never(other)

    def abandon(self) -> None:
        """Stop everything that moves: the turn is over and its last events are written, or this call is not run any more."""
        if self.stage is Stage.DONE:
            return
        was_running = self.stage is Stage.RUN
        self._move(Move.END)
        self._take_all_down()
        if was_running:
            self._state.want(steps.StopTool(self.event))

    def advance(self) -> None:
        """Walk on until an answer is needed, the tool runs, or the call is done: a loop over what is there already."""
        while (found := self.forms.next()) is not None:  # a call that is done has no forms any more
            match found:
                case Answers():
                    self._give(found)
                case decisions.Respond(content, is_error, images):
                    self._respond(content, is_error=is_error, images=images)
                case decision:
                    self.route(decision)

    # Its decisions --------------------------------------------------------------------------------------------------

    def route(self, decision: decisions.Decision) -> None:
        """Send a decision on its route; where that closes it at once, do what follows."""
        self.follow(decision.id, self.docket.route(decision))

    def decided(self, ticket: Ticket, reply: decisions.Spoken, who: AnsweredBy, digest: str = "", key: str = "") -> decisions.Misfit | None:
        """Do what a reply decides; return why it does not fit, if it does not: then nothing has happened.

        Args:
            ticket: The open decision.
            reply: The reply.
            who: The person or program that replied.
            digest: Digest of the subject that `who` saw (see `OpenQuestion.digest`).
            key: Key of a queued vote; it is recorded with the vote.
        """
        taken = self.docket.take(ticket, reply, who, digest, key)
        if isinstance(taken, decisions.Misfit):
            return taken
        self.follow(ticket.id, taken)
        return None

    def take_all(self, id: str, answers: Mapping[str, Answered], who: AnsweredBy) -> None:
        """Answer one question after the other of the form that waits for a decision.

        What `answers` leaves out stays open; a whole map counts as reviewed.
        """
        walk = self.forms.waiting_for(id)
        while ticket := self._state.desk.find(walk.waits_for or ""):
            decision = ticket.decision
            reply = answers.get(decision.request.question_id) if isinstance(decision, Inquiry) else Submitted()
            digest = decision.digest if isinstance(reply, Submitted) else ""  # the map is what its sender saw
            taken = self.docket.take(ticket, reply, who, digest) if reply else None
            if taken is None or isinstance(taken, decisions.Misfit):
                return
            self.follow(ticket.id, taken)
            self.advance()

    def follow(self, id: str, then: decisions.Then | None) -> None:
        """Do what a decision has led to; nothing, where it still waits."""
        match then:
            case None:
                pass
            case decisions.Leave(replied) if told := self.forms.report_reply(id, replied.text):
                self._give(told)
            case decisions.Give() | decisions.GoBack() | decisions.Leave() | decisions.Send():
                self.forms.follow(id, then)
            case decisions.CheckEdit() | decisions.Run() | decisions.Respond():
                self._decided(then)
            case decisions.Refuse() if told := self.forms.report(id, then):
                self._give(told)
            case decisions.Refuse(message=message):
                self._respond(with_reasons(message, self._replay))
            case decisions.Escalate():
                link = self.forms.escalate(id, then)
                if isinstance(then.default, UnsetType):
                    self.route(link)
                else:
                    self.follow(link.id, self.docket.close(link.id, link.by_default(then.default)))
            case _ as other:
                assert_never(other)

    def _decided(self, then: decisions.CheckEdit | decisions.Run | decisions.Respond) -> None:
        """Do what an approval has led to."""
        match then:
            case decisions.CheckEdit(permission):
                if isinstance(permission, Permission):  # nothing else has arguments to edit
                    self._check_edit(permission)
            case decisions.Run():
                self._run()
            case decisions.Respond(content, is_error, images):
                self._respond(content, is_error=is_error, images=images)
            case _ as other:
                assert_never(other)

    # What it does ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Have the tool run with everything that was answered so far."""
        self._approval = None
        self.children.forget()
        self.ahead = ()
        self._move(Move.RUN)
        self._state.want(steps.RunTool(self.record.call, dict(self.forms.answers), self.forms.unanswered))

    def _give(self, answers: Answers) -> None:
        """Let the tool have what was answered: the coroutine that waits, or the next run."""
        if answers.ask is None:
            self._run()
        else:
            self._state.want(steps.GiveAnswers(self.record.request.event_id, answers.ask, answers.given, answers.at_once))

    def _deliver(self, id: str, response: decisions.Respond) -> None:
        self._approval = id
        attached = self._state.settings.attached
        is_a_persons = self.record.undecided(id) is not None and not attached
        self.route(Delivery(self._view, id, attached, is_a_persons, response.content, response.is_error, response.images))

    def _respond(self, content: str, *, is_error: bool = True, images: tuple[Image, ...] = ()) -> None:
        """Give the call its one response; whatever of it is still open closes with it."""
        self._state.supersede_questions(self.record)  # first: a response without them would leave requests that no event ever closes
        request = self.record.request
        self._state.write(ToolCallResponse(id=request.id, content=content, is_error=is_error, call=self.event, images=images))
        self.abandon()

    def _take_all_down(self) -> None:
        for waiting in [*self.forms.clear(), *([self._approval] if self._approval else [])]:
            self._state.take_down(waiting)
        self._approval = None

    def _moves(self, move: Move) -> bool:
        """Move, and say so, where what happened still matters in this stage; what comes too late is dropped."""
        then = STAGES[self.stage].get(move)
        self.stage = then or self.stage
        return then is not None

    def _move(self, move: Move) -> None:
        self.stage = STAGES[self.stage][move]


AGENT: Final = "agent"
"""Tag of `answered_by.by`: a program has answered for itself."""


def not_for_agents(decision: decisions.Decision, reply: decisions.Spoken) -> str:
    """Say why a program may not decide this for itself; empty where it may: an ordinary question, which nothing keeps for people."""
    if not isinstance(decision, Inquiry):
        return "A person has to decide this: programs answer no approvals."
    if decision.poll is not None:
        return "People decide this, and no program."
    is_secret = isinstance(decision.question.answer_type, SecretType)
    if decision.policy.exclusive or decision.question.exclusive or decision.is_asked_again or is_secret:
        return "A person has to answer this: the question is exclusive."
    if isinstance(reply, Answered) and (reply.remember or reply.scope):
        return "The answer of a program is not remembered."
    return ""


class Docket:
    """The decisions of a call that lie on the desk: each is routed, taken down once, and written as what became of it.

    It does not know what a call is for. Every method returns what a decision that has closed leads to, for the call to follow;
    None while it waits.
    """

    def __init__(self, state: TurnState, record: CallRecord, forms: CallForms) -> None:
        self._state = state
        self._record = record
        self._forms = forms

    def route(self, decision: decisions.Decision) -> decisions.Then | None:
        """Send a decision on its route, or close it at once."""
        going, name = decision.going(), self._record.request.name
        if going.warning is not None:
            about = answer_key(name, decision.request.question_id) if isinstance(decision, Inquiry) else name
            self._state.warn(about, going.warning)
        match going:
            case decisions.AwaitPerson(whom, record):
                if record is not None:
                    self._state.write(record)
                self._put(decision, "line" if whom == "person" else "inbox")
            case decisions.Consult(request):
                self._put(decision, "model")
                self._state.want(steps.ConsultAssistant(request, name))
            case decisions.Closing():
                return self.close(decision.id, going)
            case _ as other:
                assert_never(other)
        return None

    def take(
        self, ticket: Ticket, reply: decisions.Spoken, who: AnsweredBy, digest: str = "", key: str = ""
    ) -> decisions.Then | decisions.Misfit | None:
        """Close a decision with a reply. If the reply does not fit, nothing has happened. See `Call.decided` for the arguments."""
        if who.by == AGENT and (why := not_for_agents(ticket.decision, reply)):
            return decisions.Misfit.barring(why)
        taken = ticket.decision.take(reply, who)
        if not isinstance(taken, decisions.Misfit) and (misfit := decisions.unconfirmed(ticket.decision, reply, digest)):
            return misfit
        match taken:
            case decisions.Misfit():
                return taken
            case decisions.Proposed():
                self._state.take_down(ticket.id)
                return self._propose(ticket.decision, taken, key)
            case decisions.Counted(vote):
                return self._count(ticket, vote, key)
            case decisions.Closing():
                return self.close(ticket.id, taken, key)
            case _ as other:
                assert_never(other)

    def judge(self, permission: Permission, edit: Proposal, ruling: Ruling) -> decisions.Then | None:
        """Write what a recorded edit leads to, given what the rules say about the new arguments."""
        who, poll = edit.answered_by or AnsweredBy("user"), permission.poll
        barred = poll.barred(who) if poll is not None else ""
        taken = decisions.Misfit.barring(barred) if barred else permission.judge(edit.arguments, who, ruling)
        match taken:
            case decisions.Misfit():
                self._state.write(permission.refuse_edit(edit, taken.why))
                self._state.warn(self._record.request.name, f"an edit was refused: {taken.why}")
                return self.route(permission)
            case decisions.Proposed():
                return self._propose(permission, taken, "")
            case decisions.Counted(vote):
                self._write_vote(vote, "")
                return self.route(permission)
            case decisions.Closing():
                return self.close(permission.id, taken)
            case _ as other:
                assert_never(other)

    def _propose(self, decision: decisions.Decision, proposed: decisions.Proposed, key: str) -> decisions.Then | None:
        """Write an edit that decides nothing yet; other people are asked, or its rules are read."""
        proposal = proposed.proposal
        self._state.write(under_key(proposal, key) if key else proposal)
        if proposed.vote is not None:
            self._write_vote(proposed.vote, key)
        if proposal.state == "unchecked":
            return decisions.CheckEdit(decision)
        whom = f" to {', '.join(proposal.people.ask)}" if proposal.people and proposal.people.ask else ""
        self._state.warn(self._record.request.name, f"the edited call is put{whom}: other people decide about these arguments")
        return self.route(decision)

    def hear(self, ticket: Ticket, happened: steps.AssistantReplied | steps.AssistantFailed) -> decisions.Then | None:
        """Close the question that a model was asked: models decide nothing else."""
        inquiry = ticket.decision
        if not isinstance(inquiry, Inquiry):
            return None
        said = inquiry.model_said(happened) if isinstance(happened, steps.AssistantReplied) else inquiry.model_failed(happened)
        return self.close(ticket.id, said)

    def note(self, ticket: Ticket, note: Note) -> decisions.Then | None:
        """Write a note on a request that waits, and ask anew: whose it is, or what is shown of it, may be another matter now.

        One that may not be made is dropped: its giver has been told, or has gone past the check of the store.
        """
        poll = ticket.decision.poll or Poll(ticket.decision.request_id, People())
        try:
            accepted = poll.accepted(note)
        except NotAllowed:
            return None
        self._state.write(accepted)
        if ticket.place == "model":
            return None
        self._state.take_down(ticket.id)
        return self.route(ticket.decision)

    def close(self, id: str, closing: decisions.Closing, key: str = "") -> decisions.Then:
        """Take a decision off the desk, and write what became of it. `key` is that of a queued vote."""
        # The last vote is written first: the response names the votes that made it, and what is counted is still on the desk then.
        votes = () if closing.vote is None else self._voted(id, closing.vote, key)
        self._state.take_down(id)
        for record in closing.records:
            by_vote = votes and isinstance(record, InquiryAnswered | Approval)
            self._state.write(replace(record, votes=votes) if by_vote else record)
        return closing.then

    def barred_from_ending(self, ticket: Ticket, who: AnsweredBy) -> decisions.Misfit | None:
        """Say why someone may not end the turn in place of a decision; None where they may decide everything that waits in it."""
        poll = ticket.decision.poll
        why = poll.barred(who) if poll is not None else ""
        why = why or self._state.barred_from_ending(who)
        return decisions.Misfit.barring(why) if why else None

    def _put(self, decision: decisions.Decision, place: DeskPlace) -> None:
        walk = self._forms.walk(decision.id)
        screen = walk.screen if walk else None
        if place == "inbox" and screen is not None:
            self._state.desk.leave(screen)
        self._state.desk.put(Ticket(decision, self._record.request.event_id, screen, place, self._state.written))

    def _count(self, ticket: Ticket, vote: Vote, key: str) -> decisions.Then | None:
        """Write a vote that does not decide yet; the decision waits for the next person."""
        self._state.take_down(ticket.id)
        self._write_vote(vote, key)
        return self.route(ticket.decision)

    def _voted(self, id: str, last: Vote, key: str) -> tuple[str, ...]:
        """Write the vote that decides, and return all that make the decision."""
        ticket = self._state.desk.find(id)
        poll = ticket.decision.poll if ticket is not None else None
        before = poll.votes if poll is not None and last.answer and last.arguments is UNSET else ()
        return (*(vote.event_id for vote in before), self._write_vote(last, key).event_id)

    def _write_vote(self, vote: Vote, key: str) -> Vote:
        """Write a vote, with the key of a queued one, so that its sender finds it on record."""
        return self._state.write(under_key(vote, key) if key else vote)


class Children:
    """Turns of other agents inside the tool of a call, as far as this process has heard of them."""

    def __init__(self, state: TurnState, record: CallRecord) -> None:
        self._state = state
        self._record = record
        self._heard: dict[str, str] = {}

    @property
    def are_moving(self) -> bool:
        """Whether one of them goes on without an absent person."""
        return "moving" in self._heard.values()

    @property
    def are_resting(self) -> bool:
        """Whether one of them waits for an absent person."""
        return "resting" in self._heard.values()

    def forget(self) -> None:
        """Begin anew: the tool runs again, and asks for them again."""
        self._heard = {}

    def run(self, wanted: steps.ChildWanted) -> None:
        """Have another agent run a turn: the one that was recorded before, else a new one."""
        known = self._record.child_like(wanted.child)
        child = known if known and known.event_id != wanted.lost else self._state.write(wanted.child)
        self._heard[child.event_id] = "moving"
        self._state.want(steps.RunChild(wanted.number, child))

    def hear(self, child: str, now: str) -> None:
        """Take note of what one of them does."""
        self._heard[child] = now

    def leave(self) -> None:
        """Record which of them wait for people, as this turn does from now on, and which are over."""
        for child, known in tuple(self._record.children.items()):
            state = "waiting" if self._heard.get(child) == "resting" else "done"
            if state == "waiting" or known.state != state:
                event = self._record.request.event_id
                self._state.write(Child(call=event, conversation=known.began.conversation, of=child, state=state))
