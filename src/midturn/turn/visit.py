"""An open turn, visited to answer from outside: the machine says what is asked, and which events an answer leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from msgspec.structs import replace

from midturn.errors import AlreadyAnswered, AnswerError, DigestMismatch, MidturnError, NotOpen, Problem
from midturn.events.open_question import Address, asker_of, shown
from midturn.events.prompt import FormSubject, Prompt, reviewed_places
from midturn.events.types import AnsweredBy, Approval, Event, InquiryRequest, Source, call_requests, put_to_people
from midturn.question.form import Form
from midturn.question.json_value import Json, SecretValue
from midturn.question.people import Directory
from midturn.question.reply import Answered, Deferred, EndedTurn, Reply, Scope, Unavailable, WentBack
from midturn.routing.policy import DetachedPolicies, ToolPolicy
from midturn.routing.rules import Ruling
from midturn.turn.call import Call
from midturn.turn.decision import CHANGED, Spoken
from midturn.turn.ending import ended_by_user
from midturn.turn.forms import TELLS_REPLIES
from midturn.turn.record import CallRecord, Chain
from midturn.turn.standing import refusal
from midturn.turn.state import Ticket, TurnState
from midturn.turn.step import FormWanted, OnFailure, Record, TurnSettings
from midturn.turn.view import TurnView, went_on, why_closed
from midturn.turn.walk import Replay

_EVERYBODY_WAITS = DetachedPolicies(run="defer", deliver="defer", tool="defer")


class Visit:
    """One call of an open turn, brought up to what it waits for by replaying its record. Nothing runs, and whatever else there is waits.

    `prompt` is what a person is shown, `take` returns the batch that a reply appends. A visitor may go on: `prompt` then shows the next
    question of the form, Back included. What one reply leads to (a next request) is held back, because the next run's settings may answer
    it; it goes out in front of the visitor's next reply. Not so after a map of answers, where what is left out is to stay open, nor
    after Back at a review, which is on record only as the request that it leads to.

    Args:
        window: The events of the last turn.
        event_id: The request that is to be answered.
        ids: Gives the new events their ids.
        conversation: What prompts say of where they are from, and the first part of their ids.
        directory: The people that are configured where the answer is taken; None where that is not known.
        rules: Returns the ruling on other arguments of the call, if this process knows the rules. Without it, an edit is left to the
            process that runs the turn.

    Raises:
        NotOpen: No such request waits in this turn.
        AlreadyAnswered: Another answer came first.
    """

    def __init__(
        self,
        window: Sequence[Event],
        event_id: str,
        ids: Iterator[str],
        conversation: str = "",
        directory: Directory | None = None,
        rules: Callable[[Json], Ruling] | None = None,
    ) -> None:
        self._window = window
        self._ids = ids
        self._conversation = conversation
        self._event_id = event_id
        self._directory = directory
        self._rules = rules
        self._walk: tuple[int, FormWanted] | None = None
        request = next((asked for asked in put_to_people(window) if asked.event_id == event_id), None)
        self._state = self._loaded()
        if request is None or self._state.record.ended or not self._state.record.started:
            raise self._closed([event_id])
        if isinstance(request, InquiryRequest):
            self._call = self._at_question(request)
        else:
            self._call = self._at_approval(request)
        self._held = self._drained()

    @property
    def request(self) -> Event | None:
        """The request that is to be answered."""
        return next((asked for asked in put_to_people(self._window) if asked.event_id == self._event_id), None)

    @property
    def form(self) -> Form | None:
        """The form that the question belongs to, alone or not; None at a call's permission or delivery."""
        return self._walk[1].form if self._walk else None

    @property
    def answers(self) -> Mapping[str, Json]:
        """The answers of a form that is complete, without secrets."""
        return {key: value for key, value in self._call.forms.answers.items() if not isinstance(value, SecretValue)}

    @property
    def secrets(self) -> frozenset[str]:
        """The ids of the questions that a secret has answered, as far as the form has come."""
        ticket = self._ticket()
        walk = self._call.forms.walk(ticket.decision.id) if ticket else None
        known = walk.walker.collected if walk else self._call.forms.answers
        return frozenset(key for key, value in known.items() if isinstance(value, SecretValue))

    def prompt(self) -> Prompt | None:
        """Return what a person is shown; None when the visit is over."""
        ticket = self._ticket()
        prompt = ticket.decision.prompt() if ticket else None
        asker = asker_of(self._window)
        if prompt is None or asker is None:
            return prompt
        always = asker.always if prompt.kind == "run" else ()
        scopes: tuple[Scope, ...] = tuple(scope for scope in prompt.scopes if scope == "project")
        return replace(prompt, may_remember=bool(always), always=always, scopes=scopes)  # a call of another agent is a turn of its own

    def checked(self) -> tuple[Event, ...]:
        """Return the events that an edit leads to which was recorded unchecked, given `rules`; none if there is no such edit."""
        batch, self._held = self._held, ()
        return batch

    def take(self, reply: Reply, who: AnsweredBy, digest: str = "") -> tuple[Event, ...]:
        """Return the batch that a reply appends, durably, before the next question is shown.

        For a form of several questions, `Answered` may hold a map of answers by question id: every pair is recorded, and the form counts
        as reviewed. `digest` is that of the subject that was shown (see `OpenQuestion.digest`).

        Raises:
            AnswerError: The reply does not fit; nothing has happened.
            NotAllowed: It is not for this person to answer.
        """
        ticket = self._ticket()
        if ticket is None:
            raise self._closed([])
        reply = self._naming_what_is_kept(reply)
        self._check_scope(reply)
        keeps_all = isinstance(reply, WentBack)
        match reply:
            case EndedTurn() if misfit := self._call.docket.barred_from_ending(ticket, who):
                raise misfit.error
            case EndedTurn():
                self._state.end(ended_by_user({self._call.event}, who))
                self._call.abandon()
            case Unavailable():
                raise AnswerError([Problem("", "Nobody was there to answer.")])
            case Deferred():
                raise AnswerError([Problem("", "The question was left open, so there is nothing to record.")])
            case _ if (answers := self._call.forms.answers_to(ticket.decision.id, reply)) is not None:
                self._call.take_all(ticket.decision.id, answers, who)
                keeps_all = True
            case _:
                self._decide(ticket, reply, who, digest)
        self._call.advance()
        events = self._drained()
        asked = next((place for place, event in enumerate(events) if _asks(event)), len(events))
        now = len(events) if keeps_all else asked
        batch, self._held = (*self._held, *events[:now]), events[now:]
        return batch

    def _naming_what_is_kept(self, reply: Reply) -> Reply:
        """Have a yes that another agent is to keep name one of the things that it offers; it offers none of them with another.

        Raises:
            AnswerError: It names none of them, or none where there are several.
        """
        prompt = self.prompt()
        if prompt is None or not isinstance(reply, Answered) or not reply.remember:
            return reply
        if not prompt.always and isinstance(reply.remember, str):
            raise AnswerError([Problem("", "Nothing is offered here that could be kept by name.")])
        if not prompt.always:
            return reply
        if reply.value is not True:
            raise AnswerError([Problem("", "Only a yes can be kept: this agent offers nothing for a no.")])
        kept = prompt.always[0] if reply.remember is True and len(prompt.always) == 1 else reply.remember
        if kept not in prompt.always:
            raise AnswerError([Problem("", f"Say which of these is to be kept: {'; '.join(map(repr, prompt.always))}.")])
        return replace(reply, remember=kept)

    def _check_scope(self, reply: Reply) -> None:
        """Refuse a scope that is not offered.

        Raises:
            AnswerError: It is not.
        """
        prompt = self.prompt()
        if prompt is None or not isinstance(reply, Answered) or reply.scope is None or asker_of(self._window) is None:
            return
        if why := refusal(reply.scope, prompt.scopes, has_people=prompt.people is not None):
            raise AnswerError([Problem("", why)])

    def catch_up(self, window: Sequence[Event]) -> None:
        """Bring the same call up anew: another process has written to the turn since the visit began.

        Raises:
            AlreadyAnswered: What is shown was answered.
            NotOpen: The call waits for something else now.
            DigestMismatch: What is shown was edited: it is open, and the prompt shows what is asked now.
        """
        shown, waited = self.prompt(), self._call.waiting
        self._window = window
        self._state = self._loaded()
        call = self._state.record.calls.get(self._call.event)
        if call is None or call.response or self._state.record.ended:
            raise self._closed(waited)
        self._call = self._brought_up(call)
        self._held = self._drained()
        now = self.prompt()
        if shown is None or now is None:
            raise self._closed(waited)
        is_as_shown = (shown.kind, shown.question, shown.subject) == (now.kind, now.question, now.subject)
        if now.digest and shown.event == now.event and not (is_as_shown and shown.digest == now.digest):
            raise DigestMismatch([Problem("", CHANGED.format(now.digest))], digest=now.digest)
        if not is_as_shown:
            raise self._closed(waited)

    def _closed(self, waited: Sequence[str]) -> AlreadyAnswered | NotOpen:
        """Return the error for what does not wait any more; of what was held back, only the turn can tell."""
        turn = TurnView.last(self._window)
        asked = next((event_id for event_id in waited if event_id == self._event_id or turn.was_asked(event_id)), None)
        if asked is None:
            return went_on(self._window, Address(self._conversation, self._event_id))
        return why_closed(self._window, Address(self._conversation, asked))

    def _decide(self, ticket: Ticket, reply: Spoken, who: AnsweredBy, digest: str) -> None:
        misfit = self._call.decided(ticket, reply, who, digest)
        if misfit is not None:
            raise misfit.error
        if (still := self._state.desk.find(ticket.id)) is not None and still.decision is ticket.decision:
            self._state.take_down(ticket.id)  # a vote: the next person has a visit of their own

    def _ticket(self) -> Ticket | None:
        waiting = self._call.waiting
        return self._state.desk.find(waiting[0]) if waiting else None

    def _drained(self) -> tuple[Event, ...]:
        return tuple(effect.event for effect in self._state.drain() if isinstance(effect, Record))

    # Bringing a call up ---------------------------------------------------------------------------------------------

    def _loaded(self) -> TurnState:
        """Return the state of the turn, under settings where nothing is decided but by the visitor."""
        names = {call.name for call in call_requests(self._window)}
        policies = {name: ToolPolicy(source=Source.tool(name), detached=_EVERYBODY_WAITS) for name in names}
        settings = TurnSettings(
            tools=policies,
            conversation=self._conversation,
            attached=False,
            answerers=self._directory,
            knows_rules=False,
            rules_of_edits=self._rules,
        )
        state = TurnState(settings, self._ids)
        for event in self._window:
            state.record.apply(event)
        return state

    def _at_question(self, request: InquiryRequest) -> Call:
        """Walk the form of a question up to it.

        A question that a tool asks alone after it has asked the same in a form looks like one of that form; whether it is, the walk knows.
        """
        record, chain = self._open_chain(request)
        for first, form in _forms(record, chain):
            self._walk = first, FormWanted(form, request.source, _on_failure(request))
            call = self._brought_up(self._state.record.calls[record.request.event_id])
            if request.event_id in call.waiting:
                return call
            self._state = self._loaded()  # a walk that has come elsewhere leaves its marks
        raise self._closed([request.event_id])

    def _open_chain(self, request: InquiryRequest) -> tuple[CallRecord, Chain]:
        """Return the call and the chain that a request belongs to, if it still waits."""
        call, chain = self._state.record.place_of(request.id)
        if self._state.record.inquiries[request.id].response or call is None or chain is None or call.response is not None:
            raise self._closed([request.event_id])
        return call, chain

    def _at_approval(self, request: Approval) -> Call:
        call = self._state.record.calls.get(request.call)
        if call is None or call.response is not None or any(a.id == request.id and a.state != "waiting" for a in call.approvals):
            raise self._closed([request.event_id])
        if request.kind == "review":
            self._walk = self._reviewed(call, request)
        return self._brought_up(call)

    def _reviewed(self, call: CallRecord, request: Approval) -> tuple[int, FormWanted]:
        """Return the form that a review is about, with the place at which its walk began."""
        first = next((chain for chain in reversed(call.chains) if chain.asked.form and request.form in (None, chain.asked.id)), None)
        if first is None or first.asked.form is None:
            raise self._closed([request.event_id])
        form = Form.from_record(list(first.asked.form.questions), review=first.asked.form.review)
        return first.place, FormWanted(form, first.asked.source, _on_failure(first.asked))

    def _brought_up(self, record: CallRecord) -> Call:
        """Return the call at what it waits for: its approval, or the place that its form has come to."""
        first, asking = self._walk or (0, None)
        call = Call(self._state, record, self._state.settings.tools[record.request.name], Replay(record, first))
        if asking is None:
            call.begin()
        else:
            call.returned(asking)
            call.advance()
        return call


def reviewed_answers(turn: Sequence[Event], call: CallRecord, review: Approval) -> str:
    """List the answers of a form that would be sent, below each other, as a visitor of the turn sees them; secrets are not among them.

    Where no visit is possible, because another program or another version asked, they are listed as they were recorded.
    """
    try:
        prompt = Visit(turn, review.event_id, map(str, count())).prompt()
    except MidturnError:
        prompt = None
    subject = prompt.subject if prompt and isinstance(prompt.subject, FormSubject) else _recorded(call)
    questions = [subject.questions[place] for place in reviewed_places(subject)]
    return "\n".join(f"- {question.text}: {shown(subject.answers[question.id])}" for question in questions)


def review_digest(turn: Sequence[Event], review: Approval) -> str:
    """Return the digest of the answers under review; empty if another program or another version asked."""
    try:
        prompt = Visit(turn, review.event_id, map(str, count())).prompt()
    except MidturnError:
        return ""
    return prompt.digest if prompt else ""


def _recorded(call: CallRecord) -> FormSubject:
    """Return the questions of a call, and the answers that it has had."""
    asked = [link for chain in call.chains for link in chain.links]
    answers = {link.request.question_id: link.response.answer for link in asked if link.response and link.response.outcome == "answered"}
    questions = {link.request.question_id: link.request.question.asked(link.request.question_id) for link in asked}
    return FormSubject(tuple(questions.values()), answers)


def _forms(call: CallRecord, chain: Chain) -> Iterator[tuple[int, Form]]:
    """Yield the forms that a question may belong to, at last the question alone, each with the place at which its walk began."""
    question_id = chain.asked.question_id or "answer"  # another program may not have said
    for first in range(chain.place, -1, -1):
        asked = call.chains[first].asked.form
        if asked and any(question.get("id") == question_id for question in asked.questions):
            yield first, Form.from_record(list(asked.questions), review=asked.review)  # of several at once, an earlier one
    yield chain.place, Form((chain.asked.question.asked(question_id),))


def _on_failure(request: InquiryRequest) -> OnFailure:
    """Say what becomes of a reply: its coroutine asked to hear of it."""
    return "report_all" if (request.metadata or {}).get("reply") == TELLS_REPLIES["reply"] else "fail_call"


def _asks(event: Event) -> bool:
    return isinstance(event, InquiryRequest) or (isinstance(event, Approval) and event.state == "waiting")
